/* One change of the store (tf_store_op) as bytes that check themselves: what a commit log consists of (FORMAT.md L20 to
 * L27). Not for: groups and segments (log_segment.h).
 *
 * A record's checksum covers its LSN and is made with the log's secret key, so neither an old record in a recycled
 * segment nor one that a sender hid in a body is taken for a record. Pure; any thread. */
#ifndef TF_NODE_STORE_RECORD_H
#define TF_NODE_STORE_RECORD_H

#include "node/store/store.h"

#define TF_RECORD_HEADER 22u
/* Of any op: an append with the largest client id, meta and body is the largest. */
#define TF_RECORD_MAX (TF_RECORD_HEADER + 128u + TF_CLIENT_ID_MAX + TF_META_MAX + TF_BODY_MAX)

/* A decoded record. Slices of the op point into the bytes that were read. */
typedef struct tf_log_record {
    uint64_t lsn;
    size_t size; /* bytes of the record: the next one begins behind it */
    tf_store_op op; /* outcome: TF_REFUSAL_NONE; what its kind does not use is 0 */
} tf_log_record;

/* At least as many bytes as the op's record has. */
size_t tf_record_bound(const tf_store_op *op);

/* Writes the op's record; returns its size. cap >= tf_record_bound(op), asserted. Numbers (channel, seq, next) are below
 * 2^62, lengths within proto/limits.h, asserted. CREATE: with the channel's number. */
size_t tf_record_write(uint8_t *out, size_t cap, uint64_t key, uint64_t lsn, const tf_store_op *op);

/* The size and the LSN that the bytes claim, unchecked but for their bounds: false if no record can begin here. */
bool tf_record_peek(tf_slice in, size_t *size, uint64_t *lsn);

/* The record at the beginning of `in`, all of it validated; bytes behind it are not looked at. TF_ERR_DAMAGED: it is
 * none; TF_ERR_USAGE: it is whole, and of a version that this program does not know. On an error *out is undefined. */
TF_MUST_CHECK tf_err tf_record_read(tf_slice in, uint64_t key, tf_log_record *out);

/* The same without its checksum, for bytes that this process wrote or has checked: never out of bounds, but fooled by
 * damage. */
TF_MUST_CHECK tf_err tf_record_read_trusted(tf_slice in, tf_log_record *out);

#endif
