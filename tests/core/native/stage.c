#include "stage.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- opening and closing ---- */

static int32_t element(uint32_t rank, uint32_t index)
{
    return (int32_t)(index * index + 1000 * (rank + 1) + rank * index);
}

static void open_memory(struct actor *actor, uint32_t device, struct rank_line *owner)
{
    struct stage *stage = actor->stage;
    uint64_t in, out;
    EXPECT_EQUAL(arena_open(&actor->arena, &stage->segment, device, owner), ARENA_DONE);
    EXPECT_EQUAL(arena_malloc(&actor->arena, STAGE_COUNT * sizeof(int32_t), &in), ARENA_DONE);
    EXPECT_EQUAL(arena_malloc(&actor->arena, STAGE_COUNT * sizeof(int32_t), &out), ARENA_DONE);
    actor->in = (int32_t *)(stage->segment.base + in);
    actor->out = (int32_t *)(stage->segment.base + out);
    actor->at_return = calloc(2 * STAGE_COUNT, sizeof(int32_t));
    EXPECT(actor->at_return != NULL);
    for (uint32_t i = 0; i < STAGE_COUNT; i++)
        actor->in[i] = element(actor->rank, i);
}

static void open_actor(struct stage *stage, uint32_t rank, const uint32_t *members)
{
    struct actor *actor = &stage->actors[rank];
    struct communicator *c = &actor->communicator;
    *actor = (struct actor){.stage = stage, .rank = rank, .clock_ns = 1, .returned = true};
    struct rank_line *own = segment_rank(&stage->segment, members[rank]);
    store_release(&own->state, RANK_RUNNING);
    open_memory(actor, rank, own);
    memcpy(actor->at_return, actor->in, STAGE_COUNT * sizeof(int32_t));
    EXPECT_EQUAL(communicator_open(c, &stage->segment, &actor->arena, NULL, members, stage->size, rank), 0);
    c->waiter.host = stage_host(actor);
    c->waiter.patience.spins = c->waiter.patience.yields = 0;
    c->waiter.patience.sleep_ns = SLEEP_MS * UINT64_C(1000000);
    c->waiter.timeout_ns = TIMEOUT_MS * UINT64_C(1000000);
    add_exchanges(c, ALL_REDUCE, DTYPE_INT32, REDUCE_SUM, PAYLOAD_NBYTES);
    for (size_t i = 0; i < stage->plans->nplans; i++) {
        const struct packed *packed = &stage->plans->plans[i];
        if (packed->collective == ALL_REDUCE && packed->size == stage->size && packed->rank == rank)
            add_packed(c, packed, DTYPE_INT32, REDUCE_SUM);
    }
}

void stage_open(struct stage *stage, const struct plan_file *plans, uint32_t size)
{
    uint32_t members[STAGE_RANKS];
    *stage = (struct stage){.size = size, .plans = plans};
    EXPECT_EQUAL(pthread_mutex_init(&stage->mutex, NULL), 0);
    EXPECT_EQUAL(pthread_cond_init(&stage->changed, NULL), 0);
    struct segment_sizes sizes = {.ranks = size, .devices = size, .window_nbytes = 2 << 20, .hbm_limit = UINT64_MAX,
                                  .hbm_device_limit = UINT64_MAX};
    EXPECT_EQUAL(segment_create(&stage->segment, &sizes), 0);
    stage->board = segment_world_board(&stage->segment);
    for (uint32_t rank = 0; rank < size; rank++)
        members[rank] = size - 1 - rank;
    for (uint32_t rank = 0; rank < size; rank++)
        open_actor(stage, rank, members);
}

static void expect_unchanged(const struct actor *actor)
{
    EXPECT(!memcmp(actor->at_return, actor->in, STAGE_COUNT * sizeof(int32_t)));
    if (actor->returned)
        EXPECT(!memcmp(actor->at_return + STAGE_COUNT, actor->out, STAGE_COUNT * sizeof(int32_t)));
}

void stage_close(struct stage *stage)
{
    uint64_t nbytes = stage->segment.job->nbytes;
    for (uint32_t rank = 0; rank < stage->size; rank++) {
        struct actor *actor = &stage->actors[rank];
        expect_unchanged(actor);
        EXPECT_EQUAL(actor->communicator.waiter.patience.late_sleeps, 0);
        communicator_close(&actor->communicator);
        arena_close(&actor->arena);
        free(actor->at_return);
    }
    pthread_cond_destroy(&stage->changed);
    pthread_mutex_destroy(&stage->mutex);
    close(stage->segment.fd);
    munmap(stage->segment.base, nbytes);
}

/* ---- calls ---- */

static void *run_call(void *argument)
{
    struct actor *actor = argument;
    enum call_end end = communicator_call(&actor->communicator, &actor->call);
    memcpy(actor->at_return + STAGE_COUNT, actor->out, STAGE_COUNT * sizeof(int32_t));
    stage_note_return(actor, end);
    return NULL;
}

static uint32_t fingerprint_of(const struct stage *stage, enum what what)
{
    uint32_t algorithm = what == RING_ALL_REDUCE ? RING : MESH;
    for (size_t i = 0; what != PAYLOAD && i < stage->plans->nplans; i++) {
        const struct packed *packed = &stage->plans->plans[i];
        if (packed->collective == ALL_REDUCE && packed->size == stage->size && packed->algorithm == algorithm)
            return packed->fingerprint;
    }
    EXPECT_EQUAL(what, PAYLOAD);
    return 0;
}

