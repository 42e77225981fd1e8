/* Every kernel of every variant that runs here gives the bits of the plain one: random shapes of the call, inputs rich in
 * special values, any alignment, in place.  Buffers are exactly as large as they must be, so that AddressSanitizer sees a
 * byte too far.
 *     reduce_variants_agree SEED ROUNDS        ROUNDS calls of each dtype and op
 * Prints the numbers of the variants compared, and last a hash of all results, which must be the same on every machine. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduce.h"

enum { MOST_BUFFERS = 9, MOST_ELEMENTS = 700, MOST_OFFSET = 64, GUARD = 0xa5 };

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t below(uint64_t *state, uint64_t bound)
{
    return draw(state) % bound;
}

/* Bits that make the edge of some type: +-0, 1, infinity, NaNs with sign and payload, smallest and largest numbers. */
static uint64_t special_bits(uint64_t *state, size_t nbytes)
{
    static const uint64_t by_width[4][12] = {
        {0, 1, 0x7f, 0x80, 0x81, 0xff},
        {0, 0x8000, 0x3c00, 0x3f80, 0x7c00, 0xfc00, 0x7f80, 0xff80, 0xfe01, 0xffc1, 0x7bff, 0x0001},
        {0, 0x80000000, 0x3f800000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001, 0x7f7fffff, 1, 0x80000001,
         0xffffffff},
        {0, 0x8000000000000000, 0x3ff0000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000,
         0xfff8000000000001, 0x7ff0000000000001, 0x7fefffffffffffff, 1, 0x8000000000000001, UINT64_MAX},
    };
    int width = nbytes == 1 ? 0 : nbytes == 2 ? 1 : nbytes == 4 ? 2 : 3;
    return by_width[width][below(state, 12)];
}

/* A buffer of `nbytes` at some offset into its allocation, guarded before; the allocator guards behind. */
struct buffer {
    unsigned char *allocation, *bytes;
    size_t offset, nbytes;
};

static struct buffer new_buffer(size_t offset, size_t nbytes)
{
    struct buffer b = {.allocation = malloc(offset + nbytes), .offset = offset, .nbytes = nbytes};
    b.bytes = b.allocation + offset;
    memset(b.allocation, GUARD, offset + nbytes);
    return b;
}

static struct buffer copy_of(struct buffer from)
{
    struct buffer to = new_buffer(from.offset, from.nbytes);
    memcpy(to.bytes, from.bytes, from.nbytes);
    return to;
}

static int guard_is_intact(struct buffer b)
{
    for (size_t i = 0; i < b.offset; i++)
        if (b.allocation[i] != GUARD)
            return 0;
    return 1;
}

static void fill(uint64_t *state, struct buffer b, size_t itemsize)
{
    uint64_t one_in = below(state, 2) ? 4 : 1000; /* special values everywhere, or hardly any */
    for (size_t at = 0; at < b.nbytes; at += itemsize) {
        uint64_t bits = below(state, one_in) ? draw(state) : special_bits(state, itemsize);
        memcpy(b.bytes + at, &bits, itemsize); /* little-endian: the low bytes */
    }
}

/* One call, its sources as drawn; destination d is source in_place[d], or a buffer of its own. */
struct call {
    int dtype, op, nsrc, ndst;
    size_t count;
    uint32_t divisor;
    struct buffer sources[MOST_BUFFERS];
    int in_place[MOST_BUFFERS];
    size_t offsets[MOST_BUFFERS];
};

static struct call draw_call(uint64_t *state, int dtype, int op)
{
    struct call c = {.dtype = dtype, .op = op};
    c.nsrc = 1 + (int)below(state, MOST_BUFFERS); /* one by one: an initialiser would draw in any order */
    c.ndst = 1 + (int)below(state, MOST_BUFFERS);
    c.count = below(state, MOST_ELEMENTS);
    c.divisor = 1 + (uint32_t)below(state, below(state, 2) ? 16 : UINT32_MAX);
    for (int s = 0; s < c.nsrc; s++) {
        c.sources[s] = new_buffer(1 + below(state, MOST_OFFSET), c.count * dtype_nbytes(dtype));
        fill(state, c.sources[s], dtype_nbytes(dtype));
    }
    for (int d = 0; d < c.ndst; d++) {
        c.in_place[d] = d < c.nsrc && below(state, 3) == 0 ? d : -1;
        c.offsets[d] = 1 + below(state, MOST_OFFSET);
    }
    return c;
}

