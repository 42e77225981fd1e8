/* Template: the fold of one element type, fold_NAME.  reduce_kernels.h alone includes it, after defining
 *     NAME             what the functions are called after
 *     ELEMENT          the type in memory
 *     ACC              the type the fold happens in
 *     FLOATING         only if ACC is a floating type
 *     WIDEN, NARROW    (to, from, lanes): ELEMENT to ACC and back; without them, C's conversions
 *
 * `op` and `lanes` are constants where these functions are inlined: each copy is a row of straight loops over local
 * arrays, which the compiler keeps in vector registers.  A step reads all its sources before it stores: hence in place. */

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STEP_LANES (STEP_NBYTES / sizeof(ACC))

#ifdef FLOATING
#define WRAP ACC
#define IS_NAN(x) ((x) != (x))
#define QUIET_NAN ((ACC)NAN)
#else
/* Unsigned and wide: C promotes narrow types to int, whose overflow is undefined. */
#define WRAP uint64_t
#define IS_NAN(x) 0
#define QUIET_NAN 0
#endif

#ifndef WIDEN
#define WIDEN CONVERT_LANES
#define NARROW CONVERT_LANES
#endif

KERNEL_INLINE ACC JOIN(combine_, NAME)(ACC acc, ACC next, enum reduce_op op)
{
    switch (op) {
    case REDUCE_PROD:
        return (ACC)((WRAP)acc * (WRAP)next);
    case REDUCE_MAX:
        return (next > acc) | IS_NAN(next) ? next : acc;
    case REDUCE_MIN:
        return (next < acc) | IS_NAN(next) ? next : acc;
    default:
        return (ACC)((WRAP)acc + (WRAP)next);
    }
}

KERNEL_INLINE void JOIN(step_, NAME)(void *const *dsts, int ndst, const void *const *srcs, int nsrc, size_t at,
                                     size_t lanes, uint32_t divisor, enum reduce_op op)
{
    typedef ELEMENT element_anywhere __attribute__((aligned(1), may_alias));
    ACC acc[STEP_LANES], next[STEP_LANES];
    ELEMENT result[STEP_LANES];

    WIDEN(acc, (const element_anywhere *)srcs[0] + at, lanes);
    for (int s = 1; s < nsrc; s++) {
        WIDEN(next, (const element_anywhere *)srcs[s] + at, lanes);
        for (size_t i = 0; i < lanes; i++)
            acc[i] = JOIN(combine_, NAME)(acc[i], next[i], op);
    }
    if (op == REDUCE_AVG)
        for (size_t i = 0; i < lanes; i++)
            acc[i] /= (ACC)divisor;
    for (size_t i = 0; i < lanes; i++)
        acc[i] = IS_NAN(acc[i]) ? QUIET_NAN : acc[i];
    NARROW(result, acc, lanes);
    for (int d = 0; d < ndst; d++) {
        element_anywhere *dst = (element_anywhere *)dsts[d] + at;
        CONVERT_LANES(dst, result, lanes);
    }
}

/* Fewer elements than a step holds, eight by eight, then one by one; one copy for all ops.  With the eights, 1000 bytes
 * of fp32 take 0.07 us and not 0.2. */
KERNEL_TARGET __attribute__((noinline, noclone)) static void
JOIN(rest_, NAME)(void *const *dsts, int ndst, const void *const *srcs, int nsrc, size_t at, size_t count,
                  uint32_t divisor, enum reduce_op op)
{
    for (; count - at >= 8; at += 8)
        JOIN(step_, NAME)(dsts, ndst, srcs, nsrc, at, 8, divisor, op);
    for (; at < count; at++)
        JOIN(step_, NAME)(dsts, ndst, srcs, nsrc, at, 1, divisor, op);
}

/* Two sources, known when compiled, save the accumulator's way through memory: 40 % of the time while data is in L2. */
KERNEL_INLINE void JOIN(fold_, NAME)(void *const *dsts, int ndst, const void *const *srcs, int nsrc, size_t count,
                                     uint32_t divisor, enum reduce_op op)
{
    size_t at = 0;
    if (nsrc == 2)
        for (; count - at >= STEP_LANES; at += STEP_LANES)
            JOIN(step_, NAME)(dsts, ndst, srcs, 2, at, STEP_LANES, divisor, op);
    else
        for (; count - at >= STEP_LANES; at += STEP_LANES)
            JOIN(step_, NAME)(dsts, ndst, srcs, nsrc, at, STEP_LANES, divisor, op);
    if (at < count)
        JOIN(rest_, NAME)(dsts, ndst, srcs, nsrc, at, count, divisor, op);
}

#undef NAME
#undef ELEMENT
#undef ACC
#undef FLOATING
#undef WRAP
#undef WIDEN
#undef NARROW
#undef IS_NAN
#undef QUIET_NAN
#undef JOIN_
#undef JOIN
#undef STEP_LANES
