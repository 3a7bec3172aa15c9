/* A spool on a disk that can fail, and messages that are known by their number: for the tests of node/spool. */
#ifndef TF_TESTS_UNIT_SPOOL_WORLD_H
#define TF_TESTS_UNIT_SPOOL_WORLD_H

#include <stdio.h>

#include "node/spool.h"
#include "tests/support/check_main.h"
#include "tests/support/lossy_files.h"
#include "tests/support/support.h"

#define MESSAGES 4096u
#define NOW_MS 1700000000000

typedef struct world {
    tf_lossy_files *lossy;
    tf_spool *spool;
    char why[TF_WHY_MAX];
    uint64_t bytes_max;
    const char *channel;
    uint8_t relay;
    const tf_mem *mem;
} world;

static inline void world_begin(world *w)
{
    *w = (world){.lossy = tf_lossy_files_new(UINT64_MAX), .channel = "room", .relay = 2, .mem = tf_test_mem()};
}

static inline tf_err world_open(world *w)
{
    tf_spool_config config = {.files = tf_lossy_files_get(w->lossy),
                              .mem = w->mem,
                              .rand = tf_test_rand(3),
                              .bytes_max = w->bytes_max,
                              .owner = {.channel = tf_slice_str(w->channel)}};
    memset(config.owner.identity.bytes, 1, TF_NODE_ID_LEN);
    memset(config.owner.relay.bytes, w->relay, TF_NODE_ID_LEN);
    w->why[0] = '\0';
    w->spool = NULL;
    return tf_spool_open(&w->spool, &config, w->why);
}

static inline void world_close(world *w)
{
    tf_spool_close(w->spool);
    w->spool = NULL;
}

static inline void world_end(world *w)
{
    world_close(w);
    tf_lossy_files_free(w->lossy);
}

/* The message with that number, of some size. */
static inline tf_spool_message message_of(unsigned number, size_t size)
{
    static char id[32];
    static uint8_t body[TF_BODY_MAX];
    (void)snprintf(id, sizeof(id), "c-%u", number);
    memset(body, (int)(number % 251), size);
    return (tf_spool_message){.client_id = tf_slice_str(id),
                              .meta = tf_slice_of(body, number % 3),
                              .body = tf_slice_of(body, size),
                              .expires_ms = (int64_t)number};
}

static inline tf_err put(world *w, unsigned number, size_t size, bool at_once)
{
    tf_spool_message message = message_of(number, size);
    return tf_spool_put(w->spool, &message, NOW_MS + (int64_t)number, at_once);
}

static inline void put_range(world *w, unsigned from, unsigned to, bool at_once)
{
    for (unsigned i = from; i <= to; i++) {
        ck_assert_int_eq(put(w, i, 10 + i % 50, at_once), TF_OK);
    }
}

/* The number in the client id, all else being right. */
static inline unsigned check_message(const tf_spool_message *message)
{
    unsigned number = 0;
    for (size_t i = 2; i < message->client_id.len; i++) {
        number = number * 10 + (unsigned)(message->client_id.data[i] - '0');
    }
    tf_spool_message expected = message_of(number, message->body.len);
    ck_assert(tf_slice_eq(message->client_id, expected.client_id) && tf_slice_eq(message->meta, expected.meta) &&
              tf_slice_eq(message->body, expected.body));
    ck_assert_int_eq(message->expires_ms, expected.expires_ms);
    return number;
}

/* Takes what there is; the numbers in the client ids, and those that done wants. */
static inline size_t take_all(world *w, unsigned numbers[MESSAGES], uint64_t handles[MESSAGES])
{
    tf_spool_message message;
    size_t count = 0;
    while (tf_spool_next(w->spool, NOW_MS, &message) == TF_OK) {
        ck_assert_uint_lt(count, MESSAGES);
        numbers[count] = check_message(&message);
        handles[count++] = message.number;
        tf_spool_take(w->spool);
    }
    return count;
}

static inline void check_holds(world *w, unsigned from, unsigned to)
{
    static unsigned numbers[MESSAGES];
    static uint64_t handles[MESSAGES];
    size_t count = take_all(w, numbers, handles);
    ck_assert_uint_eq(count, to + 1 - from);
    for (size_t i = 0; i < count; i++) {
        ck_assert_uint_eq(numbers[i], from + i);
    }
}

static inline tf_spool_stats stats_of(const world *w)
{
    tf_spool_stats stats;
    tf_spool_get_stats(w->spool, &stats);
    return stats;
}

static inline void reopen(world *w)
{
    world_close(w);
    ck_assert_int_eq(world_open(w), TF_OK);
}

#endif
