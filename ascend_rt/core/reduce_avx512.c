/* The kernels for x86-64 processors with AVX-512 (F, BW, VL, DQ): the same source, compiled for them.
 * Rounding to bf16 is written out: the instruction of AVX512_BF16 flushes subnormals to zero. */
#ifdef __x86_64__
#include <immintrin.h>

#include "reduce_variants.h"

/* Compilers left to choose stay with 256 bits on many processors.  A quarter of the registers: a larger step gains nothing
 * and leaves more elements to the loop that takes them one by one. */
#define KERNEL_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,f16c,prefer-vector-width=512")))
#define STEP_NBYTES 256
#define FIND_REDUCE find_reduce_avx512

#include "reduce_f16c.h"

KERNEL_INLINE void widen_fp16(float *to, const uint16_anywhere *from, size_t lanes)
{
    size_t i = 0;
    for (; lanes - i >= 16; i += 16)
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(from + i))));
    widen_fp16_from(i, to, from, lanes);
}

/* Thirty-two at a time: the result is read back in whole vectors, and half a vector would not be forwarded to that load. */
KERNEL_INLINE void narrow_fp16(uint16_t *to, const float *from, size_t lanes)
{
    size_t i = 0;
    for (; lanes - i >= 32; i += 32) {
        __m256i low = _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
        __m256i high = _mm512_cvtps_ph(_mm512_loadu_ps(from + i + 16), _MM_FROUND_TO_NEAREST_INT);
        _mm512_storeu_si512(to + i, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
    }
    narrow_fp16_from(i, to, from, lanes);
}

KERNEL_INLINE void widen_bf16(float *to, const uint16_anywhere *from, size_t lanes)
{
    size_t i = 0;
    for (; lanes - i >= 16; i += 16) {
        __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(from + i)));
        _mm512_storeu_ps(to + i, _mm512_castsi512_ps(_mm512_slli_epi32(high, 16)));
    }
    for (; i < lanes; i++)
        to[i] = widen_one_bf16(from[i]);
}

/* narrow_one_bf16, sixteen at a time. */
KERNEL_INLINE __m512i round_bf16(__m512i bits)
{
    __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i carried = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), last);
    return _mm512_srli_epi32(carried, 16);
}

KERNEL_INLINE void narrow_bf16(uint16_t *to, const float *from, size_t lanes)
{
    const __m512i in_order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    size_t i = 0;
    for (; lanes - i >= 32; i += 32) {
        __m512i low = round_bf16(_mm512_loadu_si512(from + i));
        __m512i high = round_bf16(_mm512_loadu_si512(from + i + 16));
        __m512i quarters_interleaved = _mm512_packus_epi32(low, high);
        _mm512_storeu_si512(to + i, _mm512_permutexvar_epi64(in_order, quarters_interleaved));
    }
    for (; i < lanes; i++)
        to[i] = narrow_one_bf16(from[i]);
}

#include "reduce_kernels.h"
#endif
