/* Collectives whose blocks differ in count: the plan of the fixed-size collective, each of its chunks a block, which lies
 * where the tables say.
 *
 * A rank's table does not fit its line: it lies in the rank's device memory, is written before the line is posted and
 * belongs to it.  It stays as it is until every rank has read it: until all have left the call, or, if they do not agree,
 * have told where it was made.  Every rank checks all tables, so all come to the same result, and only if nothing is wrong
 * do they commit.
 *
 * If a rank stages, the call goes in rounds: of each block the elements from piece.first on, as many as fit a piece.  In
 * the staging area block b begins at b times that number. */
#include <stdlib.h>
#include <string.h>

#include "communicator.h"
#include "order.h"

struct split *split_hold(struct split *split)
{
    if (split)
        atomic_fetch_add_explicit(&split->references, 1, memory_order_relaxed);
    return split;
}

void split_release(struct split *split)
{
    if (split && atomic_fetch_sub_explicit(&split->references, 1, memory_order_acq_rel) == 1)
        free(split);
}

/* ---- tables ---- */

static uint64_t *table_at(const struct communicator *c, uint64_t offset) { return (uint64_t *)(c->segment.base + offset); }

static uint64_t entry(const struct communicator *c, uint32_t rank, enum split_row row, uint64_t block)
{
    const uint64_t *table = table_at(c, board_latest_line(c, rank)->place.scratch);
    return table[row * (uint64_t)c->size + block];
}

static bool lies_in_segment(const struct communicator *c, uint64_t offset, uint64_t nbytes)
{
    return offset <= c->segment.job->nbytes && nbytes <= c->segment.job->nbytes - offset;
}

/* Whether all blocks of a buffer that others touch lie in the segment. */
static bool blocks_lie_in_segment(const struct communicator *c, uint32_t rank, enum split_row counts, int32_t blocks,
                                  uint64_t offset, size_t item_nbytes)
{
    const uint64_t room = (c->segment.job->nbytes - offset) / item_nbytes;
    for (int32_t block = 0; block < blocks; block++) {
        uint64_t count = entry(c, rank, counts, (uint64_t)block), start = entry(c, rank, counts + 1, (uint64_t)block);
        if (start > room || count > room - start)
            return false;
    }
    return true;
}

static bool place_is_sound(const struct communicator *c, const struct issue *issue, uint32_t rank, enum buffer buffer)
{
    const struct plan *plan = &issue->choice->plan;
    const struct line *line = board_latest_line(c, rank);
    const bool in = buffer == BUFFER_IN;
    const uint64_t offset = in ? line->place.in : line->place.out;
    if (line->place.memory & plain_bit(buffer))
        return true; /* the kernel knows */
    if (line->place.memory & staged_bit(buffer))
        return lies_in_segment(c, offset, c->piece_nbytes);
    return lies_in_segment(c, offset, 0) &&
           (!plan->lends[buffer] || blocks_lie_in_segment(c, rank, in ? IN_COUNTS : OUT_COUNTS,
                                                          in ? plan->blocks_in : plan->blocks_out, offset,
                                                          dtype_nbytes(issue->dtype)));
}

static bool places_are_sound(const struct communicator *c, const struct issue *issue)
{
    for (uint32_t rank = 0; rank < c->size; rank++) {
        uint64_t table = board_latest_line(c, rank)->place.scratch;
        if (table % sizeof(uint64_t) || !lies_in_segment(c, table, SPLIT_NBYTES(c->size)) ||
            !place_is_sound(c, issue, rank, BUFFER_IN) || !place_is_sound(c, issue, rank, BUFFER_OUT))
            return false;
    }
    return true;
}

/* What a rank sends to another is what that one expects of it.  A buffer of one block has the same for all. */
static bool tables_agree(struct communicator *c, const struct issue *issue)
{
    const struct plan *plan = &issue->choice->plan;
    for (uint32_t from = 0; from < c->size; from++)
        for (uint32_t to = 0; to < c->size; to++) {
            uint64_t sent = entry(c, from, IN_COUNTS, plan->blocks_in == 1 ? 0 : to);
            uint64_t expected = entry(c, to, OUT_COUNTS, plan->blocks_out == 1 ? 0 : from);
            if (sent != expected) {
                c->uneven = (struct uneven){from, to, sent, expected};
                return false;
            }
        }
    return true;
}

static uint64_t longest_block(const struct communicator *c, const struct plan *plan)
{
    uint64_t longest = 0;
    for (uint32_t rank = 0; rank < c->size; rank++)
        for (int32_t block = 0; block < plan->blocks_in; block++) {
            uint64_t count = entry(c, rank, IN_COUNTS, (uint64_t)block);
            longest = count > longest ? count : longest;
        }
    return longest;
}

/* ---- moving ---- */

/* Elements of a block that are moved in this round. */
static uint64_t part_of(const struct piece *piece, uint64_t count)
{
    uint64_t left = count > piece->first ? count - piece->first : 0;
    return left < piece->count ? left : piece->count;
}

