/* node/calls: arguments and results as bytes. Any map is refused, or what was read is written and read again as the
 * same; no writer goes beyond its bound; lists end.
 * Input: one byte (which one), two bytes (room for the output), then the map. */
#include <stdlib.h>

#include "node/calls.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/support.h"

#define ROOM ((size_t)4 * TF_MESSAGE_MAX)
#define ITEMS_MAX 4096u

typedef union any {
    tf_args_open open;
    tf_args_channels channels;
    tf_args_send send;
    tf_args_subscribe subscribe;
    tf_args_confirm confirm;
    tf_args_more more;
    tf_args_read read;
    tf_args_trim trim;
    tf_args_gaps gaps;
    tf_args_forget_cursor forget_cursor;
    tf_result_open r_open;
    tf_result_ack r_ack;
    tf_result_subscribe r_subscribe;
    tf_result_channels r_channels;
    tf_result_info r_info;
    tf_result_trim r_trim;
    tf_result_gaps r_gaps;
    tf_result_read r_read;
    tf_result_refusal r_refusal;
    tf_channel_state state;
    tf_cursor_state cursor;
    tf_hole hole;
    tf_activity activity;
    tf_gap gap;
    tf_ended ended;
    tf_args_name name;
    tf_args_refs refs;
    tf_result_refs r_refs;
    tf_ref_state ref;
} any;

/* Reads, and writes what was read; *whole: false when an item of a list could not be read. */
typedef tf_err copy_fn(tf_slice in, tf_writer *out, bool *whole);

#define COPY(name, member)                                                                                             \
    static tf_err copy_##name(tf_slice in, tf_writer *out, bool *whole)                                                \
    {                                                                                                                  \
        any it;                                                                                                        \
        (void)whole;                                                                                                   \
        memset(&it, 0, sizeof(it));                                                                                    \
        tf_err err = tf_##name##_read(in, &it.member);                                                                 \
        if (err == TF_OK) {                                                                                            \
            tf_##name##_write(out, &it.member);                                                                        \
        }                                                                                                              \
        return err;                                                                                                    \
    }

COPY(args_open, open)
COPY(args_channels, channels)
COPY(args_subscribe, subscribe)
COPY(args_confirm, confirm)
COPY(args_more, more)
COPY(args_read, read)
COPY(args_trim, trim)
COPY(args_gaps, gaps)
COPY(args_forget_cursor, forget_cursor)
COPY(result_open, r_open)
COPY(result_ack, r_ack)
COPY(result_subscribe, r_subscribe)
COPY(result_trim, r_trim)
COPY(result_refusal, r_refusal)
COPY(channel_state, state)
COPY(cursor_state, cursor)
COPY(hole, hole)
COPY(activity, activity)
COPY(gap, gap)
COPY(ended, ended)
COPY(args_name, name)
COPY(args_refs, refs)
COPY(ref_state, ref)

static tf_err copy_args_send(tf_slice in, tf_writer *out, bool *whole)
{
    tf_args_send send;
    size_t before = tf_wr_len(out);
    (void)whole;
    tf_err err = tf_args_send_read(in, &send);
    if (err == TF_OK) {
        tf_args_send_write(out, &send);
        TF_ASSERT(tf_wr_len(out) - before <= tf_args_send_bound(&send));
    }
    return err;
}

static tf_err copy_args_none(tf_slice in, tf_writer *out, bool *whole)
{
    (void)whole;
    tf_err err = tf_args_none_read(in);
    if (err == TF_OK) {
        tf_args_none_write(out);
    }
    return err;
}

/* -- lists --------------------------------------------------------------------------------------------------------- */

static size_t count_of(tf_items items)
{
    tf_slice item;
    size_t count = 0;
    while (tf_items_next(&items, &item)) {
        count++;
        TF_ASSERT(count <= TF_MP_ITEMS_MAX && item.len > 0);
    }
    return count;
}

static void copy_items(tf_items items, copy_fn *copy, tf_writer *out, bool *whole)
{
    tf_slice item;
    for (size_t i = 0; *whole && i < ITEMS_MAX && tf_items_next(&items, &item); i++) {
        *whole = copy(item, out, whole) == TF_OK;
    }
}

static tf_err copy_result_channels(tf_slice in, tf_writer *out, bool *whole)
{
    tf_result_channels result;
    tf_err err = tf_result_channels_read(in, &result);
    if (err == TF_OK) {
        size_t count = count_of(result.items);
        *whole = count <= ITEMS_MAX;
        tf_result_channels_write_head(out, &result, count);
        copy_items(result.items, copy_channel_state, out, whole);
    }
    return err;
}

