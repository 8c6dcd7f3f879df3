/* Who waits at which port. */
#include "listeners.h"

#include "delivery.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define CLIENT_PORT 10000 /* of connection 0 */

extern struct object objects[OBJECTS];

static bool listens(const struct object *object, bool datagram)
{
    return datagram ? object->kind == KIND_SOCKET && object->datagram && object->here.port && !object->connected
                    : object->kind == KIND_LISTENER;
}

struct object *listener_find(bool datagram, uint16_t port)
{
    for (struct object *object = objects; object < objects + OBJECTS; object++)
        if (listens(object, datagram) && (port == PORT_ANY || object->here.port == port))
            return object;
    return NULL;
}

void listener_arrive(struct object *listener, struct client *client)
{
    client->next = NULL;
    if (listener->last)
        listener->last->next = client;
    else
        listener->first = client;
    listener->last = client;
    object_changed(listener);
}

struct client *listener_take(struct object *listener)
{
    struct client *client = listener->first;
    listener->first = client->next;
    if (!listener->first)
        listener->last = NULL;
    return client;
}

void listener_drop(struct object *listener)
{
    if (!listener->known)
        return;
    while (listener->first)
        client_drop(listener_take(listener));
    for (struct client *client = clients; client < clients + CONNECTIONS; client++)
        if (client->end == listener)
            client_drop(client);
}

struct end_point client_address(const struct client *client, int domain)
{
    struct end_point at = { .domain = domain, .port = (uint16_t)(CLIENT_PORT + client_number(client)) };
    if (domain == AF_INET6)
        at.address[15] = 1;
    else
        memcpy(at.address, (uint8_t[]){ 127, 0, 0, 1 }, 4);
    return at;
}

struct client *client_at(const struct end_point *where)
{
    if (where->port < CLIENT_PORT || where->port >= CLIENT_PORT + CONNECTIONS)
        return NULL;
    struct client *client = &clients[where->port - CLIENT_PORT];
    struct end_point at = client_address(client, where->domain);
    bool same = client->opened && client->datagram && !memcmp(at.address, where->address, sizeof at.address);
    return same ? client : NULL;
}
