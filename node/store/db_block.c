#include "node/store/db_block.h"

#include <xxhash.h>

#include "proto/wire.h"

#define BLOCK_VERSION 1u
#define COUNT_AT (1u + 8u + 8u)
#define HEADER_LEN (COUNT_AT + 4u + 8u)
#define SUM_LEN 8u
#define HAS_EXPIRES 1u
#define HAS_META 2u
/* What a message takes at most beside its client id, meta and body. */
#define MESSAGE_OVERHEAD (1u + 8u + TF_NODE_ID_LEN + 8u + 8u + 8u + 8u + 8u + 1u + 8u + 8u)
#define ROOM_MIN (16u << 10)

struct tf_db_block {
    const tf_mem *mem;
    uint64_t channel;
    uint64_t first;
    size_t count;
    size_t size; /* of this */
    tf_stored messages[];
};

/* -- writing ------------------------------------------------------------------------------------------------------- */

void tf_db_block_writer_init(tf_db_block_writer *writer, const tf_mem *mem)
{
    writer->mem = mem;
    writer->bytes = NULL;
    writer->capacity = 0;
    tf_db_block_writer_start(writer, 0);
}

void tf_db_block_writer_clear(tf_db_block_writer *writer)
{
    tf_free(writer->mem, writer->bytes, writer->capacity);
    tf_db_block_writer_init(writer, writer->mem);
}

void tf_db_block_writer_start(tf_db_block_writer *writer, uint64_t channel)
{
    writer->len = 0;
    writer->channel = channel;
    writer->first = 0;
    writer->count = 0;
    writer->time_first = 0;
    writer->time_last = 0;
    writer->content = 0;
    writer->origins = 0;
    writer->epochs = 0;
}

static tf_err make_room(tf_db_block_writer *writer, size_t extra)
{
    size_t wanted = writer->len + extra;
    if (wanted <= writer->capacity) {
        return TF_OK;
    }
    size_t capacity = writer->capacity < ROOM_MIN ? ROOM_MIN : writer->capacity;
    while (capacity < wanted) {
        capacity *= 2;
    }
    uint8_t *bytes = tf_alloc(writer->mem, capacity);
    if (bytes == NULL) {
        return TF_ERR_NOMEM;
    }
    if (writer->len > 0) {
        memcpy(bytes, writer->bytes, writer->len);
    }
    tf_free(writer->mem, writer->bytes, writer->capacity);
    writer->bytes = bytes;
    writer->capacity = capacity;
    return TF_OK;
}

static void write_origin(tf_db_block_writer *writer, tf_writer *w, const tf_stored *m)
{
    size_t i = 0;
    while (i < writer->origins && !(writer->origin[i].instance == m->instance &&
                                    tf_node_id_eq(&writer->origin[i].id, &m->origin))) {
        i++;
    }
    tf_wr_var(w, i);
    if (i == writer->origins) {
        writer->origin[i].id = m->origin;
        writer->origin[i].instance = m->instance;
        writer->origins++;
        tf_wr_bytes(w, tf_slice_of(m->origin.bytes, TF_NODE_ID_LEN));
        tf_wr_u64(w, m->instance);
    }
}

static void write_epoch(tf_db_block_writer *writer, tf_writer *w, uint64_t epoch)
{
    size_t i = writer->epochs; /* the newest is the likeliest */
    while (i > 0 && writer->epoch[i - 1] != epoch) {
        i--;
    }
    if (i > 0) {
        tf_wr_var(w, i - 1);
        return;
    }
    tf_wr_var(w, writer->epochs);
    tf_wr_u64(w, epoch);
    writer->epoch[writer->epochs++] = epoch;
}

static void write_message(tf_db_block_writer *writer, tf_writer *w, const tf_stored *m)
{
    uint32_t flags = (m->expires_ms != 0 ? HAS_EXPIRES : 0u) | (m->meta.len > 0 ? HAS_META : 0u);
    tf_wr_u8(w, (uint8_t)flags);
    write_origin(writer, w, m);
    write_epoch(writer, w, m->epoch);
    tf_wr_var(w, (uint64_t)m->timestamp_ms - (uint64_t)writer->time_last);
    if (m->expires_ms != 0) {
        tf_wr_u64(w, (uint64_t)m->expires_ms);
    }
    tf_wr_u8(w, (uint8_t)m->client_id.len);
    tf_wr_bytes(w, m->client_id);
    if (m->meta.len > 0) {
        tf_wr_var(w, m->meta.len);
        tf_wr_bytes(w, m->meta);
    }
    tf_wr_var(w, m->body.len);
    tf_wr_bytes(w, m->body);
}

