/* The exact window of one direction of a session: which link seqs were accepted. What it says is certain (P4).
 *
 * floor: everything from the first seq up to it was accepted; it moves by contiguity only. Above it a bitmap of
 * `segments` bits. The sender promises next - acked floor <= segments, so an honest one never goes beyond.
 * With each accepted seq a 32-bit content tag is kept: in the whole open window and for the last `segments` seqs below
 * the floor (up to 63 fewer), where late copies still come. The same seq with another tag is a conflict, never a silent drop.
 *
 * Seqs are compared as distances from the floor and the first seq, so a window may run over 2^64.
 * Memory: 1/2 to 1 byte a segment of the window, plus 264 bytes for every 64 seqs whose tags are kept (none when nothing has
 * come, at most 2 * segments of tags). An idle link calls tf_window_trim and keeps at most one block below the floor.
 * Not for: authentication (only authenticated segments come here), order, the segments themselves. Pure. One thread. */
#ifndef TF_DEDUP_WINDOW_H
#define TF_DEDUP_WINDOW_H

#include "proto/frame.h"
#include "proto/types.h"

typedef struct tf_window tf_window;

typedef enum tf_window_verdict {
    TF_WINDOW_NEW,     /* in the window, never accepted */
    TF_WINDOW_REPEAT,  /* accepted before, for certain */
    TF_WINDOW_BEYOND,  /* never accepted and not in the window: the peer broke its promise (TF_ERR_PEER_LIMIT) */
    TF_WINDOW_CONFLICT /* accepted before with another content (TF_ERR_PEER_CONFLICT) */
} tf_window_verdict;

/* A window of `segments` seqs (1 to TF_WINDOW_SEGMENTS_MAX, else TF_ERR_USAGE) whose first expected seq is `first`.
 * mem must outlive the window. TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_window_new(tf_window **out, uint64_t first, size_t segments, const tf_mem *mem);
void tf_window_free(tf_window *window); /* NULL is fine */

/* Decides, changes nothing. tag: of the copy that came. Below the kept tags a repeat is a repeat whatever its tag. */
tf_window_verdict tf_window_test(const tf_window *window, uint64_t seq, uint32_t tag);

/* Marks seq as accepted, once its segment is really accepted (is where no failure can lose it). Only for a seq that
 * tests NEW (asserted). The floor may move. TF_ERR_NOMEM: nothing changed, the seq is still new. */
TF_MUST_CHECK tf_err tf_window_accept(tf_window *window, uint64_t seq, uint32_t tag);

uint64_t tf_window_floor(const tf_window *window);
/* One past the highest accepted seq; the floor when nothing above it is held. */
uint64_t tf_window_end(const tf_window *window);
/* How many seqs above the floor are held. */
size_t tf_window_held(const tf_window *window);
/* How many seqs the window is wide. */
size_t tf_window_segments(const tf_window *window);
/* Was seq accepted (below the floor or held above it)? */
bool tf_window_is_held(const tf_window *window, uint64_t seq);

/* The ranges held above the floor, from `from` on (a seq below the floor counts as the floor; a range that `from` cuts
 * starts there), lowest first, at most max. Returns how many were written. Where the seqs run over 2^64 a range may
 * have last < first. For a link ack that has room for a few of many, go on at the last one's end. */
size_t tf_window_ranges(const tf_window *window, uint64_t from, tf_range *out, size_t max);

/* Forgets the tags of whole blocks below the floor and frees them. For a link that has fallen silent: afterwards late
 * copies of those seqs are plain repeats. */
void tf_window_trim(tf_window *window);

/* Bytes held from mem. */
size_t tf_window_memory(const tf_window *window);

#endif
