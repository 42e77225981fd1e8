/* Stream and Mark: queues of tasks that run without the GIL, and points in them that others can wait for. */
#include <stdlib.h>

#include "binding.h"
#include "order.h"

/* ---- Stream ---- */

/* Stream(spins, yields, sleep_ns, timeout_ns, goes_on_after_failure) */
static PyObject *new_stream(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    struct patience patience = {0};
    unsigned long long sleep_ns, timeout_ns;
    int goes_on;
    if (!PyArg_ParseTuple(args, "IIKKp:Stream", &patience.spins, &patience.yields, &sleep_ns, &timeout_ns, &goes_on))
        return NULL;
    patience.sleep_ns = sleep_ns;
    struct stream_object *self = (struct stream_object *)PyType_GenericAlloc(type, 0);
    struct task *first = calloc(1, sizeof *first);
    if (!self || !first || !(self->lasti_name = PyUnicode_InternFromString("f_lasti")) ||
        !(self->module_name = PyUnicode_InternFromString("__name__")) ||
        !(self->package = PyUnicode_InternFromString("ascend_rt.")) || !stream_open(&self->stream, first)) {
        free(first);
        Py_XDECREF((PyObject *)self);
        return PyErr_NoMemory();
    }
    *first = (struct task){.kind = TASK_END};
    self->stream.patience = self->stream.issuer_patience = patience;
    self->stream.idle_patience.spins = patience.spins;
    self->stream.host.where = task_says_where;
    self->stream.timeout_ns = timeout_ns;
    self->stream.goes_on_after_failure = goes_on;
    return (PyObject *)self;
}

/* A new mark that completes when all that was queued before is done: a reference for the caller, or NULL. */
static struct mark *record(struct stream_object *self)
{
    struct mark *mark = mark_new();
    struct task *task = mark ? task_from_python((PyObject *)self, TASK_RECORD, NULL) : NULL;
    if (task)
        task->mark = mark_hold(mark);
    if (task && append_task(self, task) == 0)
        return mark;
    mark_release(mark);
    if (!PyErr_Occurred())
        PyErr_NoMemory();
    return NULL;
}

static PyObject *stream_mark(PyObject *object, PyTypeObject *cls, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    (void)args, (void)nargs, (void)names;
    struct core_module *state = PyType_GetModuleState(cls);
    struct mark_object *mark = (struct mark_object *)PyType_GenericAlloc(state->mark, 0);
    if (mark && (mark->mark = record((struct stream_object *)object)))
        return (PyObject *)mark;
    Py_XDECREF((PyObject *)mark);
    return NULL;
}

static PyObject *stream_wait(PyObject *object, PyTypeObject *cls, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    (void)names;
    struct core_module *state = PyType_GetModuleState(cls);
    if (nargs != 1 || !PyObject_TypeCheck(args[0], state->mark))
        return PyErr_Format(PyExc_TypeError, "wait takes a Mark");
    struct task *task = task_from_python(object, TASK_WAIT, NULL);
    if (!task)
        return NULL;
    struct mark *mark = task->mark = mark_hold(((struct mark_object *)args[0])->mark);
    atomic_fetch_add_explicit(&mark->waits, 1, memory_order_relaxed);
    PyObject *none = append_returning_none(object, task);
    if (!none)
        atomic_fetch_sub_explicit(&((struct mark_object *)args[0])->mark->waits, 1, memory_order_relaxed);
    return none;
}

uint32_t call_python(void *context)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *number = PyObject_CallNoArgs(context);
    unsigned long failed = number ? PyLong_AsUnsignedLong(number) : UINT32_MAX;
    Py_XDECREF(number);
    PyErr_Clear(); /* the function catches what it raises: it returns a number for it */
    PyGILState_Release(state);
    return (uint32_t)failed;
}

