/* A round that is left without all its lines, and the decision of a call that touches peers' memory. */
#include "endings.h"

/* Ranks 0 and 2 have published their lines and sleep until rank 1 comes. */
static void all_but_rank_1(struct stage *stage, enum what what)
{
    stage_call(stage, 0, what);
    stage_await_asleep(stage, 0, stage_line(stage, 1, 1));
    stage_call(stage, 2, what);
    stage_await_asleep(stage, 2, stage_line(stage, 1, 1));
}

/* ---- timeout ---- */

static void payload_timeout(struct stage *stage)
{
    uint32_t cause = stage_cause(stage, ABORT_TIMEOUT, 1, 0);
    all_but_rank_1(stage, PAYLOAD);
    stage_time_out(stage, 0);
    stage_expect_aborted(stage, 0, cause);
    stage_tick(stage, 2);
    stage_expect_aborted(stage, 2, cause);
    stage_call(stage, 1, PAYLOAD); /* all lines of its round are there, and yet it must not be done here alone */
    stage_expect_aborted(stage, 1, cause);
    stage_expect_ended_for_good(stage, cause);
}

static void data_timeout(struct stage *stage)
{
    uint32_t cause = stage_cause(stage, ABORT_TIMEOUT, 1, 2);
    all_but_rank_1(stage, MESH_ALL_REDUCE);
    stage_time_out(stage, 2);
    stage_expect_aborted(stage, 2, cause);
    stage_call(stage, 1, MESH_ALL_REDUCE);
    stage_expect_aborted(stage, 1, cause);
    stage_tick(stage, 0);
    stage_expect_aborted(stage, 0, cause);
    for (uint32_t rank = 0; rank < stage->size; rank++)
        EXPECT_EQUAL(stage->actors[rank].out[0], 0x5a5a5a5a);
    stage_expect_ended_for_good(stage, cause);
}

static void first_timeout_is_the_cause(struct stage *stage)
{
    uint32_t cause = stage_cause(stage, ABORT_TIMEOUT, 1, 0);
    all_but_rank_1(stage, MESH_ALL_REDUCE);
    stage_tick(stage, 2);
    stage_await_asleep(stage, 2, stage_line(stage, 1, 1));
    stage_time_out(stage, 0);
    stage_expect_aborted(stage, 0, cause);
    stage_tick(stage, 2); /* has waited as long, too */
    stage_expect_aborted(stage, 2, cause);
    stage_raise_death(stage, 1);
    stage_expect_ended_for_good(stage, cause);
}

static void a_report_names_who_is_waited_for(struct stage *stage)
{
    struct rank_line *own = stage->actors[0].communicator.waiter.own;
    all_but_rank_1(stage, MESH_ALL_REDUCE);
    EXPECT_EQUAL(load_relaxed(&own->waits_for), stage->size - 1 - 1 + 1); /* rank of the job + 1 */
    EXPECT_EQUAL(load_relaxed(&own->wait_call), 1);
    EXPECT_EQUAL(load_relaxed(&own->wait_collective), ALL_REDUCE);
    stage_call(stage, 1, MESH_ALL_REDUCE);
    stage_expect_all_done(stage);
}

/* ---- commit against abort ---- */

static void who_times_out_obeys_a_commit(struct stage *stage)
{
    stage_call(stage, 0, MESH_ALL_REDUCE);
    stage_await_asleep(stage, 0, stage_line(stage, 1, 1));
    atomic_store(&stage->board->decision, UINT64_C(1) << 32 | VERDICT_COMMIT);
    stage_time_out(stage, 0);
    stage_await_asleep(stage, 0, stage_line(stage, 1, 1));
    stage_call(stage, 1, MESH_ALL_REDUCE);
    stage_expect_all_done(stage);
    EXPECT_EQUAL(load_acquire(&stage->board->abort), 0);
    stage_call_all(stage, MESH_ALL_REDUCE);
    stage_expect_all_done(stage);
}

