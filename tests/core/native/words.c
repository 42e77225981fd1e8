/* Flags and values between threads, and their timeouts by a clock that only the waiter's sleeps move.
 *
 *     words pass ROUNDS     data handed to and fro behind flags and behind values
 *     words share ROUNDS    each setting of a flag is taken by exactly one of three
 *     words late            limits, none at all, interrupts and every test of a value, without time passing */
#include "flag.h"
#include "value.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "order.h"

enum { TAKERS = 3 };
static const struct patience patience = {.yields = 20, .sleep_ns = 50000000};

struct court {
    struct flag flags[2];
    _Atomic uint64_t value;
    uint64_t rounds;
    uint64_t data; /* not atomic: whoever's turn it is */
};

struct player {
    struct court *court;
    unsigned side;
};

/* Odd numbers are one side's, even ones the other's. */
static void *play(void *argument)
{
    struct player *player = argument;
    struct court *court = player->court;
    for (uint64_t round = player->side; round < 2 * court->rounds; round += 2) {
        EXPECT_EQUAL(flag_take(&linux_host, &patience, &court->flags[player->side], 0), WAIT_ARRIVED);
        EXPECT_EQUAL(value_wait(&linux_host, &patience, &court->value, VALUE_EQ, round, 0), WAIT_ARRIVED);
        EXPECT_EQUAL(court->data, round);
        court->data++;
        value_write(&linux_host, &court->value, round + 1);
        flag_set(&linux_host, &court->flags[1 - player->side]);
    }
    return NULL;
}

static void pass(uint64_t rounds)
{
    struct court court = {.rounds = rounds};
    struct player players[2] = {{&court, 0}, {&court, 1}};
    pthread_t other;
    flag_set(&linux_host, &court.flags[0]);
    EXPECT_EQUAL(pthread_create(&other, NULL, play, &players[1]), 0);
    play(&players[0]);
    EXPECT_EQUAL(pthread_join(other, NULL), 0);
    EXPECT_EQUAL(court.data, 2 * rounds);
}

struct taker {
    struct flag *flag, *back;
    _Atomic bool *over;
    uint64_t taken;
};

static void *keep_taking(void *argument)
{
    struct taker *taker = argument;
    for (;;) {
        EXPECT_EQUAL(flag_take(&linux_host, &patience, taker->flag, 0), WAIT_ARRIVED);
        if (load_acquire(taker->over)) {
            flag_set(&linux_host, taker->flag); /* for the next */
            return NULL;
        }
        taker->taken++;
        flag_set(&linux_host, taker->back);
    }
}

static void share(uint64_t rounds)
{
    struct flag flag = {0}, back = {0};
    _Atomic bool over = false;
    struct taker takers[TAKERS];
    pthread_t threads[TAKERS];
    for (int i = 0; i < TAKERS; i++) {
        takers[i] = (struct taker){&flag, &back, &over, 0};
        EXPECT_EQUAL(pthread_create(&threads[i], NULL, keep_taking, &takers[i]), 0);
    }
    for (uint64_t round = 0; round < rounds; round++) {
        flag_set(&linux_host, &flag);
        EXPECT_EQUAL(flag_take(&linux_host, &patience, &back, 0), WAIT_ARRIVED);
    }
    store_release(&over, true);
    flag_set(&linux_host, &flag);
    uint64_t taken = 0;
    for (int i = 0; i < TAKERS; i++) {
        EXPECT_EQUAL(pthread_join(threads[i], NULL), 0);
        taken += takers[i].taken;
    }
    EXPECT_EQUAL(taken, rounds);
}

/* ---- a clock that sleeps move ---- */

struct clock {
    uint64_t now, interrupt_at;
    struct flag *set_at_wake; /* set while the waiter sleeps */
    uint64_t pause;           /* what the first sleep takes besides */
    uint64_t slept;           /* without it */
};

static uint64_t now_ns(void *context) { return ((struct clock *)context)->now; }
static void yield(void *context) { (void)context; }
static void wake(void *context, _Atomic uint32_t *word) { (void)context, (void)word; }

static bool sleep_ns(void *context, _Atomic uint32_t *word, uint32_t expected, uint64_t nanoseconds)
{
    struct clock *clock = context;
    EXPECT_EQUAL(load_relaxed(word), expected);
    clock->now += nanoseconds + clock->pause;
    clock->slept += nanoseconds;
    clock->pause = 0;
    if (clock->set_at_wake)
        store_release(&clock->set_at_wake->word, FLAG_SET);
    return true;
}

static bool attend(void *context, uint64_t waited_ns)
{
    const struct clock *clock = context;
    return !clock->interrupt_at || waited_ns < clock->interrupt_at;
}

static enum wait_end take_with(struct clock clock, struct flag *flag, uint64_t timeout_ns)
{
    const struct wait_host host = {&clock, now_ns, yield, sleep_ns, wake, NULL, attend, NULL, NULL};
    return flag_take(&host, &patience, flag, timeout_ns);
}

