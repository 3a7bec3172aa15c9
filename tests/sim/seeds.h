/* The options that the programs with random worlds share: --seeds A..B (or one seed), --verbose. */
#ifndef TF_TESTS_SIM_SEEDS_H
#define TF_TESTS_SIM_SEEDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct seeds {
    uint64_t first;
    uint64_t last;
    bool verbose;
} seeds;

/* *out holds the defaults. False: something else was asked for, and the usage was printed. */
static inline bool seeds_parse(seeds *out, const char *program, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *end = NULL;
        if (strcmp(argv[i], "--verbose") == 0) {
            out->verbose = true;
        } else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc) {
            i++;
            out->first = strtoull(argv[i], &end, 10);
            out->last = strncmp(end, "..", 2) == 0 ? strtoull(end + 2, &end, 10) : out->first;
        } else {
            (void)fprintf(stderr, "usage: %s [--seeds A..B] [--verbose]\n", program);
            return false;
        }
    }
    return true;
}

#endif
