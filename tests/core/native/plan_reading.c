/* Packed plans that are cut off or damaged: refused, or as harmless as a plan that reads well.
 *
 *     plan_reading PLANFILE SEED ROUNDS */
#include <string.h>

#include "dice.h"
#include "elements.h"
#include "expect.h"
#include "plan_file.h"

static void expect_inside(const struct plan *plan, const struct step *step, const struct place *place)
{
    int64_t blocks = place->buffer == BUFFER_IN ? plan->blocks_in : plan->blocks_out;
    int64_t chunks = place->buffer == BUFFER_SCRATCH ? plan->scratch_chunks : blocks * plan->chunks;
    EXPECT(place->rank >= 0 && place->rank < plan->ranks);
    EXPECT(place->buffer >= BUFFER_IN && place->buffer <= BUFFER_SCRATCH);
    EXPECT(place->chunk >= 0 && place->chunk + (int64_t)step->n <= chunks);
}

/* Elements from the start of the buffer to the end of what the step touches, `length` elements from the place. */
static uint64_t end_of(const struct cut *cut, const struct place *place, uint64_t length)
{
    uint64_t start = place->buffer == BUFFER_SCRATCH ? (uint64_t)place->chunk * scratch_chunk_count(cut)
                                                     : chunk_start(cut, (uint64_t)place->chunk);
    return start + length;
}

/* What the step moves stays in all buffers; its first place that is not scratch says how long that is. */
static void expect_lengths_inside(const struct plan *plan, const struct step *step, uint64_t count)
{
    struct cut cut = cut_count(count, (uint32_t)plan->chunks, 4);
    uint64_t length = (uint64_t)step->n * scratch_chunk_count(&cut);
    for (int32_t i = step->ndst + step->nsrc - 1; i >= 0; i--) {
        uint64_t chunk = (uint64_t)step->dst[i].chunk;
        if (step->dst[i].buffer != BUFFER_SCRATCH)
            length = chunk_start(&cut, chunk + (uint64_t)step->n) - chunk_start(&cut, chunk);
    }
    for (int32_t i = 0; i < step->ndst + step->nsrc; i++) {
        const struct place *place = &step->dst[i];
        uint64_t blocks = (uint64_t)(place->buffer == BUFFER_IN ? plan->blocks_in : plan->blocks_out);
        uint64_t all = place->buffer == BUFFER_SCRATCH ? (uint64_t)plan->scratch_chunks * scratch_chunk_count(&cut)
                                                       : blocks * count;
        EXPECT(end_of(&cut, place, length) <= all);
    }
}

static void expect_harmless(const struct plan *plan)
{
    static const uint64_t counts[] = {0, 1, 15, 16, 17, 100, 5000};
    EXPECT(plan->ranks > 0 && plan->rank >= 0 && plan->rank < plan->ranks && plan->chunks > 0);
    for (const struct step *step = plan->steps; step < plan->steps + plan->nsteps; step++) {
        if (step->kind == STEP_POST || step->kind == STEP_WAIT) {
            EXPECT(step->peer >= 0 && step->peer < plan->ranks && step->peer != plan->rank);
            continue;
        }
        EXPECT(step->kind == STEP_COPY || step->kind == STEP_REDUCE);
        EXPECT(step->n > 0 && step->ndst > 0 && step->nsrc > 0);
        EXPECT(step->ndst <= plan->ranks && step->nsrc <= plan->ranks);
        EXPECT(step->src == step->dst + step->ndst);
        for (int32_t i = 0; i < step->ndst + step->nsrc; i++)
            expect_inside(plan, step, &step->dst[i]);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            expect_lengths_inside(plan, step, counts[i]);
    }
}

/* In a block of exactly its size, so that a read behind the end is found. */
static bool reads(const int32_t *words, size_t nwords)
{
    struct plan plan;
    int32_t *own = malloc(nwords * sizeof *words + !nwords);
    EXPECT(own != NULL);
    memcpy(own, words, nwords * sizeof *words);
    const char *wrong = plan_read(&plan, own, nwords);
    free(own);
    if (wrong) {
        EXPECT(strlen(wrong) > 10);
        return false;
    }
    expect_harmless(&plan);
    plan_free(&plan);
    return true;
}

static void cut_off_anywhere(const struct packed *packed)
{
    EXPECT(reads(packed->words, packed->nwords));
    for (size_t nwords = 0; nwords < packed->nwords; nwords++)
        EXPECT(!reads(packed->words, nwords));
}

static void a_word_too_many(const struct packed *packed)
{
    int32_t *words = calloc(packed->nwords + 1, sizeof *words);
    EXPECT(words != NULL);
    memcpy(words, packed->words, packed->nwords * sizeof *words);
    EXPECT(!reads(words, packed->nwords + 1));
    free(words);
}

static int32_t other_word(struct dice *dice, int32_t word)
{
    static const int32_t interesting[] = {0, 1, 2, 3, 4, 5, 8, -1, INT32_MAX, INT32_MIN, INT32_MAX - 1, 1 << 30};
    switch (roll_below(dice, 4)) {
    case 0: return (int32_t)((uint32_t)word + 1);
    case 1: return (int32_t)((uint32_t)word - 1);
    case 2: return (int32_t)roll(dice);
    default: return interesting[roll_below(dice, sizeof interesting / sizeof *interesting)];
    }
}

static bool reads_when_damaged(const struct packed *packed, struct dice *dice)
{
    int32_t *words = malloc(packed->nwords * sizeof *words);
    EXPECT(words != NULL);
    memcpy(words, packed->words, packed->nwords * sizeof *words);
    for (uint32_t changes = 1 + roll_below(dice, 4); changes; changes--) {
        /* The header and the first step are most of the meaning. */
        size_t most = roll_below(dice, 2) ? packed->nwords : packed->nwords < 16 ? packed->nwords : 16;
        size_t at = roll_below(dice, most);
        words[at] = other_word(dice, words[at]);
    }
    bool good = reads(words, packed->nwords);
    free(words);
    return good;
}

/* A reduce whose numbers of destinations and sources have a sum that does not fit. */
static void more_places_than_a_word_counts(void)
{
    int32_t words[40] = {PLAN_MAGIC, INT32_MAX, 0, 1, 1, 1, 0, 1, 1, STEP_REDUCE, 1, 0, 1 << 30, 1 << 30};
    EXPECT(!reads(words, 40));
    words[12] = words[13] = INT32_MAX;
    EXPECT(!reads(words, 40));
}

int main(int argc, char **argv)
{
    EXPECT_EQUAL(argc, 4);
    struct dice dice = {strtoull(argv[2], NULL, 0)};
    struct plan_file file;
    plan_file_read(&file, argv[1]);
    for (size_t i = 0; i < file.nplans; i++) {
        cut_off_anywhere(&file.plans[i]);
        a_word_too_many(&file.plans[i]);
    }
    more_places_than_a_word_counts();
    uint64_t rounds = strtoull(argv[3], NULL, 0), good = 0;
    for (uint64_t round = 0; round < rounds; round++)
        good += reads_when_damaged(&file.plans[roll_below(&dice, file.nplans)], &dice);
    printf("%" PRIu64 " of %" PRIu64 " damaged plans are harmless\n", good, rounds);
    plan_file_close(&file);
    return 0;
}
