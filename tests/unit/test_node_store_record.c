/* node/store/record: what is written is read, at every limit, and nothing else is. */
#include <stdlib.h>
#include <xxhash.h>

#include "node/store/record.h"
#include "proto/wire.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define KEY UINT64_C(0x123456789abcdef0)
#define LSN_MAX (UINT64_MAX - 1)
#define NUMBER_MAX ((UINT64_C(1) << 62) - 1)

static uint8_t bytes[TF_RECORD_MAX + 64];
static uint8_t large[TF_BODY_MAX];

static tf_slice slice(size_t len)
{
    return tf_slice_of(large, len);
}

static tf_node_id node(uint8_t value)
{
    tf_node_id id;
    memset(id.bytes, value, sizeof(id.bytes));
    return id;
}

static tf_store_op append_of(size_t client_id, size_t meta, size_t body)
{
    return (tf_store_op){.kind = TF_STORE_APPEND,
                         .channel = 1,
                         .message = {.seq = 1,
                                     .epoch = 2,
                                     .timestamp_ms = 3,
                                     .origin = node(4),
                                     .instance = 5,
                                     .client_id = slice(client_id),
                                     .meta = slice(meta),
                                     .body = slice(body)}};
}

static tf_store_op extreme_append(void)
{
    tf_store_op op = append_of(TF_CLIENT_ID_MAX, TF_META_MAX, TF_BODY_MAX);
    op.channel = NUMBER_MAX;
    op.message.seq = NUMBER_MAX;
    op.message.epoch = UINT64_MAX;
    op.message.timestamp_ms = INT64_MAX;
    op.message.expires_ms = INT64_MIN;
    op.message.instance = UINT64_MAX;
    return op;
}

static void check_message(const tf_stored *a, const tf_stored *b)
{
    ck_assert_uint_eq(a->seq, b->seq);
    ck_assert_uint_eq(a->epoch, b->epoch);
    ck_assert_int_eq(a->timestamp_ms, b->timestamp_ms);
    ck_assert_int_eq(a->expires_ms, b->expires_ms);
    ck_assert(tf_node_id_eq(&a->origin, &b->origin));
    ck_assert_uint_eq(a->instance, b->instance);
    ck_assert(tf_slice_eq(a->client_id, b->client_id));
    ck_assert(tf_slice_eq(a->meta, b->meta));
    ck_assert(tf_slice_eq(a->body, b->body));
}

static void check_op(const tf_store_op *a, const tf_store_op *b)
{
    ck_assert_int_eq(a->kind, b->kind);
    ck_assert_uint_eq(a->channel, b->channel);
    ck_assert(tf_slice_eq(a->name, b->name));
    ck_assert_uint_eq(a->epoch, b->epoch);
    ck_assert_uint_eq(a->seq, b->seq);
    ck_assert_int_eq(a->time_ms, b->time_ms);
    check_message(&a->message, &b->message);
    ck_assert_uint_eq(a->cursor.channel, b->cursor.channel);
    ck_assert(tf_node_id_eq(&a->cursor.owner, &b->cursor.owner));
    ck_assert(tf_slice_eq(a->cursor.name, b->cursor.name));
    ck_assert_uint_eq(a->cursor.epoch, b->cursor.epoch);
    ck_assert_uint_eq(a->cursor.next, b->cursor.next);
    ck_assert_int_eq(a->cursor.moved_ms, b->cursor.moved_ms);
    ck_assert_int_eq(a->outcome, b->outcome);
}

/* One of each kind, at both ends of what its fields can be. */
static size_t all_ops(tf_store_op *ops)
{
    size_t n = 0;
    ops[n++] = (tf_store_op){.kind = TF_STORE_CREATE, .channel = 1, .name = slice(1)};
    ops[n++] = (tf_store_op){
        .kind = TF_STORE_CREATE, .channel = NUMBER_MAX, .epoch = UINT64_MAX, .name = slice(TF_CHANNEL_NAME_MAX)};
    ops[n++] = append_of(1, 0, 0);
    ops[n++] = append_of(1, 1, 1);
    ops[n++] = append_of(20, 0, 128);
    ops[n++] = append_of(TF_CLIENT_ID_MAX, 63, 64);
    ops[n++] = append_of(TF_CLIENT_ID_MAX, 64, 16384);
    ops[n++] = extreme_append();
    ops[n++] = (tf_store_op){.kind = TF_STORE_CLOSE, .channel = 64};
    ops[n++] = (tf_store_op){.kind = TF_STORE_TRIM, .channel = 16384, .seq = 1};
    ops[n++] = (tf_store_op){.kind = TF_STORE_TRIM, .channel = 1, .seq = NUMBER_MAX};
    ops[n++] = (tf_store_op){.kind = TF_STORE_FORGET, .channel = 1, .time_ms = INT64_MIN};
    ops[n++] = (tf_store_op){.kind = TF_STORE_FORGET, .channel = 1, .time_ms = INT64_MAX};
    ops[n++] = (tf_store_op){.kind = TF_STORE_EPOCH, .channel = 1, .epoch = UINT64_MAX};
    ops[n++] = (tf_store_op){
        .kind = TF_STORE_CURSOR, .channel = 1, .cursor = {.channel = 1, .owner = node(9), .name = slice(1)}};
    ops[n++] = (tf_store_op){.kind = TF_STORE_CURSOR,
                             .channel = NUMBER_MAX,
                             .cursor = {.channel = NUMBER_MAX,
                                        .owner = node(255),
                                        .name = slice(TF_CURSOR_NAME_MAX),
                                        .epoch = UINT64_MAX,
                                        .next = NUMBER_MAX,
                                        .moved_ms = INT64_MIN}};
    return n;
}

