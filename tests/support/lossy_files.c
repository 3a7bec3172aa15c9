/* The table of the lossy disk. */
#include "tests/support/lossy_files.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/support/lossy_internal.h"

struct tf_file {
    tf_lossy_inode *inode;
    bool holds_lock;
    bool read_only;
    uint64_t boot; /* it was opened then; later it is dead */
};

typedef enum operation {
    KIND_READ,
    KIND_WRITE, /* takes room or changes names */
    KIND_SYNC
} operation;

/* -- faults --------------------------------------------------------------------------------------------------------- */

static tf_err fail(int error)
{
    tf_err err = tf_files_err(error);
    errno = error;
    return err == TF_OK ? TF_ERR_IO : err;
}

/* The outcome of an operation. TF_OK: it is done. *act: it is done (in part, or not synced) although it fails. */
static tf_err begin(tf_lossy_files *lossy, operation kind, bool *act)
{
    *act = false;
    if (lossy->off) {
        return fail(EIO);
    }
    lossy->counts.operations++;
    lossy->counts.writes += kind == KIND_WRITE ? 1 : 0;
    lossy->counts.syncs += kind == KIND_SYNC ? 1 : 0;
    if (lossy->stop_at != UINT64_MAX && lossy->stop_at-- == 0) {
        lossy->off = true;
        *act = true;
        return fail(EIO);
    }
    if (kind == KIND_SYNC && lossy->fail_sync_at != UINT64_MAX && lossy->fail_sync_at-- == 0) {
        lossy->counts.faults++;
        *act = true;
        return fail(EIO);
    }
    bool meets = lossy->fault == TF_LOSSY_ERROR || kind == KIND_WRITE;
    if (!meets || lossy->fail_at == UINT64_MAX || lossy->fail_at-- > 0) {
        *act = true;
        return TF_OK;
    }
    lossy->fail_at = lossy->for_ever ? 0 : UINT64_MAX;
    lossy->counts.faults++;
    *act = lossy->fault != TF_LOSSY_READ_ONLY;
    switch (lossy->fault) {
    case TF_LOSSY_FULL:
        return fail(ENOSPC);
    case TF_LOSSY_ERROR:
        return fail(EIO);
    case TF_LOSSY_READ_ONLY:
        return fail(EROFS);
    }
    TF_UNREACHABLE();
}

static bool has_room(const tf_lossy_files *lossy, const tf_lossy_inode *inode, uint64_t size)
{
    uint64_t used = tf_lossy_bytes_used(lossy);
    return size <= inode->live.size || (used <= lossy->capacity && size - inode->live.size <= lossy->capacity - used);
}

/* -- the table: files ------------------------------------------------------------------------------------------------ */

static tf_lossy_inode *make_inode(tf_lossy_files *lossy)
{
    tf_lossy_inode *made = tf_lossy_get(sizeof(*made));
    made->next = lossy->inodes;
    lossy->inodes = made;
    return made;
}

static tf_err open_locked(tf_lossy_files *lossy, const char *text, tf_file_how how, tf_file **out)
{
    bool act = false;
    tf_lossy_name *found = tf_lossy_find_name(&lossy->live, text);
    bool creates = how == TF_FILE_CREATE || (how == TF_FILE_ANY && found == NULL);
    tf_err err = begin(lossy, creates ? KIND_WRITE : KIND_READ, &act);
    bool folder = tf_lossy_folder_len(text) == 0 || tf_lossy_find_folder(lossy, text, tf_lossy_folder_len(text)) != NULL;
    if (err == TF_OK && (!folder || (found == NULL && !creates))) {
        return fail(ENOENT);
    }
    if (err == TF_OK && found != NULL && how == TF_FILE_CREATE) {
        return fail(EEXIST);
    }
    if (creates && found == NULL && act && folder) {
        tf_lossy_add_name_change(lossy, text, make_inode(lossy), NULL);
    }
    if (err != TF_OK) {
        return err;
    }
    found = tf_lossy_find_name(&lossy->live, text);
    *out = tf_lossy_get(sizeof(**out));
    **out = (tf_file){.inode = found->inode, .read_only = how == TF_FILE_READ, .boot = lossy->boot};
    found->inode->opened++;
    lossy->counts.open++;
    return TF_OK;
}

static tf_err lossy_open(void *ctx, const char *text, tf_file_how how, tf_file **out)
{
    tf_lossy_files *lossy = ctx;
    tf_lossy_lock(lossy);
    tf_err err = open_locked(lossy, text, how, out);
    tf_lossy_unlock(lossy);
    return err;
}

static void lossy_close(void *ctx, tf_file *file)
{
    tf_lossy_files *lossy = ctx;
    int error = errno;
    tf_lossy_lock(lossy);
    if (file->boot == lossy->boot) {
        file->inode->opened--;
        file->inode->locked = file->inode->locked && !file->holds_lock;
    }
    lossy->counts.open--;
    tf_lossy_unlock(lossy);
    free(file);
    errno = error;
}

