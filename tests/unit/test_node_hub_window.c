/* node/hub: the window and its order guard, and what else bounds sends (S6, S7). */
#include "tests/support/check_main.h"
#include "tests/unit/raw_room.h"

START_TEST(hub_sends_beyond_the_window_are_refused_and_come_back_in_order)
{
    setup s;
    tf_local promises[64];
    begin(&s);
    s.node->stub.hold = true;
    for (unsigned i = 0; i < 64; i++) {
        promises[i] = raw_send_numbered(s.raw, i + 1);
    }
    raw_settle(s.raw);
    for (unsigned i = 32; i < 64; i++) {
        ck_assert_str_eq(raw_outcome(s.raw, promises[i]), "too_many_in_flight");
    }
    while (stub_release(&s.node->stub)) { /* two groups: the second gathered behind the first */
        raw_settle(s.raw);
    }
    for (unsigned i = 0; i < 32; i++) {
        ck_assert_uint_eq(raw_ack(s.raw, promises[i]).seq, i + 1);
    }
    s.node->stub.hold = false;
    for (unsigned i = 32; i < 64; i++) {
        promises[i] = raw_send_numbered(s.raw, i + 1);
    }
    raw_settle(s.raw);
    for (unsigned i = 32; i < 64; i++) {
        ck_assert_uint_eq(raw_ack(s.raw, promises[i]).seq, i + 1);
    }
    ck_assert(store_holds(s.node, "room", 1, 64));
    end(&s);
}
END_TEST

START_TEST(hub_order_guard_refuses_what_would_pass_a_refused_send)
{
    setup s;
    tf_hub_config config = {.max_in_flight = 2};
    begin_with(&s, &config);
    s.node->stub.hold = true;
    for (unsigned i = 1; i <= 4; i++) {
        (void)raw_send_numbered(s.raw, i);
    }
    world_settle(&s.w); /* the raw peer processes nothing: no session ack covers the refusals */
    stub_let_go(&s.node->stub);
    world_settle(&s.w);
    tf_local fifth = raw_send_numbered(s.raw, 5);
    tf_local fourth = raw_send_numbered(s.raw, 4);
    tf_local third = raw_send_numbered(s.raw, 3);
    tf_local fourth_again = raw_send_numbered(s.raw, 4);
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, fifth), "too_many_in_flight"); /* the code that raised the guard */
    ck_assert_str_eq(raw_outcome(s.raw, fourth), "too_many_in_flight");
    ck_assert_uint_eq(raw_ack(s.raw, third).seq, 3);
    ck_assert_uint_eq(raw_ack(s.raw, fourth_again).seq, 4);
    fifth = raw_send_numbered(s.raw, 5);
    raw_settle(s.raw);
    ck_assert(store_holds(s.node, "room", 1, 5));
    end(&s);
}
END_TEST

/* C5: so many are remembered, and come back one after the other. */
START_TEST(hub_order_guard_knows_four_windows_of_refused_sends)
{
    setup s;
    tf_local promises[11];
    begin_with(&s, &(tf_hub_config){.max_in_flight = 2});
    s.node->stub.hold = true;
    for (unsigned i = 1; i <= 10; i++) {
        (void)raw_send_numbered(s.raw, i);
    }
    world_settle(&s.w); /* the raw peer processes nothing: no session ack covers the refusals */
    stub_let_go(&s.node->stub);
    world_settle(&s.w);
    for (unsigned i = 3; i <= 10; i++) {
        promises[i] = raw_send_numbered(s.raw, i);
        world_settle(&s.w);
    }
    raw_settle(s.raw);
    for (unsigned i = 3; i <= 10; i++) {
        ck_assert_uint_eq(raw_ack(s.raw, promises[i]).seq, i);
    }
    end(&s);
}
END_TEST