#define OPS_MAX 16u

static void fill_large(void)
{
    tf_test_random random;
    tf_test_random_init(&random, 3);
    random.rand.fill(random.rand.ctx, large, sizeof(large));
}

START_TEST(record_every_kind_at_its_limits_is_read_as_it_was_written)
{
    tf_store_op ops[OPS_MAX];
    fill_large();
    size_t count = all_ops(ops);
    for (size_t i = 0; i < count; i++) {
        uint64_t lsn = i % 2 == 0 ? i + 1 : LSN_MAX;
        size_t bound = tf_record_bound(&ops[i]);
        ck_assert_uint_le(bound, TF_RECORD_MAX);
        size_t size = tf_record_write(bytes, bound, KEY, lsn, &ops[i]);
        ck_assert_uint_le(size, bound);
        uint8_t *exact = tf_test_exact(tf_slice_of(bytes, size));
        tf_log_record record;
        ck_assert_int_eq(tf_record_read(tf_slice_of(exact, size), KEY, &record), TF_OK);
        ck_assert_uint_eq(record.size, size);
        ck_assert_uint_eq(record.lsn, lsn);
        check_op(&record.op, &ops[i]);
        ck_assert_int_eq(tf_record_read_trusted(tf_slice_of(exact, size), &record), TF_OK);
        ck_assert_uint_eq(record.lsn, lsn);
        check_op(&record.op, &ops[i]);
        free(exact);
    }
}
END_TEST

START_TEST(record_is_followed_by_the_next_one)
{
    size_t at = 0;
    size_t size = 0;
    uint64_t lsn = 0;
    tf_log_record record;
    for (uint64_t i = 1; i <= 20; i++) {
        tf_store_op op = append_of(8, 0, (size_t)i);
        at += tf_record_write(bytes + at, sizeof(bytes) - at, KEY, i, &op);
    }
    size_t from = 0;
    for (uint64_t i = 1; i <= 20; i++) {
        tf_slice rest = tf_slice_of(bytes + from, at - from);
        ck_assert(tf_record_peek(rest, &size, &lsn));
        ck_assert_uint_eq(lsn, i);
        ck_assert_int_eq(tf_record_read(rest, KEY, &record), TF_OK);
        ck_assert_uint_eq(record.size, size);
        ck_assert_uint_eq(record.op.message.body.len, i);
        from += size;
    }
    ck_assert_uint_eq(from, at);
    ck_assert(!tf_record_peek(tf_slice_of(bytes + from, 0), &size, &lsn));
}
END_TEST

START_TEST(record_flipped_bit_anywhere_is_found)
{
    tf_store_op ops[OPS_MAX];
    tf_log_record record;
    size_t count = all_ops(ops);
    for (size_t i = 0; i < count; i++) {
        size_t size = tf_record_write(bytes, sizeof(bytes), KEY, 77, &ops[i]);
        size_t step = size > 1000 ? 997 : 1; /* of bytes; all of the first ones */
        for (size_t at = 0; at < size; at += at < 200 ? 1 : step) {
            for (unsigned bit = 0; bit < 8; bit++) {
                bytes[at] ^= (uint8_t)(1u << bit);
                ck_assert_int_eq(tf_record_read(tf_slice_of(bytes, sizeof(bytes)), KEY, &record), TF_ERR_DAMAGED);
                bytes[at] ^= (uint8_t)(1u << bit);
            }
        }
    }
}
END_TEST

START_TEST(record_cut_anywhere_or_of_another_log_is_none)
{
    tf_store_op ops[OPS_MAX];
    tf_log_record record;
    size_t count = all_ops(ops);
    for (size_t i = 0; i < count; i++) {
        size_t size = tf_record_write(bytes, sizeof(bytes), KEY, 77, &ops[i]);
        ck_assert_int_eq(tf_record_read(tf_slice_of(bytes, size), KEY + 1, &record), TF_ERR_DAMAGED);
        for (size_t len = 0; len < size; len += len < 300 ? 1 : 5003) {
            uint8_t *exact = tf_test_exact(tf_slice_of(bytes, len));
            ck_assert_int_eq(tf_record_read(tf_slice_of(exact, len), KEY, &record), TF_ERR_DAMAGED);
            ck_assert_int_eq(tf_record_read_trusted(tf_slice_of(exact, len), &record), TF_ERR_DAMAGED);
            free(exact);
        }
    }
    ck_assert_int_eq(tf_record_read(tf_slice_of(NULL, 0), KEY, &record), TF_ERR_DAMAGED);
}
END_TEST

