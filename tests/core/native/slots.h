/* Calls that are queued: each with memory of its own, in device memory or plain, contiguous or strided. */
#ifndef TEST_SLOTS_H
#define TEST_SLOTS_H

#include "calls.h"
#include "threads.h"

enum { FEW = 300, REGION_NBYTES = MOST_RANKS * PACKET_NBYTES * 2 };

/* `step` 2 leaves every other element out. */
struct operand {
    unsigned char *device, *plain, *base, *image;
    int64_t step;
    struct view view;
    struct dimensions dimensions;
};

struct slot {
    uint32_t rank, size;
    struct drawn drawn; /* at most FEW elements in a block */
    struct operand in, out;
    uint32_t stream;
};

void slot_open(struct slot *slot, struct arena *arena, uint32_t rank, uint32_t size);
void slot_close(struct slot *slot);
/* Places the operands of `drawn` and fills IN. */
void slot_prepare(struct slot *slot, struct dice *dice, uint64_t round);
/* Fills IN for another round, where it was placed before. */
void slot_refill(struct slot *slot, uint64_t round);
/* OUT holds the result, if it is done; every other byte is as it was. */
void slot_compare(struct slot *slot, uint64_t round, bool done);

#endif
