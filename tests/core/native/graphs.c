/* Ranks as threads, each with graphs on three streams: random calls of one communicator, added in random order of streams,
 * with functions and marks between them, and launched several times, also twice in a row; functions are replaced in between.
 *
 *     graphs SIZE SEED GRAPHS PLANFILE spin|sleep
 *
 * In some graphs one call differs on one rank: then it and all behind it fail alike in every launch, the first stream has
 * the failure, the others are clean, and the next graph runs.  Behind the last graph one rank cancels its streams in the
 * middle of its launches, and nobody hangs. */
#include <sched.h>

#include "expect.h"
#include "graph.h"
#include "order.h"
#include "queueing.h"

enum { MOST_TIES = 3 * MOST_CALLS, MARKS = MOST_TIES + MOST_STREAMS };

struct runner {
    struct queueing rank;
    struct graph *graph;
    uint32_t calls, bad, marks; /* of the graph; bad == calls: none differs */
    uint64_t functions;         /* of a launch */
    _Atomic uint64_t runs;
    uint64_t failures;
    uint32_t under_way; /* sequences that are not reaped */
};

static void count_sequence(struct queueing *rank, struct task *task)
{
    if (task->kind == TASK_SEQUENCE) {
        launch_part_over(task->sequence.launch);
        ((struct runner *)rank)->under_way--; /* it is the runner's first member */
    }
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
    const struct slot *slot = &runner->rank.slots[index];
    struct call call = queueing_call(&runner->rank, slot);
    struct task *task = add(runner, slot->stream, TASK_CALL, 0);
    task->instruction = (int)index;
    task->call.queue = &runner->rank.queue;
    EXPECT_EQUAL(communicator_prepare(&runner->rank.communicator, &call, &task->call.issue), CALL_DONE);
}

static void add_between(struct runner *runner)
{
    for (uint32_t stream = 0; stream < MOST_STREAMS; stream++)
        if (roll_below(&runner->rank.own, 2)) {
            struct task *task = add(runner, stream, TASK_FUNCTION, 0);
            task->function.run = count_run;
            task->function.context = runner;
            runner->functions++;
        }
    for (uint32_t ties = roll_below(&runner->rank.own, 4); ties; ties--) {
        add(runner, roll_below(&runner->rank.own, MOST_STREAMS), TASK_RECORD, runner->marks);
        add(runner, roll_below(&runner->rank.own, MOST_STREAMS), TASK_WAIT, runner->marks++);
    }
}

/* Marks 0 to MOST_STREAMS - 1 are where the streams beside the first begin (0) and end. */
static void build(struct runner *runner)
{
    const uint32_t size = runner->rank.test->size, odd = roll_below(&runner->rank.common, size);
    EXPECT(runner->graph = graph_new(MOST_STREAMS, MARKS, NULL));
    runner->marks = MOST_STREAMS;
    runner->functions = 0;
    runner->bad = runner->calls = 1 + roll_below(&runner->rank.common, MOST_CALLS);
    if (roll_below(&runner->rank.common, 3) == 0)
        runner->bad = roll_below(&runner->rank.common, runner->calls);
    add(runner, 0, TASK_RECORD, 0);
    for (uint32_t stream = 1; stream < MOST_STREAMS; stream++)
        add(runner, stream, TASK_WAIT, 0);
    for (uint32_t i = 0; i < runner->calls; i++) {
        struct drawn drawn = queueing_draw(&runner->rank), other = queueing_draw(&runner->rank);
        if (i == runner->bad && (size == 1 || same_call(&drawn, &other)))
            runner->bad = runner->calls; /* no mismatch after all */
        runner->rank.slots[i].drawn = i == runner->bad && runner->rank.rank == odd ? other : drawn;
        runner->rank.slots[i].stream = roll_below(&runner->rank.own, MOST_STREAMS);
        slot_prepare(&runner->rank.slots[i], &runner->rank.own, 0);
        add_between(runner);
        add_call(runner, i);
    }
    for (uint32_t stream = 1; stream < MOST_STREAMS; stream++) {
        add(runner, stream, TASK_HAND_OVER, stream);
        add(runner, 0, TASK_JOIN, stream);
    }
}

