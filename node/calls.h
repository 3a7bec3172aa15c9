/* The arguments and results of the methods of root, channel and sink objects: MessagePack maps (PROTOCOL.md "Hub").
 *
 * Arguments are read strictly (an unknown key is refused, so that nothing asked for is silently not done); results and
 * activities leniently (unknown keys are skipped, so that a later version may tell more). Reading validates everything
 * before a value is used; slices point into the input. Pure. Any thread. */
#ifndef TF_NODE_CALLS_H
#define TF_NODE_CALLS_H

#include "node/store/store.h"
#include "proto/wire.h"

/* -- arguments ----------------------------------------------------------------------------------------------------- */

typedef struct tf_args_open {
    tf_slice channel; /* any text: the hub judges it */
} tf_args_open;

typedef struct tf_args_send {
    tf_slice client_id; /* any text: the hub judges it */
    tf_slice body;
    bool has_origin;
    tf_node_id origin;
    uint64_t instance;
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
} tf_args_subscribe;

/* To a subscription: so many bytes of activities and gaps may come in all, since it began. */
typedef struct tf_args_more {
    uint64_t limit;
} tf_args_more;

typedef struct tf_args_read {
    uint64_t from; /* >= 1 */
    uint64_t to;   /* inclusive */
} tf_args_read;

/* TF_ERR_PEER_SYNTAX: a `bad_request`. */
TF_MUST_CHECK tf_err tf_args_open_read(tf_slice in, tf_args_open *out);
TF_MUST_CHECK tf_err tf_args_send_read(tf_slice in, tf_args_send *out);
TF_MUST_CHECK tf_err tf_args_subscribe_read(tf_slice in, tf_args_subscribe *out);
TF_MUST_CHECK tf_err tf_args_read_read(tf_slice in, tf_args_read *out);
TF_MUST_CHECK tf_err tf_args_more_read(tf_slice in, tf_args_more *out);
TF_MUST_CHECK tf_err tf_args_none_read(tf_slice in); /* an empty map */

void tf_args_open_write(tf_writer *w, const tf_args_open *args);
void tf_args_send_write(tf_writer *w, const tf_args_send *args);
void tf_args_subscribe_write(tf_writer *w, const tf_args_subscribe *args);
void tf_args_read_write(tf_writer *w, const tf_args_read *args);
void tf_args_more_write(tf_writer *w, const tf_args_more *args);

/* Upper bound of tf_args_send_write. */
size_t tf_args_send_bound(const tf_args_send *args);

/* -- results ------------------------------------------------------------------------------------------------------- */

typedef struct tf_result_open {
    uint64_t epoch;
    uint64_t max_in_flight;
    uint64_t max_body;
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
    uint64_t next; /* the first activity has this seq */
} tf_result_subscribe;

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
TF_MUST_CHECK tf_err tf_result_refusal_read(tf_slice in, tf_result_refusal *out);

void tf_result_open_write(tf_writer *w, const tf_result_open *result);
void tf_result_ack_write(tf_writer *w, const tf_result_ack *result);
void tf_result_subscribe_write(tf_writer *w, const tf_result_subscribe *result);
void tf_result_refusal_write(tf_writer *w, const tf_result_refusal *result);
/* {epoch, first, head, items: [activity, ...]}: the head of the map, to be followed by `items` activities. */
void tf_result_read_write_head(tf_writer *w, const tf_result_subscribe *state, size_t items);

/* Upper bounds of what the writers above write. */
#define TF_RESULT_SMALL_MAX 512u

/* -- what a sink gets ---------------------------------------------------------------------------------------------- */

typedef struct tf_activity {
    uint64_t epoch;
    uint64_t seq;
    tf_slice id;
    tf_node_id sender; /* node id of the origin */
    tf_slice client_id;
    uint64_t timestamp_ms;
    tf_slice body;
} tf_activity;

/* The numbers go on at `next`: what lies between cannot be had. */
typedef struct tf_gap {
    uint64_t epoch;
    uint64_t next;
    tf_slice reason; /* "trimmed", "damaged", "too_large" */
} tf_gap;

#define TF_ACTIVITY_OVERHEAD 512u /* upper bound of an encoded activity, less its body */

TF_MUST_CHECK tf_err tf_activity_read(tf_slice in, tf_activity *out);
TF_MUST_CHECK tf_err tf_gap_read(tf_slice in, tf_gap *out);
void tf_activity_write(tf_writer *w, const tf_activity *activity);
void tf_gap_write(tf_writer *w, const tf_gap *gap);

#endif
