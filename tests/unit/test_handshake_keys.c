/* handshake/keys: packets, replays, forgeries. */
#include <string.h>

#include "tests/unit/keys_ends.h"

#define PLAIN_MAX TF_PACKET_PLAIN_MAX

/* -- packets ------------------------------------------------------------------------------------------------------- */

static void carry(tf_keys *from, tf_keys *to, uint64_t pn, size_t len)
{
    uint8_t buf[TF_PACKET_MAX];
    uint8_t *plain = buf + TF_PACKET_HEADER; /* sealed and opened in place */
    tf_opened opened;
    memset(plain, (int)pn, len);
    ck_assert_int_eq(tf_keys_seal(from, 0, pn, tf_slice_of(plain, len), buf, sizeof(buf)), TF_OK);
    tf_slice wire = tf_slice_of(buf, len + TF_PACKET_OVERHEAD);
    ck_assert_int_eq(tf_keys_open(to, 0, wire, plain, len, &opened), TF_OK);
    ck_assert_uint_eq(opened.pn, pn);
    ck_assert(opened.newest);
    ck_assert_uint_eq(opened.plain.len, len);
    for (size_t i = 0; i < len; i++) {
        ck_assert_uint_eq(opened.plain.data[i], (uint8_t)pn);
    }
}

START_TEST(keys_packets_of_every_size_go_both_ways)
{
    static const size_t sizes[] = {1, 2, 15, 16, 17, 255, 256, PLAIN_MAX - 1, PLAIN_MAX};
    uint8_t secret[TF_KEYS_SECRET_LEN] = {9};
    for (int cipher = 0; cipher < 2; cipher++) {
        tf_keys *ends[2] = {NULL, NULL};
        for (int end = 0; end < 2; end++) {
            tf_keys_params params = params_of(end == 0, (tf_keys_limits){0});
            params.cipher = (tf_cipher)cipher;
            ck_assert_int_eq(tf_keys_new_from_secret(&ends[end], secret, &params, tf_test_mem(), 0), TF_OK);
        }
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            carry(ends[0], ends[1], i, sizes[i]);
            carry(ends[1], ends[0], i, sizes[i]);
        }
        tf_keys_free(ends[0]);
        tf_keys_free(ends[1]);
    }
}
END_TEST

START_TEST(keys_no_room_is_an_error_and_changes_nothing)
{
    tf_keys *a = keys_of(true, (tf_keys_limits){0});
    tf_keys *b = keys_of(false, (tf_keys_limits){0});
    uint8_t buf[64];
    tf_slice plain = tf_slice_str("12345");
    const size_t need = 5 + TF_PACKET_OVERHEAD;
    ck_assert_int_eq(tf_keys_seal(a, 0, 0, plain, buf, need - 1), TF_ERR_LIMIT_BYTES);
    ck_assert_int_eq(tf_keys_seal(a, 0, 0, plain, buf, 0), TF_ERR_LIMIT_BYTES);
    ck_assert_int_eq(tf_keys_seal(a, 0, 0, plain, buf, need), TF_OK);
    uint8_t out[5];
    tf_opened opened;
    ck_assert_int_eq(tf_keys_open(b, 0, tf_slice_of(buf, need), out, 4, &opened), TF_ERR_LIMIT_BYTES);
    ck_assert_int_eq(tf_keys_open(b, 0, tf_slice_of(buf, need), out, 5, &opened), TF_OK);
    tf_keys_free(a);
    tf_keys_free(b);
}
END_TEST

START_TEST(keys_number_is_rebuilt_from_32_bits)
{
    static const struct {
        uint64_t newest; /* opened before, by steps */
        uint64_t pn;
    } rows[] = {{0, 1},
                {0, 0x7fffffff},
                {0x7fffffff, 0xfffffffe},
                {0xffffffff, 0x100000000},
                {0x100000002, 0xffffffff}, /* late, across the wrap */
                {0x17fffffff, 0x1fffffffe}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_keys *twin = keys_of(true, (tf_keys_limits){0}); /* so that numbers may also go down */
        tf_keys *a = keys_of(true, (tf_keys_limits){0});
        tf_keys *b = keys_of(false, (tf_keys_limits){0});
        tf_opened opened;
        packet p;
        for (uint64_t pn = 0; pn < rows[i].newest; pn += 0x70000000) {
            p = seal(a, 0, pn);
            ck_assert_int_eq(open_only(b, 0, &p), TF_OK);
        }
        p = seal(a, 0, rows[i].newest);
        ck_assert_int_eq(open_only(b, 0, &p), TF_OK);
        p = seal(twin, 0, rows[i].pn);
        ck_assert_int_eq(open_at(b, 0, &p, &opened), TF_OK);
        ck_assert_uint_eq(opened.pn, rows[i].pn);
        ck_assert_int_eq(opened.newest, rows[i].pn > rows[i].newest);
        tf_keys_free(twin);
        tf_keys_free(a);
        tf_keys_free(b);
    }
}
END_TEST

