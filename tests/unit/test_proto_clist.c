#include "proto/clist.h"

#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define OURS TF_SIDE_DIALLER
#define THEIRS TF_SIDE_ACCEPTOR

static tf_clist clist;

static void begin(void)
{
    tf_clist_init(&clist, OURS, tf_test_mem(), 5);
}

static tf_clist_entry *add(tf_ref ref, tf_local local, tf_clist_role role)
{
    ck_assert_int_eq(tf_clist_reserve(&clist, 1), TF_OK);
    return tf_clist_add(&clist, ref, local, role);
}

START_TEST(clist_entry_is_found_both_ways)
{
    begin();
    tf_ref ref = tf_ref_make(3, TF_REF_OBJECT, OURS);
    tf_clist_entry *entry = add(ref, 17, TF_CLIST_EXPORT);
    ck_assert_ptr_eq(tf_clist_by_ref(&clist, ref), entry);
    ck_assert_ptr_eq(tf_clist_by_local(&clist, 17), entry);
    ck_assert_ptr_null(tf_clist_by_ref(&clist, 17));
    ck_assert_ptr_null(tf_clist_by_local(&clist, ref));
    tf_clist_remove(&clist, entry);
    ck_assert_ptr_null(tf_clist_by_ref(&clist, ref));
    ck_assert_ptr_null(tf_clist_by_local(&clist, 17));
    tf_clist_clear(&clist);
}
END_TEST

/* B1: the outbound half goes at once; the same id may then be spoken under another ref while the first is still heard. */
START_TEST(clist_retired_ref_is_heard_but_not_spoken)
{
    begin();
    tf_ref first = tf_ref_make(0, TF_REF_PROMISE, THEIRS);
    tf_ref second = tf_ref_make(0, TF_REF_PROMISE, OURS);
    tf_clist_entry *old = add(first, 9, TF_CLIST_EXPORT);
    tf_clist_retire(&clist, old, TF_CLIST_RESOLVED, 4);
    ck_assert_ptr_null(tf_clist_by_local(&clist, 9));
    ck_assert_ptr_eq(tf_clist_by_ref(&clist, first), old);
    ck_assert_uint_eq(old->retired, 4);
    tf_clist_entry *fresh = add(second, 9, TF_CLIST_EXPORT);
    tf_clist_remove(&clist, old);
    ck_assert_ptr_eq(tf_clist_by_local(&clist, 9), fresh);
    ck_assert_ptr_eq(tf_clist_by_ref(&clist, second), fresh);
    tf_clist_clear(&clist);
}
END_TEST

START_TEST(clist_dropped_import_is_revived_under_a_new_id)
{
    begin();
    tf_ref ref = tf_ref_make(1, TF_REF_OBJECT, THEIRS);
    tf_clist_entry *entry = add(ref, 9, TF_CLIST_IMPORT);
    entry->holds = 3;
    tf_clist_retire(&clist, entry, TF_CLIST_DROPPED, 2);
    ck_assert_int_eq(tf_clist_reserve(&clist, 1), TF_OK);
    tf_clist_revive(&clist, entry, 10);
    ck_assert_ptr_null(tf_clist_by_local(&clist, 9));
    ck_assert_ptr_eq(tf_clist_by_local(&clist, 10), entry);
    ck_assert_uint_eq(entry->holds, 0);
    ck_assert_int_eq(entry->state, TF_CLIST_LIVE);
    tf_clist_clear(&clist);
}
END_TEST

/* What each change of state counts for. */
START_TEST(clist_counts_follow_the_states)
{
    static const struct {
        tf_ref_kind kind;
        tf_side side;
        tf_clist_role role;
        bool is_result;
    } rows[] = {{TF_REF_OBJECT, OURS, TF_CLIST_EXPORT, false},    {TF_REF_OBJECT, THEIRS, TF_CLIST_IMPORT, false},
                {TF_REF_PROMISE, OURS, TF_CLIST_EXPORT, false},   {TF_REF_PROMISE, THEIRS, TF_CLIST_EXPORT, true},
                {TF_REF_PROMISE, THEIRS, TF_CLIST_IMPORT, false}, {TF_REF_PROMISE, OURS, TF_CLIST_IMPORT, true}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin();
        const size_t *known = &clist.known[rows[i].side][rows[i].kind];
        const size_t *live = &clist.live[rows[i].role][rows[i].kind];
        const size_t *results = &clist.results[rows[i].role];
        bool export = rows[i].role == TF_CLIST_EXPORT;
        tf_clist_entry *entry = add(tf_ref_make(1, rows[i].kind, rows[i].side), 5, rows[i].role);
        ck_assert(*known == 1 && *live == 1 && *results == rows[i].is_result && clist.count == 1);
        tf_clist_retire(&clist, entry, export ? TF_CLIST_RESOLVED : TF_CLIST_DROPPED, 0);
        ck_assert(*known == 1 && *live == 0 && *results == (rows[i].is_result && !export) && clist.count == 1);
        tf_clist_remove(&clist, entry);
        ck_assert(*known == 0 && *live == 0 && *results == 0 && clist.count == 0);
        tf_clist_clear(&clist);
    }
}
END_TEST

