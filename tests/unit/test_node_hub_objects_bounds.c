/* node/hub_objects: how many calls may wait for the program (P7). */
#include "tests/unit/app_objects.h"

/* A connection has a quarter; what is refused does not pass what comes behind it (P6). */
START_TEST(objects_calls_that_nobody_takes_are_bounded_and_keep_their_order)
{
    static setup s;
    static tf_local promises[TF_APP_ITEMS / 4 + 3];
    begin(&s);
    for (size_t i = 0; i < TF_APP_ITEMS / 4 + 2; i++) {
        promises[i] = raw_ask_text(s.peer, s.seen, "say", "hello", TF_LOCAL_NONE);
    }
    world_settle(&s.w); /* the peer has not heard of a refusal yet */
    ck_assert_uint_ge(records_of(&s), TF_APP_ITEMS / 4);
    (void)next(&s, TF_APP_CALL);
    promises[TF_APP_ITEMS / 4 + 2] = raw_ask_text(s.peer, s.seen, "say", "behind", TF_LOCAL_NONE);
    raw_settle(s.peer);
    ck_assert_str_eq(raw_outcome(s.peer, promises[TF_APP_ITEMS / 4 - 1]), "waiting");
    for (size_t i = 0; i < 3; i++) {
        ck_assert_str_eq(raw_outcome(s.peer, promises[TF_APP_ITEMS / 4 + i]), "overloaded");
    }
    tf_local again = raw_ask_text(s.peer, s.seen, "say", "again", TF_LOCAL_NONE);
    raw_settle(s.peer);
    ck_assert_str_eq(raw_outcome(s.peer, again), "waiting"); /* there is room, and the peer knows */
    end(&s);
}
END_TEST

/* P7: each peer within its share, and all together within the whole. */
START_TEST(objects_calls_that_nobody_takes_are_bounded_in_all)
{
    static setup s;
    static uint8_t large[TF_APP_BYTES / 16 - 65536u]; /* four of them are the share of a peer, nearly */
    raw_peer *peers[5];
    begin(&s);
    for (size_t i = 0; i < 5; i++) {
        peers[i] = raw_new(&s.w, s.node, 20 + i);
        tf_local seen = given_to(&s, peers[i]);
        for (size_t k = 0; k < 4; k++) {
            tf_local promise = raw_call(peers[i], seen, "say", tf_slice_of(large, sizeof(large)), TF_LOCAL_NONE);
            raw_settle(peers[i]);
            ck_assert_str_eq(raw_outcome(peers[i], promise), i < 4 || k == 0 ? "waiting" : "overloaded");
        }
    }
    end(&s);
    for (size_t i = 0; i < 5; i++) {
        free(peers[i]);
    }
}
END_TEST

/* The program's own calls of its own objects, too; the answer is told as any other. */
START_TEST(objects_own_call_for_which_there_is_no_room_is_refused)
{
    static setup s;
    tf_app_event event = {.type = TF_APP_CALL};
    begin(&s);
    for (size_t i = 0; i < TF_APP_ITEMS; i++) {
        (void)call(&s, s.own, "say", NULL, 0);
    }
    tf_local refused = call(&s, s.own, "say", NULL, 0);
    while (event.type != TF_APP_SETTLED) {
        ck_assert(tf_hub_next_app_event(s.node->hub, &event));
    }
    ck_assert(event.local == refused && event.kind == TF_RESOLUTION_REJECTION);
    ck_assert_ptr_nonnull(memmem(event.data.data, event.data.len, "overloaded", 10));
    end(&s);
}
END_TEST

/* P7: what was taken waits no more, of its peer and of all; one is always waiting here. */
START_TEST(objects_calls_that_were_taken_make_room_for_others)
{
    static setup s;
    static uint8_t large[TF_APP_BYTES / 16 - 65536u];
    begin(&s);
    for (size_t k = 0; k < 40; k++) {
        tf_local promise = raw_call(s.peer, s.seen, "say", tf_slice_of(large, sizeof(large)), TF_LOCAL_NONE);
        raw_settle(s.peer);
        ck_assert_str_eq(raw_outcome(s.peer, promise), "waiting");
        if (k > 0) {
            (void)next(&s, TF_APP_CALL);
        }
    }
    end(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        objects_calls_that_nobody_takes_are_bounded_and_keep_their_order,
        objects_calls_that_nobody_takes_are_bounded_in_all,
        objects_own_call_for_which_there_is_no_room_is_refused,
        objects_calls_that_were_taken_make_room_for_others,
        NULL,
    };
    return tf_test_run("node/hub objects, bounds", tests);
}
