/* Moving the elements of one Copy or Reduce between its places, wherever they lie. */
#include <errno.h>
#include <string.h>

#include "communicator.h"
#include "reach.h"

static void fold(const struct communicator *c, const struct issue *issue, const struct step *step, void **dsts, int32_t ndst,
                 const void **srcs, uint64_t count)
{
    int op = issue->op == REDUCE_AVG && !step->complete ? REDUCE_SUM : issue->op;
    find_reduce(issue->dtype, op, c->kernels)(dsts, ndst, srcs, step->nsrc, count, c->size);
}

static void move_near(const struct communicator *c, const struct issue *issue, const struct step *step, uint64_t count)
{
    if (step->kind == STEP_REDUCE)
        fold(c, issue, step, c->dsts, step->ndst, c->srcs, count);
    else if (c->dsts[0] != c->srcs[0])
        memmove(c->dsts[0], c->srcs[0], count * dtype_nbytes(issue->dtype));
}

/* ---- plain memory of other ranks ----
 *
 * A step goes in tiles, so that what is fetched is still in the cache when it is used.  Functions return 0, or the errno
 * with which the memory of *peer was out of reach. */

struct tile {
    size_t before, nbytes; /* from the beginning of the step's elements */
    size_t slot_nbytes;    /* room for it in c->bounce, once for each source and once more */
};

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

/* Every source that is far is fetched into a slot of its own; the result is made in a destination that is not, or in a
 * slot, and stored from there. */
static int reduce_far(struct communicator *c, const struct issue *issue, const struct step *step, const struct tile *tile,
                      uint32_t *peer)
{
    unsigned char *slot = c->bounce;
    int32_t near = 0;
    int error = 0;
    for (int32_t i = 0; i < step->nsrc && !error; i++) {
        c->near_srcs[i] = (const unsigned char *)c->srcs[i] + tile->before;
        if (!far(c, &step->src[i]))
            continue;
        error = fetch(c, &step->src[i], slot, c->near_srcs[i], tile->nbytes, peer);
        c->near_srcs[i] = slot;
        slot += tile->slot_nbytes;
    }
    for (int32_t i = 0; i < step->ndst; i++)
        if (!far(c, &step->dst[i]))
            c->near_dsts[near++] = (unsigned char *)c->dsts[i] + tile->before;
    if (!near)
        c->near_dsts[near++] = slot;
    if (!error)
        fold(c, issue, step, c->near_dsts, near, c->near_srcs, tile->nbytes / dtype_nbytes(issue->dtype));
    for (int32_t i = 0; i < step->ndst && !error; i++)
        if (far(c, &step->dst[i]))
            error = store(c, &step->dst[i], (unsigned char *)c->dsts[i] + tile->before, c->near_dsts[0], tile->nbytes, peer);
    return error;
}

static int copy_far(struct communicator *c, const struct step *step, const struct tile *tile, uint32_t *peer)
{
    unsigned char *dst = (unsigned char *)c->dsts[0] + tile->before;
    const unsigned char *src = (const unsigned char *)c->srcs[0] + tile->before;
    if (!far(c, step->src))
        return store(c, step->dst, dst, src, tile->nbytes, peer);
    if (!far(c, step->dst))
        return fetch(c, step->src, dst, src, tile->nbytes, peer);
    int error = fetch(c, step->src, c->bounce, src, tile->nbytes, peer);
    return error ? error : store(c, step->dst, dst, c->bounce, tile->nbytes, peer);
}

static int move_far(struct communicator *c, const struct issue *issue, const struct step *step, uint64_t count, uint32_t *peer)
{
    const size_t nbytes = count * dtype_nbytes(issue->dtype);
    const size_t most = c->bounce_nbytes / ((size_t)step->nsrc + 1) / 64 * 64;
    int error = 0;
    for (size_t before = 0; before < nbytes && !error; before += most) {
        struct tile tile = {before, nbytes - before < most ? nbytes - before : most, most};
        error = step->kind == STEP_COPY ? copy_far(c, step, &tile, peer) : reduce_far(c, issue, step, &tile, peer);
    }
    return error;
}

/* A process that has ended is out of reach, and whoever serves the job is about to say so. */
static enum wait_end out_of_reach(struct communicator *c, int error, uint32_t peer)
{
    struct notify never = {0};
    return error == ESRCH ? waiter_wait(&c->waiter, &never, 1, peer, HEED_ALL) : WAIT_UNREACHED;
}

enum wait_end move_elements(struct communicator *c, const struct issue *issue, const struct step *step, uint64_t count,
                            uint32_t *peer)
{
    if (c->reaches_far && is_far(c, step)) {
        int error = move_far(c, issue, step, count, peer);
        return error ? out_of_reach(c, error, *peer) : WAIT_ARRIVED;
    }
    move_near(c, issue, step, count);
    return WAIT_ARRIVED;
}
