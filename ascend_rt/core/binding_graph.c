/* Graph: tasks that are prepared once and launched as often as wanted.  Python says what they are, one after another in
 * the order of issue; a launch runs none of it. */
#include <stdlib.h>

#include "binding.h"
#include "graph.h"
#include "order.h"

struct graph_object {
    PyObject_HEAD
    struct graph *graph;
    PyObject *keeps;         /* list of what tasks point to, and of what Python has it keep */
    PyObject *communicators; /* list of those whose calls it has */
};

static const struct core_module *state_of(const struct graph_object *self)
{
    return PyType_GetModuleState(Py_TYPE((PyObject *)self));
}

/* Graph(streams, marks, keep) */
static PyObject *new_graph(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    unsigned nstreams, nmarks;
    PyObject *keep;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "IIO:Graph", &nstreams, &nmarks, &keep))
        return NULL;
    struct graph_object *self = (struct graph_object *)PyType_GenericAlloc(type, 0);
    if (self && (self->graph = graph_new(nstreams, nmarks)) && (self->keeps = PyList_New(0)) &&
        (self->communicators = PyList_New(0)) && PyList_Append(self->keeps, keep) == 0)
        return (PyObject *)self;
    Py_XDECREF((PyObject *)self);
    return PyErr_Occurred() ? NULL : PyErr_NoMemory();
}

static void release_task(struct task *task)
{
    if (task->kind == TASK_TRANSFER)
        transfer_free(task->transfer);
    if (task->kind == TASK_CALL)
        release_issue(&task->call.issue);
}

static void free_graph(PyObject *object)
{
    struct graph_object *self = (struct graph_object *)object;
    graph_free(self->graph, release_task);
    Py_XDECREF(self->keeps);
    Py_XDECREF(self->communicators);
    free_object(object);
}

/* ---- preparing ---- */

/* A task that was queued at `line`, and keeps `kept` for as long as there is the graph; NULL with an exception set. */
static struct task *add(struct graph_object *self, unsigned stream, enum task_kind kind, unsigned mark, PyObject *line,
                        PyObject *kept)
{
    if (stream >= self->graph->nstreams || (has_mark(kind) && mark >= self->graph->nmarks))
        return PyErr_Format(PyExc_ValueError, "no stream %u or no mark %u of this graph", stream, mark), NULL;
    if (PyList_Append(self->keeps, line) < 0 || PyList_Append(self->keeps, kept) < 0)
        return NULL;
    struct task *task = graph_add(self->graph, stream, kind, mark);
    if (!task)
        return PyErr_NoMemory(), NULL;
    task->keeps[KEPT - 1] = line;
    return task;
}

static PyObject *none_if(const struct task *task)
{
    return task ? Py_NewRef(Py_None) : NULL;
}

/* copy(stream, line, to, to_pitch, from, from_pitch, nbytes of a row, rows) */
static PyObject *graph_copy(PyObject *object, PyObject *args)
{
    unsigned stream;
    PyObject *line;
    unsigned long long to, from;
    Py_ssize_t to_pitch, from_pitch, nbytes, rows;
    if (!PyArg_ParseTuple(args, "IUKnKnnn:copy", &stream, &line, &to, &to_pitch, &from, &from_pitch, &nbytes, &rows))
        return NULL;
    struct task *task = add((struct graph_object *)object, stream, TASK_COPY, 0, line, Py_None);
    if (task) {
        task->memory.to = (void *)(uintptr_t)to;
        task->memory.from = (const void *)(uintptr_t)from;
        task->memory.nbytes = (size_t)nbytes;
        task->memory.rows = (size_t)rows;
        task->memory.to_pitch = (size_t)to_pitch;
        task->memory.from_pitch = (size_t)from_pitch;
    }
    return none_if(task);
}

/* fill(stream, line, to, value, nbytes) */
static PyObject *graph_fill(PyObject *object, PyObject *args)
{
    unsigned stream;
    PyObject *line;
    unsigned long long to;
    int value;
    Py_ssize_t nbytes;
    if (!PyArg_ParseTuple(args, "IUKin:fill", &stream, &line, &to, &value, &nbytes))
        return NULL;
    struct task *task = add((struct graph_object *)object, stream, TASK_FILL, 0, line, Py_None);
    if (task) {
        task->memory.to = (void *)(uintptr_t)to;
        task->memory.value = value;
        task->memory.nbytes = (size_t)nbytes;
    }
    return none_if(task);
}

/* function(stream, line, function) */
static PyObject *graph_function(PyObject *object, PyObject *args)
{
    unsigned stream;
    PyObject *line, *function;
    if (!PyArg_ParseTuple(args, "IUO:function", &stream, &line, &function))
        return NULL;
    struct task *task = add((struct graph_object *)object, stream, TASK_FUNCTION, 0, line, function);
    if (task) {
        task->function.run = call_python;
        task->function.context = function;
    }
    return none_if(task);
}

