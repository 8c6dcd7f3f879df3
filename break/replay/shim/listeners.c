/* Listening sockets and their queues of clients.
 *
 * Uses: clients, objects. */
#include "listeners.h"

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
    if (!listener->has_clients)
        return;
    while (listener->first)
        client_drop(listener_take(listener));
    for (struct client *client = clients; client < clients + CONNECTIONS; client++)
        if (client->end == listener)
            client_drop(client);
}
