/* What a call is given: arrays as buffers, dtypes and keywords, each looked at the cheap way first. */
#include "binding.h"

/* Contiguous memory if it is, else strides; NumPy lends either without a format, which bfloat16 would not have. */
bool get_buffer(const struct communicator_object *self, PyObject *object, size_t item_nbytes, Py_buffer *buffer,
                int writable, struct view *strided, struct dimensions *dimensions, const struct view **view)
{
    *view = NULL;
    if (array_lend(self, object, writable, item_nbytes, buffer))
        return true;
    if (PyObject_GetBuffer(object, buffer, PyBUF_SIMPLE | writable) == 0)
        return true;
    PyErr_Clear();
    if (PyObject_GetBuffer(object, buffer, PyBUF_STRIDES | writable) < 0)
        return false;
    int64_t shape[64], strides[64];
    bool fits = buffer->ndim <= 64;
    for (int i = 0; i < buffer->ndim && fits; i++) {
        shape[i] = buffer->shape[i];
        strides[i] = buffer->strides[i];
    }
    if (fits && view_strided(strided, dimensions, buffer->buf, (size_t)buffer->itemsize, buffer->ndim, shape, strides)) {
        *view = strided;
        return true;
    }
    PyErr_Format(PyExc_ValueError, "the array has more than %d dimensions that cannot be joined", MOST_DIMENSIONS);
    PyBuffer_Release(buffer);
    return false;
}

/* An array that this rank has not: no elements, at an address that is as good as any but NULL. */
static void no_buffer(const struct communicator_object *self, Py_buffer *buffer)
{
    buffer->buf = (void *)self;
    buffer->len = 0;
    buffer->obj = NULL;
}

bool operands_get(const struct communicator_object *self, struct operands *operands, PyObject *in, PyObject *out,
                  struct call *call)
{
    size_t item_nbytes = dtype_nbytes(call->dtype);
    operands->in_object = in;
    operands->out_object = out;
    if (!out)
        no_buffer(self, &operands->out);
    else if (!get_buffer(self, out, item_nbytes, &operands->out, PyBUF_WRITABLE, &operands->strided_out,
                         &operands->out_dimensions, &call->strided_out))
        return false;
    call->out = operands->out.buf;
    if (in == out) {
        call->in = call->out;
        call->strided_in = call->strided_out;
        return true;
    }
    if (!in) {
        no_buffer(self, &operands->in);
    } else if (!get_buffer(self, in, item_nbytes, &operands->in, 0, &operands->strided_in, &operands->in_dimensions,
                           &call->strided_in)) {
        PyBuffer_Release(&operands->out);
        return false;
    }
    call->in = operands->in.buf;
    return true;
}

void operands_release(struct operands *operands)
{
    if (operands->in_object != operands->out_object)
        PyBuffer_Release(&operands->in);
    PyBuffer_Release(&operands->out);
}

/* Compares dtype objects by identity, so that equal but distinct ones are left to Python. */
static int number_of(const struct communicator_object *self, const PyObject *dtype)
{
    for (size_t i = 0; i < self->ndtypes; i++)
        if (self->dtype[i] == dtype)
            return self->dtype_id[i];
    return -1;
}

int dtype_of(struct communicator_object *self, PyObject *array)
{
    PyObject *dtype = array_dtype(self, array);
    if (dtype)
        return number_of(self, dtype);
    dtype = PyObject_GetAttr(array, self->dtype_name);
    if (!dtype) {
        PyErr_Clear();
        return -1;
    }
    int id = number_of(self, dtype);
    Py_DECREF(dtype);
    return id;
}

long rank_of(const struct communicator_object *self, PyObject *given)
{
    long rank = PyLong_CheckExact(given) ? PyLong_AsLong(given) : -1;
    PyErr_Clear();
    return rank < (long)self->communicator.size ? rank : -1;
}

/* Names are compared by identity first: literal keywords are interned. */
bool place_arguments(PyObject *const *args, Py_ssize_t nargs, PyObject *names, PyObject *const *expected, Py_ssize_t least,
                     Py_ssize_t nexpected, PyObject **values)
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
