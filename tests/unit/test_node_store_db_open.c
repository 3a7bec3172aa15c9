/* node/store/db: whose file it is and of which version; what is damaged has a name and hides nothing else (S11). */
#include <sqlite3.h>

#include "node/store/db_schema.h"
#include "tests/unit/db_world.h"

static tf_err try_open(bool read_only)
{
    tf_db *db = NULL;
    const tf_db_config config = {.path = world_path, .read_only = read_only, .mem = tf_test_mem()};
    world_why[0] = '\0';
    tf_err err = tf_db_open(&db, &config, world_why);
    tf_db_free(db);
    ck_assert_msg((err == TF_OK) == (world_why[0] == '\0'), "%s", world_why);
    return err;
}

/* As another program would. */
static void by_hand(const char *sql)
{
    sqlite3 *sqlite = NULL;
    char *text = NULL;
    ck_assert_int_eq(sqlite3_open(world_path, &sqlite), SQLITE_OK);
    ck_assert_msg(sqlite3_exec(sqlite, sql, NULL, NULL, &text) == SQLITE_OK, "%s", text);
    ck_assert_int_eq(sqlite3_close(sqlite), SQLITE_OK);
}

static void start_without(void)
{
    world_set_up();
    tf_db_free(world_db);
    world_db = NULL;
    ck_assert_int_eq(remove(world_path), 0);
}

START_TEST(db_file_of_another_program_is_refused)
{
    start_without();
    by_hand("CREATE TABLE theirs(a)");
    ck_assert_int_eq(try_open(false), TF_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(world_why, "another program"));
    ck_assert_int_eq(remove(world_path), 0);
    by_hand("PRAGMA application_id = 7; PRAGMA user_version = 1");
    ck_assert_int_eq(try_open(false), TF_ERR_USAGE);
    world_tear_down();
}
END_TEST

START_TEST(db_version_from_the_future_is_refused_and_untouched)
{
    world_set_up();
    world_create(1);
    world_store(1, 1, 5, 5);
    tf_db_free(world_db);
    world_db = NULL;
    by_hand("PRAGMA user_version = 99");
    for (int read_only = 0; read_only < 2; read_only++) {
        ck_assert_int_eq(try_open(read_only == 1), TF_ERR_USAGE);
        char ours[32];
        (void)snprintf(ours, sizeof(ours), "up to %d", TF_DB_VERSION);
        ck_assert_ptr_nonnull(strstr(world_why, "version 99"));
        ck_assert_ptr_nonnull(strstr(world_why, ours));
    }
    by_hand("PRAGMA user_version = 1");
    world_db = world_open(false);
    world_expect(world_db, 1, 1, 5, 5);
    world_tear_down();
}
END_TEST

START_TEST(db_older_version_is_brought_up)
{
    start_without();
    char sql[64];
    (void)snprintf(sql, sizeof(sql), "PRAGMA application_id = %d; PRAGMA user_version = 0", TF_DB_APPLICATION_ID);
    by_hand(sql); /* version 0: ours, with nothing in it */
    ck_assert_int_eq(try_open(true), TF_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(world_why, "version 0"));
    world_db = world_open(false);
    world_create(1);
    world_store(1, 1, 5, 5);
    world_reopen();
    world_expect(world_db, 1, 1, 5, 5);
    world_tear_down();
}
END_TEST

START_TEST(db_no_database_is_damage)
{
    start_without();
    FILE *file = fopen(world_path, "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_gt(fprintf(file, "this is no database %d\n", i), 0);
    }
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(try_open(false), TF_ERR_DAMAGED);
    ck_assert_int_eq(try_open(true), TF_ERR_DAMAGED);
    world_tear_down();
}
END_TEST

START_TEST(db_that_is_missing_is_not_made_for_reading)
{
    start_without();
    ck_assert_int_eq(try_open(true), TF_ERR_IO);
    ck_assert_int_ne(access(world_path, F_OK), 0);
    world_tear_down();
}
END_TEST

