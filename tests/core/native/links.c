/* Emulated links, by a clock that only sleeping moves: what is booked when, and for how long is slept. */
#include "link.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "expect.h"
#include "order.h"

enum { RANKS = 3, LATENCY = 7, SLEEP = 1000 };

struct clock {
    uint64_t now_ns, sleeps, longest_ns, raise_at_ns;
    struct board *board;
};

static uint64_t now(void *context) { return ((struct clock *)context)->now_ns; }

static bool sleep_until(void *context, _Atomic uint32_t *word, uint32_t expected, uint64_t nanoseconds)
{
    struct clock *clock = context;
    EXPECT(word == &clock->board->abort && expected == 0);
    clock->now_ns += nanoseconds;
    clock->sleeps++;
    clock->longest_ns = nanoseconds > clock->longest_ns ? nanoseconds : clock->longest_ns;
    if (clock->raise_at_ns && clock->now_ns >= clock->raise_at_ns)
        board_raise_abort(clock->board, ABORT_DEATH, 1, 0);
    return true;
}

/* Rank 0 has links of 2 ns a byte to rank 1 and of 5 to rank 2. */
static void open_links(struct communicator *c, const struct segment *segment, struct clock *clock, uint32_t rank)
{
    static const uint32_t members[RANKS] = {2, 0, 1};
    EXPECT_EQUAL(communicator_open(c, segment, NULL, NULL, members, RANKS, rank), 0);
    c->waiter.host = (struct wait_host){.context = clock, .now_ns = now, .sleep = sleep_until};
    c->waiter.patience.sleep_ns = SLEEP;
    c->links = calloc(1, sizeof *c->links + RANKS * sizeof *c->links->by_rank);
    EXPECT(c->links != NULL);
    c->links->by_rank[1] = c->links->by_rank[0] = (struct link){2, LATENCY};
    c->links->by_rank[2] = (struct link){5, LATENCY};
}

static void test_a_link_carries_one_transfer_after_another(const struct communicator *c, const struct communicator *peer)
{
    EXPECT_EQUAL(link_book(c, 1, false, 100, 10), 100 + 20 + LATENCY);
    EXPECT_EQUAL(link_book(c, 1, false, 100, 10), 100 + 40 + LATENCY);   /* behind the first */
    EXPECT_EQUAL(link_book(c, 1, true, 100, 10), 100 + 20 + LATENCY);    /* the other direction */
    EXPECT_EQUAL(link_book(c, 2, false, 100, 10), 100 + 50 + LATENCY);   /* another link */
    EXPECT_EQUAL(link_book(peer, 0, true, 110, 5), 140 + 10 + LATENCY);  /* the peer writes on the first */
    EXPECT_EQUAL(link_book(c, 1, false, 1000, 10), 1000 + 20 + LATENCY); /* it has been idle since */
}

static void test_a_step_is_on_all_links_at_once(struct communicator *c, struct clock *clock)
{
    const struct place places[] = {{0, BUFFER_OUT, 0}, {1, BUFFER_OUT, 0}, {1, BUFFER_IN, 0}, {2, BUFFER_IN, 0}};
    const struct step step = {.kind = STEP_REDUCE, .n = 1, .ndst = 2, .nsrc = 2, .dst = places, .src = places + 2};
    clock->now_ns = 2000;
    link_book_step(c, &step, 2000, 1000);
    EXPECT_EQUAL(c->links->due_ns, 2000 + 5000 + LATENCY); /* of the slowest; nothing for what is this rank's own */
    link_settle(c);
    EXPECT_EQUAL(clock->now_ns, 2000 + 5000 + LATENCY);
    EXPECT_EQUAL(clock->sleeps, 6);
    EXPECT_EQUAL(clock->longest_ns, SLEEP);
    link_settle(c); /* all has arrived */
    EXPECT_EQUAL(clock->sleeps, 6);
}

static void test_a_round_brings_what_every_peer_says(struct communicator *c, struct clock *clock)
{
    clock->now_ns = 50000;
    link_book_round(c, 0);
    EXPECT_EQUAL(c->links->due_ns, 50000 + LATENCY);
    link_book_round(c, 8);
    EXPECT_EQUAL(c->links->due_ns, 50000 + 40 + LATENCY);
    link_settle(c);
    EXPECT_EQUAL(clock->now_ns, 50000 + 40 + LATENCY);
}

static void test_the_end_of_the_communicator_ends_the_sleep(struct communicator *c, struct clock *clock)
{
    clock->now_ns = 90000;
    clock->raise_at_ns = 92500;
    link_book_round(c, 1000000);
    link_settle(c);
    EXPECT_EQUAL(clock->now_ns, 93000);
}

int main(void)
{
    struct segment segment;
    struct segment_sizes sizes = {.ranks = RANKS, .devices = RANKS, .window_nbytes = 2 << 20, .hbm_limit = UINT64_MAX,
                                  .hbm_device_limit = UINT64_MAX};
    EXPECT_EQUAL(segment_create(&segment, &sizes), 0);
    struct clock clock = {.board = segment_world_board(&segment)};
    struct communicator own, peer;
    open_links(&own, &segment, &clock, 0);
    open_links(&peer, &segment, &clock, 1);
    test_a_link_carries_one_transfer_after_another(&own, &peer);
    test_a_step_is_on_all_links_at_once(&own, &clock);
    test_a_round_brings_what_every_peer_says(&own, &clock);
    test_the_end_of_the_communicator_ends_the_sleep(&own, &clock);
    communicator_close(&own);
    communicator_close(&peer);
    uint64_t nbytes = segment.job->nbytes;
    close(segment.fd);
    munmap(segment.base, nbytes);
    printf("links\n");
    return 0;
}
