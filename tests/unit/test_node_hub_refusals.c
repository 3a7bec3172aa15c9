/* node/hub, requests at a bad moment: no room for the answer, a store that cannot tell, a drain; refusals by the store of
 * what others wait for; sinks that are none any more. */
#include "tests/support/check_main.h"
#include "tests/unit/raw_calls.h"

typedef struct setup {
    world w;
    world_node *node;
    raw_peer *raw;
    tf_store_table table; /* of the store, to be changed */
} setup;

static void begin_with(setup *s, const tf_hub_config *config, bool relay, uint32_t window_bytes)
{
    world_init(&s->w, 1);
    s->w.relay = relay;
    s->w.window_bytes = window_bytes == 0 ? s->w.window_bytes : window_bytes;
    s->node = world_add(&s->w, true, config);
    s->raw = raw_new(&s->w, s->node, 11);
    raw_open(s->raw, "room");
    s->table = *s->node->hub->store.table;
    s->node->hub->store.table = &s->table;
}

static void begin(setup *s)
{
    begin_with(s, NULL, false, 0);
}

static void end(setup *s)
{
    ck_assert_uint_eq(s->node->failures, 0);
    world_free(&s->w);
    free(s->raw);
}

/* The arguments of a method, as small as they may be. */
static tf_slice args_of(const char *method, raw_args *args)
{
    tf_writer *w = raw_begin(args);
    if (strcmp(method, "gaps") == 0) {
        tf_args_gaps_write(w, &(tf_args_gaps){1});
    } else if (strcmp(method, "channels") == 0) {
        tf_args_channels_write(w, &(tf_args_channels){.limit = 1});
    } else if (strcmp(method, "refs") == 0) {
        tf_args_refs_write(w, &(tf_args_refs){.limit = 1});
    } else {
        tf_args_none_write(w);
    }
    return raw_bytes(args);
}

static tf_local ask(setup *s, const char *method)
{
    raw_args args;
    bool of_root = strcmp(method, "channels") == 0 || strcmp(method, "refs") == 0;
    return raw_call(s->raw, of_root ? raw_root(s->raw) : s->raw->channel, method, args_of(method, &args), TF_LOCAL_NONE);
}

/* P7: who reads no answers gets short ones after a while, and the long ones again once it reads. */
START_TEST(refusals_of_lists_without_room_for_them)
{
    static const char *const methods[] = {"info", "gaps", "channels", "refs"};
    static setup s;
    for (size_t m = 0; m < 4; m++) {
        size_t counts[2] = {0, 0};
        tf_local promises[300];
        begin_with(&s, &(tf_hub_config){.out_queue_items = 4}, false, 4096);
        for (size_t i = 0; i < 300; i++) {
            promises[i] = ask(&s, methods[m]);
            world_settle(&s.w); /* it reads no message */
        }
        for (size_t i = 0; i < 1000 && raw_find(s.raw, promises[299]) == NULL; i++) {
            raw_settle(s.raw);
            world_pass(&s.w, 20); /* until the link acks what was taken */
        }
        for (size_t i = 0; i < 300; i++) {
            const char *outcome = raw_outcome(s.raw, promises[i]);
            bool refused = tf_slice_eq(tf_slice_str(outcome), tf_slice_str("overloaded"));
            ck_assert_msg(refused || tf_slice_eq(tf_slice_str(outcome), tf_slice_str("acked")), "%s %zu: %s", methods[m], i, outcome);
            counts[refused ? 1 : 0]++;
        }
        ck_assert_msg(counts[0] > 4 && counts[1] > 4, "%s: %zu, %zu", methods[m], counts[0], counts[1]);
        tf_local last = ask(&s, methods[m]);
        raw_settle(s.raw);
        ck_assert_str_eq(raw_outcome(s.raw, last), "acked");
        end(&s);
    }
}
END_TEST

static tf_err no_channel(void *ctx, tf_slice name, tf_store_channel *out)
{
    (void)ctx;
    (void)name;
    (void)out;
    return TF_ERR_IO;
}

static tf_err no_cursor(void *ctx, uint64_t channel, const tf_node_id *owner, tf_slice name, tf_store_cursor *out)
{
    (void)channel;
    (void)owner;
    (void)out;
    return no_channel(ctx, name, NULL);
}

