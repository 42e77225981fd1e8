/* Segment: the job's memory and its control area as Python sees them. */
#include <errno.h>
#include <string.h>

#include "binding.h"
#include "order.h"

/* ---- Segment ---- */

static PyObject *new_segment(PyTypeObject *type, const struct segment *segment)
{
    struct segment_object *self = (struct segment_object *)PyType_GenericAlloc(type, 0);
    if (self)
        self->segment = *segment;
    return (PyObject *)self;
}

static PyObject *raise_errno(int error)
{
    errno = error;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static PyTypeObject *segment_type(PyTypeObject *cls)
{
    struct core_module *state = PyType_GetModuleState(cls);
    return state->segment;
}

static PyObject *create(PyObject *cls, PyObject *args)
{
    struct segment_sizes sizes;
    unsigned long long window, limit, device_limit;
    if (!PyArg_ParseTuple(args, "IIKKK:create", &sizes.ranks, &sizes.devices, &window, &limit, &device_limit))
        return NULL;
    sizes.window_nbytes = window;
    sizes.hbm_limit = limit;
    sizes.hbm_device_limit = device_limit;
    struct segment segment;
    int error = segment_create(&segment, &sizes);
    return error ? raise_errno(error) : new_segment(segment_type((PyTypeObject *)cls), &segment);
}

static PyObject *attach(PyObject *cls, PyObject *argument)
{
    int fd = PyObject_AsFileDescriptor(argument);
    if (fd < 0)
        return NULL;
    struct segment segment;
    int error = segment_attach(&segment, fd);
    if (error == EPROTO)
        return PyErr_Format(PyExc_ValueError,
                            "descriptor %d holds no job memory of this version of ascend_rt (layout %d): "
                            "are launcher and rank the same installation?",
                            fd, LAYOUT_VERSION);
    return error ? raise_errno(error) : new_segment(segment_type((PyTypeObject *)cls), &segment);
}

int check_rank(const struct segment_object *self, unsigned rank)
{
    if (rank < self->segment.job->ranks)
        return 0;
    PyErr_Format(PyExc_IndexError, "rank %u of a job of %u", rank, self->segment.job->ranks);
    return -1;
}

static PyObject *tuple_of(PyTypeObject *type, PyObject **items, Py_ssize_t n)
{
    PyObject *tuple = PyStructSequence_New(type);
    bool whole = tuple != NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        whole = whole && items[i];
        if (tuple && items[i])
            PyStructSequence_SetItem(tuple, i, items[i]);
        else
            Py_XDECREF(items[i]);
    }
    if (whole)
        return tuple;
    Py_XDECREF(tuple);
    return NULL;
}

static PyObject *rank_line(PyObject *object, PyTypeObject *cls, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    struct segment_object *self = (struct segment_object *)object;
    (void)names;
    unsigned long rank = nargs == 1 ? PyLong_AsUnsignedLong(args[0]) : UINT32_MAX;
    if (PyErr_Occurred() || check_rank(self, (unsigned)rank))
        return NULL;
    struct rank_line *line = segment_rank(&self->segment, (uint32_t)rank);
    struct core_module *state = PyType_GetModuleState(cls);
    PyObject *items[] = {
        PyLong_FromUnsignedLong(load_acquire(&line->state)),
        PyLong_FromLong(load_relaxed(&line->cause)),
        PyLong_FromUnsignedLong(load_relaxed(&line->pid)),
        PyLong_FromUnsignedLongLong(load_relaxed(&line->stamp_ns)),
        PyLong_FromLong((long)load_relaxed(&line->waits_for) - 1),
        PyLong_FromUnsignedLong(load_relaxed(&line->wait_call)),
        PyLong_FromUnsignedLong(load_relaxed(&line->wait_collective)),
        PyLong_FromUnsignedLongLong(load_relaxed(&line->wait_since_ns)),
        PyLong_FromUnsignedLong(load_relaxed(&line->failure)),
        PyLong_FromUnsignedLongLong(load_relaxed(&line->hbm_in_use)),
    };
    return tuple_of(state->rank_line, items, (Py_ssize_t)(sizeof items / sizeof *items));
}

