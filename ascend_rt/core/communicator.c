/* Making a communicator, and issuing calls: everything that is found before a call says anything to anybody. */
#include "communicator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "order.h"
#include "reach.h"
#include "transfer.h"

/* At 8 ranks on 2 cores 8 bytes take 6 us when the GIL is held through 8 yields, and 10 us when it is released before the
 * first: releasing and taking it back touches memory that the switch between processes has driven out of the cache. */
enum { BRIEF_YIELDS = 8 };

static bool allocate_by_rank(struct communicator *c)
{
    c->members = calloc(c->size, sizeof *c->members);
    c->posted = calloc(c->size, sizeof *c->posted);
    c->awaited = calloc(c->size, sizeof *c->awaited);
    c->dsts = calloc(c->size, sizeof *c->dsts);
    c->srcs = calloc(c->size, sizeof *c->srcs);
    c->near_dsts = calloc(c->size, sizeof *c->near_dsts);
    c->near_srcs = calloc(c->size, sizeof *c->near_srcs);
    bool all = c->members && c->posted && c->awaited && c->dsts && c->srcs && c->near_dsts && c->near_srcs;
    for (int side = 0; side < SIDES; side++)
        all = (c->ends[side] = calloc(c->size, sizeof *c->ends[side])) && all;
    for (int buffer = 0; buffer < BUFFERS; buffer++) {
        c->base[buffer] = calloc(c->size, sizeof *c->base[buffer]);
        c->stride[buffer] = calloc(c->size, sizeof *c->stride[buffer]);
        c->far[buffer] = calloc(c->size, sizeof *c->far[buffer]);
        all = all && c->base[buffer] && c->stride[buffer] && c->far[buffer];
    }
    return all;
}

static void show_secret(struct communicator *c)
{
    if (getrandom(&c->secret, sizeof c->secret, GRND_NONBLOCK) != sizeof c->secret)
        c->secret = 0;
    struct left *mine = board_left(c->board, c->size, c->rank);
    mine->secret = c->secret;
    mine->secret_address = (uintptr_t)&c->secret;
}

int communicator_open(struct communicator *c, const struct segment *segment, const struct arena *arena,
                      struct board *board, const uint32_t *members, uint32_t size, uint32_t rank)
{
    if (size == 0 || rank >= size || size > segment->job->ranks)
        return EINVAL;
    *c = (struct communicator){.segment = *segment, .arena = arena, .rank = rank, .size = size, .round = 1,
                               .board = board ? board : segment_world_board(segment), .kernels = best_kernel_variant(),
                               .piece_nbytes = 1 << 20};
    if (!allocate_by_rank(c)) {
        communicator_close(c);
        return ENOMEM;
    }
    memcpy(c->members, members, size * sizeof *members);
    c->waiter = (struct waiter){.host = linux_host, .patience = {.spins = 100, .yields = 200, .brief_yields = BRIEF_YIELDS,
                                             .sleep_ns = 50000000},
                                .abort = &c->board->abort, .ranks = segment_rank(segment, 0), .members = c->members,
                                .lefts = board_left(c->board, size, 0), .own = segment_rank(segment, members[rank])};
    reach_admit_family();
    show_secret(c);
    return 0;
}

void communicator_close(struct communicator *c)
{
    for (size_t i = 0; i < c->nchoices; i++) {
        exchange_free(&c->choices[i]->exchange);
        plan_free(&c->choices[i]->plan);
        free(c->choices[i]);
    }
    for (int buffer = 0; buffer < BUFFERS; buffer++) {
        free(c->base[buffer]);
        free(c->stride[buffer]);
        free(c->far[buffer]);
    }
    for (int side = 0; side < SIDES; side++)
        free(c->ends[side]);
    failure_release(c->failure);
    free(c->links);
    free(c->choices);
    free(c->members);
    free(c->posted);
    free(c->awaited);
    free(c->dsts);
    free(c->srcs);
    free(c->near_dsts);
    free(c->near_srcs);
    free(c->bounce);
    *c = (struct communicator){0};
}

