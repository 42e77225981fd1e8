/* Runs the steps of one plan over shared memory: after the entry round has committed, before the leave. */
#include <string.h>

#include "communicator.h"

static uint64_t buffer_nbytes(const struct plan *plan, const struct cut *cut, enum buffer buffer, size_t item_nbytes)
{
    switch (buffer) {
    case BUFFER_IN: return (uint64_t)plan->blocks_in * cut->count * item_nbytes;
    case BUFFER_OUT: return (uint64_t)plan->blocks_out * cut->count * item_nbytes;
    default: return (uint64_t)plan->scratch_chunks * scratch_chunk_count(cut) * item_nbytes;
    }
}

/* Where every rank's buffers are, from the lines of the round just done.  False if one lies outside of the segment. */
bool plan_find_buffers(struct communicator *c, const struct plan *plan, const struct call *call)
{
    size_t item_nbytes = dtype_nbytes(call->dtype);
    struct cut cut = cut_count(call->count, (uint32_t)plan->chunks, item_nbytes);
    for (uint32_t rank = 0; rank < c->size; rank++) {
        const struct line *line = board_line(c->board, c->size, (c->round - 1) % SLOTS, rank);
        uint64_t offset[BUFFERS] = {line->place.in, line->place.out, line->place.scratch};
        for (enum buffer buffer = BUFFER_IN; buffer < BUFFERS; buffer++) {
            uint64_t nbytes = buffer_nbytes(plan, &cut, buffer, item_nbytes);
            if (offset[buffer] > c->segment.job->nbytes || nbytes > c->segment.job->nbytes - offset[buffer])
                return false;
            c->base[buffer][rank] = c->segment.base + offset[buffer];
        }
    }
    return true;
}

static void *address(const struct communicator *c, const struct cut *cut, const struct place *place, size_t item_nbytes)
{
    uint64_t start = place->buffer == BUFFER_SCRATCH ? (uint64_t)place->chunk * scratch_chunk_count(cut)
                                                     : chunk_start(cut, (uint64_t)place->chunk);
    return c->base[place->buffer][place->rank] + start * item_nbytes;
}

/* Elements in the chunks of a step.  Source and destination are congruent modulo C, or scratch, so any place of the
 * step that is not scratch tells; between scratch and scratch whole chunks move. */
static uint64_t element_count(const struct cut *cut, const struct step *step)
{
    for (int32_t i = 0; i < step->ndst + step->nsrc; i++) {
        const struct place *place = step->dst + i;
        if (place->buffer != BUFFER_SCRATCH)
            return chunk_start(cut, (uint64_t)place->chunk + (uint64_t)step->n) - chunk_start(cut, (uint64_t)place->chunk);
    }
    return (uint64_t)step->n * scratch_chunk_count(cut);
}

static void copy(const struct communicator *c, const struct cut *cut, const struct step *step, size_t item_nbytes)
{
    void *dst = address(c, cut, step->dst, item_nbytes);
    const void *src = address(c, cut, step->src, item_nbytes);
    if (dst != src)
        memcpy(dst, src, element_count(cut, step) * item_nbytes);
}

static void reduce(struct communicator *c, const struct cut *cut, const struct step *step, const struct call *call)
{
    size_t item_nbytes = dtype_nbytes(call->dtype);
    uint64_t count = element_count(cut, step);
    if (!count)
        return;
    for (int32_t i = 0; i < step->ndst; i++)
        c->dsts[i] = address(c, cut, &step->dst[i], item_nbytes);
    for (int32_t i = 0; i < step->nsrc; i++)
        c->srcs[i] = address(c, cut, &step->src[i], item_nbytes);
    int op = call->op == REDUCE_AVG && !step->complete ? REDUCE_SUM : call->op;
    find_reduce(call->dtype, op, c->kernels)(c->dsts, step->ndst, c->srcs, step->nsrc, count, c->size);
}

/* WAIT_ARRIVED when all steps are done; else how the wait for *peer ended. */
enum wait_end plan_run(struct communicator *c, const struct plan *plan, const struct call *call, uint32_t *peer)
{
    size_t item_nbytes = dtype_nbytes(call->dtype);
    struct cut cut = cut_count(call->count, (uint32_t)plan->chunks, item_nbytes);
    for (const struct step *step = plan->steps; step < plan->steps + plan->nsteps; step++) {
        *peer = (uint32_t)step->peer;
        switch (step->kind) {
        case STEP_POST:
            notify_post(&c->waiter.host, &board_pair(c->board, c->size, c->rank, *peer)->posted, ++c->posted[*peer]);
            break;
        case STEP_WAIT: {
            struct pair *pair = board_pair(c->board, c->size, *peer, c->rank);
            enum wait_end end = notify_wait(&c->waiter, &pair->posted, ++c->awaited[*peer], *peer, HEED_ALL);
            if (end != WAIT_ARRIVED)
                return end;
            break;
        }
        case STEP_COPY:
            copy(c, &cut, step, item_nbytes);
            break;
        case STEP_REDUCE:
            reduce(c, &cut, step, call);
            break;
        }
    }
    return WAIT_ARRIVED;
}
