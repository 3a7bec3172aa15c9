/* The bytes of a segment file of the commit log (FORMAT.md L1 to L13): its header, the headers of groups, and where in a
 * segment groups are. Not for: records (record.h), files (commit_log.h, log_reader.h). Pure; any thread. */
#ifndef TF_NODE_STORE_LOG_SEGMENT_H
#define TF_NODE_STORE_LOG_SEGMENT_H

#include "proto/types.h"

#define TF_LOG_VERSION 1u           /* of all that FORMAT.md describes */
#define TF_LOG_BLOCK 512u           /* groups begin and end at multiples of it */
#define TF_LOG_SEGMENT_HEADER 4096u /* groups begin behind it; what it says is in its first block */
#define TF_LOG_GROUP_HEADER 48u
/* No log reaches it; what claims to is damaged. So there is room above it for sums, and below 2^62 for a var. */
#define TF_LOG_LSN_MAX (UINT64_C(1) << 61)

typedef struct tf_log_segment_header {
    uint32_t version;
    uint64_t number; /* the file's own: groups that name another are left from an earlier use */
    uint64_t key;    /* the log's secret, with which checksums of groups and records are made */
    uint64_t size;   /* of the file */
} tf_log_segment_header;

typedef struct tf_log_group {
    uint64_t segment; /* number of the segment it was written to */
    uint64_t first;   /* LSN of its first record (none: that the next one would have), 1 at least */
    uint64_t durable; /* the highest LSN known durable when it was written; below first */
    uint32_t count;   /* records; 0: it is only there to say what is durable */
    uint32_t size;    /* bytes of records */
} tf_log_group;

/* Of LSNs, both included. */
typedef struct tf_log_range {
    uint64_t first;
    uint64_t last;
} tf_log_range;

static inline uint64_t tf_log_group_last(const tf_log_group *group)
{
    return group->first + group->count - 1;
}

/* Bytes that a group with so many bytes of records takes in a segment. */
static inline uint64_t tf_log_group_span(uint64_t size)
{
    return (TF_LOG_GROUP_HEADER + size + TF_LOG_BLOCK - 1) / TF_LOG_BLOCK * TF_LOG_BLOCK;
}

/* One block, of the version TF_LOG_VERSION. */
void tf_log_segment_write(uint8_t out[TF_LOG_BLOCK], const tf_log_segment_header *header);
/* TF_ERR_DAMAGED: it is no header; TF_ERR_USAGE: it is one of a later version, and only out->version is valid. */
TF_MUST_CHECK tf_err tf_log_segment_read(tf_slice block, tf_log_segment_header *out);

void tf_log_group_write(uint8_t out[TF_LOG_GROUP_HEADER], uint64_t key, const tf_log_group *group);

/* The first group of the segment `number` at *offset or behind it: true, *offset is where it begins, and it ends within
 * the bytes. `bytes` is the whole file; its records are not looked at. false: there is none. */
bool tf_log_group_find(tf_slice bytes, uint64_t key, uint64_t number, uint64_t *offset, tf_log_group *out);

#endif
