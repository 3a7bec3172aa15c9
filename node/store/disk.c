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
#define TAIL_BYTES ((uint64_t)16 << 20)
#define CACHE_BYTES ((uint64_t)16 << 20)

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
    (void)snprintf(out, TF_DISK_PATH_MAX, "%s%s%s", directory, directory[0] == '\0' ? "" : "/", TF_DISK_INDEX);
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
        err = tf_disk_open_index(store, why);
    }
    if (err != TF_OK) {
        return err;
    }
    (void)tf_why(why, "%s cannot be read; `twofold store check` says what is damaged, `twofold store repair` saves the rest",
                 store->config.directory);
    err = tf_disk_load_channels(store);
    if (err == TF_OK) {
        err = tf_disk_open_log(store, why);
    }
    if (err == TF_OK) {
        err = tf_disk_renew_epochs(store);
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