static PyObject *add_mark(PyObject *object, PyObject *args, enum task_kind kind)
{
    unsigned stream, mark;
    PyObject *line;
    if (!PyArg_ParseTuple(args, "IUI", &stream, &line, &mark))
        return NULL;
    return none_if(add((struct graph_object *)object, stream, kind, mark, line, Py_None));
}

/* record(stream, line, mark) */
static PyObject *graph_record(PyObject *object, PyObject *args)
{
    return add_mark(object, args, TASK_RECORD);
}

/* hand_over(stream, line, mark) */
static PyObject *graph_hand_over(PyObject *object, PyObject *args)
{
    return add_mark(object, args, TASK_HAND_OVER);
}

/* wait(stream, line, mark) */
static PyObject *graph_wait(PyObject *object, PyObject *args)
{
    return add_mark(object, args, TASK_WAIT);
}

/* join(stream, line, mark) */
static PyObject *graph_join(PyObject *object, PyObject *args)
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

/* call(stream, line, communicator, collective, dtype, op, root, count, in, out, split table or None)
 *     -> None, or what is missing (CALL_NO_*) */
static PyObject *graph_call(PyObject *object, PyObject *args)
{
    struct graph_object *self = (struct graph_object *)object;
    struct call call = {0};
    struct issue issue;
    unsigned stream;
    unsigned long long count;
    PyObject *line, *given, *in, *out, *rows;
    if (!PyArg_ParseTuple(args, "IUO!bbbIKOOO:call", &stream, &line, state_of(self)->communicator, &given, &call.collective,
                          &call.dtype, &call.op, &call.root, &count, &in, &out, &rows))
        return NULL;
    call.count = count;
    struct communicator_object *communicator = (struct communicator_object *)given;
    int end = prepare_call(communicator, &call, in, out, rows, &issue);
    if (end != CALL_DONE)
        return end < 0 ? NULL : PyLong_FromLong(end);
    PyObject *arrays = PyTuple_Pack(2, in, out);
    struct task *task = arrays && note_communicator(self, given) ? add(self, stream, TASK_CALL, 0, line, arrays) : NULL;
    Py_XDECREF(arrays);
    if (!task) {
        release_issue(&issue);
        return NULL;
    }
    task->call.queue = &communicator->queue;
    task->call.issue = issue;
    return Py_NewRef(Py_None);
}

/* transfer(stream, line, communicator, collective, items) -> None, or the rank for which staging is missing */
static PyObject *graph_transfer(PyObject *object, PyObject *args)
{
    struct graph_object *self = (struct graph_object *)object;
    unsigned stream, collective;
    PyObject *line, *given, *items;
    if (!PyArg_ParseTuple(args, "IUO!IO!:transfer", &stream, &line, state_of(self)->communicator, &given, &collective,
                          &PyTuple_Type, &items))
        return NULL;
    struct transfer *transfer = take_items((struct communicator_object *)given, collective, items);
    if (!transfer)
        return NULL;
    if (!transfer_prepare(transfer)) {
        PyObject *peer = PyLong_FromUnsignedLong(transfer->culprit);
        transfer_free(transfer);
        return peer;
    }
    struct task *task = note_communicator(self, given) ? add(self, stream, TASK_TRANSFER, 0, line, items) : NULL;
    if (!task) {
        transfer_free(transfer);
        return NULL;
    }
    task->transfer = transfer;
    return Py_NewRef(Py_None);
}

/* ---- launching ---- */

static const char *why_not(const struct graph_object *self)
{
    for (Py_ssize_t i = 0; i < PyList_Size(self->communicators); i++) {
        const struct communicator_object *of = (struct communicator_object *)PyList_GetItem(self->communicators, i);
        if (of->closed)
            return "a communicator of this graph was destroyed, or this process is a fork of its rank";
        if (of->busy)
            return "another thread of this rank is inside a collective of a communicator of this graph";
    }
    return NULL;
}

/* The streams, ready to be queued on; false with an exception set. */
static bool take_streams(const struct graph_object *self, PyObject *streams)
{
    if (PyTuple_Size(streams) != (Py_ssize_t)self->graph->nstreams)
        return PyErr_Format(PyExc_ValueError, "a graph of %u streams", self->graph->nstreams), false;
    for (Py_ssize_t i = 0; i < PyTuple_Size(streams); i++) {
        PyObject *stream = PyTuple_GetItem(streams, i);
        if (!PyObject_TypeCheck(stream, state_of(self)->stream))
            return PyErr_Format(PyExc_TypeError, "a graph is launched on streams"), false;
        struct stream_object *own = (struct stream_object *)stream;
        if (own->closed || !stream_start(&own->stream))
            return PyErr_Format(PyExc_RuntimeError, "a stream was destroyed, or its thread cannot be started"), false;
        drain_tasks(own); /* what an earlier launch has used can be used again */
    }
    return true;
}

