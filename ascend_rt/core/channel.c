/* One item of a transfer: the two ends of a channel, each as a machine that never waits.
 *
 *     sender                                   receiver
 *     offer r: what I send, where it lies  ->
 *     (fill pieces, as they are drained)   <-> read the elements
 *                                          <-  settle r: TAKEN
 *
 * If the ends do not agree, or one refuses, nothing is read and both fail with the same story.  Which line of the
 * program made the call costs more to find out than the message, so a sender tells it only when it is asked to:
 *
 *     offer r                              ->
 *                                          <-  settle r: DIFFERS, with what the receiver said and where
 *     offer r + 1: where                   ->
 *                                          <-  settle r + 1: TAKEN
 *
 * A sender that gives up (timeout, death, interrupt: the abort word is raised first) settles its offer as WITHDRAWN.  The
 * receiver may still be reading the elements, which harms nobody; it finds the withdrawal when it settles, and fails.  So
 * the two always agree, neither stores to the other's memory, and no rank has to wait for one that is stopped. */
#include <stdio.h>
#include <stdlib.h>

#include "link.h"
#include "order.h"
#include "transfer.h"

static uint64_t tag(uint32_t round, uint32_t number) { return (uint64_t)round << 32 | number; }

/* The number that stands behind a round, 0 if the word is of an earlier one. */
static uint32_t number_in(_Atomic uint64_t *word, uint32_t round)
{
    uint64_t now = load_acquire(word);
    return now >> 32 == round ? (uint32_t)now : 0;
}

/* Returns the settlement that holds. */
static enum settlement settle(struct answer *answer, uint32_t round, enum settlement settlement)
{
    uint64_t now = load_acquire(&answer->settled);
    while (now >> 32 != round)
        if (swap_if_equal(&answer->settled, &now, tag(round, settlement)))
            return settlement;
    return (enum settlement)(uint32_t)now;
}

static struct channel *channel_of(const struct transfer *t, const struct item *item)
{
    const struct communicator *c = t->communicator;
    return item->side == SIDE_SEND ? board_channel(c->board, c->size, c->rank, item->peer)
                                   : board_channel(c->board, c->size, item->peer, c->rank);
}

static struct channel_note *note_of(const struct transfer *t, const struct item *item, enum side side)
{
    const struct communicator *c = t->communicator;
    return item->side == SIDE_SEND ? board_channel_note(c->board, c->size, c->rank, item->peer, side)
                                   : board_channel_note(c->board, c->size, item->peer, c->rank, side);
}

static struct channel_end *end_of(const struct transfer *t, const struct item *item)
{
    return &t->communicator->ends[item->side][item->peer];
}

static void ring(const struct transfer *t, uint32_t rank)
{
    notify_ring(t->host, &board_bell(t->communicator->board, t->communicator->size, rank)->rung);
}

static void finish(struct transfer *t, struct item *item, enum call_end end)
{
    item->state = ITEM_OVER;
    item->end = end;
    t->nover++;
    store_release(&end_of(t, item)->served, item->ticket + 1);
    ring(t, t->communicator->rank); /* another thread may wait for this turn */
}

/* ---- disagreements ---- */

static struct descriptor descriptor_of(const struct transfer *t, const struct item *item)
{
    return (struct descriptor){.call = item->ticket + 1, .collective = item->side == SIDE_SEND ? SEND : RECEIVE,
                               .dtype = item->dtype, .flags = t->refused ? LINE_REFUSED | LINE_NOTE : 0, .root = item->peer,
                               .count = item->count};
}

static void copy_text(char *to, const char *from, size_t nbytes)
{
    snprintf(to, nbytes, "%.*s", (int)nbytes - 1, from);
}

static void write_note(struct transfer *t, struct item *item)
{
    struct channel_note *note = note_of(t, item, item->side);
    copy_text(note->where, transfer_where(t), sizeof note->where);
    copy_text(note->why, t->why, sizeof note->why);
}

static void read_note(struct transfer *t, struct item *item, bool refused)
{
    const enum side theirs = item->side == SIDE_SEND ? SIDE_RECEIVE : SIDE_SEND;
    const struct channel_note *note = note_of(t, item, theirs);
    if (!item->failure)
        return;
    copy_text(item->failure->statements[theirs].where, note->where, WHERE_NBYTES);
    copy_text(item->failure->statements[theirs].note, refused ? note->why : "", sizeof note->why);
}

/* What both ends said: the sender's statement first, whose root is the receiver; then the receiver's. */
static void take_down(struct transfer *t, struct item *item, const struct descriptor *theirs)
{
    struct failure *failure = calloc(1, sizeof *failure + SIDES * sizeof *failure->statements);
    item->failure = failure;
    if (!failure)
        return;
    failure->references = 1;
    failure->communicator = t->communicator;
    failure->how = CALL_DIFFERS;
    failure->number = item->ticket + 1;
    failure->collective = item->side == SIDE_SEND ? SEND : RECEIVE;
    failure->size = SIDES;
    struct statement *mine = &failure->statements[item->side];
    mine->said = descriptor_of(t, item);
    copy_text(failure->where, transfer_where(t), WHERE_NBYTES);
    copy_text(mine->where, transfer_where(t), WHERE_NBYTES);
    copy_text(mine->note, t->why, sizeof t->why);
    failure->statements[item->side == SIDE_SEND ? SIDE_RECEIVE : SIDE_SEND].said = *theirs;
}