START_TEST(hub_send_whose_session_ack_covers_every_refusal_is_accepted)
{
    setup s;
    tf_hub_config config = {.max_in_flight = 1};
    begin_with(&s, &config);
    s.node->stub.hold = true;
    (void)raw_send_numbered(s.raw, 1);
    (void)raw_send_numbered(s.raw, 2);
    (void)raw_send_numbered(s.raw, 3);
    raw_settle(s.raw); /* takes the refusals: what is sent from now on acks them */
    stub_let_go(&s.node->stub);
    raw_settle(s.raw);
    tf_local fourth = raw_send_numbered(s.raw, 4); /* its client knew of 2 and 3, and chose */
    raw_settle(s.raw);
    ck_assert_uint_eq(raw_ack(s.raw, fourth).seq, 2);
    tf_local second = raw_send_numbered(s.raw, 2);
    raw_settle(s.raw);
    ck_assert_uint_eq(raw_ack(s.raw, second).seq, 3); /* the guard is gone */
    end(&s);
}
END_TEST

/* C5: only of those that are to come back it has to know. */
START_TEST(hub_send_whose_session_ack_lacks_a_refusal_for_good_is_accepted)
{
    setup s;
    begin_with(&s, &(tf_hub_config){.max_in_flight = 1});
    s.node->stub.hold = true;
    (void)raw_send_numbered(s.raw, 1);
    (void)raw_send_numbered(s.raw, 2);
    raw_settle(s.raw);
    stub_let_go(&s.node->stub);
    raw_settle(s.raw);
    tf_local conflict = raw_send(s.raw, "c-1", "another");
    world_settle(&s.w); /* the raw peer does not process that */
    tf_local third = raw_send_numbered(s.raw, 3);
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, conflict), "client_id_conflict");
    ck_assert_uint_eq(raw_ack(s.raw, third).seq, 2);
    end(&s);
}
END_TEST

START_TEST(hub_group_that_the_store_refuses_leaves_no_hole_and_keeps_the_order)
{
    setup s;
    tf_local promises[6];
    begin(&s);
    (void)raw_send_numbered(s.raw, 1);
    raw_settle(s.raw);
    s.node->stub.hold = true;
    promises[0] = raw_send_numbered(s.raw, 2);
    raw_settle(s.raw); /* the group of 2 is with the store ... */
    for (unsigned i = 1; i < 4; i++) {
        promises[i] = raw_send_numbered(s.raw, i + 2); /* ... and 3, 4, 5 gather behind it (S6) */
    }
    world_settle(&s.w);
    s.node->stub.refuse = TF_REFUSAL_STORE_FULL;
    ck_assert(stub_release(&s.node->stub));
    world_settle(&s.w);
    s.node->stub.refuse = TF_REFUSAL_NONE;
    s.node->stub.hold = false;
    tf_local sixth = raw_send_numbered(s.raw, 6);
    tf_local back[4];
    for (unsigned i = 0; i < 4; i++) {
        back[i] = raw_send_numbered(s.raw, i + 2);
    }
    raw_settle(s.raw);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_str_eq(raw_outcome(s.raw, promises[i]), "store_full");
        ck_assert_uint_eq(raw_ack(s.raw, back[i]).seq, i + 2);
    }
    ck_assert_str_eq(raw_outcome(s.raw, sixth), "store_full");
    (void)raw_send_numbered(s.raw, 6);
    raw_settle(s.raw);
    ck_assert(store_holds(s.node, "room", 1, 6));
    end(&s);
}
END_TEST

