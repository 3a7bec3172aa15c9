/* The start of the store on disk: what the index has, and what the log has beyond it. */
#include <errno.h>
#include <string.h>

#include "node/edge_mem.h"
#include "node/store/disk_internal.h"

#define REPLAY_BLOCK ((size_t)256 * 1024) /* of records in one block of the tail */

/* -- what the index has ----------------------------------------------------------------------------------- */

/* SQLite, too, needs some room to begin with: the spare is there for that. */
static tf_err open_writable(tf_disk_store *store, const tf_db_config *config, char why[TF_WHY_MAX])
{
    tf_err err = tf_db_open(&store->apply_db, config, why);
    if (err == TF_ERR_FULL && store->files.table->remove(store->files.ctx, TF_DISK_SPARE) == TF_OK) {
        err = tf_db_open(&store->apply_db, config, why);
    }
    if (err == TF_ERR_DAMAGED) {
        (void)tf_why(why, "%s is damaged beyond use; `twofold store repair` makes a new one of what can be read",
                     config->path);
    }
    return err;
}

tf_err tf_disk_open_index(tf_disk_store *store, char why[TF_WHY_MAX])
{
    char path[TF_DISK_PATH_MAX];
    tf_file *file = NULL;
    tf_err err = tf_files_open(&store->files, TF_DISK_INDEX, TF_FILE_ANY, &file); /* made for its owner alone */
    tf_files_close(&store->files, file);
    if (err != TF_OK && err != TF_ERR_FULL) {
        (void)tf_why(why, "%s cannot be opened: %s", tf_disk_index_path(store, path), strerror(errno));
        return err;
    }
    tf_db_config config = {
        .path = tf_disk_index_path(store, path),
        .vfs = store->config.vfs,
        .checkpoint_bytes = store->apply_unit,
        .mem = tf_edge_mem()};
    err = open_writable(store, &config, why);
    config.read_only = true;
    if (err == TF_OK) {
        err = tf_db_open(&store->read_db, &config, why);
    }
    config.mem = store->config.mem;
    return err == TF_OK ? tf_db_open(&store->find_db, &config, why) : err;
}

