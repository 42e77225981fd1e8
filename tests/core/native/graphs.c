/* Ranks as threads, each with graphs on three streams: random calls of one communicator, added in random order of streams,
 * with functions and marks between them, and launched several times, also twice in a row.
 *
 *     graphs SIZE SEED GRAPHS PLANFILE spin|sleep
 *
 * In some graphs one call differs on one rank: then it and all behind it fail alike in every launch, the first stream has
 * the failure, the others are clean, and the next graph runs.  Behind the last graph one rank cancels its streams in the
 * middle of its launches, and nobody hangs. */
#include <sched.h>
#include <string.h>

#include "expect.h"
#include "graph.h"
#include "order.h"
#include "slots.h"

enum { STREAMS = 3, MOST_CALLS = 5, MOST_TIES = 3 * MOST_CALLS, MARKS = MOST_TIES + STREAMS, PIECE_NBYTES = 512 * MOST_RANKS };

struct runner {
    struct test *test;
    uint32_t rank;
    struct arena arena;
    struct communicator communicator;
    struct call_queue queue;
    struct dice common, own;
    struct stream streams[STREAMS];
    struct slot slots[MOST_CALLS];
    struct graph *graph;
    uint32_t calls, bad, marks; /* of the graph; bad == calls: none differs */
    uint64_t functions;         /* of a launch */
    _Atomic uint64_t runs;
    uint64_t failures;
    uint32_t under_way; /* sequences that are not reaped */
};

static void says_where(void *context, char *text, size_t nbytes)
{
    snprintf(text, nbytes, "call %d of the graph", ((const struct task *)context)->instruction);
}

static struct task *new_task(enum task_kind kind)
{
    struct task *task = calloc(1, sizeof *task);
    EXPECT(task != NULL);
    task->kind = kind;
    return task;
}

static void release(struct runner *runner, struct task *task)
{
    if (task->kind == TASK_RECORD)
        mark_release(task->mark);
    if (task->kind == TASK_SEQUENCE) {
        launch_part_over(task->sequence.launch);
        runner->under_way--;
    }
    free(task);
}

static void reap(struct runner *runner, uint32_t stream)
{
    struct task *task;
    while ((task = stream_reap(&runner->streams[stream])))
        release(runner, task);
}

static void finish(struct runner *runner, uint32_t stream, bool fails)
{
    struct mark *mark = mark_new();
    struct task *task = new_task(TASK_RECORD);
    task->mark = mark_hold(mark);
    EXPECT(stream_append(&runner->streams[stream], task));
    EXPECT_EQUAL(mark_wait(mark, &linux_host, &runner->streams[stream].issuer_patience, 0), WAIT_ARRIVED);
    EXPECT_EQUAL(mark->failure != NULL, fails);
    mark_release(mark);
    reap(runner, stream);
}

/* ---- a graph ---- */

static struct task *add(struct runner *runner, uint32_t stream, enum task_kind kind, uint32_t mark)
{
    struct task *task = graph_add(runner->graph, stream, kind, mark);
    EXPECT(task != NULL);
    return task;
}

static uint32_t count_run(void *context)
{
    atomic_fetch_add_explicit(&((struct runner *)context)->runs, 1, memory_order_relaxed);
    return 0;
}

static void add_call(struct runner *runner, uint32_t index)
{
    struct slot *slot = &runner->slots[index];
    struct call call = {.collective = slot->drawn.collective, .dtype = slot->drawn.dtype, .op = slot->drawn.op,
                        .root = slot->drawn.root, .count = slot->drawn.count, .in = slot->in.base, .out = slot->out.base,
                        .strided_in = &slot->in.view, .strided_out = &slot->out.view};
    struct task *task = add(runner, slot->stream, TASK_CALL, 0);
    task->instruction = (int)index;
    task->call.queue = &runner->queue;
    prefer_choice(&runner->communicator, &call, slot->drawn.fingerprint);
    EXPECT_EQUAL(communicator_prepare(&runner->communicator, &call, &task->call.issue), CALL_DONE);
}

