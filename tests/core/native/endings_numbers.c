/* Numbers that wrap or are too far ahead, calls that are never made, and the waiting itself. */
#include "endings.h"

/* ---- wrapping ---- */

static void calls_across(struct stage *stage, uint32_t start)
{
    stage_set_numbers(stage, start, start, start);
    for (uint32_t i = 0; i < 8; i++) {
        stage_call_all(stage, i % 4 == 3 ? PAYLOAD : i % 2 ? MESH_ALL_REDUCE : RING_ALL_REDUCE);
        stage_expect_all_done(stage);
    }
    for (uint32_t rank = 0; rank < stage->size; rank++) {
        EXPECT_EQUAL(stage->actors[rank].communicator.round, (uint32_t)(start + 8));
        EXPECT_EQUAL(stage->actors[rank].communicator.phase, (uint32_t)(start + 6));
    }
    EXPECT_EQUAL(load_acquire(&stage->board->abort), 0);
}

/* A notify holds 30 bits of its number. */
static void numbers_wrap_in_a_notify(struct stage *stage) { calls_across(stage, (UINT32_C(1) << 30) - 3); }
static void numbers_change_sign(struct stage *stage) { calls_across(stage, (UINT32_C(1) << 29) - 3); }
static void numbers_wrap_in_32_bits(struct stage *stage) { calls_across(stage, UINT32_MAX - 2); }

/* The decision is one of the next phase, though that has the smaller number. */
static void timeout_at_the_wrap(struct stage *stage)
{
    uint32_t cause = stage_cause(stage, ABORT_TIMEOUT, 1, 0);
    stage_set_numbers(stage, UINT32_MAX, UINT32_MAX, 7);
    stage_call(stage, 0, MESH_ALL_REDUCE);
    stage_await_asleep(stage, 0, stage_line(stage, UINT32_MAX, 1));
    stage_time_out(stage, 0);
    stage_expect_aborted(stage, 0, cause);
    EXPECT_EQUAL(load_acquire(&stage->board->decision), cause);
    stage_expect_ended_for_good(stage, cause);
}

/* ---- shared memory that no rank of this library writes ---- */

static void line_ahead_of_its_round(struct stage *stage)
{
    uint32_t cause = stage_cause(stage, ABORT_OVERRUN, 1, 0);
    atomic_store(stage_line(stage, 1, 1), 3 << NOTIFY_SHIFT); /* the next number of this slot */
    stage_call(stage, 0, PAYLOAD);
    stage_expect_aborted(stage, 0, cause);
    stage_state(stage, 1, RANK_DEAD);
    stage_expect_ended_for_good(stage, cause);
}

static void buffer_outside_of_the_segment(struct stage *stage)
{
    uint32_t cause = stage_cause(stage, ABORT_OVERRUN, 0, 0);
    stage_call(stage, 0, MESH_ALL_REDUCE);
    stage_await_asleep(stage, 0, stage_line(stage, 1, 1));
    struct line *line = board_line(stage->board, 2, 1, 1);
    line->said = board_line(stage->board, 2, 1, 0)->said;
    line->place.out = UINT64_C(1) << 60;
    notify_post(&stage->actors[1].communicator.waiter.host, &line->round, 1);
    stage_await_quiescing(stage, 0);
    stage_state(stage, 1, RANK_DEAD);
    stage_tick(stage, 0);
    stage_expect_aborted(stage, 0, cause);
    stage_expect_ended_for_good(stage, cause);
}

/* ---- calls that end before anything is said to anybody ---- */

static void calls_that_are_not_made(struct stage *stage)
{
    struct actor *actor = &stage->actors[0];
    int32_t elsewhere[STAGE_COUNT];
    const struct call good = {.collective = ALL_REDUCE, .dtype = DTYPE_INT32, .op = REDUCE_SUM, .in = actor->in,
                              .out = actor->out, .count = STAGE_COUNT};
    struct call calls[8];
    for (int i = 0; i < 8; i++)
        calls[i] = good;
    calls[0].dtype = DTYPE_FP32;
    calls[1].collective = ALL_GATHER;
    calls[2].in = elsewhere;
    calls[3].out = elsewhere;
    calls[4].count = 2 * ARENA_ALIGNMENT; /* more than was allocated */
    calls[5].count = UINT64_C(1) << 62;   /* 2^64 bytes */
    calls[6].count = (UINT64_C(1) << 62) + STAGE_COUNT;
    calls[7].count = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        enum call_end end = i < 2 ? CALL_NO_CHOICE : i < 5 ? CALL_NO_STAGING : CALL_TOO_LARGE;
        EXPECT_EQUAL(communicator_call(&actor->communicator, &calls[i]), end);
    }
    EXPECT_EQUAL(actor->communicator.call, 0);
    EXPECT_EQUAL(load_relaxed(stage_line(stage, 1, 0)), 0);
}

