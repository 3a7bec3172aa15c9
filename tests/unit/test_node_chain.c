/* Members of a table that share a key: the newest first, each taken out from wherever it is. */
#include "node/chain.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define MEMBERS 4u
#define KEY 7u

typedef struct member {
    unsigned number;
    tf_chain link;
} member;

static tf_test_heap heap;
static tf_map map;
static member members[MEMBERS];

static void begin(size_t count)
{
    tf_test_heap_init(&heap);
    tf_map_init(&map, &heap.mem, 1);
    for (unsigned i = 0; i < MEMBERS; i++) {
        members[i] = (member){.number = i};
    }
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(tf_chain_add(&map, KEY, &members[i].link), TF_OK);
    }
}

static void end(void)
{
    tf_map_clear(&map);
    ck_assert_uint_eq(heap.live_blocks, 0);
}

/* The members of the key, as a row of their numbers. */
static const char *row(void)
{
    static char text[MEMBERS + 1];
    size_t len = 0;
    for (tf_chain *at = tf_chain_first(&map, KEY); at != NULL && len < MEMBERS; at = at->next) {
        text[len++] = (char)('0' + TF_CONTAINER(at, member, link)->number);
    }
    text[len] = '\0';
    return text;
}

START_TEST(chain_members_of_one_key_come_newest_first)
{
    static const char *const rows[] = {"", "0", "10", "210"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin(i);
        ck_assert_str_eq(row(), rows[i]);
        ck_assert_ptr_null(tf_chain_first(&map, KEY + 1));
        end();
    }
}
END_TEST

START_TEST(chain_member_is_taken_out_wherever_it_is)
{
    static const struct {
        size_t count;
        unsigned out;
        const char *left;
    } rows[] = {{1, 0, ""}, {2, 0, "1"}, {2, 1, "0"}, {3, 0, "21"}, {3, 1, "20"}, {3, 2, "10"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin(rows[i].count);
        tf_chain_remove(&map, KEY, &members[rows[i].out].link);
        ck_assert_str_eq(row(), rows[i].left);
        ck_assert_uint_eq(map.count, rows[i].count > 1 ? 1 : 0);
        end();
    }
}
END_TEST

START_TEST(chain_member_that_is_not_there_changes_nothing)
{
    static const char *const rows[] = {"", "0", "10", "210"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin(i);
        tf_chain_remove(&map, KEY, &members[MEMBERS - 1].link);
        ck_assert_str_eq(row(), rows[i]);
        end();
    }
}
END_TEST

START_TEST(chain_without_memory_is_as_it_was)
{
    begin(0);
    tf_test_heap_fail_at(&heap, 0, false);
    ck_assert_int_eq(tf_chain_add(&map, KEY, &members[0].link), TF_ERR_NOMEM);
    ck_assert_str_eq(row(), "");
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        chain_members_of_one_key_come_newest_first,
        chain_member_is_taken_out_wherever_it_is,
        chain_member_that_is_not_there_changes_nothing,
        chain_without_memory_is_as_it_was,
        NULL,
    };
    return tf_test_run("node/chain", tests);
}
