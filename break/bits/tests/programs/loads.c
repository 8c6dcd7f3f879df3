/* Loads a library at run time and calls a function of it. */
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
    for (int round = 0; round < 3; round++) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        double (*root)(double) = library ? (double (*)(double))dlsym(library, "cbrt") : NULL;
        if (!root)
            return 1;
        printf("%.4f\n", root(round + 2.0));
        dlclose(library);
    }
    return 0;
}
