/* Calls that cannot be replayed, because a fork of the process would behave differently. They end the run with a note.
 *
 * Uses: records. */
#define _GNU_SOURCE
#include "kernel.h"
#include "records.h"

#include <sched.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

EXPORT pid_t fork(void)
{
    record_end(END_REFUSED, "refused: fork: run the server in one process, in the foreground");
}

EXPORT pid_t vfork(void)
{
    record_end(END_REFUSED, "refused: vfork: run the server in one process");
}

EXPORT int daemon(int keep_folder, int keep_output)
{
    (void)keep_folder, (void)keep_output;
    record_end(END_REFUSED, "refused: daemon: run the server in the foreground");
}

EXPORT int clone(int (*routine)(void *), void *stack, int flags, void *argument, ...)
{
    (void)routine, (void)stack, (void)flags, (void)argument;
    record_end(END_REFUSED, "refused: clone: run the server in one process");
}

EXPORT int signalfd(int fd, const sigset_t *mask, int flags)
{
    (void)fd, (void)mask, (void)flags;
    return (int)answer(-ENOSYS);
}

EXPORT int inotify_init1(int flags)
{
    (void)flags;
    return (int)answer(-ENOSYS);
}