static void write_header(tf_db_block_writer *writer, tf_writer *w, const tf_stored *m)
{
    writer->first = m->seq;
    writer->time_first = m->timestamp_ms;
    writer->time_last = m->timestamp_ms;
    tf_wr_u8(w, BLOCK_VERSION);
    tf_wr_u64(w, writer->channel);
    tf_wr_u64(w, m->seq);
    tf_wr_u32(w, 0); /* the count is known at the end */
    tf_wr_u64(w, (uint64_t)m->timestamp_ms);
}

tf_err tf_db_block_writer_add(tf_db_block_writer *writer, const tf_stored *m)
{
    TF_ASSERT(m->client_id.len <= TF_CLIENT_ID_MAX && m->meta.len <= TF_META_MAX && m->body.len <= TF_MESSAGE_MAX);
    if (writer->count == TF_DB_BLOCK_MESSAGES || writer->len >= TF_DB_BLOCK_BYTES) {
        return TF_ERR_LIMIT_ITEMS;
    }
    size_t most = HEADER_LEN + MESSAGE_OVERHEAD + m->client_id.len + m->meta.len + m->body.len;
    if (writer->count > 0 && writer->len + most > TF_DB_BLOCK_BYTES + (TF_DB_BLOCK_BYTES >> 2)) {
        return TF_ERR_LIMIT_ITEMS; /* a large one gets a block of its own */
    }
    tf_err err = make_room(writer, most);
    if (err != TF_OK) {
        return err;
    }
    tf_writer w;
    tf_wr_init(&w, writer->bytes + writer->len, writer->capacity - writer->len);
    if (writer->count == 0) {
        write_header(writer, &w, m);
    }
    TF_ASSERT(m->seq == writer->first + writer->count && m->timestamp_ms >= writer->time_last);
    write_message(writer, &w, m);
    TF_ASSERT(tf_wr_ok(&w));
    writer->len += tf_wr_len(&w);
    writer->count++;
    writer->time_last = m->timestamp_ms;
    writer->content += tf_stored_bytes(m);
    return TF_OK;
}

