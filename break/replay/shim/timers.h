/* timerfd, in virtual time. */
#pragma once

#include "objects.h"

/* The earliest expiry of all timers; NEVER: none is set. */
int64_t timer_expiry_ns(void);

/* How often it has expired since it was last read. */
uint64_t timer_expired(const struct object *object);

long timer_read(struct object *object, void *into, size_t bytes);
