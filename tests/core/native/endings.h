/* The scenarios of endings.c, by file. */
#ifndef TEST_ENDINGS_H
#define TEST_ENDINGS_H

#include "stage.h"

struct scenario {
    const char *name;
    uint32_t size;
    void (*run)(struct stage *stage);
};

/* Each ends with an entry without a name. */
extern const struct scenario round_endings[], data_endings[], number_scenarios[];

#endif
