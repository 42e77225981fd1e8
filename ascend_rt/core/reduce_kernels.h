/* Every dtype and op, once per variant: reduce_plain.c, _avx2.c, _avx512.c and _neon.c include this after defining
 *     KERNEL_TARGET               the attribute that chooses the instruction set of a function, or nothing
 *     STEP_NBYTES                 size of the accumulator: about half of the vector registers
 *     widen_fp16, narrow_fp16, widen_bf16, narrow_bf16
 *                                 (to, from, lanes): the conversions of that instruction set, to fp32 and back; no NaN
 *                                 but the quiet one without payload is ever narrowed
 *     FIND_REDUCE                 the name of the function that looks a kernel up
 * The arithmetic is written once, in reduce_fold.h: that is why all variants give the same bits. */
#include <math.h>
#include <string.h>

#include "reduce_variants.h"

/* At -O2 gcc 12 vectorises next to nothing; copy loops that it turned into memcpy would leave the vector registers; and
 * floating-point exception flags, which nobody reads, would keep both sides of a choice from being computed. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-tree-loop-distribute-patterns", "no-trapping-math")
#endif

#define CONVERT_LANES(to, from, lanes)                                                                                \
    do {                                                                                                              \
        for (size_t i = 0; i < (lanes); i++)                                                                          \
            (to)[i] = (from)[i];                                                                                      \
    } while (0)

#define NAME int8
#define ELEMENT int8_t
#define ACC int8_t
#include "reduce_fold.h"

#define NAME int8_in_64
#define ELEMENT int8_t
#define ACC int64_t
#include "reduce_fold.h"

#define NAME uint8
#define ELEMENT uint8_t
#define ACC uint8_t
#include "reduce_fold.h"

#define NAME uint8_in_64
#define ELEMENT uint8_t
#define ACC uint64_t
#include "reduce_fold.h"

#define NAME int16
#define ELEMENT int16_t
#define ACC int16_t
#include "reduce_fold.h"

#define NAME int16_in_64
#define ELEMENT int16_t
#define ACC int64_t
#include "reduce_fold.h"

#define NAME uint16
#define ELEMENT uint16_t
#define ACC uint16_t
#include "reduce_fold.h"

#define NAME uint16_in_64
#define ELEMENT uint16_t
#define ACC uint64_t
#include "reduce_fold.h"

#define NAME int32
#define ELEMENT int32_t
#define ACC int32_t
#include "reduce_fold.h"

#define NAME int32_in_64
#define ELEMENT int32_t
#define ACC int64_t
#include "reduce_fold.h"

#define NAME uint32
#define ELEMENT uint32_t
#define ACC uint32_t
#include "reduce_fold.h"

#define NAME uint32_in_64
#define ELEMENT uint32_t
#define ACC uint64_t
#include "reduce_fold.h"

#define NAME int64
#define ELEMENT int64_t
#define ACC int64_t
#include "reduce_fold.h"

#define NAME uint64
#define ELEMENT uint64_t
#define ACC uint64_t
#include "reduce_fold.h"

#define NAME fp32
#define ELEMENT float
#define ACC float
#define FLOATING
#include "reduce_fold.h"

#define NAME fp64
#define ELEMENT double
#define ACC double
#define FLOATING
#include "reduce_fold.h"

#define NAME fp16
#define ELEMENT uint16_t
#define ACC float
#define FLOATING
#define WIDEN widen_fp16
#define NARROW narrow_fp16
#include "reduce_fold.h"

#define NAME bf16
#define ELEMENT uint16_t
#define ACC float
#define FLOATING
#define WIDEN widen_bf16
#define NARROW narrow_bf16
#include "reduce_fold.h"

#define KERNEL(name, fold, op)                                                                                        \
    KERNEL_TARGET static void name(void *const *dsts, int ndst, const void *const *srcs, int nsrc, size_t count,      \
                                   uint32_t divisor)                                                                  \
    {                                                                                                                 \
        fold_##fold(dsts, ndst, srcs, nsrc, count, divisor, op);                                                      \
    }
#define ARITHMETIC_KERNELS(dtype)                                                                                     \
    KERNEL(dtype##_sum, dtype, REDUCE_SUM)                                                                            \
    KERNEL(dtype##_prod, dtype, REDUCE_PROD)
#define ORDERED_KERNELS(dtype, avg_fold)                                                                              \
    KERNEL(dtype##_max, dtype, REDUCE_MAX)                                                                            \
    KERNEL(dtype##_min, dtype, REDUCE_MIN)                                                                            \
    KERNEL(dtype##_avg, avg_fold, REDUCE_AVG)
#define KERNELS(dtype, avg_fold) ARITHMETIC_KERNELS(dtype) ORDERED_KERNELS(dtype, avg_fold)
#define KERNEL_ROW(dtype, arithmetic) {arithmetic##_sum, arithmetic##_prod, dtype##_max, dtype##_min, dtype##_avg}

/* Sums and products that wrap have the same bits with and without a sign: one kernel serves both. */
KERNELS(int8, int8_in_64)
KERNELS(int16, int16_in_64)
KERNELS(int32, int32_in_64)
KERNELS(int64, int64)
ORDERED_KERNELS(uint8, uint8_in_64)
ORDERED_KERNELS(uint16, uint16_in_64)
ORDERED_KERNELS(uint32, uint32_in_64)
ORDERED_KERNELS(uint64, uint64)
KERNELS(fp16, fp16)
KERNELS(bf16, bf16)
KERNELS(fp32, fp32)
KERNELS(fp64, fp64)

reduce_function *FIND_REDUCE(enum dtype dtype, enum reduce_op op)
{
    static reduce_function *const kernels[DTYPE_COUNT][REDUCE_OP_COUNT] = {
        [DTYPE_INT8] = KERNEL_ROW(int8, int8),
        [DTYPE_INT16] = KERNEL_ROW(int16, int16),
        [DTYPE_INT32] = KERNEL_ROW(int32, int32),
        [DTYPE_INT64] = KERNEL_ROW(int64, int64),
        [DTYPE_UINT8] = KERNEL_ROW(uint8, int8),
        [DTYPE_UINT16] = KERNEL_ROW(uint16, int16),
        [DTYPE_UINT32] = KERNEL_ROW(uint32, int32),
        [DTYPE_UINT64] = KERNEL_ROW(uint64, int64),
        [DTYPE_FP16] = KERNEL_ROW(fp16, fp16),
        [DTYPE_BFP16] = KERNEL_ROW(bf16, bf16),
        [DTYPE_FP32] = KERNEL_ROW(fp32, fp32),
        [DTYPE_FP64] = KERNEL_ROW(fp64, fp64),
    };
    return kernels[dtype][op];
}