/* Bytes with a right checksum that say what cannot be: the reader without a checksum sees the same. */
START_TEST(record_hostile_bytes_are_never_read_out_of_bounds)
{
    tf_store_op ops[OPS_MAX];
    tf_test_random random;
    tf_log_record record;
    size_t refused = 0;
    tf_test_random_init(&random, 5);
    size_t count = all_ops(ops);
    for (size_t i = 0; i < 40000; i++) {
        const tf_store_op *op = &ops[i % count];
        if (tf_record_bound(op) > 40000) {
            continue;
        }
        size_t size = tf_record_write(bytes, sizeof(bytes), KEY, i, op);
        for (int k = 0; k < 3; k++) { /* the fields are near the front */
            bytes[12 + tf_test_random_below(&random, size < 120 ? size - 12 : 108)] = (uint8_t)tf_test_random_u64(&random);
        }
        uint8_t *exact = tf_test_exact(tf_slice_of(bytes, size));
        tf_err err = tf_record_read_trusted(tf_slice_of(exact, size), &record);
        ck_assert(err == TF_OK || err == TF_ERR_DAMAGED || err == TF_ERR_USAGE);
        refused += err != TF_OK ? 1 : 0;
        if (err == TF_OK) {
            ck_assert_uint_le(record.op.name.len, TF_CHANNEL_NAME_MAX);
            ck_assert_uint_le(record.op.message.client_id.len, TF_CLIENT_ID_MAX);
            ck_assert_uint_le(record.op.message.meta.len, TF_META_MAX);
            ck_assert_uint_le(record.op.cursor.name.len, TF_CURSOR_NAME_MAX);
        }
        free(exact);
    }
    ck_assert_uint_gt(refused, 1000);
}
END_TEST

/* A record may be as large as the largest of all; a body in it may not. */
START_TEST(record_with_a_body_beyond_the_limit_is_damaged)
{
    tf_writer w;
    tf_log_record record;
    tf_store_op op = append_of(1, 0, TF_BODY_MAX);
    size_t size = tf_record_write(bytes, sizeof(bytes), KEY, 1, &op);
    for (size_t more = 0; more < 2; more++) {
        bytes[size] = 0;
        tf_wr_init(&w, bytes + 8, 4);
        tf_wr_u32(&w, (uint32_t)(size + more));
        tf_wr_init(&w, bytes, 8);
        tf_wr_u64(&w, XXH3_64bits_withSeed(bytes + 8, size + more - 8, KEY));
        ck_assert_int_eq(tf_record_read(tf_slice_of(bytes, size + more), KEY, &record),
                         more == 0 ? TF_OK : TF_ERR_DAMAGED);
    }
}
END_TEST

START_TEST(record_of_a_later_version_is_told_from_damage)
{
    tf_store_op op = append_of(4, 0, 4);
    tf_log_record record;
    size_t size = tf_record_write(bytes, sizeof(bytes), KEY, 1, &op);
    bytes[12] = 2; /* the version */
    ck_assert_int_eq(tf_record_read_trusted(tf_slice_of(bytes, size), &record), TF_ERR_USAGE);
    bytes[12] = 0;
    ck_assert_int_eq(tf_record_read_trusted(tf_slice_of(bytes, size), &record), TF_ERR_DAMAGED);
    bytes[12] = 1;
    bytes[13] = 99; /* the kind */
    ck_assert_int_eq(tf_record_read_trusted(tf_slice_of(bytes, size), &record), TF_ERR_DAMAGED);
}
END_TEST

/* The example of FORMAT.md. */
START_TEST(record_bytes_are_those_of_the_description)
{
    const tf_store_op op = {.kind = TF_STORE_TRIM, .channel = 3, .seq = 300};
    uint8_t expected[64];
    size_t size = tf_record_write(bytes, sizeof(bytes), 0, 7, &op);
    size_t len = tf_test_unhex("00000019 01 04 0000000000000007 03 412c", expected, sizeof(expected));
    ck_assert_uint_eq(size, 8 + len);
    ck_assert(tf_slice_eq(tf_slice_of(bytes + 8, len), tf_slice_of(expected, len)));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {record_every_kind_at_its_limits_is_read_as_it_was_written,
                                  record_is_followed_by_the_next_one,
                                  record_flipped_bit_anywhere_is_found,
                                  record_cut_anywhere_or_of_another_log_is_none,
                                  record_hostile_bytes_are_never_read_out_of_bounds,
                                  record_with_a_body_beyond_the_limit_is_damaged,
                                  record_of_a_later_version_is_told_from_damage,
                                  record_bytes_are_those_of_the_description,
                                  NULL};
    return tf_test_run("node/store/record", tests);
}
