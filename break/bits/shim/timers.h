/* timerfd, in virtual time. */
#pragma once

#include "descriptors.h"

/* The earliest of all; INT64_MAX: none is set. */
int64_t timer_expiry_ns(void);

/* How often it has expired since it was read. */
uint64_t timer_expired(const struct object *object);

long timer_read(struct object *object, void *into, size_t bytes);
