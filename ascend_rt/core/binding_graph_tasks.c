/* The tasks of a Graph: Python says what they are, and may say it again of one that is there. */
#include "binding_graph.h"

/* Where a task is to be: behind the others of a stream, or in the place of one of them. */
struct target {
    unsigned stream;
    long place; /* -1: behind the others */
};

/* For "O&": a stream, or (stream, place). */
static int take_target(PyObject *object, void *result)
{
    struct target *target = result;
    target->place = -1;
    if (PyTuple_Check(object))
        return PyArg_ParseTuple(object, "Il", &target->stream, &target->place);
    target->stream = (unsigned)PyLong_AsUnsignedLong(object);
    return !PyErr_Occurred();
}

/* Whether there is such a place; otherwise an exception is set. */
static bool may_be_put(const struct graph *graph, const struct target *at, enum task_kind kind, unsigned mark)
{
    if (at->stream >= graph->nstreams || (has_mark(kind) && mark >= graph->nmarks)) {
        PyErr_Format(PyExc_ValueError, "no stream %u or no mark %u of this graph", at->stream, mark);
        return false;
    }
    const struct sequence *sequence = &graph->sequences[at->stream];
    if (at->place < 0 || (at->place < (long)sequence->ntasks && sequence->tasks[at->place].kind == kind && !has_mark(kind)))
        return true;
    PyErr_Format(PyExc_ValueError, "no task of this kind at place %ld of stream %u", at->place, at->stream);
    return false;
}

static bool put_task(struct graph *graph, const struct target *at, unsigned mark, const struct task *task)
{
    if (at->place >= 0)
        return graph_replace(graph, at->stream, (uint32_t)at->place, task);
    struct task *added = graph_add(graph, at->stream, task->kind, mark);
    if (added)
        *added = *task;
    return added != NULL;
}

/* The task was queued at `line`, and keeps `kept` for as long as it is there; false with an exception set. */
static bool put(struct graph_object *self, const struct target *at, unsigned mark, PyObject *line, PyObject *kept,
                struct task *task)
{
    if (!may_be_put(self->graph, at, task->kind, mark))
        return false;
    task->keeps[0] = Py_NewRef(kept);
    task->keeps[KEPT - 1] = Py_NewRef(line);
    if (put_task(self->graph, at, mark, task))
        return true;
    Py_DECREF(kept);
    Py_DECREF(line);
    PyErr_NoMemory();
    return false;
}

static PyObject *none_if(bool done)
{
    return done ? Py_NewRef(Py_None) : NULL;
}

/* copy(target, line, kept, to, to_pitch, from, from_pitch, nbytes of a row, rows) */
PyObject *graph_copy(PyObject *object, PyObject *args)
{
    struct target at;
    PyObject *line, *kept;
    unsigned long long to, from;
    Py_ssize_t to_pitch, from_pitch, nbytes, rows;
    if (!PyArg_ParseTuple(args, "O&UOKnKnnn:copy", take_target, &at, &line, &kept, &to, &to_pitch, &from, &from_pitch,
                          &nbytes, &rows))
        return NULL;
    struct task task = {.kind = TASK_COPY};
    task.memory.to = (void *)(uintptr_t)to;
    task.memory.from = (const void *)(uintptr_t)from;
    task.memory.nbytes = (size_t)nbytes;
    task.memory.rows = (size_t)rows;
    task.memory.to_pitch = (size_t)to_pitch;
    task.memory.from_pitch = (size_t)from_pitch;
    return none_if(put((struct graph_object *)object, &at, 0, line, kept, &task));
}

/* fill(target, line, kept, to, value, nbytes) */
PyObject *graph_fill(PyObject *object, PyObject *args)
{
    struct target at;
    PyObject *line, *kept;
    unsigned long long to;
    int value;
    Py_ssize_t nbytes;
    if (!PyArg_ParseTuple(args, "O&UOKin:fill", take_target, &at, &line, &kept, &to, &value, &nbytes))
        return NULL;
    struct task task = {.kind = TASK_FILL};
    task.memory.to = (void *)(uintptr_t)to;
    task.memory.value = value;
    task.memory.nbytes = (size_t)nbytes;
    return none_if(put((struct graph_object *)object, &at, 0, line, kept, &task));
}

/* wait_value(target, line, kept, address, value, timeout_ns) */
PyObject *graph_wait_value(PyObject *object, PyObject *args)
{
    struct target at;
    PyObject *line, *kept;
    unsigned long long address, value, timeout_ns;
    if (!PyArg_ParseTuple(args, "O&UOKKK:wait_value", take_target, &at, &line, &kept, &address, &value, &timeout_ns))
        return NULL;
    struct task task = {.kind = TASK_WAIT_VALUE};
    task.word.word = (void *)(uintptr_t)address;
    task.word.value = value;
    task.word.test = VALUE_EQ;
    task.word.timeout_ns = timeout_ns;
    return none_if(put((struct graph_object *)object, &at, 0, line, kept, &task));
}

