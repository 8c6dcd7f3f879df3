/* Pipes, pairs of sockets, and counters: what a program tells itself. */
#pragma once

#include "descriptors.h"

#include <sys/uio.h>

/* How many bytes wait, and how many more there is room for. A missing other end: none, and no end of room. */
size_t channel_waiting(const struct object *object);
size_t channel_room(const struct object *object);

/* Whether the other end was closed. */
bool channel_ended(const struct object *object);

/* Without waiting: bytes, or a negative error. */
long channel_read(struct object *object, void *into, size_t bytes, bool peek);
long channel_write(struct object *object, const void *from, size_t bytes);
long counter_read(struct object *object, void *into, size_t bytes);
long counter_write(struct object *object, const void *from, size_t bytes);

void channel_release(struct object *object);
