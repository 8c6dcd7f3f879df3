/* Converts socket addresses between the C library's structures and the shim's. */
#pragma once

#include "objects.h"

#include <sys/socket.h>

/* False: an unknown family. */
bool address_read(const struct sockaddr *from, socklen_t length, struct end_point *into);

/* Writes as much as fits; `length` becomes the full length. */
void address_write(const struct end_point *from, struct sockaddr *into, socklen_t *length);
