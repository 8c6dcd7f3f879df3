/* epoll, in our own memory: a kernel's would be shared with every fork. */
#pragma once

#include "descriptors.h"

bool epoll_any(const struct object *epoll);

/* An object is gone: nobody watches it any more. */
void epoll_forget(const struct object *object);
