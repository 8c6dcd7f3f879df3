/* pthread_create, pthread_join and related calls.
 *
 * Uses: clock, records, scheduler, threads. */
#define _GNU_SOURCE
#include "scheduler.h"

#include "clock.h"
#include "records.h"
#include "threads.h"

#include <dlfcn.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

static void thread_begin(void)
{
    struct turn *me = turn_current;
    pthread_exit(me->routine(me->argument));
}

/* Runs on a new kernel thread, which provides its stack and thread control block and ends. This end is hidden from
 * libc, which would free both. */
static void *thread_lend(void *given)
{
    struct turn *turn = given;
    turn_capture(turn, thread_begin);
    kernel(SYS_set_tid_address, &turn->alive);
    kernel(SYS_exit, 0);
    return NULL; /* not reached */
}

static struct turn *turn_unused(void)
{
    for (unsigned i = 0; i < TURNS; i++) {
        if (turns[i].used)
            continue;
        if (i >= turns_begun)
            turns_begun = i + 1;
        return &turns[i];
    }
    return NULL;
}

/* Waits until the kernel no longer uses the stack. */
static void turn_settle(const struct turn *turn)
{
    while (__atomic_load_n(&turn->alive, __ATOMIC_ACQUIRE))
        kernel(SYS_futex, &turn->alive, FUTEX_WAIT, 1, NULL);
}

EXPORT int pthread_create(pthread_t *restrict into, const pthread_attr_t *restrict attributes,
                          void *(*routine)(void *), void *restrict argument)
{
    struct turn *turn = turn_unused();
    if (!turn)
        return EAGAIN;
    *turn = (struct turn){ .used = true, .deadline_ns = NEVER, .alive = 1, .routine = routine, .argument = argument };
    int kind = PTHREAD_CREATE_JOINABLE;
    if (attributes)
        pthread_attr_getdetachstate(attributes, &kind);
    turn->detached = kind == PTHREAD_CREATE_DETACHED;
    pthread_t thread;
    int error = REAL(pthread_create)(&thread, attributes, thread_lend, turn);
    if (error) {
        turn->used = false;
        return error;
    }
    turn_settle(turn);
    *into = thread;
    return 0;
}

static struct turn *turn_of(pthread_t thread)
{
    if (thread == pthread_self())
        return turn_current;
    for (struct turn *turn = turns; turn < turns + turns_begun; turn++)
        if (turn->used && turn->thread == (uintptr_t)thread)
            return turn;
    return NULL;
}

static bool all_done(void)
{
    for (const struct turn *turn = turns; turn < turns + turns_begun; turn++)
        if (turn->used && !turn->done && turn != turn_current)
            return false;
    return true;
}

/* Neither unwinds nor runs cleanup handlers, which needs a kernel thread. */
EXPORT void pthread_exit(void *result)
{
    turn_current->result = result;
    thread_values_destroy();
    if (all_done())
        exit(0);
    turn_end();
}

static bool is_done(const void *turn)
{
    return ((const struct turn *)turn)->done;
}

/* The slot of a turn is not reused: its stack and thread control block belong to libc and stay mapped. */
static int join(pthread_t thread, void **result, int64_t deadline_ns, int late)
{
    struct turn *turn = turn_of(thread);
    if (!turn || turn->joined)
        return ESRCH;
    if (turn->detached)
        return EINVAL;
    if (turn == turn_current)
        return EDEADLK;
    if (!turn_wait(FOR_ANOTHER, is_done, turn, deadline_ns))
        return late;
    turn->joined = true;
    if (result)
        *result = turn->result;
    return 0;
}

EXPORT int pthread_join(pthread_t thread, void **result)
{
    return join(thread, result, NEVER, 0);
}

EXPORT int pthread_tryjoin_np(pthread_t thread, void **result)
{
    return join(thread, result, clock_now_ns(), EBUSY);
}

EXPORT int pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *at)
{
    return join(thread, result, clock_deadline_ns(CLOCK_REALTIME, at), ETIMEDOUT);
}

EXPORT int pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock, const struct timespec *at)
{
    return join(thread, result, clock_deadline_ns(clock, at), ETIMEDOUT);
}

EXPORT int pthread_detach(pthread_t thread)
{
    struct turn *turn = turn_of(thread);
    if (!turn)
        return ESRCH;
    if (turn->detached)
        return EINVAL;
    turn->detached = true;
    return 0;
}

EXPORT int sched_yield(void)
{
    turn_yield();
    turn_idle();
    return 0;
}

/* Names and processors of threads, which the kernel does not have. */
EXPORT int pthread_setname_np(pthread_t thread, const char *name)
{
    (void)thread, (void)name;
    return 0;
}

EXPORT int pthread_setaffinity_np(pthread_t thread, size_t bytes, const cpu_set_t *set)
{
    (void)thread, (void)bytes, (void)set;
    return 0;
}

EXPORT int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *parameters)
{
    (void)thread, (void)policy, (void)parameters;
    return 0;
}

/* A signal to a thread is sent to the only kernel thread. */
EXPORT int pthread_kill(pthread_t thread, int signal)
{
    const struct turn *turn = turn_of(thread);
    if (!turn || turn->done)
        return ESRCH;
    return signal ? (int)-kernel(SYS_tgkill, kernel(SYS_getpid), kernel(SYS_gettid), signal) : 0;
}

EXPORT int pthread_cancel(pthread_t thread)
{
    (void)thread;
    record_end(END_REFUSED, "refused: pthread_cancel cannot be replayed");
}
