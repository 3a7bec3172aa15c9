/* proto/message: what is too long or too many, and what is said of sizes before a message is written. */
#include <stdlib.h>

#include "proto/message.h"
#include "proto/mp.h"
#include "tests/support/check_main.h"
#include "tests/support/message_lines.h"
#include "tests/support/support.h"
#include "tests/unit/message_room.h"

/* A deliver whose parts have those sizes, past the limits, too. */
static tf_err read_sized(size_t method_len, size_t args_len, size_t ref_count)
{
    tf_writer w = writer();
    tf_mp_wr_array(&w, 8);
    tf_mp_wr_uint(&w, TF_MESSAGE_DELIVER);
    tf_mp_wr_nil(&w);
    tf_mp_wr_uint(&w, 0);
    tf_mp_wr_uint(&w, 1);
    tf_mp_wr_str(&w, tf_slice_of(bytes, method_len));
    tf_mp_wr_bin(&w, tf_slice_of(bytes, args_len));
    tf_mp_wr_array(&w, ref_count);
    for (size_t i = 0; i < ref_count; i++) {
        tf_mp_wr_uint(&w, many[i]);
    }
    tf_mp_wr_nil(&w);
    tf_message message;
    return read_exact(written(&w), &message);
}

START_TEST(message_deliver_beyond_a_limit_is_refused)
{
    const size_t args_max = TF_MESSAGE_MAX - 14; /* what is around them in read_sized(1, large, 0) */
    static const size_t refs_max = TF_REFS_PER_MESSAGE;
    const struct {
        size_t method_len;
        size_t args_len;
        size_t ref_count;
        tf_err err;
    } rows[] = {
        {TF_METHOD_MAX - 1, 0, 0, TF_OK},
        {TF_METHOD_MAX, 0, 0, TF_OK},
        {TF_METHOD_MAX + 1, 0, 0, TF_ERR_PEER_LIMIT},
        {70000, 0, 0, TF_ERR_PEER_LIMIT},
        {1, args_max - 1, 0, TF_OK},
        {1, args_max, 0, TF_OK},
        {1, args_max + 1, 0, TF_ERR_PEER_LIMIT},
        {1, 0, refs_max - 1, TF_OK},
        {1, 0, refs_max, TF_OK},
        {1, 0, refs_max + 1, TF_ERR_PEER_LIMIT},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_int_eq(read_sized(rows[i].method_len, rows[i].args_len, rows[i].ref_count), rows[i].err);
    }
}
END_TEST

/* A resolve with `objects` object resolutions, then a data one with those refs, then a rejection. */
static tf_err read_resolve(size_t objects, size_t ref_count, size_t rejection_len)
{
    tf_writer w = writer();
    tf_mp_wr_array(&w, 4);
    tf_mp_wr_uint(&w, TF_MESSAGE_RESOLVE);
    tf_mp_wr_nil(&w);
    tf_mp_wr_uint(&w, 0);
    tf_mp_wr_array(&w, objects + 2);
    for (size_t i = 0; i < objects; i++) {
        tf_message_write_resolution_object(&w, 2, 5);
    }
    tf_test_write_resolution(&w, 2, false, tf_slice_of(bytes, 0), many, ref_count);
    tf_mp_wr_array(&w, 4);
    tf_mp_wr_uint(&w, 2);
    tf_mp_wr_uint(&w, TF_RESOLUTION_REJECTION);
    tf_mp_wr_bin(&w, tf_slice_of(bytes, rejection_len));
    tf_mp_wr_array(&w, 0);
    tf_message message;
    return read_exact(written(&w), &message);
}

