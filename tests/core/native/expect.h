/* Checks of the C test programs: each ends the program with what was expected and where, and at once: a sanitizer would
 * have much to say about threads that are still there. */
#ifndef TEST_EXPECT_H
#define TEST_EXPECT_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition)                                                                  \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fflush(stdout);                                                                \
            fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition);       \
            _Exit(1);                                                                       \
        }                                                                                  \
    } while (0)

#define EXPECT_EQUAL(got, wanted)                                                                          \
    do {                                                                                                   \
        uint64_t got_ = (uint64_t)(got), wanted_ = (uint64_t)(wanted);                                     \
        if (got_ != wanted_) {                                                                             \
            fflush(stdout);                                                                                \
            fprintf(stderr, "%s:%d: %s is %" PRIu64 " (0x%" PRIx64 "), expected %s, %" PRIu64 " (0x%" PRIx64 ")\n", \
                    __FILE__, __LINE__, #got, got_, got_, #wanted, wanted_, wanted_);                      \
            _Exit(1);                                                                                       \
        }                                                                                                  \
    } while (0)

#endif
