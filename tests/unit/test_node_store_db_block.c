/* node/store/db_block and db_part: what is written is read again, and what was changed is not. */
#include <xxhash.h>

#include "node/store/db_part.h"
#include "proto/wire.h"
#include "tests/unit/db_world.h"

static tf_db_block_writer writer;

static tf_slice write_block(uint64_t channel, uint64_t first, size_t count, size_t size)
{
    tf_slice bytes;
    if (writer.mem == NULL) {
        tf_db_block_writer_init(&writer, tf_test_mem());
    }
    tf_db_block_writer_start(&writer, channel);
    for (size_t i = 0; i < count; i++) {
        made m;
        world_make(&m, channel, first + i, size);
        ck_assert_int_eq(tf_db_block_writer_add(&writer, &m.stored), TF_OK);
        free(m.body);
    }
    ck_assert_int_eq(tf_db_block_writer_end(&writer, &bytes), TF_OK);
    return bytes;
}

START_TEST(block_gives_what_was_written)
{
    static const struct {
        size_t count;
        size_t size;
    } cases[] = {{1, 0}, {1, 1}, {2, 100}, {TF_DB_BLOCK_MESSAGES, 10}, {1, TF_BODY_MAX}, {100, 500}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        tf_slice bytes = write_block(7, 41, cases[i].count, cases[i].size);
        tf_db_block *block = NULL;
        ck_assert_int_eq(tf_db_block_read(&block, tf_test_mem(), 7, 41, cases[i].count, bytes), TF_OK);
        ck_assert_uint_eq(tf_db_block_channel(block), 7);
        ck_assert_uint_eq(tf_db_block_first(block), 41);
        ck_assert_uint_eq(tf_db_block_last(block), 40 + cases[i].count);
        ck_assert_uint_ge(tf_db_block_size(block), bytes.len);
        tf_stored got;
        ck_assert(!tf_db_block_message(block, 40, &got));
        ck_assert(!tf_db_block_message(block, 41 + cases[i].count, &got));
        for (uint64_t seq = 41; seq < 41 + cases[i].count; seq++) {
            made m;
            world_make(&m, 7, seq, cases[i].size);
            ck_assert(tf_db_block_message(block, seq, &got) && world_is_same(&got, &m.stored));
            free(m.body);
        }
        tf_db_block_free(block);
    }
}
END_TEST

START_TEST(block_full_changes_nothing)
{
    made m;
    tf_slice bytes = write_block(1, 1, TF_DB_BLOCK_MESSAGES, 0);
    size_t len = bytes.len;
    world_make(&m, 1, TF_DB_BLOCK_MESSAGES + 1, 0);
    ck_assert_int_eq(tf_db_block_writer_add(&writer, &m.stored), TF_ERR_LIMIT_ITEMS);
    ck_assert_int_eq(tf_db_block_writer_end(&writer, &bytes), TF_OK);
    ck_assert_uint_eq(bytes.len, len);
    free(m.body);
    (void)write_block(1, 1, 2, 1000); /* a large one behind small ones gets a block of its own */
    world_make(&m, 1, 3, 100000);
    ck_assert_int_eq(tf_db_block_writer_add(&writer, &m.stored), TF_ERR_LIMIT_ITEMS);
    ck_assert_uint_eq(writer.count, 2);
    free(m.body);
}
END_TEST

START_TEST(block_every_changed_byte_is_found)
{
    tf_slice bytes = write_block(3, 9, 4, 30);
    tf_db_block *block = NULL;
    for (size_t i = 0; i < bytes.len; i++) {
        uint8_t *copy = tf_test_exact(bytes);
        copy[i] ^= (uint8_t)(1u << i % 8);
        ck_assert_int_eq(tf_db_block_read(&block, tf_test_mem(), 3, 9, 4, tf_slice_of(copy, bytes.len)), TF_ERR_DAMAGED);
        free(copy);
        copy = tf_test_exact(tf_slice_of(bytes.data, i));
        ck_assert_int_eq(tf_db_block_read(&block, tf_test_mem(), 3, 9, 4, tf_slice_of(copy, i)), TF_ERR_DAMAGED);
        free(copy);
    }
}
END_TEST

