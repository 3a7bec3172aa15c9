/* proto/message: rules M1 to M6, with msgpack-c as the oracle. */
#include <msgpack.h>
#include <stdlib.h>

#include "proto/message.h"
#include "proto/mp.h"
#include "tests/support/check_main.h"
#include "tests/support/message_lines.h"
#include "tests/support/support.h"
#include "tests/unit/message_room.h"

static tf_err read_hex(const char *hex)
{
    uint8_t buf[256];
    tf_message message;
    return read_exact(tf_slice_of(buf, tf_test_unhex(hex, buf, sizeof(buf))), &message);
}

/* --- ours, read by msgpack-c --- */

static void assert_uint(const msgpack_object *object, uint64_t want)
{
    ck_assert_int_eq(object->type, MSGPACK_OBJECT_POSITIVE_INTEGER);
    ck_assert_uint_eq(object->via.u64, want);
}

static void assert_refs(const msgpack_object *object, const tf_ref *refs, size_t count)
{
    ck_assert_int_eq(object->type, MSGPACK_OBJECT_ARRAY);
    ck_assert_uint_eq(object->via.array.size, count);
    for (size_t i = 0; i < count; i++) {
        assert_uint(&object->via.array.ptr[i], refs[i]);
    }
}

static void assert_bin(const msgpack_object *object, tf_slice want)
{
    ck_assert_int_eq(object->type, MSGPACK_OBJECT_BIN);
    ck_assert(tf_slice_eq(tf_slice_of(object->via.bin.ptr, object->via.bin.size), want));
}

/* Unpacks a message; gives its fields after the three of every message. */
static const msgpack_object *unpack(msgpack_unpacked *unpacked, tf_slice in, uint64_t kind, size_t fields)
{
    size_t offset = 0;
    msgpack_unpacked_init(unpacked);
    ck_assert_int_eq(msgpack_unpack_next(unpacked, (const char *)in.data, in.len, &offset), MSGPACK_UNPACK_SUCCESS);
    ck_assert_uint_eq(offset, in.len);
    ck_assert_int_eq(unpacked->data.type, MSGPACK_OBJECT_ARRAY);
    ck_assert_uint_eq(unpacked->data.via.array.size, fields);
    const msgpack_object *field = unpacked->data.via.array.ptr;
    assert_uint(&field[0], kind);
    assert_uint(&field[1], 1000);
    assert_uint(&field[2], 3);
    return &field[3];
}

