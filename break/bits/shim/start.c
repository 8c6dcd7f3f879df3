/* Before the program begins: what the environment says, and the input. */
#define _GNU_SOURCE
#include "delivery.h"
#include "records.h"
#include "trace.h"
#include "turns.h"

#include <fcntl.h>
#include <stdlib.h>

/* A decimal number of the environment; none: the default. */
static unsigned long setting(const char *name, unsigned long least, unsigned long most, const char *wrong)
{
    const char *text = getenv(name);
    if (!text)
        return least;
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || *end || *text < '0' || *text > '9' || value < least || value > most)
        record_end(END_UNFIT, wrong);
    return value;
}

__attribute__((constructor)) static void replay_begin(void)
{
    turn_begin();
    if (!getenv("FAULTLOOM_REPLAY_OUTPUT"))
        record_end(END_UNFIT, "FAULTLOOM_REPLAY_OUTPUT must name the descriptor for the output");
    records_descriptor = (int)setting("FAULTLOOM_REPLAY_OUTPUT", 0, 1 << 20, "FAULTLOOM_REPLAY_OUTPUT is no descriptor");
    if (kernel(SYS_fcntl, records_descriptor, F_GETFD) < 0)
        record_end(END_UNFIT, "the descriptor FAULTLOOM_REPLAY_OUTPUT is not open");
    const char *input = getenv("FAULTLOOM_REPLAY_INPUT");
    if (!input)
        record_end(END_UNFIT, "FAULTLOOM_REPLAY_INPUT must name the input trace");
    delivery_width =
        (unsigned)setting("FAULTLOOM_REPLAY_WIDTH", 1, CONNECTIONS, "FAULTLOOM_REPLAY_WIDTH is not within 1 to 4096");
    turn_seed(setting("FAULTLOOM_REPLAY_SEED", 0, UINT64_MAX, "FAULTLOOM_REPLAY_SEED is no number"));
    trace_read(input);
}