PyObject *line_as_tuple(PyTypeObject *type, const struct line *line, const struct note *note)
{
    const char *end = line->said.flags & LINE_NOTE ? memchr(note->text, 0, NOTE_NBYTES) : NULL;
    PyObject *items[] = {
        PyLong_FromUnsignedLong(notify_number(&line->round)),
        PyLong_FromUnsignedLong(line->said.call),
        PyLong_FromLong(line->said.collective),
        PyLong_FromLong(line->said.dtype),
        PyLong_FromLong(line->said.op),
        PyLong_FromLong(line->said.flags),
        PyLong_FromUnsignedLong(line->said.root),
        PyLong_FromUnsignedLong(line->said.fingerprint),
        PyLong_FromUnsignedLongLong(line->said.count),
        PyUnicode_DecodeUTF8(note->text, end ? end - note->text : 0, "replace"),
    };
    return tuple_of(type, items, (Py_ssize_t)(sizeof items / sizeof *items));
}

/* The board at an offset, 0 for the world's; NULL with an exception set. */
static struct board *board_at(const struct segment_object *self, uint64_t offset, uint32_t ranks)
{
    struct board *board = offset ? segment_group_board(&self->segment, offset, ranks) : segment_world_board(&self->segment);
    if (!board)
        PyErr_Format(PyExc_ValueError, "no board of %u ranks is at offset %llu", ranks, (unsigned long long)offset);
    return board;
}

static PyObject *line(PyObject *object, PyTypeObject *cls, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    struct segment_object *self = (struct segment_object *)object;
    (void)names;
    if (nargs != 2 && nargs != 4)
        return PyErr_Format(PyExc_TypeError, "line takes a rank and a slot, and perhaps the offset and size of a board");
    unsigned long rank = PyLong_AsUnsignedLong(args[0]), slot = PyLong_AsUnsignedLong(args[1]);
    uint32_t n = nargs == 4 ? (uint32_t)PyLong_AsUnsignedLong(args[3]) : self->segment.job->ranks;
    unsigned long long offset = nargs == 4 ? PyLong_AsUnsignedLongLong(args[2]) : 0;
    struct board *board = PyErr_Occurred() ? NULL : board_at(self, offset, n);
    if (!board)
        return NULL;
    if (rank >= n)
        return PyErr_Format(PyExc_IndexError, "rank %lu of a board of %u", rank, n);
    struct core_module *state = PyType_GetModuleState(cls);
    return line_as_tuple(state->line, board_line(board, n, slot % SLOTS, (uint32_t)rank),
                         board_note(board, n, slot % SLOTS, (uint32_t)rank));
}

static PyObject *device_in_use(PyObject *object, PyObject *argument)
{
    const struct segment *segment = &((struct segment_object *)object)->segment;
    unsigned long device = PyLong_AsUnsignedLong(argument);
    if (PyErr_Occurred())
        return NULL;
    if (device >= segment->job->devices)
        return PyErr_Format(PyExc_IndexError, "device %lu of %u", device, segment->job->devices);
    return PyLong_FromUnsignedLongLong(load_relaxed(&segment_device(segment, (uint32_t)device)->hbm_in_use));
}

static PyObject *device_at(PyObject *object, PyObject *argument)
{
    const struct segment *segment = &((struct segment_object *)object)->segment;
    unsigned long long address = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    uint32_t device = segment_device_at(segment, address - (uint64_t)(uintptr_t)segment->base);
    return PyLong_FromLong(device < segment->job->devices ? (long)device : -1);
}

static PyObject *set_state(PyObject *object, PyObject *args, PyObject *keywords)
{
    struct segment_object *self = (struct segment_object *)object;
    static char *names[] = {"rank", "state", "cause", "pid", NULL};
    unsigned rank, rank_state, pid = 0;
    int cause = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "II|iI:set_state", names, &rank, &rank_state, &cause, &pid) ||
        check_rank(self, rank))
        return NULL;
    struct rank_line *own = segment_rank(&self->segment, rank);
    store_relaxed(&own->cause, cause);
    if (pid)
        store_relaxed(&own->pid, pid);
    store_relaxed(&own->stamp_ns, linux_host.now_ns(NULL));
    store_release(&own->state, rank_state);
    Py_RETURN_NONE;
}