static tf_deliver random_deliver(tf_test_random *random)
{
    return (tf_deliver){
        .target = tf_test_random_u64(random) >> tf_test_random_below(random, 64),
        .method = {(const uint8_t *)"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                   1 + tf_test_random_below(random, TF_METHOD_MAX)},
        .args = {bytes, tf_test_random_below(random, 400)},
        .refs = many,
        .ref_count = tf_test_random_below(random, 40),
        .has_result = tf_test_random_chance(random, 1, 2),
        .result = tf_ref_make(tf_test_random_u64(random) >> tf_test_random_below(random, 64), TF_REF_PROMISE,
                              TF_SIDE_ACCEPTOR),
    };
}

START_TEST(message_deliver_written_is_read_by_msgpack_c)
{
    tf_test_random random;
    tf_test_random_init(&random, 1);
    for (int i = 0; i < 500; i++) {
        tf_deliver deliver = random_deliver(&random);
        tf_writer w = writer();
        tf_message_write_deliver(&w, 1000, 3, &deliver);
        msgpack_unpacked unpacked;
        const msgpack_object *field = unpack(&unpacked, written(&w), TF_MESSAGE_DELIVER, 8);
        assert_uint(&field[0], deliver.target);
        ck_assert_int_eq(field[1].type, MSGPACK_OBJECT_STR);
        ck_assert(tf_slice_eq(tf_slice_of(field[1].via.str.ptr, field[1].via.str.size), deliver.method));
        assert_bin(&field[2], deliver.args);
        assert_refs(&field[3], many, deliver.ref_count);
        if (deliver.has_result) {
            assert_uint(&field[4], deliver.result);
        } else {
            ck_assert_int_eq(field[4].type, MSGPACK_OBJECT_NIL);
        }
        msgpack_unpacked_destroy(&unpacked);
        ck_assert_uint_le(tf_wr_len(&w),
                          tf_message_deliver_bound(deliver.method.len, deliver.args.len, deliver.ref_count));
    }
}
END_TEST

START_TEST(message_resolve_written_is_read_by_msgpack_c)
{
    for (size_t count = 0; count <= 40; count++) {
        tf_writer w = writer();
        tf_message_write_resolve_head(&w, 1000, 3, 3);
        tf_message_write_resolution_object(&w, 2, 5);
        tf_test_write_resolution(&w, 6, false, tf_slice_of(bytes, count * 10), many, count);
        tf_test_write_resolution(&w, 10, true, tf_slice_of(bytes, count * 100), many, count);
        msgpack_unpacked unpacked;
        const msgpack_object *field = unpack(&unpacked, written(&w), TF_MESSAGE_RESOLVE, 4);
        ck_assert_uint_eq(field[0].via.array.size, 3);
        const msgpack_object *resolution = field[0].via.array.ptr;
        ck_assert_uint_eq(resolution[0].via.array.size, 3);
        assert_uint(&resolution[0].via.array.ptr[0], 2);
        assert_uint(&resolution[0].via.array.ptr[1], TF_RESOLUTION_OBJECT);
        assert_uint(&resolution[0].via.array.ptr[2], 5);
        for (size_t i = 1; i < 3; i++) {
            ck_assert_uint_eq(resolution[i].via.array.size, 4);
            assert_uint(&resolution[i].via.array.ptr[0], 4 * i + 2);
            assert_uint(&resolution[i].via.array.ptr[1], i);
            assert_bin(&resolution[i].via.array.ptr[2], tf_slice_of(bytes, count * (i == 1 ? 10 : 100)));
            assert_refs(&resolution[i].via.array.ptr[3], many, count);
        }
        msgpack_unpacked_destroy(&unpacked);
    }
}
END_TEST

START_TEST(message_revoke_written_is_read_by_msgpack_c)
{
    for (size_t count = 0; count <= 40; count++) {
        tf_writer w = writer();
        tf_message_write_revoke_head(&w, 1000, 3, 2);
        tf_test_write_revocation(&w, 4, false, tf_slice_of(bytes, count * 10), many, count);
        tf_test_write_revocation(&w, 8, true, tf_slice_of(bytes, count * 100), many, count);
        msgpack_unpacked unpacked;
        const msgpack_object *field = unpack(&unpacked, written(&w), TF_MESSAGE_REVOKE, 4);
        ck_assert_uint_eq(field[0].via.array.size, 2);
        const msgpack_object *revocation = field[0].via.array.ptr;
        for (size_t i = 0; i < 2; i++) {
            ck_assert_uint_eq(revocation[i].via.array.size, 4);
            assert_uint(&revocation[i].via.array.ptr[0], 4 * i + 4);
            assert_uint(&revocation[i].via.array.ptr[1], i);
            assert_bin(&revocation[i].via.array.ptr[2], tf_slice_of(bytes, count * (i == 0 ? 10 : 100)));
            assert_refs(&revocation[i].via.array.ptr[3], many, count);
        }
        msgpack_unpacked_destroy(&unpacked);
    }
}
END_TEST

START_TEST(message_drop_and_ack_written_are_read_by_msgpack_c)
{
    tf_writer w = writer();
    tf_message_write_drop(&w, 1000, 3, many, TF_REFS_PER_MESSAGE);
    msgpack_unpacked unpacked;
    const msgpack_object *field = unpack(&unpacked, written(&w), TF_MESSAGE_DROP, 4);
    assert_refs(&field[0], many, TF_REFS_PER_MESSAGE);
    msgpack_unpacked_destroy(&unpacked);
    w = writer();
    tf_message_write_ack(&w, 1000, 3);
    (void)unpack(&unpacked, written(&w), TF_MESSAGE_ACK, 3);
    msgpack_unpacked_destroy(&unpacked);
}
END_TEST

/* --- msgpack-c's, read by ours --- */

static void pack_uint(msgpack_packer *pk, uint64_t value, size_t width)
{
    int err = width == 0   ? msgpack_pack_uint64(pk, value)
              : width == 4 ? msgpack_pack_fix_uint32(pk, (uint32_t)value)
                           : msgpack_pack_fix_uint64(pk, value);
    ck_assert_int_eq(err, 0);
}

static void pack_deliver(msgpack_packer *pk, const tf_deliver *deliver, bool number, size_t width)
{
    ck_assert_int_eq(msgpack_pack_array(pk, 8), 0);
    pack_uint(pk, TF_MESSAGE_DELIVER, width);
    if (number) {
        pack_uint(pk, 1000, width);
    } else {
        ck_assert_int_eq(msgpack_pack_nil(pk), 0);
    }
    pack_uint(pk, 3, width);
    pack_uint(pk, deliver->target, 0);
    ck_assert_int_eq(msgpack_pack_str(pk, deliver->method.len), 0);
    ck_assert_int_eq(msgpack_pack_str_body(pk, deliver->method.data, deliver->method.len), 0);
    ck_assert_int_eq(msgpack_pack_bin(pk, deliver->args.len), 0);
    ck_assert_int_eq(msgpack_pack_bin_body(pk, deliver->args.data, deliver->args.len), 0);
    ck_assert_int_eq(msgpack_pack_array(pk, deliver->ref_count), 0);
    for (size_t i = 0; i < deliver->ref_count; i++) {
        pack_uint(pk, deliver->refs[i], width == 4 ? 0 : width);
    }
    if (deliver->has_result) {
        pack_uint(pk, deliver->result, 0);
    } else {
        ck_assert_int_eq(msgpack_pack_nil(pk), 0);
    }
}

static void assert_deliver(const tf_message *got, const tf_deliver *want)
{
    ck_assert_int_eq((int)got->kind, TF_MESSAGE_DELIVER);
    ck_assert_uint_eq(got->number, got->has_number ? 1000 : 0);
    ck_assert_uint_eq(got->ack_delta, 3);
    ck_assert_uint_eq(got->target, want->target);
    ck_assert(tf_slice_eq(got->method, want->method));
    ck_assert(tf_slice_eq(got->args, want->args));
    ck_assert_int_eq(got->has_result, want->has_result);
    ck_assert_uint_eq(got->result, want->has_result ? want->result : 0);
    ck_assert_uint_eq(got->refs.count, want->ref_count);
    tf_ref_list list = got->refs;
    tf_ref ref = 0;
    for (size_t i = 0; i < want->ref_count; i++) {
        ck_assert(tf_refs_next(&list, &ref));
        ck_assert_uint_eq(ref, want->refs[i]);
    }
    ck_assert(!tf_refs_next(&list, &ref));
    ck_assert_uint_eq(list.wire.len, 0);
}

START_TEST(message_deliver_of_msgpack_c_is_read)
{
    static const size_t widths[] = {0, 4, 8};
    tf_test_random random;
    tf_test_random_init(&random, 2);
    msgpack_sbuffer sb;
    msgpack_sbuffer_init(&sb);
    for (size_t i = 0; i < 500; i++) {
        tf_deliver deliver = random_deliver(&random);
        msgpack_packer pk;
        msgpack_sbuffer_clear(&sb);
        msgpack_packer_init(&pk, &sb, msgpack_sbuffer_write);
        bool number = tf_test_random_chance(&random, 1, 2);
        pack_deliver(&pk, &deliver, number, widths[i % 3]);
        tf_message message;
        ck_assert_int_eq(tf_message_read(tf_slice_of(sb.data, sb.size), &message), TF_OK);
        ck_assert_int_eq(message.has_number, number);
        assert_deliver(&message, &deliver);
    }
    msgpack_sbuffer_destroy(&sb);
}
END_TEST

START_TEST(message_resolve_comes_back)
{
    tf_writer w = writer();
    tf_message_write_resolve_head(&w, 7, UINT64_MAX, 3);
    tf_message_write_resolution_object(&w, 2, 5);
    tf_test_write_resolution(&w, 6, false, tf_slice_of("data", 4), many, 2);
    tf_test_write_resolution(&w, UINT64_MAX, true, tf_slice_of("", 0), NULL, 0);
    tf_message message;
    ck_assert_int_eq(tf_message_read(written(&w), &message), TF_OK);
    ck_assert_int_eq((int)message.kind, TF_MESSAGE_RESOLVE);
    ck_assert_uint_eq(message.ack_delta, UINT64_MAX);
    ck_assert_uint_eq(message.resolutions.count, 3);
    tf_resolution resolution;
    ck_assert(tf_resolutions_next(&message.resolutions, &resolution));
    ck_assert_uint_eq(resolution.promise, 2);
    ck_assert_int_eq((int)resolution.kind, TF_RESOLUTION_OBJECT);
    ck_assert_uint_eq(resolution.object, 5);
    ck_assert(tf_resolutions_next(&message.resolutions, &resolution));
    ck_assert_uint_eq(resolution.promise, 6);
    ck_assert_int_eq((int)resolution.kind, TF_RESOLUTION_DATA);
    ck_assert(tf_slice_eq(resolution.data, tf_slice_of("data", 4)));
    ck_assert_uint_eq(resolution.refs.count, 2);
    tf_ref ref = 0;
    ck_assert(tf_refs_next(&resolution.refs, &ref));
    ck_assert_uint_eq(ref, many[0]);
    ck_assert(tf_resolutions_next(&message.resolutions, &resolution));
    ck_assert_uint_eq(resolution.promise, UINT64_MAX);
    ck_assert_int_eq((int)resolution.kind, TF_RESOLUTION_REJECTION);
    ck_assert_uint_eq(resolution.data.len + resolution.refs.count, 0);
    ck_assert(!tf_resolutions_next(&message.resolutions, &resolution));
}
END_TEST

START_TEST(message_revoke_comes_back)
{
    tf_writer w = writer();
    tf_message_write_revoke_head(&w, 7, 9, 2);
    tf_test_write_revocation(&w, 4, true, tf_slice_of("gone", 4), many, 2);
    tf_test_write_revocation(&w, UINT64_MAX - 2, false, tf_slice_of("", 0), NULL, 0);
    tf_message message;
    ck_assert_int_eq(tf_message_read(written(&w), &message), TF_OK);
    ck_assert_int_eq((int)message.kind, TF_MESSAGE_REVOKE);
    ck_assert_uint_eq(message.revocations.count, 2);
    ck_assert_uint_eq(message.resolutions.count, 0);
    tf_revoked revoked;
    ck_assert(tf_revocations_next(&message.revocations, &revoked));
    ck_assert_uint_eq(revoked.object, 4);
    ck_assert(revoked.hard);
    ck_assert(tf_slice_eq(revoked.data, tf_slice_of("gone", 4)));
    ck_assert_uint_eq(revoked.refs.count, 2);
    tf_ref ref = 0;
    ck_assert(tf_refs_next(&revoked.refs, &ref));
    ck_assert_uint_eq(ref, many[0]);
    ck_assert(tf_revocations_next(&message.revocations, &revoked));
    ck_assert_uint_eq(revoked.object, UINT64_MAX - 2);
    ck_assert(!revoked.hard);
    ck_assert_uint_eq(revoked.data.len + revoked.refs.count, 0);
    ck_assert(!tf_revocations_next(&message.revocations, &revoked));
    ck_assert_uint_eq(message.revocations.wire.len, 0);
}
END_TEST

/* --- what is refused --- */

static const char *const malformed[] = {
    "",
    "c0",
    "05",
    "80",
    "90",
    "91 05",
    "92 05 00",
    "c4 03 930500", /* no array of three or more */
    "94 05 00 00 00",
    "93 01 00 00",
    "93 04 00 00",
    "94 04 00 00 90", /* a wrong count, revoke */
    "93 00 00 00",
    "93 06 00 00",
    "93 cf ffffffffffffffff 00 00",
    "93 c0 00 00",
    "93 a1 35 00 00",
    "93 05 ff 00",
    "93 05 00 ff",
    "93 05 00 c0",
    "93 05 c3 00",
    "93 05 a0 00", /* number, ack-delta */
    "93 05 00 00 00",
    "93 05 00", /* left over, cut off */
    "94 03 00 00 90",
    "94 03 00 00 05",
    "94 03 00 00 91 ff",
    "94 03 00 00 91 c0",
    "94 03 00 00 91 91 05",
    "94 03 00 00 81 00 00",
    "94 03 00 00 dd 7fffffff",
    "94 03 00 00 dd ffffffff 05",
    "98 01 00 00 02 a1 61 c4 00 90", /* deliver: cut off */
    "98 01 00 00 c0 a1 61 c4 00 90 c0",
    "98 01 00 00 02 a0 c4 00 90 c0",
    "98 01 00 00 02 c4 01 61 c4 00 90 c0",
    "98 01 00 00 02 a1 80 c4 00 90 c0", /* a method that is not UTF-8 */
    "98 01 00 00 02 a1 61 a0 90 c0",
    "98 01 00 00 02 a1 61 c0 90 c0",
    "98 01 00 00 02 a1 61 c4 00 c0 c0",
    "98 01 00 00 02 a1 61 c4 00 90 05",
    "98 01 00 00 02 a1 61 c4 00 90 ff",
    "98 01 00 00 02 a1 61 c4 00 90 c2",
    "94 02 00 00 90",
    "94 02 00 00 91 90",
    "94 02 00 00 91 92 02 00",
    "94 02 00 00 91 94 02 00 05 90",
    "94 02 00 00 91 93 02 00 02", /* a promise is no object */
    "94 02 00 00 91 93 05 00 05",
    "94 02 00 00 91 94 05 01 c4 00 90", /* an object is no promise */
    "94 02 00 00 91 94 02 03 c4 00 90",
    "94 02 00 00 91 93 02 01 c4 00",
    "94 02 00 00 91 94 02 01 a0 90",
    "94 02 00 00 91 94 02 01 c4 00 91",
    "94 02 00 00 91 94 02 01 c4 00 91 c0",
    "94 02 00 00 91 94 02 01 c4 00 91 91 00",
    "94 02 00 00 92 93 02 00 05",
    "94 02 00 00 c0",
    "94 04 00 00 c0", /* revoke */
    "94 04 00 00 91 90",
    "94 04 00 00 91 93 04 00 c4 00",
    "94 04 00 00 91 94 02 00 c4 00 90", /* a promise is not revoked */
    "94 04 00 00 91 94 04 02 c4 00 90",
    "94 04 00 00 91 94 04 c2 c4 00 90",
    "94 04 00 00 91 94 04 00 a0 90",
    "94 04 00 00 91 94 04 00 c4 00 91",
    "94 04 00 00 91 94 04 00 c4 00 91 c0",
    "94 04 00 00 92 94 04 00 c4 00 90",
};

START_TEST(message_malformed_is_refused)
{
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        ck_assert_msg(read_hex(malformed[i]) == TF_ERR_PEER_SYNTAX, "%s", malformed[i]);
    }
}
END_TEST

