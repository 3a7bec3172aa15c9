/* The types that every layer speaks: slices, time, memory and randomness as they are handed to pure cores.
 *
 * A pure core owns no clock, allocator or random source: it is given `now`, a tf_mem and a tf_rand. */
#ifndef TF_PROTO_TYPES_H
#define TF_PROTO_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/err.h"

/* Borrowed bytes, dead when the call that took or gave them returns (unless its doc says otherwise). */
typedef struct tf_slice {
    const uint8_t *data;
    size_t len;
} tf_slice;

static inline tf_slice tf_slice_of(const void *data, size_t len)
{
    return (tf_slice){(const uint8_t *)data, len};
}

static inline tf_slice tf_slice_str(const char *text)
{
    return (tf_slice){(const uint8_t *)text, text == NULL ? 0 : __builtin_strlen(text)};
}

static inline bool tf_slice_eq(tf_slice a, tf_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Monotonic time in microseconds. It never goes back. Wall-clock times are int64_t milliseconds since 1970 UTC and are
 * named ..._ms. */
typedef uint64_t tf_time;

#define TF_NEVER UINT64_MAX
#define TF_MS ((tf_time)1000)
#define TF_SECOND ((tf_time)1000000)

static inline tf_time tf_time_min(tf_time a, tf_time b)
{
    return a < b ? a : b;
}

static inline tf_time tf_time_max(tf_time a, tf_time b)
{
    return a > b ? a : b;
}

/* now + delay, TF_NEVER where that would overflow. */
static inline tf_time tf_time_add(tf_time now, tf_time delay)
{
    return now > TF_NEVER - delay ? TF_NEVER : now + delay;
}

/* The caller's allocator. alloc returns zeroed memory or NULL; free takes what alloc gave (NULL is fine) with the size
 * asked for, so that the owner can account for it. */
typedef struct tf_mem {
    void *(*alloc)(void *ctx, size_t size);
    void (*free)(void *ctx, void *memory, size_t size);
    void *ctx;
} tf_mem;

static inline void *tf_alloc(const tf_mem *mem, size_t size)
{
    return mem->alloc(mem->ctx, size);
}

static inline void tf_free(const tf_mem *mem, void *memory, size_t size)
{
    if (memory != NULL) {
        mem->free(mem->ctx, memory, size);
    }
}

/* The caller's source of randomness. Fills len bytes; cannot fail (the edge ends the process if the system's does). */
typedef struct tf_rand {
    void (*fill)(void *ctx, void *out, size_t len);
    void *ctx;
} tf_rand;

static inline uint64_t tf_rand_u64(const tf_rand *rand)
{
    uint64_t value = 0;
    rand->fill(rand->ctx, &value, sizeof(value));
    return value;
}

/* A node's identity: its Ed25519 public key (RFC 8032). Text form: handshake/identity.h. */
#define TF_NODE_ID_LEN 32
typedef struct tf_node_id {
    uint8_t bytes[TF_NODE_ID_LEN];
} tf_node_id;

static inline bool tf_node_id_eq(const tf_node_id *a, const tf_node_id *b)
{
    return memcmp(a->bytes, b->bytes, TF_NODE_ID_LEN) == 0;
}

/* The transports of a connection. A slot is the writer end of one; slots are arrays indexed by this, so a third
 * transport is a new line here. The numbers are on the wire (PROTOCOL.md W5). */
typedef enum tf_route {
    TF_ROUTE_STREAM = 0,
    TF_ROUTE_DATAGRAM = 1,
    TF_ROUTE_COUNT = 2
} tf_route;

/* A set of routes: bit 1 << route. */
typedef uint8_t tf_routes;
#define TF_ROUTES_STREAM ((tf_routes)(1u << TF_ROUTE_STREAM))
#define TF_ROUTES_DATAGRAM ((tf_routes)(1u << TF_ROUTE_DATAGRAM))
#define TF_ROUTES_BOTH ((tf_routes)(TF_ROUTES_STREAM | TF_ROUTES_DATAGRAM))

/* "stream" or "datagram". */
static inline const char *tf_route_name(tf_route route)
{
    return route == TF_ROUTE_STREAM ? "stream" : "datagram";
}

#endif
