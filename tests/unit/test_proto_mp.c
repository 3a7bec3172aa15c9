/* proto/mp: the shape check, and reading and writing with msgpack-c as the oracle. */
#include <msgpack.h>
#include <stdlib.h>

#include "proto/mp.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define VALUES 20000

/* The integers on both sides of every border between two encodings. */
static const int64_t int_borders[] = {
    INT64_MIN,
    INT64_MIN + 1,
    INT32_MIN - INT64_C(1),
    INT32_MIN,
    INT32_MIN + 1,
    INT16_MIN - 1,
    INT16_MIN,
    INT16_MIN + 1,
    INT8_MIN - 1,
    INT8_MIN,
    INT8_MIN + 1,
    -33,
    -32,
    -31,
    -1,
    0,
    1,
    126,
    127,
    128,
    255,
    256,
    32767,
    32768,
    65535,
    65536,
    INT32_MAX,
    INT32_MAX + INT64_C(1),
    UINT32_MAX,
    UINT32_MAX + INT64_C(1),
    INT64_MAX - 1,
    INT64_MAX,
};
static const size_t len_borders[] = {0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536};

static uint8_t out[200000];
static const uint8_t zeroes[100000];

static msgpack_sbuffer sb;
static msgpack_packer pk;

static void pack_start(void)
{
    msgpack_sbuffer_clear(&sb);
    msgpack_packer_init(&pk, &sb, msgpack_sbuffer_write);
}

static tf_slice packed(void)
{
    return tf_slice_of(sb.data, sb.size);
}

static tf_reader reader_of(tf_slice in)
{
    tf_reader r;
    tf_rd_init(&r, in);
    return r;
}

static tf_slice written(const tf_writer *w)
{
    ck_assert(tf_wr_ok(w));
    return tf_slice_of(out, tf_wr_len(w));
}

static tf_err check(tf_slice in)
{
    return tf_mp_check(in, TF_MP_DEPTH_MAX, TF_MP_ITEMS_MAX);
}

/* --- against msgpack-c --- */

START_TEST(mp_integers_are_those_of_msgpack_c)
{
    for (size_t i = 0; i < sizeof(int_borders) / sizeof(int_borders[0]); i++) {
        int64_t value = int_borders[i];
        pack_start();
        ck_assert_int_eq(value < 0 ? msgpack_pack_int64(&pk, value) : msgpack_pack_uint64(&pk, (uint64_t)value), 0);
        tf_writer w;
        tf_wr_init(&w, out, sizeof(out));
        tf_mp_wr_int(&w, value);
        ck_assert(tf_slice_eq(packed(), written(&w)));
        tf_reader r = reader_of(packed());
        ck_assert_int_eq(tf_mp_peek(&r), value < 0 ? TF_MP_INT : TF_MP_UINT);
        ck_assert_int_eq(tf_mp_rd_int(&r), value);
        ck_assert_int_eq(tf_rd_end(&r), TF_OK);
        r = reader_of(packed());
        ck_assert_uint_eq(tf_mp_rd_uint(&r), value < 0 ? 0 : (uint64_t)value);
        ck_assert_int_eq(tf_rd_ok(&r), value >= 0);
    }
    pack_start();
    ck_assert_int_eq(msgpack_pack_uint64(&pk, UINT64_MAX), 0);
    tf_reader r = reader_of(packed());
    ck_assert_uint_eq(tf_mp_rd_uint(&r), UINT64_MAX);
    r = reader_of(packed());
    ck_assert_int_eq(tf_mp_rd_int(&r), 0);
    ck_assert(!tf_rd_ok(&r));
}
END_TEST

