/* Communicator: the hot path from Python to the board.
 *
 * A collective that is called as it always is (known dtype, contiguous device memory, a choice already made) never
 * leaves this file.  Everything else is handed to the Python subclass:
 *     _all_reduce(x, out, op, stream), _broadcast(x, root, stream)   arguments that are not plainly right
 *     _fail(end)                                                    the call failed on all ranks: raises
 *     _attend(seconds, differs, quiescing)                          between two sleeps of a long wait
 * The GIL is held through the short spin, in which a peer that is on time arrives, and released before the first yield.
 */
#include <errno.h>
#include <signal.h>

#include "binding.h"
#include "order.h"

enum { MOST_DTYPES = 16, OPS = REDUCE_OP_COUNT };

struct communicator_object {
    PyObject_HEAD
    struct communicator communicator;
    struct segment_object *segment;
    struct device_object *device;
    PyObject *scratch;
    PyThreadState *released; /* not NULL while the GIL is released */
    PyObject *error[3];      /* raised while waiting: type, value, traceback */
    bool busy, closed;
    PyObject *dtype[MOST_DTYPES];
    uint8_t dtype_id[MOST_DTYPES];
    size_t ndtypes;
    PyObject *op[OPS]; /* interned names by number */
    PyObject *dtype_name, *x_name, *out_name, *op_name, *stream_name, *root_name;
};

/* ---- what the waiting code calls back ---- */

static void release_gil(void *context)
{
    struct communicator_object *self = context;
    if (!self->released)
        self->released = PyEval_SaveThread();
}

static bool attend(void *context, uint64_t waited_ns)
{
    struct communicator_object *self = context;
    struct communicator *c = &self->communicator;
    PyEval_RestoreThread(self->released);
    if (!self->error[0] && PyErr_CheckSignals() == 0) {
        PyObject *none = PyObject_CallMethod((PyObject *)self, "_attend", "dii", (double)waited_ns * 1e-9, (int)c->differs,
                                             (int)c->quiescing);
        Py_XDECREF(none);
    }
    if (PyErr_Occurred())
        PyErr_Fetch(&self->error[0], &self->error[1], &self->error[2]);
    self->released = PyEval_SaveThread();
    return !self->error[0];
}

static void stop_this_process(void *context)
{
    (void)context;
    raise(SIGSTOP);
}

/* ---- one call ---- */

static bool begin(struct communicator_object *self)
{
    const char *wrong = self->closed ? "this communicator was destroyed, or this process is a fork of its rank"
                        : self->busy ? "another thread of this rank is inside a collective of this communicator"
                                     : NULL;
    if (wrong)
        PyErr_SetString(PyExc_RuntimeError, wrong);
    self->busy = !wrong || self->busy;
    return !wrong;
}

/* False if an exception was raised while the call waited. */
static bool end(struct communicator_object *self)
{
    if (self->released) {
        PyEval_RestoreThread(self->released);
        self->released = NULL;
    }
    self->busy = false;
    if (!self->error[0])
        return true;
    PyErr_Restore(self->error[0], self->error[1], self->error[2]);
    self->error[0] = self->error[1] = self->error[2] = NULL;
    return false;
}

static bool buffers_of(PyObject *in, PyObject *out, Py_buffer *in_view, Py_buffer *out_view)
{
    if (PyObject_GetBuffer(out, out_view, PyBUF_WRITABLE) < 0)
        return false;
    if (in == out || PyObject_GetBuffer(in, in_view, PyBUF_SIMPLE) == 0)
        return true;
    PyBuffer_Release(out_view);
    return false;
}

static void release_buffers(PyObject *in, PyObject *out, Py_buffer *in_view, Py_buffer *out_view)
{
    if (in != out)
        PyBuffer_Release(in_view);
    PyBuffer_Release(out_view);
}

/* HcclDataType of an array, or -1; compares dtype objects by identity, so equal but distinct ones take the slow path. */
static int dtype_of(struct communicator_object *self, PyObject *array)
{
    PyObject *dtype = PyObject_GetAttr(array, self->dtype_name);
    if (!dtype) {
        PyErr_Clear();
        return -1;
    }
    int id = -1;
    for (size_t i = 0; i < self->ndtypes && id < 0; i++)
        if (self->dtype[i] == dtype)
            id = self->dtype_id[i];
    Py_DECREF(dtype);
    return id;
}

