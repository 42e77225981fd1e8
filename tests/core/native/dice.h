/* Pseudo-random numbers that follow from a printed seed (splitmix64). */
#ifndef TEST_DICE_H
#define TEST_DICE_H

#include <stdint.h>

struct dice {
    uint64_t state;
};

static inline uint64_t mixed(uint64_t number)
{
    number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ number >> 27) * UINT64_C(0x94d049bb133111eb);
    return number ^ number >> 31;
}

static inline uint64_t roll(struct dice *dice) { return mixed(dice->state += UINT64_C(0x9e3779b97f4a7c15)); }

/* One of 0..below-1. */
static inline uint32_t roll_below(struct dice *dice, uint64_t below) { return (uint32_t)(roll(dice) % below); }

#endif
