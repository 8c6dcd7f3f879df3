/* Sockets that clients find by their port. */
#pragma once

#include "descriptors.h"

struct object *listener_find(bool datagram, uint16_t port);

/* One more waits to be accepted or read. */
void listener_arrive(struct object *listener, struct client *client);

/* The one who has waited longest. */
struct client *listener_take(struct object *listener);

/* It is gone, and so are those who waited. */
void listener_drop(struct object *listener);

/* Where a client says that it is. */
struct end_point client_address(const struct client *client, int domain);

/* The client that is there. NULL: none. */
struct client *client_at(const struct end_point *where);
