/* proto/mp: the shape check against msgpack-c, and typed reads of bytes that nobody checked.
 * Input: depth, items (2), the number of typed reads and the reads, then MessagePack. */
#include <msgpack.h>
#include <stdlib.h>

#include "proto/mp.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/support.h"

/* Reads the value at r with the typed reads and writes it in its shortest form. False for a float, which has none. */
static bool copy_one(tf_reader *r, tf_writer *w)
{
    switch (tf_mp_peek(r)) {
    case TF_MP_NIL:
        tf_mp_rd_nil(r);
        tf_mp_wr_nil(w);
        return true;
    case TF_MP_BOOL:
        tf_mp_wr_bool(w, tf_mp_rd_bool(r));
        return true;
    case TF_MP_UINT:
        tf_mp_wr_uint(w, tf_mp_rd_uint(r));
        return true;
    case TF_MP_INT:
        tf_mp_wr_int(w, tf_mp_rd_int(r));
        return true;
    case TF_MP_STR:
        tf_mp_wr_str(w, tf_mp_rd_str(r, SIZE_MAX));
        return true;
    case TF_MP_BIN:
        tf_mp_wr_bin(w, tf_mp_rd_bin(r, SIZE_MAX));
        return true;
    case TF_MP_ARRAY:
        tf_mp_wr_array(w, tf_mp_rd_array(r, SIZE_MAX));
        return true;
    case TF_MP_MAP:
        tf_mp_wr_map(w, tf_mp_rd_map(r, SIZE_MAX));
        return true;
    case TF_MP_FLOAT:
        TF_ASSERT(tf_mp_rd_raw(r).len >= 5);
        return false;
    case TF_MP_END:
        break;
    }
    TF_UNREACHABLE();
}

/* What passed the check is one value to msgpack-c, to the last byte, and the same value. */
static void assert_same_as_oracle(tf_slice in)
{
    msgpack_unpacked unpacked;
    size_t offset = 0;
    msgpack_unpacked_init(&unpacked);
    TF_ASSERT(msgpack_unpack_next(&unpacked, (const char *)in.data, in.len, &offset) == MSGPACK_UNPACK_SUCCESS);
    TF_ASSERT(in.len > 0 && offset == in.len);
    uint8_t *ours = malloc(in.len);
    TF_ASSERT(ours != NULL);
    bool comparable = true;
    tf_reader r;
    tf_writer w;
    tf_rd_init(&r, in);
    tf_wr_init(&w, ours, in.len); /* the shortest form is not longer */
    while (tf_rd_left(&r) > 0) {
        comparable = copy_one(&r, &w) && comparable;
    }
    TF_ASSERT(tf_rd_end(&r) == TF_OK && tf_wr_ok(&w));
    if (comparable) {
        msgpack_sbuffer theirs;
        msgpack_sbuffer_init(&theirs);
        msgpack_packer packer;
        msgpack_packer_init(&packer, &theirs, msgpack_sbuffer_write);
        TF_ASSERT(msgpack_pack_object(&packer, unpacked.data) == 0);
        TF_ASSERT(tf_slice_eq(tf_slice_of(theirs.data, theirs.size), tf_slice_of(ours, tf_wr_len(&w))));
        msgpack_sbuffer_destroy(&theirs);
    }
    free(ours);
    msgpack_unpacked_destroy(&unpacked);
}

/* One read of any type, whatever is there. */
static void read_any(tf_reader *r, uint8_t what)
{
    size_t max = what >> 3;
    switch (what & 7) {
    case 0:
        (void)tf_mp_rd_uint(r);
        return;
    case 1:
        (void)tf_mp_rd_int(r);
        return;
    case 2:
        TF_ASSERT(tf_mp_rd_str(r, max).len <= max);
        return;
    case 3:
        TF_ASSERT(tf_mp_rd_bin(r, max).len <= max);
        return;
    case 4:
        TF_ASSERT(tf_mp_rd_array(r, max) <= max);
        return;
    case 5:
        TF_ASSERT(tf_mp_rd_map(r, max) <= max);
        return;
    case 6:
        tf_mp_skip(r);
        return;
    default:
        (void)tf_utf8_is_valid(tf_mp_rd_raw(r));
        return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tf_slice input = tf_slice_of(data, size);
    size_t depth = tf_fuzz_u8(&input) % (TF_MP_DEPTH_MAX + 1);
    size_t items = tf_fuzz_u8(&input);
    items = items << 8 | tf_fuzz_u8(&input);
    tf_slice reads = tf_fuzz_bytes(&input, tf_fuzz_u8(&input) & 15);
    uint8_t *exact = tf_test_exact(input);
    tf_slice bytes = tf_slice_of(exact, input.len);

    tf_reader r;
    tf_rd_init(&r, bytes);
    while (reads.len > 0) {
        size_t before = tf_rd_left(&r);
        read_any(&r, tf_fuzz_u8(&reads));
        TF_ASSERT(tf_rd_left(&r) <= before && (tf_rd_ok(&r) || tf_rd_left(&r) == 0));
    }
    if (tf_mp_check(bytes, depth, items) == TF_OK) {
        TF_ASSERT(tf_mp_check(bytes, TF_MP_DEPTH_MAX, TF_MP_ITEMS_MAX) == TF_OK);
        assert_same_as_oracle(bytes);
    }
    free(exact);
    return 0;
}