/* call(function): runs on the worker, with the GIL; returns 0, or a number by which the caller knows what it raised. */
static PyObject *stream_call(PyObject *self, PyObject *function)
{
    struct task *task = task_from_python(self, TASK_FUNCTION, function);
    if (task) {
        task->function.run = call_python;
        task->function.context = function;
    }
    return append_returning_none(self, task);
}

/* finish(seconds) -> False if that was not enough; 0: for ever */
static PyObject *stream_finish(PyObject *object, PyObject *argument)
{
    struct stream_object *self = (struct stream_object *)object;
    double seconds = PyFloat_AsDouble(argument);
    if (PyErr_Occurred())
        return NULL;
    enum wait_end end = WAIT_ARRIVED;
    bool fine = true;
    if (!stream_is_idle(&self->stream)) {
        struct mark *mark = record(self);
        if (!mark)
            return NULL;
        struct gil gil = {.object = object};
        struct wait_host host = gil_host(&gil);
        end = mark_wait(mark, &host, &self->stream.issuer_patience, (uint64_t)(seconds * 1e9));
        fine = gil_take_back(&gil);
        mark_release(mark);
    }
    drain_tasks(self);
    return fine ? PyBool_FromLong(end == WAIT_ARRIVED) : NULL;
}

static PyObject *stream_failure(PyObject *object, PyObject *none)
{
    (void)none;
    struct failure *failure = stream_take_failure(&((struct stream_object *)object)->stream);
    if (!failure)
        Py_RETURN_NONE;
    const char *communicator = (const char *)atomic_load(&failure->communicator);
    if (communicator)
        call_queue_told(
            &((struct communicator_object *)(communicator - offsetof(struct communicator_object, communicator)))->queue, failure);
    PyObject *told = failure_as_tuple(failure);
    failure_release(failure);
    return told;
}

static PyObject *stream_idle(PyObject *object, PyObject *none)
{
    (void)none;
    return PyBool_FromLong(stream_is_idle(&((struct stream_object *)object)->stream));
}

static PyObject *stream_drop(PyObject *object, PyObject *none)
{
    (void)none;
    stream_cancel(&((struct stream_object *)object)->stream);
    Py_RETURN_NONE;
}

/* abort(): drops what was queued so far; the failure of the stream is then this call. */
static PyObject *stream_abort_tasks(PyObject *object, PyObject *none)
{
    struct failure *failure = calloc(1, sizeof *failure);
    struct task *here = failure ? task_from_python(object, TASK_END, NULL) : NULL;
    if (!here) {
        free(failure);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    struct stream *stream = &((struct stream_object *)object)->stream;
    here->stream = stream;
    failure->references = 1;
    failure->how = STREAM_ABORTED;
    task_says_where(here, failure->where, WHERE_NBYTES);
    free_task(here);
    stream_abort(stream, failure);
    (void)none;
    Py_RETURN_NONE;
}

static PyObject *set_event_timeout(PyObject *object, PyObject *argument)
{
    unsigned long long timeout_ns = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    store_relaxed(&((struct stream_object *)object)->stream.timeout_ns, timeout_ns);
    Py_RETURN_NONE;
}

static PyObject *set_gives_way(PyObject *object, PyObject *argument)
{
    store_relaxed(&((struct stream_object *)object)->stream.gives_way, argument == Py_True);
    Py_RETURN_NONE;
}

static PyObject *set_goes_on(PyObject *object, PyObject *argument)
{
    store_relaxed(&((struct stream_object *)object)->stream.goes_on_after_failure, argument == Py_True);
    Py_RETURN_NONE;
}

/* abandon(): in a fork, which has the stream but not its worker. */
static PyObject *stream_abandon(PyObject *object, PyObject *none)
{
    (void)none;
    struct stream_object *self = (struct stream_object *)object;
    self->stream.started = false;
    self->closed = true;
    Py_RETURN_NONE;
}

/* close(seconds) -> True once the worker has ended, when all that was appended is done */
static PyObject *stream_close(PyObject *object, PyObject *argument)
{
    struct stream_object *self = (struct stream_object *)object;
    double seconds = PyFloat_AsDouble(argument);
    if (PyErr_Occurred())
        return NULL;
    self->closed = true;
    bool ended;
    Py_BEGIN_ALLOW_THREADS
    ended = stream_join(&self->stream, (uint64_t)(seconds * 1e9));
    Py_END_ALLOW_THREADS
    if (ended)
        drain_tasks(self);
    return PyBool_FromLong(ended);
}

static PyObject *get_closed(PyObject *object, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((struct stream_object *)object)->closed);
}

