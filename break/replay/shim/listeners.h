/* Sockets that clients find by their port, with the clients in their queues. */
#pragma once

#include "clients.h"
#include "objects.h"

/* A listener, or a datagram socket, at a port. NULL: none. */
struct object *listener_find(bool datagram, uint16_t port);

/* Adds a client to the queue, to be accepted or read. */
void listener_arrive(struct object *listener, struct client *client);

/* Removes the first client of the queue. */
struct client *listener_take(struct object *listener);

/* The listener is closed: drops its clients. */
void listener_drop(struct object *listener);
