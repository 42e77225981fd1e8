/* Communicator: sends and receives, from Python's items to a transfer that is run here or queued. */
#include "binding.h"
#include "order.h"

/* Messages pass while another thread is inside a collective. */
static bool is_open(const struct communicator_object *self)
{
    if (self->closed)
        PyErr_SetString(PyExc_RuntimeError, "this communicator was destroyed, or this process is a fork of its rank");
    return !self->closed;
}

static void describe(struct item *item, unsigned side, uint32_t peer, int dtype, uint64_t count)
{
    item->side = (enum side)side;
    item->peer = peer;
    item->dtype = (uint8_t)dtype;
    item->count = count;
    item->view = view_contiguous(NULL, dtype_nbytes(dtype));
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
    describe(item, side, peer, (int)dtype, count);
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
    if (!PyArg_ParseTuple(args, "IO!zO:_transfer", &collective, &PyTuple_Type, &items, &why, &stream) || !is_open(self))
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

/* The one item of a message that is plainly right, or a transfer of none for what has to be looked at in Python. */
static struct transfer *take_message(struct communicator_object *self, uint8_t collective, unsigned side, long peer,
                                     PyObject *array)
{
    int dtype = dtype_of(self, array);
    Py_buffer buffer;
    bool plain = dtype >= 0 && peer >= 0 && side < SIDES &&
                 array_lend(self, array, side == SIDE_RECEIVE ? PyBUF_WRITABLE : 0, dtype_nbytes(dtype), &buffer);
    struct transfer *t = transfer_new(&self->communicator, collective, plain);
    if (!t)
        PyErr_NoMemory();
    if (t && plain) {
        describe(&t->items[0], side, (uint32_t)peer, dtype, (uint64_t)buffer.len / dtype_nbytes(dtype));
        t->items[0].view.base = buffer.buf;
    }
    return t;
}

/* _transfer_plainly(collective, side, peer, array, stream) -> whether it is done or queued; False: nothing was, for something
 * has to be looked at, or staging is missing. */
PyObject *call_transfer_plainly(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    struct communicator_object *self = (struct communicator_object *)object;
    if (nargs != 5)
        return PyErr_Format(PyExc_TypeError, "_transfer_plainly takes 5 arguments, not %zd", nargs);
    if (self->defers)
        Py_RETURN_FALSE; /* to be recorded, or refused for that */
    long collective = PyLong_AsLong(args[0]), side = PyLong_AsLong(args[1]);
    if (PyErr_Occurred() || !is_open(self))
        return NULL;
    PyObject *stream;
    if (!takes_stream(self, args[4], &stream) || (stream && !stream_start(&((struct stream_object *)stream)->stream)))
        Py_RETURN_FALSE;
    struct transfer *t = take_message(self, (uint8_t)collective, (unsigned)side, rank_of(self, args[2]), args[3]);
    if (!t)
        return NULL;
    if (!t->nitems || !transfer_prepare(t)) {
        transfer_free(t);
        Py_RETURN_FALSE;
    }
    transfer_issue(t);
    PyObject *done = stream ? queue(self, t, args[3], stream) : run_blocking(self, t);
    Py_XDECREF(done);
    return done ? PyBool_FromLong(true) : NULL;
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
