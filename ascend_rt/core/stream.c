#define _GNU_SOURCE
#include "stream.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "order.h"

/* ---- the worker ---- */

static void poison(struct stream *stream, struct failure *failure)
{
    pthread_mutex_lock(&stream->lock);
    if (stream->poison)
        failure_release(failure);
    else
        stream->poison = failure;
    store_release(&stream->poisoned, true);
    pthread_mutex_unlock(&stream->lock);
}

/* A reference, or NULL. */
static struct failure *poison_of(struct stream *stream)
{
    if (!load_acquire(&stream->poisoned))
        return NULL;
    pthread_mutex_lock(&stream->lock);
    struct failure *failure = failure_hold(stream->poison);
    pthread_mutex_unlock(&stream->lock);
    return failure;
}

static bool is_dropped(const struct task *task)
{
    return load_acquire(&task->stream->cancelled) || task->place <= load_acquire(&task->stream->aborted);
}

enum { WHY_NBYTES = 2 * WHERE_NBYTES };

/* Nobody is left waiting for a call whose stream has failed for another reason: the others are told this. */
static void say_why(char why[WHY_NBYTES], const struct failure *poisoned)
{
    snprintf(why, WHY_NBYTES, "its stream failed before, in what was queued at %s", poisoned->where);
}

static enum call_end refuse_after(struct communicator *c, const struct task *task, const struct failure *poisoned)
{
    char why[WHY_NBYTES];
    say_why(why, poisoned);
    return communicator_refuse(c, task->call.issue.collective, task->call.issue.number, why);
}

static struct failure *run_in_turn(struct stream *stream, struct task *task, struct failure *poisoned)
{
    struct call_queue *queue = task->call.queue;
    struct communicator *c = queue->communicator;
    uint32_t number = task->call.issue.number;
    struct failure *skips = call_queue_skips(queue, number);
    if (skips)
        return skips;
    struct wait_host blocking = c->waiter.host;
    c->waiter.host = stream->host;
    c->waiter.host.context = task;
    enum call_end end = CALL_DONE;
    if (task->kind == TASK_REFUSAL)
        end = communicator_refuse(c, task->call.issue.collective, number, task->call.why ? task->call.why : "");
    else if (poisoned)
        end = refuse_after(c, task, poisoned);
    else
        end = communicator_run(c, &task->call.issue);
    c->waiter.host = blocking;
    if (end == CALL_DIFFERS)
        call_queue_disagree(queue, c->failure, poisoned);
    return end == CALL_DONE ? NULL : failure_hold(c->failure);
}

static struct failure *run_call(struct stream *stream, struct task *task, struct failure *poisoned)
{
    struct call_queue *queue = task->call.queue;
    struct wait_host host = stream->host;
    host.attend = NULL; /* a turn is waited for even by who is cancelled: it has to be passed on */
    call_queue_wait(queue, task->call.ticket, &host, &stream->patience);
    struct failure *failure = NULL;
    bool dropped = is_dropped(task);
    if (!dropped)
        failure = run_in_turn(stream, task, poisoned);
    /* What stream_abort drops, the program has chosen to drop. */
    if ((dropped || failure) && load_acquire(&stream->cancelled))
        atomic_fetch_add_explicit(&stream->calls_not_run, 1, memory_order_relaxed);
    call_queue_pass(queue, task->call.ticket, &host);
    return failure;
}

static struct failure *run_transfer(struct stream *stream, struct task *task, struct failure *poisoned)
{
    struct wait_host host = stream->host;
    struct failure *failure = NULL;
    host.context = task;
    if (is_dropped(task)) {
        host.attend = NULL; /* as in run_call */
        transfer_drop(task->transfer, &host, &stream->patience);
        atomic_fetch_add_explicit(&stream->calls_not_run, 1, memory_order_relaxed);
        return NULL;
    }
    if (poisoned && !task->transfer->refused) {
        char why[WHY_NBYTES];
        say_why(why, poisoned);
        transfer_refuse(task->transfer, why);
    }
    transfer_run(task->transfer, &host, &stream->patience, &failure);
    if (failure && is_dropped(task))
        atomic_fetch_add_explicit(&stream->calls_not_run, 1, memory_order_relaxed);
    return failure;
}

static enum wait_end look_at_the_clock(void *context, uint64_t since_ns, uint64_t waited_ns)
{
    const struct stream *stream = context;
    (void)since_ns;
    uint64_t timeout_ns = load_relaxed(&stream->timeout_ns);
    return timeout_ns && waited_ns >= timeout_ns ? WAIT_TIMEOUT : WAIT_ARRIVED;
}

