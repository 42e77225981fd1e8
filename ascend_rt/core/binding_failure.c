/* What is kept of a call that failed, for Python to word. */
#include "binding.h"
#include "order.h"

static PyObject *statement_as_tuple(const struct statement *statement)
{
    const struct descriptor *said = &statement->said;
    return Py_BuildValue("(IiiiiIIKss)", said->call, said->collective, said->dtype, said->op, said->flags, said->root,
                         said->fingerprint, (unsigned long long)said->count, statement->note, statement->where);
}

PyObject *failure_as_tuple(const struct failure *failure)
{
    PyObject *statements = PyList_New(0);
    for (uint32_t rank = 0; rank < failure->size && statements; rank++) {
        PyObject *statement = statement_as_tuple(&failure->statements[rank]);
        if (!statement || PyList_Append(statements, statement) < 0)
            Py_CLEAR(statements);
        Py_XDECREF(statement);
    }
    if (!statements)
        return NULL;
    const char *communicator = (const char *)atomic_load(&failure->communicator);
    PyObject *id = PyLong_FromVoidPtr(
        communicator ? (void *)(communicator - offsetof(struct communicator_object, communicator)) : NULL);
    const struct uneven *uneven = &failure->uneven;
    return Py_BuildValue("(NiIiIsN(IIKK))", id, (int)failure->how, failure->number, failure->collective, failure->abort,
                         failure->where, statements, uneven->from, uneven->to, (unsigned long long)uneven->sent,
                         (unsigned long long)uneven->expected);
}
