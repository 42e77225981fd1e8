/* How ranks meet.  The rules, each found by exploring every interleaving (tests/core/board_model):
 *
 * 1. A round fails only when all its lines have been read: all ranks take the same decision from the same lines.
 * 2. Leaving a round in any other way ends the communicator for good.
 * 3. A call that touches peers' memory is decided once, commit or abort; the loser obeys.  After a commit nobody
 *    raises before every peer is out of the data phase or dead.
 * 4. A waiter looks first at what it waits for (wait.c).
 * 5. Two numbers: the round picks the slot, the call is compared.
 * 6. A refusal is a line like any other.
 * 7. Only what all ranks of a communicator take part in uses its board.
 * 8. States of ranks have one writer, the server of the job.
 */
#include <string.h>

#include "communicator.h"
#include "order.h"

static uint32_t slot_of(uint32_t round) { return round % SLOTS; }


struct line *board_begin(struct communicator *c) { return board_line(c->board, c->size, slot_of(c->round), c->rank); }

unsigned char *board_payload(const struct communicator *c, uint32_t round, uint32_t rank, uint64_t nbytes)
{
    return nbytes <= PAYLOAD_NBYTES ? board_line(c->board, c->size, slot_of(round), rank)->payload
                                    : board_packet(c->board, c->size, slot_of(round), rank)->payload;
}

struct line *board_latest_line(const struct communicator *c, uint32_t rank)
{
    return board_line(c->board, c->size, slot_of(c->round - 1), rank);
}

struct note *board_latest_note(const struct communicator *c, uint32_t rank)
{
    return board_note(c->board, c->size, slot_of(c->round - 1), rank);
}

/* ---- giving up ---- */

uint32_t board_cause(const struct communicator *c, enum abort_kind kind, uint32_t culprit)
{
    return (uint32_t)kind << ABORT_KIND_SHIFT | (c->members[culprit] + 1) << ABORT_RANK_SHIFT | (c->members[c->rank] + 1);
}

uint32_t board_cause_of(const struct communicator *c, enum wait_end end, uint32_t peer)
{
    if (end == WAIT_INTERRUPTED)
        return board_cause(c, ABORT_INTERRUPT, c->rank);
    if (end == WAIT_TIMEOUT)
        return board_cause(c, ABORT_TIMEOUT, peer);
    if (end == WAIT_UNREACHED)
        return board_cause(c, ABORT_UNREACHED, peer);
    switch (load_acquire(&c->waiter.ranks[c->members[peer]].state)) {
    case RANK_DEAD: return board_cause(c, ABORT_DEATH, peer);
    case RANK_LEFT: return board_cause(c, ABORT_LEFT, peer);
    default: return board_cause(c, ABORT_DESTROYED, peer);
    }
}

uint32_t board_abort(struct communicator *c, uint32_t cause)
{
    uint32_t first = 0;
    if (!swap_if_equal(&c->board->abort, &first, cause))
        cause = first;
    store_relaxed(&c->waiter.own->failure, cause);
    return cause;
}

static enum call_end abort_with(struct communicator *c, uint32_t cause)
{
    store_relaxed(&c->waiter.own->wait_call, c->waiter.call);
    store_relaxed(&c->waiter.own->wait_collective, c->waiter.collective);
    board_abort(c, cause);
    c->ended = true;
    return CALL_ABORTED;
}

/* Whether this rank may start a call.  A raised abort word says that others have given up, and then no round is
 * completed any more; but a death is found out by waiting: the others may still complete this round, and then they need
 * this rank's line. */
enum call_end board_may_start(struct communicator *c)
{
    uint32_t cause = load_acquire(&c->board->abort);
    if (!c->ended && (!cause || cause >> ABORT_KIND_SHIFT == ABORT_DEATH))
        return CALL_DONE;
    return abort_with(c, cause);
}

/* Shared memory holds what no rank of this library writes. */
void board_overrun(struct communicator *c) { abort_with(c, board_cause(c, ABORT_OVERRUN, c->rank)); }

/* Moves this phase's decision from open to `verdict`; returns the verdict that holds. */
static uint32_t decide(struct communicator *c, uint32_t verdict)
{
    uint64_t next = (uint64_t)(c->phase + 1) << 32;
    uint64_t now = load_acquire(&c->board->decision);
    while (now >> 32 != next >> 32)
        if (swap_if_equal(&c->board->decision, &now, next | verdict))
            return verdict;
    return (uint32_t)now;
}

/* A wait for a line ended without it.  True if the call goes on all the same, because somebody has committed it. */
static bool obeys_a_commit(struct communicator *c, enum wait_end end, uint32_t peer, bool commits, enum call_end *result)
{
    uint32_t cause = end == WAIT_ABORTED ? load_acquire(&c->board->abort) : board_cause_of(c, end, peer);
    if (commits && decide(c, cause) == VERDICT_COMMIT)
        return true;
    *result = abort_with(c, cause);
    return false;
}

/* ---- a round ---- */

/* The communicator ended by a death, but the dead rank's line of this round is there.  Then it is there for everybody,
 * and in a round that carries only payload this is no reason to give up: a peer that is late for its look at the abort
 * word completes the round, and all survivors must agree about it.  (Rounds that commit agree by their decision.) */
static bool died_after_its_line(const struct communicator *c)
{
    uint32_t word = load_acquire(&c->board->abort);
    uint32_t culprit = (word >> ABORT_RANK_SHIFT & ABORT_RANK_MASK) - 1;
    for (uint32_t rank = 0; rank < c->size; rank++)
        if (c->members[rank] == culprit)
            return word >> ABORT_KIND_SHIFT == ABORT_DEATH &&
                   notify_reached(&board_line(c->board, c->size, slot_of(c->round), rank)->round, c->round);
    return false;
}

