/* Destructors of pthread_setspecific's values. libc runs them when a kernel thread ends, which does not happen here.
 *
 * Uses: threads. */
#define _GNU_SOURCE
#include "kernel.h"
#include "threads.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>

static void (*destructors[PTHREAD_KEYS_MAX])(void *);

EXPORT int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    int error = REAL(pthread_key_create)(key, NULL);
    if (!error && *key < PTHREAD_KEYS_MAX)
        destructors[*key] = destructor;
    return error;
}

EXPORT int pthread_key_delete(pthread_key_t key)
{
    if (key < PTHREAD_KEYS_MAX)
        destructors[key] = NULL;
    return REAL(pthread_key_delete)(key);
}

static bool destroy_round(void)
{
    bool any = false;
    for (pthread_key_t key = 0; key < PTHREAD_KEYS_MAX; key++) {
        void *value = destructors[key] ? pthread_getspecific(key) : NULL;
        if (!value)
            continue;
        pthread_setspecific(key, NULL);
        destructors[key](value);
        any = true;
    }
    return any;
}

void thread_values_destroy(void)
{
    for (int round = 0; round < PTHREAD_DESTRUCTOR_ITERATIONS && destroy_round(); round++)
        ;
}
