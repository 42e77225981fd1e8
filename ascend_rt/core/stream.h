/* A stream: tasks that run one after another on a native thread of their own, and events that tie streams together.
 *
 * The issuing side (append, record, wait, reap) is used by one thread at a time: under the GIL.  The worker blocks all
 * signals and never touches a Python reference; what a task must keep alive is released by the issuing side when it
 * reaps tasks that are done.
 *
 * A task that fails poisons its stream: later tasks are not run (unless the stream goes on after failures), events
 * recorded behind it complete as failed, and a stream that waits for one of those is poisoned by the same failure. */
#ifndef ASCEND_RT_STREAM_H
#define ASCEND_RT_STREAM_H

#include <pthread.h>

#include "flag.h"
#include "queue.h"
#include "transfer.h"
#include "value.h"

/* One recording of an event: complete when everything queued before it is.  Reference counted. */
struct mark {
    _Atomic uint32_t references;
    struct notify complete;  /* 1 when it is.  Writer: the worker that reaches it */
    struct failure *failure; /* it completed as failed; written before `complete` */
    uint64_t stamp_ns;       /* when; likewise */
    _Atomic uint32_t waits;  /* of streams, that are queued or under way.  Writers: who queues one, and the worker that ends it */
};
struct mark *mark_new(void);
struct mark *mark_hold(struct mark *mark);
void mark_release(struct mark *mark);
/* Waits until it is complete.  WAIT_TIMEOUT, WAIT_INTERRUPTED; 0 ns: for ever.
 * To wait for all of a stream, record a mark and wait for that: `done` changes with every task, and each change would
 * wake who sleeps on it. */
enum wait_end mark_wait(struct mark *mark, const struct wait_host *host, struct patience *patience, uint64_t timeout_ns);

enum task_kind {
    TASK_CALL,
    TASK_REFUSAL,
    TASK_TRANSFER,
    TASK_COPY,
    TASK_FILL,
    TASK_REDUCE,
    TASK_RECORD,
    TASK_HAND_OVER, /* a record behind which the stream is clean: who waits for the mark has the failure */
    TASK_WAIT,
    TASK_JOIN, /* a wait that is not left out behind a failure: what it waits for is a part of this stream's work */
    TASK_SET_FLAG,
    TASK_TAKE_FLAG,
    TASK_WRITE_VALUE,
    TASK_WAIT_VALUE,
    TASK_FUNCTION,
    TASK_SEQUENCE,
    TASK_END
};

enum { KEPT = 4 };

struct task {
    enum task_kind kind;
    struct task *next;
    const struct stream *stream;
    uint64_t place;    /* in the stream: the first is 1 */
    void *keeps[KEPT]; /* the issuing side's, for it to release */
    int instruction;   /* where in the code that queued it, which is one of them */
    union {
        struct {
            struct call_queue *queue;
            uint32_t ticket;
            struct issue issue; /* its dimensions, if any, and `why` are malloc'ed */
            char *why;          /* TASK_REFUSAL: what is wrong */
        } call;
        struct transfer *transfer; /* TASK_TRANSFER */
        struct {
            void *to;
            const void *from; /* TASK_COPY */
            int value;        /* TASK_FILL */
            size_t nbytes;    /* of one row; rows begin a pitch after one another */
            size_t rows, to_pitch, from_pitch;
        } memory;
        struct {
            void *to; /* folds `from` into it */
            const void *from;
            size_t count;
            reduce_function *kernel;
        } reduce;
        struct {
            void *word; /* struct flag, or a 64-bit value */
            uint64_t value, timeout_ns;
            enum value_test test;
        } word;
        struct mark *mark; /* TASK_RECORD, TASK_HAND_OVER, TASK_WAIT, TASK_JOIN */
        struct {
            /* Runs on the worker; 0, or a number by which the issuing side knows what went wrong. */
            uint32_t (*run)(void *context);
            void *context;
        } function;
        struct {
            struct launch *launch; /* graph.h */
            struct task *tasks;    /* its own on this stream, which run one after another */
            uint32_t ntasks;
        } sequence;
    };
};

struct stream {
    struct task end;               /* appended last, by stream_join */
    struct wait_host host;         /* of the worker */
    struct patience patience;
    struct patience issuer_patience;
    struct patience idle_patience;
    _Atomic uint64_t timeout_ns;   /* longest wait for an event; 0: for ever.  Writer: the issuing side */
    _Atomic bool goes_on_after_failure; /* likewise */
    _Atomic bool gives_way;        /* likewise: the worker gives its core away after each function */
    pthread_t worker;
    bool started;

    /* A list with one task at its head that is done already (or never was one).  Issuing side: oldest, newest.
     * The worker follows `next` of what it has done; the issuing side frees behind it. */
    struct task *oldest, *newest;
    struct notify appended;        /* writer: issuing side; reader: the worker */
    struct notify done;            /* writer: the worker; reader: the issuing side, which does not wait for it */
    uint32_t reaped;               /* issuing side */
    uint64_t places;               /* issuing side: tasks appended so far */
    _Atomic uint64_t aborted;      /* issuing side: tasks up to this place are dropped */
    _Atomic bool cancelled;        /* issuing side; from then on tasks are dropped */
    _Atomic uint32_t calls_not_run; /* collectives that were dropped */

    pthread_mutex_t lock;
    struct failure *poison;        /* under lock: written by the worker, taken by who synchronises */
    _Atomic bool poisoned;         /* whether there is one: for the worker, which looks before each task */
};

bool stream_open(struct stream *stream, struct task *first);
/* Starts the worker if there is none yet; false if that cannot be. */
bool stream_start(struct stream *stream);
/* Takes the task over.  False if the worker cannot be started. */
bool stream_append(struct stream *stream, struct task *task);
/* Tasks that are done, one at a time, for the issuing side to release what they keep; NULL when there are no more. */
struct task *stream_reap(struct stream *stream);
bool stream_is_idle(const struct stream *stream);
/* The failure that has poisoned the stream, which is clean again; NULL if there is none.  A reference for the caller. */
struct failure *stream_take_failure(struct stream *stream);
/* Drops what has not run and makes what runs give up; returns at once. */
void stream_cancel(struct stream *stream);
/* Drops what was appended so far, makes what runs give up, and poisons the stream with this failure (a reference that is
 * taken over); returns at once.  What is appended from here on runs. */
void stream_abort(struct stream *stream, struct failure *failure);
/* Ends the worker when its list is done; true once it has ended.  To be repeated until then. */
bool stream_join(struct stream *stream, uint64_t timeout_ns);

#endif
