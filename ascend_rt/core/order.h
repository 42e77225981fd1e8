/* The only words for memory order in this library.  C11 atomics, so they hold on x86-64 and aarch64 alike.
 *
 * load_relaxed     a number whose value alone matters: a diagnosis, or my own earlier store
 * load_acquire     what the writer stored before it published is visible after this load
 * store_relaxed    nobody concludes anything from the order of this store
 * store_release    publishes what I stored before, where no sleeper has to be woken
 * swap_if_equal    publishes and observes in one step (acquire and release); *expected is what was there
 */
#ifndef ASCEND_RT_ORDER_H
#define ASCEND_RT_ORDER_H

#include <stdatomic.h>

#define load_relaxed(word) atomic_load_explicit((word), memory_order_relaxed)
#define load_acquire(word) atomic_load_explicit((word), memory_order_acquire)
#define store_relaxed(word, value) atomic_store_explicit((word), (value), memory_order_relaxed)
#define store_release(word, value) atomic_store_explicit((word), (value), memory_order_release)
#define swap_if_equal(word, expected, value) \
    atomic_compare_exchange_strong_explicit((word), (expected), (value), memory_order_acq_rel, memory_order_acquire)

#endif