static tf_local subscribe(setup *s, const char *durable, tf_local sink)
{
    raw_args args;
    tf_args_subscribe_write(raw_begin(&args), &(tf_args_subscribe){.from = {TF_FROM_FIRST, 0},
                                                                   .limit = UINT64_MAX,
                                                                   .durable = tf_slice_str(durable)});
    tf_local promise = raw_call(s->raw, s->raw->channel, "subscribe", raw_bytes(&args), sink);
    raw_settle(s->raw);
    return promise;
}

START_TEST(refusals_of_a_store_that_cannot_tell)
{
    static setup s;
    raw_args args;
    begin(&s);
    s.table.cursor_find = no_cursor;
    tf_local durable = subscribe(&s, "mine", tf_router_new_object(s.raw->end->router));
    ck_assert_str_eq(raw_outcome(s.raw, durable), "unavailable");
    s.table.channel_find = no_channel;
    tf_local promises[4] = {ask(&s, "info"), ask(&s, "gaps"),
                            subscribe(&s, NULL, tf_router_new_object(s.raw->end->router))};
    tf_args_open_write(raw_begin(&args), &(tf_args_open){.channel = tf_slice_str("other")});
    promises[3] = raw_ask(s.raw, raw_root(s.raw), "open", &args);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_msg(strcmp(raw_outcome(s.raw, promises[i]), "unavailable") == 0, "%zu: %s", i,
                      raw_outcome(s.raw, promises[i]));
    }
    tf_args_read_write(raw_begin(&args), &(tf_args_read){1, 10}); /* what it has of the channel in memory is enough */
    tf_local read = raw_ask(s.raw, s.raw->channel, "read", &args);
    tf_result_read result;
    ck_assert_int_eq(tf_result_read_read(raw_data(raw_find(s.raw, read)), &result), TF_OK);
    ck_assert_uint_eq(result.first, 1);
    end(&s);
}
END_TEST

START_TEST(refusals_of_new_channels_in_a_drain)
{
    static setup s;
    raw_args args;
    begin(&s);
    tf_hub_drain(s.node->hub);
    tf_args_open_write(raw_begin(&args), &(tf_args_open){.channel = tf_slice_str("other")});
    tf_local promise = raw_ask(s.raw, raw_root(s.raw), "open", &args);
    ck_assert_str_eq(raw_outcome(s.raw, promise), "draining");
    tf_args_open_write(raw_begin(&args), &(tf_args_open){.channel = tf_slice_str("room")});
    promise = raw_ask(s.raw, raw_root(s.raw), "open", &args);
    ck_assert_str_eq(raw_outcome(s.raw, promise), "acked");
    end(&s);
}
END_TEST

/* What the store refuses is refused to all who wait for it, and leaves room for what comes next. */
START_TEST(refusals_by_the_store_reach_those_who_wait)
{
    static const tf_refusal codes[] = {TF_REFUSAL_STORE_FULL, TF_REFUSAL_INVALID_MESSAGE};
    static setup s;
    for (size_t i = 0; i < 2; i++) {
        begin(&s);
        raw_peer *other = raw_new(&s.w, s.node, 12);
        raw_open(other, "room");
        s.node->stub.hold = true;
        tf_local first = raw_send(s.raw, "a", "x");
        raw_settle(s.raw);
        tf_local again = raw_send(other, "a", "x");
        raw_settle(other);
        s.node->stub.refuse = codes[i];
        stub_let_go(&s.node->stub);
        raw_settle(other);
        raw_settle(s.raw);
        ck_assert_str_eq(raw_outcome(s.raw, first), tf_refusal_name(codes[i]));
        ck_assert_str_eq(raw_outcome(other, again), tf_refusal_name(codes[i]));
        ck_assert_uint_eq(raw_pair(other)->end[1].conn->guard_count, i == 0 ? 1 : 0); /* for now: it is waited for */
        s.node->stub.refuse = TF_REFUSAL_NONE;
        tf_local last = raw_send(s.raw, "a", "x");
        raw_settle(s.raw);
        ck_assert_uint_eq(raw_ack(s.raw, last).seq, 1);
        end(&s);
        free(other);
    }
}
END_TEST

