#include "node/spool.h"

#include <errno.h>

#include "node/list.h"
#include "node/store/commit_log.h"

#define SEGMENTS 256u                      /* that bytes_max is cut into, */
#define SEGMENT_MAX ((uint64_t)1024 * 1024) /* unless they were larger: one is prepared while all else waits */
#define CHANNEL 1u                         /* the channel number in records: there is one */

typedef struct entry {
    tf_list_node in_spool;
    uint64_t number;
    bool done;
    bool at_once;
    int64_t sent_ms;
    int64_t expires_ms;
    size_t client_id_len;
    size_t meta_len;
    size_t body_len;
    size_t size; /* of this block */
    uint8_t bytes[];
} entry;

struct tf_spool {
    tf_files files;
    const tf_mem *mem;
    tf_file *lock;
    tf_commit_log *log;
    tf_spool_state state;
    tf_list entries;    /* by number; those above `durable` are in the batch */
    tf_list_node *next; /* the first that was not taken */
    uint64_t durable;
    uint64_t segment_size;
    uint64_t done_bytes; /* since the last release */
    uint64_t damaged;
    size_t waiting;
    uint8_t *batch; /* records that are not synced */
    size_t batch_cap;
    size_t batch_len;
    uint32_t batch_count;
};

/* -- entries ------------------------------------------------------------------------------------------------------- */

static entry *entry_at(tf_list_node *node)
{
    return TF_CONTAINER(node, entry, in_spool);
}

static entry *entry_new(tf_spool *spool, const tf_spool_message *message)
{
    size_t size = sizeof(entry) + message->client_id.len + message->meta.len + message->body.len;
    entry *e = tf_alloc(spool->mem, size);
    if (e == NULL) {
        return NULL;
    }
    *e = (entry){.number = message->number,
                 .sent_ms = message->sent_ms,
                 .expires_ms = message->expires_ms,
                 .client_id_len = message->client_id.len,
                 .meta_len = message->meta.len,
                 .body_len = message->body.len,
                 .size = size};
    uint8_t *at = e->bytes;
    const tf_slice parts[] = {message->client_id, message->meta, message->body};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (parts[i].len > 0) {
            memcpy(at, parts[i].data, parts[i].len);
        }
        at += parts[i].len;
    }
    return e;
}

static void entry_append(tf_spool *spool, entry *e)
{
    tf_list_append(&spool->entries, &e->in_spool);
    if (spool->next == &spool->entries.head) {
        spool->next = &e->in_spool;
    }
}

static void entry_free(tf_spool *spool, entry *e)
{
    if (spool->next == &e->in_spool) {
        spool->next = e->in_spool.next;
    }
    tf_list_remove(&e->in_spool);
    tf_free(spool->mem, e, e->size);
}

/* -- open ---------------------------------------------------------------------------------------------------------- */

static tf_err take_lock(tf_spool *spool, char why[TF_WHY_MAX])
{
    tf_err err = spool->files.table->lock(spool->files.ctx, "lock", &spool->lock);
    if (err == TF_ERR_USAGE) {
        (void)tf_why(why, "another process has it open");
        return TF_ERR_AGAIN;
    }
    if (err != TF_OK) {
        (void)tf_why(why, "it cannot be locked: %s", strerror(errno));
    }
    return err;
}

static tf_err open_log(tf_spool *spool, const tf_spool_config *config, char why[TF_WHY_MAX])
{
    uint64_t bytes = config->bytes_max == 0 ? TF_SPOOL_BYTES : config->bytes_max;
    TF_ASSERT(bytes >= TF_SPOOL_BYTES_MIN && bytes <= TF_SPOOL_BYTES_MAX);
    spool->segment_size = bytes / SEGMENTS / 4096u * 4096u;
    if (spool->segment_size < TF_LOG_SEGMENT_SIZE_MIN) {
        spool->segment_size = TF_LOG_SEGMENT_SIZE_MIN;
    } else if (spool->segment_size > SEGMENT_MAX) {
        spool->segment_size = SEGMENT_MAX;
    }
    tf_commit_log_config log = {.files = config->files,
                                .mem = config->mem,
                                .rand = config->rand,
                                .segment_size = spool->segment_size,
                                .segments_max = bytes / spool->segment_size};
    (void)tf_why(why, "its log cannot be opened");
    tf_err err = tf_commit_log_open(&spool->log, &log, spool->state.progress.answered, why);
    if (err != TF_OK && err != TF_ERR_USAGE) {
        (void)tf_why(why, "its log cannot be opened: %s", strerror(errno));
    }
    return err;
}

