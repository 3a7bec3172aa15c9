#include "node/store/commit_log.h"

#include <errno.h>

#include "node/store/log_room.h"

#define PAGE 4096u

typedef enum phase {
    RECOVERING, /* next has something to hand out */
    TORN, /* the recovery is over, and what it left out is still on the disk */
    WRITING,
    PENDING /* the outcome of the last group is unknown */
} phase;

/* A segment with groups that are to be overwritten before their LSNs are given again. */
typedef struct torn {
    uint64_t number;
    uint64_t last; /* the highest LSN in it that counts; 0: none */
} torn;

struct tf_commit_log {
    tf_commit_log_config config;
    tf_log_files files;
    tf_log_room room;
    phase phase;           /* of the writer */
    tf_log_reader *reader; /* RECOVERING */
    tf_log_report report;
    uint64_t applied;      /* when it was opened */
    torn *torn;            /* TORN: in the order of L15 */
    size_t torn_count;
    size_t torn_done;
    size_t torn_capacity;
    tf_log_segment current; /* what is written; number 0: none yet */
    tf_file *file;
    uint64_t first;  /* LSN that is the first one in current */
    uint64_t offset; /* of the next group in current */
    tf_commit_group pending;
    pthread_mutex_t lock; /* over what follows */
    uint64_t next_lsn;
    uint64_t last; /* handed to append */
    uint64_t durable;
    uint64_t groups;
    uint64_t syncs;
    uint64_t given_up;
};

static void lock(tf_commit_log *log)
{
    int result = pthread_mutex_lock(&log->lock);
    TF_ASSERT(result == 0);
}

static void unlock(tf_commit_log *log)
{
    int result = pthread_mutex_unlock(&log->lock);
    TF_ASSERT(result == 0);
}

/* -- open ---------------------------------------------------------------------------------------------------------- */

static tf_err set_defaults(tf_commit_log_config *c, char why[TF_WHY_MAX])
{
    c->segment_size = c->segment_size == 0 ? TF_LOG_SEGMENT_SIZE : c->segment_size;
    c->segments_max = c->segments_max == 0 ? TF_LOG_SEGMENTS : c->segments_max;
    c->reserve = c->reserve == 0 ? 1 : c->reserve;
    c->ahead = c->ahead == 0 ? 1 : c->ahead;
    c->spare = c->spare == 0 ? TF_LOG_SPARE : c->spare;
    if (c->segment_size < TF_LOG_SEGMENT_SIZE_MIN || c->segment_size > TF_LOG_SEGMENT_SIZE_MAX ||
        c->segment_size % PAGE != 0) {
        return tf_why(why, "a segment of %llu bytes: it may have %u to %u, a multiple of %u",
                      (unsigned long long)c->segment_size, TF_LOG_SEGMENT_SIZE_MIN, TF_LOG_SEGMENT_SIZE_MAX, PAGE);
    }
    if (c->segments_max < TF_LOG_SEGMENTS_MIN || c->segments_max > TF_LOG_FILES_MAX ||
        c->reserve > c->segments_max / 2 || c->ahead > c->segments_max / 2) {
        return tf_why(why, "%llu segments, %llu of them in reserve and %llu prepared ahead, cannot be",
                      (unsigned long long)c->segments_max, (unsigned long long)c->reserve,
                      (unsigned long long)c->ahead);
    }
    return TF_OK;
}

static uint64_t usual_bytes(const tf_commit_log *log)
{
    return log->config.segment_size - TF_LOG_SEGMENT_HEADER - TF_LOG_GROUP_HEADER;
}

static uint64_t bytes_max(const tf_commit_log *log)
{
    const tf_commit_log_config *c = &log->config;
    uint64_t wanted = c->segments_max * c->segment_size;
    uint64_t least = (c->reserve + 2) * c->segment_size + TF_LOG_GROUP_MAX + (uint64_t)2 * PAGE;
    return wanted > least ? wanted : least;
}

static tf_err init_room(tf_commit_log *log)
{
    const tf_log_room_config config = {.segment_size = log->config.segment_size,
                                       .bytes_max = bytes_max(log),
                                       .reserve = log->config.reserve,
                                       .ahead = log->config.ahead,
                                       .spare = log->config.spare,
                                       .keep_free = log->config.keep_free};
    uint64_t key = 0;
    if (!tf_log_reader_key(log->reader, &key)) {
        key = tf_rand_u64(log->config.rand);
    }
    log->files = (tf_log_files){.files = log->config.files, .mem = log->config.mem, .key = key};
    return tf_log_room_init(&log->room, &log->files, &config);
}