START_TEST(keys_repeated_or_late_packet_is_refused)
{
    tf_keys *a = keys_of(true, (tf_keys_limits){0});
    tf_keys *b = keys_of(false, (tf_keys_limits){0});
    packet early = seal(a, 0, 0);
    packet first = seal(a, 0, 1);
    packet newest = seal(a, 0, TF_REPLAY_WINDOW);
    ck_assert_int_eq(open_only(b, 0, &newest), TF_OK);
    ck_assert_int_eq(open_only(b, 0, &newest), TF_ERR_PEER_REPLAY);
    ck_assert_int_eq(open_only(b, 0, &first), TF_OK); /* the oldest in the window */
    ck_assert_int_eq(open_only(b, 0, &first), TF_ERR_PEER_REPLAY);
    ck_assert_int_eq(open_only(b, 0, &early), TF_ERR_PEER_REPLAY);
    ck_assert_uint_eq(stats_of(b).replayed, 3);
    ck_assert_uint_eq(stats_of(b).opened, 2);
    ck_assert_uint_eq(stats_of(b).forged, 0);
    tf_keys_free(a);
    tf_keys_free(b);
}
END_TEST

static uint64_t refusals(const tf_keys *keys)
{
    tf_keys_stats stats = stats_of(keys);
    return stats.malformed + stats.replayed + stats.misphased + stats.forged;
}

START_TEST(keys_damaged_packet_moves_a_counter_only)
{
    tf_keys *a = keys_of(true, (tf_keys_limits){0});
    tf_keys *b = keys_of(false, (tf_keys_limits){0});
    packet good = seal(a, 0, 0);
    for (size_t bit = 0; bit < 8 * good.len; bit++) {
        packet bad = good;
        tf_opened opened = {.pn = 77};
        bad.bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        tf_err err = open_at(b, 0, &bad, &opened);
        ck_assert(err == TF_ERR_PEER_SYNTAX || err == TF_ERR_PEER_AUTH || err == TF_ERR_PEER_STATE);
        ck_assert_uint_eq(opened.pn, 77);
        ck_assert_uint_eq(refusals(b), bit + 1);
    }
    ck_assert_uint_eq(stats_of(b).opened, 0);
    ck_assert_uint_eq(stats_of(b).receive_phase, 0);
    ck_assert_uint_eq(tf_keys_deadline(b), TF_NEVER);
    ck_assert_int_eq(open_only(b, 0, &good), TF_OK);
    tf_keys_free(a);
    tf_keys_free(b);
}
END_TEST

START_TEST(keys_packet_with_other_flags_is_not_of_this_protocol)
{
    tf_keys *a = keys_of(true, (tf_keys_limits){0});
    tf_keys *b = keys_of(false, (tf_keys_limits){0});
    packet good = seal(a, 0, 0);
    for (unsigned flags = 0; flags < 256; flags++) {
        packet bad = good;
        uint64_t cid = 0;
        bad.bytes[0] = (uint8_t)flags;
        bool fits = flags >= 0x40 && flags <= 0x43;
        ck_assert_int_eq(tf_keys_packet_connection_id(tf_slice_of(bad.bytes, bad.len), &cid), fits);
        if (!fits) {
            ck_assert_int_eq(open_only(b, 0, &bad), TF_ERR_PEER_SYNTAX);
        }
    }
    ck_assert_uint_eq(stats_of(b).malformed, 252);
    tf_keys_free(a);
    tf_keys_free(b);
}
END_TEST

START_TEST(keys_truncated_or_longer_packet_is_refused)
{
    tf_keys *a = keys_of(true, (tf_keys_limits){0});
    tf_keys *b = keys_of(false, (tf_keys_limits){0});
    packet good = seal(a, 0, 0);
    uint64_t cid = 0;
    for (size_t len = 0; len < good.len; len++) {
        packet bad = good;
        bad.len = len;
        tf_err err = open_only(b, 0, &bad);
        ck_assert_int_eq(err, len < TF_PACKET_MIN ? TF_ERR_PEER_SYNTAX : TF_ERR_PEER_AUTH);
        ck_assert_int_eq(tf_keys_packet_connection_id(tf_slice_of(bad.bytes, len), &cid), len >= TF_PACKET_MIN);
    }
    ck_assert_uint_eq(cid, ACCEPTOR_CID);
    packet longer = good;
    longer.bytes[longer.len++] = 0;
    ck_assert_int_eq(open_only(b, 0, &longer), TF_ERR_PEER_AUTH);
    ck_assert_int_eq(open_only(b, 0, &good), TF_OK);
    tf_keys_free(a);
    tf_keys_free(b);
}
END_TEST

