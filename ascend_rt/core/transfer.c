/* Running a transfer: all its items at once, and one wait for all of them. */
#include "transfer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link.h"
#include "order.h"

enum { LARGE_NBYTES = 1 << 16 };

struct transfer *transfer_new(struct communicator *c, uint8_t collective, uint32_t nitems)
{
    struct transfer *t = calloc(1, sizeof *t + nitems * sizeof *t->items);
    if (!t)
        return NULL;
    t->communicator = c;
    t->collective = collective;
    t->nitems = nitems;
    return t;
}

struct transfer *transfer_copy(const struct transfer *from)
{
    struct transfer *t = transfer_new(from->communicator, from->collective, from->nitems);
    if (t)
        t->large = from->large;
    for (uint32_t i = 0; t && i < t->nitems; i++) {
        t->items[i] = from->items[i];
        if (t->items[i].view.ndim)
            t->items[i].view.dimensions = &t->items[i].dimensions;
    }
    return t;
}

void transfer_free(struct transfer *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; i < t->nitems; i++)
        failure_release(t->items[i].failure);
    free(t);
}

const char *transfer_where(struct transfer *t)
{
    if (!t->where[0] && t->host->where)
        t->host->where(t->host->context, t->where, WHERE_NBYTES);
    return t->where;
}

struct patience transfer_patience(const struct communicator *c)
{
    const struct patience *of = &c->waiter.patience;
    return (struct patience){.spins = of->spins, .yields = of->yields, .brief_yields = of->brief_yields, .sleep_ns = of->sleep_ns};
}

void transfer_refuse(struct transfer *t, const char *why)
{
    t->refused = true;
    snprintf(t->why, sizeof t->why, "%s", why);
}

/* ---- issuing ---- */

/* What is sent is read by the receiver: from where it lies in device memory, else from pieces there.  What is received
 * only this rank touches. */
static bool place(const struct communicator *c, struct item *item)
{
    const struct channel_end *end = &c->ends[SIDE_SEND][item->peer];
    uint64_t nbytes = item->count * item->view.item_nbytes;
    item->offset = item->piece_count = 0;
    if (item->side == SIDE_RECEIVE || nbytes == 0)
        return true;
    if (item->view.ndim == 0 && arena_find(c->arena, item->view.base, nbytes, &item->offset))
        return true;
    item->offset = end->staging_offset;
    item->piece_count = end->staging_nbytes / PIECES / item->view.item_nbytes;
    return item->piece_count > 0;
}

bool transfer_prepare(struct transfer *t)
{
    for (uint32_t i = 0; i < t->nitems && !t->refused; i++) {
        struct item *item = &t->items[i];
        t->culprit = item->peer;
        if (!place(t->communicator, item))
            return false;
        t->large = t->large || item->count * item->view.item_nbytes > LARGE_NBYTES;
    }
    return true;
}

void transfer_issue(struct transfer *t)
{
    struct communicator *c = t->communicator;
    for (uint32_t i = 0; i < t->nitems; i++)
        t->items[i].ticket = c->ends[t->items[i].side][t->items[i].peer].tickets++;
}

/* ---- waiting ---- */

static bool is_under_way(const struct item *item) { return item->state != ITEM_QUEUED && item->state != ITEM_OVER; }

static void report_call(struct transfer *t, const struct item *item)
{
    struct rank_line *own = t->communicator->waiter.own;
    store_relaxed(&own->wait_call, item->ticket + 1);
    store_relaxed(&own->wait_collective, t->collective);
}

static void report_wait(struct transfer *t, const struct item *item, uint64_t since_ns)
{
    struct rank_line *own = t->communicator->waiter.own;
    report_call(t, item);
    store_relaxed(&own->wait_since_ns, since_ns);
    store_relaxed(&own->waits_for, t->communicator->members[item->peer] + 1);
    t->reported = true;
}

static enum wait_end look_around(void *context, uint64_t since_ns, uint64_t waited_ns)
{
    struct transfer *t = context;
    const struct waiter *waiter = &t->communicator->waiter;
    const struct item *first = NULL;
    (void)since_ns, (void)waited_ns; /* other transfers ring the bell, too: it counts from the last that moved here */
    if (t->given_up)
        return WAIT_ARRIVED;
    if (load_acquire(waiter->abort))
        return WAIT_ABORTED;
    for (uint32_t i = 0; i < t->nitems; i++) {
        const struct item *item = &t->items[i];
        if (!is_under_way(item))
            continue;
        first = first ? first : item;
        t->culprit = item->peer;
        if (waiter_peer_is_gone(waiter, item->peer))
            return WAIT_PEER_GONE;
    }
    if (!first)
        return WAIT_ARRIVED; /* it waits for its turn: who has it looks around */
    uint64_t now = t->host->now_ns(t->host->context);
    t->idle_ns = t->looked_ns ? t->idle_ns + sleep_counts_ns(t->looked_ns, now, t->patience->sleep_ns) : 0;
    t->looked_ns = now;
    t->culprit = first->peer;
    if (!t->reported)
        report_wait(t, first, now);
    if (now >= t->arrival_ns)
        return WAIT_TIMEOUT;
    return waiter->timeout_ns && t->idle_ns >= waiter->timeout_ns ? WAIT_TIMEOUT : WAIT_ARRIVED;
}