/* P6: what has gathered behind a send that the store refuses is refused with it, wherever in its group that stood. */
START_TEST(refusals_by_the_store_keep_the_order)
{
    static setup s;
    begin(&s);
    tf_local room = s.raw->channel;
    raw_open(s.raw, "other");
    tf_local other = s.raw->channel;
    s.node->stub.hold = true;
    tf_local first = raw_send(s.raw, "first", "x");
    raw_settle(s.raw);
    tf_local in_front = raw_send(s.raw, "in-front", "x");
    s.raw->channel = room;
    tf_local refused = raw_send(s.raw, "a", "x");
    raw_settle(s.raw);
    ck_assert(stub_release(&s.node->stub));
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, first), "acked");
    tf_local behind = raw_send(s.raw, "b", "x");
    raw_settle(s.raw);
    s.node->stub.refuse = TF_REFUSAL_STORE_FULL;
    ck_assert(stub_release(&s.node->stub));
    s.node->stub.refuse = TF_REFUSAL_NONE;
    s.node->stub.hold = false;
    raw_settle(s.raw);
    const tf_local promises[] = {in_front, refused, behind};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_str_eq(raw_outcome(s.raw, promises[i]), "store_full");
    }
    ck_assert(store_head(s.node, "room") == 0 && other != room);
    end(&s);
}
END_TEST

/* P6: the next process of a sender sends again what the one before it has sent, and goes on. If the store refuses the
 * original, what it has sent behind that is refused as well; what a third process has sent has its own order. */
START_TEST(refusals_by_the_store_keep_the_order_of_who_sends_again)
{
    static setup s;
    begin(&s);
    raw_peer *next = raw_new(&s.w, s.node, 12);
    raw_peer *third = raw_new(&s.w, s.node, 13);
    raw_open(next, "room");
    raw_open(third, "room");
    s.node->stub.hold = true;
    tf_local original = raw_send(s.raw, "a", "x");
    raw_settle(s.raw);
    const tf_local again[] = {raw_send(next, "a", "x"), raw_send(next, "b", "x")};
    tf_local of_third = raw_send(third, "c", "x");
    raw_settle(next);
    raw_settle(third);
    s.node->stub.refuse = TF_REFUSAL_STORE_FULL;
    ck_assert(stub_release(&s.node->stub));
    s.node->stub.refuse = TF_REFUSAL_NONE;
    s.node->stub.hold = false;
    raw_settle(s.raw);
    raw_settle(next);
    raw_settle(third);
    ck_assert_str_eq(raw_outcome(s.raw, original), "store_full");
    ck_assert_str_eq(raw_outcome(next, again[0]), "store_full");
    ck_assert_str_eq(raw_outcome(next, again[1]), "store_full");
    ck_assert_uint_eq(raw_ack(third, of_third).seq, 1);
    ck_assert_uint_eq(store_head(s.node, "room"), 1);
    end(&s);
    free(next);
    free(third);
}
END_TEST

/* A send that was refused for now, and then is refused for good, holds up nobody any more: by the store, or before. */
START_TEST(refusals_for_good_lift_the_guard)
{
    static setup s;
    for (size_t by_store = 0; by_store < 2; by_store++) {
        begin_with(&s, &(tf_hub_config){.max_in_flight = 1}, false, 0);
        const tf_conn *conn = raw_pair(s.raw)->end[1].conn;
        s.node->stub.hold = true;
        (void)raw_send(s.raw, "a", "x");
        tf_local refused = raw_send(s.raw, "b", "x");
        world_settle(&s.w); /* the peer does not know yet: only the guard lets it come back */
        ck_assert_uint_eq(conn->guard_count, 1);
        stub_let_go(&s.node->stub);
        world_settle(&s.w);
        s.node->stub.refuse = by_store == 1 ? TF_REFUSAL_INVALID_MESSAGE : TF_REFUSAL_NONE;
        static char body[TF_META_MAX + 1];
        raw_args args;
        tf_args_send send = {.client_id = tf_slice_str("b"), .body = tf_slice_str("x")};
        send.meta = tf_slice_of(body, by_store == 1 ? 1 : sizeof(body));
        tf_args_send_write(raw_begin(&args), &send);
        tf_local final = raw_call(s.raw, s.raw->channel, "send", raw_bytes(&args), TF_LOCAL_NONE);
        world_settle(&s.w);
        ck_assert_uint_eq(conn->guard_count, 0);
        raw_settle(s.raw);
        ck_assert_str_eq(raw_outcome(s.raw, refused), "too_many_in_flight");
        ck_assert_str_eq(raw_outcome(s.raw, final), by_store == 1 ? "invalid_message" : "message_too_large");
        end(&s);
    }
}
END_TEST