START_TEST(block_elsewhere_is_refused)
{
    static const uint64_t wrong[][3] = {{4, 9, 4}, {3, 8, 4}, {3, 9, 3},          {3, 9, 5},
                                        {3, 0, 4}, {3, 9, 0}, {3, UINT64_MAX, 4}, {3, 9, UINT64_MAX}};
    tf_slice bytes = write_block(3, 9, 4, 30);
    tf_db_block *block = NULL;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        ck_assert_int_eq(tf_db_block_read(&block, tf_test_mem(), wrong[i][0], wrong[i][1], wrong[i][2], bytes),
                         TF_ERR_DAMAGED);
    }
    ck_assert_int_eq(tf_db_block_read(&block, tf_test_mem(), 3, 9, 4, bytes), TF_OK);
    tf_db_block_free(block);
}
END_TEST

/* The checksum of what was changed, at its end. */
static void sum_again(uint8_t *bytes, size_t len)
{
    tf_writer w;
    tf_wr_init(&w, bytes + len - 8, 8);
    tf_wr_u64(&w, XXH3_64bits(bytes, len - 8));
}

#define HEADER_LEN 29u /* version, channel, first, count, time; behind it flags, and the number of an origin */

static tf_slice write_two(int64_t apart, const char *client_id)
{
    tf_slice bytes;
    if (writer.mem == NULL) {
        tf_db_block_writer_init(&writer, tf_test_mem());
    }
    tf_db_block_writer_start(&writer, 3);
    for (uint64_t seq = 9; seq <= 10; seq++) {
        tf_stored m = {.seq = seq, .epoch = 5, .timestamp_ms = seq == 9 ? 0 : apart, .client_id = tf_slice_str(client_id)};
        ck_assert_int_eq(tf_db_block_writer_add(&writer, &m), TF_OK);
    }
    ck_assert_int_eq(tf_db_block_writer_end(&writer, &bytes), TF_OK);
    return bytes;
}

/* Its sum is right: it was written by a fault, or by another version. */
START_TEST(block_that_cannot_be_is_damaged_whatever_its_sum)
{
    enum { AS_IT_WAS, VERSION, FLAGS, CUT, TIME, LONG_ID, CASES };
    char id[TF_CLIENT_ID_MAX + 1] = "";
    memset(id, 'x', TF_CLIENT_ID_MAX);
    for (int i = AS_IT_WAS; i < CASES; i++) {
        uint8_t copy[1024];
        tf_db_block *block = NULL;
        tf_slice bytes = write_two(7, id);
        ck_assert_uint_lt(bytes.len, sizeof(copy));
        memcpy(copy, bytes.data, bytes.len);
        size_t len = i == CUT ? HEADER_LEN + 20 : bytes.len;
        copy[0] ^= i == VERSION ? 2u : 0u;
        copy[HEADER_LEN] |= i == FLAGS ? 0x80u : 0u;
        if (i == TIME) { /* the second one would come after the end of time */
            memset(copy + 21, 0xff, 8);
            copy[21] = 0x7f;
        }
        if (i == LONG_ID) {
            uint8_t *at = memchr(copy + HEADER_LEN, 'x', len);
            memmove(at + 1, at, len - (size_t)(at - copy));
            at[-1]++;
            len++;
        }
        sum_again(copy, len);
        tf_err err = tf_db_block_read(&block, tf_test_mem(), 3, 9, 2, tf_slice_of(copy, len));
        ck_assert_msg(err == (i == AS_IT_WAS ? TF_OK : TF_ERR_DAMAGED), "case %d: %d", i, (int)err);
        tf_db_block_free(block);
    }
}
END_TEST

