/* Ranks as threads of one process: what the tests that make random calls set up alike.
 *
 *     PROGRAM SIZE SEED ROUNDS PLANFILE spin|sleep */
#ifndef TEST_THREADS_H
#define TEST_THREADS_H

#include "plan_file.h"

enum { MOST_RANKS = 8 };

struct test {
    uint32_t size;
    uint64_t seed, rounds;
    bool sleeps; /* no wait spins, so each one that has to wait goes through the futex */
    struct segment segment;
    struct plan_file plans;
};

void test_open(struct test *test, int argc, char **argv);
void test_close(struct test *test);
/* Opens a rank's arena and its communicator, which has scratch and a choice for every call that tests draw. */
void test_open_rank(const struct test *test, uint32_t rank, struct arena *arena, struct communicator *communicator);
/* The offset of new device memory. */
uint64_t test_allocate(struct arena *arena, uint64_t nbytes);
/* Runs `rank(argument of the rank)` on a thread for each rank; arguments are `argument_nbytes` from one to the next. */
void test_run(const struct test *test, void *(*rank)(void *), void *arguments, size_t argument_nbytes);

#endif