START_TEST(db_without_memory_says_so)
{
    world_set_up();
    world_create(1);
    tf_test_heap *heap = tf_test_heap_shared();
    for (uint64_t k = 0;; k++) {
        made m;
        world_make(&m, 1, k + 1, 3000);
        tf_test_heap_fail_at(heap, k, false);
        uint64_t before = heap->failures;
        tf_err err = tf_db_apply_begin(world_db);
        ck_assert_int_eq(err, TF_OK);
        err = tf_db_apply_op(world_db, world_lsn + 1,
                             &(tf_store_op){.kind = TF_STORE_APPEND, .channel = 1, .message = m.stored});
        err = err == TF_OK ? tf_db_apply_commit(world_db) : err;
        bool failed = heap->failures > before;
        ck_assert_int_eq(err, failed ? TF_ERR_NOMEM : TF_OK);
        tf_test_heap_fail_never(heap);
        if (failed) { /* and again, with enough */
            world_do(&(tf_store_op){.kind = TF_STORE_APPEND, .channel = 1, .message = m.stored});
        }
        free(m.body);
        if (!failed) {
            ck_assert_uint_gt(k, 3);
            world_expect(world_db, 1, 1, k + 1, 3000);
            break;
        }
    }
    world_tear_down();
}
END_TEST

/* -- damage -------------------------------------------------------------------------------------------------------- */

START_TEST(db_damaged_block_is_a_range_and_the_rest_is_served)
{
    world_set_up();
    world_create(1);
    for (uint64_t i = 0; i < 5; i++) {
        world_store(1, i * 100 + 1, 100, 1000);
    }
    by_hand("UPDATE block_data SET data = CAST(substr(data, 1, 3000) || x'00' || substr(data, 3002) AS BLOB) "
            "WHERE id = (SELECT data FROM blocks WHERE first > 150 LIMIT 1)");
    tf_db_block *block = NULL;
    tf_db_gap gap = {0, 0};
    size_t damaged = 0;
    for (uint64_t seq = 1; seq <= 500;) {
        tf_err err = tf_db_load(world_db, 1, seq, &block, &gap);
        if (err == TF_OK) {
            world_expect(world_db, 1, seq, tf_db_block_last(block), 1000);
            seq = tf_db_block_last(block) + 1;
            tf_db_block_free(block);
        } else {
            ck_assert_int_eq(err, TF_ERR_DAMAGED);
            ck_assert(gap.first == seq && gap.last >= seq && gap.last < 500);
            seq = gap.last + 1;
            damaged++;
        }
    }
    ck_assert_uint_eq(damaged, 1);
    world_store(1, 501, 100, 1000); /* what comes is stored */
    world_expect(world_db, 1, 501, 600, 1000);
    world_expect_keys(world_db, 1, 1, 600, 1000);
    world_tear_down();
}
END_TEST

START_TEST(db_damaged_key_part_is_never_a_new_key)
{
    world_set_up();
    world_create(1);
    for (uint64_t i = 0; i < 7; i++) { /* one more run is merged with them */
        world_store(1, i * 500 + 1, 500, 0);
    }
    by_hand("UPDATE key_parts SET data = CAST(substr(data, 1, 200) || x'ffff' || substr(data, 203) AS BLOB) "
            "WHERE id = (SELECT first_part + 2 FROM key_runs WHERE bits > 2 LIMIT 1)");
    size_t unknown = 0;
    for (int round = 0; round < 2; round++) {
        unknown = 0;
        for (uint64_t seq = 1; seq <= 3500; seq++) {
            tf_store_key key;
            tf_err err = world_find(world_db, 1, seq, &key);
            ck_assert(err == TF_OK || err == TF_ERR_DAMAGED);
            unknown += err == TF_ERR_DAMAGED ? 1u : 0u;
        }
        ck_assert_uint_gt(unknown, 10);
        ck_assert_uint_lt(unknown, 250);
        for (uint64_t i = 0; i < 8 && round == 0; i++) { /* merges leave it alone */
            world_store(1, 3501 + i * 500, 500, 0);
        }
    }
    world_expect_keys(world_db, 1, 7001, 7500, 0);
    uint64_t position = 0;
    size_t bad_chunks = 0;
    tf_db_keys *keys = NULL;
    tf_err err = TF_OK;
    while ((err = tf_db_keys_load(world_db, &position, &keys)) != TF_ERR_CLOSED) {
        bad_chunks += err == TF_ERR_DAMAGED ? 1u : 0u;
        tf_db_keys_free(keys);
    }
    ck_assert_uint_eq(bad_chunks, 1);
    world_tear_down();
}
END_TEST

