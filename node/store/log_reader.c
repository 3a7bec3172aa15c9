#include "node/store/log_reader.h"

#include <errno.h>
#include <stdlib.h>

#include "node/store/log_file.h"

#define LATE_FILES 64u /* that come while a log is listed that is being written */

struct tf_log_reader {
    tf_log_reader_config config;
    tf_log_file *files;
    size_t count;
    size_t capacity; /* of files */
    uint64_t key;
    bool has_key;
    uint64_t durable; /* the highest LSN that any group, or the caller, says was durable */
    uint8_t *buffer;
    size_t room;        /* of the buffer */
    size_t loaded;      /* 1 + the index of the file that is in the buffer; 0: none */
    size_t at;          /* the file that is being read */
    uint64_t offset;    /* where its next group is looked for; 0: it is to be loaded */
    tf_log_group group; /* the group that is being read; count 0: none */
    tf_slice rest;      /* of its records */
    uint64_t expected;  /* the LSN that comes next */
    bool held;          /* in item is a record; what is missing before it was handed out first */
    uint64_t reloaded;  /* live: what was expected when a file was read again because something was missing */
    tf_log_item item;
    tf_log_report report;
};

/* -- names --------------------------------------------------------------------------------------------------------- */

/* Of a name without its folder. */
static bool number_of(const char *name, uint64_t *out)
{
    tf_file_name same;
    *out = strtoull(name, NULL, 16);
    tf_log_file_name(*out, &same);
    return strcmp(same.text + sizeof(TF_LOG_FOLDER), name) == 0;
}

static int compare_numbers(const void *a, const void *b)
{
    const tf_log_file *left = a;
    const tf_log_file *right = b;
    return (left->number > right->number) - (left->number < right->number);
}

/* L15: of those that begin with the same group, the one in which it failed has nothing else, and may be torn, while its
 * number may be the higher one. */
static int compare_lsns(const void *a, const void *b)
{
    const tf_log_file *left = a;
    const tf_log_file *right = b;
    int order = (left->first > right->first) - (left->first < right->first);
    if (order == 0) {
        order = (left->last > right->last) - (left->last < right->last);
    }
    if (order == 0) {
        order = (int)left->begins_whole - (int)right->begins_whole;
    }
    return order != 0 ? order : compare_numbers(a, b);
}

static tf_err no_memory(void)
{
    errno = ENOMEM;
    return TF_ERR_NOMEM;
}

static tf_err take_names(tf_log_reader *reader, const tf_file_name *names, size_t count)
{
    reader->files = tf_alloc(reader->config.mem, count * sizeof(*reader->files));
    if (reader->files == NULL) {
        return no_memory();
    }
    reader->capacity = count;
    for (size_t i = 0; i < count; i++) {
        uint64_t number = 0;
        if (number_of(names[i].text, &number)) {
            reader->files[reader->count++].number = number;
        }
    }
    qsort(reader->files, reader->count, sizeof(*reader->files), compare_numbers);
    return TF_OK;
}

static tf_err list_files(tf_log_reader *reader, char why[TF_WHY_MAX])
{
    const tf_log_reader_config *config = &reader->config;
    size_t count = 0;
    tf_err err = config->files.table->list(config->files.ctx, TF_LOG_FOLDER, NULL, 0, &count);
    if (err != TF_OK || count == 0) {
        return err == TF_ERR_CLOSED ? TF_OK : err;
    }
    if (count > TF_LOG_FILES_MAX) {
        return tf_why(why, "the folder %s has %zu files: this is no commit log", TF_LOG_FOLDER, count);
    }
    const size_t room = count + LATE_FILES;
    tf_file_name *names = tf_alloc(config->mem, room * sizeof(*names));
    if (names == NULL) {
        return no_memory();
    }
    err = config->files.table->list(config->files.ctx, TF_LOG_FOLDER, names, room, &count);
    if (err == TF_OK && count > 0) {
        err = take_names(reader, names, count < room ? count : room);
    }
    tf_free(config->mem, names, room * sizeof(*names));
    return err;
}