static PyObject *raise_abort(PyObject *object, PyObject *args)
{
    struct segment_object *self = (struct segment_object *)object;
    unsigned kind, culprit;
    unsigned long long offset = 0;
    if (!PyArg_ParseTuple(args, "II|K:raise_abort", &kind, &culprit, &offset) || check_rank(self, culprit))
        return NULL;
    struct board *board = board_at(self, offset, 1);
    if (!board)
        return NULL;
    board_raise_abort(board, (enum abort_kind)kind, culprit, 0);
    Py_RETURN_NONE;
}

static PyObject *abort_word(PyObject *object, PyObject *args)
{
    unsigned long long offset = 0;
    if (!PyArg_ParseTuple(args, "|K:abort_word", &offset))
        return NULL;
    struct board *board = board_at((struct segment_object *)object, offset, 1);
    return board ? PyLong_FromUnsignedLong(load_acquire(&board->abort)) : NULL;
}

/* mark_destroyed(rank, board, ranks) */
static PyObject *mark_destroyed(PyObject *object, PyObject *args)
{
    unsigned rank, ranks;
    unsigned long long offset;
    if (!PyArg_ParseTuple(args, "IKI:mark_destroyed", &rank, &offset, &ranks))
        return NULL;
    struct board *board = board_at((struct segment_object *)object, offset, ranks);
    if (!board)
        return NULL;
    if (rank >= ranks)
        return PyErr_Format(PyExc_IndexError, "rank %u of a board of %u", rank, ranks);
    store_release(&board_left(board, ranks, rank)->destroyed, 1);
    Py_RETURN_NONE;
}

static PyObject *group_boards(PyObject *object, PyObject *none)
{
    (void)none;
    uint64_t nbytes, offset = segment_group_boards(&((struct segment_object *)object)->segment, &nbytes);
    return Py_BuildValue("(KK)", (unsigned long long)offset, (unsigned long long)nbytes);
}

static PyObject *wipe(PyObject *object, PyObject *args)
{
    unsigned long long offset, nbytes;
    if (!PyArg_ParseTuple(args, "KK:wipe", &offset, &nbytes))
        return NULL;
    int error = segment_wipe(&((struct segment_object *)object)->segment, offset, nbytes);
    return error ? raise_errno(error) : Py_NewRef(Py_None);
}

PyObject *board_nbytes(PyObject *module, PyObject *argument)
{
    (void)module;
    unsigned long ranks = PyLong_AsUnsignedLong(argument);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(BOARD_NBYTES(ranks));
}

static PyObject *get_number(PyObject *object, void *offset)
{
    struct segment_object *self = (struct segment_object *)object;
    return PyLong_FromUnsignedLongLong(*(uint64_t *)((char *)self->segment.job + (uintptr_t)offset));
}

static PyObject *get_small_number(PyObject *object, void *offset)
{
    struct segment_object *self = (struct segment_object *)object;
    return PyLong_FromUnsignedLong(*(uint32_t *)((char *)self->segment.job + (uintptr_t)offset));
}

static PyObject *get_hbm_in_use(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(load_relaxed(&((struct segment_object *)object)->segment.job->hbm_in_use));
}

static PyObject *get_fd(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromLong(((struct segment_object *)object)->segment.fd);
}

static PyObject *get_base(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromVoidPtr(((struct segment_object *)object)->segment.base);
}

/* Not unmapped, and its descriptor not closed: arrays and streams may still look at it, until the process ends. */
static void free_segment(PyObject *self) { free_object(self); }

#define OFFSET(field) ((void *)offsetof(struct job, field))

