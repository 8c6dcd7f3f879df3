/* epoll, edge-triggered: reads until there is no more. */
#include "serve.h"

#include <errno.h>
#include <sys/epoll.h>

int main(void)
{
    int listener = serve(7), epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = listener };
    CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event));
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) && errno == EEXIST);
    for (;;) {
        CHECK(epoll_wait(epoll, &event, 1, -1) == 1);
        int fd = event.data.fd;
        if (fd == listener) {
            int connection = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
            event = (struct epoll_event){ .events = EPOLLIN | EPOLLET | EPOLLRDHUP, .data.fd = connection };
            CHECK(connection >= 0 && !epoll_ctl(epoll, EPOLL_CTL_ADD, connection, &event));
            continue;
        }
        char byte;
        ssize_t got;
        while ((got = read(fd, &byte, 1)) == 1)
            CHECK(write(fd, &byte, 1) == 1);
        CHECK(got == 0 || errno == EAGAIN);
        if (got == 0)
            close(fd);
    }
}
