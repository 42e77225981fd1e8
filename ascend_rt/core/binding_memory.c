/* Tasks of a stream that move or fold memory.  The caller has checked the addresses; `keep` lives until the task is done. */
#include "binding.h"

static PyObject *append_copy(PyObject *self, PyObject *keep, const void *from, void *to, const size_t sizes[4])
{
    struct task *task = task_from_python(self, TASK_COPY, keep);
    if (task) {
        task->memory.to = to;
        task->memory.from = from;
        task->memory.nbytes = sizes[0];
        task->memory.rows = sizes[1];
        task->memory.to_pitch = sizes[2];
        task->memory.from_pitch = sizes[3];
    }
    return append_returning_none(self, task);
}

/* copy(to, from, nbytes, keep) */
PyObject *stream_copy(PyObject *self, PyObject *args)
{
    unsigned long long to, from;
    Py_ssize_t nbytes;
    PyObject *keep;
    if (!PyArg_ParseTuple(args, "KKnO:copy", &to, &from, &nbytes, &keep))
        return NULL;
    const size_t sizes[] = {(size_t)nbytes, 1, 0, 0};
    return append_copy(self, keep, (const void *)(uintptr_t)from, (void *)(uintptr_t)to, sizes);
}

/* copy_rows(to, to_pitch, from, from_pitch, nbytes of a row, rows, keep) */
PyObject *stream_copy_rows(PyObject *self, PyObject *args)
{
    unsigned long long to, from;
    Py_ssize_t to_pitch, from_pitch, nbytes, rows;
    PyObject *keep;
    if (!PyArg_ParseTuple(args, "KnKnnnO:copy_rows", &to, &to_pitch, &from, &from_pitch, &nbytes, &rows, &keep))
        return NULL;
    const size_t sizes[] = {(size_t)nbytes, (size_t)rows, (size_t)to_pitch, (size_t)from_pitch};
    return append_copy(self, keep, (const void *)(uintptr_t)from, (void *)(uintptr_t)to, sizes);
}

/* fill(to, value, nbytes, keep) */
PyObject *stream_fill(PyObject *self, PyObject *args)
{
    unsigned long long to;
    int value;
    Py_ssize_t nbytes;
    PyObject *keep;
    if (!PyArg_ParseTuple(args, "KinO:fill", &to, &value, &nbytes, &keep))
        return NULL;
    struct task *task = task_from_python(self, TASK_FILL, keep);
    if (task) {
        task->memory.to = (void *)(uintptr_t)to;
        task->memory.value = value;
        task->memory.nbytes = (size_t)nbytes;
    }
    return append_returning_none(self, task);
}

/* reduce(to, from, count, dtype, op, keep): `to` becomes to OP from, element by element. */
PyObject *stream_reduce(PyObject *self, PyObject *args)
{
    unsigned long long to, from;
    Py_ssize_t count;
    int dtype, op;
    PyObject *keep;
    if (!PyArg_ParseTuple(args, "KKniiO:reduce", &to, &from, &count, &dtype, &op, &keep))
        return NULL;
    reduce_function *kernel = find_reduce(dtype, op, best_kernel_variant());
    if (!kernel)
        return PyErr_Format(PyExc_ValueError, "no kernel for dtype %d, op %d", dtype, op);
    struct task *task = task_from_python(self, TASK_REDUCE, keep);
    if (task) {
        task->reduce.to = (void *)(uintptr_t)to;
        task->reduce.from = (const void *)(uintptr_t)from;
        task->reduce.count = (size_t)count;
        task->reduce.kernel = kernel;
    }
    return append_returning_none(self, task);
}
