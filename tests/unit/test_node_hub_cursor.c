/* node/hub: durable subscriptions (S10), and sends that expire. */
#include "tests/support/check_main.h"
#include "tests/unit/raw_room.h"

static tf_args_subscribe durable_from(tf_from_kind kind, uint64_t value)
{
    return (tf_args_subscribe){.from = {kind, value}, .echo = true, .durable = tf_slice_str("billing")};
}

static uint64_t epoch_of(setup *s)
{
    return raw_info(s->other).state.epoch;
}

/* What the store has; 0: no such cursor. */
static uint64_t stored_cursor(setup *s, const char *name)
{
    tf_node_id owner = world_id(99);
    tf_store_cursor cursor = {.next = 0};
    tf_err err = s->node->stub.inner.table->cursor_find(s->node->stub.inner.ctx, 1, &owner, tf_slice_str(name), &cursor);
    return err == TF_OK ? cursor.next : 0;
}

START_TEST(cursor_keeps_the_position_over_a_restart_of_both_ends)
{
    setup s;
    begin_two(&s);
    raw_send_range(s.raw, 1, 10);
    tf_args_subscribe args = durable_from(TF_FROM_FIRST, 0);
    raw_sub sub = raw_subscribe(s.raw, &args);
    ck_assert(sub.start.next == 1 && !sub.start.resumed);
    raw_expect_range(&sub, 1, 10);
    ck_assert_uint_eq(stored_cursor(&s, "billing"), 1); /* made where it began */
    ck_assert_str_eq(raw_outcome(s.raw, raw_confirm(&sub, sub.start.epoch, 7)), "acked");
    ck_assert_uint_eq(stored_cursor(&s, "billing"), 7);
    restart(&s);
    args = durable_from(TF_FROM_NEW, 0);
    sub = raw_subscribe(s.raw, &args);
    ck_assert(sub.start.next == 7 && sub.start.resumed && sub.start.head == 10);
    raw_expect_range(&sub, 7, 10);
    raw_send_range(s.other, 11, 12);
    raw_settle(s.raw);
    raw_expect_range(&sub, 11, 12);
    raw_expect_nothing(&sub);
    end(&s);
}
END_TEST

START_TEST(cursor_of_a_subscription_from_new_begins_there)
{
    setup s;
    begin_two(&s);
    raw_send_range(s.raw, 1, 3);
    tf_args_subscribe args = durable_from(TF_FROM_NEW, 0);
    raw_sub sub = raw_subscribe(s.raw, &args);
    ck_assert_uint_eq(sub.start.next, 4);
    restart(&s); /* it never confirmed anything */
    raw_send_range(s.other, 4, 6);
    sub = raw_subscribe(s.raw, &args);
    ck_assert(sub.start.next == 4 && sub.start.resumed);
    raw_expect_range(&sub, 4, 6);
    end(&s);
}
END_TEST

START_TEST(cursor_gives_way_to_what_its_subscriber_had_above_it)
{
    const struct {
        uint64_t from;
        bool has_epoch;
        uint64_t next;
        bool resumed;
    } rows[] = {{8, true, 8, false}, {3, true, 5, true}, {8, false, 5, true}, {5, true, 5, true}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        setup s;
        begin_two(&s);
        raw_send_range(s.raw, 1, 10);
        tf_args_subscribe args = durable_from(TF_FROM_FIRST, 0);
        raw_sub sub = raw_subscribe(s.raw, &args);
        (void)raw_confirm(&sub, sub.start.epoch, 5);
        args = durable_from(TF_FROM_SEQ, rows[i].from);
        args.has_epoch = rows[i].has_epoch;
        args.epoch = sub.start.epoch;
        sub = raw_subscribe(s.other, &args);
        ck_assert_msg(sub.start.next == rows[i].next && sub.start.resumed == rows[i].resumed, "row %zu", i);
        raw_expect_range(&sub, rows[i].next, 10);
        end(&s);
    }
}
END_TEST

