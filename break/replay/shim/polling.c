/* poll and select, over virtual and real descriptors.
 *
 * Uses: clock, objects, readiness, scheduler. */
#define _GNU_SOURCE
#include "clock.h"
#include "readiness.h"
#include "scheduler.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>

struct polled {
    struct pollfd *all;
    nfds_t count;
};

/* Polls real descriptors without waiting: files and inherited ones. */
static unsigned real_ready(const struct pollfd *one)
{
    struct pollfd copy = *one;
    struct timespec now = { 0 };
    return kernel(SYS_ppoll, &copy, 1, &now, 0, 0) > 0 ? (unsigned)copy.revents : 0;
}

static short ready_events(const struct pollfd *one)
{
    const struct object *object = descriptor_object(one->fd);
    unsigned ready = one->fd < 0 ? 0 : object ? object_ready(object) : real_ready(one);
    return (short)(ready & ((unsigned)one->events | POLLERR | POLLHUP | POLLNVAL));
}

static bool any_ready(const void *given)
{
    const struct polled *polled = given;
    for (nfds_t i = 0; i < polled->count; i++)
        if (ready_events(&polled->all[i]))
            return true;
    return false;
}

static int poll_until(struct pollfd *all, nfds_t count, int64_t deadline_ns)
{
    struct polled polled = { all, count };
    if (deadline_ns > clock_now_ns())
        turn_wait(FOR_INPUT, any_ready, &polled, deadline_ns);
    int ready = 0;
    for (nfds_t i = 0; i < count; i++)
        ready += (all[i].revents = ready_events(&all[i])) != 0;
    if (ready)
        turn_busy();
    else
        turn_idle();
    return ready;
}

static int64_t deadline(const struct timespec *time)
{
    return time ? clock_after(time) : NEVER;
}

EXPORT int poll(struct pollfd *all, nfds_t count, int timeout_ms)
{
    return poll_until(all, count, clock_after_ms(timeout_ms));
}

EXPORT int __poll_chk(struct pollfd *all, nfds_t count, int timeout_ms, size_t bytes)
{
    if (bytes / sizeof *all < count)
        abort();
    return poll_until(all, count, clock_after_ms(timeout_ms));
}

EXPORT int ppoll(struct pollfd *all, nfds_t count, const struct timespec *time, const sigset_t *mask)
{
    (void)mask;
    return poll_until(all, count, deadline(time));
}

EXPORT int __ppoll_chk(struct pollfd *all, nfds_t count, const struct timespec *time, const sigset_t *mask, size_t bytes)
{
    if (bytes / sizeof *all < count)
        abort();
    return ppoll(all, count, time, mask);
}

/* Converts the arguments of select to those of poll, and returns how many there are. */
static nfds_t polled_of(int count, fd_set *const sets[3], struct pollfd *into)
{
    static const short events[3] = { POLLIN, POLLOUT, POLLPRI };
    nfds_t used = 0;
    for (int fd = 0; fd < count && fd < FD_SETSIZE; fd++) {
        short events_of = 0;
        for (int kind = 0; kind < 3; kind++)
            if (sets[kind] && FD_ISSET(fd, sets[kind]))
                events_of |= events[kind];
        if (events_of)
            into[used++] = (struct pollfd){ .fd = fd, .events = events_of };
    }
    return used;
}

static int select_until(int count, fd_set *const sets[3], int64_t deadline_ns)
{
    static const short shown[3] = { POLLIN | POLLHUP | POLLERR, POLLOUT | POLLERR, POLLPRI };
    struct pollfd all[FD_SETSIZE];
    nfds_t used = polled_of(count, sets, all);
    poll_until(all, used, deadline_ns);
    for (int kind = 0; kind < 3; kind++)
        if (sets[kind])
            FD_ZERO(sets[kind]);
    int ready = 0;
    for (nfds_t i = 0; i < used; i++) {
        if (all[i].revents & POLLNVAL)
            return (int)answer(-EBADF);
        for (int kind = 0; kind < 3; kind++) {
            if (!sets[kind] || !(all[i].revents & shown[kind]))
                continue;
            FD_SET(all[i].fd, sets[kind]);
            ready++;
        }
    }
    return ready;
}

EXPORT int select(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict other,
                  struct timeval *restrict time)
{
    struct timespec exact = { 0 };
    if (time)
        exact = (struct timespec){ time->tv_sec, time->tv_usec * 1000 };
    return select_until(count, (fd_set *[3]){ in, out, other }, deadline(time ? &exact : NULL));
}

EXPORT int pselect(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict other,
                   const struct timespec *restrict time, const sigset_t *restrict mask)
{
    (void)mask;
    return select_until(count, (fd_set *[3]){ in, out, other }, deadline(time));
}