static tf_err start(tf_commit_log *log, uint64_t applied_lsn, char why[TF_WHY_MAX])
{
    const tf_files *files = &log->config.files;
    const tf_log_reader_config config = {.files = *files, .mem = log->config.mem, .from = applied_lsn};
    tf_err err = files->table->make_dir(files->ctx, TF_LOG_FOLDER);
    /* A name that is seen is also there after a crash, and one that is gone does not come back. */
    if (err == TF_OK) {
        err = files->table->sync_dir(files->ctx, "");
    }
    if (err == TF_OK) {
        err = files->table->sync_dir(files->ctx, TF_LOG_FOLDER);
    }
    if (err != TF_OK) {
        return err == TF_ERR_FULL ? err : TF_ERR_IO;
    }
    return tf_log_reader_new(&log->reader, &config, why);
}

tf_err tf_commit_log_open(tf_commit_log **out, const tf_commit_log_config *config, uint64_t applied_lsn,
                          char why[TF_WHY_MAX])
{
    tf_commit_log *log = tf_alloc(config->mem, sizeof(*log));
    if (log == NULL) {
        errno = ENOMEM;
        return TF_ERR_NOMEM;
    }
    *log = (tf_commit_log){.config = *config, .phase = RECOVERING};
    tf_err err = set_defaults(&log->config, why);
    if (err == TF_OK) {
        err = start(log, applied_lsn, why);
    }
    if (err == TF_OK) {
        err = pthread_mutex_init(&log->lock, NULL) == 0 ? TF_OK : TF_ERR_NOMEM;
    }
    if (err == TF_OK) {
        err = init_room(log);
        if (err != TF_OK) {
            (void)pthread_mutex_destroy(&log->lock);
        }
    }
    if (err != TF_OK) {
        tf_log_reader_free(log->reader);
        tf_free(config->mem, log, sizeof(*log));
        return err;
    }
    log->applied = applied_lsn;
    log->next_lsn = applied_lsn + 1;
    log->last = applied_lsn;
    log->durable = applied_lsn;
    *out = log;
    return TF_OK;
}

/* -- recovery ------------------------------------------------------------------------------------------------------ */

/* A file without a group may be written if it is as it should be; what has groups is used until they are released. One
 * with groups that were left out is used until these are overwritten. */
static void add_file(tf_commit_log *log, const tf_log_file *file, uint64_t last)
{
    tf_log_segment segment = {.number = file->number, .size = file->size, .last = file->last, .bad = !file->good};
    bool usual = file->good && file->size == log->config.segment_size;
    if (file->last > last) {
        log->torn[log->torn_count++] = (torn){.number = file->number, .last = file->first > last ? 0 : last};
        segment.last = UINT64_MAX;
    }
    if (file->last != 0) {
        segment.state = TF_LOG_SEGMENT_USED;
    } else {
        segment.state = usual ? TF_LOG_SEGMENT_READY : TF_LOG_SEGMENT_FREE;
    }
    tf_log_room_add(&log->room, &segment);
}

static tf_err finish_recovery(tf_commit_log *log)
{
    const tf_log_file *files = NULL;
    size_t count = tf_log_reader_files(log->reader, &files);
    uint64_t last = tf_log_reader_last(log->reader);
    if (count > 0 && log->torn == NULL) {
        log->torn = tf_alloc(log->config.mem, count * sizeof(*log->torn));
        if (log->torn == NULL) {
            errno = ENOMEM;
            return TF_ERR_NOMEM;
        }
        log->torn_capacity = count;
    }
    tf_err err = tf_log_room_reserve(&log->room, count);
    if (err != TF_OK) {
        return err;
    }
    for (size_t i = 0; i < count; i++) {
        add_file(log, &files[i], last);
    }
    tf_log_room_release(&log->room, log->applied);
    log->next_lsn = last + 1;
    log->last = last;
    log->durable = last;
    log->report = *tf_log_reader_report(log->reader);
    tf_log_reader_free(log->reader);
    log->reader = NULL;
    log->phase = log->torn_count > 0 ? TORN : WRITING;
    return TF_ERR_CLOSED;
}

tf_err tf_commit_log_next(tf_commit_log *log, tf_log_item *out)
{
    if (log->phase != RECOVERING) {
        return TF_ERR_CLOSED;
    }
    tf_err err = tf_log_reader_next(log->reader, out);
    return err == TF_ERR_CLOSED ? finish_recovery(log) : err;
}

const tf_log_report *tf_commit_log_report(const tf_commit_log *log)
{
    return log->reader != NULL ? tf_log_reader_report(log->reader) : &log->report;
}

