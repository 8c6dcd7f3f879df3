/* The state of clients.
 *
 * Uses: clock, objects, trace. */
#include "clients.h"

#include "clock.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define CLIENT_PORT 10000 /* of connection 0 */

struct client clients[CONNECTIONS];
unsigned clients_unread;
int64_t clients_progress_ns;

uint32_t client_number(const struct client *client)
{
    return (uint32_t)(client - clients);
}

static void client_is_read(struct client *client)
{
    if (client->unread)
        clients_unread--;
    client->unread = false;
    client->length = 0;
    clients_progress_ns = clock_now_ns();
}

void client_read(struct client *client, size_t bytes)
{
    client->bytes += bytes;
    client->length -= bytes;
    if (!client->length)
        client_is_read(client);
}

void client_drop(struct client *client)
{
    client_is_read(client);
    client->refused = true;
    client->end = NULL;
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