START_TEST(cursor_is_confirmed_forward_only_and_up_to_the_head)
{
    setup s;
    begin_two(&s);
    raw_send_range(s.raw, 1, 5);
    tf_args_subscribe args = durable_from(TF_FROM_FIRST, 0);
    raw_sub sub = raw_subscribe(s.raw, &args);
    uint64_t epoch = sub.start.epoch;
    ck_assert_str_eq(raw_outcome(s.raw, raw_confirm(&sub, epoch, 4)), "acked");
    ck_assert_str_eq(raw_outcome(s.raw, raw_confirm(&sub, epoch, 2)), "acked"); /* known */
    ck_assert_uint_eq(stored_cursor(&s, "billing"), 4);
    ck_assert_str_eq(raw_outcome(s.raw, raw_confirm(&sub, epoch, 7)), "bad_request");
    ck_assert_str_eq(raw_outcome(s.raw, raw_confirm(&sub, epoch + 1, 5)), "bad_request");
    ck_assert_str_eq(raw_outcome(s.raw, raw_confirm(&sub, epoch, 6)), "acked");
    ck_assert_uint_eq(stored_cursor(&s, "billing"), 6);
    tf_args_subscribe plain = {.from = {TF_FROM_FIRST, 0}};
    raw_sub volatile_one = raw_subscribe(s.raw, &plain);
    ck_assert_str_eq(raw_outcome(s.raw, raw_confirm(&volatile_one, epoch, 2)), "bad_request");
    end(&s);
}
END_TEST

/* While an op is with the store the later positions gather in one more, and each is answered when it is durable. */
START_TEST(cursor_confirms_are_gathered)
{
    setup s;
    tf_local promises[6];
    raw_args args;
    begin_two(&s);
    raw_send_range(s.raw, 1, 10);
    tf_args_subscribe how = durable_from(TF_FROM_FIRST, 0);
    raw_sub sub = raw_subscribe(s.raw, &how);
    size_t groups = s.node->stub.groups;
    s.node->stub.hold = true;
    for (uint64_t i = 0; i < 6; i++) {
        promises[i] = raw_confirm(&sub, sub.start.epoch, i + 2);
    }
    tf_args_confirm_write(raw_begin(&args), &(tf_args_confirm){sub.start.epoch, 9});
    raw_tell(s.raw, sub.object, "confirm", &args); /* one that wants no answer */
    for (size_t i = 0; i < 6; i++) {
        ck_assert_str_eq(raw_outcome(s.raw, promises[i]), "waiting");
    }
    ck_assert(stub_release(&s.node->stub));
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, promises[0]), "acked");
    ck_assert_str_eq(raw_outcome(s.raw, promises[1]), "waiting");
    ck_assert_uint_eq(stored_cursor(&s, "billing"), 2);
    ck_assert(stub_release(&s.node->stub));
    raw_settle(s.raw);
    for (size_t i = 0; i < 6; i++) {
        ck_assert_str_eq(raw_outcome(s.raw, promises[i]), "acked");
    }
    ck_assert_uint_eq(stored_cursor(&s, "billing"), 9);
    ck_assert_uint_eq(s.node->stub.groups, groups + 2);
    end(&s);
}
END_TEST

START_TEST(cursor_that_the_store_refuses_can_be_confirmed_again)
{
    setup s;
    begin_two(&s);
    raw_send_range(s.raw, 1, 10);
    tf_args_subscribe args = durable_from(TF_FROM_FIRST, 0);
    raw_sub sub = raw_subscribe(s.raw, &args);
    s.node->stub.refuse = TF_REFUSAL_UNAVAILABLE;
    ck_assert_str_eq(raw_outcome(s.raw, raw_confirm(&sub, sub.start.epoch, 6)), "unavailable");
    ck_assert_uint_eq(stored_cursor(&s, "billing"), 1);
    s.node->stub.refuse = TF_REFUSAL_NONE;
    ck_assert_str_eq(raw_outcome(s.raw, raw_confirm(&sub, sub.start.epoch, 6)), "acked");
    ck_assert_uint_eq(stored_cursor(&s, "billing"), 6);
    end(&s);
}
END_TEST

