/* node/store/catalog: what committed records make of the channels in memory, and what a replay must survive. */
#include <stdio.h>
#include <stdlib.h>

#include "node/store/catalog.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define KEY 11u

typedef struct fixture {
    tf_test_heap heap;
    tf_catalog catalog;
    uint64_t lsn;
} fixture;

static const tf_node_id origin = {{1}};

static void begin(fixture *f)
{
    tf_test_heap_init(&f->heap);
    f->lsn = 1;
    tf_catalog_init(&f->catalog, &f->heap.mem, 9, 8);
}

static void evict_one(fixture *f)
{
    tf_tail_block *block = tf_catalog_evict(&f->catalog);
    free(block);
}

static void end(fixture *f)
{
    while (f->catalog.oldest != NULL) {
        evict_one(f);
    }
    ck_assert_uint_eq(f->catalog.tail_bytes, 0);
    ck_assert_uint_eq(f->catalog.keys.count, 0);
    tf_catalog_clear(&f->catalog);
    ck_assert_uint_eq(f->heap.live_blocks, 0);
}

/* A block of records, to be applied. */
static tf_tail_block *make_block(fixture *f, const tf_store_op *ops, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += tf_record_bound(&ops[i]);
    }
    tf_tail_block *block = calloc(1, sizeof(*block) + count * sizeof(block->entries[0]) + bytes);
    ck_assert_ptr_nonnull(block);
    block->size = sizeof(*block) + count * sizeof(block->entries[0]) + bytes;
    block->bytes = (uint8_t *)&block->entries[count];
    block->first_lsn = f->lsn;
    for (size_t i = 0; i < count; i++) {
        uint8_t *at = block->bytes + block->len;
        size_t size = tf_record_write(at, bytes - block->len, KEY, f->lsn++, &ops[i]);
        block->entries[block->count++] = (tf_tail_entry){.record = at, .size = (uint32_t)size};
        block->len += size;
    }
    block->last_lsn = f->lsn - 1;
    return block;
}

static const tf_tail_block *apply(fixture *f, const tf_store_op *ops, size_t count)
{
    tf_tail_block *block = make_block(f, ops, count);
    ck_assert_int_eq(tf_catalog_apply(&f->catalog, block), TF_OK);
    return block;
}

static tf_store_op create_op(uint64_t number, const char *name)
{
    return (tf_store_op){.kind = TF_STORE_CREATE, .channel = number, .name = tf_slice_str(name), .epoch = 5};
}

static tf_store_op append_op(uint64_t channel, uint64_t seq, const char *client_id)
{
    return (tf_store_op){.kind = TF_STORE_APPEND,
                         .channel = channel,
                         .message = {.seq = seq,
                                     .epoch = 5,
                                     .timestamp_ms = (int64_t)seq * 10,
                                     .origin = origin,
                                     .client_id = tf_slice_str(client_id),
                                     .body = tf_slice_str("body")}};
}

static tf_err find(fixture *f, uint64_t number, const char *client_id, tf_store_key *out)
{
    const tf_catalog_channel *channel = tf_catalog_by_number(&f->catalog, number);
    tf_slice id = tf_slice_str(client_id);
    uint64_t hash = tf_catalog_key_hash(&f->catalog, number, &origin, id);
    return tf_catalog_find(&f->catalog, channel, &origin, id, hash, out);
}

static tf_catalog_channel *room(fixture *f)
{
    tf_store_op op = create_op(1, "room");
    (void)apply(f, &op, 1);
    tf_catalog_channel *channel = tf_catalog_by_name(&f->catalog, tf_slice_str("room"));
    ck_assert_ptr_nonnull(channel);
    return channel;
}

START_TEST(catalog_appends_are_read_and_found_until_they_leave_the_tail)
{
    fixture f;
    tf_stored stored;
    tf_store_key key;
    begin(&f);
    tf_catalog_channel *channel = room(&f);
    for (uint64_t seq = 1; seq <= 100; seq++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "id-%u", (unsigned)seq);
        tf_store_op op = append_op(1, seq, id);
        (void)apply(&f, &op, 1);
    }
    ck_assert(channel->state.head == 100 && channel->state.first == 1 && channel->state.timestamp_ms == 1000);
    ck_assert_uint_eq(tf_catalog_tail_first(channel), 1);
    tf_tail_read(tf_catalog_tail(channel, 42), &stored);
    ck_assert(stored.seq == 42 && tf_slice_eq(stored.client_id, tf_slice_str("id-42")));
    ck_assert_int_eq(find(&f, 1, "id-42", &key), TF_OK);
    ck_assert(key.seq == 42 && key.digest == tf_store_digest(tf_slice_str("body")));
    ck_assert_int_eq(find(&f, 1, "id-420", &key), TF_ERR_CLOSED);
    for (size_t i = 0; i < 51; i++) { /* the creation, and 50 messages */
        evict_one(&f);
    }
    ck_assert_uint_eq(tf_catalog_tail_first(channel), 51);
    ck_assert_ptr_null(tf_catalog_tail(channel, 50));
    ck_assert_ptr_null(tf_catalog_tail(channel, 101));
    ck_assert_int_eq(find(&f, 1, "id-50", &key), TF_ERR_CLOSED);
    ck_assert_int_eq(find(&f, 1, "id-51", &key), TF_OK);
    end(&f);
}
END_TEST

