#include "proto/clist.h"

#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define OURS TF_SIDE_DIALLER
#define THEIRS TF_SIDE_ACCEPTOR

static tf_refs refs;
static tf_clist clist;
static struct tf_session *session = (struct tf_session *)&clist; /* never looked into */

static void begin(void)
{
    ck_assert_int_eq(tf_refs_init(&refs, tf_test_mem(), 5), TF_OK);
    tf_clist_init(&clist, session, OURS, &refs, tf_test_mem(), 5);
}

static void end(void)
{
    tf_clist_clear(&clist);
    tf_refs_clear(&refs);
}

static tf_record *record_of(tf_ref_kind kind)
{
    ck_assert_int_eq(tf_refs_reserve(&refs, 1), TF_OK);
    return tf_refs_add(&refs, kind);
}

static tf_clist_entry *add_record(tf_ref ref, tf_record *record, tf_clist_role role)
{
    ck_assert_int_eq(tf_clist_reserve(&clist, 1), TF_OK);
    return tf_clist_add(&clist, ref, record, role);
}

static tf_clist_entry *add(tf_ref ref, tf_clist_role role)
{
    return add_record(ref, record_of(tf_ref_kind_of(ref)), role);
}

START_TEST(clist_entry_is_found_both_ways)
{
    begin();
    tf_ref ref = tf_ref_make(3, TF_REF_OBJECT, OURS);
    tf_record *record = record_of(TF_REF_OBJECT);
    tf_clist_entry *entry = add_record(ref, record, TF_CLIST_EXPORT);
    ck_assert_ptr_eq(tf_clist_by_ref(&clist, ref), entry);
    ck_assert_ptr_eq(tf_clist_of_record(&clist, record), entry);
    ck_assert_ptr_null(tf_clist_by_ref(&clist, record->local));
    ck_assert_ptr_null(tf_clist_of_record(&clist, record_of(TF_REF_OBJECT)));
    tf_clist_remove(&clist, entry);
    ck_assert_ptr_null(tf_clist_by_ref(&clist, ref));
    ck_assert_ptr_null(tf_clist_of_record(&clist, record));
    end();
}
END_TEST

/* B1: the outbound half goes at once; the same record may then be spoken under another ref while the first is still
 * heard. */
START_TEST(clist_retired_ref_is_heard_but_not_spoken)
{
    begin();
    tf_ref first = tf_ref_make(0, TF_REF_PROMISE, THEIRS);
    tf_ref second = tf_ref_make(0, TF_REF_PROMISE, OURS);
    tf_record *record = record_of(TF_REF_PROMISE);
    tf_clist_entry *old = add_record(first, record, TF_CLIST_EXPORT);
    tf_clist_retire(&clist, old, 4);
    ck_assert_int_eq(old->state, TF_CLIST_RETIRED);
    ck_assert_ptr_null(tf_clist_of_record(&clist, record));
    ck_assert_ptr_eq(tf_clist_by_ref(&clist, first), old);
    ck_assert_uint_eq(old->retired, 4);
    tf_clist_entry *fresh = add_record(second, record, TF_CLIST_EXPORT);
    ck_assert_uint_eq(record->count, 2);
    tf_clist_remove(&clist, old);
    ck_assert_uint_eq(record->count, 1);
    ck_assert_ptr_eq(tf_clist_of_record(&clist, record), fresh);
    ck_assert_ptr_eq(tf_clist_by_ref(&clist, second), fresh);
    end();
}
END_TEST