/* Every fixed-width encoding of a number, which msgpack-c's pack_fix functions write without shortening. */
START_TEST(mp_integers_are_read_in_every_width)
{
    static const char *const fives[] = {"05",   "cc05",   "cd0005",     "ce00000005",        "cf0000000000000005",
                                        "d005", "d10005", "d200000005", "d30000000000000005"};
    static const char *const minus[] = {"fb", "d0fb", "d1fffb", "d2fffffffb", "d3fffffffffffffffb"};
    uint8_t buf[16];
    for (size_t i = 0; i < sizeof(fives) / sizeof(fives[0]); i++) {
        tf_slice in = tf_slice_of(buf, tf_test_unhex(fives[i], buf, sizeof(buf)));
        tf_reader r = reader_of(in);
        ck_assert_int_eq(tf_mp_peek(&r), TF_MP_UINT);
        ck_assert_uint_eq(tf_mp_rd_uint(&r), 5);
        ck_assert_int_eq(tf_rd_end(&r), TF_OK);
        r = reader_of(in);
        ck_assert_int_eq(tf_mp_rd_int(&r), 5);
    }
    for (size_t i = 0; i < sizeof(minus) / sizeof(minus[0]); i++) {
        tf_reader r = reader_of(tf_slice_of(buf, tf_test_unhex(minus[i], buf, sizeof(buf))));
        ck_assert_int_eq(tf_mp_peek(&r), TF_MP_INT);
        ck_assert_int_eq(tf_mp_rd_int(&r), -5);
        ck_assert_int_eq(tf_rd_end(&r), TF_OK);
    }
}
END_TEST

START_TEST(mp_strings_are_those_of_msgpack_c)
{
    for (size_t i = 0; i < sizeof(len_borders) / sizeof(len_borders[0]); i++) {
        size_t len = len_borders[i];
        for (int bin = 0; bin < 2; bin++) {
            pack_start();
            ck_assert_int_eq(bin ? msgpack_pack_bin(&pk, len) : msgpack_pack_str(&pk, len), 0);
            ck_assert_int_eq(bin ? msgpack_pack_bin_body(&pk, zeroes, len) : msgpack_pack_str_body(&pk, zeroes, len),
                             0);
            tf_writer w;
            tf_wr_init(&w, out, sizeof(out));
            (bin ? tf_mp_wr_bin : tf_mp_wr_str)(&w, tf_slice_of(zeroes, len));
            ck_assert(tf_slice_eq(packed(), written(&w)));
            ck_assert_int_eq(check(packed()), TF_OK);
            tf_reader r = reader_of(packed());
            ck_assert_int_eq(tf_mp_peek(&r), bin ? TF_MP_BIN : TF_MP_STR);
            ck_assert_uint_eq((bin ? tf_mp_rd_bin : tf_mp_rd_str)(&r, len).len, len);
            ck_assert_int_eq(tf_rd_end(&r), TF_OK);
            r = reader_of(packed());
            ck_assert_uint_eq((bin ? tf_mp_rd_str : tf_mp_rd_bin)(&r, len).len, 0);
            ck_assert(!tf_rd_ok(&r));
        }
    }
}
END_TEST

static void compare_container(bool map, size_t count)
{
    pack_start();
    ck_assert_int_eq(map ? msgpack_pack_map(&pk, count) : msgpack_pack_array(&pk, count), 0);
    tf_writer w;
    tf_wr_init(&w, out, sizeof(out));
    (map ? tf_mp_wr_map : tf_mp_wr_array)(&w, count);
    ck_assert(tf_slice_eq(packed(), written(&w)));
    for (size_t i = 0; i < (map ? 2 * count : count); i++) {
        tf_wr_u8(&w, 0); /* an integer */
    }
    tf_reader r = reader_of(written(&w));
    ck_assert_int_eq(tf_mp_peek(&r), map ? TF_MP_MAP : TF_MP_ARRAY);
    ck_assert_uint_eq((map ? tf_mp_rd_map : tf_mp_rd_array)(&r, count), count);
    ck_assert(tf_rd_ok(&r));
    ck_assert_int_eq(tf_mp_check(written(&w), 1, 200000), TF_OK);
}