/* A message that an earlier process left. */
static tf_err recover_one(tf_spool *spool, const tf_log_record *record)
{
    const tf_stored *m = &record->op.message;
    const tf_spool_progress *progress = &spool->state.progress;
    if (record->op.kind != TF_STORE_APPEND) {
        return TF_OK;
    }
    tf_spool_message message = {.number = record->lsn,
                                .client_id = m->client_id,
                                .meta = m->meta,
                                .body = m->body,
                                .expires_ms = m->expires_ms};
    if (m->epoch != 0) {
        message.sent_ms = m->timestamp_ms;
    } else if (record->lsn <= progress->sent_to) {
        message.sent_ms = progress->sent_ms;
    }
    entry *e = entry_new(spool, &message);
    if (e == NULL) {
        return TF_ERR_NOMEM;
    }
    e->at_once = m->epoch != 0;
    entry_append(spool, e);
    spool->waiting++;
    return TF_OK;
}

static tf_err recover(tf_spool *spool, char why[TF_WHY_MAX])
{
    tf_log_item item;
    tf_err err = TF_OK;
    while (err == TF_OK) {
        err = tf_commit_log_next(spool->log, &item);
        if (err == TF_OK && item.type == TF_LOG_DAMAGE) {
            spool->damaged += item.damage.last - item.damage.first + 1;
        } else if (err == TF_OK) {
            err = recover_one(spool, &item.record);
        }
    }
    if (err == TF_ERR_CLOSED) {
        spool->durable = tf_commit_log_next_lsn(spool->log) - 1;
        return TF_OK;
    }
    if (err == TF_ERR_USAGE) {
        return tf_why(why, "it was written by a later version");
    }
    (void)tf_why(why, "its log cannot be read: %s", err == TF_ERR_NOMEM ? "out of memory" : strerror(errno));
    return err;
}

/* Segments that are wanted soon; one that cannot be had now is made when it is needed, or that fails. */
static void prepare(tf_spool *spool)
{
    while (tf_commit_log_wants_prepare(spool->log) && tf_commit_log_prepare(spool->log) == TF_OK) {
    }
}

tf_err tf_spool_open(tf_spool **out, const tf_spool_config *config, char why[TF_WHY_MAX])
{
    tf_spool *spool = tf_alloc(config->mem, sizeof(*spool));
    if (spool == NULL) {
        (void)tf_why(why, "out of memory");
        return TF_ERR_NOMEM;
    }
    *spool = (tf_spool){.files = config->files, .mem = config->mem};
    tf_list_init(&spool->entries);
    spool->next = &spool->entries.head;
    tf_err err = take_lock(spool, why);
    if (err == TF_OK) {
        err = tf_spool_state_open(&spool->state, &spool->files, &config->owner, why);
    }
    if (err == TF_OK) {
        err = open_log(spool, config, why);
    }
    if (err == TF_OK) {
        err = recover(spool, why);
    }
    if (err != TF_OK) {
        tf_spool_close(spool);
        return err;
    }
    prepare(spool);
    *out = spool;
    return TF_OK;
}

void tf_spool_close(tf_spool *spool)
{
    tf_list_node *node = NULL;
    if (spool == NULL) {
        return;
    }
    while ((node = tf_list_first(&spool->entries)) != NULL) {
        entry_free(spool, entry_at(node));
    }
    tf_commit_log_close(spool->log);
    tf_spool_state_close(&spool->state);
    tf_files_close(&spool->files, spool->lock);
    tf_free(spool->mem, spool->batch, spool->batch_cap);
    tf_free(spool->mem, spool, sizeof(*spool));
}

/* -- in ------------------------------------------------------------------------------------------------------------ */

/* Room for a record in the batch. */
static tf_err reserve(tf_spool *spool, size_t need)
{
    if (spool->batch_len + need <= spool->batch_cap) {
        return TF_OK;
    }
    if (spool->batch_count > 0) {
        return TF_ERR_AGAIN;
    }
    size_t usual = tf_commit_log_group_usual(spool->log);
    size_t cap = need > usual ? need : usual;
    uint8_t *batch = tf_alloc(spool->mem, cap);
    if (batch == NULL) {
        return TF_ERR_NOMEM;
    }
    tf_free(spool->mem, spool->batch, spool->batch_cap);
    spool->batch = batch;
    spool->batch_cap = cap;
    return TF_OK;
}

tf_err tf_spool_put(tf_spool *spool, const tf_spool_message *message, int64_t now_ms, bool at_once)
{
    tf_store_op op = {.kind = TF_STORE_APPEND,
                      .channel = CHANNEL,
                      .message = {.seq = spool->durable + spool->batch_count + 1,
                                  .epoch = at_once ? 1 : 0,
                                  .timestamp_ms = now_ms,
                                  .expires_ms = message->expires_ms,
                                  .client_id = message->client_id,
                                  .meta = message->meta,
                                  .body = message->body}};
    size_t bound = tf_record_bound(&op);
    tf_err err = reserve(spool, bound);
    if (err != TF_OK) {
        return err;
    }
    tf_spool_message kept = *message;
    kept.number = op.message.seq;
    kept.sent_ms = 0;
    entry *e = entry_new(spool, &kept);
    if (e == NULL) {
        return TF_ERR_NOMEM;
    }
    e->at_once = at_once;
    entry_append(spool, e);
    spool->batch_len += tf_record_write(spool->batch + spool->batch_len, spool->batch_cap - spool->batch_len,
                                        tf_commit_log_key(spool->log), kept.number, &op);
    spool->batch_count++;
    return TF_OK;
}

