/* Random allocation against a model that knows, for each unit of a window, which block owns it.
 *
 *     arena model SEED STEPS     two devices that share a budget, every answer compared
 *     arena threads SEED STEPS   the same two from two threads: the shared count comes out even */
#include "arena.h"

#include <pthread.h>
#include <string.h>

#include "dice.h"
#include "expect.h"
#include "order.h"

enum { UNITS = 4096, WINDOW_NBYTES = UNITS * ARENA_ALIGNMENT, MOST_BLOCKS = 300, DEVICES = 2 };

struct block {
    uint32_t first, units;
};

struct device {
    struct arena arena;
    uint64_t window; /* offset in the segment */
    struct block blocks[MOST_BLOCKS];
    uint32_t nblocks, in_use, peak; /* units */
    bool taken[UNITS];
    struct dice dice;
    uint64_t steps;
};

static struct segment segment;
static const uint64_t device_limit = 3 * (uint64_t)WINDOW_NBYTES / 4, job_limit = 5 * (uint64_t)WINDOW_NBYTES / 4;

/* ---- the model ---- */

/* Units in the smallest free run that holds `units`, and where it begins; 0 if there is none. */
static uint32_t smallest_run(const struct device *device, uint32_t units, uint32_t *first)
{
    uint32_t best = 0;
    for (uint32_t at = 0; at < UNITS;) {
        uint32_t end = at;
        while (end < UNITS && !device->taken[end])
            end++;
        if (end - at >= units && (!best || end - at < best)) {
            best = end - at;
            *first = at;
        }
        at = end + 1;
    }
    return best;
}

static uint64_t largest_run(const struct device *device)
{
    uint32_t largest = 0, now = 0;
    for (uint32_t at = 0; at < UNITS; at++) {
        now = device->taken[at] ? 0 : now + 1;
        largest = now > largest ? now : largest;
    }
    return largest;
}

static void take(struct device *device, const struct block *block, bool taken)
{
    for (uint32_t unit = block->first; unit < block->first + block->units; unit++)
        device->taken[unit] = taken;
    device->in_use = taken ? device->in_use + block->units : device->in_use - block->units;
    device->peak = device->in_use > device->peak ? device->in_use : device->peak;
}

static enum arena_end expected_end(const struct device *device, const struct device *other, uint64_t nbytes,
                                   uint32_t units)
{
    uint32_t first;
    if (nbytes > WINDOW_NBYTES || !smallest_run(device, units, &first))
        return ARENA_FULL;
    if ((uint64_t)(device->in_use + units) * ARENA_ALIGNMENT > device_limit ||
        (uint64_t)(device->in_use + other->in_use + units) * ARENA_ALIGNMENT > job_limit)
        return ARENA_OVER_BUDGET;
    return ARENA_DONE;
}

/* ---- one step and its answers ---- */

static uint64_t draw_nbytes(struct dice *dice)
{
    switch (roll_below(dice, 12)) {
    case 0: return UINT64_MAX - roll_below(dice, 1200); /* rounding up would wrap */
    case 1: return WINDOW_NBYTES - 600 + roll_below(dice, 1200);
    case 2: return roll_below(dice, 3);
    case 3: return roll_below(dice, 20) * ARENA_ALIGNMENT + roll_below(dice, 3) - (uint64_t)1 + ARENA_ALIGNMENT;
    case 4: return roll_below(dice, WINDOW_NBYTES);
    default: return roll_below(dice, WINDOW_NBYTES / 16);
    }
}

