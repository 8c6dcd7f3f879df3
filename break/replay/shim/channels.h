/* Pipes, socket pairs and counters: communication within the program. */
#pragma once

#include "objects.h"

#include <sys/uio.h>

/* How many bytes can be read, and how many written. Without the other end: none, and unlimited. */
size_t channel_waiting(const struct object *object);
size_t channel_room(const struct object *object);

/* Whether the other end was closed. */
bool channel_ended(const struct object *object);

/* Do not wait. Return a number of bytes, or a negative error. */
long channel_read(struct object *object, void *into, size_t bytes, bool peek);
long channel_write(struct object *object, const void *from, size_t bytes);
long counter_read(struct object *object, void *into, size_t bytes);
long counter_write(struct object *object, const void *from, size_t bytes);

void channel_release(struct object *object);