/* The tasks that stand for the sequences of a launch; false with an exception set, and then there are none. */
static bool make_sequences(struct graph_object *self, struct launch *launch, PyObject *streams, struct task **tasks)
{
    PyObject *site = PyObject_CallMethod(PyTuple_GetItem(streams, 0), "_site", NULL);
    bool all = site != NULL;
    for (uint32_t i = 0; all && i < self->graph->nstreams; i++) {
        if (!launch->sequences[i].ntasks)
            continue;
        struct stream_object *stream = (struct stream_object *)PyTuple_GetItem(streams, (Py_ssize_t)i);
        tasks[i] = new_task(stream, TASK_END, site, (PyObject *)self, NULL, NULL);
        all = tasks[i] != NULL;
    }
    Py_XDECREF(site);
    for (uint32_t i = 0; !all && i < self->graph->nstreams; i++)
        if (tasks[i])
            free_task(tasks[i]);
    return all;
}

static void queue_launch(struct launch *launch, PyObject *streams, struct task **tasks)
{
    for (uint32_t i = 0; i < launch->graph->nstreams; i++) {
        if (!tasks[i])
            continue;
        tasks[i]->kind = TASK_SEQUENCE;
        tasks[i]->sequence.launch = launch;
        tasks[i]->sequence.tasks = launch->sequences[i].tasks;
        tasks[i]->sequence.ntasks = launch->sequences[i].ntasks;
        append_task((struct stream_object *)PyTuple_GetItem(streams, (Py_ssize_t)i), tasks[i]); /* it has started */
    }
}

/* launch(streams): queues all of it, or nothing. */
static PyObject *graph_launch_on(PyObject *object, PyObject *streams)
{
    struct graph_object *self = (struct graph_object *)object;
    if (!PyTuple_Check(streams))
        return PyErr_Format(PyExc_TypeError, "launch takes a tuple of streams");
    const char *wrong = why_not(self);
    if (wrong)
        return PyErr_Format(PyExc_RuntimeError, "%s", wrong);
    if (!take_streams(self, streams))
        return NULL;
    struct task **tasks = calloc(self->graph->nstreams, sizeof *tasks);
    struct launch *launch = tasks ? graph_launch(self->graph) : NULL;
    if (!launch) {
        free(tasks);
        return PyErr_NoMemory();
    }
    bool made = make_sequences(self, launch, streams, tasks);
    if (made && launch->under_way) {
        launch_issue(launch);
        queue_launch(launch, streams, tasks);
    } else {
        launch_end(launch);
    }
    free(tasks);
    return made ? Py_NewRef(Py_None) : NULL;
}

static PyObject *get_tasks(PyObject *object, void *closure)
{
    const struct graph *graph = ((struct graph_object *)object)->graph;
    unsigned long ntasks = 0;
    (void)closure;
    for (uint32_t i = 0; i < graph->nstreams; i++)
        ntasks += graph->sequences[i].ntasks;
    return PyLong_FromUnsignedLong(ntasks);
}

static PyMethodDef methods[] = {
    {"copy", graph_copy, METH_VARARGS, "Add a copy of rows of bytes."},
    {"fill", graph_fill, METH_VARARGS, "Add a fill with one byte value."},
    {"function", graph_function, METH_VARARGS, "Add a function of the program, as Stream.call takes it."},
    {"record", graph_record, METH_VARARGS, "Add the record of a mark."},
    {"hand_over", graph_hand_over, METH_VARARGS, "Add the record of a mark which takes the failure of the stream away."},
    {"wait", graph_wait, METH_VARARGS, "Add a wait for a mark."},
    {"join", graph_join, METH_VARARGS, "Add a wait for a mark that is not left out behind a failure."},
    {"call", graph_call, METH_VARARGS, "Add a collective; or say what is missing for it."},
    {"transfer", graph_transfer, METH_VARARGS, "Add sends and receives; or say for which peer staging is missing."},
    {"launch", graph_launch_on, METH_O, "Queue all of it on so many streams."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"tasks", get_tasks, NULL, "how many it has", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, new_graph},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_dealloc, free_graph},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "ascend_rt.core._core.Graph",
    .basicsize = sizeof(struct graph_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int add_graph_type(PyObject *module, struct core_module *state)
{
    state->graph = add_type(module, &spec);
    return state->graph ? 0 : -1;
}
