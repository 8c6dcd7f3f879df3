/* Decides when input is delivered, when time advances, and when a run is over.
 *
 * Uses: clients, clock, listeners, records, scheduler, timers, trace. */
#include "delivery.h"

#include "clients.h"
#include "clock.h"
#include "listeners.h"
#include "records.h"
#include "scheduler.h"
#include "timers.h"
#include "trace.h"

#define PATIENCE_NS (3600 * NS_PER_S) /* virtual time without delivered or read input */

unsigned delivery_width = 1;

static size_t delivered;       /* steps of the trace */
static int64_t waiting_until;  /* the end of a `wait` step; 0: none has begun */

static bool client_connect(struct client *client, const struct step *step)
{
    struct object *listener = listener_find(step->datagram, step->port);
    if (!listener)
        return false;
    listener->has_clients = true;
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
        return true; /* the bytes are lost */
    if (client->unread || clients_unread >= delivery_width)
        return false;
    if (!step->length && !client->datagram)
        return true;
    client->bytes = step->bytes;
    client->length = step->length;
    client->unread = true;
    clients_unread++;
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
    clients_progress_ns = clock_now_ns();
    return true;
}

/* Everything is delivered and read, no thread waits for a lock, and one waits for input. */
static bool replay_is_over(void)
{
    return delivered == trace_length && !clients_unread && !turn_any(FOR_LOCK) && turn_any(FOR_INPUT);
}

static _Noreturn void replay_end(void)
{
    record_end(END_WELL, NULL);
}

static _Noreturn void end_without_progress(bool time_passes)
{
    if (time_passes && !turn_any(FOR_INPUT))
        record_end(END_STUCK, "stuck: an hour of virtual time passed, and no thread waits for input");
    if (turn_any(FOR_LOCK) || !turn_any(FOR_INPUT))
        record_end(END_DEADLOCK, "deadlock: all threads wait for each other");
    record_end(END_STUCK, delivered < trace_length && trace_steps[delivered].act == ACT_CONNECT
                              ? "stuck: no listener on the port of a connection"
                              : "stuck: input is left that the server does not read");
}

void delivery_idle(void)
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
        clients_progress_ns = clock_now_ns(); /* the trace waits for time */
    if (next_ns == NEVER || clock_now_ns() - clients_progress_ns > PATIENCE_NS)
        end_without_progress(next_ns != NEVER);
    clock_advance(next_ns);
}