static tf_err load_cursors(tf_disk_store *store, uint64_t channel)
{
    uint64_t position = 0;
    tf_store_cursor cursor;
    tf_err err = TF_OK;
    while ((err = tf_db_cursor_next(store->apply_db, channel, &position, &cursor)) == TF_OK) {
        err = tf_catalog_set_cursor(&store->catalog, &cursor);
        if (err != TF_OK && err != TF_ERR_LIMIT_ITEMS) {
            return err;
        }
    }
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

static tf_err load_holes(tf_disk_store *store, uint64_t channel)
{
    uint64_t position = 0;
    tf_store_damage hole;
    tf_err err = TF_OK;
    while ((err = tf_db_hole_next(store->apply_db, channel, &position, &hole)) == TF_OK) {
        tf_catalog_add_damage(&store->catalog, &hole);
    }
    return err == TF_ERR_CLOSED || err == TF_ERR_DAMAGED ? TF_OK : err;
}

tf_err tf_disk_load_channels(tf_disk_store *store)
{
    uint64_t position = 0;
    tf_store_channel state;
    tf_err err = TF_OK;
    while ((err = tf_db_channel_next(store->apply_db, &position, &state)) == TF_OK) {
        tf_catalog_channel *channel = NULL;
        err = tf_catalog_add(&store->catalog, &state, &channel);
        if (err == TF_OK) {
            err = load_cursors(store, state.number);
        }
        if (err == TF_OK) {
            err = load_holes(store, state.number);
        }
        if (err != TF_OK) {
            return err;
        }
    }
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

/* -- what the log has beyond it --------------------------------------------------------------------------- */

/* Records on their way into one block of the tail. */
typedef struct replay {
    tf_disk_store *store;
    uint8_t *bytes;
    uint32_t sizes[4096];
    size_t len;
    size_t capacity;
    size_t count;
    uint64_t first_lsn;
    bool damaged; /* something before was */
} replay;

static tf_err flush_replay(replay *r)
{
    if (r->count == 0) {
        return TF_OK;
    }
    tf_tail_block *block = tf_tail_block_new(r->count, r->len);
    if (block == NULL) {
        return TF_ERR_NOMEM;
    }
    memcpy(block->bytes, r->bytes, r->len);
    block->len = r->len;
    block->first_lsn = r->first_lsn;
    block->last_lsn = r->first_lsn + r->count - 1;
    const uint8_t *at = block->bytes;
    for (size_t i = 0; i < r->count; i++) {
        block->entries[block->count++] = (tf_tail_entry){.record = at, .size = r->sizes[i]};
        at += r->sizes[i];
    }
    r->count = 0;
    r->len = 0;
    return tf_disk_restore_block(r->store, block);
}

static tf_err add_record(replay *r, const tf_log_item *item)
{
    bool fits = r->count < sizeof(r->sizes) / sizeof(r->sizes[0]) && r->len + item->bytes.len <= r->capacity;
    tf_err err = fits && item->record.lsn == r->first_lsn + r->count ? TF_OK : flush_replay(r);
    if (err != TF_OK) {
        return err;
    }
    if (r->count == 0) {
        r->first_lsn = item->record.lsn;
    }
    memcpy(r->bytes + r->len, item->bytes.data, item->bytes.len);
    r->sizes[r->count++] = (uint32_t)item->bytes.len;
    r->len += item->bytes.len;
    return TF_OK;
}

/* Every channel may have lost the end of its numbering, unless what comes behind the damage shows where it was. */
static void suspect_all(tf_disk_store *store)
{
    for (uint64_t number = 1; number <= store->catalog.last_number; number++) {
        tf_catalog_channel *channel = tf_catalog_by_number(&store->catalog, number);
        if (channel != NULL) {
            channel->is_suspect = true;
        }
    }
}

static tf_err replay_log(tf_disk_store *store)
{
    replay *r = tf_alloc(store->config.mem, sizeof(*r));
    size_t capacity = REPLAY_BLOCK + TF_RECORD_MAX;
    uint8_t *bytes = tf_alloc(store->config.mem, capacity);
    tf_log_item item;
    tf_err err = r == NULL || bytes == NULL ? TF_ERR_NOMEM : TF_OK;
    if (err == TF_OK) {
        *r = (replay){.store = store, .bytes = bytes, .capacity = capacity};
    }
    while (err == TF_OK && (err = tf_commit_log_next(store->log, &item)) == TF_OK) {
        if (item.type == TF_LOG_RECORD) {
            err = add_record(r, &item);
        } else {
            err = flush_replay(r);
            suspect_all(store);
        }
    }
    if (err == TF_ERR_CLOSED) {
        err = flush_replay(r);
    }
    tf_free(store->config.mem, bytes, capacity);
    tf_free(store->config.mem, r, sizeof(*r));
    return err;
}

tf_err tf_disk_open_log(tf_disk_store *store, char why[TF_WHY_MAX])
{
    uint64_t applied = 0;
    tf_commit_log_config config = {.files = store->files,
                                   .mem = tf_edge_mem(),
                                   .rand = store->config.rand,
                                   .segment_size = store->config.segment_size,
                                   .segments_max = store->config.segments_max};
    tf_err err = tf_db_applied(store->apply_db, &applied);
    if (err != TF_OK) {
        return err;
    }
    atomic_store(&store->applied_lsn, applied);
    err = tf_commit_log_open(&store->log, &config, applied, why);
    if (err != TF_OK) {
        return err;
    }
    err = replay_log(store);
    const tf_log_report *report = tf_commit_log_report(store->log);
    store->report.replayed = report->records;
    store->report.torn = report->torn;
    store->report.damaged = report->damaged;
    return err;
}

/* S10: a numbering whose end may be lost is not gone on with under its old name. Written before anything else is. */
tf_err tf_disk_renew_epochs(tf_disk_store *store)
{
    tf_err err = TF_OK;
    for (uint64_t number = 1; number <= store->catalog.last_number && err == TF_OK; number++) {
        tf_catalog_channel *channel = tf_catalog_by_number(&store->catalog, number);
        if (channel == NULL || !channel->is_suspect) {
            continue;
        }
        tf_store_op op = {.kind = TF_STORE_EPOCH, .channel = number, .epoch = tf_rand_u64(store->config.rand)};
        size_t bound = tf_record_bound(&op);
        tf_tail_block *block = tf_tail_block_new(1, bound);
        if (block == NULL) {
            return TF_ERR_NOMEM;
        }
        block->first_lsn = block->last_lsn = tf_commit_log_next_lsn(store->log);
        block->len = tf_record_write(block->bytes, bound, tf_commit_log_key(store->log), block->first_lsn, &op);
        block->entries[block->count++] = (tf_tail_entry){.record = block->bytes, .size = (uint32_t)block->len};
        err = tf_commit_log_append(store->log,
                                   &(tf_commit_group){tf_slice_of(block->bytes, block->len), 1, true});
        if (err != TF_OK) {
            tf_tail_block_free(block);
            return err;
        }
        channel->is_suspect = false;
        store->report.new_epochs++;
        err = tf_disk_restore_block(store, block);
    }
    return err;
}
