/* The plans of a test, written by the fixture plan_file of tests/core/conftest.py: records of int32
 *     collective, algorithm (below), root or -1, size, rank, fingerprint, nwords,
 *     nlent[0], nlent[1], words..., then for each chunk of IN and of OUT whether it is lent */
#ifndef TEST_PLAN_FILE_H
#define TEST_PLAN_FILE_H

#include "communicator.h"

struct packed {
    uint8_t collective;
    uint32_t algorithm, root, size, rank, fingerprint; /* root: ROOT_ANY if the collective has none */
    size_t nwords, nlent[2];
    const int32_t *words;
};

struct plan_file {
    size_t nplans;
    struct packed *plans;
    int32_t *content;
};

/* HcclCMDType, beside those that core names. */
enum { REDUCE = 3, ALL_GATHER = 6, REDUCE_SCATTER = 7, ALL_TO_ALL = 10, GATHER = 11, SCATTER = 12 };
enum { MESH = 0, RING = 1, ANY_OTHER = 2 }; /* struct packed.algorithm */

void plan_file_read(struct plan_file *file, const char *path);
void plan_file_close(struct plan_file *file);

/* Adds the packed plan to a communicator as the choice for this dtype and op, at any size. */
void add_packed(struct communicator *communicator, const struct packed *packed, uint8_t dtype, uint8_t op);
/* Adds the ways to do the collective within the round, one for each root, up to so many bytes of a rank. */
void add_exchanges(struct communicator *communicator, uint8_t collective, uint8_t dtype, uint8_t op, uint64_t most_nbytes);
/* Of the choices that serve a call, the one that is looked at first from now on.  `fingerprint` 0: an exchange. */
void prefer_choice(struct communicator *communicator, const struct call *call, uint32_t fingerprint);

#endif