/* The same function again, in the place of one that launches under way may still run. */
static void replace_one(struct runner *runner, uint32_t stream)
{
    const struct sequence *sequence = &runner->graph->sequences[stream];
    if (!sequence->ntasks)
        return;
    const uint32_t place = roll_below(&runner->rank.own, sequence->ntasks);
    const struct task same = sequence->tasks[place];
    if (same.kind == TASK_FUNCTION)
        EXPECT(graph_replace(runner->graph, stream, place, &same));
}

static void launch(struct runner *runner)
{
    for (uint32_t stream = 0; stream < MOST_STREAMS; stream++)
        replace_one(runner, stream);
    struct launch *launched = graph_launch(runner->graph);
    EXPECT(launched != NULL);
    launch_issue(launched);
    for (uint32_t stream = MOST_STREAMS; stream-- > 0;) {
        struct task *task = queueing_task(TASK_SEQUENCE);
        task->sequence.launch = launched;
        task->sequence.tasks = launched->sequences[stream].tasks;
        task->sequence.ntasks = launched->sequences[stream].ntasks;
        runner->under_way++;
        queueing_append(&runner->rank, stream, task);
    }
}

/* A stream says that a task is done only after the mark behind it is complete. */
static void free_when_over(struct runner *runner)
{
    while (runner->under_way) {
        sched_yield();
        for (uint32_t stream = 0; stream < MOST_STREAMS; stream++)
            queueing_reap(&runner->rank, stream);
    }
    graph_free(runner->graph);
}

static void check_failure(struct runner *runner)
{
    struct failure *failure = stream_take_failure(&runner->rank.streams[0]);
    EXPECT_EQUAL(failure != NULL, runner->bad < runner->calls);
    if (failure) {
        queueing_check_failure(&runner->rank, failure, runner->bad);
        failure_release(failure);
        runner->failures++;
    }
    for (uint32_t stream = 1; stream < MOST_STREAMS; stream++)
        EXPECT(!stream_take_failure(&runner->rank.streams[stream]));
}

static void one_round(struct runner *runner, uint64_t round)
{
    const uint32_t launches = 1 + roll_below(&runner->rank.common, 2);
    const bool fails = runner->bad < runner->calls;
    for (uint32_t i = 0; i < runner->calls; i++)
        slot_refill(&runner->rank.slots[i], round);
    store_relaxed(&runner->runs, 0);
    for (uint32_t i = 0; i < launches; i++)
        launch(runner);
    for (uint32_t stream = 0; stream < MOST_STREAMS; stream++)
        queueing_finish(&runner->rank, stream, stream == 0 && fails);
    check_failure(runner);
    EXPECT(fails ? load_relaxed(&runner->runs) <= launches * runner->functions
                 : load_relaxed(&runner->runs) == launches * runner->functions);
    for (uint32_t i = 0; i < runner->calls; i++)
        slot_compare(&runner->rank.slots[i], round, i < runner->bad);
}

/* Rank 0 drops its streams somewhere in three launches; the others end, too. */
static void cancelled_launches(struct runner *runner)
{
    runner->rank.communicator.waiter.patience.sleep_ns = 10000000; /* an abort wakes nobody */
    build(runner);
    for (uint32_t i = 0; i < 3; i++) {
        launch(runner);
        for (uint32_t stream = 0; runner->rank.rank == 0 && i == 1 && stream < MOST_STREAMS; stream++)
            stream_cancel(&runner->rank.streams[stream]);
    }
    queueing_leave(&runner->rank);
    free_when_over(runner);
}

/* ---- a rank ---- */

static void *run_rank(void *argument)
{
    struct runner *runner = argument;
    for (uint64_t graph = 0; graph < runner->rank.test->rounds; graph++) {
        build(runner);
        for (uint32_t rounds = 1 + roll_below(&runner->rank.common, 3), i = 0; i < rounds; i++)
            one_round(runner, graph * 8 + i + 1);
        free_when_over(runner);
    }
    EXPECT_EQUAL(runner->rank.communicator.waiter.patience.late_sleeps, 0);
    cancelled_launches(runner);
    return NULL;
}

static void open_rank(struct runner *runner, struct test *test, uint32_t rank)
{
    *runner = (struct runner){0};
    queueing_open(&runner->rank, test, rank);
    runner->rank.over = count_sequence;
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
           test.seed, test.rounds, runners[0].failures, runners[0].rank.communicator.phase);
    for (uint32_t rank = 0; rank < test.size; rank++)
        queueing_close(&runners[rank].rank);
    test_close(&test);
    return 0;
}
