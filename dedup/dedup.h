/* Is (sender node id, instance, session, link seq) new? A Bloom filter that all connections of a process share, as a
 * shortcut, in front of the exact window of each stream of segments.
 *
 * Rule P4, nothing is dropped on a guess: the filter may only say "surely new", and is believed only for as long as it
 * is known to remember all that the stream holds; everything else, "maybe" above all, is decided by the exact window.
 * With no filter, or with all its bits set, every verdict is the same. Identity is never content: equal bodies under
 * two seqs are two segments; two bodies under one seq are a conflict.
 * Nothing unauthenticated may be passed in here, and a seq is marked only when its segment is really accepted.
 *
 * A stream belongs to one session in one direction; it lives as long as the session, over all its generations and
 * routes, and is never evicted. A restarted sender has a new instance, hence a new session and a new stream.
 * Pure. One thread for a tf_dedup and all its streams. */
#ifndef TF_DEDUP_DEDUP_H
#define TF_DEDUP_DEDUP_H

#include "dedup/bloom.h"
#include "dedup/window.h"
#include "proto/frame.h"
#include "proto/types.h"

typedef struct tf_dedup tf_dedup;
typedef struct tf_dedup_stream tf_dedup_stream;

typedef struct tf_dedup_counts {
    uint64_t surely_new; /* decided by the filter */
    uint64_t maybe;      /* the filter said maybe: decided by the window */
    uint64_t maybe_new;  /* of these: new after all */
    uint64_t unsure;     /* the filter had rotated past what the stream holds: decided by the window */
} tf_dedup_counts;

/* The filter of a process. Errors as tf_bloom_new. It must outlive its streams; mem must outlive it. */
TF_MUST_CHECK tf_err tf_dedup_new(tf_dedup **out, const tf_bloom_config *config, const tf_mem *mem);
void tf_dedup_free(tf_dedup *dedup); /* NULL is fine */
tf_dedup_counts tf_dedup_get_counts(const tf_dedup *dedup);

typedef struct tf_dedup_stream_config {
    tf_dedup *dedup;  /* NULL: the exact window alone */
    uint64_t tag_key; /* random, per process; keys the content tags */
    tf_node_id sender;
    uint64_t instance;
    uint64_t session;
    uint64_t first;  /* first expected seq (0 in the protocol) */
    size_t segments; /* width of the window, as announced to the sender */
} tf_dedup_stream_config;

/* Errors as tf_window_new. */
TF_MUST_CHECK tf_err tf_dedup_stream_new(tf_dedup_stream **out, const tf_dedup_stream_config *config,
                                         const tf_mem *mem);
void tf_dedup_stream_free(tf_dedup_stream *stream); /* NULL is fine */

/* The content tag of a segment: keyed, over its flags and data (not its seq). */
uint32_t tf_dedup_stream_tag(const tf_dedup_stream *stream, const tf_segment *segment);

/* As tf_window_test; changes nothing but counters. */
tf_window_verdict tf_dedup_stream_test(const tf_dedup_stream *stream, uint64_t seq, uint32_t tag);
/* As tf_window_accept. TF_ERR_NOMEM: nothing changed, the seq is still new. */
TF_MUST_CHECK tf_err tf_dedup_stream_accept(tf_dedup_stream *stream, uint64_t seq, uint32_t tag);

/* The exact window: floor, held ranges. Lives as long as the stream. */
const tf_window *tf_dedup_stream_window(const tf_dedup_stream *stream);
/* As tf_window_trim. */
void tf_dedup_stream_trim(tf_dedup_stream *stream);

#endif
