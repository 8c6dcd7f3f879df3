/* Repeated instructions with three iterations and with none, forwards and backwards, and a store whose mask is empty.
 * */
#include <stdint.h>
#include <unistd.h>

static char from[16] = "abcdefghijklmno", to[64];

__attribute__((noinline)) static void moves(char *d, const char *s, uint64_t n) {
    __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
}

__attribute__((noinline)) static void backwards(char *d, const char *s, uint64_t n) {
    __asm__ volatile("std; rep movsb; cld" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
}

#ifdef MASKED /* the compiler accepts the mask registers only where it may use them */
__attribute__((target("avx512bw,avx512vl")))
#endif
__attribute__((noinline)) static void masked(char *d) {
#ifdef MASKED
    __asm__ volatile("kxorq %%k1, %%k1, %%k1\n\tvmovdqu8 %%ymm0, (%0)%{%%k1%}" : : "r"(d) : "memory", "k1");
#else
    __asm__ volatile("" : : "r"(d));
#endif
}

int main(void) {
    moves(to, from, 3);
    moves(to, from, 0);
    backwards(to + 8, from + 8, 2);
    masked(to + 16);
    return write(1, to, 16) != 16;
}
