/* A graph: tasks that were prepared once, on several streams, and are queued all together as often as wanted.
 *
 * A launch is a copy of the tasks with what is its own: tickets and numbers of collectives, turns of messages, marks.  It
 * is queued as one task per stream, a sequence, so that its tasks cost the worker what they do and nothing else: nobody
 * allocates, posts or wakes between them.
 *
 * All of this is the issuing side's, but for the tasks of a launch, which are the workers' until its sequences are done. */
#ifndef ASCEND_RT_GRAPH_H
#define ASCEND_RT_GRAPH_H

#include "stream.h"

/* A task that is not the same in every launch: `mark` of a record, a hand-over or a wait; of the others 0. */
struct varying {
    uint32_t stream, place, mark;
};

struct sequence {
    struct task *tasks;
    uint32_t ntasks, room;
};

struct graph {
    uint32_t nstreams, nmarks;
    struct sequence *sequences; /* by stream */
    struct varying *varying;    /* in the order of issue */
    uint32_t nvarying, varying_room;
    uint32_t *waits;            /* by mark: how many tasks wait for it */
    struct launch *spare;       /* one that is over, for the next */
    uint32_t launches;          /* how many are not over */
    void (*release)(struct task *task);
    struct task *replaced;      /* what launches that are not over may use still, though no later one does */
    uint32_t nreplaced, replaced_room;
};

/* One time that a graph runs. */
struct launch {
    struct graph *graph;
    uint32_t under_way;     /* sequences that are to be queued, or were and are not over: those with tasks */
    struct mark *marks;
    struct sequence *sequences;
};

/* NULL: no memory.  `release` frees what a task points to (transfer, split, dimensions); NULL: nothing is the graph's
 * own. */
struct graph *graph_new(uint32_t nstreams, uint32_t nmarks, void (*release)(struct task *task));
/* When no launch of it is under way. */
void graph_free(struct graph *graph);
/* Whether it records a mark or waits for one. */
bool has_mark(enum task_kind kind);
/* A zeroed task behind the others of its stream, to be filled in; valid until the next one is added.  NULL: no memory.
 * A transfer is one that can be issued, and was not. */
struct task *graph_add(struct graph *graph, uint32_t stream, enum task_kind kind, uint32_t mark);
/* Launches from here on have this task in the place of one of the same kind, which has no mark.  Those that are under way
 * keep the one they have: it is released when they are over.  False: no memory. */
bool graph_replace(struct graph *graph, uint32_t stream, uint32_t place, const struct task *task);

/* A copy of the tasks; NULL: no memory, and nothing was issued.  It is to be issued and then queued, or ended. */
struct launch *graph_launch(struct graph *graph);
/* Collectives and messages get their turns, in the order in which they were added. */
void launch_issue(struct launch *launch);
/* One of its sequences, which was queued, is over.  When all are, the next launch has its memory. */
void launch_part_over(struct launch *launch);
/* None of it was queued. */
void launch_end(struct launch *launch);

#endif