START_TEST(mp_containers_are_those_of_msgpack_c)
{
    for (size_t i = 0; i < sizeof(len_borders) / sizeof(len_borders[0]); i++) {
        compare_container(false, len_borders[i]);
        compare_container(true, len_borders[i]);
    }
}
END_TEST

START_TEST(mp_nil_and_bool_are_those_of_msgpack_c)
{
    pack_start();
    ck_assert_int_eq(msgpack_pack_nil(&pk) | msgpack_pack_true(&pk) | msgpack_pack_false(&pk), 0);
    tf_writer w;
    tf_wr_init(&w, out, sizeof(out));
    tf_mp_wr_nil(&w);
    tf_mp_wr_bool(&w, true);
    tf_mp_wr_bool(&w, false);
    ck_assert(tf_slice_eq(packed(), written(&w)));
    tf_reader r = reader_of(packed());
    ck_assert_int_eq(tf_mp_peek(&r), TF_MP_NIL);
    tf_mp_rd_nil(&r);
    ck_assert_int_eq(tf_mp_peek(&r), TF_MP_BOOL);
    ck_assert(tf_mp_rd_bool(&r));
    ck_assert(!tf_mp_rd_bool(&r));
    ck_assert_int_eq(tf_rd_end(&r), TF_OK);
    ck_assert_int_eq(tf_mp_peek(&r), TF_MP_END);
}
END_TEST

/* --- random values --- */

static void pack_random_number(tf_test_random *random)
{
    uint64_t value = tf_test_random_u64(random) >> tf_test_random_below(random, 64);
    if (tf_test_random_chance(random, 1, 2)) {
        ck_assert_int_eq(msgpack_pack_uint64(&pk, value), 0);
    } else {
        ck_assert_int_eq(msgpack_pack_int64(&pk, (int64_t)(0 - value)), 0);
    }
}

/* A value without elements. */
static void pack_random_leaf(tf_test_random *random)
{
    size_t len = tf_test_random_below(random, 300);
    switch (tf_test_random_below(random, 8)) {
    case 0:
        ck_assert_int_eq(msgpack_pack_nil(&pk), 0);
        break;
    case 1:
        ck_assert_int_eq(msgpack_pack_true(&pk), 0);
        break;
    case 2:
        ck_assert_int_eq(msgpack_pack_double(&pk, (double)len), 0);
        break;
    case 3:
        ck_assert_int_eq(msgpack_pack_float(&pk, (float)len), 0);
        break;
    case 4:
        ck_assert_int_eq(msgpack_pack_str(&pk, len) | msgpack_pack_str_body(&pk, zeroes, len), 0);
        break;
    case 5:
        ck_assert_int_eq(msgpack_pack_bin(&pk, len) | msgpack_pack_bin_body(&pk, zeroes, len), 0);
        break;
    default:
        pack_random_number(random);
        break;
    }
}

/* The head of a container; gives the number of its values. */
static size_t pack_random_container(tf_test_random *random)
{
    size_t count = tf_test_random_below(random, 20);
    if (tf_test_random_chance(random, 1, 2)) {
        ck_assert_int_eq(msgpack_pack_map(&pk, count), 0);
        return 2 * count;
    }
    ck_assert_int_eq(msgpack_pack_array(&pk, count), 0);
    return count;
}

/* A whole value with at most max_depth (< 8) containers in each other. */
static void pack_random(tf_test_random *random, size_t max_depth)
{
    size_t left[8] = {1};
    size_t depth = 0;
    while (depth > 0 || left[0] > 0) {
        if (left[depth] == 0) {
            depth--;
            continue;
        }
        left[depth]--;
        if (depth < max_depth && (depth == 0 || tf_test_random_chance(random, 1, 4))) {
            left[++depth] = pack_random_container(random);
        } else {
            pack_random_leaf(random);
        }
    }
}

