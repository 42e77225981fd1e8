/* Ranks as threads that send and receive at random: alone, in batches, on two threads of a rank at once, to themselves;
 * from device memory and from plain or strided memory in pieces; with messages whose two sides disagree or refuse.
 *
 *     transfers SIZE SEED WINDOWS spin|sleep
 *
 * A window is some messages that all ranks draw alike; each rank then makes its part of them in a way of its own.  Taking
 * them one by one in the order of the window never hangs, whatever the others do.  At last an abort word is raised in
 * the middle of a window, and the two sides of each message must agree whether it came. */
#include <pthread.h>
#include <string.h>

#include "dice.h"
#include "elements.h"
#include "expect.h"
#include "order.h"
#include "transfer.h"

enum { MOST_RANKS = 8, MOST_MESSAGES = 12, MOST_COUNT = 400, REGION_NBYTES = (MOST_COUNT + 8) * 4 * 2 };
enum { STAGING_NBYTES = 256, WINDOW_NBYTES = 4 << 20 };
enum fault { FAULT_NONE, FAULT_COUNT, FAULT_DTYPE, FAULT_SENDER, FAULT_RECEIVER, FAULT_BOTH, FAULTS };
enum way { ALL_AT_ONCE, ONE_BY_ONE, TWO_THREADS, TWO_BATCHES, WAYS };

struct message {
    uint32_t from, to;
    uint8_t dtype;
    uint64_t count;
    enum fault fault;
};

/* One side of a message in this rank's memory. */
struct operand {
    unsigned char *device, *plain, *base, *image;
    int64_t step;
    enum call_end end;
};

struct test {
    uint32_t size;
    uint64_t seed, windows;
    bool sleeps;
    struct segment segment;
};

struct runner;
struct worker {
    struct runner *runner;
    enum side side; /* TWO_THREADS, TWO_BATCHES */
    pthread_t thread;
    struct patience patience;
};

struct runner {
    struct test *test;
    uint32_t rank;
    pthread_t thread;
    struct arena arena;
    struct communicator communicator;
    struct dice common, own;
    uint64_t window;
    uint32_t nmessages;
    struct message messages[MOST_MESSAGES];
    struct operand operands[MOST_MESSAGES][SIDES];
    struct worker workers[SIDES];
    enum way way;
    bool chaos;
    uint64_t done, differed;
};

static struct runner runners[MOST_RANKS];

/* ---- memory ---- */

static double element_of(const struct runner *runner, uint32_t message, uint64_t index)
{
    return (double)((runner->window * 131 + message * 37 + index * 7) % 2000);
}

static uint64_t expected_count(const struct message *message, enum side side)
{
    return message->count + (side == SIDE_RECEIVE && message->fault == FAULT_COUNT);
}

static uint8_t expected_dtype(const struct message *message, enum side side)
{
    if (side == SIDE_SEND || message->fault != FAULT_DTYPE)
        return message->dtype;
    return message->dtype == DTYPE_FP32 ? DTYPE_INT32 : DTYPE_FP32;
}

static void prepare(struct runner *runner, uint32_t index, enum side side)
{
    struct operand *operand = &runner->operands[index][side];
    const struct message *message = &runner->messages[index];
    operand->base = roll_below(&runner->own, 2) ? operand->device : operand->plain;
    operand->step = 1 + (roll_below(&runner->own, 3) == 0);
    operand->end = CALL_NO_CHOICE;
    for (size_t i = 0; i < REGION_NBYTES; i++)
        operand->base[i] = (unsigned char)(i * 5 + runner->rank + side);
    for (uint64_t i = 0; side == SIDE_SEND && i < message->count; i++)
        store_element(message->dtype, operand->base, i * (uint64_t)operand->step, element_of(runner, index, i));
    memcpy(operand->image, operand->base, REGION_NBYTES);
}

static void compare(struct runner *runner, uint32_t index, enum side side)
{
    struct operand *operand = &runner->operands[index][side];
    const struct message *message = &runner->messages[index];
    for (uint64_t i = 0; side == SIDE_RECEIVE && operand->end == CALL_DONE && i < message->count; i++)
        store_element(message->dtype, operand->image, i * (uint64_t)operand->step, element_of(runner, index, i));
    if (operand->end != CALL_ABORTED)
        EXPECT(!memcmp(operand->image, operand->base, REGION_NBYTES));
}

/* ---- transfers ---- */

static bool is_mine(const struct runner *runner, uint32_t index, enum side side)
{
    const struct message *message = &runner->messages[index];
    return runner->rank == (side == SIDE_SEND ? message->from : message->to);
}