static tf_err copy_result_refs(tf_slice in, tf_writer *out, bool *whole)
{
    tf_result_refs result;
    tf_err err = tf_result_refs_read(in, &result);
    if (err == TF_OK) {
        size_t count = count_of(result.items);
        *whole = count <= ITEMS_MAX;
        tf_result_refs_write_head(out, &result, count);
        copy_items(result.items, copy_ref_state, out, whole);
    }
    return err;
}

static tf_err copy_result_info(tf_slice in, tf_writer *out, bool *whole)
{
    tf_result_info result;
    tf_err err = tf_result_info_read(in, &result);
    if (err == TF_OK) {
        size_t count = count_of(result.cursors);
        *whole = count <= ITEMS_MAX;
        tf_result_info_write_head(out, &result, count);
        copy_items(result.cursors, copy_cursor_state, out, whole);
    }
    return err;
}

static tf_err copy_result_gaps(tf_slice in, tf_writer *out, bool *whole)
{
    tf_result_gaps result;
    tf_err err = tf_result_gaps_read(in, &result);
    if (err == TF_OK) {
        size_t count = count_of(result.items);
        *whole = count <= ITEMS_MAX;
        tf_result_gaps_write_head(out, &result, count);
        copy_items(result.items, copy_hole, out, whole);
    }
    return err;
}

static tf_err copy_result_read(tf_slice in, tf_writer *out, bool *whole)
{
    tf_result_read result;
    tf_err err = tf_result_read_read(in, &result);
    if (err == TF_OK) {
        size_t count = count_of(result.items);
        size_t gaps = count_of(result.gaps);
        *whole = count <= ITEMS_MAX && gaps <= ITEMS_MAX;
        tf_result_read_write_head(out, &result, count, gaps);
        copy_items(result.items, copy_activity, out, whole);
        if (gaps > 0) {
            tf_result_read_write_gaps(out, gaps);
            copy_items(result.gaps, copy_hole, out, whole);
        }
    }
    return err;
}

/* New ones go to the end: the corpus knows them by their numbers. */
static copy_fn *const kinds[] = {
    copy_args_open,    copy_args_channels,   copy_args_send,        copy_args_subscribe,      copy_args_confirm,
    copy_args_more,    copy_args_read,       copy_args_trim,        copy_args_gaps,           copy_args_forget_cursor,
    copy_args_none,    copy_result_open,     copy_result_ack,       copy_result_subscribe,    copy_result_channels,
    copy_result_info,  copy_result_trim,     copy_result_gaps,      copy_result_read,         copy_result_refusal,
    copy_channel_state, copy_cursor_state,   copy_hole,             copy_activity,            copy_gap,
    copy_ended,        copy_args_name,       copy_args_refs,        copy_result_refs,         copy_ref_state,
};

/* Too little room is told and not overstepped. */
static void write_in(copy_fn *copy, tf_slice in, size_t room)
{
    uint8_t *small = malloc(room == 0 ? 1 : room);
    tf_writer w;
    bool whole = true;
    TF_ASSERT(small != NULL);
    tf_wr_init(&w, small, room);
    TF_ASSERT(copy(in, &w, &whole) == TF_OK && !tf_wr_ok(&w) && tf_wr_len(&w) <= room);
    free(small);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t first[ROOM];
    static uint8_t second[ROOM];
    tf_slice input = tf_slice_of(data, size);
    copy_fn *copy = kinds[tf_fuzz_u8(&input) % (sizeof(kinds) / sizeof(kinds[0]))];
    size_t room = (size_t)tf_fuzz_u8(&input) << 8;
    room |= tf_fuzz_u8(&input);
    uint8_t *exact = tf_test_exact(input);
    tf_writer w;
    bool whole = true;
    tf_wr_init(&w, first, sizeof(first));
    if (copy(tf_slice_of(exact, input.len), &w, &whole) == TF_OK && whole) {
        size_t len = tf_wr_len(&w);
        TF_ASSERT(tf_wr_ok(&w));
        tf_wr_init(&w, second, sizeof(second));
        TF_ASSERT(copy(tf_slice_of(first, len), &w, &whole) == TF_OK && whole);
        TF_ASSERT(tf_wr_len(&w) == len && memcmp(first, second, len) == 0);
        if (room < len) {
            write_in(copy, tf_slice_of(first, len), room);
        }
    }
    free(exact);
    return 0;
}