START_TEST(block_is_described_only_if_its_sum_is_right)
{
    uint8_t copy[256];
    uint64_t of[3];
    tf_slice bytes = write_two(7, "c");
    ck_assert_uint_lt(bytes.len, sizeof(copy));
    memcpy(copy, bytes.data, bytes.len);
    ck_assert(tf_db_block_describe(bytes, &of[0], &of[1], &of[2]) && of[0] == 3 && of[1] == 9 && of[2] == 2);
    ck_assert(!tf_db_block_describe(tf_slice_of(copy, HEADER_LEN + 7), &of[0], &of[1], &of[2]));
    copy[0]++;
    ck_assert(!tf_db_block_describe(tf_slice_of(copy, bytes.len), &of[0], &of[1], &of[2]));
    sum_again(copy, bytes.len);
    ck_assert(!tf_db_block_describe(tf_slice_of(copy, bytes.len), &of[0], &of[1], &of[2]));
}
END_TEST

START_TEST(block_writer_without_memory_changes_nothing)
{
    uint64_t failed = 0;
    for (size_t len = 0; len < 600; len += 7) {
        static const uint8_t body[600];
        tf_test_heap heap;
        tf_db_block_writer own;
        tf_slice bytes;
        tf_db_block *block = NULL;
        tf_test_heap_init(&heap);
        tf_db_block_writer_init(&own, &heap.mem);
        tf_db_block_writer_start(&own, 3);
        for (uint64_t seq = 9; seq <= 40; seq++) {
            tf_stored m = {.seq = seq, .client_id = tf_slice_str("c"), .body = tf_slice_of(body, len)};
            tf_test_heap_fail_at(&heap, 0, false);
            tf_err err = tf_db_block_writer_add(&own, &m);
            tf_test_heap_fail_never(&heap);
            failed += err == TF_ERR_NOMEM ? 1u : 0u;
            ck_assert(err == TF_OK || tf_db_block_writer_add(&own, &m) == TF_OK);
        }
        tf_test_heap_fail_at(&heap, 0, false);
        ck_assert_int_eq(tf_db_block_writer_end(&own, &bytes), TF_OK); /* what comes at the end has its room */
        tf_test_heap_fail_never(&heap);
        ck_assert_int_eq(tf_db_block_read(&block, tf_test_mem(), 3, 9, 32, bytes), TF_OK);
        tf_db_block_free(block);
        tf_db_block_writer_clear(&own);
        ck_assert_uint_eq(heap.live_blocks, 0);
    }
    ck_assert_uint_gt(failed, 0);
}
END_TEST

/* -- parts --------------------------------------------------------------------------------------------------------- */

#define ENTRIES 300u

static void make_entries(tf_db_entry *out, tf_node_id *origins, char (*ids)[24])
{
    for (size_t i = 0; i < ENTRIES; i++) {
        memset(&origins[i], (int)(i % 7), sizeof(origins[i]));
        int len = snprintf(ids[i], sizeof(ids[i]), "id-%zu", i);
        out[i] = (tf_db_entry){.hash = i / 2 * 1000, /* some collide */
                               .channel = i % 5,
                               .origin = origins[i].bytes,
                               .client_id = tf_slice_of(ids[i], (size_t)len),
                               .key = {i + 1, i * 3, (int64_t)i - 5, ~i}};
    }
}

START_TEST(part_gives_what_was_written)
{
    static tf_db_entry entries[ENTRIES];
    static tf_node_id origins[ENTRIES];
    static char ids[ENTRIES][24];
    make_entries(entries, origins, ids);
    size_t room = tf_db_part_room(ENTRIES);
    uint8_t *bytes = malloc(room);
    ck_assert_ptr_nonnull(bytes);
    tf_slice part = tf_slice_of(bytes, tf_db_part_write(entries, ENTRIES, bytes, room));
    tf_db_entries list = {.mem = tf_test_mem()};
    ck_assert_int_eq(tf_db_part_read(part, &list), TF_OK);
    ck_assert_uint_eq(list.count, ENTRIES);
    for (size_t i = 0; i < ENTRIES; i++) {
        tf_store_key key;
        ck_assert(tf_db_entry_is_same(&list.at[i], &entries[i]));
        ck_assert_int_eq(tf_db_part_find(part, &entries[i], &key), TF_OK);
        ck_assert(key.seq == i + 1 && key.epoch == i * 3 && key.timestamp_ms == (int64_t)i - 5 && key.digest == ~i);
        tf_db_entry other = entries[i];
        other.channel += 5;
        ck_assert_int_eq(tf_db_part_find(part, &other, &key), TF_ERR_CLOSED);
    }
    tf_db_entries_clear(&list);
    free(bytes);
}
END_TEST

