/* Communicator: the hot path from Python to the board.
 *
 * A collective that is called as it always is (arrays of a known dtype that fit one another, a choice already made) never
 * leaves this file.  Everything else is handed to the Python subclass: the methods by which a program calls that are native
 * to _all_reduce(x, out, op, stream), _broadcast(x, root, stream) and _barrier(stream), those that are its own get a False.
 */
#include "binding.h"

#include <string.h>

enum { OPS = REDUCE_OP_COUNT, FORM_WORDS = 10 };

_Static_assert(sizeof(struct form) == FORM_WORDS * sizeof(int32_t), "a form is read as words");

PyObject *set_forms(PyObject *object, PyObject *bytes)
{
    struct communicator_object *self = (struct communicator_object *)object;
    char *words;
    Py_ssize_t nbytes;
    if (PyBytes_AsStringAndSize(bytes, &words, &nbytes) < 0)
        return NULL;
    struct form form;
    if (nbytes % (Py_ssize_t)sizeof form)
        return PyErr_Format(PyExc_ValueError, "forms of %zd bytes, which are no multiple of %zu", nbytes, sizeof form);
    for (Py_ssize_t at = 0; at < nbytes; at += (Py_ssize_t)sizeof form) {
        memcpy(&form, words + at, sizeof form);
        if (form.collective < 0 || form.collective >= MOST_FORMS)
            return PyErr_Format(PyExc_ValueError, "a form of collective %d; expected 0 to %d", form.collective, MOST_FORMS - 1);
        self->forms[form.collective] = form;
    }
    Py_RETURN_NONE;
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

/* Names of ops are compared by identity; OPS for what is looked at in Python. */
static uint8_t op_of(const struct communicator_object *self, const PyObject *given)
{
    uint8_t op = REDUCE_SUM;
    while (given && op < OPS && self->op[op] != given)
        op++;
    return op;
}

/* Whether both arrays consist of their blocks; if so, of how many elements. */
static bool count_blocks(const struct operands *operands, struct blocks blocks, size_t item_nbytes, uint64_t *count)
{
    uint64_t out = (uint64_t)operands->out.len / item_nbytes;
    uint64_t in = operands->in_object == operands->out_object ? out : (uint64_t)operands->in.len / item_nbytes;
    *count = blocks.in ? in / (uint64_t)blocks.in : out / (uint64_t)blocks.out;
    return in == *count * (uint64_t)blocks.in && out == *count * (uint64_t)blocks.out;
}

/* Whether IN and OUT are two arrays, or one in the way in which they may be. */
static bool may_share(const struct form *form, const struct operands *operands, const struct call *call, size_t block_nbytes)
{
    if (operands->in_object == operands->out_object)
        return form->first_in >= 0;
    if (call->strided_in || call->strided_out)
        return false; /* whether they overlap takes a longer look */
    uintptr_t in = (uintptr_t)call->in, out = (uintptr_t)call->out;
    if (in + (size_t)operands->in.len <= out || out + (size_t)operands->out.len <= in)
        return true;
    return form->first_in >= 0 && in - (size_t)form->first_in * block_nbytes == out - (size_t)form->first_out * block_nbytes;
}

/* NULL without an exception for everything that has to be looked at in Python; `in` or `out` is NULL where this rank has no
 * such array. */
static PyObject *attempt(struct communicator_object *self, const struct form *form, struct blocks blocks, struct call *call,
                         PyObject *stream, PyObject *in, PyObject *out)
{
    if (self->defers || !(blocks.in || blocks.out))
        return NULL; /* to be recorded, or refused for that; or its form is not known */
    int dtype = dtype_of(self, in ? in : out);
    struct operands operands;
    if (dtype < 0 || (in && out && in != out && dtype_of(self, out) != dtype))
        return NULL;
    call->collective = (uint8_t)form->collective;
    call->dtype = (uint8_t)dtype;
    if (!operands_get(self, &operands, in, out, call)) {
        PyErr_Clear();
        return NULL;
    }
    PyObject *result = NULL;
    struct issue issue;
    size_t item_nbytes = dtype_nbytes(dtype);
    if (count_blocks(&operands, blocks, item_nbytes, &call->count) &&
        may_share(form, &operands, call, call->count * item_nbytes) &&
        communicator_issue(&self->communicator, call, &issue) == CALL_DONE)
        result = submit(self, &issue, NULL, NULL, stream, in ? in : Py_None, out ? out : Py_None);
    operands_release(&operands);
    return result;
}

PyObject *call_all_reduce(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    struct communicator_object *self = (struct communicator_object *)object;
    PyObject *expected[] = {self->x_name, self->out_name, self->op_name, self->stream_name};
    PyObject *values[4] = {NULL}, *stream;
    if (!may_begin(self) || !place_arguments(args, nargs, names, expected, 1, 4, values))
        return NULL;
    PyObject *x = values[0], *out = values[1] && values[1] != Py_None ? values[1] : x;
    struct call call = {.op = op_of(self, values[2])};
    bool plain = call.op < OPS && takes_stream(self, values[3], &stream);
    const struct form *form = &self->forms[ALL_REDUCE];
    PyObject *result = plain ? attempt(self, form, form->on_root, &call, stream, x, out) : NULL;
    if (result || PyErr_Occurred())
        return result;
    if (!values[2])
        values[2] = self->op[REDUCE_SUM];
    return in_python(self, "_all_reduce", values, 4);
}

PyObject *call_broadcast(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    struct communicator_object *self = (struct communicator_object *)object;
    PyObject *expected[] = {self->x_name, self->root_name, self->stream_name};
    PyObject *values[3] = {NULL}, *stream;
    if (!may_begin(self) || !place_arguments(args, nargs, names, expected, 1, 3, values))
        return NULL;
    PyObject *x = values[0];
    long root = values[1] ? rank_of(self, values[1]) : 0;
    struct call call = {.root = (uint32_t)root};
    bool plain = root >= 0 && takes_stream(self, values[2], &stream);
    const struct form *form = &self->forms[BROADCAST];
    PyObject *result = plain ? attempt(self, form, form->on_root, &call, stream, x, x) : NULL;
    if (result || PyErr_Occurred())
        return result;
    PyObject *zero = values[1] ? NULL : PyLong_FromLong(0);
    values[1] = values[1] ? values[1] : zero;
    result = values[1] ? in_python(self, "_broadcast", values, 3) : NULL;
    Py_XDECREF(zero);
    return result;
}

PyObject *call_barrier(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    struct communicator_object *self = (struct communicator_object *)object;
    PyObject *expected[] = {self->stream_name};
    PyObject *values[1] = {NULL}, *stream;
    if (!may_begin(self) || !place_arguments(args, nargs, names, expected, 0, 1, values))
        return NULL;
    struct call call = {.collective = BARRIER};
    struct issue issue;
    if (!self->defers && takes_stream(self, values[0], &stream) && communicator_issue(&self->communicator, &call, &issue) == CALL_DONE)
        return submit(self, &issue, NULL, NULL, stream, Py_None, Py_None);
    return in_python(self, "_barrier", values, 1);
}

static bool divides(const struct communicator_object *self, PyObject *in)
{
    Py_ssize_t length = array_length(self, in);
    return length >= 0 && length % (Py_ssize_t)self->communicator.size == 0;
}

/* _call_plainly(collective, x, out, op, root, stream) -> whether it is done or queued; False: nothing was, for something has to be
 * looked at. */
PyObject *call_plainly(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    struct communicator_object *self = (struct communicator_object *)object;
    if (nargs != 6)
        return PyErr_Format(PyExc_TypeError, "_call_plainly takes 6 arguments, not %zd", nargs);
    long collective = PyLong_AsLong(args[0]);
    if (PyErr_Occurred())
        return NULL;
    if (self->defers || collective < 0 || collective >= MOST_FORMS)
        Py_RETURN_FALSE;
    if (!may_begin(self))
        return NULL;
    const struct form *form = &self->forms[collective];
    PyObject *stream;
    long root = form->is_rooted ? rank_of(self, args[4]) : 0;
    struct call call = {.op = op_of(self, args[3]), .root = (uint32_t)root};
    struct blocks blocks = root == (long)self->communicator.rank ? form->on_root : form->elsewhere;
    PyObject *in = blocks.in ? args[1] : NULL;
    PyObject *out = !blocks.out ? NULL : args[2] == Py_None && form->defaults_to_in ? in : args[2];
    if (root < 0 || call.op >= OPS || !takes_stream(self, args[5], &stream) || (in && form->is_by_rank && !divides(self, in)))
        Py_RETURN_FALSE;
    PyObject *done = attempt(self, form, blocks, &call, stream, in, out);
    Py_XDECREF(done);
    return !done && PyErr_Occurred() ? NULL : PyBool_FromLong(done != NULL);
}
