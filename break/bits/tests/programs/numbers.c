/* Floating point, vectors, sorting through function pointers, long jumps, and a signal that it sends to itself. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jmp_buf back;
static volatile int caught;

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void deep(int n) {
    if (n == 0)
        longjmp(back, 7);
    deep(n - 1);
}

int main(void) {
    double values[64];
    float sums[16] = {0};
    for (int i = 0; i < 64; i++)
        values[i] = sin(i * 1.7) * sqrt(i + 1);
    qsort(values, 64, sizeof *values, ascending);
    for (int i = 0; i < 64; i++)
        sums[i % 16] += (float)values[i] * 3;
    for (int i = 0; i < 16; i++)
        printf("%.6f ", sums[i]);
    int jumped = setjmp(back);
    if (jumped == 0)
        deep(9);
    char text[200];
    memset(text, 'x', sizeof text);
    text[150] = 0;
    printf("\n%d %zu %.3f\n", jumped, strlen(text), values[40]);
    return caught;
}
