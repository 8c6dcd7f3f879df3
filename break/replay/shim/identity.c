/* The identity of the process: the same in every run and on every host.
 *
 * Uses: scheduler. */
#define _GNU_SOURCE
#include "kernel.h"
#include "scheduler.h"

#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define PROCESS 1000
#define PARENT 999
#define USER 1000

EXPORT pid_t getpid(void)
{
    return PROCESS;
}

EXPORT pid_t getppid(void)
{
    return PARENT;
}

EXPORT pid_t gettid(void)
{
    return PROCESS + (pid_t)(turn_current - turns);
}

EXPORT uid_t getuid(void)
{
    return USER;
}

EXPORT uid_t geteuid(void)
{
    return USER;
}

EXPORT gid_t getgid(void)
{
    return USER;
}

EXPORT gid_t getegid(void)
{
    return USER;
}

EXPORT int kill(pid_t process, int signal)
{
    return (int)answer(kernel(SYS_kill, process == PROCESS ? kernel(SYS_getpid) : process, signal));
}

/* The program starts without privileges, so dropping them succeeds. */
EXPORT int setuid(uid_t user)
{
    (void)user;
    return 0;
}

EXPORT int setgid(gid_t group)
{
    (void)group;
    return 0;
}

EXPORT int seteuid(uid_t user)
{
    (void)user;
    return 0;
}

EXPORT int setegid(gid_t group)
{
    (void)group;
    return 0;
}

EXPORT int setgroups(size_t count, const gid_t *groups)
{
    (void)count, (void)groups;
    return 0;
}

EXPORT int initgroups(const char *user, gid_t group)
{
    (void)user, (void)group;
    return 0;
}

/* Relative paths are resolved from the new directory. */
EXPORT int chroot(const char *path)
{
    return (int)answer(kernel(SYS_chdir, path));
}
