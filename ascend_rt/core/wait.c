#define _GNU_SOURCE
#include "wait.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "order.h"

static inline void spin_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* `yield` is a no-op on most cores */
#endif
}

static bool reached(uint32_t word, uint32_t number)
{
    return (int32_t)(word - (number << NOTIFY_SHIFT)) >= 0;
}

bool notify_reached(const struct notify *notify, uint32_t number) { return reached(load_acquire(&notify->word), number); }

uint32_t notify_number(const struct notify *notify) { return load_acquire(&notify->word) >> NOTIFY_SHIFT; }

void notify_post(const struct wait_host *host, struct notify *notify, uint32_t number)
{
    uint32_t before = load_relaxed(&notify->word), after;
    do {
        after = number << NOTIFY_SHIFT | (before & NOTIFY_SLEEPERS ? NOTIFY_ROUSED : 0);
    } while (!swap_if_equal(&notify->word, &before, after));
    if (after & NOTIFY_ROUSED)
        host->wake(host->context, &notify->word);
}

void notify_ring(const struct wait_host *host, struct notify *notify)
{
    uint32_t before = load_relaxed(&notify->word), after;
    do {
        after = ((before >> NOTIFY_SHIFT) + 1) << NOTIFY_SHIFT | (before & NOTIFY_SLEEPERS ? NOTIFY_ROUSED : 0);
    } while (!swap_if_equal(&notify->word, &before, after));
    if (after & NOTIFY_ROUSED)
        host->wake(host->context, &notify->word);
}

/* One bounded sleep on a word that was found wanting as `word`. */
static void sleep_once(const struct wait_host *host, struct patience *patience, struct notify *notify, uint32_t word,
                       uint32_t number)
{
    uint32_t asleep = word | NOTIFY_SLEEPERS;
    if (word != asleep && !swap_if_equal(&notify->word, &word, asleep))
        return; /* it has just changed: look again */
    patience->sleeps++;
    bool by_time = host->sleep(host->context, &notify->word, asleep, patience->sleep_ns);
    uint32_t now = load_relaxed(&notify->word);
    if (by_time && reached(now, number) && !(now & NOTIFY_ROUSED))
        patience->late_sleeps++;
}

enum { LATE_NS = 1000000000 }; /* a busy machine wakes a sleeper later than it asked for, but not so much */

uint64_t sleep_counts_ns(uint64_t from_ns, uint64_t to_ns, uint64_t longest_ns)
{
    return to_ns - from_ns > longest_ns + LATE_NS ? longest_ns : to_ns - from_ns;
}

static enum wait_end wait_asleep(const struct wait_host *host, struct patience *patience, struct notify *notify,
                                 uint32_t number, wait_look *look, void *context)
{
    uint64_t since = host->now_ns(host->context);
    uint64_t waited = 0, before = since;
    for (;;) {
        uint32_t word = load_acquire(&notify->word);
        if (reached(word, number))
            return WAIT_ARRIVED;
        enum wait_end end = look(context, since, waited);
        if (end != WAIT_ARRIVED)
            return notify_reached(notify, number) ? WAIT_ARRIVED : end;
        sleep_once(host, patience, notify, word, number);
        uint64_t now = host->now_ns(host->context);
        waited += sleep_counts_ns(before, now, patience->sleep_ns);
        before = now;
        if (host->attend && !notify_reached(notify, number) && !host->attend(host->context, waited))
            return notify_reached(notify, number) ? WAIT_ARRIVED : WAIT_INTERRUPTED;
    }
}

enum wait_end notify_wait(const struct wait_host *host, struct patience *patience, struct notify *notify, uint32_t number,
                          wait_look *look, void *context)
{
    for (uint32_t i = 0; i < patience->spins; i++) {
        if (notify_reached(notify, number))
            return WAIT_ARRIVED;
        spin_pause();
    }
    if (notify_reached(notify, number))
        return WAIT_ARRIVED;
    for (uint32_t i = 0; i < patience->yields; i++) {
        if (i == patience->brief_yields && host->blocks)
            host->blocks(host->context);
        host->yield(host->context);
        if (notify_reached(notify, number))
            return WAIT_ARRIVED;
    }
    if (host->blocks)
        host->blocks(host->context);
    return wait_asleep(host, patience, notify, number, look, context);
}

/* ---- waiting for a rank ---- */

struct rank_wait {
    struct waiter *waiter;
    uint32_t peer;
    enum heed heed;
    bool reported;
};

static void report_wait(struct rank_wait *wait, uint64_t since_ns)
{
    struct waiter *waiter = wait->waiter;
    store_relaxed(&waiter->own->wait_call, waiter->call);
    store_relaxed(&waiter->own->wait_collective, waiter->collective);
    store_relaxed(&waiter->own->wait_since_ns, since_ns);
    store_relaxed(&waiter->own->waits_for, waiter->members[wait->peer] + 1);
    wait->reported = true;
}

bool waiter_peer_is_gone(const struct waiter *waiter, uint32_t peer)
{
    return load_acquire(&waiter->ranks[waiter->members[peer]].state) >= RANK_LEFT ||
           (waiter->lefts && load_acquire(&waiter->lefts[peer].destroyed));
}

static enum wait_end look_around(void *context, uint64_t since_ns, uint64_t waited_ns)
{
    struct rank_wait *wait = context;
    const struct waiter *waiter = wait->waiter;
    if (!wait->reported)
        report_wait(wait, since_ns);
    if (wait->heed & HEED_ABORT && load_acquire(waiter->abort))
        return WAIT_ABORTED;
    if (waiter_peer_is_gone(waiter, wait->peer))
        return WAIT_PEER_GONE;
    if (wait->heed & HEED_TIME && waiter->timeout_ns && waited_ns >= waiter->timeout_ns)
        return WAIT_TIMEOUT;
    return WAIT_ARRIVED;
}

enum wait_end waiter_wait(struct waiter *waiter, struct notify *notify, uint32_t number, uint32_t peer, enum heed heed)
{
    struct rank_wait wait = {waiter, peer, heed, false};
    enum wait_end end = notify_wait(&waiter->host, &waiter->patience, notify, number, look_around, &wait);
    if (wait.reported)
        store_relaxed(&waiter->own->waits_for, 0);
    return end;
}

/* ---- Linux ---- */

static uint64_t linux_now_ns(void *context)
{
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void linux_yield(void *context)
{
    (void)context;
    sched_yield();
}

/* Not FUTEX_PRIVATE: the word is shared between processes. */
static bool linux_sleep(void *context, _Atomic uint32_t *word, uint32_t expected, uint64_t nanoseconds)
{
    (void)context;
    struct timespec length = {(time_t)(nanoseconds / 1000000000u), (long)(nanoseconds % 1000000000u)};
    return syscall(SYS_futex, word, FUTEX_WAIT, expected, &length, NULL, 0) < 0 && errno == ETIMEDOUT;
}

static void linux_wake(void *context, _Atomic uint32_t *word)
{
    (void)context;
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

const struct wait_host linux_host = {
    .now_ns = linux_now_ns,
    .yield = linux_yield,
    .sleep = linux_sleep,
    .wake = linux_wake,
};
