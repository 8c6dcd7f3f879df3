/* Readiness of objects, and epoll instances in memory: a kernel's would be shared with every fork.
 *
 * Uses: channels, clients, objects, timers. */
#define _GNU_SOURCE
#include "readiness.h"

#include "channels.h"
#include "clients.h"
#include "timers.h"

#include <poll.h>
#include <string.h>

struct instance instances[EPOLLS];

static unsigned connection_ready(const struct object *object)
{
    const struct client *client = object->client;
    bool ended = client->closed || object->shut_read;
    return POLLOUT | POLLWRNORM | (client->unread || ended ? POLLIN | POLLRDNORM : 0u) |
           (client->closed ? POLLRDHUP : 0u);
}

static unsigned channel_ready(const struct object *object)
{
    unsigned ready = 0;
    if (object->in && (channel_waiting(object) || channel_ended(object)))
        ready |= POLLIN | POLLRDNORM;
    if (object->out && channel_room(object))
        ready |= POLLOUT | POLLWRNORM;
    if (channel_ended(object))
        ready |= object->in ? POLLHUP : POLLERR;
    return ready;
}

uint32_t watch_ready(struct watch *watch)
{
    const struct object *object = watch->object;
    if (watch->idle == object->changes && object->kind != KIND_TIMER)
        return 0;
    if (watch->spent || (watch->events & EPOLLET && watch->reported == object->changes))
        return 0;
    uint32_t ready = object_ready(object) & (watch->events | EPOLLERR | EPOLLHUP);
    if (!ready)
        watch->idle = object->changes;
    return ready;
}

static bool epoll_ready(const struct object *epoll)
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

unsigned object_ready(const struct object *object)
{
    switch (object->kind) {
    case KIND_CONNECTION:
        return connection_ready(object);
    case KIND_LISTENER:
        return object->first ? POLLIN | POLLRDNORM : 0;
    case KIND_SOCKET:
        if (!object->datagram)
            return POLLOUT | POLLHUP;
        return POLLOUT | POLLWRNORM | (object->first || object->answers_waiting ? POLLIN | POLLRDNORM : 0u);
    case KIND_CHANNEL:
        return channel_ready(object);
    case KIND_COUNTER:
        return POLLOUT | (object->count ? POLLIN | POLLRDNORM : 0u);
    case KIND_TIMER:
        return timer_expired(object) ? POLLIN | POLLRDNORM : 0;
    case KIND_RANDOM:
        return POLLIN | POLLRDNORM;
    case KIND_EPOLL:
        return epoll_ready(object) ? POLLIN | POLLRDNORM : 0;
    case KIND_FREE:
        break;
    }
    return POLLNVAL;
}

void watch_remove(struct instance *instance, struct watch *watch)
{
    struct watch *end = &instance->all[instance->watches--];
    memmove(watch, watch + 1, (size_t)(end - watch - 1) * sizeof *watch);
}

void readiness_forget(const struct object *object)
{
    if (object->kind == KIND_EPOLL) {
        if (object->instance)
            *object->instance = (struct instance){ 0 };
        return;
    }
    for (struct instance *instance = instances; instance < instances + EPOLLS; instance++)
        for (unsigned i = instance->watches; i-- > 0;)
            if (instance->all[i].object == object)
                watch_remove(instance, &instance->all[i]);
}
