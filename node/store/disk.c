#include "node/store/disk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "node/edge_mem.h"
#include "node/store/disk_internal.h"

#define LOCK_NAME "lock"
#define INDEX_NAME "index.db"
#define TAIL_BYTES ((uint64_t)16 << 20)
#define CACHE_BYTES ((uint64_t)16 << 20)
#define REPLAY_BLOCK ((size_t)256 * 1024) /* of records in one block of the tail */

enum { THREAD_WRITER = 1, THREAD_APPLIER = 2, THREAD_READER = 4, THREAD_FILLER = 8 };

/* -- for the threads ----------------------------------------------------------------------------------------------- */

void tf_disk_notify(const tf_disk_store *store)
{
    uint64_t one = 1;
    ssize_t written = write(store->event_fd, &one, sizeof(one));
    (void)written; /* EAGAIN: it can be read from anyway */
}

int64_t tf_disk_now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t tf_disk_now_ms(void)
{
    return tf_disk_now_us() / 1000;
}

void tf_disk_wait(tf_disk_store *store, pthread_cond_t *condition, int64_t until_ms)
{
    if (until_ms == INT64_MAX) {
        (void)pthread_cond_wait(condition, &store->mutex);
        return;
    }
    struct timespec until = {.tv_sec = (time_t)(until_ms / 1000), .tv_nsec = (long)(until_ms % 1000) * 1000000};
    (void)pthread_cond_timedwait(condition, &store->mutex, &until);
}

const char *tf_disk_index_path(const tf_disk_store *store, char out[TF_DISK_PATH_MAX])
{
    const char *directory = store->config.directory;
    (void)snprintf(out, TF_DISK_PATH_MAX, "%s%s%s", directory, directory[0] == '\0' ? "" : "/", INDEX_NAME);
    return out;
}

/* -- what the table answers at once -------------------------------------------------------------------------------- */

static void describe(tf_disk_store *store, tf_catalog_channel *channel, tf_store_channel *out)
{
    tf_disk_measure(store, channel);
    *out = channel->state;
}

static tf_err disk_channel_find(void *ctx, tf_slice name, tf_store_channel *out)
{
    tf_disk_store *store = ctx;
    tf_catalog_channel *channel = tf_catalog_by_name(&store->catalog, name);
    if (channel == NULL) {
        return TF_ERR_CLOSED;
    }
    describe(store, channel, out);
    return TF_OK;
}

static bool disk_channel_next(void *ctx, uint64_t *position, tf_store_channel *out)
{
    tf_disk_store *store = ctx;
    for (uint64_t number = *position + 1; number <= store->catalog.last_number; number++) {
        tf_catalog_channel *channel = tf_catalog_by_number(&store->catalog, number);
        if (channel != NULL) {
            *position = number;
            describe(store, channel, out);
            return true;
        }
    }
    return false;
}

static tf_err disk_cursor_find(void *ctx, uint64_t number, const tf_node_id *owner, tf_slice name, tf_store_cursor *out)
{
    tf_disk_store *store = ctx;
    tf_catalog_channel *channel = tf_catalog_by_number(&store->catalog, number);
    const tf_catalog_cursor *found = channel == NULL ? NULL : *tf_catalog_cursor_place(channel, owner, name);
    if (found == NULL) {
        return TF_ERR_CLOSED;
    }
    *out = found->position;
    return TF_OK;
}

static bool disk_cursor_next(void *ctx, uint64_t number, size_t *position, tf_store_cursor *out)
{
    tf_disk_store *store = ctx;
    const tf_catalog_channel *channel = tf_catalog_by_number(&store->catalog, number);
    const tf_catalog_cursor *at = channel == NULL ? NULL : channel->cursors;
    for (size_t i = 0; at != NULL && i < *position; i++) {
        at = at->next;
    }
    if (at == NULL) {
        return false;
    }
    *out = at->position;
    ++*position;
    return true;
}

static bool disk_damage_next(void *ctx, size_t *position, tf_store_damage *out)
{
    tf_disk_store *store = ctx;
    if (*position >= store->catalog.damage_count) {
        return false;
    }
    *out = store->catalog.damage[(*position)++];
    return true;
}

static void disk_get_stats(void *ctx, tf_store_stats *out)
{
    tf_disk_store *store = ctx;
    tf_commit_log_stats log;
    tf_commit_log_get_stats(store->log, &log);
    (void)pthread_mutex_lock(&store->mutex);
    tf_store_state state = store->log_state;
    *out = (tf_store_stats){.state = state,
                            .channels = store->catalog.channel_count,
                            .messages = store->catalog.messages,
                            .bytes = log.bytes,
                            .groups = log.groups,
                            .commits_failed = log.failures + store->failures,
                            .unapplied = store->to_apply_count};
    (void)pthread_mutex_unlock(&store->mutex);
}

