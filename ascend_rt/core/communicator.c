/* The life of one call: find how it is done, meet on the board, move the data, leave. */
#include "communicator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "order.h"

static bool allocate_by_rank(struct communicator *c)
{
    c->members = calloc(c->size, sizeof *c->members);
    c->posted = calloc(c->size, sizeof *c->posted);
    c->awaited = calloc(c->size, sizeof *c->awaited);
    c->dsts = calloc(c->size, sizeof *c->dsts);
    c->srcs = calloc(c->size, sizeof *c->srcs);
    bool all = c->members && c->posted && c->awaited && c->dsts && c->srcs;
    for (int buffer = 0; buffer < BUFFERS; buffer++) {
        c->base[buffer] = calloc(c->size, sizeof *c->base[buffer]);
        all = all && c->base[buffer];
    }
    return all;
}

int communicator_open(struct communicator *c, const struct segment *segment, const struct arena *arena,
                      const uint32_t *members, uint32_t size, uint32_t rank)
{
    if (size == 0 || rank >= size || size > segment->job->ranks)
        return EINVAL;
    *c = (struct communicator){.segment = *segment, .arena = arena, .rank = rank, .size = size, .round = 1,
                               .board = segment_world_board(segment), .kernels = best_kernel_variant()};
    if (!allocate_by_rank(c)) {
        communicator_close(c);
        return ENOMEM;
    }
    memcpy(c->members, members, size * sizeof *members);
    c->waiter = (struct waiter){.host = linux_host, .spins = 100, .yields = 200, .sleep_ns = 50000000,
                                .abort = &c->board->abort, .ranks = segment_rank(segment, 0), .members = c->members,
                                .own = segment_rank(segment, members[rank])};
    return 0;
}

void communicator_close(struct communicator *c)
{
    for (size_t i = 0; i < c->nchoices; i++) {
        plan_free(&c->choices[i]->plan);
        free(c->choices[i]);
    }
    for (int buffer = 0; buffer < BUFFERS; buffer++)
        free(c->base[buffer]);
    free(c->choices);
    free(c->members);
    free(c->posted);
    free(c->awaited);
    free(c->dsts);
    free(c->srcs);
    *c = (struct communicator){0};
}

/* ---- choices ---- */

