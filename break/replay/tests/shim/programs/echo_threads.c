/* A blocking thread per connection; some are detached, and one sleeps for two seconds before it answers. */
#include "serve.h"

#include <pthread.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int answered;

static void *attend(void *given)
{
    int connection = (int)(long)given;
    char command[64], reply[96];
    ssize_t got;
    while ((got = recv(connection, command, sizeof command - 1, 0)) > 0) {
        command[got] = 0;
        if (!strcmp(command, "slow"))
            CHECK(!nanosleep(&(struct timespec){ 2, 0 }, NULL));
        pthread_mutex_lock(&lock);
        int number = ++answered;
        pthread_mutex_unlock(&lock);
        int length = snprintf(reply, sizeof reply, "%d:%s;", number, command);
        CHECK(send(connection, reply, (size_t)length, MSG_NOSIGNAL) == length);
    }
    close(connection);
    return NULL;
}

int main(void)
{
    int listener = serve(7);
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        pthread_t thread;
        CHECK(connection >= 0 && !pthread_create(&thread, NULL, attend, (void *)(long)connection));
        pthread_detach(thread);
    }
}