static void fill_item(struct runner *runner, struct item *item, uint32_t index, enum side side)
{
    const struct message *message = &runner->messages[index];
    const struct operand *operand = &runner->operands[index][side];
    item->side = side;
    item->peer = side == SIDE_SEND ? message->to : message->from;
    item->dtype = expected_dtype(message, side);
    item->count = expected_count(message, side);
    size_t item_nbytes = dtype_nbytes(item->dtype);
    int64_t shape = (int64_t)item->count, stride = operand->step * (int64_t)item_nbytes;
    EXPECT(view_strided(&item->view, &item->dimensions, operand->base, item_nbytes, 1, &shape, &stride));
}

static void says_where(void *context, char *text, size_t nbytes)
{
    const struct worker *worker = context;
    snprintf(text, nbytes, "window %" PRIu64 " of rank %u", worker->runner->window, worker->runner->rank);
}

static bool refuses(const struct message *message, enum side side)
{
    return message->fault == FAULT_BOTH || message->fault == (side == SIDE_SEND ? FAULT_SENDER : FAULT_RECEIVER);
}

static void check_failure(const struct runner *runner, uint32_t index, const struct failure *failure)
{
    const struct message *message = &runner->messages[index];
    const uint32_t rank_of[SIDES] = {message->from, message->to};
    EXPECT(failure != NULL);
    EXPECT_EQUAL(failure->size, SIDES);
    for (enum side side = SIDE_SEND; side < SIDES; side++) {
        const struct statement *said = &failure->statements[side];
        char where[WHERE_NBYTES];
        snprintf(where, sizeof where, "window %" PRIu64 " of rank %u", runner->window, rank_of[side]);
        EXPECT(!strcmp(said->where, where));
        EXPECT_EQUAL(said->said.root, rank_of[!side]);
        EXPECT_EQUAL(said->said.collective, side == SIDE_SEND ? SEND : RECEIVE);
        EXPECT_EQUAL((said->said.flags & LINE_REFUSED) != 0, refuses(message, side));
        EXPECT(!strcmp(said->note, refuses(message, side) ? "for a test" : ""));
        EXPECT_EQUAL(said->said.count, expected_count(message, side));
        EXPECT_EQUAL(said->said.dtype, expected_dtype(message, side));
    }
}

static void check_item(struct runner *runner, const struct item *item, uint32_t index)
{
    const struct message *message = &runner->messages[index];
    runner->operands[index][item->side].end = item->end;
    if (runner->chaos)
        return;
    EXPECT_EQUAL(item->end, message->fault == FAULT_NONE ? CALL_DONE : CALL_DIFFERS);
    if (item->end == CALL_DIFFERS)
        check_failure(runner, index, item->failure);
}

/* The items at `indices`, all at once. */
static void run_items(struct worker *worker, const uint32_t *indices, const enum side *sides, uint32_t n)
{
    struct runner *runner = worker->runner;
    struct wait_host host = linux_host;
    struct failure *failure;
    host.context = worker;
    host.where = says_where;
    struct transfer *t = transfer_new(&runner->communicator, n == 1 ? SEND : BATCH_SEND_RECV, n);
    EXPECT(t != NULL);
    for (uint32_t i = 0; i < n; i++)
        fill_item(runner, &t->items[i], indices[i], sides[i]);
    if (n == 1 && refuses(&runner->messages[indices[0]], sides[0]))
        transfer_refuse(t, "for a test");
    EXPECT(transfer_prepare(t));
    transfer_issue(t);
    enum call_end end = transfer_run(t, &host, &worker->patience, &failure);
    EXPECT_EQUAL(end != CALL_DONE, failure != NULL);
    failure_release(failure);
    for (uint32_t i = 0; i < n; i++)
        check_item(runner, &t->items[i], indices[i]);
    transfer_free(t);
}

/* In any order in which messages of one channel keep theirs. */
static void shuffle(struct runner *runner, uint32_t *indices, enum side *sides, uint32_t n)
{
    for (uint32_t k = 0; k < 4 * n; k++) {
        uint32_t i = roll_below(&runner->own, n - 1 + (n == 1));
        if (i + 1 >= n)
            continue;
        const struct message *one = &runner->messages[indices[i]], *other = &runner->messages[indices[i + 1]];
        if (sides[i] == sides[i + 1] && one->from == other->from && one->to == other->to)
            continue;
        uint32_t index = indices[i];
        enum side side = sides[i];
        indices[i] = indices[i + 1], sides[i] = sides[i + 1];
        indices[i + 1] = index, sides[i + 1] = side;
    }
}

