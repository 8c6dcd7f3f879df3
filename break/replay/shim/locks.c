/* Locks. libc's non-waiting attempts handle every kind of lock, and each turn has its own thread control block, by
 * which libc distinguishes owners. The shim adds the waiting.
 *
 * Uses: clock, scheduler. */
#define _GNU_SOURCE
#include "clock.h"
#include "scheduler.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>

static bool mutex_is_free(const void *mutex)
{
    return !((const pthread_mutex_t *)mutex)->__data.__lock;
}

/* An attempt does not report that the caller already owns the lock. */
static bool is_ours_and_checked(const pthread_mutex_t *mutex)
{
    return (mutex->__data.__kind & 3) == PTHREAD_MUTEX_ERRORCHECK && mutex->__data.__owner == turn_current->owner;
}

static int mutex_lock_until(pthread_mutex_t *mutex, int64_t deadline_ns)
{
    for (;;) {
        int error = pthread_mutex_trylock(mutex);
        if (error != EBUSY)
            return error;
        if (is_ours_and_checked(mutex))
            return EDEADLK;
        if (!turn_wait(FOR_LOCK, mutex_is_free, mutex, deadline_ns))
            return ETIMEDOUT;
    }
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    return mutex_lock_until(mutex, NEVER);
}

EXPORT int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict at)
{
    return mutex_lock_until(mutex, clock_deadline_ns(CLOCK_REALTIME, at));
}

EXPORT int pthread_mutex_clocklock(pthread_mutex_t *restrict mutex, clockid_t clock, const struct timespec *restrict at)
{
    return mutex_lock_until(mutex, clock_deadline_ns(clock, at));
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    int error = REAL(pthread_mutex_unlock)(mutex);
    turn_offer();
    return error;
}

/* Whether a read-write lock is available cannot be checked without taking it: waiters retry after each unlock. */
static unsigned long unlocks;

static bool unlocked_since(const void *earlier)
{
    return unlocks != *(const unsigned long *)earlier;
}

static int rwlock_until(pthread_rwlock_t *lock, int (*attempt)(pthread_rwlock_t *), int64_t deadline_ns)
{
    for (;;) {
        int error = attempt(lock);
        if (error != EBUSY)
            return error;
        unsigned long earlier = unlocks;
        if (!turn_wait(FOR_LOCK, unlocked_since, &earlier, deadline_ns))
            return ETIMEDOUT;
    }
}

EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
    return rwlock_until(lock, pthread_rwlock_tryrdlock, NEVER);
}

EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
    return rwlock_until(lock, pthread_rwlock_trywrlock, NEVER);
}

EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *restrict lock, const struct timespec *restrict at)
{
    return rwlock_until(lock, pthread_rwlock_tryrdlock, clock_deadline_ns(CLOCK_REALTIME, at));
}

EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *restrict lock, const struct timespec *restrict at)
{
    return rwlock_until(lock, pthread_rwlock_trywrlock, clock_deadline_ns(CLOCK_REALTIME, at));
}

EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *restrict lock, clockid_t clock,
                                      const struct timespec *restrict at)
{
    return rwlock_until(lock, pthread_rwlock_tryrdlock, clock_deadline_ns(clock, at));
}

EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *restrict lock, clockid_t clock,
                                      const struct timespec *restrict at)
{
    return rwlock_until(lock, pthread_rwlock_trywrlock, clock_deadline_ns(clock, at));
}

EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
    int error = REAL(pthread_rwlock_unlock)(lock);
    unlocks++;
    turn_offer();
    return error;
}

static bool spin_is_free(const void *lock)
{
    return *(const volatile int *)lock == 1; /* libc's representation on x86-64 */
}

EXPORT int pthread_spin_lock(pthread_spinlock_t *lock)
{
    while (pthread_spin_trylock(lock) == EBUSY)
        turn_wait(FOR_LOCK, spin_is_free, (const void *)lock, NEVER);
    return 0;
}

static bool is_posted(const void *semaphore)
{
    int value = 0;
    sem_getvalue((sem_t *)semaphore, &value);
    return value > 0;
}

static int semaphore_until(sem_t *semaphore, int64_t deadline_ns)
{
    while (sem_trywait(semaphore)) {
        if (errno != EAGAIN)
            return -errno;
        if (!turn_wait(FOR_ANOTHER, is_posted, semaphore, deadline_ns))
            return -ETIMEDOUT;
    }
    return 0;
}

EXPORT int sem_wait(sem_t *semaphore)
{
    return (int)answer(semaphore_until(semaphore, NEVER));
}

EXPORT int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict at)
{
    return (int)answer(semaphore_until(semaphore, clock_deadline_ns(CLOCK_REALTIME, at)));
}

EXPORT int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict at)
{
    return (int)answer(semaphore_until(semaphore, clock_deadline_ns(clock, at)));
}
