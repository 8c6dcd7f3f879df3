/* What leaves the process, at once: what happens to it later cannot change it any more.
 *
 *   ┌───────────┬───────────────┬────────────┬───────────┐
 *   │ "FLRO" 4  │ connection 4  │ length 4   │ bytes     │   numbers are little endian
 *   └───────────┴───────────────┴────────────┴───────────┘
 *
 * The connection 0xffffffff is nobody's: its bytes are a note on how the run ended. See docs/formats/replay.md. */
#pragma once

#include "kernel.h"

#include <sys/uio.h>

#define RECORD_BYTES (1u << 20) /* at most, without the header */
#define RECORD_PIECES 64

/* How the shim ends the process. */
enum ending {
    END_WELL = 0,
    END_DEADLOCK = 96, /* all threads wait for each other */
    END_STUCK = 97,    /* input is left that the server does not take */
    END_REFUSED = 98,  /* it asked for what cannot be replayed */
    END_UNFIT = 99,    /* the shim cannot work here */
};

/* Where records go. Programs cannot close it. */
extern int records_descriptor;

/* One record of what these pieces hold, as far as its bounds go. Returns the bytes taken, or a negative error. */
long record_pieces(uint32_t connection, const struct iovec *pieces, size_t count);

/* Ends the process, with a note of why. */
_Noreturn void record_end(enum ending ending, const char *why);