/* What was never acked must not be found again under LSNs that are given to other records now (L19). A group that was
 * written again may be whole in its first segment and torn in the second, which hides the first: that one goes first, so
 * that it does not come back when the power goes off in between. */
static tf_err overwrite_torn(tf_commit_log *log)
{
    while (log->torn_done < log->torn_count) {
        const torn *t = &log->torn[log->torn_done];
        tf_err err = tf_log_file_void(&log->files, t->number, log->next_lsn);
        if (err != TF_OK) {
            tf_log_room_failed(&log->room, errno);
            return err == TF_ERR_NOMEM ? err : TF_ERR_IO;
        }
        tf_log_room_settle(&log->room, t->number, t->last);
        log->torn_done++;
    }
    log->phase = WRITING;
    return TF_OK;
}

/* -- the writer ---------------------------------------------------------------------------------------------------- */

uint64_t tf_commit_log_key(const tf_commit_log *log)
{
    return log->files.key;
}

uint64_t tf_commit_log_next_lsn(tf_commit_log *log)
{
    lock(log);
    uint64_t lsn = log->next_lsn;
    unlock(log);
    return lsn;
}

size_t tf_commit_log_group_usual(const tf_commit_log *log)
{
    return (size_t)usual_bytes(log);
}

size_t tf_commit_log_group_max(const tf_commit_log *log)
{
    size_t usual = (size_t)usual_bytes(log);
    return usual > TF_LOG_GROUP_MAX ? usual : TF_LOG_GROUP_MAX;
}

bool tf_commit_log_is_pending(const tf_commit_log *log)
{
    return log->phase == PENDING;
}

static uint64_t last_of(const tf_commit_log *log, const tf_commit_group *group)
{
    return log->next_lsn + group->count - 1;
}

static tf_err write_at(tf_commit_log *log, tf_file *file, uint64_t offset, const tf_log_group *group, tf_slice records)
{
    static const uint8_t zeros[TF_LOG_BLOCK];
    uint8_t header[TF_LOG_GROUP_HEADER];
    const tf_files *files = &log->config.files;
    size_t padding = (size_t)tf_log_group_span(records.len) - sizeof(header) - records.len;
    tf_log_group_write(header, log->files.key, group);
    const tf_slice parts[] = {tf_slice_of(header, sizeof(header)), records, tf_slice_of(zeros, padding)};
    return files->table->write_at(files->ctx, file, offset, parts, 3);
}

/* One write, one sync. */
static tf_err write_group(tf_commit_log *log, const tf_commit_group *group, const tf_log_segment *segment, tf_file *file,
                          uint64_t offset)
{
    const tf_log_group header = {.segment = segment->number,
                                 .first = log->next_lsn,
                                 .durable = log->durable,
                                 .count = group->count,
                                 .size = (uint32_t)group->records.len};
    tf_err err = write_at(log, file, offset, &header, group->records);
    if (err == TF_OK) {
        err = tf_files_sync(&log->config.files, file);
    }
    if (err != TF_OK) {
        tf_log_room_failed(&log->room, errno);
    }
    return err;
}

static void written(tf_commit_log *log, const tf_commit_group *group)
{
    log->offset += tf_log_group_span(group->records.len);
    lock(log);
    log->current.last = last_of(log, group);
    log->durable = log->current.last;
    log->next_lsn = log->durable + 1;
    log->groups++;
    log->syncs++;
    unlock(log);
}

/* Writes on in another segment; the old one is kept until it is released. */
static void move_to(tf_commit_log *log, const tf_log_segment *segment, tf_file *file)
{
    if (log->file != NULL) {
        tf_log_room_keep(&log->room, &log->current, log->file);
    }
    lock(log);
    log->current = *segment;
    log->current.last = 0;
    log->file = file;
    unlock(log);
    log->first = log->next_lsn;
    log->offset = TF_LOG_SEGMENT_HEADER;
}

static tf_err make_place(tf_commit_log *log, const tf_commit_group *group)
{
    tf_log_segment segment;
    tf_file *file = NULL;
    uint64_t span = tf_log_group_span(group->records.len);
    tf_err err = log->phase == TORN ? overwrite_torn(log) : TF_OK;
    if (err == TF_OK) {
        err = tf_log_room_admit(&log->room, group->frees_room);
    }
    if (err != TF_OK || (log->file != NULL && log->current.size - log->offset >= span)) {
        return err;
    }
    err = tf_log_room_take(&log->room, span, group->frees_room, &segment, &file);
    if (err == TF_OK) {
        move_to(log, &segment, file);
    }
    return err;
}

