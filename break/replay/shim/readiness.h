/* What an object is ready for. An epoll instance is ready if any object that it watches is, so its watches are here. */
#pragma once

#include "objects.h"

#include <sys/epoll.h>

#define EPOLLS 32

struct watch {
    const struct object *object;
    int fd;
    uint32_t events;
    epoll_data_t data;
    unsigned long reported; /* the changes that were reported, if only changes are */
    unsigned long idle; /* the changes at which it was not ready */
    bool spent;         /* reported once, and disabled until it is set again */
};

/* Watches in the order in which they were set, and the start of the next scan, so that short results are fair. */
struct instance {
    const struct object *epoll; /* NULL: free */
    unsigned next, watches;
    bool timed;                 /* watches a timer, which becomes ready without a change */
    unsigned long idle;         /* the generation at which nothing was ready */
    struct watch all[DESCRIPTORS];
};

extern struct instance instances[EPOLLS];

/* POLLIN, POLLOUT, POLLHUP, POLLRDHUP, POLLERR: epoll's bits are the same. */
unsigned object_ready(const struct object *object);

/* The events of a watch that are to be reported. */
uint32_t watch_ready(struct watch *watch);

void watch_remove(struct instance *instance, struct watch *watch);

/* Removes all watches of a released object. */
void readiness_forget(const struct object *object);
