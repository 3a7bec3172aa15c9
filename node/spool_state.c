#include "node/spool_state.h"

#include <errno.h>

#include <xxhash.h>

#include "handshake/node_id.h"
#include "node/name.h"
#include "node/store/log_segment.h"
#include "proto/wire.h"

#define BLOCK 4096u
#define BLOCK_SUM 504u /* where the checksum is, and what it is of */
#define STATE_NEW "spool.new"

static const uint8_t magic[8] = {'T', 'F', 'S', 'P', 'O', 'O', 'L', '\n'};

/* -- blocks -------------------------------------------------------------------------------------------------------- */

static void seal(uint8_t block[BLOCK])
{
    tf_writer w;
    tf_wr_init(&w, block + BLOCK_SUM, 8);
    tf_wr_u64(&w, XXH3_64bits(block, BLOCK_SUM));
}

static bool is_sealed(const uint8_t block[BLOCK])
{
    tf_reader r;
    tf_rd_init(&r, tf_slice_of(block + BLOCK_SUM, 8));
    return tf_rd_u64(&r) == XXH3_64bits(block, BLOCK_SUM);
}

static void owner_write(uint8_t block[BLOCK], const tf_spool_owner *owner)
{
    tf_writer w;
    memset(block, 0, BLOCK);
    tf_wr_init(&w, block, BLOCK_SUM);
    tf_wr_bytes(&w, tf_slice_of(magic, sizeof(magic)));
    tf_wr_u32(&w, TF_SPOOL_VERSION);
    tf_wr_bytes(&w, tf_slice_of(owner->identity.bytes, TF_NODE_ID_LEN));
    tf_wr_bytes(&w, tf_slice_of(owner->relay.bytes, TF_NODE_ID_LEN));
    tf_wr_u8(&w, (uint8_t)owner->channel.len);
    tf_wr_bytes(&w, owner->channel);
    TF_ASSERT(tf_wr_ok(&w));
    seal(block);
}

/* The channel's name points into the block. */
static tf_err owner_read(const uint8_t block[BLOCK], tf_spool_owner *out, uint32_t *version)
{
    tf_reader r;
    tf_rd_init(&r, tf_slice_of(block, BLOCK_SUM));
    tf_slice found = tf_rd_bytes(&r, sizeof(magic));
    if (!is_sealed(block) || !tf_slice_eq(found, tf_slice_of(magic, sizeof(magic)))) {
        return TF_ERR_DAMAGED;
    }
    *version = tf_rd_u32(&r);
    if (*version > TF_SPOOL_VERSION) {
        return TF_ERR_USAGE;
    }
    memcpy(out->identity.bytes, tf_rd_bytes(&r, TF_NODE_ID_LEN).data, TF_NODE_ID_LEN);
    memcpy(out->relay.bytes, tf_rd_bytes(&r, TF_NODE_ID_LEN).data, TF_NODE_ID_LEN);
    out->channel = tf_rd_bytes(&r, tf_rd_u8(&r));
    return tf_rd_ok(&r) && tf_channel_name_is_valid(out->channel) ? TF_OK : TF_ERR_DAMAGED;
}

static void progress_write(uint8_t block[BLOCK], uint64_t serial, const tf_spool_progress *progress)
{
    tf_writer w;
    memset(block, 0, BLOCK);
    tf_wr_init(&w, block, BLOCK_SUM);
    tf_wr_u64(&w, serial);
    tf_wr_u64(&w, progress->answered);
    tf_wr_u64(&w, progress->sent_to);
    tf_wr_u64(&w, (uint64_t)progress->sent_ms);
    seal(block);
}

/* `place`: 1 or 2. One in the other's place, or with numbers that nothing counts up to, is none: no later one could follow
 * it. */
static bool progress_read(const uint8_t block[BLOCK], size_t place, uint64_t *serial, tf_spool_progress *out)
{
    tf_reader r;
    tf_rd_init(&r, tf_slice_of(block, BLOCK_SUM));
    *serial = tf_rd_u64(&r);
    out->answered = tf_rd_u64(&r);
    out->sent_to = tf_rd_u64(&r);
    out->sent_ms = (int64_t)tf_rd_u64(&r);
    return is_sealed(block) && *serial % 2 == place % 2 && *serial < INT64_MAX && out->answered < TF_LOG_LSN_MAX;
}

/* -- open ---------------------------------------------------------------------------------------------------------- */

static tf_err write_first(tf_spool_state *state, const tf_spool_owner *owner)
{
    uint8_t blocks[3][BLOCK];
    owner_write(blocks[0], owner);
    progress_write(blocks[1], 1, &(tf_spool_progress){0});
    progress_write(blocks[2], 0, &(tf_spool_progress){0});
    tf_err err = tf_files_open(&state->files, STATE_NEW, TF_FILE_ANY, &state->file);
    if (err == TF_OK) {
        err = tf_files_write(&state->files, state->file, 0, tf_slice_of(blocks, sizeof(blocks)));
    }
    if (err == TF_OK) {
        err = tf_files_sync(&state->files, state->file);
    }
    if (err == TF_OK) {
        err = state->files.table->rename(state->files.ctx, STATE_NEW, TF_SPOOL_STATE_FILE);
    }
    if (err == TF_OK) {
        err = state->files.table->sync_dir(state->files.ctx, "");
    }
    state->serial = 1;
    return err;
}