/* ---- the sender ---- */

static uint32_t pieces_of(uint64_t count, uint64_t piece_count)
{
    return piece_count ? (uint32_t)((count + piece_count - 1) / piece_count) : 0;
}

static uint64_t elements_of_piece(uint64_t count, uint64_t piece_count, uint32_t piece)
{
    uint64_t left = count - piece * piece_count;
    return left < piece_count ? left : piece_count;
}

static uint64_t piece_offset(uint64_t offset, uint64_t piece_count, size_t item_nbytes, uint32_t piece)
{
    return offset + piece % PIECES * piece_count * item_nbytes;
}

static bool fill_pieces(struct transfer *t, struct item *item, struct channel *channel)
{
    const uint32_t all = pieces_of(item->count, item->piece_count), before = item->pieces;
    while (item->pieces < all && item->pieces - number_in(&channel->answer.drained, item->round) < PIECES) {
        uint64_t offset = piece_offset(item->offset, item->piece_count, item->view.item_nbytes, item->pieces);
        view_read(&item->view, item->pieces * item->piece_count,
                  elements_of_piece(item->count, item->piece_count, item->pieces), t->communicator->segment.base + offset);
        item->pieces++;
        store_release(&channel->offer.filled, tag(item->round, item->pieces));
    }
    return item->pieces != before;
}

static void make_offer(struct transfer *t, struct item *item, const struct descriptor *said)
{
    struct channel *channel = channel_of(t, item);
    item->round = ++end_of(t, item)->round;
    channel->offer.said = *said;
    channel->offer.offset = item->offset;
    channel->offer.piece_count = item->piece_count;
    if (said->flags & LINE_NOTE)
        write_note(t, item);
    else
        fill_pieces(t, item, channel);
    store_release(&channel->offer.round, item->round);
    ring(t, item->peer);
}

static bool sender_goes_on(struct transfer *t, struct item *item)
{
    struct channel *channel = channel_of(t, item);
    uint32_t settlement = number_in(&channel->answer.settled, item->round);
    if (settlement == SETTLED_OPEN) {
        if (!fill_pieces(t, item, channel))
            return false;
        ring(t, item->peer);
        return true;
    }
    if (settlement == SETTLED_TAKEN) {
        finish(t, item, CALL_DONE);
        return true;
    }
    take_down(t, item, &channel->answer.said);
    read_note(t, item, channel->answer.said.flags & LINE_REFUSED);
    if (t->refused) { /* then the receiver knows already where */
        finish(t, item, CALL_DIFFERS);
        return true;
    }
    struct descriptor said = {.call = item->ticket + 1, .collective = COLLECTIVE_TELL, .flags = LINE_NOTE};
    item->state = ITEM_TELLING;
    make_offer(t, item, &said);
    return true;
}

static bool sender_has_told(struct transfer *t, struct item *item)
{
    bool settled = number_in(&channel_of(t, item)->answer.settled, item->round) != SETTLED_OPEN;
    if (settled)
        finish(t, item, CALL_DIFFERS);
    return settled;
}

/* ---- the receiver ---- */

static void receiver_ends(struct transfer *t, struct item *item, enum call_end end)
{
    if (end == CALL_ABORTED) {
        failure_release(item->failure);
        item->failure = NULL;
        t->given_up = true;
    }
    finish(t, item, end);
    ring(t, item->peer);
}

/* The sender has given up in the meantime, or the offer leads out of the segment. */
static bool receiver_fails(struct transfer *t, struct item *item, enum abort_kind kind)
{
    struct communicator *c = t->communicator;
    board_abort(c, kind == ABORT_NONE ? load_acquire(&c->board->abort) : board_cause(c, kind, item->peer));
    receiver_ends(t, item, CALL_ABORTED);
    return true;
}

/* Reads elements of an offer, on an emulated link if there is one. */
static void read_elements(struct transfer *t, struct item *item, uint64_t first, uint64_t count, uint64_t offset)
{
    const struct communicator *c = t->communicator;
    uint64_t since_ns = c->links ? t->host->now_ns(t->host->context) : 0;
    view_store(&item->view, first, count, c->segment.base + offset);
    if (c->links)
        item->due_ns = link_book(c, item->peer, false, since_ns, count * item->view.item_nbytes);
}

static bool takes(struct transfer *t, struct item *item, struct channel *channel)
{
    item->state = ITEM_ARRIVING;
    if (item->due_ns && t->host->now_ns(t->host->context) < item->due_ns)
        return false;
    if (settle(&channel->answer, item->round, SETTLED_TAKEN) != SETTLED_TAKEN)
        return receiver_fails(t, item, ABORT_NONE);
    receiver_ends(t, item, CALL_DONE);
    return true;
}

