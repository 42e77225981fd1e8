#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "order.h"

struct graph *graph_new(uint32_t nstreams, uint32_t nmarks, void (*release)(struct task *task))
{
    struct graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        return NULL;
    graph->nstreams = nstreams;
    graph->nmarks = nmarks;
    graph->release = release;
    graph->sequences = calloc(nstreams, sizeof *graph->sequences);
    graph->waits = calloc(nmarks + 1, sizeof *graph->waits);
    if (graph->sequences && graph->waits)
        return graph;
    graph_free(graph);
    return NULL;
}

static void free_launch(struct launch *launch)
{
    if (!launch)
        return;
    for (uint32_t stream = 0; launch->sequences && stream < launch->graph->nstreams; stream++)
        free(launch->sequences[stream].tasks);
    free(launch->sequences);
    free(launch->marks);
    free(launch);
}

/* Releasing may run code of the program, which must find the graph without the tasks. */
static void release_replaced(struct graph *graph)
{
    struct task *replaced = graph->replaced;
    const uint32_t nreplaced = graph->nreplaced;
    graph->replaced = NULL;
    graph->nreplaced = graph->replaced_room = 0;
    for (uint32_t i = 0; graph->release && i < nreplaced; i++)
        graph->release(&replaced[i]);
    free(replaced);
}

void graph_free(struct graph *graph)
{
    if (!graph)
        return;
    free_launch(graph->spare);
    release_replaced(graph);
    for (uint32_t stream = 0; graph->sequences && stream < graph->nstreams; stream++) {
        struct sequence *sequence = &graph->sequences[stream];
        for (uint32_t place = 0; graph->release && place < sequence->ntasks; place++)
            graph->release(&sequence->tasks[place]);
        free(sequence->tasks);
    }
    free(graph->sequences);
    free(graph->varying);
    free(graph->waits);
    free(graph);
}

/* ---- preparing ---- */

/* Room for one more; false: no memory. */
static bool grow(void **items, uint32_t n, uint32_t *room, size_t nbytes)
{
    if (n < *room)
        return true;
    uint32_t more = *room ? 2 * *room : 16;
    void *grown = realloc(*items, more * nbytes);
    if (!grown)
        return false;
    *items = grown;
    *room = more;
    return true;
}

bool has_mark(enum task_kind kind)
{
    return kind == TASK_RECORD || kind == TASK_HAND_OVER || kind == TASK_WAIT || kind == TASK_JOIN;
}

static bool is_varying(enum task_kind kind)
{
    return has_mark(kind) || kind == TASK_CALL || kind == TASK_TRANSFER;
}

struct task *graph_add(struct graph *graph, uint32_t stream, enum task_kind kind, uint32_t mark)
{
    struct sequence *sequence = &graph->sequences[stream];
    if (!grow((void **)&sequence->tasks, sequence->ntasks, &sequence->room, sizeof *sequence->tasks) ||
        !grow((void **)&graph->varying, graph->nvarying, &graph->varying_room, sizeof *graph->varying))
        return NULL;
    free_launch(graph->spare); /* it has room for fewer */
    graph->spare = NULL;
    if (is_varying(kind))
        graph->varying[graph->nvarying++] = (struct varying){.stream = stream, .place = sequence->ntasks, .mark = mark};
    if (kind == TASK_WAIT || kind == TASK_JOIN)
        graph->waits[mark]++;
    struct task *task = &sequence->tasks[sequence->ntasks++];
    *task = (struct task){.kind = kind};
    return task;
}

bool graph_replace(struct graph *graph, uint32_t stream, uint32_t place, const struct task *task)
{
    struct task *at = &graph->sequences[stream].tasks[place];
    if (!grow((void **)&graph->replaced, graph->nreplaced, &graph->replaced_room, sizeof *graph->replaced))
        return false;
    graph->replaced[graph->nreplaced++] = *at;
    *at = *task;
    if (!graph->launches)
        release_replaced(graph);
    return true;
}