bool communicator_reaches_all(struct communicator *c)
{
    size_t lines = ((size_t)c->size + 1) * LINE_NBYTES; /* a slot for each source of a step, and one */
    c->bounce_nbytes = c->piece_nbytes > lines ? c->piece_nbytes : lines;
    if (!c->least_reached_nbytes || !(c->bounce = malloc(c->bounce_nbytes)))
        return false;
    for (uint32_t rank = 0; rank < c->size; rank++) {
        const struct left *left = board_left(c->board, c->size, rank);
        void *address = (void *)(uintptr_t)left->secret_address;
        uint32_t pid = load_relaxed(&c->waiter.ranks[c->members[rank]].pid);
        uint64_t found = 0;
        if (rank != c->rank && (!left->secret || reach_read(pid, &found, address, sizeof found) ||
                                found != left->secret || reach_store(pid, address, &found, sizeof found)))
            return false;
    }
    return true;
}

/* ---- choices ---- */

static bool can_run(const struct communicator *c, const struct choice *choice)
{
    bool reduces = false;
    for (int32_t block = 0; block < choice->exchange.blocks_out; block++)
        reduces = reduces || choice->exchange.takes[block].rank == TAKE_FOLDED;
    for (size_t i = 0; i < choice->plan.nsteps; i++)
        reduces = reduces || choice->plan.steps[i].kind == STEP_REDUCE;
    if (!dtype_nbytes(choice->dtype) || (reduces && !find_reduce(choice->dtype, choice->op, c->kernels)))
        return false;
    if (choice->is_exchange) /* the limit leaves no room for the product to wrap */
        return choice->most_nbytes <= PACKET_NBYTES &&
               (uint64_t)choice->exchange.blocks * choice->most_nbytes <= PACKET_NBYTES;
    return (uint32_t)choice->plan.ranks == c->size && (uint32_t)choice->plan.rank == c->rank;
}

int communicator_add_choice(struct communicator *c, const struct choice *choice)
{
    if (!can_run(c, choice))
        return EINVAL;
    struct choice **grown = realloc(c->choices, (c->nchoices + 1) * sizeof *grown);
    if (!grown)
        return ENOMEM;
    c->choices = grown;
    struct choice *own = malloc(sizeof *own);
    if (!own)
        return ENOMEM;
    *own = *choice;
    c->choices[c->nchoices++] = own;
    return 0;
}

static bool serves(const struct choice *choice, const struct call *call)
{
    uint64_t nbytes = call->count * dtype_nbytes(call->dtype);
    return choice->collective == call->collective && choice->dtype == call->dtype && choice->op == call->op &&
           (choice->root == ROOT_ANY || choice->root == call->root) && nbytes >= choice->least_nbytes &&
           nbytes <= choice->most_nbytes;
}

struct choice *communicator_find_choice(struct communicator *c, const struct call *call)
{
    if (c->latest && serves(c->latest, call))
        return c->latest;
    for (size_t i = 0; i < c->nchoices; i++)
        if (serves(c->choices[i], call))
            return c->latest = c->choices[i];
    return NULL;
}

uint64_t most_for_scratch(const struct communicator *c, const struct plan *plan, size_t item_nbytes)
{
    if (!c->most_scratch_nbytes || !plan->scratch_chunks)
        return UINT64_MAX;
    uint64_t chunk_nbytes = c->most_scratch_nbytes / (uint64_t)plan->scratch_chunks;
    return most_count_for_scratch(chunk_nbytes, (uint32_t)plan->chunks, item_nbytes);
}

static uint64_t scratch_of(const struct communicator *c, const struct choice *choice, const struct call *call)
{
    if (choice->is_exchange || !choice->plan.scratch_chunks)
        return 0;
    uint64_t most = most_for_scratch(c, &choice->plan, dtype_nbytes(call->dtype));
    uint64_t count = call->count < most ? call->count : most;
    struct cut cut = cut_count(count, (uint32_t)choice->plan.chunks, dtype_nbytes(call->dtype));
    return (uint64_t)choice->plan.scratch_chunks * scratch_chunk_count(&cut) * dtype_nbytes(call->dtype);
}

