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
};

/* One time that a graph runs. */
struct launch {
    struct graph *graph;
    uint32_t under_way;     /* sequences that are to be queued, or were and are not over: those with tasks */
    struct mark *marks;
    struct sequence *sequences;
};

/* NULL: no memory. */
struct graph *graph_new(uint32_t nstreams, uint32_t nmarks);
/* When no launch of it is under way.  `release` frees what a task points to (transfer, split, dimensions); NULL: nothing is
 * the graph's own. */
void graph_free(struct graph *graph, void (*release)(struct task *task));
/* Whether it records a mark or waits for one. */
bool has_mark(enum task_kind kind);
/* A zeroed task behind the others of its stream, to be filled in; valid until the next one is added.  NULL: no memory.
 * A transfer is one that can be issued, and was not. */
struct task *graph_add(struct graph *graph, uint32_t stream, enum task_kind kind, uint32_t mark);

/* A copy of the tasks; NULL: no memory, and nothing was issued.  It is to be issued and then queued, or ended. */
struct launch *graph_launch(struct graph *graph);
/* Collectives and messages get their turns, in the order in which they were added. */
void launch_issue(struct launch *launch);
/* One of its sequences, which was queued, is over.  When all are, the next launch has its memory. */
void launch_part_over(struct launch *launch);
/* None of it was queued. */
void launch_end(struct launch *launch);

#endif
