/* proto/err: texts and the close code of each error. */
#include <string.h>

#include "proto/err.h"
#include "tests/support/check_main.h"

static const tf_err all_errors[] = {
#define X(name, text) TF_ERR_##name,
    TF_ERR_MAP(X)
#undef X
};
#define ERROR_COUNT (sizeof(all_errors) / sizeof(all_errors[0]))

START_TEST(err_every_error_has_its_own_text)
{
    for (size_t i = 0; i < ERROR_COUNT; i++) {
        ck_assert_uint_eq(all_errors[i], i);
        ck_assert_uint_gt(strlen(tf_err_text(all_errors[i])), 0);
        for (size_t k = 0; k < i; k++) {
            ck_assert_str_ne(tf_err_text(all_errors[i]), tf_err_text(all_errors[k]));
        }
    }
    ck_assert_str_eq(tf_err_text(TF_OK), "ok");
}
END_TEST

START_TEST(err_close_code_on_the_wire_keeps_its_name)
{
    static const char *const names[] = {
        "normal",           "malformed",           "limit",   "bad_sequence", "bad_ack",  "bad_ref",  "bad_state",
        "content_conflict", "unsupported_version", "refused", "key_in_use",   "draining", "too_many", "internal"};
    const size_t count = sizeof(names) / sizeof(names[0]);
    for (size_t i = 0; i < count; i++) {
        ck_assert_str_eq(tf_close_text(i), names[i]);
    }
    ck_assert_str_eq(tf_close_text(count), "unknown");
    ck_assert_str_eq(tf_close_text(UINT64_C(1) << 32), "unknown");
    ck_assert_str_eq(tf_close_text(UINT64_MAX), "unknown");
}
END_TEST

START_TEST(err_peer_error_ends_with_its_close_code)
{
    static const struct {
        tf_err err;
        tf_close_code code;
    } rows[] = {
        {TF_ERR_PEER_SYNTAX, TF_CLOSE_MALFORMED},
        {TF_ERR_PEER_LIMIT, TF_CLOSE_LIMIT},
        {TF_ERR_PEER_SEQ, TF_CLOSE_BAD_SEQUENCE},
        {TF_ERR_PEER_ACK, TF_CLOSE_BAD_ACK},
        {TF_ERR_PEER_REF, TF_CLOSE_BAD_REF},
        {TF_ERR_PEER_STATE, TF_CLOSE_BAD_STATE},
        {TF_ERR_PEER_CONFLICT, TF_CLOSE_CONTENT_CONFLICT},
        {TF_ERR_PEER_VERSION, TF_CLOSE_UNSUPPORTED_VERSION},
        {TF_ERR_PEER_AUTH, TF_CLOSE_REFUSED},
        {TF_ERR_PEER_REPLAY, TF_CLOSE_BAD_SEQUENCE},
        {TF_ERR_PEER_REFUSED, TF_CLOSE_REFUSED},
    };
    const size_t count = sizeof(rows) / sizeof(rows[0]);
    for (size_t i = 0; i < ERROR_COUNT; i++) {
        tf_close_code expected = TF_CLOSE_INTERNAL;
        for (size_t k = 0; k < count; k++) {
            expected = rows[k].err == all_errors[i] ? rows[k].code : expected;
        }
        ck_assert_int_eq(tf_close_from_err(all_errors[i]), expected);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        err_every_error_has_its_own_text,
        err_close_code_on_the_wire_keeps_its_name,
        err_peer_error_ends_with_its_close_code,
        NULL,
    };
    return tf_test_run("proto/err", tests);
}
