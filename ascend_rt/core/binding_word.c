/* Tasks of a stream that set words of device memory or wait for them: flags and values.  The caller has checked the
 * addresses; `keep` lives until the task is done. */
#include "binding.h"

static PyObject *append_word(PyObject *self, enum task_kind kind, PyObject *keep, unsigned long long address,
                             unsigned long long value, int test, unsigned long long timeout_ns)
{
    struct task *task = task_from_python(self, kind, keep);
    if (task) {
        task->word.word = (void *)(uintptr_t)address;
        task->word.value = value;
        task->word.test = (enum value_test)test;
        task->word.timeout_ns = timeout_ns;
    }
    return append_returning_none(self, task);
}

/* set_flag(address, keep) */
PyObject *stream_set_flag(PyObject *self, PyObject *args)
{
    unsigned long long address;
    PyObject *keep;
    if (!PyArg_ParseTuple(args, "KO:set_flag", &address, &keep))
        return NULL;
    return append_word(self, TASK_SET_FLAG, keep, address, 0, 0, 0);
}

/* take_flag(address, timeout_ns, keep) */
PyObject *stream_take_flag(PyObject *self, PyObject *args)
{
    unsigned long long address, timeout_ns;
    PyObject *keep;
    if (!PyArg_ParseTuple(args, "KKO:take_flag", &address, &timeout_ns, &keep))
        return NULL;
    return append_word(self, TASK_TAKE_FLAG, keep, address, 0, 0, timeout_ns);
}

/* write_value(address, value, keep) */
PyObject *stream_write_value(PyObject *self, PyObject *args)
{
    unsigned long long address, value;
    PyObject *keep;
    if (!PyArg_ParseTuple(args, "KKO:write_value", &address, &value, &keep))
        return NULL;
    return append_word(self, TASK_WRITE_VALUE, keep, address, value, 0, 0);
}

/* wait_value(address, value, test, timeout_ns, keep) */
PyObject *stream_wait_value(PyObject *self, PyObject *args)
{
    unsigned long long address, value, timeout_ns;
    int test;
    PyObject *keep;
    if (!PyArg_ParseTuple(args, "KKiKO:wait_value", &address, &value, &test, &timeout_ns, &keep))
        return NULL;
    if (test < VALUE_GEQ || test > VALUE_NOR)
        return PyErr_Format(PyExc_ValueError, "test %d of a value; expected 0 to %d", test, VALUE_NOR);
    return append_word(self, TASK_WAIT_VALUE, keep, address, value, test, timeout_ns);
}
