#include "flag.h"

#include "order.h"

void flag_set(const struct wait_host *host, struct flag *flag)
{
    if (atomic_exchange_explicit(&flag->word, FLAG_SET, memory_order_acq_rel) == FLAG_SLEEPERS)
        host->wake(host->context, &flag->word);
}

static bool taken(struct flag *flag)
{
    uint32_t word = load_acquire(&flag->word);
    return word == FLAG_SET && swap_if_equal(&flag->word, &word, 0);
}

/* One bounded sleep, unless the flag has just been set. */
static void sleep_once(const struct wait_host *host, struct flag *flag, uint64_t nanoseconds)
{
    uint32_t word = load_acquire(&flag->word);
    if (word == FLAG_SLEEPERS || (word == 0 && swap_if_equal(&flag->word, &word, FLAG_SLEEPERS)))
        host->sleep(host->context, &flag->word, FLAG_SLEEPERS, nanoseconds);
}

enum wait_end flag_take(const struct wait_host *host, const struct patience *patience, struct flag *flag,
                        uint64_t timeout_ns)
{
    for (uint32_t i = 0; i < patience->yields; i++) {
        if (taken(flag))
            return WAIT_ARRIVED;
        host->yield(host->context);
    }
    uint64_t before = host->now_ns(host->context), waited = 0;
    while (!taken(flag)) {
        if (timeout_ns && waited >= timeout_ns)
            return WAIT_TIMEOUT;
        if (host->attend && !host->attend(host->context, waited))
            return WAIT_INTERRUPTED;
        uint64_t left = timeout_ns ? timeout_ns - waited : UINT64_MAX;
        sleep_once(host, flag, left < patience->sleep_ns ? left : patience->sleep_ns);
        uint64_t now = host->now_ns(host->context);
        waited += sleep_counts_ns(before, now, patience->sleep_ns);
        before = now;
    }
    return WAIT_ARRIVED;
}