/* What a record knows of its LIVE exports, and what counts. */
START_TEST(clist_exports_are_counted_and_chained)
{
    begin();
    tf_record *record = record_of(TF_REF_PROMISE);
    tf_ref ref = tf_ref_make(0, TF_REF_PROMISE, OURS);
    tf_clist others[2]; /* of other sessions */
    tf_clist_entry *entries[3] = {add_record(ref, record, TF_CLIST_EXPORT), NULL, NULL};
    for (size_t i = 0; i < 2; i++) {
        tf_clist_init(&others[i], (struct tf_session *)&others[i], OURS, &refs, tf_test_mem(), 6);
        ck_assert_int_eq(tf_clist_reserve(&others[i], 1), TF_OK);
        entries[i + 1] = tf_clist_add(&others[i], ref, record, TF_CLIST_EXPORT);
    }
    for (size_t round = 0; round < 2; round++) { /* with the oldest one, then without */
        for (size_t i = 0; i < 2; i++) {
            ck_assert_ptr_eq(tf_clist_of_record(&others[i], record), entries[i + 1]);
        }
        ck_assert_ptr_eq(tf_clist_of_record(&clist, record), round == 0 ? entries[0] : NULL);
        ck_assert_uint_eq(record->count, 3); /* retired, it is still heard */
        if (round == 0) {
            tf_clist_retire(&clist, entries[0], 0);
        }
    }
    tf_record *instead = record_of(TF_REF_PROMISE);
    tf_clist_replace(&clist, entries[0], instead);
    ck_assert_uint_eq(record->count, 2);
    ck_assert_uint_eq(instead->count, 1);
    tf_clist_clear(&others[0]);
    ck_assert_ptr_eq(tf_clist_of_record(&others[1], record), entries[2]);
    tf_clist_clear(&others[1]);
    ck_assert_ptr_null(record->exports);
    ck_assert_uint_eq(record->count, 0);
    ck_assert(record->is_idle);
    end();
    ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, 0);
}
END_TEST

START_TEST(clist_import_is_its_records_and_counts_nothing)
{
    begin();
    tf_record *record = record_of(TF_REF_OBJECT);
    tf_clist_entry *entry = add_record(tf_ref_make(1, TF_REF_OBJECT, THEIRS), record, TF_CLIST_IMPORT);
    ck_assert_ptr_eq(record->owner, session);
    ck_assert_ptr_eq(record->import, entry);
    ck_assert_uint_eq(record->count, 0);
    (void)tf_refs_take_idle(&refs);
    tf_clist_remove(&clist, entry);
    ck_assert_ptr_null(record->owner);
    ck_assert_ptr_null(record->import);
    ck_assert(record->is_idle); /* somebody is to see that nothing refers to it */
    end();
}
END_TEST

START_TEST(clist_dropped_import_is_revived_as_another_record)
{
    begin();
    tf_ref ref = tf_ref_make(1, TF_REF_OBJECT, THEIRS);
    tf_record *before = record_of(TF_REF_OBJECT);
    tf_clist_entry *entry = add_record(ref, before, TF_CLIST_IMPORT);
    entry->revoked = 1;
    entry->piped = 7;
    tf_clist_retire(&clist, entry, 2);
    ck_assert_int_eq(entry->state, TF_CLIST_DROPPED);
    ck_assert_ptr_null(entry->record);
    ck_assert_ptr_null(before->owner);
    tf_record *after = record_of(TF_REF_OBJECT);
    ck_assert_int_eq(tf_clist_reserve(&clist, 1), TF_OK);
    tf_clist_revive(&clist, entry, after);
    ck_assert_ptr_null(tf_clist_of_record(&clist, before));
    ck_assert_ptr_eq(tf_clist_of_record(&clist, after), entry);
    ck_assert_ptr_eq(after->import, entry);
    ck_assert_uint_eq(entry->revoked + entry->piped, 0);
    ck_assert_int_eq(entry->state, TF_CLIST_LIVE);
    end();
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
        tf_clist_entry *entry = add(tf_ref_make(1, rows[i].kind, rows[i].side), rows[i].role);
        ck_assert(*known == 1 && *live == 1 && *results == rows[i].is_result && clist.count == 1);
        tf_clist_retire(&clist, entry, 0);
        ck_assert(*known == 1 && *live == 0 && *results == (rows[i].is_result && !export) && clist.count == 1);
        tf_clist_remove(&clist, entry);
        ck_assert(*known == 0 && *live == 0 && *results == 0 && clist.count == 0);
        end();
    }
}
END_TEST