/* A position that a restart would not know is none: who begins at "new" would miss what came in between, and not know. */
START_TEST(cursor_that_is_new_is_told_once_it_is_durable)
{
    setup s;
    begin_two(&s);
    raw_send_range(s.raw, 1, 3);
    s.node->stub.hold = true;
    tf_args_subscribe args = durable_from(TF_FROM_NEW, 0);
    raw_sub sub = raw_sink(s.raw);
    tf_local promise = raw_ask_subscribe(s.raw, &args, sub.sink);
    tf_local send = raw_send_numbered(s.other, 4);
    raw_settle(s.other);
    ck_assert_str_eq(raw_outcome(s.raw, promise), "waiting");
    ck_assert(stub_release(&s.node->stub)); /* the cursor */
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, promise), "acked");
    ck_assert_uint_eq(stored_cursor(&s, "billing"), 4);
    ck_assert(stub_release(&s.node->stub)); /* the send behind it */
    raw_settle(s.other);
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.other, send), "acked");
    raw_expect_range(&sub, 4, 4);
    end(&s);
}
END_TEST

START_TEST(cursor_that_is_new_and_refused_is_no_subscription)
{
    setup s;
    begin_two(&s);
    raw_send_range(s.raw, 1, 3);
    s.node->stub.refuse = TF_REFUSAL_STORE_FULL;
    tf_args_subscribe args = durable_from(TF_FROM_FIRST, 0);
    tf_local sink = tf_router_new_object(s.raw->end->router);
    ck_assert_str_eq(raw_outcome(s.raw, raw_ask_subscribe(s.raw, &args, sink)), "store_full");
    s.node->stub.refuse = TF_REFUSAL_NONE;
    ck_assert_uint_eq(raw_info(s.raw).subscriptions, 0);
    raw_sub sub = raw_subscribe(s.raw, &args); /* under the same name */
    ck_assert(!sub.start.resumed);
    raw_expect_range(&sub, 1, 3);
    end(&s);
}
END_TEST

/* Two that wait under one name: both are answered, and the earlier one is over. */
START_TEST(cursor_that_is_new_is_taken_over_before_it_is_durable)
{
    setup s;
    begin_two(&s);
    raw_send_range(s.raw, 1, 3);
    s.node->stub.hold = true;
    tf_args_subscribe args = durable_from(TF_FROM_FIRST, 0);
    raw_sub first = raw_sink(s.raw);
    raw_sub second = raw_sink(s.other);
    tf_local asked = raw_ask_subscribe(s.raw, &args, first.sink);
    tf_local again = raw_ask_subscribe(s.other, &args, second.sink);
    ck_assert_str_eq(raw_outcome(s.other, again), "waiting");
    raw_expect_nothing(&first);
    ck_assert(stub_release(&s.node->stub));
    raw_settle(s.raw);
    raw_settle(s.other);
    ck_assert_str_eq(raw_outcome(s.raw, asked), "acked");
    ck_assert_str_eq(raw_outcome(s.other, again), "acked");
    raw_expect_ended(&first, "taken_over");
    raw_expect_range(&second, 1, 3);
    end(&s);
}
END_TEST

START_TEST(cursor_that_is_new_outlives_the_session_that_waits_for_it)
{
    setup s;
    begin_two(&s);
    raw_send_range(s.raw, 1, 3);
    s.node->stub.hold = true;
    tf_args_subscribe args = durable_from(TF_FROM_FIRST, 0);
    (void)raw_ask_subscribe(s.raw, &args, tf_router_new_object(s.raw->end->router));
    world_disconnect(&s.w, raw_pair(s.raw));
    ck_assert(stub_release(&s.node->stub));
    raw_settle(s.other);
    s.node->stub.hold = false;
    ck_assert_uint_eq(stored_cursor(&s, "billing"), 1);
    ck_assert_uint_eq(raw_info(s.other).subscriptions, 0);
    raw_sub sub = raw_subscribe(s.other, &args);
    ck_assert(sub.start.resumed);
    raw_expect_range(&sub, 1, 3);
    end(&s);
}
END_TEST

