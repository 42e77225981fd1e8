/* Graph: tasks that are prepared once and launched as often as wanted.  Python says what they are, one after another in
 * the order of issue; a launch runs none of it.  A task may be replaced by one of its kind between launches. */
#include <stdlib.h>

#include "binding_graph.h"

/* The graph's own tasks have references to what they point to and to their line; those of a launch borrow them. */
static void release_task(struct task *task)
{
    if (task->kind == TASK_TRANSFER)
        transfer_free(task->transfer);
    if (task->kind == TASK_CALL)
        release_issue(&task->call.issue);
    Py_XDECREF((PyObject *)task->keeps[0]);
    Py_XDECREF((PyObject *)task->keeps[KEPT - 1]);
}

/* Graph(streams, marks) */
static PyObject *new_graph(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    unsigned nstreams, nmarks;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "II:Graph", &nstreams, &nmarks))
        return NULL;
    struct graph_object *self = (struct graph_object *)PyType_GenericAlloc(type, 0);
    if (self && (self->graph = graph_new(nstreams, nmarks, release_task)) && (self->communicators = PyList_New(0)))
        return (PyObject *)self;
    Py_XDECREF((PyObject *)self);
    return PyErr_Occurred() ? NULL : PyErr_NoMemory();
}

static void free_graph(PyObject *object)
{
    struct graph_object *self = (struct graph_object *)object;
    graph_free(self->graph);
    Py_XDECREF(self->communicators);
    free_object(object);
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
        if (!PyObject_TypeCheck(stream, graph_module(self)->stream))
            return PyErr_Format(PyExc_TypeError, "a graph is launched on streams"), false;
        struct stream_object *own = (struct stream_object *)stream;
        if (own->closed || !stream_start(&own->stream))
            return PyErr_Format(PyExc_RuntimeError, "a stream was destroyed, or its thread cannot be started"), false;
        drain_tasks(own); /* what an earlier launch has used can be used again */
    }
    return true;
}

/* The tasks that stand for the sequences of a launch; false with an exception set, and then there are none. */
static bool make_sequences(struct graph_object *self, struct launch *launch, PyObject *streams, PyObject *keep,
                           struct task **tasks)
{
    PyObject *site = PyObject_CallMethod(PyTuple_GetItem(streams, 0), "_site", NULL);
    bool all = site != NULL;
    for (uint32_t i = 0; all && i < self->graph->nstreams; i++) {
        if (!launch->sequences[i].ntasks)
            continue;
        struct stream_object *stream = (struct stream_object *)PyTuple_GetItem(streams, (Py_ssize_t)i);
        tasks[i] = new_task(stream, TASK_END, site, (PyObject *)self, keep, NULL);
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

/* launch(streams, keep): queues all of it, which keeps `keep` alive until it is over, or nothing. */
static PyObject *graph_launch_on(PyObject *object, PyObject *args)
{
    struct graph_object *self = (struct graph_object *)object;
    PyObject *streams, *keep;
    if (!PyArg_ParseTuple(args, "O!O:launch", &PyTuple_Type, &streams, &keep))
        return NULL;
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
    bool made = make_sequences(self, launch, streams, keep, tasks);
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

/* length(stream): how many tasks it has; the place of the next. */
static PyObject *get_length(PyObject *object, PyObject *number)
{
    const struct graph *graph = ((struct graph_object *)object)->graph;
    unsigned long stream = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return NULL;
    if (stream >= graph->nstreams)
        return PyErr_Format(PyExc_ValueError, "no stream %lu of this graph", stream);
    return PyLong_FromUnsignedLong(graph->sequences[stream].ntasks);
}

/* is_under_way(streams): whether a launch on some of these streams is not over. */
static PyObject *is_under_way(PyObject *object, PyObject *streams)
{
    const struct graph_object *self = (struct graph_object *)object;
    if (!PyTuple_Check(streams))
        return PyErr_Format(PyExc_TypeError, "is_under_way takes a tuple of streams");
    for (Py_ssize_t i = 0; i < PyTuple_Size(streams); i++) {
        PyObject *stream = PyTuple_GetItem(streams, i);
        if (PyObject_TypeCheck(stream, graph_module(self)->stream))
            drain_tasks((struct stream_object *)stream);
    }
    return PyBool_FromLong(self->graph->launches > 0);
}

static PyMethodDef methods[] = {
    {"copy", graph_copy, METH_VARARGS, "Add a copy of rows of bytes."},
    {"fill", graph_fill, METH_VARARGS, "Add a fill with one byte value."},
    {"wait_value", graph_wait_value, METH_VARARGS, "Add a wait until a 64-bit word has a value."},
    {"function", graph_function, METH_VARARGS, "Add a function of the program, as Stream.call takes it."},
    {"record", graph_record, METH_VARARGS, "Add the record of a mark."},
    {"hand_over", graph_hand_over, METH_VARARGS, "Add the record of a mark which takes the failure of the stream away."},
    {"wait", graph_wait, METH_VARARGS, "Add a wait for a mark."},
    {"join", graph_join, METH_VARARGS, "Add a wait for a mark that is not left out behind a failure."},
    {"call", graph_call, METH_VARARGS, "Add a collective; or say what is missing for it."},
    {"transfer", graph_transfer, METH_VARARGS, "Add sends and receives; or say for which peer staging is missing."},
    {"length", get_length, METH_O, "How many tasks a stream has."},
    {"is_under_way", is_under_way, METH_O, "Whether a launch on these streams is not over."},
    {"launch", graph_launch_on, METH_VARARGS, "Queue all of it on so many streams."},
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
