/* The tables of objects and of virtual descriptors.
 *
 * Uses: records. */
#include "objects.h"

#include "records.h"

#include <fcntl.h>

struct object objects[OBJECTS];
unsigned long object_generation;

static struct descriptor descriptors[DESCRIPTORS];

struct descriptor *descriptor_find(int fd)
{
    unsigned index = (unsigned)fd - DESCRIPTOR_FIRST;
    return index < DESCRIPTORS && descriptors[index].object ? &descriptors[index] : NULL;
}

struct object *descriptor_object(int fd)
{
    struct descriptor *found = descriptor_find(fd);
    return found ? found->object : NULL;
}

struct object *object_new(enum kind kind)
{
    for (struct object *object = objects; object < objects + OBJECTS; object++) {
        if (object->kind != KIND_FREE)
            continue;
        *object = (struct object){ .kind = kind, .changes = 1, .expiry_ns = INT64_MAX };
        return object;
    }
    return NULL;
}

void object_release(struct object *object)
{
    if (object->references && --object->references)
        return;
    if (object_release_functions[object->kind])
        object_release_functions[object->kind](object);
    object->kind = KIND_FREE;
}

int descriptor_add(struct object *object, int least, bool close_on_exec)
{
    int from = least > DESCRIPTOR_FIRST ? least : DESCRIPTOR_FIRST;
    for (int fd = from; fd < DESCRIPTOR_FIRST + DESCRIPTORS; fd++) {
        struct descriptor *at = &descriptors[fd - DESCRIPTOR_FIRST];
        if (at->object || fd == records_descriptor)
            continue;
        *at = (struct descriptor){ object, close_on_exec };
        object->references++;
        return fd;
    }
    return -EMFILE;
}

int descriptor_open(struct object *object, int flags)
{
    if (!object)
        return -EMFILE;
    object->nonblocking = flags & O_NONBLOCK;
    int fd = descriptor_add(object, 0, flags & O_CLOEXEC);
    if (fd < 0)
        object_release(object);
    return fd;
}

long descriptor_close(int fd)
{
    struct descriptor *found = descriptor_find(fd);
    if (!found)
        return fd == records_descriptor ? -EBADF : kernel(SYS_close, fd);
    struct object *object = found->object;
    found->object = NULL;
    object_release(object);
    return 0;
}

int descriptor_open_pair(struct object *const pair[2], int flags, int into[2])
{
    int fds[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = descriptor_open(pair[i], flags);
        if (fds[i] < 0) {
            if (i == 1)
                descriptor_close(fds[0]);
            else if (pair[1])
                object_release(pair[1]);
            return fds[i];
        }
    }
    into[0] = fds[0], into[1] = fds[1];
    return 0;
}

bool descriptor_add_at(struct object *object, int fd, bool close_on_exec)
{
    unsigned index = (unsigned)fd - DESCRIPTOR_FIRST;
    if (index >= DESCRIPTORS)
        return false;
    if (descriptors[index].object)
        descriptor_close(fd);
    descriptors[index] = (struct descriptor){ object, close_on_exec };
    object->references++;
    return true;
}
