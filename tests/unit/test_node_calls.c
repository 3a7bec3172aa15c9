/* node/calls: what is strict, what is lenient, and that no prefix or flipped byte reads past the end. */
#include <stdlib.h>

#include "node/calls.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

typedef union any {
    tf_args_open open;
    tf_args_send send;
    tf_args_subscribe subscribe;
    tf_args_read read;
    tf_args_more more;
    tf_result_open result_open;
    tf_result_ack ack;
    tf_result_subscribe result_subscribe;
    tf_result_refusal refusal;
    tf_activity activity;
    tf_gap gap;
} any;

static tf_err read_open(tf_slice in, any *out) { return tf_args_open_read(in, &out->open); }
static tf_err read_send(tf_slice in, any *out) { return tf_args_send_read(in, &out->send); }
static tf_err read_subscribe(tf_slice in, any *out) { return tf_args_subscribe_read(in, &out->subscribe); }
static tf_err read_read(tf_slice in, any *out) { return tf_args_read_read(in, &out->read); }
static tf_err read_more(tf_slice in, any *out) { return tf_args_more_read(in, &out->more); }
static tf_err read_none(tf_slice in, any *out) { (void)out; return tf_args_none_read(in); }
static tf_err read_result_open(tf_slice in, any *out) { return tf_result_open_read(in, &out->result_open); }
static tf_err read_ack(tf_slice in, any *out) { return tf_result_ack_read(in, &out->ack); }
static tf_err read_result_subscribe(tf_slice in, any *out)
{
    return tf_result_subscribe_read(in, &out->result_subscribe);
}
static tf_err read_refusal(tf_slice in, any *out) { return tf_result_refusal_read(in, &out->refusal); }
static tf_err read_activity(tf_slice in, any *out) { return tf_activity_read(in, &out->activity); }
static tf_err read_gap(tf_slice in, any *out) { return tf_gap_read(in, &out->gap); }

typedef struct form {
    tf_err (*read)(tf_slice in, any *out);
    bool strict;
    uint8_t bytes[256];
    size_t len;
} form;

#define FORMS 12u

static void write_form(form *f, size_t index)
{
    static const tf_slice id = {(const uint8_t *)"id-1", 4};
    tf_writer w;
    tf_wr_init(&w, f->bytes, sizeof(f->bytes));
    switch (index) {
    case 0: tf_args_open_write(&w, &(tf_args_open){id}); break;
    case 1: tf_args_send_write(&w, &(tf_args_send){.client_id = id, .body = id, .has_origin = true, .instance = 7}); break;
    case 2: tf_args_subscribe_write(&w, &(tf_args_subscribe){{TF_FROM_TIME, 9}, true, 5, true, 6}); break;
    case 3: tf_args_read_write(&w, &(tf_args_read){1, 1}); break;
    case 4: tf_args_more_write(&w, &(tf_args_more){1}); break;
    case 5: tf_wr_u8(&w, 0x80); break;
    case 6: tf_result_open_write(&w, &(tf_result_open){1, 2, 3}); break;
    case 7: tf_result_ack_write(&w, &(tf_result_ack){id, id, 1, 2, true}); break;
    case 8: tf_result_subscribe_write(&w, &(tf_result_subscribe){1, 2, 3, 4}); break;
    case 9: tf_result_refusal_write(&w, &(tf_result_refusal){id, id, id, true, 5}); break;
    case 10: tf_activity_write(&w, &(tf_activity){.epoch = 1, .seq = 2, .id = id, .client_id = id, .body = id}); break;
    default: tf_gap_write(&w, &(tf_gap){1, 2, id}); break;
    }
    ck_assert(tf_wr_ok(&w));
    f->len = tf_wr_len(&w);
}

static form form_of(size_t index)
{
    static tf_err (*const readers[FORMS])(tf_slice, any *) = {
        read_open,        read_send, read_subscribe,        read_read,    read_more,     read_none,
        read_result_open, read_ack,  read_result_subscribe, read_refusal, read_activity, read_gap};
    form f = {.read = readers[index], .strict = index < 6};
    write_form(&f, index);
    return f;
}

static tf_err read_exact(const form *f, const uint8_t *bytes, size_t len)
{
    any out;
    memset(&out, 0, sizeof(out));
    uint8_t *exact = tf_test_exact(tf_slice_of(bytes, len));
    tf_err err = f->read(tf_slice_of(exact, len), &out);
    free(exact);
    return err;
}

