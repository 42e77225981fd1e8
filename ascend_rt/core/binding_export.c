/* Methods of Segment that publish and follow keys.  A key is (offset of its record, first half of its token, second). */
#include "binding.h"
#include "export.h"

static const struct segment *segment_of(PyObject *object) { return &((struct segment_object *)object)->segment; }

/* publish(key, kind, offset, nbytes, open): the caller owns the block that the record lies in. */
PyObject *segment_publish(PyObject *object, PyObject *args)
{
    struct key key;
    unsigned long long record, first, second, offset, nbytes;
    int kind, open;
    if (!PyArg_ParseTuple(args, "(KKK)iKKp:publish", &record, &first, &second, &kind, &offset, &nbytes, &open))
        return NULL;
    key = (struct key){record, {first, second}};
    export_publish(segment_of(object), &key, (enum export_kind)kind, offset, nbytes, open);
    Py_RETURN_NONE;
}

/* allow(record, pids) -> False if there is no room for them */
PyObject *segment_allow(PyObject *object, PyObject *args)
{
    unsigned long long record;
    PyObject *given;
    if (!PyArg_ParseTuple(args, "KO!:allow", &record, &PyTuple_Type, &given))
        return NULL;
    uint32_t pids[EXPORT_PIDS];
    Py_ssize_t npids = PyTuple_Size(given);
    if (npids > EXPORT_PIDS)
        Py_RETURN_FALSE;
    for (Py_ssize_t i = 0; i < npids; i++)
        pids[i] = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GetItem(given, i));
    if (PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(export_allow(segment_of(object), record, pids, (uint32_t)npids));
}

PyObject *segment_withdraw(PyObject *object, PyObject *argument)
{
    unsigned long long record = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(export_withdraw(segment_of(object), record));
}

PyObject *segment_is_used(PyObject *object, PyObject *argument)
{
    unsigned long long record = PyLong_AsUnsignedLongLong(argument);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(export_is_used(segment_of(object), record));
}

static bool take_key(PyObject *numbers, struct key *key)
{
    unsigned long long record, first, second;
    if (!PyArg_ParseTuple(numbers, "KKK", &record, &first, &second))
        return false;
    *key = (struct key){record, {first, second}};
    return true;
}

/* find(key, kind, pid) -> (IMPORT_DONE or why not, offset, nbytes): the key may be any numbers. */
PyObject *segment_find(PyObject *object, PyObject *args)
{
    struct key key;
    PyObject *numbers;
    uint64_t offset = 0, nbytes = 0;
    int kind;
    unsigned pid;
    if (!PyArg_ParseTuple(args, "O!iI:find", &PyTuple_Type, &numbers, &kind, &pid) || !take_key(numbers, &key))
        return NULL;
    enum import_end end = export_find(segment_of(object), &key, (enum export_kind)kind, pid, &offset, &nbytes);
    return Py_BuildValue("iKK", (int)end, (unsigned long long)offset, (unsigned long long)nbytes);
}

/* lives(key): of a key that `find` has followed before. */
PyObject *segment_lives(PyObject *object, PyObject *numbers)
{
    struct key key;
    return take_key(numbers, &key) ? PyBool_FromLong(export_lives(segment_of(object), &key)) : NULL;
}

/* begin_use(key): of a key that `find` has followed before. */
PyObject *segment_begin_use(PyObject *object, PyObject *numbers)
{
    struct key key;
    return take_key(numbers, &key) ? PyBool_FromLong(export_begin_use(segment_of(object), &key)) : NULL;
}

PyObject *segment_end_use(PyObject *object, PyObject *argument)
{
    unsigned long long record = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    export_end_use(segment_of(object), record);
    Py_RETURN_NONE;
}
