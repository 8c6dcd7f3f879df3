/* Leaves the directory it was started in and goes on by relative paths, as servers do: a directory of its own, then the host's. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void look(const char *path)
{
    struct stat about;
    for (int i = 0; i < 20; i++)
        printf("%s %s\n", path, stat(path, &about) ? "is not here" : "is here");
    fflush(stdout);
}

int main(void)
{
    mkdir("own", 0700);
    if (chdir("own"))
        return 1;
    FILE *file = fopen("made", "w");
    if (!file)
        return 2;
    fclose(file);
    look("made");
    if (chdir("/usr"))
        return 3;
    look("bin");
    return 0;
}
