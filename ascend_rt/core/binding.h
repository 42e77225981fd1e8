/* The only files that know Python: binding*.c.  They turn objects into the structs of the core and back, and hold
 * or release the GIL; what to do is decided in Python, and how is done by the rest of the core. */
#ifndef ASCEND_RT_BINDING_H
#define ASCEND_RT_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "arena.h"
#include "communicator.h"
#include "queue.h"
#include "segment.h"
#include "stream.h"

struct core_module {
    PyTypeObject *segment, *device, *block, *communicator, *stream, *mark, *graph, *rank_line, *line;
};

struct segment_object {
    PyObject_HEAD
    struct segment segment;
};

struct device_object {
    PyObject_HEAD
    struct segment_object *segment;
    struct arena arena;
};

/* A thread of the program inside a wait of the core: holds the GIL until the wait is long, and takes it back between two
 * sleeps to let Python's signal handlers and `object._attend(seconds)` run. */
struct gil {
    PyObject *object;
    PyThreadState *released; /* not NULL while the GIL is released */
    PyObject *error[3];      /* raised meanwhile: type, value, traceback */
};
void gil_release(void *gil);
bool gil_attend(void *gil, uint64_t waited_ns);
/* False, with the exception set, if one was raised meanwhile. */
bool gil_take_back(struct gil *gil);
struct wait_host gil_host(struct gil *gil);

enum { MOST_DTYPES = 16, MOST_FORMS = 16 };

/* What the arrays of a collective are on this rank: a row of the table of collectives, as hccl/forms.py writes it. */
struct form {
    int32_t collective;
    int32_t is_rooted;
    int32_t defaults_to_in; /* OUT, where none is given */
    int32_t is_by_rank;     /* IN has a part for each rank, along its first dimension */
    int32_t first_in, first_out; /* blocks of one array at which IN and OUT begin where they may overlap, else negative */
    struct blocks {
        int32_t in, out;
    } elsewhere, on_root; /* of `count` elements; 0: this rank has no such array */
};

struct communicator_object {
    PyObject_HEAD
    struct communicator communicator;
    struct call_queue queue;
    struct segment_object *segment;
    struct device_object *device;
    PyTypeObject *stream_type;
    PyObject *kept; /* list of all device memory lent to plans and to staging: queued calls may use what was replaced */
    struct gil gil;
    bool busy, closed;
    bool defers; /* every call is handed to Python: streams are recorded */
    PyObject *dtype[MOST_DTYPES]; /* compared by identity */
    uint8_t dtype_id[MOST_DTYPES];
    size_t ndtypes;
    struct form forms[MOST_FORMS]; /* by number of the collective; all 0: there is none, or it has no arrays */
    PyObject *array_type; /* whose objects are read where they lie, or NULL */
    PyObject *op[REDUCE_OP_COUNT]; /* interned names by number */
    PyObject *dtype_name, *x_name, *out_name, *op_name, *stream_name, *root_name;
};

struct stream_object {
    PyObject_HEAD
    struct stream stream;
    bool closed;
    unsigned undrained; /* tasks appended since done ones were looked for */
    PyObject *lasti_name, *module_name, *package;
};

struct mark_object {
    PyObject_HEAD
    struct mark *mark;
};

/* Each adds its types to the module; 0, or -1 with an exception set. */
int add_segment_types(PyObject *module, struct core_module *state);
int add_device_types(PyObject *module, struct core_module *state);
int add_communicator_type(PyObject *module, struct core_module *state);
int add_stream_types(PyObject *module, struct core_module *state);
int add_graph_type(PyObject *module, struct core_module *state);

PyTypeObject *add_type(PyObject *module, PyType_Spec *spec);
/* The end of every tp_dealloc. */
void free_object(PyObject *self);
/* 0, or -1 with IndexError set. */
int check_rank(const struct segment_object *self, unsigned rank);
/* board_nbytes(ranks) */
PyObject *board_nbytes(PyObject *module, PyObject *argument);
PyObject *line_as_tuple(PyTypeObject *type, const struct line *line, const struct note *note);
/* (how, number, collective, abort word, where, [(call, collective, dtype, op, flags, root, fingerprint, count, note, where)],
 * (from, to, sent, expected)) */
PyObject *failure_as_tuple(const struct failure *failure);

/* Device memory that is used until the communicator goes; 0, or -1 with an exception set. */
int keep_lent_memory(struct communicator_object *self, PyObject *block);

/* ---- binding_arguments.c: what a call is given ---- */

/* The buffers of a call, as NumPy lends them. */
struct operands {
    PyObject *in_object, *out_object;
    Py_buffer in, out;
    struct view strided_in, strided_out;
    struct dimensions in_dimensions, out_dimensions;
};
/* Fills in what `call` says of memory; false with an exception set.  Buffers are to be released.  `in` or `out` is NULL where
 * this rank has no such array. */
bool operands_get(const struct communicator_object *self, struct operands *operands, PyObject *in, PyObject *out,
                  struct call *call);
void operands_release(struct operands *operands);
/* Contiguous memory, or *view is set to strided memory that uses *dimensions. */
bool get_buffer(const struct communicator_object *self, PyObject *object, size_t item_nbytes, Py_buffer *buffer,
                int writable, struct view *strided, struct dimensions *dimensions, const struct view **view);
/* HcclDataType of an array, or -1. */
int dtype_of(struct communicator_object *self, PyObject *array);
/* A plain integer that is a rank of this communicator; negative for all else. */
long rank_of(const struct communicator_object *self, PyObject *given);
/* False, with TypeError set, unless the first `least` of `expected` and no others but those are given. */
bool place_arguments(PyObject *const *args, Py_ssize_t nargs, PyObject *names, PyObject *const *expected, Py_ssize_t least,
                     Py_ssize_t nexpected, PyObject **values);