/* ---- launching ---- */

static struct launch *new_launch(struct graph *graph)
{
    struct launch *launch = calloc(1, sizeof *launch);
    if (!launch)
        return NULL;
    launch->graph = graph;
    launch->marks = calloc(graph->nmarks + 1, sizeof *launch->marks);
    launch->sequences = calloc(graph->nstreams, sizeof *launch->sequences);
    bool all = launch->marks && launch->sequences;
    for (uint32_t stream = 0; all && stream < graph->nstreams; stream++) {
        uint32_t ntasks = graph->sequences[stream].ntasks;
        launch->sequences[stream].tasks = malloc((ntasks + 1) * sizeof *launch->sequences->tasks);
        launch->sequences[stream].ntasks = ntasks;
        all = launch->sequences[stream].tasks != NULL;
    }
    if (all)
        return launch;
    free_launch(launch);
    return NULL;
}

static struct task *task_of(struct launch *launch, const struct varying *varying)
{
    return &launch->sequences[varying->stream].tasks[varying->place];
}

/* What of a launch is not just a copy; false: no memory. */
static bool give_own(struct launch *launch)
{
    const struct graph *graph = launch->graph;
    bool all = true;
    for (uint32_t i = 0; i < graph->nvarying; i++) {
        const struct varying *varying = &graph->varying[i];
        struct task *task = task_of(launch, varying);
        if (task->kind == TASK_TRANSFER) {
            task->transfer = transfer_copy(task->transfer);
            all = all && task->transfer;
        } else if (task->kind != TASK_CALL) {
            task->mark = &launch->marks[varying->mark];
        }
    }
    return all;
}

static void take_own(struct launch *launch)
{
    const struct graph *graph = launch->graph;
    for (uint32_t i = 0; i < graph->nvarying; i++) {
        struct task *task = task_of(launch, &graph->varying[i]);
        if (task->kind == TASK_TRANSFER)
            transfer_free(task->transfer);
    }
    for (uint32_t mark = 0; mark < graph->nmarks; mark++)
        failure_release(launch->marks[mark].failure);
}

struct launch *graph_launch(struct graph *graph)
{
    struct launch *launch = graph->spare ? graph->spare : new_launch(graph);
    if (!launch)
        return NULL;
    graph->spare = NULL;
    graph->launches++;
    launch->under_way = 0;
    for (uint32_t stream = 0; stream < graph->nstreams; stream++) {
        const struct sequence *sequence = &graph->sequences[stream];
        if (!sequence->ntasks)
            continue;
        memcpy(launch->sequences[stream].tasks, sequence->tasks, sequence->ntasks * sizeof *sequence->tasks);
        launch->under_way++;
    }
    memset(launch->marks, 0, graph->nmarks * sizeof *launch->marks);
    for (uint32_t mark = 0; mark < graph->nmarks; mark++) {
        store_relaxed(&launch->marks[mark].references, 1);
        store_relaxed(&launch->marks[mark].waits, graph->waits[mark]);
    }
    if (give_own(launch))
        return launch;
    launch_end(launch);
    return NULL;
}

void launch_issue(struct launch *launch)
{
    for (uint32_t i = 0; i < launch->graph->nvarying; i++) {
        struct task *task = task_of(launch, &launch->graph->varying[i]);
        if (task->kind == TASK_CALL) {
            task->call.issue.number = communicator_take_number(task->call.queue->communicator);
            task->call.ticket = call_queue_take_ticket(task->call.queue);
        } else if (task->kind == TASK_TRANSFER) {
            transfer_issue(task->transfer);
        }
    }
}

void launch_part_over(struct launch *launch)
{
    if (--launch->under_way == 0)
        launch_end(launch);
}

void launch_end(struct launch *launch)
{
    struct graph *graph = launch->graph;
    take_own(launch);
    free_launch(graph->spare);
    graph->spare = launch;
    if (--graph->launches == 0)
        release_replaced(graph);
}
