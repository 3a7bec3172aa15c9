/* A disk in memory that loses what was not synced (node/store/files.h as its table), for tests of what a crash leaves.
 *
 * A crash loses every write and size change that no sync of its file followed, and every name made, changed or removed
 * that no sync of its folder followed: each of them, as a seed decides, is lost, kept, or (a write) kept in part, cut at
 * any byte or block. What was synced stays, whatever the seed.
 *
 * A crash at every single operation in turn:
 *
 *     for (uint64_t n = 0;; n++) {
 *         tf_lossy_files *lossy = tf_lossy_files_new(SIZE_MAX);
 *         tf_lossy_files_stop_at(lossy, n);      -- the n-th operation and all later ones fail: the power is off
 *         ... open what is tested, use it, close it ...
 *         bool was_off = tf_lossy_files_is_off(lossy);
 *         tf_lossy_files_crash(lossy, seed);     -- the power is back, with what the disk has
 *         ... open it again, and look ...
 *         tf_lossy_files_free(lossy);
 *         if (!was_off) break;
 *     }
 *
 * Any thread, with a mutex inside; no Check in here. Out of memory ends the program. */
#ifndef TF_TESTS_SUPPORT_LOSSY_FILES_H
#define TF_TESTS_SUPPORT_LOSSY_FILES_H

#include "node/store/files.h"

typedef struct tf_lossy_files tf_lossy_files;

typedef enum tf_lossy_fault {
    TF_LOSSY_FULL,  /* ENOSPC; a write is done in part */
    TF_LOSSY_ERROR, /* EIO. A write is done in part; a sync drops what was not synced, as Linux does: the bytes can still
                       be read, and no later sync writes them */
    TF_LOSSY_READ_ONLY /* EROFS, of what writes; nothing was done */
} tf_lossy_fault;

typedef struct tf_lossy_counts {
    uint64_t operations; /* all calls but close and uncache */
    uint64_t writes;
    uint64_t syncs; /* of files and folders */
    uint64_t faults;
    uint64_t bytes; /* of all files */
    uint64_t open;  /* files that are open */
} tf_lossy_counts;

/* capacity: bytes that all files may have together. */
tf_lossy_files *tf_lossy_files_new(uint64_t capacity);
void tf_lossy_files_free(tf_lossy_files *lossy);
tf_files tf_lossy_files_get(tf_lossy_files *lossy);

/* The n-th operation from now (0: the next) fails: once, or it and all later ones. Only those count that the fault can
 * meet: reads meet no FULL and no READ_ONLY. UINT64_MAX: none. */
void tf_lossy_files_fail_at(tf_lossy_files *lossy, uint64_t n, tf_lossy_fault fault, bool for_ever);
/* The same for syncs alone, of files and folders: EIO, once. */
void tf_lossy_files_fail_sync_at(tf_lossy_files *lossy, uint64_t n);
/* What syncs that fail leave on the disk comes from it. */
void tf_lossy_files_seed(tf_lossy_files *lossy, uint64_t seed);
/* From the n-th operation on (0: the next one) the power is off: all fail with EIO and do nothing, but that the n-th may
 * have been under way. */
void tf_lossy_files_stop_at(tf_lossy_files *lossy, uint64_t n);
bool tf_lossy_files_is_off(tf_lossy_files *lossy);
void tf_lossy_files_set_capacity(tf_lossy_files *lossy, uint64_t capacity);

/* Everything that was not synced is lost, kept or torn; files that are still open stay so only to be closed; locks are
 * gone; the power is on and there are no faults. */
void tf_lossy_files_crash(tf_lossy_files *lossy, uint64_t seed);
/* The process is gone, the system goes on: nothing is lost and nothing is synced by that; else as a crash. */
void tf_lossy_files_kill(tf_lossy_files *lossy);
/* What is on the disk for good: all that is there counts as synced. */
void tf_lossy_files_settle(tf_lossy_files *lossy);

/* A byte of a file changes, on the disk, by ^ mask. False: it has no such byte. */
bool tf_lossy_files_flip(tf_lossy_files *lossy, const char *name, uint64_t offset, uint8_t mask);
/* The same, while the cache has the right byte. */
bool tf_lossy_files_rot(tf_lossy_files *lossy, const char *name, uint64_t offset, uint8_t mask);
/* The bytes of a file; valid until the next call. No such file: empty. */
tf_slice tf_lossy_files_bytes(tf_lossy_files *lossy, const char *name);
void tf_lossy_files_get_counts(tf_lossy_files *lossy, tf_lossy_counts *out);

#endif
