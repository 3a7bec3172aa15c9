/* node/hub as a relay of references (D13): what one peer exports is called by another through it. */
#include "tests/support/check_main.h"
#include "tests/unit/raw_names.h"

typedef struct setup {
    world w;
    world_node *node;
    raw_peer *host;   /* node id 99 */
    raw_peer *caller; /* node id 98 */
    tf_local object;  /* of the host, published as "o" */
    tf_local found;   /* the same, as the caller knows it */
} setup;

static void begin_with(setup *s, const tf_hub_config *config)
{
    world_init(&s->w, 6);
    s->node = world_add(&s->w, true, config);
    s->host = raw_new(&s->w, s->node, 11);
    s->w.raw_id = 98;
    s->caller = raw_new(&s->w, s->node, 12);
    s->object = tf_router_new_object(s->host->end->router);
    ck_assert_str_eq(raw_publish(s->host, "o", s->object), "acked");
    s->found = raw_lookup(s->caller, "o");
    ck_assert_uint_ne(s->found, TF_LOCAL_NONE);
}

static void begin(setup *s)
{
    begin_with(s, NULL);
}

static void end(setup *s)
{
    ck_assert_uint_eq(s->node->failures, 0);
    world_free(&s->w);
    free(s->host);
    free(s->caller);
}

static tf_hub_stats stats_of(const setup *s)
{
    tf_hub_stats stats;
    tf_hub_get_stats(s->node->hub, &stats);
    return stats;
}

static void settle(setup *s)
{
    raw_settle_both(s->host, s->caller);
}

/* Lets acks go, so that nothing is kept for them. */
static void fall_silent(setup *s)
{
    settle(s);
    world_pass(&s->w, 50);
    settle(s);
}

/* -- calls --------------------------------------------------------------------------------------------------------- */

START_TEST(relay_object_in_an_answer_can_be_called)
{
    static setup s;
    begin(&s);
    tf_local made = tf_router_new_object(s.host->end->router);
    tf_local promise = raw_ask_text(s.caller, s.found, "make", "", TF_LOCAL_NONE);
    settle(&s);
    raw_answer_text(s.host, raw_got(s.host, "make")->result, "here", made);
    settle(&s);
    const raw_answer *answer = raw_find(s.caller, promise);
    ck_assert(raw_is_text(answer, "here"));
    (void)raw_ask_text(s.caller, answer->ref, "use", "now", TF_LOCAL_NONE);
    settle(&s);
    ck_assert_uint_eq(raw_got(s.host, "use")->promise, made);
    end(&s);
}
END_TEST

/* An object of the caller goes the other way, and is called back. */
START_TEST(relay_object_in_arguments_can_be_called_back)
{
    static setup s;
    begin(&s);
    tf_local own = tf_router_new_object(s.caller->end->router);
    (void)raw_ask_text(s.caller, s.found, "take", "", own);
    settle(&s);
    tf_local back = raw_ask_text(s.host, raw_got(s.host, "take")->ref, "called", "back", TF_LOCAL_NONE);
    settle(&s);
    const raw_answer *call = raw_called(s.caller, "called");
    ck_assert(raw_is_text(call, "back"));
    ck_assert_uint_eq(call->promise, own);
    raw_answer_text(s.caller, call->result, "yes", TF_LOCAL_NONE);
    settle(&s);
    ck_assert(raw_is_text(raw_find(s.host, back), "yes"));
    end(&s);
}
END_TEST

/* What is sent to a result before it is there comes in order, and before the answer is known. */
START_TEST(relay_messages_to_a_result_are_pipelined_in_order)
{
    static setup s;
    begin(&s);
    tf_local made = tf_router_new_object(s.host->end->router);
    tf_local promise = raw_ask_text(s.caller, s.found, "make", "", TF_LOCAL_NONE);
    (void)raw_ask_text(s.caller, promise, "use", "1", TF_LOCAL_NONE);
    (void)raw_ask_text(s.caller, promise, "use", "2", TF_LOCAL_NONE);
    settle(&s);
    ck_assert_ptr_null(raw_called(s.host, "use")); /* it waits where the promise is decided */
    tf_answer answer = {.promise = raw_got(s.host, "make")->result,
                        .kind = TF_RESOLUTION_OBJECT,
                        .object = {made, TF_REF_OBJECT}};
    ck_assert_int_eq(tf_router_resolve(s.host->end->router, s.w.now, &answer, 1), TF_OK);
    settle(&s);
    const raw_answer *found = raw_find(s.caller, promise);
    ck_assert_ptr_nonnull(found);
    (void)raw_ask_text(s.caller, found->ref, "use", "3", TF_LOCAL_NONE);
    settle(&s);
    size_t uses = 0;
    for (size_t i = 0; i < s.host->count; i++) {
        const raw_answer *call = &s.host->answers[i];
        if (call->is_deliver && strcmp(call->method, "use") == 0) {
            const char text[] = {(char)('1' + (int)uses), 0};
            ck_assert_uint_eq(call->promise, made);
            ck_assert(raw_is_text(call, text));
            uses++;
        }
    }
    ck_assert_uint_eq(uses, 3);
    end(&s);
}
END_TEST

