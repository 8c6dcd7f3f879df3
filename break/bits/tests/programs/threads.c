/* Programs of several threads. What each writes does not depend on the order in which they run. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 4 };

static pthread_t started(void *(*act)(void *), void *with) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, act, with) != 0)
        exit(9);
    return thread;
}

static void team(void *(*act)(void *), void (*lead)(void)) {
    pthread_t threads[WORKERS];
    for (size_t n = 0; n < WORKERS; n++)
        threads[n] = started(act, (void *)n);
    if (lead)
        lead();
    for (size_t n = 0; n < WORKERS; n++)
        pthread_join(threads[n], NULL);
}

static unsigned mixed(unsigned number) {
    for (int n = 0; n < 20; n++)
        number = number * 2654435761u ^ number >> 13;
    return number;
}

/* a bounded queue with two conditions; the sum over all workers is constant */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    unsigned items[3], count, ended, sum;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER, .emptied = PTHREAD_COND_INITIALIZER};

static void *takes(void *with) {
    (void)with;
    for (;;) {
        pthread_mutex_lock(&queue.lock);
        while (queue.count == 0 && !queue.ended)
            pthread_cond_wait(&queue.filled, &queue.lock);
        if (queue.count == 0) {
            pthread_mutex_unlock(&queue.lock);
            return NULL;
        }
        unsigned item = queue.items[--queue.count];
        pthread_cond_signal(&queue.emptied);
        pthread_mutex_unlock(&queue.lock);
        unsigned result = mixed(item);
        pthread_mutex_lock(&queue.lock);
        queue.sum += result;
        pthread_mutex_unlock(&queue.lock);
    }
}

static void gives(void) {
    for (unsigned n = 0; n < 40; n++) {
        pthread_mutex_lock(&queue.lock);
        while (queue.count == 3)
            pthread_cond_wait(&queue.emptied, &queue.lock);
        queue.items[queue.count++] = n;
        pthread_cond_signal(&queue.filled);
        pthread_mutex_unlock(&queue.lock);
    }
    pthread_mutex_lock(&queue.lock);
    queue.ended = 1;
    pthread_cond_broadcast(&queue.filled);
    pthread_mutex_unlock(&queue.lock);
}

static void queues(void) {
    team(takes, gives);
    printf("sum %u\n", queue.sum);
}

/* threads started one after the other; each continues from the result of the one before */
static void *once(void *with) {
    unsigned *number = with;
    unsigned *heap = malloc(64);
    *heap = mixed(*number);
    *number = *heap;
    free(heap);
    return with;
}

static void lives(void) {
    unsigned number = 1;
    for (int n = 0; n < 12; n++) {
        void *result;
        pthread_join(started(once, &number), &result);
        printf("%d %u\n", n, *(unsigned *)result);
    }
}

/* rounds at a barrier; each reads what all threads wrote in the round before */
static pthread_barrier_t barrier;
static unsigned cells[2][WORKERS];