START_TEST(clist_touched_entries_come_once_in_order)
{
    begin();
    tf_clist_entry *entries[3];
    for (tf_ref i = 0; i < 3; i++) {
        entries[i] = add(tf_ref_make(i, TF_REF_OBJECT, THEIRS), 10 + i, TF_CLIST_IMPORT);
    }
    tf_clist_touch(&clist, entries[2]);
    tf_clist_touch(&clist, entries[0]);
    tf_clist_touch(&clist, entries[2]);
    ck_assert_uint_eq(clist.touched_count, 2);
    tf_clist_remove(&clist, entries[2]);
    ck_assert_ptr_eq(tf_clist_touched(&clist), entries[2]);
    ck_assert_int_eq(tf_clist_touched(&clist)->state, TF_CLIST_REMOVED);
    tf_clist_untouch(&clist);
    ck_assert_ptr_eq(tf_clist_touched(&clist), entries[0]);
    tf_clist_untouch(&clist);
    ck_assert_ptr_null(tf_clist_touched(&clist));
    tf_clist_touch(&clist, entries[1]);
    ck_assert_ptr_eq(tf_clist_touched(&clist), entries[1]);
    tf_clist_clear(&clist);
}
END_TEST

START_TEST(clist_entries_are_listed_in_the_order_of_their_making)
{
    begin();
    tf_clist_entry *entries[4];
    for (tf_ref i = 0; i < 4; i++) {
        entries[i] = add(tf_ref_make(i, TF_REF_OBJECT, OURS), 10 + i, TF_CLIST_EXPORT);
    }
    tf_clist_remove(&clist, entries[1]);
    ck_assert_ptr_eq(clist.first, entries[0]);
    ck_assert_ptr_eq(clist.first->next, entries[2]);
    tf_clist_remove(&clist, entries[3]);
    ck_assert_ptr_eq(clist.last, entries[2]);
    tf_clist_remove(&clist, entries[0]);
    tf_clist_remove(&clist, entries[2]);
    ck_assert_ptr_null(clist.first);
    ck_assert_ptr_null(clist.last);
    tf_clist_clear(&clist);
}
END_TEST

START_TEST(clist_gives_its_memory_back)
{
    begin();
    size_t before = tf_test_heap_shared()->live_bytes;
    static tf_clist_entry *entries[10000];
    for (tf_ref i = 0; i < 10000; i++) {
        entries[i] = add(tf_ref_make(i, TF_REF_OBJECT, OURS), 10 + i, TF_CLIST_EXPORT);
    }
    size_t full = tf_test_heap_shared()->live_bytes - before;
    for (size_t i = 0; i < 10000; i++) {
        tf_clist_remove(&clist, entries[i]);
    }
    tf_clist_trim(&clist);
    ck_assert_uint_lt(tf_test_heap_shared()->live_bytes - before, full / 50);
    tf_clist_clear(&clist);
    ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, before);
}
END_TEST

START_TEST(clist_reserve_without_memory_changes_nothing)
{
    tf_test_heap *heap = tf_test_heap_shared();
    for (uint64_t k = 0;; k++) {
        begin();
        tf_test_heap_fail_at(heap, k, true);
        tf_err err = tf_clist_reserve(&clist, 20);
        for (tf_ref i = 0; err == TF_OK && i < 20; i++) { /* needs no memory any more */
            (void)tf_clist_add(&clist, tf_ref_make(i, TF_REF_OBJECT, OURS), 10 + i, TF_CLIST_EXPORT);
        }
        tf_test_heap_fail_never(heap);
        ck_assert_uint_eq(clist.count, err == TF_OK ? 20 : 0);
        tf_clist_clear(&clist);
        if (err == TF_OK) {
            ck_assert_uint_gt(k, 20);
            return;
        }
        ck_assert_int_eq(err, TF_ERR_NOMEM);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        clist_entry_is_found_both_ways,
        clist_retired_ref_is_heard_but_not_spoken,
        clist_dropped_import_is_revived_under_a_new_id,
        clist_counts_follow_the_states,
        clist_touched_entries_come_once_in_order,
        clist_entries_are_listed_in_the_order_of_their_making,
        clist_gives_its_memory_back,
        clist_reserve_without_memory_changes_nothing,
        NULL,
    };
    return tf_test_run("proto/clist", tests);
}