/* As begin, for an open file. */
static tf_err begin_file(tf_lossy_files *lossy, const tf_file *file, operation kind, bool *act)
{
    tf_err err = begin(lossy, kind, act);
    if (file->boot != lossy->boot || (kind == KIND_WRITE && file->read_only)) {
        *act = false;
        return fail(file->read_only ? EBADF : EIO);
    }
    return err;
}

static tf_err lossy_read_at(void *ctx, tf_file *file, uint64_t offset, void *out, size_t len, size_t *got)
{
    tf_lossy_files *lossy = ctx;
    bool act = false;
    tf_lossy_lock(lossy);
    tf_err err = begin_file(lossy, file, KIND_READ, &act);
    if (err == TF_OK) {
        const tf_lossy_image *live = &file->inode->live;
        uint64_t left = offset < live->size ? live->size - offset : 0;
        *got = left < len ? (size_t)left : len;
        tf_lossy_image_read(live, offset, out, *got);
    }
    tf_lossy_unlock(lossy);
    return err;
}

/* Half of it, if the write fails and there is room for that. bytes.data NULL: zeros. */
static tf_err write_locked(tf_lossy_files *lossy, tf_file *file, uint64_t offset, tf_slice bytes)
{
    bool act = false;
    tf_err err = begin_file(lossy, file, KIND_WRITE, &act);
    if (!act) {
        return err;
    }
    if (!has_room(lossy, file->inode, offset + bytes.len)) {
        err = fail(ENOSPC);
    }
    bytes.len = err == TF_OK || lossy->off ? bytes.len : bytes.len / 2;
    if (has_room(lossy, file->inode, offset + bytes.len)) {
        tf_lossy_add_change(file->inode, bytes.data == NULL ? TF_LOSSY_ZEROS : TF_LOSSY_BYTES, offset, bytes);
    }
    return err;
}

static tf_err lossy_write_at(void *ctx, tf_file *file, uint64_t offset, const tf_slice *parts, size_t count)
{
    tf_lossy_files *lossy = ctx;
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        len += parts[i].len;
    }
    uint8_t *bytes = tf_lossy_get(len);
    len = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len > 0) {
            memcpy(bytes + len, parts[i].data, parts[i].len);
            len += parts[i].len;
        }
    }
    tf_lossy_lock(lossy);
    tf_err err = write_locked(lossy, file, offset, tf_slice_of(bytes, len));
    int error = errno;
    tf_lossy_unlock(lossy);
    free(bytes);
    errno = error;
    return err;
}

static tf_err lossy_sync(void *ctx, tf_file *file)
{
    tf_lossy_files *lossy = ctx;
    bool act = false;
    tf_lossy_lock(lossy);
    tf_err err = begin_file(lossy, file, KIND_SYNC, &act);
    if (act && !lossy->off) {
        int error = errno;
        tf_lossy_settle_inode(file->inode, err == TF_OK ? NULL : &lossy->random);
        errno = error;
    }
    tf_lossy_unlock(lossy);
    return err;
}

static tf_err lossy_size(void *ctx, tf_file *file, uint64_t *out)
{
    tf_lossy_files *lossy = ctx;
    bool act = false;
    tf_lossy_lock(lossy);
    tf_err err = begin_file(lossy, file, KIND_READ, &act);
    *out = file->inode->live.size;
    tf_lossy_unlock(lossy);
    return err;
}

static tf_err lossy_set_size(void *ctx, tf_file *file, uint64_t size)
{
    tf_lossy_files *lossy = ctx;
    bool act = false;
    tf_lossy_lock(lossy);
    tf_err err = begin_file(lossy, file, KIND_WRITE, &act);
    if (err == TF_OK && !has_room(lossy, file->inode, size)) {
        err = fail(ENOSPC);
    } else if (err == TF_OK || (act && lossy->off)) {
        tf_lossy_add_change(file->inode, TF_LOSSY_SIZE, size, tf_slice_of(NULL, 0));
    }
    tf_lossy_unlock(lossy);
    return err;
}

static tf_err lossy_allocate(void *ctx, tf_file *file, uint64_t size)
{
    tf_lossy_files *lossy = ctx;
    tf_lossy_lock(lossy);
    tf_err err = write_locked(lossy, file, 0, tf_slice_of(NULL, (size_t)size));
    tf_lossy_unlock(lossy);
    return err;
}

static void lossy_uncache(void *ctx, tf_file *file)
{
    tf_lossy_files *lossy = ctx;
    tf_lossy_lock(lossy);
    if (file->boot == lossy->boot) {
        tf_lossy_image_copy(&file->inode->live, &file->inode->disk);
        for (const tf_lossy_change *c = file->inode->changes; c != NULL; c = c->next) {
            tf_lossy_apply(&file->inode->live, c);
        }
    }
    tf_lossy_unlock(lossy);
}

/* -- the table: names ------------------------------------------------------------------------------------------------ */