START_TEST(relay_rejection_comes_through_as_it_is)
{
    static setup s;
    begin(&s);
    tf_local promise = raw_ask_text(s.caller, s.found, "fail", "", TF_LOCAL_NONE);
    settle(&s);
    uint8_t bytes[128];
    tf_writer w;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_result_refusal no = {.code = tf_slice_str("no_such_thing"), .message = tf_slice_str("no")};
    tf_result_refusal_write(&w, &no);
    tf_answer answer = {.promise = raw_got(s.host, "fail")->result,
                        .kind = TF_RESOLUTION_REJECTION,
                        .data = tf_slice_of(bytes, tf_wr_len(&w))};
    ck_assert_int_eq(tf_router_resolve(s.host->end->router, s.w.now, &answer, 1), TF_OK);
    settle(&s);
    ck_assert_str_eq(raw_outcome(s.caller, promise), "no_such_thing");
    end(&s);
}
END_TEST

/* -- the end of references ----------------------------------------------------------------------------------------- */

START_TEST(relay_drop_of_the_last_holder_reaches_the_host)
{
    static setup s;
    begin(&s);
    ck_assert_str_eq(raw_publish(s.host, "o", TF_LOCAL_NONE), "acked");
    fall_silent(&s);
    ck_assert(raw_knows(s.host, s.object)); /* the caller has it */
    raw_release(s.caller, s.found);
    fall_silent(&s);
    ck_assert(!raw_knows(s.host, s.object));
    ck_assert_uint_eq(stats_of(&s).refs.records, 3); /* three roots */
    end(&s);
}
END_TEST

START_TEST(relay_name_keeps_what_its_holder_drops)
{
    static setup s;
    begin(&s);
    raw_release(s.caller, s.found);
    fall_silent(&s);
    ck_assert(raw_knows(s.host, s.object));
    ck_assert_str_eq(raw_publish(s.host, "o", TF_LOCAL_NONE), "acked");
    fall_silent(&s);
    ck_assert(!raw_knows(s.host, s.object));
    ck_assert_uint_eq(stats_of(&s).refs.records, 3);
    end(&s);
}
END_TEST

/* The host learns nothing of its callers but that nobody needs it any more. */
START_TEST(relay_caller_that_goes_lets_go_of_what_it_had)
{
    static setup s;
    begin(&s);
    ck_assert_str_eq(raw_publish(s.host, "o", TF_LOCAL_NONE), "acked");
    (void)raw_ask_text(s.caller, s.found, "take", "", tf_router_new_object(s.caller->end->router));
    settle(&s);
    tf_local back = raw_ask_text(s.host, raw_got(s.host, "take")->ref, "called", "back", TF_LOCAL_NONE);
    settle(&s);
    raw_lose(&s.caller);
    raw_settle(s.host);
    ck_assert_str_eq(raw_outcome(s.host, back), "disconnected");
    ck_assert(!raw_knows(s.host, s.object));
    end(&s);
}
END_TEST

/* -- what the hub itself exports ----------------------------------------------------------------------------------- */

/* A channel is passed on by one who has it open to one who has not: it stays as long as anybody refers to it. */
START_TEST(relay_channel_that_is_passed_on_stays_until_nobody_has_it)
{
    static setup s;
    begin(&s);
    raw_open(s.caller, "room");
    (void)raw_ask_text(s.caller, s.found, "take", "", s.caller->channel);
    settle(&s);
    s.host->channel = raw_got(s.host, "take")->ref;
    raw_release(s.caller, s.caller->channel);
    fall_silent(&s);
    ck_assert_uint_eq(stats_of(&s).channels, 1);
    tf_local send = raw_send(s.host, "a", "x");
    settle(&s);
    ck_assert_str_eq(raw_outcome(s.host, send), "acked");
    raw_release(s.host, s.host->channel);
    fall_silent(&s);
    ck_assert_uint_eq(stats_of(&s).channels, 0);
    ck_assert_uint_eq(store_head(s.node, "room"), 1);
    end(&s);
}
END_TEST