tf_err tf_spool_sync(tf_spool *spool)
{
    if (spool->batch_count == 0) {
        return TF_OK;
    }
    tf_commit_group group = {.records = tf_slice_of(spool->batch, spool->batch_len), .count = spool->batch_count};
    tf_err err = tf_commit_log_append(spool->log, &group);
    bool frees = spool->done_bytes >= spool->segment_size || spool->waiting == 0;
    if (err == TF_ERR_AGAIN && frees && tf_spool_note(spool, true) == TF_OK) {
        err = tf_commit_log_append(spool->log, &group);
    }
    if (err != TF_OK) {
        return err;
    }
    spool->durable += spool->batch_count;
    spool->waiting += spool->batch_count;
    spool->batch_count = 0;
    spool->batch_len = 0;
    prepare(spool);
    return TF_OK;
}

/* -- out ----------------------------------------------------------------------------------------------------------- */

/* Everything that is durable may have been sent from now on. */
static tf_err note_sending(tf_spool *spool, int64_t now_ms)
{
    tf_spool_progress before = spool->state.progress;
    tf_spool_progress *progress = &spool->state.progress;
    if (progress->answered >= progress->sent_to) {
        progress->sent_ms = now_ms; /* none of those that were noted earlier is left */
    }
    progress->sent_to = spool->durable;
    tf_err err = tf_spool_state_keep(&spool->state, true);
    if (err != TF_OK) {
        spool->state.progress = before;
    }
    return err;
}

tf_err tf_spool_next(tf_spool *spool, int64_t now_ms, tf_spool_message *out)
{
    entry *e = spool->next == &spool->entries.head ? NULL : entry_at(spool->next);
    if (e == NULL || e->number > spool->durable) {
        return TF_ERR_CLOSED;
    }
    if (!e->at_once && e->number > spool->state.progress.sent_to) {
        tf_err err = note_sending(spool, now_ms);
        if (err != TF_OK) {
            return err;
        }
    }
    *out = (tf_spool_message){
        .number = e->number,
        .client_id = tf_slice_of(e->bytes, e->client_id_len),
        .meta = tf_slice_of(e->bytes + e->client_id_len, e->meta_len),
        .body = tf_slice_of(e->bytes + e->client_id_len + e->meta_len, e->body_len),
        .expires_ms = e->expires_ms,
        .sent_ms = e->sent_ms,
    };
    return TF_OK;
}

void tf_spool_take(tf_spool *spool)
{
    TF_ASSERT(spool->next != &spool->entries.head);
    spool->next = spool->next->next;
}

/* Answers come in the order of the sends but for few: the first ones are looked at first. */
static entry *find(tf_spool *spool, uint64_t number)
{
    for (tf_list_node *node = spool->entries.head.next; node != &spool->entries.head; node = node->next) {
        entry *e = entry_at(node);
        if (e->number >= number) {
            return e->number == number && !e->done && number <= spool->durable ? e : NULL;
        }
    }
    return NULL;
}

void tf_spool_done(tf_spool *spool, uint64_t number)
{
    tf_list_node *node = NULL;
    entry *e = find(spool, number);
    if (e == NULL) {
        return;
    }
    e->done = true;
    spool->waiting--;
    while ((node = tf_list_first(&spool->entries)) != NULL && entry_at(node)->done) {
        spool->done_bytes += entry_at(node)->size;
        entry_free(spool, entry_at(node));
    }
}

tf_err tf_spool_note(tf_spool *spool, bool durably)
{
    tf_list_node *first = tf_list_first(&spool->entries);
    uint64_t answered = first == NULL ? spool->durable : entry_at(first)->number - 1;
    durably = durably || spool->done_bytes >= spool->segment_size;
    if (answered <= spool->state.progress.answered && !(durably && spool->state.dirty)) {
        return TF_OK;
    }
    tf_spool_progress before = spool->state.progress;
    spool->state.progress.answered = answered;
    tf_err err = tf_spool_state_keep(&spool->state, durably);
    if (err != TF_OK) {
        spool->state.progress = before;
    } else if (durably) {
        spool->done_bytes = 0;
        tf_commit_log_release(spool->log, spool->state.progress.answered);
        prepare(spool);
    }
    return err;
}

void tf_spool_get_stats(const tf_spool *spool, tf_spool_stats *out)
{
    tf_commit_log_stats log;
    tf_commit_log_get_stats(spool->log, &log);
    *out = (tf_spool_stats){
        .waiting = spool->waiting, .unsynced = spool->batch_count, .damaged = spool->damaged, .bytes = log.bytes};
}

int tf_spool_errno(const tf_spool *spool)
{
    return tf_commit_log_errno(spool->log);
}