START_TEST(hub_refused_group_of_a_lost_session_lets_nothing_pass)
{
    setup s;
    begin(&s);
    s.node->stub.hold = true;
    (void)raw_send_numbered(s.raw, 1);
    raw_settle(s.raw);
    (void)raw_send_numbered(s.raw, 2);
    raw_settle(s.raw);
    world_disconnect(&s.w, raw_pair(s.raw)); /* nobody hears that 1 was refused */
    s.node->stub.refuse = TF_REFUSAL_UNAVAILABLE;
    ck_assert(stub_release(&s.node->stub));
    s.node->stub.refuse = TF_REFUSAL_NONE;
    s.node->stub.hold = false;
    world_settle(&s.w);
    ck_assert_uint_eq(store_head(s.node, "room"), 0); /* 2 did not pass */
    raw_peer *next = in_room(&s, 11);
    (void)raw_send_numbered(next, 1);
    (void)raw_send_numbered(next, 2);
    raw_settle(next);
    ck_assert(store_holds(s.node, "room", 1, 2));
    end(&s);
    free(next);
}
END_TEST

/* What is acked as a duplicate will not come back: it holds nothing up (S3, S7). */
START_TEST(hub_refused_send_that_another_instance_got_through_leaves_the_guard)
{
    setup s;
    tf_hub_config config = {.max_in_flight = 1};
    begin_with(&s, &config);
    s.other = in_room(&s, 12);
    s.node->stub.hold = true;
    (void)raw_send_numbered(s.raw, 1);
    (void)raw_send_numbered(s.raw, 2);
    world_settle(&s.w);
    stub_let_go(&s.node->stub);
    (void)raw_send_numbered(s.other, 2);
    world_settle(&s.w);
    tf_local second = raw_send_numbered(s.raw, 2);
    tf_local third = raw_send_numbered(s.raw, 3);
    raw_settle(s.raw);
    ck_assert(raw_ack(s.raw, second).duplicate);
    ck_assert_uint_eq(raw_ack(s.raw, third).seq, 3);
    end(&s);
}
END_TEST

/* The same while the other's is on its way to the disk: the resend waits for it, and nothing waits for the resend. */
START_TEST(hub_refused_send_that_another_instance_is_getting_through_leaves_the_guard)
{
    setup s;
    tf_hub_config config = {.max_in_flight = 1};
    begin_with(&s, &config);
    s.other = in_room(&s, 12);
    s.node->stub.hold = true;
    (void)raw_send_numbered(s.raw, 1);
    (void)raw_send_numbered(s.raw, 2);
    world_settle(&s.w);
    ck_assert(stub_release(&s.node->stub));
    world_settle(&s.w);
    (void)raw_send_numbered(s.other, 2);
    world_settle(&s.w);
    tf_local second = raw_send_numbered(s.raw, 2);
    tf_local third = raw_send_numbered(s.raw, 3);
    world_settle(&s.w);
    stub_let_go(&s.node->stub);
    raw_settle(s.raw);
    ck_assert_uint_eq(raw_ack(s.raw, second).seq, 2);
    ck_assert_uint_eq(raw_ack(s.raw, third).seq, 3);
    end(&s);
}
END_TEST

START_TEST(hub_window_is_per_origin_behind_a_relay)
{
    setup s;
    tf_hub_config config = {.max_in_flight = 2};
    tf_local promises[6];
    begin_as(&s, true, &config);
    s.node->stub.hold = true;
    for (unsigned i = 0; i < 6; i++) {
        char id[8];
        const tf_who origin = {world_id(50), i / 3}; /* two instances: two windows */
        (void)snprintf(id, sizeof(id), "c-%u", i);
        promises[i] = raw_send_origin(s.raw, id, tf_slice_str(id), &origin);
    }
    raw_settle(s.raw);
    s.node->stub.hold = false;
    while (stub_release(&s.node->stub)) {
        raw_settle(s.raw);
    }
    raw_settle(s.raw);
    for (unsigned i = 0; i < 6; i++) {
        ck_assert_str_eq(raw_outcome(s.raw, promises[i]), i % 3 == 2 ? "too_many_in_flight" : "acked");
    }
    end(&s);
}
END_TEST

