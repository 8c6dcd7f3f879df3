/* Ring buffers in memory.
 *
 * Uses: objects. */
#define _GNU_SOURCE
#include "channels.h"

#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHANNELS 64
#define CHANNEL_BYTES 65536

/* One direction. */
struct channel {
    struct object *reader, *writer; /* NULL: closed. Both: free */
    size_t from, length;
    char bytes[CHANNEL_BYTES];
};

static struct channel channels[CHANNELS];

static struct channel *channel_between(struct object *reader, struct object *writer)
{
    for (struct channel *channel = channels; channel < channels + CHANNELS; channel++) {
        if (channel->reader || channel->writer)
            continue;
        channel->reader = reader;
        channel->writer = writer;
        channel->from = channel->length = 0;
        reader->in = writer->out = channel;
        return channel;
    }
    return NULL;
}

size_t channel_waiting(const struct object *object)
{
    return object->in ? object->in->length : 0;
}

size_t channel_room(const struct object *object)
{
    return object->out ? CHANNEL_BYTES - object->out->length : 0;
}

bool channel_ended(const struct object *object)
{
    return (object->in && !object->in->writer) || (!object->in && object->out && !object->out->reader);
}

void channel_release(struct object *object)
{
    if (object->in) {
        object->in->reader = NULL;
        if (object->in->writer)
            object_changed(object->in->writer);
    }
    if (object->out) {
        object->out->writer = NULL;
        if (object->out->reader)
            object_changed(object->out->reader);
    }
}

long channel_read(struct object *object, void *into, size_t bytes, bool peek)
{
    struct channel *channel = object->in;
    if (!channel)
        return -EBADF;
    size_t some = bytes < channel->length ? bytes : channel->length;
    size_t first = CHANNEL_BYTES - channel->from < some ? CHANNEL_BYTES - channel->from : some;
    memcpy(into, channel->bytes + channel->from, first);
    memcpy((char *)into + first, channel->bytes, some - first);
    if (peek)
        return (long)some;
    channel->from = (channel->from + some) % CHANNEL_BYTES;
    channel->length -= some;
    if (some && channel->writer)
        object_changed(channel->writer);
    return (long)some;
}

long channel_write(struct object *object, const void *from, size_t bytes)
{
    struct channel *channel = object->out;
    if (!channel)
        return -EBADF;
    if (!channel->reader)
        return -EPIPE;
    size_t room = CHANNEL_BYTES - channel->length;
    size_t some = bytes < room ? bytes : room;
    size_t at = (channel->from + channel->length) % CHANNEL_BYTES;
    size_t first = CHANNEL_BYTES - at < some ? CHANNEL_BYTES - at : some;
    memcpy(channel->bytes + at, from, first);
    memcpy(channel->bytes, (const char *)from + first, some - first);
    channel->length += some;
    if (some)
        object_changed(channel->reader);
    return some || !bytes ? (long)some : -EAGAIN;
}

/* A read returns the native representation, as from the kernel's counters. */
long counter_read(struct object *object, void *into, size_t bytes)
{
    if (bytes < sizeof object->count)
        return -EINVAL;
    uint64_t taken = object->semaphore ? 1 : object->count;
    memcpy(into, &taken, sizeof taken);
    object->count -= taken;
    object_changed(object);
    return sizeof taken;
}

long counter_write(struct object *object, const void *from, size_t bytes)
{
    uint64_t more;
    if (bytes < sizeof more)
        return -EINVAL;
    memcpy(&more, from, sizeof more);
    if (more == UINT64_MAX)
        return -EINVAL;
    if (more > UINT64_MAX - 1 - object->count)
        return -EAGAIN;
    object->count += more;
    object_changed(object);
    return sizeof more;
}

static int open_channels(bool both_ways, int flags, int into[2])
{
    struct object *pair[2] = { object_new(KIND_CHANNEL), NULL };
    if (pair[0])
        pair[1] = object_new(KIND_CHANNEL);
    bool made = pair[1] && channel_between(pair[0], pair[1]) && (!both_ways || channel_between(pair[1], pair[0]));
    if (made)
        return descriptor_open_pair(pair, flags, into);
    for (int i = 0; i < 2; i++)
        if (pair[i])
            object_release(pair[i]);
    return -EMFILE;
}

EXPORT int pipe(int into[2])
{
    return (int)answer(open_channels(false, 0, into));
}

EXPORT int pipe2(int into[2], int flags)
{
    return (int)answer(open_channels(false, flags, into));
}

EXPORT int socketpair(int domain, int type, int protocol, int into[2])
{
    (void)protocol;
    if (domain != AF_UNIX || (type & 0xf) != SOCK_STREAM)
        return (int)answer(-EOPNOTSUPP);
    _Static_assert(SOCK_NONBLOCK == O_NONBLOCK && SOCK_CLOEXEC == O_CLOEXEC, "one set of flags");
    return (int)answer(open_channels(true, type, into));
}

EXPORT int eventfd(unsigned count, int flags)
{
    struct object *object = object_new(KIND_COUNTER);
    if (object) {
        object->count = count;
        object->semaphore = flags & EFD_SEMAPHORE;
    }
    return (int)answer(descriptor_open(object, flags));
}

EXPORT int eventfd_read(int fd, eventfd_t *into)
{
    return read(fd, into, sizeof *into) == sizeof *into ? 0 : -1;
}

EXPORT int eventfd_write(int fd, eventfd_t more)
{
    return write(fd, &more, sizeof more) == sizeof more ? 0 : -1;
}
