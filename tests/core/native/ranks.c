/* Ranks as threads of one process, on real futexes: a random sequence of calls, the same on all ranks.
 *
 *     ranks SIZE SEED ROUNDS PLANFILE spin|sleep
 *
 * Every call is one of: payload in the line, a plan of the file, a mismatch (one rank makes another call), a refusal,
 * a tell, a shift of the numbers that a resync ends.  After it each rank compares all of its memory, borders included, with what a plain fold of everybody's data
 * gives. */
#include "calls.h"
#include "elements.h"
#include "expect.h"
#include "order.h"
#include "threads.h"

enum { BORDER_NBYTES = 256, MOST_SHIFT = 16 };
enum { REGION_NBYTES = MOST_RANKS * MOST_COUNT * 4 + 2 * BORDER_NBYTES + MOST_SHIFT * 4 };
enum event { PAYLOAD, PLAN, MISMATCH, REFUSAL, TELL, SHIFT };

/* One rank: its own memory and its own view of the sequence. */
struct runner {
    struct test *test;
    uint32_t rank;
    struct arena arena;
    struct communicator communicator;
    struct dice common, own;     /* the sequence of calls; where my buffers are */
    unsigned char *region[2];    /* of IN and OUT, with borders */
    unsigned char *image[2];     /* what they must hold */
    uint32_t calls, commits;     /* expected */
    uint32_t failures;
    uint32_t mismatched_shifts; /* one call more than the round has */
};

/* ---- memory: two regions, each with borders, filled before and compared after every call ---- */

struct buffers {
    unsigned char *in, *out;
    uint64_t in_count, out_count;
};

/* In place or not: each rank decides for itself. */
static struct buffers place_buffers(struct runner *runner, const struct drawn *drawn)
{
    size_t nbytes = drawn->count * dtype_nbytes(drawn->dtype);
    uint32_t size = runner->test->size;
    struct buffers at = {.in_count = drawn->count * blocks_in(drawn, runner->rank, size),
                         .out_count = drawn->count * blocks_out(drawn, runner->rank, size)};
    bool in_place = roll_below(&runner->own, 2) && drawn->collective != ALL_TO_ALL;
    size_t shift[2] = {roll_below(&runner->own, MOST_SHIFT), roll_below(&runner->own, MOST_SHIFT)};
    at.in = runner->region[0] + BORDER_NBYTES + shift[0] * dtype_nbytes(drawn->dtype);
    at.out = runner->region[1] + BORDER_NBYTES + shift[1] * dtype_nbytes(drawn->dtype);
    if (!in_place)
        return at;
    if (drawn->collective == ALL_GATHER || drawn->collective == GATHER)
        at.in = at.out + runner->rank * nbytes;
    else if (drawn->collective == REDUCE_SCATTER || drawn->collective == SCATTER)
        at.out = at.in + runner->rank * nbytes;
    else
        at.out = at.in;
    return at;
}

static size_t used_nbytes(const struct runner *runner, const struct drawn *drawn)
{
    return runner->test->size * drawn->count * dtype_nbytes(drawn->dtype) + 2 * BORDER_NBYTES + MOST_SHIFT * 4;
}

static void fill(struct runner *runner, const struct buffers *at, uint64_t round, const struct drawn *drawn)
{
    size_t nbytes = used_nbytes(runner, drawn);
    for (int region = 0; region < 2; region++)
        for (size_t i = 0; i < nbytes; i++)
            runner->region[region][i] = (unsigned char)(i * 7 + runner->rank * 31 + round);
    for (uint64_t i = 0; i < at->in_count; i++)
        store_element(drawn->dtype, at->in, i, element_of(round, runner->rank, i, drawn));
    for (int region = 0; region < 2; region++)
        memcpy(runner->image[region], runner->region[region], nbytes);
}

static void compare(struct runner *runner, const struct drawn *drawn)
{
    for (int region = 0; region < 2; region++)
        EXPECT(!memcmp(runner->image[region], runner->region[region], used_nbytes(runner, drawn)));
}

static void compare_result(struct runner *runner, const struct buffers *at, uint64_t round, const struct drawn *drawn)
{
    int region = at->out >= runner->region[1] && at->out < runner->region[1] + REGION_NBYTES;
    unsigned char *image = runner->image[region] + (at->out - runner->region[region]);
    for (uint64_t i = 0; i < at->out_count; i++)
        store_element(drawn->dtype, image, i, result_of(round, runner->rank, runner->test->size, i, drawn));
    compare(runner, drawn);
}

/* ---- one call ---- */

