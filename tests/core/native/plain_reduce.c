/* A slow and obvious reduce.h for int32, fp32 and fp16, for programs that test who may touch which memory when.
 * The real kernels take half a minute to compile under a sanitizer, and have tests of their own. */
#include "elements.h"

static double folded(int op, double left, double right)
{
    switch (op) {
    case REDUCE_PROD: return left * right;
    case REDUCE_MAX: return right > left ? right : left;
    case REDUCE_MIN: return right < left ? right : left;
    default: return left + right;
    }
}

static void fold(int dtype, int op, void *const *dsts, int ndst, const void *const *srcs, int nsrc, size_t count,
                 uint32_t divisor)
{
    for (size_t i = 0; i < count; i++) {
        double result = load_element(dtype, srcs[0], i);
        for (int source = 1; source < nsrc; source++)
            result = folded(op, result, load_element(dtype, srcs[source], i));
        if (op == REDUCE_AVG)
            result = divided(dtype, result, divisor);
        for (int destination = 0; destination < ndst; destination++)
            store_element(dtype, dsts[destination], i, result);
    }
}

#define FOR_EACH_OP(USE, dtype) USE(dtype, SUM) USE(dtype, PROD) USE(dtype, MAX) USE(dtype, MIN) USE(dtype, AVG)
#define FOR_EACH(USE) FOR_EACH_OP(USE, INT32) FOR_EACH_OP(USE, FP32) FOR_EACH_OP(USE, FP16)
#define DEFINE(dtype, op)                                                                                            \
    static void fold_##dtype##_##op(void *const *dsts, int ndst, const void *const *srcs, int nsrc, size_t count,    \
                                    uint32_t divisor)                                                                \
    {                                                                                                                \
        fold(DTYPE_##dtype, REDUCE_##op, dsts, ndst, srcs, nsrc, count, divisor);                                    \
    }
#define ENTRY(dtype, op) [DTYPE_##dtype][REDUCE_##op] = fold_##dtype##_##op,

FOR_EACH(DEFINE)

size_t dtype_nbytes(int dtype)
{
    return dtype == DTYPE_INT32 || dtype == DTYPE_FP32 ? 4 : dtype == DTYPE_FP16 ? 2 : 0;
}

enum kernel_variant best_kernel_variant(void) { return KERNEL_PLAIN; }

reduce_function *find_reduce(int dtype, int op, enum kernel_variant variant)
{
    static reduce_function *const functions[DTYPE_COUNT][REDUCE_OP_COUNT] = {FOR_EACH(ENTRY)};
    (void)variant;
    return dtype >= 0 && dtype < DTYPE_COUNT && op >= 0 && op < REDUCE_OP_COUNT ? functions[dtype][op] : NULL;
}
