/* Direct system calls: calls through libc could return to the shim's own functions. */
#pragma once

#if !defined(__x86_64__) || !defined(__linux__)
#error "the replay shim is for Linux on x86-64"
#endif

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

/* Marks functions that replace libc's; everything else is hidden. */
#define EXPORT __attribute__((visibility("default")))

static inline long kernel_call(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return number;
}

#define KERNEL_CALL(number, a, b, c, d, e, f, ...) \
    kernel_call((number), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* A system call with up to six arguments. Returns a negative error. */
#define kernel(...) KERNEL_CALL(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

/* Converts a result in the kernel's form to libc's. */
static inline long answer(long result)
{
    if ((unsigned long)result > -4096UL) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

/* The next definition of an interposed function. */
#define REAL(name)                                              \
    ({                                                          \
        static __typeof__(&name) found;                         \
        if (!found)                                             \
            found = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
        found;                                                  \
    })