START_TEST(cursor_is_taken_over_and_the_earlier_subscription_is_told)
{
    setup s;
    begin_two(&s);
    raw_send_range(s.raw, 1, 5);
    tf_args_subscribe args = durable_from(TF_FROM_FIRST, 0);
    raw_sub first = raw_subscribe(s.raw, &args);
    raw_expect_range(&first, 1, 5);
    (void)raw_confirm(&first, first.start.epoch, 4);
    raw_sub second = raw_subscribe(s.other, &args);
    raw_settle(s.raw);
    raw_expect_ended(&first, "taken_over");
    ck_assert(second.start.next == 4 && second.start.resumed);
    raw_expect_range(&second, 4, 5);
    raw_send_range(s.other, 6, 6);
    raw_settle(s.raw);
    raw_expect_nothing(&first);
    raw_expect_range(&second, 6, 6);
    ck_assert_str_eq(raw_outcome(s.raw, raw_confirm(&first, first.start.epoch, 5)), "bad_request");
    ck_assert_str_eq(raw_outcome(s.other, raw_confirm(&second, first.start.epoch, 7)), "acked");
    ck_assert_uint_eq(raw_info(s.raw).subscriptions, 1);
    args.durable = tf_slice_str("other"); /* another name is another cursor */
    raw_sub third = raw_subscribe(s.raw, &args);
    raw_expect_range(&third, 1, 6);
    raw_send_range(s.other, 7, 7);
    raw_settle(s.raw);
    raw_expect_range(&second, 7, 7);
    end(&s);
}
END_TEST

/* One that takes nothing is told when it takes something again; meanwhile it costs nothing. */
START_TEST(cursor_is_taken_over_from_one_that_has_stopped_reading)
{
    setup s;
    begin_two(&s);
    raw_send_range(s.raw, 1, 5);
    tf_args_subscribe args = durable_from(TF_FROM_FIRST, 0);
    args.limit = 1;
    raw_sub first = raw_subscribe(s.raw, &args);
    raw_expect_range(&first, 1, 1); /* and no more, by its limit */
    raw_expect_nothing(&first);
    args.limit = 0;
    raw_sub second = raw_subscribe(s.other, &args);
    raw_settle(s.raw);
    raw_expect_ended(&first, "taken_over");
    raw_expect_range(&second, 1, 5);
    end(&s);
}
END_TEST

/* Also where nothing is kept, and the first is the next to come. */
START_TEST(cursor_of_another_numbering_begins_at_the_first_and_says_so)
{
    for (uint64_t first = 3; first <= 6; first += 3) {
        setup s;
        uint64_t then = first < 5 ? 5 : first;
        begin_two(&s);
        raw_send_range(s.raw, 1, 5);
        tf_args_subscribe args = durable_from(TF_FROM_FIRST, 0);
        raw_sub sub = raw_subscribe(s.raw, &args);
        (void)raw_confirm(&sub, sub.start.epoch, 4);
        (void)raw_trim(s.raw, first);
        tf_store_op op = {.kind = TF_STORE_EPOCH, .channel = 1, .epoch = 4711};
        stub_commit(&s.node->stub, &op);
        restart(&s);
        args = durable_from(TF_FROM_NEW, 0);
        sub = raw_subscribe(s.raw, &args);
        ck_assert(sub.start.epoch == 4711 && sub.start.next == first && !sub.start.resumed);
        raw_expect_gap(&sub, first, "epoch");
        raw_expect_range(&sub, first, 5);
        ck_assert_str_eq(raw_outcome(s.raw, raw_confirm(&sub, 4711, then)), "acked");
        restart(&s);
        sub = raw_subscribe(s.raw, &args);
        ck_assert(sub.start.next == then && sub.start.resumed);
        raw_expect_range(&sub, then, 5); /* said once */
        end(&s);
    }
}
END_TEST

