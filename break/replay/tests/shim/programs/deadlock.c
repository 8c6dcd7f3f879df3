/* Two threads take two locks in different orders, once a client has sent something. */
#include "serve.h"

#include <pthread.h>
#include <sched.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;

static void *other(void *nothing)
{
    pthread_mutex_lock(&second);
    sched_yield();
    pthread_mutex_lock(&first);
    return nothing;
}

int main(void)
{
    int connection = accept(serve(7), NULL, NULL);
    CHECK(echo(connection, 'd'));
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, other, NULL));
    pthread_mutex_lock(&first);
    sched_yield();
    pthread_mutex_lock(&second);
    CHECK(echo(connection, 'n'));
}
