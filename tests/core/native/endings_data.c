/* After a commit: nobody returns before every peer is out of the data phase or dead, and then no byte changes
 * (stage_close compares). */
#include "endings.h"

/* Rank `slow` has committed and moved nothing; the others have done their part of a mesh and wait for it to leave. */
static void all_wait_in_leave(struct stage *stage, uint32_t slow)
{
    stage_stop_when_committed(stage, slow);
    stage_call_all(stage, MESH_ALL_REDUCE);
    stage_await_stopped(stage, slow);
    for (uint32_t rank = 0; rank < stage->size; rank++)
        if (rank != slow)
            stage_await_asleep(stage, rank, stage_left(stage, slow));
}

static void expect_none_returns(struct stage *stage, uint32_t slow)
{
    for (int repeat = 0; repeat < 5; repeat++)
        for (uint32_t rank = 0; rank < stage->size; rank++)
            if (rank != slow) {
                stage_await_quiescing(stage, rank);
                stage_tick(stage, rank);
            }
    for (uint32_t rank = 0; rank < stage->size; rank++) {
        if (rank != slow)
            stage_await_quiescing(stage, rank);
        EXPECT(!stage_has_returned(stage, rank));
    }
}

static void slow_rank_is_waited_for(struct stage *stage)
{
    all_wait_in_leave(stage, 1);
    stage_time_out(stage, 2);
    stage_await_quiescing(stage, 2);
    stage_tick(stage, 0); /* sees the abort word */
    expect_none_returns(stage, 1);
    stage_let_go(stage, 1);
    stage_expect_all_done(stage);
    stage_expect_ended_for_good(stage, stage_cause(stage, ABORT_TIMEOUT, 1, 2));
}

static void slow_rank_dies_after_a_timeout(struct stage *stage)
{
    uint32_t cause = stage_cause(stage, ABORT_TIMEOUT, 1, 0);
    all_wait_in_leave(stage, 1);
    stage_time_out(stage, 0);
    stage_await_quiescing(stage, 0);
    stage_tick(stage, 2);
    expect_none_returns(stage, 1);
    stage_kill(stage, 1);
    stage_raise_death(stage, 1);
    stage_tick(stage, 0);
    stage_tick(stage, 2);
    stage_expect_aborted(stage, 0, cause);
    stage_expect_aborted(stage, 2, cause);
    stage_expect_ended_for_good(stage, cause);
}

static void committed_rank_dies(struct stage *stage)
{
    uint32_t cause = stage_cause_by_server(stage, ABORT_DEATH, 1);
    all_wait_in_leave(stage, 1);
    stage_kill(stage, 1);
    stage_raise_death(stage, 1);
    stage_tick(stage, 0);
    stage_expect_aborted(stage, 0, cause);
    stage_tick(stage, 2);
    stage_expect_aborted(stage, 2, cause);
    stage_expect_ended_for_good(stage, cause);
}

static void committed_rank_dies_and_a_peer_raises_it(struct stage *stage)
{
    uint32_t cause = stage_cause(stage, ABORT_DEATH, 1, 2);
    all_wait_in_leave(stage, 1);
    stage_kill(stage, 1);
    stage_state(stage, 1, RANK_DEAD);
    stage_tick(stage, 2);
    stage_expect_aborted(stage, 2, cause);
    stage_tick(stage, 0);
    stage_expect_aborted(stage, 0, cause);
    stage_expect_ended_for_good(stage, cause);
}

static void a_rank_leaves_after_its_last_store(struct stage *stage)
{
    all_wait_in_leave(stage, 1);
    stage_hold(stage, 0);
    stage_let_go(stage, 1);
    stage_expect_done(stage, 1);
    stage_state(stage, 1, RANK_LEFT);
    stage_let_go(stage, 0);
    stage_expect_done(stage, 0);
    EXPECT_EQUAL(load_acquire(&stage->board->abort), 0);
    stage_expect_ended_for_good(stage, stage_cause(stage, ABORT_LEFT, 1, 0));
}

static void interrupt_in_leave(struct stage *stage)
{
    all_wait_in_leave(stage, 1);
    stage_interrupt(stage, 0);
    expect_none_returns(stage, 1);
    stage_let_go(stage, 1);
    stage_expect_all_done(stage);
    stage_expect_ended_for_good(stage, stage_cause(stage, ABORT_INTERRUPT, 0, 0));
}

/* ---- tokens ---- */

/* Rank 2 has committed and moved nothing; rank 0 waits for its first token, rank 1 for the second token of rank 0. */
static void ring_without_rank_2(struct stage *stage)
{
    stage_stop_when_committed(stage, 2);
    stage_call_all(stage, RING_ALL_REDUCE);
    stage_await_stopped(stage, 2);
    stage_await_asleep(stage, 0, stage_token(stage, 2, 0));
    stage_await_asleep(stage, 1, stage_token(stage, 0, 1));
}

