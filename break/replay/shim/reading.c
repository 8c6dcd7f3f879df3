/* read, recv and related calls.
 *
 * Uses: addresses, channels, clients, clock, listeners, objects, random, readiness, scheduler, timers. */
#define _GNU_SOURCE
#include "reading.h"

#include "addresses.h"
#include "channels.h"
#include "clock.h"
#include "clients.h"
#include "listeners.h"
#include "readiness.h"
#include "random.h"
#include "timers.h"
#include "scheduler.h"

#include <poll.h>
#include <string.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* One attempt to receive. */
struct receipt {
    const struct iovec *pieces;
    size_t count;
    int flags;
    struct end_point from; /* of a datagram */
    bool truncated;
};

size_t object_unread(const struct object *object)
{
    switch (object->kind) {
    case KIND_CONNECTION:
        return object->client->length;
    case KIND_SOCKET:
        return object->first ? object->first->length : object->answers_waiting ? object->answers[0]->length : 0;
    case KIND_CHANNEL:
        return channel_waiting(object);
    default:
        return 0;
    }
}

static size_t scatter(const struct receipt *receipt, const uint8_t *bytes, size_t length)
{
    size_t done = 0;
    for (size_t i = 0; i < receipt->count && done < length; i++) {
        size_t some = length - done < receipt->pieces[i].iov_len ? length - done : receipt->pieces[i].iov_len;
        memcpy(receipt->pieces[i].iov_base, bytes + done, some);
        done += some;
    }
    return done;
}

static long receive_stream(struct object *object, const struct receipt *receipt)
{
    struct client *client = object->client;
    if (object->shut_read || (!client->unread && client->closed))
        return 0;
    if (!client->unread)
        return -EAGAIN;
    size_t some = scatter(receipt, client->bytes, client->length);
    if (!(receipt->flags & MSG_PEEK))
        client_read(client, some);
    return (long)some;
}

static long receive_datagram(const uint8_t *bytes, size_t length, struct receipt *receipt)
{
    size_t some = scatter(receipt, bytes, length);
    receipt->truncated = some < length;
    return (long)(receipt->flags & MSG_TRUNC ? length : some);
}

static long receive_request(struct object *object, struct receipt *receipt)
{
    struct client *client = object->first;
    receipt->from = client_address(client, object->here.domain);
    long some = receive_datagram(client->bytes, client->length, receipt);
    if (!(receipt->flags & MSG_PEEK))
        client_read(listener_take(object), client->length);
    return some;
}

/* An upstream server's answer, with the query's id. */
static long receive_answer(struct object *object, struct receipt *receipt)
{
    static uint8_t bytes[UINT16_MAX];
    const struct upstream_answer *answer = object->answers[0];
    memcpy(bytes, answer->bytes, answer->length);
    memcpy(bytes, &object->answer_ids[0], sizeof object->answer_ids[0]);
    receipt->from = object->answer_from[0];
    long some = receive_datagram(bytes, answer->length, receipt);
    if (receipt->flags & MSG_PEEK)
        return some;
    object->answers_waiting--;
    for (unsigned i = 0; i < object->answers_waiting; i++) {
        object->answers[i] = object->answers[i + 1];
        object->answer_ids[i] = object->answer_ids[i + 1];
        object->answer_from[i] = object->answer_from[i + 1];
    }
    return some;
}

static long receive_channel(struct object *object, const struct receipt *receipt)
{
    if (object->in && !channel_waiting(object))
        return channel_ended(object) ? 0 : -EAGAIN;
    long done = 0;
    for (size_t i = 0; i < receipt->count; i++) {
        const struct iovec *piece = &receipt->pieces[i];
        long some = channel_read(object, piece->iov_base, piece->iov_len, receipt->flags & MSG_PEEK);
        if (some < 0)
            return some;
        done += some;
        if ((size_t)some < piece->iov_len || receipt->flags & MSG_PEEK)
            break;
    }
    return done;
}

static long receive_random(const struct receipt *receipt)
{
    long done = 0;
    for (size_t i = 0; i < receipt->count; i++) {
        random_fill(receipt->pieces[i].iov_base, receipt->pieces[i].iov_len);
        done += (long)receipt->pieces[i].iov_len;
    }
    return done;
}

static long receive(struct object *object, struct receipt *receipt)
{
    const struct iovec *first = receipt->pieces;
    switch (object->kind) {
    case KIND_CONNECTION:
        return receive_stream(object, receipt);
    case KIND_CHANNEL:
        return receive_channel(object, receipt);
    case KIND_COUNTER:
        return object->count ? counter_read(object, first->iov_base, first->iov_len) : -EAGAIN;
    case KIND_TIMER:
        return timer_expired(object) ? timer_read(object, first->iov_base, first->iov_len) : -EAGAIN;
    case KIND_RANDOM:
        return receive_random(receipt);
    case KIND_SOCKET:
        if (object->first)
            return receive_request(object, receipt);
        if (object->answers_waiting)
            return receive_answer(object, receipt);
        return object->datagram ? -EAGAIN : -ENOTCONN;
    default:
        return -EINVAL;
    }
}

