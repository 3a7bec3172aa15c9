/* The arguments and results of the methods of root, channel and sink objects: MessagePack maps (PROTOCOL.md "Hub").
 *
 * Arguments are read strictly (an unknown key is refused, so that nothing asked for is silently not done); results and
 * activities leniently (unknown keys are skipped, so that a later version may tell more). Reading validates everything
 * before a value is used (items of a list when they are read); slices point into the input. Pure. Any thread. */
#ifndef TF_NODE_CALLS_H
#define TF_NODE_CALLS_H

#include "node/store/store.h"
#include "proto/wire.h"

/* -- arguments ----------------------------------------------------------------------------------------------------- */

typedef struct tf_args_open {
    tf_slice channel; /* any text: the hub judges it */
    bool existing_only; /* a missing one is not made (`create`: false) */
} tf_args_open;

/* Of the root: a page of what it stores. */
typedef struct tf_args_channels {
    uint64_t after; /* where the page before ended; 0: from the beginning */
    uint64_t limit; /* channels; 0: as many as fit */
} tf_args_channels;

/* Of the root: `publish` (with the object as its ref; without one the name is withdrawn), `lookup`. */
typedef struct tf_args_name {
    tf_slice name; /* any text: the hub judges it */
} tf_args_name;

/* Of the root: a page of its c-list of this connection. */
typedef struct tf_args_refs {
    uint64_t after; /* where the page before ended; 0: from the beginning */
    uint64_t limit; /* entries; 0: as many as fit */
} tf_args_refs;

typedef struct tf_args_send {
    tf_slice client_id; /* any text: the hub judges it */
    tf_slice body;
    bool has_origin;
    tf_node_id origin;
    uint64_t instance;
    tf_slice meta;       /* empty: none; the hub judges its length */
    uint64_t expires_ms; /* since 1970 UTC; 0: never */
} tf_args_send;

typedef enum tf_from_kind { TF_FROM_NEW, TF_FROM_FIRST, TF_FROM_SEQ, TF_FROM_TIME } tf_from_kind;

typedef struct tf_from {
    tf_from_kind kind;
    uint64_t value; /* SEQ: the first wanted, from 1; TIME: milliseconds since 1970 UTC */
} tf_from;

typedef struct tf_args_subscribe {
    tf_from from;
    bool has_epoch; /* the seq in `from` belongs to this numbering */
    uint64_t epoch;
    bool echo;
    uint64_t limit; /* bytes of activities and gaps that may come before `more`; UINT64_MAX: no limit */
    tf_slice durable; /* the name of its cursor (tf_cursor_name_is_valid); empty: none */
} tf_args_subscribe;

/* To a durable subscription: all below `next` need not come again. */
typedef struct tf_args_confirm {
    uint64_t epoch;
    uint64_t next; /* >= 1 */
} tf_args_confirm;

/* To a subscription: so many bytes of activities and gaps may come in all, since it began. */
typedef struct tf_args_more {
    uint64_t limit;
} tf_args_more;

typedef struct tf_args_read {
    uint64_t from; /* >= 1 */
    uint64_t to;   /* inclusive */
} tf_args_read;

typedef struct tf_args_trim {
    uint64_t before; /* >= 1: what is below goes */
} tf_args_trim;

typedef struct tf_args_gaps {
    uint64_t from; /* >= 1 */
} tf_args_gaps;

typedef struct tf_args_forget_cursor {
    tf_slice name;
    bool has_owner; /* else it is the caller's own */
    tf_node_id owner;
} tf_args_forget_cursor;

/* TF_ERR_PEER_SYNTAX: a `bad_request`. */
TF_MUST_CHECK tf_err tf_args_open_read(tf_slice in, tf_args_open *out);
TF_MUST_CHECK tf_err tf_args_name_read(tf_slice in, tf_args_name *out);
TF_MUST_CHECK tf_err tf_args_refs_read(tf_slice in, tf_args_refs *out);
TF_MUST_CHECK tf_err tf_args_send_read(tf_slice in, tf_args_send *out);
TF_MUST_CHECK tf_err tf_args_subscribe_read(tf_slice in, tf_args_subscribe *out);
TF_MUST_CHECK tf_err tf_args_read_read(tf_slice in, tf_args_read *out);
TF_MUST_CHECK tf_err tf_args_more_read(tf_slice in, tf_args_more *out);
TF_MUST_CHECK tf_err tf_args_channels_read(tf_slice in, tf_args_channels *out);
TF_MUST_CHECK tf_err tf_args_confirm_read(tf_slice in, tf_args_confirm *out);
TF_MUST_CHECK tf_err tf_args_trim_read(tf_slice in, tf_args_trim *out);
TF_MUST_CHECK tf_err tf_args_gaps_read(tf_slice in, tf_args_gaps *out);
TF_MUST_CHECK tf_err tf_args_forget_cursor_read(tf_slice in, tf_args_forget_cursor *out);
TF_MUST_CHECK tf_err tf_args_none_read(tf_slice in); /* an empty map: `info`, `close` */

