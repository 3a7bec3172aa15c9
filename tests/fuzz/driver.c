/* The main function of a fuzz target where libFuzzer is not linked: runs every input of a corpus, and reproducible
 * variations of it.
 *
 *     fuzz_<name> [--variations N] [--seed N] FILE|FOLDER...
 *
 * Prints the seed and the number of inputs; a fault ends it, after the name of the input.
 *
 * Compiled with afl-clang-fast it is AFL++'s loop instead: the inputs come through shared memory, many to a process.
 * With a file or folder it still runs that (what afl-fuzz found, without afl-fuzz). */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"
#include "tests/support/support.h"

#define INPUT_MAX (1024u * 1024u)
#ifdef __AFL_COMPILER
#include <unistd.h> /* which the macros below use */
#define AFL_RUNS 10000u /* inputs that one process takes */
#pragma clang diagnostic ignored "-Wgnu-statement-expression" /* in the macros */
#pragma clang diagnostic ignored "-Wshorten-64-to-32"
__AFL_FUZZ_INIT()
#endif

typedef struct run {
    tf_test_random random;
    unsigned long variations; /* of each input */
    size_t inputs;
} run;

_Noreturn static void fail(const char *path, const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", path, what);
    exit(EXIT_FAILURE);
}

/* One input in a block of its own, of exactly its size. */
static void run_bytes(tf_slice bytes)
{
    uint8_t *exact = tf_test_exact(bytes);
    (void)LLVMFuzzerTestOneInput(exact, bytes.len);
    free(exact);
}

/* Changes, repeats, cuts or inserts something. Returns the new length. */
static size_t vary(run *r, uint8_t *bytes, size_t len, size_t cap)
{
    static const uint8_t edges[] = {0x00, 0x01, 0x7f, 0x80, 0xbf, 0xc0, 0xdd, 0xff};
    size_t at = tf_test_random_below(&r->random, len + 1);
    uint64_t value = tf_test_random_u64(&r->random);
    switch (tf_test_random_below(&r->random, 5)) {
    case 0:
        if (at < len) {
            bytes[at] ^= (uint8_t)(1u << (value & 7));
        }
        return len;
    case 1:
        if (at < len) {
            bytes[at] = edges[value & 7];
        }
        return len;
    case 2:
        return at;
    case 3:
        if (at < len) {
            memmove(bytes + at, bytes + at + 1, len - at - 1);
            return len - 1;
        }
        return len;
    default:
        if (len < cap) {
            memmove(bytes + at + 1, bytes + at, len - at);
            bytes[at] = (uint8_t)value;
            return len + 1;
        }
        return len;
    }
}

static void run_variations(run *r, tf_slice original)
{
    size_t cap = original.len + 8;
    uint8_t *bytes = malloc(cap);
    if (bytes == NULL) {
        fail("driver", "out of memory");
    }
    for (unsigned long i = 0; i < r->variations; i++) {
        size_t len = original.len;
        memcpy(bytes, original.data, len);
        for (uint64_t changes = 1 + tf_test_random_below(&r->random, 6); changes > 0; changes--) {
            len = vary(r, bytes, len, cap);
        }
        run_bytes(tf_slice_of(bytes, len));
    }
    free(bytes);
}

static void run_file(run *r, const char *path)
{
    static uint8_t buffer[INPUT_MAX];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail(path, strerror(errno));
    }
    size_t len = fread(buffer, 1, sizeof(buffer), file);
    if (ferror(file) != 0 || fgetc(file) != EOF) {
        fail(path, "cannot be read, or is too long");
    }
    (void)fclose(file);
    (void)printf("%s\n", path);
    (void)fflush(stdout); /* the last name is the input that a fault is in */
    run_bytes(tf_slice_of(buffer, len));
    run_variations(r, tf_slice_of(buffer, len));
    r->inputs++;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* The files of a folder in the order of their names, so that the seed decides everything. */
static void run_folder(run *r, const char *path)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_visible, by_name);
    if (count < 0) {
        fail(path, strerror(errno));
    }
    for (int i = 0; i < count; i++) {
        char file[4096];
        int len = snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
        if (len < 0 || (size_t)len >= sizeof(file)) {
            fail(path, "a path is too long");
        }
        run_file(r, file);
        free(entries[i]);
    }
    free(entries);
}

static unsigned long number_of(const char *option, const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long value = text == NULL ? 0 : strtoul(text, &end, 10);
    if (end == NULL || end == text || *end != '\0' || errno != 0) {
        fail(option, "needs a number");
    }
    return value;
}

#ifdef __AFL_COMPILER
static void run_afl(void)
{
    __AFL_INIT();
    const unsigned char *input = __AFL_FUZZ_TESTCASE_BUF; /* after __AFL_INIT and before the loop, as AFL++ wants it */
    while (__AFL_LOOP(AFL_RUNS)) {
        run_bytes(tf_slice_of(input, (size_t)__AFL_FUZZ_TESTCASE_LEN));
    }
}
#endif

int main(int argc, char **argv)
{
#ifdef __AFL_COMPILER
    if (argc == 1) {
        run_afl();
        return EXIT_SUCCESS;
    }
#endif
    run r = {.variations = 0};
    unsigned long seed = 1;
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        if (strcmp(argv[i], "--variations") == 0) {
            r.variations = number_of(argv[i], argv[i + 1]);
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = number_of(argv[i], argv[i + 1]);
        } else {
            fail(argv[i], "unknown option");
        }
    }
    tf_test_random_init(&r.random, seed);
    for (; i < argc; i++) {
        struct stat status;
        if (stat(argv[i], &status) != 0) {
            fail(argv[i], strerror(errno));
        }
        (S_ISDIR(status.st_mode) ? run_folder : run_file)(&r, argv[i]);
    }
    if (r.inputs == 0) {
        fail("driver", "no inputs");
    }
    (void)printf("%zu inputs, %lu variations of each, seed %lu\n", r.inputs, r.variations, seed);
    return EXIT_SUCCESS;
}
