/* The scheduler: runs the threads of a program one after the other on one kernel thread. A thread's turn ends only
 * where it waits.
 *
 * A fork copies one kernel thread, which here is the whole program, and the order in which threads run is a function of
 * the input alone. See docs/decisions/0025. */
#pragma once

#include "clock.h"
#include "kernel.h"

#include <sys/types.h>

#define TURNS 1024 /* also a bound on the stacks that stay mapped */

/* What a turn waits for, which decides whether an idle server is done. */
enum waiting {
    FOR_NOTHING,  /* can run */
    FOR_INPUT,    /* a descriptor */
    FOR_LOCK,     /* another thread holds it, so there is work left */
    FOR_ANOTHER,  /* an action of another turn: a condition, a semaphore, an end */
    FOR_TIME,     /* a sleep */
};

struct turn {
    bool used, done, detached, joined;
    enum waiting waiting;
    bool (*ready)(const void *thing);
    const void *thing;
    bool in_time;        /* it was ready when it was picked */
    int64_t deadline_ns; /* of the virtual monotonic clock, or NEVER */

    void *stack;      /* where it was suspended */
    uintptr_t thread; /* its pthread_t, which on x86-64 is the base of fs */
    pid_t owner;      /* what libc writes into locks it holds: the id of the kernel thread it was created as */
    unsigned alive;   /* the kernel clears and wakes this when the kernel thread that provided the stack has ended */

    void *(*routine)(void *);
    void *argument, *result;

    const void *condition; /* that it waits for */
    unsigned long ticket;  /* waiters are woken in this order */
    bool signaled;
};

extern struct turn turns[TURNS];
extern unsigned turns_begun; /* higher slots have never been used */
extern struct turn *turn_current;

/* Called when no thread can run: delivers input, advances time or ends the run. Defined in start.c: the scheduler does
 * not depend on where input comes from. */
extern void (*const scheduler_idle)(void);

/* Runs other threads until `ready(thing)`. False: the deadline came first. */
bool turn_wait(enum waiting waiting, bool (*ready)(const void *), const void *thing, int64_t deadline_ns);

/* Ends the current thread. */
_Noreturn void turn_end(void);

/* Runs the other threads that can run first. */
void turn_yield(void);

/* With a seed, may run another thread. */
void turn_offer(void);

/* Records a call that found nothing and did not wait. Many in a row count as a wait: a server that polls must get its
 * input. */
void turn_idle(void);

/* Records a call that found something. */
void turn_busy(void);

/* Picks threads at random from now on. 0: in order. */
void turn_seed(uint64_t seed);

/* Whether a thread waits for this. */
bool turn_any(enum waiting waiting);

/* The earliest deadline of all waiting threads. */
int64_t turn_deadline_ns(void);

/* For waits that only time ends. */
bool turn_not(const void *nothing);

/* The program's first thread becomes the first turn. */
void turn_begin(void);

/* Makes a turn begin at `first` on the stack of the calling kernel thread. */
void turn_capture(struct turn *turn, void (*first)(void));