/* An old log is replayed over an index that has a part of it. */
START_TEST(catalog_what_is_there_already_or_has_no_channel_is_void)
{
    fixture f;
    begin(&f);
    tf_catalog_channel *channel = room(&f);
    tf_store_op ops[6] = {append_op(1, 1, "a"), append_op(1, 1, "a"), append_op(2, 1, "b"), create_op(1, "room"),
                          {.kind = TF_STORE_CLOSE, .channel = 7}, create_op(2, "room")};
    const tf_tail_block *block = apply(&f, ops, 6);
    ck_assert(!block->entries[0].is_void && block->entries[0].is_message);
    for (size_t i = 1; i < 6; i++) {
        ck_assert(block->entries[i].is_void && !block->entries[i].is_message);
    }
    ck_assert(channel->state.head == 1 && f.catalog.channel_count == 1 && f.catalog.messages == 1);
    end(&f);
}
END_TEST

START_TEST(catalog_number_that_cannot_be_is_void)
{
    static const uint64_t seqs[] = {(UINT64_C(1) << 24) + 2, UINT64_C(1) << 40, UINT64_C(1) << 59};
    for (size_t i = 0; i < sizeof(seqs) / sizeof(seqs[0]); i++) {
        fixture f;
        begin(&f);
        tf_catalog_channel *channel = room(&f);
        const tf_store_op ops[2] = {append_op(1, 1, "one"), append_op(1, seqs[i], "far")};
        const tf_tail_block *block = apply(&f, ops, 2);
        ck_assert(!block->entries[0].is_void && block->entries[1].is_void);
        ck_assert_uint_eq(channel->state.head, 1);
        ck_assert_uint_eq(channel->tail_count, 1);
        end(&f);
    }
}
END_TEST

START_TEST(catalog_channel_whose_number_cannot_be_is_void)
{
    static const uint64_t numbers[] = {0, TF_STORE_NUMBER_END, UINT32_MAX, (UINT64_C(1) << 62) - 1};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        fixture f;
        begin(&f);
        const tf_store_op op = create_op(numbers[i], "room");
        const tf_tail_block *block = apply(&f, &op, 1);
        ck_assert(block->entries[0].is_void);
        ck_assert_uint_eq(f.catalog.channel_count, 0);
        end(&f);
    }
}
END_TEST

START_TEST(catalog_lost_records_leave_a_named_hole)
{
    fixture f;
    begin(&f);
    tf_catalog_channel *channel = room(&f);
    tf_store_op ops[2] = {append_op(1, 1, "a"), append_op(1, 5, "e")};
    (void)apply(&f, ops, 2);
    const tf_store_damage *damage = tf_catalog_damage_at(&f.catalog, 1, 3);
    ck_assert_ptr_nonnull(damage);
    ck_assert(damage->first == 2 && damage->last == 4);
    ck_assert_ptr_null(tf_catalog_tail(channel, 3));
    ck_assert_ptr_nonnull(tf_catalog_tail(channel, 5));
    ck_assert_ptr_null(tf_catalog_damage_at(&f.catalog, 1, 5));
    tf_catalog_add_damage(&f.catalog, &(tf_store_damage){1, 4, 5}); /* joins what it touches */
    ck_assert_uint_eq(f.catalog.damage_count, 1);
    ck_assert_uint_eq(f.catalog.damage[0].last, 5);
    end(&f);
}
END_TEST

START_TEST(catalog_trim_close_forget_and_epoch_change_the_state)
{
    fixture f;
    begin(&f);
    tf_catalog_channel *channel = room(&f);
    tf_store_op ops[7] = {append_op(1, 1, "a"),
                          append_op(1, 2, "b"),
                          {.kind = TF_STORE_TRIM, .channel = 1, .seq = 2},
                          {.kind = TF_STORE_TRIM, .channel = 1, .seq = 1}, /* never back */
                          {.kind = TF_STORE_FORGET, .channel = 1, .time_ms = 15},
                          {.kind = TF_STORE_EPOCH, .channel = 1, .epoch = 6},
                          {.kind = TF_STORE_CLOSE, .channel = 1}};
    (void)apply(&f, ops, 7);
    ck_assert(channel->state.first == 2 && channel->state.head == 2 && f.catalog.messages == 1);
    ck_assert(channel->state.keys_since_ms == 15 && channel->state.epoch == 6 && channel->state.closed);
    end(&f);
}
END_TEST