static unsigned char *address(const struct communicator *c, const struct issue *issue, const struct piece *piece,
                              const struct place *place, uint32_t block)
{
    const enum buffer buffer = (enum buffer)place->buffer;
    const size_t item_nbytes = dtype_nbytes(issue->dtype);
    unsigned char *base = said_place(c, (uint32_t)place->rank, buffer);
    if (board_latest_line(c, (uint32_t)place->rank)->place.memory & staged_bit(buffer))
        return base + block * piece->count * item_nbytes;
    if ((uint32_t)place->rank == c->rank && issue->outside & staged_bit(buffer))
        base = buffer == BUFFER_IN ? issue->in.base : issue->out.base;
    uint64_t start = entry(c, (uint32_t)place->rank, place->buffer == BUFFER_IN ? IN_STARTS : OUT_STARTS, block);
    return base + (start + piece->first) * item_nbytes;
}

enum wait_end split_move(struct communicator *c, const struct issue *issue, const struct piece *piece, const struct step *step,
                         uint64_t *moved, uint32_t *peer)
{
    const struct place *first = &step->dst[0];
    const enum split_row counts = first->buffer == BUFFER_IN ? IN_COUNTS : OUT_COUNTS;
    enum wait_end end = WAIT_ARRIVED;
    *moved = 0;
    for (uint32_t k = 0; k < (uint32_t)step->n && end == WAIT_ARRIVED; k++) {
        uint64_t count = part_of(piece, entry(c, (uint32_t)first->rank, counts, (uint32_t)first->chunk + k));
        if (count == 0)
            continue;
        *moved += count;
        for (int32_t i = 0; i < step->ndst; i++)
            c->dsts[i] = address(c, issue, piece, &step->dst[i], (uint32_t)step->dst[i].chunk + k);
        for (int32_t i = 0; i < step->nsrc; i++)
            c->srcs[i] = address(c, issue, piece, &step->src[i], (uint32_t)step->src[i].chunk + k);
        end = move_elements(c, issue, step, count, peer);
    }
    return end;
}

static void stage(const struct communicator *c, const struct issue *issue, uint32_t memory, const struct piece *piece,
                  enum buffer buffer)
{
    const struct plan *plan = &issue->choice->plan;
    const bool in = buffer == BUFFER_IN;
    const uint64_t *rows = issue->split->rows;
    const uint64_t *counts = rows + (in ? IN_COUNTS : OUT_COUNTS) * (uint64_t)c->size, *starts = counts + c->size;
    const struct view *view = in ? &issue->in : &issue->out;
    unsigned char *area = c->segment.base + (in ? issue->in_offset : issue->out_offset);
    if (!(memory & staged_bit(buffer)))
        return;
    for (int32_t block = 0; block < (in ? plan->blocks_in : plan->blocks_out); block++, area += piece->count * view->item_nbytes) {
        uint64_t count = part_of(piece, counts[block]);
        if (in)
            view_read(view, starts[block] + piece->first, count, area);
        else
            view_store(view, starts[block] + piece->first, count, area);
    }
}

/* ---- a call ---- */

static enum call_end enter(struct communicator *c, const struct issue *issue, uint32_t memory, const struct descriptor *said)
{
    say_places(c, issue, memory, c->table_offset);
    enum call_end end = board_meet(c, said, true);
    if (end != CALL_DONE)
        return end;
    if (!places_are_sound(c, issue) || issue->choice->plan.chunks != 1 || issue->choice->plan.scratch_chunks) {
        board_overrun(c);
        return CALL_ABORTED;
    }
    if (!tables_agree(c, issue))
        return CALL_DIFFERS;
    return board_commit(c);
}

enum call_end split_run(struct communicator *c, const struct issue *issue, const struct descriptor *said)
{
    struct piece piece = {0, piece_count(c, issue)};
    uint64_t longest;
    if (c->waiter.host.blocks)
        c->waiter.host.blocks(c->waiter.host.context);
    memcpy(table_at(c, c->table_offset), issue->split->rows, SPLIT_NBYTES(c->size));
    do {
        const uint32_t memory = memory_of(c, issue);
        stage(c, issue, memory, &piece, BUFFER_IN);
        enum call_end end = enter(c, issue, memory, said);
        if (end != CALL_DONE)
            return end;
        if (c->waiter.host.committed)
            c->waiter.host.committed(c->waiter.host.context);
        longest = longest_block(c, &issue->choice->plan);
        if (!anybody_stages(c))
            piece.count = longest;
        learn_reach(c);
        plan_find_far(c);
        uint32_t peer = c->rank;
        enum wait_end how = plan_run(c, &issue->choice->plan, issue, &piece, &peer);
        end = board_leave(c, how, peer);
        if (end != CALL_DONE)
            return end;
        stage(c, issue, memory, &piece, BUFFER_OUT);
        piece.first += piece.count;
    } while (piece.first < longest);
    return CALL_DONE;
}
