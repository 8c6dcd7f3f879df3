/* Accepts, does not read, and reads the clock every second. */
#include "serve.h"

#include <poll.h>

int main(void)
{
    int listener = serve(7);
    CHECK(accept(listener, NULL, NULL) >= 0);
    struct pollfd one = { .fd = listener, .events = POLLIN };
    for (;;)
        poll(&one, 1, 1000);
}
