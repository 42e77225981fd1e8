#include "calls.h"

#include "elements.h"

bool reduces(uint8_t collective)
{
    return collective == ALL_REDUCE || collective == REDUCE_SCATTER || collective == REDUCE;
}

uint32_t blocks_in(const struct drawn *drawn, uint32_t rank, uint32_t size)
{
    switch (drawn->collective) {
    case REDUCE_SCATTER:
    case ALL_TO_ALL: return size;
    case SCATTER: return rank == drawn->root ? size : 0;
    default: return 1;
    }
}

uint32_t blocks_out(const struct drawn *drawn, uint32_t rank, uint32_t size)
{
    switch (drawn->collective) {
    case ALL_GATHER:
    case ALL_TO_ALL: return size;
    case GATHER: return rank == drawn->root ? size : 0;
    case REDUCE: return rank == drawn->root;
    default: return 1;
    }
}

bool same_call(const struct drawn *one, const struct drawn *other)
{
    return one->collective == other->collective && one->dtype == other->dtype && one->op == other->op &&
           one->root == other->root && one->count == other->count && one->fingerprint == other->fingerprint;
}

static void draw_type(struct dice *dice, struct drawn *drawn)
{
    static const uint8_t dtypes[] = {DTYPE_INT32, DTYPE_FP32, DTYPE_FP16};
    drawn->dtype = drawn->collective == BARRIER ? DTYPE_INT32 : dtypes[roll_below(dice, 3)];
    drawn->op = reduces(drawn->collective) ? (uint8_t)roll_below(dice, REDUCE_OP_COUNT) : 0;
}

struct drawn draw_payload(struct dice *dice, uint32_t size)
{
    static const uint8_t collectives[] = {ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, BARRIER};
    struct drawn drawn = {.is_exchange = true, .collective = collectives[roll_below(dice, 5)]};
    draw_type(dice, &drawn);
    drawn.root = drawn.collective == BROADCAST ? roll_below(dice, size) : 0;
    uint64_t most_nbytes = roll_below(dice, 2) ? PAYLOAD_NBYTES : PACKET_NBYTES; /* in the line, or beside it */
    uint64_t blocks = drawn.collective == REDUCE_SCATTER ? size : 1;
    drawn.count = drawn.collective == BARRIER ? 0 : roll_below(dice, most_nbytes / blocks / dtype_nbytes(drawn.dtype) + 1);
    return drawn;
}

struct drawn draw_plan(struct dice *dice, const struct plan_file *plans)
{
    const struct packed *packed = &plans->plans[roll_below(dice, plans->nplans)];
    struct drawn drawn = {.collective = packed->collective, .fingerprint = packed->fingerprint,
                          .root = packed->root == ROOT_ANY ? 0 : packed->root};
    draw_type(dice, &drawn);
    drawn.count = roll_below(dice, roll_below(dice, 2) ? 100 : MOST_COUNT + 1);
    return drawn;
}

/* Depends on everything; sums of 8 are exact in fp16, and so are products. */
double element_of(uint64_t round, uint32_t rank, uint64_t index, const struct drawn *drawn)
{
    static const double factors[] = {-2, -1, 1, 2};
    uint64_t number = mixed(round * 1000003 + index * 8191 + rank + 1);
    if (drawn->op == REDUCE_PROD && reduces(drawn->collective))
        return factors[number % 4];
    return drawn->dtype == DTYPE_INT32 ? (double)(number % 200001) - 100000 : (double)(number % 201) - 100;
}

static double folded(uint64_t round, uint32_t size, uint64_t index, const struct drawn *drawn)
{
    int64_t all = (int64_t)element_of(round, 0, index, drawn);
    for (uint32_t rank = 1; rank < size; rank++) {
        int64_t one = (int64_t)element_of(round, rank, index, drawn);
        switch (drawn->op) {
        case REDUCE_PROD: all *= one; break;
        case REDUCE_MAX: all = one > all ? one : all; break;
        case REDUCE_MIN: all = one < all ? one : all; break;
        default: all += one; break;
        }
    }
    return drawn->op == REDUCE_AVG ? divided(drawn->dtype, (double)all, size) : (double)all;
}

double result_of(uint64_t round, uint32_t rank, uint32_t size, uint64_t index, const struct drawn *drawn)
{
    uint64_t within = rank * drawn->count; /* where the block of this rank begins in what others bring */
    uint32_t block = (uint32_t)(index / (drawn->count ? drawn->count : 1));
    switch (drawn->collective) {
    case BROADCAST: return element_of(round, drawn->root, index, drawn);
    case SCATTER: return element_of(round, drawn->root, within + index, drawn);
    case ALL_GATHER:
    case GATHER: return element_of(round, block, index % drawn->count, drawn);
    case ALL_TO_ALL: return element_of(round, block, within + index % drawn->count, drawn);
    case REDUCE_SCATTER: return folded(round, size, within + index, drawn);
    default: return folded(round, size, index, drawn);
    }
}
