/* Runs the steps of one plan over shared memory: after the entry round has committed, before the leave. */
#include "communicator.h"
#include "link.h"
#include "order.h"

static uint64_t buffer_nbytes(const struct plan *plan, const struct cut *cut, enum buffer buffer, size_t item_nbytes)
{
    switch (buffer) {
    case BUFFER_IN: return (uint64_t)plan->blocks_in * cut->count * item_nbytes;
    case BUFFER_OUT: return (uint64_t)plan->blocks_out * cut->count * item_nbytes;
    default: return (uint64_t)plan->scratch_chunks * scratch_chunk_count(cut) * item_nbytes;
    }
}

static unsigned char *private_base(const struct view *view, uint32_t outside, const struct piece *piece)
{
    return outside && !view->ndim ? view->base + piece->first * view->item_nbytes : NULL;
}

/* Where every rank's buffers are, from the lines of the round just done.  False if one lies outside of the segment and is
 * not said to be plain. */
bool plan_find_buffers(struct communicator *c, const struct plan *plan, const struct issue *issue, const struct piece *piece)
{
    static const uint32_t staged_bit[BUFFERS] = {STAGED_IN, STAGED_OUT, 0}, plain_bit[BUFFERS] = {PLAIN_IN, PLAIN_OUT, 0};
    size_t item_nbytes = dtype_nbytes(issue->dtype);
    struct cut whole = cut_count(issue->count, (uint32_t)plan->chunks, item_nbytes);
    struct cut part = cut_count(piece->count, (uint32_t)plan->chunks, item_nbytes);
    c->private[BUFFER_IN] = private_base(&issue->in, issue->outside & STAGED_IN, piece);
    c->private[BUFFER_OUT] = private_base(&issue->out, issue->outside & STAGED_OUT, piece);
    c->reaches_far = false;
    for (uint32_t rank = 0; rank < c->size; rank++) {
        const struct line *line = board_latest_line(c, rank);
        uint64_t offset[BUFFERS] = {line->place.in, line->place.out, line->place.scratch};
        for (enum buffer buffer = BUFFER_IN; buffer < BUFFERS; buffer++) {
            bool holds_piece = line->place.memory & staged_bit[buffer] || buffer == BUFFER_SCRATCH;
            bool plain = line->place.memory & plain_bit[buffer];
            uint64_t nbytes = buffer_nbytes(plan, holds_piece ? &part : &whole, buffer, item_nbytes);
            if (!plain && (offset[buffer] > c->segment.job->nbytes || nbytes > c->segment.job->nbytes - offset[buffer]))
                return false;
            uint64_t first = holds_piece ? 0 : piece->first;
            unsigned char *base = plain ? (unsigned char *)(uintptr_t)offset[buffer] : c->segment.base + offset[buffer];
            c->base[buffer][rank] = base + first * item_nbytes;
            c->far[buffer][rank] = plain && rank != c->rank ? load_relaxed(&c->waiter.ranks[c->members[rank]].pid) : 0;
            c->reaches_far = c->reaches_far || c->far[buffer][rank];
            c->stride[buffer][rank] = holds_piece ? piece->count : issue->count;
        }
    }
    return true;
}

static enum wait_end move(struct communicator *c, const struct cut *cut, const struct step *step, const struct issue *issue,
                          const struct piece *piece, uint32_t *peer)
{
    uint64_t since_ns = c->links ? c->waiter.host.now_ns(c->waiter.host.context) : 0, moved;
    enum wait_end end = WAIT_ARRIVED;
    if (issue->split)
        moved = split_move(c, issue, piece, step);
    else
        end = move_step(c, cut, step, issue, &moved, peer);
    if (c->links)
        link_book_step(c, step, since_ns, moved * dtype_nbytes(issue->dtype));
    return end;
}

/* WAIT_ARRIVED when all steps are done; else how the wait for *peer ended. */
enum wait_end plan_run(struct communicator *c, const struct plan *plan, const struct issue *issue,
                       const struct piece *piece, uint32_t *peer)
{
    struct cut cut = cut_count(piece->count, (uint32_t)plan->chunks, dtype_nbytes(issue->dtype));
    for (const struct step *step = plan->steps; step < plan->steps + plan->nsteps; step++) {
        *peer = (uint32_t)step->peer;
        switch (step->kind) {
        case STEP_POST:
            if (c->links)
                link_settle(c);
            notify_post(&c->waiter.host, &board_pair(c->board, c->size, c->rank, *peer)->posted, ++c->posted[*peer]);
            break;
        case STEP_WAIT: {
            struct pair *pair = board_pair(c->board, c->size, *peer, c->rank);
            enum wait_end end = waiter_wait(&c->waiter, &pair->posted, ++c->awaited[*peer], *peer, HEED_ALL);
            if (end != WAIT_ARRIVED)
                return end;
            break;
        }
        case STEP_COPY:
        case STEP_REDUCE: {
            enum wait_end end = move(c, &cut, step, issue, piece, peer);
            if (end != WAIT_ARRIVED)
                return end;
            break;
        }
        }
    }
    if (c->links)
        link_settle(c);
    return WAIT_ARRIVED;
}