START_TEST(clist_touched_entries_come_once_in_order)
{
    begin();
    tf_clist_entry *entries[3];
    for (tf_ref i = 0; i < 3; i++) {
        entries[i] = add(tf_ref_make(i, TF_REF_OBJECT, THEIRS), TF_CLIST_IMPORT);
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
    end();
}
END_TEST

START_TEST(clist_due_entries_come_once_in_order_and_never_removed)
{
    begin();
    tf_clist_entry *entries[4];
    for (tf_ref i = 0; i < 4; i++) {
        entries[i] = add(tf_ref_make(i, TF_REF_PROMISE, OURS), TF_CLIST_EXPORT);
    }
    for (size_t i = 4; i-- > 0;) {
        tf_clist_set_due(&clist, entries[i]);
        tf_clist_set_due(&clist, entries[3]);
    }
    ck_assert_ptr_null(tf_clist_due(&clist, TF_REF_OBJECT));
    tf_clist_remove(&clist, entries[3]);
    tf_clist_remove(&clist, entries[1]);
    ck_assert_ptr_eq(tf_clist_due(&clist, TF_REF_PROMISE), entries[2]);
    ck_assert_ptr_eq(tf_clist_due_after(entries[2]), entries[0]);
    ck_assert_ptr_null(tf_clist_due_after(entries[0]));
    tf_clist_take_due(&clist, TF_REF_PROMISE);
    ck_assert(!entries[2]->due);
    ck_assert_ptr_eq(tf_clist_due(&clist, TF_REF_PROMISE), entries[0]);
    tf_clist_set_due(&clist, entries[2]);
    ck_assert_ptr_eq(tf_clist_due_after(entries[0]), entries[2]);
    end(); /* with what is still due */
    ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, 0);
}
END_TEST

/* Every entry once, by side and kind in the order of the numbers; also behind one that went meanwhile. */
START_TEST(clist_entries_are_listed_by_number)
{
    begin();
    tf_clist_entry *entries[4];
    for (tf_ref i = 0; i < 4; i++) {
        entries[i] = add(tf_ref_make(i, TF_REF_OBJECT, OURS), TF_CLIST_EXPORT);
    }
    tf_ref last = tf_ref_make(0, TF_REF_PROMISE, THEIRS);
    (void)add(last, TF_CLIST_IMPORT);
    tf_ref gone = entries[1]->ref;
    tf_clist_remove(&clist, entries[1]);
    ck_assert_ptr_eq(tf_clist_first(&clist), entries[0]);
    ck_assert_ptr_eq(tf_clist_after(&clist, entries[0]->ref), entries[2]);
    ck_assert_ptr_eq(tf_clist_after(&clist, gone), entries[2]);
    tf_ref end_of_list = entries[3]->ref;
    tf_clist_remove(&clist, entries[3]);
    ck_assert_uint_eq(tf_clist_after(&clist, end_of_list)->ref, last);
    ck_assert_uint_eq(tf_clist_after(&clist, entries[2]->ref)->ref, last);
    ck_assert_ptr_null(tf_clist_after(&clist, last));
    tf_clist_remove(&clist, entries[0]);
    tf_clist_remove(&clist, entries[2]);
    ck_assert_uint_eq(tf_clist_after(&clist, gone)->ref, last);
    tf_clist_remove(&clist, tf_clist_first(&clist));
    ck_assert_ptr_null(tf_clist_first(&clist));
    end();
}
END_TEST

START_TEST(clist_gives_its_memory_back)
{
    begin();
    static tf_record *records[10000];
    static tf_clist_entry *entries[10000];
    for (tf_ref i = 0; i < 10000; i++) {
        records[i] = record_of(TF_REF_OBJECT);
    }
    size_t before = tf_test_heap_shared()->live_bytes;
    for (tf_ref i = 0; i < 10000; i++) {
        entries[i] = add_record(tf_ref_make(i, TF_REF_OBJECT, OURS), records[i], TF_CLIST_EXPORT);
    }
    size_t full = tf_test_heap_shared()->live_bytes - before;
    for (size_t i = 0; i < 10000; i++) {
        tf_clist_remove(&clist, entries[i]);
    }
    tf_clist_trim(&clist);
    ck_assert_uint_lt(tf_test_heap_shared()->live_bytes - before, full / 50);
    end();
    ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, 0);
}
END_TEST

