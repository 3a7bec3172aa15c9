/* A database in a folder of its own, and batches of made-up messages, for the tests of node/store/db. Message `seq` of a
 * channel is always the same, so that whoever reads it knows what it must be. */
#ifndef TF_TESTS_UNIT_DB_WORLD_H
#define TF_TESTS_UNIT_DB_WORLD_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/store/db.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define WORLD_EPOCH 0xfeedfacecafebeefu
#define WORLD_TIME 1700000000000
#define WORLD_BODY_MAX (TF_MESSAGE_MAX)

typedef struct made {
    tf_stored stored;
    uint8_t client_id[TF_CLIENT_ID_MAX];
    uint8_t *body;
} made;

static char world_dir[64];
static char world_path[128];
static char world_why[TF_WHY_MAX];
static tf_db *world_db;
static uint64_t world_lsn;
static made *world_made; /* what is in the open batch */
static size_t world_made_count;
static size_t world_made_capacity;

static inline tf_db *world_open(bool read_only)
{
    tf_db *db = NULL;
    const tf_db_config config = {.path = world_path, .read_only = read_only, .mem = tf_test_mem()};
    ck_assert_msg(tf_db_open(&db, &config, world_why) == TF_OK, "%s", world_why);
    return db;
}

static inline void world_set_up(void)
{
    (void)snprintf(world_dir, sizeof(world_dir), "/dev/shm/twofold-db-XXXXXX"); /* syncing costs nothing there */
    if (mkdtemp(world_dir) == NULL) {
        (void)snprintf(world_dir, sizeof(world_dir), "/tmp/twofold-db-XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(world_dir));
    }
    (void)snprintf(world_path, sizeof(world_path), "%s/index.db", world_dir);
    world_db = world_open(false);
    world_lsn = 0;
    world_made_capacity = 100000;
    world_made = calloc(world_made_capacity, sizeof(*world_made));
    ck_assert_ptr_nonnull(world_made);
}

static inline void world_forget_batch(void)
{
    for (size_t i = 0; i < world_made_count; i++) {
        free(world_made[i].body);
    }
    world_made_count = 0;
}

static inline int world_remove_one(const char *name, const struct stat *status, int type, struct FTW *at)
{
    (void)status, (void)type, (void)at;
    return remove(name);
}

static inline void world_tear_down(void)
{
    tf_db_free(world_db);
    world_db = NULL;
    world_forget_batch();
    free(world_made);
    ck_assert_int_eq(nftw(world_dir, world_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}

static inline void world_reopen(void)
{
    tf_db_free(world_db);
    world_db = world_open(false);
}

/* Message `seq` of a channel; 3 origins; every 5th has a meta, every 7th expires. Free m->body. */
static inline void world_make(made *m, uint64_t channel, uint64_t seq, size_t size)
{
    static const uint8_t meta[] = "meta";
    int len = snprintf((char *)m->client_id, sizeof(m->client_id), "c%llu-%llu", (unsigned long long)channel,
                       (unsigned long long)seq);
    m->body = malloc(size + 1);
    ck_assert_ptr_nonnull(m->body);
    for (size_t i = 0; i < size; i++) {
        m->body[i] = (uint8_t)(channel * 31 + seq * 7 + i);
    }
    m->stored = (tf_stored){.seq = seq,
                            .epoch = WORLD_EPOCH,
                            .timestamp_ms = WORLD_TIME + (int64_t)seq / 2,
                            .expires_ms = seq % 7 == 0 ? WORLD_TIME + 1000 : 0,
                            .instance = 100 + seq % 3,
                            .client_id = tf_slice_of(m->client_id, (size_t)len),
                            .meta = tf_slice_of(meta, seq % 5 == 0 ? 4 : 0),
                            .body = tf_slice_of(m->body, size)};
    memset(m->stored.origin.bytes, (int)(seq % 3), TF_NODE_ID_LEN);
}

static inline void world_begin(void)
{
    ck_assert_int_eq(tf_db_apply_begin(world_db), TF_OK);
}

static inline void world_apply(const tf_store_op *op)
{
    ck_assert_msg(tf_db_apply_op(world_db, ++world_lsn, op) == TF_OK, "%s", tf_db_error_text(world_db));
}

static inline void world_commit(void)
{
    ck_assert_msg(tf_db_apply_commit(world_db) == TF_OK, "%s", tf_db_error_text(world_db));
    world_forget_batch();
}

static inline void world_do(const tf_store_op *op)
{
    world_begin();
    world_apply(op);
    world_commit();
}

static inline void world_create(uint64_t channel)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "channel/%llu", (unsigned long long)channel);
    world_do(&(tf_store_op){
        .kind = TF_STORE_CREATE, .channel = channel, .name = tf_slice_str(name), .epoch = WORLD_EPOCH + channel});
}

/* Into the open batch. */
static inline void world_append(uint64_t channel, uint64_t first, uint64_t count, size_t size)
{
    for (uint64_t seq = first; seq < first + count; seq++) {
        ck_assert_uint_lt(world_made_count, world_made_capacity);
        made *m = &world_made[world_made_count++];
        world_make(m, channel, seq, size);
        world_apply(&(tf_store_op){.kind = TF_STORE_APPEND, .channel = channel, .message = m->stored});
    }
}

/* A batch of its own. */
static inline void world_store(uint64_t channel, uint64_t first, uint64_t count, size_t size)
{
    world_begin();
    world_append(channel, first, count, size);
    world_commit();
}

static inline bool world_is_same(const tf_stored *a, const tf_stored *b)
{
    return a->seq == b->seq && a->epoch == b->epoch && a->timestamp_ms == b->timestamp_ms &&
           a->expires_ms == b->expires_ms && tf_node_id_eq(&a->origin, &b->origin) && a->instance == b->instance &&
           tf_slice_eq(a->client_id, b->client_id) && tf_slice_eq(a->meta, b->meta) && tf_slice_eq(a->body, b->body);
}

/* Reads first to last by blocks; each message must be what was made. */
static inline void world_expect(tf_db *db, uint64_t channel, uint64_t first, uint64_t last, size_t size)
{
    tf_db_block *block = NULL;
    tf_db_gap gap;
    for (uint64_t seq = first; seq <= last; seq++) {
        tf_stored got;
        if (block == NULL || !tf_db_block_message(block, seq, &got)) {
            tf_db_block_free(block);
            block = NULL;
            ck_assert_msg(tf_db_load(db, channel, seq, &block, &gap) == TF_OK, "seq %llu: %s", (unsigned long long)seq,
                          tf_db_error_text(db));
            ck_assert(tf_db_block_message(block, seq, &got));
        }
        made m;
        world_make(&m, channel, seq, size);
        ck_assert(world_is_same(&got, &m.stored));
        free(m.body);
    }
    tf_db_block_free(block);
}

/* The key of message `seq`. */
static inline tf_err world_find(tf_db *db, uint64_t channel, uint64_t seq, tf_store_key *out)
{
    made m;
    world_make(&m, channel, seq, 0);
    tf_err err = tf_db_find_key(db, channel, &m.stored.origin, m.stored.client_id, out);
    free(m.body);
    return err;
}

static inline void world_expect_keys(tf_db *db, uint64_t channel, uint64_t first, uint64_t last, size_t size)
{
    for (uint64_t seq = first; seq <= last; seq++) {
        made m;
        tf_store_key key;
        world_make(&m, channel, seq, size);
        ck_assert_msg(world_find(db, channel, seq, &key) == TF_OK, "key %llu", (unsigned long long)seq);
        ck_assert(key.seq == seq && key.epoch == m.stored.epoch && key.timestamp_ms == m.stored.timestamp_ms &&
                  key.digest == tf_store_digest(m.stored.body));
        free(m.body);
    }
}

static inline tf_store_channel world_channel(tf_db *db, uint64_t number)
{
    tf_store_channel c;
    uint64_t position = number - 1;
    ck_assert_int_eq(tf_db_channel_next(db, &position, &c), TF_OK);
    ck_assert_uint_eq(c.number, number);
    return c;
}

#endif