static enum call_end make_call(struct runner *runner, const struct buffers *at, const struct drawn *drawn)
{
    struct call call = {.collective = drawn->collective, .dtype = drawn->dtype, .op = drawn->op, .root = drawn->root,
                        .count = drawn->count, .in = at->in, .out = at->out};
    prefer_choice(&runner->communicator, &call, drawn->fingerprint);
    EXPECT(communicator_scratch_needed(&runner->communicator, &call) <= runner->communicator.scratch_nbytes);
    runner->calls++;
    return communicator_call(&runner->communicator, &call);
}

static void call_alike(struct runner *runner, uint64_t round, const struct drawn *drawn)
{
    struct buffers at = place_buffers(runner, drawn);
    fill(runner, &at, round, drawn);
    EXPECT_EQUAL(make_call(runner, &at, drawn), CALL_DONE);
    runner->commits += !drawn->is_exchange;
    if (drawn->collective == BARRIER)
        compare(runner, drawn);
    else
        compare_result(runner, &at, round, drawn);
}

static const char *note_of(struct runner *runner, uint32_t rank)
{
    struct communicator *c = &runner->communicator;
    return board_note(c->board, c->size, (c->round - 1) % SLOTS, rank)->text;
}

static void call_other_than_the_rest(struct runner *runner, uint64_t round, const struct drawn *drawn,
                                     const struct drawn *other, uint32_t odd)
{
    const struct drawn *mine = runner->rank == odd ? other : drawn;
    struct buffers at = place_buffers(runner, mine);
    fill(runner, &at, round, mine);
    EXPECT_EQUAL(make_call(runner, &at, mine), CALL_DIFFERS);
    runner->failures++;
    compare(runner, mine);
    for (uint32_t rank = 0; rank < runner->test->size; rank++) {
        const struct drawn *wanted = rank == odd ? other : drawn;
        const struct descriptor *said = &runner->communicator.failure->statements[rank].said;
        struct drawn got = {.collective = said->collective, .dtype = said->dtype, .op = said->op, .root = said->root,
                            .fingerprint = said->fingerprint, .count = said->count};
        EXPECT(same_call(&got, wanted));
        EXPECT_EQUAL(said->call, runner->calls);
    }
}

/* Some ranks have counted calls that were not run: a mismatch, and a resync ends it. */
static void shift_numbers(struct runner *runner, uint64_t round, const struct drawn *drawn)
{
    struct communicator *c = &runner->communicator;
    uint32_t shifts[MOST_RANKS] = {0}, most = 0, least = UINT32_MAX;
    for (uint32_t rank = 0; rank < runner->test->size; rank++) {
        shifts[rank] = roll_below(&runner->common, 3);
        most = shifts[rank] > most ? shifts[rank] : most;
        least = shifts[rank] < least ? shifts[rank] : least;
    }
    for (uint32_t i = 0; i < shifts[runner->rank]; i++)
        communicator_take_number(c);
    uint32_t calls = runner->calls;
    if (most > least) {
        struct buffers at = place_buffers(runner, drawn);
        fill(runner, &at, round, drawn);
        EXPECT_EQUAL(make_call(runner, &at, drawn), CALL_DIFFERS);
        compare(runner, drawn);
        for (uint32_t rank = 0; rank < runner->test->size; rank++)
            EXPECT_EQUAL(c->failure->statements[rank].said.call, calls + shifts[rank] + 1);
        runner->mismatched_shifts++;
    }
    EXPECT_EQUAL(communicator_resync(c, communicator_take_number(c)), CALL_DONE);
    runner->calls += most + 1;
    EXPECT_EQUAL(c->call, runner->calls);
}

/* ---- text ---- */

/* Longer than a note now and then: it is clipped. */
static void write_text(char *text, uint64_t round, uint32_t rank)
{
    int length = snprintf(text, 64, "rank %u in round %" PRIu64 " ", rank, round);
    size_t end = mixed(round + rank) % 4 ? (size_t)length : NOTE_NBYTES + 50;
    for (size_t i = (size_t)length; i < end; i++)
        text[i] = (char)('a' + (i + round + rank) % 26);
    text[end] = 0;
}

static void compare_note(const char *note, uint64_t round, uint32_t rank)
{
    char text[2 * NOTE_NBYTES];
    write_text(text, round, rank);
    text[NOTE_NBYTES - 1] = 0;
    EXPECT(!strcmp(note, text));
}

static void refuse(struct runner *runner, uint64_t round, const struct drawn *drawn, uint32_t odd)
{
    runner->failures++;
    struct buffers at = place_buffers(runner, drawn);
    fill(runner, &at, round, drawn);
    if (runner->rank == odd) {
        char why[2 * NOTE_NBYTES];
        write_text(why, round, odd);
        runner->calls++;
        EXPECT_EQUAL(communicator_refuse(&runner->communicator, drawn->collective,
                                         communicator_take_number(&runner->communicator), why), CALL_DIFFERS);
    } else {
        EXPECT_EQUAL(make_call(runner, &at, drawn), CALL_DIFFERS);
    }
    compare(runner, drawn);
    const struct statement *statements = runner->communicator.failure->statements;
    for (uint32_t rank = 0; rank < runner->test->size; rank++)
        EXPECT_EQUAL(statements[rank].said.flags & LINE_REFUSED, rank == odd ? LINE_REFUSED : 0);
    compare_note(statements[odd].note, round, odd);
}