START_TEST(message_resolve_beyond_a_limit_is_refused)
{
    static const struct {
        size_t objects;
        size_t ref_count;
        size_t rejection_len;
        tf_err err;
    } rows[] = {
        {0, TF_REFS_PER_MESSAGE, TF_REJECTION_MAX - 1, TF_OK}, {0, 0, TF_REJECTION_MAX, TF_OK},
        {0, 0, TF_REJECTION_MAX + 1, TF_ERR_PEER_LIMIT},       {1, TF_REFS_PER_MESSAGE - 1, 0, TF_OK},
        {1, TF_REFS_PER_MESSAGE, 0, TF_ERR_PEER_LIMIT},        {TF_REFS_PER_MESSAGE - 2, 2, 0, TF_OK},
        {TF_REFS_PER_MESSAGE - 2, 3, 0, TF_ERR_PEER_LIMIT},    {TF_REFS_PER_MESSAGE - 1, 0, 0, TF_ERR_PEER_LIMIT},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_int_eq(read_resolve(rows[i].objects, rows[i].ref_count, rows[i].rejection_len), rows[i].err);
    }
}
END_TEST

/* A revoke of so many objects, the last one with those refs and an error of that length. */
static tf_err read_revoke(size_t objects, size_t ref_count, size_t error_len)
{
    tf_writer w = writer();
    tf_mp_wr_array(&w, 4);
    tf_mp_wr_uint(&w, TF_MESSAGE_REVOKE);
    tf_mp_wr_nil(&w);
    tf_mp_wr_uint(&w, 0);
    tf_mp_wr_array(&w, objects + 1);
    for (size_t i = 0; i < objects; i++) {
        tf_test_write_revocation(&w, 4, false, tf_slice_of(bytes, 0), NULL, 0);
    }
    tf_mp_wr_array(&w, 4);
    tf_mp_wr_uint(&w, 4);
    tf_mp_wr_uint(&w, 1);
    tf_mp_wr_bin(&w, tf_slice_of(bytes, error_len));
    tf_mp_wr_array(&w, ref_count);
    for (size_t i = 0; i < ref_count; i++) {
        tf_mp_wr_uint(&w, many[i]);
    }
    tf_message message;
    return read_exact(written(&w), &message);
}

START_TEST(message_revoke_beyond_a_limit_is_refused)
{
    ck_assert_int_eq(read_revoke(TF_REFS_PER_MESSAGE - 1, TF_REFS_PER_MESSAGE, TF_REJECTION_MAX), TF_OK);
    ck_assert_int_eq(read_revoke(TF_REFS_PER_MESSAGE, 0, 0), TF_ERR_PEER_LIMIT);
    ck_assert_int_eq(read_revoke(0, TF_REFS_PER_MESSAGE + 1, 0), TF_ERR_PEER_LIMIT);
    ck_assert_int_eq(read_revoke(0, 0, TF_REJECTION_MAX + 1), TF_ERR_PEER_LIMIT);
}
END_TEST

/* What is said of a size before the message is written is exact, for every width of every part. */
START_TEST(message_sizes_of_lines_are_exact)
{
    static const uint64_t numbers[] = {0, 31, 32, 63, 64, 16383, 16384, UINT32_MAX / 4, UINT32_MAX, UINT64_MAX / 4};
    static const size_t lens[] = {0, 1, 255, 256, TF_REJECTION_MAX, 65535, 65536, 70000};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        tf_ref promise = tf_ref_make(numbers[i], TF_REF_PROMISE, TF_SIDE_ACCEPTOR);
        tf_ref object = tf_ref_make(numbers[i], TF_REF_OBJECT, TF_SIDE_DIALLER);
        tf_writer w = writer();
        tf_message_write_resolution_object(&w, promise, object);
        ck_assert_uint_eq(tf_wr_len(&w), tf_message_resolution_object_len(promise, object));
        w = writer();
        tf_message_write_resolve_head(&w, numbers[i], numbers[9 - i], 15);
        ck_assert_uint_eq(tf_wr_len(&w), tf_message_list_head_len(numbers[i], numbers[9 - i]));
        for (size_t k = 0; k < sizeof(lens) / sizeof(lens[0]); k++) {
            tf_told told = {.ref = promise,
                            .mode = TF_RESOLUTION_DATA,
                            .data = tf_slice_of(bytes, lens[k]),
                            .refs = many,
                            .ref_count = 5 * k,
                            .hops = (uint32_t)i * 14};
            w = writer();
            tf_message_write_told(&w, &told);
            ck_assert_uint_eq(tf_wr_len(&w), tf_message_told_len(&told));
        }
        tf_told told = {.ref = object, .mode = 1, .data = tf_slice_of(bytes, 300), .refs = many, .ref_count = 17};
        w = writer();
        tf_message_write_told(&w, &told);
        ck_assert_uint_eq(tf_wr_len(&w), tf_message_told_len(&told));
    }
}
END_TEST