static void all_at_once(struct worker *worker, bool of_one_side)
{
    struct runner *runner = worker->runner;
    uint32_t indices[SIDES * MOST_MESSAGES], n = 0;
    enum side sides[SIDES * MOST_MESSAGES];
    for (uint32_t index = 0; index < runner->nmessages; index++)
        for (enum side side = SIDE_SEND; side < SIDES; side++)
            if (is_mine(runner, index, side) && (!of_one_side || side == worker->side))
                indices[n] = index, sides[n++] = side;
    if (!of_one_side && n > 0)
        shuffle(runner, indices, sides, n);
    run_items(worker, indices, sides, n);
}

static void one_by_one(struct worker *worker, bool of_one_side)
{
    struct runner *runner = worker->runner;
    static const enum side both[SIDES] = {SIDE_RECEIVE, SIDE_SEND};
    for (uint32_t index = 0; index < runner->nmessages; index++) {
        const uint32_t twice[SIDES] = {index, index};
        if (!of_one_side && is_mine(runner, index, SIDE_SEND) && is_mine(runner, index, SIDE_RECEIVE)) {
            run_items(worker, twice, both, SIDES);
            continue;
        }
        for (enum side side = SIDE_SEND; side < SIDES; side++)
            if (is_mine(runner, index, side) && (!of_one_side || side == worker->side))
                run_items(worker, &index, &side, 1);
    }
}

static void *run_worker(void *argument)
{
    struct worker *worker = argument;
    if (worker->runner->way == TWO_BATCHES)
        all_at_once(worker, true);
    else
        one_by_one(worker, true);
    return NULL;
}

/* ---- windows ---- */

static void draw(struct runner *runner)
{
    static const uint8_t dtypes[] = {DTYPE_INT32, DTYPE_FP32, DTYPE_FP16};
    struct dice *dice = &runner->common;
    bool refusals = roll_below(dice, 4) == 0;
    runner->nmessages = 1 + roll_below(dice, MOST_MESSAGES);
    runner->way = refusals ? ONE_BY_ONE : (enum way)roll_below(&runner->own, WAYS);
    for (uint32_t i = 0; i < runner->nmessages; i++) {
        struct message *message = &runner->messages[i];
        *message = (struct message){roll_below(dice, runner->test->size), roll_below(dice, runner->test->size),
                                    dtypes[roll_below(dice, 3)], roll_below(dice, MOST_COUNT), FAULT_NONE};
        if (roll_below(dice, 3) == 0)
            message->count = roll_below(dice, 4);
        if (roll_below(dice, 8) == 0)
            message->fault = (enum fault)roll_below(dice, refusals ? FAULTS : FAULT_SENDER);
        if (message->from == message->to && message->fault >= FAULT_SENDER)
            message->fault = FAULT_NONE;
    }
}

static void one_window(struct runner *runner)
{
    draw(runner);
    for (uint32_t i = 0; i < runner->nmessages; i++)
        for (enum side side = SIDE_SEND; side < SIDES; side++)
            if (is_mine(runner, i, side))
                prepare(runner, i, side);
    if (runner->way == ALL_AT_ONCE) {
        all_at_once(&runner->workers[0], false);
    } else if (runner->way == ONE_BY_ONE) {
        one_by_one(&runner->workers[0], false);
    } else {
        EXPECT_EQUAL(pthread_create(&runner->workers[1].thread, NULL, run_worker, &runner->workers[1]), 0);
        run_worker(&runner->workers[0]);
        EXPECT_EQUAL(pthread_join(runner->workers[1].thread, NULL), 0);
    }
    for (uint32_t i = 0; i < runner->nmessages; i++)
        for (enum side side = SIDE_SEND; side < SIDES; side++)
            if (is_mine(runner, i, side)) {
                compare(runner, i, side);
                runner->done += runner->operands[i][side].end == CALL_DONE;
                runner->differed += runner->operands[i][side].end == CALL_DIFFERS;
            }
}

static void *run_rank(void *argument)
{
    struct runner *runner = argument;
    for (runner->window = 0; runner->window < runner->test->windows; runner->window++)
        one_window(runner);
    for (enum side side = SIDE_SEND; side < SIDES; side++)
        EXPECT_EQUAL(runner->workers[side].patience.late_sleeps, 0);
    return NULL;
}

static void *run_chaos(void *argument)
{
    struct runner *runner = argument;
    for (enum side side = SIDE_SEND; side < SIDES; side++)
        runner->workers[side].patience.sleep_ns = 1000000; /* an abort wakes nobody */
    runner->chaos = true;
    one_window(runner);
    return NULL;
}

/* The two sides of a message agree whether it came, or were told the same story. */
static void compare_outcomes(const struct test *test)
{
    for (uint32_t rank = 0; rank < test->size; rank++)
        for (uint32_t i = 0; i < runners[rank].nmessages; i++) {
            const struct message *message = &runners[rank].messages[i];
            bool sent = runners[message->from].operands[i][SIDE_SEND].end == CALL_DONE;
            bool received = runners[message->to].operands[i][SIDE_RECEIVE].end == CALL_DONE;
            EXPECT_EQUAL(sent, received);
        }
}