START_TEST(cursor_below_what_is_kept_gets_a_gap)
{
    setup s;
    begin_two(&s);
    raw_send_range(s.raw, 1, 10);
    tf_args_subscribe args = durable_from(TF_FROM_FIRST, 0);
    raw_sub sub = raw_subscribe(s.raw, &args);
    (void)raw_confirm(&sub, sub.start.epoch, 4);
    (void)raw_trim(s.raw, 8);
    sub = raw_subscribe(s.other, &args);
    ck_assert(sub.start.next == 4 && sub.start.first == 8);
    raw_expect_gap(&sub, 8, "trimmed");
    raw_expect_range(&sub, 8, 10);
    end(&s);
}
END_TEST

static const char *forget(raw_peer *raw, const char *name, const tf_node_id *owner)
{
    raw_args args;
    tf_args_forget_cursor forgotten = {.name = tf_slice_str(name), .has_owner = owner != NULL};
    if (owner != NULL) {
        forgotten.owner = *owner;
    }
    tf_args_forget_cursor_write(raw_begin(&args), &forgotten);
    return raw_outcome(raw, raw_ask(raw, raw->channel, "forget_cursor", &args));
}

START_TEST(cursor_is_forgotten_and_made_again_by_the_next_confirm)
{
    setup s;
    tf_node_id owner = world_id(99);
    tf_node_id stranger = world_id(3);
    begin_two(&s);
    raw_send_range(s.raw, 1, 10);
    tf_args_subscribe args = durable_from(TF_FROM_FIRST, 0);
    raw_sub sub = raw_subscribe(s.raw, &args);
    (void)raw_confirm(&sub, sub.start.epoch, 4);
    ck_assert_str_eq(forget(s.other, "billing", &stranger), "acked"); /* nobody's */
    ck_assert_uint_eq(stored_cursor(&s, "billing"), 4);
    s.node->stub.hold = true; /* a confirm on its way, and one behind it */
    tf_local before = raw_confirm(&sub, sub.start.epoch, 5);
    tf_local behind = raw_confirm(&sub, sub.start.epoch, 6);
    ck_assert_str_eq(forget(s.other, "billing", &owner), "waiting");
    tf_local after = raw_confirm(&sub, sub.start.epoch, 3);
    s.node->stub.hold = false;
    (void)stub_release(&s.node->stub);
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, before), "acked");
    ck_assert_str_eq(raw_outcome(s.raw, behind), "acked");
    ck_assert_str_eq(raw_outcome(s.raw, after), "acked");
    ck_assert_uint_eq(stored_cursor(&s, "billing"), 3);
    ck_assert_str_eq(forget(s.raw, "billing", NULL), "acked");
    ck_assert_uint_eq(stored_cursor(&s, "billing"), 0);
    end(&s);
}
END_TEST

/* What was on its way when it was forgotten is not its position: who comes then makes a new one. */
START_TEST(cursor_that_was_forgotten_is_made_again_by_the_next_subscribe)
{
    for (uint64_t behind = 0; behind < 2; behind++) {
        setup s;
        begin_two(&s);
        raw_send_range(s.raw, 1, 10);
        tf_args_subscribe args = durable_from(TF_FROM_FIRST, 0);
        raw_sub sub = raw_subscribe(s.raw, &args);
        s.node->stub.hold = true;
        for (uint64_t i = 0; i <= behind; i++) { /* with the store; gathered */
            (void)raw_confirm(&sub, sub.start.epoch, 5 + i);
        }
        (void)forget(s.other, "billing", NULL);
        stub_let_go(&s.node->stub);
        raw_settle(s.raw);
        ck_assert_uint_eq(stored_cursor(&s, "billing"), 0);
        args = durable_from(TF_FROM_SEQ, 3);
        sub = raw_subscribe(s.other, &args);
        ck_assert(sub.start.next == 3 && !sub.start.resumed);
        ck_assert_uint_eq(stored_cursor(&s, "billing"), 3);
        end(&s);
    }
}
END_TEST

