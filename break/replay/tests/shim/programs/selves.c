/* Descriptors within a program: pipes, pairs of sockets, counters, timers; also random numbers and its identity. */
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>

static char sent[200000];

static void *write_all(void *given)
{
    CHECK(write(*(int *)given, sent, sizeof sent) == sizeof sent); /* more than fits at once */
    close(*(int *)given);
    return NULL;
}

static void pipes(void)
{
    static char got[sizeof sent];
    int ends[2], waiting;
    pthread_t writer;
    CHECK(!pipe(ends));
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (char)(i * 7);
    CHECK(!pthread_create(&writer, NULL, write_all, &ends[1]));
    size_t all = 0;
    ssize_t some;
    while ((some = read(ends[0], got + all, 3000)) > 0)
        all += (size_t)some;
    CHECK(all == sizeof sent && !memcmp(got, sent, sizeof sent) && !pthread_join(writer, NULL) && !close(ends[0]));
    CHECK(!pipe2(ends, O_NONBLOCK) && read(ends[0], got, 1) == -1 && errno == EAGAIN);
    int copy = dup(ends[1]);
    CHECK(!close(ends[1]) && write(copy, "abc", 3) == 3 && !ioctl(ends[0], FIONREAD, &waiting) && waiting == 3);
    CHECK(!close(ends[0]) && write(copy, "d", 1) == -1 && errno == EPIPE);
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends) && write(ends[0], "x", 1) == 1 && write(ends[1], "y", 1) == 1);
    CHECK(read(ends[1], got, 9) == 1 && got[0] == 'x' && read(ends[0], got, 9) == 1 && got[0] == 'y');
}

static void counters(void)
{
    uint64_t number = 3;
    int counter = eventfd(0, EFD_NONBLOCK);
    CHECK(read(counter, &number, 8) == -1 && errno == EAGAIN);
    CHECK(write(counter, &number, 8) == 8 && write(counter, &number, 8) == 8 && read(counter, &number, 8) == 8);
    CHECK(number == 6 && !close(counter) && close(counter) == -1 && errno == EBADF);
}

static void timers(void)
{
    struct timespec before, after;
    uint64_t expired;
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec every = { { 10, 0 }, { 30, 0 } };
    clock_gettime(CLOCK_MONOTONIC, &before);
    CHECK(!timerfd_settime(timer, 0, &every, NULL));
    struct pollfd one = { .fd = timer, .events = POLLIN };
    CHECK(poll(&one, 1, 1000) == 0 && poll(&one, 1, -1) == 1 && read(timer, &expired, 8) == 8 && expired == 1);
    CHECK(sleep(20) == 0 && read(timer, &expired, 8) == 8 && expired == 2);
    clock_gettime(CLOCK_MONOTONIC, &after);
    CHECK(after.tv_sec - before.tv_sec == 50);
}

int main(void)
{
    unsigned a, b, c, d;
    pipes();
    counters();
    timers();
    int file = open("/dev/urandom", O_RDONLY);
    FILE *stream = fopen("/dev/urandom", "r");
    CHECK(read(file, &a, sizeof a) == sizeof a && getrandom(&b, sizeof b, 0) == sizeof b && !getentropy(&c, sizeof c));
    CHECK(stream && fread(&d, sizeof d, 1, stream) == 1);
    printf("%x %x %x %x %ld %d\n", a, b, c, d, (long)time(NULL), (int)getpid());
    return a == b || b == c || c == d ? 1 : 5;
}
