/* handshake/node_id: the text of a node id. */
#include <string.h>

#include "handshake/node_id.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define ID_A "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkena"
#define HEX_A "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
#define ZEROS "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ONES "777777777777777777777777777777777777777777777777777q"

static tf_node_id id_of_hex(const char *hex)
{
    tf_node_id id;
    ck_assert_uint_eq(tf_test_unhex(hex, id.bytes, sizeof(id.bytes)), sizeof(id.bytes));
    return id;
}

START_TEST(node_id_known_id_has_its_text)
{
    tf_node_id zeros = {{0}};
    tf_node_id ones;
    memset(ones.bytes, 0xff, sizeof(ones.bytes));
    const struct {
        tf_node_id id;
        const char *text;
    } rows[] = {{id_of_hex(HEX_A), ID_A}, {zeros, ZEROS}, {ones, ONES}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[TF_NODE_ID_TEXT_LEN + 1];
        tf_node_id back;
        tf_node_id_format(&rows[i].id, text);
        ck_assert_str_eq(text, rows[i].text);
        ck_assert_int_eq(tf_node_id_parse(&back, tf_slice_str(text)), TF_OK);
        ck_assert(tf_node_id_eq(&back, &rows[i].id));
    }
}
END_TEST

START_TEST(node_id_random_id_comes_back_from_its_text)
{
    const tf_rand *rand = tf_test_rand(1);
    for (int i = 0; i < 2000; i++) {
        tf_node_id id;
        tf_node_id back;
        char text[TF_NODE_ID_TEXT_LEN + 1];
        rand->fill(rand->ctx, id.bytes, sizeof(id.bytes));
        tf_node_id_format(&id, text);
        ck_assert_uint_eq(strlen(text), TF_NODE_ID_TEXT_LEN);
        ck_assert_int_eq(tf_node_id_parse(&back, tf_slice_str(text)), TF_OK);
        ck_assert(tf_node_id_eq(&back, &id));
    }
}
END_TEST

START_TEST(node_id_any_other_text_is_refused)
{
    static const char *const rows[] = {
        "",
        "a",
        "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhken",   /* one short */
        "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenaa", /* one long */
        "25NJQAMCWEFLPVKL73J4SZAHHIHOC4XT3KTCGJNPAINGR5YHKENA",
        "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenA",
        "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenb", /* trailing bits that are not zero */
        "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkeni",
        "15njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkena", /* not in the alphabet */
        "85njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkena",
        " 5njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkena",
        "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhken=",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_slice text = tf_slice_str(rows[i]);
        uint8_t *exact = tf_test_exact(text);
        tf_node_id id = {{7}};
        ck_assert_msg(tf_node_id_parse(&id, tf_slice_of(exact, text.len)) == TF_ERR_USAGE, "%s", rows[i]);
        ck_assert_uint_eq(id.bytes[0], 7);
        free(exact);
    }
}
END_TEST

START_TEST(node_id_order_is_that_of_big_endian_numbers)
{
    tf_node_id low = {{1, 0xff}};
    tf_node_id high = {{2, 0}};
    ck_assert_int_lt(tf_node_id_compare(&low, &high), 0);
    ck_assert_int_gt(tf_node_id_compare(&high, &low), 0);
    ck_assert_int_eq(tf_node_id_compare(&low, &low), 0);
    high = low;
    high.bytes[TF_NODE_ID_LEN - 1] = 0x80;
    ck_assert_int_lt(tf_node_id_compare(&low, &high), 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        node_id_known_id_has_its_text,
        node_id_random_id_comes_back_from_its_text,
        node_id_any_other_text_is_refused,
        node_id_order_is_that_of_big_endian_numbers,
        NULL,
    };
    return tf_test_run("handshake/node_id", tests);
}
