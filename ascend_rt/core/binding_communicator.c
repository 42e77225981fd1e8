/* Communicator: calls that have been issued, from Python to the board or to a stream.
 *
 * Which calls come here is decided by binding_plain.c, or in Python.  The Python subclass is asked for:
 *     _fail(failure)          the call has failed on all ranks: raises
 *     _attend(seconds)        between two sleeps of a long wait
 *     _where(), _site()       the line of the program, for the others to read, and the same as (code, instruction)
 * The GIL is held through the short spin and a few yields, in which a peer that is on time arrives, and released then.
 */
#include <stdlib.h>
#include <string.h>

#include "binding.h"
#include "order.h"

bool may_begin(const struct communicator_object *self)
{
    const char *wrong = self->closed ? "this communicator was destroyed, or this process is a fork of its rank"
                        : self->busy ? "another thread of this rank is inside a collective of this communicator"
                                     : NULL;
    if (wrong)
        PyErr_SetString(PyExc_RuntimeError, wrong);
    return !wrong;
}

void communicator_says_where(void *context, char *text, size_t nbytes)
{
    struct gil *gil = context;
    bool released = gil->released != NULL;
    if (released)
        PyEval_RestoreThread(gil->released);
    PyObject *where = gil->error[0] ? NULL : PyObject_CallMethod(gil->object, "_where", NULL);
    Py_ssize_t length = 0;
    const char *words = where ? PyUnicode_AsUTF8AndSize(where, &length) : NULL;
    size_t fits = words && (size_t)length < nbytes ? (size_t)length : words ? nbytes - 1 : 0;
    memcpy(text, words ? words : "", fits);
    text[fits] = 0;
    Py_XDECREF(where);
    if (!where && !gil->error[0])
        PyErr_Clear();
    if (released)
        gil->released = PyEval_SaveThread();
}

/* ---- blocking ---- */

/* A call, the refusal of one, or a resync. */
static enum call_end run(struct communicator *c, const struct issue *issue, const char *why)
{
    if (issue->collective == COLLECTIVE_RESYNC)
        return communicator_resync(c, issue->number);
    return why ? communicator_refuse(c, issue->collective, issue->number, why) : communicator_run(c, issue);
}

/* Queued calls come first.  An interrupt meanwhile ends the communicator, or this turn might never come. */
static enum call_end run_in_turn(struct communicator_object *self, const struct issue *issue, const char *why,
                                 struct failure **failure)
{
    struct communicator *c = &self->communicator;
    struct call_queue *queue = &self->queue;
    struct wait_host host = gil_host(&self->gil);
    uint32_t ticket = call_queue_take_ticket(queue);
    bool interrupted = false;
    while (!call_queue_wait(queue, ticket, &host, &c->waiter.patience)) {
        interrupted = true;
        board_raise_abort(c->board, ABORT_INTERRUPT, c->members[c->rank], c->members[c->rank] + 1);
    }
    enum call_end end = CALL_ABORTED;
    if (issue->collective == COLLECTIVE_RESYNC)
        call_queue_resync(queue, issue->number);
    *failure = interrupted ? NULL : call_queue_skips(queue, issue->number);
    if (*failure) {
        call_queue_told(queue, *failure);
        end = (*failure)->how;
    } else if (!interrupted) {
        end = run(c, issue, why);
        *failure = end == CALL_DONE ? NULL : failure_hold(c->failure);
    }
    call_queue_pass(queue, ticket, &host);
    return end;
}

/* How the call ended, or -1 with an exception set; *failure is for the caller to release. */
static int run_blocking(struct communicator_object *self, const struct issue *issue, const char *why, struct failure **failure)
{
    struct communicator *c = &self->communicator;
    enum call_end end;
    *failure = NULL;
    self->busy = true;
    if (call_queue_is_idle(&self->queue)) {
        end = run(c, issue, why);
        if (end != CALL_DONE)
            *failure = failure_hold(c->failure);
    } else {
        end = run_in_turn(self, issue, why, failure);
    }
    self->busy = false;
    return gil_take_back(&self->gil) ? (int)end : -1;
}

/* ---- queued ---- */

bool own_dimensions(struct view *view)
{
    if (!view->ndim)
        return true;
    struct dimensions *own = malloc(sizeof *own);
    if (own)
        *own = *view->dimensions;
    view->ndim = own ? view->ndim : 0;
    view->dimensions = own;
    return own != NULL;
}

static int queue_call(struct communicator_object *self, const struct issue *issue, const char *why, PyObject *site,
                      PyObject *stream, PyObject *in, PyObject *out)
{
    struct task *task = new_task((struct stream_object *)stream, why ? TASK_REFUSAL : TASK_CALL, site, (PyObject *)self, in, out);
    if (!task)
        return -1;
    task->call.queue = &self->queue;
    task->call.issue = *issue;
    split_hold(issue->split);
    if (!own_dimensions(&task->call.issue.in) || !own_dimensions(&task->call.issue.out))
        task->kind = TASK_REFUSAL, why = "no memory for the shape of the array";
    task->call.why = why ? malloc(strlen(why) + 1) : NULL;
    if (task->call.why)
        strcpy(task->call.why, why);
    task->call.ticket = call_queue_take_ticket(&self->queue);
    return append_task((struct stream_object *)stream, task);
}

/* ---- both ---- */

bool is_stream(const struct communicator_object *self, PyObject *stream)
{
    return PyObject_TypeCheck(stream, self->stream_type) && !((struct stream_object *)stream)->closed;
}