/* A resync is there because the numbers differ. */
static bool agree(const struct descriptor *mine, const struct descriptor *theirs)
{
    return !memcmp(mine, theirs, sizeof *mine) ||
           (mine->collective == COLLECTIVE_RESYNC && theirs->collective == COLLECTIVE_RESYNC);
}

static bool contradicts(const struct descriptor *mine, const struct descriptor *theirs)
{
    return !agree(mine, theirs) || theirs->flags & LINE_REFUSED;
}

bool board_differs_so_far(const struct communicator *c)
{
    const struct line *mine = board_line(c->board, c->size, slot_of(c->round), c->rank);
    if (!notify_reached(&mine->round, c->round))
        return false;
    for (uint32_t rank = 0; rank < c->size; rank++) {
        const struct line *line = board_line(c->board, c->size, slot_of(c->round), rank);
        if (notify_reached(&line->round, c->round) && contradicts(&mine->said, &line->said))
            return true;
    }
    return false;
}

static enum call_end read_lines(struct communicator *c, const struct descriptor *said, bool commits)
{
    enum heed heed = HEED_ALL;
    bool differs = said->flags & LINE_REFUSED;
    for (uint32_t i = 1; i < c->size; i++) {
        uint32_t peer = (c->rank + i) % c->size;
        struct line *line = board_line(c->board, c->size, slot_of(c->round), peer);
        enum wait_end end;
        enum call_end result;
        while ((end = waiter_wait(&c->waiter, &line->round, c->round, peer, heed)) != WAIT_ARRIVED)
            if (end == WAIT_ABORTED && !commits && died_after_its_line(c))
                heed = HEED_TIME; /* the abort word keeps its first cause: nothing new is missed */
            else if (!obeys_a_commit(c, end, peer, commits, &result))
                return result;
        if (notify_number(&line->round) != (c->round & (UINT32_MAX >> NOTIFY_SHIFT)))
            return abort_with(c, board_cause(c, ABORT_OVERRUN, peer));
        if (contradicts(said, &line->said))
            differs = true;
    }
    return differs ? CALL_DIFFERS : CALL_DONE;
}

enum call_end board_meet(struct communicator *c, const struct descriptor *said, bool commits)
{
    struct line *mine = board_begin(c);
    mine->said = *said;
    notify_post(&c->waiter.host, &mine->round, c->round);
    enum call_end end = read_lines(c, said, commits);
    if (end == CALL_ABORTED)
        return end;
    c->round++;
    return end;
}

enum call_end board_commit(struct communicator *c)
{
    uint32_t verdict = decide(c, VERDICT_COMMIT);
    if (verdict != VERDICT_COMMIT)
        return abort_with(c, verdict);
    c->phase++;
    return CALL_DONE;
}

enum call_end board_round(struct communicator *c, const struct descriptor *said, bool commits)
{
    enum call_end end = board_meet(c, said, commits);
    return end == CALL_DONE && commits ? board_commit(c) : end;
}

/* ---- the way out of the data phase ---- */

/* This communicator has ended: waits until every peer is out of the data phase or gone (death is a safe fence, time is
 * not) and only then returns.  The call is done if everybody's part of it is. */
static enum call_end quiesce(struct communicator *c)
{
    bool complete = !board_left(c->board, c->size, c->rank)->cut_short;
    for (uint32_t i = 1; i < c->size; i++) {
        uint32_t peer = (c->rank + i) % c->size;
        struct left *left = board_left(c->board, c->size, peer);
        c->quiescing = c->members[peer] + 1;
        while (waiter_wait(&c->waiter, &left->phase, c->phase, peer, HEED_NOTHING) == WAIT_INTERRUPTED)
            ;
        complete = complete && notify_reached(&left->phase, c->phase) && !left->cut_short;
    }
    c->quiescing = 0;
    if (!complete)
        return CALL_ABORTED;
    store_relaxed(&c->waiter.own->failure, 0);
    return CALL_DONE;
}

static void abort_after(struct communicator *c, enum wait_end end, uint32_t peer)
{
    abort_with(c, end == WAIT_ABORTED ? load_acquire(&c->board->abort) : board_cause_of(c, end, peer));
}

/* `end` says how the steps ended here: WAIT_ARRIVED, or why a wait for `peer` failed.  The abort word is raised before
 * a left that was cut short is posted: who reads the one finds the other. */
enum call_end board_leave(struct communicator *c, enum wait_end end, uint32_t peer)
{
    struct left *mine = board_left(c->board, c->size, c->rank);
    mine->cut_short = end != WAIT_ARRIVED;
    if (mine->cut_short)
        abort_after(c, end, peer);
    notify_post(&c->waiter.host, &mine->phase, c->phase);
    if (mine->cut_short)
        return quiesce(c);
    for (uint32_t i = 1; i < c->size; i++) {
        peer = (c->rank + i) % c->size;
        struct left *left = board_left(c->board, c->size, peer);
        end = waiter_wait(&c->waiter, &left->phase, c->phase, peer, HEED_ALL);
        if (end == WAIT_ARRIVED && left->cut_short)
            end = WAIT_ABORTED;
        if (end != WAIT_ARRIVED) {
            abort_after(c, end, peer);
            return quiesce(c);
        }
    }
    return CALL_DONE;
}