tf_store tf_disk_store_get(tf_disk_store *store)
{
    static const tf_store_table table = {
        .submit = tf_disk_submit,
        .poll = tf_disk_poll,
        .channel_find = disk_channel_find,
        .channel_next = disk_channel_next,
        .find = tf_disk_find,
        .read = tf_disk_read,
        .find_time = tf_disk_find_time,
        .find_bytes = tf_disk_find_bytes,
        .cursor_find = disk_cursor_find,
        .cursor_next = disk_cursor_next,
        .damage_next = disk_damage_next,
        .get_stats = disk_get_stats,
    };
    return (tf_store){&table, store};
}

const tf_disk_report *tf_disk_store_report(const tf_disk_store *store)
{
    return &store->report;
}

int tf_disk_store_fd(const tf_disk_store *store)
{
    return store->event_fd;
}

uint64_t tf_disk_store_turns(const tf_disk_store *store)
{
    return atomic_load(&store->turns);
}

bool tf_disk_store_is_brisk(const tf_disk_store *store)
{
    return atomic_load(&store->phase) == TF_DISK_SUBMITTED && store->group->count <= TF_DISK_BRISK_OPS;
}

bool tf_disk_store_has_news(const tf_disk_store *store)
{
    return atomic_load(&store->phase) == TF_DISK_DONE;
}

void tf_disk_store_set_sleeping(tf_disk_store *store, bool sleeping)
{
    atomic_store(&store->caller_sleeps, sleeping);
}

int tf_disk_store_errno(tf_disk_store *store)
{
    (void)pthread_mutex_lock(&store->mutex);
    int last = store->last_errno;
    (void)pthread_mutex_unlock(&store->mutex);
    return last;
}

/* -- opening: what the index has ----------------------------------------------------------------------------------- */

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