START_TEST(mp_check_random_value_of_msgpack_c_is_accepted)
{
    tf_test_random random;
    tf_test_random_init(&random, 1);
    for (int i = 0; i < 2000; i++) {
        pack_start();
        pack_random(&random, tf_test_random_below(&random, 5));
        uint8_t *exact = tf_test_exact(packed());
        size_t len = sb.size;
        ck_assert_int_eq(check(tf_slice_of(exact, len)), TF_OK);
        size_t cut = tf_test_random_below(&random, len); /* what is cut off anywhere is refused */
        uint8_t *part = tf_test_exact(tf_slice_of(exact, cut));
        ck_assert_int_eq(check(tf_slice_of(part, cut)), TF_ERR_PEER_SYNTAX);
        free(part);
        ck_assert_int_eq(msgpack_pack_nil(&pk), 0); /* and what has one byte too many */
        ck_assert_int_eq(check(packed()), TF_ERR_PEER_SYNTAX);
        tf_reader r = reader_of(packed());
        ck_assert(tf_slice_eq(tf_mp_rd_raw(&r), tf_slice_of(exact, len)));
        ck_assert_uint_eq(tf_rd_left(&r), 1);
        free(exact);
    }
}
END_TEST

/* What the check accepts msgpack-c unpacks to the last byte; it may refuse more than msgpack-c does. */
START_TEST(mp_check_random_bytes_that_pass_are_unpacked)
{
    tf_test_random random;
    tf_test_random_init(&random, 2);
    msgpack_zone zone;
    ck_assert(msgpack_zone_init(&zone, 4096));
    unsigned passed = 0;
    for (int i = 0; i < VALUES; i++) {
        uint8_t bytes[12];
        random.rand.fill(random.rand.ctx, bytes, sizeof(bytes));
        size_t len = 1 + tf_test_random_below(&random, sizeof(bytes));
        if (check(tf_slice_of(bytes, len)) != TF_OK) {
            continue;
        }
        passed++;
        size_t offset = 0;
        msgpack_object object;
        ck_assert_int_eq(msgpack_unpack((const char *)bytes, len, &offset, &zone, &object), MSGPACK_UNPACK_SUCCESS);
        ck_assert_uint_eq(offset, len);
        msgpack_zone_clear(&zone);
    }
    ck_assert_uint_gt(passed, 100);
    msgpack_zone_destroy(&zone);
}
END_TEST

/* --- the shape check --- */

static const char *const hostile[] = {
    "", /* nothing */
    "c1",
    "c70100aa",
    "c8000100aa",
    "c90000000100aa",
    "d400aa",
    "d50000aa",
    "d600aaaaaaaa", /* unused, ext */
    "d7000000000000000000",
    "d80000000000000000000000000000000000",
    "dd7fffffff",
    "ddffffffff",
    "dd00000001",
    "dcffff",
    "dc0001",
    "df7fffffff",
    "dfffffffff",
    "deffff",
    "91",
    "81",
    "8100",
    "9100 00",
    "c0c0", /* trailing bytes */
    "dbffffffff",
    "db80000000",
    "c6ffffffff",
    "c4ff",
    "c401",
    "d901",
    "a161 00",
    "a1",
    "bf", /* lengths */
    "cc",
    "cd00",
    "ce000000",
    "cf00000000000000",
    "d0",
    "d100",
    "d2000000",
    "d300000000000000",
    "ca000000",
    "cb00000000000000",
    "d9",
    "da00",
    "db000000",
    "c4",
    "c500",
    "c6000000",
    "dc00",
    "dd000000",
    "de00",
    "df000000",
};

START_TEST(mp_check_hostile_bytes_are_refused)
{
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        uint8_t buf[32];
        size_t len = tf_test_unhex(hostile[i], buf, sizeof(buf));
        uint8_t *exact = tf_test_exact(tf_slice_of(buf, len));
        ck_assert_msg(check(tf_slice_of(exact, len)) == TF_ERR_PEER_SYNTAX, "%s", hostile[i]);
        free(exact);
    }
}
END_TEST

