/* Its output and its path depend on everything that differs between runs of a program outside the sandbox. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static unsigned long path;

/* one branch per bit */
static void depend(unsigned long number) {
    for (int bit = 0; bit < 64; bit++)
        if (number >> bit & 1)
            path = path * 31 + (unsigned)bit;
        else
            path ^= path >> 3;
}

static long now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    depend((unsigned long)time.tv_nsec);
    return time.tv_sec;
}

static unsigned long random_file(void) {
    unsigned long number = 0;
    int file = open("/dev/urandom", O_RDONLY);
    if (file < 0 || read(file, &number, sizeof number) != sizeof number)
        exit(9);
    close(file);
    return number;
}

__attribute__((noinline)) static unsigned long counter(void) { return __rdtsc(); }

__attribute__((noinline)) static unsigned long counter_and_processor(void) {
    unsigned processor;
    return __rdtscp(&processor);
}

/* One second each: until a time of either clock, and for a time. Nothing wakes it. */
static void wait_thrice(void) {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    for (int n = 0; n < 2; n++) {
        clockid_t clock = n == 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
        pthread_condattr_t attributes;
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, clock);
        pthread_cond_t never;
        pthread_cond_init(&never, &attributes);
        struct timespec until;
        clock_gettime(clock, &until);
        until.tv_sec++;
        if (pthread_cond_timedwait(&never, &lock, &until) != ETIMEDOUT)
            exit(9);
    }
    int word = 1;
    struct timespec second = {1, 0};
    if (syscall(SYS_futex, &word, FUTEX_WAIT, 1, &second) == 0 || errno != ETIMEDOUT)
        exit(9);
    if (syscall(SYS_futex, &word, FUTEX_WAIT, 2, &second) == 0 || errno != EAGAIN)
        exit(9);
}

int main(void) {
    long wall = now(CLOCK_REALTIME), start = now(CLOCK_MONOTONIC);
    printf("%ld\n", wall);
    sleep(3600);
    struct timeval wait = {5, 0};
    select(0, NULL, NULL, NULL, &wait);
    printf("slept %ld\n", now(CLOCK_MONOTONIC) - start);
    start = now(CLOCK_MONOTONIC);
    wait_thrice();
    printf("waited %ld\n", now(CLOCK_MONOTONIC) - start);
    /* a loop that waits for the clock ends */
    for (clock_t begin = clock(); clock() == begin;)
        ;
    unsigned long number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return 9;
    depend(number);
    depend(random_file());
    unsigned long first = counter(), second = counter_and_processor();
    depend(first);
    depend(second);
    struct timeval time;
    gettimeofday(&time, NULL);
    depend((unsigned long)time.tv_usec);
    struct sysinfo host;
    sysinfo(&host);
    depend(host.freeram ^ host.uptime);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    depend((unsigned long)usage.ru_utime.tv_usec);
    depend((unsigned long)sched_getcpu());
    cpu_set_t processors;
    if (sched_getaffinity(0, sizeof processors, &processors) != 0)
        return 9;
    printf("%d %d %d\n", getpid(), gettid(), CPU_COUNT(&processors));
    printf("path %lx\n", path);
    printf("counters %lx %lx\n", first, second);
    fflush(stdout);
    return 0;
}
