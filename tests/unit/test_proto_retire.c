#include "proto/retire.h"

#include "tests/support/check_main.h"
#include "tests/support/support.h"

static tf_refs refs;
static tf_clist clist;
static tf_retire table;

static void begin(void)
{
    ck_assert_int_eq(tf_refs_init(&refs, tf_test_mem(), 5), TF_OK);
    tf_clist_init(&clist, NULL, TF_SIDE_DIALLER, &refs, tf_test_mem(), 5);
    tf_retire_init(&table, tf_test_mem());
}

static void end(void)
{
    tf_retire_clear(&table);
    tf_clist_clear(&clist);
    tf_refs_clear(&refs);
}

/* What nobody refers to any more goes. */
static void sweep(void)
{
    for (tf_record *record; (record = tf_refs_take_idle(&refs)) != NULL;) {
        if (record->count == 0 && record->owner == NULL && record->import == NULL) {
            tf_refs_remove(&refs, record);
        }
    }
}

static tf_record *record_of(tf_ref_kind kind)
{
    sweep();
    ck_assert_int_eq(tf_refs_reserve(&refs, 1), TF_OK);
    return tf_refs_add(&refs, kind);
}

/* A promise of ours, resolved by our message `number`. */
static tf_ref retire(uint64_t ref_number, uint64_t number)
{
    tf_ref ref = tf_ref_make(ref_number, TF_REF_PROMISE, TF_SIDE_DIALLER);
    ck_assert_int_eq(tf_clist_reserve(&clist, 1), TF_OK);
    tf_clist_entry *entry = tf_clist_add(&clist, ref, record_of(TF_REF_PROMISE), TF_CLIST_EXPORT);
    tf_clist_retire(&clist, entry, number);
    ck_assert_int_eq(tf_retire_reserve(&table, 1, &clist), TF_OK);
    tf_retire_push(&table, number, ref, TF_RETIRE_PROMISE);
    return ref;
}

START_TEST(retire_ack_takes_a_prefix)
{
    static const struct {
        uint64_t acked;
        size_t due;
    } rows[] = {{0, 0}, {3, 0}, {4, 1}, {5, 1}, {6, 3}, {8, 3}, {9, 4}, {UINT64_MAX, 4}};
    static const uint64_t numbers[] = {3, 5, 5, 8};
    begin();
    for (uint64_t i = 0; i < 4; i++) {
        (void)retire(i, numbers[i]);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_uint_eq(tf_retire_due(&table, rows[i].acked), rows[i].due);
    }
    tf_retire_pop(&table, 3);
    ck_assert_uint_eq(table.count, 1);
    ck_assert_uint_eq(tf_retire_at(&table, 0)->number, 8);
    tf_retire_pop(&table, 1);
    ck_assert_uint_eq(tf_retire_due(&table, UINT64_MAX), 0);
    end();
}
END_TEST

START_TEST(retire_entry_tolerates_that_its_ref_is_gone)
{
    begin();
    tf_ref gone = retire(0, 1);
    (void)retire(1, 1);
    tf_clist_remove(&clist, tf_clist_by_ref(&clist, gone));
    ck_assert_ptr_null(tf_retire_entry(tf_retire_at(&table, 0), &clist));
    ck_assert_ptr_nonnull(tf_retire_entry(tf_retire_at(&table, 1), &clist));
    end();
}
END_TEST

/* An object that was revoked hard waits like a resolved promise. */
START_TEST(retire_hard_revocation_is_spoken_of_until_its_ref_is_gone)
{
    begin();
    tf_ref ref = tf_ref_make(1, TF_REF_OBJECT, TF_SIDE_DIALLER);
    ck_assert_int_eq(tf_clist_reserve(&clist, 1), TF_OK);
    tf_clist_entry *entry = tf_clist_add(&clist, ref, record_of(TF_REF_OBJECT), TF_CLIST_EXPORT);
    tf_clist_retire(&clist, entry, 3);
    ck_assert_int_eq(tf_retire_reserve(&table, 1, &clist), TF_OK);
    tf_retire_push(&table, 3, ref, TF_RETIRE_REVOKED);
    ck_assert_ptr_eq(tf_retire_entry(tf_retire_at(&table, 0), &clist), entry);
    tf_clist_remove(&clist, entry);
    ck_assert_ptr_null(tf_retire_entry(tf_retire_at(&table, 0), &clist));
    end();
}
END_TEST

