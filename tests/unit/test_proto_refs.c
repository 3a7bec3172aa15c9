#include "proto/refs.h"

#include "tests/support/check_main.h"
#include "tests/support/support.h"

static tf_refs refs;

static void begin(void)
{
    ck_assert_int_eq(tf_refs_init(&refs, tf_test_mem(), 5), TF_OK);
}

static void end(void)
{
    tf_refs_clear(&refs);
    ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, 0);
}

static tf_record *add(tf_ref_kind kind)
{
    ck_assert_int_eq(tf_refs_reserve(&refs, 1), TF_OK);
    return tf_refs_add(&refs, kind);
}

/* A promise that is held once and resolved to data that names these. */
static tf_record *add_resolved(tf_record **named, size_t count)
{
    tf_record *promise = add(TF_REF_PROMISE);
    tf_refs_hold(promise);
    tf_value *value = tf_value_new(&refs, TF_RESOLUTION_DATA, NULL, tf_slice_str("x"), named, count);
    ck_assert_ptr_nonnull(value);
    tf_refs_settle(&refs, promise, value);
    tf_value_release(&refs, value);
    return promise;
}

/* As whoever ends a turn does; returns how many records went. */
static size_t sweep(void)
{
    size_t gone = 0;
    for (tf_record *record; (record = tf_refs_take_idle(&refs)) != NULL;) {
        if (record->count == 0) {
            tf_refs_remove(&refs, record);
            gone++;
        }
    }
    return gone;
}

START_TEST(refs_record_without_count_is_idle_once)
{
    begin();
    tf_record *object = add(TF_REF_OBJECT);
    ck_assert_ptr_eq(tf_refs_find(&refs, object->local), object);
    ck_assert_uint_eq(refs.count, 1);
    tf_refs_hold(object);
    tf_refs_release(&refs, object); /* was idle already */
    ck_assert_ptr_eq(tf_refs_take_idle(&refs), object);
    ck_assert_ptr_null(tf_refs_take_idle(&refs));
    tf_refs_hold(object);
    tf_refs_release(&refs, object);
    ck_assert_uint_eq(sweep(), 1);
    ck_assert_uint_eq(refs.count, 0);
    end();
}
END_TEST

START_TEST(refs_count_that_comes_back_keeps_the_record)
{
    begin();
    tf_record *object = add(TF_REF_OBJECT);
    tf_refs_hold(object);
    tf_refs_release(&refs, object);
    tf_refs_hold(object);
    ck_assert_uint_eq(sweep(), 0);
    ck_assert_uint_eq(refs.count, 1);
    tf_refs_release(&refs, object);
    ck_assert_uint_eq(sweep(), 1);
    end();
}
END_TEST

START_TEST(refs_value_holds_what_it_names_each_time)
{
    begin();
    tf_record *object = add(TF_REF_OBJECT);
    tf_record *named[] = {object, object};
    tf_record *promise = add_resolved(named, 2);
    ck_assert_uint_eq(object->count, 2);
    ck_assert_uint_eq(sweep(), 0);
    tf_refs_release(&refs, promise);
    ck_assert_uint_eq(sweep(), 2); /* the promise, then what only it named */
    ck_assert_uint_eq(refs.value_bytes, 0);
    end();
}
END_TEST

START_TEST(refs_object_of_the_application_keeps_its_local_id)
{
    begin();
    tf_local local = tf_refs_next_local(&refs);
    ck_assert_int_eq(tf_refs_reserve(&refs, 1), TF_OK);
    tf_record *object = tf_refs_add_local(&refs, local, TF_REF_OBJECT);
    ck_assert_uint_eq(object->local, local);
    ck_assert_uint_eq(sweep(), 1);
    ck_assert_ptr_null(tf_refs_find(&refs, local));
    ck_assert_int_eq(tf_refs_reserve(&refs, 1), TF_OK);
    ck_assert_uint_eq(tf_refs_add_local(&refs, local, TF_REF_OBJECT)->local, local);
    ck_assert_uint_eq(sweep(), 1);
    end();
}
END_TEST

START_TEST(refs_revoked_object_takes_a_second_value)
{
    begin();
    tf_record *object = add(TF_REF_OBJECT);
    tf_record *named = add(TF_REF_OBJECT);
    tf_value *first = tf_value_new(&refs, TF_RESOLUTION_REJECTION, NULL, tf_slice_str("soft"), &named, 1);
    tf_refs_settle(&refs, object, first);
    tf_value_release(&refs, first);
    ck_assert_uint_eq(named->count, 1);
    tf_refs_settle(&refs, object, tf_refs_standard(&refs, TF_CODE_DISCONNECTED));
    ck_assert_uint_eq(named->count, 0);
    ck_assert_int_eq(object->state, TF_RECORD_REVOKED);
    ck_assert_uint_eq(sweep(), 2);
    end();
}
END_TEST

