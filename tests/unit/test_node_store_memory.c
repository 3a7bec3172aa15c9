/* node/store/memory: what a store must do (S2, S6, S11), on the one in memory. */
#include <stdio.h>

#include "node/store/memory.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

typedef struct fixture {
    tf_test_heap heap;
    tf_memory_store *memory;
    tf_store store;
} fixture;

static void begin(fixture *f, uint64_t bytes_max, uint64_t channels_max)
{
    tf_test_heap_init(&f->heap);
    tf_memory_store_config config = {
        .mem = &f->heap.mem, .hash_key = 3, .bytes_max = bytes_max, .channels_max = channels_max};
    ck_assert_int_eq(tf_memory_store_new(&f->memory, &config), TF_OK);
    f->store = tf_memory_store_get(f->memory);
}

static void end(fixture *f)
{
    tf_memory_store_free(f->memory);
    ck_assert_uint_eq(f->heap.live_blocks, 0);
}

static void submit(fixture *f, tf_store_op *ops, size_t count)
{
    tf_store_group group = {ops, count};
    tf_store_event_type type;
    f->store.table->submit(f->store.ctx, &group);
    ck_assert(f->store.table->poll(f->store.ctx, &type));
    ck_assert_int_eq(type, TF_STORE_GROUP_DONE);
    ck_assert(!f->store.table->poll(f->store.ctx, &type));
}

static uint64_t make_channel(fixture *f, const char *name)
{
    tf_store_op op = {.kind = TF_STORE_CREATE, .name = tf_slice_str(name), .epoch = 77};
    submit(f, &op, 1);
    ck_assert_int_eq(op.outcome, TF_REFUSAL_NONE);
    return op.channel;
}

static tf_node_id node_of(uint8_t number)
{
    tf_node_id id;
    memset(id.bytes, number, sizeof(id.bytes));
    return id;
}

static tf_store_op append_op(uint64_t channel, uint64_t seq, uint8_t origin, const char *client_id, tf_slice body)
{
    return (tf_store_op){.kind = TF_STORE_APPEND,
                         .channel = channel,
                         .message = {.seq = seq,
                                     .timestamp_ms = (int64_t)seq * 10,
                                     .epoch = 77,
                                     .origin = node_of(origin),
                                     .client_id = tf_slice_str(client_id),
                                     .body = body}};
}

static tf_refusal append(fixture *f, uint64_t channel, uint64_t seq, const char *client_id, size_t body_len)
{
    static uint8_t body[100000];
    tf_store_op op = append_op(channel, seq, 1, client_id, tf_slice_of(body, body_len));
    submit(f, &op, 1);
    return op.outcome;
}

START_TEST(memory_message_is_read_and_found_by_its_key)
{
    fixture f;
    tf_stored stored;
    tf_store_key key;
    tf_store_channel found;
    begin(&f, 0, 0);
    uint64_t channel = make_channel(&f, "room");
    tf_store_op op = append_op(channel, 1, 1, "a", tf_slice_str("hello"));
    op.message.instance = 9;
    submit(&f, &op, 1);
    tf_node_id origin = node_of(1);
    ck_assert_int_eq(f.store.table->find(f.store.ctx, channel, &origin, tf_slice_str("a"), &key), TF_OK);
    ck_assert(key.seq == 1 && key.epoch == 77 && key.timestamp_ms == 10);
    ck_assert_uint_eq(key.digest, tf_store_digest(tf_slice_str("hello")));
    ck_assert_int_eq(f.store.table->read(f.store.ctx, channel, 1, &stored), TF_STORE_HERE);
    ck_assert(stored.seq == 1 && stored.timestamp_ms == 10 && stored.instance == 9);
    ck_assert(tf_slice_eq(stored.body, tf_slice_str("hello")) && stored.epoch == 77);
    ck_assert(tf_slice_eq(stored.client_id, tf_slice_str("a")));
    ck_assert(tf_node_id_eq(&stored.origin, &origin));
    ck_assert_int_eq(f.store.table->channel_find(f.store.ctx, tf_slice_str("room"), &found), TF_OK);
    ck_assert(found.number == channel && found.epoch == 77 && found.first == 1 && found.head == 1 && !found.closed);
    ck_assert_int_eq(found.timestamp_ms, 10);
    end(&f);
}
END_TEST