static PyMethodDef segment_methods[] = {
    {"create", create, METH_VARARGS | METH_CLASS, "A new anonymous, sealed segment."},
    {"attach", attach, METH_O | METH_CLASS, "Map the segment behind a descriptor."},
    {"rank_line", KEYWORDS(rank_line), METH_METHOD | METH_FASTCALL | METH_KEYWORDS, "One rank's line of the control area."},
    {"line", KEYWORDS(line), METH_METHOD | METH_FASTCALL | METH_KEYWORDS, "What a rank last wrote on a board, the world's if none is given."},
    {"device_in_use", device_in_use, METH_O, "Bytes allocated on a device, by all ranks."},
    {"device_at", device_at, METH_O, "The device whose memory an address lies in, -1 if none."},
    {"publish", segment_publish, METH_VARARGS, "Make a key lead to device memory or to a flag."},
    {"allow", segment_allow, METH_VARARGS, "Let processes import what is published."},
    {"withdraw", segment_withdraw, METH_O, "Make a key lead to nothing."},
    {"find", segment_find, METH_VARARGS, "Follow a key."},
    {"is_used", segment_is_used, METH_O, "Whether importers use what was published there still."},
    {"begin_use", segment_begin_use, METH_O, "Begin a use of what a key leads to, if it does."},
    {"end_use", segment_end_use, METH_O, "End a use."},
    {"lives", segment_lives, METH_O, "Whether a key that was followed leads to something still."},
    {"set_state", KEYWORDS(set_state), METH_VARARGS | METH_KEYWORDS, "Publish a rank's state; the server's alone."},
    {"mark_destroyed", mark_destroyed, METH_VARARGS, "A rank uses the communicator of a board no more: whoever waits for it fails."},
    {"group_boards", group_boards, METH_NOARGS, "(offset, bytes) where the boards of groups lie."},
    {"wipe", wipe, METH_VARARGS, "Make the pages of a board fresh again; the server's alone."},
    {"raise_abort", raise_abort, METH_VARARGS, "End the communicator of a board, the world's if none is given."},
    {"abort_word", abort_word, METH_VARARGS, "Why the communicator of a board ended, 0 if it has not."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef segment_properties[] = {
    {"fd", get_fd, NULL, "descriptor of the anonymous file", NULL},
    {"base", get_base, NULL, "address of the mapping in this process", NULL},
    {"nbytes", get_number, NULL, "of the whole segment", OFFSET(nbytes)},
    {"ranks", get_small_number, NULL, "of the job", OFFSET(ranks)},
    {"devices", get_small_number, NULL, "windows", OFFSET(devices)},
    {"window_nbytes", get_number, NULL, "address space of one device", OFFSET(window_nbytes)},
    {"hbm_limit", get_number, NULL, "bytes that may be allocated in all devices", OFFSET(hbm_limit)},
    {"hbm_device_limit", get_number, NULL, "bytes that may be allocated in one device", OFFSET(hbm_device_limit)},
    {"hbm_in_use", get_hbm_in_use, NULL, "bytes allocated in all devices", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot segment_slots[] = {
    {Py_tp_methods, segment_methods},
    {Py_tp_getset, segment_properties},
    {Py_tp_dealloc, free_segment},
    {0, NULL},
};

static PyType_Spec segment_spec = {
    .name = "ascend_rt.core._core.Segment",
    .basicsize = sizeof(struct segment_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = segment_slots,
};

static PyStructSequence_Field rank_line_fields[] = {
    {"state", NULL}, {"cause", NULL}, {"pid", NULL}, {"stamp_ns", NULL}, {"waits_for", NULL}, {"wait_call", NULL},
    {"wait_collective", NULL}, {"wait_since_ns", NULL}, {"failure", NULL}, {"hbm_in_use", NULL}, {NULL, NULL},
};
static PyStructSequence_Desc rank_line_desc = {"ascend_rt.core._core.RankLine", NULL, rank_line_fields, 10};

static PyStructSequence_Field line_fields[] = {
    {"round", NULL}, {"call", NULL}, {"collective", NULL}, {"dtype", NULL}, {"op", NULL}, {"flags", NULL},
    {"root", NULL}, {"fingerprint", NULL}, {"count", NULL}, {"note", NULL}, {NULL, NULL},
};
static PyStructSequence_Desc line_desc = {"ascend_rt.core._core.Line", NULL, line_fields, 10};

int add_segment_types(PyObject *module, struct core_module *state)
{
    state->segment = add_type(module, &segment_spec);
    state->rank_line = PyStructSequence_NewType(&rank_line_desc);
    state->line = PyStructSequence_NewType(&line_desc);
    bool all = state->segment && state->rank_line && state->line;
    return all && PyModule_AddType(module, state->rank_line) == 0 && PyModule_AddType(module, state->line) == 0 ? 0 : -1;
}
