/* node/hub on a store that is slow, restarted, or does not know yet (P1, S3, S6, S9). */
#include "tests/support/check_main.h"
#include "tests/unit/raw_room.h"

START_TEST(slow_store_resend_after_a_restart_gets_the_first_ack)
{
    setup s;
    char id[64];
    begin_two(&s);
    tf_local first = raw_send(s.raw, "a", "one");
    raw_settle(s.raw);
    tf_result_ack before = raw_ack(s.raw, first);
    size_t id_len = before.id.len;
    memcpy(id, before.id.data, id_len);
    s.w.wall_ms += 5000;
    restart(&s);
    tf_local again = raw_send(s.raw, "a", "one");
    tf_local conflict = raw_send(s.raw, "a", "two");
    tf_local meta = raw_send_with(s.raw, &(tf_args_send){.client_id = tf_slice_str("a"),
                                                         .body = tf_slice_str("one"),
                                                         .meta = tf_slice_str("is not compared")});
    tf_result_ack after = raw_ack(s.raw, again);
    ck_assert(after.duplicate && after.seq == before.seq && after.timestamp_ms == before.timestamp_ms);
    ck_assert(tf_slice_eq(after.id, tf_slice_of(id, id_len)));
    ck_assert_str_eq(raw_outcome(s.raw, conflict), "client_id_conflict");
    ck_assert(raw_ack(s.raw, meta).duplicate);
    ck_assert_uint_eq(store_head(s.node, "room"), 1);
    end(&s);
}
END_TEST

/* What was never committed is not there after the restart, and its resend is stored under the number it then gets. */
START_TEST(slow_store_send_that_was_lost_with_the_process_is_stored_by_its_resend)
{
    setup s;
    begin_two(&s);
    raw_send_range(s.raw, 1, 2);
    s.node->stub.hold = true;
    tf_local lost = raw_send_numbered(s.raw, 3);
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, lost), "waiting");
    restart(&s);
    ck_assert_uint_eq(store_head(s.node, "room"), 2);
    tf_local again = raw_send_numbered(s.raw, 3);
    raw_settle(s.raw);
    ck_assert(!raw_ack(s.raw, again).duplicate && raw_ack(s.raw, again).seq == 3);
    ck_assert(store_holds(s.node, "room", 1, 3));
    end(&s);
}
END_TEST

/* S6: it delays acks and the fan-out of what is not yet committed, and nothing else. */
START_TEST(slow_store_delays_only_acks_and_what_is_not_committed)
{
    setup s;
    raw_args args;
    begin_two(&s);
    raw_send_range(s.raw, 1, 10);
    s.node->stub.hold = true;
    tf_local waiting = raw_send_numbered(s.raw, 11);
    raw_settle(s.raw);
    tf_args_subscribe from = {.from = {TF_FROM_FIRST, 0}, .echo = true};
    raw_sub replay = raw_subscribe(s.other, &from); /* replays */
    raw_expect_range(&replay, 1, 10);
    raw_expect_nothing(&replay);
    tf_args_read_write(raw_begin(&args), &(tf_args_read){5, 6}); /* reads */
    ck_assert_str_eq(raw_outcome(s.other, raw_ask(s.other, s.other->channel, "read", &args)), "acked");
    ck_assert_uint_eq(raw_info(s.other).state.head, 10); /* calls */
    tf_local duplicate = raw_send_numbered(s.raw, 3);    /* acks of what is committed */
    raw_open(s.other, "room");                           /* channels that are there */
    raw_settle(s.raw);
    ck_assert(raw_ack(s.raw, duplicate).duplicate);
    world_pass(&s.w, 30000); /* keepalives; a disk may take its time */
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, waiting), "waiting");
    ck_assert_uint_eq(s.node->failures, 0);
    stub_let_go(&s.node->stub);
    raw_settle(s.raw);
    raw_settle(s.other);
    ck_assert_uint_eq(raw_ack(s.raw, waiting).seq, 11);
    raw_expect_range(&replay, 11, 11);
    end(&s);
}
END_TEST

