/* node/store/db_care: a check finds each kind of damage and nothing else, a repair saves the rest, a backup is whole. */
#include <sqlite3.h>

#include "node/store/db_care.h"
#include "tests/unit/db_world.h"

#define CHANNELS 3u
#define HEAD 900u
#define SIZE 400u

static tf_db_report found;
static char aside[TF_DB_ASIDE_MAX];

static void fill(void)
{
    world_set_up();
    for (uint64_t channel = 1; channel <= CHANNELS; channel++) {
        world_create(channel);
    }
    for (uint64_t first = 1; first <= HEAD; first += 100) {
        world_begin();
        for (uint64_t channel = 1; channel <= CHANNELS; channel++) {
            world_append(channel, first, 100, SIZE);
        }
        world_commit();
    }
    const tf_store_cursor c = {.channel = 2, .name = tf_slice_str("mine"), .epoch = 5, .next = 77, .moved_ms = 1};
    world_do(&(tf_store_op){.kind = TF_STORE_CURSOR, .channel = 2, .cursor = c});
    world_do(&(tf_store_op){.kind = TF_STORE_TRIM, .channel = 3, .seq = 333});
    world_do(&(tf_store_op){.kind = TF_STORE_CLOSE, .channel = 3});
    tf_db_report_init(&found, tf_test_mem());
}

static void end(void)
{
    tf_db_report_clear(&found);
    world_tear_down();
}

/* As a fault of the disk would. */
static void by_hand(const char *sql)
{
    sqlite3 *sqlite = NULL;
    char *text = NULL;
    tf_db_free(world_db);
    world_db = NULL;
    ck_assert_int_eq(sqlite3_open(world_path, &sqlite), SQLITE_OK);
    ck_assert_msg(sqlite3_exec(sqlite, sql, NULL, NULL, &text) == SQLITE_OK, "%s", text);
    ck_assert_int_eq(sqlite3_close(sqlite), SQLITE_OK);
    world_db = world_open(false);
}

static void check(tf_db *db)
{
    tf_db_report_clear(&found);
    ck_assert_msg(tf_db_check(db, &found) == TF_OK, "%s", tf_db_error_text(db));
}

static void repair(void)
{
    tf_db_free(world_db);
    world_db = NULL;
    tf_db_report_clear(&found);
    const tf_db_config config = {.path = world_path, .mem = tf_test_mem()};
    ck_assert_msg(tf_db_repair(&config, &found, aside, world_why) == TF_OK, "%s", world_why);
    ck_assert_int_eq(access(aside, F_OK), 0);
    world_db = world_open(false);
}

/* All of it, but for messages lost_first to lost_last of channel 1. */
static void expect_all_but(tf_db *db, uint64_t lost_first, uint64_t lost_last)
{
    world_expect(db, 1, 1, lost_first - 1, SIZE);
    world_expect(db, 1, lost_last + 1, HEAD, SIZE);
    world_expect(db, 2, 1, HEAD, SIZE);
    world_expect(db, 3, 333, HEAD, SIZE);
    for (uint64_t channel = 1; channel <= CHANNELS; channel++) {
        world_expect_keys(db, channel, 1, HEAD, SIZE); /* of trimmed and of lost ones, too */
        tf_store_channel c = world_channel(db, channel);
        ck_assert_uint_eq(c.head, HEAD);
        ck_assert_int_eq(c.closed, channel == 3);
        ck_assert_uint_eq(c.first, channel == 3 ? 333 : 1);
    }
    tf_store_cursor cursor;
    tf_node_id nobody = {{0}};
    ck_assert_int_eq(tf_db_cursor_find(db, 2, &nobody, tf_slice_str("mine"), &cursor), TF_OK);
    ck_assert(cursor.next == 77 && cursor.epoch == 5);
    uint64_t lsn = 0;
    ck_assert_int_eq(tf_db_applied(db, &lsn), TF_OK);
    ck_assert_uint_eq(lsn, world_lsn);
}

START_TEST(care_whole_database_has_no_findings)
{
    fill();
    check(world_db);
    ck_assert_msg(found.count == 0, "%s", found.count == 0 ? "" : found.findings[0].text);
    ck_assert_uint_eq(found.channels, CHANNELS);
    ck_assert_uint_eq(found.messages, 3 * HEAD - 332);
    ck_assert_uint_eq(found.keys, 3 * HEAD);
    repair(); /* and one saves all of it */
    ck_assert_uint_eq(found.count, 0);
    expect_all_but(world_db, HEAD + 1, HEAD);
    ck_assert_uint_eq(world_channel(world_db, 1).epoch, WORLD_EPOCH + 1);
    check(world_db);
    ck_assert_uint_eq(found.count, 0);
    end();
}
END_TEST

