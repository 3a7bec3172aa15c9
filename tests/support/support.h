/* What all tests share: an allocator that counts and fails on demand, reproducible randomness, bytes as hex text.
 *
 * No Check in here, so that the simulator, fuzz targets and benchmarks can link it (check_main.h is for unit tests).
 * Faults in the use of these helpers, and blocks freed with another size than they were allocated with, abort.
 * Not thread-safe. */
#ifndef TF_TESTS_SUPPORT_SUPPORT_H
#define TF_TESTS_SUPPORT_SUPPORT_H

#include "proto/types.h"

/* A malloc-backed allocator. Embed it; hand &heap->mem to what is tested. Free it by freeing all that it gave. */
typedef struct tf_test_heap {
    tf_mem mem;
    uint64_t calls;    /* allocations asked for, failed ones included */
    uint64_t failures; /* allocations refused on purpose */
    size_t live_blocks;
    size_t live_bytes;
    size_t peak_bytes;
    size_t limit_bytes; /* an allocation beyond it fails; SIZE_MAX: none */
    uint64_t fail_at;   /* the number of the call that fails, from 0; UINT64_MAX: none */
    bool fail_for_ever; /* every later call fails, too */
} tf_test_heap;

void tf_test_heap_init(tf_test_heap *heap);

/* The next k allocations from now succeed, the one after them fails: once, or it and all later ones. */
void tf_test_heap_fail_at(tf_test_heap *heap, uint64_t k, bool for_ever);
void tf_test_heap_fail_never(tf_test_heap *heap);

/* One heap for the whole test program, for tests that need no more. Check forks a process for each test (or, with
 * CK_FORK=no, shares it: then compare with what was live before).
 *
 *     for (uint64_t k = 0;; k++) {                          -- a fault loop
 *         tf_test_heap_fail_at(tf_test_heap_shared(), k, for_ever);
 *         uint64_t before = tf_test_heap_shared()->failures;
 *         ... use tf_test_mem() and free everything ...
 *         if (tf_test_heap_shared()->failures == before) break;
 *     }
 *     tf_test_heap_fail_never(tf_test_heap_shared());  */
tf_test_heap *tf_test_heap_shared(void);
const tf_mem *tf_test_mem(void);

/* Reproducible randomness (splitmix64): the same seed gives the same bytes on every machine. */
typedef struct tf_test_random {
    tf_rand rand; /* hand &random->rand to what is tested */
    uint64_t state;
} tf_test_random;

void tf_test_random_init(tf_test_random *random, uint64_t seed);
uint64_t tf_test_random_u64(tf_test_random *random);
/* 0 <= result < bound; bound > 0. The bias is below 2^-32 for any bound below 2^32. */
uint64_t tf_test_random_below(tf_test_random *random, uint64_t bound);
/* True in `numerator` of `denominator` cases. */
bool tf_test_random_chance(tf_test_random *random, uint64_t numerator, uint64_t denominator);

/* Seeds the program's own tf_test_random and gives it. */
const tf_rand *tf_test_rand(uint64_t seed);

/* Reads hex digits in pairs; blanks, newlines and "|" may stand between pairs. Returns the number of bytes; aborts with
 * a message on anything else and when they do not fit. */
size_t tf_test_unhex(const char *text, uint8_t *out, size_t cap);

/* Lower-case hex of the bytes in out, always terminated; ends in "..." if it does not fit. Returns out. cap >= 4. */
char *tf_test_hex(tf_slice bytes, char *out, size_t cap);

/* A copy of the bytes in a malloc block of exactly that size, so that AddressSanitizer sees a read past the end.
 * The caller frees it. Not NULL, even for no bytes. */
uint8_t *tf_test_exact(tf_slice bytes);

/* How many descriptors this process has open, and one more for looking: to be compared with itself. */
unsigned tf_test_open_files(void);

#endif