static void interrupt_in_a_token_wait(struct stage *stage)
{
    uint32_t cause = stage_cause(stage, ABORT_INTERRUPT, 0, 0);
    ring_without_rank_2(stage);
    stage_interrupt(stage, 0);
    stage_await_quiescing(stage, 0);
    stage_tick(stage, 1); /* sees the abort word */
    stage_await_asleep(stage, 0, stage_left(stage, 2));
    expect_none_returns(stage, 2);
    stage_let_go(stage, 2);
    for (uint32_t rank = 0; rank < 3; rank++)
        stage_expect_aborted(stage, rank, cause);
    stage_expect_ended_for_good(stage, cause);
}

/* Rank 0 lacks its last token but has posted all of its own, so that rank 1 does its whole part, and then rank 2. */
static void one_cut_short_is_enough(struct stage *stage)
{
    uint32_t cause = stage_cause(stage, ABORT_INTERRUPT, 0, 0);
    stage_stop_when_committed(stage, 0);
    stage_call_all(stage, RING_ALL_REDUCE);
    stage_await_stopped(stage, 0);
    stage_await_asleep(stage, 1, stage_token(stage, 0, 1));
    stage_await_asleep(stage, 2, stage_token(stage, 1, 2)); /* the second: rank 1 has posted the first */
    stage_hold(stage, 2);
    stage_let_go(stage, 0);
    stage_await_asleep(stage, 1, stage_left(stage, 2));
    stage_await_asleep(stage, 0, stage_token(stage, 2, 0));
    stage_interrupt(stage, 0);
    stage_await_quiescing(stage, 0);
    stage_let_go(stage, 2);
    for (uint32_t rank = 0; rank < 3; rank++)
        stage_expect_aborted(stage, rank, cause);
    EXPECT_EQUAL(board_left(stage->board, 3, 0)->cut_short, 1);
    EXPECT_EQUAL(board_left(stage->board, 3, 1)->cut_short, 0);
    EXPECT_EQUAL(board_left(stage->board, 3, 2)->cut_short, 0);
    stage_expect_ended_for_good(stage, cause);
}

static void timeout_in_a_token_wait(struct stage *stage)
{
    uint32_t cause = stage_cause(stage, ABORT_TIMEOUT, 0, 1);
    ring_without_rank_2(stage);
    stage_time_out(stage, 1);
    stage_await_quiescing(stage, 1);
    stage_tick(stage, 0);
    expect_none_returns(stage, 2);
    stage_let_go(stage, 2);
    for (uint32_t rank = 0; rank < 3; rank++)
        stage_expect_aborted(stage, rank, cause);
    stage_expect_ended_for_good(stage, cause);
}

static void left_neighbour_dies(struct stage *stage)
{
    uint32_t cause = stage_cause_by_server(stage, ABORT_DEATH, 2);
    ring_without_rank_2(stage);
    stage_kill(stage, 2);
    stage_raise_death(stage, 2);
    stage_tick(stage, 0);
    stage_await_quiescing(stage, 0); /* rank 1 may still store */
    stage_tick(stage, 0);
    stage_await_quiescing(stage, 0);
    EXPECT(!stage_has_returned(stage, 0));
    stage_tick(stage, 1);
    stage_expect_aborted(stage, 1, cause);
    stage_expect_aborted(stage, 0, cause);
    stage_expect_ended_for_good(stage, cause);
}

static void left_neighbour_dies_and_a_peer_raises_it(struct stage *stage)
{
    uint32_t cause = stage_cause(stage, ABORT_DEATH, 2, 0);
    ring_without_rank_2(stage);
    stage_kill(stage, 2);
    stage_state(stage, 2, RANK_DEAD);
    stage_tick(stage, 0);
    stage_await_quiescing(stage, 0);
    stage_tick(stage, 1);
    stage_expect_aborted(stage, 1, cause);
    stage_expect_aborted(stage, 0, cause);
    stage_expect_ended_for_good(stage, cause);
}

const struct scenario data_endings[] = {
    {"leave: a slow rank is waited for, and its stores land", 3, slow_rank_is_waited_for},
    {"leave: the slow rank dies after a timeout", 3, slow_rank_dies_after_a_timeout},
    {"leave: a committed rank dies", 3, committed_rank_dies},
    {"leave: a committed rank dies and a peer raises it", 3, committed_rank_dies_and_a_peer_raises_it},
    {"leave: a rank leaves the job after its last store", 2, a_rank_leaves_after_its_last_store},
    {"leave: an interrupt", 2, interrupt_in_leave},
    {"token: an interrupt", 3, interrupt_in_a_token_wait},
    {"token: one rank cut short is enough", 3, one_cut_short_is_enough},
    {"token: a timeout", 3, timeout_in_a_token_wait},
    {"token: the left neighbour dies", 3, left_neighbour_dies},
    {"token: the left neighbour dies and a peer raises it", 3, left_neighbour_dies_and_a_peer_raises_it},
    {0},
};
