/* Ranks as threads, each with one to three streams: random calls of one communicator, queued in random order of
 * streams.
 *
 *     streams SIZE SEED BATCHES PLANFILE spin|sleep
 *
 * A batch is some calls that all ranks queue alike, each on a stream of its own choice, with events between the streams,
 * in device memory, plain or strided memory; perhaps one of them is a mismatch or a refusal, and then it and all behind it
 * must fail alike and leave memory as it was.  After the last batch one rank cancels its streams in the middle of its
 * calls, and nobody hangs. */
#include "expect.h"
#include "queueing.h"

struct runner {
    struct queueing rank;
    bool poisoned[MOST_STREAMS]; /* expected */
    uint64_t failures;
};

/* ---- queueing ---- */

static void wait_between_streams(struct runner *runner)
{
    struct queueing *rank = &runner->rank;
    uint32_t from = roll_below(&rank->own, MOST_STREAMS), to = roll_below(&rank->own, MOST_STREAMS);
    struct task *task = queueing_task(TASK_WAIT);
    task->mark = queueing_record(rank, from);
    queueing_append(rank, to, task);
    runner->poisoned[to] = runner->poisoned[to] || runner->poisoned[from];
}

static void queue_call(struct queueing *rank, uint32_t index, bool refuses)
{
    struct slot *slot = &rank->slots[index];
    struct task *task = queueing_task(refuses ? TASK_REFUSAL : TASK_CALL);
    task->instruction = (int)index;
    task->call.queue = &rank->queue;
    task->call.why = "for a test";
    if (refuses) {
        task->call.issue.collective = slot->drawn.collective;
        task->call.issue.number = communicator_take_number(&rank->communicator);
    } else {
        struct call call = queueing_call(rank, slot);
        EXPECT_EQUAL(communicator_issue(&rank->communicator, &call, &task->call.issue), CALL_DONE);
    }
    task->call.ticket = call_queue_take_ticket(&rank->queue);
    queueing_append(rank, slot->stream, task);
}

/* ---- batches ---- */

/* A failure is the same on all streams that it poisons. */
static void check_failure(struct runner *runner, uint32_t stream, uint32_t bad, struct failure **common)
{
    struct failure *failure = stream_take_failure(&runner->rank.streams[stream]);
    EXPECT_EQUAL(failure != NULL, runner->poisoned[stream]);
    runner->poisoned[stream] = false;
    if (!failure)
        return;
    queueing_check_failure(&runner->rank, failure, bad);
    EXPECT(!*common || *common == failure);
    failure_release(*common);
    *common = failure;
}

static void one_batch(struct runner *runner, uint64_t batch)
{
    struct queueing *rank = &runner->rank;
    const uint32_t size = rank->test->size, calls = 1 + roll_below(&rank->common, MOST_CALLS);
    const uint32_t fault = roll_below(&rank->common, 4), odd = roll_below(&rank->common, size);
    uint32_t bad = fault < 2 ? roll_below(&rank->common, calls) : calls;
    uint32_t used = 1 + roll_below(&rank->own, MOST_STREAMS);
    for (uint32_t i = 0; i < calls; i++) {
        struct slot *slot = &rank->slots[i];
        struct drawn drawn = queueing_draw(rank), other = queueing_draw(rank);
        if (i == bad && fault == 0 && (size == 1 || same_call(&drawn, &other)))
            bad = calls; /* no mismatch after all */
        bool differs = i == bad && fault == 0 && rank->rank == odd;
        slot->drawn = differs ? other : drawn;
        slot->stream = roll_below(&rank->own, used);
        slot_prepare(slot, &rank->own, batch * MOST_CALLS + i);
        if (roll_below(&rank->own, 3) == 0)
            wait_between_streams(runner);
        queue_call(rank, i, i == bad && fault == 1 && rank->rank == odd);
        runner->poisoned[slot->stream] = runner->poisoned[slot->stream] || i >= bad;
    }
    for (uint32_t stream = 0; stream < MOST_STREAMS; stream++)
        queueing_finish(rank, stream, runner->poisoned[stream]);
    struct failure *common = NULL;
    for (uint32_t stream = 0; stream < MOST_STREAMS; stream++)
        check_failure(runner, stream, bad, &common);
    EXPECT_EQUAL(common != NULL, bad < calls);
    runner->failures += common != NULL;
    failure_release(common);
    for (uint32_t i = 0; i < calls; i++)
        slot_compare(&rank->slots[i], batch * MOST_CALLS + i, i < bad);
    if (roll_below(&rank->own, 5) == 0) {
        uint32_t stream = roll_below(&rank->own, MOST_STREAMS);
        queueing_close_stream(rank, stream);
        queueing_open_stream(rank, stream);
    }
}

/* Rank 0 drops its streams somewhere in the calls; the others end, too. */
static void cancelled_batch(struct queueing *rank)
{
    rank->communicator.waiter.patience.sleep_ns = 10000000; /* an abort wakes nobody */
    for (uint32_t i = 0; i < MOST_CALLS; i++) {
        struct slot *slot = &rank->slots[i];
        slot->drawn = queueing_draw(rank);
        slot->stream = roll_below(&rank->own, MOST_STREAMS);
        slot_prepare(slot, &rank->own, i);
        queue_call(rank, i, false);
        for (uint32_t stream = 0; rank->rank == 0 && i == 2 && stream < MOST_STREAMS; stream++)
            stream_cancel(&rank->streams[stream]);
    }
    queueing_leave(rank);
}

static void *run_rank(void *argument)
{
    struct runner *runner = argument;
    for (uint64_t batch = 0; batch < runner->rank.test->rounds; batch++)
        one_batch(runner, batch);
    EXPECT_EQUAL(runner->rank.communicator.waiter.patience.late_sleeps, 0);
    cancelled_batch(&runner->rank);
    return NULL;
}

int main(int argc, char **argv)
{
    static struct test test;
    static struct runner runners[MOST_RANKS];
    test_open(&test, argc, argv);
    for (uint32_t rank = 0; rank < test.size; rank++)
        queueing_open(&runners[rank].rank, &test, rank);
    test_run(&test, run_rank, runners, sizeof *runners);
    printf("streams of %u ranks, seed %" PRIu64 ": %" PRIu64 " batches, %" PRIu64 " failed, %u committed\n", test.size,
           test.seed, test.rounds, runners[0].failures, runners[0].rank.communicator.phase);
    for (uint32_t rank = 0; rank < test.size; rank++)
        queueing_close(&runners[rank].rank);
    test_close(&test);
    return 0;
}