/* What one may do with a channel is asked of the connection, however the object came there. */
START_TEST(relay_channel_that_is_passed_on_gives_no_rights)
{
    static setup s;
    const tf_node_id caller = world_id(98);
    const tf_hub_rule rules[] = {{tf_slice_str("room"), {false, &caller, 1}, {false, &caller, 1}}};
    begin(&s);
    ck_assert_int_eq(tf_hub_set_rights(s.node->hub, s.w.now, rules, 1), TF_OK);
    raw_open(s.caller, "room");
    (void)raw_ask_text(s.caller, s.found, "take", "", s.caller->channel);
    settle(&s);
    s.host->channel = raw_got(s.host, "take")->ref;
    tf_local send = raw_send(s.host, "a", "x");
    settle(&s);
    ck_assert_str_eq(raw_outcome(s.host, send), "forbidden");
    end(&s);
}
END_TEST

/* The same where the node remembers no more of what the connection may do: then it looks each time. */
START_TEST(relay_channel_beyond_what_is_remembered_has_its_rights)
{
    static setup s;
    const tf_hub_rule rules[] = {{tf_slice_str("*"), {true, NULL, 0}, {true, NULL, 0}}};
    begin_with(&s, &(tf_hub_config){.channels_per_peer = 1});
    ck_assert_int_eq(tf_hub_set_rights(s.node->hub, s.w.now, rules, 1), TF_OK);
    raw_open(s.caller, "room");
    raw_open(s.host, "other");
    tf_local own = raw_send(s.host, "a", "x");
    (void)raw_ask_text(s.caller, s.found, "take", "", s.caller->channel);
    settle(&s);
    ck_assert_str_eq(raw_outcome(s.host, own), "acked");
    s.host->channel = raw_got(s.host, "take")->ref;
    tf_local send = raw_send(s.host, "b", "x");
    settle(&s);
    ck_assert_str_eq(raw_outcome(s.host, send), "acked");
    end(&s);
}
END_TEST

/* What was read, promised to somebody else, by one who goes before the store has it. */
START_TEST(relay_read_whose_asker_is_gone_is_rejected_for_the_others)
{
    static setup s;
    raw_args args;
    begin(&s);
    raw_open(s.caller, "room");
    (void)raw_send(s.caller, "a", "x");
    settle(&s);
    s.node->stub.later = true;
    tf_args_read_write(raw_begin(&args), &(tf_args_read){1, 1});
    tf_local read = raw_call(s.caller, s.caller->channel, "read", raw_bytes(&args), TF_LOCAL_NONE);
    tf_mention mention = {read, TF_REF_PROMISE};
    tf_router_send told = {.target = s.found, .method = tf_slice_str("wait"), .refs = &mention, .ref_count = 1};
    ck_assert_int_eq(tf_router_deliver(s.caller->end->router, s.w.now, &told, NULL), TF_OK);
    settle(&s);
    tf_local promise = raw_got(s.host, "wait")->ref;
    raw_lose(&s.caller);
    raw_settle(s.host);
    ck_assert_str_eq(raw_outcome(s.host, promise), "disconnected");
    end(&s);
}
END_TEST

/* The ack of a send, promised to somebody else, whose sender goes before it comes. */
START_TEST(relay_answer_whose_asker_is_gone_is_rejected_for_the_others)
{
    static setup s;
    begin(&s);
    raw_open(s.caller, "room");
    s.node->stub.hold = true;
    tf_local send = raw_send(s.caller, "a", "x");
    tf_mention mention = {send, TF_REF_PROMISE};
    tf_router_send told = {.target = s.found, .method = tf_slice_str("wait"), .refs = &mention, .ref_count = 1};
    ck_assert_int_eq(tf_router_deliver(s.caller->end->router, s.w.now, &told, NULL), TF_OK);
    settle(&s);
    tf_local promise = raw_got(s.host, "wait")->ref;
    raw_lose(&s.caller);
    ck_assert(stub_release(&s.node->stub));
    raw_settle(s.host);
    ck_assert_str_eq(raw_outcome(s.host, promise), "disconnected");
    ck_assert_uint_eq(store_head(s.node, "room"), 1); /* accepted is accepted */
    end(&s);
}
END_TEST

