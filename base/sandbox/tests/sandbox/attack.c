/* Attacks on the host: attack VERB=ARGUMENT… tries one after the other and prints each result. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <poll.h>
#include <sys/ptrace.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static char self[4096];

static int write_to(const char *path) {
    int file = open(path, O_WRONLY | O_CREAT, 0666);
    return file < 0 ? -1 : write(file, "attacked", 8) == 8 ? close(file) : -1;
}

static int read_from(const char *path) {
    char byte;
    int file = open(path, O_RDONLY);
    return file < 0 ? -1 : read(file, &byte, 1) < 0 ? -1 : close(file);
}

static int tcp(const char *port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(port)), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int s = socket(AF_INET, SOCK_STREAM, 0);
    return s < 0 ? -1 : connect(s, (struct sockaddr *)&to, sizeof to);
}

static int unix_socket(const char *path) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    strncpy(to.sun_path, path, sizeof to.sun_path - 1);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    return s < 0 ? -1 : connect(s, (struct sockaddr *)&to, sizeof to);
}

static int memory(const char *gigabytes) {
    size_t bytes = strtoul(gigabytes, 0, 10) << 30;
    return mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED ? -1 : 0;
}

/* Files of a megabyte, until one cannot be written. */
static int fill(const char *files) {
    static char block[1 << 20];
    char name[32];
    for (int i = 0; i < atoi(files); i++) {
        sprintf(name, "fill%d", i);
        int file = open(name, O_WRONLY | O_CREAT, 0666);
        if (file < 0) return -1;
        ssize_t written = write(file, block, sizeof block);
        if (written < 0) return -1;
        if (written < (ssize_t)sizeof block) return errno = ENOSPC, -1;
        close(file);
    }
    return 0;
}

static int grow(const char *megabytes) {
    static char block[1 << 20];
    int file = open("grown", O_WRONLY | O_CREAT, 0666);
    for (int i = 0; i < atoi(megabytes); i++)
        if (write(file, block, sizeof block) < 0) return -1;
    return 0;
}

/* Every process starts others until it may not. */
static int bomb(const char *most) {
    pid_t first = getpid();
    int why = 0;
    for (int i = 0; i < atoi(most) && !why; i++)
        if (fork() < 0) why = errno;
    while (wait(0) > 0) {}
    if (getpid() != first) _exit(0);
    errno = why;
    return why ? -1 : 0;
}

static int forked(const char *verb);

static int clone3_there(void) {
    char arguments[64] = {0};
    return syscall(SYS_clone3, arguments, 0);
}

static int setuid_program(const char *path) {
    execl(path, path, "ids=", (char *)0);
    return -1;
}

static int ids(void) {
    printf("ids %d %d\n", geteuid() == getuid(), geteuid() == 0);
    return 0;
}

/* What must be equal in every run. */
static int addresses(void) {
    int here;
    unsigned char *random = (void *)getauxval(AT_RANDOM);
    printf("stack %p heap %p library %p code %p clock %lx random ", (void *)&here, malloc(10), (void *)printf, (void *)addresses,
           getauxval(AT_SYSINFO_EHDR));
    for (int i = 0; i < 16; i++) printf("%02x", random[i]);
    char host[64];
    gethostname(host, sizeof host);
    printf(" host %s here %s time %d\n", host, getcwd(self, sizeof self), time(0) > 0);
    return 0;
}

/* What was inherited: environment, descriptors, signals, groups. */
static int inherited(void) {
    for (char **e = environ; *e; e++) printf("environment %s\n", *e);
    for (int i = 0; i < 4096; i++)
        if (fcntl(i, F_GETFD) >= 0) printf("descriptor %d\n", i);
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (!strncmp(line, "SigBlk", 6) || !strncmp(line, "SigIgn", 6) || !strncmp(line, "Cap", 3) ||
            !strncmp(line, "NoNewPrivs", 10))
            fputs(line, stdout);
    printf("groups %d session %d umask %o\n", getgroups(0, 0), getsid(0) == getpid(), umask(022));
    int stranger = 0;
    struct dirent *entry;
    for (DIR *processes = opendir("/proc"); (entry = readdir(processes));) stranger += atoi(entry->d_name) > getpid();
    printf("strangers %d\n", stranger);
    FILE *score = fopen("/proc/self/oom_score_adj", "r");
    if (fgets(line, sizeof line, score)) printf("out of memory %s", line);
    return 0;
}