/* ---- ranks ---- */

static unsigned char *allocate(struct runner *runner, uint64_t nbytes)
{
    uint64_t offset;
    EXPECT_EQUAL(arena_malloc(&runner->arena, nbytes, &offset), ARENA_DONE);
    return runner->test->segment.base + offset;
}

static void open_rank(struct runner *runner, struct test *test, uint32_t rank)
{
    uint32_t members[MOST_RANKS];
    for (uint32_t i = 0; i < test->size; i++)
        members[i] = i;
    *runner = (struct runner){.test = test, .rank = rank, .common = {test->seed}, .own = {test->seed + rank + 1}};
    EXPECT_EQUAL(arena_open(&runner->arena, &test->segment, rank, segment_rank(&test->segment, rank)), ARENA_DONE);
    struct communicator *c = &runner->communicator;
    EXPECT_EQUAL(communicator_open(c, &test->segment, &runner->arena, NULL, members, test->size, rank), 0);
    c->waiter.patience.spins = c->waiter.patience.yields = test->sleeps ? 0 : 20;
    c->waiter.patience.sleep_ns = UINT64_C(20000000000);
    for (uint32_t peer = 0; peer < test->size; peer++) {
        struct channel_end *end = &c->ends[SIDE_SEND][peer];
        end->staging_offset = (uint64_t)(allocate(runner, STAGING_NBYTES) - test->segment.base);
        end->staging_nbytes = STAGING_NBYTES;
    }
    for (enum side side = SIDE_SEND; side < SIDES; side++) {
        runner->workers[side] = (struct worker){.runner = runner, .side = side, .patience = transfer_patience(c)};
        for (uint32_t i = 0; i < MOST_MESSAGES; i++) {
            struct operand *operand = &runner->operands[i][side];
            operand->device = allocate(runner, REGION_NBYTES);
            operand->plain = malloc(REGION_NBYTES);
            operand->image = malloc(REGION_NBYTES);
            EXPECT(operand->plain && operand->image);
        }
    }
}

static void close_rank(struct runner *runner)
{
    for (enum side side = SIDE_SEND; side < SIDES; side++)
        for (uint32_t i = 0; i < MOST_MESSAGES; i++) {
            free(runner->operands[i][side].plain);
            free(runner->operands[i][side].image);
        }
    communicator_close(&runner->communicator);
    arena_close(&runner->arena);
}

static void run_all(const struct test *test, void *(*run)(void *))
{
    for (uint32_t rank = 0; rank < test->size; rank++)
        EXPECT_EQUAL(pthread_create(&runners[rank].thread, NULL, run, &runners[rank]), 0);
    if (run == run_chaos) {
        struct dice dice = {test->seed};
        for (uint32_t spin = roll_below(&dice, 3000); spin > 0; spin--)
            linux_host.yield(NULL);
        board_raise_abort(segment_world_board(&test->segment), ABORT_DEATH, 0, 0);
    }
    for (uint32_t rank = 0; rank < test->size; rank++)
        EXPECT_EQUAL(pthread_join(runners[rank].thread, NULL), 0);
}

int main(int argc, char **argv)
{
    EXPECT_EQUAL(argc, 5);
    struct test test = {.size = (uint32_t)strtoul(argv[1], NULL, 0), .seed = strtoull(argv[2], NULL, 0),
                        .windows = strtoull(argv[3], NULL, 0), .sleeps = !strcmp(argv[4], "sleep")};
    EXPECT(test.size >= 1 && test.size <= MOST_RANKS);
    struct segment_sizes sizes = {.ranks = test.size, .devices = test.size, .window_nbytes = WINDOW_NBYTES,
                                  .hbm_limit = UINT64_MAX, .hbm_device_limit = UINT64_MAX};
    EXPECT_EQUAL(segment_create(&test.segment, &sizes), 0);
    uint64_t done = 0, differed = 0;
    for (uint32_t rank = 0; rank < test.size; rank++)
        open_rank(&runners[rank], &test, rank);
    run_all(&test, run_rank);
    for (uint32_t rank = 0; rank < test.size; rank++) {
        done += runners[rank].done;
        differed += runners[rank].differed;
    }
    run_all(&test, run_chaos);
    compare_outcomes(&test);
    printf("transfers of %u ranks, seed %" PRIu64 ": %" PRIu64 " windows, %" PRIu64 " done, %" PRIu64 " differed\n", test.size,
           test.seed, test.windows, done, differed);
    for (uint32_t rank = 0; rank < test.size; rank++)
        close_rank(&runners[rank]);
    return 0;
}
