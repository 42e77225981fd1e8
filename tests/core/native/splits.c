/* Ranks as threads that exchange blocks which differ in count, by tables of which some do not agree.
 *
 *     splits SIZE SEED ROUNDS PLANFILE
 *
 * Each rank has its buffers in device memory or outside of it, where they go through pieces of a few
 * elements, or are reached. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "dice.h"
#include "expect.h"
#include "order.h"
#include "plan_file.h"

enum { ALL_TO_ALL_V = 8, MOST_RANKS = 8, MOST = 40, ELEMENTS = MOST_RANKS * MOST, PIECE_NBYTES = 256 * MOST_RANKS };
enum { WINDOW_NBYTES = 4 << 20 };

struct runner {
    uint32_t rank, size;
    uint64_t rounds, failures;
    struct arena arena;
    struct communicator communicator;
    struct dice common, own;
    int32_t *device[2], plain[2][ELEMENTS];
    struct split *split;
    pthread_t thread;
};

static int32_t element_of(uint64_t round, uint32_t from, uint32_t to, uint64_t index)
{
    return (int32_t)(round * 100000 + from * 10000 + to * 1000 + index);
}

static uint64_t fill_row(uint64_t *counts, uint32_t size, const uint64_t *given)
{
    uint64_t end = 0;
    for (uint32_t block = 0; block < size; block++) {
        counts[block] = given[block];
        counts[size + block] = end; /* the row of starts is behind that of counts */
        end += given[block];
    }
    return end;
}

static void one_round(struct runner *runner, uint64_t round)
{
    const uint32_t size = runner->size, rank = runner->rank;
    uint64_t table[MOST_RANKS][MOST_RANKS], sent[MOST_RANKS], received[MOST_RANKS];
    const uint64_t most = roll_below(&runner->common, 2) ? MOST : 4;
    for (uint32_t from = 0; from < size; from++)
        for (uint32_t to = 0; to < size; to++)
            table[from][to] = roll_below(&runner->common, 3) ? roll_below(&runner->common, most) : 0;
    const bool wrong = roll_below(&runner->common, 4) == 0;
    const uint32_t odd = roll_below(&runner->common, size), even = roll_below(&runner->common, size);
    for (uint32_t peer = 0; peer < size; peer++) {
        sent[peer] = table[rank][peer];
        received[peer] = table[peer][rank] + (wrong && rank == odd && peer == even);
    }
    int32_t *in = roll_below(&runner->own, 2) ? runner->device[0] : runner->plain[0];
    int32_t *out = roll_below(&runner->own, 2) ? runner->device[1] : runner->plain[1];
    struct split *split = runner->split;
    split->in_count = fill_row(split->rows + IN_COUNTS * size, size, sent);
    split->out_count = fill_row(split->rows + OUT_COUNTS * size, size, received);
    for (uint32_t peer = 0, at = 0; peer < size; peer++)
        for (uint64_t i = 0; i < sent[peer]; i++)
            in[at++] = element_of(round, rank, peer, i);
    for (uint32_t i = 0; i < ELEMENTS; i++)
        out[i] = -1;
    struct call call = {.collective = ALL_TO_ALL_V, .dtype = DTYPE_INT32, .in = in, .out = out, .split = split};
    enum call_end end = communicator_call(&runner->communicator, &call);
    EXPECT_EQUAL(end, wrong ? CALL_DIFFERS : CALL_DONE);
    uint32_t at = 0;
    for (uint32_t peer = 0; peer < size && !wrong; peer++)
        for (uint64_t i = 0; i < received[peer]; i++)
            EXPECT_EQUAL(out[at++], element_of(round, peer, rank, i));
    for (; at < ELEMENTS; at++)
        EXPECT_EQUAL(out[at], -1);
    if (!wrong)
        return;
    const struct uneven *uneven = &runner->communicator.failure->uneven;
    EXPECT_EQUAL(uneven->from, even);
    EXPECT_EQUAL(uneven->to, odd);
    EXPECT_EQUAL(uneven->expected, uneven->sent + 1);
    EXPECT_EQUAL(uneven->sent, table[even][odd]);
    runner->failures++;
}

