/* node/store/memory: its bounds, what it gives back; and all that a store must do (S2, S6, S10, S12). */
#include <stdio.h>

#include "node/store/memory.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"
#include "tests/unit/store_suite.h"

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

/* The same of all that a store takes; what was refused is taken when there is memory. */
START_TEST(memory_failed_allocation_refuses_channels_cursors_and_large_bodies)
{
    static const uint8_t body[3000];
    uint64_t k = 0;
    bool failed = true;
    for (; failed; k++) {
        fixture f;
        tf_test_heap_init(&f.heap);
        tf_memory_store_config config = {.mem = &f.heap.mem, .hash_key = 3};
        tf_test_heap_fail_at(&f.heap, k, false);
        if (tf_memory_store_new(&f.memory, &config) != TF_OK) {
            continue;
        }
        f.store = tf_memory_store_get(f.memory);
        tf_store_op ops[] = {{.kind = TF_STORE_CREATE, .name = tf_slice_str("room"), .epoch = 77},
                             append_op(1, 1, 1, "a", tf_slice_of(body, sizeof(body))),
                             {.kind = TF_STORE_CURSOR,
                              .channel = 1,
                              .cursor = {.channel = 1, .name = tf_slice_str("r"), .next = 1}}};
        for (size_t i = 0; i < 3; i++) {
            submit(&f, &ops[i], 1);
            if (ops[i].outcome != TF_REFUSAL_NONE) {
                ck_assert_int_eq(ops[i].outcome, TF_REFUSAL_STORE_FULL);
                submit(&f, &ops[i], 1);
            }
            ck_assert_int_eq(ops[i].outcome, TF_REFUSAL_NONE);
        }
        failed = f.heap.failures > 0;
        end(&f);
    }
    ck_assert_uint_gt(k, 8);
}
END_TEST

/* Trimmed and forgotten: the memory is there again. */
START_TEST(memory_of_what_is_trimmed_and_forgotten_is_given_back)
{
    static const size_t sizes[] = {10, 3000};
    for (size_t k = 0; k < 2; k++) {
        fixture f;
        tf_store_stats stats;
        begin(&f, 0, 0);
        uint64_t channel = make_channel(&f, "room");
        size_t empty = f.heap.live_bytes;
        for (uint64_t seq = 1; seq <= 5000; seq++) {
            char id[16];
            (void)snprintf(id, sizeof(id), "c-%d", (int)seq);
            ck_assert_int_eq(append(&f, channel, seq, id, sizes[k]), TF_REFUSAL_NONE);
        }
        size_t full = f.heap.live_bytes;
        tf_store_op trim = {.kind = TF_STORE_TRIM, .channel = channel, .seq = 5001};
        submit(&f, &trim, 1);
        size_t trimmed = f.heap.live_bytes;
        ck_assert_uint_le(trimmed + 4900 * sizes[k], full); /* the bodies are gone, their keys are not */
        tf_store_op forget = {.kind = TF_STORE_FORGET, .channel = channel, .time_ms = 50001};
        submit(&f, &forget, 1);
        f.store.table->get_stats(f.store.ctx, &stats);
        ck_assert(stats.messages == 0 && stats.bytes <= 300 * 256);
        ck_assert_uint_le(f.heap.live_bytes, empty + 256 * 1024); /* a page, and tables that shrink when they are used */
        end(&f);
    }
}
END_TEST