/* S2: a tuple, each part for itself. */
START_TEST(memory_key_of_another_channel_origin_or_id_is_not_found)
{
    fixture f;
    tf_store_key key;
    begin(&f, 0, 0);
    uint64_t one = make_channel(&f, "one");
    uint64_t two = make_channel(&f, "two");
    tf_node_id origin = node_of(1);
    tf_node_id other = node_of(2);
    ck_assert_int_eq(append(&f, one, 1, "ab", 1), TF_REFUSAL_NONE);
    const struct {
        uint64_t channel;
        const tf_node_id *origin;
        const char *client_id;
        tf_err err;
    } rows[] = {
        {one, &origin, "ab", TF_OK},          {two, &origin, "ab", TF_ERR_CLOSED}, {one, &other, "ab", TF_ERR_CLOSED},
        {one, &origin, "a", TF_ERR_CLOSED},   {one, &origin, "abc", TF_ERR_CLOSED}, {one, &origin, "Ab", TF_ERR_CLOSED},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_int_eq(f.store.table->find(f.store.ctx, rows[i].channel, rows[i].origin,
                                             tf_slice_str(rows[i].client_id), &key),
                         rows[i].err);
    }
    end(&f);
}
END_TEST

START_TEST(memory_full_store_refuses_and_drops_nothing)
{
    fixture f;
    tf_store_stats stats;
    tf_stored stored;
    tf_store_key key;
    begin(&f, 3000, 0);
    uint64_t channel = make_channel(&f, "room");
    uint64_t seq = 0;
    char id[16] = "";
    do {
        seq++;
        (void)snprintf(id, sizeof(id), "c-%d", (int)seq);
    } while (append(&f, channel, seq, id, 300) == TF_REFUSAL_NONE);
    ck_assert_uint_gt(seq, 2);
    f.store.table->get_stats(f.store.ctx, &stats);
    ck_assert(stats.state == TF_STORE_FULL && stats.messages == seq - 1 && stats.bytes <= 3000 && stats.bytes_max == 3000);
    ck_assert_int_eq(f.store.table->read(f.store.ctx, channel, 1, &stored), TF_STORE_HERE);
    tf_node_id origin = node_of(1);
    ck_assert_int_eq(f.store.table->find(f.store.ctx, channel, &origin, tf_slice_str(id), &key), TF_ERR_CLOSED);
    ck_assert_int_eq(append(&f, channel, seq, "small", 0), TF_REFUSAL_NONE); /* what fits is taken */
    end(&f);
}
END_TEST

START_TEST(memory_refused_append_takes_the_rest_of_its_channel_with_it)
{
    fixture f;
    static uint8_t body[5000];
    begin(&f, 4000, 0);
    uint64_t one = make_channel(&f, "one");
    uint64_t two = make_channel(&f, "two");
    tf_store_op ops[] = {
        append_op(one, 1, 1, "a", tf_slice_of(body, 10)),
        append_op(one, 2, 1, "b", tf_slice_of(body, sizeof(body))),
        append_op(one, 3, 2, "c", tf_slice_of(body, 10)),
        append_op(two, 1, 1, "d", tf_slice_of(body, 10)),
    };
    submit(&f, ops, 4);
    ck_assert_int_eq(ops[0].outcome, TF_REFUSAL_NONE);
    ck_assert_int_eq(ops[1].outcome, TF_REFUSAL_STORE_FULL);
    ck_assert_int_eq(ops[2].outcome, TF_REFUSAL_STORE_FULL);
    ck_assert_int_eq(ops[3].outcome, TF_REFUSAL_NONE);
    ck_assert_int_eq(append(&f, one, 2, "c", 10), TF_REFUSAL_NONE); /* no hole */
    end(&f);
}
END_TEST