START_TEST(cursor_that_was_forgotten_by_its_last_subscriber_is_in_memory_no_more)
{
    setup s;
    begin_two(&s);
    raw_send_range(s.raw, 1, 10);
    tf_args_subscribe args = durable_from(TF_FROM_FIRST, 0);
    raw_sub sub = raw_subscribe(s.raw, &args);
    s.node->stub.hold = true;
    (void)raw_confirm(&sub, sub.start.epoch, 5);
    tf_router_release(s.raw->end->router, s.w.now, sub.object);
    raw_settle(s.raw);
    (void)forget(s.raw, "billing", NULL);
    stub_let_go(&s.node->stub);
    raw_settle(s.raw);
    ck_assert_uint_eq(stored_cursor(&s, "billing"), 0);
    end(&s); /* nothing is left */
}
END_TEST

START_TEST(cursor_is_listed_with_its_owner)
{
    setup s;
    tf_slice item;
    tf_cursor_state state;
    tf_node_id owner = world_id(99);
    begin_two(&s);
    raw_send_range(s.raw, 1, 3);
    tf_args_subscribe args = durable_from(TF_FROM_FIRST, 0);
    raw_sub sub = raw_subscribe(s.raw, &args);
    s.w.wall_ms += 5;
    (void)raw_confirm(&sub, sub.start.epoch, 3);
    tf_result_info info = raw_info(s.raw);
    ck_assert(info.cursor_count == 1 && info.subscriptions == 1);
    ck_assert(tf_items_next(&info.cursors, &item) && tf_cursor_state_read(item, &state) == TF_OK);
    ck_assert(tf_slice_eq(state.name, tf_slice_str("billing")) && tf_node_id_eq(&state.owner, &owner));
    ck_assert(state.epoch == epoch_of(&s) && state.next == 3 && state.moved_ms == (uint64_t)s.w.wall_ms);
    ck_assert(!tf_items_next(&info.cursors, &item));
    end(&s);
}
END_TEST

/* -- expires, meta ------------------------------------------------------------------------------------------------- */

static void send_expiring(setup *s, unsigned number, uint64_t expires_ms)
{
    char id[16];
    (void)snprintf(id, sizeof(id), "c-%u", number);
    tf_local promise = raw_send_with(s->raw, &(tf_args_send){.client_id = tf_slice_str(id),
                                                             .body = tf_slice_str(id),
                                                             .meta = tf_slice_str("m"),
                                                             .expires_ms = expires_ms});
    ck_assert_str_eq(raw_outcome(s->raw, promise), "acked");
}

START_TEST(expired_runs_are_announced_once_each)
{
    static const bool expires[] = {true, true, false, true, false, false, true, true}; /* 1 to 8 */
    setup s;
    begin_two(&s);
    uint64_t soon = (uint64_t)s.w.wall_ms + 10;
    for (unsigned i = 0; i < 8; i++) {
        send_expiring(&s, i + 1, expires[i] ? soon : 0);
    }
    tf_args_subscribe args = {.from = {TF_FROM_FIRST, 0}, .echo = true};
    raw_sub before = raw_subscribe(s.other, &args);
    raw_expect_range(&before, 1, 8); /* none has expired yet */
    s.w.wall_ms += 10;
    raw_sub sub = raw_subscribe(s.other, &args);
    raw_expect_gap(&sub, 3, "expired");
    (void)raw_expect(&sub, 3);
    raw_expect_gap(&sub, 5, "expired");
    raw_expect_range(&sub, 5, 6);
    raw_expect_gap(&sub, 9, "expired");
    raw_expect_nothing(&sub);
    send_expiring(&s, 9, 0);
    raw_settle(s.other);
    (void)raw_expect(&sub, 9);
    raw_args bytes;
    tf_result_read result;
    tf_slice item;
    tf_args_read_write(raw_begin(&bytes), &(tf_args_read){1, 1});
    tf_local promise = raw_ask(s.raw, s.raw->channel, "read", &bytes);
    ck_assert_int_eq(tf_result_read_read(raw_data(raw_find(s.raw, promise)), &result), TF_OK);
    ck_assert(tf_items_next(&result.items, &item)); /* `read` has it like any other */
    end(&s);
}
END_TEST

