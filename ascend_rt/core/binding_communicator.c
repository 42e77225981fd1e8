/* Communicator: the hot path from Python to the board.
 *
 * A collective that is called as it always is (known dtype, contiguous device memory, a choice already made) never
 * leaves this file.  Everything else is handed to the Python subclass:
 *     _all_reduce(x, out, op, stream), _broadcast(x, root, stream)   arguments that are not plainly right
 *     _fail(end)                                                    the call failed on all ranks: raises
 *     _attend(seconds, differs, quiescing)                          between two sleeps of a long wait
 * The GIL is held through the short spin, in which a peer that is on time arrives, and released before the first yield.
 */
#include "binding.h"

enum { OPS = REDUCE_OP_COUNT };

/* ---- what the waiting code calls back ---- */

void communicator_releases_gil(void *context)
{
    struct communicator_object *self = context;
    if (!self->released)
        self->released = PyEval_SaveThread();
}

bool communicator_attends(void *context, uint64_t waited_ns)
{
    struct communicator_object *self = context;
    struct communicator *c = &self->communicator;
    PyEval_RestoreThread(self->released);
    if (!self->error[0] && PyErr_CheckSignals() == 0) {
        PyObject *none = PyObject_CallMethod((PyObject *)self, "_attend", "dii", (double)waited_ns * 1e-9, (int)c->differs,
                                             (int)c->quiescing);
        Py_XDECREF(none);
    }
    if (PyErr_Occurred())
        PyErr_Fetch(&self->error[0], &self->error[1], &self->error[2]);
    self->released = PyEval_SaveThread();
    return !self->error[0];
}

/* ---- one call ---- */

static bool begin(struct communicator_object *self)
{
    const char *wrong = self->closed ? "this communicator was destroyed, or this process is a fork of its rank"
                        : self->busy ? "another thread of this rank is inside a collective of this communicator"
                                     : NULL;
    if (wrong)
        PyErr_SetString(PyExc_RuntimeError, wrong);
    self->busy = !wrong || self->busy;
    return !wrong;
}

/* False if an exception was raised while the call waited. */
static bool end(struct communicator_object *self)
{
    if (self->released) {
        PyEval_RestoreThread(self->released);
        self->released = NULL;
    }
    self->busy = false;
    if (!self->error[0])
        return true;
    PyErr_Restore(self->error[0], self->error[1], self->error[2]);
    self->error[0] = self->error[1] = self->error[2] = NULL;
    return false;
}

static bool buffers_of(PyObject *in, PyObject *out, Py_buffer *in_view, Py_buffer *out_view)
{
    if (PyObject_GetBuffer(out, out_view, PyBUF_WRITABLE) < 0)
        return false;
    if (in == out || PyObject_GetBuffer(in, in_view, PyBUF_SIMPLE) == 0)
        return true;
    PyBuffer_Release(out_view);
    return false;
}

static void release_buffers(PyObject *in, PyObject *out, Py_buffer *in_view, Py_buffer *out_view)
{
    if (in != out)
        PyBuffer_Release(in_view);
    PyBuffer_Release(out_view);
}

/* HcclDataType of an array, or -1; compares dtype objects by identity, so equal but distinct ones take the slow path. */
static int dtype_of(struct communicator_object *self, PyObject *array)
{
    PyObject *dtype = PyObject_GetAttr(array, self->dtype_name);
    if (!dtype) {
        PyErr_Clear();
        return -1;
    }
    int id = -1;
    for (size_t i = 0; i < self->ndtypes && id < 0; i++)
        if (self->dtype[i] == dtype)
            id = self->dtype_id[i];
    Py_DECREF(dtype);
    return id;
}

/* Keyword arguments compared by identity first: literal names are interned. */
static bool place_arguments(PyObject *const *args, Py_ssize_t nargs, PyObject *names, PyObject *const *expected,
                            Py_ssize_t least, Py_ssize_t nexpected, PyObject **values)
{
    Py_ssize_t nnames = names ? PyTuple_Size(names) : 0;
    bool fine = nargs <= nexpected;
    for (Py_ssize_t i = 0; i < nargs && fine; i++)
        values[i] = args[i];
    for (Py_ssize_t k = 0; k < nnames && fine; k++) {
        PyObject *name = PyTuple_GetItem(names, k);
        Py_ssize_t i = 0;
        while (i < nexpected && name != expected[i] && PyUnicode_Compare(name, expected[i]))
            i++;
        fine = i < nexpected && !values[i];
        if (fine)
            values[i] = args[nargs + k];
    }
    for (Py_ssize_t i = 0; i < least; i++)
        fine = fine && values[i];
    if (!fine)
        PyErr_SetString(PyExc_TypeError, "collectives take an array and the keywords that their docstrings name");
    return fine;
}

static PyObject *in_python(struct communicator_object *self, const char *method, PyObject *const *values, Py_ssize_t n)
{
    PyObject *function = PyObject_GetAttrString((PyObject *)self, method);
    PyObject *tuple = PyTuple_New(n);
    PyObject *result = NULL;
    if (function && tuple) {
        for (Py_ssize_t i = 0; i < n; i++)
            PyTuple_SetItem(tuple, i, Py_NewRef(values[i] ? values[i] : Py_None));
        result = PyObject_Call(function, tuple, NULL);
    }
    Py_XDECREF(function);
    Py_XDECREF(tuple);
    return result;
}

static PyObject *fail(struct communicator_object *self, enum call_end how)
{
    return PyObject_CallMethod((PyObject *)self, "_fail", "i", (int)how);
}

