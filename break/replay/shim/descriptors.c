/* Calls that open, close, duplicate and describe descriptors.
 *
 * Uses: objects, reading, records. */
#define _GNU_SOURCE
#include "objects.h"
#include "reading.h"
#include "records.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

static long duplicate(int from, int least, bool close_on_exec)
{
    struct object *object = descriptor_object(from);
    return object ? descriptor_add(object, least, close_on_exec) : -EBADF;
}

/* Onto a given descriptor: a virtual one only onto a virtual one, and a real one onto a real one. */
static long duplicate_onto(int from, int onto, int flags)
{
    struct object *object = descriptor_object(from);
    if (onto == records_descriptor)
        return -EBADF;
    if (!object) {
        if (descriptor_find(onto))
            return -EBADF;
        return from == onto ? kernel(SYS_fcntl, from, F_GETFD) < 0 ? -EBADF : onto : kernel(SYS_dup3, from, onto, flags);
    }
    if (from == onto)
        return onto;
    if (!descriptor_add_at(object, onto, flags & O_CLOEXEC))
        record_end(END_REFUSED, "refused: a connection on a descriptor below 512 cannot be replayed");
    return onto;
}

EXPORT int close(int fd)
{
    return (int)answer(descriptor_close(fd));
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
    for (unsigned fd = first; fd <= last && fd < DESCRIPTOR_FIRST + DESCRIPTORS; fd++)
        descriptor_close((int)fd);
    (void)flags;
    return 0;
}

EXPORT void closefrom(int first)
{
    close_range((unsigned)(first < 0 ? 0 : first), ~0u, 0);
}

EXPORT int dup(int fd)
{
    return (int)answer(descriptor_find(fd) ? duplicate(fd, 0, false) : kernel(SYS_dup, fd));
}

EXPORT int dup2(int from, int onto)
{
    return (int)answer(duplicate_onto(from, onto, 0));
}

EXPORT int dup3(int from, int onto, int flags)
{
    return (int)answer(from == onto ? -EINVAL : duplicate_onto(from, onto, flags));
}

static long control(int fd, int command, long argument)
{
    struct descriptor *found = descriptor_find(fd);
    if (!found)
        return kernel(SYS_fcntl, fd, command, argument);
    switch (command) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
        return duplicate(fd, (int)argument, command == F_DUPFD_CLOEXEC);
    case F_GETFD:
        return found->close_on_exec ? FD_CLOEXEC : 0;
    case F_SETFD:
        found->close_on_exec = argument & FD_CLOEXEC;
        return 0;
    case F_GETFL:
        return O_RDWR | (found->object->nonblocking ? O_NONBLOCK : 0);
    case F_SETFL:
        found->object->nonblocking = argument & O_NONBLOCK;
        return 0;
    default:
        return -EINVAL;
    }
}

#define LAST_ARGUMENT(before)               \
    ({                                      \
        va_list list;                       \
        va_start(list, before);             \
        long last = va_arg(list, long);     \
        va_end(list);                       \
        last;                               \
    })

EXPORT int fcntl(int fd, int command, ...)
{
    return (int)answer(control(fd, command, LAST_ARGUMENT(command)));
}

EXPORT int fcntl64(int fd, int command, ...)
{
    return (int)answer(control(fd, command, LAST_ARGUMENT(command)));
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
    void *argument = (void *)LAST_ARGUMENT(request);
    struct object *object = descriptor_object(fd);
    if (!object)
        return (int)answer(kernel(SYS_ioctl, fd, request, argument));
    switch (request) {
    case FIONBIO:
        object->nonblocking = *(int *)argument;
        return 0;
    case FIONREAD:
        *(int *)argument = (int)object_unread(object);
        return 0;
    case FIOCLEX:
    case FIONCLEX:
        return 0;
    default:
        return (int)answer(-ENOTTY);
    }
}

static int describe(int fd, struct stat *into)
{
    if (!descriptor_find(fd))
        return (int)answer(kernel(SYS_fstat, fd, into));
    memset(into, 0, sizeof *into);
    into->st_mode = S_IFSOCK | 0600;
    return 0;
}

EXPORT int fstat(int fd, struct stat *into)
{
    return describe(fd, into);
}

EXPORT int fstat64(int fd, struct stat64 *into)
{
    _Static_assert(sizeof(struct stat64) == sizeof(struct stat), "one layout");
    return describe(fd, (struct stat *)into);
}

static int random_descriptor(int flags)
{
    return descriptor_open(object_new(KIND_RANDOM), flags & O_CLOEXEC);
}

static int open_file(int folder, const char *path, int flags, mode_t mode)
{
    if (!strcmp(path, "/dev/urandom") || !strcmp(path, "/dev/random"))
        return (int)answer(random_descriptor(flags));
    return (int)answer(kernel(SYS_openat, folder, path, flags, mode));
}

static bool has_mode(int flags)
{
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

EXPORT int open(const char *path, int flags, ...)
{
    return open_file(AT_FDCWD, path, flags, has_mode(flags) ? (mode_t)LAST_ARGUMENT(flags) : 0);
}

EXPORT int open64(const char *path, int flags, ...)
{
    return open_file(AT_FDCWD, path, flags, has_mode(flags) ? (mode_t)LAST_ARGUMENT(flags) : 0);
}

EXPORT int openat(int folder, const char *path, int flags, ...)
{
    return open_file(folder, path, flags, has_mode(flags) ? (mode_t)LAST_ARGUMENT(flags) : 0);
}

EXPORT int openat64(int folder, const char *path, int flags, ...)
{
    return open_file(folder, path, flags, has_mode(flags) ? (mode_t)LAST_ARGUMENT(flags) : 0);
}

EXPORT int __open_2(const char *path, int flags)
{
    return open_file(AT_FDCWD, path, flags, 0);
}

EXPORT int __open64_2(const char *path, int flags)
{
    return open_file(AT_FDCWD, path, flags, 0);
}