START_TEST(calls_unknown_key_is_refused_in_arguments_and_skipped_elsewhere)
{
    static const uint8_t extra[] = {0xa1, 'z', 0x92, 0x01, 0xc0};
    for (size_t i = 0; i < FORMS; i++) {
        form f = form_of(i);
        ck_assert_msg(read_exact(&f, f.bytes, f.len) == TF_OK, "form %zu", i);
        f.bytes[0]++;
        memcpy(f.bytes + f.len, extra, sizeof(extra));
        ck_assert_msg((read_exact(&f, f.bytes, f.len + sizeof(extra)) == TF_OK) == !f.strict, "form %zu", i);
    }
}
END_TEST

START_TEST(calls_prefix_or_trailing_byte_is_refused)
{
    for (size_t i = 0; i < FORMS; i++) {
        form f = form_of(i);
        for (size_t len = 0; len < f.len; len++) {
            ck_assert_int_eq(read_exact(&f, f.bytes, len), TF_ERR_PEER_SYNTAX);
        }
        f.bytes[f.len] = 0;
        ck_assert_int_eq(read_exact(&f, f.bytes, f.len + 1), TF_ERR_PEER_SYNTAX);
    }
}
END_TEST

START_TEST(calls_flipped_bytes_are_read_or_refused_and_nothing_else)
{
    for (size_t i = 0; i < FORMS; i++) {
        form f = form_of(i);
        for (size_t at = 0; at < f.len; at++) {
            uint8_t kept = f.bytes[at];
            for (unsigned value = 0; value < 256; value++) {
                f.bytes[at] = (uint8_t)value;
                tf_err err = read_exact(&f, f.bytes, f.len);
                ck_assert(err == TF_OK || err == TF_ERR_PEER_SYNTAX);
            }
            f.bytes[at] = kept;
        }
    }
}
END_TEST

START_TEST(calls_missing_key_is_refused)
{
    static const char *const rows[] = {
        "81 a4 626f6479 c4 00",                                /* send without client_id */
        "81 a5 65706f6368 01",                                 /* subscribe without from */
        "81 a4 66726f6d 01",                                   /* read without to */
    };
    static const size_t forms[] = {1, 2, 3};
    for (size_t i = 0; i < 3; i++) {
        uint8_t bytes[64];
        form f = form_of(forms[i]);
        size_t len = tf_test_unhex(rows[i], bytes, sizeof(bytes));
        ck_assert_int_eq(read_exact(&f, bytes, len), TF_ERR_PEER_SYNTAX);
    }
}
END_TEST

START_TEST(calls_refusal_without_retryable_takes_it_from_the_code)
{
    static const struct {
        const char *hex;
        bool retryable;
    } rows[] = {
        {"82 a4 636f6465 aa 6f7665726c6f61646564 a7 6d657373616765 a1 78", true},  /* overloaded */
        {"81 a4 636f6465 ac 646973636f6e6e6563746564", false},                     /* disconnected */
        {"82 a4 636f6465 aa 6f7665726c6f61646564 a9 726574727961626c65 c2", false}, /* it says no */
    };
    for (size_t i = 0; i < 3; i++) {
        uint8_t bytes[64];
        tf_result_refusal refusal;
        size_t len = tf_test_unhex(rows[i].hex, bytes, sizeof(bytes));
        ck_assert_int_eq(tf_result_refusal_read(tf_slice_of(bytes, len), &refusal), TF_OK);
        ck_assert_int_eq(refusal.retryable, rows[i].retryable);
    }
}
END_TEST

START_TEST(calls_every_refusal_fits_its_answer_and_is_found_by_name)
{
    for (unsigned i = TF_REFUSAL_BAD_REQUEST; i < TF_REFUSAL_COUNT; i++) {
        tf_refusal refusal = (tf_refusal)i;
        ck_assert_int_eq(tf_refusal_find(tf_slice_str(tf_refusal_name(refusal))), refusal);
        ck_assert_uint_le(strlen(tf_refusal_name(refusal)), TF_REFUSAL_CODE_MAX);
        ck_assert_uint_le(strlen(tf_refusal_text(refusal)), TF_REFUSAL_MESSAGE_MAX);
        ck_assert_int_eq(tf_refusal_is_retryable(refusal), tf_refusal_retry_after_ms(refusal) > 0);
    }
    ck_assert_int_eq(tf_refusal_find(tf_slice_str("none")), TF_REFUSAL_NONE);
    ck_assert_int_eq(tf_refusal_find(tf_slice_str("")), TF_REFUSAL_NONE);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        calls_unknown_key_is_refused_in_arguments_and_skipped_elsewhere,
        calls_prefix_or_trailing_byte_is_refused,
        calls_flipped_bytes_are_read_or_refused_and_nothing_else,
        calls_missing_key_is_refused,
        calls_refusal_without_retryable_takes_it_from_the_code,
        calls_every_refusal_fits_its_answer_and_is_found_by_name,
        NULL,
    };
    return tf_test_run("node/calls", tests);
}