static void add_between(struct runner *runner)
{
    for (uint32_t stream = 0; stream < STREAMS; stream++)
        if (roll_below(&runner->own, 2)) {
            struct task *task = add(runner, stream, TASK_FUNCTION, 0);
            task->function.run = count_run;
            task->function.context = runner;
            runner->functions++;
        }
    for (uint32_t ties = roll_below(&runner->own, 4); ties; ties--) {
        add(runner, roll_below(&runner->own, STREAMS), TASK_RECORD, runner->marks);
        add(runner, roll_below(&runner->own, STREAMS), TASK_WAIT, runner->marks++);
    }
}

static struct drawn draw(struct runner *runner)
{
    struct test *test = runner->test;
    struct drawn drawn = roll_below(&runner->common, 3) ? draw_plan(&runner->common, &test->plans)
                                                        : draw_payload(&runner->common, test->size);
    drawn.count = drawn.is_exchange ? drawn.count : drawn.count % FEW;
    return drawn;
}

/* Marks 0 to STREAMS - 1 are where the streams beside the first begin (0) and end. */
static void build(struct runner *runner)
{
    const uint32_t size = runner->test->size, odd = roll_below(&runner->common, size);
    EXPECT(runner->graph = graph_new(STREAMS, MARKS));
    runner->marks = STREAMS;
    runner->functions = 0;
    runner->bad = runner->calls = 1 + roll_below(&runner->common, MOST_CALLS);
    if (roll_below(&runner->common, 3) == 0)
        runner->bad = roll_below(&runner->common, runner->calls);
    add(runner, 0, TASK_RECORD, 0);
    for (uint32_t stream = 1; stream < STREAMS; stream++)
        add(runner, stream, TASK_WAIT, 0);
    for (uint32_t i = 0; i < runner->calls; i++) {
        struct drawn drawn = draw(runner), other = draw(runner);
        if (i == runner->bad && (size == 1 || same_call(&drawn, &other)))
            runner->bad = runner->calls; /* no mismatch after all */
        runner->slots[i].drawn = i == runner->bad && runner->rank == odd ? other : drawn;
        runner->slots[i].stream = roll_below(&runner->own, STREAMS);
        slot_prepare(&runner->slots[i], &runner->own, 0);
        add_between(runner);
        add_call(runner, i);
    }
    for (uint32_t stream = 1; stream < STREAMS; stream++) {
        add(runner, stream, TASK_HAND_OVER, stream);
        add(runner, 0, TASK_JOIN, stream);
    }
}

static void launch(struct runner *runner)
{
    struct launch *launched = graph_launch(runner->graph);
    EXPECT(launched != NULL);
    launch_issue(launched);
    for (uint32_t stream = STREAMS; stream-- > 0;) {
        struct task *task = new_task(TASK_SEQUENCE);
        task->sequence.launch = launched;
        task->sequence.tasks = launched->sequences[stream].tasks;
        task->sequence.ntasks = launched->sequences[stream].ntasks;
        EXPECT(stream_append(&runner->streams[stream], task));
        runner->under_way++;
    }
}

/* A stream says that a task is done only after the mark behind it is complete. */
static void free_when_over(struct runner *runner)
{
    while (runner->under_way) {
        sched_yield();
        for (uint32_t stream = 0; stream < STREAMS; stream++)
            reap(runner, stream);
    }
    graph_free(runner->graph, NULL);
}

static void check_failure(struct runner *runner)
{
    struct failure *failure = stream_take_failure(&runner->streams[0]);
    EXPECT_EQUAL(failure != NULL, runner->bad < runner->calls);
    if (failure) {
        EXPECT_EQUAL(failure->how, CALL_DIFFERS);
        char where[WHERE_NBYTES];
        snprintf(where, sizeof where, "call %u of the graph", runner->bad);
        for (uint32_t rank = 0; rank < runner->test->size; rank++)
            EXPECT(!strcmp(failure->statements[rank].where, where));
        call_queue_told(&runner->queue, failure);
        failure_release(failure);
        runner->failures++;
    }
    for (uint32_t stream = 1; stream < STREAMS; stream++)
        EXPECT(!stream_take_failure(&runner->streams[stream]));
}

