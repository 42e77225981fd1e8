/* Graph of Python: binding_graph.c has the type and its launches, binding_graph_tasks.c what adds and replaces tasks. */
#ifndef ASCEND_RT_BINDING_GRAPH_H
#define ASCEND_RT_BINDING_GRAPH_H

#include "binding.h"
#include "graph.h"

struct graph_object {
    PyObject_HEAD
    struct graph *graph;
    PyObject *communicators; /* list of those whose calls it has */
};

static inline const struct core_module *graph_module(const struct graph_object *self)
{
    return PyType_GetModuleState(Py_TYPE((PyObject *)self));
}

/* Methods of Graph. */
PyObject *graph_copy(PyObject *graph, PyObject *args);
PyObject *graph_fill(PyObject *graph, PyObject *args);
PyObject *graph_wait_value(PyObject *graph, PyObject *args);
PyObject *graph_function(PyObject *graph, PyObject *args);
PyObject *graph_record(PyObject *graph, PyObject *args);
PyObject *graph_hand_over(PyObject *graph, PyObject *args);
PyObject *graph_wait(PyObject *graph, PyObject *args);
PyObject *graph_join(PyObject *graph, PyObject *args);
PyObject *graph_call(PyObject *graph, PyObject *args);
PyObject *graph_transfer(PyObject *graph, PyObject *args);

#endif