static void allocate(struct device *device, const struct device *other)
{
    uint64_t nbytes = draw_nbytes(&device->dice), offset = 0;
    struct block block = {.units = 1};
    if (nbytes > 0 && nbytes <= WINDOW_NBYTES)
        block.units = (uint32_t)((nbytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT);
    enum arena_end end = arena_malloc(&device->arena, nbytes, &offset);
    EXPECT_EQUAL(end, expected_end(device, other, nbytes, block.units));
    if (end != ARENA_DONE)
        return;
    EXPECT_EQUAL(offset % ARENA_ALIGNMENT, 0);
    EXPECT(smallest_run(device, block.units, &block.first) >= block.units);
    EXPECT_EQUAL(offset, device->window + block.first * (uint64_t)ARENA_ALIGNMENT);
    take(device, &block, true);
    device->blocks[device->nblocks++] = block;
}

static void release(struct device *device, uint32_t number)
{
    struct block block = device->blocks[number];
    uint64_t offset = device->window + block.first * (uint64_t)ARENA_ALIGNMENT;
    EXPECT_EQUAL(arena_free(&device->arena, offset + 1), ARENA_NOT_A_BLOCK);
    EXPECT_EQUAL(arena_free(&device->arena, offset), ARENA_DONE);
    EXPECT_EQUAL(arena_free(&device->arena, offset), ARENA_NOT_A_BLOCK);
    take(device, &block, false);
    device->blocks[number] = device->blocks[--device->nblocks];
}

/* A range anywhere about the window is found if and only if one live block holds all of it. */
static void look_up(struct device *device)
{
    uint64_t at = device->window - ARENA_ALIGNMENT + roll_below(&device->dice, WINDOW_NBYTES + 2 * ARENA_ALIGNMENT);
    uint64_t most = roll_below(&device->dice, 2) ? 2 * ARENA_ALIGNMENT : WINDOW_NBYTES / 16;
    uint64_t nbytes = 1 + roll_below(&device->dice, most);
    bool held = false;
    for (uint32_t i = 0; i < device->nblocks; i++) {
        uint64_t start = device->window + device->blocks[i].first * (uint64_t)ARENA_ALIGNMENT;
        uint64_t end = start + device->blocks[i].units * (uint64_t)ARENA_ALIGNMENT;
        held = held || (at >= start && at + nbytes <= end);
    }
    uint64_t offset = 0;
    EXPECT_EQUAL(arena_find(&device->arena, segment.base + at, nbytes, &offset), held);
    EXPECT_EQUAL(offset, held ? at : 0);
    uint64_t wrapping = UINT64_MAX - roll_below(&device->dice, WINDOW_NBYTES);
    EXPECT(!arena_find(&device->arena, segment.base + at, wrapping, &offset));
}

static void expect_the_model(const struct device *device)
{
    EXPECT_EQUAL(device->arena.in_use, device->in_use * (uint64_t)ARENA_ALIGNMENT);
    EXPECT_EQUAL(device->arena.peak, device->peak * (uint64_t)ARENA_ALIGNMENT);
    EXPECT_EQUAL(arena_largest_free(&device->arena), largest_run(device) * ARENA_ALIGNMENT);
    EXPECT_EQUAL(load_relaxed(&device->arena.owner->hbm_in_use), device->arena.in_use);
}

static void step(struct device *device, const struct device *other)
{
    bool frees = device->nblocks == MOST_BLOCKS || (device->nblocks && roll_below(&device->dice, 5) < 2);
    if (frees)
        release(device, roll_below(&device->dice, device->nblocks));
    else
        allocate(device, other);
    look_up(device);
    expect_the_model(device);
}

/* Foreign addresses, and sizes that wrap around. */
static void expect_borders(struct device *device)
{
    uint64_t offset, inside;
    unsigned char *end_of_all = segment.base + segment.job->nbytes;
    static int foreign;
    EXPECT_EQUAL(arena_malloc(&device->arena, 1, &offset), ARENA_DONE);
    const unsigned char *start = segment.base + offset;
    EXPECT(arena_find(&device->arena, start, 0, &inside) && inside == offset);
    EXPECT(arena_find(&device->arena, start + 511, 1, &inside) && inside == offset + 511);
    EXPECT(!arena_find(&device->arena, start + 511, 2, &inside));
    EXPECT(!arena_find(&device->arena, start - 1, 2, &inside));
    EXPECT(!arena_find(&device->arena, start + 8, UINT64_MAX - 7, &inside));
    EXPECT(!arena_find(&device->arena, start, UINT64_MAX, &inside));
    EXPECT(!arena_find(&device->arena, &foreign, 1, &inside));
    EXPECT(!arena_find(&device->arena, NULL, 1, &inside));
    EXPECT(!arena_find(&device->arena, end_of_all, 1, &inside));
    EXPECT(!arena_find(&device->arena, segment.base, 1, &inside));
    EXPECT_EQUAL(arena_free(&device->arena, 0), ARENA_NOT_A_BLOCK);
    EXPECT_EQUAL(arena_free(&device->arena, UINT64_MAX), ARENA_NOT_A_BLOCK);
    EXPECT_EQUAL(arena_free(&device->arena, offset), ARENA_DONE);
}

/* ---- modes ---- */

static void free_all(struct device *device)
{
    while (device->nblocks)
        release(device, device->nblocks - 1);
    EXPECT_EQUAL(arena_largest_free(&device->arena), WINDOW_NBYTES);
    EXPECT_EQUAL(device->arena.nblocks, 1);
}

static void against_the_model(struct device *devices, uint64_t steps)
{
    struct dice turns = {devices[0].dice.state + 17};
    for (uint64_t i = 0; i < steps; i++) {
        uint32_t turn = roll_below(&turns, DEVICES);
        step(&devices[turn], &devices[1 - turn]);
        EXPECT_EQUAL(load_relaxed(&segment.job->hbm_in_use), devices[0].arena.in_use + devices[1].arena.in_use);
    }
}

/* Without a model of the other device, what is over the budget depends on who is faster; the sum never does. */
static void *one_of_two(void *argument)
{
    struct device *device = argument;
    for (uint64_t i = 0; i < device->steps; i++) {
        uint64_t offset[2];
        enum arena_end first = arena_malloc(&device->arena, roll_below(&device->dice, WINDOW_NBYTES), &offset[0]);
        enum arena_end second = arena_malloc(&device->arena, roll_below(&device->dice, WINDOW_NBYTES), &offset[1]);
        if (first == ARENA_DONE)
            EXPECT_EQUAL(arena_free(&device->arena, offset[0]), ARENA_DONE);
        if (second == ARENA_DONE)
            EXPECT_EQUAL(arena_free(&device->arena, offset[1]), ARENA_DONE);
    }
    return NULL;
}

static void from_two_threads(struct device *devices, uint64_t steps)
{
    pthread_t threads[DEVICES];
    for (int i = 0; i < DEVICES; i++) {
        devices[i].steps = steps;
        EXPECT_EQUAL(pthread_create(&threads[i], NULL, one_of_two, &devices[i]), 0);
    }
    for (int i = 0; i < DEVICES; i++)
        EXPECT_EQUAL(pthread_join(threads[i], NULL), 0);
}

int main(int argc, char **argv)
{
    EXPECT_EQUAL(argc, 4);
    static struct device devices[DEVICES];
    struct segment_sizes sizes = {.ranks = DEVICES, .devices = DEVICES, .window_nbytes = WINDOW_NBYTES,
                                  .hbm_limit = job_limit, .hbm_device_limit = device_limit};
    EXPECT_EQUAL(segment_create(&segment, &sizes), 0);
    for (uint32_t i = 0; i < DEVICES; i++) {
        devices[i].dice.state = strtoull(argv[2], NULL, 0) + i;
        devices[i].window = segment.job->windows_offset + i * (uint64_t)WINDOW_NBYTES;
        EXPECT_EQUAL(arena_open(&devices[i].arena, &segment, i, segment_rank(&segment, i)), ARENA_DONE);
        EXPECT(segment_window(&segment, i) == segment.base + devices[i].window);
    }
    void (*run)(struct device *, uint64_t) = strcmp(argv[1], "model") ? from_two_threads : against_the_model;
    run(devices, strtoull(argv[3], NULL, 0));
    for (uint32_t i = 0; i < DEVICES; i++) {
        free_all(&devices[i]);
        expect_borders(&devices[i]);
        arena_close(&devices[i].arena);
    }
    EXPECT_EQUAL(load_relaxed(&segment.job->hbm_in_use), 0);
    return 0;
}
