/* Posting and waiting: the one place where a rank stands still.
 *
 * Waiting is a short spin, then yields, then sleeps on a futex of bounded length.  A waiter looks first at what it
 * waits for; only if that has not come, at the communicator's abort word and at the state of the rank it waits
 * for; and then once more at what it waits for, because the word may have been posted in between, and a rank that
 * did everything right must not fail for the sake of a peer that left afterwards.
 *
 * The clock, the yield, the sleep and the wake are handed in, so that tests run the slow path without time passing.
 */
#ifndef ASCEND_RT_WAIT_H
#define ASCEND_RT_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"

struct wait_host {
    void *context;
    uint64_t (*now_ns)(void *context);
    void (*yield)(void *context);
    /* Sleeps while *word is `expected`, at most `nanoseconds`; true if it ended by time. */
    bool (*sleep)(void *context, _Atomic uint32_t *word, uint32_t expected, uint64_t nanoseconds);
    void (*wake)(void *context, _Atomic uint32_t *word);
    /* The wait is going to be long; told again and again.  May be NULL. */
    void (*blocks)(void *context);
    /* Between two sleeps, with the time waited so far; false leaves the wait (an interrupt).  May be NULL. */
    bool (*attend)(void *context, uint64_t waited_ns);
    /* Everybody has committed, no byte has been moved: where a test stops a rank.  May be NULL. */
    void (*committed)(void *context);
    /* The line of the program that made the call which has just failed.  May be NULL. */
    void (*where)(void *context, char *text, size_t nbytes);
};

extern const struct wait_host linux_host; /* futex, sched_yield, CLOCK_MONOTONIC */

/* What a sleep from one time to the other, of at most `longest_ns`, counts in a wait: one that took far longer was stopped
 * itself (Ctrl-Z), and whoever it waits for probably with it. */
uint64_t sleep_counts_ns(uint64_t from_ns, uint64_t to_ns, uint64_t longest_ns);

struct patience {
    uint32_t spins, yields;
    uint32_t brief_yields; /* so many yields do not count as blocking yet: where ranks share cores, most waits are over */
    uint64_t sleep_ns;     /* longest sleep */
    uint64_t sleeps;      /* statistics */
    uint64_t late_sleeps; /* ended by time although the word had changed and nobody was going to wake: must be 0 */
};

enum wait_end { WAIT_ARRIVED, WAIT_ABORTED, WAIT_PEER_GONE, WAIT_TIMEOUT, WAIT_INTERRUPTED,
                WAIT_UNREACHED /* of steps that are no waits: the peer's memory could not be reached */ };
/* What else may end a wait: WAIT_ARRIVED to go on.  Called before each sleep. */
typedef enum wait_end wait_look(void *context, uint64_t since_ns, uint64_t waited_ns);

void notify_post(const struct wait_host *host, struct notify *notify, uint32_t number);
/* Posts the next number, whatever it is: for notifies that have several writers. */
void notify_ring(const struct wait_host *host, struct notify *notify);
bool notify_reached(const struct notify *notify, uint32_t number);
uint32_t notify_number(const struct notify *notify);
/* Waits until `notify` has reached `number`. */
enum wait_end notify_wait(const struct wait_host *host, struct patience *patience, struct notify *notify, uint32_t number,
                          wait_look *look, void *context);

/* ---- waiting for a rank ---- */

struct waiter {
    struct wait_host host;
    struct patience patience;
    uint64_t timeout_ns; /* longest wait; 0: for ever */
    _Atomic uint32_t *abort;
    struct rank_line *ranks;   /* of the job */
    const uint32_t *members;   /* ranks of the job by rank of the communicator */
    const struct left *lefts;  /* of the board; NULL: nobody destroys the communicator */
    struct rank_line *own;     /* where a report finds what this rank waits for */
    uint32_t call, collective; /* said in that report */
};

/* What ends a wait early, besides the end of the peer and an interrupt, which always do. */
enum heed { HEED_NOTHING = 0, HEED_ABORT = 1, HEED_TIME = 2, HEED_ALL = 3 };

/* Whether rank `peer` of the communicator posts nothing any more: it has ended, or destroyed the communicator. */
bool waiter_peer_is_gone(const struct waiter *waiter, uint32_t peer);
/* Waits until `notify`, which rank `peer` of the communicator writes, has reached `number`. */
enum wait_end waiter_wait(struct waiter *waiter, struct notify *notify, uint32_t number, uint32_t peer, enum heed heed);

#endif
