#include <stdio.h>

#include "node/store/db_care.h"
#include "node/store/db_internal.h"

/* -- the report ---------------------------------------------------------------------------------------------------- */

void tf_db_report_init(tf_db_report *report, const tf_mem *mem)
{
    *report = (tf_db_report){.mem = mem};
}

void tf_db_report_clear(tf_db_report *report)
{
    tf_free(report->mem, report->findings, report->capacity * sizeof(*report->findings));
    *report = (tf_db_report){.mem = report->mem};
}

tf_err tf_db_report_add(tf_db_report *report, const tf_db_finding *finding)
{
    if (report->count == TF_DB_FINDINGS_MAX) {
        report->left_out++;
        return TF_OK;
    }
    void *array = report->findings;
    tf_err err = tf_db_grow(report->mem, &array, report->count, &report->capacity, sizeof(*finding));
    report->findings = array;
    if (err == TF_OK) {
        report->findings[report->count++] = *finding;
    }
    return err;
}

tf_err tf_db_report_range(tf_db_report *report, tf_db_finding_kind kind, const tf_store_damage *range, const char *text)
{
    tf_db_finding f = {.kind = kind, .channel = range->channel, .first = range->first, .last = range->last};
    (void)snprintf(f.text, sizeof(f.text), "channel %llu, %llu to %llu: %s", (unsigned long long)range->channel,
                   (unsigned long long)range->first, (unsigned long long)range->last, text);
    return tf_db_report_add(report, &f);
}

tf_err tf_db_report_text(tf_db_report *report, tf_db_finding_kind kind, const char *text)
{
    tf_db_finding f = {.kind = kind};
    (void)snprintf(f.text, sizeof(f.text), "%s", text);
    return tf_db_report_add(report, &f);
}

/* -- the check ----------------------------------------------------------------------------------------------------- */

/* A channel, and what its messages and its keys add up to: each key is a number, made of all that it says. */
typedef struct sums {
    uint64_t number;
    uint64_t first;
    uint64_t head;
    int64_t timestamp_ms;
    int64_t since_ms;
    uint64_t messages;
    uint64_t keys;
    bool incomplete; /* messages cannot be read, so their keys are left over */
} sums;

typedef struct check {
    tf_db *db;
    tf_db_report *report;
    sums *channels; /* by number */
    size_t count;
    size_t capacity;
    bool keys_unknown; /* a part of them cannot be read */
} check;

static tf_err found(check *c, tf_db_finding_kind kind, uint64_t channel, uint64_t first, uint64_t last)
{
    static const char *const texts[] = {"",
                                        "messages that cannot be read",
                                        "messages that are not there",
                                        "its head or its times are not those of its messages",
                                        "keys that are missing or wrong",
                                        "its name was lost",
                                        "it goes on under a new epoch"};
    return tf_db_report_range(c->report, kind, &(tf_store_damage){channel, first, last}, texts[kind]);
}

static tf_err check_structure(check *c)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(c->db, TF_DB_STRUCTURE_CHECK, &stmt);
    while (err == TF_OK && (err = tf_db_row(c->db, stmt)) == TF_OK) {
        const char *text = (const char *)sqlite3_column_text(stmt, 0);
        if (text != NULL && strcmp(text, "ok") != 0) {
            err = tf_db_report_text(c->report, TF_DB_BAD_STRUCTURE, text);
        }
        if (err != TF_OK) {
            tf_db_end(stmt);
        }
    }
    if (err == TF_ERR_DAMAGED) {
        return tf_db_report_text(c->report, TF_DB_BAD_STRUCTURE, tf_db_error_text(c->db));
    }
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

static uint64_t number_of(uint64_t hash, const tf_store_key *key)
{
    static const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t n = hash;
    n = (n ^ key->seq) * odd;
    n = (n ^ n >> 29 ^ key->epoch) * odd;
    n = (n ^ n >> 31 ^ (uint64_t)key->timestamp_ms) * odd;
    n = (n ^ n >> 30 ^ key->digest) * odd;
    return n ^ n >> 32;
}