START_TEST(mp_check_depth_is_bounded)
{
    static const struct {
        size_t nested;
        size_t max_depth;
        tf_err err;
    } rows[] = {
        {0, 0, TF_OK},
        {1, 0, TF_ERR_PEER_SYNTAX},
        {1, 1, TF_OK},
        {2, 1, TF_ERR_PEER_SYNTAX},
        {15, 16, TF_OK},
        {16, 16, TF_OK},
        {17, 16, TF_ERR_PEER_SYNTAX},
        {100000, 16, TF_ERR_PEER_SYNTAX},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memset(out, 0x91, rows[i].nested);
        out[rows[i].nested] = 0xc0;
        ck_assert_int_eq(tf_mp_check(tf_slice_of(out, rows[i].nested + 1), rows[i].max_depth, 200000), rows[i].err);
        tf_reader r = reader_of(tf_slice_of(out, rows[i].nested + 1));
        tf_mp_skip(&r);
        ck_assert_int_eq(tf_rd_ok(&r), rows[i].nested <= TF_MP_DEPTH_MAX);
    }
    ck_assert_int_eq(tf_mp_check(tf_slice_of("\x90", 1), 0, 1), TF_ERR_PEER_SYNTAX);    /* an empty one counts, too */
    ck_assert_int_eq(tf_mp_check(tf_slice_of("\x93\x90\x80\x91\xc0", 5), 2, 9), TF_OK); /* side by side does not */
}
END_TEST

START_TEST(mp_check_items_are_bounded)
{
    tf_slice four = tf_slice_of("\x93\x00\xa1x\xc0", 5); /* the array and its three */
    ck_assert_int_eq(tf_mp_check(four, 1, 0), TF_ERR_PEER_SYNTAX);
    ck_assert_int_eq(tf_mp_check(four, 1, 3), TF_ERR_PEER_SYNTAX);
    ck_assert_int_eq(tf_mp_check(four, 1, 4), TF_OK);
    ck_assert_int_eq(tf_mp_check(four, 1, SIZE_MAX), TF_OK);
}
END_TEST

