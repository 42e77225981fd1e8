/* Which kernel runs: see reduce.h. */
#include "reduce.h"
#include "reduce_variants.h"

size_t dtype_nbytes(int dtype)
{
    static const unsigned char nbytes[DTYPE_COUNT] = {
        [DTYPE_INT8] = 1,   [DTYPE_INT16] = 2, [DTYPE_INT32] = 4,  [DTYPE_FP16] = 2,   [DTYPE_FP32] = 4,  [DTYPE_INT64] = 8,
        [DTYPE_UINT64] = 8, [DTYPE_UINT8] = 1, [DTYPE_UINT16] = 2, [DTYPE_UINT32] = 4, [DTYPE_FP64] = 8, [DTYPE_BFP16] = 2,
    };
    return dtype >= 0 && dtype < DTYPE_COUNT ? nbytes[dtype] : 0;
}

enum kernel_variant best_kernel_variant(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"))
        return KERNEL_AVX2;
#endif
    return KERNEL_PLAIN;
}

reduce_function *find_reduce(int dtype, int op, enum kernel_variant variant)
{
    if (dtype < 0 || dtype >= DTYPE_COUNT || op < 0 || op >= REDUCE_OP_COUNT)
        return NULL;
    switch (variant) {
    case KERNEL_PLAIN:
        return find_reduce_plain((enum dtype)dtype, (enum reduce_op)op);
    case KERNEL_AVX2:
#ifdef __x86_64__
        return find_reduce_avx2((enum dtype)dtype, (enum reduce_op)op);
#else
        return NULL;
#endif
    }
    return NULL;
}
