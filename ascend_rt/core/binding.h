/* The only files that know Python: binding*.c.  They turn objects into the structs of the core and back, and hold
 * or release the GIL; what to do is decided in Python, and how is done by the rest of the core. */
#ifndef ASCEND_RT_BINDING_H
#define ASCEND_RT_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "arena.h"
#include "communicator.h"
#include "segment.h"

struct core_module {
    PyTypeObject *segment, *device, *block, *communicator, *rank_line, *line;
};

struct segment_object {
    PyObject_HEAD
    struct segment segment;
};

struct device_object {
    PyObject_HEAD
    struct segment_object *segment;
    struct arena arena;
};

/* Each adds its types to the module; 0, or -1 with an exception set. */
int add_memory_types(PyObject *module, struct core_module *state);
int add_communicator_type(PyObject *module, struct core_module *state);

PyTypeObject *add_type(PyObject *module, PyType_Spec *spec);
PyObject *line_as_tuple(PyTypeObject *type, const struct line *line, const struct note *note);

#endif