static bool worker_attends(void *context, uint64_t waited_ns)
{
    (void)waited_ns;
    return !is_dropped(context);
}

/* The failure of a task that is no call. */
static struct failure *failure_of(struct task *task, enum call_end how, uint32_t number)
{
    struct failure *failure = calloc(1, sizeof *failure);
    if (failure) {
        failure->references = 1;
        failure->how = how;
        failure->number = number;
        if (task->stream->host.where)
            task->stream->host.where(task, failure->where, WHERE_NBYTES);
    }
    return failure;
}

static struct failure *wait_for_mark(struct stream *stream, struct task *task)
{
    struct wait_host host = stream->host;
    host.context = task;
    enum wait_end end = notify_wait(&host, &stream->patience, &task->mark->complete, 1, look_at_the_clock, stream);
    if (end == WAIT_TIMEOUT)
        return failure_of(task, EVENT_LATE, 0);
    return end == WAIT_ARRIVED ? failure_hold(task->mark->failure) : NULL;
}

static struct failure *wait_for_word(struct stream *stream, struct task *task)
{
    struct wait_host host = stream->host;
    host.context = task;
    uint64_t timeout_ns = task->word.timeout_ns;
    enum wait_end end;
    if (task->kind == TASK_TAKE_FLAG)
        end = flag_take(&host, &stream->patience, task->word.word, timeout_ns);
    else
        end = value_wait(&host, &stream->patience, task->word.word, task->word.test, task->word.value, timeout_ns);
    return end == WAIT_TIMEOUT ? failure_of(task, WORD_LATE, task->kind == TASK_WAIT_VALUE) : NULL;
}

static void copy_rows(const struct task *task)
{
    for (size_t row = 0; row < task->memory.rows; row++)
        memmove((char *)task->memory.to + row * task->memory.to_pitch,
                (const char *)task->memory.from + row * task->memory.from_pitch, task->memory.nbytes);
}

static void fold(const struct task *task)
{
    void *const to[] = {task->reduce.to};
    const void *const from[] = {task->reduce.to, task->reduce.from};
    task->reduce.kernel(to, 1, from, 2, task->reduce.count, 1);
}

/* Takes the reference over. */
static void complete_mark(struct stream *stream, struct mark *mark, struct failure *failure)
{
    mark->failure = failure;
    mark->stamp_ns = stream->host.now_ns(NULL);
    notify_post(&stream->host, &mark->complete, 1);
}

/* A task that is no call and touches no event. */
static struct failure *run_work(struct stream *stream, struct task *task)
{
    uint32_t wrong;
    switch (task->kind) {
    case TASK_COPY:
        copy_rows(task);
        return NULL;
    case TASK_FILL:
        memset(task->memory.to, task->memory.value, task->memory.nbytes);
        return NULL;
    case TASK_REDUCE:
        fold(task);
        return NULL;
    case TASK_SET_FLAG:
        flag_set(&stream->host, task->word.word);
        return NULL;
    case TASK_WRITE_VALUE:
        value_write(&stream->host, task->word.word, task->word.value);
        return NULL;
    case TASK_TAKE_FLAG:
    case TASK_WAIT_VALUE:
        return wait_for_word(stream, task);
    case TASK_FUNCTION:
        wrong = task->function.run(task->function.context);
        if (load_relaxed(&stream->gives_way))
            stream->host.yield(stream->host.context);
        return wrong ? failure_of(task, FUNCTION_FAILED, wrong) : NULL;
    default:
        return NULL;
    }
}

/* A failure of this task, or NULL.  `poisoned` is what failed before it on a stream that stops then. */
static struct failure *run_task(struct stream *stream, struct task *task, struct failure *poisoned)
{
    bool runs = !poisoned && !is_dropped(task);
    struct failure *failure = NULL;
    switch (task->kind) {
    case TASK_CALL:
    case TASK_REFUSAL:
        return run_call(stream, task, poisoned);
    case TASK_TRANSFER:
        return run_transfer(stream, task, poisoned);
    case TASK_RECORD:
        complete_mark(stream, task->mark, is_dropped(task) ? poison_of(stream) : failure_hold(poisoned));
        return NULL;
    case TASK_HAND_OVER: /* also what failed on a stream that goes on */
        complete_mark(stream, task->mark, stream_take_failure(stream));
        return NULL;
    case TASK_WAIT:
    case TASK_JOIN:
        failure = runs || (task->kind == TASK_JOIN && !is_dropped(task)) ? wait_for_mark(stream, task) : NULL;
        atomic_fetch_sub_explicit(&task->mark->waits, 1, memory_order_release);
        return failure;
    default:
        return runs ? run_work(stream, task) : NULL;
    }
}

