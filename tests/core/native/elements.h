/* Single elements as doubles, of the types test programs use: int32, fp32, and fp16 numbers that are normal or 0. */
#ifndef TEST_ELEMENTS_H
#define TEST_ELEMENTS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "reduce.h"

static inline uint16_t half_of(double value)
{
    if (value == 0)
        return 0;
    int exponent;
    double fraction = frexp(fabs(value), &exponent); /* 0.5 .. 1 */
    int bits = (exponent + 14) * 1024 + (int)nearbyint(fraction * 2048) - 1024;
    return (uint16_t)(bits | (value < 0) << 15);
}

static inline double value_of_half(uint16_t half)
{
    double size = half & 0x7fff ? ldexp(1024 + (half & 1023), (half >> 10 & 31) - 25) : 0;
    return half >> 15 ? -size : size;
}

static inline double load_element(int dtype, const void *memory, size_t index)
{
    const unsigned char *at = (const unsigned char *)memory + index * dtype_nbytes(dtype);
    int32_t integer;
    float single;
    uint16_t half;
    switch (dtype) {
    case DTYPE_INT32: return memcpy(&integer, at, sizeof integer), integer;
    case DTYPE_FP32: return memcpy(&single, at, sizeof single), (double)single;
    default: return memcpy(&half, at, sizeof half), value_of_half(half);
    }
}

static inline void store_element(int dtype, void *memory, size_t index, double value)
{
    unsigned char *at = (unsigned char *)memory + index * dtype_nbytes(dtype);
    int32_t integer = (int32_t)value;
    float single = (float)value;
    uint16_t half = half_of(value);
    switch (dtype) {
    case DTYPE_INT32: memcpy(at, &integer, sizeof integer); break;
    case DTYPE_FP32: memcpy(at, &single, sizeof single); break;
    default: memcpy(at, &half, sizeof half); break;
    }
}

/* `sum` divided as avg does it: integers toward zero, floats in fp32. */
static inline double divided(int dtype, double sum, uint32_t divisor)
{
    return dtype == DTYPE_INT32 ? trunc(sum / divisor) : (double)((float)sum / (float)divisor);
}

#endif
