/* Repeated string instructions of every kind, also some that do nothing, and with the direction flag. */
#include <stdint.h>
#include <stdio.h>

static unsigned char from[512], to[512];

static void move_bytes(void *d, const void *s, uint64_t n) {
    __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
}

static void fill(void *d, uint64_t value, uint64_t n) {
    __asm__ volatile("rep stosq" : "+D"(d), "+c"(n) : "a"(value) : "memory");
}

static uint64_t length(const void *s) {
    uint64_t n = ~0ull;
    __asm__ volatile("repne scasb" : "+D"(s), "+c"(n) : "a"(0) : "memory", "cc");
    return ~n - 1;
}

static uint64_t common(const void *a, const void *b, uint64_t n) {
    uint64_t left = n;
    __asm__ volatile("repe cmpsb" : "+S"(a), "+D"(b), "+c"(left) : : "memory", "cc");
    return n - left;
}

static void backwards(void *d, const void *s, uint64_t n) {
    __asm__ volatile("std; rep movsb; cld" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
}

int main(void) {
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 511; i++)
            from[i] = 1 + (i * 7 + round) % 250;
        fill(to, 0x0101010101010101ull * round, 64);
        move_bytes(to + round, from, 40 * round);
        backwards(to + 300, from + 100, round);
        uint64_t sum = 0;
        for (int i = 0; i < 512; i++)
            sum = sum * 131 + to[i];
        printf("%lu %lu %lx\n", length(from), common(from, to + round, 40 * round), sum);
    }
    return 0;
}
