/* NumPy arrays, read where they lie: half of the time of a small call went into asking for a dtype and a buffer.
 *
 * NumPy's C API would tie a build to some versions of it, so it is not used.  But these first fields are what its macros
 * read in every extension that was compiled for NumPy 1.x or 2.x; and they are only trusted after they have been compared
 * with what the buffer protocol says of sample arrays in this very process (_trust_arrays).  Until then, for subclasses
 * and for everything else that lends a buffer, the protocol is used. */
#include "binding.h"

struct ndarray {
    PyObject_HEAD
    unsigned char *data;
    int ndim;
    Py_ssize_t *shape, *strides;
    PyObject *base, *dtype;
    int flags;
};
enum { IS_C_CONTIGUOUS = 0x1, IS_WRITABLE = 0x400 };

static const struct ndarray *as_ndarray(const struct communicator_object *self, PyObject *object)
{
    return (PyObject *)Py_TYPE(object) == self->array_type ? (const struct ndarray *)object : NULL;
}

bool array_lend(const struct communicator_object *self, PyObject *object, int writable, size_t item_nbytes,
                Py_buffer *buffer)
{
    const struct ndarray *array = as_ndarray(self, object);
    int wanted = IS_C_CONTIGUOUS | (writable ? IS_WRITABLE : 0);
    if (!array || (array->flags & wanted) != wanted)
        return false;
    buffer->buf = array->data;
    buffer->len = (Py_ssize_t)item_nbytes;
    for (int i = 0; i < array->ndim; i++)
        buffer->len *= array->shape[i];
    buffer->obj = NULL; /* nothing to release: whoever calls holds the array */
    return true;
}

Py_ssize_t array_length(const struct communicator_object *self, PyObject *object)
{
    const struct ndarray *array = as_ndarray(self, object);
    return array && array->ndim ? array->shape[0] : -1;
}

PyObject *array_dtype(const struct communicator_object *self, PyObject *object)
{
    const struct ndarray *array = as_ndarray(self, object);
    return array ? array->dtype : NULL;
}

/* ---- whether to trust ---- */

static bool same_numbers(const Py_ssize_t *one, const Py_ssize_t *other, int n)
{
    for (int i = 0; i < n; i++)
        if (one[i] != other[i])
            return false;
    return true;
}

static bool agrees(const struct ndarray *array, const Py_buffer *buffer, const PyObject *dtype)
{
    bool contiguous = array->flags & IS_C_CONTIGUOUS, writable = array->flags & IS_WRITABLE;
    return array->data == buffer->buf && array->ndim == buffer->ndim && array->dtype == dtype &&
           same_numbers(array->shape, buffer->shape, buffer->ndim) &&
           same_numbers(array->strides, buffer->strides, buffer->ndim) &&
           contiguous == (bool)PyBuffer_IsContiguous(buffer, 'C') && writable == !buffer->readonly;
}

static bool is_as_expected(const struct communicator_object *self, PyObject *sample)
{
    Py_buffer buffer;
    PyObject *dtype = PyObject_GetAttr(sample, self->dtype_name);
    bool lent = dtype && PyObject_GetBuffer(sample, &buffer, PyBUF_STRIDES) == 0;
    bool right = lent && agrees((const struct ndarray *)sample, &buffer, dtype);
    if (lent)
        PyBuffer_Release(&buffer);
    Py_XDECREF(dtype);
    PyErr_Clear();
    return right;
}

PyObject *trust_arrays(PyObject *object, PyObject *samples)
{
    struct communicator_object *self = (struct communicator_object *)object;
    PyObject *type = NULL;
    Py_ssize_t n = PyList_Check(samples) ? PyList_Size(samples) : 0;
    bool right = n > 0;
    for (Py_ssize_t i = 0; i < n && right; i++) {
        PyObject *sample = PyList_GetItem(samples, i);
        type = i ? type : (PyObject *)Py_TYPE(sample);
        right = (PyObject *)Py_TYPE(sample) == type && is_as_expected(self, sample);
    }
    if (right && !self->array_type)
        self->array_type = Py_NewRef(type);
    return PyBool_FromLong(right);
}
