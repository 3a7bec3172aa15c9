#include "node/store/log_apply.h"

#include "node/store/log_reader.h"

#define BATCH_BYTES ((size_t)4 * 1024 * 1024) /* of records in one transaction */

/* The heads of the channels of the index, by number; NO_CHANNEL: there is none. */
#define NO_CHANNEL UINT64_MAX

typedef struct heads {
    const tf_mem *mem;
    uint64_t *at;
    size_t count;
} heads;

/* A batch: the bytes of its records, whose slices the index needs until it is committed. */
typedef struct batch {
    tf_db *db;
    heads heads;
    uint8_t *bytes;
    size_t len;
    size_t capacity;
    bool open;
} batch;

static tf_err set_head(heads *h, uint64_t number, uint64_t head)
{
    TF_ASSERT(number < TF_STORE_NUMBER_END); /* of records is_void and check_record have seen to it, of the index tf_db */
    if (number >= h->count) {
        size_t wanted = (size_t)number * 2 + 64;
        uint64_t *larger = tf_alloc(h->mem, wanted * sizeof(*larger));
        if (larger == NULL) {
            return TF_ERR_NOMEM;
        }
        for (size_t i = 0; i < wanted; i++) {
            larger[i] = i < h->count ? h->at[i] : NO_CHANNEL;
        }
        tf_free(h->mem, h->at, h->count * sizeof(*larger));
        h->at = larger;
        h->count = wanted;
    }
    h->at[number] = head;
    return TF_OK;
}

static uint64_t head_of(const heads *h, uint64_t number)
{
    return number < h->count ? h->at[number] : NO_CHANNEL;
}

