/* node/store/log_reader, through node/store/commit_log: damage is named, torn ends are not, and nothing wrong comes out. */
#include <xxhash.h>

#include "node/store/log_file.h"
#include "node/store/log_segment.h"
#include "tests/unit/log_world.h"

typedef struct scene {
    tf_lossy_files *lossy;
    log_world world;
} scene;

/* A closed log of several segments, all of which is on the disk; nothing is applied. */
static void set_up(scene *s, uint32_t groups)
{
    s->lossy = world_begin(&s->world);
    for (uint32_t i = 0; i < groups; i++) {
        ck_assert_int_eq(world_append(&s->world, i % 3 + 1, i % 2 == 0 ? 1500 : 40000, false), TF_OK);
    }
    world_close(&s->world);
    tf_lossy_files_settle(s->lossy);
}

static void tear_down(scene *s)
{
    world_close(&s->world);
    tf_lossy_files_free(s->lossy);
}

/* Opens and replays; every LSN that was acked must come as its record or in a named range, in order. Gives how many came
 * in ranges, and the first LSN that was not mentioned at all. */
static uint64_t replay(scene *s, uint64_t *end)
{
    log_world *w = &s->world;
    uint64_t expected = w->applied + 1;
    uint64_t damaged = 0;
    tf_log_item item;
    ck_assert_int_eq(world_open(w), TF_OK);
    tf_err err = tf_commit_log_next(w->log, &item);
    for (; err == TF_OK; err = tf_commit_log_next(w->log, &item)) {
        if (item.type == TF_LOG_RECORD) {
            ck_assert_uint_eq(item.record.lsn, expected);
            world_check_record(w, &item);
            expected++;
        } else {
            ck_assert_uint_eq(item.damage.first, expected);
            ck_assert_uint_ge(item.damage.last, expected);
            damaged += item.damage.last - item.damage.first + 1;
            expected = item.damage.last + 1;
        }
    }
    ck_assert_int_eq(err, TF_ERR_CLOSED);
    ck_assert_uint_le(expected, w->acked + 1);
    ck_assert_uint_eq(tf_commit_log_report(w->log)->damaged, damaged);
    ck_assert_uint_eq(tf_commit_log_next_lsn(w->log), expected);
    *end = expected;
    return damaged;
}

static bool is_blank(tf_slice bytes, uint64_t from)
{
    for (uint64_t i = 0; i < TF_LOG_BLOCK; i++) {
        if (bytes.data[from + i] != 0) {
            return false;
        }
    }
    return true;
}

START_TEST(log_reader_flipped_bit_in_any_block_is_named_and_costs_no_more_than_its_group)
{
    scene s;
    tf_test_random random;
    uint64_t end = 0;
    uint64_t hits = 0;
    set_up(&s, 12);
    tf_test_random_init(&random, 11);
    for (uint64_t number = 1; number <= 4; number++) {
        tf_file_name name;
        tf_log_file_name(number, &name);
        for (uint64_t at = 0; at < WORLD_SEGMENT; at += TF_LOG_BLOCK) {
            tf_slice bytes = tf_lossy_files_bytes(s.lossy, name.text);
            if (bytes.len == 0 || (is_blank(bytes, at) && at % 65536 != 0)) {
                continue;
            }
            uint64_t offset = at + tf_test_random_below(&random, TF_LOG_BLOCK);
            uint8_t mask = (uint8_t)(1u << tf_test_random_below(&random, 8));
            ck_assert(tf_lossy_files_flip(s.lossy, name.text, offset, mask));
            uint64_t damaged = replay(&s, &end);
            ck_assert_uint_le(damaged, 3);
            ck_assert_uint_eq(end, s.world.acked + 1); /* the mark at the end tells damage from a torn end */
            hits += damaged > 0 ? 1 : 0;
            world_close(&s.world);
            ck_assert(tf_lossy_files_flip(s.lossy, name.text, offset, mask));
        }
    }
    ck_assert_uint_gt(hits, 400);
    ck_assert_uint_eq(replay(&s, &end), 0);
    tear_down(&s);
}
END_TEST

