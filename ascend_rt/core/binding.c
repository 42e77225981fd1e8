/* The module: its types, its constants, and the functions that belong to no object. */
#include "binding.h"
#include "export.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    if (type && PyModule_AddType(module, type) == 0)
        return type;
    Py_XDECREF((PyObject *)type);
    return NULL;
}

void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF((PyObject *)type);
}

/* ---- the GIL in a wait ---- */

void gil_release(void *context)
{
    struct gil *gil = context;
    if (!gil->released)
        gil->released = PyEval_SaveThread();
}

bool gil_attend(void *context, uint64_t waited_ns)
{
    struct gil *gil = context;
    PyEval_RestoreThread(gil->released);
    if (!gil->error[0] && PyErr_CheckSignals() == 0 && gil->object)
        Py_XDECREF(PyObject_CallMethod(gil->object, "_attend", "d", (double)waited_ns * 1e-9));
    if (PyErr_Occurred())
        PyErr_Fetch(&gil->error[0], &gil->error[1], &gil->error[2]);
    gil->released = PyEval_SaveThread();
    return !gil->error[0];
}

bool gil_take_back(struct gil *gil)
{
    if (gil->released) {
        PyEval_RestoreThread(gil->released);
        gil->released = NULL;
    }
    if (!gil->error[0])
        return true;
    PyErr_Restore(gil->error[0], gil->error[1], gil->error[2]);
    gil->error[0] = gil->error[1] = gil->error[2] = NULL;
    return false;
}

struct wait_host gil_host(struct gil *gil)
{
    struct wait_host host = linux_host;
    host.context = gil;
    host.blocks = gil_release;
    host.attend = gil_attend;
    host.where = communicator_says_where;
    return host;
}

/* ---- functions ---- */

static PyObject *die_with_parent(PyObject *module, PyObject *argument)
{
    (void)module;
    long parent = PyLong_AsLong(argument);
    if (parent == -1 && PyErr_Occurred())
        return NULL;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    if (getppid() != parent) /* it died before the kernel knew that we care */
        raise(SIGKILL);
    Py_RETURN_NONE;
}

/* has_kernels(variant) */
static PyObject *has_kernels(PyObject *module, PyObject *args)
{
    (void)module;
    int variant;
    if (!PyArg_ParseTuple(args, "i:has_kernels", &variant))
        return NULL;
    return PyBool_FromLong(has_kernel_variant(variant));
}

/* reduce(dtype, op, variant, destinations, sources, divisor): one kernel by itself, for tests and measurements. */
static PyObject *reduce_buffers(PyObject *module, PyObject *args)
{
    (void)module;
    int dtype, op, variant;
    unsigned divisor;
    PyObject *destination, *first, *second;
    if (!PyArg_ParseTuple(args, "iiiOOOI:reduce", &dtype, &op, &variant, &destination, &first, &second, &divisor))
        return NULL;
    reduce_function *kernel = has_kernel_variant(variant) ? find_reduce(dtype, op, (enum kernel_variant)variant) : NULL;
    if (!kernel || divisor == 0)
        return PyErr_Format(PyExc_ValueError, "no kernel for dtype %d, op %d, variant %d", dtype, op, variant);
    Py_buffer view[3];
    PyObject *objects[3] = {destination, first, second};
    int held = 0;
    while (held < 3 && PyObject_GetBuffer(objects[held], &view[held], held ? PyBUF_SIMPLE : PyBUF_WRITABLE) == 0)
        held++;
    bool fits = held == 3 && view[1].len == view[0].len && view[2].len == view[0].len;
    if (held == 3 && !fits)
        PyErr_SetString(PyExc_ValueError, "the buffers have different sizes");
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        kernel((void *const[]){view[0].buf}, 1, (const void *const[]){view[1].buf, view[2].buf}, 2,
               (size_t)view[0].len / dtype_nbytes(dtype), divisor);
        Py_END_ALLOW_THREADS
    }
    while (held-- > 0)
        PyBuffer_Release(&view[held]);
    if (!fits)
        return NULL;
    Py_RETURN_NONE;
}

