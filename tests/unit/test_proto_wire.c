/* proto/wire: bounds, stickiness, variable-length integers. */
#include <stdlib.h>

#include "proto/wire.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define VAR_MAX (((uint64_t)1 << 62) - 1)

static const uint8_t ten[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

START_TEST(wire_integers_are_big_endian)
{
    tf_reader r;
    tf_rd_init(&r, tf_slice_of(ten, 8));
    ck_assert_uint_eq(tf_rd_u8(&r), 0x01);
    ck_assert_uint_eq(tf_rd_u16(&r), 0x0203);
    ck_assert_uint_eq(tf_rd_u32(&r), 0x04050607);
    ck_assert_uint_eq(tf_rd_left(&r), 1);
    ck_assert_int_eq(tf_rd_end(&r), TF_ERR_PEER_SYNTAX);
    ck_assert_uint_eq(tf_rd_u8(&r), 8);
    ck_assert_int_eq(tf_rd_end(&r), TF_OK);
    tf_rd_init(&r, tf_slice_of(ten, 8));
    ck_assert_uint_eq(tf_rd_u64(&r), UINT64_C(0x0102030405060708));
}
END_TEST

START_TEST(wire_read_past_the_end_is_sticky)
{
    uint8_t *exact = tf_test_exact(tf_slice_of(ten, 7));
    tf_reader r;
    tf_rd_init(&r, tf_slice_of(exact, 7));
    ck_assert_uint_eq(tf_rd_u64(&r), 0);
    ck_assert(!tf_rd_ok(&r));
    ck_assert_uint_eq(tf_rd_left(&r), 0);
    ck_assert_uint_eq(tf_rd_u8(&r), 0);
    ck_assert_uint_eq(tf_rd_var(&r), 0);
    ck_assert_uint_eq(tf_rd_bytes(&r, 1).len, 0);
    ck_assert_int_eq(tf_rd_end(&r), TF_ERR_PEER_SYNTAX);
    free(exact);
}
END_TEST

START_TEST(wire_bytes_are_bounded)
{
    static const struct {
        size_t len;
        bool ok;
    } rows[] = {{0, true}, {1, true}, {9, true}, {10, true}, {11, false}, {SIZE_MAX, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_reader r;
        tf_rd_init(&r, tf_slice_of(ten, 10));
        tf_slice got = tf_rd_bytes(&r, rows[i].len);
        ck_assert_int_eq(tf_rd_ok(&r), rows[i].ok);
        ck_assert_uint_eq(got.len, rows[i].ok ? rows[i].len : 0);
        ck_assert_uint_eq(tf_rd_left(&r), rows[i].ok ? 10 - rows[i].len : 0);
    }
}
END_TEST

START_TEST(wire_nothing_can_be_read)
{
    tf_reader r;
    tf_rd_init(&r, tf_slice_of(NULL, 0));
    ck_assert_int_eq(tf_rd_end(&r), TF_OK);
    ck_assert_uint_eq(tf_rd_bytes(&r, 0).len, 0);
    ck_assert(tf_rd_ok(&r));
    ck_assert_uint_eq(tf_rd_u8(&r), 0);
    ck_assert(!tf_rd_ok(&r));
    tf_rd_init(&r, tf_slice_of(ten, 10));
    tf_rd_fail(&r);
    ck_assert_int_eq(tf_rd_end(&r), TF_ERR_PEER_SYNTAX);
}
END_TEST

START_TEST(wire_var_takes_the_shortest_form)
{
    static const struct {
        uint64_t value;
        size_t len;
    } rows[] = {
        {0, 1},        {1, 1},           {62, 1},      {63, 1}, {64, 2}, {16383, 2}, {16384, 4}, {(1u << 30) - 1, 4},
        {1u << 30, 8}, {VAR_MAX - 1, 8}, {VAR_MAX, 8},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t buf[8];
        tf_writer w;
        tf_wr_init(&w, buf, rows[i].len);
        tf_wr_var(&w, rows[i].value);
        ck_assert(tf_wr_ok(&w));
        ck_assert_uint_eq(tf_wr_len(&w), rows[i].len);
        ck_assert_uint_eq(tf_var_len(rows[i].value), rows[i].len);
        tf_reader r;
        tf_rd_init(&r, tf_slice_of(buf, rows[i].len));
        ck_assert_uint_eq(tf_rd_var(&r), rows[i].value);
        ck_assert_int_eq(tf_rd_end(&r), TF_OK);
        uint8_t *exact = tf_test_exact(tf_slice_of(buf, rows[i].len - 1));
        tf_rd_init(&r, tf_slice_of(exact, rows[i].len - 1));
        ck_assert_uint_eq(tf_rd_var(&r), 0);
        ck_assert(!tf_rd_ok(&r));
        free(exact);
    }
}
END_TEST

/* The examples of RFC 9000 §A.1. */
START_TEST(wire_var_reads_every_form)
{
    static const struct {
        const char *hex;
        uint64_t value;
    } rows[] = {
        {"c2197c5eff14e88c", UINT64_C(151288809941952652)},
        {"9d7f3e7d", 494878333},
        {"7bbd", 15293},
        {"25", 37},
        {"4025", 37},
        {"c000000000000000", 0},
        {"ffffffffffffffff", VAR_MAX},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t buf[8];
        tf_reader r;
        tf_rd_init(&r, tf_slice_of(buf, tf_test_unhex(rows[i].hex, buf, sizeof(buf))));
        ck_assert_uint_eq(tf_rd_var(&r), rows[i].value);
        ck_assert_int_eq(tf_rd_end(&r), TF_OK);
    }
}
END_TEST

START_TEST(wire_length_beyond_its_maximum_is_refused)
{
    static const struct {
        uint64_t value;
        size_t max;
        bool ok;
    } rows[] = {{0, 0, true},       {1, 0, false},     {99, 100, true},
                {100, 100, true},   {101, 100, false}, {VAR_MAX, SIZE_MAX, true},
                {VAR_MAX, 1, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t buf[8];
        tf_writer w;
        tf_wr_init(&w, buf, sizeof(buf));
        tf_wr_var(&w, rows[i].value);
        tf_reader r;
        tf_rd_init(&r, tf_slice_of(buf, tf_wr_len(&w)));
        ck_assert_uint_eq(tf_rd_len(&r, rows[i].max), rows[i].ok ? rows[i].value : 0);
        ck_assert_int_eq(tf_rd_ok(&r), rows[i].ok);
    }
}
END_TEST

START_TEST(wire_write_past_the_end_is_sticky)
{
    uint8_t *buf = tf_test_exact(tf_slice_of(ten, 7));
    tf_writer w;
    tf_wr_init(&w, buf, 7);
    tf_wr_u32(&w, 0x0a0b0c0d);
    ck_assert_uint_eq(tf_wr_left(&w), 3);
    tf_wr_u32(&w, 1);
    ck_assert(!tf_wr_ok(&w));
    tf_wr_u8(&w, 1);
    tf_wr_bytes(&w, tf_slice_of(ten, 1));
    tf_wr_bytes(&w, tf_slice_of(NULL, 0));
    ck_assert_uint_eq(tf_wr_left(&w), 0);
    ck_assert_uint_eq(tf_wr_len(&w), 4);
    ck_assert_mem_eq(buf, "\x0a\x0b\x0c\x0d\x05\x06\x07", 7);
    free(buf);
}
END_TEST

START_TEST(wire_what_is_written_is_read)
{
    uint8_t buf[32];
    tf_writer w;
    tf_wr_init(&w, buf, sizeof(buf));
    tf_wr_u8(&w, 0xff);
    tf_wr_u16(&w, 0xfffe);
    tf_wr_u32(&w, 0xfffffffd);
    tf_wr_u64(&w, UINT64_MAX - 3);
    tf_wr_bytes(&w, tf_slice_of(ten, 10));
    tf_wr_bytes(&w, tf_slice_of(NULL, 0));
    ck_assert(tf_wr_ok(&w));
    tf_reader r;
    tf_rd_init(&r, tf_slice_of(buf, tf_wr_len(&w)));
    ck_assert_uint_eq(tf_rd_u8(&r), 0xff);
    ck_assert_uint_eq(tf_rd_u16(&r), 0xfffe);
    ck_assert_uint_eq(tf_rd_u32(&r), 0xfffffffd);
    ck_assert_uint_eq(tf_rd_u64(&r), UINT64_MAX - 3);
    ck_assert(tf_slice_eq(tf_rd_bytes(&r, 10), tf_slice_of(ten, 10)));
    ck_assert_int_eq(tf_rd_end(&r), TF_OK);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        wire_integers_are_big_endian,
        wire_read_past_the_end_is_sticky,
        wire_bytes_are_bounded,
        wire_nothing_can_be_read,
        wire_var_takes_the_shortest_form,
        wire_var_reads_every_form,
        wire_length_beyond_its_maximum_is_refused,
        wire_write_past_the_end_is_sticky,
        wire_what_is_written_is_read,
        NULL,
    };
    return tf_test_run("proto/wire", tests);
}