/* Keyword arguments compared by identity first: literal names are interned. */
static bool place_arguments(PyObject *const *args, Py_ssize_t nargs, PyObject *names, PyObject *const *expected,
                            Py_ssize_t nexpected, PyObject **values)
{
    Py_ssize_t nnames = names ? PyTuple_Size(names) : 0;
    bool fine = nargs >= 1 && nargs <= nexpected;
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
    if (!fine)
        PyErr_SetString(PyExc_TypeError, "collectives take an array and the keywords that their docstrings name");
    return fine;
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

static PyObject *fail(struct communicator_object *self, enum call_end how)
{
    return PyObject_CallMethod((PyObject *)self, "_fail", "i", (int)how);
}

/* One fast attempt.  CALL_NO_CHOICE stands for everything that has to be looked at in Python; -1 for an exception. */
static int attempt(struct communicator_object *self, struct call *call, PyObject *in, PyObject *out)
{
    int dtype = dtype_of(self, in);
    Py_buffer in_view, out_view;
    if (dtype < 0 || (in != out && dtype_of(self, out) != dtype))
        return CALL_NO_CHOICE;
    if (!buffers_of(in, out, &in_view, &out_view)) {
        PyErr_Clear();
        return CALL_NO_CHOICE;
    }
    int how = CALL_NO_CHOICE;
    if (in == out || in_view.len == out_view.len) {
        call->dtype = (uint8_t)dtype;
        call->count = (uint64_t)out_view.len / dtype_nbytes(dtype);
        call->in = in == out ? out_view.buf : in_view.buf;
        call->out = out_view.buf;
        how = communicator_call(&self->communicator, call);
    }
    bool fine = end(self);
    release_buffers(in, out, &in_view, &out_view);
    return fine ? how : -1;
}

static PyObject *finish(struct communicator_object *self, int how, PyObject *out, const char *method,
                        PyObject *const *values, Py_ssize_t n)
{
    self->busy = false;
    switch (how) {
    case -1: return NULL;
    case CALL_DONE: return Py_NewRef(out);
    case CALL_DIFFERS:
    case CALL_ABORTED: return fail(self, (enum call_end)how);
    default: return in_python(self, method, values, n);
    }
}

static PyObject *all_reduce(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    struct communicator_object *self = (struct communicator_object *)object;
    PyObject *expected[] = {self->x_name, self->out_name, self->op_name, self->stream_name};
    PyObject *values[4] = {NULL};
    if (!place_arguments(args, nargs, names, expected, 4, values) || !begin(self))
        return NULL;
    PyObject *x = values[0], *out = values[1] && values[1] != Py_None ? values[1] : x;
    uint8_t op = REDUCE_SUM;
    while (values[2] && op < OPS && self->op[op] != values[2])
        op++;
    struct call call = {.collective = ALL_REDUCE, .op = op};
    bool plain = op < OPS && (!values[3] || values[3] == Py_None);
    int how = plain ? attempt(self, &call, x, out) : CALL_NO_CHOICE;
    if (!values[2])
        values[2] = self->op[REDUCE_SUM];
    return finish(self, how, out, "_all_reduce", values, 4);
}

static PyObject *broadcast(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    struct communicator_object *self = (struct communicator_object *)object;
    PyObject *expected[] = {self->x_name, self->root_name, self->stream_name};
    PyObject *values[3] = {NULL};
    if (!place_arguments(args, nargs, names, expected, 3, values) || !begin(self))
        return NULL;
    unsigned long root = values[1] && PyLong_CheckExact(values[1]) ? PyLong_AsUnsignedLong(values[1]) : 0;
    bool plain = !PyErr_Occurred() && root < self->communicator.size && (!values[1] || PyLong_CheckExact(values[1])) &&
                 (!values[2] || values[2] == Py_None);
    PyErr_Clear();
    struct call call = {.collective = BROADCAST, .root = (uint32_t)root};
    int how = plain ? attempt(self, &call, values[0], values[0]) : CALL_NO_CHOICE;
    PyObject *zero = PyLong_FromLong(0);
    if (!values[1])
        values[1] = zero;
    PyObject *result = zero ? finish(self, how, values[0], "_broadcast", values, 3) : NULL;
    Py_XDECREF(zero);
    return result;
}

/* _call(collective, dtype, op, root, count, in, out) -> how it ended (CALL_*). */
static PyObject *call_once(PyObject *object, PyObject *args)
{
    struct communicator_object *self = (struct communicator_object *)object;
    unsigned char collective, dtype, op;
    unsigned root;
    unsigned long long count;
    PyObject *in, *out;
    if (!PyArg_ParseTuple(args, "bbbIKOO:_call", &collective, &dtype, &op, &root, &count, &in, &out))
        return NULL;
    Py_buffer in_view, out_view;
    if (!buffers_of(in, out, &in_view, &out_view))
        return NULL;
    struct call call = {.collective = collective, .dtype = dtype, .op = op, .root = root, .count = count,
                        .in = in == out ? out_view.buf : in_view.buf, .out = out_view.buf};
    enum call_end how = CALL_DONE;
    bool fine = begin(self);
    if (fine) {
        how = communicator_call(&self->communicator, &call);
        fine = end(self);
    }
    release_buffers(in, out, &in_view, &out_view);
    return fine ? PyLong_FromLong(how) : NULL;
}

static PyObject *text_round(PyObject *object, PyObject *args, const char *format, bool refuses)
{
    struct communicator_object *self = (struct communicator_object *)object;
    unsigned char collective;
    const char *text;
    if (!PyArg_ParseTuple(args, format, &collective, &text) || !begin(self))
        return NULL;
    enum call_end how = refuses ? communicator_refuse(&self->communicator, collective, text)
                                : communicator_tell(&self->communicator, text);
    return end(self) ? PyLong_FromLong(how) : NULL;
}

static PyObject *refuse(PyObject *self, PyObject *args) { return text_round(self, args, "bs:_refuse", true); }
static PyObject *tell(PyObject *self, PyObject *args) { return text_round(self, args, "bs:_tell", false); }

/* ---- setting up ---- */

/* _add_choice(collective, dtype, op, root, least_nbytes, most_nbytes, fingerprint, packed plan or None) */
static PyObject *add_choice(PyObject *object, PyObject *args)
{
    struct communicator_object *self = (struct communicator_object *)object;
    struct choice choice = {0};
    unsigned long long least, most;
    long long root;
    PyObject *packed;
    if (!PyArg_ParseTuple(args, "bbbLKKIO:_add_choice", &choice.collective, &choice.dtype, &choice.op, &root, &least, &most,
                          &choice.fingerprint, &packed))
        return NULL;
    choice.root = root < 0 ? ROOT_ANY : (uint32_t)root;
    choice.least_nbytes = least;
    choice.most_nbytes = most;
    choice.in_line = packed == Py_None;
    const char *wrong = NULL;
    if (!choice.in_line) {
        Py_buffer view;
        if (PyObject_GetBuffer(packed, &view, PyBUF_SIMPLE) < 0)
            return NULL;
        wrong = plan_read(&choice.plan, view.buf, (size_t)view.len / sizeof(int32_t));
        PyBuffer_Release(&view);
    }
    if (!wrong && communicator_add_choice(&self->communicator, &choice)) {
        plan_free(&choice.plan);
        wrong = "a choice that this rank cannot run: dtype, op, size of the payload or ranks of the plan";
    }
    if (wrong)
        return PyErr_Format(PyExc_ValueError, "%s", wrong);
    Py_RETURN_NONE;
}

static PyObject *scratch_needed(PyObject *object, PyObject *args)
{
    struct call call = {0};
    unsigned long long count;
    if (!PyArg_ParseTuple(args, "bbbIK:_scratch_needed", &call.collective, &call.dtype, &call.op, &call.root, &count))
        return NULL;
    call.count = count;
    return PyLong_FromUnsignedLongLong(communicator_scratch_needed(&((struct communicator_object *)object)->communicator, &call));
}

/* _set_scratch(block, nbytes): device memory that plans may use for partial results. */
static PyObject *set_scratch(PyObject *object, PyObject *args)
{
    struct communicator_object *self = (struct communicator_object *)object;
    PyObject *block;
    unsigned long long offset, nbytes;
    if (!PyArg_ParseTuple(args, "OKK:_set_scratch", &block, &offset, &nbytes))
        return NULL;
    PyObject *before = self->scratch;
    self->scratch = Py_NewRef(block);
    Py_XDECREF(before);
    self->communicator.scratch_offset = offset;
    self->communicator.scratch_nbytes = nbytes;
    Py_RETURN_NONE;
}

/* _tune(spins, yields, sleep_ns, timeout_ns, kernels) */
static PyObject *tune(PyObject *object, PyObject *args)
{
    struct communicator *c = &((struct communicator_object *)object)->communicator;
    unsigned long long sleep_ns, timeout_ns;
    int kernels;
    if (!PyArg_ParseTuple(args, "IIKKi:_tune", &c->waiter.spins, &c->waiter.yields, &sleep_ns, &timeout_ns, &kernels))
        return NULL;
    c->waiter.sleep_ns = sleep_ns;
    c->waiter.timeout_ns = timeout_ns;
    c->kernels = kernels < 0 ? best_kernel_variant() : (enum kernel_variant)kernels;
    Py_RETURN_NONE;
}

static PyObject *stop_when_committed(PyObject *object, PyObject *none)
{
    (void)none;
    ((struct communicator_object *)object)->communicator.waiter.host.committed = stop_this_process;
    Py_RETURN_NONE;
}

static PyObject *close_communicator(PyObject *object, PyObject *none)
{
    (void)none;
    ((struct communicator_object *)object)->closed = true;
    Py_RETURN_NONE;
}

static PyObject *lines(PyObject *object, PyTypeObject *cls, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    (void)args, (void)nargs, (void)names;
    struct communicator *c = &((struct communicator_object *)object)->communicator;
    struct core_module *state = PyType_GetModuleState(cls);
    uint32_t slot = (c->round - 1) % SLOTS;
    PyObject *list = PyList_New(0);
    for (uint32_t rank = 0; rank < c->size && list; rank++) {
        PyObject *line = line_as_tuple(state->line, board_line(c->board, c->size, slot, rank),
                                       board_note(c->board, c->size, slot, rank));
        if (!line || PyList_Append(list, line) < 0)
            Py_CLEAR(list);
        Py_XDECREF(line);
    }
    return list;
}

static PyObject *abort_word_of(PyObject *object, PyObject *none)
{
    (void)none;
    return PyLong_FromUnsignedLong(load_acquire(&((struct communicator_object *)object)->communicator.board->abort));
}

static PyObject *statistics(PyObject *object, PyObject *none)
{
    (void)none;
    struct communicator *c = &((struct communicator_object *)object)->communicator;
    return Py_BuildValue("{s:I,s:I,s:I,s:K,s:K}", "rounds", c->round - 1, "calls", c->call, "committed", c->phase, "sleeps",
                         (unsigned long long)c->waiter.sleeps, "late_sleeps", (unsigned long long)c->waiter.late_sleeps);
}

static bool intern_names(struct communicator_object *self)
{
    static const char *const ops[OPS] = {"sum", "prod", "max", "min", "avg"};
    for (int op = 0; op < OPS; op++)
        if (!(self->op[op] = PyUnicode_InternFromString(ops[op])))
            return false;
    return (self->dtype_name = PyUnicode_InternFromString("dtype")) && (self->x_name = PyUnicode_InternFromString("x")) &&
           (self->out_name = PyUnicode_InternFromString("out")) && (self->op_name = PyUnicode_InternFromString("op")) &&
           (self->stream_name = PyUnicode_InternFromString("stream")) && (self->root_name = PyUnicode_InternFromString("root"));
}

static bool take_dtypes(struct communicator_object *self, PyObject *dtypes)
{
    PyObject *dtype, *id;
    Py_ssize_t at = 0;
    while (PyDict_Next(dtypes, &at, &dtype, &id) && self->ndtypes < MOST_DTYPES) {
        long number = PyLong_AsLong(id);
        if (number < 0 || number > UINT8_MAX || !dtype_nbytes((int)number))
            return false;
        self->dtype[self->ndtypes] = Py_NewRef(dtype);
        self->dtype_id[self->ndtypes++] = (uint8_t)number;
    }
    return true;
}

/* Communicator(segment, device, rank, size, dtypes): the world's, whose ranks are the ranks of the job. */
static PyObject *new_communicator(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    PyObject *segment, *device, *dtypes;
    unsigned rank, size;
    if (!PyArg_ParseTuple(args, "OOIIO!:Communicator", &segment, &device, &rank, &size, &PyDict_Type, &dtypes))
        return NULL;
    struct communicator_object *self = (struct communicator_object *)PyType_GenericAlloc(type, 0);
    uint32_t *members = PyMem_Malloc((size + 1) * sizeof *members);
    if (!self || !members || !intern_names(self) || !take_dtypes(self, dtypes))
        goto failed;
    for (uint32_t member = 0; member < size; member++)
        members[member] = member;
    self->segment = (struct segment_object *)Py_NewRef(segment);
    self->device = (struct device_object *)Py_NewRef(device);
    if (communicator_open(&self->communicator, &self->segment->segment, &self->device->arena, members, size, rank))
        goto failed;
    self->communicator.waiter.host.context = self;
    self->communicator.waiter.host.blocks = release_gil;
    self->communicator.waiter.host.attend = attend;
    PyMem_Free(members);
    return (PyObject *)self;
failed:
    PyMem_Free(members);
    Py_XDECREF((PyObject *)self);
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "a communicator needs a segment, a device, a rank below its size and known dtypes");
    return NULL;
}