START_TEST(retire_entry_of_a_revived_ref_is_cancelled)
{
    begin();
    tf_ref ref = tf_ref_make(1, TF_REF_OBJECT, TF_SIDE_ACCEPTOR);
    ck_assert_int_eq(tf_clist_reserve(&clist, 2), TF_OK);
    tf_clist_entry *entry = tf_clist_add(&clist, ref, record_of(TF_REF_OBJECT), TF_CLIST_IMPORT);
    for (uint64_t number = 1; number < 3; number++) { /* dropped, revived, dropped */
        tf_clist_retire(&clist, entry, number);
        ck_assert_int_eq(tf_retire_reserve(&table, 1, &clist), TF_OK);
        tf_retire_push(&table, number, ref, TF_RETIRE_DROP);
        if (number == 1) {
            tf_clist_revive(&clist, entry, record_of(TF_REF_OBJECT));
            ck_assert_ptr_null(tf_retire_entry(tf_retire_at(&table, 0), &clist));
        }
    }
    ck_assert_ptr_null(tf_retire_entry(tf_retire_at(&table, 0), &clist));
    ck_assert_ptr_eq(tf_retire_entry(tf_retire_at(&table, 1), &clist), entry);
    end();
}
END_TEST

/* However often a ref is dropped and revived without an ack, the table stays as small as what it speaks of. */
START_TEST(retire_table_is_bounded_by_the_clist)
{
    begin();
    tf_ref ref = tf_ref_make(1, TF_REF_OBJECT, TF_SIDE_ACCEPTOR);
    ck_assert_int_eq(tf_clist_reserve(&clist, 1), TF_OK);
    tf_clist_entry *entry = tf_clist_add(&clist, ref, record_of(TF_REF_OBJECT), TF_CLIST_IMPORT);
    for (uint64_t number = 0; number < 100000; number++) {
        ck_assert_int_eq(tf_clist_reserve(&clist, 1), TF_OK);
        tf_clist_retire(&clist, entry, number);
        ck_assert_int_eq(tf_retire_reserve(&table, 1, &clist), TF_OK);
        tf_retire_push(&table, number, ref, TF_RETIRE_DROP);
        tf_clist_revive(&clist, entry, record_of(TF_REF_OBJECT));
    }
    ck_assert_uint_le(table.capacity, 16);
    end();
}
END_TEST

/* Against an array that does the same, over growth, wrapping and emptying. */
START_TEST(retire_random_steps_agree_with_the_model)
{
    begin();
    tf_test_random random;
    tf_test_random_init(&random, 1);
    static uint64_t model[20000];
    size_t first = 0;
    size_t last = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        (void)retire(i, i / 3);
        model[last++] = i / 3;
        size_t pops = (size_t)tf_test_random_below(&random, 50) == 0 ? (size_t)tf_test_random_below(&random, last - first + 1) : 0;
        for (size_t k = 0; k < pops; k++) {
            const tf_retirement *oldest = tf_retire_at(&table, k);
            ck_assert_uint_eq(oldest->number, model[first + k]);
            tf_clist_remove(&clist, tf_retire_entry(oldest, &clist));
        }
        tf_retire_pop(&table, pops);
        first += pops;
        ck_assert_uint_eq(table.count, last - first);
    }
    end();
}
END_TEST

START_TEST(retire_reserve_without_memory_loses_nothing)
{
    begin();
    for (uint64_t i = 0; i < 16; i++) {
        (void)retire(i, i);
    }
    tf_test_heap_fail_at(tf_test_heap_shared(), 0, true);
    ck_assert_int_eq(tf_retire_reserve(&table, 1, &clist), TF_ERR_NOMEM);
    tf_test_heap_fail_never(tf_test_heap_shared());
    ck_assert_uint_eq(table.count, 16);
    ck_assert_uint_eq(tf_retire_at(&table, 15)->number, 15);
    ck_assert_int_eq(tf_retire_reserve(&table, SIZE_MAX / 2, &clist), TF_ERR_NOMEM);
    end();
}
END_TEST

START_TEST(retire_trim_gives_its_memory_back)
{
    begin();
    size_t before = tf_test_heap_shared()->live_bytes;
    ck_assert_int_eq(tf_retire_reserve(&table, 4, &clist), TF_OK);
    ck_assert_uint_gt(tf_test_heap_shared()->live_bytes, before);
    tf_retire_trim(&table);
    ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, before);
    tf_ref ref = retire(1, 1);
    tf_retire_trim(&table); /* not empty: it stays */
    ck_assert_uint_eq(tf_retire_at(&table, 0)->ref, ref);
    tf_retire_clear(&table);
    ck_assert_uint_eq(table.count, 0);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        retire_ack_takes_a_prefix,
        retire_entry_tolerates_that_its_ref_is_gone,
        retire_hard_revocation_is_spoken_of_until_its_ref_is_gone,
        retire_entry_of_a_revived_ref_is_cancelled,
        retire_table_is_bounded_by_the_clist,
        retire_random_steps_agree_with_the_model,
        retire_reserve_without_memory_loses_nothing,
        retire_trim_gives_its_memory_back,
        NULL,
    };
    return tf_test_run("proto/retire", tests);
}