static void *rounds(void *with) {
    size_t own = (size_t)with;
    for (unsigned n = 0; n < 8; n++) {
        unsigned sum = n;
        for (size_t other = 0; other < WORKERS; other++)
            sum += cells[n % 2][other];
        cells[(n + 1) % 2][own] = mixed(sum + (unsigned)own);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void barriers(void) {
    pthread_barrier_init(&barrier, NULL, WORKERS);
    team(rounds, NULL);
    for (size_t n = 0; n < WORKERS; n++)
        printf("%u\n", cells[0][n]);
}

/* a token passed around: each thread spins until its turn, none sleeps */
static atomic_uint baton;
static unsigned log_[WORKERS * 2];

static void *spins(void *with) {
    unsigned own = (unsigned)(size_t)with;
    for (unsigned n = 0; n < 2; n++) {
        while (atomic_load_explicit(&baton, memory_order_acquire) != n * WORKERS + own)
            ;
        log_[n * WORKERS + own] = mixed(own * 100 + n);
        atomic_fetch_add_explicit(&baton, 1, memory_order_release);
    }
    return NULL;
}

static void batons(void) {
    team(spins, NULL);
    for (size_t n = 0; n < WORKERS * 2; n++)
        printf("%u\n", log_[n]);
}

/* C11 atomics: a ticket lock around a plain counter, and a sum by compare and exchange */
static atomic_uint ticket, serving, total;
static unsigned plain;

static void *counts(void *with) {
    unsigned own = (unsigned)(size_t)with;
    for (unsigned n = 0; n < 4; n++) {
        unsigned mine = atomic_fetch_add(&ticket, 1);
        while (atomic_load(&serving) != mine)
            ;
        plain += mixed(own * 1000 + n);
        atomic_fetch_add(&serving, 1);
        unsigned current = atomic_load(&total);
        while (!atomic_compare_exchange_weak(&total, &current, current + mixed(n)))
            ;
    }
    return NULL;
}

static void atomics(void) {
    team(counts, NULL);
    printf("%u %u\n", plain, atomic_load(&total));
}

/* sleeps of different lengths, and waits that time out */
static sem_t never;

static void *sleeps(void *with) {
    size_t own = (size_t)with;
    struct timespec time = {0, (long)(WORKERS - own) * 3000000};
    nanosleep(&time, NULL);
    clock_gettime(CLOCK_REALTIME, &time);
    /* without a branch: whether a new second begins differs between runs */
    long long then = time.tv_sec * 1000000000LL + time.tv_nsec + 5000000;
    time.tv_sec = then / 1000000000;
    time.tv_nsec = then % 1000000000;
    log_[own] = sem_timedwait(&never, &time) == -1 && errno == ETIMEDOUT;
    return NULL;
}

static void naps(void) {
    sem_init(&never, 0, 0);
    team(sleeps, NULL);
    for (size_t n = 0; n < WORKERS; n++)
        printf("%u\n", log_[n]);
}

/* the first thread ends before the others; one of these ends the process */
static sem_t ended;

static void *lasts(void *with) {
    pthread_join(*(pthread_t *)with, NULL);
    sem_wait(&ended);
    puts("last");
    exit(3);
}

static void *detached(void *with) {
    pthread_detach(pthread_self());
    sem_post(with);
    return NULL;
}

static void outlived(void) {
    static pthread_t first;
    first = pthread_self();
    sem_init(&ended, 0, 0);
    started(lasts, &first);
    started(detached, &ended);
    pthread_exit(NULL);
}

/* locks of all kinds that the C library implements */
static pthread_mutex_t recursive, checking;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t prepared = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static unsigned guarded, destroyed;

static void destroys(void *value) { atomic_fetch_add((atomic_uint *)&destroyed, (unsigned)(size_t)value); }

static void prepares(void) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checking, &kind);
    pthread_key_create(&key, destroys);
}

static void *locks(void *with) {
    pthread_once(&prepared, prepares);
    pthread_setspecific(key, (void *)((size_t)with + 1));
    for (unsigned n = 0; n < 10; n++) {
        pthread_mutex_lock(&recursive);
        if (pthread_mutex_lock(&recursive) != 0 || pthread_mutex_lock(&checking) != 0)
            exit(8);
        if (pthread_mutex_lock(&checking) != EDEADLK)
            exit(7);
        pthread_rwlock_wrlock(&shared);
        guarded += mixed(n + 1);
        pthread_rwlock_unlock(&shared);
        if (pthread_mutex_unlock(&checking) != 0 || pthread_mutex_unlock(&recursive) != 0)
            exit(6);
        pthread_mutex_unlock(&recursive);
        pthread_rwlock_rdlock(&shared);
        if (guarded == 0)
            exit(5);
        pthread_rwlock_unlock(&shared);
    }
    return NULL;
}

static void kinds(void) {
    team(locks, NULL);
    printf("%u %u\n", guarded, destroyed);
}

/* futex calls without the library: some waits are requeued to another word, some woken by bits */
static atomic_uint gate, yard, bits, passed;

static long futex(atomic_uint *word, int operation, unsigned value, unsigned long most, atomic_uint *other, unsigned third) {
    return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, most, other, third);
}

static void *passes(void *with) {
    unsigned own = (unsigned)(size_t)with;
    while (atomic_load(&gate) == 0)
        futex(&gate, FUTEX_WAIT, 0, 0, NULL, 0);
    while ((atomic_load(&bits) >> own & 1) == 0)
        futex(&bits, FUTEX_WAIT_BITSET, atomic_load(&bits) & ~(1u << own), 0, NULL, 1u << own);
    atomic_fetch_add(&passed, mixed(own + 1));
    return NULL;
}

