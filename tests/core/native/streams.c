/* Ranks as threads, each with one to three streams: random calls of one communicator, queued in random order of
 * streams.
 *
 *     streams SIZE SEED BATCHES PLANFILE spin|sleep
 *
 * A batch is some calls that all ranks queue alike, each on a stream of its own choice, with events between the streams,
 * in device memory, plain or strided memory; perhaps one of them is a mismatch or a refusal, and then it and all behind it
 * must fail alike and leave memory as it was.  After the last batch one rank cancels its streams in the middle of its
 * calls, and nobody hangs. */
#include <string.h>

#include "expect.h"
#include "order.h"
#include "slots.h"
#include "stream.h"

enum { MOST_STREAMS = 3, MOST_CALLS = 6, PIECE_NBYTES = 512 * MOST_RANKS };

struct runner {
    struct test *test;
    uint32_t rank;
    struct arena arena;
    struct communicator communicator;
    struct call_queue queue;
    struct dice common, own;
    struct stream streams[MOST_STREAMS];
    bool poisoned[MOST_STREAMS]; /* expected */
    struct slot slots[MOST_CALLS];
    uint64_t reaped, queued; /* tasks: all come back */
    uint64_t failures;
};

/* ---- queueing ---- */

static void says_where(void *context, char *text, size_t nbytes)
{
    snprintf(text, nbytes, "call %d of the batch", ((const struct task *)context)->instruction);
}

static struct task *new_task(enum task_kind kind)
{
    struct task *task = calloc(1, sizeof *task);
    EXPECT(task != NULL);
    task->kind = kind;
    return task;
}

static void append(struct runner *runner, uint32_t stream, struct task *task)
{
    EXPECT(stream_append(&runner->streams[stream], task));
    runner->queued++;
}

static void release(struct task *task)
{
    if (task->kind == TASK_RECORD || task->kind == TASK_WAIT)
        mark_release(task->mark);
    free(task);
}

static void reap(struct runner *runner, uint32_t stream)
{
    struct task *task;
    while ((task = stream_reap(&runner->streams[stream]))) {
        release(task);
        runner->reaped++;
    }
}

static struct mark *record(struct runner *runner, uint32_t stream)
{
    struct mark *mark = mark_new();
    struct task *task = new_task(TASK_RECORD);
    task->mark = mark_hold(mark);
    append(runner, stream, task);
    return mark;
}

static void wait_between_streams(struct runner *runner)
{
    uint32_t from = roll_below(&runner->own, MOST_STREAMS), to = roll_below(&runner->own, MOST_STREAMS);
    struct task *task = new_task(TASK_WAIT);
    task->mark = record(runner, from);
    append(runner, to, task);
    runner->poisoned[to] = runner->poisoned[to] || runner->poisoned[from];
}

static void queue_call(struct runner *runner, uint32_t index, bool refuses)
{
    struct slot *slot = &runner->slots[index];
    struct communicator *c = &runner->communicator;
    struct call call = {.collective = slot->drawn.collective, .dtype = slot->drawn.dtype, .op = slot->drawn.op,
                        .root = slot->drawn.root, .count = slot->drawn.count, .in = slot->in.base, .out = slot->out.base,
                        .strided_in = &slot->in.view, .strided_out = &slot->out.view};
    struct task *task = new_task(refuses ? TASK_REFUSAL : TASK_CALL);
    task->instruction = (int)index;
    task->call.queue = &runner->queue;
    task->call.why = "for a test";
    if (refuses) {
        task->call.issue.collective = call.collective;
        task->call.issue.number = communicator_take_number(c);
    } else {
        prefer_choice(c, &call, slot->drawn.fingerprint);
        EXPECT_EQUAL(communicator_issue(c, &call, &task->call.issue), CALL_DONE);
    }
    task->call.ticket = call_queue_take_ticket(&runner->queue);
    append(runner, slot->stream, task);
}

/* ---- batches ---- */

