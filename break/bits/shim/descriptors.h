/* Virtual descriptors, and what they refer to. Their numbers lie where select() can hold them and no real one is. */
#pragma once

#include "kernel.h"

#include <time.h>

#define DESCRIPTOR_FIRST 512
#define DESCRIPTORS 512
#define OBJECTS DESCRIPTORS

enum kind {
    KIND_FREE,
    KIND_SOCKET,     /* neither listens nor is connected; or a datagram socket */
    KIND_LISTENER,   /* accepts connections of the trace */
    KIND_CONNECTION, /* one of them */
    KIND_CHANNEL,    /* an end of a pipe or a pair of sockets */
    KIND_COUNTER,    /* an eventfd */
    KIND_TIMER,
    KIND_RANDOM,
    KIND_EPOLL,
};

struct client;
struct channel;
struct instance;
struct upstream_answer;

struct end_point {
    int domain;
    uint8_t address[16]; /* in network order; four bytes of IPv4 */
    uint16_t port;
};

struct object {
    enum kind kind;
    unsigned references;
    bool nonblocking;
    unsigned long changes; /* grows whenever there is something new: what edge-triggered epoll reports */
    bool datagram, connected, shut_read, shut_write;
    bool known; /* to clients, by its port */
    struct end_point here, peer;
    int64_t receive_timeout_ns; /* 0: none */

    struct client *client;        /* of a connection */
    struct client *first, *last;  /* who waits: of a listener to be accepted, of a datagram socket to be read */
    const struct upstream_answer *answers[8]; /* that have come in, in order */
    uint16_t answer_ids[8];
    struct end_point answer_from[8];
    unsigned answers_waiting;

    struct channel *in;  /* of a channel: what can be read */
    struct channel *out; /* and where what is written goes */

    struct instance *instance; /* of an epoll: what it watches */

    uint64_t count; /* of a counter or a timer: what a read gives */
    bool semaphore;
    int64_t expiry_ns, interval_ns;
    clockid_t clock;
};

/* Grows whenever any object does: while it does not, what was not ready is not. */
extern unsigned long object_generation;

/* There is something new about it. */
static inline void object_changed(struct object *object)
{
    object->changes++;
    object_generation++;
}

/* What a descriptor refers to. NULL: it is a real one, or none. */
struct object *descriptor_object(int fd);

/* An object without a descriptor. NULL: there are too many. */
struct object *object_new(enum kind kind);

/* The lowest free number, for a new object: it goes away if there is none. Returns -EMFILE then. */
int descriptor_open(struct object *object, int flags);

/* Two of them, or none. */
int descriptor_open_pair(struct object *const objects[2], int flags, int into[2]);

void object_release(struct object *object);
