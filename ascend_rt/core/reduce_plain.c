/* The kernels in plain C, for every processor.  The conversions are branch-free so that they vectorise. */
#include "reduce_variants.h"

#define KERNEL_TARGET
#define STEP_NBYTES 128
#define FIND_REDUCE find_reduce_plain

#define FP32_SIGN 0x80000000u
#define FP32_INFINITY 0x7f800000u
#define FP32_EXPONENT(e) ((uint32_t)(127 + (e)) << 23)

/* Normal, infinity, NaN: with 224 added to its 5 bits, the exponent of infinity is fp32's 255, and the product takes off
 * what that is too much for the others, for exponents differ by 127 - 15 = 112.
 * A subnormal m means m * 2^-24, which is the last bit of 0.5: set there, 0.5 + m * 2^-24, and 0.5 goes again. */
ALWAYS_INLINE float widen_one_fp16(uint32_t half)
{
    uint32_t magnitude = (half & 0x7fff) << 13;
    uint32_t normal = bits_of_float(float_of_bits(magnitude + (224u << 23)) * 0x1p-112f);
    uint32_t subnormal = bits_of_float(float_of_bits(FP32_EXPONENT(-1) + (magnitude >> 13)) - 0.5f);
    return float_of_bits((magnitude < 1u << 23 ? subnormal : normal) | (half & 0x8000) << 16);
}

/* A value of exponent e keeps 10 bits below its leading one, and no bit below 2^-24.  Adding 2^(e+13), e at least -14,
 * leaves exactly those in the sum, rounded to nearest even, as an integer that counts the leading one.  Two exponents up
 * (4 * value + 2^(e+15)), the sum's exponent field is e + 142: modulo 32, one less than fp16's, which the leading one
 * makes up for.  The first product overflows from 2^16 on; infinity's exponent is fp16's, modulo 32. */
ALWAYS_INLINE uint16_t narrow_one_fp16(float value)
{
    uint32_t sign = bits_of_float(value) & FP32_SIGN;
    uint32_t magnitude = bits_of_float(value) ^ sign;
    uint32_t exponent = magnitude & FP32_INFINITY;
    exponent = exponent < FP32_EXPONENT(-14) ? FP32_EXPONENT(-14) : exponent;
    uint32_t sum = bits_of_float(float_of_bits(magnitude) * 0x1p112f * 0x1p-110f + float_of_bits(exponent + (15u << 23)));
    uint32_t half = (sum >> 13 & 0x7c00) + (sum & 0x0fff);
    return (uint16_t)((magnitude > FP32_INFINITY ? 0x7e00 : half) | sign >> 16);
}

KERNEL_INLINE void widen_fp16(float *to, const uint16_anywhere *from, size_t lanes)
{
#pragma GCC unroll 1
    for (size_t i = 0; i < lanes; i++)
        to[i] = widen_one_fp16(from[i]);
}

KERNEL_INLINE void narrow_fp16(uint16_t *to, const float *from, size_t lanes)
{
#pragma GCC unroll 1
    for (size_t i = 0; i < lanes; i++)
        to[i] = narrow_one_fp16(from[i]);
}

KERNEL_INLINE void widen_bf16(float *to, const uint16_anywhere *from, size_t lanes)
{
    for (size_t i = 0; i < lanes; i++)
        to[i] = widen_one_bf16(from[i]);
}

KERNEL_INLINE void narrow_bf16(uint16_t *to, const float *from, size_t lanes)
{
    for (size_t i = 0; i < lanes; i++)
        to[i] = narrow_one_bf16(from[i]);
}

#include "reduce_kernels.h"
