/* The clients of the trace: their state, as far as the server can observe it. */
#pragma once

#include "objects.h"
#include "trace.h"

struct client {
    bool opened, closed, refused; /* refused: the server has closed the connection */
    bool unread;                  /* has sent bytes that are not all read */
    bool datagram;
    const uint8_t *bytes;
    size_t length;
    struct object *end;   /* the server's end; NULL before it accepted */
    struct client *next;  /* the next one in the queue of a listener */
};

extern struct client clients[CONNECTIONS];

/* How many clients have unread bytes. */
extern unsigned clients_unread;

/* When input was last delivered or read. */
extern int64_t clients_progress_ns;

uint32_t client_number(const struct client *client);

/* Removes bytes that the server has read. */
void client_read(struct client *client, size_t bytes);

/* The server has closed its end. */
void client_drop(struct client *client);

/* The address of a client. */
struct end_point client_address(const struct client *client, int domain);

/* The client at an address. NULL: none. */
struct client *client_at(const struct end_point *where);
