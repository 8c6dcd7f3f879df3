/* Virtual descriptors and the objects they refer to. Their numbers are within the range of select() and above real
 * ones. */
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
#define KINDS (KIND_EPOLL + 1)

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
    unsigned long changes; /* incremented by every change: what edge-triggered epoll reports */
    bool datagram, connected, shut_read, shut_write;
    bool has_clients; /* a client has connected or sent to its port */
    struct end_point here, peer;
    int64_t receive_timeout_ns; /* 0: none */

    struct client *client;        /* of a connection */
    struct client *first, *last;  /* queued clients: of a listener to be accepted, of a datagram socket to be read */
    const struct upstream_answer *answers[8]; /* that have arrived, in order */
    uint16_t answer_ids[8];
    struct end_point answer_from[8];
    unsigned answers_waiting;

    struct channel *in;  /* of a channel: read from this */
    struct channel *out; /* and written to this */

    struct instance *instance; /* of an epoll: its watches */

    uint64_t count; /* of a counter: what a read returns */
    bool semaphore;
    int64_t expiry_ns, interval_ns;
    clockid_t clock;
};

extern struct object objects[OBJECTS];

/* Incremented by every change of an object: while it is constant, an object that was not ready is not. */
extern unsigned long object_generation;

/* Records a change. */
static inline void object_changed(struct object *object)
{
    object->changes++;
    object_generation++;
}

/* Called when the last descriptor of an object of a kind is closed; NULL: nothing to do. Defined in start.c, so that
 * this file does not depend on the kinds. */
typedef void object_release_function(struct object *object);
extern object_release_function *const object_release_functions[KINDS];

struct descriptor {
    struct object *object;
    bool close_on_exec;
};

/* The entry of a descriptor. NULL: the descriptor is a real one, or closed. */
struct descriptor *descriptor_find(int fd);

/* The object of a descriptor. NULL: as above. */
struct object *descriptor_object(int fd);

/* Creates an object without a descriptor. NULL: there are too many. */
struct object *object_new(enum kind kind);

/* Opens the lowest free descriptor for a new object, or releases the object and returns -EMFILE. */
int descriptor_open(struct object *object, int flags);

/* Opens two descriptors, or none. */
int descriptor_open_pair(struct object *const objects[2], int flags, int into[2]);

/* Opens a further descriptor for an object, the lowest free one from `least` on. */
int descriptor_add(struct object *object, int least, bool close_on_exec);

/* Opens a given virtual descriptor, in place of what had it. False: `fd` is not within the virtual range. */
bool descriptor_add_at(struct object *object, int fd, bool close_on_exec);

/* Closes a virtual or real descriptor. Returns a negative error. */
long descriptor_close(int fd);

void object_release(struct object *object);