/* p0 -> [p1], ..., p(n-1) -> [p0]: settled one after the other, each held once. */
static void make_cycle(tf_record **promises, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        promises[i] = add(TF_REF_PROMISE);
        tf_refs_hold(promises[i]);
    }
    for (size_t i = 0; i < count; i++) {
        tf_value *value =
            tf_value_new(&refs, TF_RESOLUTION_DATA, NULL, tf_slice_str(""), &promises[(i + 1) % count], 1);
        tf_refs_settle(&refs, promises[i], value);
        tf_value_release(&refs, value);
    }
}

START_TEST(refs_dead_cycle_is_collected)
{
    static const size_t sizes[] = {1, 2, 3, 1000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        tf_record *promises[1000];
        begin();
        make_cycle(promises, sizes[i]);
        ck_assert(tf_refs_collect_is_due(&refs));
        ck_assert_uint_eq(tf_refs_collect_cycles(&refs), 0);
        for (size_t j = 0; j < sizes[i]; j++) {
            tf_refs_release(&refs, promises[j]);
        }
        ck_assert_uint_eq(sweep(), 0);
        ck_assert_uint_eq(tf_refs_collect_cycles(&refs), sizes[i]);
        ck_assert_uint_eq(sweep(), sizes[i]);
        ck_assert_uint_eq(refs.count, 0);
        end();
    }
}
END_TEST

START_TEST(refs_cycle_that_is_reached_from_outside_stays)
{
    tf_record *promises[3];
    begin();
    make_cycle(promises, 3);
    tf_record *outside = add_resolved(&promises[1], 1);
    for (size_t i = 0; i < 3; i++) {
        tf_refs_release(&refs, promises[i]);
    }
    ck_assert_uint_eq(tf_refs_collect_cycles(&refs), 0);
    ck_assert_uint_eq(promises[2]->value->ref_count, 1);
    tf_refs_release(&refs, outside);
    ck_assert_uint_eq(sweep(), 1);
    ck_assert_uint_eq(tf_refs_collect_cycles(&refs), 3);
    ck_assert_uint_eq(sweep(), 3);
    end();
}
END_TEST

START_TEST(refs_dead_cycle_lets_go_of_what_hangs_on_it)
{
    tf_record *promises[2];
    begin();
    tf_record *object = add(TF_REF_OBJECT);
    tf_record *tail = add_resolved(&object, 1);
    promises[0] = add(TF_REF_PROMISE);
    tf_refs_hold(promises[0]);
    tf_record *named[] = {promises[0], tail, object};
    tf_value *value = tf_value_new(&refs, TF_RESOLUTION_DATA, NULL, tf_slice_str(""), named, 3);
    tf_refs_settle(&refs, promises[0], value);
    tf_value_release(&refs, value);
    tf_refs_release(&refs, promises[0]);
    tf_refs_release(&refs, tail);
    ck_assert_uint_eq(sweep(), 0);
    ck_assert_uint_eq(tf_refs_collect_cycles(&refs), 2); /* the tail is of no use to anybody either */
    ck_assert_uint_eq(sweep(), 3);
    ck_assert_uint_eq(refs.value_bytes, 0);
    end();
}
END_TEST

START_TEST(refs_dead_cycle_through_a_shared_rejection_is_collected)
{
    begin();
    tf_record *rejected = add(TF_REF_PROMISE);
    tf_record *result = add(TF_REF_PROMISE); /* of a message to the rejected promise: rejected with the same */
    tf_record *named[] = {result, rejected};
    tf_refs_hold(rejected);
    tf_value *value = tf_value_new(&refs, TF_RESOLUTION_REJECTION, NULL, tf_slice_str(""), named, 2);
    tf_refs_settle(&refs, rejected, value);
    tf_refs_settle(&refs, result, value);
    ck_assert_uint_eq(tf_refs_collect_cycles(&refs), 0);
    tf_refs_release(&refs, rejected);
    ck_assert_uint_eq(tf_refs_collect_cycles(&refs), 0); /* somebody else has the value */
    tf_value_release(&refs, value);
    ck_assert_uint_eq(tf_refs_collect_cycles(&refs), 2);
    ck_assert_uint_eq(sweep(), 2);
    end();
}
END_TEST

