/* Running a call: meet on the board, move the data, leave; and what is kept of one that failed. */
#include <stdlib.h>
#include <string.h>

#include "communicator.h"
#include "order.h"

/* ---- calls that touch peers' memory ---- */

bool anybody_stages(const struct communicator *c)
{
    for (uint32_t rank = 0; rank < c->size; rank++)
        if (board_latest_line(c, rank)->place.memory & (STAGED_IN | STAGED_OUT))
            return true;
    return false;
}

/* ---- plain memory that is reached where it is ---- */

static bool all_reach(const struct communicator *c)
{
    for (uint32_t rank = 0; rank < c->size; rank++)
        if (!(board_latest_line(c, rank)->place.memory & REACHES))
            return false;
    return true;
}

void learn_reach(struct communicator *c)
{
    if (c->reach == REACH_UNKNOWN && anybody_stages(c))
        c->reach = communicator_reaches_all(c) ? REACH_GRANTED : REACH_REFUSED;
    else if (c->reach == REACH_REFUSED || c->reach == REACH_GRANTED)
        c->reach = all_reach(c) ? REACH_ALL : REACH_NONE;
}

/* Elements of the larger of its buffers. */
static uint64_t most_elements(const struct issue *issue)
{
    const struct plan *plan = &issue->choice->plan;
    uint64_t blocks = (uint64_t)(plan->blocks_in > plan->blocks_out ? plan->blocks_in : plan->blocks_out);
    if (!issue->split)
        return blocks * issue->count;
    return issue->split->in_count > issue->split->out_count ? issue->split->in_count : issue->split->out_count;
}

uint32_t memory_of(const struct communicator *c, const struct issue *issue)
{
    bool large = most_elements(issue) * dtype_nbytes(issue->dtype) >= c->least_reached_nbytes;
    uint32_t memory = issue->staged;
    if (c->reach == REACH_ALL && large && memory & STAGED_IN && !issue->in.ndim)
        memory ^= STAGED_IN | PLAIN_IN;
    if (c->reach == REACH_ALL && large && memory & STAGED_OUT && !issue->out.ndim)
        memory ^= STAGED_OUT | PLAIN_OUT;
    return memory | (c->reach == REACH_GRANTED || c->reach == REACH_ALL ? REACHES : 0);
}

void say_places(struct communicator *c, const struct issue *issue, uint32_t memory, uint64_t scratch_offset)
{
    struct line *line = board_begin(c);
    line->place.in = memory & PLAIN_IN ? (uintptr_t)issue->in.base : issue->in_offset;
    line->place.out = memory & PLAIN_OUT ? (uintptr_t)issue->out.base : issue->out_offset;
    line->place.scratch = scratch_offset;
    line->place.memory = memory;
}

unsigned char *said_place(const struct communicator *c, uint32_t rank, enum buffer buffer)
{
    const struct line *line = board_latest_line(c, rank);
    const uint64_t said[BUFFERS] = {line->place.in, line->place.out, line->place.scratch};
    return line->place.memory & plain_bit(buffer) ? (unsigned char *)(uintptr_t)said[buffer] : c->segment.base + said[buffer];
}

/* ---- staging ---- */

uint64_t piece_count(const struct communicator *c, const struct issue *issue)
{
    const struct plan *plan = &issue->choice->plan;
    uint64_t blocks = (uint64_t)(plan->blocks_in > plan->blocks_out ? plan->blocks_in : plan->blocks_out);
    uint64_t count = c->piece_nbytes / blocks / 64 * 64 / dtype_nbytes(issue->dtype);
    uint64_t most = most_for_scratch(c, plan, dtype_nbytes(issue->dtype));
    count = count < most ? count : most;
    return count ? count : 1;
}

/* Elements of a piece that have to be copied between the program's buffer and the staging area: all, or of a contiguous
 * buffer the next chunk that is lent. */
struct stretch {
    uint64_t first, count;
};

static bool next_stretch(const struct plan *plan, enum buffer buffer, const struct view *view, const struct cut *cut,
                         int32_t block, int32_t *chunk, struct stretch *stretch)
{
    if (view->ndim) {
        *stretch = (struct stretch){0, cut->count};
        return (*chunk)++ == 0;
    }
    while (*chunk < plan->chunks && !plan_is_lent(plan, buffer, (int64_t)block * plan->chunks + *chunk))
        ++*chunk;
    if (*chunk == plan->chunks)
        return false;
    uint64_t first = chunk_start(cut, (uint64_t)*chunk);
    uint64_t end = ++*chunk == plan->chunks ? cut->count : chunk_start(cut, (uint64_t)*chunk);
    *stretch = (struct stretch){first, end - first};
    return true;
}