static tf_err open_index(tf_disk_store *store, char why[TF_WHY_MAX])
{
    char path[TF_DISK_PATH_MAX];
    tf_file *file = NULL;
    tf_err err = tf_files_open(&store->files, INDEX_NAME, TF_FILE_ANY, &file); /* made for its owner alone */
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

static tf_err load_channels(tf_disk_store *store)
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

/* -- opening: what the log has beyond it --------------------------------------------------------------------------- */

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

static tf_err open_log(tf_disk_store *store, char why[TF_WHY_MAX])
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
static tf_err renew_epochs(tf_disk_store *store)
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

/* -- life ---------------------------------------------------------------------------------------------------------- */

static tf_err open_files(tf_disk_store *store, char why[TF_WHY_MAX])
{
    tf_err err = TF_OK;
    if (store->config.files != NULL) {
        store->files = *store->config.files;
    } else {
        err = tf_disk_files_new(&store->own_files, store->config.directory, tf_edge_mem());
        store->files = err == TF_OK ? tf_disk_files_get(store->own_files) : store->files;
    }
    if (err != TF_OK) {
        (void)tf_why(why, "%s cannot be used: %s", store->config.directory, strerror(errno));
        return err;
    }
    err = store->files.table->lock(store->files.ctx, LOCK_NAME, &store->lock);
    if (err == TF_ERR_USAGE) {
        return tf_why(why, "%s is in use by another relay; give this one a data directory of its own",
                      store->config.directory);
    }
    if (err != TF_OK) {
        (void)tf_why(why, "%s/%s cannot be locked: %s", store->config.directory, LOCK_NAME, strerror(errno));
    }
    return err;
}

static tf_err open_sync(tf_disk_store *store)
{
    pthread_condattr_t attributes;
    store->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (store->event_fd < 0) {
        return TF_ERR_IO;
    }
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&store->mutex, NULL);
    (void)pthread_cond_init(&store->to_writer, &attributes);
    (void)pthread_cond_init(&store->to_applier, &attributes);
    (void)pthread_cond_init(&store->to_reader, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return TF_OK;
}

static bool start_thread(tf_disk_store *store, pthread_t *thread, void *(*run)(void *), unsigned bit)
{
    if (pthread_create(thread, NULL, run, store) != 0) {
        return false;
    }
    store->threads |= bit;
    return true;
}

static tf_err start_threads(tf_disk_store *store)
{
    bool ok = start_thread(store, &store->writer, tf_disk_writer_main, THREAD_WRITER) &&
              start_thread(store, &store->applier, tf_disk_applier_main, THREAD_APPLIER) &&
              start_thread(store, &store->reader, tf_disk_reader_main, THREAD_READER) &&
              start_thread(store, &store->filler, tf_disk_filler_main, THREAD_FILLER);
    return ok ? TF_OK : TF_ERR_NOMEM;
}

static tf_err open_parts(tf_disk_store *store, char why[TF_WHY_MAX])
{
    tf_err err = open_files(store, why);
    if (err == TF_OK) {
        err = open_index(store, why);
    }
    if (err != TF_OK) {
        return err;
    }
    (void)tf_why(why, "%s cannot be read; `twofold store check` says what is damaged, `twofold store repair` saves the rest",
                 store->config.directory);
    err = load_channels(store);
    if (err == TF_OK) {
        err = open_log(store, why);
    }
    if (err == TF_OK) {
        err = renew_epochs(store);
    }
    store->next_number = store->catalog.last_number + 1;
    store->report.channels = store->catalog.channel_count;
    store->report.messages = store->catalog.messages;
    return err == TF_OK ? start_threads(store) : err;
}

static void set_defaults(tf_disk_store_config *config)
{
    config->tail_bytes = config->tail_bytes == 0 ? TAIL_BYTES : config->tail_bytes;
    config->cache_bytes = config->cache_bytes == 0 ? CACHE_BYTES : config->cache_bytes;
    config->channels_max = config->channels_max == 0 ? TF_CHANNELS_MAX : config->channels_max;
}

tf_err tf_disk_store_open(tf_disk_store **out, const tf_disk_store_config *config, char why[TF_WHY_MAX])
{
    tf_disk_store *store = tf_alloc(config->mem, sizeof(*store));
    if (store == NULL) {
        (void)tf_why(why, "out of memory");
        return TF_ERR_NOMEM;
    }
    *store = (tf_disk_store){.config = *config};
    atomic_store(&store->caller_sleeps, true);
    set_defaults(&store->config);
    store->apply_unit = TF_DISK_APPLY_UNIT;
    if (config->segment_size != 0 && config->segment_size < TF_DISK_APPLY_UNIT) {
        store->apply_unit = (size_t)config->segment_size;
    }
    tf_catalog_init(&store->catalog, config->mem, tf_rand_u64(config->rand), store->config.channels_max);
    tf_key_filter_init(&store->new_keys, config->mem, tf_rand_u64(config->rand));
    tf_key_filter_init(&store->old_keys, tf_edge_mem(), tf_rand_u64(config->rand));
    tf_err err = open_sync(store);
    if (err != TF_OK) {
        tf_free(config->mem, store, sizeof(*store));
        (void)tf_why(why, "no descriptor is left");
        return err;
    }
    err = open_parts(store, why);
    if (err != TF_OK) {
        tf_disk_store_close(store);
        return err;
    }
    *out = store;
    return TF_OK;
}

static void stop_threads(tf_disk_store *store)
{
    (void)pthread_mutex_lock(&store->mutex);
    store->stop = true;
    atomic_store(&store->fill_stop, true);
    (void)pthread_cond_broadcast(&store->to_writer);
    (void)pthread_cond_broadcast(&store->to_applier);
    (void)pthread_cond_broadcast(&store->to_reader);
    (void)pthread_mutex_unlock(&store->mutex);
    if (store->threads & THREAD_WRITER) {
        (void)pthread_join(store->writer, NULL);
    }
    if (store->threads & THREAD_APPLIER) {
        (void)pthread_join(store->applier, NULL);
    }
    if (store->threads & THREAD_READER) {
        (void)pthread_join(store->reader, NULL);
    }
    if (store->threads & THREAD_FILLER) {
        (void)pthread_join(store->filler, NULL);
    }
}

void tf_disk_store_close(tf_disk_store *store)
{
    if (store == NULL) {
        return;
    }
    stop_threads(store);
    if (store->apply_db != NULL) {
        tf_err err = tf_db_checkpoint(store->apply_db, true);
        (void)err; /* only the size of a file depends on it */
    }
    for (size_t i = 0; i < TF_DISK_READS; i++) {
        tf_db_block_free(store->fetches[i].channel != 0 ? store->fetches[i].block : NULL);
    }
    tf_disk_cache_clear(store);
    tf_db_free(store->find_db);
    tf_db_free(store->read_db);
    tf_db_free(store->apply_db);
    tf_commit_log_close(store->log);
    while (store->made != NULL) {
        tf_tail_block *next = store->made->next;
        tf_tail_block_free(store->made);
        store->made = next;
    }
    while (store->catalog.oldest != NULL) {
        tf_tail_block_free(tf_catalog_evict(&store->catalog));
    }
    tf_catalog_clear(&store->catalog);
    tf_key_filter_clear(&store->new_keys);
    tf_key_filter_clear(&store->old_keys);
    tf_files_close(&store->files, store->lock);
    tf_disk_files_free(store->own_files);
    (void)pthread_cond_destroy(&store->to_writer);
    (void)pthread_cond_destroy(&store->to_applier);
    (void)pthread_cond_destroy(&store->to_reader);
    (void)pthread_mutex_destroy(&store->mutex);
    (void)close(store->event_fd);
    tf_free(store->config.mem, store, sizeof(*store));
}
