/* socket, bind, listen, accept and queries about sockets.
 *
 * Uses: addresses, clients, clock, listeners, scheduler. */
#define _GNU_SOURCE
#include "addresses.h"
#include "clock.h"
#include "clients.h"
#include "listeners.h"
#include "scheduler.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#define PORT_FIRST 40000 /* for port 0 */

/* IPv4 and IPv6 are replayed. Others, such as netlink for names of interfaces, are real. */
EXPORT int socket(int domain, int type, int protocol)
{
    if (domain != AF_INET && domain != AF_INET6)
        return (int)answer(kernel(SYS_socket, domain, type, protocol));
    int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (kind != SOCK_STREAM && kind != SOCK_DGRAM)
        return (int)answer(-EPROTONOSUPPORT);
    struct object *object = object_new(KIND_SOCKET);
    if (object) {
        object->datagram = kind == SOCK_DGRAM;
        object->here.domain = object->peer.domain = domain;
    }
    return (int)answer(descriptor_open(object, type));
}

EXPORT int bind(int fd, __CONST_SOCKADDR_ARG address, socklen_t length)
{
    static uint16_t next;
    struct object *object = descriptor_object(fd);
    if (!object)
        return (int)answer(kernel(SYS_bind, fd, address.__sockaddr__, length));
    if (object->kind != KIND_SOCKET || !address_read(address.__sockaddr__, length, &object->here))
        return (int)answer(-EINVAL);
    if (!object->here.port)
        object->here.port = (uint16_t)(PORT_FIRST + next++ % 20000);
    return 0;
}

EXPORT int listen(int fd, int backlog)
{
    struct object *object = descriptor_object(fd);
    if (!object)
        return (int)answer(kernel(SYS_listen, fd, backlog));
    if (object->datagram || (object->kind != KIND_SOCKET && object->kind != KIND_LISTENER))
        return (int)answer(-EOPNOTSUPP);
    object->kind = KIND_LISTENER;
    return 0;
}

static bool has_arrived(const void *listener)
{
    return ((const struct object *)listener)->first != NULL;
}

static long take_connection(struct object *listener, int flags)
{
    int64_t deadline_ns = listener->receive_timeout_ns ? clock_now_ns() + listener->receive_timeout_ns : NEVER;
    if (!listener->first && listener->nonblocking) {
        turn_idle();
        return -EAGAIN;
    }
    if (!turn_wait(FOR_INPUT, has_arrived, listener, deadline_ns))
        return -EAGAIN;
    turn_busy();
    struct object *object = object_new(KIND_CONNECTION);
    if (!object)
        return -EMFILE;
    struct client *client = listener->first;
    object->client = client;
    object->connected = true;
    object->here = listener->here;
    object->peer = client_address(client, listener->here.domain);
    int fd = descriptor_open(object, flags);
    if (fd < 0)
        return fd;
    listener_take(listener);
    client->end = object;
    return fd;
}

static int accept_with(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    struct object *listener = descriptor_object(fd);
    if (!listener)
        return (int)answer(kernel(SYS_accept4, fd, address, length, flags));
    if (listener->kind != KIND_LISTENER)
        return (int)answer(-EINVAL);
    long accepted = take_connection(listener, flags);
    if (accepted >= 0 && address)
        address_write(&descriptor_object((int)accepted)->peer, address, length);
    return (int)answer(accepted);
}

EXPORT int accept(int fd, __SOCKADDR_ARG address, socklen_t *restrict length)
{
    return accept_with(fd, address.__sockaddr__, length, 0);
}

EXPORT int accept4(int fd, __SOCKADDR_ARG address, socklen_t *restrict length, int flags)
{
    return accept_with(fd, address.__sockaddr__, length, flags);
}

/* Datagrams go to the trace's upstream servers. Connections are refused: there is no network. */
EXPORT int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t length)
{
    struct object *object = descriptor_object(fd);
    if (!object)
        return (int)answer(kernel(SYS_connect, fd, address.__sockaddr__, length));
    if (!object->datagram)
        return (int)answer(-ECONNREFUSED);
    object->connected = address_read(address.__sockaddr__, length, &object->peer);
    return 0;
}

EXPORT int getsockname(int fd, __SOCKADDR_ARG address, socklen_t *restrict length)
{
    const struct object *object = descriptor_object(fd);
    if (!object)
        return (int)answer(kernel(SYS_getsockname, fd, address.__sockaddr__, length));
    struct end_point here = object->here;
    if (object->kind == KIND_CHANNEL)
        here.domain = AF_UNIX;
    address_write(&here, address.__sockaddr__, length);
    return 0;
}

EXPORT int getpeername(int fd, __SOCKADDR_ARG address, socklen_t *restrict length)
{
    const struct object *object = descriptor_object(fd);
    if (!object)
        return (int)answer(kernel(SYS_getpeername, fd, address.__sockaddr__, length));
    if (!object->connected)
        return (int)answer(-ENOTCONN);
    address_write(&object->peer, address.__sockaddr__, length);
    return 0;
}

/* Only the receive timeout has an effect. */
EXPORT int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    struct object *object = descriptor_object(fd);
    if (!object)
        return (int)answer(kernel(SYS_setsockopt, fd, level, name, value, length));
    if (level == SOL_SOCKET && name == SO_RCVTIMEO && length >= sizeof(struct timeval)) {
        struct timeval time;
        memcpy(&time, value, sizeof time);
        object->receive_timeout_ns = clock_after(&(struct timespec){ time.tv_sec, time.tv_usec * 1000 }) - clock_now_ns();
    }
    return 0;
}

static int option(const struct object *object, int level, int name)
{
    if (level != SOL_SOCKET)
        return 0;
    switch (name) {
    case SO_TYPE:
        return object->datagram ? SOCK_DGRAM : SOCK_STREAM;
    case SO_DOMAIN:
        return object->here.domain;
    case SO_ACCEPTCONN:
        return object->kind == KIND_LISTENER;
    case SO_SNDBUF:
    case SO_RCVBUF:
        return 212992;
    default:
        return 0;
    }
}

EXPORT int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict length)
{
    const struct object *object = descriptor_object(fd);
    if (!object)
        return (int)answer(kernel(SYS_getsockopt, fd, level, name, value, length));
    int number = option(object, level, name);
    memset(value, 0, *length);
    memcpy(value, &number, *length < sizeof number ? *length : sizeof number);
    return 0;
}

EXPORT int shutdown(int fd, int how)
{
    struct object *object = descriptor_object(fd);
    if (!object)
        return (int)answer(kernel(SYS_shutdown, fd, how));
    if (how != SHUT_WR)
        object->shut_read = true;
    if (how != SHUT_RD)
        object->shut_write = true;
    object_changed(object);
    return 0;
}