void tf_args_open_write(tf_writer *w, const tf_args_open *args);
void tf_args_name_write(tf_writer *w, const tf_args_name *args);
void tf_args_refs_write(tf_writer *w, const tf_args_refs *args);
void tf_args_send_write(tf_writer *w, const tf_args_send *args);
void tf_args_subscribe_write(tf_writer *w, const tf_args_subscribe *args);
void tf_args_read_write(tf_writer *w, const tf_args_read *args);
void tf_args_more_write(tf_writer *w, const tf_args_more *args);
void tf_args_channels_write(tf_writer *w, const tf_args_channels *args);
void tf_args_confirm_write(tf_writer *w, const tf_args_confirm *args);
void tf_args_trim_write(tf_writer *w, const tf_args_trim *args);
void tf_args_gaps_write(tf_writer *w, const tf_args_gaps *args);
void tf_args_forget_cursor_write(tf_writer *w, const tf_args_forget_cursor *args);
void tf_args_none_write(tf_writer *w);

/* Upper bound of tf_args_send_write. */
size_t tf_args_send_bound(const tf_args_send *args);

/* -- results ------------------------------------------------------------------------------------------------------- */

/* Maps in an array of a result, one after the other. */
typedef struct tf_items {
    tf_reader r;
    size_t left;
} tf_items;

/* The bytes of the next one, to be read by the _read of its kind. False: no more. */
bool tf_items_next(tf_items *items, tf_slice *item);

typedef struct tf_result_open {
    uint64_t epoch;
    uint64_t max_in_flight;
    uint64_t max_body;
    uint64_t dedup_age_ms; /* keys are kept so long (S2); 0: as long as the channel */
} tf_result_open;

typedef struct tf_result_ack {
    tf_slice client_id;
    tf_slice id;
    uint64_t seq;
    uint64_t timestamp_ms;
    bool duplicate;
} tf_result_ack;

typedef struct tf_result_subscribe {
    uint64_t epoch;
    uint64_t head;
    uint64_t first;
    uint64_t next; /* the first activity (or gap) begins there */
    bool resumed;  /* `next` is where the cursor was, not what was asked for */
} tf_result_subscribe;

/* An item of `channels`, and part of `info`. */
typedef struct tf_channel_state {
    tf_slice name;
    uint64_t epoch;
    uint64_t first; /* head + 1: nothing is kept */
    uint64_t head;
    uint64_t bytes; /* client ids, metas and bodies of what is kept */
    uint64_t timestamp_ms; /* of the newest message; 0: there was none */
    bool closed;
} tf_channel_state;

typedef struct tf_result_channels {
    uint64_t next;  /* the `after` of the next page; 0: this was the last */
    tf_items items; /* tf_channel_state */
} tf_result_channels;

/* An item of `refs`, as the node that is asked sees it. */
typedef struct tf_ref_state {
    uint64_t ref;     /* on the wire (proto/ref.h); says also whether it is a promise */
    bool is_export;   /* of that node to the caller; else an import */
    uint64_t local;   /* its own name for it; 0: none any more */
    bool is_revoked;  /* softly */
    bool is_retired;  /* it has told so in its message `retired`, which is not acked yet */
    uint64_t retired;
    bool is_mentioned; /* an export: */
    uint64_t mentioned; /* its last message that mentions it */
    uint64_t count; /* what refers to it on that node */
} tf_ref_state;

typedef struct tf_result_refs {
    uint64_t next;  /* the `after` of the next page; 0: this was the last */
    tf_items items; /* tf_ref_state */
} tf_result_refs;

/* An item of `info`. */
typedef struct tf_cursor_state {
    tf_slice name;
    tf_node_id owner;
    uint64_t epoch;
    uint64_t next;
    uint64_t moved_ms;
} tf_cursor_state;

/* Of retention 0 means: none applies. */
typedef struct tf_result_info {
    tf_channel_state state;
    uint64_t keys_since_ms; /* keys of older messages are forgotten */
    uint64_t max_age_ms;
    uint64_t max_bytes;
    uint64_t max_count;
    uint64_t dedup_age_ms;
    uint64_t subscriptions; /* now, on this node */
    uint64_t cursor_count;  /* all there are, also those that are not in the list */
    tf_items cursors;       /* tf_cursor_state; those that fit */
} tf_result_info;

typedef struct tf_result_trim {
    uint64_t first;
} tf_result_trim;

/* An item of `gaps` and `read`: it cannot be had. */
typedef struct tf_hole {
    uint64_t first;
    uint64_t last;
    tf_slice reason; /* as in tf_gap */
} tf_hole;

typedef struct tf_result_gaps {
    uint64_t next;  /* the `from` of the next page; 0: this was the last */
    tf_items items; /* tf_hole, ascending */
} tf_result_gaps;

typedef struct tf_result_read {
    uint64_t epoch;
    uint64_t first;
    uint64_t head;
    uint64_t next;  /* what was asked for below it is in items, or in gaps */
    tf_items items; /* tf_activity, ascending */
    tf_items gaps;  /* tf_hole, ascending */
} tf_result_read;

