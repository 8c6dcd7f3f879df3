/* Condition variables and barriers. The scheduler's turns record the waiters; the variable stays as libc initialized
 * it.
 *
 * Uses: clock, scheduler. */
#define _GNU_SOURCE
#include "clock.h"
#include "scheduler.h"

#include <pthread.h>
#include <string.h>

static bool is_signaled(const void *turn)
{
    return ((const struct turn *)turn)->signaled;
}

static int condition_until(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t deadline_ns)
{
    static unsigned long tickets;
    struct turn *me = turn_current;
    me->condition = condition;
    me->ticket = tickets++;
    me->signaled = false;
    int error = pthread_mutex_unlock(mutex);
    if (error) {
        me->condition = NULL;
        return error;
    }
    bool woken = turn_wait(FOR_ANOTHER, is_signaled, me, deadline_ns);
    me->condition = NULL;
    error = pthread_mutex_lock(mutex);
    return error ? error : woken ? 0 : ETIMEDOUT;
}

/* The clock of the variable: the second bit of this word in glibc since 2.25. */
static clockid_t clock_of(const pthread_cond_t *condition)
{
    return condition->__data.__wrefs & 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

EXPORT int pthread_cond_wait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex)
{
    return condition_until(condition, mutex, NEVER);
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                                  const struct timespec *restrict at)
{
    return condition_until(condition, mutex, clock_deadline_ns(clock_of(condition), at));
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
                                  const struct timespec *restrict at)
{
    return condition_until(condition, mutex, clock_deadline_ns(clock, at));
}

/* The thread that has waited longest. */
static struct turn *waiter(const pthread_cond_t *condition)
{
    struct turn *first = NULL;
    for (struct turn *turn = turns; turn < turns + turns_begun; turn++)
        if (turn->used && turn->condition == condition && !turn->signaled && (!first || turn->ticket < first->ticket))
            first = turn;
    return first;
}

EXPORT int pthread_cond_signal(pthread_cond_t *condition)
{
    struct turn *first = waiter(condition);
    if (first)
        first->signaled = true;
    return 0;
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *condition)
{
    for (struct turn *turn = turns; turn < turns + turns_begun; turn++)
        if (turn->used && turn->condition == condition)
            turn->signaled = true;
    return 0;
}

/* Barriers are implemented here entirely, in libc's storage, which is large enough. */
struct barrier {
    unsigned count, arrived;
    unsigned long round;
};
_Static_assert(sizeof(struct barrier) <= sizeof(pthread_barrier_t), "it lies within libc's");

struct barrier_wait {
    const struct barrier *barrier;
    unsigned long round;
};

static bool round_is_over(const void *given)
{
    const struct barrier_wait *wait = given;
    return wait->barrier->round != wait->round;
}

EXPORT int pthread_barrier_init(pthread_barrier_t *restrict barrier, const pthread_barrierattr_t *restrict attributes,
                                unsigned count)
{
    (void)attributes;
    if (!count)
        return EINVAL;
    *(struct barrier *)barrier = (struct barrier){ .count = count };
    return 0;
}

EXPORT int pthread_barrier_destroy(pthread_barrier_t *barrier)
{
    return ((struct barrier *)barrier)->arrived ? EBUSY : 0;
}

EXPORT int pthread_barrier_wait(pthread_barrier_t *given)
{
    struct barrier *barrier = (struct barrier *)given;
    if (++barrier->arrived == barrier->count) {
        barrier->arrived = 0;
        barrier->round++;
        return PTHREAD_BARRIER_SERIAL_THREAD;
    }
    struct barrier_wait wait = { barrier, barrier->round };
    turn_wait(FOR_ANOTHER, round_is_over, &wait, NEVER);
    return 0;
}
