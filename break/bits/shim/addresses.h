/* Socket addresses as programs write them, and as we keep them. */
#pragma once

#include "descriptors.h"

#include <sys/socket.h>

/* False: of a family that we do not know. */
bool address_read(const struct sockaddr *from, socklen_t length, struct end_point *into);

/* As much as there is room for; `length` becomes the whole. */
void address_tell(const struct end_point *from, struct sockaddr *into, socklen_t *length);
