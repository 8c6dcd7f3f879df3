/* Virtual time: it stands still while anybody can go on. */
#pragma once

#include "kernel.h"

#include <time.h>

#define NS_PER_S 1000000000LL

/* Of the monotonic clock. */
int64_t clock_now_ns(void);

/* Never goes back. */
void clock_advance(int64_t to_ns);

/* A point of time of a clock as one of the monotonic clock. */
int64_t clock_deadline_ns(clockid_t clock, const struct timespec *at);

/* So much later than now; negative is NEVER. Does not overflow. */
int64_t clock_after_ms(int64_t ms);
int64_t clock_after(const struct timespec *time);
