/* node/store/log_segment: what has a right checksum, and cannot be all the same. */
#include <xxhash.h>

#include "node/store/log_segment.h"
#include "proto/wire.h"
#include "tests/support/check_main.h"

#define KEY 77u
#define VERSION_AT 16u /* in a segment's header; its checksum, of all from there on, is at 8 */

static tf_err read_version(uint32_t version)
{
    uint8_t block[TF_LOG_BLOCK];
    tf_log_segment_header header;
    tf_writer w;
    tf_log_segment_write(block, &(tf_log_segment_header){.number = 3, .key = KEY, .size = 1 << 20});
    tf_wr_init(&w, block + VERSION_AT, 4);
    tf_wr_u32(&w, version);
    tf_wr_init(&w, block + 8, 8);
    tf_wr_u64(&w, XXH3_64bits(block + VERSION_AT, sizeof(block) - VERSION_AT));
    return tf_log_segment_read(tf_slice_of(block, sizeof(block)), &header);
}

START_TEST(log_segment_of_a_later_version_is_told_from_damage)
{
    ck_assert_int_eq(read_version(TF_LOG_VERSION), TF_OK);
    ck_assert_int_eq(read_version(TF_LOG_VERSION + 1), TF_ERR_USAGE);
    ck_assert_int_eq(read_version(TF_LOG_VERSION - 1), TF_ERR_DAMAGED);
}
END_TEST

static bool finds(const tf_log_group *group, size_t blocks, bool other_version)
{
    uint8_t bytes[4 * TF_LOG_BLOCK] = {0};
    uint64_t offset = 0;
    tf_log_group found;
    tf_log_group_write(bytes, KEY, group);
    bytes[13] ^= other_version ? 2u : 0u; /* behind the checksum and the magic */
    return tf_log_group_find(tf_slice_of(bytes, blocks * TF_LOG_BLOCK), KEY, 3, &offset, &found);
}

START_TEST(log_group_that_cannot_be_is_none)
{
    const tf_log_group good = {.segment = 3, .first = 9, .durable = 8, .count = 1, .size = 2 * TF_LOG_BLOCK};
    ck_assert(finds(&good, 4, false) && finds(&good, 3, false));
    ck_assert(!finds(&good, 4, true));
    ck_assert(!finds(&good, 2, false)); /* it would end behind the file */
    tf_log_group group = good;
    group.segment = 2;
    ck_assert(!finds(&group, 4, false));
    group = good;
    group.durable = 9;
    ck_assert(!finds(&group, 4, false));
    group = good;
    group.first = TF_LOG_LSN_MAX;
    ck_assert(!finds(&group, 4, false));
    group.first = TF_LOG_LSN_MAX - 1;
    ck_assert(finds(&group, 4, false));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {log_segment_of_a_later_version_is_told_from_damage, log_group_that_cannot_be_is_none,
                                  NULL};
    return tf_test_run("node/store/log_segment", tests);
}
