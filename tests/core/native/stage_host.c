/* How ranks stand still on a stage, and how a scenario moves them. */
#define _GNU_SOURCE
#include "stage.h"

#include <time.h>

/* Real seconds after which something that must happen never will. */
enum { NEVER_S = 20 };

static void lock(struct stage *stage) { EXPECT_EQUAL(pthread_mutex_lock(&stage->mutex), 0); }
static void unlock(struct stage *stage) { EXPECT_EQUAL(pthread_mutex_unlock(&stage->mutex), 0); }
static void tell_all(struct stage *stage) { EXPECT_EQUAL(pthread_cond_broadcast(&stage->changed), 0); }

/* Under the mutex: waits until the condition, which other threads make true, holds. */
#define AWAIT(stage, condition)                                                                            \
    do {                                                                                                   \
        struct timespec never;                                                                             \
        clock_gettime(CLOCK_REALTIME, &never);                                                             \
        never.tv_sec += NEVER_S;                                                                           \
        while (!(condition)) /* in all scenarios this comes, and without time passing */                   \
            EXPECT(pthread_cond_timedwait(&(stage)->changed, &(stage)->mutex, &never) == 0 && #condition); \
    } while (0)

/* ---- the host functions of a rank ---- */

static uint64_t fake_now_ns(void *context)
{
    struct actor *actor = context;
    lock(actor->stage);
    uint64_t now = actor->clock_ns;
    unlock(actor->stage);
    return now;
}

static void fake_yield(void *context) { (void)context; }

/* Where a thread stands still it may die.  Under the mutex. */
static void stand_still(struct actor *actor)
{
    if (actor->dies) {
        unlock(actor->stage);
        pthread_exit(NULL);
    }
    EXPECT_EQUAL(pthread_cond_wait(&actor->stage->changed, &actor->stage->mutex), 0);
}

static bool fake_sleep(void *context, _Atomic uint32_t *word, uint32_t expected, uint64_t nanoseconds)
{
    struct actor *actor = context;
    EXPECT_EQUAL(nanoseconds, SLEEP_MS * UINT64_C(1000000));
    lock(actor->stage);
    bool sleeps = load_relaxed(word) == expected;
    actor->woken = actor->ticked = false;
    if (sleeps) {
        actor->asleep_on = word;
        actor->quiescing = actor->communicator.quiescing;
        tell_all(actor->stage);
        while (actor->held || !(actor->woken || actor->ticked))
            stand_still(actor);
    }
    bool by_time = sleeps && !actor->woken;
    unlock(actor->stage);
    return by_time;
}

static void fake_wake(void *context, _Atomic uint32_t *word)
{
    struct stage *stage = ((struct actor *)context)->stage;
    lock(stage);
    for (uint32_t rank = 0; rank < stage->size; rank++)
        if (stage->actors[rank].asleep_on == word) {
            stage->actors[rank].asleep_on = NULL;
            stage->actors[rank].woken = true;
        }
    tell_all(stage);
    unlock(stage);
}

static bool fake_attend(void *context, uint64_t waited_ns)
{
    struct actor *actor = context;
    lock(actor->stage);
    EXPECT(waited_ns <= actor->clock_ns);
    bool goes_on = !actor->interrupted;
    unlock(actor->stage);
    return goes_on;
}

static void fake_committed(void *context)
{
    struct actor *actor = context;
    lock(actor->stage);
    actor->stopped = actor->stops;
    tell_all(actor->stage);
    while (actor->stops)
        stand_still(actor);
    unlock(actor->stage);
}

struct wait_host stage_host(struct actor *actor)
{
    return (struct wait_host){.context = actor, .now_ns = fake_now_ns, .yield = fake_yield, .sleep = fake_sleep,
                              .wake = fake_wake, .attend = fake_attend, .committed = fake_committed};
}

void stage_note_return(struct actor *actor, enum call_end end)
{
    lock(actor->stage);
    actor->end = end;
    actor->returned = true;
    tell_all(actor->stage);
    unlock(actor->stage);
}

/* ---- what the scenario waits for ---- */

void stage_await_asleep(struct stage *stage, uint32_t rank, _Atomic uint32_t *word)
{
    lock(stage);
    AWAIT(stage, stage->actors[rank].asleep_on == word);
    unlock(stage);
}

void stage_await_returned(struct stage *stage, uint32_t rank)
{
    lock(stage);
    AWAIT(stage, stage->actors[rank].returned);
    unlock(stage);
}

void stage_await_quiescing(struct stage *stage, uint32_t rank)
{
    lock(stage);
    AWAIT(stage, stage->actors[rank].asleep_on && stage->actors[rank].quiescing);
    unlock(stage);
}

void stage_await_stopped(struct stage *stage, uint32_t rank)
{
    lock(stage);
    AWAIT(stage, stage->actors[rank].stopped);
    unlock(stage);
}

bool stage_has_returned(struct stage *stage, uint32_t rank)
{
    lock(stage);
    bool returned = stage->actors[rank].returned;
    unlock(stage);
    return returned;
}

/* ---- what the scenario does ---- */

/* Under the mutex. */
static void end_sleep_by_time(struct stage *stage, struct actor *actor)
{
    actor->asleep_on = NULL;
    actor->ticked = true;
    actor->clock_ns += SLEEP_MS * UINT64_C(1000000);
    tell_all(stage);
}

void stage_tick(struct stage *stage, uint32_t rank)
{
    struct actor *actor = &stage->actors[rank];
    lock(stage);
    AWAIT(stage, actor->asleep_on != NULL);
    end_sleep_by_time(stage, actor);
    unlock(stage);
}

void stage_tick_if_asleep(struct stage *stage, uint32_t rank)
{
    lock(stage);
    if (stage->actors[rank].asleep_on)
        end_sleep_by_time(stage, &stage->actors[rank]);
    unlock(stage);
}

void stage_time_out(struct stage *stage, uint32_t rank)
{
    for (int time = 0; time < TIMEOUT_MS; time += SLEEP_MS)
        stage_tick(stage, rank);
}

void stage_interrupt(struct stage *stage, uint32_t rank)
{
    lock(stage);
    AWAIT(stage, stage->actors[rank].asleep_on != NULL);
    stage->actors[rank].interrupted = true;
    end_sleep_by_time(stage, &stage->actors[rank]);
    unlock(stage);
}

void stage_hold(struct stage *stage, uint32_t rank)
{
    lock(stage);
    AWAIT(stage, stage->actors[rank].asleep_on != NULL);
    stage->actors[rank].held = true;
    unlock(stage);
}

void stage_let_go(struct stage *stage, uint32_t rank)
{
    lock(stage);
    stage->actors[rank].held = stage->actors[rank].stops = stage->actors[rank].stopped = false;
    tell_all(stage);
    unlock(stage);
}

void stage_stop_when_committed(struct stage *stage, uint32_t rank)
{
    lock(stage);
    stage->actors[rank].stops = true;
    unlock(stage);
}

void stage_kill(struct stage *stage, uint32_t rank)
{
    struct actor *actor = &stage->actors[rank];
    lock(stage);
    AWAIT(stage, actor->asleep_on || actor->stopped);
    actor->dies = true;
    actor->asleep_on = NULL;
    tell_all(stage);
    unlock(stage);
    EXPECT_EQUAL(pthread_join(actor->thread, NULL), 0);
}
