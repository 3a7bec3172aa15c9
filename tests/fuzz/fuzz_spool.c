/* node/spool over a hostile directory: the file of its state and a log whose checksums are right wherever the input
 * does not damage them, and that say anything. It opens, or says why not and leaves nothing open; what it hands out
 * can be sent; it takes more; and the next opening hands out the same, less what was done, and what was put.
 * Input: three bytes of decisions, the state's numbers, then records. */
#include <stdlib.h>

#include <xxhash.h>

#include "node/name.h"
#include "node/spool.h"
#include "node/store/commit_log.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/lossy_files.h"
#include "tests/support/support.h"

#define BLOCK 4096u
#define SEALED 504u
#define RECORDS_MAX 12u
#define MESSAGES_MAX 64u

static const char channel[] = "room/1";

/* -- the directory ------------------------------------------------------------------------------------------------- */

static uint64_t take_number(tf_slice *input)
{
    uint8_t small = tf_fuzz_u8(input);
    switch (small) {
    case 0xff:
        return UINT64_MAX - tf_fuzz_u8(input);
    case 0xfe:
        return (UINT64_C(1) << 62) - tf_fuzz_u8(input);
    default:
        return small & 15u;
    }
}

static void seal(uint8_t block[BLOCK])
{
    tf_writer w;
    tf_wr_init(&w, block + SEALED, 8);
    tf_wr_u64(&w, XXH3_64bits(block, SEALED));
}

static void put_owner(tf_slice *input, uint8_t kind, uint8_t block[BLOCK])
{
    uint8_t node[TF_NODE_ID_LEN];
    tf_slice name = (kind & 3u) == 3 ? tf_fuzz_bytes(input, tf_fuzz_u8(input)) : tf_slice_str(channel);
    tf_writer w;
    memset(node, 7, sizeof(node));
    tf_wr_init(&w, block, SEALED);
    tf_wr_bytes(&w, tf_slice_str("TFSPOOL\n"));
    tf_wr_u32(&w, (kind & 0x0cu) == 0x0cu ? 2 : TF_SPOOL_VERSION);
    tf_wr_bytes(&w, tf_slice_of(node, sizeof(node)));
    node[0] ^= (kind & 0x30u) == 0x30u ? 1 : 0;
    tf_wr_bytes(&w, tf_slice_of(node, sizeof(node)));
    tf_wr_u8(&w, (uint8_t)name.len);
    tf_wr_bytes(&w, name);
    seal(block);
}

static void put_state(tf_slice *input, const tf_files *files)
{
    static uint8_t blocks[3][BLOCK];
    tf_file *file = NULL;
    uint8_t kind = tf_fuzz_u8(input);
    memset(blocks, 0, sizeof(blocks));
    put_owner(input, kind, blocks[0]);
    for (size_t i = 1; i < 3; i++) {
        tf_writer w;
        tf_wr_init(&w, blocks[i], SEALED);
        tf_wr_u64(&w, take_number(input)); /* serial, answered, sent_to, sent_ms */
        tf_wr_u64(&w, take_number(input));
        tf_wr_u64(&w, take_number(input));
        tf_wr_u64(&w, take_number(input));
        seal(blocks[i]);
    }
    if ((kind & 0xc0u) == 0xc0u) {
        blocks[tf_fuzz_u8(input) % 3][tf_fuzz_u8(input)] ^= 1;
    }
    size_t size = (kind & 0xc0u) == 0x80u ? tf_fuzz_u32(input) % sizeof(blocks) : sizeof(blocks);
    TF_ASSERT(tf_files_open(files, TF_SPOOL_STATE_FILE, TF_FILE_ANY, &file) == TF_OK);
    TF_ASSERT(tf_files_write(files, file, 0, tf_slice_of(&blocks[0][0], size)) == TF_OK);
    tf_files_close(files, file);
}

static tf_store_op take_op(tf_slice *input)
{
    uint8_t what = tf_fuzz_u8(input);
    tf_store_op op = {.kind = TF_STORE_TRIM, .channel = 1, .seq = 1};
    if ((what & 1u) != 0) {
        return op;
    }
    op = (tf_store_op){.kind = TF_STORE_APPEND, .channel = 1 + (what >> 6)};
    op.message.seq = (what & 2u) != 0 ? 1 : 2;
    op.message.epoch = (what & 4u) != 0 ? 1 : 0;
    op.message.timestamp_ms = (int64_t)take_number(input);
    op.message.expires_ms = (int64_t)take_number(input);
    op.message.client_id = tf_fuzz_bytes(input, 1u + (tf_fuzz_u8(input) & 7u));
    op.message.meta = tf_fuzz_bytes(input, tf_fuzz_u8(input) & 7u);
    op.message.body = tf_fuzz_bytes(input, tf_fuzz_u8(input) & 31u);
    if (op.message.client_id.len == 0) {
        op.message.client_id = tf_slice_str("id");
    }
    return op;
}