/* Waits that use one time twice. Only some calls change it. */
static int waits(void) {
    struct timespec begin, end, time = {7, 500};
    struct epoll_event event;
    int none = epoll_create1(0);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < 2; i++)
        if (syscall(SYS_epoll_pwait2, none, &event, 1, &time, 0, 0) != 0) return -1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("epoll %ld s, left %ld\n", (long)(end.tv_sec - begin.tv_sec), (long)time.tv_sec);
    int ends[2];
    if (pipe(ends) < 0) return -1;
    struct pollfd ready = {ends[1], POLLOUT, 0};
    if (syscall(SYS_ppoll, &ready, 1, &time, 0, 0) != 1) return -1;
    printf("ready, left %d\n", time.tv_sec >= 6);
    if (syscall(SYS_ppoll, 0, 0, &time, 0, 0) != 0) return -1;
    printf("nothing, left %ld\n", (long)time.tv_sec);
    return 0;
}

static int attempt(const char *verb, const char *argument) {
    int number = atoi(argument);
    if (!strcmp(verb, "kill")) return kill(number, SIGKILL);
    if (!strcmp(verb, "kill-parent")) return kill(getppid(), SIGKILL);
    if (!strcmp(verb, "kill-self")) return kill(getpid(), SIGTERM);
    if (!strcmp(verb, "abort")) abort();
    if (!strcmp(verb, "write")) return write_to(argument);
    if (!strcmp(verb, "write-parent")) {
        char path[64];
        sprintf(path, "/proc/%d/mem", getppid());
        return write_to(path);
    }
    if (!strcmp(verb, "read")) return read_from(argument);
    if (!strcmp(verb, "unlink")) return unlink(argument);
    if (!strcmp(verb, "mkdir")) return mkdir(argument, 0777);
    if (!strcmp(verb, "chmod")) return chmod(argument, 0777);
    if (!strcmp(verb, "mount")) return mount("none", "/", 0, MS_REMOUNT, 0);
    if (!strcmp(verb, "umount")) return umount2("/dev", MNT_DETACH);
    if (!strcmp(verb, "unshare")) return unshare(CLONE_NEWUSER);
    if (!strcmp(verb, "ptrace")) return ptrace(PTRACE_ATTACH, number, 0, 0);
    if (!strcmp(verb, "clock")) return clock_settime(CLOCK_REALTIME, &(struct timespec){0});
    if (!strcmp(verb, "root")) return setuid(0);
    if (!strcmp(verb, "node")) return mknod("disk", S_IFBLK | 0666, 0x0800);
    if (!strcmp(verb, "tcp")) return tcp(argument);
    if (!strcmp(verb, "unix")) return unix_socket(argument);
    if (!strcmp(verb, "memory")) return memory(argument);
    if (!strcmp(verb, "fill")) return fill(argument);
    if (!strcmp(verb, "grow")) return grow(argument);
    if (!strcmp(verb, "bomb")) return bomb(argument);
    if (!strcmp(verb, "forked")) return forked(argument);
    if (!strcmp(verb, "clone3")) return clone3_there();
    if (!strcmp(verb, "exec")) return setuid_program(argument);
    if (!strcmp(verb, "ids")) return ids();
    if (!strcmp(verb, "addresses")) return addresses();
    if (!strcmp(verb, "inherited")) return inherited();
    if (!strcmp(verb, "waits")) return waits();
    if (!strcmp(verb, "spin")) for (;;) {}
    // a sleep would take virtual time only
    if (!strcmp(verb, "pause")) return pause();
    return errno = EINVAL, -1;
}

static void report(const char *verb, int result) {
    printf("%s: %s\n", verb, result < 0 ? strerrorname_np(errno) : "done");
    fflush(stdout);
}

/* In a child of its own. */
static int forked(const char *verb) {
    pid_t child = fork();
    if (child) return child < 0 ? -1 : waitpid(child, 0, 0) < 0 ? -1 : 0;
    report(verb, attempt(verb, ""));
    _exit(0);
}

int main(int count, char **arguments) {
    for (int i = 1; i < count; i++) {
        char *argument = strchr(arguments[i], '=');
        *argument++ = 0;
        report(arguments[i], attempt(arguments[i], argument));
    }
}