/* -- files --------------------------------------------------------------------------------------------------------- */

static tf_err open_file(const tf_log_reader *reader, const tf_log_file *file, tf_file **out)
{
    tf_file_name name;
    tf_log_file_name(file->number, &name);
    tf_err err = tf_files_open(&reader->config.files, name.text, TF_FILE_READ, out);
    if (err == TF_ERR_CLOSED) {
        return reader->config.live ? TF_ERR_AGAIN : TF_ERR_IO;
    }
    return err;
}

/* The log's key is that of the newest file whose header is valid. */
static tf_err look_at_header(tf_log_reader *reader, const tf_log_file *file, char why[TF_WHY_MAX])
{
    const tf_files *files = &reader->config.files;
    uint8_t block[TF_LOG_BLOCK];
    size_t got = 0;
    tf_log_segment_header header;
    tf_file *open = NULL;
    tf_err err = open_file(reader, file, &open);
    if (err != TF_OK) {
        return err;
    }
    err = tf_files_read(files, open, 0, block, sizeof(block), &got);
    tf_files_close(files, open);
    if (err != TF_OK) {
        return TF_OK; /* it is unreadable, which is found when it is read whole */
    }
    err = tf_log_segment_read(tf_slice_of(block, got), &header);
    if (err == TF_ERR_USAGE) {
        return tf_why(why, "the commit log has version %u, this program knows versions up to %u", header.version,
                      TF_LOG_VERSION);
    }
    if (err == TF_OK) {
        reader->key = header.key;
        reader->has_key = true;
    }
    return TF_OK;
}

static tf_err make_room(tf_log_reader *reader, size_t size)
{
    const tf_mem *mem = reader->config.mem;
    if (size <= reader->room) {
        return TF_OK;
    }
    tf_free(mem, reader->buffer, reader->room);
    reader->room = 0;
    reader->buffer = tf_alloc(mem, size);
    if (reader->buffer == NULL) {
        return no_memory();
    }
    reader->room = size;
    return TF_OK;
}