static void opens(void) {
    usleep(2000);
    atomic_store(&gate, 1);
    if (futex(&gate, FUTEX_CMP_REQUEUE, 1, WORKERS, &yard, 2) != -1 || errno != EAGAIN)
        exit(8);
    futex(&gate, FUTEX_CMP_REQUEUE, 1, WORKERS, &yard, 1);
    usleep(2000);
    futex(&yard, FUTEX_WAKE, WORKERS, 0, NULL, 0);
    usleep(2000);
    for (unsigned own = 0; own < WORKERS; own++) {
        atomic_fetch_or(&bits, 1u << own);
        futex(&bits, FUTEX_WAKE_BITSET, WORKERS, 0, NULL, 1u << own);
    }
}

static void bare(void) {
    team(passes, opens);
    printf("%u\n", passed);
}

/* one works, the others only wait: the effect of a flip cannot depend on their order */
static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;

static void *waits(void *with) {
    pthread_mutex_lock(&door);
    pthread_mutex_unlock(&door);
    return with;
}

static void writes(void) {
    unsigned number = 7;
    for (int n = 0; n < 30; n++) {
        number = mixed(number);
        printf("%u\n", number);
    }
    fflush(stdout);
    pthread_mutex_unlock(&door);
}

static void single(void) {
    pthread_mutex_lock(&door);
    team(waits, writes);
}

/* the order of one sleep and two shorter ones depends on when they begin */
static void *naps_once(void *with) {
    usleep(40000);
    puts("once");
    return with;
}

static void *naps_twice(void *with) {
    usleep(25000);
    for (volatile unsigned n = 0; n < 3000; n++)
        ;
    usleep(25000);
    puts("twice");
    return with;
}

static void restless(void) {
    pthread_t other = started(naps_once, NULL);
    naps_twice(NULL);
    pthread_join(other, NULL);
}

/* without turns, the thread with more work may finish first */
static void *hurries(void *with) {
    for (volatile size_t n = 0; n < 2000 * (WORKERS - (size_t)with); n++)
        ;
    char digit = (char)('0' + (size_t)with);
    if (write(1, &digit, 1) != 1)
        exit(9);
    return NULL;
}

static void racing(void) { team(hurries, NULL); }

/* calls that are refused */
static volatile sig_atomic_t was_caught;
static void caught(int signal) { was_caught = signal; }

static void *signaled(void *with) {
    while (!was_caught)
        ;
    return with;
}

static void signals(void) {
    signal(SIGUSR1, caught);
    pthread_t other = started(signaled, NULL);
    pthread_kill(other, SIGUSR1);
    pthread_join(other, NULL);
}

static void inherits(void) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&door, &kind);
    pthread_mutex_lock(&door);
    pthread_t other = started(waits, NULL);
    usleep(3000);
    pthread_mutex_unlock(&door);
    pthread_join(other, NULL);
}

/* its owner ends: the kernel passes the lock to the next thread and reports that (EOWNERDEAD) */
static void *abandons(void *with) { return pthread_mutex_lock(&door), with; }

static void robust(void) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&door, &kind);
    pthread_join(started(abandons, NULL), NULL);
    printf("%d\n", pthread_mutex_lock(&door) == EOWNERDEAD);
}

static void many(void) {
    pthread_t threads[80];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 16);
    pthread_mutex_lock(&door);
    for (int n = 0; n < 80; n++)
        if (pthread_create(&threads[n], &small, waits, NULL) != 0)
            exit(9);
    pthread_mutex_unlock(&door);
    for (int n = 0; n < 80; n++)
        pthread_join(threads[n], NULL);
    puts("done");
}

static const struct { const char *name; void (*act)(void); } acts[] = {
    {"queues", queues}, {"lives", lives}, {"barriers", barriers}, {"batons", batons}, {"atomics", atomics}, {"naps", naps},
    {"outlived", outlived}, {"kinds", kinds}, {"bare", bare}, {"single", single}, {"restless", restless}, {"racing", racing}, {"signals", signals}, {"inherits", inherits}, {"many", many},
    {"robust", robust},
};

int main(int count, char **words) {
    for (size_t n = 0; count > 1 && n < sizeof acts / sizeof *acts; n++)
        if (strcmp(acts[n].name, words[1]) == 0) {
            acts[n].act();
            return 0;
        }
    return 2;
}
