/* IPv4 and IPv6 addresses.
 *
 * Uses: objects. */
#define _GNU_SOURCE
#include "addresses.h"

#include <netinet/in.h>
#include <string.h>

bool address_read(const struct sockaddr *from, socklen_t length, struct end_point *into)
{
    *into = (struct end_point){ .domain = from->sa_family };
    if (from->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
        const struct sockaddr_in *four = (const void *)from;
        memcpy(into->address, &four->sin_addr, sizeof four->sin_addr);
        into->port = ntohs(four->sin_port);
        return true;
    }
    if (from->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)) {
        const struct sockaddr_in6 *six = (const void *)from;
        memcpy(into->address, &six->sin6_addr, sizeof six->sin6_addr);
        into->port = ntohs(six->sin6_port);
        return true;
    }
    return false;
}

void address_write(const struct end_point *from, struct sockaddr *into, socklen_t *length)
{
    struct sockaddr_storage whole = { .ss_family = (sa_family_t)from->domain };
    socklen_t needed = sizeof(sa_family_t);
    if (from->domain == AF_INET) {
        struct sockaddr_in *four = (void *)&whole;
        memcpy(&four->sin_addr, from->address, sizeof four->sin_addr);
        four->sin_port = htons(from->port);
        needed = sizeof *four;
    } else if (from->domain == AF_INET6) {
        struct sockaddr_in6 *six = (void *)&whole;
        memcpy(&six->sin6_addr, from->address, sizeof six->sin6_addr);
        six->sin6_port = htons(from->port);
        needed = sizeof *six;
    }
    memcpy(into, &whole, *length < needed ? *length : needed);
    *length = needed;
}
