/* node/channel, node/store/catalog and node/store/memory where names and keys share their hashes (poor_hash.c): each is
 * told from the others, and its end takes none of them along. */
#include <stdlib.h>

#include "node/channel.h"
#include "node/store/catalog.h"
#include "node/store/memory.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

static const char *const same[] = {"a", "c", "e", "g"}; /* one hash; "b" has the other */

static const tf_node_id origin = {{1}};

/* -- node/channel -------------------------------------------------------------------------------------------------- */

START_TEST(channels_of_one_hash_are_told_apart_whatever_ends_first)
{
    static const size_t orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}};
    for (size_t i = 0; i < 3; i++) {
        tf_test_heap heap;
        tf_channels channels;
        tf_channel *made[4];
        tf_channel *more = NULL;
        tf_test_heap_init(&heap);
        tf_channels_init(&channels, &heap.mem, 0, 4);
        for (size_t k = 0; k < 4; k++) {
            ck_assert_int_eq(tf_channels_add(&channels, tf_slice_str(same[k]), 10 + k, &made[k]), TF_OK);
        }
        ck_assert_int_eq(tf_channels_add(&channels, tf_slice_str("b"), 9, &more), TF_ERR_LIMIT_ITEMS);
        for (size_t k = 0; k < 4; k++) {
            ck_assert_ptr_eq(tf_channels_find(&channels, tf_slice_str(same[orders[i][k]])), made[orders[i][k]]);
            tf_channels_remove(&channels, made[orders[i][k]]);
            for (size_t left = k + 1; left < 4; left++) {
                ck_assert_ptr_eq(tf_channels_find(&channels, tf_slice_str(same[orders[i][left]])), made[orders[i][left]]);
            }
            ck_assert_ptr_null(tf_channels_find(&channels, tf_slice_str(same[orders[i][k]])));
        }
        tf_channels_clear(&channels);
        ck_assert_uint_eq(heap.live_blocks, 0);
    }
}
END_TEST

/* -- node/store/catalog -------------------------------------------------------------------------------------------- */

static void apply(tf_catalog *catalog, const tf_store_op *op)
{
    static uint64_t lsn = 1;
    size_t bytes = tf_record_bound(op);
    tf_tail_block *block = calloc(1, sizeof(*block) + sizeof(block->entries[0]) + bytes);
    if (block == NULL) {
        abort();
    }
    block->size = sizeof(*block) + sizeof(block->entries[0]) + bytes;
    block->bytes = (uint8_t *)&block->entries[1];
    block->count = 1;
    block->len = tf_record_write(block->bytes, bytes, 0, lsn++, op);
    block->entries[0] = (tf_tail_entry){.record = block->bytes, .size = (uint32_t)block->len};
    ck_assert_int_eq(tf_catalog_apply(catalog, block), TF_OK);
}

static tf_store_op append_op(uint64_t channel, uint64_t seq, const char *client_id)
{
    return (tf_store_op){.kind = TF_STORE_APPEND,
                         .channel = channel,
                         .message = {.seq = seq,
                                     .epoch = 5,
                                     .timestamp_ms = (int64_t)seq,
                                     .origin = origin,
                                     .client_id = tf_slice_str(client_id),
                                     .body = tf_slice_str("body")}};
}

static uint64_t found_in_catalog(const tf_catalog *catalog, uint64_t number, const tf_node_id *from, const char *client_id)
{
    tf_store_key key;
    tf_slice id = tf_slice_str(client_id);
    uint64_t hash = tf_catalog_key_hash(catalog, number, from, id);
    tf_err err = tf_catalog_find(catalog, tf_catalog_by_number(catalog, number), from, id, hash, &key);
    return err == TF_OK ? key.seq : 0;
}

