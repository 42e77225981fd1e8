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

enum { MOST_DTYPES = 16 };

struct communicator_object {
    PyObject_HEAD
    struct communicator communicator;
    struct segment_object *segment;
    struct device_object *device;
    PyObject *scratch;
    PyThreadState *released; /* not NULL while the GIL is released */
    PyObject *error[3];      /* raised while waiting: type, value, traceback */
    bool busy, closed;
    PyObject *dtype[MOST_DTYPES]; /* compared by identity */
    uint8_t dtype_id[MOST_DTYPES];
    size_t ndtypes;
    PyObject *op[REDUCE_OP_COUNT]; /* interned names by number */
    PyObject *dtype_name, *x_name, *out_name, *op_name, *stream_name, *root_name;
};

/* Each adds its types to the module; 0, or -1 with an exception set. */
int add_segment_types(PyObject *module, struct core_module *state);
int add_device_types(PyObject *module, struct core_module *state);
int add_communicator_type(PyObject *module, struct core_module *state);

PyTypeObject *add_type(PyObject *module, PyType_Spec *spec);
/* The end of every tp_dealloc. */
void free_object(PyObject *self);
/* 0, or -1 with IndexError set. */
int check_rank(const struct segment_object *self, unsigned rank);
PyObject *line_as_tuple(PyTypeObject *type, const struct line *line, const struct note *note);

/* ---- binding_communicator.c: the calls, and what the waiting code calls back ---- */
PyObject *call_all_reduce(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
PyObject *call_broadcast(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
PyObject *call_barrier(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
PyObject *call_once(PyObject *self, PyObject *args);
PyObject *call_refuse(PyObject *self, PyObject *args);
PyObject *call_tell(PyObject *self, PyObject *args);
void communicator_releases_gil(void *object);
bool communicator_attends(void *object, uint64_t waited_ns);

#define KEYWORDS(function) ((PyCFunction)(void (*)(void))(function))

#endif
