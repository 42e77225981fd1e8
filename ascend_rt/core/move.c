/* What one Copy or Reduce of a plan does: where its chunks are, and moving them. */
#include <errno.h>
#include <string.h>

#include "communicator.h"
#include "reach.h"

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

static void copy(const struct run *run, const struct step *step, uint64_t count)
{
    void *dst = address(run, step->dst);
    const void *src = address(run, step->src);
    if (dst != src)
        memcpy(dst, src, count * run->item_nbytes);
}

static void fold(struct communicator *c, const struct step *step, int32_t ndst, uint64_t count, const struct issue *issue)
{
    int op = issue->op == REDUCE_AVG && !step->complete ? REDUCE_SUM : issue->op;
    find_reduce(issue->dtype, op, c->kernels)(c->dsts, ndst, c->srcs, step->nsrc, count, c->size);
}

static void reduce(struct communicator *c, const struct run *run, const struct step *step, uint64_t count,
                   const struct issue *issue)
{
    for (int32_t i = 0; i < step->ndst; i++)
        c->dsts[i] = address(run, &step->dst[i]);
    for (int32_t i = 0; i < step->nsrc; i++)
        c->srcs[i] = address(run, &step->src[i]);
    fold(c, step, step->ndst, count, issue);
}

/* ---- steps that reach plain memory of other ranks ----
 *
 * Each returns 0, or the errno with which the memory of *peer was out of reach. */

static uint32_t far(const struct communicator *c, const struct place *place)
{
    return c->far[place->buffer][place->rank];
}

static bool is_far(const struct communicator *c, const struct step *step)
{
    for (int32_t i = 0; i < step->ndst + step->nsrc; i++)
        if (far(c, &step->dst[i])) /* the sources lie behind the destinations */
            return true;
    return false;
}

static int fetch(struct communicator *c, const struct place *from, void *to, const void *address, size_t nbytes, uint32_t *peer)
{
    *peer = (uint32_t)from->rank;
    c->reached_nbytes += nbytes;
    return reach_read(far(c, from), to, address, nbytes);
}

static int store(struct communicator *c, const struct place *to, void *address, const void *from, size_t nbytes, uint32_t *peer)
{
    *peer = (uint32_t)to->rank;
    c->reached_nbytes += nbytes;
    return reach_store(far(c, to), address, from, nbytes);
}

/* Elements first to first + count of a run: every source that is far is fetched into a slot of its own, and the result is
 * made in a destination that is not, or in a slot, and stored from there. */
static int reduce_far(struct communicator *c, const struct run *run, const struct step *step, uint64_t first, uint64_t count,
                      size_t slot_nbytes, const struct issue *issue, uint32_t *peer)
{
    const size_t nbytes = count * run->item_nbytes, before = first * run->item_nbytes;
    unsigned char *slot = c->bounce;
    int32_t near = 0;
    int error = 0;
    for (int32_t i = 0; i < step->nsrc && !error; i++) {
        c->srcs[i] = (unsigned char *)address(run, &step->src[i]) + before;
        if (!far(c, &step->src[i]))
            continue;
        error = fetch(c, &step->src[i], slot, c->srcs[i], nbytes, peer);
        c->srcs[i] = slot;
        slot += slot_nbytes;
    }
    for (int32_t i = 0; i < step->ndst; i++)
        if (!far(c, &step->dst[i]))
            c->dsts[near++] = (unsigned char *)address(run, &step->dst[i]) + before;
    if (!near)
        c->dsts[near++] = slot;
    if (!error)
        fold(c, step, near, count, issue);
    for (int32_t i = 0; i < step->ndst && !error; i++)
        if (far(c, &step->dst[i]))
            error = store(c, &step->dst[i], (unsigned char *)address(run, &step->dst[i]) + before, c->dsts[0], nbytes, peer);
    return error;
}

static int copy_far(struct communicator *c, const struct run *run, const struct step *step, uint64_t first, uint64_t count,
                    uint32_t *peer)
{
    const size_t nbytes = count * run->item_nbytes, before = first * run->item_nbytes;
    unsigned char *dst = (unsigned char *)address(run, step->dst) + before;
    unsigned char *src = (unsigned char *)address(run, step->src) + before;
    if (!far(c, step->src))
        return store(c, step->dst, dst, src, nbytes, peer);
    if (!far(c, step->dst))
        return fetch(c, step->src, dst, src, nbytes, peer);
    int error = fetch(c, step->src, c->bounce, src, nbytes, peer);
    return error ? error : store(c, step->dst, dst, c->bounce, nbytes, peer);
}

/* A run in tiles, so that what is fetched is still in the cache when it is used. */
static int move_far(struct communicator *c, const struct run *run, const struct step *step, uint64_t count,
                    const struct issue *issue, uint32_t *peer)
{
    const size_t slot_nbytes = c->bounce_nbytes / ((size_t)step->nsrc + 1) / 64 * 64;
    const uint64_t most = slot_nbytes / run->item_nbytes;
    int error = 0;
    for (uint64_t first = 0; first < count && !error; first += most) {
        uint64_t tile = count - first < most ? count - first : most;
        error = step->kind == STEP_COPY ? copy_far(c, run, step, first, tile, peer)
                                        : reduce_far(c, run, step, first, tile, slot_nbytes, issue, peer);
    }
    return error;
}

/* A process that has ended is out of reach, and whoever serves the job is about to say so. */
static enum wait_end out_of_reach(struct communicator *c, int error, uint32_t peer)
{
    struct notify never = {0};
    return error == ESRCH ? waiter_wait(&c->waiter, &never, 1, peer, HEED_ALL) : WAIT_UNREACHED;
}

enum wait_end move_step(struct communicator *c, const struct cut *cut, const struct step *step, const struct issue *issue,
                        uint64_t *moved, uint32_t *peer)
{
    struct run run = {c, &issue->choice->plan, cut, issue->count, dtype_nbytes(issue->dtype), 0, 0};
    const bool reaches = c->reaches_far && is_far(c, step);
    for (*moved = 0; run.done < (uint32_t)step->n; run.done += run.chunks) {
        uint64_t count = next_run(&run, step);
        *moved += count;
        if (reaches) {
            int error = move_far(c, &run, step, count, issue, peer);
            if (error)
                return out_of_reach(c, error, *peer);
        } else if (count && step->kind == STEP_COPY) {
            copy(&run, step, count);
        } else if (count) {
            reduce(c, &run, step, count, issue);
        }
    }
    return WAIT_ARRIVED;
}