START_TEST(keys_own_packet_sent_back_does_not_open)
{
    tf_keys *a = keys_of(true, (tf_keys_limits){0});
    packet p = seal(a, 0, 0);
    ck_assert_int_eq(open_only(a, 0, &p), TF_ERR_PEER_SYNTAX);
    for (unsigned i = 0; i < 8; i++) {
        p.bytes[1 + i] = (uint8_t)(DIALLER_CID >> (8 * (7 - i)));
    }
    ck_assert_int_eq(open_only(a, 0, &p), TF_ERR_PEER_AUTH);
    tf_keys_free(a);
}
END_TEST

/* -- forgeries ----------------------------------------------------------------------------------------------------- */

static void forge(tf_keys *b, uint64_t times)
{
    packet bad = {.bytes = {0x40}, .len = TF_PACKET_MIN};
    for (unsigned i = 0; i < 8; i++) {
        bad.bytes[1 + i] = (uint8_t)(ACCEPTOR_CID >> (8 * (7 - i)));
    }
    bad.bytes[0] = (uint8_t)(0x40 | (stats_of(b).receive_phase & 3));
    bad.bytes[12] = 200;
    for (uint64_t i = 0; i < times; i++) {
        ck_assert_int_eq(open_only(b, 0, &bad), TF_ERR_PEER_AUTH);
    }
}

START_TEST(keys_quarter_of_the_forgery_limit_ends_the_phase)
{
    tf_keys *a = keys_of(true, (tf_keys_limits){0});
    tf_keys *b = keys_of(false, (tf_keys_limits){.forgeries = 40});
    forge(b, 9);
    packet p = seal(b, 0, 0);
    ck_assert_int_eq(open_only(a, 0, &p), TF_OK);
    ck_assert_uint_eq(stats_of(b).send_phase, 0);
    forge(b, 1);
    p = seal(b, 0, 1);
    ck_assert_uint_eq(stats_of(b).send_phase, 1);
    ck_assert_int_eq(open_only(a, 0, &p), TF_OK);
    p = seal(a, 0, 0);
    ck_assert_uint_eq(stats_of(a).send_phase, 1); /* both have moved */
    ck_assert_int_eq(open_only(b, 0, &p), TF_OK);
    ck_assert_uint_eq(stats_of(b).receive_phase, 1);
    (void)seal(b, 0, 2);
    ck_assert_uint_eq(stats_of(b).send_phase, 1);
    tf_keys_free(a);
    tf_keys_free(b);
}
END_TEST

START_TEST(keys_forgery_limit_ends_the_generation)
{
    tf_keys *a = keys_of(true, (tf_keys_limits){0});
    tf_keys *b = keys_of(false, (tf_keys_limits){.forgeries = 40});
    packet good = seal(a, 0, 0);
    uint8_t buf[64];
    forge(b, 39);
    ck_assert(!tf_keys_is_exhausted(b));
    forge(b, 1);
    ck_assert(tf_keys_is_exhausted(b));
    ck_assert_int_eq(open_only(b, 0, &good), TF_ERR_CLOSED);
    ck_assert_int_eq(tf_keys_seal(b, 0, 0, tf_slice_str("x"), buf, sizeof(buf)), TF_ERR_LIMIT_ITEMS);
    tf_keys_free(a);
    tf_keys_free(b);
}
END_TEST

START_TEST(keys_out_of_memory_is_passed_up)
{
    uint8_t secret[TF_KEYS_SECRET_LEN] = {0};
    tf_keys *keys = NULL;
    tf_keys_params params = params_of(true, (tf_keys_limits){0});
    tf_test_heap_fail_at(tf_test_heap_shared(), 0, false);
    ck_assert_int_eq(tf_keys_new_from_secret(&keys, secret, &params, tf_test_mem(), 0), TF_ERR_NOMEM);
    ck_assert_ptr_null(keys);
    tf_test_heap_fail_never(tf_test_heap_shared());
    tf_keys_free(NULL);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        keys_packets_of_every_size_go_both_ways,
        keys_no_room_is_an_error_and_changes_nothing,
        keys_number_is_rebuilt_from_32_bits,
        keys_repeated_or_late_packet_is_refused,
        keys_damaged_packet_moves_a_counter_only,
        keys_packet_with_other_flags_is_not_of_this_protocol,
        keys_truncated_or_longer_packet_is_refused,
        keys_own_packet_sent_back_does_not_open,
        keys_quarter_of_the_forgery_limit_ends_the_phase,
        keys_forgery_limit_ends_the_generation,
        keys_out_of_memory_is_passed_up,
        NULL,
    };
    return tf_test_run("handshake/keys", tests);
}
