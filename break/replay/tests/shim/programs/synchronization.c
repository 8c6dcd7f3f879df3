/* All ways for threads to wait. Prints the results. */
#include "serve.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <time.h>

#define THREADS 8
#define ROUNDS 50

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t barrier;
static pthread_key_t key;
static sem_t items;
static long sum, passed, read_sum, spun, destroyed;
static int turn, serials, order[THREADS], used;
static __thread long own;

static void destroy(void *value)
{
    destroyed += (long)value;
}

static void *work(void *given)
{
    long number = (long)given;
    CHECK(!pthread_setspecific(key, (void *)(number + 1)));
    own = number;
    int serial = pthread_barrier_wait(&barrier);
    __atomic_add_fetch(&serials, serial == PTHREAD_BARRIER_SERIAL_THREAD, __ATOMIC_RELAXED);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_mutex_lock(&lock);
        long before = sum;
        sched_yield(); /* others run, but do not reach this line */
        sum = before + 1;
        pthread_mutex_unlock(&lock);
        pthread_rwlock_wrlock(&shared);
        before = passed;
        sched_yield();
        passed = before + 1;
        pthread_rwlock_unlock(&shared);
        pthread_rwlock_rdlock(&shared);
        CHECK(passed <= THREADS * ROUNDS);
        sched_yield();
        pthread_rwlock_unlock(&shared);
        pthread_spin_lock(&spin);
        spun++;
        pthread_spin_unlock(&spin);
        sem_post(&items);
    }
    pthread_mutex_lock(&lock);
    while (turn != number) /* one after the other, from the first */
        pthread_cond_wait(&changed, &lock);
    order[used++] = (int)number;
    turn++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    CHECK(own == number);
    return (void *)(number * number);
}

static void *take(void *nothing)
{
    (void)nothing;
    for (int i = 0; i < THREADS * ROUNDS; i++) {
        CHECK(!sem_wait(&items));
        read_sum++;
    }
    pthread_exit((void *)77);
}

static void kinds_of_mutex(void)
{
    pthread_mutexattr_t kind;
    pthread_mutex_t checked, recursive;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checked, &kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &kind);
    CHECK(!pthread_mutex_lock(&checked) && pthread_mutex_lock(&checked) == EDEADLK && !pthread_mutex_unlock(&checked));
    CHECK(!pthread_mutex_lock(&recursive) && !pthread_mutex_lock(&recursive));
    CHECK(!pthread_mutex_unlock(&recursive) && !pthread_mutex_unlock(&recursive));
    CHECK(pthread_mutex_unlock(&recursive) == EPERM);
    CHECK(!pthread_mutex_destroy(&recursive) && !pthread_mutex_destroy(&checked));
}

static void times_out(void)
{
    struct timespec at, after;
    pthread_mutex_lock(&lock);
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += 600;
    CHECK(pthread_cond_timedwait(&changed, &lock, &at) == ETIMEDOUT);
    pthread_mutex_unlock(&lock);
    clock_gettime(CLOCK_REALTIME, &after);
    CHECK(after.tv_sec >= at.tv_sec && after.tv_sec <= at.tv_sec + 1);
    after.tv_sec += 60;
    sem_t none;
    sem_init(&none, 0, 0);
    CHECK(sem_timedwait(&none, &after) == -1 && errno == ETIMEDOUT);
}

int main(void)
{
    pthread_t threads[THREADS], taker;
    void *result;
    long squares = 0;
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_spin_init(&spin, 0);
    pthread_key_create(&key, destroy);
    sem_init(&items, 0, 0);
    kinds_of_mutex();
    CHECK(!pthread_create(&taker, NULL, take, NULL));
    for (long i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
    for (int i = 0; i < THREADS; i++) {
        CHECK(!pthread_join(threads[i], &result));
        squares += (long)result;
    }
    CHECK(!pthread_join(taker, &result));
    CHECK(pthread_join(pthread_self(), NULL) == EDEADLK);
    times_out();
    for (int i = 0; i < THREADS; i++)
        CHECK(order[i] == i);
    printf("%ld %ld %ld %ld %d %ld %ld %ld\n", sum, passed, spun, read_sum, serials, squares, (long)result, destroyed);
    return 5;
}
