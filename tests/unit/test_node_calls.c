/* node/calls: what is strict, what is lenient, and that no prefix or flipped byte reads past the end. */
#include <stdio.h>
#include <stdlib.h>

#include "node/calls.h"
#include "proto/mp.h"
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
    tf_ended ended;
    tf_args_channels channels;
    tf_args_confirm confirm;
    tf_args_trim trim;
    tf_args_gaps gaps;
    tf_args_forget_cursor forget_cursor;
    tf_args_name name;
    tf_args_refs refs;
    tf_result_channels result_channels;
    tf_result_info info;
    tf_result_trim result_trim;
    tf_result_gaps result_gaps;
    tf_result_read result_read;
    tf_channel_state state;
    tf_cursor_state cursor;
    tf_hole hole;
    tf_ref_state ref;
    tf_result_refs result_refs;
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
static tf_err read_ended(tf_slice in, any *out) { return tf_ended_read(in, &out->ended); }
static tf_err read_channels(tf_slice in, any *out) { return tf_args_channels_read(in, &out->channels); }
static tf_err read_confirm(tf_slice in, any *out) { return tf_args_confirm_read(in, &out->confirm); }
static tf_err read_trim(tf_slice in, any *out) { return tf_args_trim_read(in, &out->trim); }
static tf_err read_gaps(tf_slice in, any *out) { return tf_args_gaps_read(in, &out->gaps); }
static tf_err read_forget_cursor(tf_slice in, any *out)
{
    return tf_args_forget_cursor_read(in, &out->forget_cursor);
}
static tf_err read_name(tf_slice in, any *out) { return tf_args_name_read(in, &out->name); }
static tf_err read_refs(tf_slice in, any *out) { return tf_args_refs_read(in, &out->refs); }
static tf_err read_ref_state(tf_slice in, any *out) { return tf_ref_state_read(in, &out->ref); }
static tf_err read_result_trim(tf_slice in, any *out) { return tf_result_trim_read(in, &out->result_trim); }
static tf_err read_state(tf_slice in, any *out) { return tf_channel_state_read(in, &out->state); }
static tf_err read_cursor(tf_slice in, any *out) { return tf_cursor_state_read(in, &out->cursor); }
static tf_err read_hole(tf_slice in, any *out) { return tf_hole_read(in, &out->hole); }

/* Results with lists: all of them are walked, as their users do. */
static tf_err read_result_channels(tf_slice in, any *out)
{
    tf_slice item;
    tf_err err = tf_result_channels_read(in, &out->result_channels);
    while (err == TF_OK && tf_items_next(&out->result_channels.items, &item)) {
        tf_channel_state state;
        err = tf_channel_state_read(item, &state);
    }
    return err;
}
static tf_err read_result_refs(tf_slice in, any *out)
{
    tf_slice item;
    tf_err err = tf_result_refs_read(in, &out->result_refs);
    while (err == TF_OK && tf_items_next(&out->result_refs.items, &item)) {
        tf_ref_state state;
        err = tf_ref_state_read(item, &state);
    }
    return err;
}
static tf_err read_info(tf_slice in, any *out)
{
    tf_slice item;
    tf_err err = tf_result_info_read(in, &out->info);
    while (err == TF_OK && tf_items_next(&out->info.cursors, &item)) {
        tf_cursor_state state;
        err = tf_cursor_state_read(item, &state);
    }
    return err;
}
static tf_err read_holes(tf_items *items)
{
    tf_slice item;
    tf_err err = TF_OK;
    while (err == TF_OK && tf_items_next(items, &item)) {
        tf_hole hole;
        err = tf_hole_read(item, &hole);
    }
    return err;
}
static tf_err read_result_gaps(tf_slice in, any *out)
{
    tf_err err = tf_result_gaps_read(in, &out->result_gaps);
    return err == TF_OK ? read_holes(&out->result_gaps.items) : err;
}
static tf_err read_result_read(tf_slice in, any *out)
{
    tf_slice item;
    tf_err err = tf_result_read_read(in, &out->result_read);
    while (err == TF_OK && tf_items_next(&out->result_read.items, &item)) {
        tf_activity activity;
        err = tf_activity_read(item, &activity);
    }
    return err == TF_OK ? read_holes(&out->result_read.gaps) : err;
}