/* Without the mark of a clean end. */
static void set_up_killed(scene *s, uint32_t groups)
{
    s->lossy = world_begin(&s->world);
    for (uint32_t i = 0; i < groups; i++) {
        ck_assert_int_eq(world_append(&s->world, 2, 1500, false), TF_OK);
    }
    tf_lossy_files_stop_at(s->lossy, 0);
    world_close(&s->world);
    tf_lossy_files_crash(s->lossy, 0);
}

#define FIRST_FILE "log/0000000000000001.log"

/* Where the n-th group begins, from 0. */
static uint64_t group_at(scene *s, uint64_t key, size_t n)
{
    uint64_t offset = TF_LOG_SEGMENT_HEADER;
    tf_log_group group;
    for (;; n--) {
        ck_assert(tf_log_group_find(tf_lossy_files_bytes(s->lossy, FIRST_FILE), key, 1, &offset, &group));
        if (n == 0) {
            return offset;
        }
        offset += tf_log_group_span(group.size);
    }
}

static uint64_t key_of(scene *s)
{
    tf_log_segment_header header;
    ck_assert_int_eq(tf_log_segment_read(tf_lossy_files_bytes(s->lossy, FIRST_FILE), &header), TF_OK);
    return header.key;
}

/* Damages the header of the group that begins at that LSN, in a file other than the first. */
static void flip_header(scene *s, uint64_t key, uint64_t first)
{
    for (uint64_t number = 2; number < 6; number++) {
        uint64_t offset = TF_LOG_SEGMENT_HEADER;
        tf_log_group group;
        tf_file_name name;
        tf_log_file_name(number, &name);
        if (tf_log_group_find(tf_lossy_files_bytes(s->lossy, name.text), key, number, &offset, &group) &&
            group.first == first) {
            ck_assert(tf_lossy_files_flip(s->lossy, name.text, offset + 3, 1));
            return;
        }
    }
    ck_abort_msg("no such group");
}

START_TEST(log_reader_torn_last_group_is_left_out_and_does_not_come_back)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        scene s;
        uint64_t end = 0;
        set_up_killed(&s, 5);
        uint64_t last = group_at(&s, key_of(&s), 4);
        ck_assert(tf_lossy_files_flip(s.lossy, FIRST_FILE, last + 900, 4));
        ck_assert_uint_eq(replay(&s, &end), 0);
        ck_assert_uint_eq(end, 9);
        ck_assert_uint_eq(tf_commit_log_report(s.world.log)->torn, 1);
        /* Other records under the same LSNs; then the torn ones are whole again, as on a disk that errs now and then. */
        s.world.acked = 8;
        s.world.salt++;
        ck_assert_int_eq(world_append(&s.world, 3, 700, false), TF_OK);
        world_close(&s.world);
        tf_lossy_files_crash(s.lossy, seed);
        ck_assert(tf_lossy_files_flip(s.lossy, FIRST_FILE, last + 900, 4));
        ck_assert_uint_eq(replay(&s, &end), 0);
        ck_assert_uint_eq(end, 12);
        world_close(&s.world);
        flip_header(&s, key_of(&s), 9); /* now nothing else has these LSNs */
        (void)replay(&s, &end);
        ck_assert_uint_eq(tf_commit_log_report(s.world.log)->records, 8);
        tear_down(&s);
    }
}
END_TEST

/* The group before is damaged, too: what was looked at of the torn one is not taken for what comes next. */
START_TEST(log_reader_torn_last_group_behind_damage_is_left_out)
{
    scene s;
    uint64_t end = 0;
    set_up_killed(&s, 5);
    uint64_t last = group_at(&s, key_of(&s), 4);
    ck_assert(tf_lossy_files_flip(s.lossy, FIRST_FILE, group_at(&s, key_of(&s), 3), 1));
    ck_assert(tf_lossy_files_flip(s.lossy, FIRST_FILE, last + 2000, 4)); /* its second record */
    ck_assert_uint_eq(replay(&s, &end), 2);
    ck_assert_uint_eq(end, 9);
    ck_assert_uint_eq(tf_commit_log_report(s.world.log)->records, 6);
    ck_assert_uint_eq(tf_commit_log_report(s.world.log)->torn, 1);
    tear_down(&s);
}
END_TEST

