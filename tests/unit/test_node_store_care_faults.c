/* node/store: check, backup, restore and repair without memory: whichever allocation fails, they say so, leak nothing and leave
 * nothing behind that is half made; the store is as it was, and the next call does it. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "node/store/backup.h"
#include "node/store/db.h"
#include "node/store/repair.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define MESSAGES 30u
#define PATH_ROOM 100u

typedef struct world {
    char root[40];
    char store[PATH_ROOM];
    char backup[PATH_ROOM];
    char restored[PATH_ROOM];
    tf_test_heap heap;
} world;

static char why[TF_WHY_MAX];
static tf_manifest manifest;
static tf_check_report found;
static tf_repair_report repaired;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static bool exists(const char *directory, const char *name)
{
    char path[PATH_ROOM + 20];
    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    return access(path, F_OK) == 0;
}

static void fill(world *w)
{
    char path[PATH_ROOM + 20];
    tf_db *db = NULL;
    (void)snprintf(path, sizeof(path), "%s/index.db", w->store);
    const tf_db_config config = {.path = path, .mem = &w->heap.mem};
    ck_assert_int_eq(tf_db_open(&db, &config, why), TF_OK);
    ck_assert_int_eq(tf_db_apply_begin(db), TF_OK);
    const tf_store_op op = {.kind = TF_STORE_CREATE, .channel = 1, .name = tf_slice_str("a"), .epoch = 7};
    ck_assert_int_eq(tf_db_apply_op(db, 1, &op), TF_OK);
    static char ids[MESSAGES][8];
    for (uint64_t i = 0; i < MESSAGES; i++) {
        (void)snprintf(ids[i], sizeof(ids[0]), "id%u", (unsigned)i);
        const tf_stored m = {.seq = i + 1, .epoch = 7, .client_id = tf_slice_str(ids[i]), .body = tf_slice_str("body")};
        const tf_store_op append = {.kind = TF_STORE_APPEND, .channel = 1, .message = m};
        ck_assert_int_eq(tf_db_apply_op(db, 2 + i, &append), TF_OK);
    }
    ck_assert_int_eq(tf_db_apply_commit(db), TF_OK);
    tf_db_free(db);
}

static void begin(world *w)
{
    tf_test_heap_init(&w->heap);
    const char *memory = "/dev/shm"; /* where syncs cost nothing, if there is such a place */
    (void)snprintf(w->root, sizeof(w->root), "%s/tf-test-care-XXXXXX", access(memory, W_OK) == 0 ? memory : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(w->root));
    (void)snprintf(w->store, sizeof(w->store), "%s/store", w->root);
    (void)snprintf(w->backup, sizeof(w->backup), "%s/backup", w->root);
    (void)snprintf(w->restored, sizeof(w->restored), "%s/restored", w->root);
    ck_assert_int_eq(mkdir(w->store, 0700), 0);
    fill(w);
}

static void end(world *w)
{
    ck_assert_uint_eq(w->heap.live_blocks, 0);
    ck_assert_int_eq(nftw(w->root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static tf_err check(world *w)
{
    return tf_check_store(w->store, &w->heap.mem, &found, why);
}

static tf_backup_config backup_config(world *w, const char *store)
{
    return (tf_backup_config){.store = store, .backup = w->backup, .mem = &w->heap.mem, .rand = tf_test_rand(3)};
}

static tf_err back_up(world *w)
{
    const tf_backup_config config = backup_config(w, w->store);
    return tf_backup_write(&config, &manifest, &found, why);
}

static tf_err restore(world *w)
{
    const tf_backup_config config = backup_config(w, w->restored);
    return tf_backup_restore(&config, &manifest, why);
}

static tf_err repair(world *w)
{
    const tf_repair_config config = {.directory = w->store, .mem = &w->heap.mem, .rand = tf_test_rand(5)};
    return tf_repair_store(&config, &repaired, why);
}

static void damage(const world *w)
{
    char path[PATH_ROOM + 20];
    sqlite3 *db = NULL;
    (void)snprintf(path, sizeof(path), "%s/index.db", w->store);
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, "UPDATE channels SET first = head + 2", NULL, NULL, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
}

/* Nothing of what was begun is there. */
static void check_untouched(const world *w)
{
    ck_assert(!exists(w->backup, "manifest"));
    ck_assert(!exists(w->root, "restored"));
}

/* False: no allocation failed. */
static bool run(tf_err (*work)(world *), uint64_t k, bool for_ever)
{
    world w;
    begin(&w);
    if (work == repair) {
        damage(&w);
    }
    bool restores = work == restore;
    if (restores) {
        ck_assert_int_eq(back_up(&w), TF_OK);
    }
    tf_test_heap_fail_at(&w.heap, k, for_ever);
    tf_err err = work(&w);
    bool failed = w.heap.failures > 0;
    ck_assert_msg(err == (failed ? TF_ERR_NOMEM : TF_OK), "%u: %s: %s", (unsigned)k, tf_err_text(err), why);
    tf_test_heap_fail_never(&w.heap);
    if (failed && !restores) {
        check_untouched(&w);
    }
    if (failed) {
        ck_assert(!exists(w.root, "restored"));
        ck_assert_msg(work(&w) == TF_OK, "%u, again: %s", (unsigned)k, why);
    }
    ck_assert_int_eq(check(&w), TF_OK);
    ck_assert_uint_eq(found.messages, MESSAGES);
    end(&w);
    return failed;
}

static void run_all(tf_err (*work)(world *))
{
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        uint64_t k = 0;
        while (run(work, k, for_ever != 0)) {
            k++;
        }
        ck_assert_uint_gt(k, 3);
    }
}

START_TEST(check_without_memory_says_so)
{
    run_all(check);
}
END_TEST

START_TEST(backup_without_memory_leaves_nothing)
{
    run_all(back_up);
}
END_TEST

START_TEST(restore_without_memory_leaves_nothing)
{
    run_all(restore);
}
END_TEST

START_TEST(repair_without_memory_can_be_done_again)
{
    run_all(repair);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {check_without_memory_says_so, backup_without_memory_leaves_nothing,
                                  restore_without_memory_leaves_nothing, repair_without_memory_can_be_done_again, NULL};
    return tf_test_run_waiting("node/store, care without memory", tests);
}