/* ---- late sleeps: the counter that every other test expects to be 0 ---- */

static void *wait_for_a_token(void *argument)
{
    struct actor *actor = argument;
    struct notify *token = &board_pair(actor->stage->board, 2, 0, 1)->posted;
    EXPECT_EQUAL(waiter_wait(&actor->communicator.waiter, token, 1, 0, HEED_ALL), WAIT_ARRIVED);
    return NULL;
}

static struct waiter *start_waiting(struct stage *stage)
{
    struct actor *actor = &stage->actors[1];
    EXPECT_EQUAL(pthread_create(&actor->thread, NULL, wait_for_a_token, actor), 0);
    stage_await_asleep(stage, 1, stage_token(stage, 0, 1));
    return &actor->communicator.waiter;
}

static void post_without_a_wake_is_counted(struct stage *stage)
{
    struct waiter *waiter = start_waiting(stage);
    atomic_store(stage_token(stage, 0, 1), 1 << NOTIFY_SHIFT);
    stage_tick(stage, 1);
    EXPECT_EQUAL(pthread_join(stage->actors[1].thread, NULL), 0);
    EXPECT_EQUAL(waiter->patience.sleeps, 1);
    EXPECT_EQUAL(waiter->patience.late_sleeps, 1);
    waiter->patience.late_sleeps = 0;
}

/* The sleep has ended by time, but before the rank looks again, the word is posted and a wake is on its way. */
static void post_just_after_the_time_is_not_counted(struct stage *stage)
{
    struct waiter *waiter = start_waiting(stage);
    stage_hold(stage, 1);
    stage_tick(stage, 1);
    notify_post(&stage->actors[0].communicator.waiter.host, &board_pair(stage->board, 2, 0, 1)->posted, 1);
    stage_let_go(stage, 1);
    EXPECT_EQUAL(pthread_join(stage->actors[1].thread, NULL), 0);
    EXPECT_EQUAL(waiter->patience.sleeps, 1);
    EXPECT_EQUAL(waiter->patience.late_sleeps, 0);
}

/* attend posts the word, and says no. */
static bool attend_too_late(void *context, uint64_t waited_ns)
{
    struct actor *actor = context;
    EXPECT(waited_ns > 0);
    atomic_store(stage_token(actor->stage, 0, 1), 1 << NOTIFY_SHIFT);
    return false;
}

static void what_has_come_is_no_interrupt(struct stage *stage)
{
    stage->actors[1].communicator.waiter.host.attend = attend_too_late;
    start_waiting(stage);
    stage_tick(stage, 1);
    EXPECT_EQUAL(pthread_join(stage->actors[1].thread, NULL), 0);
}

const struct scenario number_scenarios[] = {
    {"numbers: 30 bits wrap", 3, numbers_wrap_in_a_notify},
    {"numbers: the sign of their difference", 3, numbers_change_sign},
    {"numbers: 32 bits wrap", 3, numbers_wrap_in_32_bits},
    {"numbers: a timeout where 32 bits wrap", 2, timeout_at_the_wrap},
    {"overrun: a line ahead of its round", 2, line_ahead_of_its_round},
    {"overrun: a buffer outside of the segment", 2, buffer_outside_of_the_segment},
    {"calls that end before anything is said to anybody", 2, calls_that_are_not_made},
    {"late sleeps: a post without a wake is counted", 2, post_without_a_wake_is_counted},
    {"late sleeps: a post just after the time is not counted", 2, post_just_after_the_time_is_not_counted},
    {"wait: what has come is no interrupt", 2, what_has_come_is_no_interrupt},
    {0},
};