START_TEST(part_every_changed_byte_is_found)
{
    static tf_db_entry entries[ENTRIES];
    static tf_node_id origins[ENTRIES];
    static char ids[ENTRIES][24];
    make_entries(entries, origins, ids);
    uint8_t bytes[1024];
    size_t len = tf_db_part_write(entries, 4, bytes, sizeof(bytes));
    for (size_t i = 0; i < len; i++) {
        tf_store_key key;
        tf_db_entries list = {.mem = tf_test_mem()};
        bytes[i] ^= 0x10;
        ck_assert_int_eq(tf_db_part_read(tf_slice_of(bytes, len), &list), TF_ERR_DAMAGED);
        ck_assert_int_eq(tf_db_part_find(tf_slice_of(bytes, len), &entries[0], &key), TF_ERR_DAMAGED);
        bytes[i] ^= 0x10;
        ck_assert_int_eq(tf_db_part_read(tf_slice_of(bytes, i), &list), TF_ERR_DAMAGED);
        tf_db_entries_clear(&list);
    }
}
END_TEST

/* More origins than a part remembers: those beyond are written again and again. */
START_TEST(part_of_many_origins_gives_what_was_written)
{
    static tf_db_entry entries[ENTRIES];
    static tf_node_id origins[ENTRIES];
    static char ids[ENTRIES][24];
    static uint8_t bytes[ENTRIES * 256];
    tf_db_entries list = {.mem = tf_test_mem()};
    make_entries(entries, origins, ids);
    for (size_t i = 0; i < ENTRIES; i++) {
        memset(&origins[i], (int)(i % 256), sizeof(origins[i]));
        origins[i].bytes[0] = (uint8_t)(i / 256);
    }
    tf_slice part = tf_slice_of(bytes, tf_db_part_write(entries, ENTRIES, bytes, sizeof(bytes)));
    ck_assert_int_eq(tf_db_part_read(part, &list), TF_OK);
    ck_assert_uint_eq(list.count, ENTRIES);
    for (size_t i = 0; i < ENTRIES; i++) {
        ck_assert(tf_db_entry_is_same(&list.at[i], &entries[i]));
    }
    tf_db_entries_clear(&list);
}
END_TEST

START_TEST(part_that_cannot_be_is_damaged_whatever_its_sum)
{
    enum { AS_IT_WAS, VERSION, CUT, LONG_ID, CASES };
    char id[TF_CLIENT_ID_MAX + 2] = "";
    tf_node_id origin = {{1}};
    memset(id, 'x', TF_CLIENT_ID_MAX + 1);
    tf_db_entry entry = {.origin = origin.bytes, .client_id = tf_slice_of(id, TF_CLIENT_ID_MAX)};
    for (int i = AS_IT_WAS; i < CASES; i++) {
        uint8_t bytes[512];
        tf_store_key key;
        tf_db_entries list = {.mem = tf_test_mem()};
        size_t len = tf_db_part_write(&entry, 1, bytes, sizeof(bytes));
        bytes[0] ^= i == VERSION ? 2u : 0u;
        len -= i == CUT ? 1u : 0u;
        if (i == LONG_ID) { /* the id is the last of all; its length stands before it */
            bytes[len - 8 - TF_CLIENT_ID_MAX - 1]++;
            bytes[len - 8] = 'x';
            len++;
        }
        sum_again(bytes, len);
        tf_err expected = i == AS_IT_WAS ? TF_OK : TF_ERR_DAMAGED;
        ck_assert_msg(tf_db_part_read(tf_slice_of(bytes, len), &list) == expected, "case %d", i);
        ck_assert_msg(tf_db_part_find(tf_slice_of(bytes, len), &entry, &key) == expected, "case %d", i);
        tf_db_entries_clear(&list);
    }
}
END_TEST

