/* Reads its input byte by byte without a buffer, and writes a journal and a copy of it to files. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    int journal = open("journal", O_RDWR | O_CREAT, 0600);
    FILE *copy = fopen("copy", "w");
    char byte, text[32];
    int n = 0;
    while (read(0, &byte, 1) == 1) {
        int length = snprintf(text, sizeof text, "%d:%d\n", n++, byte);
        if (write(journal, text, length) != length)
            return 1;
        fputc(byte ^ 1, copy);
        if (n % 16 == 0)
            printf("%d bytes\n", n);
    }
    lseek(journal, 0, SEEK_SET);
    int sum = 0;
    while (read(journal, &byte, 1) == 1)
        sum = sum * 31 + byte;
    printf("sum %d\n", sum);
    fclose(copy);
    return 0;
}