/* Nothing was written behind the header yet. */
static bool is_blank(const uint8_t *bytes, size_t size)
{
    for (size_t i = TF_LOG_SEGMENT_HEADER; i < size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

/* What an earlier process wrote may be in the system's cache alone, because it was not synced or because a sync failed;
 * what is replayed must be on the disk. False: it cannot be brought there; what the disk has counts. */
static bool make_durable(const tf_files *files, tf_file *file)
{
    bool synced = tf_files_sync(files, file) == TF_OK;
    files->table->uncache(files->ctx, file);
    return synced;
}

static tf_err read_file(tf_log_reader *reader, tf_log_file *file, tf_file *open)
{
    const tf_files *files = &reader->config.files;
    tf_log_segment_header header;
    tf_err err = files->table->size(files->ctx, open, &file->size);
    if (err != TF_OK) {
        return err;
    }
    if (file->size > TF_LOG_FILE_BYTES_MAX) {
        file->size = 0;
    }
    err = make_room(reader, (size_t)file->size);
    if (err != TF_OK) {
        return err;
    }
    bool synced = reader->config.live || make_durable(files, open);
    bool whole = tf_log_file_read(files, open, reader->buffer, (size_t)file->size);
    err = tf_log_segment_read(tf_slice_of(reader->buffer, (size_t)file->size), &header);
    file->good = err == TF_OK && whole && header.key == reader->key && header.number == file->number &&
                 header.size == file->size && synced;
    file->headless = err != TF_OK;
    file->lost = !whole || !synced || (!reader->has_key && !is_blank(reader->buffer, (size_t)file->size));
    return TF_OK;
}

/* Takes a file into the buffer. Live: TF_ERR_AGAIN if it is not what it was. */
static tf_err load(tf_log_reader *reader, size_t index)
{
    tf_log_file *file = &reader->files[index];
    tf_file *open = NULL;
    bool live = reader->config.live;
    if (reader->loaded == index + 1 && !live) {
        return TF_OK;
    }
    reader->loaded = 0;
    tf_err err = open_file(reader, file, &open);
    if (err != TF_OK) {
        return err;
    }
    bool was_good = file->good;
    err = read_file(reader, file, open);
    tf_files_close(&reader->config.files, open);
    if (err != TF_OK) {
        return err;
    }
    if (live && was_good && !file->good) {
        return TF_ERR_AGAIN;
    }
    reader->loaded = index + 1;
    return TF_OK;
}

static tf_slice loaded_bytes(const tf_log_reader *reader)
{
    return tf_slice_of(reader->buffer, (size_t)reader->files[reader->loaded - 1].size);
}

/* -- records ------------------------------------------------------------------------------------------------------- */

/* Takes the record at the beginning of the rest of the group into reader->item: TF_OK; TF_ERR_DAMAGED: it is none, and
 * the rest begins behind it, or is empty when that is not known; TF_ERR_USAGE. */
static tf_err take_record(tf_log_reader *reader)
{
    tf_slice *rest = &reader->rest;
    tf_log_item *item = &reader->item;
    const tf_log_group *group = &reader->group;
    tf_err err = tf_record_read(*rest, reader->key, &item->record);
    size_t size = rest->len;
    uint64_t lsn = 0;
    if (err == TF_OK) {
        size = item->record.size;
        lsn = item->record.lsn;
        err = lsn >= group->first && lsn <= tf_log_group_last(group) ? TF_OK : TF_ERR_DAMAGED; /* L9 */
    } else if (!tf_record_peek(*rest, &size, &lsn)) {
        size = rest->len;
    }
    item->bytes = tf_slice_of(rest->data, size);
    *rest = tf_slice_of(rest->data + size, rest->len - size);
    return err;
}

static void enter_group(tf_log_reader *reader)
{
    reader->rest = tf_slice_of(reader->buffer + reader->offset + TF_LOG_GROUP_HEADER, reader->group.size);
}

/* Is every record of the group there? */
static tf_err check_group(tf_log_reader *reader)
{
    enter_group(reader);
    for (uint32_t i = 0; i < reader->group.count; i++) {
        tf_err err = take_record(reader);
        if (err != TF_OK) {
            return err;
        }
        if (reader->item.record.lsn != reader->group.first + i) {
            return TF_ERR_DAMAGED;
        }
    }
    return reader->rest.len == 0 ? TF_OK : TF_ERR_DAMAGED;
}

/* -- what the files are -------------------------------------------------------------------------------------------- */

static bool is_whole(tf_log_reader *reader, uint64_t offset, const tf_log_group *group)
{
    reader->offset = offset;
    reader->group = *group;
    bool whole = check_group(reader) == TF_OK;
    reader->offset = 0;
    reader->group.count = 0;
    return whole;
}

/* First and last LSN of a file, and what its groups know to be durable. */
static tf_err survey(tf_log_reader *reader, size_t index)
{
    tf_log_file *file = &reader->files[index];
    uint64_t offset = TF_LOG_SEGMENT_HEADER;
    tf_log_group group;
    tf_err err = load(reader, index);
    if (err != TF_OK) {
        return err;
    }
    while (tf_log_group_find(loaded_bytes(reader), reader->key, file->number, &offset, &group)) {
        if (file->first == 0 && group.count > 0) {
            file->first = group.first;
            file->begins_whole = is_whole(reader, offset, &group);
        }
        file->last = tf_log_group_last(&group) > file->last ? tf_log_group_last(&group) : file->last;
        reader->durable = group.durable > reader->durable ? group.durable : reader->durable;
        offset += tf_log_group_span(group.size);
    }
    reader->report.unreadable += file->lost || (file->headless && file->last > reader->config.from) ? 1 : 0;
    return TF_OK;
}

static tf_err survey_all(tf_log_reader *reader, char why[TF_WHY_MAX])
{
    tf_err err = TF_OK;
    for (size_t i = 0; err == TF_OK && i < reader->count; i++) {
        err = look_at_header(reader, &reader->files[i], why);
    }
    for (size_t i = 0; err == TF_OK && i < reader->count; i++) {
        err = survey(reader, i);
    }
    if (err != TF_OK) {
        return err;
    }
    if (reader->count > 0) {
        qsort(reader->files, reader->count, sizeof(*reader->files), compare_lsns);
    }
    reader->loaded = 0;
    for (size_t i = 0; i < reader->count; i++) {
        reader->files[i].end = i + 1 < reader->count ? reader->files[i + 1].first : UINT64_MAX;
    }
    return TF_OK;
}

/* -- what counts ---------------------------------------------------------------------------------------------------- */

/* A group is acked in one piece: if one LSN of it is known durable (the index may have stopped within it), all are (L16). */
static void complete_durable(tf_log_reader *reader, const tf_log_file *file)
{
    const tf_log_group *group = &reader->group;
    uint64_t last = tf_log_group_last(group) < file->end ? tf_log_group_last(group) : file->end - 1;
    if (group->first <= reader->durable && last > reader->durable) {
        reader->durable = last;
    }
}

/* Finds the next group of the loaded file that has something that is wanted. TF_ERR_CLOSED: there is none. */
static tf_err find_group(tf_log_reader *reader)
{
    const tf_log_file *file = &reader->files[reader->at];
    tf_log_group *group = &reader->group;
    while (tf_log_group_find(loaded_bytes(reader), reader->key, file->number, &reader->offset, group)) {
        tf_err err = TF_ERR_DAMAGED;
        bool wanted = group->count > 0 && tf_log_group_last(group) >= reader->expected && group->first < file->end;
        if (wanted) {
            complete_durable(reader, file);
            /* Above what is known durable only whole groups count: others were torn, and never acked (L16). */
            err = group->first > reader->durable ? check_group(reader) : TF_OK;
            reader->report.torn += err == TF_ERR_DAMAGED ? 1 : 0;
            enter_group(reader);
        }
        reader->offset += tf_log_group_span(group->size);
        if (err != TF_ERR_DAMAGED) {
            return err;
        }
    }
    group->count = 0;
    reader->rest = tf_slice_of(NULL, 0); /* a torn group was looked into, and has nothing to give */
    return TF_ERR_CLOSED;
}

/* The next group of any file. TF_ERR_CLOSED: that was all. */
static tf_err next_group(tf_log_reader *reader)
{
    for (; reader->at < reader->count; reader->at++, reader->offset = 0) {
        const tf_log_file *file = &reader->files[reader->at];
        if (file->first == 0 || file->end <= reader->expected || file->end == file->first ||
            (file->last < reader->expected && !reader->config.live)) {
            continue;
        }
        if (reader->offset == 0) {
            tf_err err = load(reader, reader->at);
            if (err != TF_OK) {
                return err;
            }
            reader->offset = TF_LOG_SEGMENT_HEADER;
        }
        tf_err err = find_group(reader);
        if (err != TF_ERR_CLOSED) {
            return err;
        }
    }
    return TF_ERR_CLOSED;
}

/* The next record that is wanted, in reader->item. TF_ERR_CLOSED: that was all. */
static tf_err next_record(tf_log_reader *reader)
{
    for (;;) {
        if (reader->rest.len == 0) {
            tf_err err = next_group(reader);
            if (err != TF_OK) {
                return err;
            }
        }
        tf_err err = take_record(reader);
        if (err == TF_ERR_USAGE) {
            return err;
        }
        uint64_t lsn = err == TF_OK ? reader->item.record.lsn : 0;
        if (lsn >= reader->expected && lsn < reader->files[reader->at].end) {
            reader->item.type = TF_LOG_RECORD;
            return TF_OK;
        }
    }
}

/* -- what comes out ------------------------------------------------------------------------------------------------ */

static void hand_out_damage(tf_log_reader *reader, uint64_t last, tf_log_item *out)
{
    tf_log_report *report = &reader->report;
    const tf_log_range range = {reader->expected, last};
    if (report->range_count < TF_LOG_RANGES) {
        report->ranges[report->range_count++] = range;
    } else {
        report->ranges[TF_LOG_RANGES - 1].last = last;
    }
    report->damaged += last - range.first + 1;
    reader->expected = last + 1;
    *out = (tf_log_item){.type = TF_LOG_DAMAGE, .damage = range};
}

/* The record that comes next is not there. While a file is written, its later bytes may have been read after, its
 * earlier ones before they were written: then reading it again helps. True: it was not read again yet. */
static bool read_again(tf_log_reader *reader)
{
    if (reader->reloaded == reader->expected) {
        return false;
    }
    reader->reloaded = reader->expected;
    reader->offset = 0;
    reader->rest.len = 0;
    return true;
}

/* As next_record. TF_ERR_AGAIN: the first one that is wanted was recycled. */
static tf_err next_record_live(tf_log_reader *reader)
{
    tf_err err = next_record(reader);
    while (err == TF_OK && reader->item.record.lsn > reader->expected && read_again(reader)) {
        err = next_record(reader);
    }
    bool is_first = reader->expected == reader->config.from + 1;
    return err == TF_OK && is_first && reader->item.record.lsn > reader->expected ? TF_ERR_AGAIN : err;
}

tf_err tf_log_reader_next(tf_log_reader *reader, tf_log_item *out)
{
    tf_err err = TF_OK;
    if (!reader->held) {
        err = reader->config.live ? next_record_live(reader) : next_record(reader);
    }
    if (err == TF_ERR_CLOSED && reader->expected <= reader->durable && !reader->config.live) {
        hand_out_damage(reader, reader->durable, out);
        return TF_OK;
    }
    if (err != TF_OK) {
        return err;
    }
    uint64_t lsn = reader->item.record.lsn;
    reader->held = lsn > reader->expected;
    if (reader->held) {
        hand_out_damage(reader, lsn - 1, out);
        return TF_OK;
    }
    reader->expected = lsn + 1;
    reader->report.records++;
    *out = reader->item;
    return TF_OK;
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

tf_err tf_log_reader_new(tf_log_reader **out, const tf_log_reader_config *config, char why[TF_WHY_MAX])
{
    tf_log_reader *reader = tf_alloc(config->mem, sizeof(*reader));
    if (reader == NULL) {
        return no_memory();
    }
    *reader = (tf_log_reader){.config = *config, .durable = config->from, .expected = config->from + 1};
    tf_err err = list_files(reader, why);
    if (err == TF_OK) {
        err = survey_all(reader, why);
    }
    if (err != TF_OK) {
        tf_log_reader_free(reader);
        return err;
    }
    *out = reader;
    return TF_OK;
}

void tf_log_reader_free(tf_log_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    const tf_mem *mem = reader->config.mem;
    tf_free(mem, reader->files, reader->capacity * sizeof(*reader->files));
    tf_free(mem, reader->buffer, reader->room);
    tf_free(mem, reader, sizeof(*reader));
}

const tf_log_report *tf_log_reader_report(const tf_log_reader *reader)
{
    return &reader->report;
}

size_t tf_log_reader_files(const tf_log_reader *reader, const tf_log_file **out)
{
    *out = reader->files;
    return reader->count;
}

bool tf_log_reader_key(const tf_log_reader *reader, uint64_t *out)
{
    *out = reader->key;
    return reader->has_key;
}

uint64_t tf_log_reader_durable(const tf_log_reader *reader)
{
    return reader->durable;
}

uint64_t tf_log_reader_last(const tf_log_reader *reader)
{
    return reader->expected - 1;
}
