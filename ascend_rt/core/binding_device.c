/* Device and Block: one device's HBM, and a live piece of it that NumPy lays its arrays over. */
#include "binding.h"

struct block_object {
    PyObject_HEAD
    struct device_object *device;
    uint64_t offset;
    Py_ssize_t nbytes;
};

static PyObject *new_device(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    struct core_module *state = PyType_GetModuleState(type);
    PyObject *segment;
    unsigned index, owner;
    if (keywords && PyDict_Size(keywords))
        return PyErr_Format(PyExc_TypeError, "Device takes no keyword arguments");
    if (!PyArg_ParseTuple(args, "O!II:Device", state->segment, &segment, &index, &owner) ||
        check_rank((struct segment_object *)segment, owner))
        return NULL;
    const struct segment *memory = &((struct segment_object *)segment)->segment;
    if (index >= memory->job->devices)
        return PyErr_Format(PyExc_IndexError, "device %u of %u", index, memory->job->devices);
    struct device_object *self = (struct device_object *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    self->segment = (struct segment_object *)Py_NewRef(segment);
    if (arena_open(&self->arena, memory, index, segment_rank(memory, owner)) != ARENA_DONE) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void free_device(PyObject *object)
{
    struct device_object *self = (struct device_object *)object;
    arena_close(&self->arena);
    Py_CLEAR(self->segment);
    free_object(object);
}

static PyObject *device_malloc(PyObject *object, PyTypeObject *cls, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    static const char *const why[] = {"", "no free block is large enough", "over the budget", "no host memory"};
    struct device_object *self = (struct device_object *)object;
    (void)names;
    Py_ssize_t nbytes = nargs == 1 ? PyLong_AsSsize_t(args[0]) : -1;
    if (PyErr_Occurred())
        return NULL;
    if (nbytes < 0)
        return PyErr_Format(PyExc_ValueError, "malloc takes a number of bytes that is not negative");
    uint64_t offset;
    enum arena_end end = arena_malloc(&self->arena, (uint64_t)nbytes, &offset);
    if (end != ARENA_DONE)
        return PyErr_Format(PyExc_MemoryError, "%s", why[end]);
    struct core_module *state = PyType_GetModuleState(cls);
    struct block_object *block = (struct block_object *)PyType_GenericAlloc(state->block, 0);
    if (!block) {
        arena_free(&self->arena, offset);
        return NULL;
    }
    block->device = (struct device_object *)Py_NewRef(object);
    block->offset = offset;
    block->nbytes = nbytes;
    return (PyObject *)block;
}

static PyObject *device_holds(PyObject *object, PyObject *args)
{
    unsigned long long address, nbytes;
    uint64_t offset;
    if (!PyArg_ParseTuple(args, "KK:holds", &address, &nbytes))
        return NULL;
    return PyBool_FromLong(arena_find(&((struct device_object *)object)->arena, (void *)(uintptr_t)address, nbytes, &offset));
}

static PyObject *get_in_use(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(((struct device_object *)object)->arena.in_use);
}

static PyObject *get_peak(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(((struct device_object *)object)->arena.peak);
}

static PyObject *get_largest_free(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(arena_largest_free(&((struct device_object *)object)->arena));
}

static PyMethodDef device_methods[] = {
    {"malloc", KEYWORDS(device_malloc), METH_METHOD | METH_FASTCALL | METH_KEYWORDS, "A new block of device memory."},
    {"holds", device_holds, METH_VARARGS, "Does a range of addresses lie inside one live block?"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef device_properties[] = {
    {"in_use", get_in_use, NULL, "bytes in live blocks", NULL},
    {"peak", get_peak, NULL, "largest in_use so far", NULL},
    {"largest_free", get_largest_free, NULL, "bytes of the largest free block", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot device_slots[] = {
    {Py_tp_new, new_device},
    {Py_tp_methods, device_methods},
    {Py_tp_getset, device_properties},
    {Py_tp_dealloc, free_device},
    {0, NULL},
};

static PyType_Spec device_spec = {
    .name = "ascend_rt.core._core.Device",
    .basicsize = sizeof(struct device_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = device_slots,
};

static void free_block(PyObject *object)
{
    struct block_object *self = (struct block_object *)object;
    if (self->device) {
        arena_free(&self->device->arena, self->offset);
        Py_CLEAR(self->device);
    }
    free_object(object);
}

static int block_buffer(PyObject *object, Py_buffer *view, int flags)
{
    struct block_object *self = (struct block_object *)object;
    return PyBuffer_FillInfo(view, object, self->device->arena.segment.base + self->offset, self->nbytes, 0, flags);
}

static PyObject *block_address(PyObject *object, void *closure)
{
    (void)closure;
    struct block_object *self = (struct block_object *)object;
    return PyLong_FromVoidPtr(self->device->arena.segment.base + self->offset);
}

static PyObject *block_offset(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(((struct block_object *)object)->offset);
}

static PyGetSetDef block_properties[] = {
    {"address", block_address, NULL, "where it begins, in this process", NULL},
    {"offset", block_offset, NULL, "where it begins, in the segment", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot block_slots[] = {
    {Py_tp_getset, block_properties},
    {Py_bf_getbuffer, block_buffer},
    {Py_tp_dealloc, free_block},
    {0, NULL},
};

static PyType_Spec block_spec = {
    .name = "ascend_rt.core._core.Block",
    .basicsize = sizeof(struct block_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = block_slots,
};

int add_device_types(PyObject *module, struct core_module *state)
{
    state->device = add_type(module, &device_spec);
    state->block = add_type(module, &block_spec);
    return state->device && state->block ? 0 : -1;
}