typedef struct form {
    tf_err (*read)(tf_slice in, any *out);
    bool strict;
    uint8_t bytes[512];
    size_t len;
} form;

#define ARGUMENTS 13u
#define FORMS 30u

static const tf_slice id = {(const uint8_t *)"id-1", 4};
static const tf_node_id owner = {{7}};

static void write_arguments(tf_writer *w, size_t index)
{
    switch (index) {
    case 0: tf_args_open_write(w, &(tf_args_open){id, true}); break;
    case 1: tf_args_send_write(w, &(tf_args_send){id, id, true, owner, 7, id, 9}); break;
    case 2: tf_args_subscribe_write(w, &(tf_args_subscribe){{TF_FROM_TIME, 9}, true, 5, true, 6, id}); break;
    case 3: tf_args_read_write(w, &(tf_args_read){1, 1}); break;
    case 4: tf_args_more_write(w, &(tf_args_more){1}); break;
    case 5: tf_args_none_write(w); break;
    case 6: tf_args_channels_write(w, &(tf_args_channels){1, 2}); break;
    case 7: tf_args_confirm_write(w, &(tf_args_confirm){1, 2}); break;
    case 8: tf_args_trim_write(w, &(tf_args_trim){1}); break;
    case 9: tf_args_gaps_write(w, &(tf_args_gaps){2}); break;
    case 10: tf_args_forget_cursor_write(w, &(tf_args_forget_cursor){id, true, owner}); break;
    case 11: tf_args_name_write(w, &(tf_args_name){id}); break;
    default: tf_args_refs_write(w, &(tf_args_refs){1, 2}); break;
    }
}

static void write_list(tf_writer *w, size_t index)
{
    tf_channel_state state = {id, 1, 2, 3, 4, 5, true};
    tf_cursor_state cursor = {id, owner, 1, 2, 3};
    tf_hole hole = {1, 2, id};
    tf_ref_state ref = {
        .ref = 4, .local = 5, .is_revoked = true, .is_retired = true, .retired = 6, .is_mentioned = true, .count = 7};
    tf_activity activity = {.seq = 2, .id = id, .client_id = id, .body = id, .meta = id, .expires_ms = 3};
    switch (index) {
    case 20: tf_channel_state_write(w, &state); break;
    case 21: tf_cursor_state_write(w, &cursor); break;
    case 22: tf_hole_write(w, &hole); break;
    case 23:
        tf_result_channels_write_head(w, &(tf_result_channels){.next = 3}, 2);
        tf_channel_state_write(w, &state);
        tf_channel_state_write(w, &state);
        break;
    case 24:
        tf_result_info_write_head(w, &(tf_result_info){.state = state, .keys_since_ms = 4, .max_bytes = 1, .dedup_age_ms = 2}, 1);
        tf_cursor_state_write(w, &cursor);
        break;
    case 25: tf_result_trim_write(w, &(tf_result_trim){3}); break;
    case 26:
        tf_result_gaps_write_head(w, &(tf_result_gaps){.next = 9}, 2);
        tf_hole_write(w, &hole);
        tf_hole_write(w, &hole);
        break;
    case 27:
        tf_result_read_write_head(w, &(tf_result_read){.first = 1, .next = 2}, 1, 1);
        tf_activity_write(w, &activity);
        tf_result_read_write_gaps(w, 1);
        tf_hole_write(w, &hole);
        break;
    case 28: tf_ref_state_write(w, &ref); break;
    default:
        tf_result_refs_write_head(w, &(tf_result_refs){.next = 9}, 2);
        tf_ref_state_write(w, &ref);
        tf_ref_state_write(w, &(tf_ref_state){.ref = 6, .is_export = true});
        break;
    }
}