static bool advance_all(struct transfer *t)
{
    bool moved = false;
    for (uint32_t i = 0; i < t->nitems; i++) {
        while (item_advance(t, &t->items[i]))
            moved = true;
        if (t->given_up)
            item_abandon(t, &t->items[i]);
    }
    if (moved)
        t->looked_ns = 0;
    return moved;
}

/* The abort word is raised before an offer is withdrawn: who finds the one finds the other. */
static void give_up(struct transfer *t, enum wait_end end)
{
    struct communicator *c = t->communicator;
    for (uint32_t i = 0; i < t->nitems; i++)
        if (t->items[i].state != ITEM_OVER) {
            report_call(t, &t->items[i]);
            break;
        }
    board_abort(c, end == WAIT_ABORTED ? load_acquire(&c->board->abort) : board_cause_of(c, end, t->culprit));
    t->given_up = true;
}

/* When the first of what is on emulated links will have arrived; UINT64_MAX if nothing is. */
static uint64_t next_arrival_ns(const struct transfer *t)
{
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < t->nitems; i++)
        if (t->items[i].state == ITEM_ARRIVING && t->items[i].due_ns < next)
            next = t->items[i].due_ns;
    return next;
}

/* As `notify_wait`, but no longer than until something arrives; then it ends as if there was no more time. */
static enum wait_end wait_for_bell(struct transfer *t, struct notify *bell, uint32_t number)
{
    t->arrival_ns = next_arrival_ns(t);
    if (t->arrival_ns == UINT64_MAX)
        return notify_wait(t->host, t->patience, bell, number, look_around, t);
    uint64_t now_ns = t->host->now_ns(t->host->context);
    uint64_t left_ns = t->arrival_ns > now_ns ? t->arrival_ns - now_ns : 0;
    link_wake_at_once();
    struct patience until = {.sleep_ns = left_ns < t->patience->sleep_ns ? left_ns : t->patience->sleep_ns};
    enum wait_end end = notify_wait(t->host, &until, bell, number, look_around, t);
    t->patience->late_sleeps += until.late_sleeps;
    return end;
}

static void run_items(struct transfer *t)
{
    struct notify *bell = &board_bell(t->communicator->board, t->communicator->size, t->communicator->rank)->rung;
    for (;;) {
        uint32_t rung = notify_number(bell); /* before the look at all that is waited for */
        bool moved = advance_all(t);
        if (t->nover == t->nitems)
            break;
        if (moved)
            continue;
        enum wait_end end = wait_for_bell(t, bell, rung + 1);
        if (end != WAIT_ARRIVED && !t->given_up && !advance_all(t))
            give_up(t, end);
    }
    if (t->reported)
        store_relaxed(&t->communicator->waiter.own->waits_for, 0);
}

/* ---- a transfer ---- */

static struct failure *failure_of_abort(struct transfer *t, const struct item *item)
{
    struct failure *failure = calloc(1, sizeof *failure);
    if (!failure)
        return NULL;
    failure->references = 1;
    failure->communicator = t->communicator;
    failure->how = CALL_ABORTED;
    failure->number = item->ticket + 1;
    failure->collective = t->collective;
    failure->abort = load_acquire(&t->communicator->board->abort);
    memcpy(failure->where, transfer_where(t), WHERE_NBYTES);
    return failure;
}

enum call_end transfer_run(struct transfer *t, const struct wait_host *host, struct patience *patience, struct failure **failure)
{
    struct communicator *c = t->communicator;
    t->host = host;
    t->patience = patience;
    if (t->large && host->blocks)
        host->blocks(host->context);
    if (load_acquire(&c->board->abort))
        give_up(t, WAIT_ABORTED);
    run_items(t);
    for (uint32_t i = 0; i < t->nitems; i++) {
        struct item *item = &t->items[i];
        if (item->end == CALL_DONE)
            continue;
        *failure = item->end == CALL_DIFFERS ? failure_hold(item->failure) : failure_of_abort(t, item);
        return item->end;
    }
    if (t->given_up)
        store_relaxed(&c->waiter.own->failure, 0); /* all had been settled */
    *failure = NULL;
    return CALL_DONE;
}

bool transfers_are_over(const struct communicator *c)
{
    for (int side = 0; side < SIDES; side++)
        for (uint32_t peer = 0; peer < c->size; peer++)
            if (load_acquire(&c->ends[side][peer].served) != c->ends[side][peer].tickets)
                return false;
    return true;
}

void transfer_drop(struct transfer *t, const struct wait_host *host, struct patience *patience)
{
    t->host = host;
    t->patience = patience;
    t->given_up = true;
    run_items(t);
}
