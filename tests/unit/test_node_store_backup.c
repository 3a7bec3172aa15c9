/* node/store: backup, restore, check and repair, on real files: what they refuse, leave behind and find. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "node/edge_mem.h"
#include "node/store/backup.h"
#include "node/store/db.h"
#include "node/store/repair.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define MESSAGES 700u

static char root[64];
static char store[100];
static char copy[100];
static char fresh[100];
static char why[TF_WHY_MAX];
static tf_manifest manifest;
static tf_check_report found;
static tf_repair_report repaired;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static tf_db *open_db(const char *directory)
{
    char path[200];
    tf_db *db = NULL;
    (void)snprintf(path, sizeof(path), "%s/index.db", directory);
    const tf_db_config config = {.path = path, .mem = tf_test_mem()};
    ck_assert_msg(tf_db_open(&db, &config, why) == TF_OK, "%s", why);
    return db;
}

/* A store whose index has a channel of MESSAGES messages, and one that is empty; no log. */
static void set_up(void)
{
    (void)snprintf(root, sizeof(root), "/tmp/tf-test-backup-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    (void)snprintf(store, sizeof(store), "%s/store", root);
    (void)snprintf(copy, sizeof(copy), "%s/copy", root);
    (void)snprintf(fresh, sizeof(fresh), "%s/fresh", root);
    ck_assert_int_eq(mkdir(store, 0700), 0);
    tf_db *db = open_db(store);
    ck_assert_int_eq(tf_db_apply_begin(db), TF_OK);
    tf_store_op op = {.kind = TF_STORE_CREATE, .channel = 1, .name = tf_slice_str("alpha"), .epoch = 77};
    ck_assert_int_eq(tf_db_apply_op(db, 1, &op), TF_OK);
    op = (tf_store_op){.kind = TF_STORE_CREATE, .channel = 2, .name = tf_slice_str("beta"), .epoch = 78};
    ck_assert_int_eq(tf_db_apply_op(db, 2, &op), TF_OK);
    static char ids[MESSAGES][8];
    for (uint64_t seq = 1; seq <= MESSAGES; seq++) {
        (void)snprintf(ids[seq - 1], sizeof(ids[0]), "id%u", (unsigned)seq);
        op = (tf_store_op){.kind = TF_STORE_APPEND, .channel = 1};
        op.message = (tf_stored){.seq = seq,
                                 .epoch = 77,
                                 .timestamp_ms = 1000 + (int64_t)seq,
                                 .client_id = tf_slice_str(ids[seq - 1]),
                                 .body = tf_slice_str("the body of a message")};
        ck_assert_int_eq(tf_db_apply_op(db, 2 + seq, &op), TF_OK);
    }
    ck_assert_int_eq(tf_db_apply_commit(db), TF_OK);
    tf_db_free(db);
}

static void tear_down(void)
{
    ck_assert_int_eq(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static tf_backup_config config_to(const char *directory)
{
    return (tf_backup_config){.store = directory, .backup = copy, .mem = tf_test_mem(), .rand = tf_edge_rand()};
}

static tf_err back_up(void)
{
    const tf_backup_config config = config_to(store);
    return tf_backup_write(&config, &manifest, &found, why);
}

static tf_err restore_to(const char *directory)
{
    const tf_backup_config config = config_to(directory);
    return tf_backup_restore(&config, &manifest, why);
}

static bool exists(const char *directory, const char *name)
{
    char path[200];
    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    return access(path, F_OK) == 0;
}

START_TEST(backup_of_a_store_is_restored_under_new_epochs)
{
    set_up();
    uint64_t position = 0;
    uint64_t lsn = 0;
    tf_store_channel channel;
    ck_assert_msg(back_up() == TF_OK, "%s", why);
    ck_assert_uint_eq(manifest.applied_lsn, MESSAGES + 2);
    ck_assert_uint_eq(manifest.channels, 2);
    ck_assert_uint_eq(manifest.messages, MESSAGES);
    ck_assert_msg(restore_to(fresh) == TF_OK, "%s", why);
    tf_db *db = open_db(fresh);
    ck_assert_int_eq(tf_db_applied(db, &lsn), TF_OK);
    ck_assert_uint_eq(lsn, MESSAGES + 4);
    ck_assert_int_eq(tf_db_channel_next(db, &position, &channel), TF_OK);
    ck_assert_uint_eq(channel.head, MESSAGES);
    ck_assert_uint_ne(channel.epoch, 77);
    ck_assert_int_eq(tf_db_channel_next(db, &position, &channel), TF_OK);
    ck_assert_uint_ne(channel.epoch, 78);
    tf_db_free(db);
    ck_assert(!exists(root, "fresh.new"));
    tear_down();
}
END_TEST

START_TEST(store_on_a_restored_directory_goes_on_behind_it)
{
    set_up();
    tf_disk_store *disk = NULL;
    tf_store_channel channel;
    uint64_t lsn = 0;
    ck_assert_int_eq(back_up(), TF_OK);
    ck_assert_int_eq(restore_to(fresh), TF_OK);
    const tf_disk_store_config config = {
        .directory = fresh, .mem = tf_test_mem(), .rand = tf_edge_rand(), .segment_size = 256u * 1024};
    ck_assert_msg(tf_disk_store_open(&disk, &config, why) == TF_OK, "%s", why);
    ck_assert_uint_eq(tf_disk_store_report(disk)->messages, MESSAGES);
    ck_assert_uint_eq(tf_disk_store_report(disk)->damaged, 0);
    tf_store table = tf_disk_store_get(disk);
    tf_store_op op = {.kind = TF_STORE_CLOSE, .channel = 2};
    tf_store_group group = {&op, 1};
    tf_store_event_type event;
    table.table->submit(table.ctx, &group);
    while (!table.table->poll(table.ctx, &event) || event != TF_STORE_GROUP_DONE) {
        continue;
    }
    ck_assert_int_eq(op.outcome, TF_REFUSAL_NONE);
    ck_assert_int_eq(table.table->channel_find(table.ctx, tf_slice_str("beta"), &channel), TF_OK);
    ck_assert(channel.closed);
    tf_disk_store_close(disk);
    tf_db *db = open_db(fresh);
    ck_assert_int_eq(tf_db_applied(db, &lsn), TF_OK);
    ck_assert_uint_eq(lsn, MESSAGES + 5);
    tf_db_free(db);
    tear_down();
}
END_TEST

START_TEST(backup_into_what_is_not_empty_is_refused)
{
    set_up();
    ck_assert_int_eq(back_up(), TF_OK);
    ck_assert_int_eq(back_up(), TF_ERR_USAGE);
    ck_assert(exists(copy, "manifest"));
    const tf_backup_config config = {.store = root, .backup = fresh, .mem = tf_test_mem()};
    ck_assert_int_eq(tf_backup_write(&config, &manifest, &found, why), TF_ERR_USAGE);
    ck_assert(!exists(root, "fresh"));
    ck_assert_int_eq(restore_to(store), TF_ERR_USAGE);
    ck_assert(exists(store, "index.db"));
    tear_down();
}
END_TEST

START_TEST(manifest_with_any_byte_changed_is_refused)
{
    set_up();
    char text[TF_MANIFEST_MAX];
    tf_manifest parsed;
    ck_assert_int_eq(back_up(), TF_OK);
    size_t len = tf_manifest_format(&manifest, text);
    ck_assert_int_eq(tf_manifest_parse(&parsed, tf_slice_of(text, len), why), TF_OK);
    ck_assert_str_eq(parsed.sum, manifest.sum);
    ck_assert_uint_eq(parsed.size, manifest.size);
    for (size_t i = 0; i < len; i++) {
        for (unsigned bit = 1; bit < 256; bit <<= 1) {
            text[i] = (char)((unsigned char)text[i] ^ bit);
            ck_assert_msg(tf_manifest_parse(&parsed, tf_slice_of(text, len), why) != TF_OK, "byte %zu", i);
            text[i] = (char)((unsigned char)text[i] ^ bit);
        }
        ck_assert_int_eq(tf_manifest_parse(&parsed, tf_slice_of(text, i), why), TF_ERR_DAMAGED);
    }
    tear_down();
}
END_TEST

START_TEST(check_of_a_sound_store_finds_nothing_and_repair_leaves_it)
{
    set_up();
    ck_assert_msg(tf_check_store(store, tf_test_mem(), &found, why) == TF_OK, "%s", why);
    ck_assert_uint_eq(found.found, 0);
    ck_assert_uint_eq(found.messages, MESSAGES);
    const tf_repair_config config = {.directory = store, .mem = tf_test_mem(), .rand = tf_edge_rand()};
    ck_assert_msg(tf_repair_store(&config, &repaired, why) == TF_OK, "%s", why);
    ck_assert(!repaired.needed);
    ck_assert_str_eq(repaired.aside, "");
    ck_assert(!exists(store, "log"));
    tear_down();
}
END_TEST

/* As another program would. */
static void by_hand(const char *sql)
{
    char path[200];
    sqlite3 *db = NULL;
    (void)snprintf(path, sizeof(path), "%s/index.db", store);
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
}

START_TEST(check_names_what_keeps_a_store_from_starting_and_repair_saves_the_rest)
{
    static const struct {
        const char *change;
        uint64_t messages;
    } rows[] = {{"UPDATE channels SET number = 9000000000000 WHERE number = 2", MESSAGES},
                {"UPDATE channels SET first = head + 2 WHERE number = 2", MESSAGES},
                {"UPDATE state SET applied_lsn = 4611686018427387904", MESSAGES},
                {"DELETE FROM state", MESSAGES},
                {"DELETE FROM state; DELETE FROM blocks; DELETE FROM block_data", 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t blocks = tf_test_heap_shared()->live_blocks;
        set_up();
        by_hand(rows[i].change);
        ck_assert_msg(tf_check_store(store, tf_test_mem(), &found, why) == TF_OK, "%s", why);
        ck_assert(tf_check_has(&found, TF_CHECK_INDEX));
        const tf_repair_config config = {.directory = store, .mem = tf_test_mem(), .rand = tf_edge_rand()};
        ck_assert_msg(tf_repair_store(&config, &repaired, why) == TF_OK, "%s: %s", rows[i].change, why);
        ck_assert(repaired.needed);
        ck_assert_int_eq(tf_check_store(store, tf_test_mem(), &found, why), TF_OK);
        ck_assert(!tf_check_has(&found, TF_CHECK_INDEX));
        ck_assert_uint_eq(found.messages, rows[i].messages);
        ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, blocks);
        tear_down();
    }
}
END_TEST

START_TEST(store_that_is_locked_is_neither_checked_nor_repaired)
{
    set_up();
    tf_disk_files *disk = NULL;
    tf_file *lock = NULL;
    const tf_repair_config config = {.directory = store, .mem = tf_test_mem(), .rand = tf_edge_rand()};
    ck_assert_int_eq(tf_check_open(store, tf_test_mem(), &disk, why), TF_OK);
    tf_files files = tf_disk_files_get(disk);
    ck_assert_int_eq(tf_check_lock(store, &files, &lock, why), TF_OK);
    ck_assert_int_eq(tf_check_store(store, tf_test_mem(), &found, why), TF_ERR_USAGE);
    ck_assert_int_eq(tf_repair_store(&config, &repaired, why), TF_ERR_USAGE);
    ck_assert_int_eq(back_up(), TF_OK); /* which needs no lock */
    tf_files_close(&files, lock);
    tf_disk_files_free(disk);
    tear_down();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {backup_of_a_store_is_restored_under_new_epochs,
                                  store_on_a_restored_directory_goes_on_behind_it,
                                  backup_into_what_is_not_empty_is_refused,
                                  manifest_with_any_byte_changed_is_refused,
                                  check_of_a_sound_store_finds_nothing_and_repair_leaves_it,
                                  check_names_what_keeps_a_store_from_starting_and_repair_saves_the_rest,
                                  store_that_is_locked_is_neither_checked_nor_repaired,
                                  NULL};
    return tf_test_run_waiting("node/store/backup", tests);
}
