/* The whole kind: the store on disk, with its threads. */
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/edge_mem.h"
#include "node/store/disk_internal.h"
#include "tests/sim/nodes/disk_internal.h"
#include "tests/sim/nodes/threads.h"
#include "tests/support/files_vfs.h"

#define SMALL_SEGMENTS 4u
#define SMALL_BYTES 4096u /* of the tail and the cache */

struct disk_real {
    disk_files files;
    tf_files table;
    tf_files_vfs *vfs;
    tf_disk_store *store; /* NULL: not open */
    tf_db *peek_db;       /* NULL: nobody looked yet since the start */
    tf_db_block *peeked;  /* what was shown last */
    uint64_t listened;    /* how far the threads were when the store was last asked whether it has said something */
};

static size_t disks; /* of this kind, that there are */

/* SQLite's own randomness would come from the system: it is in its write-ahead log. */
static void begin_world(uint64_t seed)
{
    threads_begin(seed);
    (void)sqlite3_initialize();
    (void)sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, (int)(seed & 0xffffff) + 1, NULL);
}

void disk_real_new(disk *d)
{
    if (disks++ == 0) {
        begin_world(d->seed);
    }
    d->real = disk_get(sizeof(*d->real));
    disk_files_init(&d->real->files, d);
    d->real->table = disk_files_get(&d->real->files);
    d->real->vfs = tf_files_vfs_new(d->name, d->real->table);
}

void disk_real_free(disk *d)
{
    tf_files_vfs_free(d->real->vfs);
    disk_files_clear(&d->real->files);
    free(d->real);
    if (--disks == 0) {
        threads_end();
    }
}

void disk_real_weather(disk *d)
{
    tf_lossy_counts counts;
    tf_lossy_files_get_counts(d->real->files.lossy, &counts);
    tf_lossy_files_set_capacity(d->real->files.lossy, d->weather.full ? counts.bytes : UINT64_MAX);
}

static bool is_healthy(const disk *d)
{
    return d->weather.errors == 0 && !d->weather.full && !d->weather.failing;
}

static tf_err open_store(disk *d, bool small, char why[TF_WHY_MAX])
{
    tf_disk_store_config config = {.directory = "",
                                   .files = &d->real->table,
                                   .vfs = d->name,
                                   .mem = d->mem,
                                   .rand = &d->random.rand,
                                   .segment_size = small ? TF_LOG_SEGMENT_SIZE_MIN : 0,
                                   .segments_max = small ? SMALL_SEGMENTS : 0,
                                   .tail_bytes = small ? SMALL_BYTES : 0,
                                   .cache_bytes = small ? SMALL_BYTES : 0};
    return tf_disk_store_open(&d->real->store, &config, why);
}

/* No operation takes time any more; all threads end. */
static void close_store(disk *d)
{
    disk_real *r = d->real;
    r->files.hurries = true;
    threads_hurry(d);
    tf_disk_store_close(r->store);
    r->store = NULL;
    r->files.hurries = false;
}

bool disk_real_start(disk *d, bool small, uint64_t cut)
{
    char why[TF_WHY_MAX] = "";
    tf_lossy_files *lossy = d->real->files.lossy;
    threads_run(d->now);
    tf_lossy_files_stop_at(lossy, cut);
    tf_err err = open_store(d, small, why);
    if (err != TF_OK) {
        d->real->store = NULL;
    }
    tf_lossy_files_stop_at(lossy, UINT64_MAX); /* else its threads might still get there */
    if (tf_lossy_files_is_off(lossy)) {
        close_store(d);
        tf_lossy_files_crash(lossy, tf_test_random_u64(&d->random));
        return false;
    }
    if (err != TF_OK && is_healthy(d)) {
        disk_die(d, why);
    }
    return err == TF_OK;
}

tf_store disk_real_store(disk *d)
{
    return tf_disk_store_get(d->real->store);
}

static bool has_news(const disk *d)
{
    const tf_disk_store *store = d->real->store;
    return tf_disk_store_has_news(store) || atomic_load(&store->reads_done);
}

void disk_real_advance(disk *d)
{
    uint64_t count = 0;
    bool had_news = has_news(d);
    threads_run(d->now);
    if (threads_trace() == d->real->listened) {
        return; /* nobody else says anything */
    }
    d->real->listened = threads_trace();
    /* A relay that sleeps wakes by this alone. */
    bool was_told = read(tf_disk_store_fd(d->real->store), &count, sizeof(count)) > 0;
    if (has_news(d) && !had_news && !was_told) {
        disk_die(d, "the store has news, and has not said so");
    }
}

tf_time disk_real_deadline(const disk *d)
{
    return has_news(d) ? d->now : threads_deadline();
}

static void forget_peeked(disk *d)
{
    tf_db_block_free(d->real->peeked);
    d->real->peeked = NULL;
}

void disk_real_end(disk *d, disk_end how)
{
    disk_real *r = d->real;
    threads_run(d->now);
    forget_peeked(d);
    tf_db_free(r->peek_db);
    r->peek_db = NULL;
    if (how != DISK_STOP) {
        tf_lossy_files_stop_at(r->files.lossy, 0);
    }
    close_store(d);
    if (how == DISK_KILL) {
        tf_lossy_files_kill(r->files.lossy);
    } else if (how == DISK_CRASH) {
        tf_lossy_files_crash(r->files.lossy, tf_test_random_u64(&d->random));
    }
    disk_mix(d, threads_trace());
}

static bool open_peek(disk *d)
{
    char path[TF_DISK_PATH_MAX];
    tf_db_config config = {.path = tf_disk_index_path(d->real->store, path),
                           .vfs = d->name,
                           .read_only = true,
                           .mem = tf_edge_mem()};
    return d->real->peek_db != NULL || tf_db_open(&d->real->peek_db, &config, NULL) == TF_OK;
}

bool disk_real_peek(disk *d, uint64_t number, uint64_t seq, tf_stored *out)
{
    disk_real *r = d->real;
    tf_db_gap gap;
    const tf_catalog_channel *channel = tf_catalog_by_number(&r->store->catalog, number);
    const tf_tail_entry *entry = channel == NULL ? NULL : tf_catalog_tail(channel, seq);
    if (entry != NULL) {
        tf_tail_read(entry, out);
        return true;
    }
    bool shown = r->peeked != NULL && tf_db_block_channel(r->peeked) == number && tf_db_block_message(r->peeked, seq, out);
    if (shown) {
        return true;
    }
    forget_peeked(d);
    if (!open_peek(d) || tf_db_load(r->peek_db, number, seq, &r->peeked, &gap) != TF_OK) {
        r->peeked = NULL;
        return false;
    }
    return tf_db_block_message(r->peeked, seq, out);
}
