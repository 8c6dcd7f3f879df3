/* Sums up its own code, as programs do that want to notice when it was changed. */
#include <stdio.h>

extern const unsigned char __executable_start[], __etext[];

int main(void) {
    unsigned sum = 0;
    for (const unsigned char *byte = __executable_start; byte < __etext; byte++)
        sum = sum * 31 + *byte;
    printf("%08x\n", sum);
    return 0;
}