/* Nothing is read: this rank's side of the story, and then the sender's, if it has not told it yet. */
static bool disagrees(struct transfer *t, struct item *item, struct channel *channel)
{
    const struct descriptor theirs = channel->offer.said;
    take_down(t, item, &theirs);
    if (theirs.flags & LINE_NOTE)
        read_note(t, item, true);
    channel->answer.said = descriptor_of(t, item);
    write_note(t, item);
    if (settle(&channel->answer, item->round, SETTLED_DIFFERS) != SETTLED_DIFFERS)
        return receiver_fails(t, item, ABORT_NONE);
    if (theirs.flags & LINE_NOTE) {
        receiver_ends(t, item, CALL_DIFFERS);
        return true;
    }
    item->state = ITEM_LISTENING;
    item->round = ++end_of(t, item)->round;
    ring(t, item->peer);
    return true;
}

static bool lies_in_segment(const struct transfer *t, const struct item *item, const struct offer *offer)
{
    uint64_t elements = offer->piece_count ? PIECES * offer->piece_count : item->count;
    uint64_t all = t->communicator->segment.job->nbytes;
    return offer->piece_count <= all && offer->offset <= all && elements <= (all - offer->offset) / item->view.item_nbytes;
}

static bool receiver_meets_offer(struct transfer *t, struct item *item)
{
    struct channel *channel = channel_of(t, item);
    if (load_acquire(&channel->offer.round) != item->round)
        return false;
    const struct descriptor *theirs = &channel->offer.said;
    if (t->refused || theirs->flags & LINE_REFUSED || theirs->count != item->count || theirs->dtype != item->dtype)
        return disagrees(t, item, channel);
    if (!lies_in_segment(t, item, &channel->offer))
        return receiver_fails(t, item, ABORT_OVERRUN);
    if (channel->offer.piece_count) {
        item->state = ITEM_DRAINING;
        return true;
    }
    read_elements(t, item, 0, item->count, channel->offer.offset);
    return takes(t, item, channel);
}

static bool receiver_drains(struct transfer *t, struct item *item)
{
    struct channel *channel = channel_of(t, item);
    const uint64_t piece_count = channel->offer.piece_count;
    const uint32_t all = pieces_of(item->count, piece_count), filled = number_in(&channel->offer.filled, item->round);
    if (item->pieces == filled)
        return false;
    if (filled > all)
        return receiver_fails(t, item, ABORT_OVERRUN);
    for (; item->pieces < filled; item->pieces++) {
        uint64_t offset = piece_offset(channel->offer.offset, piece_count, item->view.item_nbytes, item->pieces);
        read_elements(t, item, item->pieces * piece_count, elements_of_piece(item->count, piece_count, item->pieces), offset);
    }
    store_release(&channel->answer.drained, tag(item->round, item->pieces));
    if (item->pieces == all)
        return takes(t, item, channel);
    ring(t, item->peer);
    return true;
}

static bool receiver_listens(struct transfer *t, struct item *item)
{
    struct channel *channel = channel_of(t, item);
    if (load_acquire(&channel->offer.round) != item->round)
        return false;
    read_note(t, item, false);
    settle(&channel->answer, item->round, SETTLED_TAKEN);
    receiver_ends(t, item, CALL_DIFFERS);
    return true;
}

/* ---- both ---- */

static bool begins(struct transfer *t, struct item *item)
{
    if (load_acquire(&end_of(t, item)->served) != item->ticket)
        return false;
    if (t->given_up) {
        finish(t, item, CALL_ABORTED);
        return true;
    }
    if (item->side == SIDE_RECEIVE) {
        item->state = ITEM_AWAITING;
        item->round = ++end_of(t, item)->round;
        return true;
    }
    struct descriptor said = descriptor_of(t, item);
    item->state = ITEM_OFFERED;
    make_offer(t, item, &said);
    return true;
}

bool item_advance(struct transfer *t, struct item *item)
{
    switch (item->state) {
    case ITEM_QUEUED: return begins(t, item);
    case ITEM_OFFERED: return sender_goes_on(t, item);
    case ITEM_TELLING: return sender_has_told(t, item);
    case ITEM_AWAITING: return receiver_meets_offer(t, item);
    case ITEM_DRAINING: return receiver_drains(t, item);
    case ITEM_ARRIVING: return takes(t, item, channel_of(t, item));
    case ITEM_LISTENING: return receiver_listens(t, item);
    case ITEM_OVER: break;
    }
    return false;
}

void item_abandon(struct transfer *t, struct item *item)
{
    switch (item->state) {
    case ITEM_OFFERED: {
        enum settlement settlement = settle(&channel_of(t, item)->answer, item->round, SETTLED_WITHDRAWN);
        finish(t, item, settlement == SETTLED_TAKEN ? CALL_DONE : CALL_ABORTED);
        break;
    }
    case ITEM_TELLING:
    case ITEM_LISTENING: /* nothing was moved, and why is known but for the peer's line */
        finish(t, item, CALL_DIFFERS);
        break;
    case ITEM_AWAITING:
    case ITEM_DRAINING:
    case ITEM_ARRIVING:
        finish(t, item, CALL_ABORTED);
        break;
    case ITEM_QUEUED:
    case ITEM_OVER:
        break;
    }
}
