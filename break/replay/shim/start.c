/* Starts the shim before the program: reads its settings and the trace, and connects the parts that do not depend on
 * each other.
 *
 * Uses: channels, clients, delivery, listeners, readiness, records, scheduler, trace. */
#define _GNU_SOURCE
#include "channels.h"
#include "clients.h"
#include "delivery.h"
#include "listeners.h"
#include "readiness.h"
#include "records.h"
#include "scheduler.h"
#include "trace.h"

#include <fcntl.h>
#include <stdlib.h>

void (*const scheduler_idle)(void) = delivery_idle;

static void release_unwatched(struct object *object)
{
    readiness_forget(object);
}

static void release_connection(struct object *object)
{
    readiness_forget(object);
    client_drop(object->client);
}

static void release_listener(struct object *object)
{
    readiness_forget(object);
    listener_drop(object);
}

static void release_channel(struct object *object)
{
    readiness_forget(object);
    channel_release(object);
}

object_release_function *const object_release_functions[KINDS] = {
    [KIND_SOCKET] = release_listener,
    [KIND_LISTENER] = release_listener,
    [KIND_CONNECTION] = release_connection,
    [KIND_CHANNEL] = release_channel,
    [KIND_COUNTER] = release_unwatched,
    [KIND_TIMER] = release_unwatched,
    [KIND_RANDOM] = release_unwatched,
    [KIND_EPOLL] = release_unwatched,
};

/* A decimal number from the environment; the default is `least`. */
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