/* Where the n-th record of the first group begins, from 0. */
static uint64_t record_at(scene *s, size_t n)
{
    uint64_t at = group_at(s, key_of(s), 0) + TF_LOG_GROUP_HEADER;
    for (; n > 0; n--) {
        tf_slice bytes = tf_lossy_files_bytes(s->lossy, FIRST_FILE);
        size_t size = 0;
        uint64_t lsn = 0;
        ck_assert(tf_record_peek(tf_slice_of(bytes.data + at, bytes.len - at), &size, &lsn));
        at += size;
    }
    return at;
}

/* The index may have stopped within a group, which was acked in one piece: what is missing of it is damage, not a torn
 * end, and what is there stays. */
START_TEST(log_reader_group_that_the_index_has_in_part_is_whole_or_damaged)
{
    for (unsigned flipped = 1; flipped < 3; flipped++) {
        scene s = {.lossy = tf_lossy_files_new(UINT64_MAX)};
        uint64_t end = 0;
        world_init(&s.world, tf_lossy_files_get(s.lossy));
        world_recover(&s.world);
        ck_assert_int_eq(world_append(&s.world, 3, 1500, false), TF_OK);
        tf_lossy_files_stop_at(s.lossy, 0);
        world_close(&s.world);
        tf_lossy_files_crash(s.lossy, 0);
        ck_assert(tf_lossy_files_flip(s.lossy, FIRST_FILE, record_at(&s, flipped), 1));
        s.world.applied = 1;
        for (unsigned again = 0; again < 2; again++) {
            ck_assert_uint_eq(replay(&s, &end), 1);
            ck_assert_uint_eq(end, 4 + again);
            ck_assert_uint_eq(tf_commit_log_report(s.world.log)->records, 1 + again);
            if (again == 0) {
                ck_assert_int_eq(world_append(&s.world, 1, 100, false), TF_OK);
                world_close(&s.world);
            }
        }
        tear_down(&s);
    }
}
END_TEST

START_TEST(log_reader_group_that_was_written_again_counts_there_alone)
{
    scene s = {.lossy = tf_lossy_files_new(UINT64_MAX)};
    uint64_t end = 0;
    for (uint64_t seed = 0; seed < 20 && end == 0; seed++) { /* until the disk has the group that failed */
        tf_lossy_files_free(s.lossy);
        s.lossy = tf_lossy_files_new(UINT64_MAX);
        tf_lossy_files_seed(s.lossy, seed);
        world_init(&s.world, tf_lossy_files_get(s.lossy));
        world_recover(&s.world);
        ck_assert_int_eq(world_append(&s.world, 2, 1500, false), TF_OK);
        tf_lossy_files_fail_sync_at(s.lossy, 0);
        ck_assert_int_eq(world_append(&s.world, 6, 1500, false), TF_ERR_IO);
        ck_assert_int_eq(world_retry(&s.world, NULL), TF_OK);
        ck_assert_int_eq(world_append(&s.world, 1, 100, false), TF_OK);
        world_close(&s.world);
        tf_lossy_files_crash(s.lossy, seed);
        uint64_t offset = TF_LOG_SEGMENT_HEADER + 512 * 7;
        tf_log_group group;
        bool there = tf_log_group_find(tf_lossy_files_bytes(s.lossy, FIRST_FILE), key_of(&s), 1, &offset, &group);
        end = there ? offset : 0;
    }
    ck_assert_uint_gt(end, 0);
    ck_assert(tf_lossy_files_flip(s.lossy, FIRST_FILE, end + 2500, 1)); /* not in its first record, nor its last */
    ck_assert_uint_eq(replay(&s, &end), 0);
    ck_assert_uint_eq(end, 10);
    tear_down(&s);
}
END_TEST