START_TEST(mp_values_beyond_their_maximum_are_refused)
{
    static const struct {
        const char *hex;
        size_t max;
        bool ok;
    } rows[] = {
        {"a26162", 1, false}, {"a26162", 2, true}, {"a26162", 3, true}, {"a0", 0, true}, {"d903616263", 2, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t buf[16];
        tf_reader r = reader_of(tf_slice_of(buf, tf_test_unhex(rows[i].hex, buf, sizeof(buf))));
        (void)tf_mp_rd_str(&r, rows[i].max);
        ck_assert_int_eq(tf_rd_ok(&r), rows[i].ok);
    }
    tf_reader r = reader_of(tf_slice_of("\x93\x00\x00\x00", 4));
    ck_assert_uint_eq(tf_mp_rd_array(&r, 2), 0);
    ck_assert(!tf_rd_ok(&r));
    r = reader_of(tf_slice_of("\x93\x00\x00", 3)); /* three claimed, two there */
    ck_assert_uint_eq(tf_mp_rd_array(&r, 3), 0);
    ck_assert(!tf_rd_ok(&r));
    r = reader_of(tf_slice_of("\x82\x00\x00\x00", 4));
    ck_assert_uint_eq(tf_mp_rd_map(&r, 2), 0);
    ck_assert(!tf_rd_ok(&r));
}
END_TEST

START_TEST(mp_wrong_type_marks_the_reader_bad)
{
    static const uint8_t firsts[] = {0x00, 0xff, 0xc0, 0xc2, 0x90, 0x80, 0xa0};
    for (size_t i = 0; i < sizeof(firsts); i++) {
        tf_slice in = tf_slice_of(&firsts[i], 1);
        tf_reader r = reader_of(in);
        tf_mp_type type = tf_mp_peek(&r);
        (void)tf_mp_rd_uint(&r);
        ck_assert_int_eq(tf_rd_ok(&r), type == TF_MP_UINT);
        r = reader_of(in);
        (void)tf_mp_rd_int(&r);
        ck_assert_int_eq(tf_rd_ok(&r), type == TF_MP_UINT || type == TF_MP_INT);
        r = reader_of(in);
        tf_mp_rd_nil(&r);
        ck_assert_int_eq(tf_rd_ok(&r), type == TF_MP_NIL);
        r = reader_of(in);
        (void)tf_mp_rd_bool(&r);
        ck_assert_int_eq(tf_rd_ok(&r), type == TF_MP_BOOL);
        r = reader_of(in);
        (void)tf_mp_rd_array(&r, 1);
        ck_assert_int_eq(tf_rd_ok(&r), type == TF_MP_ARRAY);
        r = reader_of(in);
        (void)tf_mp_rd_map(&r, 1);
        ck_assert_int_eq(tf_rd_ok(&r), type == TF_MP_MAP);
    }
}
END_TEST

START_TEST(mp_raw_of_a_broken_value_is_empty)
{
    tf_reader r = reader_of(tf_slice_of("\x92\x01", 2));
    ck_assert_uint_eq(tf_mp_rd_raw(&r).len, 0);
    ck_assert(!tf_rd_ok(&r));
    ck_assert_int_eq(tf_mp_peek(&r), TF_MP_END);
    r = reader_of(tf_slice_of("\xca\x00\x00\x00\x00\xd0\xff", 7));
    ck_assert_int_eq(tf_mp_peek(&r), TF_MP_FLOAT);
    ck_assert_uint_eq(tf_mp_rd_raw(&r).len, 5);
    ck_assert_int_eq(tf_mp_peek(&r), TF_MP_INT);
}
END_TEST

START_TEST(mp_utf8_is_judged_by_rfc_3629)
{
    static const struct {
        const char *hex;
        bool valid;
    } rows[] = {
        {"", true},          {"00", true},         {"7f", true},          {"80", false},
        {"8080", false},     {"bf", false},        {"c080", false},       {"c1bf", false},
        {"c280", true},      {"dfbf", true},       {"c2", false},         {"c241", false},
        {"e09fbf", false},   {"e0a080", true},     {"ed9fbf", true},      {"eda080", false},
        {"edbfbf", false},   {"ee8080", true},     {"efbfbf", true},      {"e282", false},
        {"e28241", false},   {"f08fbfbf", false},  {"f0908080", true},    {"f48fbfbf", true},
        {"f4908080", false}, {"f5808080", false},  {"f0908041", false},   {"f09080", false},
        {"ff", false},       {"41e282ac42", true}, {"41e282ac80", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t buf[16];
        size_t len = tf_test_unhex(rows[i].hex, buf, sizeof(buf));
        uint8_t *exact = tf_test_exact(tf_slice_of(buf, len));
        ck_assert_msg(tf_utf8_is_valid(tf_slice_of(exact, len)) == rows[i].valid, "%s", rows[i].hex);
        free(exact);
    }
}
END_TEST

int main(void)
{
    msgpack_sbuffer_init(&sb);
    const TTest *const tests[] = {
        mp_integers_are_those_of_msgpack_c,
        mp_integers_are_read_in_every_width,
        mp_strings_are_those_of_msgpack_c,
        mp_containers_are_those_of_msgpack_c,
        mp_nil_and_bool_are_those_of_msgpack_c,
        mp_check_random_value_of_msgpack_c_is_accepted,
        mp_check_random_bytes_that_pass_are_unpacked,
        mp_check_hostile_bytes_are_refused,
        mp_check_depth_is_bounded,
        mp_check_items_are_bounded,
        mp_values_beyond_their_maximum_are_refused,
        mp_wrong_type_marks_the_reader_bad,
        mp_raw_of_a_broken_value_is_empty,
        mp_utf8_is_judged_by_rfc_3629,
        NULL,
    };
    int status = tf_test_run("proto/mp", tests);
    msgpack_sbuffer_destroy(&sb);
    return status;
}
