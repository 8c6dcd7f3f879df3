/* What tells the time, and what waits for it. */
#define _GNU_SOURCE
#include "clock.h"

#include "turns.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <unistd.h>

#define MONOTONIC_START_NS (1000 * NS_PER_S)
#define WALL_START_S 1700000000LL /* 14 November 2023 */
#define CALL_NS 1000              /* so that who loops until it is later gets there */
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

static int64_t tell(clockid_t clock)
{
    now_ns += CALL_NS;
    return now_ns + offset_ns(clock);
}

static void sleep_until(int64_t deadline_ns)
{
    turn_wait(FOR_TIME, turn_not, NULL, deadline_ns);
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *time)
{
    *time = split(tell(clock));
    return 0;
}

EXPORT int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    (void)zone;
    int64_t ns = tell(CLOCK_REALTIME);
    *time = (struct timeval){ ns / NS_PER_S, ns % NS_PER_S / 1000 };
    return 0;
}

EXPORT time_t time(time_t *into)
{
    time_t seconds = tell(CLOCK_REALTIME) / NS_PER_S;
    if (into)
        *into = seconds;
    return seconds;
}

EXPORT clock_t clock(void)
{
    return tell(CLOCK_PROCESS_CPUTIME_ID) / 1000;
}

EXPORT clock_t times(struct tms *into)
{
    if (into)
        *into = (struct tms){ 0 };
    return tell(CLOCK_MONOTONIC) / (NS_PER_S / 100);
}

EXPORT int getrusage(int who, struct rusage *usage)
{
    (void)who;
    *usage = (struct rusage){ 0 };
    return 0;
}

static int sleep_for(const struct timespec *time, struct timespec *left)
{
    if (time->tv_nsec < 0 || time->tv_nsec >= NS_PER_S || time->tv_sec < 0)
        return EINVAL;
    sleep_until(clock_after(time));
    if (left)
        *left = (struct timespec){ 0 };
    return 0;
}

EXPORT int nanosleep(const struct timespec *time, struct timespec *left)
{
    return (int)answer(-sleep_for(time, left));
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    if (!(flags & TIMER_ABSTIME))
        return sleep_for(time, left);
    sleep_until(clock_deadline_ns(clock, time));
    return 0;
}

EXPORT int usleep(useconds_t us)
{
    sleep_until(now_ns + us * 1000LL);
    return 0;
}

EXPORT unsigned sleep(unsigned seconds)
{
    sleep_until(now_ns + seconds * NS_PER_S);
    return 0;
}

/* Timers that would strike at an instruction of their own choice: they never do. */
EXPORT unsigned alarm(unsigned seconds)
{
    (void)seconds;
    return 0;
}

EXPORT int setitimer(__itimer_which_t which, const struct itimerval *restrict new, struct itimerval *restrict old)
{
    (void)which, (void)new;
    if (old)
        *old = (struct itimerval){ 0 };
    return 0;
}

/* Nobody sends signals here. */
static int wait_for_signal(int64_t deadline_ns)
{
    turn_wait(FOR_ANOTHER, turn_not, NULL, deadline_ns);
    return -EAGAIN;
}

EXPORT int pause(void)
{
    return (int)answer(wait_for_signal(NEVER));
}

EXPORT int sigsuspend(const sigset_t *set)
{
    (void)set;
    return (int)answer(wait_for_signal(NEVER));
}

EXPORT int sigwait(const sigset_t *restrict set, int *restrict signal)
{
    (void)set, (void)signal;
    return -wait_for_signal(NEVER);
}

EXPORT int sigwaitinfo(const sigset_t *restrict set, siginfo_t *restrict info)
{
    (void)set, (void)info;
    return (int)answer(wait_for_signal(NEVER));
}

EXPORT int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info, const struct timespec *restrict time)
{
    (void)set, (void)info;
    return (int)answer(wait_for_signal(time ? clock_after(time) : NEVER));
}
