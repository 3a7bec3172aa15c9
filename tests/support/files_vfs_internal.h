/* What the two files of the VFS share: files_vfs.c (files), files_vfs_lock.c (locks and shared memory). */
#ifndef TF_TESTS_SUPPORT_FILES_VFS_INTERNAL_H
#define TF_TESTS_SUPPORT_FILES_VFS_INTERNAL_H

#include <pthread.h>
#include <sqlite3.h>

#include "tests/support/files_vfs.h"

#define TF_VFS_REGIONS_MAX 1024

typedef struct tf_vfs_file tf_vfs_file;

/* A database, as all connections to it see it. */
typedef struct tf_vfs_node {
    struct tf_vfs_node *next;
    char name[TF_FILE_NAME_MAX + 1];
    size_t users;
    /* Locks of the file. */
    size_t shared;
    tf_vfs_file *reserved;
    tf_vfs_file *pending; /* nobody new may share */
    tf_vfs_file *exclusive;
    /* Shared memory. */
    void *regions[TF_VFS_REGIONS_MAX];
    size_t mapped; /* by so many files */
    size_t shm_shared[SQLITE_SHM_NLOCK];
    tf_vfs_file *shm_exclusive[SQLITE_SHM_NLOCK];
} tf_vfs_node;

struct tf_files_vfs {
    sqlite3_vfs base;
    tf_files files;
    pthread_mutex_t mutex; /* of the nodes */
    tf_vfs_node *nodes;
};

struct tf_vfs_file {
    sqlite3_file base;
    tf_files_vfs *vfs;
    tf_file *file;
    tf_vfs_node *node; /* of a database; NULL: a journal */
    int level;         /* SQLITE_LOCK_... */
    bool maps;
    unsigned shm_shared; /* a bit a lock */
    bool sync_folder;    /* with the next sync */
};

void tf_vfs_enter(tf_files_vfs *vfs);
void tf_vfs_leave(tf_files_vfs *vfs);
tf_vfs_node *tf_vfs_node_open(tf_files_vfs *vfs, const char *name);
void tf_vfs_node_close(tf_files_vfs *vfs, tf_vfs_node *node);

int tf_vfs_lock(sqlite3_file *base, int level);
int tf_vfs_unlock(sqlite3_file *base, int level);
int tf_vfs_check_reserved(sqlite3_file *base, int *out);
int tf_vfs_shm_map(sqlite3_file *base, int region, int size, int extend, void volatile **out);
int tf_vfs_shm_lock(sqlite3_file *base, int first, int count, int flags);
void tf_vfs_shm_barrier(sqlite3_file *base);
int tf_vfs_shm_unmap(sqlite3_file *base, int remove);

#endif