START_TEST(catalog_cursors_are_set_moved_and_deleted)
{
    fixture f;
    begin(&f);
    tf_catalog_channel *channel = room(&f);
    tf_store_cursor cursor = {.channel = 1, .owner = origin, .name = tf_slice_str("reader"), .epoch = 5, .next = 3};
    tf_store_op op = {.kind = TF_STORE_CURSOR, .channel = 1, .cursor = cursor};
    (void)apply(&f, &op, 1);
    const tf_catalog_cursor *found = *tf_catalog_cursor_place(channel, &origin, tf_slice_str("reader"));
    ck_assert_ptr_nonnull(found);
    ck_assert_uint_eq(found->position.next, 3);
    op.cursor.next = 9;
    (void)apply(&f, &op, 1);
    ck_assert_uint_eq(found->position.next, 9);
    ck_assert_uint_eq(channel->cursor_count, 1);
    op.cursor.next = 0;
    (void)apply(&f, &op, 1);
    ck_assert_ptr_null(*tf_catalog_cursor_place(channel, &origin, tf_slice_str("reader")));
    ck_assert_uint_eq(channel->cursor_count, 0);
    end(&f);
}
END_TEST

/* What was reserved is applied without memory. */
START_TEST(catalog_reserved_appends_need_no_memory)
{
    fixture f;
    begin(&f);
    tf_catalog_channel *channel = room(&f);
    for (size_t i = 0; i < 50; i++) {
        ck_assert_int_eq(tf_catalog_reserve(&f.catalog, channel), TF_OK);
    }
    tf_test_heap_fail_at(&f.heap, 0, true);
    for (uint64_t seq = 1; seq <= 50; seq++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "id-%u", (unsigned)seq);
        tf_store_op op = append_op(1, seq, id);
        (void)apply(&f, &op, 1);
    }
    tf_test_heap_fail_never(&f.heap);
    tf_catalog_unreserve(&f.catalog, channel);
    ck_assert_uint_eq(f.catalog.reserved, 0);
    ck_assert_uint_eq(channel->state.head, 50);
    end(&f);
}
END_TEST

/* A replay without memory applies a part, and says so; with memory it makes the rest. What is lost may be forgotten. */
START_TEST(catalog_failed_allocation_leaves_what_can_be_applied_again)
{
    bool failed = true;
    uint64_t k = 0;
    for (; failed; k++) {
        fixture f;
        tf_store_cursor cursor = {.channel = 1, .owner = origin, .name = tf_slice_str("r"), .epoch = 5, .next = 1};
        tf_store_op ops[3] = {create_op(1, "room"), append_op(1, 2, "b"),
                              {.kind = TF_STORE_CURSOR, .channel = 1, .cursor = cursor}};
        begin(&f);
        tf_tail_block *block = make_block(&f, ops, 3);
        tf_test_heap_fail_at(&f.heap, k, false);
        tf_err err = tf_catalog_apply(&f.catalog, block);
        failed = f.heap.failures > 0;
        tf_test_heap_fail_never(&f.heap);
        ck_assert(err == (failed ? TF_ERR_NOMEM : TF_OK) || (err == TF_OK && f.catalog.damage_count == 0));
        (void)apply(&f, ops, 3);
        const tf_catalog_channel *channel = tf_catalog_by_name(&f.catalog, tf_slice_str("room"));
        ck_assert(channel->state.head == 2 && channel->cursor_count == 1 && channel->tail_count == 2);
        end(&f);
    }
    ck_assert_uint_gt(k, 5);
}
END_TEST

START_TEST(catalog_cursors_are_bounded_and_those_of_nothing_are_skipped)
{
    fixture f;
    char name[TF_CURSOR_NAME_MAX + 2] = "";
    begin(&f);
    tf_catalog_channel *channel = room(&f);
    tf_store_cursor cursor = {.channel = 9, .owner = origin, .name = tf_slice_str("lost"), .next = 1};
    ck_assert_int_eq(tf_catalog_set_cursor(&f.catalog, &cursor), TF_OK);
    memset(name, 'n', sizeof(name) - 1);
    cursor = (tf_store_cursor){.channel = 1, .owner = origin, .name = tf_slice_str(name), .next = 1};
    ck_assert_int_eq(tf_catalog_set_cursor(&f.catalog, &cursor), TF_OK);
    cursor = (tf_store_cursor){.channel = 1, .owner = origin, .name = tf_slice_str("never"), .next = 0};
    ck_assert_int_eq(tf_catalog_set_cursor(&f.catalog, &cursor), TF_OK);
    ck_assert_uint_eq(channel->cursor_count, 0);
    for (unsigned i = 0; i <= TF_CURSORS_PER_CHANNEL; i++) {
        (void)snprintf(name, sizeof(name), "n-%u", i);
        cursor = (tf_store_cursor){.channel = 1, .owner = origin, .name = tf_slice_str(name), .next = 1};
        ck_assert_int_eq(tf_catalog_set_cursor(&f.catalog, &cursor),
                         i < TF_CURSORS_PER_CHANNEL ? TF_OK : TF_ERR_LIMIT_ITEMS);
    }
    end(&f);
}
END_TEST