/* ---- binding_array.c: NumPy arrays without asking NumPy ---- */

/* _trust_arrays([array, ...]) -> whether they are as they are expected to be, and will be read where they lie. */
PyObject *trust_arrays(PyObject *self, PyObject *samples);
/* Fills in buf, len and obj; false for everything but a contiguous array of a kind that is trusted, writable if so asked. */
bool array_lend(const struct communicator_object *self, PyObject *object, int writable, size_t item_nbytes,
                Py_buffer *buffer);
/* Elements of the first dimension; -1 for an array of none, and for everything that is not trusted. */
Py_ssize_t array_length(const struct communicator_object *self, PyObject *object);
/* Borrowed; NULL if the object is no array that is trusted. */
PyObject *array_dtype(const struct communicator_object *self, PyObject *object);

/* ---- binding_plain.c: calls that are plainly right ---- */
PyObject *call_all_reduce(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
PyObject *call_broadcast(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
PyObject *call_barrier(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
PyObject *call_plainly(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
/* _set_forms(forms, one behind another) */
PyObject *set_forms(PyObject *self, PyObject *forms);

/* ---- binding_communicator.c: calls that have been issued ---- */

/* False, with an exception set, if the communicator takes no call now. */
bool may_begin(const struct communicator_object *self);
/* stream=None, or one of ours that was not destroyed: then it is set. */
bool takes_stream(const struct communicator_object *self, PyObject *given, PyObject **stream);
/* Runs or queues an issued call, or the refusal of one: `out`, or NULL with an exception set.  The call has its number:
 * where it cannot be queued, everybody is told. */
PyObject *submit(struct communicator_object *self, const struct issue *issue, const char *why, PyObject *site,
                 PyObject *stream, PyObject *in, PyObject *out);
PyObject *call_once(PyObject *self, PyObject *args);
PyObject *call_refuse(PyObject *self, PyObject *args);
PyObject *call_resync(PyObject *self, PyObject *none);
PyObject *defer_calls(PyObject *self, PyObject *deferred);
bool is_stream(const struct communicator_object *self, PyObject *stream);
/* The dimensions of a view that is to outlive the call; false: no memory, and then it has none. */
bool own_dimensions(struct view *view);
/* What an issue has that was kept beyond its call. */
void release_issue(struct issue *issue);
/* The rows of a split table, from Python's bytes; NULL with an exception set. */
struct split *take_split(const struct communicator_object *self, PyObject *rows, const struct operands *operands,
                         size_t item_nbytes);
PyObject *raise_failure(struct communicator_object *self, struct failure *failure);
void communicator_says_where(void *gil, char *text, size_t nbytes);

/* ---- binding_transfer.c ---- */
PyObject *call_transfer(PyObject *self, PyObject *args);
PyObject *call_transfer_plainly(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *set_channel_staging(PyObject *self, PyObject *args);
/* A transfer of Python's items, a tuple of (side, peer, dtype, count, array), not issued; NULL with an exception set. */
struct transfer *take_items(struct communicator_object *self, unsigned collective, PyObject *items);

/* ---- binding_link.c ---- */
PyObject *set_links(PyObject *self, PyObject *links);

/* ---- binding_task.c ---- */

/* A new task that knows where it is queued: `site` is (code, instruction), or NULL for the innermost Python frame.
 * NULL with an exception set. */
struct task *new_task(struct stream_object *self, enum task_kind kind, PyObject *site, PyObject *keep, PyObject *keep_too,
                      PyObject *keep_also);
void task_says_where(void *task, char *text, size_t nbytes);
/* What a function of the program returns: see Stream.call.  For a worker, which has no GIL. */
uint32_t call_python(void *function);
/* Takes the task over; 0, or -1 with an exception set. */
int append_task(struct stream_object *self, struct task *task);
void free_task(struct task *task);
/* Releases what done tasks keep. */
void drain_tasks(struct stream_object *self);
/* For methods that the Python subclass calls, which knows who has called it. */
struct task *task_from_python(PyObject *stream, enum task_kind kind, PyObject *keep);
/* Takes the task over, or passes on that there is none: None, or NULL with an exception set. */
PyObject *append_returning_none(PyObject *stream, struct task *task);

/* ---- binding_export.c: methods of Segment ---- */
PyObject *segment_publish(PyObject *self, PyObject *args);
PyObject *segment_allow(PyObject *self, PyObject *args);
PyObject *segment_withdraw(PyObject *self, PyObject *record);
PyObject *segment_find(PyObject *self, PyObject *args);
PyObject *segment_lives(PyObject *self, PyObject *key);
PyObject *segment_is_used(PyObject *self, PyObject *record);
PyObject *segment_begin_use(PyObject *self, PyObject *key);
PyObject *segment_end_use(PyObject *self, PyObject *record);

/* ---- binding_memory.c, binding_word.c: methods of Stream ---- */
PyObject *stream_copy(PyObject *self, PyObject *args);
PyObject *stream_copy_rows(PyObject *self, PyObject *args);
PyObject *stream_fill(PyObject *self, PyObject *args);
PyObject *stream_reduce(PyObject *self, PyObject *args);
PyObject *stream_set_flag(PyObject *self, PyObject *args);
PyObject *stream_take_flag(PyObject *self, PyObject *args);
PyObject *stream_write_value(PyObject *self, PyObject *args);
PyObject *stream_wait_value(PyObject *self, PyObject *args);

#define KEYWORDS(function) ((PyCFunction)(void (*)(void))(function))

#endif