static void free_communicator(PyObject *object)
{
    struct communicator_object *self = (struct communicator_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    communicator_close(&self->communicator);
    for (size_t i = 0; i < self->ndtypes; i++)
        Py_DECREF(self->dtype[i]);
    for (int op = 0; op < OPS; op++)
        Py_XDECREF(self->op[op]);
    PyObject *owned[] = {(PyObject *)self->segment, (PyObject *)self->device, self->scratch, self->dtype_name, self->x_name,
                         self->out_name, self->op_name, self->stream_name, self->root_name};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        Py_XDECREF(owned[i]);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF((PyObject *)type);
}

#define KEYWORDS(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
    {"all_reduce", KEYWORDS(all_reduce), METH_FASTCALL | METH_KEYWORDS,
     "all_reduce(x, out=None, op='sum', stream=None)\n--\n\nSee ascend_rt.hccl.Communicator."},
    {"broadcast", KEYWORDS(broadcast), METH_FASTCALL | METH_KEYWORDS,
     "broadcast(x, root=0, stream=None)\n--\n\nSee ascend_rt.hccl.Communicator."},
    {"_call", call_once, METH_VARARGS, "One attempt at a call; returns how it ended."},
    {"_refuse", refuse, METH_VARARGS, "Take part in a round, saying why this rank cannot do the call."},
    {"_tell", tell, METH_VARARGS, "A round that carries a note of every rank."},
    {"_add_choice", add_choice, METH_VARARGS, "How calls of one kind and a range of sizes are done."},
    {"_scratch_needed", scratch_needed, METH_VARARGS, "Bytes of scratch that a call needs."},
    {"_set_scratch", set_scratch, METH_VARARGS, "Device memory for partial results."},
    {"_tune", tune, METH_VARARGS, "How to wait, and which kernels to run."},
    {"_stop_when_committed", stop_when_committed, METH_NOARGS, "For tests: SIGSTOP after each commit, before any store."},
    {"_close", close_communicator, METH_NOARGS, "Refuse every later call."},
    {"_lines", KEYWORDS(lines), METH_METHOD | METH_FASTCALL | METH_KEYWORDS, "What every rank said in the latest round."},
    {"_abort_word", abort_word_of, METH_NOARGS, "Why this communicator ended, 0 if it has not."},
    {"_statistics", statistics, METH_NOARGS, "Counters of this rank's side."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, new_communicator},
    {Py_tp_methods, methods},
    {Py_tp_dealloc, free_communicator},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "ascend_rt.core._core.Communicator",
    .basicsize = sizeof(struct communicator_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};

int add_communicator_type(PyObject *module, struct core_module *state)
{
    state->communicator = add_type(module, &spec);
    return state->communicator ? 0 : -1;
}