static PyObject *get_calls_not_run(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLong(load_relaxed(&((struct stream_object *)object)->stream.calls_not_run));
}

static PyObject *get_late_sleeps(PyObject *object, void *closure)
{
    (void)closure;
    struct stream *stream = &((struct stream_object *)object)->stream;
    return PyLong_FromUnsignedLongLong(stream->patience.late_sleeps + stream->idle_patience.late_sleeps +
                                       stream->issuer_patience.late_sleeps);
}

/* What is still queued is dropped: a stream that nobody can synchronise any more. */
static void free_stream(PyObject *object)
{
    struct stream_object *self = (struct stream_object *)object;
    stream_cancel(&self->stream);
    bool ended;
    do {
        Py_BEGIN_ALLOW_THREADS
        ended = stream_join(&self->stream, 50000000);
        Py_END_ALLOW_THREADS
    } while (!ended);
    drain_tasks(self);
    if (self->stream.oldest != &self->stream.end)
        free(self->stream.oldest);
    Py_XDECREF(self->lasti_name);
    Py_XDECREF(self->module_name);
    Py_XDECREF(self->package);
    failure_release(self->stream.poison);
    pthread_mutex_destroy(&self->stream.lock);
    free_object(object);
}

static PyMethodDef stream_methods[] = {
    {"copy", stream_copy, METH_VARARGS, "Queue a copy of bytes."},
    {"copy_rows", stream_copy_rows, METH_VARARGS, "Queue a copy of rows of bytes."},
    {"fill", stream_fill, METH_VARARGS, "Queue a fill with one byte value."},
    {"reduce", stream_reduce, METH_VARARGS, "Queue a fold of elements into others."},
    {"set_flag", stream_set_flag, METH_VARARGS, "Queue setting a flag."},
    {"take_flag", stream_take_flag, METH_VARARGS, "Queue a wait for a flag, which is then cleared."},
    {"write_value", stream_write_value, METH_VARARGS, "Queue storing a 64-bit word."},
    {"wait_value", stream_wait_value, METH_VARARGS, "Queue a wait for a 64-bit word."},
    {"mark", KEYWORDS(stream_mark), METH_METHOD | METH_FASTCALL | METH_KEYWORDS, "Queue a Mark: complete when reached."},
    {"wait_for", KEYWORDS(stream_wait), METH_METHOD | METH_FASTCALL | METH_KEYWORDS, "Queue a wait for a Mark."},
    {"call", stream_call, METH_O, "Queue a function of the program."},
    {"finish", stream_finish, METH_O, "Wait until all that was queued is done, at most so many seconds (0: for ever)."},
    {"take_failure", stream_failure, METH_NOARGS, "What has failed, once; the stream is clean again."},
    {"is_idle", stream_idle, METH_NOARGS, "Whether all that was queued is done."},
    {"cancel", stream_drop, METH_NOARGS, "Drop what has not run."},
    {"abort", stream_abort_tasks, METH_NOARGS, "Drop what was queued so far."},
    {"set_event_timeout", set_event_timeout, METH_O, "Longest wait for an event in nanoseconds; 0: for ever."},
    {"set_gives_way", set_gives_way, METH_O, "Whether the worker gives its core away after each function."},
    {"set_goes_on_after_failure", set_goes_on, METH_O, "Whether tasks run although one before them has failed."},
    {"abandon", stream_abandon, METH_NOARGS, "In a fork, which has the stream but not its worker."},
    {"close", stream_close, METH_O, "End the worker, waiting at most so many seconds."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef stream_properties[] = {
    {"closed", get_closed, NULL, "whether it was destroyed: nothing can be queued any more", NULL},
    {"calls_not_run", get_calls_not_run, NULL, "collectives that were dropped", NULL},
    {"late_sleeps", get_late_sleeps, NULL, "sleeps that ended by time although the word had changed: must be 0", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot stream_slots[] = {
    {Py_tp_new, new_stream},
    {Py_tp_methods, stream_methods},
    {Py_tp_getset, stream_properties},
    {Py_tp_dealloc, free_stream},
    {0, NULL},
};

static PyType_Spec stream_spec = {
    .name = "ascend_rt.core._core.Stream",
    .basicsize = sizeof(struct stream_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = stream_slots,
};

/* ---- Mark ---- */

static PyObject *mark_complete(PyObject *object, PyObject *none)
{
    (void)none;
    return PyBool_FromLong(notify_reached(&((struct mark_object *)object)->mark->complete, 1));
}

/* finish(seconds) -> False if that was not enough; 0: for ever */
static PyObject *mark_synchronize(PyObject *object, PyObject *argument)
{
    double seconds = PyFloat_AsDouble(argument);
    if (PyErr_Occurred())
        return NULL;
    struct gil gil = {.object = NULL};
    struct wait_host host = gil_host(&gil);
    struct patience patience = {.spins = 0, .yields = 200, .sleep_ns = 50000000};
    enum wait_end end =
        mark_wait(((struct mark_object *)object)->mark, &host, &patience, (uint64_t)(seconds * 1e9));
    return gil_take_back(&gil) ? PyBool_FromLong(end == WAIT_ARRIVED) : NULL;
}

static PyObject *mark_failed(PyObject *object, void *closure)
{
    (void)closure;
    struct mark *mark = ((struct mark_object *)object)->mark;
    return PyBool_FromLong(notify_reached(&mark->complete, 1) && mark->failure);
}

static PyObject *mark_waits(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLong(load_acquire(&((struct mark_object *)object)->mark->waits));
}

static PyObject *mark_stamp(PyObject *object, void *closure)
{
    (void)closure;
    struct mark *mark = ((struct mark_object *)object)->mark;
    return PyLong_FromUnsignedLongLong(notify_reached(&mark->complete, 1) ? mark->stamp_ns : 0);
}

static void free_mark(PyObject *object)
{
    mark_release(((struct mark_object *)object)->mark);
    free_object(object);
}

static PyMethodDef mark_methods[] = {
    {"is_complete", mark_complete, METH_NOARGS, "Whether all that was queued before it is done."},
    {"finish", mark_synchronize, METH_O, "Wait until it is complete, at most so many seconds (0: for ever)."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef mark_properties[] = {
    {"failed", mark_failed, NULL, "whether it completed as failed", NULL},
    {"waits", mark_waits, NULL, "waits of streams for it that are not over", NULL},
    {"stamp_ns", mark_stamp, NULL, "when it completed, by the monotonic clock; 0 before", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot mark_slots[] = {
    {Py_tp_methods, mark_methods},
    {Py_tp_getset, mark_properties},
    {Py_tp_dealloc, free_mark},
    {0, NULL},
};

static PyType_Spec mark_spec = {
    .name = "ascend_rt.core._core.Mark",
    .basicsize = sizeof(struct mark_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = mark_slots,
};

int add_stream_types(PyObject *module, struct core_module *state)
{
    state->stream = add_type(module, &stream_spec);
    state->mark = add_type(module, &mark_spec);
    return state->stream && state->mark ? 0 : -1;
}
