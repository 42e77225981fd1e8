/* One device's HBM, as one rank allocates it: its part of the windows.  Owner: that rank; not for two threads at once.
 *
 * Blocks lie one behind another from the start of the part to its end, each live or free, in a table sorted by
 * offset, so that "which live block holds this address" is one binary search.  Best fit; a freed block is joined
 * with free neighbours.  What is live is counted against the budgets of the device and of the job, which ranks share. */
#ifndef ASCEND_RT_ARENA_H
#define ASCEND_RT_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment.h"

enum { ARENA_ALIGNMENT = 512 };

struct arena_block {
    uint64_t offset; /* in the segment */
    uint64_t nbytes; /* a multiple of ARENA_ALIGNMENT */
    bool live;
};

struct arena {
    struct segment segment;
    struct rank_line *owner;    /* these two and the job count what is allocated */
    struct device_line *device;
    struct arena_block *blocks;
    size_t nblocks, capacity;
    uint64_t part_nbytes;
    int32_t pid; /* a fork of the process has copies of its blocks, and gives nothing back for them */
    uint64_t in_use, peak;
};

enum arena_end { ARENA_DONE, ARENA_FULL, ARENA_OVER_BUDGET, ARENA_NO_HOST_MEMORY, ARENA_NOT_A_BLOCK };

enum arena_end arena_open(struct arena *arena, const struct segment *segment, uint32_t device, struct rank_line *owner);
void arena_close(struct arena *arena);
/* `nbytes` is rounded up to the alignment; zero bytes take one unit, so that every block has an address of its own. */
enum arena_end arena_malloc(struct arena *arena, uint64_t nbytes, uint64_t *offset);
enum arena_end arena_free(struct arena *arena, uint64_t offset);
/* Does [address, address + nbytes) lie inside one live block?  Then *offset is where it is in the segment. */
bool arena_find(const struct arena *arena, const void *address, uint64_t nbytes, uint64_t *offset);
/* Bytes in the largest block that could still be had. */
uint64_t arena_largest_free(const struct arena *arena);

#endif
