/* Tasks of a stream as the issuing side sees them: the references they hold are taken and released here, under the GIL;
 * the worker touches them only
 * to say where a task was queued that has failed. */
#include <stdio.h>
#include <stdlib.h>

#include "binding.h"
#include "graph.h"

/* Looking for tasks that are done costs a cache line that the worker has just written: not at every append. */
enum { DRAIN_AFTER = 64 };

/* Whether the innermost frame of Python is this package's, which queues for the program. */
static bool is_called_by_package(const struct stream_object *self)
{
    PyObject *globals = PyEval_GetGlobals();
    PyObject *module = globals ? PyDict_GetItemWithError(globals, self->module_name) : NULL;
    return module && PyUnicode_Check(module) &&
           PyUnicode_Tailmatch(module, self->package, 0, PyUnicode_GetLength(module), -1) == 1;
}

static bool take_site(struct task *task, PyObject *site)
{
    return PyArg_ParseTuple(site, "Oi", (PyObject **)&task->keeps[KEPT - 1], &task->instruction) &&
           Py_NewRef(task->keeps[KEPT - 1]);
}

/* Where the program queues the task: code object and instruction.  Which line that is, is found out only if it fails:
 * counting lines takes longer than all the rest. */
static bool note_site(struct stream_object *self, struct task *task, PyObject *site)
{
    if (site)
        return take_site(task, site);
    if (is_called_by_package(self)) {
        site = PyObject_CallMethod((PyObject *)self, "_site", NULL);
        bool taken = site && take_site(task, site);
        Py_XDECREF(site);
        return taken;
    }
    PyFrameObject *frame = PyEval_GetFrame();
    PyObject *instruction = frame ? PyObject_GetAttr((PyObject *)frame, self->lasti_name) : NULL;
    if (instruction) {
        task->instruction = (int)PyLong_AsLong(instruction);
        task->keeps[KEPT - 1] = PyFrame_GetCode(frame);
        Py_DECREF(instruction);
    }
    PyErr_Clear();
    return true;
}

void task_says_where(void *context, char *text, size_t nbytes)
{
    const struct task *task = context;
    PyObject *stream = (PyObject *)((char *)task->stream - offsetof(struct stream_object, stream));
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *code = task->keeps[KEPT - 1];
    PyObject *where = code ? PyObject_CallMethod(stream, "_where", "Oi", code, task->instruction) : NULL;
    const char *words = where ? PyUnicode_AsUTF8AndSize(where, NULL) : NULL;
    snprintf(text, nbytes, "%s", words ? words : "unknown place");
    Py_XDECREF(where);
    PyErr_Clear();
    PyGILState_Release(state);
}

void release_issue(struct issue *issue)
{
    if (issue->in.ndim)
        free(issue->in.dimensions);
    if (issue->out.ndim)
        free(issue->out.dimensions);
    split_release(issue->split);
}

static void release_owned(struct task *task)
{
    switch (task->kind) {
    case TASK_RECORD:
    case TASK_WAIT:
        mark_release(task->mark);
        break;
    case TASK_CALL:
    case TASK_REFUSAL:
        release_issue(&task->call.issue);
        free(task->call.why);
        break;
    case TASK_TRANSFER:
        transfer_free(task->transfer);
        break;
    case TASK_SEQUENCE:
        launch_part_over(task->sequence.launch);
        break;
    default:
        break;
    }
    task->kind = TASK_END; /* owns nothing any more */
}

static void release_kept(struct task *task)
{
    release_owned(task);
    for (int i = 0; i < KEPT; i++) {
        PyObject *kept = task->keeps[i];
        task->keeps[i] = NULL;
        Py_XDECREF(kept);
    }
}

struct task *new_task(struct stream_object *self, enum task_kind kind, PyObject *site, PyObject *keep, PyObject *keep_too,
                      PyObject *keep_also)
{
    struct task *task = malloc(sizeof *task);
    if (!task) {
        PyErr_NoMemory();
        return NULL;
    }
    task->kind = kind;
    task->keeps[0] = Py_XNewRef(keep);
    task->keeps[1] = Py_XNewRef(keep_too);
    task->keeps[2] = Py_XNewRef(keep_also);
    task->keeps[KEPT - 1] = NULL;
    task->instruction = 0;
    if (note_site(self, task, site))
        return task;
    task->kind = TASK_END;
    release_kept(task);
    free(task);
    return NULL;
}

void free_task(struct task *task)
{
    release_kept(task);
    free(task);
}

struct task *task_from_python(PyObject *object, enum task_kind kind, PyObject *keep)
{
    PyObject *site = PyObject_CallMethod(object, "_site", NULL);
    struct task *task = site ? new_task((struct stream_object *)object, kind, site, keep, NULL, NULL) : NULL;
    Py_XDECREF(site);
    return task;
}

PyObject *append_returning_none(PyObject *self, struct task *task)
{
    if (!task || append_task((struct stream_object *)self, task) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Releases what done tasks keep.  The one done last stays in the list, but keeps nothing. */
void drain_tasks(struct stream_object *self)
{
    struct task *task;
    while ((task = stream_reap(&self->stream)))
        free_task(task);
    release_kept(self->stream.oldest);
    self->undrained = 0;
}

int append_task(struct stream_object *self, struct task *task)
{
    const char *wrong = self->closed ? "this stream was destroyed" : NULL;
    if (!wrong && !stream_append(&self->stream, task))
        wrong = "the thread of the stream cannot be started";
    if (!wrong) {
        if (++self->undrained >= DRAIN_AFTER)
            drain_tasks(self);
        return 0;
    }
    release_kept(task);
    free(task);
    PyErr_SetString(PyExc_RuntimeError, wrong);
    return -1;
}