/* Written by a log that was opened at `from`, so that its LSNs begin where the input says. */
static void put_log(tf_slice *input, const tf_files *files, uint64_t from)
{
    const tf_commit_log_config config = {.files = *files,
                                         .mem = tf_test_mem(),
                                         .rand = tf_test_rand(3),
                                         .segment_size = TF_LOG_SEGMENT_SIZE_MIN,
                                         .segments_max = TF_LOG_SEGMENTS_MIN};
    uint8_t bytes[1024];
    tf_log_item item;
    tf_commit_log *log = NULL;
    TF_ASSERT(tf_commit_log_open(&log, &config, from, NULL) == TF_OK);
    TF_ASSERT(tf_commit_log_next(log, &item) == TF_ERR_CLOSED);
    for (unsigned i = 0; i < RECORDS_MAX && input->len > 0; i++) {
        tf_store_op op = take_op(input);
        size_t len = tf_record_write(bytes, sizeof(bytes), tf_commit_log_key(log), tf_commit_log_next_lsn(log), &op);
        bytes[tf_fuzz_u8(input) % len] ^= tf_fuzz_u8(input) == 0x55 ? 1 : 0;
        TF_ASSERT(tf_commit_log_append(log, &(tf_commit_group){tf_slice_of(bytes, len), 1, false}) == TF_OK);
    }
    tf_commit_log_close(log);
}

/* -- the spool ----------------------------------------------------------------------------------------------------- */

typedef struct held {
    size_t count;
    uint64_t number[MESSAGES_MAX];
    uint64_t digest[MESSAGES_MAX];
} held;

static tf_spool *open_spool(tf_lossy_files *lossy)
{
    tf_spool *spool = NULL;
    char why[TF_WHY_MAX] = "";
    tf_lossy_counts counts;
    tf_spool_config config = {.files = tf_lossy_files_get(lossy),
                              .mem = tf_test_mem(),
                              .rand = tf_test_rand(5),
                              .bytes_max = TF_SPOOL_BYTES_MIN,
                              .owner = {.channel = tf_slice_str(channel)}};
    memset(config.owner.identity.bytes, 7, TF_NODE_ID_LEN);
    memset(config.owner.relay.bytes, 7, TF_NODE_ID_LEN);
    tf_err err = tf_spool_open(&spool, &config, why);
    if (err == TF_OK) {
        return spool;
    }
    TF_ASSERT((err == TF_ERR_USAGE || err == TF_ERR_DAMAGED) && why[0] != '\0');
    for (size_t i = 0; why[i] != '\0'; i++) {
        TF_ASSERT((uint8_t)why[i] >= 0x20 && why[i] != 0x7f);
    }
    tf_lossy_files_get_counts(lossy, &counts);
    TF_ASSERT(counts.open == 0);
    return NULL;
}

static void take_all(tf_spool *spool, held *out)
{
    tf_spool_message m;
    tf_err err = TF_OK;
    out->count = 0;
    while ((err = tf_spool_next(spool, 1000, &m)) == TF_OK) {
        TF_ASSERT(m.client_id.len >= 1 && m.client_id.len <= TF_CLIENT_ID_MAX && m.meta.len <= TF_META_MAX);
        TF_ASSERT(m.body.len <= TF_BODY_MAX && out->count < MESSAGES_MAX);
        TF_ASSERT(out->count == 0 || m.number > out->number[out->count - 1]);
        out->number[out->count] = m.number;
        out->digest[out->count++] = XXH3_64bits_withSeed(m.body.data, m.body.len, m.client_id.data[0]);
        tf_spool_take(spool);
    }
    TF_ASSERT(err == TF_ERR_CLOSED);
}

static void check_holds(tf_lossy_files *lossy, const held *expected, size_t done, uint64_t number)
{
    static held now;
    tf_spool *spool = open_spool(lossy);
    TF_ASSERT(spool != NULL);
    take_all(spool, &now);
    TF_ASSERT(now.count == expected->count - done + 1);
    for (size_t i = 0; i + 1 < now.count; i++) {
        TF_ASSERT(now.number[i] == expected->number[i + done] && now.digest[i] == expected->digest[i + done]);
    }
    TF_ASSERT(now.number[now.count - 1] == number);
    tf_spool_close(spool);
}

static void run(tf_lossy_files *lossy, uint8_t decisions)
{
    static held first;
    const tf_spool_message more = {.client_id = tf_slice_str("more"), .body = tf_slice_str("more")};
    tf_spool_message m;
    tf_spool *spool = open_spool(lossy);
    if (spool == NULL) {
        return;
    }
    take_all(spool, &first);
    size_t done = first.count == 0 ? 0 : decisions % (first.count + 1);
    for (size_t i = 0; i < done; i++) {
        tf_spool_done(spool, first.number[i]);
    }
    TF_ASSERT(tf_spool_put(spool, &more, 2000, (decisions & 1u) != 0) == TF_OK && tf_spool_sync(spool) == TF_OK);
    TF_ASSERT(tf_spool_next(spool, 3000, &m) == TF_OK && tf_slice_eq(m.client_id, more.client_id));
    uint64_t number = m.number;
    TF_ASSERT(tf_spool_note(spool, true) == TF_OK);
    tf_spool_close(spool);
    check_holds(lossy, &first, done, number);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tf_slice input = tf_slice_of(data, size);
    tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
    tf_files files = tf_lossy_files_get(lossy);
    uint8_t decisions = tf_fuzz_u8(&input);
    uint64_t from = take_number(&input);
    put_state(&input, &files);
    put_log(&input, &files, from >= TF_LOG_LSN_MAX ? 0 : from);
    tf_lossy_files_settle(lossy);
    run(lossy, decisions);
    tf_lossy_files_free(lossy);
    TF_ASSERT(tf_test_heap_shared()->live_blocks == 0);
    return 0;
}
