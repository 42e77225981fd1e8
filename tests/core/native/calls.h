/* Calls that all ranks draw alike from one seed, the data each rank brings, and what must come out. */
#ifndef TEST_CALLS_H
#define TEST_CALLS_H

#include "dice.h"
#include "plan_file.h"

enum { MOST_COUNT = 5000 };

struct drawn {
    bool is_exchange;
    uint8_t collective, dtype, op;
    uint32_t root, fingerprint;
    uint64_t count;
};

bool reduces(uint8_t collective);
/* Blocks of `count` elements that `rank` has; none of a buffer that only the root has. */
uint32_t blocks_in(const struct drawn *drawn, uint32_t rank, uint32_t size);
uint32_t blocks_out(const struct drawn *drawn, uint32_t rank, uint32_t size);
bool same_call(const struct drawn *one, const struct drawn *other);

struct drawn draw_payload(struct dice *dice, uint32_t size);
struct drawn draw_plan(struct dice *dice, const struct plan_file *plans);

/* Element `index` of IN of `rank`. */
double element_of(uint64_t round, uint32_t rank, uint64_t index, const struct drawn *drawn);
/* Element `index` of OUT of `rank`, of `size`. */
double result_of(uint64_t round, uint32_t rank, uint32_t size, uint64_t index, const struct drawn *drawn);

#endif
