#include "node/store/log_segment.h"

#include <xxhash.h>

#include "proto/wire.h"

/* magic(8) checksum(8) version(4) zero(4) number(8) key(8) size(8), zeros up to the end of the block (L3). */
#define SEGMENT_CHECKED_FROM 16u
/* checksum(8) magic(4) version(2) zero(2) segment(8) first(8) durable(8) count(4) size(4) (L8). */
#define GROUP_CHECKED_FROM 8u
#define GROUP_MAGIC 0x74664772u /* "tfGr" */

static const uint8_t segment_magic[8] = {'t', 'f', 'L', 'o', 'g', 'S', 'e', 'g'};

void tf_log_segment_write(uint8_t out[TF_LOG_BLOCK], const tf_log_segment_header *header)
{
    tf_writer w;
    memset(out, 0, TF_LOG_BLOCK);
    tf_wr_init(&w, out + SEGMENT_CHECKED_FROM, TF_LOG_BLOCK - SEGMENT_CHECKED_FROM);
    tf_wr_u32(&w, TF_LOG_VERSION);
    tf_wr_u32(&w, 0);
    tf_wr_u64(&w, header->number);
    tf_wr_u64(&w, header->key);
    tf_wr_u64(&w, header->size);
    tf_wr_init(&w, out, SEGMENT_CHECKED_FROM);
    tf_wr_bytes(&w, tf_slice_of(segment_magic, sizeof(segment_magic)));
    tf_wr_u64(&w, XXH3_64bits(out + SEGMENT_CHECKED_FROM, TF_LOG_BLOCK - SEGMENT_CHECKED_FROM));
}

tf_err tf_log_segment_read(tf_slice block, tf_log_segment_header *out)
{
    tf_reader r;
    if (block.len < TF_LOG_BLOCK || memcmp(block.data, segment_magic, sizeof(segment_magic)) != 0) {
        return TF_ERR_DAMAGED;
    }
    tf_rd_init(&r, tf_slice_of(block.data, TF_LOG_BLOCK));
    (void)tf_rd_bytes(&r, sizeof(segment_magic));
    if (tf_rd_u64(&r) != XXH3_64bits(block.data + SEGMENT_CHECKED_FROM, TF_LOG_BLOCK - SEGMENT_CHECKED_FROM)) {
        return TF_ERR_DAMAGED;
    }
    *out = (tf_log_segment_header){.version = tf_rd_u32(&r)};
    if (out->version != TF_LOG_VERSION) {
        return out->version > TF_LOG_VERSION ? TF_ERR_USAGE : TF_ERR_DAMAGED;
    }
    (void)tf_rd_u32(&r);
    out->number = tf_rd_u64(&r);
    out->key = tf_rd_u64(&r);
    out->size = tf_rd_u64(&r);
    return TF_OK;
}

void tf_log_group_write(uint8_t out[TF_LOG_GROUP_HEADER], uint64_t key, const tf_log_group *group)
{
    tf_writer w;
    tf_wr_init(&w, out + GROUP_CHECKED_FROM, TF_LOG_GROUP_HEADER - GROUP_CHECKED_FROM);
    tf_wr_u32(&w, GROUP_MAGIC);
    tf_wr_u16(&w, TF_LOG_VERSION);
    tf_wr_u16(&w, 0);
    tf_wr_u64(&w, group->segment);
    tf_wr_u64(&w, group->first);
    tf_wr_u64(&w, group->durable);
    tf_wr_u32(&w, group->count);
    tf_wr_u32(&w, group->size);
    tf_wr_init(&w, out, GROUP_CHECKED_FROM);
    tf_wr_u64(&w, XXH3_64bits_withSeed(out + GROUP_CHECKED_FROM, TF_LOG_GROUP_HEADER - GROUP_CHECKED_FROM, key));
}

/* Is there a group's header, and does it say what can be? */
static bool group_read(tf_slice in, uint64_t key, tf_log_group *out)
{
    tf_reader r;
    tf_rd_init(&r, in);
    uint64_t checksum = tf_rd_u64(&r);
    if (tf_rd_u32(&r) != GROUP_MAGIC || tf_rd_u16(&r) != TF_LOG_VERSION ||
        XXH3_64bits_withSeed(in.data + GROUP_CHECKED_FROM, TF_LOG_GROUP_HEADER - GROUP_CHECKED_FROM, key) != checksum) {
        return false;
    }
    (void)tf_rd_u16(&r);
    out->segment = tf_rd_u64(&r);
    out->first = tf_rd_u64(&r);
    out->durable = tf_rd_u64(&r);
    out->count = tf_rd_u32(&r);
    out->size = tf_rd_u32(&r);
    return out->first > out->durable && out->first <= TF_LOG_LSN_MAX - out->count;
}

bool tf_log_group_find(tf_slice bytes, uint64_t key, uint64_t number, uint64_t *offset, tf_log_group *out)
{
    for (uint64_t at = *offset; at < bytes.len && bytes.len - at >= TF_LOG_BLOCK; at += TF_LOG_BLOCK) {
        if (group_read(tf_slice_of(bytes.data + at, TF_LOG_GROUP_HEADER), key, out) && out->segment == number &&
            tf_log_group_span(out->size) <= bytes.len - at) {
            *offset = at;
            return true;
        }
    }
    return false;
}
