/* Communicator: the emulated links of its ranks. */
#include <stdlib.h>

#include "binding.h"
#include "link.h"

/* _set_links(tuple of (ns_per_byte, latency_ns) by rank) */
PyObject *set_links(PyObject *object, PyObject *given)
{
    struct communicator *c = &((struct communicator_object *)object)->communicator;
    if (c->links || !PyTuple_Check(given) || PyTuple_Size(given) != (Py_ssize_t)c->size)
        return PyErr_Format(PyExc_ValueError, "links are set once, as a tuple of %u", c->size);
    struct links *links = calloc(1, sizeof *links + c->size * sizeof *links->by_rank);
    if (!links)
        return PyErr_NoMemory();
    for (uint32_t rank = 0; rank < c->size; rank++) {
        struct link *link = &links->by_rank[rank];
        unsigned long long latency_ns;
        if (!PyArg_ParseTuple(PyTuple_GetItem(given, (Py_ssize_t)rank), "dK:_set_links", &link->ns_per_byte, &latency_ns)) {
            free(links);
            return NULL;
        }
        link->latency_ns = latency_ns;
    }
    c->links = links;
    Py_RETURN_NONE;
}