static struct drawn draw(struct runner *runner)
{
    struct test *test = runner->test;
    struct drawn drawn = roll_below(&runner->common, 3) ? draw_plan(&runner->common, &test->plans)
                                                        : draw_payload(&runner->common, test->size);
    drawn.count = drawn.is_exchange ? drawn.count : drawn.count % FEW;
    return drawn;
}

static void finish(struct runner *runner, uint32_t stream)
{
    struct mark *mark = record(runner, stream);
    EXPECT_EQUAL(mark_wait(mark, &linux_host, &runner->streams[stream].issuer_patience, 0), WAIT_ARRIVED);
    EXPECT_EQUAL(mark->failure != NULL, runner->poisoned[stream]);
    mark_release(mark);
    reap(runner, stream);
}

static void check_failure(struct runner *runner, uint32_t stream, uint32_t bad, struct failure **common)
{
    struct failure *failure = stream_take_failure(&runner->streams[stream]);
    EXPECT_EQUAL(failure != NULL, runner->poisoned[stream]);
    runner->poisoned[stream] = false;
    if (!failure)
        return;
    char where[WHERE_NBYTES];
    snprintf(where, sizeof where, "call %u of the batch", bad);
    EXPECT_EQUAL(failure->how, CALL_DIFFERS);
    for (uint32_t rank = 0; rank < runner->test->size; rank++)
        EXPECT(!strcmp(failure->statements[rank].where, where));
    call_queue_told(&runner->queue, failure);
    EXPECT(!*common || *common == failure);
    failure_release(*common);
    *common = failure;
}

static void reopen(struct runner *runner, uint32_t stream);

static void one_batch(struct runner *runner, uint64_t batch)
{
    const uint32_t size = runner->test->size, calls = 1 + roll_below(&runner->common, MOST_CALLS);
    const uint32_t fault = roll_below(&runner->common, 4), odd = roll_below(&runner->common, size);
    uint32_t bad = fault < 2 ? roll_below(&runner->common, calls) : calls;
    uint32_t used = 1 + roll_below(&runner->own, MOST_STREAMS);
    for (uint32_t i = 0; i < calls; i++) {
        struct slot *slot = &runner->slots[i];
        struct drawn drawn = draw(runner), other = draw(runner);
        if (i == bad && fault == 0 && (size == 1 || same_call(&drawn, &other)))
            bad = calls; /* no mismatch after all */
        bool differs = i == bad && fault == 0 && runner->rank == odd;
        slot->drawn = differs ? other : drawn;
        slot->stream = roll_below(&runner->own, used);
        slot_prepare(slot, &runner->own, batch * MOST_CALLS + i);
        if (roll_below(&runner->own, 3) == 0)
            wait_between_streams(runner);
        queue_call(runner, i, i == bad && fault == 1 && runner->rank == odd);
        runner->poisoned[slot->stream] = runner->poisoned[slot->stream] || i >= bad;
    }
    for (uint32_t stream = 0; stream < MOST_STREAMS; stream++)
        finish(runner, stream);
    struct failure *common = NULL;
    for (uint32_t stream = 0; stream < MOST_STREAMS; stream++)
        check_failure(runner, stream, bad, &common);
    EXPECT_EQUAL(common != NULL, bad < calls);
    runner->failures += common != NULL;
    failure_release(common);
    for (uint32_t i = 0; i < calls; i++)
        slot_compare(&runner->slots[i], batch * MOST_CALLS + i, i < bad);
    if (roll_below(&runner->own, 5) == 0)
        reopen(runner, roll_below(&runner->own, MOST_STREAMS));
}

/* ---- streams ---- */

static void open_stream(struct runner *runner, uint32_t index)
{
    struct stream *stream = &runner->streams[index];
    EXPECT(stream_open(stream, new_task(TASK_END)));
    runner->queued++;
    stream->host.where = says_where;
    if (runner->test->sleeps)
        stream->patience.spins = stream->patience.yields = stream->idle_patience.spins = stream->idle_patience.yields = 0;
    stream->patience.sleep_ns = stream->idle_patience.sleep_ns = stream->issuer_patience.sleep_ns = UINT64_C(20000000000);
}