uint64_t communicator_scratch_needed(struct communicator *c, const struct call *call)
{
    const struct choice *choice = communicator_find_choice(c, call);
    return choice ? scratch_of(c, choice, call) : 0;
}

/* ---- issuing ---- */

uint32_t communicator_take_number(struct communicator *c) { return ++c->call; }

static bool is_in_device_memory(const struct communicator *c, const struct view *view, uint64_t nbytes, uint64_t *offset)
{
    return view->ndim == 0 && arena_find(c->arena, view->base, nbytes, offset);
}

/* A buffer outside of device memory must be staged for what others touch of it.  What only this rank touches is used
 * where it is, unless it is strided: plans move contiguous memory. */
static uint64_t place_buffer(struct issue *issue, const struct view *view, enum buffer buffer, uint64_t staging_offset)
{
    issue->outside |= staged_bit(buffer);
    if (issue->choice->plan.lends[buffer] || view->ndim)
        issue->staged |= staged_bit(buffer);
    return issue->staged & staged_bit(buffer) ? staging_offset : 0;
}

static void place_buffers(const struct communicator *c, struct issue *issue)
{
    const struct plan *plan = &issue->choice->plan;
    const struct split *split = issue->split;
    size_t item_nbytes = dtype_nbytes(issue->dtype);
    uint64_t in_count = split ? split->in_count : (uint64_t)plan->blocks_in * issue->count;
    uint64_t out_count = split ? split->out_count : (uint64_t)plan->blocks_out * issue->count;
    issue->scratch_offset = c->scratch_offset;
    issue->outside = issue->staged = 0;
    if (!is_in_device_memory(c, &issue->in, in_count * item_nbytes, &issue->in_offset))
        issue->in_offset = place_buffer(issue, &issue->in, BUFFER_IN, c->staging_offset);
    if (!is_in_device_memory(c, &issue->out, out_count * item_nbytes, &issue->out_offset))
        issue->out_offset = place_buffer(issue, &issue->out, BUFFER_OUT,
                                         c->staging_offset + (issue->same_place ? 0 : c->piece_nbytes));
}

enum call_end communicator_prepare(struct communicator *c, const struct call *call, struct issue *issue)
{
    const struct split *split = call->split;
    const uint64_t most = c->segment.job->nbytes;
    if (call->count > most || (split && (split->in_count > most || split->out_count > most)))
        return CALL_TOO_LARGE; /* below this, products of count, item size and blocks fit 64 bits */
    const struct choice *choice = communicator_find_choice(c, call);
    if (!choice)
        return CALL_NO_CHOICE;
    if (scratch_of(c, choice, call) > c->scratch_nbytes)
        return CALL_NO_SCRATCH;
    size_t item_nbytes = dtype_nbytes(call->dtype);
    issue->choice = choice;
    issue->collective = call->collective;
    issue->dtype = call->dtype;
    issue->op = call->op;
    issue->root = call->root;
    issue->count = call->count;
    issue->split = call->split;
    issue->in = call->strided_in ? *call->strided_in : view_contiguous(call->in, item_nbytes);
    issue->out = call->strided_out ? *call->strided_out : view_contiguous(call->out, item_nbytes);
    issue->same_place = call->in == call->out && !split;
    if (!choice->is_exchange) {
        place_buffers(c, issue);
        if (issue->staged && !c->has_staging)
            return CALL_NO_STAGING;
    }
    return CALL_DONE;
}

enum call_end communicator_issue(struct communicator *c, const struct call *call, struct issue *issue)
{
    enum call_end end = communicator_prepare(c, call, issue);
    if (end == CALL_DONE)
        issue->number = communicator_take_number(c);
    return end;
}
