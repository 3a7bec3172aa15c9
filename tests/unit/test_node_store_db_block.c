/* node/store/db_block and db_part: what is written is read again, and what was changed is not. */
#include "node/store/db_part.h"
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
                                         part_gives_what_was_written,
                                         part_every_changed_byte_is_found,
                                         part_key_is_compared_as_a_tuple,
                                         NULL};
    int status = tf_test_run("node/store/db_block", tests);
    if (writer.mem != NULL) { /* with CK_FORK=no */
        tf_db_block_writer_clear(&writer);
    }
    return status;
}
