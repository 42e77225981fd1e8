/* The ways to all-reduce between processes that share memory, as fast as is known; included by limit.c alone.
 *
 *     line   one round: the data travel in the cache line that says they are there
 *     slot   one round: every rank copies its data to a slot and folds everybody's slots
 *     mesh   a round to enter, every rank folds its 1/N from all buffers and stores it to all of them, a round to leave
 *
 * Rounds.  A rank has two lines (and two slots), used in turn.  In round k it fills line k % 2 and publishes k; then it
 * waits for everybody's k.  Two suffice: who publishes k + 2 has seen all of k + 1, and nobody publishes k + 1 before it
 * has read all of k.
 *
 * A waiter looks, yields, and in the end sleeps, as a runtime's has to: a limit that burns every core while it waits is
 * no limit for real programs.  The word of a line is the round shifted left by one, plus a bit "somebody sleeps".
 * Sleepers set it by compare and swap, the owner publishes by exchange and wakes if it was set.  Both are
 * read-modify-writes of one word, so either the sleeper sees the new round or the owner sees the bit: no wake-up is lost.
 *     written by the owner  EXCHANGE, ACQ_REL: all it stored before is visible to who sees the new round
 *     read by the others    ACQUIRE; pairs with that exchange */
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_RANKS = 64,
    SPACING = 128,               /* bytes: x86 prefetches lines in pairs, Kunpeng's L3 lines are that long */
    LINE_FLOATS = 64 / 4 - 1,    /* what one cache line holds besides the word */
    SLOT_FLOATS = 16 * 1024 / 4, /* beyond it a second round costs less than everybody folding everything */
    ALIGN = 64 / 4,              /* floats: chunks begin at cache lines */
    SLEEP_MS = 50,
    WINDOW_FLOATS = 1 << 28,     /* a rank's buffer: address space, memory is taken only as it is touched */
};

enum way { LINE, SLOT, MESH, WAYS };

struct line {
    _Alignas(SPACING) _Atomic uint32_t word;
    float payload[LINE_FLOATS];
};

struct meeting {
    struct line lines[2][MAX_RANKS];
    _Alignas(4096) float slots[2][MAX_RANKS][SLOT_FLOATS];
};

struct rank {
    int rank, size;
    int spins, yields; /* how often a waiter looks before it yields, and before it sleeps */
    uint32_t round;
    struct meeting *meeting;
    float *buffers[MAX_RANKS];
};

/* ---- Waiting ---- */

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static void futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *limit)
{
    syscall(SYS_futex, word, operation, value, limit, NULL, 0);
}

static bool arrived(_Atomic uint32_t *word, uint32_t round)
{
    return atomic_load_explicit(word, memory_order_acquire) >> 1 == round;
}

static void sleep_until(_Atomic uint32_t *word, uint32_t round)
{
    const struct timespec limit = {.tv_nsec = SLEEP_MS * 1000000L};
    for (;;) {
        uint32_t seen = atomic_load_explicit(word, memory_order_acquire);
        if (seen >> 1 == round)
            return;
        if ((seen & 1) || atomic_compare_exchange_strong(word, &seen, seen | 1))
            futex(word, FUTEX_WAIT, seen | 1, &limit);
    }
}

/* With a core for every rank a short spin wins.  With more ranks than cores the peer waited for is probably the one that
 * needs this very core: every pause is lost, and yielding at once is three times as fast as 100 pauses before it. */
static void set_patience(struct rank *self)
{
    cpu_set_t allowed;
    bool crowded = sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) < self->size;
    self->spins = crowded ? 0 : 100;
    self->yields = 200;
}

static const struct line *await(const struct rank *self, int peer)
{
    struct line *line = &self->meeting->lines[self->round & 1][peer];
    for (int i = 0; i < self->spins; i++) {
        if (arrived(&line->word, self->round))
            return line;
        pause_cpu();
    }
    for (int i = 0; i < self->yields; i++) {
        if (arrived(&line->word, self->round))
            return line;
        sched_yield();
    }
    sleep_until(&line->word, self->round);
    return line;
}

