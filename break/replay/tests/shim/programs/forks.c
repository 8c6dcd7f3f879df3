/* Becomes a daemon, or forks. */
#include "serve.h"

int main(int count, char **arguments)
{
    (void)arguments;
    return count > 1 ? daemon(0, 0) : fork() < 0;
}
