/* Virtual time: it is stopped while any thread can run. */
#pragma once

#include "kernel.h"

#include <time.h>

#define NS_PER_S 1000000000LL
#define NEVER INT64_MAX

/* The monotonic clock. */
int64_t clock_now_ns(void);

/* Advances it; never sets it back. */
void clock_advance(int64_t to_ns);

/* Converts a time of a clock to the monotonic clock. */
int64_t clock_deadline_ns(clockid_t clock, const struct timespec *at);

/* A time from now; a negative duration is NEVER. Does not overflow. */
int64_t clock_after_ms(int64_t ms);
int64_t clock_after(const struct timespec *time);
