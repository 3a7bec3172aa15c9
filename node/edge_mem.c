#include "node/edge_mem.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#ifdef __GLIBC__ /* known since the headers above */
#include <malloc.h>
#endif

static void *edge_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return calloc(1, size);
}

static void edge_free(void *ctx, void *memory, size_t size)
{
    (void)ctx, (void)size;
    free(memory);
}

const tf_mem *tf_edge_mem(void)
{
    static const tf_mem mem = {edge_alloc, edge_free, NULL};
    return &mem;
}

void tf_edge_mem_trim(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

static void edge_fill(void *ctx, void *out, size_t len)
{
    (void)ctx;
    uint8_t *at = out;
    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);
        if (got < 0) {
            TF_ASSERT(errno == EINTR); /* without randomness there are no keys: better no process */
            continue;
        }
        at += got;
        len -= (size_t)got;
    }
}

const tf_rand *tf_edge_rand(void)
{
    static const tf_rand rand = {edge_fill, NULL};
    return &rand;
}

tf_time tf_edge_now(void)
{
    struct timespec at;
    TF_ASSERT(clock_gettime(CLOCK_BOOTTIME, &at) == 0);
    return (tf_time)at.tv_sec * TF_SECOND + (tf_time)at.tv_nsec / 1000u;
}

int64_t tf_edge_wall_ms(void)
{
    struct timespec at;
    TF_ASSERT(clock_gettime(CLOCK_REALTIME, &at) == 0);
    return (int64_t)at.tv_sec * 1000 + (int64_t)at.tv_nsec / 1000000;
}
