/* One short answer: small enough that every single flip in it can be tried. */
#include <unistd.h>

static char text[16];

__attribute__((noinline)) static int handle(const char *line, int length) {
    unsigned sum = 7;
    for (int i = 0; i < length; i++)
        sum = sum * 31 + (unsigned char)line[i];
    int n = 0;
    for (unsigned rest = sum % 1000; rest != 0; rest /= 10)
        text[n++] = (char)('0' + rest % 10);
    text[n++] = '\n';
    return n;
}

int main(void) {
    char line[4];
    int length = (int)read(0, line, sizeof line);
    int n = handle(line, length);
    return write(1, text, (unsigned)n) != n;
}
