/* Communicator, all but its calls: making one, telling it how calls are done, looking at it. */
#include <errno.h>
#include <signal.h>

#include "binding.h"
#include "binding_docstrings.h"
#include "order.h"

/* The words of a plan or an exchange, as Python lends them. */
struct words {
    Py_buffer buffer;
    const int32_t *first;
    size_t n;
};

static bool get_words(PyObject *object, struct words *words)
{
    if (PyObject_GetBuffer(object, &words->buffer, PyBUF_SIMPLE) < 0)
        return false;
    words->first = words->buffer.buf;
    words->n = (size_t)words->buffer.len / sizeof(int32_t);
    return true;
}

/* Takes over what was read into the choice, unless something is `wrong` already. */
static PyObject *add(struct communicator_object *self, struct choice *choice, const char *wrong)
{
    if (!wrong && communicator_add_choice(&self->communicator, choice))
        wrong = "a choice that this rank cannot run: dtype, op, size of the payload or ranks of the plan";
    if (!wrong)
        Py_RETURN_NONE;
    exchange_free(&choice->exchange);
    plan_free(&choice->plan);
    return PyErr_Format(PyExc_ValueError, "%s", wrong);
}

/* _add_plan(collective, dtype, op, root, least_nbytes, most_nbytes, fingerprint, packed plan, and the marks of what is
 * lent of IN and OUT) */
static PyObject *add_plan(PyObject *object, PyObject *args)
{
    struct choice choice = {0};
    unsigned long long least, most;
    long long root;
    PyObject *packed;
    const char *in = NULL, *out = NULL;
    Py_ssize_t nin = 0, nout = 0;
    struct words words;
    if (!PyArg_ParseTuple(args, "bbbLKKIO|y#y#:_add_plan", &choice.collective, &choice.dtype, &choice.op, &root, &least,
                          &most, &choice.fingerprint, &packed, &in, &nin, &out, &nout) ||
        !get_words(packed, &words))
        return NULL;
    choice.root = root < 0 ? ROOT_ANY : (uint32_t)root;
    choice.least_nbytes = least;
    choice.most_nbytes = most;
    const char *wrong = plan_read(&choice.plan, words.first, words.n);
    PyBuffer_Release(&words.buffer);
    if (!wrong && in && out)
        wrong = plan_lend(&choice.plan, (const uint8_t *)in, (size_t)nin, (const uint8_t *)out, (size_t)nout);
    return add((struct communicator_object *)object, &choice, wrong);
}

