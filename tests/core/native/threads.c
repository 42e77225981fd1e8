#include "threads.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "elements.h"
#include "expect.h"
#include "order.h"

enum { SCRATCH_NBYTES = 1 << 18, WINDOW_NBYTES = 4 << 20 };

void test_open(struct test *test, int argc, char **argv)
{
    EXPECT_EQUAL(argc, 6);
    *test = (struct test){.size = (uint32_t)strtoul(argv[1], NULL, 0), .seed = strtoull(argv[2], NULL, 0),
                          .rounds = strtoull(argv[3], NULL, 0), .sleeps = !strcmp(argv[5], "sleep")};
    EXPECT(test->size >= 1 && test->size <= MOST_RANKS);
    plan_file_read(&test->plans, argv[4]);
    struct segment_sizes sizes = {.ranks = test->size, .devices = test->size, .window_nbytes = WINDOW_NBYTES,
                                  .hbm_limit = UINT64_MAX, .hbm_device_limit = UINT64_MAX};
    EXPECT_EQUAL(segment_create(&test->segment, &sizes), 0);
}

void test_close(struct test *test) { plan_file_close(&test->plans); }

static void add_choices(const struct test *test, struct communicator *c)
{
    static const uint8_t dtypes[] = {DTYPE_INT32, DTYPE_FP32, DTYPE_FP16};
    static const uint8_t exchanged[] = {BROADCAST, ALL_GATHER, BARRIER, ALL_REDUCE, REDUCE_SCATTER};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 5; j++)
            for (uint8_t op = 0; op < (reduces(exchanged[j]) ? REDUCE_OP_COUNT : 1); op++)
                add_exchanges(c, exchanged[j], dtypes[i], op, PACKET_NBYTES);
        for (size_t j = 0; j < test->plans.nplans; j++) {
            const struct packed *packed = &test->plans.plans[j];
            if (packed->rank == c->rank)
                for (uint8_t op = 0; op < (reduces(packed->collective) ? REDUCE_OP_COUNT : 1); op++)
                    add_packed(c, packed, dtypes[i], op);
        }
    }
}

uint64_t test_allocate(struct arena *arena, uint64_t nbytes)
{
    uint64_t offset;
    EXPECT_EQUAL(arena_malloc(arena, nbytes, &offset), ARENA_DONE);
    return offset;
}

void test_open_rank(const struct test *test, uint32_t rank, struct arena *arena, struct communicator *c)
{
    uint32_t members[MOST_RANKS];
    for (uint32_t i = 0; i < test->size; i++)
        members[i] = i;
    EXPECT_EQUAL(arena_open(arena, &test->segment, rank, segment_rank(&test->segment, rank)), ARENA_DONE);
    EXPECT_EQUAL(communicator_open(c, &test->segment, arena, NULL, members, test->size, rank), 0);
    store_relaxed(&segment_rank(&test->segment, rank)->pid, (uint32_t)getpid());
    c->waiter.patience.spins = c->waiter.patience.yields = test->sleeps ? 0 : 20;
    c->waiter.patience.sleep_ns = UINT64_C(20000000000); /* a wake-up that gets lost is not healed by time unnoticed */
    c->scratch_nbytes = SCRATCH_NBYTES;
    c->scratch_offset = test_allocate(arena, SCRATCH_NBYTES);
    add_choices(test, c);
}

void test_run(const struct test *test, void *(*rank)(void *), void *arguments, size_t argument_nbytes)
{
    pthread_t threads[MOST_RANKS];
    for (uint32_t i = 0; i < test->size; i++)
        EXPECT_EQUAL(pthread_create(&threads[i], NULL, rank, (char *)arguments + i * argument_nbytes), 0);
    for (uint32_t i = 0; i < test->size; i++)
        EXPECT_EQUAL(pthread_join(threads[i], NULL), 0);
}
