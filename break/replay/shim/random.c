/* Sources of random numbers, which all read one fixed stream.
 *
 * Uses: nothing. */
#define _GNU_SOURCE
#include "random.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static uint64_t stream = 1;

void random_fill(void *into, size_t bytes)
{
    char *at = into;
    while (bytes) {
        uint64_t number = random_next(&stream);
        size_t some = bytes < sizeof number ? bytes : sizeof number;
        memcpy(at, &number, some);
        at += some;
        bytes -= some;
    }
}

EXPORT ssize_t getrandom(void *into, size_t bytes, unsigned flags)
{
    (void)flags;
    random_fill(into, bytes);
    return (ssize_t)bytes;
}

EXPORT int getentropy(void *into, size_t bytes)
{
    if (bytes > 256)
        return (int)answer(-EIO);
    random_fill(into, bytes);
    return 0;
}

EXPORT uint32_t arc4random(void)
{
    return (uint32_t)random_next(&stream);
}

EXPORT void arc4random_buf(void *into, size_t bytes)
{
    random_fill(into, bytes);
}

EXPORT uint32_t arc4random_uniform(uint32_t bound)
{
    return bound ? (uint32_t)(random_next(&stream) % bound) : 0;
}

static ssize_t cookie_read(void *nothing, char *into, size_t bytes)
{
    (void)nothing;
    random_fill(into, bytes);
    return (ssize_t)bytes;
}

static bool is_random(const char *path)
{
    return !strcmp(path, "/dev/urandom") || !strcmp(path, "/dev/random");
}

static FILE *random_file(void)
{
    return fopencookie(NULL, "r", (cookie_io_functions_t){ .read = cookie_read });
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
    return is_random(path) ? random_file() : REAL(fopen)(path, mode);
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
    return is_random(path) ? random_file() : REAL(fopen64)(path, mode);
}
