/* A plan as core runs it: the packed form that ascend_rt/plan/packed.py writes, checked once and then trusted.
 *
 * The packed form is an array of int32:
 *     magic, ranks, rank, C, blocks in IN, blocks in OUT, chunks of SCRATCH, has data steps (0 or 1), number of steps,
 *     then the steps:   1, peer                                                     Post
 *                       2, peer                                                     Wait
 *                       3, n, destination, source                                   Copy
 *                       4, n, complete, ndst, nsrc, destinations..., sources...     Reduce
 * where a destination or source is rank, buffer, chunk and covers n chunks.  The entry and the leave that every plan
 * begins and ends with are not in it: core runs them as the board round and as one word per rank.
 */
#ifndef ASCEND_RT_PLAN_H
#define ASCEND_RT_PLAN_H

#include <stddef.h>
#include <stdint.h>

enum { PLAN_MAGIC = 0x504C414E, PLAN_HEADER = 9 };
enum plan_header { PLAN_RANKS = 1, PLAN_RANK, PLAN_CHUNKS, PLAN_BLOCKS_IN, PLAN_BLOCKS_OUT, PLAN_SCRATCH, PLAN_TOUCHES, PLAN_STEPS };
enum step_kind { STEP_POST = 1, STEP_WAIT, STEP_COPY, STEP_REDUCE };
enum buffer { BUFFER_IN, BUFFER_OUT, BUFFER_SCRATCH, BUFFERS };

struct place {
    int32_t rank, buffer, chunk;
};

struct step {
    enum step_kind kind;
    int32_t peer;                 /* Post, Wait */
    int32_t n;                    /* chunks; Copy, Reduce */
    int32_t complete;             /* Reduce: the result holds every rank's contribution */
    int32_t ndst, nsrc;           /* Copy: 1 and 1 */
    const struct place *dst, *src; /* into the plan's words */
};

struct plan {
    int32_t ranks, rank, chunks, blocks_in, blocks_out, scratch_chunks, touches;
    size_t nsteps;
    struct step *steps;
    int32_t *words; /* a copy of the packed form */
    /* By flat chunk of this rank's own IN and OUT: does another rank load or store it?  NULL: all are lent. */
    uint8_t *lent[2];
    int lends[2]; /* whether any chunk is */
};

/* NULL, or why `words` is not a plan (then nothing was allocated). */
const char *plan_read(struct plan *plan, const int32_t *words, size_t nwords);
void plan_free(struct plan *plan);
/* Takes down what is lent; NULL, or why these are not the marks of this plan. */
const char *plan_lend(struct plan *plan, const uint8_t *in, size_t nin, const uint8_t *out, size_t nout);
int plan_is_lent(const struct plan *plan, enum buffer buffer, int64_t chunk);

/* How a count is cut: chunks begin at multiples of 64 bytes so that two ranks never store to one cache line.
 * The same arithmetic as ascend_rt/plan/language.py; a test compares them. */
struct cut {
    uint64_t count, align, units;
    uint32_t chunks;
};
struct cut cut_count(uint64_t count, uint32_t chunks, size_t item_nbytes);
/* Where flat chunk `chunk` begins, in elements, in a buffer of blocks of `count` elements. */
uint64_t chunk_start(const struct cut *cut, uint64_t chunk);
uint64_t scratch_chunk_count(const struct cut *cut);
/* Elements of the largest block whose chunks of scratch take no more bytes each; of one unit per chunk at least. */
uint64_t most_count_for_scratch(uint64_t chunk_nbytes, uint32_t chunks, size_t item_nbytes);

#endif