static void *run_rank(void *argument)
{
    struct runner *runner = argument;
    for (uint64_t round = 0; round < runner->rounds; round++)
        one_round(runner, round);
    return NULL;
}

static uint64_t allocate(struct runner *runner, uint64_t nbytes)
{
    uint64_t offset;
    EXPECT_EQUAL(arena_malloc(&runner->arena, nbytes, &offset), ARENA_DONE);
    return offset;
}

static void open_rank(struct runner *runner, const struct segment *segment, const struct plan_file *plans)
{
    uint32_t members[MOST_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct communicator *c = &runner->communicator;
    EXPECT_EQUAL(arena_open(&runner->arena, segment, runner->rank, segment_rank(segment, runner->rank)), ARENA_DONE);
    EXPECT_EQUAL(communicator_open(c, segment, &runner->arena, NULL, members, runner->size, runner->rank), 0);
    store_relaxed(&segment_rank(segment, runner->rank)->pid, (uint32_t)getpid());
    c->piece_nbytes = PIECE_NBYTES;
    c->least_reached_nbytes = roll_below(&runner->common, 2); /* all buffers that are outside of device memory are reached, or none */
    c->staging_offset = allocate(runner, 2 * PIECE_NBYTES);
    c->has_staging = true;
    c->table_offset = allocate(runner, SPLIT_NBYTES(runner->size));
    for (int i = 0; i < 2; i++)
        runner->device[i] = (int32_t *)(segment->base + allocate(runner, sizeof runner->plain[i]));
    runner->split = calloc(1, sizeof *runner->split + SPLIT_NBYTES(runner->size));
    EXPECT(runner->split != NULL);
    for (size_t i = 0; i < plans->nplans; i++) {
        struct packed packed = plans->plans[i];
        if (packed.collective != ALL_TO_ALL || packed.algorithm != MESH || packed.rank != runner->rank)
            continue;
        packed.collective = ALL_TO_ALL_V;
        add_packed(c, &packed, DTYPE_INT32, 0);
    }
}

int main(int argc, char **argv)
{
    static struct runner runners[MOST_RANKS];
    EXPECT_EQUAL(argc, 5);
    const uint32_t size = (uint32_t)strtoul(argv[1], NULL, 0);
    const uint64_t seed = strtoull(argv[2], NULL, 0), rounds = strtoull(argv[3], NULL, 0);
    EXPECT(size >= 1 && size <= MOST_RANKS);
    struct plan_file plans;
    struct segment segment;
    plan_file_read(&plans, argv[4]);
    struct segment_sizes sizes = {.ranks = size, .devices = size, .window_nbytes = WINDOW_NBYTES,
                                  .hbm_limit = UINT64_MAX, .hbm_device_limit = UINT64_MAX};
    EXPECT_EQUAL(segment_create(&segment, &sizes), 0);
    for (uint32_t rank = 0; rank < size; rank++) {
        struct runner *runner = &runners[rank];
        *runner = (struct runner){.rank = rank, .size = size, .rounds = rounds, .common = {seed}, .own = {seed + rank + 1}};
        open_rank(runner, &segment, &plans);
    }
    for (uint32_t rank = 0; rank < size; rank++)
        EXPECT_EQUAL(pthread_create(&runners[rank].thread, NULL, run_rank, &runners[rank]), 0);
    for (uint32_t rank = 0; rank < size; rank++)
        EXPECT_EQUAL(pthread_join(runners[rank].thread, NULL), 0);
    printf("splits of %u ranks, seed %" PRIu64 ": %" PRIu64 " rounds, %" PRIu64 " failed\n", size, seed, rounds,
           runners[0].failures);
    for (uint32_t rank = 0; rank < size; rank++) {
        free(runners[rank].split);
        communicator_close(&runners[rank].communicator);
        arena_close(&runners[rank].arena);
    }
    plan_file_close(&plans);
    return 0;
}