static enum wait_end look_at_nothing(void *context, uint64_t since_ns, uint64_t waited_ns)
{
    (void)context, (void)since_ns, (void)waited_ns;
    return WAIT_ARRIVED;
}

/* One task; what fails in it poisons the stream. */
static void do_task(struct stream *stream, struct task *task)
{
    struct failure *before = poison_of(stream);
    struct failure *failure = run_task(stream, task, load_relaxed(&stream->goes_on_after_failure) ? NULL : before);
    failure_release(before);
    if (failure)
        poison(stream, failure);
}

/* The tasks of a launch stand where the sequence does. */
static void do_sequence(struct stream *stream, const struct task *sequence)
{
    for (uint32_t i = 0; i < sequence->sequence.ntasks; i++) {
        struct task *task = &sequence->sequence.tasks[i];
        task->stream = stream;
        task->place = sequence->place;
        do_task(stream, task);
    }
}

static void *work(void *context)
{
    struct stream *stream = context;
    struct task *latest = stream->oldest; /* done already */
    struct wait_host host = stream->host;
    host.attend = NULL;
    for (uint32_t number = 1;; number++) {
        notify_wait(&host, &stream->idle_patience, &stream->appended, number, look_at_nothing, NULL);
        latest = latest->next;
        if (latest->kind == TASK_END)
            return NULL;
        if (latest->kind == TASK_SEQUENCE)
            do_sequence(stream, latest);
        else
            do_task(stream, latest);
        notify_post(&host, &stream->done, number);
    }
}

/* ---- the issuing side ---- */

bool stream_open(struct stream *stream, struct task *first)
{
    *stream = (struct stream){.host = linux_host, .oldest = first, .newest = first, .end = {.kind = TASK_END}};
    stream->host.attend = worker_attends;
    stream->patience = (struct patience){.spins = 100, .yields = 200, .sleep_ns = 50000000};
    stream->issuer_patience = stream->patience;
    stream->idle_patience = (struct patience){.spins = 100, .yields = 20, .sleep_ns = 1000000000};
    return pthread_mutex_init(&stream->lock, NULL) == 0;
}

bool stream_start(struct stream *stream)
{
    if (stream->started)
        return true;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    stream->started = pthread_create(&stream->worker, NULL, work, stream) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return stream->started;
}

bool stream_append(struct stream *stream, struct task *task)
{
    if (!stream_start(stream))
        return false;
    task->next = NULL;
    task->stream = stream;
    task->place = ++stream->places;
    stream->newest->next = task;
    stream->newest = task;
    notify_post(&stream->host, &stream->appended, notify_number(&stream->appended) + 1);
    return true;
}

struct task *stream_reap(struct stream *stream)
{
    /* The task done last stays: the worker looks at its `next`. */
    if (stream->oldest == stream->newest || !notify_reached(&stream->done, stream->reaped + 1))
        return NULL;
    struct task *task = stream->oldest;
    stream->oldest = task->next;
    stream->reaped++;
    return task;
}

bool stream_is_idle(const struct stream *stream)
{
    return notify_reached(&stream->done, notify_number(&stream->appended));
}

struct failure *stream_take_failure(struct stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    struct failure *failure = stream->poison;
    stream->poison = NULL;
    store_release(&stream->poisoned, false);
    pthread_mutex_unlock(&stream->lock);
    return failure;
}

void stream_cancel(struct stream *stream) { store_release(&stream->cancelled, true); }

void stream_abort(struct stream *stream, struct failure *failure)
{
    poison(stream, failure);
    store_release(&stream->aborted, stream->places);
}

bool stream_join(struct stream *stream, uint64_t timeout_ns)
{
    if (!stream->started)
        return true;
    if (stream->newest != &stream->end)
        stream_append(stream, &stream->end);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t at = (uint64_t)until.tv_nsec + timeout_ns;
    until.tv_sec += (time_t)(at / 1000000000u);
    until.tv_nsec = (long)(at % 1000000000u);
    if (pthread_timedjoin_np(stream->worker, NULL, &until) != 0)
        return false;
    stream->started = false;
    return true;
}
