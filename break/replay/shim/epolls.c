/* The calls of epoll.
 *
 * Uses: clock, objects, readiness, scheduler. */
#define _GNU_SOURCE
#include "clock.h"
#include "readiness.h"
#include "scheduler.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

static bool is_ready(const void *epoll)
{
    return object_ready(epoll);
}

static struct instance *instance_free(void)
{
    for (struct instance *instance = instances; instance < instances + EPOLLS; instance++)
        if (!instance->epoll)
            return instance;
    return NULL;
}

static int create(int flags)
{
    struct instance *instance = instance_free();
    struct object *object = instance ? object_new(KIND_EPOLL) : NULL;
    int fd = descriptor_open(object, flags);
    if (fd >= 0) {
        instance->epoll = object;
        object->instance = instance;
    }
    return fd;
}

EXPORT int epoll_create(int size)
{
    return (int)answer(size > 0 ? create(0) : -EINVAL);
}

EXPORT int epoll_create1(int flags)
{
    return (int)answer(create(flags));
}

static struct watch *watch_find(struct instance *instance, int fd, const struct object *object)
{
    for (unsigned i = 0; i < instance->watches; i++)
        if (instance->all[i].fd == fd && instance->all[i].object == object)
            return &instance->all[i];
    return NULL;
}

static int watch_set(struct instance *instance, int operation, int fd, const struct epoll_event *event)
{
    const struct object *object = descriptor_object(fd);
    if (!object)
        return kernel(SYS_fcntl, fd, F_GETFD) < 0 ? -EBADF : -EPERM; /* real files are not watched */
    if (object->kind == KIND_EPOLL)
        return -EINVAL;
    struct watch *watch = watch_find(instance, fd, object);
    if ((operation == EPOLL_CTL_ADD) == (watch != NULL))
        return watch ? -EEXIST : -ENOENT;
    object_generation++;
    if (operation == EPOLL_CTL_DEL) {
        watch_remove(instance, watch);
        return 0;
    }
    if (!watch && instance->watches == DESCRIPTORS)
        return -ENOSPC;
    if (!watch)
        watch = &instance->all[instance->watches++];
    *watch = (struct watch){ .object = object, .fd = fd, .events = event->events, .data = event->data };
    instance->timed |= object->kind == KIND_TIMER;
    return 0;
}

static struct instance *instance_at(int fd)
{
    const struct object *epoll = descriptor_object(fd);
    return epoll && epoll->kind == KIND_EPOLL ? epoll->instance : NULL;
}

EXPORT int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    struct instance *instance = instance_at(epoll);
    return (int)answer(instance ? watch_set(instance, operation, fd, event) : -EBADF);
}

static int report(struct instance *instance, struct epoll_event *into, int most)
{
    int reported = 0;
    unsigned index = instance->next;
    for (unsigned i = 0; i < instance->watches && reported < most; i++, index++) {
        if (index >= instance->watches)
            index = 0;
        struct watch *watch = &instance->all[index];
        uint32_t ready = watch_ready(watch);
        if (!ready)
            continue;
        watch->reported = watch->object->changes;
        watch->spent = watch->events & EPOLLONESHOT;
        into[reported++] = (struct epoll_event){ .events = ready, .data = watch->data };
        if (reported == most)
            instance->next = index + 1;
    }
    return reported;
}

static int wait_for(int fd, struct epoll_event *into, int most, int64_t deadline_ns)
{
    struct instance *instance = instance_at(fd);
    if (!instance)
        return -EBADF;
    if (most <= 0)
        return -EINVAL;
    if (deadline_ns > clock_now_ns())
        turn_wait(FOR_INPUT, is_ready, instance->epoll, deadline_ns);
    int reported = report(instance, into, most);
    if (reported)
        turn_busy();
    else
        turn_idle();
    return reported;
}

EXPORT int epoll_wait(int epoll, struct epoll_event *into, int most, int timeout_ms)
{
    return (int)answer(wait_for(epoll, into, most, clock_after_ms(timeout_ms)));
}

EXPORT int epoll_pwait(int epoll, struct epoll_event *into, int most, int timeout_ms, const sigset_t *mask)
{
    (void)mask;
    return epoll_wait(epoll, into, most, timeout_ms);
}

EXPORT int epoll_pwait2(int epoll, struct epoll_event *into, int most, const struct timespec *time, const sigset_t *mask)
{
    (void)mask;
    return (int)answer(wait_for(epoll, into, most, time ? clock_after(time) : NEVER));
}
