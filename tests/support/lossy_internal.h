/* What the files of lossy_files.h share: nothing for others. The disk's mutex is held by the caller. */
#ifndef TF_TESTS_SUPPORT_LOSSY_INTERNAL_H
#define TF_TESTS_SUPPORT_LOSSY_INTERNAL_H

#include <pthread.h>

#include "tests/support/lossy_files.h"
#include "tests/support/support.h"

#define TF_LOSSY_NAMES_MAX 512u
#define TF_LOSSY_FOLDERS_MAX 8u

/* Bytes that grow; what is between, or beyond those that it has, is zeros, and so is what it has beyond its size. */
typedef struct tf_lossy_image {
    uint8_t *bytes;
    uint64_t size;
    uint64_t room; /* of `bytes` */
} tf_lossy_image;

typedef enum tf_lossy_change_type {
    TF_LOSSY_BYTES,
    TF_LOSSY_ZEROS,
    TF_LOSSY_SIZE
} tf_lossy_change_type;

/* Something that no sync followed: bytes or zeros at an offset, or a size. */
typedef struct tf_lossy_change {
    struct tf_lossy_change *next;
    tf_lossy_change_type type;
    uint64_t offset; /* SIZE: that is the size */
    uint64_t len;
    uint8_t *bytes; /* BYTES */
} tf_lossy_change;

/* A file apart from its names. Lives as long as the disk. */
typedef struct tf_lossy_inode {
    struct tf_lossy_inode *next;
    tf_lossy_image live; /* as it is read */
    tf_lossy_image disk; /* as it was synced */
    tf_lossy_change *changes; /* in their order */
    tf_lossy_change *last_change;
    unsigned opened;
    bool locked;
} tf_lossy_inode;

typedef struct tf_lossy_name {
    tf_file_name text;
    tf_lossy_inode *inode;
} tf_lossy_name;

typedef struct tf_lossy_names {
    tf_lossy_name list[TF_LOSSY_NAMES_MAX];
    size_t count;
} tf_lossy_names;

/* A name that no sync of its folder followed: `to` is the inode now (NULL: nothing), `from` is gone (empty: none). */
typedef struct tf_lossy_name_change {
    struct tf_lossy_name_change *next;
    tf_file_name to;
    tf_lossy_inode *inode;
    tf_file_name from;
} tf_lossy_name_change;

typedef struct tf_lossy_folder {
    tf_file_name text;
    bool synced;
} tf_lossy_folder;

struct tf_lossy_files {
    pthread_mutex_t mutex;
    tf_test_random random;
    uint64_t capacity;
    uint64_t boot;
    tf_lossy_inode *inodes;
    tf_lossy_names live;
    tf_lossy_names disk;
    tf_lossy_name_change *name_changes;
    tf_lossy_folder folders[TF_LOSSY_FOLDERS_MAX];
    size_t folder_count;
    tf_lossy_counts counts;
    tf_lossy_fault fault;
    uint64_t fail_at; /* operations that the fault can meet until it does */
    uint64_t fail_sync_at;
    bool for_ever;
    uint64_t stop_at;
    bool off;
};

/* Zeroed; ends the program when there is none. */
void *tf_lossy_get(size_t size);
void tf_lossy_lock(tf_lossy_files *lossy);
void tf_lossy_unlock(tf_lossy_files *lossy);

/* -- lossy_inode.c -------------------------------------------------------------------------------------------------- */

/* It has its bytes up to there. */
void tf_lossy_image_fill(tf_lossy_image *image, uint64_t end);
/* offset + len is not beyond its size */
void tf_lossy_image_read(const tf_lossy_image *image, uint64_t offset, uint8_t *out, uint64_t len);
void tf_lossy_image_copy(tf_lossy_image *to, const tf_lossy_image *from);
void tf_lossy_apply(tf_lossy_image *image, const tf_lossy_change *c);
/* Of the live image, and to be synced. ZEROS: as many as the slice is long; SIZE: `offset` is the size. */
void tf_lossy_add_change(tf_lossy_inode *inode, tf_lossy_change_type type, uint64_t offset, tf_slice bytes);
/* All changes reach the disk, or (random) each as it comes. */
void tf_lossy_settle_inode(tf_lossy_inode *inode, tf_test_random *random);

/* -- lossy_names.c -------------------------------------------------------------------------------------------------- */

tf_lossy_name *tf_lossy_find_name(tf_lossy_names *names, const char *text);
void tf_lossy_add_name_change(tf_lossy_files *lossy, const char *to, tf_lossy_inode *inode, const char *from);
/* The changes of one folder (NULL: of all) reach the disk: all of them, or (random) as it comes. */
void tf_lossy_settle_names(tf_lossy_files *lossy, const char *text, tf_test_random *random);
/* Length of the folder's part of a name, without its "/". */
size_t tf_lossy_folder_len(const char *text);
bool tf_lossy_is_in(const char *text, const char *folder);
tf_lossy_folder *tf_lossy_find_folder(tf_lossy_files *lossy, const char *text, size_t len);
/* Folders whose name was not synced may be gone, with all that is in them. */
void tf_lossy_lose_folders(tf_lossy_files *lossy, tf_test_random *random);
/* Of all files that have a name or are open. */
uint64_t tf_lossy_bytes_used(const tf_lossy_files *lossy);

#endif