static void stage_in(const struct communicator *c, const struct issue *issue, uint32_t memory, const struct piece *piece)
{
    const struct plan *plan = &issue->choice->plan;
    struct cut cut = cut_count(piece->count, (uint32_t)plan->chunks, issue->in.item_nbytes);
    unsigned char *to = c->segment.base + issue->in_offset;
    struct stretch stretch;
    if (!(memory & STAGED_IN))
        return;
    for (int32_t block = 0; block < plan->blocks_in; block++, to += piece->count * issue->in.item_nbytes)
        for (int32_t chunk = 0; next_stretch(plan, BUFFER_IN, &issue->in, &cut, block, &chunk, &stretch);)
            view_read(&issue->in, (uint64_t)block * issue->count + piece->first + stretch.first, stretch.count,
                      to + stretch.first * issue->in.item_nbytes);
}

static void stage_out(const struct communicator *c, const struct issue *issue, uint32_t memory, const struct piece *piece)
{
    const struct plan *plan = &issue->choice->plan;
    struct cut cut = cut_count(piece->count, (uint32_t)plan->chunks, issue->out.item_nbytes);
    const unsigned char *from = c->segment.base + issue->out_offset;
    struct stretch stretch;
    if (!(memory & STAGED_OUT))
        return;
    for (int32_t block = 0; block < plan->blocks_out; block++, from += piece->count * issue->out.item_nbytes)
        for (int32_t chunk = 0; next_stretch(plan, BUFFER_OUT, &issue->out, &cut, block, &chunk, &stretch);)
            view_store(&issue->out, (uint64_t)block * issue->count + piece->first + stretch.first, stretch.count,
                       from + stretch.first * issue->out.item_nbytes);
}

static enum call_end run_piece(struct communicator *c, const struct issue *issue, const struct piece *piece)
{
    uint32_t peer = c->rank;
    enum wait_end how = WAIT_ABORTED;
    if (plan_find_buffers(c, &issue->choice->plan, issue, piece))
        how = plan_run(c, &issue->choice->plan, issue, piece, &peer);
    else
        board_overrun(c);
    return board_leave(c, how, peer);
}

/* One round for the whole call; or, if a rank stages its buffers or scratch is short, one for each piece.  A rank that
 * stages exposes its first piece before it knows about the others, which is right in both cases, since it knows of
 * itself; and how much scratch there may be is the same on all. */
static enum call_end run_by_plan(struct communicator *c, const struct issue *issue, const struct descriptor *said)
{
    struct piece piece = {0, 0};
    const uint64_t most_staged = piece_count(c, issue);
    const uint64_t most_at_once = most_for_scratch(c, &issue->choice->plan, dtype_nbytes(issue->dtype));
    if (c->waiter.host.blocks)
        c->waiter.host.blocks(c->waiter.host.context);
    do {
        const uint32_t memory = memory_of(c, issue);
        const uint64_t most = memory & (STAGED_IN | STAGED_OUT) ? most_staged : most_at_once;
        piece.count = most < issue->count - piece.first ? most : issue->count - piece.first;
        stage_in(c, issue, memory, &piece);
        say_places(c, issue, memory, issue->scratch_offset);
        enum call_end end = board_round(c, said, true);
        if (end != CALL_DONE)
            return end;
        if (c->waiter.host.committed)
            c->waiter.host.committed(c->waiter.host.context);
        if (anybody_stages(c) && most_staged < piece.count)
            piece.count = most_staged;
        learn_reach(c);
        end = run_piece(c, issue, &piece);
        if (end != CALL_DONE)
            return end;
        stage_out(c, issue, memory, &piece);
        piece.first += piece.count;
    } while (piece.first < issue->count);
    return CALL_DONE;
}

/* ---- failures ---- */

struct failure *failure_hold(struct failure *failure)
{
    if (failure)
        atomic_fetch_add_explicit(&failure->references, 1, memory_order_relaxed);
    return failure;
}

void failure_release(struct failure *failure)
{
    if (failure && atomic_fetch_sub_explicit(&failure->references, 1, memory_order_acq_rel) == 1)
        free(failure);
}

