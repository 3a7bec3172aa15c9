/* What the store keeps as bytes that check themselves: records, headers of segments and groups, blocks, parts of keys,
 * manifests. The sums are made right here, as if a fault of ours had written what the input says. Any bytes are
 * damage, or what was read lies within its limits, is written and read again as the same.
 * Input: one byte (which kind), then the bytes. */
#include <stdio.h>
#include <stdlib.h>

#include <openssl/evp.h>
#include <xxhash.h>

#include "node/store/db_block.h"
#include "node/store/db_part.h"
#include "node/store/log_segment.h"
#include "node/store/manifest.h"
#include "node/store/record.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/support.h"

#define KEY UINT64_C(0x0123456789abcdef)
#define SUM_LEN 8u

static void put_u64(uint8_t *out, uint64_t value)
{
    tf_writer w;
    tf_wr_init(&w, out, sizeof(value));
    tf_wr_u64(&w, value);
}

/* -- records ------------------------------------------------------------------------------------------------------- */

static void check_same_message(const tf_stored *m, const tf_stored *n)
{
    TF_ASSERT(m->seq == n->seq && m->epoch == n->epoch && m->timestamp_ms == n->timestamp_ms);
    TF_ASSERT(m->expires_ms == n->expires_ms && m->instance == n->instance && tf_node_id_eq(&m->origin, &n->origin));
    TF_ASSERT(tf_slice_eq(m->client_id, n->client_id) && tf_slice_eq(m->meta, n->meta));
    TF_ASSERT(tf_slice_eq(m->body, n->body));
}

static void check_same_op(const tf_store_op *a, const tf_store_op *b)
{
    TF_ASSERT(a->kind == b->kind && a->channel == b->channel && a->epoch == b->epoch && a->seq == b->seq);
    TF_ASSERT(a->time_ms == b->time_ms && tf_slice_eq(a->name, b->name));
    check_same_message(&a->message, &b->message);
    TF_ASSERT(a->cursor.channel == b->cursor.channel && a->cursor.epoch == b->cursor.epoch);
    TF_ASSERT(a->cursor.next == b->cursor.next && a->cursor.moved_ms == b->cursor.moved_ms);
    TF_ASSERT(tf_node_id_eq(&a->cursor.owner, &b->cursor.owner) && tf_slice_eq(a->cursor.name, b->cursor.name));
}

static void run_record(uint8_t *bytes, size_t len)
{
    tf_log_record record;
    tf_log_record trusted;
    tf_log_record again;
    size_t size = 0;
    uint64_t lsn = 0;
    tf_slice in = tf_slice_of(bytes, len);
    if (len >= TF_RECORD_HEADER) {
        tf_writer w;
        tf_wr_init(&w, bytes + SUM_LEN, 4);
        tf_wr_u32(&w, (uint32_t)len);
        put_u64(bytes, XXH3_64bits_withSeed(bytes + SUM_LEN, len - SUM_LEN, KEY));
    }
    bool peeked = tf_record_peek(in, &size, &lsn);
    if (tf_record_read(in, KEY, &record) != TF_OK) {
        return;
    }
    TF_ASSERT(peeked && size == len && record.size == len && record.lsn == lsn);
    TF_ASSERT(tf_record_read_trusted(in, &trusted) == TF_OK);
    check_same_op(&record.op, &trusted.op);
    size_t bound = tf_record_bound(&record.op);
    uint8_t *out = malloc(bound);
    TF_ASSERT(out != NULL && bound <= TF_RECORD_MAX);
    size = tf_record_write(out, bound, KEY, lsn, &record.op);
    TF_ASSERT(size <= len && tf_record_read(tf_slice_of(out, size), KEY, &again) == TF_OK);
    TF_ASSERT(again.lsn == lsn);
    check_same_op(&record.op, &again.op);
    TF_ASSERT(tf_record_read(tf_slice_of(out, size), KEY + 1, &again) == TF_ERR_DAMAGED);
    free(out);
}

/* -- segments ------------------------------------------------------------------------------------------------------ */

static void run_segment(uint8_t *bytes, size_t len)
{
    static const uint8_t magic[8] = {'t', 'f', 'L', 'o', 'g', 'S', 'e', 'g'};
    uint8_t out[TF_LOG_BLOCK];
    tf_log_segment_header header;
    tf_log_segment_header again;
    if (len >= TF_LOG_BLOCK) {
        memcpy(bytes, magic, sizeof(magic));
        put_u64(bytes + 8, XXH3_64bits(bytes + 16, TF_LOG_BLOCK - 16));
    }
    if (tf_log_segment_read(tf_slice_of(bytes, len), &header) != TF_OK) {
        return;
    }
    tf_log_segment_write(out, &header);
    TF_ASSERT(tf_log_segment_read(tf_slice_of(out, sizeof(out)), &again) == TF_OK);
    TF_ASSERT(again.number == header.number && again.key == header.key && again.size == header.size);
}