static tf_err not_ours(const tf_spool_owner *found, const tf_spool_owner *owner, char why[TF_WHY_MAX])
{
    char had[TF_NODE_ID_TEXT_LEN + 1];
    char wanted[TF_NODE_ID_TEXT_LEN + 1];
    bool other_relay = !tf_node_id_eq(&found->relay, &owner->relay);
    if (!tf_slice_eq(found->channel, owner->channel)) {
        return tf_why(why, "it holds sends for channel '%.*s', not for '%.*s'", (int)found->channel.len,
                      (const char *)found->channel.data, (int)owner->channel.len, (const char *)owner->channel.data);
    }
    tf_node_id_format(other_relay ? &found->relay : &found->identity, had);
    tf_node_id_format(other_relay ? &owner->relay : &owner->identity, wanted);
    return tf_why(why, "it holds sends %s %s, not %s", other_relay ? "for the relay" : "of the identity", had, wanted);
}

static tf_err check_owner(const uint8_t block[BLOCK], const tf_spool_owner *owner, char why[TF_WHY_MAX])
{
    tf_spool_owner found;
    uint32_t version = 0;
    tf_err err = owner_read(block, &found, &version);
    if (err == TF_ERR_USAGE) {
        return tf_why(why, "it is of version %u, and this program knows %u", version, TF_SPOOL_VERSION);
    }
    if (err != TF_OK) {
        (void)tf_why(why, "its file %s is damaged", TF_SPOOL_STATE_FILE);
        return err;
    }
    bool same = tf_node_id_eq(&found.identity, &owner->identity) && tf_node_id_eq(&found.relay, &owner->relay) &&
                tf_slice_eq(found.channel, owner->channel);
    return same ? TF_OK : not_ours(&found, owner, why);
}

static tf_err read_all(tf_spool_state *state, const tf_spool_owner *owner, char why[TF_WHY_MAX])
{
    uint8_t blocks[3][BLOCK];
    size_t got = 0;
    tf_err err = tf_files_read(&state->files, state->file, 0, blocks, sizeof(blocks), &got);
    if (err != TF_OK) {
        (void)tf_why(why, "its file %s cannot be read: %s", TF_SPOOL_STATE_FILE, strerror(errno));
        return err;
    }
    memset((uint8_t *)blocks + got, 0, sizeof(blocks) - got);
    err = check_owner(blocks[0], owner, why);
    bool found = false;
    for (size_t i = 1; err == TF_OK && i < 3; i++) {
        tf_spool_progress progress;
        uint64_t serial = 0;
        if (progress_read(blocks[i], i, &serial, &progress) && (!found || serial > state->serial)) {
            found = true;
            state->serial = serial;
            state->progress = progress;
        }
    }
    if (err == TF_OK && !found) {
        (void)tf_why(why, "its file %s is damaged", TF_SPOOL_STATE_FILE);
        return TF_ERR_DAMAGED;
    }
    return err;
}

tf_err tf_spool_state_open(tf_spool_state *state, const tf_files *files, const tf_spool_owner *owner, char why[TF_WHY_MAX])
{
    *state = (tf_spool_state){.files = *files};
    TF_ASSERT(owner->channel.len <= TF_CHANNEL_NAME_MAX);
    tf_err err = tf_files_open(files, TF_SPOOL_STATE_FILE, TF_FILE_WRITE, &state->file);
    if (err == TF_OK) {
        err = read_all(state, owner, why);
    } else if (err == TF_ERR_CLOSED) {
        err = write_first(state, owner);
        if (err != TF_OK) {
            (void)tf_why(why, "it cannot be written: %s", strerror(errno));
        }
    } else {
        (void)tf_why(why, "its file %s cannot be opened: %s", TF_SPOOL_STATE_FILE, strerror(errno));
    }
    if (err != TF_OK) {
        tf_spool_state_close(state);
    }
    return err;
}

void tf_spool_state_close(tf_spool_state *state)
{
    tf_files_close(&state->files, state->file);
    state->file = NULL;
}

/* -- changes ------------------------------------------------------------------------------------------------------- */

tf_err tf_spool_state_keep(tf_spool_state *state, bool durably)
{
    uint8_t block[BLOCK];
    uint64_t serial = state->serial + (state->dirty ? 0u : 1u); /* not the block that was synced last */
    progress_write(block, serial, &state->progress);
    tf_err err = tf_files_write(&state->files, state->file, BLOCK * (2 - serial % 2), tf_slice_of(block, BLOCK));
    if (err != TF_OK) {
        return err;
    }
    state->serial = serial;
    state->dirty = true;
    if (durably) {
        err = tf_files_sync(&state->files, state->file);
        state->dirty = err != TF_OK;
    }
    return err;
}