START_TEST(clist_reserve_without_memory_changes_nothing)
{
    tf_test_heap *heap = tf_test_heap_shared();
    for (uint64_t k = 0;; k++) {
        begin();
        ck_assert_int_eq(tf_refs_reserve(&refs, 20), TF_OK);
        tf_test_heap_fail_at(heap, k, true);
        tf_err err = tf_clist_reserve(&clist, 20);
        for (tf_ref i = 0; err == TF_OK && i < 20; i++) { /* needs no memory any more */
            (void)tf_clist_add(&clist, tf_ref_make(i, TF_REF_OBJECT, OURS), tf_refs_add(&refs, TF_REF_OBJECT), TF_CLIST_EXPORT);
        }
        tf_test_heap_fail_never(heap);
        ck_assert_uint_eq(clist.count, err == TF_OK ? 20 : 0);
        end();
        if (err == TF_OK) {
            ck_assert_uint_gt(k, 20);
            return;
        }
        ck_assert_int_eq(err, TF_ERR_NOMEM);
    }
}
END_TEST

/* Results are charged to who pays for them, until their entries go. */
START_TEST(clist_results_are_charged_to_shares)
{
    begin();
    tf_clist_entry *entries[3];
    for (tf_ref i = 0; i < 3; i++) {
        entries[i] = add(tf_ref_make(i, TF_REF_PROMISE, OURS), TF_CLIST_IMPORT);
        ck_assert_int_eq(tf_clist_reserve_share(&clist), TF_OK);
        tf_clist_charge(&clist, entries[i], i < 2 ? 7 : 8);
    }
    ck_assert_uint_eq(tf_clist_charged(&clist, 7), 2);
    ck_assert_uint_eq(tf_clist_charged(&clist, 8), 1);
    tf_clist_retire(&clist, entries[0], 3);
    ck_assert_uint_eq(tf_clist_charged(&clist, 7), 2);
    tf_clist_remove(&clist, entries[0]);
    tf_clist_remove(&clist, entries[2]);
    ck_assert_uint_eq(tf_clist_charged(&clist, 7), 1);
    ck_assert_uint_eq(tf_clist_charged(&clist, 8), 0);
    end();
}
END_TEST

START_TEST(clist_trim_gives_back_what_shares_took)
{
    begin();
    tf_clist_entry *entries[100];
    for (uint32_t i = 0; i < 100; i++) {
        entries[i] = add(tf_ref_make(i, TF_REF_PROMISE, OURS), TF_CLIST_IMPORT);
        ck_assert_int_eq(tf_clist_reserve_share(&clist), TF_OK);
        tf_clist_charge(&clist, entries[i], i + 1);
    }
    for (size_t i = 0; i < 100; i++) {
        tf_clist_remove(&clist, entries[i]);
    }
    tf_clist_trim(&clist);
    ck_assert_uint_eq(clist.result_shares.count, 0);
    ck_assert_uint_eq(clist.result_shares.capacity, 0);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        clist_entry_is_found_both_ways,
        clist_retired_ref_is_heard_but_not_spoken,
        clist_exports_are_counted_and_chained,
        clist_import_is_its_records_and_counts_nothing,
        clist_dropped_import_is_revived_as_another_record,
        clist_counts_follow_the_states,
        clist_touched_entries_come_once_in_order,
        clist_due_entries_come_once_in_order_and_never_removed,
        clist_entries_are_listed_by_number,
        clist_gives_its_memory_back,
        clist_reserve_without_memory_changes_nothing,
        clist_results_are_charged_to_shares,
        clist_trim_gives_back_what_shares_took,
        NULL,
    };
    return tf_test_run("proto/clist", tests);
}
