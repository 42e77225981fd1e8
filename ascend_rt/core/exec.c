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

void plan_find_far(struct communicator *c)
{
    c->reaches_far = false;
    for (uint32_t rank = 0; rank < c->size; rank++)
        for (enum buffer buffer = BUFFER_IN; buffer <= BUFFER_OUT; buffer++) {
            bool plain = rank != c->rank && board_latest_line(c, rank)->place.memory & plain_bit(buffer);
            c->far[buffer][rank] = plain ? load_relaxed(&c->waiter.ranks[c->members[rank]].pid) : 0;
            c->reaches_far = c->reaches_far || plain;
        }
}

/* Where every rank's buffers are, from the lines of the round just done.  False if one lies outside of the segment and is
 * not said to be plain. */
bool plan_find_buffers(struct communicator *c, const struct plan *plan, const struct issue *issue, const struct piece *piece)
{
    size_t item_nbytes = dtype_nbytes(issue->dtype);
    struct cut whole = cut_count(issue->count, (uint32_t)plan->chunks, item_nbytes);
    struct cut part = cut_count(piece->count, (uint32_t)plan->chunks, item_nbytes);
    c->private[BUFFER_IN] = private_base(&issue->in, issue->outside & STAGED_IN, piece);
    c->private[BUFFER_OUT] = private_base(&issue->out, issue->outside & STAGED_OUT, piece);
    plan_find_far(c);
    for (uint32_t rank = 0; rank < c->size; rank++) {
        const struct line *line = board_latest_line(c, rank);
        uint64_t offset[BUFFERS] = {line->place.in, line->place.out, line->place.scratch};
        for (enum buffer buffer = BUFFER_IN; buffer < BUFFERS; buffer++) {
            bool holds_piece = line->place.memory & staged_bit(buffer) || buffer == BUFFER_SCRATCH;
            bool plain = line->place.memory & plain_bit(buffer);
            uint64_t nbytes = buffer_nbytes(plan, holds_piece ? &part : &whole, buffer, item_nbytes);
            if (!plain && (offset[buffer] > c->segment.job->nbytes || nbytes > c->segment.job->nbytes - offset[buffer]))
                return false;
            uint64_t first = holds_piece ? 0 : piece->first;
            c->base[buffer][rank] = said_place(c, rank, buffer) + first * item_nbytes;
            c->stride[buffer][rank] = holds_piece ? piece->count : issue->count;
        }
    }
    return true;
}

/* What all places of a step have in common, and the run of chunks that is moved next: a step of several chunks is done
 * block by block, since blocks need not lie one behind the other. */
struct run {
    const struct communicator *communicator;
    const struct plan *plan;
    const struct cut *cut;
    uint64_t count; /* of the call: from block to block of a private buffer */
    size_t item_nbytes;
    uint32_t done, chunks; /* of the step */
};

/* A chunk of this rank's own memory that nobody else touches and that is not in device memory. */
static bool is_private(const struct run *run, const struct place *place, uint64_t chunk)
{
    const struct communicator *c = run->communicator;
    return (uint32_t)place->rank == c->rank && place->buffer != BUFFER_SCRATCH && c->private[place->buffer] &&
           !plan_is_lent(run->plan, (enum buffer)place->buffer, (int64_t)chunk);
}

static void *address(const struct run *run, const struct place *place)
{
    const struct communicator *c = run->communicator;
    uint64_t chunk = (uint64_t)place->chunk + run->done, chunks = run->cut->chunks;
    if (is_private(run, place, chunk))
        return c->private[place->buffer] +
               (chunk / chunks * run->count + chunk_start(run->cut, chunk % chunks)) * run->item_nbytes;
    uint64_t start = place->buffer == BUFFER_SCRATCH
                         ? chunk * scratch_chunk_count(run->cut)
                         : chunk / chunks * c->stride[place->buffer][place->rank] + chunk_start(run->cut, chunk % chunks);
    return c->base[place->buffer][place->rank] + start * run->item_nbytes;
}

/* The place of a step that tells its length: any that is not scratch, since all are congruent modulo C. */
static const struct place *measure(const struct step *step)
{
    for (int32_t i = 0; i < step->ndst + step->nsrc; i++)
        if (step->dst[i].buffer != BUFFER_SCRATCH)
            return &step->dst[i];
    return step->dst;
}

/* Elements of the next run, which ends with the step or with the block. */
static uint64_t next_run(struct run *run, const struct step *step)
{
    const struct place *place = measure(step);
    if (place->buffer == BUFFER_SCRATCH) {
        run->chunks = 1;
        return scratch_chunk_count(run->cut);
    }
    uint32_t first = ((uint32_t)place->chunk + run->done) % run->cut->chunks;
    uint32_t to_block_end = run->cut->chunks - first, to_step_end = (uint32_t)step->n - run->done;
    run->chunks = to_block_end < to_step_end ? to_block_end : to_step_end;
    if (run->communicator->private[BUFFER_IN] || run->communicator->private[BUFFER_OUT])
        run->chunks = 1; /* the next chunk may lie elsewhere */
    uint64_t end = first + run->chunks == run->cut->chunks ? run->cut->count : chunk_start(run->cut, first + run->chunks);
    return end - chunk_start(run->cut, first);
}

/* *moved: elements read from each source, as split_move counts them. */
static enum wait_end move_blocks(struct communicator *c, const struct cut *cut, const struct step *step,
                                 const struct issue *issue, uint64_t *moved, uint32_t *peer)
{
    struct run run = {c, &issue->choice->plan, cut, issue->count, dtype_nbytes(issue->dtype), 0, 0};
    enum wait_end end = WAIT_ARRIVED;
    for (*moved = 0; run.done < (uint32_t)step->n && end == WAIT_ARRIVED; run.done += run.chunks) {
        uint64_t count = next_run(&run, step);
        if (!count)
            continue;
        for (int32_t i = 0; i < step->ndst; i++)
            c->dsts[i] = address(&run, &step->dst[i]);
        for (int32_t i = 0; i < step->nsrc; i++)
            c->srcs[i] = address(&run, &step->src[i]);
        *moved += count;
        end = move_elements(c, issue, step, count, peer);
    }
    return end;
}

static enum wait_end move(struct communicator *c, const struct cut *cut, const struct step *step, const struct issue *issue,
                          const struct piece *piece, uint32_t *peer)
{
    uint64_t since_ns = c->links ? c->waiter.host.now_ns(c->waiter.host.context) : 0, moved;
    enum wait_end end = issue->split ? split_move(c, issue, piece, step, &moved, peer)
                                     : move_blocks(c, cut, step, issue, &moved, peer);
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
