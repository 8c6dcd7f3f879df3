/* When input comes, when time passes, and when a run is over. */
#include "delivery.h"

#include "clock.h"
#include "listeners.h"
#include "records.h"
#include "timers.h"
#include "turns.h"

#define PATIENCE_NS (3600 * NS_PER_S) /* virtual, without anything being delivered or read */

struct client clients[CONNECTIONS];
unsigned delivery_width = 1;

static size_t delivered;       /* steps of the trace */
static unsigned unread;        /* clients */
static int64_t waiting_until;  /* a `wait` step that has begun; 0: none has */
static int64_t progressed_ns;

uint32_t client_number(const struct client *client)
{
    return (uint32_t)(client - clients);
}

static void client_is_read(struct client *client)
{
    if (client->unread)
        unread--;
    client->unread = false;
    client->length = 0;
    progressed_ns = clock_now_ns();
}

void client_read(struct client *client, size_t bytes)
{
    client->bytes += bytes;
    client->length -= bytes;
    if (!client->length)
        client_is_read(client);
}

void client_drop(struct client *client)
{
    client_is_read(client);
    client->refused = true;
    client->end = NULL;
}

static bool client_connect(struct client *client, const struct step *step)
{
    struct object *listener = listener_find(step->datagram, step->port);
    if (!listener)
        return false;
    listener->known = true;
    client->opened = true;
    client->datagram = step->datagram;
    if (client->datagram)
        client->end = listener;
    else
        listener_arrive(listener, client);
    return true;
}

static bool client_send(struct client *client, const struct step *step)
{
    if (client->refused)
        return true; /* to nobody */
    if (client->unread || unread >= delivery_width)
        return false;
    if (!step->length && !client->datagram)
        return true;
    client->bytes = step->bytes;
    client->length = step->length;
    client->unread = true;
    unread++;
    if (client->datagram)
        listener_arrive(client->end, client);
    else if (client->end)
        object_changed(client->end);
    return true;
}

static bool client_close(struct client *client)
{
    client->closed = true;
    if (client->end)
        object_changed(client->end);
    return true;
}

static bool wait_is_over(const struct step *step)
{
    if (!waiting_until)
        waiting_until = clock_after_ms(step->connection);
    if (clock_now_ns() < waiting_until)
        return false;
    waiting_until = 0;
    return true;
}

static bool deliver(const struct step *step)
{
    struct client *client = &clients[step->act == ACT_WAIT ? 0 : step->connection];
    switch (step->act) {
    case ACT_CONNECT:
        return client_connect(client, step);
    case ACT_SEND:
        return client_send(client, step);
    case ACT_CLOSE:
        return client_close(client);
    case ACT_WAIT:
        return wait_is_over(step);
    }
    return false;
}

static bool deliver_all(void)
{
    size_t before = delivered;
    while (delivered < trace_length && deliver(&trace_steps[delivered]))
        delivered++;
    if (delivered == before)
        return false;
    progressed_ns = clock_now_ns();
    return true;
}

/* Everything was delivered and read, nobody is within some work, and somebody would take more. */
static bool replay_is_over(void)
{
    return delivered == trace_length && !unread && !turn_any(FOR_LOCK) && turn_any(FOR_INPUT);
}

static _Noreturn void replay_end(void)
{
    record_end(END_WELL, NULL);
}

static _Noreturn void nothing_comes(bool time_passes)
{
    if (time_passes && !turn_any(FOR_INPUT))
        record_end(END_STUCK, "stuck: an hour of virtual time passed, and nobody waits for input");
    if (turn_any(FOR_LOCK) || !turn_any(FOR_INPUT))
        record_end(END_DEADLOCK, "deadlock: all threads wait for each other");
    record_end(END_STUCK, delivered < trace_length && trace_steps[delivered].act == ACT_CONNECT
                              ? "stuck: nobody listens on the port of a connection"
                              : "stuck: input is left that the server does not read");
}

void delivery_quiescent(void)
{
    if (deliver_all())
        return;
    if (replay_is_over())
        replay_end();
    int64_t next_ns = turn_deadline_ns();
    if (timer_expiry_ns() < next_ns)
        next_ns = timer_expiry_ns();
    if (waiting_until && waiting_until < next_ns)
        next_ns = waiting_until;
    if (waiting_until)
        progressed_ns = clock_now_ns(); /* time is what is waited for */
    if (next_ns == NEVER || clock_now_ns() - progressed_ns > PATIENCE_NS)
        nothing_comes(next_ns != NEVER);
    clock_advance(next_ns);
}