/* The worst case of every field: the bounds hold, and are not far from it. */
START_TEST(message_bounds_hold)
{
    tf_ref large[8];
    for (size_t i = 0; i < 8; i++) {
        large[i] = UINT64_MAX;
    }
    const tf_deliver deliver = {UINT64_MAX, {bytes, TF_METHOD_MAX}, {bytes, 70000}, large, 8, true, UINT64_MAX};
    tf_writer w = writer();
    tf_message_write_deliver(&w, UINT64_MAX, UINT64_MAX, &deliver);
    size_t bound = tf_message_deliver_bound(TF_METHOD_MAX, 70000, 8);
    ck_assert_uint_le(tf_wr_len(&w), bound);
    ck_assert_uint_ge(tf_wr_len(&w) + 16, bound);
    w = writer();
    tf_message_write_resolve_head(&w, UINT64_MAX, UINT64_MAX, 1);
    tf_test_write_resolution(&w, UINT64_MAX, false, tf_slice_of(bytes, 70000), large, 8);
    bound = tf_message_resolution_bound(70000, 8);
    ck_assert_uint_le(tf_wr_len(&w), bound);
    ck_assert_uint_ge(tf_wr_len(&w) + 16, bound);
}
END_TEST

START_TEST(message_without_room_marks_the_writer_full)
{
    const tf_deliver deliver = {1, {bytes, 3}, {bytes, 9}, many, 2, true, 2};
    tf_writer w = writer();
    tf_message_write_deliver(&w, 0, 0, &deliver);
    size_t len = tf_wr_len(&w);
    for (size_t cap = 1; cap <= len; cap++) {
        uint8_t *room = tf_test_exact(tf_slice_of(bytes, cap));
        tf_wr_init(&w, room, cap);
        tf_message_write_deliver(&w, 0, 0, &deliver);
        ck_assert_int_eq(tf_wr_ok(&w), cap == len);
        free(room);
    }
}
END_TEST

/* How far a resolution has come is 1 to 127 where it is told at all (D13). */
START_TEST(message_hops_beyond_their_bounds_are_malformed)
{
    static const struct {
        uint8_t hops[2]; /* as MessagePack */
        size_t len;
        tf_err err;
    } rows[] = {{{0x01}, 1, TF_OK},
                {{TF_HOPS_WIRE_MAX}, 1, TF_OK},
                {{0x00}, 1, TF_ERR_PEER_SYNTAX},
                {{0xcc, TF_HOPS_WIRE_MAX + 1}, 2, TF_ERR_PEER_SYNTAX},
                {{0xff}, 1, TF_ERR_PEER_SYNTAX}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t line[64];
        tf_writer w;
        tf_message m;
        tf_told told = {.ref = tf_ref_make(1, TF_REF_PROMISE, TF_SIDE_DIALLER),
                        .mode = TF_RESOLUTION_DATA,
                        .data = tf_slice_str("x"),
                        .hops = 1};
        tf_wr_init(&w, line, sizeof(line));
        tf_message_write_resolve_head(&w, 0, 0, 1);
        tf_message_write_told(&w, &told);
        size_t len = tf_wr_len(&w) - 1; /* less the hops */
        memcpy(line + len, rows[i].hops, rows[i].len);
        ck_assert_int_eq(tf_message_read(tf_slice_of(line, len + rows[i].len), &m), rows[i].err);
    }
}
END_TEST

int main(void)
{
    message_room_init();
    const TTest *const tests[] = {
        message_deliver_beyond_a_limit_is_refused,
        message_resolve_beyond_a_limit_is_refused,
        message_revoke_beyond_a_limit_is_refused,
        message_sizes_of_lines_are_exact,
        message_bounds_hold,
        message_without_room_marks_the_writer_full,
        message_hops_beyond_their_bounds_are_malformed,
        NULL,
    };
    return tf_test_run("proto/message limits", tests);
}
