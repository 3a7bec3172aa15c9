/* The codec of session messages (PROTOCOL.md M1 to M6): one MessagePack array with an integer kind.
 *
 * deliver [1, number|nil, ack_delta, target, method, arguments, [ref, ...], result|nil] resolve [2, number|nil,
 * ack_delta, [[promise, 0, ref] | [promise, 1, data, [ref, ...]] | [promise, 2, data, [ref, ...]], ...]] drop [3,
 * number|nil, ack_delta, [ref, ...]] revoke [4, number|nil, ack_delta, [[object, 0 soft | 1 hard, data, [ref, ...]],
 * ...]] ack [5, number|nil, ack_delta]
 *
 * arguments and data are `bin`: opaque here. Bytes only: whether a ref exists is the session's business. Pure. Any
 * thread. */
#ifndef TF_PROTO_MESSAGE_H
#define TF_PROTO_MESSAGE_H

#include "proto/limits.h"
#include "proto/ref.h"
#include "proto/wire.h"

typedef enum tf_message_kind {
    TF_MESSAGE_DELIVER = 1,
    TF_MESSAGE_RESOLVE = 2,
    TF_MESSAGE_DROP = 3,
    TF_MESSAGE_REVOKE = 4,
    TF_MESSAGE_ACK = 5
} tf_message_kind;

typedef enum tf_resolution_kind {
    TF_RESOLUTION_OBJECT = 0,
    TF_RESOLUTION_DATA = 1,
    TF_RESOLUTION_REJECTION = 2
} tf_resolution_kind;

/* A list of refs still in its wire form: validated by tf_message_read, iterated with tf_refs_next. */
typedef struct tf_ref_list {
    tf_slice wire; /* the elements, without the array header */
    size_t count;
} tf_ref_list;

/* Takes the next ref off the list (which must have come from tf_message_read); false at its end. */
bool tf_refs_next(tf_ref_list *list, tf_ref *out);

typedef struct tf_resolution {
    tf_ref promise;
    tf_resolution_kind kind;
    tf_ref object;    /* OBJECT */
    tf_slice data;    /* DATA, REJECTION */
    tf_ref_list refs; /* DATA, REJECTION */
    uint32_t hops;    /* DATA, REJECTION: how far it has come (D13); 0: from who decided it */
} tf_resolution;

typedef struct tf_resolution_list {
    tf_slice wire;
    size_t count;
} tf_resolution_list;

bool tf_resolutions_next(tf_resolution_list *list, tf_resolution *out);

typedef struct tf_revoked {
    tf_ref object;
    bool hard;     /* its identity goes, too (D12) */
    tf_slice data; /* the rejection */
    tf_ref_list refs;
    uint32_t hops; /* as in tf_resolution */
} tf_revoked;

typedef struct tf_revocation_list {
    tf_slice wire;
    size_t count;
} tf_revocation_list;

bool tf_revocations_next(tf_revocation_list *list, tf_revoked *out);

typedef struct tf_message {
    tf_message_kind kind;
    bool has_number;
    uint64_t number;
    uint64_t ack_delta;
    /* DELIVER */
    tf_ref target;
    tf_slice method;
    tf_slice args;
    bool has_result;
    tf_ref result;
    tf_ref_list refs; /* DELIVER: mentioned; DROP: dropped */
    /* RESOLVE */
    tf_resolution_list resolutions;
    /* REVOKE */
    tf_revocation_list revocations;
} tf_message;

/* Validates the whole message before anything is in *out. Each byte is read as the type that its place asks for, so a
 * message that is read would pass tf_mp_check, too, which needs not go before it (tests/fuzz/fuzz_message.c). Refs
 * have the kinds that M2 to M6 ask for: a result and what is resolved are promises, an OBJECT and what is revoked are
 * objects. Lists of resolve, drop and revoke are not empty. At most TF_REFS_PER_MESSAGE resolutions or revocations,
 * and as many refs, over all of them. TF_ERR_PEER_SYNTAX or TF_ERR_PEER_LIMIT (too long, too many refs). Slices point
 * into `in`. */
TF_MUST_CHECK tf_err tf_message_read(tf_slice in, tf_message *out);

/* What a deliver says, borrowed for the call. */
typedef struct tf_deliver {
    tf_ref target;
    tf_slice method; /* 1 to TF_METHOD_MAX bytes of UTF-8 */
    tf_slice args;
    const tf_ref *refs; /* NULL when ref_count is 0 */
    size_t ref_count;
    bool has_result;
    tf_ref result; /* a promise */
} tf_deliver;

/* Writers. Each appends to w; ask tf_wr_ok(w) once at the end. number is always written. What tf_message_read would
 * refuse (a method, rejection or list beyond its limit, an empty list, a ref of the wrong kind) is the caller's fault
 * and asserted: check what an application hands in before it comes here. */
void tf_message_write_deliver(tf_writer *w, uint64_t number, uint64_t ack_delta, const tf_deliver *deliver);
/* Is followed by exactly that many resolutions (1 to TF_REFS_PER_MESSAGE). */
void tf_message_write_resolve_head(tf_writer *w, uint64_t number, uint64_t ack_delta, size_t resolutions);
void tf_message_write_resolution_object(tf_writer *w, tf_ref promise, tf_ref object);
/* Is followed by exactly that many revocations (1 to TF_REFS_PER_MESSAGE). */
void tf_message_write_revoke_head(tf_writer *w, uint64_t number, uint64_t ack_delta, size_t revocations);
/* A line of a resolve with data, or of a revoke, borrowed for the call. */
typedef struct tf_told {
    tf_ref ref;    /* the promise, or the object */
    unsigned mode; /* TF_RESOLUTION_DATA or _REJECTION; of a revoke: 1 hard, 0 soft */
    tf_slice data;
    const tf_ref *refs; /* NULL when ref_count is 0 */
    size_t ref_count;
    uint32_t hops; /* at most TF_HOPS_WIRE_MAX; 0 is left out */
} tf_told;

void tf_message_write_told(tf_writer *w, const tf_told *told);
void tf_message_write_drop(tf_writer *w, uint64_t number, uint64_t ack_delta, const tf_ref *refs, size_t ref_count);
void tf_message_write_ack(tf_writer *w, uint64_t number, uint64_t ack_delta);

/* Upper bound of the encoded size of a deliver / of a resolve with one data resolution, for room checks. The lengths
 * are within their limits, so that nothing overflows. */
size_t tf_message_deliver_bound(size_t method_len, size_t args_len, size_t ref_count);
size_t tf_message_resolution_bound(size_t data_len, size_t ref_count);
/* The exact size of what stands before the lines of a resolve or revoke that has at most 15 of them; of one resolution
 * as an object; of one as data or a rejection, or of one revocation. */
size_t tf_message_list_head_len(uint64_t number, uint64_t ack_delta);
size_t tf_message_resolution_object_len(tf_ref promise, tf_ref object);
size_t tf_message_told_len(const tf_told *told);

#endif