/* Each block may be a group; all that are found lie in the bytes, one behind the other, and can be. */
static void run_groups(uint8_t *bytes, size_t len)
{
    uint64_t offset = 0;
    tf_log_group group;
    uint8_t header[TF_LOG_GROUP_HEADER];
    for (size_t at = 0; at + TF_LOG_BLOCK <= len; at += TF_LOG_BLOCK) {
        put_u64(bytes + at, XXH3_64bits_withSeed(bytes + at + 8, TF_LOG_GROUP_HEADER - 8, KEY));
    }
    for (uint64_t before = 0; tf_log_group_find(tf_slice_of(bytes, len), KEY, 7, &offset, &group); before = offset) {
        TF_ASSERT(offset >= before && offset % TF_LOG_BLOCK == 0 && group.segment == 7);
        TF_ASSERT(tf_log_group_span(group.size) <= len - offset && group.first > group.durable);
        TF_ASSERT(group.count == 0 || tf_log_group_last(&group) >= group.first);
        tf_log_group_write(header, KEY, &group);
        TF_ASSERT(memcmp(header + 16, bytes + offset + 16, TF_LOG_GROUP_HEADER - 16) == 0);
        offset += tf_log_group_span(group.size);
    }
}

/* -- blocks -------------------------------------------------------------------------------------------------------- */

static void end_block(tf_db_block_writer *writer, const tf_db_block *original)
{
    tf_slice bytes;
    tf_db_block *block = NULL;
    tf_stored m;
    tf_stored n;
    TF_ASSERT(tf_db_block_writer_end(writer, &bytes) == TF_OK);
    TF_ASSERT(tf_db_block_read(&block, tf_test_mem(), writer->channel, writer->first, writer->count, bytes) == TF_OK);
    for (uint64_t seq = writer->first; seq < writer->first + writer->count; seq++) {
        TF_ASSERT(tf_db_block_message(original, seq, &m) && tf_db_block_message(block, seq, &n));
        check_same_message(&m, &n);
    }
    tf_db_block_free(block);
}

static void rewrite_block(const tf_db_block *block)
{
    static tf_db_block_writer writer;
    tf_stored m;
    tf_db_block_writer_init(&writer, tf_test_mem());
    tf_db_block_writer_start(&writer, tf_db_block_channel(block));
    for (uint64_t seq = tf_db_block_first(block); seq <= tf_db_block_last(block); seq++) {
        TF_ASSERT(tf_db_block_message(block, seq, &m));
        TF_ASSERT(m.client_id.len <= TF_CLIENT_ID_MAX && m.meta.len <= TF_META_MAX && m.body.len <= TF_MESSAGE_MAX);
        if (tf_db_block_writer_add(&writer, &m) == TF_ERR_LIMIT_ITEMS) {
            end_block(&writer, block);
            tf_db_block_writer_start(&writer, tf_db_block_channel(block));
            TF_ASSERT(tf_db_block_writer_add(&writer, &m) == TF_OK);
        }
    }
    end_block(&writer, block);
    tf_db_block_writer_clear(&writer);
}

static void run_block(uint8_t *bytes, size_t len)
{
    uint64_t channel = 0;
    uint64_t first = 0;
    uint64_t count = 0;
    tf_db_block *block = NULL;
    if (len >= SUM_LEN) {
        put_u64(bytes + len - SUM_LEN, XXH3_64bits(bytes, len - SUM_LEN));
    }
    if (!tf_db_block_describe(tf_slice_of(bytes, len), &channel, &first, &count)) {
        return;
    }
    tf_slice in = tf_slice_of(bytes, len);
    TF_ASSERT(tf_db_block_read(&block, tf_test_mem(), channel + 1, first, count, in) == TF_ERR_DAMAGED);
    if (tf_db_block_read(&block, tf_test_mem(), channel, first, count, in) == TF_OK) {
        TF_ASSERT(tf_db_block_first(block) == first && tf_db_block_last(block) == first + count - 1);
        rewrite_block(block);
        tf_db_block_free(block);
    }
}

/* -- parts --------------------------------------------------------------------------------------------------------- */

static int by_hash(const void *a, const void *b)
{
    const tf_db_entry *x = a;
    const tf_db_entry *y = b;
    return (x->hash > y->hash) - (x->hash < y->hash);
}