START_TEST(refs_dead_cycle_through_a_revoked_object_is_collected)
{
    begin();
    tf_record *object = add(TF_REF_OBJECT);
    tf_record *promise = add_resolved(&object, 1);
    tf_value *error = tf_value_new(&refs, TF_RESOLUTION_REJECTION, NULL, tf_slice_str(""), &promise, 1);
    tf_refs_settle(&refs, object, error);
    tf_value_release(&refs, error);
    ck_assert_uint_eq(tf_refs_collect_cycles(&refs), 0);
    tf_refs_release(&refs, promise);
    ck_assert(refs.linked_since); /* what is let go is looked for */
    ck_assert_uint_eq(tf_refs_collect_cycles(&refs), 2);
    ck_assert_uint_eq(sweep(), 2);
    end();
}
END_TEST

START_TEST(refs_dead_cycle_through_a_promise_for_an_object_is_collected)
{
    begin();
    tf_record *object = add(TF_REF_OBJECT);
    tf_record *promise = add(TF_REF_PROMISE);
    tf_value *value = tf_value_new(&refs, TF_RESOLUTION_OBJECT, object, tf_slice_str(""), NULL, 0);
    tf_value *error = tf_value_new(&refs, TF_RESOLUTION_REJECTION, NULL, tf_slice_str(""), &promise, 1);
    tf_refs_settle(&refs, promise, value);
    tf_refs_settle(&refs, object, error);
    tf_value_release(&refs, value);
    tf_value_release(&refs, error);
    ck_assert_uint_eq(tf_refs_collect_cycles(&refs), 2);
    ck_assert_uint_eq(sweep(), 2);
    end();
}
END_TEST

START_TEST(refs_collector_waits_until_they_have_doubled)
{
    tf_record *held[8];
    begin();
    tf_record *target = add(TF_REF_PROMISE);
    for (size_t i = 0; i < 2; i++) {
        held[i] = add_resolved(&target, 1);
    }
    ck_assert_uint_eq(tf_refs_collect_cycles(&refs), 0);
    ck_assert(!tf_refs_collect_is_due(&refs));
    held[2] = add_resolved(&target, 1);
    ck_assert(!tf_refs_collect_is_due(&refs));
    held[3] = add_resolved(&target, 1);
    ck_assert(tf_refs_collect_is_due(&refs));
    for (size_t i = 0; i < 4; i++) {
        tf_refs_release(&refs, held[i]);
    }
    ck_assert_uint_eq(sweep(), 5);
    end();
}
END_TEST

START_TEST(refs_without_memory_nothing_is_held)
{
    for (uint64_t k = 0;; k++) {
        tf_test_heap_fail_at(tf_test_heap_shared(), k, true);
        uint64_t before = tf_test_heap_shared()->failures;
        tf_err err = tf_refs_init(&refs, tf_test_mem(), 5);
        if (err == TF_OK) {
            err = tf_refs_reserve(&refs, 100);
            tf_refs_clear(&refs);
        }
        ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, 0);
        if (tf_test_heap_shared()->failures == before) {
            ck_assert_int_eq(err, TF_OK);
            break;
        }
        ck_assert_int_eq(err, TF_ERR_NOMEM);
    }
    tf_test_heap_fail_never(tf_test_heap_shared());
}
END_TEST

START_TEST(refs_trim_gives_back_spare_records)
{
    begin();
    size_t before = tf_test_heap_shared()->live_bytes;
    ck_assert_int_eq(tf_refs_reserve(&refs, 1000), TF_OK);
    ck_assert_uint_gt(tf_test_heap_shared()->live_bytes, before + 1000 * sizeof(tf_record) - 1);
    tf_refs_trim(&refs);
    ck_assert_uint_le(tf_test_heap_shared()->live_bytes, before);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        refs_record_without_count_is_idle_once,
        refs_count_that_comes_back_keeps_the_record,
        refs_value_holds_what_it_names_each_time,
        refs_object_of_the_application_keeps_its_local_id,
        refs_revoked_object_takes_a_second_value,
        refs_dead_cycle_is_collected,
        refs_cycle_that_is_reached_from_outside_stays,
        refs_dead_cycle_lets_go_of_what_hangs_on_it,
        refs_dead_cycle_through_a_shared_rejection_is_collected,
        refs_dead_cycle_through_a_revoked_object_is_collected,
        refs_dead_cycle_through_a_promise_for_an_object_is_collected,
        refs_collector_waits_until_they_have_doubled,
        refs_without_memory_nothing_is_held,
        refs_trim_gives_back_spare_records,
        NULL,
    };
    return tf_test_run("proto/refs", tests);
}