/* function(target, line, kept, function) */
PyObject *graph_function(PyObject *object, PyObject *args)
{
    struct target at;
    PyObject *line, *kept, *function;
    if (!PyArg_ParseTuple(args, "O&UOO:function", take_target, &at, &line, &kept, &function))
        return NULL;
    struct task task = {.kind = TASK_FUNCTION};
    task.function.run = call_python;
    task.function.context = function;
    PyObject *both = PyTuple_Pack(2, function, kept);
    bool done = both && put((struct graph_object *)object, &at, 0, line, both, &task);
    Py_XDECREF(both);
    return none_if(done);
}

static PyObject *add_mark(PyObject *object, PyObject *args, enum task_kind kind)
{
    struct target at = {.place = -1};
    unsigned mark;
    PyObject *line;
    if (!PyArg_ParseTuple(args, "IUI", &at.stream, &line, &mark))
        return NULL;
    struct task task = {.kind = kind};
    return none_if(put((struct graph_object *)object, &at, mark, line, Py_None, &task));
}

/* record(stream, line, mark) */
PyObject *graph_record(PyObject *object, PyObject *args)
{
    return add_mark(object, args, TASK_RECORD);
}

/* hand_over(stream, line, mark) */
PyObject *graph_hand_over(PyObject *object, PyObject *args)
{
    return add_mark(object, args, TASK_HAND_OVER);
}

/* wait(stream, line, mark) */
PyObject *graph_wait(PyObject *object, PyObject *args)
{
    return add_mark(object, args, TASK_WAIT);
}

/* join(stream, line, mark) */
PyObject *graph_join(PyObject *object, PyObject *args)
{
    return add_mark(object, args, TASK_JOIN);
}

static bool note_communicator(struct graph_object *self, PyObject *communicator)
{
    int known = PySequence_Contains(self->communicators, communicator);
    return known > 0 || (known == 0 && PyList_Append(self->communicators, communicator) == 0);
}

/* CALL_DONE, what is missing, or -1 with an exception set. */
static int prepare_call(struct communicator_object *communicator, struct call *call, PyObject *in, PyObject *out,
                        PyObject *rows, struct issue *issue)
{
    struct operands operands;
    if (!operands_get(communicator, &operands, in, out, call))
        return -1;
    int end = -1;
    if (rows == Py_None || (call->split = take_split(communicator, rows, &operands, dtype_nbytes(call->dtype))))
        end = (int)communicator_prepare(&communicator->communicator, call, issue);
    if (end == CALL_DONE) {
        split_hold(issue->split);
        if (!own_dimensions(&issue->in) || !own_dimensions(&issue->out)) {
            release_issue(issue);
            PyErr_NoMemory();
            end = -1;
        }
    }
    split_release(call->split);
    operands_release(&operands); /* the arrays stay, and with them their memory */
    return end;
}

/* call(target, line, communicator, collective, dtype, op, root, count, in, out, split table or None)
 *     -> None, or what is missing (CALL_NO_*) */
PyObject *graph_call(PyObject *object, PyObject *args)
{
    struct graph_object *self = (struct graph_object *)object;
    struct call call = {0};
    struct task task = {.kind = TASK_CALL};
    struct target at;
    unsigned long long count;
    PyObject *line, *given, *in, *out, *rows;
    if (!PyArg_ParseTuple(args, "O&UO!bbbIKOOO:call", take_target, &at, &line, graph_module(self)->communicator, &given,
                          &call.collective, &call.dtype, &call.op, &call.root, &count, &in, &out, &rows))
        return NULL;
    call.count = count;
    struct communicator_object *communicator = (struct communicator_object *)given;
    int end = prepare_call(communicator, &call, in, out, rows, &task.call.issue);
    if (end != CALL_DONE)
        return end < 0 ? NULL : PyLong_FromLong(end);
    task.call.queue = &communicator->queue;
    PyObject *arrays = PyTuple_Pack(2, in, out);
    bool done = arrays && note_communicator(self, given) && put(self, &at, 0, line, arrays, &task);
    Py_XDECREF(arrays);
    if (!done)
        release_issue(&task.call.issue);
    return none_if(done);
}

/* transfer(target, line, communicator, collective, items) -> None, or the rank for which staging is missing */
PyObject *graph_transfer(PyObject *object, PyObject *args)
{
    struct graph_object *self = (struct graph_object *)object;
    struct target at;
    unsigned collective;
    PyObject *line, *given, *items;
    if (!PyArg_ParseTuple(args, "O&UO!IO!:transfer", take_target, &at, &line, graph_module(self)->communicator, &given,
                          &collective, &PyTuple_Type, &items))
        return NULL;
    struct transfer *transfer = take_items((struct communicator_object *)given, collective, items);
    if (!transfer)
        return NULL;
    if (!transfer_prepare(transfer)) {
        PyObject *peer = PyLong_FromUnsignedLong(transfer->culprit);
        transfer_free(transfer);
        return peer;
    }
    struct task task = {.kind = TASK_TRANSFER, .transfer = transfer};
    bool done = note_communicator(self, given) && put(self, &at, 0, line, items, &task);
    if (!done)
        transfer_free(transfer);
    return none_if(done);
}