START_TEST(expired_when_it_is_committed_is_announced_to_live_subscribers)
{
    setup s;
    begin_two(&s);
    tf_args_subscribe args = {.from = {TF_FROM_NEW, 0}, .echo = true};
    raw_sub sub = raw_subscribe(s.other, &args);
    uint64_t past = (uint64_t)s.w.wall_ms;
    send_expiring(&s, 1, past + 1000);
    raw_settle(s.other);
    tf_activity activity = raw_expect(&sub, 1);
    ck_assert(activity.expires_ms == past + 1000 && tf_slice_eq(activity.meta, tf_slice_str("m")));
    send_expiring(&s, 2, past);
    raw_settle(s.other);
    raw_expect_gap(&sub, 3, "expired");
    send_expiring(&s, 3, 0);
    raw_settle(s.other);
    (void)raw_expect(&sub, 3);
    raw_expect_nothing(&sub);
    end(&s);
}
END_TEST

START_TEST(expired_before_what_was_trimmed_is_announced_in_order)
{
    setup s;
    begin_two(&s);
    uint64_t soon = (uint64_t)s.w.wall_ms + 10;
    for (unsigned i = 1; i <= 6; i++) {
        send_expiring(&s, i, i <= 2 || i == 5 ? soon : 0);
    }
    s.w.wall_ms += 10;
    s.node->stub.damaged_from = 3;
    s.node->stub.damaged_to = 4;
    tf_args_subscribe args = {.from = {TF_FROM_FIRST, 0}};
    raw_sub sub = raw_subscribe(s.other, &args);
    raw_expect_gap(&sub, 3, "expired");
    raw_expect_gap(&sub, 5, "damaged");
    raw_expect_gap(&sub, 6, "expired");
    (void)raw_expect(&sub, 6);
    end(&s);
}
END_TEST

START_TEST(meta_that_is_too_long_is_refused)
{
    setup s;
    static uint8_t meta[TF_META_MAX + 1];
    begin_two(&s);
    tf_args_send args = {.client_id = tf_slice_str("a"), .meta = tf_slice_of(meta, sizeof(meta))};
    ck_assert_str_eq(raw_outcome(s.raw, raw_send_with(s.raw, &args)), "message_too_large");
    args.meta.len = TF_META_MAX;
    ck_assert_str_eq(raw_outcome(s.raw, raw_send_with(s.raw, &args)), "acked");
    ck_assert_uint_eq(store_read(s.node, "room", 1).meta.len, TF_META_MAX);
    end(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        cursor_keeps_the_position_over_a_restart_of_both_ends,
        cursor_of_a_subscription_from_new_begins_there,
        cursor_gives_way_to_what_its_subscriber_had_above_it,
        cursor_is_confirmed_forward_only_and_up_to_the_head,
        cursor_confirms_are_gathered,
        cursor_that_the_store_refuses_can_be_confirmed_again,
        cursor_that_is_new_is_told_once_it_is_durable,
        cursor_that_is_new_and_refused_is_no_subscription,
        cursor_that_is_new_is_taken_over_before_it_is_durable,
        cursor_that_is_new_outlives_the_session_that_waits_for_it,
        cursor_is_taken_over_and_the_earlier_subscription_is_told,
        cursor_is_taken_over_from_one_that_has_stopped_reading,
        cursor_of_another_numbering_begins_at_the_first_and_says_so,
        cursor_below_what_is_kept_gets_a_gap,
        cursor_is_forgotten_and_made_again_by_the_next_confirm,
        cursor_that_was_forgotten_is_made_again_by_the_next_subscribe,
        cursor_that_was_forgotten_by_its_last_subscriber_is_in_memory_no_more,
        cursor_is_listed_with_its_owner,
        expired_runs_are_announced_once_each,
        expired_when_it_is_committed_is_announced_to_live_subscribers,
        expired_before_what_was_trimmed_is_announced_in_order,
        meta_that_is_too_long_is_refused,
        NULL,
    };
    return tf_test_run("node/hub cursor", tests);
}