START_TEST(memory_channels_are_listed_closed_and_bounded)
{
    fixture f;
    tf_store_channel found;
    size_t position = 0;
    size_t count = 0;
    begin(&f, 0, 2);
    uint64_t one = make_channel(&f, "one");
    (void)make_channel(&f, "two");
    tf_store_op third = {.kind = TF_STORE_CREATE, .name = tf_slice_str("three")};
    submit(&f, &third, 1);
    ck_assert_int_eq(third.outcome, TF_REFUSAL_STORE_FULL);
    ck_assert_int_eq(f.store.table->channel_find(f.store.ctx, tf_slice_str("three"), &found), TF_ERR_CLOSED);
    tf_store_op close = {.kind = TF_STORE_CLOSE, .channel = one};
    submit(&f, &close, 1);
    while (f.store.table->channel_next(f.store.ctx, &position, &found)) {
        ck_assert_int_eq(found.closed, found.number == one);
        ck_assert_uint_eq(found.head, 0);
        count++;
    }
    ck_assert_uint_eq(count, 2);
    end(&f);
}
END_TEST

START_TEST(memory_time_finds_the_first_message_not_older)
{
    static const struct {
        int64_t time;
        uint64_t seq;
    } rows[] = {{0, 1}, {10, 1}, {11, 2}, {20, 2}, {50, 5}, {51, 6}, {INT64_MAX, 6}};
    fixture f;
    begin(&f, 0, 0);
    uint64_t channel = make_channel(&f, "room");
    ck_assert_uint_eq(f.store.table->find_time(f.store.ctx, channel, 5), 1);
    for (uint64_t seq = 1; seq <= 5; seq++) {
        char id[8];
        (void)snprintf(id, sizeof(id), "c-%d", (int)seq);
        ck_assert_int_eq(append(&f, channel, seq, id, 1), TF_REFUSAL_NONE);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_uint_eq(f.store.table->find_time(f.store.ctx, channel, rows[i].time), rows[i].seq);
    }
    end(&f);
}
END_TEST

START_TEST(memory_failed_allocation_refuses_and_leaves_nothing_behind)
{
    uint64_t k = 0;
    bool failed = true;
    for (; failed; k++) {
        fixture f;
        tf_store_channel found;
        begin(&f, 0, 0);
        uint64_t channel = make_channel(&f, "room");
        tf_test_heap_fail_at(&f.heap, k, false);
        uint64_t seq = 1;
        for (unsigned i = 0; i < 20; i++) {
            char id[8];
            (void)snprintf(id, sizeof(id), "c-%u", i);
            seq += append(&f, channel, seq, id, 5) == TF_REFUSAL_NONE ? 1 : 0;
        }
        failed = f.heap.failures > 0;
        ck_assert_int_eq(f.store.table->channel_find(f.store.ctx, tf_slice_str("room"), &found), TF_OK);
        ck_assert_uint_eq(found.head, seq - 1);
        ck_assert_uint_eq(seq, failed ? 20 : 21);
        end(&f);
    }
    ck_assert_uint_gt(k, 10);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        memory_message_is_read_and_found_by_its_key,
        memory_key_of_another_channel_origin_or_id_is_not_found,
        memory_full_store_refuses_and_drops_nothing,
        memory_refused_append_takes_the_rest_of_its_channel_with_it,
        memory_channels_are_listed_closed_and_bounded,
        memory_time_finds_the_first_message_not_older,
        memory_failed_allocation_refuses_and_leaves_nothing_behind,
        NULL,
    };
    return tf_test_run("node/store/memory", tests);
}
