/* The process is copied in the middle of its work, as a tracer does: the copy gets its own output, nothing else. The
 * copy runs to its end first. Threads and pipes are in use. */
#include "serve.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int requests[2], replies[2];

/* Answers with the number of requests before. */
static void *work(void *nothing)
{
    unsigned char number = 0, byte;
    while (read(requests[0], &byte, 1) == 1) {
        byte = (unsigned char)('a' + (byte + number++) % 26);
        CHECK(write(replies[1], &byte, 1) == 1);
    }
    return nothing;
}

static void copy_process(const char *output)
{
    int descriptor = atoi(getenv("FAULTLOOM_REPLAY_OUTPUT"));
    long child = syscall(SYS_fork);
    CHECK(child >= 0);
    if (!child) {
        long file = syscall(SYS_openat, AT_FDCWD, output, O_RDWR | O_CREAT, 0600);
        CHECK(file >= 0 && syscall(SYS_dup3, file, descriptor, 0) == descriptor);
        return;
    }
    int status = -1;
    CHECK(syscall(SYS_wait4, child, &status, 0, NULL) == child);
    printf("%d\n", status);
    fflush(stdout);
}

int main(int count, char **arguments)
{
    CHECK(count == 3 && !pipe(requests) && !pipe(replies));
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, work, NULL));
    int listener = serve(7), epoll = epoll_create1(0), served = 0, copy_at = atoi(arguments[2]);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = listener };
    CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event));
    for (;;) {
        CHECK(epoll_wait(epoll, &event, 1, -1) == 1);
        if (event.data.fd == listener) {
            event.data.fd = accept(listener, NULL, NULL);
            CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event));
            continue;
        }
        char byte;
        ssize_t got = read(event.data.fd, &byte, 1);
        if (got == 0) {
            close(event.data.fd);
            continue;
        }
        CHECK(got == 1 && write(requests[1], &byte, 1) == 1 && read(replies[0], &byte, 1) == 1);
        if (++served == copy_at)
            copy_process(arguments[1]);
        CHECK(write(event.data.fd, &byte, 1) == 1);
    }
}
