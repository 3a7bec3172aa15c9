#include "node/store/check.h"

#include <inttypes.h>
#include <stdio.h>

#include "node/name.h"

void tf_check_add(tf_check_report *report, const tf_check_finding *finding)
{
    report->found++;
    report->kinds |= 1u << finding->kind;
    if (report->count < TF_CHECK_FINDINGS) {
        report->findings[report->count++] = *finding;
    }
}

void tf_check_add_text(tf_check_report *report, tf_check_kind kind, const char *text)
{
    tf_check_finding finding = {.kind = kind};
    (void)tf_why(finding.text, "%s", text);
    tf_check_add(report, &finding);
}

const char *tf_check_kind_name(tf_check_kind kind)
{
    switch (kind) {
    case TF_CHECK_DAMAGED:
        return "damaged";
    case TF_CHECK_LOST:
        return "lost";
    case TF_CHECK_NUMBERS:
        return "numbers";
    case TF_CHECK_KEYS:
        return "keys";
    case TF_CHECK_INDEX:
        return "index";
    case TF_CHECK_LOG:
        return "log";
    case TF_CHECK_NAME:
        return "name";
    case TF_CHECK_EPOCH:
        return "epoch";
    }
    TF_UNREACHABLE();
}

/* -- what the index has found -------------------------------------------------------------------------------------- */

static tf_check_kind kind_of(tf_db_finding_kind kind)
{
    switch (kind) {
    case TF_DB_BAD_STRUCTURE:
        return TF_CHECK_INDEX;
    case TF_DB_BAD_MESSAGES:
        return TF_CHECK_DAMAGED;
    case TF_DB_LOST_MESSAGES:
        return TF_CHECK_LOST;
    case TF_DB_BAD_NUMBERS:
        return TF_CHECK_NUMBERS;
    case TF_DB_BAD_KEYS:
        return TF_CHECK_KEYS;
    case TF_DB_NEW_NAME:
        return TF_CHECK_NAME;
    case TF_DB_NEW_EPOCH:
        return TF_CHECK_EPOCH;
    }
    TF_UNREACHABLE();
}

static const char *text_of(const tf_db_finding *finding)
{
    switch (finding->kind) {
    case TF_DB_BAD_STRUCTURE:
        return finding->text;
    case TF_DB_BAD_MESSAGES:
        return "messages that cannot be read";
    case TF_DB_LOST_MESSAGES:
        return "messages that are not there any more";
    case TF_DB_BAD_NUMBERS:
        return "the head or the times of the channel are not those of its messages";
    case TF_DB_BAD_KEYS:
        return finding->channel == 0 ? finding->text : "keys that are missing or wrong: resends may be stored again";
    case TF_DB_NEW_NAME:
        return "its name was lost, this is its new one";
    case TF_DB_NEW_EPOCH:
        return "it goes on under a new epoch, since messages were lost";
    }
    TF_UNREACHABLE();
}

static void name_channel(tf_db *db, uint64_t number, char out[TF_CHANNEL_NAME_MAX + 1])
{
    uint64_t position = number - 1;
    tf_store_channel channel;
    bool found = db != NULL && tf_db_channel_next(db, &position, &channel) == TF_OK && channel.number == number;
    if (found && tf_channel_name_is_valid(channel.name)) {
        memcpy(out, channel.name.data, channel.name.len);
        out[channel.name.len] = '\0';
    } else {
        (void)snprintf(out, TF_CHANNEL_NAME_MAX + 1, "#%" PRIu64, number);
    }
}

void tf_check_take(tf_check_report *report, tf_db *db, const tf_db_report *found)
{
    for (size_t i = 0; i < found->count; i++) {
        const tf_db_finding *f = &found->findings[i];
        tf_check_finding finding = {.kind = kind_of(f->kind), .first = f->first, .last = f->last};
        if (f->channel != 0) {
            name_channel(db, f->channel, finding.channel);
        }
        (void)tf_why(finding.text, "%s", text_of(f));
        tf_check_add(report, &finding);
    }
    report->found += found->left_out;
}

tf_err tf_check_db(tf_db *db, tf_check_report *report)
{
    tf_db_report found;
    tf_db_report_init(&found, report->mem);
    tf_err err = tf_db_applied(db, &report->applied_lsn);
    if (err == TF_OK) {
        err = tf_db_check(db, &found);
    }
    if (err == TF_OK) {
        tf_check_take(report, db, &found);
        report->channels = found.channels;
        report->messages = found.messages;
    }
    if (err == TF_ERR_DAMAGED) {
        tf_check_add_text(report, TF_CHECK_INDEX, tf_db_error_text(db));
        err = TF_OK;
    }
    tf_db_report_clear(&found);
    return err;
}
