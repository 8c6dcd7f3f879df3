/* jemalloc's background threads.
 *
 * They only return unused memory to the kernel. jemalloc starts them by libc's own pthread_create, so they would be
 * kernel threads beside the one that runs all turns: they would wait in the shim as that one. They are not started.
 * redis-server requests them.
 *
 * Uses: nothing. */
#define _GNU_SOURCE
#include "kernel.h"

#include <dlfcn.h>
#include <string.h>

/* jemalloc's interface; its header need not be installed. */
EXPORT int mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes)
{
    if (!REAL(mallctl))
        return ENOENT;
    if (new && !strcmp(name, "background_thread"))
        return REAL(mallctl)(name, old, old_bytes, NULL, 0);
    return REAL(mallctl)(name, old, old_bytes, new, new_bytes);
}
