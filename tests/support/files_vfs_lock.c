/* The locks and the shared memory of the VFS, in memory. */
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/support/files_vfs_internal.h"

/* SQLite hands out its own type, which every file of ours begins with. */
static tf_vfs_file *file_of(sqlite3_file *base)
{
    return (tf_vfs_file *)(void *)base;
}

void tf_vfs_enter(tf_files_vfs *vfs)
{
    TF_ASSERT(pthread_mutex_lock(&vfs->mutex) == 0);
}

void tf_vfs_leave(tf_files_vfs *vfs)
{
    TF_ASSERT(pthread_mutex_unlock(&vfs->mutex) == 0);
}

tf_vfs_node *tf_vfs_node_open(tf_files_vfs *vfs, const char *name)
{
    tf_vfs_enter(vfs);
    tf_vfs_node *node = vfs->nodes;
    while (node != NULL && strcmp(node->name, name) != 0) {
        node = node->next;
    }
    if (node == NULL) {
        node = calloc(1, sizeof(*node));
        TF_ASSERT(node != NULL && strlen(name) <= TF_FILE_NAME_MAX);
        memcpy(node->name, name, strlen(name) + 1);
        node->next = vfs->nodes;
        vfs->nodes = node;
    }
    node->users++;
    tf_vfs_leave(vfs);
    return node;
}

void tf_vfs_node_close(tf_files_vfs *vfs, tf_vfs_node *node)
{
    tf_vfs_enter(vfs);
    if (--node->users == 0) {
        tf_vfs_node **at = &vfs->nodes;
        while (*at != node) {
            at = &(*at)->next;
        }
        *at = node->next;
        TF_ASSERT(node->mapped == 0 && node->shared == 0);
        free(node);
    }
    tf_vfs_leave(vfs);
}

/* -- locks of the file --------------------------------------------------------------------------------------------- */

static int share(tf_vfs_node *node)
{
    if (node->pending != NULL || node->exclusive != NULL) {
        return SQLITE_BUSY;
    }
    node->shared++;
    return SQLITE_OK;
}

static int exclude(tf_vfs_node *node, tf_vfs_file *f)
{
    if ((node->pending != NULL && node->pending != f) || (node->reserved != NULL && node->reserved != f)) {
        return SQLITE_BUSY;
    }
    node->pending = f;
    f->level = SQLITE_LOCK_PENDING;
    if (node->shared > 1) {
        return SQLITE_BUSY;
    }
    node->exclusive = f;
    return SQLITE_OK;
}

int tf_vfs_lock(sqlite3_file *base, int level)
{
    tf_vfs_file *f = file_of(base);
    tf_vfs_node *node = f->node;
    int code = SQLITE_OK;
    tf_vfs_enter(f->vfs);
    if (f->level < level && level == SQLITE_LOCK_SHARED) {
        code = share(node);
    } else if (f->level < level && level == SQLITE_LOCK_RESERVED) {
        code = node->reserved != NULL || node->pending != NULL ? SQLITE_BUSY : SQLITE_OK;
        node->reserved = code == SQLITE_OK ? f : node->reserved;
    } else if (f->level < level) {
        code = exclude(node, f);
    }
    if (code == SQLITE_OK && f->level < level) {
        f->level = level;
    }
    tf_vfs_leave(f->vfs);
    return code;
}

static void *unless(void *holder, const tf_vfs_file *f)
{
    return holder == f ? NULL : holder;
}

int tf_vfs_unlock(sqlite3_file *base, int level)
{
    tf_vfs_file *f = file_of(base);
    tf_vfs_node *node = f->node;
    if (node == NULL || f->level <= level) {
        return SQLITE_OK;
    }
    tf_vfs_enter(f->vfs);
    node->reserved = unless(node->reserved, f);
    node->pending = unless(node->pending, f);
    node->exclusive = unless(node->exclusive, f);
    node->shared -= level == SQLITE_LOCK_NONE ? 1u : 0u;
    f->level = level;
    tf_vfs_leave(f->vfs);
    return SQLITE_OK;
}