/* A promise that was passed on to one who takes less than its asker. */
START_TEST(relay_answer_that_is_too_large_for_another_who_waits_is_refused)
{
    static setup s;
    static uint8_t body[8000];
    raw_args args;
    begin(&s);
    s.w.raw_id = 97;
    s.w.max_message = TF_MESSAGE_MIN_LIMIT;
    raw_peer *small = raw_new(&s.w, s.node, 13);
    tf_local own = tf_router_new_object(small->end->router);
    ck_assert_str_eq(raw_publish(small, "small", own), "acked");
    raw_open(s.caller, "room");
    (void)raw_send_origin(s.caller, "a", tf_slice_of(body, sizeof(body)), NULL);
    tf_local target = raw_lookup(s.caller, "small");
    s.node->stub.later = true; /* the answer waits, so that it can be passed on */
    tf_args_read_write(raw_begin(&args), &(tf_args_read){1, 1});
    tf_local promise = raw_call(s.caller, s.caller->channel, "read", raw_bytes(&args), TF_LOCAL_NONE);
    tf_mention mention = {promise, TF_REF_PROMISE};
    tf_router_send told = {.target = target, .method = tf_slice_str("wait"), .refs = &mention, .ref_count = 1};
    ck_assert_int_eq(tf_router_deliver(s.caller->end->router, s.w.now, &told, NULL), TF_OK);
    raw_settle_both(s.caller, small);
    ck_assert_str_eq(raw_outcome(s.caller, promise), "waiting");
    s.node->stub.later = false;
    s.node->stub.ready = true;
    raw_settle_both(s.caller, small);
    ck_assert_str_eq(raw_outcome(s.caller, promise), "message_too_large");
    ck_assert_str_eq(raw_outcome(small, raw_got(small, "wait")->ref), "message_too_large");
    end(&s);
    free(small);
}
END_TEST

/* A sink is an object of the one who subscribes: the hub feeds nobody who did not ask. */
START_TEST(relay_object_of_another_is_no_sink)
{
    static setup s;
    begin(&s);
    raw_open(s.caller, "room");
    tf_local promise = raw_ask_subscribe(s.caller, &(tf_args_subscribe){.from = {TF_FROM_NEW, 0}}, s.found);
    ck_assert_str_eq(raw_outcome(s.caller, promise), "bad_request");
    end(&s);
}
END_TEST

/* A subscription ends when nobody has it any more, also when it was passed on. */
START_TEST(relay_subscription_that_is_passed_on_goes_on_until_nobody_has_it)
{
    static setup s;
    begin(&s);
    raw_open(s.caller, "room");
    raw_sub sub = raw_subscribe(s.caller, &(tf_args_subscribe){.from = {TF_FROM_NEW, 0}, .echo = true});
    (void)raw_ask_text(s.caller, s.found, "take", "", sub.object);
    settle(&s);
    raw_release(s.caller, sub.object);
    fall_silent(&s);
    ck_assert_uint_eq(stats_of(&s).subscriptions, 1);
    raw_send_range(s.caller, 1, 1);
    raw_expect_range(&sub, 1, 1);
    raw_release(s.host, raw_got(s.host, "take")->ref);
    fall_silent(&s);
    ck_assert_uint_eq(stats_of(&s).subscriptions, 0);
    end(&s);
}
END_TEST

/* -- bounds -------------------------------------------------------------------------------------------------------- */

/* P7: a host that takes nothing costs the hub the share of its callers, and who asks is told. */
START_TEST(relay_host_that_takes_nothing_bounds_its_callers)
{
    static setup s;
    begin(&s);
    size_t overloaded = 0;
    tf_local promises[2500];
    raw_pair(s.host)->end[0].blocked = true; /* the raw one dialled */
    for (size_t i = 0; i < 2500; i++) {
        promises[i] = raw_ask_text(s.caller, s.found, "say", "something that takes room", TF_LOCAL_NONE);
        if (i % 100 == 99) {
            raw_settle(s.caller);
        }
    }
    raw_settle(s.caller);
    for (size_t i = 0; i < 2500; i++) {
        overloaded += strcmp(raw_outcome(s.caller, promises[i]), "overloaded") == 0 ? 1 : 0;
    }
    ck_assert_uint_gt(overloaded, 0);
    ck_assert_uint_lt(overloaded, 2500);
    raw_open(s.caller, "room"); /* the rest goes on */
    raw_send_range(s.caller, 1, 3);
    end(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        relay_object_in_an_answer_can_be_called,
        relay_object_in_arguments_can_be_called_back,
        relay_messages_to_a_result_are_pipelined_in_order,
        relay_rejection_comes_through_as_it_is,
        relay_drop_of_the_last_holder_reaches_the_host,
        relay_name_keeps_what_its_holder_drops,
        relay_caller_that_goes_lets_go_of_what_it_had,
        relay_channel_that_is_passed_on_stays_until_nobody_has_it,
        relay_channel_that_is_passed_on_gives_no_rights,
        relay_channel_beyond_what_is_remembered_has_its_rights,
        relay_read_whose_asker_is_gone_is_rejected_for_the_others,
        relay_answer_whose_asker_is_gone_is_rejected_for_the_others,
        relay_answer_that_is_too_large_for_another_who_waits_is_refused,
        relay_object_of_another_is_no_sink,
        relay_subscription_that_is_passed_on_goes_on_until_nobody_has_it,
        relay_host_that_takes_nothing_bounds_its_callers,
        NULL,
    };
    return tf_test_run("node/hub relaying", tests);
}