/* _add_exchange(collective, dtype, op, root, most_nbytes, fingerprint, words) */
static PyObject *add_exchange(PyObject *object, PyObject *args)
{
    struct communicator_object *self = (struct communicator_object *)object;
    struct choice choice = {.is_exchange = true};
    unsigned long long most;
    long long root;
    PyObject *given;
    struct words words;
    if (!PyArg_ParseTuple(args, "bbbLKIO:_add_exchange", &choice.collective, &choice.dtype, &choice.op, &root, &most,
                          &choice.fingerprint, &given) ||
        !get_words(given, &words))
        return NULL;
    choice.root = root < 0 ? ROOT_ANY : (uint32_t)root;
    choice.most_nbytes = most;
    const char *wrong = exchange_read(&choice.exchange, words.first, words.n, self->communicator.size);
    PyBuffer_Release(&words.buffer);
    return add(self, &choice, wrong);
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

int keep_lent_memory(struct communicator_object *self, PyObject *block)
{
    return self->kept ? PyList_Append(self->kept, block) : (self->kept = PyList_New(0)) ? PyList_Append(self->kept, block) : -1;
}

/* _set_scratch(block, offset, nbytes): device memory that plans may use for partial results. */
static PyObject *set_scratch(PyObject *object, PyObject *args)
{
    struct communicator_object *self = (struct communicator_object *)object;
    PyObject *block;
    unsigned long long offset, nbytes;
    if (!PyArg_ParseTuple(args, "OKK:_set_scratch", &block, &offset, &nbytes) || keep_lent_memory(self, block) < 0)
        return NULL;
    self->communicator.scratch_offset = offset;
    self->communicator.scratch_nbytes = nbytes;
    Py_RETURN_NONE;
}

/* _set_staging(block, offset): device memory of twice _piece_nbytes, for arrays that are not. */
static PyObject *set_staging(PyObject *object, PyObject *args)
{
    struct communicator_object *self = (struct communicator_object *)object;
    PyObject *block;
    unsigned long long offset;
    if (!PyArg_ParseTuple(args, "OK:_set_staging", &block, &offset) || keep_lent_memory(self, block) < 0)
        return NULL;
    self->communicator.staging_offset = offset;
    self->communicator.has_staging = true;
    Py_RETURN_NONE;
}

/* _set_table(block, offset): device memory for this rank's split tables. */
static PyObject *set_table(PyObject *object, PyObject *args)
{
    struct communicator_object *self = (struct communicator_object *)object;
    PyObject *block;
    unsigned long long offset;
    if (!PyArg_ParseTuple(args, "OK:_set_table", &block, &offset) || keep_lent_memory(self, block) < 0)
        return NULL;
    self->communicator.table_offset = offset;
    Py_RETURN_NONE;
}

/* _tune(spins, yields, sleep_ns, timeout_ns, kernels, piece_nbytes, least_reached_nbytes, most_scratch_nbytes) */
static PyObject *tune(PyObject *object, PyObject *args)
{
    struct communicator *c = &((struct communicator_object *)object)->communicator;
    struct patience *patience = &c->waiter.patience;
    unsigned long long sleep_ns, timeout_ns, piece_nbytes, least_reached_nbytes, most_scratch_nbytes;
    int kernels;
    if (!PyArg_ParseTuple(args, "IIKKiKKK:_tune", &patience->spins, &patience->yields, &sleep_ns, &timeout_ns, &kernels,
                          &piece_nbytes, &least_reached_nbytes, &most_scratch_nbytes))
        return NULL;
    if (kernels >= 0 && !has_kernel_variant(kernels))
        return PyErr_Format(PyExc_ValueError, "this processor does not run kernel variant %d", kernels);
    patience->sleep_ns = sleep_ns;
    c->piece_nbytes = piece_nbytes;
    c->least_reached_nbytes = least_reached_nbytes;
    c->most_scratch_nbytes = most_scratch_nbytes;
    c->waiter.timeout_ns = timeout_ns;
    c->kernels = kernels < 0 ? best_kernel_variant() : (enum kernel_variant)kernels;
    Py_RETURN_NONE;
}

static void stop_this_process(void *context)
{
    (void)context;
    raise(SIGSTOP);
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

static PyObject *in_use(PyObject *object, PyObject *none)
{
    (void)none;
    struct communicator_object *self = (struct communicator_object *)object;
    return PyBool_FromLong(self->busy || !call_queue_is_idle(&self->queue) || !transfers_are_over(&self->communicator));
}

/* Only when it is closed and not in use: plans and staging need their memory no more. */
static PyObject *release(PyObject *object, PyObject *none)
{
    (void)none;
    Py_CLEAR(((struct communicator_object *)object)->kept);
    Py_RETURN_NONE;
}

static PyObject *abort_word(PyObject *object, PyObject *none)
{
    (void)none;
    return PyLong_FromUnsignedLong(load_acquire(&((struct communicator_object *)object)->communicator.board->abort));
}

static PyObject *state_now(PyObject *object, PyObject *none)
{
    (void)none;
    const struct communicator *c = &((struct communicator_object *)object)->communicator;
    return Py_BuildValue("(iIi)", (int)c->waiter.collective, c->waiter.call, (int)c->quiescing - 1);
}

static PyObject *differs_so_far(PyObject *object, PyObject *none)
{
    (void)none;
    return PyBool_FromLong(board_differs_so_far(&((struct communicator_object *)object)->communicator));
}

static PyObject *statistics(PyObject *object, PyObject *none)
{
    (void)none;
    struct communicator *c = &((struct communicator_object *)object)->communicator;
    unsigned long long late_sleeps = c->waiter.patience.late_sleeps + load_relaxed(&c->late_sleeps_in_transfers);
    return Py_BuildValue("{s:I,s:I,s:I,s:K,s:K,s:K}", "rounds", c->round - 1, "calls", c->call, "committed", c->phase, "sleeps",
                         (unsigned long long)c->waiter.patience.sleeps, "late_sleeps", late_sleeps, "reached_nbytes",
                         (unsigned long long)c->reached_nbytes);
}

static bool intern_names(struct communicator_object *self)
{
    static const char *const ops[REDUCE_OP_COUNT] = {"sum", "prod", "max", "min", "avg"};
    for (int op = 0; op < REDUCE_OP_COUNT; op++)
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

/* _learn_dtype(dtype, number): one more dtype object that the hot path knows. */
static PyObject *learn_dtype(PyObject *object, PyObject *args)
{
    struct communicator_object *self = (struct communicator_object *)object;
    PyObject *dtype;
    unsigned char number;
    if (!PyArg_ParseTuple(args, "Ob:_learn_dtype", &dtype, &number))
        return NULL;
    for (size_t i = 0; i < self->ndtypes; i++)
        if (self->dtype[i] == dtype)
            Py_RETURN_NONE;
    if (self->ndtypes < MOST_DTYPES && dtype_nbytes(number)) {
        self->dtype[self->ndtypes] = Py_NewRef(dtype);
        self->dtype_id[self->ndtypes++] = number;
    }
    Py_RETURN_NONE;
}

/* False, with an exception set, unless `given` holds `size` ranks of the job; None: the first `size`. */
static bool take_members(PyObject *given, uint32_t *members, uint32_t size)
{
    for (uint32_t member = 0; member < size; member++)
        members[member] = member;
    if (given == Py_None)
        return true;
    if (!PyTuple_Check(given) || PyTuple_Size(given) != (Py_ssize_t)size)
        return false;
    for (uint32_t member = 0; member < size; member++)
        members[member] = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GetItem(given, member));
    return !PyErr_Occurred();
}

/* Communicator(segment, device, rank, size, dtypes, stream type, members, board): board 0 is the world's, whose ranks are
 * the ranks of the job. */
static PyObject *new_communicator(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    PyObject *segment, *device, *dtypes, *streams, *given;
    unsigned rank, size;
    unsigned long long offset;
    if (!PyArg_ParseTuple(args, "OOIIO!O!OK:Communicator", &segment, &device, &rank, &size, &PyDict_Type, &dtypes,
                          &PyType_Type, &streams, &given, &offset))
        return NULL;
    struct communicator_object *self = (struct communicator_object *)PyType_GenericAlloc(type, 0);
    uint32_t *members = PyMem_Malloc((size + 1) * sizeof *members);
    const struct segment *job = &((struct segment_object *)segment)->segment;
    struct board *board = offset ? segment_group_board(job, offset, size) : NULL;
    if (!self || !members || !intern_names(self) || !take_dtypes(self, dtypes) || !take_members(given, members, size) ||
        (offset && !board))
        goto failed;
    self->segment = (struct segment_object *)Py_NewRef(segment);
    self->device = (struct device_object *)Py_NewRef(device);
    self->stream_type = (PyTypeObject *)Py_NewRef((PyObject *)streams);
    if (communicator_open(&self->communicator, &self->segment->segment, &self->device->arena, board, members, size, rank))
        goto failed;
    self->gil.object = (PyObject *)self;
    self->communicator.waiter.host = gil_host(&self->gil);
    call_queue_open(&self->queue, &self->communicator);
    PyMem_Free(members);
    return (PyObject *)self;
failed:
    PyMem_Free(members);
    Py_XDECREF((PyObject *)self);
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "a communicator needs a segment, a device, a rank below its size, its members and known dtypes");
    return NULL;
}

static void free_communicator(PyObject *object)
{
    struct communicator_object *self = (struct communicator_object *)object;
    if (self->communicator.board) {
        call_queue_close(&self->queue);
        communicator_close(&self->communicator);
    }
    for (size_t i = 0; i < self->ndtypes; i++)
        Py_DECREF(self->dtype[i]);
    for (int op = 0; op < REDUCE_OP_COUNT; op++)
        Py_XDECREF(self->op[op]);
    PyObject *owned[] = {(PyObject *)self->segment, (PyObject *)self->device, (PyObject *)self->stream_type, self->kept, self->dtype_name, self->x_name,
                         self->out_name, self->op_name, self->stream_name, self->root_name, self->array_type};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        Py_XDECREF(owned[i]);
    free_object(object);
}

static PyMethodDef methods[] = {
    {"all_reduce", KEYWORDS(call_all_reduce), METH_FASTCALL | METH_KEYWORDS, ALL_REDUCE_DOCSTRING},
    {"broadcast", KEYWORDS(call_broadcast), METH_FASTCALL | METH_KEYWORDS, BROADCAST_DOCSTRING},
    {"barrier", KEYWORDS(call_barrier), METH_FASTCALL | METH_KEYWORDS, BARRIER_DOCSTRING},
    {"_call_plainly", KEYWORDS(call_plainly), METH_FASTCALL, "Run or queue a call that is plainly right; or say that it is not."},
    {"_set_forms", set_forms, METH_O, "What the arrays of each collective are, for calls that are plainly right."},
    {"_call", call_once, METH_VARARGS, "Run or queue a call; or say what is missing for it."},
    {"_resync", call_resync, METH_NOARGS, "Take the highest call number of all ranks."},
    {"_defer", defer_calls, METH_O, "Whether every call is handed to Python."},
    {"_refuse", call_refuse, METH_VARARGS, "Take part in a round, saying why this rank cannot do the call."},
    {"_transfer", call_transfer, METH_VARARGS, "Run or queue sends and receives; or say for which peer staging is missing."},
    {"_transfer_plainly", KEYWORDS(call_transfer_plainly), METH_FASTCALL, "Send or receive one message that is plainly right; or say that it is not."},
    {"_set_channel_staging", set_channel_staging, METH_VARARGS, "Device memory for what is sent to one peer and is not in it."},
    {"_add_plan", add_plan, METH_VARARGS, "How calls of one kind and a range of sizes are done."},
    {"_add_exchange", add_exchange, METH_VARARGS, "How calls of one kind and up to a size are done within the round."},
    {"_scratch_needed", scratch_needed, METH_VARARGS, "Bytes of scratch that a call needs."},
    {"_trust_arrays", trust_arrays, METH_O, "Read such arrays where they lie, if they are as expected; whether they are."},
    {"_learn_dtype", learn_dtype, METH_VARARGS, "One more dtype object that the hot path knows."},
    {"_set_scratch", set_scratch, METH_VARARGS, "Device memory for partial results."},
    {"_set_staging", set_staging, METH_VARARGS, "Device memory for arrays that are not in it."},
    {"_set_table", set_table, METH_VARARGS, "Device memory for the tables of calls whose blocks differ in count."},
    {"_set_links", set_links, METH_O, "Emulated links to each rank: (nanoseconds per byte, nanoseconds of latency)."},
    {"_tune", tune, METH_VARARGS, "How to wait, and which kernels to run."},
    {"_stop_when_committed", stop_when_committed, METH_NOARGS, "For tests: SIGSTOP after each commit, before any store."},
    {"_in_use", in_use, METH_NOARGS, "Whether a call runs, or is queued."},
    {"_release", release, METH_NOARGS, "Give back the device memory it has been given."},
    {"_abort_word", abort_word, METH_NOARGS, "Why it ended, 0 if it has not."},
    {"_close", close_communicator, METH_NOARGS, "Refuse every later call."},
    {"_now", state_now, METH_NOARGS, "(collective, call, rank it quiesces for or -1) of the call that runs."},
    {"_differs_so_far", differs_so_far, METH_NOARGS, "Whether a rank that is here already says another call than this one."},
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