static void close_stream(struct runner *runner, uint32_t index)
{
    struct stream *stream = &runner->streams[index];
    while (!stream_join(stream, 50000000))
        ;
    reap(runner, index);
    if (stream->oldest != &stream->end) {
        release(stream->oldest);
        runner->reaped++;
    }
    EXPECT_EQUAL(stream->patience.late_sleeps + stream->idle_patience.late_sleeps + stream->issuer_patience.late_sleeps, 0);
    failure_release(stream->poison);
    pthread_mutex_destroy(&stream->lock);
}

static void reopen(struct runner *runner, uint32_t index)
{
    close_stream(runner, index);
    open_stream(runner, index);
}

/* Rank 0 drops its streams somewhere in the calls; the others end, too. */
static void cancelled_batch(struct runner *runner)
{
    runner->communicator.waiter.patience.sleep_ns = 10000000; /* an abort wakes nobody */
    for (uint32_t i = 0; i < MOST_CALLS; i++) {
        struct slot *slot = &runner->slots[i];
        slot->drawn = draw(runner);
        slot->stream = roll_below(&runner->own, MOST_STREAMS);
        slot_prepare(slot, &runner->own, i);
        queue_call(runner, i, false);
        for (uint32_t stream = 0; runner->rank == 0 && i == 2 && stream < MOST_STREAMS; stream++)
            stream_cancel(&runner->streams[stream]);
    }
    if (runner->rank == 0)
        for (uint32_t stream = 0; stream < MOST_STREAMS; stream++)
            close_stream(runner, stream);
    if (runner->rank == 0) /* what the server of the job does then */
        store_release(&segment_rank(&runner->test->segment, 0)->state, RANK_LEFT);
    for (uint32_t stream = 0; runner->rank > 0 && stream < MOST_STREAMS; stream++)
        close_stream(runner, stream);
}

/* ---- a rank ---- */

static void *run_rank(void *argument)
{
    struct runner *runner = argument;
    for (uint64_t batch = 0; batch < runner->test->rounds; batch++)
        one_batch(runner, batch);
    EXPECT_EQUAL(runner->communicator.waiter.patience.late_sleeps, 0);
    cancelled_batch(runner);
    EXPECT_EQUAL(runner->reaped, runner->queued);
    return NULL;
}

static void open_rank(struct runner *runner, struct test *test, uint32_t rank)
{
    *runner = (struct runner){.test = test, .rank = rank, .common = {test->seed}, .own = {test->seed + rank + 1}};
    struct communicator *c = &runner->communicator;
    test_open_rank(test, rank, &runner->arena, c);
    c->piece_nbytes = PIECE_NBYTES;
    c->least_reached_nbytes = test->seed % 2; /* all buffers that are outside of device memory are reached, or none */
    c->staging_offset = test_allocate(&runner->arena, 2 * PIECE_NBYTES);
    c->has_staging = true;
    call_queue_open(&runner->queue, c);
    for (uint32_t i = 0; i < MOST_CALLS; i++)
        slot_open(&runner->slots[i], &runner->arena, rank, test->size);
    for (uint32_t stream = 0; stream < MOST_STREAMS; stream++)
        open_stream(runner, stream);
}

static void close_rank(struct runner *runner)
{
    for (uint32_t i = 0; i < MOST_CALLS; i++)
        slot_close(&runner->slots[i]);
    call_queue_close(&runner->queue);
    communicator_close(&runner->communicator);
    arena_close(&runner->arena);
}

int main(int argc, char **argv)
{
    static struct test test;
    static struct runner runners[MOST_RANKS];
    test_open(&test, argc, argv);
    for (uint32_t rank = 0; rank < test.size; rank++)
        open_rank(&runners[rank], &test, rank);
    test_run(&test, run_rank, runners, sizeof *runners);
    printf("streams of %u ranks, seed %" PRIu64 ": %" PRIu64 " batches, %" PRIu64 " failed, %u committed\n", test.size,
           test.seed, test.rounds, runners[0].failures, runners[0].communicator.phase);
    for (uint32_t rank = 0; rank < test.size; rank++)
        close_rank(&runners[rank]);
    test_close(&test);
    return 0;
}