tf_err tf_db_block_writer_end(tf_db_block_writer *writer, tf_slice *out)
{
    TF_ASSERT(writer->count > 0);
    tf_err err = make_room(writer, SUM_LEN);
    if (err != TF_OK) {
        return err;
    }
    tf_writer w;
    tf_wr_init(&w, writer->bytes + COUNT_AT, 4);
    tf_wr_u32(&w, (uint32_t)writer->count);
    tf_wr_init(&w, writer->bytes + writer->len, SUM_LEN);
    tf_wr_u64(&w, XXH3_64bits(writer->bytes, writer->len));
    *out = tf_slice_of(writer->bytes, writer->len + SUM_LEN);
    return TF_OK;
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

/* What has been met in a block. */
typedef struct known {
    size_t origins;
    size_t epochs;
    const tf_stored *origin[TF_DB_BLOCK_MESSAGES]; /* the message that brought it */
    uint64_t epoch[TF_DB_BLOCK_MESSAGES];
} known;

static void read_origin(tf_reader *r, known *k, tf_stored *m)
{
    size_t i = tf_rd_len(r, k->origins);
    if (i < k->origins) {
        m->origin = k->origin[i]->origin;
        m->instance = k->origin[i]->instance;
        return;
    }
    tf_slice id = tf_rd_bytes(r, TF_NODE_ID_LEN);
    if (id.len == TF_NODE_ID_LEN) {
        memcpy(m->origin.bytes, id.data, TF_NODE_ID_LEN);
    }
    m->instance = tf_rd_u64(r);
    k->origin[k->origins++] = m;
}

static void read_epoch(tf_reader *r, known *k, tf_stored *m)
{
    size_t i = tf_rd_len(r, k->epochs);
    if (i == k->epochs) {
        k->epoch[k->epochs++] = tf_rd_u64(r);
    }
    m->epoch = k->epoch[i];
}

static void read_message(tf_reader *r, known *k, tf_stored *m)
{
    uint8_t flags = tf_rd_u8(r);
    if ((flags & ~(HAS_EXPIRES | HAS_META)) != 0) {
        tf_rd_fail(r);
    }
    read_origin(r, k, m);
    read_epoch(r, k, m);
    m->timestamp_ms = (int64_t)((uint64_t)m->timestamp_ms + tf_rd_var(r));
    m->expires_ms = (flags & HAS_EXPIRES) != 0 ? (int64_t)tf_rd_u64(r) : 0;
    uint8_t len = tf_rd_u8(r);
    if (len > TF_CLIENT_ID_MAX) {
        tf_rd_fail(r);
    }
    m->client_id = tf_rd_bytes(r, len);
    if ((flags & HAS_META) != 0) {
        m->meta = tf_rd_bytes(r, tf_rd_len(r, TF_META_MAX));
    }
    m->body = tf_rd_bytes(r, tf_rd_len(r, TF_MESSAGE_MAX));
}

static bool sum_is_right(tf_slice bytes)
{
    tf_reader r;
    tf_rd_init(&r, tf_slice_of(bytes.data + bytes.len - SUM_LEN, SUM_LEN));
    return tf_rd_u64(&r) == XXH3_64bits(bytes.data, bytes.len - SUM_LEN);
}

/* The sum was right, so what fails here was written by another version or by a fault of ours. */
static bool read_all(tf_db_block *block, tf_slice bytes)
{
    known k;
    k.origins = 0;
    k.epochs = 0;
    tf_reader r;
    tf_rd_init(&r, bytes);
    bool ok = tf_rd_u8(&r) == BLOCK_VERSION;
    ok = tf_rd_u64(&r) == block->channel && ok;
    ok = tf_rd_u64(&r) == block->first && ok;
    ok = tf_rd_u32(&r) == block->count && ok;
    int64_t time = (int64_t)tf_rd_u64(&r);
    for (size_t i = 0; i < block->count && ok && tf_rd_ok(&r); i++) {
        tf_stored *m = &block->messages[i];
        *m = (tf_stored){.seq = block->first + i, .timestamp_ms = time};
        read_message(&r, &k, m);
        ok = m->timestamp_ms >= time;
        time = m->timestamp_ms;
    }
    return ok && tf_rd_end(&r) == TF_OK;
}

tf_err tf_db_block_read(tf_db_block **out, const tf_mem *mem, uint64_t channel, uint64_t first, uint64_t count,
                        tf_slice bytes)
{
    if (count == 0 || count > TF_DB_BLOCK_MESSAGES || first == 0 || first > UINT64_MAX - count ||
        bytes.len < HEADER_LEN + SUM_LEN || !sum_is_right(bytes)) {
        return TF_ERR_DAMAGED;
    }
    size_t size = sizeof(tf_db_block) + (size_t)count * sizeof(tf_stored) + bytes.len;
    tf_db_block *block = tf_alloc(mem, size);
    if (block == NULL) {
        return TF_ERR_NOMEM;
    }
    uint8_t *copy = (uint8_t *)&block->messages[count];
    memcpy(copy, bytes.data, bytes.len);
    block->mem = mem;
    block->channel = channel;
    block->first = first;
    block->count = (size_t)count;
    block->size = size;
    if (!read_all(block, tf_slice_of(copy, bytes.len - SUM_LEN))) {
        tf_db_block_free(block);
        return TF_ERR_DAMAGED;
    }
    *out = block;
    return TF_OK;
}

bool tf_db_block_describe(tf_slice bytes, uint64_t *channel, uint64_t *first, uint64_t *count)
{
    if (bytes.len < HEADER_LEN + SUM_LEN || !sum_is_right(bytes)) {
        return false;
    }
    tf_reader r;
    tf_rd_init(&r, bytes);
    bool ours = tf_rd_u8(&r) == BLOCK_VERSION;
    *channel = tf_rd_u64(&r);
    *first = tf_rd_u64(&r);
    *count = tf_rd_u32(&r);
    return ours;
}

void tf_db_block_free(tf_db_block *block)
{
    if (block != NULL) {
        tf_free(block->mem, block, block->size);
    }
}

uint64_t tf_db_block_channel(const tf_db_block *block)
{
    return block->channel;
}

uint64_t tf_db_block_first(const tf_db_block *block)
{
    return block->first;
}

uint64_t tf_db_block_last(const tf_db_block *block)
{
    return block->first + block->count - 1;
}

size_t tf_db_block_size(const tf_db_block *block)
{
    return block->size;
}

bool tf_db_block_message(const tf_db_block *block, uint64_t seq, tf_stored *out)
{
    if (seq < block->first || seq - block->first >= block->count) {
        return false;
    }
    *out = block->messages[seq - block->first];
    return true;
}
