/* poll, with non-blocking descriptors; with an argument it polls in a loop without waiting. */
#include "serve.h"

#include <fcntl.h>
#include <poll.h>

int main(int count, char **arguments)
{
    (void)arguments;
    struct pollfd all[16] = { { .fd = serve(7), .events = POLLIN } };
    nfds_t used = 1;
    for (;;) {
        int ready = poll(all, used, count > 1 ? 0 : -1);
        CHECK(ready > 0 || count > 1);
        for (nfds_t i = 0; i < used; i++) {
            if (!(all[i].revents & POLLIN))
                continue;
            if (i) {
                if (!echo(all[i].fd, 'p')) {
                    close(all[i].fd);
                    all[i].fd = -1;
                }
                continue;
            }
            int connection = accept(all[0].fd, NULL, NULL);
            CHECK(connection >= 0 && used < 16 && !fcntl(connection, F_SETFL, O_NONBLOCK));
            all[used++] = (struct pollfd){ .fd = connection, .events = POLLIN };
        }
    }
}