int tf_vfs_check_reserved(sqlite3_file *base, int *out)
{
    tf_vfs_file *f = file_of(base);
    tf_vfs_enter(f->vfs);
    *out = f->node->reserved != NULL || f->node->exclusive != NULL ? 1 : 0;
    tf_vfs_leave(f->vfs);
    return SQLITE_OK;
}

/* -- shared memory ------------------------------------------------------------------------------------------------- */

int tf_vfs_shm_map(sqlite3_file *base, int region, int size, int extend, void volatile **out)
{
    tf_vfs_file *f = file_of(base);
    tf_vfs_node *node = f->node;
    TF_ASSERT(region < TF_VFS_REGIONS_MAX);
    tf_vfs_enter(f->vfs);
    node->mapped += f->maps ? 0u : 1u;
    f->maps = true;
    if (node->regions[region] == NULL && extend != 0) {
        node->regions[region] = calloc(1, (size_t)size);
        TF_ASSERT(node->regions[region] != NULL);
    }
    *out = node->regions[region];
    tf_vfs_leave(f->vfs);
    return SQLITE_OK;
}

static bool may_lock(const tf_vfs_file *f, int slot, bool exclusive)
{
    const tf_vfs_node *node = f->node;
    size_t others = node->shm_shared[slot] - (f->shm_shared >> slot & 1u);
    bool excluded = node->shm_exclusive[slot] != NULL && node->shm_exclusive[slot] != f;
    return !excluded && (!exclusive || others == 0);
}

static void set_lock(tf_vfs_file *f, int slot, int flags)
{
    tf_vfs_node *node = f->node;
    unsigned bit = 1u << slot;
    bool lock = (flags & SQLITE_SHM_LOCK) != 0;
    if ((flags & SQLITE_SHM_EXCLUSIVE) != 0) {
        node->shm_exclusive[slot] = lock ? f : NULL;
    } else if (lock && (f->shm_shared & bit) == 0) {
        node->shm_shared[slot]++;
        f->shm_shared |= bit;
    } else if (!lock && (f->shm_shared & bit) != 0) {
        node->shm_shared[slot]--;
        f->shm_shared &= ~bit;
    }
}

int tf_vfs_shm_lock(sqlite3_file *base, int first, int count, int flags)
{
    tf_vfs_file *f = file_of(base);
    bool free_to_lock = true;
    tf_vfs_enter(f->vfs);
    for (int slot = first; slot < first + count && (flags & SQLITE_SHM_LOCK) != 0; slot++) {
        free_to_lock = free_to_lock && may_lock(f, slot, (flags & SQLITE_SHM_EXCLUSIVE) != 0);
    }
    for (int slot = first; slot < first + count && free_to_lock; slot++) {
        set_lock(f, slot, flags);
    }
    tf_vfs_leave(f->vfs);
    return free_to_lock ? SQLITE_OK : SQLITE_BUSY;
}

void tf_vfs_shm_barrier(sqlite3_file *base)
{
    (void)base;
    atomic_thread_fence(memory_order_seq_cst);
}

int tf_vfs_shm_unmap(sqlite3_file *base, int remove)
{
    (void)remove;
    tf_vfs_file *f = file_of(base);
    tf_vfs_node *node = f->node;
    tf_vfs_enter(f->vfs);
    for (int slot = 0; slot < SQLITE_SHM_NLOCK; slot++) {
        set_lock(f, slot, SQLITE_SHM_UNLOCK | SQLITE_SHM_SHARED);
        node->shm_exclusive[slot] = unless(node->shm_exclusive[slot], f);
    }
    node->mapped -= f->maps ? 1u : 0u;
    f->maps = false;
    for (size_t i = 0; node->mapped == 0 && i < TF_VFS_REGIONS_MAX; i++) {
        free(node->regions[i]);
        node->regions[i] = NULL;
    }
    tf_vfs_leave(f->vfs);
    return SQLITE_OK;
}