static uint64_t hash_of(const check *c, uint64_t channel, const tf_stored *m)
{
    return tf_db_entry_hash(c->db->key_secret, channel, &m->origin, m->client_id);
}

static tf_store_key key_of(const tf_stored *m)
{
    return (tf_store_key){m->seq, m->epoch, m->timestamp_ms, tf_store_digest(m->body)};
}

/* What a block holds from `seq` on. Times that go back are found. */
static tf_err add_block(check *c, sums *s, const tf_db_block *block, uint64_t seq, int64_t *time_ms)
{
    tf_stored m;
    for (; seq <= s->head && tf_db_block_message(block, seq, &m); seq++) {
        c->report->messages++;
        if (m.timestamp_ms >= s->since_ms) {
            const tf_store_key key = key_of(&m);
            s->messages += number_of(hash_of(c, s->number, &m), &key);
        }
        if (m.timestamp_ms < *time_ms || m.timestamp_ms > s->timestamp_ms) {
            s->incomplete = true;
            return found(c, TF_DB_BAD_NUMBERS, s->number, seq, seq);
        }
        *time_ms = m.timestamp_ms;
    }
    return TF_OK;
}

static tf_err check_messages(check *c, sums *s)
{
    int64_t time_ms = INT64_MIN;
    tf_err err = TF_OK;
    for (uint64_t seq = s->first; seq <= s->head && err == TF_OK;) {
        tf_db_block *block = NULL;
        tf_db_gap gap;
        err = tf_db_load(c->db, s->number, seq, &block, &gap);
        if (err == TF_OK) {
            err = add_block(c, s, block, seq, &time_ms);
            seq = tf_db_block_last(block) + 1;
            tf_db_block_free(block);
        } else if (err == TF_ERR_CLOSED || err == TF_ERR_DAMAGED) {
            uint64_t last = gap.last < s->head ? gap.last : s->head;
            s->incomplete = true;
            err = found(c, err == TF_ERR_CLOSED ? TF_DB_LOST_MESSAGES : TF_DB_BAD_MESSAGES, s->number, seq, last);
            seq = last + 1;
        }
    }
    tf_db_block *beyond = NULL;
    tf_db_gap gap;
    if (err == TF_OK && tf_db_load(c->db, s->number, s->head + 1, &beyond, &gap) == TF_OK) {
        err = found(c, TF_DB_BAD_NUMBERS, s->number, s->head + 1, tf_db_block_last(beyond));
        tf_db_block_free(beyond);
    }
    return err;
}