START_TEST(message_smallest_of_each_kind_are_read)
{
    static const char *const rows[] = {
        "93 05 00 00",
        "93 05 c0 00",
        "dc 0003 05 c0 00",
        "93 d0 05 d1 0000 cf ffffffffffffffff",
        "94 03 c0 00 91 05",
        "98 01 00 00 05 a1 61 c4 00 90 c0",
        "98 01 c0 00 02 a1 61 c4 00 91 02 02",
        "94 02 00 00 91 93 02 00 05",
        "94 02 00 00 91 94 02 01 c4 00 90",
        "94 02 00 00 91 94 02 02 c4 00 91 02",
        "94 04 c0 00 91 94 04 00 c4 00 90",
        "94 04 00 00 91 94 05 01 c4 00 91 02",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(read_hex(rows[i]) == TF_OK, "%s", rows[i]);
    }
}
END_TEST

START_TEST(message_cut_anywhere_is_refused)
{
    tf_test_random random;
    tf_test_random_init(&random, 3);
    for (int i = 0; i < 20; i++) {
        tf_deliver deliver = random_deliver(&random);
        tf_writer w = writer();
        tf_message_write_deliver(&w, 1, 2, &deliver);
        size_t len = tf_wr_len(&w);
        tf_message message = {.number = 99};
        for (size_t cut = 0; cut < len; cut++) {
            ck_assert_int_eq(read_exact(tf_slice_of(out, cut), &message), TF_ERR_PEER_SYNTAX);
        }
        tf_wr_u8(&w, 0);
        ck_assert_int_eq(read_exact(written(&w), &message), TF_ERR_PEER_SYNTAX);
        ck_assert_uint_eq(message.number, 99); /* untouched */
    }
}
END_TEST

int main(void)
{
    message_room_init();
    const TTest *const tests[] = {
        message_deliver_written_is_read_by_msgpack_c,
        message_resolve_written_is_read_by_msgpack_c,
        message_revoke_written_is_read_by_msgpack_c,
        message_drop_and_ack_written_are_read_by_msgpack_c,
        message_deliver_of_msgpack_c_is_read,
        message_resolve_comes_back,
        message_revoke_comes_back,
        message_malformed_is_refused,
        message_smallest_of_each_kind_are_read,
        message_cut_anywhere_is_refused,
        NULL,
    };
    return tf_test_run("proto/message", tests);
}
