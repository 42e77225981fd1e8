/* A stream whose tasks are dropped in the middle of whatever it does: it gives up what waits, runs nothing of the rest,
 * tells so once, and goes on.  Before that: when the worker gives its core away.
 *
 *     aborts SEED ROUNDS */
#include "stream.h"

#include <stdlib.h>

#include "dice.h"
#include "expect.h"
#include "order.h"

enum { MOST_TASKS = 8 };

struct count {
    uint64_t runs;
};

static uint32_t add_one(void *context)
{
    ((struct count *)context)->runs++;
    return 0;
}

static struct task *new_task(enum task_kind kind)
{
    struct task *task = calloc(1, sizeof *task);
    EXPECT(task != NULL);
    task->kind = kind;
    return task;
}

static void release(struct task *task)
{
    if (task->kind == TASK_RECORD)
        mark_release(task->mark);
    free(task);
}

static void reap(struct stream *stream)
{
    struct task *task;
    while ((task = stream_reap(stream)))
        release(task);
}

static void finish(struct stream *stream)
{
    struct mark *mark = mark_new();
    struct task *task = new_task(TASK_RECORD);
    task->mark = mark_hold(mark);
    EXPECT(stream_append(stream, task));
    EXPECT_EQUAL(mark_wait(mark, &linux_host, &stream->issuer_patience, 0), WAIT_ARRIVED);
    mark_release(mark);
    reap(stream);
}

static void append_count(struct stream *stream, struct count *count)
{
    struct task *task = new_task(TASK_FUNCTION);
    task->function.run = add_one;
    task->function.context = count;
    EXPECT(stream_append(stream, task));
}

static void append_wait(struct stream *stream, struct flag *never, _Atomic uint64_t *zero, bool for_flag)
{
    struct task *task = new_task(for_flag ? TASK_TAKE_FLAG : TASK_WAIT_VALUE);
    task->word.word = for_flag ? (void *)never : (void *)zero;
    task->word.value = 1;
    task->word.test = VALUE_EQ;
    EXPECT(stream_append(stream, task));
}

static struct failure *new_failure(void)
{
    struct failure *failure = calloc(1, sizeof *failure);
    EXPECT(failure != NULL);
    failure->references = 1;
    failure->how = STREAM_ABORTED;
    return failure;
}

static void one_round(struct stream *stream, struct dice *dice)
{
    struct flag never = {0};
    _Atomic uint64_t zero = 0;
    struct count before = {0}, behind = {0}, after = {0};
    uint32_t tasks = roll_below(dice, MOST_TASKS), waits = roll_below(dice, MOST_TASKS);
    for (uint32_t i = 0; i < tasks; i++)
        append_count(stream, &before);
    for (uint32_t i = 0; i < waits; i++)
        append_wait(stream, &never, &zero, roll_below(dice, 2));
    for (uint32_t i = 0; waits && i < tasks; i++)
        append_count(stream, &behind);
    stream_abort(stream, new_failure());
    append_count(stream, &after);
    finish(stream);
    EXPECT(before.runs <= tasks);
    EXPECT_EQUAL(behind.runs, 0);
    EXPECT_EQUAL(after.runs, 1);
    EXPECT(never.word == 0 || never.word == FLAG_SLEEPERS);
    struct failure *failure = stream_take_failure(stream);
    EXPECT(failure && failure->how == STREAM_ABORTED);
    failure_release(failure);
    EXPECT(!stream_take_failure(stream));
}

static _Thread_local uint64_t yields;

static void count_yield(void *context)
{
    (void)context;
    yields++;
}

static uint32_t tell_yields(void *context)
{
    *(uint64_t *)context = yields;
    return 0;
}

/* The worker gives its core away after each function: when it is asked to. */
static void test_ways_given(struct stream *stream)
{
    struct count count = {0};
    uint64_t told[2];
    stream->host.yield = count_yield; /* also of who waits: hence no yields in its patience */
    stream->patience.yields = stream->idle_patience.yields = 0;
    for (int gives_way = 0; gives_way < 2; gives_way++) {
        store_relaxed(&stream->gives_way, gives_way);
        append_count(stream, &count);
        append_count(stream, &count);
        struct task *tell = new_task(TASK_FUNCTION);
        tell->function.run = tell_yields;
        tell->function.context = &told[gives_way];
        EXPECT(stream_append(stream, tell));
        finish(stream);
    }
    EXPECT_EQUAL(told[0], 0);
    EXPECT_EQUAL(told[1], 2);
    stream->gives_way = false;
}

int main(int argc, char **argv)
{
    EXPECT_EQUAL(argc, 3);
    struct dice dice = {strtoull(argv[1], NULL, 0)};
    struct stream stream;
    EXPECT(stream_open(&stream, new_task(TASK_END)));
    stream.goes_on_after_failure = true;
    stream.patience.sleep_ns = 1000000;
    test_ways_given(&stream);
    for (uint64_t round = strtoull(argv[2], NULL, 0); round; round--)
        one_round(&stream, &dice);
    while (!stream_join(&stream, 50000000))
        ;
    reap(&stream);
    if (stream.oldest != &stream.end)
        release(stream.oldest);
    pthread_mutex_destroy(&stream.lock);
    return 0;
}