static void write_result(tf_writer *w, size_t index)
{
    switch (index) {
    case 13: tf_result_open_write(w, &(tf_result_open){1, 2, 3, 4}); break;
    case 14: tf_result_ack_write(w, &(tf_result_ack){id, id, 1, 2, true}); break;
    case 15: tf_result_subscribe_write(w, &(tf_result_subscribe){1, 2, 3, 4, true}); break;
    case 16: tf_result_refusal_write(w, &(tf_result_refusal){id, id, id, true, 5}); break;
    case 17: tf_activity_write(w, &(tf_activity){1, 2, id, owner, id, 3, id, id, 4}); break;
    case 18: tf_gap_write(w, &(tf_gap){1, 2, id}); break;
    case 19: tf_ended_write(w, &(tf_ended){id}); break;
    default: write_list(w, index); break;
    }
}

static form form_of(size_t index)
{
    static tf_err (*const readers[FORMS])(tf_slice, any *) = {
        read_open,    read_send,          read_subscribe,        read_read,    read_more,     read_none,
        read_channels, read_confirm,      read_trim,             read_gaps,    read_forget_cursor,
        read_name,    read_refs,
        read_result_open, read_ack,       read_result_subscribe, read_refusal, read_activity, read_gap,
        read_ended,   read_state,         read_cursor,           read_hole,    read_result_channels,
        read_info,    read_result_trim,   read_result_gaps,      read_result_read,
        read_ref_state, read_result_refs};
    tf_writer w;
    form f = {.read = readers[index], .strict = index < ARGUMENTS};
    tf_wr_init(&w, f.bytes, sizeof(f.bytes));
    if (f.strict) {
        write_arguments(&w, index);
    } else {
        write_result(&w, index);
    }
    ck_assert(tf_wr_ok(&w));
    f.len = tf_wr_len(&w);
    return f;
}

static tf_err read_exact(const form *f, const uint8_t *bytes, size_t len)
{
    any out;
    memset(&out, 1, sizeof(out)); /* what is not set is seen */
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
        "81 a4 6e657874 01",                                   /* confirm without epoch */
        "81 a5 6f776e6572 c4 00",                              /* forget_cursor without name */
    };
    static const size_t forms[] = {1, 2, 3, 7, 10};
    for (size_t i = 0; i < 5; i++) {
        uint8_t bytes[64];
        form f = form_of(forms[i]);
        size_t len = tf_test_unhex(rows[i], bytes, sizeof(bytes));
        ck_assert_int_eq(read_exact(&f, bytes, len), TF_ERR_PEER_SYNTAX);
    }
}
END_TEST

/* Is it one of those that a result, a refusal or what a sink gets may lack? */
static bool is_optional(size_t index, tf_slice key)
{
    static const struct {
        size_t form;
        const char *keys;
    } rows[] = {
        {13, " dedup_age_ms "},
        {14, " duplicate "},
        {15, " resumed "},
        {16, " client_id message retryable retry_after_ms "},
        {17, " meta expires "},
        {23, " next "},
        {24, " keys_since max_bytes dedup_age_ms "},
        {26, " next "},
        {27, " gaps "},
        {28, " local mentioned retired revoked "},
        {29, " next "},
    };
    char wanted[64];
    (void)snprintf(wanted, sizeof(wanted), " %.*s ", (int)key.len, (const char *)key.data);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].form == index) {
            return strstr(rows[i].keys, wanted) != NULL;
        }
    }
    return false;
}

/* Each key of what may hold unknown ones in turn, with its value. */
START_TEST(calls_key_that_is_not_optional_is_missed)
{
    for (size_t i = ARGUMENTS; i < FORMS; i++) {
        form f = form_of(i);
        tf_reader r;
        tf_rd_init(&r, tf_slice_of(f.bytes, f.len));
        size_t pairs = tf_mp_rd_map(&r, 64);
        for (size_t at = f.len - tf_rd_left(&r); pairs > 0; pairs--) {
            uint8_t bytes[sizeof(f.bytes)];
            tf_slice key = tf_mp_rd_str(&r, 64);
            tf_mp_skip(&r);
            size_t next = f.len - tf_rd_left(&r);
            memcpy(bytes, f.bytes, at);
            memcpy(bytes + at, f.bytes + next, f.len - next);
            bytes[0]--;
            tf_err err = read_exact(&f, bytes, f.len - (next - at));
            ck_assert_msg(err == (is_optional(i, key) ? TF_OK : TF_ERR_PEER_SYNTAX), "form %zu without %.*s", i,
                          (int)key.len, (const char *)key.data);
            at = next;
        }
        ck_assert_int_eq(tf_rd_end(&r), TF_OK);
    }
}
END_TEST