START_TEST(log_reader_old_groups_in_recycled_segments_are_not_believed)
{
    scene s;
    uint64_t end = 0;
    set_up(&s, 12);
    world_recover(&s.world);
    uint64_t released = s.world.acked;
    world_release(&s.world, released);
    ck_assert_int_eq(world_prepare(&s.world), TF_OK);
    ck_assert_int_eq(world_append(&s.world, 1, 1000, false), TF_OK);
    world_close(&s.world);
    s.world.applied = 0; /* as if it had been forgotten that all of it was in the index */
    tf_commit_log_stats stats;
    uint64_t damaged = replay(&s, &end);
    tf_commit_log_get_stats(s.world.log, &stats);
    ck_assert_uint_eq(end, released + 2);
    ck_assert_uint_ge(damaged, released / 2);
    ck_assert_uint_eq(tf_commit_log_report(s.world.log)->records + damaged, released + 1);
    tear_down(&s);
}
END_TEST

START_TEST(log_reader_damage_below_what_is_known_durable_is_named_record_by_record)
{
    scene s;
    uint64_t end = 0;
    set_up_killed(&s, 5);
    uint64_t third = group_at(&s, key_of(&s), 2);
    ck_assert(tf_lossy_files_flip(s.lossy, FIRST_FILE, third + 400, 1)); /* in the body of 6: 5 is short */
    ck_assert_uint_eq(replay(&s, &end), 1);
    const tf_log_report *report = tf_commit_log_report(s.world.log);
    ck_assert_uint_eq(report->range_count, 1);
    ck_assert_uint_eq(report->ranges[0].first, 6);
    ck_assert_uint_eq(report->ranges[0].last, 6);
    ck_assert_uint_eq(report->torn, 0);
    ck_assert_uint_eq(end, 11);
    ck_assert_int_eq(world_append(&s.world, 2, 100, false), TF_OK);
    tear_down(&s);
}
END_TEST

START_TEST(log_reader_missing_segment_is_damage)
{
    scene s;
    uint64_t end = 0;
    set_up(&s, 12);
    tf_files files = tf_lossy_files_get(s.lossy);
    ck_assert_int_eq(files.table->remove(files.ctx, FIRST_FILE), TF_OK);
    uint64_t damaged = replay(&s, &end);
    ck_assert_uint_gt(damaged, 3);
    ck_assert_uint_eq(tf_commit_log_report(s.world.log)->ranges[0].first, 1);
    ck_assert_uint_eq(tf_commit_log_report(s.world.log)->ranges[0].last, damaged);
    ck_assert_uint_eq(end, s.world.acked + 1);
    world_close(&s.world);
    s.world.applied = damaged;
    ck_assert_uint_eq(replay(&s, &end), 0); /* what the index has is not missed */
    tear_down(&s);
}
END_TEST

START_TEST(log_reader_unreadable_sector_costs_what_is_in_it)
{
    scene s;
    uint64_t end = 0;
    uint64_t n = 0;
    tf_lossy_counts counts;
    set_up(&s, 12);
    do { /* each read in turn */
        tf_lossy_files_get_counts(s.lossy, &counts);
        uint64_t faults = counts.faults;
        tf_lossy_files_fail_at(s.lossy, n++, TF_LOSSY_ERROR, false);
        tf_err err = world_open(&s.world);
        if (err == TF_OK) {
            world_close(&s.world);
        } else {
            ck_assert_int_eq(err, TF_ERR_IO);
        }
        tf_lossy_files_get_counts(s.lossy, &counts);
        if (counts.faults == faults) {
            break;
        }
    } while (n < 1000);
    ck_assert_uint_gt(n, 15);
    tf_lossy_files_fail_at(s.lossy, UINT64_MAX, TF_LOSSY_ERROR, false);
    ck_assert_uint_eq(replay(&s, &end), 0);
    tear_down(&s);
}
END_TEST

/* -- headers and versions ------------------------------------------------------------------------------------------- */

