#include "queueing.h"

#include <string.h>

#include "expect.h"
#include "order.h"

static void says_where(void *context, char *text, size_t nbytes)
{
    snprintf(text, nbytes, "call %d", ((const struct task *)context)->instruction);
}

/* ---- tasks ---- */

struct task *queueing_task(enum task_kind kind)
{
    struct task *task = calloc(1, sizeof *task);
    EXPECT(task != NULL);
    task->kind = kind;
    return task;
}

void queueing_append(struct queueing *queueing, uint32_t stream, struct task *task)
{
    EXPECT(stream_append(&queueing->streams[stream], task));
    queueing->queued++;
}

struct mark *queueing_record(struct queueing *queueing, uint32_t stream)
{
    struct mark *mark = mark_new();
    struct task *task = queueing_task(TASK_RECORD);
    task->mark = mark_hold(mark);
    queueing_append(queueing, stream, task);
    return mark;
}

static void release(struct queueing *queueing, struct task *task)
{
    if (task->kind == TASK_RECORD || task->kind == TASK_WAIT)
        mark_release(task->mark);
    if (queueing->over)
        queueing->over(queueing, task);
    free(task);
    queueing->reaped++;
}

void queueing_reap(struct queueing *queueing, uint32_t stream)
{
    struct task *task;
    while ((task = stream_reap(&queueing->streams[stream])))
        release(queueing, task);
}

void queueing_finish(struct queueing *queueing, uint32_t stream, bool fails)
{
    struct mark *mark = queueing_record(queueing, stream);
    EXPECT_EQUAL(mark_wait(mark, &linux_host, &queueing->streams[stream].issuer_patience, 0), WAIT_ARRIVED);
    EXPECT_EQUAL(mark->failure != NULL, fails);
    mark_release(mark);
    queueing_reap(queueing, stream);
}

/* ---- calls ---- */

struct drawn queueing_draw(struct queueing *queueing)
{
    struct test *test = queueing->test;
    struct drawn drawn = roll_below(&queueing->common, 3) ? draw_plan(&queueing->common, &test->plans)
                                                          : draw_payload(&queueing->common, test->size);
    drawn.count = drawn.is_exchange ? drawn.count : drawn.count % FEW;
    return drawn;
}

struct call queueing_call(struct queueing *queueing, const struct slot *slot)
{
    struct call call = {.collective = slot->drawn.collective, .dtype = slot->drawn.dtype, .op = slot->drawn.op,
                        .root = slot->drawn.root, .count = slot->drawn.count, .in = slot->in.base, .out = slot->out.base,
                        .strided_in = &slot->in.view, .strided_out = &slot->out.view};
    prefer_choice(&queueing->communicator, &call, slot->drawn.fingerprint);
    return call;
}

void queueing_check_failure(struct queueing *queueing, struct failure *failure, uint32_t bad)
{
    char where[WHERE_NBYTES];
    snprintf(where, sizeof where, "call %u", bad);
    EXPECT_EQUAL(failure->how, CALL_DIFFERS);
    for (uint32_t rank = 0; rank < queueing->test->size; rank++)
        EXPECT(!strcmp(failure->statements[rank].where, where));
    call_queue_told(&queueing->queue, failure);
}

/* ---- streams ---- */

void queueing_open_stream(struct queueing *queueing, uint32_t index)
{
    struct stream *stream = &queueing->streams[index];
    EXPECT(stream_open(stream, queueing_task(TASK_END)));
    queueing->queued++;
    stream->host.where = says_where;
    if (queueing->test->sleeps)
        stream->patience.spins = stream->patience.yields = stream->idle_patience.spins = stream->idle_patience.yields = 0;
    stream->patience.sleep_ns = stream->idle_patience.sleep_ns = stream->issuer_patience.sleep_ns = UINT64_C(20000000000);
}

void queueing_close_stream(struct queueing *queueing, uint32_t index)
{
    struct stream *stream = &queueing->streams[index];
    while (!stream_join(stream, 50000000))
        ;
    queueing_reap(queueing, index);
    if (stream->oldest != &stream->end)
        release(queueing, stream->oldest);
    EXPECT_EQUAL(stream->patience.late_sleeps + stream->idle_patience.late_sleeps + stream->issuer_patience.late_sleeps, 0);
    failure_release(stream->poison);
    pthread_mutex_destroy(&stream->lock);
}

static void close_streams(struct queueing *queueing)
{
    for (uint32_t stream = 0; stream < MOST_STREAMS; stream++)
        queueing_close_stream(queueing, stream);
}

void queueing_leave(struct queueing *queueing)
{
    close_streams(queueing);
    if (queueing->rank == 0) /* what the server of the job does then */
        store_release(&segment_rank(&queueing->test->segment, 0)->state, RANK_LEFT);
}

/* ---- a rank ---- */

void queueing_open(struct queueing *queueing, struct test *test, uint32_t rank)
{
    struct communicator *c = &queueing->communicator;
    *queueing = (struct queueing){.test = test, .rank = rank, .common = {test->seed}, .own = {test->seed + rank + 1}};
    test_open_rank(test, rank, &queueing->arena, c);
    c->piece_nbytes = PIECE_NBYTES;
    c->least_reached_nbytes = test->seed % 2; /* all buffers that are outside of device memory are reached, or none */
    c->staging_offset = test_allocate(&queueing->arena, 2 * PIECE_NBYTES);
    c->has_staging = true;
    call_queue_open(&queueing->queue, c);
    for (uint32_t i = 0; i < MOST_CALLS; i++)
        slot_open(&queueing->slots[i], &queueing->arena, rank, test->size);
    for (uint32_t stream = 0; stream < MOST_STREAMS; stream++)
        queueing_open_stream(queueing, stream);
}

void queueing_close(struct queueing *queueing)
{
    EXPECT_EQUAL(queueing->reaped, queueing->queued);
    for (uint32_t i = 0; i < MOST_CALLS; i++)
        slot_close(&queueing->slots[i]);
    call_queue_close(&queueing->queue);
    communicator_close(&queueing->communicator);
    arena_close(&queueing->arena);
}