static tf_err move_name(tf_lossy_files *lossy, const char *from, const char *to)
{
    bool act = false;
    tf_lossy_lock(lossy);
    tf_err err = begin(lossy, KIND_WRITE, &act);
    tf_lossy_name *found = tf_lossy_find_name(&lossy->live, from);
    if (err == TF_OK && found == NULL) {
        err = fail(ENOENT);
    } else if (found != NULL && (err == TF_OK || (act && lossy->off))) {
        tf_lossy_add_name_change(lossy, to == NULL ? from : to, to == NULL ? NULL : found->inode, to == NULL ? NULL : from);
    }
    tf_lossy_unlock(lossy);
    return err;
}

static tf_err lossy_remove(void *ctx, const char *text)
{
    return move_name(ctx, text, NULL);
}

static tf_err lossy_rename(void *ctx, const char *from, const char *to)
{
    return move_name(ctx, from, to);
}

static tf_err lossy_make_dir(void *ctx, const char *text)
{
    tf_lossy_files *lossy = ctx;
    bool act = false;
    tf_lossy_lock(lossy);
    bool there = tf_lossy_find_folder(lossy, text, strlen(text)) != NULL;
    tf_err err = begin(lossy, there ? KIND_READ : KIND_WRITE, &act);
    if (!there && act && (err == TF_OK || lossy->off)) {
        if (lossy->folder_count == TF_LOSSY_FOLDERS_MAX || strlen(text) > TF_FILE_NAME_MAX) {
            abort();
        }
        tf_lossy_folder *made = &lossy->folders[lossy->folder_count++];
        *made = (tf_lossy_folder){.synced = false};
        memcpy(made->text.text, text, strlen(text) + 1);
    }
    tf_lossy_unlock(lossy);
    return err;
}

static tf_err list_locked(tf_lossy_files *lossy, const char *text, tf_file_name *out, size_t cap, size_t *count)
{
    bool act = false;
    tf_err err = begin(lossy, KIND_READ, &act);
    if (err != TF_OK) {
        return err;
    }
    if (text[0] != '\0' && tf_lossy_find_folder(lossy, text, strlen(text)) == NULL) {
        return fail(ENOENT);
    }
    size_t skip = text[0] == '\0' ? 0 : strlen(text) + 1;
    *count = 0;
    for (size_t i = 0; i < lossy->live.count; i++) {
        const char *each = lossy->live.list[i].text.text;
        if (!tf_lossy_is_in(each, text)) {
            continue;
        }
        if (*count < cap) {
            memcpy(out[*count].text, each + skip, strlen(each + skip) + 1);
        }
        ++*count;
    }
    return TF_OK;
}

static tf_err lossy_list(void *ctx, const char *text, tf_file_name *out, size_t cap, size_t *count)
{
    tf_lossy_files *lossy = ctx;
    tf_lossy_lock(lossy);
    tf_err err = list_locked(lossy, text, out, cap, count);
    tf_lossy_unlock(lossy);
    return err;
}

static tf_err lossy_sync_dir(void *ctx, const char *text)
{
    tf_lossy_files *lossy = ctx;
    bool act = false;
    tf_lossy_lock(lossy);
    tf_err err = begin(lossy, KIND_SYNC, &act);
    if (err == TF_OK) {
        tf_lossy_settle_names(lossy, text, NULL);
        for (size_t i = 0; text[0] == '\0' && i < lossy->folder_count; i++) {
            lossy->folders[i].synced = true;
        }
    }
    tf_lossy_unlock(lossy);
    return err;
}

static tf_err lossy_free_bytes(void *ctx, uint64_t *out)
{
    tf_lossy_files *lossy = ctx;
    bool act = false;
    tf_lossy_lock(lossy);
    tf_err err = begin(lossy, KIND_READ, &act);
    uint64_t used = tf_lossy_bytes_used(lossy);
    *out = used < lossy->capacity ? lossy->capacity - used : 0;
    tf_lossy_unlock(lossy);
    return err;
}

static tf_err lossy_lock(void *ctx, const char *text, tf_file **out)
{
    tf_lossy_files *lossy = ctx;
    tf_file *file = NULL;
    tf_lossy_lock(lossy);
    tf_err err = open_locked(lossy, text, TF_FILE_ANY, &file);
    bool taken = err == TF_OK && file->inode->locked;
    if (err == TF_OK && !taken) {
        file->inode->locked = true;
        file->holds_lock = true;
        *out = file;
    }
    tf_lossy_unlock(lossy);
    if (taken) {
        lossy_close(lossy, file);
        return fail(EWOULDBLOCK);
    }
    return err;
}

tf_files tf_lossy_files_get(tf_lossy_files *lossy)
{
    static const tf_files_table table = {
        .open = lossy_open,
        .close = lossy_close,
        .read_at = lossy_read_at,
        .write_at = lossy_write_at,
        .sync = lossy_sync,
        .size = lossy_size,
        .set_size = lossy_set_size,
        .allocate = lossy_allocate,
        .uncache = lossy_uncache,
        .remove = lossy_remove,
        .rename = lossy_rename,
        .make_dir = lossy_make_dir,
        .list = lossy_list,
        .sync_dir = lossy_sync_dir,
        .free_bytes = lossy_free_bytes,
        .lock = lossy_lock,
    };
    return (tf_files){&table, lossy};
}