/* Takes down what every rank said; then all ranks, which have all failed alike, tell each other where. */
static void take_statements(struct communicator *c, struct failure *failure)
{
    for (uint32_t rank = 0; rank < c->size; rank++) {
        struct statement *statement = &failure->statements[rank];
        statement->said = board_latest_line(c, rank)->said;
        statement->note[0] = 0;
        if (statement->said.flags & LINE_NOTE)
            memcpy(statement->note, board_latest_note(c, rank)->text, NOTE_NBYTES);
        statement->note[NOTE_NBYTES - 1] = 0;
    }
    bool told = communicator_tell(c, failure->where) != CALL_ABORTED;
    for (uint32_t rank = 0; rank < c->size; rank++) {
        char *where = failure->statements[rank].where;
        where[0] = 0;
        if (told)
            memcpy(where, board_latest_note(c, rank)->text, WHERE_NBYTES);
        where[WHERE_NBYTES - 1] = 0;
    }
}

static enum call_end keep_failure(struct communicator *c, enum call_end how, uint8_t collective, uint32_t number)
{
    failure_release(c->failure);
    uint32_t size = how == CALL_DIFFERS ? c->size : 0;
    struct failure *failure = malloc(sizeof *failure + size * sizeof *failure->statements);
    c->failure = failure;
    if (!failure) {
        if (how == CALL_DIFFERS)
            communicator_tell(c, ""); /* the others do, and wait for this rank's line */
        return how;
    }
    failure->references = 1;
    failure->communicator = c;
    failure->how = how;
    failure->number = number;
    failure->collective = collective;
    failure->abort = load_acquire(&c->board->abort);
    failure->uneven = how == CALL_DIFFERS ? c->uneven : (struct uneven){0};
    failure->size = size;
    failure->where[0] = 0;
    if (c->waiter.host.where)
        c->waiter.host.where(c->waiter.host.context, failure->where, WHERE_NBYTES);
    if (how == CALL_DIFFERS)
        take_statements(c, failure);
    return how;
}

/* ---- a call ---- */

static enum call_end start(struct communicator *c, uint8_t collective, uint32_t number)
{
    c->waiter.call = number;
    c->waiter.collective = collective;
    c->uneven = (struct uneven){0};
    return board_may_start(c);
}

enum call_end communicator_run(struct communicator *c, const struct issue *issue)
{
    enum call_end end = start(c, issue->collective, issue->number);
    if (end == CALL_DONE) {
        struct descriptor said = {.call = issue->number, .collective = issue->collective, .dtype = issue->dtype,
                                  .op = issue->op, .root = issue->root, .fingerprint = issue->choice->fingerprint,
                                  .count = issue->count};
        if (issue->split)
            end = split_run(c, issue, &said);
        else
            end = issue->choice->is_exchange ? exchange_run(c, issue, &said) : run_by_plan(c, issue, &said);
    }
    return end == CALL_DONE ? end : keep_failure(c, end, issue->collective, issue->number);
}

enum call_end communicator_call(struct communicator *c, const struct call *call)
{
    struct issue issue;
    enum call_end end = communicator_issue(c, call, &issue);
    return end == CALL_DONE ? communicator_run(c, &issue) : end;
}

enum call_end communicator_resync(struct communicator *c, uint32_t number)
{
    enum call_end end = start(c, COLLECTIVE_RESYNC, number);
    struct descriptor said = {.call = number, .collective = COLLECTIVE_RESYNC};
    if (end == CALL_DONE)
        end = board_round(c, &said, false);
    if (end != CALL_DONE)
        return keep_failure(c, end, COLLECTIVE_RESYNC, number);
    for (uint32_t rank = 0; rank < c->size; rank++) {
        uint32_t theirs = board_latest_line(c, rank)->said.call;
        if ((int32_t)(theirs - c->call) > 0) /* numbers may wrap */
            c->call = theirs;
    }
    return CALL_DONE;
}

/* ---- rounds that carry only text ---- */

static enum call_end round_with_note(struct communicator *c, struct descriptor *said, const char *text)
{
    struct note *note = board_note(c->board, c->size, c->round % SLOTS, c->rank);
    size_t length = strlen(text);
    length = length < NOTE_NBYTES ? length : NOTE_NBYTES - 1;
    memcpy(note->text, text, length);
    note->text[length] = 0;
    return board_round(c, said, false);
}

enum call_end communicator_refuse(struct communicator *c, uint8_t collective, uint32_t number, const char *why)
{
    enum call_end end = start(c, collective, number);
    struct descriptor said = {.call = number, .collective = collective, .flags = LINE_REFUSED | LINE_NOTE};
    if (end == CALL_DONE)
        end = round_with_note(c, &said, why);
    return keep_failure(c, end, collective, number);
}

enum call_end communicator_tell(struct communicator *c, const char *text)
{
    struct descriptor said = {.collective = COLLECTIVE_TELL, .flags = LINE_NOTE};
    enum call_end end = board_may_start(c);
    return end == CALL_DONE ? round_with_note(c, &said, text) : end;
}