/* S9: while the outcome of a group is not known nothing of it is refused, and no later one is submitted. */
START_TEST(slow_store_that_does_not_know_yet_is_waited_for)
{
    setup s;
    tf_local promises[60];
    begin_two(&s);
    s.node->stub.hold = true;
    size_t groups = s.node->stub.groups;
    for (unsigned i = 0; i < 30; i++) {
        promises[i] = raw_send_numbered(s.raw, i + 1);
        raw_settle(s.raw);
    }
    world_pass(&s.w, 20000);
    raw_settle(s.raw);
    ck_assert_uint_eq(s.node->stub.groups, groups + 1);
    for (unsigned i = 0; i < 30; i++) {
        ck_assert_str_eq(raw_outcome(s.raw, promises[i]), "waiting");
    }
    tf_hub_stats stats;
    tf_hub_get_stats(s.node->hub, &stats);
    ck_assert_uint_eq(stats.committing, 30);
    stub_let_go(&s.node->stub);
    raw_settle(s.raw);
    for (unsigned i = 0; i < 30; i++) {
        ck_assert_uint_eq(raw_ack(s.raw, promises[i]).seq, i + 1);
    }
    ck_assert_uint_eq(s.node->stub.groups, groups + 2);
    ck_assert(store_holds(s.node, "room", 1, 30));
    end(&s);
}
END_TEST

/* A trim behind a close in one group does not let through what came behind the close. */
START_TEST(slow_store_nothing_passes_a_close_that_has_gathered)
{
    setup s;
    raw_args args;
    begin_two(&s);
    raw_send_range(s.raw, 1, 3);
    s.node->stub.hold = true;
    tf_local before = raw_send_numbered(s.raw, 4);
    raw_settle(s.raw);
    tf_args_none_write(raw_begin(&args));
    tf_local closing = raw_ask(s.raw, s.raw->channel, "close", &args);
    tf_local trimming = raw_trim(s.raw, 2);
    tf_local behind = raw_send_numbered(s.raw, 5);
    raw_settle(s.raw);
    while (stub_release(&s.node->stub)) {
        raw_settle(s.raw);
    }
    ck_assert_str_eq(raw_outcome(s.raw, before), "acked");
    ck_assert_str_eq(raw_outcome(s.raw, closing), "acked");
    ck_assert_str_eq(raw_outcome(s.raw, trimming), "acked");
    ck_assert_str_eq(raw_outcome(s.raw, behind), "channel_closed");
    ck_assert_uint_eq(store_head(s.node, "room"), 4);
    end(&s);
}
END_TEST

/* The first channel has to be fetched, others are at hand. */
static tf_store_presence first_is_later(void *ctx, uint64_t channel, uint64_t seq, tf_stored *out)
{
    return channel == 1 ? TF_STORE_LATER : stub_read(ctx, channel, seq, out);
}

START_TEST(slow_store_holds_up_no_subscription_but_those_that_wait_for_it)
{
    static setup s;
    tf_args_subscribe args = {.from = {TF_FROM_FIRST, 0}, .echo = true};
    begin(&s);
    raw_send_range(s.raw, 1, 1);
    tf_store_table table = *s.node->hub->store.table;
    table.read = first_is_later;
    s.node->hub->store.table = &table;
    for (unsigned i = 0; i < 40; i++) {
        (void)raw_subscribe(s.raw, &args);
    }
    raw_open(s.raw, "another");
    raw_send_range(s.raw, 1, 1);
    raw_sub sub = raw_subscribe(s.raw, &args);
    raw_expect_range(&sub, 1, 1);
    end(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        slow_store_resend_after_a_restart_gets_the_first_ack,
        slow_store_send_that_was_lost_with_the_process_is_stored_by_its_resend,
        slow_store_delays_only_acks_and_what_is_not_committed,
        slow_store_that_does_not_know_yet_is_waited_for,
        slow_store_nothing_passes_a_close_that_has_gathered,
        slow_store_holds_up_no_subscription_but_those_that_wait_for_it,
        NULL,
    };
    return tf_test_run_waiting("node/hub slow store", tests);
}
