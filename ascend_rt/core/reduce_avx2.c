/* The kernels for x86-64 processors with AVX2 and F16C: the same source, compiled for them. */
#ifdef __x86_64__
#include <immintrin.h>

#include "reduce_variants.h"

#define KERNEL_TARGET __attribute__((target("avx2,f16c")))
#define STEP_NBYTES 256
#define FIND_REDUCE find_reduce_avx2

#include "reduce_f16c.h"

KERNEL_INLINE void widen_fp16(float *to, const uint16_anywhere *from, size_t lanes)
{
    widen_fp16_from(0, to, from, lanes);
}

/* Sixteen at a time: the result is read back in whole vectors, and half a vector would not be forwarded to that load. */
KERNEL_INLINE void narrow_fp16(uint16_t *to, const float *from, size_t lanes)
{
    size_t i = 0;
    for (; lanes - i >= 16; i += 16) {
        __m128i low = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
        __m128i high = _mm256_cvtps_ph(_mm256_loadu_ps(from + i + 8), _MM_FROUND_TO_NEAREST_INT);
        _mm256_storeu_si256((void *)(to + i), _mm256_set_m128i(high, low));
    }
    narrow_fp16_from(i, to, from, lanes);
}

KERNEL_INLINE void widen_bf16(float *to, const uint16_anywhere *from, size_t lanes)
{
    size_t i = 0;
    for (; lanes - i >= 8; i += 8) {
        __m256i high = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(from + i)));
        _mm256_storeu_ps(to + i, _mm256_castsi256_ps(_mm256_slli_epi32(high, 16)));
    }
    for (; i < lanes; i++)
        to[i] = widen_one_bf16(from[i]);
}

/* narrow_one_bf16, eight at a time. */
KERNEL_INLINE __m256i round_bf16(__m256i bits)
{
    __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i carried = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), last);
    return _mm256_srli_epi32(carried, 16);
}

KERNEL_INLINE void narrow_bf16(uint16_t *to, const float *from, size_t lanes)
{
    size_t i = 0;
    for (; lanes - i >= 16; i += 16) {
        __m256i low = round_bf16(_mm256_loadu_si256((const void *)(from + i)));
        __m256i high = round_bf16(_mm256_loadu_si256((const void *)(from + i + 8)));
        __m256i halves_interleaved = _mm256_packus_epi32(low, high);
        _mm256_storeu_si256((void *)(to + i), _mm256_permute4x64_epi64(halves_interleaved, _MM_SHUFFLE(3, 1, 2, 0)));
    }
    for (; i < lanes; i++)
        to[i] = narrow_one_bf16(from[i]);
}

#include "reduce_kernels.h"
#endif