static void tell(struct runner *runner, uint64_t round)
{
    char text[2 * NOTE_NBYTES];
    write_text(text, round, runner->rank);
    EXPECT_EQUAL(communicator_tell(&runner->communicator, text), CALL_DONE);
    for (uint32_t rank = 0; rank < runner->test->size; rank++)
        compare_note(note_of(runner, rank), round, rank);
}

/* ---- a rank ---- */

static struct drawn draw_call(const struct test *test, struct dice *dice)
{
    return roll_below(dice, 3) ? draw_plan(dice, &test->plans) : draw_payload(dice, test->size);
}

static void one_round(struct runner *runner, uint64_t round)
{
    const struct test *test = runner->test;
    static const enum event events[] = {PAYLOAD, PAYLOAD, PLAN, PLAN, PLAN, PLAN, MISMATCH, REFUSAL, TELL, SHIFT};
    enum event event = events[roll_below(&runner->common, sizeof events / sizeof *events)];
    uint32_t odd = roll_below(&runner->common, test->size);
    struct drawn drawn = event == PAYLOAD ? draw_payload(&runner->common, test->size)
                         : event == PLAN  ? draw_plan(&runner->common, &test->plans)
                                          : draw_call(test, &runner->common);
    struct drawn other = draw_call(test, &runner->common);
    switch (event) {
    case PAYLOAD:
    case PLAN:
        call_alike(runner, round, &drawn);
        break;
    case MISMATCH:
        if (test->size > 1 && !same_call(&drawn, &other))
            call_other_than_the_rest(runner, round, &drawn, &other, odd);
        else
            call_alike(runner, round, &drawn);
        break;
    case REFUSAL:
        refuse(runner, round, &drawn, odd);
        break;
    case TELL:
        tell(runner, round);
        break;
    case SHIFT:
        shift_numbers(runner, round, &drawn);
        break;
    }
}

static void *run_rank(void *argument)
{
    struct runner *runner = argument;
    for (uint64_t round = 0; round < runner->test->rounds; round++)
        one_round(runner, round);
    return NULL;
}

static void open_rank(struct runner *runner, struct test *test, uint32_t rank)
{
    *runner = (struct runner){.test = test, .rank = rank, .common = {test->seed}, .own = {test->seed + rank + 1}};
    test_open_rank(test, rank, &runner->arena, &runner->communicator);
    for (int region = 0; region < 2; region++) {
        runner->region[region] = test->segment.base + test_allocate(&runner->arena, REGION_NBYTES);
        runner->image[region] = malloc(REGION_NBYTES);
        EXPECT(runner->image[region] != NULL);
    }
}

static uint64_t close_rank(struct runner *runner, const struct runner *first)
{
    struct communicator *c = &runner->communicator;
    EXPECT_EQUAL(c->round, 1 + runner->test->rounds + runner->failures + 2 * runner->mismatched_shifts); /* each was told in a round of its own */
    EXPECT_EQUAL(c->call, runner->calls);
    EXPECT_EQUAL(c->phase, runner->commits);
    EXPECT_EQUAL(runner->calls, first->calls);
    EXPECT_EQUAL(runner->commits, first->commits);
    EXPECT_EQUAL(c->waiter.patience.late_sleeps, 0);
    uint64_t sleeps = c->waiter.patience.sleeps;
    communicator_close(c);
    arena_close(&runner->arena);
    free(runner->image[0]);
    free(runner->image[1]);
    return sleeps;
}

int main(int argc, char **argv)
{
    static struct test test;
    static struct runner runners[MOST_RANKS];
    test_open(&test, argc, argv);
    for (uint32_t rank = 0; rank < test.size; rank++)
        open_rank(&runners[rank], &test, rank);
    test_run(&test, run_rank, runners, sizeof *runners);
    uint64_t sleeps = 0;
    for (uint32_t rank = 0; rank < test.size; rank++)
        sleeps += close_rank(&runners[rank], &runners[0]);
    EXPECT_EQUAL(load_relaxed(&segment_world_board(&test.segment)->abort), 0);
    printf("ranks %u, seed %" PRIu64 ": %" PRIu64 " rounds, %u committed, %" PRIu64 " sleeps\n", test.size, test.seed,
           test.rounds, runners[0].commits, sleeps);
    test_close(&test);
    return 0;
}