static tf_err load_heads(tf_db *db, heads *h)
{
    uint64_t position = 0;
    tf_store_channel channel;
    tf_err err = TF_OK;
    while ((err = tf_db_channel_next(db, &position, &channel)) == TF_OK) {
        err = set_head(h, channel.number, channel.head);
        if (err != TF_OK) {
            return err;
        }
    }
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

static bool can_be(uint64_t number)
{
    return number >= 1 && number < TF_STORE_NUMBER_END;
}

/* Does it change anything? */
static bool is_void(const heads *h, const tf_store_op *op)
{
    uint64_t head = head_of(h, op->channel);
    if (op->kind == TF_STORE_CREATE) {
        return head != NO_CHANNEL || !can_be(op->channel);
    }
    return head == NO_CHANNEL || (op->kind == TF_STORE_APPEND && op->message.seq <= head);
}

static tf_err commit(batch *b)
{
    b->len = 0;
    if (!b->open) {
        return TF_OK;
    }
    b->open = false;
    return tf_db_apply_commit(b->db);
}

/* The record's bytes stay until the commit: it is read again from the copy. */
static tf_err apply_record(batch *b, const tf_log_item *item)
{
    tf_log_record record;
    if (is_void(&b->heads, &item->record.op)) {
        return TF_OK;
    }
    tf_err err = b->len + item->bytes.len > b->capacity ? commit(b) : TF_OK;
    if (err == TF_OK && !b->open) {
        err = tf_db_apply_begin(b->db);
        b->open = err == TF_OK;
    }
    if (err != TF_OK) {
        return err;
    }
    memcpy(b->bytes + b->len, item->bytes.data, item->bytes.len);
    err = tf_record_read_trusted(tf_slice_of(b->bytes + b->len, item->bytes.len), &record);
    TF_ASSERT(err == TF_OK); /* the reader has read it */
    b->len += item->bytes.len;
    err = tf_db_apply_op(b->db, item->record.lsn, &record.op);
    b->open = err == TF_OK;
    if (err != TF_OK) {
        return err;
    }
    if (record.op.kind == TF_STORE_CREATE || record.op.kind == TF_STORE_APPEND) {
        uint64_t head = record.op.kind == TF_STORE_CREATE ? 0 : record.op.message.seq;
        err = set_head(&b->heads, record.op.channel, head);
    }
    return err;
}

/* b NULL: only looks, and passes over what is damaged. TF_ERR_AGAIN: what is read is being recycled. */
static tf_err read_log(batch *b, const tf_log_reader_config *config, tf_log_apply_report *report, char why[TF_WHY_MAX])
{
    tf_log_reader *reader = NULL;
    tf_log_item item = {.type = TF_LOG_RECORD};
    *report = (tf_log_apply_report){.last = config->from, .durable = config->from};
    tf_err err = tf_log_reader_new(&reader, config, why);
    if (err != TF_OK) {
        return err;
    }
    report->durable = tf_log_reader_durable(reader);
    while (err == TF_OK && (err = tf_log_reader_next(reader, &item)) == TF_OK) {
        if (item.type == TF_LOG_DAMAGE && b != NULL) {
            break;
        }
        if (item.type == TF_LOG_RECORD) {
            err = b == NULL ? TF_OK : apply_record(b, &item);
            report->records++;
            report->last = item.record.lsn;
        }
    }
    if (err == TF_ERR_USAGE) {
        (void)tf_why(why, "the commit log has records of a later version");
    }
    tf_log_reader_free(reader);
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

tf_err tf_log_look(uint64_t applied, const tf_files *files, const tf_mem *mem, tf_log_apply_report *report,
                   char why[TF_WHY_MAX])
{
    const tf_log_reader_config config = {.files = *files, .mem = mem, .from = applied, .live = true};
    return read_log(NULL, &config, report, why);
}

static tf_err apply_log(batch *b, const tf_log_reader_config *config, tf_log_apply_report *report, char why[TF_WHY_MAX])
{
    tf_err err = read_log(b, config, report, why);
    if (err != TF_OK && err != TF_ERR_AGAIN && b->open) {
        tf_db_apply_abort(b->db);
        b->open = false;
    }
    return err == TF_OK || err == TF_ERR_AGAIN ? commit(b) : err;
}

tf_err tf_log_apply(tf_db *db, const tf_files *files, const tf_mem *mem, tf_log_apply_report *report,
                    char why[TF_WHY_MAX])
{
    batch b = {.db = db, .heads = {.mem = mem}, .capacity = BATCH_BYTES + TF_RECORD_MAX};
    tf_log_reader_config config = {.files = *files, .mem = mem, .live = true};
    b.bytes = tf_alloc(mem, b.capacity);
    tf_err err = b.bytes == NULL ? TF_ERR_NOMEM : tf_db_applied(db, &config.from);
    if (err == TF_OK) {
        err = load_heads(db, &b.heads);
    }
    if (err == TF_OK) {
        err = apply_log(&b, &config, report, why);
    }
    tf_free(mem, b.bytes, b.capacity);
    tf_free(mem, b.heads.at, b.heads.count * sizeof(*b.heads.at));
    return err;
}

/* -- the check ----------------------------------------------------------------------------------------------------- */

static void add_log(tf_check_report *report, uint64_t first, uint64_t last, const char *text)
{
    tf_check_finding finding = {.kind = TF_CHECK_LOG, .first = first, .last = last};
    (void)tf_why(finding.text, "%s", text);
    tf_check_add(report, &finding);
}

/* A record that the index does not have yet: does it fit there? */
static tf_err check_record(heads *h, const tf_log_record *record, tf_check_report *report)
{
    const tf_store_op *op = &record->op;
    uint64_t head = head_of(h, op->channel);
    report->log_records++;
    if (op->kind == TF_STORE_CREATE && !can_be(op->channel)) {
        add_log(report, record->lsn, record->lsn, "a channel with a number that cannot be");
        return TF_OK;
    }
    if (op->kind == TF_STORE_CREATE) {
        report->channels += head == NO_CHANNEL ? 1 : 0;
        return head == NO_CHANNEL ? set_head(h, op->channel, 0) : TF_OK;
    }
    if (head == NO_CHANNEL) {
        add_log(report, record->lsn, record->lsn, "a change to a channel that is not there");
        return TF_OK;
    }
    if (op->kind != TF_STORE_APPEND || op->message.seq <= head) {
        return TF_OK;
    }
    if (op->message.seq > head + 1) {
        add_log(report, record->lsn, record->lsn, "messages of a channel before this change are lost");
    }
    report->messages++;
    return set_head(h, op->channel, op->message.seq);
}

static tf_err check_items(tf_log_reader *reader, heads *h, tf_check_report *report)
{
    tf_log_item item;
    tf_err err = TF_OK;
    while (err == TF_OK && (err = tf_log_reader_next(reader, &item)) == TF_OK) {
        if (item.type == TF_LOG_DAMAGE) {
            add_log(report, item.damage.first, item.damage.last, "changes that cannot be read");
        } else {
            err = check_record(h, &item.record, report);
        }
    }
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

tf_err tf_log_check(tf_db *db, const tf_files *files, const tf_mem *mem, tf_check_report *report,
                    char why[TF_WHY_MAX])
{
    heads h = {.mem = mem};
    tf_log_reader *reader = NULL;
    tf_log_reader_config config = {.files = *files, .mem = mem};
    tf_err err = tf_db_applied(db, &config.from);
    if (err == TF_OK) {
        err = load_heads(db, &h);
    }
    if (err == TF_OK) {
        err = tf_log_reader_new(&reader, &config, why);
        if (err == TF_OK) {
            err = check_items(reader, &h, report);
        }
        if (err == TF_OK && tf_log_reader_report(reader)->unreadable > 0) {
            add_log(report, 0, 0, "a segment that cannot be read");
        }
    } else if (err == TF_ERR_DAMAGED) {
        err = TF_OK; /* of the index, which was told: nothing can be compared with it */
    }
    tf_log_reader_free(reader);
    tf_free(mem, h.at, h.count * sizeof(*h.at));
    return err;
}
