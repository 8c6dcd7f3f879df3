/* The virtual clock, and the calls that read it.
 *
 * Uses: nothing. */
#define _GNU_SOURCE
#include "clock.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <unistd.h>

#define MONOTONIC_START_NS (1000 * NS_PER_S)
#define WALL_START_S 1700000000LL /* 14 November 2023 */
#define CALL_NS 1000              /* so that a loop that waits for a later time ends */
#define LONGEST_S (1LL << 32)

static int64_t now_ns = MONOTONIC_START_NS;

int64_t clock_now_ns(void)
{
    return now_ns;
}

void clock_advance(int64_t to_ns)
{
    if (to_ns > now_ns)
        now_ns = to_ns;
}

/* Distance of a clock from the monotonic one. */
static int64_t offset_ns(clockid_t clock)
{
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_REALTIME_ALARM:
    case CLOCK_TAI:
        return WALL_START_S * NS_PER_S - MONOTONIC_START_NS;
    case CLOCK_PROCESS_CPUTIME_ID:
    case CLOCK_THREAD_CPUTIME_ID:
        return -MONOTONIC_START_NS;
    default:
        return 0;
    }
}

static int64_t nanoseconds(const struct timespec *time)
{
    int64_t seconds = time->tv_sec < 0 ? 0 : time->tv_sec > LONGEST_S ? LONGEST_S : time->tv_sec;
    return seconds * NS_PER_S + time->tv_nsec;
}

static struct timespec split(int64_t ns)
{
    return (struct timespec){ ns / NS_PER_S, ns % NS_PER_S };
}

int64_t clock_deadline_ns(clockid_t clock, const struct timespec *at)
{
    return nanoseconds(at) - offset_ns(clock);
}

int64_t clock_after(const struct timespec *time)
{
    return now_ns + nanoseconds(time);
}

int64_t clock_after_ms(int64_t ms)
{
    if (ms < 0)
        return NEVER;
    return now_ns + (ms < LONGEST_S * 1000 ? ms : LONGEST_S * 1000) * 1000000;
}

static int64_t read_clock_ns(clockid_t clock)
{
    now_ns += CALL_NS;
    return now_ns + offset_ns(clock);
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *time)
{
    *time = split(read_clock_ns(clock));
    return 0;
}

EXPORT int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    (void)zone;
    int64_t ns = read_clock_ns(CLOCK_REALTIME);
    *time = (struct timeval){ ns / NS_PER_S, ns % NS_PER_S / 1000 };
    return 0;
}

EXPORT time_t time(time_t *into)
{
    time_t seconds = read_clock_ns(CLOCK_REALTIME) / NS_PER_S;
    if (into)
        *into = seconds;
    return seconds;
}

EXPORT clock_t clock(void)
{
    return read_clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1000;
}

EXPORT clock_t times(struct tms *into)
{
    if (into)
        *into = (struct tms){ 0 };
    return read_clock_ns(CLOCK_MONOTONIC) / (NS_PER_S / 100);
}

EXPORT int getrusage(int who, struct rusage *usage)
{
    (void)who;
    *usage = (struct rusage){ 0 };
    return 0;
}