/* The original waits for the disk, and nobody wants to know of the resend. */
START_TEST(refusals_none_for_a_resend_without_an_answer)
{
    static setup s;
    raw_args args;
    begin(&s);
    s.node->stub.hold = true;
    tf_local first = raw_send(s.raw, "a", "x");
    tf_args_send_write(raw_begin(&args), &(tf_args_send){.client_id = tf_slice_str("a"), .body = tf_slice_str("x")});
    for (size_t i = 0; i < 3; i++) {
        raw_tell(s.raw, s.raw->channel, "send", &args);
    }
    stub_let_go(&s.node->stub);
    raw_settle(s.raw);
    ck_assert_uint_eq(raw_ack(s.raw, first).seq, 1);
    ck_assert_uint_eq(store_head(s.node, "room"), 1);
    tf_args_open_write(raw_begin(&args), &(tf_args_open){.channel = tf_slice_str("room")});
    raw_tell(s.raw, raw_root(s.raw), "open", &args); /* nor of what is opened */
    end(&s);
}
END_TEST

/* A sink that its host revokes ends the subscription; one that was no sink begins none. */
START_TEST(refusals_of_sinks_that_are_none)
{
    static setup s;
    raw_args args;
    tf_hub_stats stats;
    begin(&s);
    const tf_args_subscribe from = {.from = {TF_FROM_FIRST, 0}, .echo = true};
    raw_sub sub = raw_subscribe(s.raw, &from);
    raw_send_range(s.raw, 1, 1);
    raw_expect_range(&sub, 1, 1);
    tf_revocation gone = {.object = sub.sink, .data = tf_slice_str("x")};
    ck_assert_int_eq(tf_router_revoke(s.raw->end->router, s.w.now, &gone), TF_OK);
    raw_settle(s.raw);
    tf_hub_get_stats(s.node->hub, &stats);
    ck_assert_uint_eq(stats.subscriptions, 0);
    raw_send_range(s.raw, 2, 2);
    raw_expect_nothing(&sub);
    tf_local own = raw_root(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, subscribe(&s, NULL, own)), "bad_request"); /* it is the node's */
    tf_args_subscribe_write(raw_begin(&args), &(tf_args_subscribe){.from = {TF_FROM_FIRST, 0}, .limit = 1});
    raw_sub other = raw_subscribe(s.raw, &from);
    tf_local wrong = raw_call(s.raw, other.object, "something", raw_bytes(&args), TF_LOCAL_NONE);
    tf_args_more_write(raw_begin(&args), &(tf_args_more){9});
    tf_local asked = raw_call(s.raw, other.object, "more", raw_bytes(&args), TF_LOCAL_NONE); /* it has no answer */
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, wrong), "bad_request");
    ck_assert_str_eq(raw_outcome(s.raw, asked), "bad_request");
    end(&s);
}
END_TEST

/* A reload of rates reaches the origins behind a relay that are kept for theirs. */
START_TEST(refusals_by_rate_end_with_a_reload)
{
    static setup s;
    const tf_who origin = {world_id(50), 1};
    begin_with(&s, &(tf_hub_config){.rate = 1, .max_in_flight = 1}, true, 0);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 4; i++) {
            char id[16];
            (void)snprintf(id, sizeof(id), "c-%u-%u", round, i);
            tf_local promise = raw_send_origin(s.raw, id, tf_slice_str("x"), &origin);
            raw_settle(s.raw);
            ck_assert_str_eq(raw_outcome(s.raw, promise), i == 0 || round == 1 ? "acked" : "rate_limited");
        }
        tf_hub_set_rates(s.node->hub, s.w.now, 1000, 0);
    }
    end(&s);
}
END_TEST

