/* A board on which a scenario decides when time passes: ranks are threads, and each stands still wherever its host
 * functions are called.  Nothing here takes real time, and nothing depends on who is faster.
 *
 * The fake futex is as strict as the real one: a sleeper goes on when its word is woken, when the scenario lets its
 * sleep end by time (stage_tick), and never because the word changed.  Waiters do not spin, so every wait that has to
 * wait ends up asleep, where the scenario finds it (stage_await_asleep).
 *
 * Rank r of the communicator is rank size-1-r of the job: causes and waits must name ranks of the job. */
#ifndef TEST_STAGE_H
#define TEST_STAGE_H

#include <pthread.h>

#include "expect.h"
#include "order.h"
#include "plan_file.h"

enum { STAGE_RANKS = 3, STAGE_COUNT = 100, SLEEP_MS = 50, TIMEOUT_MS = 100 }; /* two ticks are a timeout */

struct actor {
    struct stage *stage;
    uint32_t rank;
    struct arena arena;
    struct communicator communicator;
    int32_t *in, *out, *at_return; /* at_return: IN and OUT when the latest call returned */
    pthread_t thread;
    struct call call;
    enum call_end end;

    /* Under the stage's mutex. */
    _Atomic uint32_t *asleep_on; /* NULL: awake */
    uint64_t clock_ns;
    bool quiescing;    /* it sleeps until its peers are out of the data phase */
    bool woken, ticked;
    bool held;         /* does not wake up yet, whatever happens */
    bool stops;        /* at the point where everybody has committed and nothing has moved */
    bool stopped;      /* there */
    bool dies;         /* where it stands still: its thread ends */
    bool interrupted;  /* attend says no */
    bool returned;     /* the latest call has */
};

struct stage {
    uint32_t size;
    struct segment segment;
    struct board *board;
    const struct plan_file *plans;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct actor actors[STAGE_RANKS];
};

enum what { PAYLOAD, MESH_ALL_REDUCE, RING_ALL_REDUCE };

void stage_open(struct stage *stage, const struct plan_file *plans, uint32_t size);
/* Checks that no sleep was late and that no byte has changed since the calls returned. */
void stage_close(struct stage *stage);

/* Begins an all-reduce of int32 on a thread of its own: two elements in the line, or STAGE_COUNT by a plan. */
void stage_call(struct stage *stage, uint32_t rank, enum what what);
void stage_call_all(struct stage *stage, enum what what);
/* The call has returned. */
void stage_expect_done(struct stage *stage, uint32_t rank);
void stage_expect_all_done(struct stage *stage);
void stage_expect_aborted(struct stage *stage, uint32_t rank, uint32_t cause);
/* Every rank that lives: its next call fails with `cause`, whatever it is; the one after that leaves the board alone. */
void stage_expect_ended_for_good(struct stage *stage, uint32_t cause);

void stage_await_asleep(struct stage *stage, uint32_t rank, _Atomic uint32_t *word);
void stage_await_quiescing(struct stage *stage, uint32_t rank);
void stage_await_stopped(struct stage *stage, uint32_t rank);
bool stage_has_returned(struct stage *stage, uint32_t rank);

/* The rank's sleep ends by time; waits until it sleeps. */
void stage_tick(struct stage *stage, uint32_t rank);
/* The same if it sleeps now. */
void stage_tick_if_asleep(struct stage *stage, uint32_t rank);
void stage_time_out(struct stage *stage, uint32_t rank);
/* attend says no from now on; its sleep ends by time. */
void stage_interrupt(struct stage *stage, uint32_t rank);
void stage_hold(struct stage *stage, uint32_t rank);
void stage_let_go(struct stage *stage, uint32_t rank);
void stage_stop_when_committed(struct stage *stage, uint32_t rank);
/* It vanishes where it stands still, as a killed process does. */
void stage_kill(struct stage *stage, uint32_t rank);
/* What the server of the job does. */
void stage_state(struct stage *stage, uint32_t rank, enum rank_state state);
void stage_raise_death(struct stage *stage, uint32_t rank);

uint32_t stage_cause(const struct stage *stage, enum abort_kind kind, uint32_t culprit, uint32_t raiser);
uint32_t stage_cause_by_server(const struct stage *stage, enum abort_kind kind, uint32_t culprit);

/* The words that ranks wait for. */
_Atomic uint32_t *stage_line(struct stage *stage, uint32_t round, uint32_t rank);
_Atomic uint32_t *stage_left(struct stage *stage, uint32_t rank);
_Atomic uint32_t *stage_token(struct stage *stage, uint32_t from, uint32_t to);

/* All ranks are about to begin this round and have this many phases and tokens behind them. */
void stage_set_numbers(struct stage *stage, uint32_t round, uint32_t phase, uint32_t tokens);

/* Between the files of the stage. */
struct wait_host stage_host(struct actor *actor);
void stage_note_return(struct actor *actor, enum call_end end);
void stage_await_returned(struct stage *stage, uint32_t rank);

#endif
