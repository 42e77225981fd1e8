#define _GNU_SOURCE
#include "link.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "order.h"

static _Atomic uint64_t *free_word(const struct communicator *c, uint32_t from, uint32_t to)
{
    const uint32_t ranks = c->segment.job->ranks;
    return &board_pair(segment_world_board(&c->segment), ranks, c->members[from], c->members[to])->link_free_ns;
}

uint64_t link_book(const struct communicator *c, uint32_t peer, bool outward, uint64_t since_ns, uint64_t nbytes)
{
    const struct link *link = &c->links->by_rank[peer];
    _Atomic uint64_t *free_ns = outward ? free_word(c, c->rank, peer) : free_word(c, peer, c->rank);
    const uint64_t takes_ns = (uint64_t)(link->ns_per_byte * (double)nbytes);
    uint64_t before = load_relaxed(free_ns), after;
    do {
        after = (before > since_ns ? before : since_ns) + takes_ns;
    } while (!swap_if_equal(free_ns, &before, after));
    return after + link->latency_ns;
}

static void book(struct communicator *c, uint32_t peer, bool outward, uint64_t since_ns, uint64_t nbytes)
{
    if (peer == c->rank)
        return;
    uint64_t due_ns = link_book(c, peer, outward, since_ns, nbytes);
    if (due_ns > c->links->due_ns)
        c->links->due_ns = due_ns;
}

void link_book_step(struct communicator *c, const struct step *step, uint64_t since_ns, uint64_t nbytes)
{
    for (int32_t i = 0; i < step->ndst; i++)
        book(c, (uint32_t)step->dst[i].rank, true, since_ns, nbytes);
    for (int32_t i = 0; i < step->nsrc; i++)
        book(c, (uint32_t)step->src[i].rank, false, since_ns, nbytes);
}

void link_book_round(struct communicator *c, uint64_t nbytes)
{
    uint64_t since_ns = c->waiter.host.now_ns(c->waiter.host.context);
    for (uint32_t peer = 0; peer < c->size; peer++)
        book(c, peer, false, since_ns, nbytes);
}

/* As in linux/sched/types.h, whose names clash with those of sched.h. */
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

enum { SHORTEST_SLICE_NS = 100000 };

/* Since Linux 6.12 a thread that is woken takes its core from one with longer time slices at once; else it waits until
 * that one, a kernel of the program, has had a slice of a millisecond and more. */
static void ask_for_short_slices(void)
{
    struct scheduling scheduling = {0};
    if (syscall(SYS_sched_getattr, 0, &scheduling, sizeof scheduling, 0) != 0 || scheduling.policy != SCHED_OTHER ||
        scheduling.runtime == SHORTEST_SLICE_NS)
        return;
    scheduling.runtime = SHORTEST_SLICE_NS;
    syscall(SYS_sched_setattr, 0, &scheduling, 0);
}

void link_wake_at_once(void)
{
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* by default Linux may wake this thread 50 us late */
    ask_for_short_slices();
}

void link_settle(struct communicator *c)
{
    const struct wait_host *host = &c->waiter.host;
    uint64_t now_ns = host->now_ns(host->context);
    if (now_ns >= c->links->due_ns)
        return;
    if (host->blocks)
        host->blocks(host->context);
    link_wake_at_once();
    while (now_ns < c->links->due_ns && !load_acquire(&c->board->abort)) {
        uint64_t left_ns = c->links->due_ns - now_ns, longest_ns = c->waiter.patience.sleep_ns;
        host->sleep(host->context, &c->board->abort, 0, left_ns < longest_ns ? left_ns : longest_ns);
        now_ns = host->now_ns(host->context);
    }
}