static void one_round(struct runner *runner, uint64_t round)
{
    const uint32_t launches = 1 + roll_below(&runner->common, 2);
    const bool fails = runner->bad < runner->calls;
    for (uint32_t i = 0; i < runner->calls; i++)
        slot_refill(&runner->slots[i], round);
    store_relaxed(&runner->runs, 0);
    for (uint32_t i = 0; i < launches; i++)
        launch(runner);
    for (uint32_t stream = 0; stream < STREAMS; stream++)
        finish(runner, stream, stream == 0 && fails);
    check_failure(runner);
    EXPECT(fails ? load_relaxed(&runner->runs) <= launches * runner->functions
                 : load_relaxed(&runner->runs) == launches * runner->functions);
    for (uint32_t i = 0; i < runner->calls; i++)
        slot_compare(&runner->slots[i], round, i < runner->bad);
}

/* ---- streams ---- */

static void open_stream(struct runner *runner, uint32_t index)
{
    struct stream *stream = &runner->streams[index];
    EXPECT(stream_open(stream, new_task(TASK_END)));
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
    if (stream->oldest != &stream->end)
        release(runner, stream->oldest);
    EXPECT_EQUAL(stream->patience.late_sleeps + stream->idle_patience.late_sleeps + stream->issuer_patience.late_sleeps, 0);
    failure_release(stream->poison);
    pthread_mutex_destroy(&stream->lock);
}

/* Rank 0 drops its streams somewhere in three launches; the others end, too. */
static void cancelled_launches(struct runner *runner)
{
    runner->communicator.waiter.patience.sleep_ns = 10000000; /* an abort wakes nobody */
    build(runner);
    for (uint32_t i = 0; i < 3; i++) {
        launch(runner);
        for (uint32_t stream = 0; runner->rank == 0 && i == 1 && stream < STREAMS; stream++)
            stream_cancel(&runner->streams[stream]);
    }
    for (uint32_t stream = 0; runner->rank == 0 && stream < STREAMS; stream++)
        close_stream(runner, stream);
    if (runner->rank == 0) /* what the server of the job does then */
        store_release(&segment_rank(&runner->test->segment, 0)->state, RANK_LEFT);
    for (uint32_t stream = 0; runner->rank > 0 && stream < STREAMS; stream++)
        close_stream(runner, stream);
    free_when_over(runner);
}

/* ---- a rank ---- */

static void *run_rank(void *argument)
{
    struct runner *runner = argument;
    for (uint64_t graph = 0; graph < runner->test->rounds; graph++) {
        build(runner);
        for (uint32_t rounds = 1 + roll_below(&runner->common, 3), i = 0; i < rounds; i++)
            one_round(runner, graph * 8 + i + 1);
        free_when_over(runner);
    }
    EXPECT_EQUAL(runner->communicator.waiter.patience.late_sleeps, 0);
    cancelled_launches(runner);
    return NULL;
}

static void open_rank(struct runner *runner, struct test *test, uint32_t rank)
{
    *runner = (struct runner){.test = test, .rank = rank, .common = {test->seed}, .own = {test->seed + rank + 1}};
    struct communicator *c = &runner->communicator;
    test_open_rank(test, rank, &runner->arena, c);
    c->piece_nbytes = PIECE_NBYTES;
    c->staging_offset = test_allocate(&runner->arena, 2 * PIECE_NBYTES);
    c->has_staging = true;
    call_queue_open(&runner->queue, c);
    for (uint32_t i = 0; i < MOST_CALLS; i++)
        slot_open(&runner->slots[i], &runner->arena, rank, test->size);
    for (uint32_t stream = 0; stream < STREAMS; stream++)
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
    printf("graphs of %u ranks, seed %" PRIu64 ": %" PRIu64 " graphs, %" PRIu64 " failed launches, %u committed\n", test.size,
           test.seed, test.rounds, runners[0].failures, runners[0].communicator.phase);
    for (uint32_t rank = 0; rank < test.size; rank++)
        close_rank(&runners[rank]);
    test_close(&test);
    return 0;
}