/* A rejection (S9). */
typedef struct tf_result_refusal {
    tf_slice client_id; /* empty: not of a send, or of one whose client id could not be read */
    tf_slice code;
    tf_slice message;
    bool retryable;
    uint64_t retry_after_ms; /* 0: not said */
} tf_result_refusal;

TF_MUST_CHECK tf_err tf_result_open_read(tf_slice in, tf_result_open *out);
TF_MUST_CHECK tf_err tf_result_ack_read(tf_slice in, tf_result_ack *out);
TF_MUST_CHECK tf_err tf_result_subscribe_read(tf_slice in, tf_result_subscribe *out);
TF_MUST_CHECK tf_err tf_result_channels_read(tf_slice in, tf_result_channels *out);
TF_MUST_CHECK tf_err tf_result_refs_read(tf_slice in, tf_result_refs *out);
TF_MUST_CHECK tf_err tf_result_info_read(tf_slice in, tf_result_info *out);
TF_MUST_CHECK tf_err tf_result_trim_read(tf_slice in, tf_result_trim *out);
TF_MUST_CHECK tf_err tf_result_gaps_read(tf_slice in, tf_result_gaps *out);
TF_MUST_CHECK tf_err tf_result_read_read(tf_slice in, tf_result_read *out);
TF_MUST_CHECK tf_err tf_result_refusal_read(tf_slice in, tf_result_refusal *out);
TF_MUST_CHECK tf_err tf_channel_state_read(tf_slice in, tf_channel_state *out);
TF_MUST_CHECK tf_err tf_ref_state_read(tf_slice in, tf_ref_state *out);
TF_MUST_CHECK tf_err tf_cursor_state_read(tf_slice in, tf_cursor_state *out);
TF_MUST_CHECK tf_err tf_hole_read(tf_slice in, tf_hole *out);

void tf_result_open_write(tf_writer *w, const tf_result_open *result);
void tf_result_ack_write(tf_writer *w, const tf_result_ack *result);
void tf_result_subscribe_write(tf_writer *w, const tf_result_subscribe *result);
void tf_result_trim_write(tf_writer *w, const tf_result_trim *result);
void tf_result_refusal_write(tf_writer *w, const tf_result_refusal *result);
/* Results with lists: the head (`items` and the like are not looked at), to be followed by that many items. */
void tf_result_channels_write_head(tf_writer *w, const tf_result_channels *result, size_t items);
void tf_result_refs_write_head(tf_writer *w, const tf_result_refs *result, size_t items);
void tf_result_info_write_head(tf_writer *w, const tf_result_info *result, size_t cursors);
void tf_result_gaps_write_head(tf_writer *w, const tf_result_gaps *result, size_t items);
/* The head, to be followed by `items` activities, and if there are gaps by tf_result_read_write_gaps and the ranges. */
void tf_result_read_write_head(tf_writer *w, const tf_result_read *result, size_t items, size_t gaps);
void tf_result_read_write_gaps(tf_writer *w, size_t gaps);
void tf_channel_state_write(tf_writer *w, const tf_channel_state *state);
void tf_ref_state_write(tf_writer *w, const tf_ref_state *state);
void tf_cursor_state_write(tf_writer *w, const tf_cursor_state *state);
void tf_hole_write(tf_writer *w, const tf_hole *range);

/* Upper bounds of what the writers above write: */
#define TF_RESULT_SMALL_MAX 512u /* a result without lists, or the head of one with; an item but an activity */

/* -- what a sink gets ---------------------------------------------------------------------------------------------- */

typedef struct tf_activity {
    uint64_t epoch;
    uint64_t seq;
    tf_slice id;
    tf_node_id sender; /* node id of the origin */
    tf_slice client_id;
    uint64_t timestamp_ms;
    tf_slice body;
    tf_slice meta;       /* empty: none */
    uint64_t expires_ms; /* 0: never */
} tf_activity;

/* The numbers go on at `next`: what lies between cannot be had. */
typedef struct tf_gap {
    uint64_t epoch;
    uint64_t next;
    tf_slice reason; /* "trimmed", "damaged", "too_large", "expired", "epoch" */
} tf_gap;

/* The subscription is over. */
typedef struct tf_ended {
    tf_slice reason; /* "taken_over", "forbidden" */
} tf_ended;

#define TF_ACTIVITY_OVERHEAD 512u /* upper bound of an encoded activity, less its body and meta */

TF_MUST_CHECK tf_err tf_activity_read(tf_slice in, tf_activity *out);
TF_MUST_CHECK tf_err tf_gap_read(tf_slice in, tf_gap *out);
TF_MUST_CHECK tf_err tf_ended_read(tf_slice in, tf_ended *out);
void tf_activity_write(tf_writer *w, const tf_activity *activity);
void tf_gap_write(tf_writer *w, const tf_gap *gap);
void tf_ended_write(tf_writer *w, const tf_ended *ended);

#endif