START_TEST(hub_bodies_that_wait_for_their_commit_are_bounded)
{
    setup s;
    static uint8_t body[400];
    tf_hub_config config = {.max_message = 4096, .commit_bytes_per_peer = 1000};
    tf_local promises[3];
    begin_with(&s, &config);
    s.node->stub.hold = true;
    for (unsigned i = 0; i < 3; i++) {
        char id[8];
        (void)snprintf(id, sizeof(id), "c-%u", i);
        promises[i] = raw_send_origin(s.raw, id, tf_slice_of(body, sizeof(body)), NULL);
    }
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, promises[1]), "waiting");
    ck_assert_str_eq(raw_outcome(s.raw, promises[2]), "overloaded");
    end(&s);
}
END_TEST

START_TEST(hub_draining_refuses_new_sends_and_finishes_the_old_ones)
{
    setup s;
    begin(&s);
    s.node->stub.hold = true;
    tf_local first = raw_send(s.raw, "a", "one");
    raw_settle(s.raw);
    tf_hub_drain(s.node->hub);
    tf_local second = raw_send(s.raw, "b", "two");
    tf_local again = raw_send(s.raw, "a", "one");
    raw_settle(s.raw);
    ck_assert(!tf_hub_is_drained(s.node->hub));
    ck_assert_str_eq(raw_outcome(s.raw, second), "draining");
    ck_assert(stub_release(&s.node->stub));
    raw_settle(s.raw);
    ck_assert(tf_hub_is_drained(s.node->hub));
    ck_assert_str_eq(raw_outcome(s.raw, first), "acked");
    ck_assert(raw_ack(s.raw, again).duplicate);
    end(&s);
}
END_TEST

START_TEST(hub_sends_are_counted_by_what_became_of_them)
{
    setup s;
    tf_hub_stats stats;
    begin_with(&s, &(tf_hub_config){.max_in_flight = 2});
    s.node->stub.hold = true;
    for (unsigned i = 1; i <= 3; i++) {
        (void)raw_send_numbered(s.raw, i);
    }
    (void)raw_send_numbered(s.raw, 1); /* waits with the first */
    raw_settle(s.raw);
    tf_hub_get_stats(s.node->hub, &stats);
    ck_assert(stats.sends == 4 && stats.committing == 2 && stats.committing_bytes == strlen("c-1c-2"));
    ck_assert(stats.accepted == 0 && stats.duplicates == 0);
    s.node->stub.hold = false;
    while (stub_release(&s.node->stub)) {
        raw_settle(s.raw);
    }
    (void)raw_send_numbered(s.raw, 2);
    raw_settle(s.raw);
    tf_hub_get_stats(s.node->hub, &stats);
    ck_assert(stats.sends == 5 && stats.accepted == 2 && stats.duplicates == 2);
    ck_assert(stats.committing == 0 && stats.committing_bytes == 0);
    ck_assert_uint_eq(stats.refused[TF_REFUSAL_TOO_MANY_IN_FLIGHT], 1);
    end(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        hub_sends_beyond_the_window_are_refused_and_come_back_in_order,
        hub_order_guard_refuses_what_would_pass_a_refused_send,
        hub_order_guard_knows_four_windows_of_refused_sends,
        hub_send_whose_session_ack_covers_every_refusal_is_accepted,
        hub_send_whose_session_ack_lacks_a_refusal_for_good_is_accepted,
        hub_group_that_the_store_refuses_leaves_no_hole_and_keeps_the_order,
        hub_refused_group_of_a_lost_session_lets_nothing_pass,
        hub_refused_send_that_another_instance_got_through_leaves_the_guard,
        hub_refused_send_that_another_instance_is_getting_through_leaves_the_guard,
        hub_window_is_per_origin_behind_a_relay,
        hub_bodies_that_wait_for_their_commit_are_bounded,
        hub_draining_refuses_new_sends_and_finishes_the_old_ones,
        hub_sends_are_counted_by_what_became_of_them,
        NULL,
    };
    return tf_test_run("node/hub window", tests);
}