/* Each kind of damage by one statement; where it is in channel 1, the rest is saved. */
START_TEST(care_damage_is_found_and_the_rest_saved)
{
    static const struct {
        const char *sql;
        tf_db_finding_kind kind;
        bool lost; /* messages of channel 1 */
    } cases[] = {
        {"UPDATE block_data SET data = CAST(substr(data, 1, 99) || x'00' || substr(data, 101) AS BLOB) "
         "WHERE id = (SELECT data FROM blocks WHERE channel = 1 AND first > 300 LIMIT 1)",
         TF_DB_BAD_MESSAGES, true},
        {"DELETE FROM block_data WHERE id = (SELECT data FROM blocks WHERE channel = 1 AND first > 300 LIMIT 1)",
         TF_DB_BAD_MESSAGES, true},
        {"DELETE FROM blocks WHERE channel = 1 AND first > 300 AND first < 500", TF_DB_LOST_MESSAGES, false},
        {"UPDATE blocks SET first = first + 1 WHERE channel = 1 AND first = 1", TF_DB_LOST_MESSAGES, false},
        {"UPDATE channels SET head = 850 WHERE number = 1", TF_DB_BAD_NUMBERS, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        fill();
        by_hand(cases[i].sql);
        check(world_db);
        ck_assert_uint_ge(found.count, 1);
        tf_db_finding first = found.findings[0];
        ck_assert_msg(first.kind == cases[i].kind && first.channel == 1, "case %zu: %s", i, first.text);
        ck_assert(first.first >= 1 && first.last >= first.first && first.last <= HEAD);
        repair();
        ck_assert_uint_eq(found.count, cases[i].lost ? 2 : 0);
        if (cases[i].lost) {
            ck_assert(found.findings[0].kind == TF_DB_LOST_MESSAGES && found.findings[0].first == first.first &&
                      found.findings[0].last == first.last);
            ck_assert(found.findings[1].kind == TF_DB_NEW_EPOCH && found.findings[1].channel == 1);
            expect_all_but(world_db, first.first, first.last);
        } else {
            expect_all_but(world_db, HEAD + 1, HEAD);
        }
        ck_assert_int_eq(world_channel(world_db, 1).epoch == WORLD_EPOCH + 1, !cases[i].lost);
        world_store(2, HEAD + 1, 100, SIZE); /* it goes on */
        end();
    }
}
END_TEST

START_TEST(care_bad_keys_are_found_and_made_again)
{
    static const char *const damages[] = {
        "DELETE FROM key_parts WHERE id = (SELECT max(first_part) FROM key_runs WHERE bits > 1)",
        "UPDATE key_parts SET data = CAST(substr(data, 1, 99) || x'00ff' || substr(data, 102) AS BLOB) "
        "WHERE id = (SELECT max(first_part) FROM key_runs WHERE bits > 1)",
    };
    for (size_t i = 0; i < 2; i++) {
        fill();
        world_do(&(tf_store_op){.kind = TF_STORE_TRIM, .channel = 3, .seq = 1}); /* as it was */
        by_hand(damages[i]);
        check(world_db);
        ck_assert_uint_ge(found.count, 1);
        for (size_t k = 0; k < found.count; k++) {
            ck_assert_msg(found.findings[k].kind == TF_DB_BAD_KEYS, "%s", found.findings[k].text);
            ck_assert_int_eq(found.findings[k].channel == 0, i == 1);
        }
        repair();
        ck_assert_uint_eq(found.count, i); /* a part that is missing is not seen to be */
        world_expect_keys(world_db, 1, 1, HEAD, SIZE);
        world_expect_keys(world_db, 2, 1, HEAD, SIZE);
        world_expect_keys(world_db, 3, 333, HEAD, SIZE);
        check(world_db);
        ck_assert_uint_eq(found.count, 0);
        end();
    }
}
END_TEST

START_TEST(care_channel_without_a_name_is_found_again)
{
    fill();
    by_hand("DELETE FROM channels WHERE number = 2");
    repair();
    ck_assert_uint_eq(found.count, 1);
    ck_assert(found.findings[0].kind == TF_DB_NEW_NAME && found.findings[0].channel == 2);
    tf_store_channel c = world_channel(world_db, 2);
    ck_assert(tf_slice_eq(c.name, tf_slice_str("lost-found/2")) && c.head == HEAD);
    world_expect(world_db, 2, 1, HEAD, SIZE);
    world_expect_keys(world_db, 2, 1, HEAD, SIZE);
    end();
}
END_TEST

START_TEST(care_repair_of_no_database_changes_nothing)
{
    fill();
    tf_db_free(world_db);
    world_db = NULL;
    FILE *file = fopen(world_path, "r+");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 4096; i++) {
        ck_assert_int_eq(fputc('x', file), 'x');
    }
    ck_assert_int_eq(fclose(file), 0);
    const tf_db_config config = {.path = world_path, .mem = tf_test_mem()};
    ck_assert_int_eq(tf_db_repair(&config, &found, aside, world_why), TF_ERR_DAMAGED);
    ck_assert_int_eq(access(world_path, F_OK), 0);
    end();
}
END_TEST

START_TEST(care_backup_is_one_moment_while_others_write)
{
    char copy_path[160];
    fill();
    (void)snprintf(copy_path, sizeof(copy_path), "%s/copy.db", world_dir);
    tf_db *reader = world_open(true);
    ck_assert_msg(tf_db_backup(reader, copy_path, world_why) == TF_OK, "%s", world_why);
    uint64_t lsn = world_lsn;
    ck_assert_int_eq(tf_db_backup(reader, copy_path, world_why), TF_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(world_why, "exists already"));
    tf_db_free(reader);
    world_store(1, HEAD + 1, 50, SIZE); /* the copy knows nothing of it */
    tf_db *copy = NULL;
    const tf_db_config config = {.path = copy_path, .mem = tf_test_mem()};
    ck_assert_msg(tf_db_open(&copy, &config, world_why) == TF_OK, "%s", world_why);
    check(copy);
    ck_assert_uint_eq(found.count, 0);
    world_lsn = lsn;
    expect_all_but(copy, HEAD + 1, HEAD);
    tf_db_free(copy);
    (void)snprintf(copy_path, sizeof(copy_path), "%s/none/copy.db", world_dir);
    ck_assert_int_eq(tf_db_backup(world_db, copy_path, world_why), TF_ERR_IO);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {care_whole_database_has_no_findings,
                                  care_damage_is_found_and_the_rest_saved,
                                  care_bad_keys_are_found_and_made_again,
                                  care_channel_without_a_name_is_found_again,
                                  care_repair_of_no_database_changes_nothing,
                                  care_backup_is_one_moment_while_others_write,
                                  NULL};
    return tf_test_run_waiting("node/store/db_care", tests);
}
