/* What the files of the store on disk share. Not for others.
 *
 * disk.c          life, the table's small answers
 * disk_open.c     the start: index, then log
 * disk_commit.c   groups: from the caller to the writer thread and back
 * disk_writer.c   the writer thread
 * disk_applier.c  the applier thread
 * disk_read.c     reading: the tail, the cache of blocks, the reader thread, keys, the thread that fills the filter
 *
 * Members above the mutex belong to the caller's thread. */
#ifndef TF_NODE_STORE_DISK_INTERNAL_H
#define TF_NODE_STORE_DISK_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "node/store/catalog.h"
#include "node/store/db.h"
#include "node/store/disk.h"
#include "node/store/key_filter.h"

#define TF_DISK_INDEX "index.db"
#define TF_DISK_SPARE "spare"       /* the file of room that is kept for freeing room */
#define TF_DISK_READS 64u           /* fetches from the index that wait or are done */
#define TF_DISK_CACHE_BLOCKS 256u
#define TF_DISK_APPLY_UNIT ((size_t)4 * 1024 * 1024) /* of records: so many, or a segment, are applied at once, */
#define TF_DISK_APPLY_DELAY_MS 500                   /* or what is there after so long */
#define TF_DISK_BRISK_OPS 4u                         /* of a group that somebody waits for, rather than a stream */
#define TF_DISK_BRISK_US 300                         /* the writer looks so long for the next one of these */
#define TF_DISK_RETRY_MS 500                         /* after a failure */

typedef enum tf_disk_phase {
    TF_DISK_IDLE,
    TF_DISK_SUBMITTED, /* the writer has the group */
    TF_DISK_DONE       /* poll may take it */
} tf_disk_phase;

/* A block that was read from the index. */
typedef struct tf_disk_cached {
    tf_db_block *block; /* NULL: the place is free */
    uint64_t channel;
    uint64_t used; /* when, in reads */
} tf_disk_cached;

typedef struct tf_disk_fetch {
    uint64_t channel;
    uint64_t seq;
    bool done;
    bool taken; /* the reader has it */
    tf_err err;
    tf_db_block *block;
    tf_db_gap gap; /* err CLOSED or DAMAGED */
} tf_disk_fetch;

struct tf_disk_store {
    tf_disk_store_config config;
    tf_disk_files *own_files; /* NULL: given */
    tf_files files;
    tf_file *lock;
    tf_disk_report report;
    tf_catalog catalog;
    tf_key_filter new_keys; /* of what was committed since the start */
    tf_db *find_db; /* of the caller's thread */
    tf_store_group *group;
    uint64_t groups;
    uint64_t next_number; /* of a new channel */
    tf_disk_cached cached[TF_DISK_CACHE_BLOCKS];
    size_t cached_bytes;
    uint64_t reads;
    int event_fd;
    bool old_keys_ready;

    size_t apply_unit;
    tf_commit_log *log;
    pthread_mutex_t mutex;
    /* Under the mutex from here on. */
    pthread_cond_t to_writer;
    pthread_cond_t to_applier;
    pthread_cond_t to_reader;
    tf_store_group *work;      /* of the writer */
    tf_tail_block *to_apply;   /* linked by next_to_apply */
    tf_tail_block *to_apply_last;
    size_t to_apply_bytes;
    uint64_t to_apply_count;   /* records */
    int64_t to_apply_since_ms; /* of the oldest, on the clock of the condition */
    uint64_t freed;            /* bumped when room may have come: trims, releases */
    uint64_t failures;
    uint64_t floors; /* bumped by each TRIM that is committed */
    tf_disk_fetch fetches[TF_DISK_READS];
    tf_store_state log_state;
    tf_store_state db_state;
    int last_errno;
    bool stop;
    bool writer_waits;  /* for released segments */
    bool writer_sleeps; /* until there is work */

    tf_tail_block *made; /* by the writer, oldest first: to the catalog when the group is taken. Handed over by phase */
    tf_tail_block *made_last;
    tf_key_filter old_keys;       /* of the filler until old_keys_filled */
    _Atomic uint64_t turns;       /* how often log_state changed */
    _Atomic uint64_t applied_lsn;
    _Atomic int phase;            /* tf_disk_phase */
    _Atomic bool has_work;        /* a hint for the writer */
    _Atomic bool caller_sleeps;   /* it wants to be told by event_fd; else it looks by itself */
    _Atomic bool reads_done;      /* a fetch was finished */
    _Atomic bool old_keys_filled;
    _Atomic bool fill_stop;
    unsigned threads; /* that were started: bits in the order below */
    tf_db *apply_db;
    tf_db *read_db;
    pthread_t writer;
    pthread_t applier;
    pthread_t reader;
    pthread_t filler;
};

#define TF_DISK_PATH_MAX 4200u

/* -- disk.c -- */
/* The path of SQLite's file. */
const char *tf_disk_index_path(const tf_disk_store *store, char out[TF_DISK_PATH_MAX]);
void tf_disk_notify(const tf_disk_store *store);
int64_t tf_disk_now_ms(void); /* CLOCK_MONOTONIC */
int64_t tf_disk_now_us(void); /* the same clock */
/* Waits for the condition until then (INT64_MAX: for ever). The mutex is held. */
void tf_disk_wait(tf_disk_store *store, pthread_cond_t *condition, int64_t until_ms);

/* -- disk_open.c: in this order -- */
TF_MUST_CHECK tf_err tf_disk_open_index(tf_disk_store *store, char why[TF_WHY_MAX]);
TF_MUST_CHECK tf_err tf_disk_load_channels(tf_disk_store *store);
TF_MUST_CHECK tf_err tf_disk_open_log(tf_disk_store *store, char why[TF_WHY_MAX]);
/* S10: a numbering whose end may be lost is not gone on with under its old name. Written before anything else is. */
TF_MUST_CHECK tf_err tf_disk_renew_epochs(tf_disk_store *store);

/* -- disk_commit.c -- */
void tf_disk_submit(void *ctx, tf_store_group *group);
bool tf_disk_poll(void *ctx, tf_store_event_type *out);
/* A block of the log, at the start: into the catalog, and before the applier. */
TF_MUST_CHECK tf_err tf_disk_restore_block(tf_disk_store *store, tf_tail_block *block);
/* Blocks that the index has leave the memory, but for the newest tail_bytes. */
void tf_disk_evict(tf_disk_store *store);
tf_tail_block *tf_tail_block_new(size_t count, size_t bytes);
void tf_tail_block_free(tf_tail_block *block);

/* -- disk_writer.c, disk_applier.c, disk_read.c -- */
void *tf_disk_writer_main(void *ctx);
void *tf_disk_applier_main(void *ctx);
void *tf_disk_reader_main(void *ctx);
void *tf_disk_filler_main(void *ctx);
tf_store_presence tf_disk_read(void *ctx, uint64_t channel, uint64_t seq, tf_stored *out);
tf_err tf_disk_find(void *ctx, uint64_t channel, const tf_node_id *origin, tf_slice client_id, tf_store_key *out);
uint64_t tf_disk_find_time(void *ctx, uint64_t channel, int64_t timestamp_ms);
uint64_t tf_disk_find_bytes(void *ctx, uint64_t channel, uint64_t bytes);
/* Takes finished fetches into the cache. True: there were some. */
bool tf_disk_take_fetches(tf_disk_store *store);
void tf_disk_cache_clear(tf_disk_store *store);
/* The channel's state.bytes, after its floor moved and the index knows. */
void tf_disk_measure(tf_disk_store *store, tf_catalog_channel *channel);

#endif
