/* What every file of kernels shares: the look-ups that reduce.c calls, and words to write kernels with. */
#ifndef ASCEND_RT_REDUCE_VARIANTS_H
#define ASCEND_RT_REDUCE_VARIANTS_H

#include <string.h>

#include "reduce.h"

/* Both arguments are in range. */
reduce_function *find_reduce_plain(enum dtype dtype, enum reduce_op op);
reduce_function *find_reduce_avx2(enum dtype dtype, enum reduce_op op);
reduce_function *find_reduce_avx512(enum dtype dtype, enum reduce_op op);
reduce_function *find_reduce_neon(enum dtype dtype, enum reduce_op op);

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

ALWAYS_INLINE float widen_one_bf16(uint32_t bits)
{
    return float_of_bits(bits << 16);
}

/* Adding just under half of the last kept bit, and that bit itself, rounds to nearest even; it carries into infinity.
 * NaN's exponent is never carried out of. */
ALWAYS_INLINE uint16_t narrow_one_bf16(float value)
{
    uint32_t bits = bits_of_float(value);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