static enum wait_end wait_with(struct clock clock, uint64_t word, enum value_test test, uint64_t value)
{
    const struct wait_host host = {&clock, now_ns, yield, sleep_ns, wake, NULL, attend, NULL, NULL};
    _Atomic uint64_t shared = word;
    return value_wait(&host, &patience, &shared, test, value, 3000000);
}

static enum wait_end look_for_two_minutes(void *context, uint64_t since_ns, uint64_t waited_ns)
{
    (void)context, (void)since_ns;
    return waited_ns >= UINT64_C(120000000000) ? WAIT_TIMEOUT : WAIT_ARRIVED;
}

/* An hour in which the waiter itself was stopped is not time waited; a second that a sleep is late is. */
static void paused(void)
{
    static const struct {
        uint64_t pause, late; /* of it, what counts */
    } cases[] = {{0, 0}, {UINT64_C(3600000000000), 0}, {900000000, 900000000}};
    struct patience second = {.sleep_ns = 1000000000};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct clock clock = {.pause = cases[i].pause};
        const struct wait_host host = {&clock, now_ns, yield, sleep_ns, wake, NULL, attend, NULL, NULL};
        struct notify notify = {0};
        EXPECT_EQUAL(notify_wait(&host, &second, &notify, 1, look_for_two_minutes, NULL), WAIT_TIMEOUT);
        EXPECT_EQUAL((clock.slept + cases[i].late) / 1000000000, 120);
        struct flag flag = {0};
        clock = (struct clock){.pause = cases[i].pause};
        EXPECT_EQUAL(flag_take(&host, &second, &flag, UINT64_C(120000000000)), WAIT_TIMEOUT);
        EXPECT_EQUAL((clock.slept + cases[i].late) / 1000000000, 120);
    }
}

/* A limit of 0 is none: only an interrupt ends a wait for a rank that does not come, after ten years. */
static void never(void)
{
    const uint64_t ten_years = UINT64_C(315360000000000000);
    struct clock clock = {.interrupt_at = ten_years};
    struct rank_line ranks[2] = {{.state = RANK_RUNNING}, {.state = RANK_RUNNING}};
    const uint32_t members[] = {0, 1};
    _Atomic uint32_t abort_word = 0;
    struct waiter waiter = {.host = {&clock, now_ns, yield, sleep_ns, wake, NULL, attend, NULL, NULL},
                            .patience = {.sleep_ns = UINT64_C(1000000000000)},
                            .abort = &abort_word, .ranks = ranks, .members = members, .own = &ranks[0]};
    struct notify notify = {0};
    EXPECT_EQUAL(waiter_wait(&waiter, &notify, 1, 1, HEED_ALL), WAIT_INTERRUPTED);
    EXPECT_EQUAL(clock.slept >= ten_years, true);
    clock = (struct clock){.interrupt_at = ten_years};
    waiter.timeout_ns = UINT64_C(1836000000000);
    EXPECT_EQUAL(waiter_wait(&waiter, &notify, 1, 1, HEED_ALL), WAIT_TIMEOUT);
}

static void late(void)
{
    never();
    struct flag flag = {0};
    EXPECT_EQUAL(take_with((struct clock){0}, &flag, 120000000), WAIT_TIMEOUT);
    EXPECT_EQUAL(take_with((struct clock){.interrupt_at = 60000000}, &flag, 0), WAIT_INTERRUPTED);
    EXPECT_EQUAL(take_with((struct clock){.set_at_wake = &flag}, &flag, 1), WAIT_ARRIVED); /* it came with the end of time */
    EXPECT_EQUAL(flag.word, 0);
    static const struct {
        uint64_t word, value;
        bool passes[4]; /* by enum value_test */
    } cases[] = {
        {5, 5, {true, true, true, true}},
        {5, 6, {false, false, true, true}},
        {6, 1, {true, false, false, true}},
        {UINT64_MAX, 0, {true, false, false, false}},
        {UINT64_C(1) << 40, UINT64_C(1) << 40, {true, true, true, true}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int test = VALUE_GEQ; test <= VALUE_NOR; test++)
            EXPECT_EQUAL(wait_with((struct clock){0}, cases[i].word, (enum value_test)test, cases[i].value),
                         cases[i].passes[test] ? WAIT_ARRIVED : WAIT_TIMEOUT);
    EXPECT_EQUAL(wait_with((struct clock){.interrupt_at = 1}, 0, VALUE_EQ, 1), WAIT_INTERRUPTED);
}

int main(int argc, char **argv)
{
    EXPECT(argc > 1);
    if (!strcmp(argv[1], "late"))
        late();
    else if (!strcmp(argv[1], "paused"))
        paused();
    else if (!strcmp(argv[1], "pass"))
        pass(strtoull(argv[2], NULL, 0));
    else
        share(strtoull(argv[2], NULL, 0));
    return 0;
}