START_TEST(part_without_memory_for_its_entries_says_so)
{
    tf_test_heap heap;
    uint8_t bytes[512];
    tf_node_id origin = {{1}};
    tf_db_entry entry = {.origin = origin.bytes, .client_id = tf_slice_str("c")};
    size_t len = tf_db_part_write(&entry, 1, bytes, sizeof(bytes));
    tf_test_heap_init(&heap);
    tf_db_entries list = {.mem = &heap.mem};
    tf_test_heap_fail_at(&heap, 0, false);
    ck_assert_int_eq(tf_db_part_read(tf_slice_of(bytes, len), &list), TF_ERR_NOMEM);
    ck_assert_int_eq(tf_db_part_read(tf_slice_of(bytes, len), &list), TF_OK);
    tf_db_entries_clear(&list);
    ck_assert_uint_eq(heap.live_blocks, 0);
}
END_TEST

/* Two keys of one hash are the same only if all of them is. */
START_TEST(part_keys_of_one_hash_are_told_apart)
{
    tf_node_id origins[2] = {{{1}}, {{2}}};
    const tf_db_entry entry = {
        .hash = 5, .channel = 1, .origin = origins[0].bytes, .client_id = tf_slice_str("c"), .key = {.seq = 9}};
    tf_db_entry other = entry;
    other.key.seq = 10;
    ck_assert(tf_db_entry_is_same(&entry, &other)); /* whatever it says */
    other.hash = 6;
    ck_assert(!tf_db_entry_is_same(&entry, &other));
    other = entry;
    other.channel = 2;
    ck_assert(!tf_db_entry_is_same(&entry, &other));
    other = entry;
    other.origin = origins[1].bytes;
    ck_assert(!tf_db_entry_is_same(&entry, &other));
    other = entry;
    other.client_id = tf_slice_str("d");
    ck_assert(!tf_db_entry_is_same(&entry, &other));
}
END_TEST

START_TEST(part_key_is_compared_as_a_tuple)
{
    tf_node_id origin = {{0}};
    tf_slice ab = tf_slice_str("ab");
    uint64_t hash = tf_db_entry_hash(1, 2, &origin, ab);
    ck_assert_uint_ne(hash, tf_db_entry_hash(2, 2, &origin, ab)); /* the secret */
    ck_assert_uint_ne(hash, tf_db_entry_hash(1, 3, &origin, ab));
    ck_assert_uint_ne(hash, tf_db_entry_hash(1, 2, &origin, tf_slice_str("a")));
    origin.bytes[TF_NODE_ID_LEN - 1] = 'a';
    ck_assert_uint_ne(hash, tf_db_entry_hash(1, 2, &origin, tf_slice_str("b")));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {block_gives_what_was_written,
                                         block_full_changes_nothing,
                                         block_every_changed_byte_is_found,
                                         block_elsewhere_is_refused,
                                         block_that_cannot_be_is_damaged_whatever_its_sum,
                                         block_is_described_only_if_its_sum_is_right,
                                         block_writer_without_memory_changes_nothing,
                                         part_gives_what_was_written,
                                         part_of_many_origins_gives_what_was_written,
                                         part_that_cannot_be_is_damaged_whatever_its_sum,
                                         part_without_memory_for_its_entries_says_so,
                                         part_keys_of_one_hash_are_told_apart,
                                         part_every_changed_byte_is_found,
                                         part_key_is_compared_as_a_tuple,
                                         NULL};
    int status = tf_test_run("node/store/db_block", tests);
    if (writer.mem != NULL) { /* with CK_FORK=no */
        tf_db_block_writer_clear(&writer);
    }
    return status;
}
