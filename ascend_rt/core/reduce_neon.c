/* The kernels for aarch64, of which NEON is a part: the same source with the conversion instructions of fp16, and with a
 * larger accumulator, for there are 32 vector registers. */
#ifdef __aarch64__
#include <arm_neon.h>

#include "reduce_variants.h"

#define KERNEL_TARGET
#define STEP_NBYTES 256
#define FIND_REDUCE find_reduce_neon

KERNEL_INLINE void widen_fp16(float *to, const uint16_anywhere *from, size_t lanes)
{
    size_t i = 0;
    for (; lanes - i >= 8; i += 8) {
        float16x8_t halves;
        memcpy(&halves, from + i, sizeof halves);
        vst1q_f32(to + i, vcvt_f32_f16(vget_low_f16(halves)));
        vst1q_f32(to + i + 4, vcvt_high_f32_f16(halves));
    }
    for (; i < lanes; i++) {
        __fp16 half;
        memcpy(&half, from + i, sizeof half);
        to[i] = (float)half;
    }
}

KERNEL_INLINE void narrow_fp16(uint16_t *to, const float *from, size_t lanes)
{
    size_t i = 0;
    for (; lanes - i >= 8; i += 8) {
        float16x8_t halves = vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(from + i)), vld1q_f32(from + i + 4));
        memcpy(to + i, &halves, sizeof halves);
    }
    for (; i < lanes; i++) {
        __fp16 half = (__fp16)from[i];
        memcpy(to + i, &half, sizeof half);
    }
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
#endif