static void who_commits_obeys_an_abort(struct stage *stage)
{
    uint32_t verdict = stage_cause(stage, ABORT_TIMEOUT, 0, 1);
    stage_call(stage, 0, MESH_ALL_REDUCE);
    stage_await_asleep(stage, 0, stage_line(stage, 1, 1));
    atomic_store(&stage->board->decision, UINT64_C(1) << 32 | verdict);
    stage_call(stage, 1, MESH_ALL_REDUCE);
    stage_expect_aborted(stage, 0, verdict);
    stage_expect_aborted(stage, 1, verdict);
    stage_expect_ended_for_good(stage, verdict);
}

/* Rank 2 gave up, and died before it raised the abort word. */
static void a_death_is_raised_before_the_verdict(struct stage *stage)
{
    uint32_t cause = stage_cause_by_server(stage, ABORT_DEATH, 2);
    all_but_rank_1(stage, MESH_ALL_REDUCE);
    atomic_store(&stage->board->decision, UINT64_C(1) << 32 | stage_cause(stage, ABORT_TIMEOUT, 1, 2));
    stage_kill(stage, 2);
    stage_raise_death(stage, 2);
    stage_call(stage, 1, MESH_ALL_REDUCE);
    stage_expect_aborted(stage, 1, cause);
    stage_expect_aborted(stage, 0, cause);
    stage_expect_ended_for_good(stage, cause);
}

/* The real race, whoever wins it: both ranks end alike. */
static void timeout_races_with_commit(struct stage *first)
{
    for (int repeat = 0; repeat < 30; repeat++) {
        struct stage stage;
        stage_open(&stage, first->plans, 2);
        stage_call(&stage, 0, MESH_ALL_REDUCE);
        stage_tick(&stage, 0);
        stage_await_asleep(&stage, 0, stage_line(&stage, 1, 1));
        stage_call(&stage, 1, MESH_ALL_REDUCE);
        stage_tick_if_asleep(&stage, 0);
        stage_await_returned(&stage, 1);
        if (stage.actors[1].end == CALL_DONE)
            stage_expect_all_done(&stage);
        else
            for (uint32_t rank = 0; rank < 2; rank++)
                stage_expect_aborted(&stage, rank, stage_cause(&stage, ABORT_TIMEOUT, 1, 0));
        stage_close(&stage);
    }
}

/* ---- death ---- */

static void payload_of_the_dead_counts(struct stage *stage)
{
    all_but_rank_1(stage, PAYLOAD);
    stage_kill(stage, 2);
    stage_raise_death(stage, 2);
    stage_tick(stage, 0); /* sees the abort word, and the line of rank 2 */
    stage_await_asleep(stage, 0, stage_line(stage, 1, 1));
    stage_call(stage, 1, PAYLOAD);
    stage_expect_done(stage, 0);
    stage_expect_done(stage, 1);
    stage_expect_ended_for_good(stage, stage_cause_by_server(stage, ABORT_DEATH, 2));
}

static void payload_that_the_dead_never_wrote(struct stage *stage)
{
    uint32_t cause = stage_cause_by_server(stage, ABORT_DEATH, 2);
    stage_call(stage, 0, PAYLOAD);
    stage_await_asleep(stage, 0, stage_line(stage, 1, 1));
    stage_raise_death(stage, 2);
    stage_tick(stage, 0);
    stage_expect_aborted(stage, 0, cause);
    stage_call(stage, 1, PAYLOAD);
    stage_expect_aborted(stage, 1, cause);
    stage_expect_ended_for_good(stage, cause);
}

static void death_before_a_commit(struct stage *stage)
{
    uint32_t cause = stage_cause_by_server(stage, ABORT_DEATH, 2);
    all_but_rank_1(stage, MESH_ALL_REDUCE);
    stage_kill(stage, 2);
    stage_raise_death(stage, 2);
    stage_tick(stage, 0);
    stage_expect_aborted(stage, 0, cause);
    stage_call(stage, 1, MESH_ALL_REDUCE);
    stage_expect_aborted(stage, 1, cause);
    stage_expect_ended_for_good(stage, cause);
}

