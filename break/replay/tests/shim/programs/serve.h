/* A listening socket, and checks that end the program. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(holds)                                                          \
    do {                                                                      \
        if (!(holds)) {                                                       \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #holds); \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

static inline int serve(int port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listener >= 0 && !bind(listener, (struct sockaddr *)&at, sizeof at) && !listen(listener, 8));
    return listener;
}

/* Echoes the input after the connection's letter. Zero: the client has closed. */
static inline int echo(int connection, char letter)
{
    char bytes[256];
    ssize_t got = read(connection, bytes + 1, sizeof bytes - 1);
    CHECK(got >= 0);
    bytes[0] = letter;
    if (got)
        CHECK(write(connection, bytes, (size_t)got + 1) == got + 1);
    return got > 0;
}
