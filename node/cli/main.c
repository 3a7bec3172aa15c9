/* The program twofold: what its first argument names. */
#include <stdio.h>
#include <string.h>

#include "proto/version.h"

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "version") == 0) {
        return printf("twofold %s\n", TF_VERSION) < 0 ? 70 : 0;
    }
    (void)fprintf(stderr, "usage: twofold version\n");
    return 2;
}
