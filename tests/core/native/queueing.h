/* A rank that queues calls on streams: what the tests of streams and of graphs set up alike. */
#ifndef TEST_QUEUEING_H
#define TEST_QUEUEING_H

#include "slots.h"
#include "stream.h"

enum { MOST_STREAMS = 3, MOST_CALLS = 6, PIECE_NBYTES = 512 * MOST_RANKS };

struct queueing {
    struct test *test;
    uint32_t rank;
    struct arena arena;
    struct communicator communicator;
    struct call_queue queue;
    struct dice common, own;
    struct stream streams[MOST_STREAMS];
    struct slot slots[MOST_CALLS];
    uint64_t queued, reaped; /* tasks: all come back */
    /* What has to be done when a task has come back, besides freeing it and its mark; or NULL. */
    void (*over)(struct queueing *, struct task *);
};

void queueing_open(struct queueing *queueing, struct test *test, uint32_t rank);
/* Its streams are closed. */
void queueing_close(struct queueing *queueing);

void queueing_open_stream(struct queueing *queueing, uint32_t stream);
void queueing_close_stream(struct queueing *queueing, uint32_t stream);
/* Rank 0 has cancelled its streams: it closes them and leaves, and the others' end too. */
void queueing_leave(struct queueing *queueing);

struct task *queueing_task(enum task_kind kind);
void queueing_append(struct queueing *queueing, uint32_t stream, struct task *task);
/* A mark behind all that is queued on the stream; to be released. */
struct mark *queueing_record(struct queueing *queueing, uint32_t stream);
void queueing_reap(struct queueing *queueing, uint32_t stream);
/* Waits for all that is queued on a stream, which was to fail or not. */
void queueing_finish(struct queueing *queueing, uint32_t stream, bool fails);

struct drawn queueing_draw(struct queueing *queueing);
/* The call that a prepared slot is for, by the choice that was drawn. */
struct call queueing_call(struct queueing *queueing, const struct slot *slot);
/* The failure of a mismatch that every rank made in its call `bad`. */
void queueing_check_failure(struct queueing *queueing, struct failure *failure, uint32_t bad);

#endif
