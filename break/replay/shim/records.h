/* Output, which leaves the process immediately, so that later faults in the process cannot change it.
 *
 *   ┌───────────┬───────────────┬────────────┬───────────┐
 *   │ "FLRO" 4  │ connection 4  │ length 4   │ bytes     │   numbers are little endian
 *   └───────────┴───────────────┴────────────┴───────────┘
 *
 * The connection 0xffffffff is a note on how the run ended. See docs/formats/replay.md. */
#pragma once

#include "kernel.h"

#include <sys/uio.h>

#define RECORD_BYTES (1u << 20) /* at most, without the header */
#define RECORD_PIECES 64

/* How the shim ends the process. */
enum ending {
    END_WELL = 0,
    END_DEADLOCK = 96, /* all threads wait for each other */
    END_STUCK = 97,    /* the server does not take the remaining input */
    END_REFUSED = 98,  /* the server made a call that cannot be replayed */
    END_UNFIT = 99,    /* the shim cannot work here */
};

/* The descriptor that records are written to. Programs cannot close it. */
extern int records_descriptor;

/* Writes one record with these pieces, up to its maximum size. Returns the bytes written, or a negative error. */
long record_pieces(uint32_t connection, const struct iovec *pieces, size_t count);

/* Ends the process with a note of the reason. */
_Noreturn void record_end(enum ending ending, const char *why);