static tf_err check_channels(check *c)
{
    uint64_t position = 0;
    tf_store_channel channel;
    tf_err err = TF_OK;
    while ((err = tf_db_channel_next(c->db, &position, &channel)) == TF_OK) {
        void *array = c->channels;
        err = tf_db_grow(c->db->mem, &array, c->count, &c->capacity, sizeof(*c->channels));
        c->channels = array;
        if (err == TF_OK) {
            sums *s = &c->channels[c->count++];
            *s = (sums){.number = channel.number,
                        .first = channel.first,
                        .head = channel.head,
                        .timestamp_ms = channel.timestamp_ms,
                        .since_ms = channel.keys_since_ms};
            c->report->channels++;
            err = check_messages(c, s);
        }
        if (err != TF_OK) {
            return err;
        }
    }
    if (err == TF_ERR_DAMAGED) {
        return tf_db_report_text(c->report, TF_DB_BAD_STRUCTURE, "the table of channels cannot be read to its end");
    }
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

static sums *sums_of(const check *c, uint64_t number)
{
    size_t low = 0;
    size_t high = c->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->channels[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < c->count && c->channels[low].number == number ? &c->channels[low] : NULL;
}

static void add_keys(check *c, const tf_db_keys *keys)
{
    for (size_t i = 0; i < keys->entries.count; i++) {
        const tf_db_entry *e = &keys->entries.at[i];
        sums *s = sums_of(c, e->channel);
        c->report->keys++;
        if (s != NULL && e->key.seq >= s->first && e->key.timestamp_ms >= s->since_ms) {
            s->keys += number_of(e->hash, &e->key);
        }
    }
}

static tf_err read_keys(check *c)
{
    uint64_t position = 0;
    tf_db_keys *keys = NULL;
    tf_err err = TF_OK;
    while ((err = tf_db_keys_load(c->db, &position, &keys)) == TF_OK || err == TF_ERR_DAMAGED) {
        c->keys_unknown = c->keys_unknown || err == TF_ERR_DAMAGED;
        add_keys(c, keys);
        tf_db_keys_free(keys);
    }
    if (err != TF_ERR_CLOSED && err != TF_ERR_DAMAGED) {
        return err;
    }
    if (c->keys_unknown) {
        return tf_db_report_text(c->report, TF_DB_BAD_KEYS, "a part of the keys cannot be read");
    }
    return TF_OK;
}

/* The keys of the messages of a block, one by one. Ranges that are next to each other become one. */
static tf_err check_keys_of(check *c, const sums *s, const tf_db_block *block, uint64_t *bad_first, uint64_t *bad_last)
{
    tf_stored m;
    uint64_t seq = tf_db_block_first(block) > s->first ? tf_db_block_first(block) : s->first;
    tf_err err = TF_OK;
    for (; err == TF_OK && seq <= s->head && tf_db_block_message(block, seq, &m); seq++) {
        tf_store_key key;
        const tf_store_key wanted = key_of(&m);
        err = m.timestamp_ms < s->since_ms ? TF_ERR_CLOSED
                                           : tf_db_find_key(c->db, s->number, &m.origin, m.client_id, &key);
        bool good = m.timestamp_ms < s->since_ms ||
                    (err == TF_OK && key.seq == wanted.seq && key.epoch == wanted.epoch && key.digest == wanted.digest);
        err = err == TF_ERR_CLOSED ? TF_OK : err;
        if (err != TF_OK || good) {
            continue;
        }
        if (*bad_first != 0 && *bad_last + 1 != seq) {
            err = found(c, TF_DB_BAD_KEYS, s->number, *bad_first, *bad_last);
            *bad_first = 0;
        }
        *bad_first = *bad_first == 0 ? seq : *bad_first;
        *bad_last = seq;
    }
    return err;
}

static tf_err name_bad_keys(check *c, const sums *s)
{
    uint64_t bad_first = 0;
    uint64_t bad_last = 0;
    tf_err err = TF_OK;
    for (uint64_t seq = s->first; seq <= s->head && err == TF_OK;) {
        tf_db_block *block = NULL;
        tf_db_gap gap;
        err = tf_db_load(c->db, s->number, seq, &block, &gap);
        if (err == TF_OK) {
            err = check_keys_of(c, s, block, &bad_first, &bad_last);
            seq = tf_db_block_last(block) + 1;
            tf_db_block_free(block);
        } else if (err == TF_ERR_CLOSED || err == TF_ERR_DAMAGED) {
            seq = gap.last < s->head ? gap.last + 1 : s->head + 1;
            err = TF_OK;
        }
    }
    if (err == TF_OK && (bad_first != 0 || !s->incomplete)) {
        err = found(c, TF_DB_BAD_KEYS, s->number, bad_first, bad_last); /* 0 to 0: keys of no message */
    }
    return err;
}

static tf_err check_all(check *c)
{
    tf_err err = check_structure(c);
    if (err == TF_OK) {
        err = check_channels(c);
    }
    if (err == TF_OK) {
        err = read_keys(c);
    }
    for (size_t i = 0; i < c->count && err == TF_OK && !c->keys_unknown; i++) {
        if (c->channels[i].messages != c->channels[i].keys) {
            err = name_bad_keys(c, &c->channels[i]);
        }
    }
    return err;
}

tf_err tf_db_check(tf_db *db, tf_db_report *report)
{
    check c = {.db = db, .report = report};
    tf_err err = tf_db_begin(db, false);
    if (err != TF_OK) {
        return err;
    }
    err = tf_db_finish(db, check_all(&c));
    tf_free(db->mem, c.channels, c.capacity * sizeof(*c.channels));
    return err;
}
