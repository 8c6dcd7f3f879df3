/* Does one thing, chosen by its first argument: mostly one that prevents exact repetition. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* mov eax, 42; ret */
static const unsigned char answer[] = {0xb8, 42, 0, 0, 0, 0xc3};

static void *mapped(int protection, int flags) {
    void *memory = mmap(NULL, 4096, protection, flags | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        exit(9);
    return memory;
}

static void call(void *code) { printf("%d\n", ((int (*)(void))code)()); }

static void jit(void) {
    void *code = mapped(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE);
    call(memcpy(code, answer, sizeof answer));
}

static void late_jit(void) {
    void *code = memcpy(mapped(PROT_READ | PROT_WRITE, MAP_PRIVATE), answer, sizeof answer);
    mprotect(code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
    call(code);
}

/* never writable and executable at the same time; the code changes once */
static void strict_jit(void) {
    unsigned char *code = memcpy(mapped(PROT_READ | PROT_WRITE, MAP_PRIVATE), answer, sizeof answer);
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    call(code);
    mprotect(code, 4096, PROT_READ | PROT_WRITE);
    code[1] = 43;
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    call(code);
}

static void shared(void) { strcpy(mapped(PROT_READ | PROT_WRITE, MAP_SHARED), "for all"); }

static void piped(void) {
    int ends[2];
    char byte;
    if (pipe(ends) == 0 && write(ends[1], "x", 1) == 1 && read(ends[0], &byte, 1) == 1)
        putchar(byte);
}

static void nameless(void) {
    int file = open("gone", O_RDWR | O_CREAT, 0600);
    unlink("gone");
    char byte;
    if (write(file, "x", 1) == 1 && pread(file, &byte, 1, 0) == 1)
        putchar(byte);
}

/* the process id that only the kernel's own files show */
static void real_id(void) {
    char text[16] = {0};
    if (readlink("/proc/self", text, sizeof text - 1) < 0)
        exit(9);
    printf("this is process %s\n", text);
}

/* the same, but only its path depends on it */
static void unsteady(void) {
    char text[16] = {0};
    if (readlink("/proc/self", text, sizeof text - 1) < 0)
        exit(9);
    volatile int turns = atoi(text);
    while (turns > 0)
        turns--;
    puts("done");
}

static void *return_at_once(void *argument) { return argument; }

/* a program gets the real clocks from its first thread on */
static void threaded_clock(void) {
    pthread_t thread;
    struct timespec time;
    if (pthread_create(&thread, NULL, return_at_once, NULL) != 0 || pthread_join(thread, NULL) != 0)
        exit(9);
    clock_gettime(CLOCK_REALTIME, &time);
    printf("it is %ld.%09ld\n", (long)time.tv_sec, time.tv_nsec);
}

static void random_number(void) {
    uint32_t number = 0;
    int file = open("/dev/urandom", O_RDONLY);
    if (read(file, &number, sizeof number) != sizeof number)
        exit(9);
    printf("this is number %08x\n", number);
}

/* at the address of the code cache */
static void maps_cache(void) {
    void *at = (void *)0x70000000;
    if (mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
        exit(9);
    puts("mapped");
}

static void forks(void) {
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    if (child > 0)
        waitpid(child, NULL, 0);
    puts("forked");
}

static void spawns(void) { exit(system("true") == 0 ? 0 : 1); }
static void daemonises(void) { exit(daemon(1, 0) == 0 ? 0 : 1); }
static void becomes(void) { execl("/bin/true", "true", (char *)NULL); }
static void kills(void) { exit(kill(1, SIGTERM) == 0 ? 0 : 1); }
static void crashes(void) { fputs("what a pity\n", stderr); *(volatile int *)8 = 1; }
static void sleeps(void) { sleep(1000); puts("awake"); }
static void waits(void) { pause(); }
static void aborts(void) { raise(SIGABRT); }
static void fails(void) { puts("no"); exit(3); }

static void loops(void) {
    for (volatile int on = 1; on;)
        ;
}

static void floods(void) {
    static char zeros[1 << 16];
    while (write(1, zeros, sizeof zeros) > 0)
        ;
}

static void reads_on(void) {
    char line[16];
    for (int n = 0; n < 5; n++)
        printf("%d", fgets(line, sizeof line, stdin) != NULL);
}

/* a disturbed bound makes it count for a long time */
static void counts(void) {
    volatile unsigned long bound = 1000, sum = 0;
    for (volatile unsigned long n = 0; n < bound; n++)
        sum += n;
    printf("%lu\n", sum);
}

static const struct { const char *name; void (*act)(void); } acts[] = {
    {"jit", jit}, {"late-jit", late_jit}, {"strict-jit", strict_jit}, {"shared", shared}, {"pipe", piped},
    {"nameless", nameless}, {"random", random_number}, {"real-id", real_id}, {"unsteady", unsteady},
    {"threaded-clock", threaded_clock},
    {"maps-cache", maps_cache}, {"forks", forks}, {"spawns", spawns}, {"daemonises", daemonises},
    {"becomes", becomes}, {"kills", kills}, {"crashes", crashes}, {"sleeps", sleeps}, {"waits", waits},
    {"aborts", aborts}, {"fails", fails}, {"loops", loops}, {"floods", floods}, {"reads-on", reads_on}, {"counts", counts},
};

int main(int count, char **words) {
    for (size_t n = 0; count > 1 && n < sizeof acts / sizeof *acts; n++)
        if (strcmp(acts[n].name, words[1]) == 0) {
            acts[n].act();
            return 0;
        }
    return 2;
}
