/* timerfd.
 *
 * Uses: clock, objects. */
#include "timers.h"

#include "clock.h"

#include <fcntl.h>
#include <string.h>
#include <sys/timerfd.h>

int64_t timer_expiry_ns(void)
{
    int64_t earliest = NEVER;
    for (const struct object *object = objects; object < objects + OBJECTS; object++)
        if (object->kind == KIND_TIMER && object->expiry_ns > clock_now_ns() && object->expiry_ns < earliest)
            earliest = object->expiry_ns;
    return earliest;
}

uint64_t timer_expired(const struct object *object)
{
    int64_t late = clock_now_ns() - object->expiry_ns;
    if (object->expiry_ns == NEVER || late < 0)
        return 0;
    return object->interval_ns ? 1 + (uint64_t)(late / object->interval_ns) : 1;
}

long timer_read(struct object *object, void *into, size_t bytes)
{
    uint64_t expired = timer_expired(object);
    if (bytes < sizeof expired)
        return -EINVAL;
    memcpy(into, &expired, sizeof expired);
    object->expiry_ns = object->interval_ns ? object->expiry_ns + (int64_t)expired * object->interval_ns : NEVER;
    object_changed(object);
    return sizeof expired;
}

static struct timespec split(int64_t ns)
{
    return (struct timespec){ ns / NS_PER_S, ns % NS_PER_S };
}

static void get_setting(const struct object *object, struct itimerspec *into)
{
    int64_t left = object->expiry_ns == NEVER ? 0 : object->expiry_ns - clock_now_ns();
    *into = (struct itimerspec){ split(object->interval_ns), split(left < 0 ? 0 : left) };
}

EXPORT int timerfd_create(clockid_t clock, int flags)
{
    struct object *object = object_new(KIND_TIMER);
    if (object)
        object->clock = clock;
    return (int)answer(descriptor_open(object, flags));
}

EXPORT int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
    struct object *object = descriptor_object(fd);
    if (!object || object->kind != KIND_TIMER)
        return (int)answer(object ? -EINVAL : -EBADF);
    if (old)
        get_setting(object, old);
    object->interval_ns = clock_after(&new->it_interval) - clock_now_ns();
    bool off = !new->it_value.tv_sec && !new->it_value.tv_nsec;
    if (off)
        object->expiry_ns = NEVER;
    else if (flags & TFD_TIMER_ABSTIME)
        object->expiry_ns = clock_deadline_ns(object->clock, &new->it_value);
    else
        object->expiry_ns = clock_after(&new->it_value);
    object_changed(object);
    return 0;
}

EXPORT int timerfd_gettime(int fd, struct itimerspec *into)
{
    struct object *object = descriptor_object(fd);
    if (!object || object->kind != KIND_TIMER)
        return (int)answer(object ? -EINVAL : -EBADF);
    get_setting(object, into);
    return 0;
}
