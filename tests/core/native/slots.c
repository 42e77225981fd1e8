#include "slots.h"

#include "elements.h"
#include "expect.h"

static void open_operand(struct operand *operand, struct arena *arena)
{
    uint64_t offset;
    EXPECT_EQUAL(arena_malloc(arena, REGION_NBYTES, &offset), ARENA_DONE);
    operand->device = arena->segment.base + offset;
    operand->plain = malloc(REGION_NBYTES);
    operand->image = malloc(REGION_NBYTES);
    EXPECT(operand->plain && operand->image);
}

void slot_open(struct slot *slot, struct arena *arena, uint32_t rank, uint32_t size)
{
    slot->rank = rank;
    slot->size = size;
    open_operand(&slot->in, arena);
    open_operand(&slot->out, arena);
}

void slot_close(struct slot *slot)
{
    free(slot->in.plain);
    free(slot->in.image);
    free(slot->out.plain);
    free(slot->out.image);
}

/* A buffer of no elements, which stands for one that only the root has, is contiguous, as in ascend_rt.hccl. */
static void place(const struct slot *slot, struct operand *operand, struct dice *dice, uint64_t count)
{
    size_t item = dtype_nbytes(slot->drawn.dtype);
    operand->base = roll_below(dice, 2) ? operand->device : operand->plain;
    operand->step = count ? 1 + roll_below(dice, 2) : 1;
    EXPECT(count * item * 2 <= REGION_NBYTES);
    int64_t shape = (int64_t)count, stride = operand->step * (int64_t)item;
    EXPECT(view_strided(&operand->view, &operand->dimensions, operand->base, item, 1, &shape, &stride));
}

static uint64_t in_count(const struct slot *slot)
{
    return slot->drawn.count * blocks_in(&slot->drawn, slot->rank, slot->size);
}

static uint64_t out_count(const struct slot *slot)
{
    return slot->drawn.count * blocks_out(&slot->drawn, slot->rank, slot->size);
}

void slot_prepare(struct slot *slot, struct dice *dice, uint64_t round)
{
    place(slot, &slot->in, dice, in_count(slot));
    place(slot, &slot->out, dice, out_count(slot));
    slot_refill(slot, round);
}

void slot_refill(struct slot *slot, uint64_t round)
{
    const struct drawn *drawn = &slot->drawn;
    for (size_t i = 0; i < REGION_NBYTES; i++)
        slot->in.base[i] = slot->out.base[i] = (unsigned char)(i * 5 + slot->rank);
    for (uint64_t i = 0; i < in_count(slot); i++)
        store_element(drawn->dtype, slot->in.base, i * (uint64_t)slot->in.step, element_of(round, slot->rank, i, drawn));
    memcpy(slot->in.image, slot->in.base, REGION_NBYTES);
    memcpy(slot->out.image, slot->out.base, REGION_NBYTES);
}

void slot_compare(struct slot *slot, uint64_t round, bool done)
{
    const struct drawn *drawn = &slot->drawn;
    for (uint64_t i = 0; done && drawn->collective != BARRIER && i < out_count(slot); i++)
        store_element(drawn->dtype, slot->out.image, i * (uint64_t)slot->out.step,
                      result_of(round, slot->rank, slot->size, i, drawn));
    EXPECT(!memcmp(slot->in.image, slot->in.base, REGION_NBYTES));
    EXPECT(!memcmp(slot->out.image, slot->out.base, REGION_NBYTES));
}
