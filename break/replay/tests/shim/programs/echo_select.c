/* select: one loop for all connections. */
#include "serve.h"

#include <sys/select.h>

int main(void)
{
    int listener = serve(7), highest = listener;
    fd_set all;
    FD_ZERO(&all);
    FD_SET(listener, &all);
    for (;;) {
        fd_set ready = all;
        CHECK(select(highest + 1, &ready, NULL, NULL, NULL) > 0);
        for (int fd = 0; fd <= highest; fd++) {
            if (!FD_ISSET(fd, &ready))
                continue;
            if (fd == listener) {
                int connection = accept(listener, NULL, NULL);
                CHECK(connection >= 0);
                FD_SET(connection, &all);
                highest = connection > highest ? connection : highest;
            } else if (!echo(fd, 's')) {
                FD_CLR(fd, &all);
                close(fd);
            }
        }
    }
}
