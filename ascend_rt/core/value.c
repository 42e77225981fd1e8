#include "value.h"

#include "order.h"

enum { LONGEST_SLEEP_NS = 1000000 };

/* What a waiter sleeps on: both machines are little-endian, so the low half comes first. */
static _Atomic uint32_t *low_half(_Atomic uint64_t *word) { return (_Atomic uint32_t *)(void *)word; }

void value_write(const struct wait_host *host, _Atomic uint64_t *word, uint64_t value)
{
    store_release(word, value);
    host->wake(host->context, low_half(word));
}

static bool passes(uint64_t word, enum value_test test, uint64_t value)
{
    switch (test) {
    case VALUE_GEQ:
        return word >= value;
    case VALUE_EQ:
        return word == value;
    case VALUE_AND:
        return (word & value) != 0;
    case VALUE_NOR:
        return ~(word | value) != 0;
    }
    return false;
}

enum wait_end value_wait(const struct wait_host *host, const struct patience *patience, _Atomic uint64_t *word,
                         enum value_test test, uint64_t value, uint64_t timeout_ns)
{
    for (uint32_t i = 0; i < patience->yields; i++) {
        if (passes(load_acquire(word), test, value))
            return WAIT_ARRIVED;
        host->yield(host->context);
    }
    uint64_t before = host->now_ns(host->context), waited = 0;
    for (;;) {
        uint64_t found = load_acquire(word);
        if (passes(found, test, value))
            return WAIT_ARRIVED;
        if (timeout_ns && waited >= timeout_ns)
            return WAIT_TIMEOUT;
        if (host->attend && !host->attend(host->context, waited))
            return WAIT_INTERRUPTED;
        host->sleep(host->context, low_half(word), (uint32_t)found, LONGEST_SLEEP_NS);
        uint64_t now = host->now_ns(host->context);
        waited += sleep_counts_ns(before, now, LONGEST_SLEEP_NS);
        before = now;
    }
}
