/* Tables of fields, by which calls.c and calls_result.c read maps; and writing of pairs. Not for others. Pure. */
#ifndef TF_NODE_CALLS_MAP_H
#define TF_NODE_CALLS_MAP_H

#include "proto/mp.h"

#define TF_CALLS_TEXT_MAX 1024u

/* A literal as a slice; as the first two members of a field. Lengths are known to the compiler: no strlen here. */
#define LIT(text) tf_slice_of(text, sizeof(text) - 1)
#define NAME(text) text, sizeof(text) - 1

typedef enum tf_field_type { UINT, BOOL, STR, BIN, NODE, RAW } tf_field_type;

/* A field of a map: where in the struct its value goes. */
typedef struct tf_field {
    const char *name;
    size_t name_len;
    tf_field_type type; /* UINT: uint64_t, BOOL: bool, NODE: tf_node_id, others: tf_slice */
    bool optional;
    size_t offset;
} tf_field;

#define FIELDS(array) array, sizeof(array) / sizeof((array)[0])
#define STRICT true
#define LENIENT false

/* Reads one map into *out; at most 32 fields. *present (may be NULL): bit i for fields[i]. strict: unknown keys are refused.
 * TF_ERR_PEER_SYNTAX. */
TF_MUST_CHECK tf_err tf_calls_read_map(tf_slice in, const tf_field *fields, size_t count, bool strict, void *out,
                                       unsigned *present);

void tf_calls_write_str(tf_writer *w, tf_slice key, tf_slice value);
void tf_calls_write_uint(tf_writer *w, tf_slice key, uint64_t value);
void tf_calls_write_bin(tf_writer *w, tf_slice key, tf_slice value);
void tf_calls_write_bool(tf_writer *w, tf_slice key, bool value);

#endif
