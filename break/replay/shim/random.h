/* Random numbers that are the same in every run. */
#pragma once

#include "kernel.h"

/* The next number of the stream with this state. The state is never 0 afterwards. */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t mixed = *state += 0x9e3779b97f4a7c15;
    if (!*state)
        *state = 1;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
}

/* Fills memory from the program's stream. */
void random_fill(void *into, size_t bytes);
