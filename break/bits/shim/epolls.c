/* What epoll instances watch. */
#define _GNU_SOURCE
#include "epolls.h"

#include "clock.h"
#include "polling.h"
#include "turns.h"

#include <fcntl.h>
#include <sys/epoll.h>

#define EPOLLS 32

struct watch {
    const struct object *object; /* NULL: free */
    uint32_t events;
    epoll_data_t data;
    unsigned long seen; /* its changes that were reported, if only changes are */
    bool spent;         /* reported once, and no more until it is set anew */
};

/* A watch for each descriptor, of which the first `watches` were ever used, and where the next look begins, so that all get their share of a short answer. */
struct instance {
    const struct object *epoll; /* NULL: free */
    unsigned next, watches;
    bool timed;                 /* watches a timer, which gets ready by itself */
    unsigned long idle;         /* the generation in which nothing was ready */
    struct watch all[DESCRIPTORS];
};

static struct instance instances[EPOLLS];

static uint32_t watch_ready(const struct watch *watch)
{
    if (!watch->object || watch->spent)
        return 0;
    if (watch->events & EPOLLET && watch->seen == watch->object->changes)
        return 0;
    return object_ready(watch->object) & (watch->events | EPOLLERR | EPOLLHUP);
}

bool epoll_any(const struct object *epoll)
{
    struct instance *instance = epoll->instance;
    if (!instance || (instance->idle == object_generation && !instance->timed))
        return false;
    for (unsigned i = 0; i < instance->watches; i++)
        if (watch_ready(&instance->all[i]))
            return true;
    instance->idle = object_generation;
    return false;
}

static bool is_ready(const void *epoll)
{
    return epoll_any(epoll);
}

void epoll_forget(const struct object *object)
{
    if (object->kind == KIND_EPOLL) {
        if (object->instance)
            *object->instance = (struct instance){ 0 };
        return;
    }
    for (struct instance *instance = instances; instance < instances + EPOLLS; instance++)
        for (unsigned i = 0; instance->epoll && i < instance->watches; i++)
            if (instance->all[i].object == object)
                instance->all[i] = (struct watch){ 0 };
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

static int watch_set(struct instance *instance, int operation, int fd, const struct epoll_event *event)
{
    const struct object *object = descriptor_object(fd);
    if (!object)
        return kernel(SYS_fcntl, fd, F_GETFD) < 0 ? -EBADF : -EPERM; /* real files are not watched */
    if (object->kind == KIND_EPOLL)
        return -EINVAL;
    unsigned index = (unsigned)(fd - DESCRIPTOR_FIRST);
    struct watch *watch = &instance->all[index];
    if (operation == EPOLL_CTL_ADD ? watch->object != NULL : !watch->object)
        return operation == EPOLL_CTL_ADD ? -EEXIST : -ENOENT;
    if (operation == EPOLL_CTL_DEL)
        *watch = (struct watch){ 0 };
    else
        *watch = (struct watch){ .object = object, .events = event->events, .data = event->data };
    instance->timed |= object->kind == KIND_TIMER;
    object_generation++;
    if (index >= instance->watches)
        instance->watches = index + 1;
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
    unsigned from = instance->next;
    for (unsigned i = 0; i < instance->watches && reported < most; i++) {
        unsigned index = (from + i) % instance->watches;
        struct watch *watch = &instance->all[index];
        uint32_t ready = watch_ready(watch);
        if (!ready)
            continue;
        watch->seen = watch->object->changes;
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
