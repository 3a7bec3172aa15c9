#include "node/store/log_file.h"

#include <errno.h>
#include <stdio.h>

#include "node/store/record.h"

#define PIECE 4096u /* read alone when a whole file cannot be */

typedef struct loaded {
    uint8_t *bytes;
    size_t size;
} loaded;

void tf_log_file_name(uint64_t number, tf_file_name *out)
{
    (void)snprintf(out->text, sizeof(out->text), TF_LOG_FOLDER "/%016llx.log", (unsigned long long)number);
}

tf_err tf_log_file_open(const tf_log_files *log, uint64_t number, tf_file_how how, tf_file **out)
{
    tf_file_name name;
    tf_log_file_name(number, &name);
    return tf_files_open(&log->files, name.text, how, out);
}

static tf_err sync_folder(const tf_log_files *log)
{
    return log->files.table->sync_dir(log->files.ctx, TF_LOG_FOLDER);
}

static tf_err write_header(const tf_log_files *log, tf_file *file, uint64_t number, uint64_t size)
{
    uint8_t block[TF_LOG_BLOCK];
    const tf_log_segment_header header = {.number = number, .key = log->key, .size = size};
    tf_log_segment_write(block, &header);
    tf_err err = tf_files_write(&log->files, file, 0, tf_slice_of(block, sizeof(block)));
    return err == TF_OK ? tf_files_sync(&log->files, file) : err;
}

tf_err tf_log_file_make(const tf_log_files *log, uint64_t number, uint64_t size)
{
    tf_file *file = NULL;
    tf_err err = tf_log_file_open(log, number, TF_FILE_CREATE, &file);
    if (err != TF_OK) {
        return err;
    }
    err = log->files.table->allocate(log->files.ctx, file, size);
    if (err == TF_OK) {
        err = write_header(log, file, number, size);
    }
    tf_files_close(&log->files, file);
    if (err == TF_OK) {
        err = sync_folder(log);
    }
    if (err != TF_OK) {
        int error = errno;
        tf_file_name name;
        tf_log_file_name(number, &name);
        (void)log->files.table->remove(log->files.ctx, name.text);
        errno = error;
    }
    return err;
}

tf_err tf_log_file_renumber(const tf_log_files *log, uint64_t *number, uint64_t to, uint64_t size, bool *touched)
{
    tf_file_name old_name;
    tf_file_name new_name;
    tf_file *file = NULL;
    *touched = false;
    tf_err err = tf_log_file_open(log, *number, TF_FILE_WRITE, &file);
    if (err != TF_OK) {
        return err;
    }
    *touched = true;
    err = write_header(log, file, to, size);
    tf_files_close(&log->files, file);
    if (err != TF_OK) {
        return err;
    }
    tf_log_file_name(*number, &old_name);
    tf_log_file_name(to, &new_name);
    err = log->files.table->rename(log->files.ctx, old_name.text, new_name.text);
    if (err != TF_OK) {
        return err;
    }
    *number = to;
    return sync_folder(log);
}

/* -- whole files --------------------------------------------------------------------------------------------------- */

bool tf_log_file_read(const tf_files *files, tf_file *file, uint8_t *out, size_t size)
{
    size_t got = 0;
    if (size == 0) {
        return true;
    }
    if (tf_files_read(files, file, 0, out, size, &got) == TF_OK) {
        memset(out + got, 0, size - got);
        return got == size;
    }
    for (size_t at = 0; at < size; at += PIECE) {
        size_t len = size - at < PIECE ? size - at : PIECE;
        got = 0;
        if (tf_files_read(files, file, at, out + at, len, &got) != TF_OK) {
            got = 0;
        }
        memset(out + at + got, 0, len - got);
    }
    return false;
}

