/* Whose turn it is: calls of one communicator that were queued on any of its rank's streams run in the order in which
 * they were issued, and after a disagreement those that were queued before the program was told are not run. */
#ifndef ASCEND_RT_QUEUE_H
#define ASCEND_RT_QUEUE_H

#include <pthread.h>

#include "communicator.h"

struct call_queue {
    struct communicator *communicator;
    uint32_t tickets;                /* given so far.  Owner: who issues, under the GIL */
    struct notify served;            /* writer: whose turn it was; readers: who waits for a turn */
    pthread_mutex_t lock;            /* of the three below: written by workers and by who tells the program */
    struct failure *disagreement;    /* a queued call disagreed, and calls up to number `until` fail with it */
    struct failure *cause;           /* of this rank's refusal, if that was it: the program is told of this instead */
    uint32_t until;                  /* UINT32_MAX until the program is told */
    _Atomic bool disagreed;          /* whether there is one: for the hot path */
};

void call_queue_open(struct call_queue *queue, struct communicator *communicator);
void call_queue_close(struct call_queue *queue);
/* Under the GIL. */
uint32_t call_queue_take_ticket(struct call_queue *queue);
/* Under the GIL: whether a call may run at once, without a ticket. */
bool call_queue_is_idle(const struct call_queue *queue);
/* Waits for the turn of a ticket; false if the host's attend ended it (then the ticket must still be waited for). */
bool call_queue_wait(struct call_queue *queue, uint32_t ticket, const struct wait_host *host, struct patience *patience);
void call_queue_pass(struct call_queue *queue, uint32_t ticket, const struct wait_host *host);

/* In turn: the failure with which call `number` fails unrun (a reference for the caller), or NULL: it runs. */
struct failure *call_queue_skips(struct call_queue *queue, uint32_t number);
/* In turn: a resync is call `number`; what had to be skipped before it has been, told to the program or not. */
void call_queue_resync(struct call_queue *queue, uint32_t number);
/* In turn: a queued call has disagreed.  `cause`: what failed on this rank before, so that it refused; or NULL. */
void call_queue_disagree(struct call_queue *queue, struct failure *failure, struct failure *cause);
/* The program is told of `failure`, having issued calls up to the latest of its communicator. */
void call_queue_told(struct call_queue *queue, const struct failure *failure);

#endif
