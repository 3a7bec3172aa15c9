#include "tests/support/support.h"

#include <dirent.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>

/* In front of each block: what it was asked for, and a mark that tells a foreign or an already freed block. */
typedef struct block_head {
    alignas(max_align_t) size_t size;
    uint64_t mark;
} block_head;

#define MARK_LIVE UINT64_C(0x7466206c69766521)
#define MARK_DEAD UINT64_C(0x7466206465616421)

static void fail(const char *what)
{
    (void)fprintf(stderr, "tests/support: %s\n", what);
    abort();
}

static void *heap_alloc(void *ctx, size_t size)
{
    tf_test_heap *heap = ctx;
    uint64_t call = heap->calls++;
    bool refused = heap->fail_for_ever ? call >= heap->fail_at : call == heap->fail_at;
    if (refused || size > heap->limit_bytes - heap->live_bytes) {
        heap->failures++;
        return NULL;
    }
    if (size > SIZE_MAX - sizeof(block_head)) {
        return NULL;
    }
    block_head *head = calloc(1, sizeof(block_head) + size);
    if (head == NULL) {
        return NULL;
    }
    head->size = size;
    head->mark = MARK_LIVE;
    heap->live_blocks++;
    heap->live_bytes += size;
    if (heap->live_bytes > heap->peak_bytes) {
        heap->peak_bytes = heap->live_bytes;
    }
    return head + 1;
}

static void heap_free(void *ctx, void *memory, size_t size)
{
    tf_test_heap *heap = ctx;
    if (memory == NULL) {
        return;
    }
    block_head *head = (block_head *)memory - 1;
    if (head->mark != MARK_LIVE) {
        fail("a block is freed that is not allocated");
    }
    if (head->size != size) {
        fail("a block is freed with another size than it was allocated with");
    }
    head->mark = MARK_DEAD;
    heap->live_blocks--;
    heap->live_bytes -= size;
    free(head);
}

void tf_test_heap_init(tf_test_heap *heap)
{
    *heap = (tf_test_heap){
        .mem = {.alloc = heap_alloc, .free = heap_free, .ctx = heap},
        .limit_bytes = SIZE_MAX,
        .fail_at = UINT64_MAX,
    };
}

void tf_test_heap_fail_at(tf_test_heap *heap, uint64_t k, bool for_ever)
{
    heap->fail_at = heap->calls + k;
    heap->fail_for_ever = for_ever;
}

void tf_test_heap_fail_never(tf_test_heap *heap)
{
    heap->fail_at = UINT64_MAX;
    heap->fail_for_ever = false;
}

tf_test_heap *tf_test_heap_shared(void)
{
    static tf_test_heap heap;
    if (heap.mem.alloc == NULL) {
        tf_test_heap_init(&heap);
    }
    return &heap;
}

const tf_mem *tf_test_mem(void)
{
    return &tf_test_heap_shared()->mem;
}

uint64_t tf_test_random_u64(tf_test_random *random)
{
    random->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = random->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void random_fill(void *ctx, void *out, size_t len)
{
    uint8_t *bytes = out;
    for (size_t i = 0; i < len;) {
        uint64_t value = tf_test_random_u64(ctx);
        for (size_t k = 0; k < sizeof(value) && i < len; k++, i++) {
            bytes[i] = (uint8_t)(value >> (8 * k));
        }
    }
}

void tf_test_random_init(tf_test_random *random, uint64_t seed)
{
    *random = (tf_test_random){.rand = {.fill = random_fill, .ctx = random}, .state = seed};
}

uint64_t tf_test_random_below(tf_test_random *random, uint64_t bound)
{
    if (bound == 0) {
        fail("tf_test_random_below: bound is 0");
    }
    return tf_test_random_u64(random) % bound;
}

bool tf_test_random_chance(tf_test_random *random, uint64_t numerator, uint64_t denominator)
{
    return tf_test_random_below(random, denominator) < numerator;
}

const tf_rand *tf_test_rand(uint64_t seed)
{
    static tf_test_random random;
    tf_test_random_init(&random, seed);
    return &random.rand;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

size_t tf_test_unhex(const char *text, uint8_t *out, size_t cap)
{
    size_t len = 0;
    while (*text != '\0') {
        if (*text == ' ' || *text == '\n' || *text == '\t' || *text == '|') {
            text++;
            continue;
        }
        int high = hex_digit(text[0]);
        int low = high < 0 ? -1 : hex_digit(text[1]);
        if (low < 0) {
            fail("tf_test_unhex: not pairs of hex digits");
        }
        if (len == cap) {
            fail("tf_test_unhex: too many bytes");
        }
        out[len++] = (uint8_t)(high * 16 + low);
        text += 2;
    }
    return len;
}

char *tf_test_hex(tf_slice bytes, char *out, size_t cap)
{
    static const char digits[] = "0123456789abcdef";
    if (cap < 4) {
        fail("tf_test_hex: no room");
    }
    bool fits = bytes.len <= (cap - 1) / 2;
    size_t count = fits ? bytes.len : (cap - 4) / 2;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        out[at++] = digits[bytes.data[i] >> 4];
        out[at++] = digits[bytes.data[i] & 15];
    }
    for (int i = 0; !fits && i < 3; i++) {
        out[at++] = '.';
    }
    out[at] = '\0';
    return out;
}

uint8_t *tf_test_exact(tf_slice bytes)
{
    uint8_t *copy = malloc(bytes.len == 0 ? 1 : bytes.len);
    if (copy == NULL) {
        fail("out of memory");
    } else if (bytes.len > 0) {
        memcpy(copy, bytes.data, bytes.len);
    }
    return copy;
}

unsigned tf_test_open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;
    if (folder == NULL) {
        fail("the descriptors of this process cannot be listed");
        return 0;
    }
    while (readdir(folder) != NULL) {
        count++;
    }
    (void)closedir(folder);
    return count;
}