static void death_that_nobody_has_raised_yet(struct stage *stage)
{
    uint32_t cause = stage_cause(stage, ABORT_DEATH, 1, 0);
    stage_call(stage, 0, PAYLOAD);
    stage_await_asleep(stage, 0, stage_line(stage, 1, 1));
    stage_state(stage, 1, RANK_DEAD);
    stage_tick(stage, 0);
    stage_expect_aborted(stage, 0, cause);
    stage_expect_ended_for_good(stage, cause);
}

/* ---- a clean exit ---- */

/* Rank 1 has written all that it was to write: only who needs more of it fails. */
static void gone_after_the_last_line(struct stage *stage, enum abort_kind how)
{
    uint32_t cause = stage_cause(stage, how, 1, 0);
    stage_call(stage, 0, PAYLOAD);
    stage_await_asleep(stage, 0, stage_line(stage, 1, 1));
    stage_hold(stage, 0);
    stage_call(stage, 1, PAYLOAD);
    stage_expect_done(stage, 1);
    if (how == ABORT_LEFT)
        stage_state(stage, 1, RANK_LEFT);
    else
        store_release(&board_left(stage->board, 2, 1)->destroyed, 1);
    stage_let_go(stage, 0);
    stage_expect_done(stage, 0);
    EXPECT_EQUAL(load_acquire(&stage->board->abort), 0);
    stage_call(stage, 0, MESH_ALL_REDUCE);
    stage_expect_aborted(stage, 0, cause);
    stage_expect_ended_for_good(stage, cause);
}

static void leaving_after_the_last_line(struct stage *stage) { gone_after_the_last_line(stage, ABORT_LEFT); }

/* The rank lives on; the one that waits for what it never wrote learns who has destroyed the communicator. */
static void destroying_after_the_last_line(struct stage *stage) { gone_after_the_last_line(stage, ABORT_DESTROYED); }

/* ---- an interrupt ---- */

static void interrupted_payload(struct stage *stage)
{
    uint32_t cause = stage_cause(stage, ABORT_INTERRUPT, 2, 2);
    all_but_rank_1(stage, PAYLOAD);
    stage_interrupt(stage, 2);
    stage_expect_aborted(stage, 2, cause);
    stage_tick(stage, 0);
    stage_expect_aborted(stage, 0, cause);
    stage_expect_ended_for_good(stage, cause);
}

static void interrupted_before_a_commit(struct stage *stage)
{
    uint32_t cause = stage_cause(stage, ABORT_INTERRUPT, 0, 0);
    all_but_rank_1(stage, MESH_ALL_REDUCE);
    stage_interrupt(stage, 0);
    stage_expect_aborted(stage, 0, cause);
    stage_call(stage, 1, MESH_ALL_REDUCE);
    stage_expect_aborted(stage, 1, cause);
    stage_tick(stage, 2);
    stage_expect_aborted(stage, 2, cause);
    stage_expect_ended_for_good(stage, cause);
}

const struct scenario round_endings[] = {
    {"payload round: timeout", 3, payload_timeout},
    {"data round: timeout", 3, data_timeout},
    {"data round: the first of two timeouts is the cause", 3, first_timeout_is_the_cause},
    {"a report names who is waited for", 3, a_report_names_who_is_waited_for},
    {"data round: who times out obeys a commit", 2, who_times_out_obeys_a_commit},
    {"data round: who commits obeys an abort", 2, who_commits_obeys_an_abort},
    {"data round: a death is raised before the verdict", 3, a_death_is_raised_before_the_verdict},
    {"data round: a timeout races with a commit", 2, timeout_races_with_commit},
    {"payload round: a rank dies after its line", 3, payload_of_the_dead_counts},
    {"payload round: a rank dies before its line", 3, payload_that_the_dead_never_wrote},
    {"data round: a rank dies after its line", 3, death_before_a_commit},
    {"payload round: a death that nobody has raised yet", 2, death_that_nobody_has_raised_yet},
    {"payload round: a rank leaves after its line", 2, leaving_after_the_last_line},
    {"payload round: a rank destroys the communicator after its line", 2, destroying_after_the_last_line},
    {"payload round: an interrupt", 3, interrupted_payload},
    {"data round: an interrupt", 3, interrupted_before_a_commit},
    {0},
};