/* A send that ends with its origin, and the two keys of that. */
#define ORIGIN "83 a9 636c69656e745f6964 a1 61 a4 626f6479 c4 00 a6 6f726967696e "
#define NODE "a4 6e6f6465 c4 20 1111111111111111111111111111111111111111111111111111111111111111 "
#define INSTANCE "a8 696e7374616e6365 01 "

START_TEST(calls_value_out_of_range_is_refused)
{
    static const struct {
        size_t form;
        const char *hex;
        bool ok;
    } rows[] = {
        {1, "83 a9 636c69656e745f6964 a1 61 a4 626f6479 c4 00 a7 65787069726573 00", false}, /* expires: 0 */
        {1, "83 a9 636c69656e745f6964 a1 61 a4 626f6479 c4 00 a7 65787069726573 01", true},
        {1, "83 a9 636c69656e745f6964 a1 61 a4 626f6479 c4 00 a7 65787069726573 cf 7fffffffffffffff", true},
        {1, "83 a9 636c69656e745f6964 a1 61 a4 626f6479 c4 00 a7 65787069726573 cf 8000000000000000", false},
        {1, "83 a9 636c69656e745f6964 a1 61 a4 626f6479 c4 00 a4 6d657461 c4 00", true}, /* an empty meta */
        {1, "83 a9 636c69656e745f6964 a1 61 a4 626f6479 c4 00 a4 6d657461 a1 61", false}, /* a str for meta */
        {1, ORIGIN "82 " NODE INSTANCE, true},
        {1, ORIGIN "81 " NODE, false}, /* an origin without an instance */
        {1, ORIGIN "81 " INSTANCE, false},
        {2, "82 a4 66726f6d 01 a7 64757261626c65 a0", false},     /* durable: "" */
        {2, "82 a4 66726f6d 01 a7 64757261626c65 a3 612f62", false}, /* durable: "a/b" */
        {2, "82 a4 66726f6d 01 a7 64757261626c65 a3 612d62", true},
        {6, "81 a5 6c696d6974 00", false}, /* limit: 0 */
        {7, "82 a4 6e657874 00 a5 65706f6368 01", false}, /* next: 0 */
        {8, "81 a6 6265666f7265 00", false},              /* before: 0 */
        {9, "81 a4 66726f6d 00", false},                  /* from: 0 */
        {9, "80", true},
        {10, "81 a4 6e616d65 a1 2f", false}, /* name: "/" */
        {12, "81 a5 6c696d6974 00", false}, /* limit: 0 */
        /* an object whose ref is a promise's; a role that is none */
        {28, "84 a3 726566 06 a4 6b696e64 a6 6f626a656374 a4 726f6c65 a6 696d706f7274 a5 636f756e74 01", false},
        {28, "84 a3 726566 04 a4 6b696e64 a6 6f626a656374 a4 726f6c65 a6 696d706f7274 a5 636f756e74 01", true},
        {28, "84 a3 726566 04 a4 6b696e64 a6 6f626a656374 a4 726f6c65 a1 78 a5 636f756e74 01", false},
        {10, "82 a4 6e616d65 a1 61 a5 6f776e6572 c4 01 00", false}, /* an owner of one byte */
        {22, "83 a5 6669727374 05 a4 6c617374 04 a6 726561736f6e a0", false}, /* a hole that ends before it begins */
        {23, "81 a5 6974656d73 90", true},
        {23, "81 a5 6974656d73 01", false}, /* items that are no array */
        {23, "81 a5 6974656d73 80", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t bytes[128];
        form f = form_of(rows[i].form);
        size_t len = tf_test_unhex(rows[i].hex, bytes, sizeof(bytes));
        ck_assert_msg((read_exact(&f, bytes, len) == TF_OK) == rows[i].ok, "row %zu", i);
    }
}
END_TEST

START_TEST(calls_what_is_optional_and_absent_is_its_default)
{
    uint8_t bytes[128];
    tf_args_open open;
    tf_args_send send;
    tf_args_channels channels;
    tf_args_subscribe subscribe;
    size_t len = tf_test_unhex("81 a7 6368616e6e656c a1 61", bytes, sizeof(bytes));
    ck_assert_int_eq(tf_args_open_read(tf_slice_of(bytes, len), &open), TF_OK);
    ck_assert(!open.existing_only);
    len = tf_test_unhex("82 a9 636c69656e745f6964 a1 61 a4 626f6479 c4 00", bytes, sizeof(bytes));
    ck_assert_int_eq(tf_args_send_read(tf_slice_of(bytes, len), &send), TF_OK);
    ck_assert(send.meta.len == 0 && send.expires_ms == 0 && !send.has_origin);
    len = tf_test_unhex("80", bytes, sizeof(bytes));
    ck_assert_int_eq(tf_args_channels_read(tf_slice_of(bytes, len), &channels), TF_OK);
    ck_assert(channels.after == 0 && channels.limit == 0);
    len = tf_test_unhex("81 a4 66726f6d 01", bytes, sizeof(bytes));
    ck_assert_int_eq(tf_args_subscribe_read(tf_slice_of(bytes, len), &subscribe), TF_OK);
    ck_assert(subscribe.durable.len == 0 && subscribe.limit == UINT64_MAX && !subscribe.echo && !subscribe.has_epoch);
}
END_TEST

START_TEST(calls_result_without_what_is_optional_has_none_of_it)
{
    uint8_t bytes[512];
    tf_writer w;
    tf_result_open open = {.dedup_age_ms = 1};
    tf_result_ack ack = {.duplicate = true};
    tf_result_subscribe start = {.resumed = true};
    tf_result_refusal refusal = {.client_id = id, .retry_after_ms = 1};
    tf_activity activity = {.meta = id, .expires_ms = 1};
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_result_open_write(&w, &(tf_result_open){.epoch = 1});
    ck_assert_int_eq(tf_result_open_read(tf_slice_of(bytes, tf_wr_len(&w)), &open), TF_OK);
    ck_assert_uint_eq(open.dedup_age_ms, 0);
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_result_ack_write(&w, &(tf_result_ack){.seq = 1});
    ck_assert_int_eq(tf_result_ack_read(tf_slice_of(bytes, tf_wr_len(&w)), &ack), TF_OK);
    ck_assert(!ack.duplicate);
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_result_subscribe_write(&w, &(tf_result_subscribe){.first = 1, .next = 1});
    ck_assert_int_eq(tf_result_subscribe_read(tf_slice_of(bytes, tf_wr_len(&w)), &start), TF_OK);
    ck_assert(!start.resumed);
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_result_refusal_write(&w, &(tf_result_refusal){.code = id});
    ck_assert_int_eq(tf_result_refusal_read(tf_slice_of(bytes, tf_wr_len(&w)), &refusal), TF_OK);
    ck_assert(refusal.client_id.len == 0 && refusal.retry_after_ms == 0);
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_activity_write(&w, &(tf_activity){.seq = 1});
    ck_assert_int_eq(tf_activity_read(tf_slice_of(bytes, tf_wr_len(&w)), &activity), TF_OK);
    ck_assert(activity.meta.len == 0 && activity.expires_ms == 0);
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
        {"82 a9 636c69656e745f6964 a1 61 a4 636f6465 aa 6f7665726c6f61646564", true}, /* of a send */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
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

/* What is there only sometimes is told apart from what is not. */
START_TEST(calls_state_of_a_ref_says_what_is_there)
{
    for (unsigned i = 0; i < 8; i++) {
        const tf_ref_state wrote = {.ref = 4,
                                    .local = 5,
                                    .is_revoked = (i & 1) != 0,
                                    .is_retired = (i & 2) != 0,
                                    .retired = (i & 2) != 0 ? 6 : 0,
                                    .is_mentioned = (i & 4) != 0,
                                    .mentioned = (i & 4) != 0 ? 7 : 0};
        uint8_t bytes[128];
        tf_writer w;
        tf_ref_state read;
        tf_wr_init(&w, bytes, sizeof(bytes));
        tf_ref_state_write(&w, &wrote);
        ck_assert_int_eq(tf_ref_state_read(tf_slice_of(bytes, tf_wr_len(&w)), &read), TF_OK);
        ck_assert(read.is_revoked == wrote.is_revoked && read.is_retired == wrote.is_retired);
        ck_assert(read.is_mentioned == wrote.is_mentioned && read.retired == wrote.retired);
        ck_assert_uint_eq(read.mentioned, wrote.mentioned);
    }
}
END_TEST

/* What is allotted for it holds it, and is not much more. */
START_TEST(calls_bound_of_a_send_holds_whatever_is_in_it)
{
    static const size_t sizes[] = {0, 1, 31, 32, 255, 256, 3000};
    static const uint8_t data[3000] = {0};
    static uint8_t bytes[10000];
    for (size_t i = 0; i < 7u * 7u * 7u; i++) {
        tf_args_send args = {.client_id = tf_slice_of(data, sizes[i % 7]),
                             .body = tf_slice_of(data, sizes[i / 7 % 7]),
                             .meta = tf_slice_of(data, sizes[i / 49]),
                             .has_origin = true,
                             .instance = UINT64_MAX,
                             .expires_ms = UINT64_MAX};
        tf_writer w;
        tf_wr_init(&w, bytes, sizeof(bytes));
        tf_args_send_write(&w, &args);
        ck_assert(tf_wr_ok(&w) && tf_wr_len(&w) <= tf_args_send_bound(&args));
        ck_assert_uint_le(tf_args_send_bound(&args), args.client_id.len + args.body.len + args.meta.len + 160);
    }
}
END_TEST

START_TEST(calls_refusal_that_is_none_is_malformed)
{
    static uint8_t text[TF_REFUSAL_MESSAGE_MAX + 1];
    static const struct {
        size_t code;
        size_t message;
        tf_err err;
    } rows[] = {{1, 0, TF_OK},
                {TF_REFUSAL_CODE_MAX, TF_REFUSAL_MESSAGE_MAX, TF_OK},
                {0, 0, TF_ERR_PEER_SYNTAX},
                {TF_REFUSAL_CODE_MAX + 1, 0, TF_ERR_PEER_SYNTAX},
                {1, TF_REFUSAL_MESSAGE_MAX + 1, TF_ERR_PEER_SYNTAX}};
    memset(text, 'x', sizeof(text));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t bytes[512];
        tf_writer w;
        tf_result_refusal read;
        tf_wr_init(&w, bytes, sizeof(bytes));
        tf_result_refusal_write(&w, &(tf_result_refusal){.code = tf_slice_of(text, rows[i].code),
                                                         .message = tf_slice_of(text, rows[i].message)});
        ck_assert(tf_wr_ok(&w));
        ck_assert_int_eq(tf_result_refusal_read(tf_slice_of(bytes, tf_wr_len(&w)), &read), rows[i].err);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        calls_unknown_key_is_refused_in_arguments_and_skipped_elsewhere,
        calls_prefix_or_trailing_byte_is_refused,
        calls_flipped_bytes_are_read_or_refused_and_nothing_else,
        calls_missing_key_is_refused,
        calls_key_that_is_not_optional_is_missed,
        calls_value_out_of_range_is_refused,
        calls_what_is_optional_and_absent_is_its_default,
        calls_result_without_what_is_optional_has_none_of_it,
        calls_refusal_without_retryable_takes_it_from_the_code,
        calls_every_refusal_fits_its_answer_and_is_found_by_name,
        calls_state_of_a_ref_says_what_is_there,
        calls_bound_of_a_send_holds_whatever_is_in_it,
        calls_refusal_that_is_none_is_malformed,
        NULL,
    };
    return tf_test_run("node/calls", tests);
}
