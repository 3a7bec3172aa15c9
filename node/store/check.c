#include "node/store/check.h"

#include <inttypes.h>
#include <stdio.h>

#include "node/name.h"

void tf_check_add(tf_check_report *report, const tf_check_finding *finding)
{
    report->found++;
    if (report->count < TF_CHECK_FINDINGS) {
        report->findings[report->count++] = *finding;
    }
}

const char *tf_check_kind_name(tf_check_kind kind)
{
    switch (kind) {
    case TF_CHECK_DAMAGED:
        return "damaged";
    case TF_CHECK_LOST:
        return "lost";
    case TF_CHECK_KEYS:
        return "keys";
    case TF_CHECK_CURSORS:
        return "cursors";
    case TF_CHECK_INDEX:
        return "index";
    case TF_CHECK_LOG:
        return "log";
    }
    TF_UNREACHABLE();
}

/* -- one channel --------------------------------------------------------------------------------------------------- */

typedef struct walk {
    tf_db *db;
    tf_check_report *report;
    const tf_store_channel *channel;
    tf_check_finding open; /* a range that may grow; first 0: none */
} walk;

static void name_channel(const tf_store_channel *channel, char out[TF_CHANNEL_NAME_MAX + 1])
{
    if (tf_channel_name_is_valid(channel->name)) {
        memcpy(out, channel->name.data, channel->name.len);
        out[channel->name.len] = '\0';
    } else {
        (void)snprintf(out, TF_CHANNEL_NAME_MAX + 1, "#%" PRIu64, channel->number);
    }
}

static void flush_range(walk *w)
{
    if (w->open.first != 0) {
        tf_check_add(w->report, &w->open);
    }
    w->open.first = 0;
}

static void add_range(walk *w, tf_check_kind kind, uint64_t first, uint64_t last)
{
    if (w->open.first != 0 && w->open.kind == kind && w->open.last + 1 == first) {
        w->open.last = last;
        return;
    }
    flush_range(w);
    w->open = (tf_check_finding){.kind = kind, .first = first, .last = last};
    name_channel(w->channel, w->open.channel);
    (void)tf_why(w->open.text, "%s",
                 kind == TF_CHECK_LOST ? "messages that are not there any more" : "messages that cannot be read");
}

static void add_finding(walk *w, tf_check_kind kind, const char *text)
{
    tf_check_finding finding = {.kind = kind};
    if (w->channel != NULL) {
        name_channel(w->channel, finding.channel);
    }
    (void)tf_why(finding.text, "%s", text);
    tf_check_add(w->report, &finding);
}

/* The key of a block's first message stands for those of all: they were stored together. */
static tf_err check_key(walk *w, const tf_stored *m)
{
    tf_store_key key;
    if (m->timestamp_ms < w->channel->keys_since_ms) {
        return TF_OK;
    }
    tf_err err = tf_db_find_key(w->db, w->channel->number, &m->origin, m->client_id, &key);
    if (err == TF_ERR_CLOSED || (err == TF_OK && key.seq < m->seq)) {
        tf_check_finding finding = {.kind = TF_CHECK_KEYS, .first = m->seq, .last = m->seq};
        name_channel(w->channel, finding.channel);
        (void)tf_why(finding.text, "a message whose key is lost: a resend of it would be stored twice");
        tf_check_add(w->report, &finding);
    }
    return err == TF_ERR_CLOSED || err == TF_ERR_DAMAGED ? TF_OK : err;
}

static tf_err check_block(walk *w, uint64_t *seq)
{
    tf_db_block *block = NULL;
    tf_db_gap gap;
    tf_stored message;
    uint64_t head = w->channel->head;
    tf_err err = tf_db_load(w->db, w->channel->number, *seq, &block, &gap);
    if (err == TF_OK) {
        flush_range(w);
        bool there = tf_db_block_message(block, *seq, &message);
        TF_ASSERT(there); /* it was asked for */
        err = check_key(w, &message);
        uint64_t last = tf_db_block_last(block);
        w->report->messages += (last < head ? last : head) - *seq + 1;
        *seq = last + 1;
        tf_db_block_free(block);
        return err;
    }
    if (err == TF_ERR_CLOSED || err == TF_ERR_DAMAGED) {
        uint64_t last = gap.last < *seq || gap.last > head ? head : gap.last;
        add_range(w, err == TF_ERR_CLOSED ? TF_CHECK_LOST : TF_CHECK_DAMAGED, *seq, last);
        *seq = last + 1;
        err = TF_OK;
    }
    return err;
}

static tf_err check_cursors(walk *w)
{
    uint64_t position = 0;
    uint64_t before = 0;
    tf_store_cursor cursor;
    tf_err err = TF_OK;
    while (err == TF_OK) {
        before = position;
        err = tf_db_cursor_next(w->db, w->channel->number, &position, &cursor);
        if (err == TF_ERR_DAMAGED) {
            add_finding(w, TF_CHECK_CURSORS, "the position of a durable subscription cannot be read");
            err = position == before ? TF_ERR_CLOSED : TF_OK;
        }
    }
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

static tf_err check_channel(walk *w)
{
    tf_err err = TF_OK;
    for (uint64_t seq = w->channel->first; err == TF_OK && seq <= w->channel->head;) {
        err = check_block(w, &seq);
    }
    flush_range(w);
    return err == TF_OK ? check_cursors(w) : err;
}

/* -- all of it ----------------------------------------------------------------------------------------------------- */

static tf_err check_channels(walk *w)
{
    uint64_t position = 0;
    uint64_t before = 0;
    tf_store_channel channel;
    tf_err err = TF_OK;
    while (err == TF_OK) {
        before = position;
        w->channel = NULL;
        err = tf_db_channel_next(w->db, &position, &channel);
        if (err == TF_ERR_DAMAGED) {
            add_finding(w, TF_CHECK_INDEX, "a channel cannot be read");
            err = position == before ? TF_ERR_CLOSED : TF_OK;
        } else if (err == TF_OK) {
            uint8_t name[TF_CHANNEL_NAME_MAX];
            memcpy(name, channel.name.data, channel.name.len);
            channel.name.data = name; /* what follows asks the tf_db, too */
            w->channel = &channel;
            w->report->channels++;
            err = check_channel(w);
        }
    }
    w->channel = NULL;
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

static tf_err check_keys(walk *w)
{
    uint64_t position = 0;
    uint64_t before = 0;
    tf_db_keys *keys = NULL;
    tf_err err = TF_OK;
    while (err == TF_OK) {
        before = position;
        err = tf_db_keys_load(w->db, &position, &keys);
        tf_db_keys_free(keys);
        if (err == TF_ERR_DAMAGED) {
            add_finding(w, TF_CHECK_KEYS, "keys that cannot be read: sends whose key may be among them are refused");
            err = position == before ? TF_ERR_CLOSED : TF_OK;
        }
    }
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

tf_err tf_check_db(tf_db *db, tf_check_report *report)
{
    walk w = {.db = db, .report = report};
    tf_err err = tf_db_applied(db, &report->applied_lsn);
    if (err == TF_ERR_DAMAGED) {
        add_finding(&w, TF_CHECK_INDEX, "its state cannot be read");
        err = TF_OK;
    }
    if (err == TF_OK) {
        err = check_channels(&w);
    }
    return err == TF_OK ? check_keys(&w) : err;
}
