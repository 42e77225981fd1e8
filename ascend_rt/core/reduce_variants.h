/* What every file of kernels shares: the look-ups that reduce.c calls, and words to write kernels with. */
#ifndef ASCEND_RT_REDUCE_VARIANTS_H
#define ASCEND_RT_REDUCE_VARIANTS_H

#include <string.h>

#include "reduce.h"

/* Both arguments are in range. */
reduce_function *find_reduce_plain(enum dtype dtype, enum reduce_op op);
reduce_function *find_reduce_avx2(enum dtype dtype, enum reduce_op op);

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define KERNEL_INLINE KERNEL_TARGET ALWAYS_INLINE

/* 16 bits of the caller's memory, at any address and whatever it was stored as. */
typedef uint16_t uint16_anywhere __attribute__((aligned(1), may_alias));

ALWAYS_INLINE float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

ALWAYS_INLINE uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

#endif
