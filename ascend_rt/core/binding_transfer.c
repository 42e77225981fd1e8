/* Communicator: sends and receives, from Python's items to a transfer that is run here or queued. */
#include "binding.h"
#include "order.h"

static bool begin(const struct communicator_object *self)
{
    if (self->closed)
        PyErr_SetString(PyExc_RuntimeError, "this communicator was destroyed, or this process is a fork of its rank");
    return !self->closed;
}

/* One of Python's items is (side, peer, dtype, count, array); the array is None in what is refused. */
static bool take_item(const struct communicator_object *self, struct item *item, PyObject *tuple)
{
    unsigned side, peer, dtype;
    unsigned long long count;
    PyObject *array;
    if (!PyArg_ParseTuple(tuple, "IIIKO:item", &side, &peer, &dtype, &count, &array))
        return false;
    if (side >= SIDES || peer >= self->communicator.size || !dtype_nbytes((int)dtype)) {
        PyErr_SetString(PyExc_ValueError, "an item needs a side, a rank of the communicator and a known dtype");
        return false;
    }
    item->side = (enum side)side;
    item->peer = peer;
    item->dtype = (uint8_t)dtype;
    item->count = count;
    item->view = view_contiguous(NULL, dtype_nbytes((int)dtype));
    if (array == Py_None)
        return true;
    Py_buffer buffer;
    struct view strided;
    const struct view *view;
    int writable = side == SIDE_RECEIVE ? PyBUF_WRITABLE : 0;
    if (!get_buffer(self, array, item->view.item_nbytes, &buffer, writable, &strided, &item->dimensions, &view))
        return false;
    if (view)
        item->view = *view;
    else
        item->view.base = buffer.buf;
    PyBuffer_Release(&buffer); /* the array stays, and with it its memory */
    return true;
}

struct transfer *take_items(struct communicator_object *self, unsigned collective, PyObject *items)
{
    Py_ssize_t n = PyTuple_Size(items);
    struct transfer *t = n < 0 ? NULL : transfer_new(&self->communicator, (uint8_t)collective, (uint32_t)n);
    if (!t)
        return n < 0 ? NULL : (struct transfer *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++)
        if (!take_item(self, &t->items[i], PyTuple_GetItem(items, i))) {
            transfer_free(t);
            return NULL;
        }
    return t;
}

static PyObject *run_blocking(struct communicator_object *self, struct transfer *t)
{
    struct communicator *c = &self->communicator;
    struct gil gil = {.object = (PyObject *)self};
    struct wait_host host = gil_host(&gil);
    struct patience patience = transfer_patience(c);
    struct failure *failure = NULL;
    enum call_end end = transfer_run(t, &host, &patience, &failure);
    atomic_fetch_add_explicit(&c->late_sleeps_in_transfers, patience.late_sleeps, memory_order_relaxed);
    bool fine = gil_take_back(&gil);
    transfer_free(t);
    if (fine && end != CALL_DONE)
        return raise_failure(self, failure);
    failure_release(failure);
    return fine ? Py_NewRef(Py_None) : NULL;
}

/* Takes the transfer over.  `items` keeps the arrays alive. */
static PyObject *queue(struct communicator_object *self, struct transfer *t, PyObject *items, PyObject *stream)
{
    PyObject *site = PyObject_CallMethod((PyObject *)self, "_site", NULL);
    struct task *task =
        site ? new_task((struct stream_object *)stream, TASK_TRANSFER, site, (PyObject *)self, items, NULL) : NULL;
    Py_XDECREF(site);
    if (!task) {
        transfer_free(t);
        return NULL;
    }
    task->transfer = t;
    return append_task((struct stream_object *)stream, task) < 0 ? NULL : Py_NewRef(Py_None);
}

/* _transfer(collective, items, why or None, stream) -> None when done or queued; or the rank for which staging is
 * missing, and then nothing was done. */
PyObject *call_transfer(PyObject *object, PyObject *args)
{
    struct communicator_object *self = (struct communicator_object *)object;
    unsigned collective;
    const char *why;
    PyObject *items, *stream;
    if (!PyArg_ParseTuple(args, "IO!zO:_transfer", &collective, &PyTuple_Type, &items, &why, &stream) || !begin(self))
        return NULL;
    if (stream != Py_None && !is_stream(self, stream))
        return PyErr_Format(PyExc_TypeError, "stream is no Stream");
    bool queues = stream != Py_None && stream_start(&((struct stream_object *)stream)->stream);
    if (stream != Py_None && !queues && !why)
        why = "the thread of its stream cannot be started";
    struct transfer *t = take_items(self, collective, items);
    if (!t)
        return NULL;
    if (why)
        transfer_refuse(t, why);
    if (!transfer_prepare(t)) {
        PyObject *peer = PyLong_FromUnsignedLong(t->culprit);
        transfer_free(t);
        return peer;
    }
    transfer_issue(t);
    return queues ? queue(self, t, items, stream) : run_blocking(self, t);
}

/* _set_channel_staging(peer, block, offset, nbytes) */
PyObject *set_channel_staging(PyObject *object, PyObject *args)
{
    struct communicator_object *self = (struct communicator_object *)object;
    unsigned peer;
    PyObject *block;
    unsigned long long offset, nbytes;
    if (!PyArg_ParseTuple(args, "IOKK:_set_channel_staging", &peer, &block, &offset, &nbytes))
        return NULL;
    if (peer >= self->communicator.size)
        return PyErr_Format(PyExc_ValueError, "rank %u is not of this communicator", peer);
    if (keep_lent_memory(self, block) < 0)
        return NULL;
    self->communicator.ends[SIDE_SEND][peer].staging_offset = offset;
    self->communicator.ends[SIDE_SEND][peer].staging_nbytes = nbytes;
    Py_RETURN_NONE;
}
