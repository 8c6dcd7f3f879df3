/* Calls that wait for time or for a signal.
 *
 * Uses: clock, scheduler. */
#define _GNU_SOURCE
#include "clock.h"
#include "scheduler.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

static void sleep_until(int64_t deadline_ns)
{
    turn_wait(FOR_TIME, turn_not, NULL, deadline_ns);
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
    sleep_until(clock_now_ns() + us * 1000LL);
    return 0;
}

EXPORT unsigned sleep(unsigned seconds)
{
    sleep_until(clock_now_ns() + seconds * NS_PER_S);
    return 0;
}

/* Timers that would raise a signal at an arbitrary instruction: they never expire. */
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

/* No signals are sent here. */
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