static void write_bytes(scene *s, const char *name, uint64_t offset, tf_slice bytes)
{
    tf_files files = tf_lossy_files_get(s->lossy);
    tf_file *file = NULL;
    ck_assert_int_eq(tf_files_open(&files, name, TF_FILE_WRITE, &file), TF_OK);
    ck_assert_int_eq(tf_files_write(&files, file, offset, bytes), TF_OK);
    tf_files_close(&files, file);
    tf_lossy_files_settle(s->lossy);
}

START_TEST(log_reader_later_version_is_refused_and_names_both)
{
    scene s;
    uint8_t block[TF_LOG_BLOCK];
    char why[TF_WHY_MAX] = "";
    set_up(&s, 2);
    memcpy(block, tf_lossy_files_bytes(s.lossy, FIRST_FILE).data, sizeof(block));
    block[19] = TF_LOG_VERSION + 6; /* the lowest byte of the version */
    uint64_t checksum = XXH3_64bits(block + 16, sizeof(block) - 16);
    for (int i = 0; i < 8; i++) {
        block[15 - i] = (uint8_t)(checksum >> (8 * i));
    }
    write_bytes(&s, FIRST_FILE, 0, tf_slice_of(block, sizeof(block)));
    tf_lossy_counts before;
    tf_lossy_counts after;
    tf_lossy_files_get_counts(s.lossy, &before);
    const tf_commit_log_config config = {.files = s.world.files, .mem = tf_test_mem(), .rand = tf_test_rand(1)};
    ck_assert_int_eq(tf_commit_log_open(&s.world.log, &config, 0, why), TF_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(why, "version 7"));
    ck_assert_ptr_nonnull(strstr(why, "up to 1"));
    tf_lossy_files_get_counts(s.lossy, &after);
    ck_assert_uint_eq(before.writes, after.writes);
    s.world.log = NULL;
    tear_down(&s);
}
END_TEST

START_TEST(log_reader_log_without_any_valid_header_starts_and_says_so)
{
    static const uint8_t zeros[TF_LOG_SEGMENT_HEADER];
    scene s;
    set_up(&s, 6);
    for (uint64_t number = 1; number <= 4; number++) {
        tf_file_name name;
        tf_log_file_name(number, &name);
        if (tf_lossy_files_bytes(s.lossy, name.text).len > 0) {
            write_bytes(&s, name.text, 0, tf_slice_of(zeros, sizeof(zeros)));
        }
    }
    tf_log_item item;
    ck_assert_int_eq(world_open(&s.world), TF_OK);
    ck_assert_int_eq(tf_commit_log_next(s.world.log, &item), TF_ERR_CLOSED);
    ck_assert_uint_gt(tf_commit_log_report(s.world.log)->unreadable, 0);
    s.world.acked = 0;
    ck_assert_int_eq(world_append(&s.world, 2, 100, false), TF_OK);
    world_crash(&s.world, s.lossy, 1);
    tear_down(&s);
}
END_TEST

/* -- live ----------------------------------------------------------------------------------------------------------- */

static tf_err open_live(scene *s, uint64_t from, tf_log_reader **out)
{
    const tf_log_reader_config config = {.files = s->world.files, .mem = tf_test_mem(), .from = from, .live = true};
    return tf_log_reader_new(out, &config, NULL);
}

/* Reads to the end; gives the last LSN. */
static tf_err read_live(scene *s, tf_log_reader *reader, uint64_t from, uint64_t *last)
{
    tf_log_item item;
    tf_err err = TF_OK;
    *last = from;
    while ((err = tf_log_reader_next(reader, &item)) == TF_OK) {
        ck_assert_int_eq(item.type, TF_LOG_RECORD);
        ck_assert_uint_eq(item.record.lsn, *last + 1);
        world_check_record(&s->world, &item);
        *last = item.record.lsn;
    }
    return err;
}

