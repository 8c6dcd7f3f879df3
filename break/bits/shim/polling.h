/* What a descriptor is ready for. */
#pragma once

#include "descriptors.h"

/* POLLIN, POLLOUT, POLLHUP, POLLRDHUP, POLLERR: epoll's bits are the same. */
unsigned object_ready(const struct object *object);