void stage_call(struct stage *stage, uint32_t rank, enum what what)
{
    struct actor *actor = &stage->actors[rank];
    EXPECT(actor->returned);
    expect_unchanged(actor);
    memset(actor->out, 0x5a, STAGE_COUNT * sizeof(int32_t));
    actor->returned = false;
    actor->call = (struct call){.collective = ALL_REDUCE, .dtype = DTYPE_INT32, .op = REDUCE_SUM, .in = actor->in,
                                .out = actor->out, .count = what == PAYLOAD ? 2 : STAGE_COUNT};
    prefer_choice(&actor->communicator, &actor->call, fingerprint_of(stage, what));
    EXPECT_EQUAL(pthread_create(&actor->thread, NULL, run_call, actor), 0);
}

void stage_call_all(struct stage *stage, enum what what)
{
    for (uint32_t rank = 0; rank < stage->size; rank++)
        stage_call(stage, rank, what);
}

static struct actor *join(struct stage *stage, uint32_t rank)
{
    struct actor *actor = &stage->actors[rank];
    stage_await_returned(stage, rank);
    EXPECT_EQUAL(pthread_join(actor->thread, NULL), 0);
    EXPECT_EQUAL(load_relaxed(&actor->communicator.waiter.own->waits_for), 0);
    return actor;
}

void stage_expect_done(struct stage *stage, uint32_t rank)
{
    struct actor *actor = join(stage, rank);
    EXPECT_EQUAL(actor->end, CALL_DONE);
    for (uint32_t i = 0; i < actor->call.count; i++) {
        int32_t sum = 0;
        for (uint32_t peer = 0; peer < stage->size; peer++)
            sum += element(peer, i);
        EXPECT_EQUAL(actor->out[i], sum);
    }
    EXPECT_EQUAL(load_relaxed(&actor->communicator.waiter.own->failure), 0);
}

void stage_expect_all_done(struct stage *stage)
{
    for (uint32_t rank = 0; rank < stage->size; rank++)
        stage_expect_done(stage, rank);
}

void stage_expect_aborted(struct stage *stage, uint32_t rank, uint32_t cause)
{
    struct actor *actor = join(stage, rank);
    EXPECT_EQUAL(actor->end, CALL_ABORTED);
    EXPECT_EQUAL(load_acquire(&stage->board->abort), cause);
    EXPECT_EQUAL(load_relaxed(&actor->communicator.waiter.own->failure), cause);
}

static bool lives(const struct stage *stage, uint32_t rank)
{
    return load_acquire(&segment_rank(&stage->segment, stage->size - 1 - rank)->state) == RANK_RUNNING;
}

void stage_expect_ended_for_good(struct stage *stage, uint32_t cause)
{
    uint64_t nbytes = BOARD_NBYTES(stage->size);
    unsigned char *before = malloc(nbytes);
    EXPECT(before != NULL);
    for (uint32_t rank = 0; rank < stage->size; rank++) {
        if (!lives(stage, rank))
            continue;
        stage_call(stage, rank, rank % 2 ? PAYLOAD : MESH_ALL_REDUCE);
        stage_expect_aborted(stage, rank, cause);
        memcpy(before, stage->board, nbytes);
        stage_call(stage, rank, rank % 2 ? MESH_ALL_REDUCE : PAYLOAD);
        stage_expect_aborted(stage, rank, cause);
        EXPECT(!memcmp(before, stage->board, nbytes));
    }
    free(before);
}

/* ---- the server of the job ---- */

void stage_state(struct stage *stage, uint32_t rank, enum rank_state state)
{
    store_release(&segment_rank(&stage->segment, stage->size - 1 - rank)->state, state);
}

void stage_raise_death(struct stage *stage, uint32_t rank)
{
    stage_state(stage, rank, RANK_DEAD);
    board_raise_abort(stage->board, ABORT_DEATH, stage->size - 1 - rank, 0);
}

/* ---- words ---- */

uint32_t stage_cause_by_server(const struct stage *stage, enum abort_kind kind, uint32_t culprit)
{
    return (uint32_t)kind << 24 | (stage->size - culprit) << 12;
}

uint32_t stage_cause(const struct stage *stage, enum abort_kind kind, uint32_t culprit, uint32_t raiser)
{
    return stage_cause_by_server(stage, kind, culprit) | (stage->size - raiser);
}

_Atomic uint32_t *stage_line(struct stage *stage, uint32_t round, uint32_t rank)
{
    return &board_line(stage->board, stage->size, round % SLOTS, rank)->round.word;
}

_Atomic uint32_t *stage_left(struct stage *stage, uint32_t rank)
{
    return &board_left(stage->board, stage->size, rank)->phase.word;
}

_Atomic uint32_t *stage_token(struct stage *stage, uint32_t from, uint32_t to)
{
    return &board_pair(stage->board, stage->size, from, to)->posted.word;
}

void stage_set_numbers(struct stage *stage, uint32_t round, uint32_t phase, uint32_t tokens)
{
    store_relaxed(&stage->board->decision, (uint64_t)phase << 32 | VERDICT_COMMIT);
    for (uint32_t rank = 0; rank < stage->size; rank++) {
        struct communicator *c = &stage->actors[rank].communicator;
        c->round = round;
        c->phase = phase;
        store_relaxed(stage_line(stage, round - 1, rank), (round - 1) << NOTIFY_SHIFT);
        store_relaxed(stage_line(stage, round - 2, rank), (round - 2) << NOTIFY_SHIFT);
        store_relaxed(stage_left(stage, rank), phase << NOTIFY_SHIFT);
        for (uint32_t peer = 0; peer < stage->size; peer++) {
            c->posted[peer] = c->awaited[peer] = tokens;
            store_relaxed(stage_token(stage, rank, peer), tokens << NOTIFY_SHIFT);
        }
    }
}