static tf_err load(const tf_log_files *log, tf_file *file, loaded *out)
{
    uint64_t size = 0;
    tf_err err = log->files.table->size(log->files.ctx, file, &size);
    if (err != TF_OK) {
        return err;
    }
    *out = (loaded){.bytes = tf_alloc(log->mem, (size_t)size + 1), .size = (size_t)size};
    if (out->bytes == NULL) {
        errno = ENOMEM;
        return TF_ERR_NOMEM;
    }
    (void)tf_log_file_read(&log->files, file, out->bytes, out->size);
    return TF_OK;
}

static void unload(const tf_log_files *log, loaded *file)
{
    tf_free(log->mem, file->bytes, file->size + 1);
}

static tf_err void_groups(const tf_log_files *log, tf_file *file, tf_slice bytes, uint64_t number, uint64_t from)
{
    static const uint8_t zeros[TF_LOG_BLOCK];
    uint64_t offset = TF_LOG_SEGMENT_HEADER;
    tf_log_group group;
    while (tf_log_group_find(bytes, log->key, number, &offset, &group)) {
        if (tf_log_group_last(&group) >= from) {
            tf_err err = tf_files_write(&log->files, file, offset, tf_slice_of(zeros, sizeof(zeros)));
            if (err != TF_OK) {
                return err;
            }
        }
        offset += TF_LOG_BLOCK;
    }
    return tf_files_sync(&log->files, file);
}

tf_err tf_log_file_void(const tf_log_files *log, uint64_t number, uint64_t from)
{
    tf_file *file = NULL;
    loaded content = {0};
    tf_err err = tf_log_file_open(log, number, TF_FILE_WRITE, &file);
    if (err != TF_OK) {
        return err;
    }
    err = load(log, file, &content);
    if (err == TF_OK) {
        err = void_groups(log, file, tf_slice_of(content.bytes, content.size), number, from);
    }
    unload(log, &content);
    tf_files_close(&log->files, file);
    return err;
}

/* The last LSN up to which all records of the group, from `from` on, are whole; from - 1: none is. */
static uint64_t whole_until(const tf_log_files *log, tf_slice records, const tf_log_group *group, uint64_t from)
{
    tf_log_record record;
    for (uint64_t lsn = group->first; lsn <= tf_log_group_last(group); lsn++) {
        if (tf_record_read(records, log->key, &record) != TF_OK || record.lsn != lsn) {
            return lsn > from ? lsn - 1 : from - 1;
        }
        records = tf_slice_of(records.data + record.size, records.len - record.size);
    }
    return tf_log_group_last(group);
}

/* The last LSN up to which everything from `first` on is there; first - 1: nothing is. */
static uint64_t there_until(const tf_log_files *log, tf_slice bytes, uint64_t number, uint64_t first)
{
    uint64_t offset = TF_LOG_SEGMENT_HEADER;
    uint64_t expected = first;
    tf_log_group group;
    while (tf_log_group_find(bytes, log->key, number, &offset, &group) && group.first <= expected) {
        if (tf_log_group_last(&group) >= expected) {
            tf_slice records = tf_slice_of(bytes.data + offset + TF_LOG_GROUP_HEADER, group.size);
            uint64_t until = whole_until(log, records, &group, expected);
            expected = until + 1;
            if (until != tf_log_group_last(&group)) {
                break;
            }
        }
        offset += tf_log_group_span(group.size);
    }
    return expected - 1;
}

tf_log_range tf_log_file_missing(const tf_log_files *log, uint64_t number, tf_log_range wanted)
{
    tf_file *file = NULL;
    loaded content = {0};
    uint64_t until = wanted.first - 1;
    if (tf_log_file_open(log, number, TF_FILE_READ, &file) == TF_OK) {
        log->files.table->uncache(log->files.ctx, file);
        if (load(log, file, &content) == TF_OK) {
            until = there_until(log, tf_slice_of(content.bytes, content.size), number, wanted.first);
        }
        unload(log, &content);
        tf_files_close(&log->files, file);
    }
    return until >= wanted.last ? (tf_log_range){0, 0} : (tf_log_range){until + 1, wanted.last};
}