static bool can_run(const struct communicator *c, const struct choice *choice)
{
    bool reduces = choice->in_line && choice->collective == ALL_REDUCE;
    for (size_t i = 0; i < choice->plan.nsteps; i++)
        reduces = reduces || choice->plan.steps[i].kind == STEP_REDUCE;
    if (!dtype_nbytes(choice->dtype) || (reduces && !find_reduce(choice->dtype, choice->op, c->kernels)))
        return false;
    if (choice->in_line)
        return choice->most_nbytes <= PAYLOAD_NBYTES && (choice->root == ROOT_ANY || choice->root < c->size);
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

uint64_t communicator_scratch_needed(struct communicator *c, const struct call *call)
{
    const struct choice *choice = communicator_find_choice(c, call);
    if (!choice || choice->in_line || !choice->plan.scratch_chunks)
        return 0;
    struct cut cut = cut_count(call->count, (uint32_t)choice->plan.chunks, dtype_nbytes(call->dtype));
    return (uint64_t)choice->plan.scratch_chunks * scratch_chunk_count(&cut) * dtype_nbytes(call->dtype);
}

/* ---- calls whose payload is in the line ---- */

static void spread_payload(struct communicator *c, const struct call *call, size_t nbytes)
{
    const struct line *lines = board_line(c->board, c->size, (c->round - 1) % SLOTS, 0);
    switch (call->collective) {
    case ALL_REDUCE:
        for (uint32_t rank = 0; rank < c->size; rank++)
            c->srcs[rank] = lines[rank].payload;
        if (call->count)
            find_reduce(call->dtype, call->op, c->kernels)((void *const[]){call->out}, 1, c->srcs, (int)c->size,
                                                            call->count, c->size);
        break;
    case BROADCAST:
        memmove(call->out, lines[call->root].payload, nbytes);
        break;
    case ALL_GATHER:
        for (uint32_t rank = 0; rank < c->size; rank++)
            memcpy((unsigned char *)call->out + rank * nbytes, lines[rank].payload, nbytes);
        break;
    default: /* a barrier carries nothing */
        break;
    }
}

static enum call_end call_in_line(struct communicator *c, const struct call *call, const struct descriptor *said)
{
    size_t nbytes = call->count * dtype_nbytes(call->dtype);
    if (nbytes)
        memcpy(board_begin(c)->payload, call->in, nbytes);
    enum call_end end = board_round(c, said, false);
    if (end == CALL_DONE && nbytes)
        spread_payload(c, call, nbytes);
    return end;
}

/* ---- calls that touch peers' memory ---- */

static bool find_own_buffers(struct communicator *c, const struct plan *plan, const struct call *call, struct line *line)
{
    uint64_t nbytes = call->count * dtype_nbytes(call->dtype);
    line->place.scratch = c->scratch_offset;
    return arena_find(c->arena, call->in, (uint64_t)plan->blocks_in * nbytes, &line->place.in) &&
           arena_find(c->arena, call->out, (uint64_t)plan->blocks_out * nbytes, &line->place.out);
}

static enum call_end call_by_plan(struct communicator *c, const struct choice *choice, const struct call *call,
                                  const struct descriptor *said)
{
    enum call_end end = board_round(c, said, true);
    if (end != CALL_DONE)
        return end;
    if (c->waiter.host.committed)
        c->waiter.host.committed(c->waiter.host.context);
    if (c->waiter.host.blocks)
        c->waiter.host.blocks(c->waiter.host.context);
    uint32_t peer = c->rank;
    enum wait_end how = WAIT_ABORTED;
    if (plan_find_buffers(c, &choice->plan, call))
        how = plan_run(c, &choice->plan, call, &peer);
    else
        board_overrun(c);
    return board_leave(c, how, peer);
}

static struct descriptor describe(const struct communicator *c, const struct call *call, uint32_t fingerprint)
{
    return (struct descriptor){.call = c->call, .collective = call->collective, .dtype = call->dtype, .op = call->op,
                               .root = call->root, .fingerprint = fingerprint, .count = call->count};
}

/* The number is taken by every call, done, refused or too late: it is what the ranks compare. */
static void begin_call(struct communicator *c, uint8_t collective)
{
    c->waiter.call = ++c->call;
    c->waiter.collective = collective;
}

enum call_end communicator_call(struct communicator *c, const struct call *call)
{
    if (call->count > c->segment.job->nbytes)
        return CALL_NOT_DEVICE_MEMORY; /* below this, products of count, item size and blocks fit 64 bits */
    const struct choice *choice = communicator_find_choice(c, call);
    if (!choice)
        return CALL_NO_CHOICE;
    if (!choice->in_line && communicator_scratch_needed(c, call) > c->scratch_nbytes)
        return CALL_NO_SCRATCH;
    if (board_may_start(c) != CALL_DONE) {
        begin_call(c, call->collective);
        return CALL_ABORTED;
    }
    /* This stores into the rank's line: not after it has given up, since a peer may still read that of the last round. */
    if (!choice->in_line && !find_own_buffers(c, &choice->plan, call, board_begin(c)))
        return CALL_NOT_DEVICE_MEMORY;
    begin_call(c, call->collective);
    struct descriptor said = describe(c, call, choice->fingerprint);
    return choice->in_line ? call_in_line(c, call, &said) : call_by_plan(c, choice, call, &said);
}

/* ---- rounds that carry only text ---- */

static enum call_end round_with_note(struct communicator *c, struct descriptor *said, const char *text)
{
    if (board_may_start(c) != CALL_DONE)
        return CALL_ABORTED;
    struct note *note = board_note(c->board, c->size, c->round % SLOTS, c->rank);
    size_t length = strlen(text);
    length = length < NOTE_NBYTES ? length : NOTE_NBYTES - 1;
    memcpy(note->text, text, length);
    note->text[length] = 0;
    return board_round(c, said, false);
}

enum call_end communicator_refuse(struct communicator *c, uint8_t collective, const char *why)
{
    begin_call(c, collective);
    struct descriptor said = {.call = c->call, .collective = collective, .flags = LINE_REFUSED | LINE_NOTE};
    return round_with_note(c, &said, why);
}

enum call_end communicator_tell(struct communicator *c, const char *text)
{
    struct descriptor said = {.collective = COLLECTIVE_TELL, .flags = LINE_NOTE};
    return round_with_note(c, &said, text);
}