static void publish(struct rank *self)
{
    struct line *mine = &self->meeting->lines[self->round & 1][self->rank];
    if (atomic_exchange_explicit(&mine->word, self->round << 1, memory_order_acq_rel) & 1)
        futex(&mine->word, FUTEX_WAKE, INT32_MAX, NULL);
}

static void begin_round(struct rank *self)
{
    self->round = (self->round + 1) & (UINT32_MAX >> 1);
}

static void barrier(struct rank *self)
{
    begin_round(self);
    publish(self);
    for (int peer = 0; peer < self->size; peer++)
        await(self, peer);
}

/* ---- The three ways ---- */

#if defined(__x86_64__)
#define EACH_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define EACH_CPU
#endif
typedef float vector __attribute__((vector_size(64), aligned(4), may_alias));

/* Sums the sources in the order listed and stores the sum to every destination; they may be the same memory. */
EACH_CPU static void fold(float *const *dsts, int ndst, float *const *srcs, int nsrc, size_t begin, size_t end)
{
    enum { LANES = sizeof(vector) / sizeof(float), STEP = 4 * LANES };
    size_t i = begin;
    for (; i + STEP <= end; i += STEP) {
        const vector *first = (const vector *)(srcs[0] + i);
        vector a = first[0], b = first[1], c = first[2], d = first[3];
        for (int s = 1; s < nsrc; s++) {
            const vector *next = (const vector *)(srcs[s] + i);
            a += next[0], b += next[1], c += next[2], d += next[3];
        }
        for (int t = 0; t < ndst; t++) {
            vector *to = (vector *)(dsts[t] + i);
            to[0] = a, to[1] = b, to[2] = c, to[3] = d;
        }
    }
    for (; i < end; i++) {
        float sum = srcs[0][i];
        for (int s = 1; s < nsrc; s++)
            sum += srcs[s][i];
        for (int t = 0; t < ndst; t++)
            dsts[t][i] = sum;
    }
}

static void all_reduce_line(struct rank *self, size_t count)
{
    float *mine = self->buffers[self->rank];
    begin_round(self);
    memcpy(self->meeting->lines[self->round & 1][self->rank].payload, mine, count * sizeof *mine);
    publish(self);

    float sum[LINE_FLOATS] = {0};
    for (int peer = 0; peer < self->size; peer++) {
        const float *from = await(self, peer)->payload;
        for (size_t i = 0; i < count; i++)
            sum[i] += from[i];
    }
    memcpy(mine, sum, count * sizeof *mine);
}

static void all_reduce_slot(struct rank *self, size_t count)
{
    float *mine = self->buffers[self->rank];
    begin_round(self);
    float(*slots)[SLOT_FLOATS] = self->meeting->slots[self->round & 1];
    memcpy(slots[self->rank], mine, count * sizeof *mine);
    publish(self);

    float *srcs[MAX_RANKS];
    for (int peer = 0; peer < self->size; peer++) {
        await(self, peer);
        srcs[peer] = peer == self->rank ? mine : slots[peer];
    }
    fold(&mine, 1, srcs, self->size, 0, count);
}

static void all_reduce_mesh(struct rank *self, size_t count)
{
    size_t units = (count + ALIGN - 1) / ALIGN;
    size_t begin = units * (size_t)self->rank / (size_t)self->size * ALIGN;
    size_t end = units * ((size_t)self->rank + 1) / (size_t)self->size * ALIGN;
    barrier(self);
    fold(self->buffers, self->size, self->buffers, self->size, begin, end < count ? end : count);
    barrier(self);
}

static const struct {
    const char *name;
    size_t most_floats;
    void (*all_reduce)(struct rank *self, size_t count);
} ways[WAYS] = {
    [LINE] = {"line", LINE_FLOATS, all_reduce_line},
    [SLOT] = {"slot", SLOT_FLOATS, all_reduce_slot},
    [MESH] = {"mesh", WINDOW_FLOATS, all_reduce_mesh},
};
