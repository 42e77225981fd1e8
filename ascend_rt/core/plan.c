#include "plan.h"

#include <stdlib.h>
#include <string.h>

enum { PLACE_WORDS = 3, ALIGNMENT_NBYTES = 64, MOST_CHUNKS = 1 << 20 };

_Static_assert(sizeof(struct place) == PLACE_WORDS * sizeof(int32_t), "places are read where they lie");

struct cut cut_count(uint64_t count, uint32_t chunks, size_t item_nbytes)
{
    uint64_t align = item_nbytes < ALIGNMENT_NBYTES ? ALIGNMENT_NBYTES / item_nbytes : 1;
    return (struct cut){count, align, (count + align - 1) / align, chunks};
}

uint64_t chunk_start(const struct cut *cut, uint64_t chunk)
{
    uint64_t start = chunk % cut->chunks * cut->units / cut->chunks * cut->align;
    return chunk / cut->chunks * cut->count + (start < cut->count ? start : cut->count);
}

uint64_t scratch_chunk_count(const struct cut *cut)
{
    return (cut->units + cut->chunks - 1) / cut->chunks * cut->align;
}

uint64_t most_count_for_scratch(uint64_t chunk_nbytes, uint32_t chunks, size_t item_nbytes)
{
    struct cut cut = cut_count(1, chunks, item_nbytes);
    uint64_t units = chunk_nbytes / (cut.align * item_nbytes);
    return (units ? units : 1) * chunks * cut.align;
}

static int64_t chunks_in(const struct plan *plan, int32_t buffer)
{
    switch (buffer) {
    case BUFFER_IN: return (int64_t)plan->blocks_in * plan->chunks;
    case BUFFER_OUT: return (int64_t)plan->blocks_out * plan->chunks;
    case BUFFER_SCRATCH: return plan->scratch_chunks;
    default: return 0;
    }
}

static const char *check_place(const struct plan *plan, const struct place *place, int32_t n)
{
    if (place->rank < 0 || place->rank >= plan->ranks)
        return "a step names a rank outside of the communicator";
    if (place->chunk < 0 || place->chunk + (int64_t)n > chunks_in(plan, place->buffer))
        return "a step leaves its buffer";
    return NULL;
}

/* One length for all places of a step: they lie in their buffers, and those that are not scratch are congruent modulo C. */
static const char *check_places(const struct plan *plan, const struct step *step)
{
    const struct place *first = NULL;
    for (const struct place *place = step->dst; place < step->src + step->nsrc; place++) {
        const char *wrong = check_place(plan, place, step->n);
        if (wrong)
            return wrong;
        if (place->buffer == BUFFER_SCRATCH)
            continue;
        first = first ? first : place;
        if (place->chunk % plan->chunks != first->chunk % plan->chunks)
            return "the chunks of a step differ in length";
    }
    return NULL;
}

/* The words of one step at *at; moves *at behind it. */
static const char *read_step(const struct plan *plan, struct step *step, const int32_t *end, const int32_t **at)
{
    const int32_t *word = *at;
    if (end - word < 2)
        return "the last step is cut off";
    *step = (struct step){.kind = (enum step_kind)word[0], .n = word[1], .ndst = 1, .nsrc = 1};
    if (step->kind == STEP_POST || step->kind == STEP_WAIT) {
        step->peer = word[1];
        *at = word + 2;
        return step->peer < 0 || step->peer >= plan->ranks || step->peer == plan->rank ? "a token for no peer" : NULL;
    }
    word += 2;
    if (step->kind == STEP_REDUCE) {
        if (end - word < 3)
            return "the last step is cut off";
        step->complete = word[0];
        step->ndst = word[1];
        step->nsrc = word[2];
        word += 3;
    } else if (step->kind != STEP_COPY) {
        return "an unknown step";
    }
    if (step->n < 1 || step->ndst < 1 || step->nsrc < 1 || step->ndst > plan->ranks || step->nsrc > plan->ranks)
        return "a step moves nothing, or has more places than there are ranks";
    if (end - word < ((int64_t)step->ndst + step->nsrc) * PLACE_WORDS)
        return "the last step is cut off";
    step->dst = (const struct place *)word;
    step->src = step->dst + step->ndst;
    *at = (const int32_t *)(step->src + step->nsrc);
    return check_places(plan, step);
}

static const char *read_steps(struct plan *plan, size_t nwords)
{
    const int32_t *at = plan->words + PLAN_HEADER, *end = plan->words + nwords;
    const char *wrong = NULL;
    for (size_t i = 0; i < plan->nsteps && !wrong; i++)
        wrong = read_step(plan, &plan->steps[i], end, &at);
    return wrong ? wrong : at != end ? "words behind the last step" : NULL;
}

const char *plan_read(struct plan *plan, const int32_t *words, size_t nwords)
{
    if (nwords < PLAN_HEADER || words[0] != PLAN_MAGIC)
        return "this is not a packed plan";
    *plan = (struct plan){
        .ranks = words[PLAN_RANKS], .rank = words[PLAN_RANK], .chunks = words[PLAN_CHUNKS],
        .blocks_in = words[PLAN_BLOCKS_IN], .blocks_out = words[PLAN_BLOCKS_OUT],
        .scratch_chunks = words[PLAN_SCRATCH], .touches = words[PLAN_TOUCHES], .nsteps = (size_t)words[PLAN_STEPS],
        .lends = {1, 1},
    };
    if (plan->ranks < 1 || plan->rank < 0 || plan->rank >= plan->ranks || plan->chunks < 1 || plan->chunks > MOST_CHUNKS ||
        plan->blocks_in < 0 || plan->blocks_out < 0 || plan->scratch_chunks < 0 || plan->nsteps > nwords)
        return "the header of the plan is out of range";
    plan->words = malloc(nwords * sizeof *words);
    plan->steps = malloc((plan->nsteps + 1) * sizeof *plan->steps);
    const char *wrong = "no memory for the plan";
    if (plan->words && plan->steps) {
        memcpy(plan->words, words, nwords * sizeof *words);
        wrong = read_steps(plan, nwords);
    }
    if (wrong)
        plan_free(plan);
    return wrong;
}

const char *plan_lend(struct plan *plan, const uint8_t *in, size_t nin, const uint8_t *out, size_t nout)
{
    const uint8_t *marks[2] = {in, out};
    const size_t lengths[2] = {nin, nout};
    for (int buffer = BUFFER_IN; buffer <= BUFFER_OUT; buffer++) {
        if ((int64_t)lengths[buffer] != chunks_in(plan, buffer))
            return "the marks of what is lent do not fit the plan";
        plan->lent[buffer] = malloc(lengths[buffer] + 1);
        if (!plan->lent[buffer])
            return "no memory for the plan";
        memcpy(plan->lent[buffer], marks[buffer], lengths[buffer]);
        plan->lends[buffer] = memchr(marks[buffer], 1, lengths[buffer]) != NULL;
    }
    return NULL;
}

int plan_is_lent(const struct plan *plan, enum buffer buffer, int64_t chunk)
{
    return !plan->lent[buffer] || plan->lent[buffer][chunk];
}

void plan_free(struct plan *plan)
{
    free(plan->lent[BUFFER_IN]);
    free(plan->lent[BUFFER_OUT]);
    plan->lent[BUFFER_IN] = plan->lent[BUFFER_OUT] = NULL;
    free(plan->words);
    free(plan->steps);
    plan->words = NULL;
    plan->steps = NULL;
}
