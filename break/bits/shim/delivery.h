/* Clients: they send what the trace says, whenever the server waits. */
#pragma once

#include "descriptors.h"
#include "trace.h"

struct client {
    bool opened, closed, refused; /* refused: the server is not interested any more */
    bool unread;                  /* has sent something that was not read to its end */
    bool datagram;
    const uint8_t *bytes;
    size_t length;
    struct object *end;   /* the server's; NULL before it accepted */
    struct client *next;  /* who waits behind it */
};

extern struct client clients[CONNECTIONS];

/* How many clients may have sent what is unread. */
extern unsigned delivery_width;

/* Nobody can go on: delivers input, or lets time pass, or ends the run. */
void delivery_quiescent(void);

uint32_t client_number(const struct client *client);

/* Takes bytes off what it sent. */
void client_read(struct client *client, size_t bytes);

/* The server closed its end. */
void client_drop(struct client *client);
