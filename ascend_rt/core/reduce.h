/* Reduction kernels: fold any number of sources element by element, store the result to any number of destinations.
 *
 *     for i < count:  r = srcs[0][i] OP srcs[1][i] OP ...  in the order listed;  dsts[0][i] = dsts[1][i] = ... = r
 *
 * The bits of r are defined, and every variant (and every machine) gives the same:
 *   integers   sum and prod wrap (two's complement).  avg sums in 64 bits (wrapping there), divides by `divisor`, rounds
 *              toward zero, and keeps the low bits.
 *   floats     fp16 and bf16 are folded in fp32, fp32 in fp32, fp64 in fp64; subnormals count.  avg divides the fold by
 *              `divisor` in that type.  One rounding to nearest even at the end.
 *   NaN        a NaN among the sources gives NaN, in max and min too.  Every NaN stored is the positive quiet NaN without
 *              payload: 0x7e00, 0x7fc0, 0x7fc00000, 0x7ff8000000000000.
 *   max, min   of equal values keep the one listed first, which shows in +0 and -0 alone.
 * They rest on the thread's floating-point defaults: round to nearest, subnormals not flushed.
 *
 * A destination may be exactly one of the sources (in place); memory must not overlap in any other way.  Addresses need
 * no alignment.  Nothing is allocated and nothing is global: the caller asks for the variant once and keeps it. */
#ifndef ASCEND_RT_REDUCE_H
#define ASCEND_RT_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* HcclDataType.  fp8 is moved and not folded: it has a size and no kernels. */
enum dtype {
    DTYPE_INT8 = 0,
    DTYPE_INT16 = 1,
    DTYPE_INT32 = 2,
    DTYPE_FP16 = 3,
    DTYPE_FP32 = 4,
    DTYPE_INT64 = 5,
    DTYPE_UINT64 = 6,
    DTYPE_UINT8 = 7,
    DTYPE_UINT16 = 8,
    DTYPE_UINT32 = 9,
    DTYPE_FP64 = 10,
    DTYPE_BFP16 = 11,
    DTYPE_FP8E4M3 = 15,
    DTYPE_FP8E5M2 = 16,
    DTYPE_COUNT
};

/* HcclReduceOp, and our AVG. */
enum reduce_op { REDUCE_SUM = 0, REDUCE_PROD = 1, REDUCE_MAX = 2, REDUCE_MIN = 3, REDUCE_AVG = 4, REDUCE_OP_COUNT };

enum kernel_variant { KERNEL_PLAIN = 0, KERNEL_AVX2 = 1, KERNEL_AVX512 = 2, KERNEL_NEON = 3, KERNEL_VARIANT_COUNT };

/* ndst, nsrc >= 1; count in elements; divisor > 0 in avg, ignored elsewhere. */
typedef void reduce_function(void *const *dsts, int ndst, const void *const *srcs, int nsrc, size_t count,
                             uint32_t divisor);

/* Bytes of one element, 0 for an unknown number. */
size_t dtype_nbytes(int dtype);

/* Whether this build contains the variant and this processor runs it; false for an unknown number. */
bool has_kernel_variant(int variant);

/* The fastest variant this processor runs. */
enum kernel_variant best_kernel_variant(void);

/* NULL for an unknown dtype or op, for one that is not folded, and for a variant that this build does not contain. */
reduce_function *find_reduce(int dtype, int op, enum kernel_variant variant);

#endif
