/* write, send and related calls.
 *
 * Uses: addresses, channels, clients, listeners, readiness, records, scheduler. */
#define _GNU_SOURCE
#include "addresses.h"
#include "channels.h"
#include "clients.h"
#include "listeners.h"
#include "readiness.h"
#include "records.h"
#include "scheduler.h"

#include <poll.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define DATAGRAM_BYTES 65507

/* Copies a datagram to one buffer for comparison. Returns its length, or a negative error. */
static long gather(const struct iovec *pieces, size_t count, uint8_t *into)
{
    size_t done = 0;
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].iov_len > DATAGRAM_BYTES - done)
            return -EMSGSIZE;
        memcpy(into + done, pieces[i].iov_base, pieces[i].iov_len);
        done += pieces[i].iov_len;
    }
    return (long)done;
}

/* A query to an upstream server: answered from the trace, or not at all. */
static void query_upstream(struct object *object, const struct end_point *to, const uint8_t *query, size_t length)
{
    uint32_t server;
    memcpy(&server, to->address, sizeof server);
    for (size_t i = 0; i < trace_answers_length; i++) {
        const struct upstream_answer *answer = &trace_answers[i];
        if (answer->address && (to->domain != AF_INET || answer->address != server))
            continue;
        if (answer->query_length != length || memcmp(answer->query + 2, query + 2, length - 2))
            continue;
        unsigned room = sizeof object->answers / sizeof *object->answers - object->answers_waiting;
        if (!room)
            return;
        object->answers[object->answers_waiting] = answer;
        object->answer_from[object->answers_waiting] = *to;
        memcpy(&object->answer_ids[object->answers_waiting++], query, sizeof object->answer_ids[0]);
        object_changed(object);
        return;
    }
}

/* The length comes first, so that the output includes the boundaries of datagrams. */
static long reply(const struct client *client, uint8_t *bytes, size_t length)
{
    uint8_t size[] = { (uint8_t)(length >> 8), (uint8_t)length };
    struct iovec framed[] = { { size, sizeof size }, { bytes, length } };
    long written = record_pieces(client_number(client), framed, 2);
    return written < 0 ? written : (long)length;
}

static long send_datagram(struct object *object, const struct iovec *pieces, size_t count, const struct end_point *to)
{
    static uint8_t bytes[DATAGRAM_BYTES];
    if (!to && !object->connected)
        return -EDESTADDRREQ;
    if (!to)
        to = &object->peer;
    long length = gather(pieces, count, bytes);
    if (length < 0)
        return length;
    const struct client *client = client_at(to);
    if (client)
        return reply(client, bytes, (size_t)length);
    if (length >= 2)
        query_upstream(object, to, bytes, (size_t)length);
    return length;
}

static bool has_room(const void *object)
{
    return object_ready(object) & (POLLOUT | POLLERR);
}

/* A blocking descriptor takes all bytes. */
static long send_channel(struct object *object, const struct iovec *piece, bool wait)
{
    size_t done = 0;
    do {
        long some = channel_write(object, (const char *)piece->iov_base + done, piece->iov_len - done);
        if (some == -EAGAIN && wait)
            turn_wait(FOR_ANOTHER, has_room, object, NEVER);
        else if (some < 0)
            return done ? (long)done : some;
        else
            done += (size_t)some;
    } while (wait && done < piece->iov_len);
    return (long)done;
}

static long send_channel_pieces(struct object *object, const struct iovec *pieces, size_t count, bool wait)
{
    long done = 0;
    for (size_t i = 0; i < count; i++) {
        long some = send_channel(object, &pieces[i], wait);
        if (some < 0)
            return done ? done : some;
        done += some;
        if ((size_t)some < pieces[i].iov_len)
            break;
    }
    return done;
}

static long send_pieces(struct object *object, const struct iovec *pieces, size_t count, int flags,
                        const struct end_point *to)
{
    if (object->shut_write)
        return -EPIPE;
    switch (object->kind) {
    case KIND_CONNECTION:
        return record_pieces(client_number(object->client), pieces, count);
    case KIND_CHANNEL:
        return send_channel_pieces(object, pieces, count, !object->nonblocking && !(flags & MSG_DONTWAIT));
    case KIND_COUNTER:
        return count ? counter_write(object, pieces->iov_base, pieces->iov_len) : -EINVAL;
    case KIND_SOCKET:
        return object->datagram ? send_datagram(object, pieces, count, to) : -ENOTCONN;
    default:
        return -EINVAL;
    }
}

static long send_one(struct object *object, const void *from, size_t bytes, int flags, const struct end_point *to)
{
    return send_pieces(object, &(struct iovec){ (void *)from, bytes }, 1, flags, to);
}

EXPORT ssize_t write(int fd, const void *from, size_t bytes)
{
    struct object *object = descriptor_object(fd);
    if (!object)
        return answer(fd == records_descriptor ? -EBADF : kernel(SYS_write, fd, from, bytes));
    return answer(send_one(object, from, bytes, 0, NULL));
}

EXPORT ssize_t writev(int fd, const struct iovec *pieces, int count)
{
    struct object *object = descriptor_object(fd);
    if (!object)
        return answer(fd == records_descriptor ? -EBADF : kernel(SYS_writev, fd, pieces, count));
    return answer(send_pieces(object, pieces, (size_t)(count < 0 ? 0 : count), 0, NULL));
}

EXPORT ssize_t sendto(int fd, const void *from, size_t bytes, int flags, __CONST_SOCKADDR_ARG address, socklen_t length)
{
    struct object *object = descriptor_object(fd);
    if (!object)
        return answer(kernel(SYS_sendto, fd, from, bytes, flags, address.__sockaddr__, length));
    struct end_point to;
    bool given = address.__sockaddr__ && address_read(address.__sockaddr__, length, &to);
    return answer(send_one(object, from, bytes, flags, given ? &to : NULL));
}

EXPORT ssize_t send(int fd, const void *from, size_t bytes, int flags)
{
    return sendto(fd, from, bytes, flags, (const struct sockaddr *)NULL, 0);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct object *object = descriptor_object(fd);
    if (!object)
        return answer(kernel(SYS_sendmsg, fd, message, flags));
    struct end_point to;
    bool given = message->msg_name && address_read(message->msg_name, message->msg_namelen, &to);
    return answer(send_pieces(object, message->msg_iov, message->msg_iovlen, flags, given ? &to : NULL));
}

EXPORT int sendmmsg(int fd, struct mmsghdr *all, unsigned count, int flags)
{
    unsigned done = 0;
    for (; done < count; done++) {
        ssize_t sent = sendmsg(fd, &all[done].msg_hdr, flags);
        if (sent < 0)
            break;
        all[done].msg_len = (unsigned)sent;
    }
    return done || !count ? (int)done : -1;
}

/* Sends a part of a real file to a connection: callers repeat the call for the rest. */
EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t bytes)
{
    static char some[65536];
    struct object *object = descriptor_object(out);
    if (!object)
        return answer(kernel(SYS_sendfile, out, in, offset, bytes));
    size_t most = bytes < sizeof some ? bytes : sizeof some;
    long got = offset ? kernel(SYS_pread64, in, some, most, *offset) : kernel(SYS_read, in, some, most);
    if (got <= 0)
        return answer(got);
    long sent = send_one(object, some, (size_t)got, 0, NULL);
    if (sent > 0 && offset)
        *offset += sent;
    return answer(sent);
}

EXPORT ssize_t sendfile64(int out, int in, off64_t *offset, size_t bytes)
{
    return sendfile(out, in, offset, bytes);
}