static bool is_readable(const void *object)
{
    return object_ready(object) & (POLLIN | POLLHUP);
}

/* Pipes and counters of the program wait for another turn. */
static enum waiting waits_for(const struct object *object)
{
    return object->kind == KIND_CHANNEL || object->kind == KIND_COUNTER ? FOR_ANOTHER : FOR_INPUT;
}

static long receive_or_wait(struct object *object, struct receipt *receipt)
{
    if (!receipt->count)
        return 0;
    int64_t deadline_ns = object->receive_timeout_ns ? clock_now_ns() + object->receive_timeout_ns : NEVER;
    for (;;) {
        long got = receive(object, receipt);
        if (got != -EAGAIN) {
            turn_busy();
            return got;
        }
        if (object->nonblocking || receipt->flags & MSG_DONTWAIT) {
            turn_idle();
            return -EAGAIN;
        }
        if (!turn_wait(waits_for(object), is_readable, object, deadline_ns))
            return -EAGAIN;
    }
}

static long receive_one(int fd, void *into, size_t bytes, int flags, struct end_point *from)
{
    struct object *object = descriptor_object(fd);
    struct iovec piece = { into, bytes };
    struct receipt receipt = { .pieces = &piece, .count = 1, .flags = flags };
    long got = receive_or_wait(object, &receipt);
    if (from)
        *from = receipt.from;
    if (!(flags & MSG_WAITALL) || object->datagram)
        return got;
    long done = got;
    while (got > 0 && (size_t)done < bytes) {
        piece = (struct iovec){ (char *)into + done, bytes - (size_t)done };
        got = receive_or_wait(object, &receipt);
        done += got > 0 ? got : 0;
    }
    return done;
}

EXPORT ssize_t read(int fd, void *into, size_t bytes)
{
    return answer(descriptor_object(fd) ? receive_one(fd, into, bytes, 0, NULL) : kernel(SYS_read, fd, into, bytes));
}

EXPORT ssize_t __read_chk(int fd, void *into, size_t bytes, size_t room)
{
    if (bytes > room)
        abort();
    return read(fd, into, bytes);
}

EXPORT ssize_t readv(int fd, const struct iovec *pieces, int count)
{
    struct object *object = descriptor_object(fd);
    struct receipt receipt = { .pieces = pieces, .count = (size_t)(count < 0 ? 0 : count) };
    return answer(object ? receive_or_wait(object, &receipt) : kernel(SYS_readv, fd, pieces, count));
}

EXPORT ssize_t recvfrom(int fd, void *restrict into, size_t bytes, int flags, __SOCKADDR_ARG address,
                        socklen_t *restrict length)
{
    if (!descriptor_object(fd))
        return answer(kernel(SYS_recvfrom, fd, into, bytes, flags, address.__sockaddr__, length));
    struct end_point from;
    long got = receive_one(fd, into, bytes, flags, &from);
    if (got >= 0 && address.__sockaddr__)
        address_write(&from, address.__sockaddr__, length);
    return answer(got);
}

EXPORT ssize_t recv(int fd, void *into, size_t bytes, int flags)
{
    return recvfrom(fd, into, bytes, flags, (struct sockaddr *)NULL, NULL);
}

EXPORT ssize_t __recv_chk(int fd, void *into, size_t bytes, size_t room, int flags)
{
    if (bytes > room)
        abort();
    return recv(fd, into, bytes, flags);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *restrict into, size_t bytes, size_t room, int flags,
                              __SOCKADDR_ARG address, socklen_t *restrict length)
{
    if (bytes > room)
        abort();
    return recvfrom(fd, into, bytes, flags, address, length);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    struct object *object = descriptor_object(fd);
    if (!object)
        return answer(kernel(SYS_recvmsg, fd, message, flags));
    struct receipt receipt = { .pieces = message->msg_iov, .count = message->msg_iovlen, .flags = flags };
    long got = receive_or_wait(object, &receipt);
    if (got < 0)
        return answer(got);
    if (message->msg_name)
        address_write(&receipt.from, message->msg_name, &message->msg_namelen);
    message->msg_controllen = 0;
    message->msg_flags = receipt.truncated ? MSG_TRUNC : 0;
    return got;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *all, unsigned count, int flags, struct timespec *time)
{
    (void)time;
    unsigned done = 0;
    for (; done < count; done++) {
        ssize_t got = recvmsg(fd, &all[done].msg_hdr, done ? flags | MSG_DONTWAIT : flags & ~MSG_WAITFORONE);
        if (got < 0)
            break;
        all[done].msg_len = (unsigned)got;
    }
    return done || !count ? (int)done : -1;
}
