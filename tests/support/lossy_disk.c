/* The lossy disk as a test handles it: faults, crashes, and what is on it. */
#include "tests/support/lossy_internal.h"

#include <stdlib.h>

void *tf_lossy_get(size_t size)
{
    void *memory = calloc(1, size == 0 ? 1 : size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

void tf_lossy_lock(tf_lossy_files *lossy)
{
    if (pthread_mutex_lock(&lossy->mutex) != 0) {
        abort();
    }
}

void tf_lossy_unlock(tf_lossy_files *lossy)
{
    if (pthread_mutex_unlock(&lossy->mutex) != 0) {
        abort();
    }
}

tf_lossy_files *tf_lossy_files_new(uint64_t capacity)
{
    tf_lossy_files *lossy = tf_lossy_get(sizeof(*lossy));
    lossy->capacity = capacity;
    lossy->fail_at = UINT64_MAX;
    lossy->fail_sync_at = UINT64_MAX;
    lossy->stop_at = UINT64_MAX;
    tf_test_random_init(&lossy->random, 1);
    if (pthread_mutex_init(&lossy->mutex, NULL) != 0) {
        abort();
    }
    return lossy;
}

void tf_lossy_files_free(tf_lossy_files *lossy)
{
    if (lossy == NULL) {
        return;
    }
    while (lossy->inodes != NULL) {
        tf_lossy_inode *i = lossy->inodes;
        lossy->inodes = i->next;
        tf_lossy_settle_inode(i, NULL);
        free(i->live.bytes);
        free(i->disk.bytes);
        free(i);
    }
    tf_lossy_settle_names(lossy, NULL, NULL);
    (void)pthread_mutex_destroy(&lossy->mutex);
    free(lossy);
}

void tf_lossy_files_fail_at(tf_lossy_files *lossy, uint64_t n, tf_lossy_fault fault, bool for_ever)
{
    tf_lossy_lock(lossy);
    lossy->fail_at = n;
    lossy->fault = fault;
    lossy->for_ever = for_ever;
    tf_lossy_unlock(lossy);
}

void tf_lossy_files_fail_sync_at(tf_lossy_files *lossy, uint64_t n)
{
    tf_lossy_lock(lossy);
    lossy->fail_sync_at = n;
    tf_lossy_unlock(lossy);
}

void tf_lossy_files_seed(tf_lossy_files *lossy, uint64_t seed)
{
    tf_lossy_lock(lossy);
    tf_test_random_init(&lossy->random, seed);
    tf_lossy_unlock(lossy);
}

void tf_lossy_files_stop_at(tf_lossy_files *lossy, uint64_t n)
{
    tf_lossy_lock(lossy);
    lossy->stop_at = n;
    tf_lossy_unlock(lossy);
}

bool tf_lossy_files_is_off(tf_lossy_files *lossy)
{
    tf_lossy_lock(lossy);
    bool off = lossy->off;
    tf_lossy_unlock(lossy);
    return off;
}

void tf_lossy_files_set_capacity(tf_lossy_files *lossy, uint64_t capacity)
{
    tf_lossy_lock(lossy);
    lossy->capacity = capacity;
    tf_lossy_unlock(lossy);
}

static void restart(tf_lossy_files *lossy)
{
    for (tf_lossy_inode *i = lossy->inodes; i != NULL; i = i->next) {
        i->opened = 0;
        i->locked = false;
    }
    lossy->boot++;
    lossy->off = false;
    lossy->stop_at = UINT64_MAX;
    lossy->fail_at = UINT64_MAX;
    lossy->fail_sync_at = UINT64_MAX;
}

void tf_lossy_files_kill(tf_lossy_files *lossy)
{
    tf_lossy_lock(lossy);
    restart(lossy);
    tf_lossy_unlock(lossy);
}

void tf_lossy_files_crash(tf_lossy_files *lossy, uint64_t seed)
{
    tf_test_random random;
    tf_test_random_init(&random, seed);
    tf_lossy_lock(lossy);
    for (tf_lossy_inode *i = lossy->inodes; i != NULL; i = i->next) {
        tf_lossy_settle_inode(i, &random);
        tf_lossy_image_copy(&i->live, &i->disk);
    }
    tf_lossy_settle_names(lossy, NULL, &random);
    tf_lossy_lose_folders(lossy, &random);
    lossy->live = lossy->disk;
    restart(lossy);
    tf_lossy_unlock(lossy);
}

void tf_lossy_files_settle(tf_lossy_files *lossy)
{
    tf_lossy_lock(lossy);
    for (tf_lossy_inode *i = lossy->inodes; i != NULL; i = i->next) {
        tf_lossy_settle_inode(i, NULL);
        tf_lossy_image_copy(&i->live, &i->disk);
    }
    tf_lossy_settle_names(lossy, NULL, NULL);
    for (size_t i = 0; i < lossy->folder_count; i++) {
        lossy->folders[i].synced = true;
    }
    tf_lossy_unlock(lossy);
}

static bool change_byte(tf_lossy_files *lossy, const char *text, uint64_t offset, uint8_t mask, bool cached)
{
    tf_lossy_lock(lossy);
    const tf_lossy_name *found = tf_lossy_find_name(&lossy->live, text);
    bool there = found != NULL && offset < found->inode->live.size;
    if (there && cached) {
        tf_lossy_image_fill(&found->inode->live, offset + 1);
        found->inode->live.bytes[offset] ^= mask;
    }
    if (there && offset < found->inode->disk.size) {
        tf_lossy_image_fill(&found->inode->disk, offset + 1);
        found->inode->disk.bytes[offset] ^= mask;
    }
    tf_lossy_unlock(lossy);
    return there;
}

bool tf_lossy_files_flip(tf_lossy_files *lossy, const char *text, uint64_t offset, uint8_t mask)
{
    return change_byte(lossy, text, offset, mask, true);
}

bool tf_lossy_files_rot(tf_lossy_files *lossy, const char *text, uint64_t offset, uint8_t mask)
{
    return change_byte(lossy, text, offset, mask, false);
}

tf_slice tf_lossy_files_bytes(tf_lossy_files *lossy, const char *text)
{
    tf_lossy_lock(lossy);
    tf_lossy_name *found = tf_lossy_find_name(&lossy->live, text);
    if (found != NULL) {
        tf_lossy_image_fill(&found->inode->live, found->inode->live.size);
    }
    tf_slice bytes = found == NULL ? tf_slice_of(NULL, 0)
                                   : tf_slice_of(found->inode->live.bytes, (size_t)found->inode->live.size);
    tf_lossy_unlock(lossy);
    return bytes;
}

void tf_lossy_files_get_counts(tf_lossy_files *lossy, tf_lossy_counts *out)
{
    tf_lossy_lock(lossy);
    *out = lossy->counts;
    out->bytes = tf_lossy_bytes_used(lossy);
    tf_lossy_unlock(lossy);
}
