#include "arena.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "order.h"

enum arena_end arena_open(struct arena *arena, const struct segment *segment, uint32_t device, struct rank_line *owner)
{
    *arena = (struct arena){.segment = *segment, .owner = owner, .capacity = 16, .nblocks = 1};
    arena->device = segment_device(segment, device);
    arena->pid = getpid();
    arena->blocks = malloc(arena->capacity * sizeof *arena->blocks);
    if (!arena->blocks)
        return ARENA_NO_HOST_MEMORY;
    uint32_t rank = (uint32_t)(owner - segment_rank(segment, 0));
    arena->blocks[0].offset = segment_part(segment, device, rank, &arena->part_nbytes);
    arena->blocks[0].nbytes = arena->part_nbytes;
    arena->blocks[0].live = false;
    return ARENA_DONE;
}

void arena_close(struct arena *arena)
{
    free(arena->blocks);
    arena->blocks = NULL;
    arena->nblocks = 0;
}

/* Index of the last block that begins at or before `offset`; the caller knows that there is one. */
static size_t block_at(const struct arena *arena, uint64_t offset)
{
    size_t low = 0, high = arena->nblocks;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (arena->blocks[middle].offset <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static size_t best_fit(const struct arena *arena, uint64_t nbytes)
{
    size_t best = arena->nblocks;
    for (size_t i = 0; i < arena->nblocks; i++)
        if (!arena->blocks[i].live && arena->blocks[i].nbytes >= nbytes &&
            (best == arena->nblocks || arena->blocks[i].nbytes < arena->blocks[best].nbytes))
            best = i;
    return best;
}

static void give_back(_Atomic uint64_t *in_use, uint64_t nbytes)
{
    atomic_fetch_sub_explicit(in_use, nbytes, memory_order_relaxed);
}

static bool take(_Atomic uint64_t *in_use, uint64_t nbytes, uint64_t limit)
{
    if (atomic_fetch_add_explicit(in_use, nbytes, memory_order_relaxed) + nbytes <= limit)
        return true;
    give_back(in_use, nbytes);
    return false;
}

static bool take_from_budget(struct arena *arena, uint64_t nbytes)
{
    struct job *job = arena->segment.job;
    if (take(&arena->device->hbm_in_use, nbytes, job->hbm_device_limit)) {
        if (take(&job->hbm_in_use, nbytes, job->hbm_limit)) {
            atomic_fetch_add_explicit(&arena->owner->hbm_in_use, nbytes, memory_order_relaxed);
            return true;
        }
        give_back(&arena->device->hbm_in_use, nbytes);
    }
    return false;
}

static bool make_room_for_a_split(struct arena *arena)
{
    if (arena->nblocks < arena->capacity)
        return true;
    struct arena_block *grown = realloc(arena->blocks, 2 * arena->capacity * sizeof *grown);
    if (!grown)
        return false;
    arena->blocks = grown;
    arena->capacity *= 2;
    return true;
}

enum arena_end arena_malloc(struct arena *arena, uint64_t nbytes, uint64_t *offset)
{
    if (nbytes > arena->part_nbytes)
        return ARENA_FULL;
    nbytes = (nbytes + !nbytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    size_t i = best_fit(arena, nbytes);
    if (i == arena->nblocks)
        return ARENA_FULL;
    if (!make_room_for_a_split(arena))
        return ARENA_NO_HOST_MEMORY;
    if (!take_from_budget(arena, nbytes))
        return ARENA_OVER_BUDGET;
    struct arena_block *block = &arena->blocks[i];
    if (block->nbytes > nbytes) {
        memmove(block + 2, block + 1, (arena->nblocks - i - 1) * sizeof *block);
        block[1] = (struct arena_block){block->offset + nbytes, block->nbytes - nbytes, false};
        arena->nblocks++;
        block->nbytes = nbytes;
    }
    block->live = true;
    arena->in_use += nbytes;
    if (arena->in_use > arena->peak)
        arena->peak = arena->in_use;
    *offset = block->offset;
    return ARENA_DONE;
}

/* Joins block i with the one behind it if both are free. */
static void coalesce(struct arena *arena, size_t i)
{
    struct arena_block *block = &arena->blocks[i];
    if (i + 1 >= arena->nblocks || block->live || block[1].live)
        return;
    block->nbytes += block[1].nbytes;
    memmove(block + 1, block + 2, (arena->nblocks - i - 2) * sizeof *block);
    arena->nblocks--;
}

enum arena_end arena_free(struct arena *arena, uint64_t offset)
{
    size_t i = block_at(arena, offset);
    struct arena_block *block = &arena->blocks[i];
    if (block->offset != offset || !block->live)
        return ARENA_NOT_A_BLOCK;
    block->live = false;
    if (arena->pid == getpid()) {
        give_back(&arena->segment.job->hbm_in_use, block->nbytes);
        give_back(&arena->device->hbm_in_use, block->nbytes);
        give_back(&arena->owner->hbm_in_use, block->nbytes);
    }
    arena->in_use -= block->nbytes;
    coalesce(arena, i);
    if (i > 0)
        coalesce(arena, i - 1);
    return ARENA_DONE;
}

bool arena_find(const struct arena *arena, const void *address, uint64_t nbytes, uint64_t *offset)
{
    uint64_t at = (uint64_t)(uintptr_t)address - (uint64_t)(uintptr_t)arena->segment.base;
    if (at < arena->blocks[0].offset)
        return false;
    const struct arena_block *block = &arena->blocks[block_at(arena, at)];
    uint64_t inside = at - block->offset;
    if (!block->live || inside > block->nbytes || nbytes > block->nbytes - inside)
        return false;
    *offset = at;
    return true;
}

uint64_t arena_largest_free(const struct arena *arena)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < arena->nblocks; i++)
        if (!arena->blocks[i].live && arena->blocks[i].nbytes > largest)
            largest = arena->blocks[i].nbytes;
    return largest;
}
