/* fp16 to fp32 and back, eight at a time and then one by one, from element `i` on: what AVX2 and AVX-512 kernels share.
 * Included after KERNEL_TARGET, which has F16C and AVX. */
KERNEL_INLINE void widen_fp16_from(size_t i, float *to, const uint16_anywhere *from, size_t lanes)
{
    for (; lanes - i >= 8; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + i))));
    for (; i < lanes; i++)
        to[i] = _cvtsh_ss(from[i]);
}

KERNEL_INLINE void narrow_fp16_from(size_t i, uint16_t *to, const float *from, size_t lanes)
{
    for (; lanes - i >= 8; i += 8)
        _mm_storeu_si128((void *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < lanes; i++)
        to[i] = _cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT);
}
