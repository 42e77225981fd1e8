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

static bool peer_is_gone(const struct waiter *waiter, uint32_t peer)
{
    return load_acquire(&waiter->ranks[waiter->members[peer]].state) >= RANK_LEFT;
}

static void report_wait(struct waiter *waiter, uint32_t peer, uint64_t since_ns)
{
    store_relaxed(&waiter->own->wait_call, waiter->call);
    store_relaxed(&waiter->own->wait_collective, waiter->collective);
    store_relaxed(&waiter->own->wait_since_ns, since_ns);
    store_relaxed(&waiter->own->waits_for, waiter->members[peer] + 1);
}

/* One bounded sleep on a word that was found wanting as `word`. */
static void sleep_once(struct waiter *waiter, struct notify *notify, uint32_t word, uint32_t number)
{
    uint32_t asleep = word | NOTIFY_SLEEPERS;
    if (word != asleep && !swap_if_equal(&notify->word, &word, asleep))
        return; /* it has just changed: look again */
    waiter->sleeps++;
    bool by_time = waiter->host.sleep(waiter->host.context, &notify->word, asleep, waiter->sleep_ns);
    uint32_t now = load_relaxed(&notify->word);
    if (by_time && reached(now, number) && !(now & NOTIFY_ROUSED))
        waiter->late_sleeps++;
}

typedef enum wait_end (*look_around)(struct waiter *waiter, uint32_t peer, uint64_t waited_ns);

static enum wait_end look_for_trouble(struct waiter *waiter, uint32_t peer, uint64_t waited_ns)
{
    if (load_acquire(waiter->abort))
        return WAIT_ABORTED;
    if (peer_is_gone(waiter, peer))
        return WAIT_PEER_GONE;
    return waiter->timeout_ns && waited_ns >= waiter->timeout_ns ? WAIT_TIMEOUT : WAIT_ARRIVED;
}

static enum wait_end look_for_the_end_of_peer(struct waiter *waiter, uint32_t peer, uint64_t waited_ns)
{
    (void)waited_ns;
    return peer_is_gone(waiter, peer) ? WAIT_PEER_GONE : WAIT_ARRIVED;
}

static enum wait_end wait_asleep(struct waiter *waiter, struct notify *notify, uint32_t number, uint32_t peer,
                                 look_around look)
{
    struct wait_host *host = &waiter->host;
    uint64_t since = host->now_ns(host->context);
    uint64_t waited = 0;
    report_wait(waiter, peer, since);
    for (;;) {
        uint32_t word = load_acquire(&notify->word);
        if (reached(word, number))
            return WAIT_ARRIVED;
        enum wait_end end = look(waiter, peer, waited);
        if (end != WAIT_ARRIVED)
            return notify_reached(notify, number) ? WAIT_ARRIVED : end;
        sleep_once(waiter, notify, word, number);
        waited = host->now_ns(host->context) - since;
        if (host->attend && !notify_reached(notify, number) && !host->attend(host->context, waited))
            return notify_reached(notify, number) ? WAIT_ARRIVED : WAIT_INTERRUPTED;
    }
}

static enum wait_end wait_looking(struct waiter *waiter, struct notify *notify, uint32_t number, uint32_t peer,
                                  look_around look)
{
    for (uint32_t i = 0; i < waiter->spins; i++) {
        if (notify_reached(notify, number))
            return WAIT_ARRIVED;
        spin_pause();
    }
    if (waiter->host.blocks)
        waiter->host.blocks(waiter->host.context);
    for (uint32_t i = 0; i < waiter->yields; i++) {
        if (notify_reached(notify, number))
            return WAIT_ARRIVED;
        waiter->host.yield(waiter->host.context);
    }
    enum wait_end end = wait_asleep(waiter, notify, number, peer, look);
    store_relaxed(&waiter->own->waits_for, 0);
    return end;
}

enum wait_end notify_wait(struct waiter *waiter, struct notify *notify, uint32_t number, uint32_t peer)
{
    return wait_looking(waiter, notify, number, peer, look_for_trouble);
}

enum wait_end notify_wait_out(struct waiter *waiter, struct notify *notify, uint32_t number, uint32_t peer)
{
    return wait_looking(waiter, notify, number, peer, look_for_the_end_of_peer);
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