bool takes_stream(const struct communicator_object *self, PyObject *given, PyObject **stream)
{
    *stream = given && given != Py_None ? given : NULL;
    return !*stream || is_stream(self, *stream);
}

PyObject *raise_failure(struct communicator_object *self, struct failure *failure)
{
    PyObject *told = failure ? failure_as_tuple(failure) : PyErr_NoMemory();
    failure_release(failure);
    if (!told)
        return NULL;
    PyObject *none = PyObject_CallMethod((PyObject *)self, "_fail", "(O)", told);
    Py_DECREF(told);
    return none;
}

PyObject *submit(struct communicator_object *self, const struct issue *issue, const char *why, PyObject *site,
                        PyObject *stream, PyObject *in, PyObject *out)
{
    if (stream && !stream_start(&((struct stream_object *)stream)->stream))
        stream = NULL, why = why ? why : "the thread of its stream cannot be started";
    if (stream)
        return queue_call(self, issue, why, site, stream, in, out) < 0 ? NULL : Py_NewRef(out);
    struct failure *failure;
    int end = run_blocking(self, issue, why, &failure);
    if (end == CALL_DONE)
        return Py_NewRef(out);
    if (end >= 0)
        return raise_failure(self, failure);
    failure_release(failure);
    return NULL;
}

struct split *take_split(const struct communicator_object *self, PyObject *rows, const struct operands *operands,
                         size_t item_nbytes)
{
    const char *bytes = NULL;
    Py_ssize_t nbytes = 0;
    if (PyBytes_AsStringAndSize(rows, (char **)&bytes, &nbytes) < 0)
        return NULL;
    if ((uint64_t)nbytes != SPLIT_NBYTES(self->communicator.size))
        return PyErr_Format(PyExc_ValueError, "a split table of %zd bytes", nbytes), NULL;
    struct split *split = malloc(sizeof *split + (size_t)nbytes);
    if (!split)
        return PyErr_NoMemory(), NULL;
    atomic_init(&split->references, 1);
    const Py_buffer *in = operands->in_object == operands->out_object ? &operands->out : &operands->in;
    split->in_count = (uint64_t)in->len / item_nbytes;
    split->out_count = (uint64_t)operands->out.len / item_nbytes;
    memcpy(split->rows, bytes, (size_t)nbytes);
    return split;
}

/* _call(collective, dtype, op, root, count, in, out, stream, split table or None) -> None when done or queued, or what is
 * missing (CALL_NO_*). */
PyObject *call_once(PyObject *object, PyObject *args)
{
    struct communicator_object *self = (struct communicator_object *)object;
    struct call call = {0};
    unsigned long long count;
    PyObject *in, *out, *given, *stream, *rows = Py_None;
    if (!PyArg_ParseTuple(args, "bbbIKOOO|O:_call", &call.collective, &call.dtype, &call.op, &call.root, &count, &in, &out,
                          &given, &rows) ||
        !may_begin(self))
        return NULL;
    if (!takes_stream(self, given, &stream))
        return PyErr_Format(PyExc_TypeError, "stream is no Stream");
    struct operands operands;
    struct issue issue;
    call.count = count;
    if (!operands_get(self, &operands, in, out, &call))
        return NULL;
    if (rows != Py_None && !(call.split = take_split(self, rows, &operands, dtype_nbytes(call.dtype)))) {
        operands_release(&operands);
        return NULL;
    }
    enum call_end end = communicator_issue(&self->communicator, &call, &issue);
    PyObject *site = end == CALL_DONE && stream ? PyObject_CallMethod(object, "_site", NULL) : NULL;
    PyObject *done = end == CALL_DONE && (site || !stream) ? submit(self, &issue, NULL, site, stream, in, out) : NULL;
    Py_XDECREF(site);
    operands_release(&operands);
    split_release(call.split);
    if (end != CALL_DONE)
        return PyLong_FromLong(end);
    Py_XDECREF(done);
    return done ? Py_NewRef(Py_None) : NULL;
}

/* _refuse(collective, why, stream): takes part in the round of a call whose arguments are wrong; raises, or is queued. */
PyObject *call_refuse(PyObject *object, PyObject *args)
{
    struct communicator_object *self = (struct communicator_object *)object;
    struct issue issue = {0};
    const char *why;
    PyObject *given, *stream;
    if (!PyArg_ParseTuple(args, "bsO:_refuse", &issue.collective, &why, &given) || !may_begin(self))
        return NULL;
    if (!takes_stream(self, given, &stream))
        stream = NULL;
    PyObject *site = PyObject_CallMethod(object, "_site", NULL);
    if (!site)
        return NULL;
    issue.number = communicator_take_number(&self->communicator);
    PyObject *done = submit(self, &issue, why, site, stream, Py_None, Py_None);
    Py_DECREF(site);
    return done;
}

/* _defer(whether every call is handed to Python) */
PyObject *defer_calls(PyObject *object, PyObject *deferred)
{
    ((struct communicator_object *)object)->defers = deferred == Py_True;
    Py_RETURN_NONE;
}

PyObject *call_resync(PyObject *object, PyObject *none)
{
    struct communicator_object *self = (struct communicator_object *)object;
    (void)none;
    if (!may_begin(self))
        return NULL;
    struct issue issue = {.collective = COLLECTIVE_RESYNC, .number = communicator_take_number(&self->communicator)};
    return submit(self, &issue, NULL, NULL, NULL, Py_None, Py_None);
}
