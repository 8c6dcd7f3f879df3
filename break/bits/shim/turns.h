/* Turns: the threads of a program, one after the other on one kernel thread. A turn ends only where its thread waits.
 *
 * A fork copies one kernel thread. With turns that is all of them, and the order in which threads run is a function of
 * the input alone. See docs/decisions/0025. */
#pragma once

#include "kernel.h"

#include <sys/types.h>

#define TURNS 1024 /* also a bound on the stacks that stay mapped */

#define NEVER INT64_MAX

/* What a turn waits for: it decides whether a server that waits is done. */
enum waiting {
    FOR_NOTHING,  /* may go on */
    FOR_INPUT,    /* a descriptor */
    FOR_LOCK,     /* somebody holds it, so there is work left */
    FOR_ANOTHER,  /* what another turn does: a condition, a semaphore, an end */
    FOR_TIME,     /* sleeps */
};

struct turn {
    bool used, done, detached, joined;
    enum waiting waiting;
    bool (*ready)(const void *thing);
    const void *thing;
    bool in_time;        /* it was ready when it was picked */
    int64_t deadline_ns; /* of the virtual monotonic clock, or NEVER */

    void *stack;      /* where it was left */
    uintptr_t thread; /* its pthread_t, which on x86-64 is the base of fs */
    pid_t owner;      /* what libc writes into the locks it holds: the number of the kernel thread it was made as */
    unsigned alive;   /* the kernel thread that lent its stack; the kernel clears and wakes this when it is gone */

    void *(*routine)(void *);
    void *argument, *result;

    const void *condition; /* the one it waits on */
    unsigned long ticket;  /* waiters are woken in this order */
    bool signalled;
};

extern struct turn turns[TURNS];
extern unsigned turns_begun; /* no slot above has been used */
extern struct turn *turn_current;

/* Lets others go on until `ready(thing)`. False: the deadline came first. */
bool turn_wait(enum waiting waiting, bool (*ready)(const void *), const void *thing, int64_t deadline_ns);

/* Ends the current turn for good. */
_Noreturn void turn_end(void);

/* Lets the others that can go on go on first. */
void turn_yield(void);

/* With a seed, maybe lets another one go on. */
void turn_offer(void);

/* A call that found nothing and did not wait. Many in a row are a wait: a server that polls must get its input. */
void turn_idle(void);

/* A call that found something. */
void turn_busy(void);

/* Picks turns by chance from now on. 0: in order. */
void turn_seed(uint64_t seed);

/* Whether some turn waits for this. */
bool turn_any(enum waiting waiting);

/* The earliest deadline of all that wait. */
int64_t turn_deadline_ns(void);

/* For waits that nothing but time ends. */
bool turn_not(const void *nothing);

/* The program's first thread becomes the first turn. */
void turn_begin(void);

/* A turn begins at `first` on the stack of the kernel thread that calls this. */
void turn_capture(struct turn *turn, void (*first)(void));