START_TEST(catalog_damage_is_joined_bounded_and_never_doubled)
{
    fixture f;
    begin(&f);
    for (uint64_t i = 0; i < 40; i++) { /* with room between them, on two channels */
        tf_catalog_add_damage(&f.catalog, &(tf_store_damage){1 + i % 2, 10 * i + 10, 10 * i + 12});
    }
    ck_assert_uint_eq(f.catalog.damage_count, 40);
    tf_catalog_add_damage(&f.catalog, &(tf_store_damage){1, 8, 9}); /* touches the first */
    tf_catalog_add_damage(&f.catalog, &(tf_store_damage){1, 11, 11});
    ck_assert_uint_eq(f.catalog.damage_count, 40);
    ck_assert_ptr_eq(tf_catalog_damage_at(&f.catalog, 1, 8), &f.catalog.damage[0]);
    ck_assert_ptr_null(tf_catalog_damage_at(&f.catalog, 1, 7));
    ck_assert_ptr_null(tf_catalog_damage_at(&f.catalog, 1, 13));
    ck_assert_ptr_null(tf_catalog_damage_at(&f.catalog, 2, 10));
    tf_store_damage *all = tf_alloc(&f.heap.mem, TF_CATALOG_DAMAGE_MAX * sizeof(*all));
    ck_assert_ptr_nonnull(all);
    for (uint64_t i = 0; i < TF_CATALOG_DAMAGE_MAX; i++) {
        all[i] = (tf_store_damage){3, 10 * i + 10, 10 * i + 12};
    }
    tf_free(&f.heap.mem, f.catalog.damage, f.catalog.damage_capacity * sizeof(*all));
    f.catalog.damage = all;
    f.catalog.damage_count = TF_CATALOG_DAMAGE_MAX;
    f.catalog.damage_capacity = TF_CATALOG_DAMAGE_MAX;
    tf_catalog_add_damage(&f.catalog, &(tf_store_damage){1, 1, 1});
    ck_assert_uint_eq(f.catalog.damage_count, TF_CATALOG_DAMAGE_MAX);
    ck_assert_ptr_null(tf_catalog_damage_at(&f.catalog, 1, 1));
    end(&f);
}
END_TEST

START_TEST(catalog_channels_beyond_the_limit_are_refused)
{
    fixture f;
    begin(&f);
    tf_catalog_channel *channel = NULL;
    for (uint64_t number = 1; number <= 9; number++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "c-%u", (unsigned)number);
        tf_store_channel state = {.number = number * 3, .first = 1, .name = tf_slice_str(name)};
        ck_assert_int_eq(tf_catalog_add(&f.catalog, &state, &channel), number <= 8 ? TF_OK : TF_ERR_LIMIT_ITEMS);
    }
    tf_store_channel far = {.number = f.catalog.last_number + UINT32_MAX + 1, .first = 1, .name = tf_slice_str("far")};
    f.catalog.channels_max++;
    ck_assert_int_eq(tf_catalog_add(&f.catalog, &far, &channel), TF_ERR_LIMIT_ITEMS);
    ck_assert_ptr_null(tf_catalog_by_number(&f.catalog, 4));
    ck_assert_ptr_nonnull(tf_catalog_by_number(&f.catalog, 6));
    end(&f);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {catalog_appends_are_read_and_found_until_they_leave_the_tail,
                                  catalog_what_is_there_already_or_has_no_channel_is_void,
                                  catalog_number_that_cannot_be_is_void,
                                  catalog_channel_whose_number_cannot_be_is_void,
                                  catalog_lost_records_leave_a_named_hole,
                                  catalog_trim_close_forget_and_epoch_change_the_state,
                                  catalog_cursors_are_set_moved_and_deleted,
                                  catalog_reserved_appends_need_no_memory,
                                  catalog_failed_allocation_leaves_what_can_be_applied_again,
                                  catalog_cursors_are_bounded_and_those_of_nothing_are_skipped,
                                  catalog_damage_is_joined_bounded_and_never_doubled,
                                  catalog_channels_beyond_the_limit_are_refused,
                                  NULL};
    return tf_test_run("node/store/catalog", tests);
}
