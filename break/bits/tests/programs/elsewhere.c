/* Changes its working directory and uses relative paths, as servers do: first its own directory, then one of the host.
 * */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void print_directory(const char *path)
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
    print_directory("made");
    if (chdir("/usr"))
        return 3;
    print_directory("bin");
    return 0;
}