/* Runs the call on copies of its sources; `results` are the destinations' buffers. */
static void run(const struct call *c, enum kernel_variant variant, struct buffer *sources, struct buffer *results)
{
    const void *srcs[MOST_BUFFERS];
    void *dsts[MOST_BUFFERS];
    for (int s = 0; s < c->nsrc; s++) {
        sources[s] = copy_of(c->sources[s]);
        srcs[s] = sources[s].bytes;
    }
    for (int d = 0; d < c->ndst; d++) {
        results[d] = c->in_place[d] < 0 ? new_buffer(c->offsets[d], c->sources[0].nbytes) : sources[c->in_place[d]];
        dsts[d] = results[d].bytes;
    }
    find_reduce(c->dtype, c->op, variant)(dsts, c->ndst, srcs, c->nsrc, c->count, c->divisor);
}

static void require(int holds, const struct call *c, enum kernel_variant variant, const char *what)
{
    if (holds)
        return;
    printf("%s: variant %d, dtype %d op %d, %d sources, %d destinations, count %zu, divisor %" PRIu32 "\n", what,
           (int)variant, c->dtype, c->op, c->nsrc, c->ndst, c->count, c->divisor);
    exit(1);
}

/* Runs the call, holds every destination against `expected`, or, if that holds nothing yet, copies the first one there. */
static void check(const struct call *c, enum kernel_variant variant, struct buffer *expected)
{
    struct buffer sources[MOST_BUFFERS], results[MOST_BUFFERS];
    run(c, variant, sources, results);
    if (!expected->allocation)
        *expected = copy_of(results[0]);
    for (int d = 0; d < c->ndst; d++) {
        require(!memcmp(results[d].bytes, expected->bytes, expected->nbytes), c, variant, "a destination differs");
        require(guard_is_intact(results[d]), c, variant, "bytes before a destination are written");
    }
    for (int s = 0; s < c->nsrc; s++) {
        int overwritten = s < c->ndst && c->in_place[s] == s;
        require(overwritten || !memcmp(sources[s].bytes, c->sources[s].bytes, sources[s].nbytes), c, variant,
                "a source is written");
        free(sources[s].allocation);
    }
    for (int d = 0; d < c->ndst; d++)
        if (c->in_place[d] < 0)
            free(results[d].allocation);
}

/* FNV-1a. */
static uint64_t hash_bytes(uint64_t hash, struct buffer b)
{
    for (size_t i = 0; i < b.nbytes; i++)
        hash = (hash ^ b.bytes[i]) * 0x100000001b3u;
    return hash;
}

/* The call in all variants, the plain one first; returns `hash` with its result. */
static uint64_t compare(struct call *c, uint64_t hash)
{
    struct buffer expected = {0};
    for (int variant = KERNEL_PLAIN; variant < KERNEL_VARIANT_COUNT; variant++)
        if (has_kernel_variant(variant))
            check(c, (enum kernel_variant)variant, &expected);
    hash = hash_bytes(hash, expected);
    free(expected.allocation);
    for (int s = 0; s < c->nsrc; s++)
        free(c->sources[s].allocation);
    return hash;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    uint64_t state = strtoull(argv[1], NULL, 10), hash = 0xcbf29ce484222325u;
    int rounds = atoi(argv[2]);
    printf("seed %s, variants", argv[1]);
    for (int variant = 0; variant < KERNEL_VARIANT_COUNT; variant++)
        if (has_kernel_variant(variant))
            printf(" %d", variant);
    for (int round = 0; round < rounds; round++)
        for (int dtype = 0; dtype <= DTYPE_BFP16; dtype++)
            for (int op = 0; op < REDUCE_OP_COUNT; op++) {
                struct call c = draw_call(&state, dtype, op);
                hash = compare(&c, hash);
            }
    printf("\n%016" PRIx64 "\n", hash);
    return 0;
}