/* It would be looked for in more parts than there can be. */
START_TEST(db_run_of_keys_whose_numbers_cannot_be_is_damage)
{
    static const char *const changes[] = {"UPDATE key_runs SET bits = bits + 20", "UPDATE key_runs SET bits = 48",
                                          "UPDATE key_runs SET keys = 9000000000000000000",
                                          "UPDATE key_runs SET first_part = first_part + 1000",
                                          "UPDATE state SET next_part = 1"};
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        world_set_up();
        world_create(1);
        world_store(1, 1, 500, 0);
        by_hand(changes[i]);
        world_reopen();
        tf_store_key key;
        ck_assert_int_eq(world_find(world_db, 1, 7, &key), TF_ERR_DAMAGED);
        uint64_t position = 0;
        tf_db_keys *keys = NULL;
        ck_assert_int_eq(tf_db_keys_load(world_db, &position, &keys), TF_ERR_DAMAGED);
        tf_db_keys_free(keys);
        ck_assert_int_eq(tf_db_keys_load(world_db, &position, &keys), TF_ERR_CLOSED);
        world_tear_down();
    }
}
END_TEST

/* Where in the file a page of the index of blocks is: its rows name what lies nowhere else. */
static void smash_page(const char *which)
{
    sqlite3 *sqlite = NULL;
    sqlite3_stmt *stmt = NULL;
    ck_assert_int_eq(sqlite3_open(world_path, &sqlite), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(sqlite, which, -1, &stmt, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
    long page = (long)sqlite3_column_int64(stmt, 0);
    ck_assert_int_eq(sqlite3_finalize(stmt), SQLITE_OK);
    ck_assert_int_eq(sqlite3_close(sqlite), SQLITE_OK);
    FILE *file = fopen(world_path, "r+");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, (page - 1) * 4096, SEEK_SET), 0);
    for (int i = 0; i < 4096; i++) {
        ck_assert_int_eq(fputc(0xa5, file), 0xa5);
    }
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(db_bad_index_page_is_a_range_and_the_rest_is_served)
{
    world_set_up();
    world_create(1);
    for (uint64_t i = 0; i < 700; i++) { /* blocks of one message, so that the index has several pages */
        world_store(1, i + 1, 1, 70000);
    }
    ck_assert_int_eq(tf_db_checkpoint(world_db, true), TF_OK);
    sqlite3 *sqlite = NULL;
    ck_assert_int_eq(sqlite3_open(world_path, &sqlite), SQLITE_OK);
    bool can_see = sqlite3_exec(sqlite, "SELECT pageno FROM dbstat LIMIT 1", NULL, NULL, NULL) == SQLITE_OK;
    ck_assert_int_eq(sqlite3_close(sqlite), SQLITE_OK);
    ck_assert(can_see); /* the library of Debian is built with it */
    smash_page("SELECT pageno FROM dbstat WHERE name = 'blocks' AND pagetype = 'leaf' LIMIT 1 OFFSET 2");
    world_reopen();
    size_t served = 0;
    size_t ranges = 0;
    for (uint64_t seq = 1; seq <= 700;) {
        tf_db_block *block = NULL;
        tf_db_gap gap;
        tf_err err = tf_db_load(world_db, 1, seq, &block, &gap);
        if (err == TF_OK) {
            served++;
            seq = tf_db_block_last(block) + 1;
            tf_db_block_free(block);
        } else {
            ck_assert_int_eq(err, TF_ERR_DAMAGED);
            ck_assert(gap.first == seq && gap.last >= seq);
            seq = gap.last + 1;
            ranges++;
        }
    }
    ck_assert_uint_ge(ranges, 1);
    ck_assert_uint_le(ranges, 2);
    ck_assert_uint_gt(served, 450);
    world_tear_down();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {db_file_of_another_program_is_refused,
                                  db_version_from_the_future_is_refused_and_untouched,
                                  db_older_version_is_brought_up,
                                  db_no_database_is_damage,
                                  db_that_is_missing_is_not_made_for_reading,
                                  db_without_memory_says_so,
                                  db_damaged_block_is_a_range_and_the_rest_is_served,
                                  db_damaged_key_part_is_never_a_new_key,
                                  db_run_of_keys_whose_numbers_cannot_be_is_damage,
                                  db_bad_index_page_is_a_range_and_the_rest_is_served,
                                  NULL};
    return tf_test_run_waiting("node/store/db_open", tests);
}