/* cut(count, chunks, item_nbytes, chunk) -> first element of the flat chunk: what the plan room computes in Python. */
static PyObject *chunk_start_of(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned long long count, chunk;
    unsigned chunks;
    Py_ssize_t item_nbytes;
    if (!PyArg_ParseTuple(args, "KInK:chunk_start", &count, &chunks, &item_nbytes, &chunk))
        return NULL;
    if (chunks == 0 || item_nbytes <= 0)
        return PyErr_Format(PyExc_ValueError, "chunks and item_nbytes must be positive");
    struct cut cut = cut_count(count, chunks, (size_t)item_nbytes);
    return PyLong_FromUnsignedLongLong(chunk_start(&cut, chunk));
}

static PyMethodDef functions[] = {
    {"die_with_parent", die_with_parent, METH_O, "SIGKILL this process when its parent dies."},
    {"board_nbytes", board_nbytes, METH_O, "Size of the board of a communicator of so many ranks."},
    {"has_kernels", has_kernels, METH_VARARGS, "Whether this processor runs a variant of the reduction kernels."},
    {"reduce", reduce_buffers, METH_VARARGS, "Run one reduction kernel on two sources."},
    {"chunk_start", chunk_start_of, METH_VARARGS, "Where a flat chunk begins, in elements."},
    {NULL, NULL, 0, NULL},
};

static int add_constants(PyObject *module)
{
    return PyModule_AddIntMacro(module, LAYOUT_VERSION) || PyModule_AddIntMacro(module, PAYLOAD_NBYTES) ||
           PyModule_AddIntMacro(module, PACKET_NBYTES) ||
           PyModule_AddIntMacro(module, NOTE_NBYTES) || PyModule_AddIntMacro(module, KERNEL_PLAIN) ||
           PyModule_AddIntMacro(module, KERNEL_AVX2) || PyModule_AddIntMacro(module, KERNEL_AVX512) ||
           PyModule_AddIntMacro(module, KERNEL_NEON) || PyModule_AddIntMacro(module, CALL_DONE) ||
           PyModule_AddIntMacro(module, CALL_DIFFERS) || PyModule_AddIntMacro(module, CALL_ABORTED) ||
           PyModule_AddIntMacro(module, CALL_NO_CHOICE) || PyModule_AddIntMacro(module, CALL_NO_SCRATCH) ||
           PyModule_AddIntMacro(module, CALL_NO_STAGING) || PyModule_AddIntMacro(module, CALL_TOO_LARGE) ||
           PyModule_AddIntMacro(module, EXPORT_MEMORY) || PyModule_AddIntMacro(module, EXPORT_FLAG) ||
           PyModule_AddIntMacro(module, IMPORT_DONE) || PyModule_AddIntMacro(module, IMPORT_OTHER_KIND) ||
           PyModule_AddIntMacro(module, IMPORT_NOT_ALLOWED) || PyModule_AddIntMacro(module, EVENT_LATE) || PyModule_AddIntMacro(module, WORD_LATE) ||
           PyModule_AddIntMacro(module, STREAM_ABORTED) ||
           PyModule_AddIntMacro(module, FUNCTION_FAILED) || PyModule_AddIntMacro(module, LINE_REFUSED)
               ? -1
               : 0;
}

static int fill_module(PyObject *module)
{
    struct core_module *state = PyModule_GetState(module);
    return add_constants(module) || add_segment_types(module, state) || add_device_types(module, state) || add_communicator_type(module, state) ||
                   add_stream_types(module, state) || add_graph_type(module, state)
               ? -1 : 0;
}

static int traverse_module(PyObject *module, visitproc visit, void *arg)
{
    struct core_module *state = PyModule_GetState(module);
    Py_VISIT(state->segment);
    Py_VISIT(state->device);
    Py_VISIT(state->block);
    Py_VISIT(state->communicator);
    Py_VISIT(state->stream);
    Py_VISIT(state->mark);
    Py_VISIT(state->graph);
    Py_VISIT(state->rank_line);
    Py_VISIT(state->line);
    return 0;
}

static int clear_module(PyObject *module)
{
    struct core_module *state = PyModule_GetState(module);
    Py_CLEAR(state->segment);
    Py_CLEAR(state->device);
    Py_CLEAR(state->block);
    Py_CLEAR(state->communicator);
    Py_CLEAR(state->stream);
    Py_CLEAR(state->mark);
    Py_CLEAR(state->graph);
    Py_CLEAR(state->rank_line);
    Py_CLEAR(state->line);
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, fill_module},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_core",
    .m_doc = "The native core of ascend_rt.",
    .m_size = sizeof(struct core_module),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = traverse_module,
    .m_clear = clear_module,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