tf_err tf_commit_log_append(tf_commit_log *log, const tf_commit_group *group)
{
    TF_ASSERT(log->phase == WRITING || log->phase == TORN);
    TF_ASSERT(group->count > 0 && group->records.len >= (size_t)group->count * TF_RECORD_HEADER);
    if (group->records.len > tf_commit_log_group_max(log)) {
        return TF_ERR_LIMIT_BYTES;
    }
    tf_err err = make_place(log, group);
    if (err != TF_OK) {
        return err;
    }
    lock(log);
    log->last = last_of(log, group);
    unlock(log);
    if (write_group(log, group, &log->current, log->file, log->offset) != TF_OK) {
        log->pending = *group;
        log->phase = PENDING;
        return TF_ERR_IO;
    }
    written(log, group);
    return TF_OK;
}

/* What of the earlier groups in the segment that is given up is needed and cannot be read back. */
static tf_log_range verify(tf_commit_log *log)
{
    tf_log_room_counts counts;
    tf_log_room_get_counts(&log->room, &counts);
    tf_log_range wanted = {counts.released >= log->first ? counts.released + 1 : log->first, log->current.last};
    if (wanted.first > wanted.last) {
        return (tf_log_range){0, 0};
    }
    return tf_log_file_missing(&log->files, log->current.number, wanted);
}

tf_err tf_commit_log_retry(tf_commit_log *log, tf_log_range *lost)
{
    tf_log_segment segment;
    tf_file *file = NULL;
    TF_ASSERT(log->phase == PENDING);
    uint64_t span = tf_log_group_span(log->pending.records.len);
    tf_err err = tf_log_room_take(&log->room, span, true, &segment, &file);
    if (err != TF_OK) {
        return err;
    }
    if (write_group(log, &log->pending, &segment, file, TF_LOG_SEGMENT_HEADER) != TF_OK) {
        tf_log_room_drop(&log->room, &segment, file);
        return TF_ERR_IO;
    }
    tf_log_range missing = verify(log);
    if (lost != NULL) {
        *lost = missing;
    }
    log->current.bad = true;
    move_to(log, &segment, file);
    written(log, &log->pending);
    lock(log);
    log->given_up++;
    unlock(log);
    log->phase = WRITING;
    return TF_OK;
}

/* -- close --------------------------------------------------------------------------------------------------------- */

/* A group without records names the last one durable, so that damage of it is not taken for a torn end (L11). Without it
 * all is well, too. */
static void write_mark(tf_commit_log *log)
{
    const tf_log_group mark = {.segment = log->current.number, .first = log->next_lsn, .durable = log->durable};
    if (log->phase == WRITING && log->file != NULL && log->current.size - log->offset >= TF_LOG_BLOCK) {
        (void)write_at(log, log->file, log->offset, &mark, tf_slice_of(NULL, 0));
    }
}

void tf_commit_log_close(tf_commit_log *log)
{
    if (log == NULL) {
        return;
    }
    const tf_mem *mem = log->config.mem;
    write_mark(log);
    tf_files_close(&log->config.files, log->file);
    tf_log_reader_free(log->reader);
    tf_log_room_clear(&log->room);
    (void)pthread_mutex_destroy(&log->lock);
    tf_free(mem, log->torn, log->torn_capacity * sizeof(*log->torn));
    tf_free(mem, log, sizeof(*log));
}

/* -- room and numbers ---------------------------------------------------------------------------------------------- */

int tf_commit_log_errno(tf_commit_log *log)
{
    return tf_log_room_errno(&log->room);
}

void tf_commit_log_release(tf_commit_log *log, uint64_t lsn)
{
    tf_log_room_release(&log->room, lsn);
}

bool tf_commit_log_wants_prepare(tf_commit_log *log)
{
    return tf_log_room_wants_prepare(&log->room);
}

tf_err tf_commit_log_prepare(tf_commit_log *log)
{
    return tf_log_room_prepare(&log->room);
}

void tf_commit_log_get_stats(tf_commit_log *log, tf_commit_log_stats *out)
{
    tf_log_room_counts counts;
    tf_log_room_get_counts(&log->room, &counts);
    lock(log);
    *out = (tf_commit_log_stats){.bytes = counts.bytes,
                                 .bytes_max = bytes_max(log),
                                 .used = counts.used + (log->file != NULL ? 1 : 0),
                                 .ready = counts.ready,
                                 .free = counts.free,
                                 .given_up = log->given_up,
                                 .groups = log->groups,
                                 .syncs = log->syncs,
                                 .failures = counts.failures,
                                 .last_lsn = log->last,
                                 .durable_lsn = log->durable,
                                 .released_lsn = counts.released};
    unlock(log);
}