/* As long as anything is left to do, the hub says so. */
START_TEST(refusals_leave_no_work)
{
    static setup s;
    begin(&s);
    ck_assert(!tf_hub_has_work(s.node->hub));
    (void)raw_send(s.raw, "a", "x");
    world_raw_pump(&s.w, s.raw->end);
    (void)world_move(&s.w, raw_pair(s.raw), 0);
    ck_assert(tf_hub_has_work(s.node->hub));
    raw_settle(s.raw);
    ck_assert(!tf_hub_has_work(s.node->hub));
    end(&s);
}
END_TEST

/* A hub is made whole or not at all. */
START_TEST(refusals_of_a_hub_that_cannot_be)
{
    static world w;
    world_init(&w, 1);
    tf_hub *hub = NULL;
    tf_memory_store *memory = NULL;
    ck_assert_int_eq(tf_memory_store_new(&memory, &(tf_memory_store_config){.mem = tf_test_mem(), .hash_key = 7}), TF_OK);
    const tf_store store = tf_memory_store_get(memory);
    tf_hub_config config = {
        .mem = &w.heap.mem, .rand = &w.random.rand, .node_id = world_id(1), .instance = 1, .store = &store};
    tf_hub_config bad[] = {config, config, config};
    bad[0].max_in_flight = TF_MAX_IN_FLIGHT_MAX + 1;
    bad[1].max_message = TF_MESSAGE_MIN_LIMIT - 1;
    bad[2].max_message = TF_MESSAGE_MAX + 1;
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(tf_hub_new(&hub, &bad[i]), TF_ERR_USAGE);
    }
    for (unsigned for_ever = 0; for_ever < 2; for_ever++) {
        uint64_t k = 0;
        for (hub = NULL; hub == NULL; k++) {
            const uint64_t failures = w.heap.failures;
            tf_test_heap_fail_at(&w.heap, k, for_ever != 0);
            tf_err err = tf_hub_new(&hub, &config);
            ck_assert_int_eq(err, hub == NULL ? TF_ERR_NOMEM : TF_OK);
            ck_assert(hub != NULL ? w.heap.failures == failures : w.heap.live_blocks == 0);
        }
        ck_assert_uint_gt(k, 2);
        tf_test_heap_fail_never(&w.heap);
        tf_hub_free(hub);
    }
    tf_hub_free(NULL);
    tf_memory_store_free(memory);
    ck_assert_uint_eq(w.heap.live_blocks, 0);
}
END_TEST

/* Both come in one turn, so that the one that is taken over is over before anybody is told. */
START_TEST(refusals_of_a_confirm_before_the_end_is_told_are_not_for_good)
{
    setup s;
    raw_args again;
    raw_args position;
    begin(&s);
    raw_send_range(s.raw, 1, 5);
    tf_args_subscribe args = {.from = {TF_FROM_FIRST, 0}, .durable = tf_slice_str("billing"), .echo = true};
    raw_sub first = raw_subscribe(s.raw, &args);
    raw_expect_range(&first, 1, 5);
    tf_args_subscribe_write(raw_begin(&again), &args);
    tf_args_confirm_write(raw_begin(&position), &(tf_args_confirm){.epoch = first.start.epoch, .next = 4});
    (void)raw_call(s.raw, s.raw->channel, "subscribe", raw_bytes(&again), tf_router_new_object(s.raw->end->router));
    tf_local confirm = raw_call(s.raw, first.object, "confirm", raw_bytes(&position), TF_LOCAL_NONE);
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, confirm), "unavailable");
    raw_expect_ended(&first, "taken_over");
    end(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        refusals_of_lists_without_room_for_them,
        refusals_of_a_store_that_cannot_tell,
        refusals_of_new_channels_in_a_drain,
        refusals_by_the_store_reach_those_who_wait,
        refusals_by_the_store_keep_the_order,
        refusals_by_the_store_keep_the_order_of_who_sends_again,
        refusals_for_good_lift_the_guard,
        refusals_none_for_a_resend_without_an_answer,
        refusals_of_sinks_that_are_none,
        refusals_by_rate_end_with_a_reload,
        refusals_leave_no_work,
        refusals_of_a_hub_that_cannot_be,
        refusals_of_a_confirm_before_the_end_is_told_are_not_for_good,
        NULL,
    };
    return tf_test_run("node/hub refusals", tests);
}