START_TEST(catalog_names_and_keys_of_one_hash_are_told_apart)
{
    static const tf_node_id other = {{2}};
    tf_test_heap heap;
    tf_catalog catalog;
    tf_test_heap_init(&heap);
    tf_catalog_init(&catalog, &heap.mem, 0, 8);
    for (uint64_t number = 1; number <= 3; number++) {
        apply(&catalog, &(tf_store_op){
                            .kind = TF_STORE_CREATE, .channel = number, .name = tf_slice_str(same[number - 1]), .epoch = 5});
    }
    for (uint64_t seq = 1; seq <= 3; seq++) {
        for (uint64_t number = 1; number <= 2; number++) {
            tf_store_op op = append_op(number, seq, same[seq - 1]);
            apply(&catalog, &op);
        }
    }
    for (uint64_t number = 1; number <= 3; number++) {
        ck_assert_uint_eq(tf_catalog_by_name(&catalog, tf_slice_str(same[number - 1]))->state.number, number);
    }
    ck_assert_ptr_null(tf_catalog_by_name(&catalog, tf_slice_str("g")));
    ck_assert_uint_eq(found_in_catalog(&catalog, 2, &other, "c"), 0);
    ck_assert_uint_eq(found_in_catalog(&catalog, 3, &origin, "c"), 0);
    ck_assert_uint_eq(found_in_catalog(&catalog, 1, &origin, "g"), 0);
    for (size_t evicted = 0; evicted < 9; evicted++) { /* 3 channels, 6 messages */
        for (uint64_t seq = 1; seq <= 3; seq++) {
            ck_assert_uint_eq(found_in_catalog(&catalog, 1, &origin, same[seq - 1]), evicted < 2 + seq * 2 ? seq : 0);
            ck_assert_uint_eq(found_in_catalog(&catalog, 2, &origin, same[seq - 1]), evicted < 3 + seq * 2 ? seq : 0);
        }
        free(tf_catalog_evict(&catalog));
    }
    tf_catalog_clear(&catalog);
    ck_assert_uint_eq(heap.live_blocks, 0);
}
END_TEST

/* -- node/store/memory --------------------------------------------------------------------------------------------- */

static void submit(const tf_store *store, tf_store_op op)
{
    tf_store_group group = {&op, 1};
    tf_store_event_type type;
    store->table->submit(store->ctx, &group);
    ck_assert(store->table->poll(store->ctx, &type));
    ck_assert_int_eq(op.outcome, TF_REFUSAL_NONE);
}

static uint64_t found_in_memory(const tf_store *store, uint64_t channel, const tf_node_id *from, const char *client_id)
{
    tf_store_key key;
    return store->table->find(store->ctx, channel, from, tf_slice_str(client_id), &key) == TF_OK ? key.seq : 0;
}

/* The newest come first in a row of one hash; forgotten are the oldest of a channel, in whatever place they are. */
START_TEST(memory_names_and_keys_of_one_hash_are_told_apart)
{
    static const uint64_t orders[][3] = {{1, 2, 3}, {3, 2, 1}, {2, 3, 1}};
    static const tf_node_id other = {{2}};
    for (size_t i = 0; i < 3; i++) {
        tf_test_heap heap;
        tf_memory_store *memory = NULL;
        tf_store_channel found;
        tf_test_heap_init(&heap);
        ck_assert_int_eq(tf_memory_store_new(&memory, &(tf_memory_store_config){.mem = &heap.mem}), TF_OK);
        tf_store store = tf_memory_store_get(memory);
        for (uint64_t number = 1; number <= 3; number++) {
            submit(&store, (tf_store_op){.kind = TF_STORE_CREATE, .name = tf_slice_str(same[number - 1]), .epoch = 5});
            submit(&store, append_op(number, 1, "a"));
            submit(&store, append_op(number, 2, "c"));
        }
        ck_assert_int_eq(store.table->channel_find(store.ctx, tf_slice_str("c"), &found), TF_OK);
        ck_assert_uint_eq(found.number, 2);
        ck_assert_int_eq(store.table->channel_find(store.ctx, tf_slice_str("g"), &found), TF_ERR_CLOSED);
        ck_assert_uint_eq(found_in_memory(&store, 1, &other, "a"), 0);
        ck_assert_uint_eq(found_in_memory(&store, 1, &origin, "e"), 0);
        for (size_t k = 0; k < 3; k++) {
            submit(&store, (tf_store_op){.kind = TF_STORE_FORGET, .channel = orders[i][k], .time_ms = 2});
            for (size_t of = 0; of < 3; of++) {
                ck_assert_uint_eq(found_in_memory(&store, orders[i][of], &origin, "a"), of <= k ? 0 : 1);
                ck_assert_uint_eq(found_in_memory(&store, orders[i][of], &origin, "c"), 2);
            }
        }
        for (size_t k = 0; k < 3; k++) {
            submit(&store, (tf_store_op){.kind = TF_STORE_FORGET, .channel = orders[i][k], .time_ms = 3});
            for (size_t of = 0; of < 3; of++) {
                ck_assert_uint_eq(found_in_memory(&store, orders[i][of], &origin, "c"), of <= k ? 0 : 2);
            }
        }
        tf_memory_store_free(memory);
        ck_assert_uint_eq(heap.live_blocks, 0);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {channels_of_one_hash_are_told_apart_whatever_ends_first,
                                  catalog_names_and_keys_of_one_hash_are_told_apart,
                                  memory_names_and_keys_of_one_hash_are_told_apart,
                                  NULL};
    return tf_test_run("node/store where hashes collide", tests);
}