/* What one op and one poll free is bounded; the rest goes by and by, and nobody sees it meanwhile. */
START_TEST(memory_is_given_back_bit_by_bit)
{
    fixture f;
    tf_store_stats stats;
    tf_store_event_type type;
    begin(&f, 0, 0);
    uint64_t channel = make_channel(&f, "room");
    uint64_t count = 70000;
    for (uint64_t seq = 1; seq <= count; seq += 500) {
        static tf_store_op ops[500];
        static char ids[500][16];
        for (uint64_t i = 0; i < 500; i++) {
            (void)snprintf(ids[i], sizeof(ids[i]), "c-%d", (int)(seq + i));
            ops[i] = append_op(channel, seq + i, 1, ids[i], tf_slice_str("0123456789"));
        }
        submit(&f, ops, 500);
    }
    tf_store_op trim = {.kind = TF_STORE_TRIM, .channel = channel, .seq = count + 1};
    submit(&f, &trim, 1);
    f.store.table->get_stats(f.store.ctx, &stats);
    ck_assert_uint_eq(stats.messages, 0);
    uint64_t bytes = stats.bytes;
    uint64_t before = bytes + 1;
    while (bytes < before) {
        before = bytes;
        ck_assert(!f.store.table->poll(f.store.ctx, &type));
        f.store.table->get_stats(f.store.ctx, &stats);
        bytes = stats.bytes;
        ck_assert_uint_le(before - bytes, 2048 * 12);
    }
    size_t kept = f.heap.live_bytes;
    tf_store_op forget = {.kind = TF_STORE_FORGET, .channel = channel, .time_ms = (int64_t)count * 10 + 1};
    submit(&f, &forget, 1);
    for (unsigned i = 0; i < 200; i++) {
        ck_assert(!f.store.table->poll(f.store.ctx, &type));
    }
    f.store.table->get_stats(f.store.ctx, &stats);
    ck_assert_uint_le(stats.bytes, 300 * 256);
    ck_assert_uint_le(f.heap.live_bytes, kept / 4);
    ck_assert_int_eq(append(&f, channel, count + 1, "c-1", 10), TF_REFUSAL_NONE);
    end(&f);
}
END_TEST

START_TEST(memory_cursors_of_a_channel_are_bounded)
{
    fixture f;
    begin(&f, 0, 0);
    uint64_t channel = make_channel(&f, "room");
    for (unsigned i = 0; i <= TF_CURSORS_PER_CHANNEL; i++) {
        char name[16];
        int len = snprintf(name, sizeof(name), "n-%u", i);
        tf_store_op op = {.kind = TF_STORE_CURSOR,
                          .channel = channel,
                          .cursor = {.channel = channel, .name = tf_slice_of(name, (size_t)len), .next = 1}};
        submit(&f, &op, 1);
        ck_assert_int_eq(op.outcome, i < TF_CURSORS_PER_CHANNEL ? TF_REFUSAL_NONE : TF_REFUSAL_STORE_FULL);
    }
    tf_store_op moved = {.kind = TF_STORE_CURSOR,
                         .channel = channel,
                         .cursor = {.channel = channel, .name = tf_slice_str("n-0"), .next = 2}};
    submit(&f, &moved, 1);
    ck_assert_int_eq(moved.outcome, TF_REFUSAL_NONE); /* those that are there go on */
    end(&f);
}
END_TEST

/* -- the suite of all stores --------------------------------------------------------------------------------------- */

static tf_store suite_open(void *ctx)
{
    begin(ctx, 0, 0);
    return ((fixture *)ctx)->store;
}

static tf_store suite_open_small(void *ctx)
{
    begin(ctx, 1 << 20, 0);
    return ((fixture *)ctx)->store;
}

static void suite_close(void *ctx)
{
    end(ctx);
}

int main(void)
{
    static fixture tested;
    const suite_store suite = {
        .ctx = &tested, .open = suite_open, .open_small = suite_open_small, .close = suite_close};
    const TTest *const tests[] = {
        memory_full_store_refuses_and_drops_nothing,
        memory_refused_append_takes_the_rest_of_its_channel_with_it,
        memory_channels_are_listed_closed_and_bounded,
        memory_failed_allocation_refuses_and_leaves_nothing_behind,
        memory_failed_allocation_refuses_channels_cursors_and_large_bodies,
        memory_of_what_is_trimmed_and_forgotten_is_given_back,
        memory_is_given_back_bit_by_bit,
        memory_cursors_of_a_channel_are_bounded,
        NULL,
    };
    int own = tf_test_run_waiting("node/store/memory", tests);
    int all = store_suite_run("node/store/memory as a store", &suite);
    return own == EXIT_SUCCESS ? all : own;
}