/* One fast attempt.  CALL_NO_CHOICE stands for everything that has to be looked at in Python; -1 for an exception. */
static int attempt(struct communicator_object *self, struct call *call, PyObject *in, PyObject *out)
{
    int dtype = dtype_of(self, in);
    Py_buffer in_view, out_view;
    if (dtype < 0 || (in != out && dtype_of(self, out) != dtype))
        return CALL_NO_CHOICE;
    if (!buffers_of(in, out, &in_view, &out_view)) {
        PyErr_Clear();
        return CALL_NO_CHOICE;
    }
    int how = CALL_NO_CHOICE;
    if (in == out || in_view.len == out_view.len) {
        call->dtype = (uint8_t)dtype;
        call->count = (uint64_t)out_view.len / dtype_nbytes(dtype);
        call->in = in == out ? out_view.buf : in_view.buf;
        call->out = out_view.buf;
        how = communicator_call(&self->communicator, call);
    }
    bool fine = end(self);
    release_buffers(in, out, &in_view, &out_view);
    return fine ? how : -1;
}

static PyObject *finish(struct communicator_object *self, int how, PyObject *out, const char *method,
                        PyObject *const *values, Py_ssize_t n)
{
    self->busy = false;
    switch (how) {
    case -1: return NULL;
    case CALL_DONE: return Py_NewRef(out);
    case CALL_DIFFERS:
    case CALL_ABORTED: return fail(self, (enum call_end)how);
    default: return in_python(self, method, values, n);
    }
}

PyObject *call_all_reduce(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    struct communicator_object *self = (struct communicator_object *)object;
    PyObject *expected[] = {self->x_name, self->out_name, self->op_name, self->stream_name};
    PyObject *values[4] = {NULL};
    if (!place_arguments(args, nargs, names, expected, 1, 4, values) || !begin(self))
        return NULL;
    PyObject *x = values[0], *out = values[1] && values[1] != Py_None ? values[1] : x;
    uint8_t op = REDUCE_SUM;
    while (values[2] && op < OPS && self->op[op] != values[2])
        op++;
    struct call call = {.collective = ALL_REDUCE, .op = op};
    bool plain = op < OPS && (!values[3] || values[3] == Py_None);
    int how = plain ? attempt(self, &call, x, out) : CALL_NO_CHOICE;
    if (!values[2])
        values[2] = self->op[REDUCE_SUM];
    return finish(self, how, out, "_all_reduce", values, 4);
}

PyObject *call_broadcast(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    struct communicator_object *self = (struct communicator_object *)object;
    PyObject *expected[] = {self->x_name, self->root_name, self->stream_name};
    PyObject *values[3] = {NULL};
    if (!place_arguments(args, nargs, names, expected, 1, 3, values) || !begin(self))
        return NULL;
    unsigned long root = values[1] && PyLong_CheckExact(values[1]) ? PyLong_AsUnsignedLong(values[1]) : 0;
    bool plain = !PyErr_Occurred() && root < self->communicator.size && (!values[1] || PyLong_CheckExact(values[1])) &&
                 (!values[2] || values[2] == Py_None);
    PyErr_Clear();
    struct call call = {.collective = BROADCAST, .root = (uint32_t)root};
    int how = plain ? attempt(self, &call, values[0], values[0]) : CALL_NO_CHOICE;
    PyObject *zero = PyLong_FromLong(0);
    if (!values[1])
        values[1] = zero;
    PyObject *result = zero ? finish(self, how, values[0], "_broadcast", values, 3) : NULL;
    Py_XDECREF(zero);
    return result;
}

PyObject *call_barrier(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    struct communicator_object *self = (struct communicator_object *)object;
    PyObject *expected[] = {self->stream_name};
    PyObject *values[1] = {NULL};
    if (!place_arguments(args, nargs, names, expected, 0, 1, values) || !begin(self))
        return NULL;
    struct call call = {.collective = BARRIER};
    int how = values[0] && values[0] != Py_None ? CALL_NO_CHOICE : (int)communicator_call(&self->communicator, &call);
    return finish(self, end(self) ? how : -1, Py_None, "_barrier", values, 1);
}

/* _call(collective, dtype, op, root, count, in, out) -> how it ended (CALL_*). */
PyObject *call_once(PyObject *object, PyObject *args)
{
    struct communicator_object *self = (struct communicator_object *)object;
    unsigned char collective, dtype, op;
    unsigned root;
    unsigned long long count;
    PyObject *in, *out;
    if (!PyArg_ParseTuple(args, "bbbIKOO:_call", &collective, &dtype, &op, &root, &count, &in, &out))
        return NULL;
    Py_buffer in_view, out_view;
    if (!buffers_of(in, out, &in_view, &out_view))
        return NULL;
    struct call call = {.collective = collective, .dtype = dtype, .op = op, .root = root, .count = count,
                        .in = in == out ? out_view.buf : in_view.buf, .out = out_view.buf};
    enum call_end how = CALL_DONE;
    bool fine = begin(self);
    if (fine) {
        how = communicator_call(&self->communicator, &call);
        fine = end(self);
    }
    release_buffers(in, out, &in_view, &out_view);
    return fine ? PyLong_FromLong(how) : NULL;
}

static PyObject *text_round(PyObject *object, PyObject *args, const char *format, bool refuses)
{
    struct communicator_object *self = (struct communicator_object *)object;
    unsigned char collective;
    const char *text;
    if (!PyArg_ParseTuple(args, format, &collective, &text) || !begin(self))
        return NULL;
    enum call_end how = refuses ? communicator_refuse(&self->communicator, collective, text)
                                : communicator_tell(&self->communicator, text);
    return end(self) ? PyLong_FromLong(how) : NULL;
}

PyObject *call_refuse(PyObject *self, PyObject *args) { return text_round(self, args, "bs:_refuse", true); }
PyObject *call_tell(PyObject *self, PyObject *args) { return text_round(self, args, "bs:_tell", false); }