static void rewrite_part(tf_db_entries *entries)
{
    size_t room = tf_db_part_room(entries->count);
    uint8_t *out = malloc(room);
    tf_db_entries again = {.mem = tf_test_mem()};
    TF_ASSERT(out != NULL);
    qsort(entries->at, entries->count, sizeof(*entries->at), by_hash);
    size_t len = tf_db_part_write(entries->at, entries->count, out, room);
    TF_ASSERT(tf_db_part_read(tf_slice_of(out, len), &again) == TF_OK && again.count == entries->count);
    for (size_t i = 0; i < again.count; i++) {
        TF_ASSERT(tf_db_entry_is_same(&entries->at[i], &again.at[i]));
        TF_ASSERT(memcmp(&entries->at[i].key, &again.at[i].key, sizeof(tf_store_key)) == 0);
    }
    tf_db_entries_clear(&again);
    free(out);
}

static void run_part(uint8_t *bytes, size_t len)
{
    tf_db_entries entries = {.mem = tf_test_mem()};
    tf_slice in = tf_slice_of(bytes, len);
    if (len >= SUM_LEN) {
        put_u64(bytes + len - SUM_LEN, XXH3_64bits(bytes, len - SUM_LEN));
    }
    if (tf_db_part_read(in, &entries) == TF_OK && entries.count > 0) {
        tf_store_key key;
        for (size_t i = 0; i < entries.count; i++) {
            TF_ASSERT(entries.at[i].client_id.len <= TF_CLIENT_ID_MAX);
            TF_ASSERT(tf_db_part_find(in, &entries.at[i], &key) == TF_OK);
        }
        rewrite_part(&entries);
    }
    tf_db_entries_clear(&entries);
}

/* -- manifests ----------------------------------------------------------------------------------------------------- */

/* The text, and the line with its sum behind it. For free(). */
static char *with_sum(tf_slice text, size_t *len)
{
    uint8_t sum[EVP_MAX_MD_SIZE];
    size_t cap = text.len + TF_SUM_TEXT + 16;
    char *out = malloc(cap);
    TF_ASSERT(out != NULL && EVP_Digest(text.data, text.len, sum, NULL, EVP_sha256(), NULL) == 1);
    memcpy(out, text.data, text.len);
    *len = text.len;
    *len += (size_t)snprintf(out + *len, cap - *len, "sum ");
    for (size_t i = 0; i < 32; i++) {
        *len += (size_t)snprintf(out + *len, cap - *len, "%02x", sum[i]);
    }
    out[(*len)++] = '\n';
    return out;
}

static void run_manifest(tf_slice text)
{
    tf_manifest manifest;
    tf_manifest again;
    char out[TF_MANIFEST_MAX];
    char why[TF_WHY_MAX] = "";
    size_t len = 0;
    TF_ASSERT(tf_manifest_parse(&manifest, text, why) != TF_OK || text.len > TF_SUM_TEXT);
    char *summed = with_sum(text, &len);
    uint8_t *exact = tf_test_exact(tf_slice_of((uint8_t *)summed, len));
    tf_err err = tf_manifest_parse(&manifest, tf_slice_of(exact, len), why);
    TF_ASSERT(err == TF_OK || (why[0] != '\0' && (err == TF_ERR_DAMAGED || err == TF_ERR_USAGE)));
    if (err == TF_OK) {
        size_t size = tf_manifest_format(&manifest, out);
        TF_ASSERT(size < sizeof(out) && tf_manifest_parse(&again, tf_slice_of((uint8_t *)out, size), why) == TF_OK);
        TF_ASSERT(strcmp(manifest.twofold, again.twofold) == 0 && strcmp(manifest.created, again.created) == 0);
        TF_ASSERT(manifest.applied_lsn == again.applied_lsn && manifest.channels == again.channels);
        TF_ASSERT(manifest.messages == again.messages && manifest.size == again.size);
        TF_ASSERT(strcmp(manifest.sum, again.sum) == 0);
    }
    free(exact);
    free(summed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tf_slice input = tf_slice_of(data, size);
    unsigned kind = tf_fuzz_u8(&input) % 6;
    uint8_t *exact = tf_test_exact(input);
    switch (kind) {
    case 0:
        run_record(exact, input.len);
        break;
    case 1:
        run_segment(exact, input.len);
        break;
    case 2:
        run_groups(exact, input.len);
        break;
    case 3:
        run_block(exact, input.len);
        break;
    case 4:
        run_part(exact, input.len);
        break;
    default:
        run_manifest(tf_slice_of(exact, input.len));
        break;
    }
    TF_ASSERT(tf_test_heap_shared()->live_blocks == 0);
    free(exact);
    return 0;
}