START_TEST(log_reader_reads_a_log_that_is_being_written)
{
    scene s;
    tf_log_reader *reader = NULL;
    tf_log_item item;
    uint64_t last = 0;
    set_up(&s, 4);
    world_recover(&s.world);
    ck_assert_int_eq(world_append(&s.world, 2, 3000, false), TF_OK);
    ck_assert_int_eq(open_live(&s, 3, &reader), TF_OK);
    ck_assert_int_eq(tf_log_reader_next(reader, &item), TF_OK);
    ck_assert_uint_eq(item.record.lsn, 4);
    ck_assert_int_eq(world_append(&s.world, 2, 3000, false), TF_OK); /* while it reads */
    ck_assert_int_eq(read_live(&s, reader, 4, &last), TF_ERR_CLOSED);
    ck_assert_uint_ge(last, s.world.acked - 2);
    tf_log_reader_free(reader);
    ck_assert_int_eq(open_live(&s, 0, &reader), TF_OK);
    ck_assert_int_eq(read_live(&s, reader, 0, &last), TF_ERR_CLOSED);
    ck_assert_uint_eq(last, s.world.acked);
    ck_assert_uint_eq(tf_log_reader_report(reader)->damaged, 0);
    tf_log_reader_free(reader);
    tear_down(&s);
}
END_TEST

START_TEST(log_reader_live_says_when_what_it_needs_was_recycled)
{
    scene s;
    tf_log_reader *reader = NULL;
    tf_log_reader *late = NULL;
    uint64_t last = 0;
    set_up(&s, 12);
    world_recover(&s.world);
    ck_assert_int_eq(open_live(&s, 0, &reader), TF_OK);
    world_release(&s.world, s.world.acked);
    for (int i = 0; i < 12; i++) {
        ck_assert_int_eq(world_append(&s.world, 1, 60000, false), TF_OK);
        ck_assert_int_eq(world_prepare(&s.world), TF_OK);
    }
    ck_assert_int_eq(read_live(&s, reader, 0, &last), TF_ERR_AGAIN);
    ck_assert_uint_eq(last, 0);
    ck_assert_int_eq(open_live(&s, 0, &late), TF_OK);
    ck_assert_int_eq(read_live(&s, late, 0, &last), TF_ERR_AGAIN);
    tf_log_reader_free(late);
    tf_log_reader_free(reader);
    ck_assert_int_eq(open_live(&s, s.world.applied, &reader), TF_OK);
    ck_assert_int_eq(read_live(&s, reader, s.world.applied, &last), TF_ERR_CLOSED);
    ck_assert_uint_eq(last, s.world.acked);
    tf_log_reader_free(reader);
    tear_down(&s);
}
END_TEST

START_TEST(log_reader_of_no_log_is_at_its_end)
{
    scene s = {.lossy = tf_lossy_files_new(UINT64_MAX)};
    tf_log_reader *reader = NULL;
    tf_log_item item;
    world_init(&s.world, tf_lossy_files_get(s.lossy));
    ck_assert_int_eq(open_live(&s, 0, &reader), TF_OK);
    ck_assert_int_eq(tf_log_reader_next(reader, &item), TF_ERR_CLOSED);
    tf_log_reader_free(reader);
    tear_down(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {log_reader_flipped_bit_in_any_block_is_named_and_costs_no_more_than_its_group,
                                  log_reader_torn_last_group_is_left_out_and_does_not_come_back,
                                  log_reader_torn_last_group_behind_damage_is_left_out,
                                  log_reader_group_that_the_index_has_in_part_is_whole_or_damaged,
                                  log_reader_group_that_was_written_again_counts_there_alone,
                                  log_reader_old_groups_in_recycled_segments_are_not_believed,
                                  log_reader_damage_below_what_is_known_durable_is_named_record_by_record,
                                  log_reader_missing_segment_is_damage,
                                  log_reader_unreadable_sector_costs_what_is_in_it,
                                  log_reader_later_version_is_refused_and_names_both,
                                  log_reader_log_without_any_valid_header_starts_and_says_so,
                                  log_reader_reads_a_log_that_is_being_written,
                                  log_reader_live_says_when_what_it_needs_was_recycled,
                                  log_reader_of_no_log_is_at_its_end,
                                  NULL};
    return tf_test_run_waiting("node/store/log_reader", tests);
}
