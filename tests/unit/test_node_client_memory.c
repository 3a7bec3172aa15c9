/* node/client without memory: what the relay says costs at most the session when an allocation fails, and is told to the
 * application once when it is said again; a call that fails leaves the client as it was. */
#include "tests/support/check_main.h"
#include "tests/unit/client_relay.h"

/* -- what the relay says ------------------------------------------------------------------------------------------- */

typedef struct word_row {
    const char *name;
    void (*want)(setup *s);   /* of a client whose channel is not open yet */
    bool open;                /* the word follows the answer to `open`, */
    bool subscribed;          /* and the one to `subscribe` */
    void (*follow)(setup *s); /* NULL, or what comes then and before the word, in each session */
    void (*say)(setup *s);
    tf_client_event_type told;
    bool anew; /* told in each session */
} word_row;

static void ask(setup *s, const tf_ask *question)
{
    ck_assert_int_eq(tf_client_ask(s->cw.clients[0], s->cw.w.now, 0, question), TF_OK);
}

static void want_much(setup *s)
{
    cw_send_range(&s->cw, 0, 0, 1, 2);
    ask(s, &(tf_ask){.kind = TF_ASK_INFO});
    ask(s, &(tf_ask){.kind = TF_ASK_GAPS, .from = 1});
    cw_subscribe(&s->cw, 0, 0, TF_FROM_FIRST, 0, true);
}

static void want_activities(setup *s)
{
    cw_subscribe(&s->cw, 0, 0, TF_FROM_FIRST, 0, true);
}

static void want_durable(setup *s)
{
    tf_subscribe subscribe = {.from = {TF_FROM_FIRST, 0}, .durable = tf_slice_str("billing")};
    ck_assert_int_eq(tf_client_subscribe(s->cw.clients[0], s->cw.w.now, 0, &subscribe), TF_OK);
}

static void want_close(setup *s)
{
    ck_assert_int_eq(tf_client_close_channel(s->cw.clients[0], s->cw.w.now, 0), TF_OK);
}

static void want_trim(setup *s)
{
    ask(s, &(tf_ask){.kind = TF_ASK_TRIM, .from = 1});
}

static void want_lookup(setup *s)
{
    ask(s, &(tf_ask){.kind = TF_ASK_LOOKUP, .name = tf_slice_str("a")});
}

static void want_send(setup *s)
{
    cw_send_range(&s->cw, 0, 0, 1, 1);
}

static void want_name(setup *s)
{
    tf_local object = TF_LOCAL_NONE;
    ck_assert_int_eq(tf_hub_object_new(s->cw.nodes[0]->hub, NULL, &object), TF_OK);
    ck_assert_int_eq(tf_client_publish(s->cw.clients[0], s->cw.w.now, tf_slice_str("a"), object), TF_OK);
}

static void want_no_name(setup *s)
{
    want_name(s);
    tf_client_withdraw(s->cw.clients[0], s->cw.w.now, tf_slice_str("a"));
}

/* An activity that is dealt with. */
static void follow_activity(setup *s)
{
    if (s->cw.logs[0].activities == 0) {
        tell_activity(s, 7, 1, 3);
        hear(s);
    }
    ck_assert_int_eq(tf_client_confirm(s->cw.clients[0], s->cw.w.now, 0, 1), TF_OK);
    raw_settle(s->relay);
}

static void put(setup *s, const char *method, tf_local ref, bool rejected)
{
    put_answer(s, asked(s, method), said(s), ref, rejected);
}

static void put_refused(setup *s, const char *method, tf_refusal refusal)
{
    tf_result_refusal_write(to_say(s), &(tf_result_refusal){.code = tf_refusal_code(refusal),
                                                            .message = tf_refusal_message(refusal)});
    put(s, method, TF_LOCAL_NONE, true);
}

static void put_done(setup *s, const char *method)
{
    tf_args_none_write(to_say(s));
    put(s, method, TF_LOCAL_NONE, false);
}

static void say_opened(setup *s)
{
    s->channel = tf_router_new_object(s->relay->end->router);
    tf_result_open_write(to_say(s), &(tf_result_open){.epoch = 7, .max_in_flight = 32, .max_body = 1000});
    put(s, "open", s->channel, false);
}

static void say_no_channel(setup *s)
{
    put_refused(s, "open", TF_REFUSAL_FORBIDDEN);
}

static void say_subscribed(setup *s)
{
    tf_result_subscribe_write(to_say(s), &(tf_result_subscribe){.epoch = 7, .head = 0, .first = 1, .next = 1});
    put(s, "subscribe", tf_router_new_object(s->relay->end->router), false);
}

static void say_no_subscription(setup *s)
{
    put_refused(s, "subscribe", TF_REFUSAL_FORBIDDEN);
}

static void say_activity(setup *s)
{
    tell_activity(s, 7, 1, 3);
}

static void say_gap(setup *s)
{
    tell_gap(s, 7, 5, "trimmed");
}

static void say_ended(setup *s)
{
    tf_ended_write(to_say(s), &(tf_ended){tf_slice_str("taken_over")});
    tell(s, "ended", said(s));
}

static void say_confirmed(setup *s)
{
    put_done(s, "confirm");
}

static void say_closed(setup *s)
{
    put_done(s, "close");
}

static void say_not_closed(setup *s)
{
    put_refused(s, "close", TF_REFUSAL_FORBIDDEN);
}

static void say_trimmed(setup *s)
{
    tf_result_trim_write(to_say(s), &(tf_result_trim){1});
    put(s, "trim", TF_LOCAL_NONE, false);
}

static void say_not_trimmed(setup *s)
{
    put_refused(s, "trim", TF_REFUSAL_FORBIDDEN);
}

static void say_found(setup *s)
{
    tf_args_none_write(to_say(s));
    put(s, "lookup", tf_router_new_object(s->relay->end->router), false);
}

static void say_published(setup *s)
{
    put_done(s, "publish");
}

static void say_not_published(setup *s)
{
    put_refused(s, "publish", TF_REFUSAL_NAME_TAKEN);
}

static void say_not_sent(setup *s)
{
    put_refused(s, "send", TF_REFUSAL_FORBIDDEN);
}

static void say_acked(setup *s)
{
    tf_result_ack_write(to_say(s), &(tf_result_ack){.client_id = tf_slice_str("00000000abcdef00-1"),
                                                    .id = tf_slice_str("i"),
                                                    .seq = 1,
                                                    .timestamp_ms = 1});
    put(s, "send", TF_LOCAL_NONE, false);
}

static const word_row words[] = {
    {"opened", want_much, false, false, NULL, say_opened, TF_CLIENT_OPENED, true},
    {"open refused", want_much, false, false, NULL, say_no_channel, TF_CLIENT_CHANNEL_REFUSED, true},
    {"subscribed", want_activities, true, false, NULL, say_subscribed, TF_CLIENT_SUBSCRIBED, true},
    {"subscribe refused", want_activities, true, false, NULL, say_no_subscription, TF_CLIENT_CHANNEL_REFUSED, false},
    {"activity", want_activities, true, true, NULL, say_activity, TF_CLIENT_ACTIVITY, false},
    {"gap", want_activities, true, true, NULL, say_gap, TF_CLIENT_GAP, false},
    {"ended", want_activities, true, true, NULL, say_ended, TF_CLIENT_ENDED, false},
    {"confirmed", want_durable, true, true, follow_activity, say_confirmed, TF_CLIENT_CONFIRMED, false},
    {"closed", want_close, true, false, NULL, say_closed, TF_CLIENT_CLOSED, false},
    {"close refused", want_close, true, false, NULL, say_not_closed, TF_CLIENT_CHANNEL_REFUSED, false},
    {"answered", want_trim, true, false, NULL, say_trimmed, TF_CLIENT_ANSWER, false},
    {"question refused", want_trim, true, false, NULL, say_not_trimmed, TF_CLIENT_ANSWER, false},
    {"found", want_lookup, true, false, NULL, say_found, TF_CLIENT_ANSWER, false},
    {"published", want_name, true, false, NULL, say_published, TF_CLIENT_PUBLISHED, true},
    {"not published", want_name, true, false, NULL, say_not_published, TF_CLIENT_PUBLISH_REFUSED, false},
    {"withdrawn", want_no_name, true, false, NULL, say_published, TF_CLIENT_WITHDRAWN, false},
    {"acked", want_send, true, false, NULL, say_acked, TF_CLIENT_ACK, false},
    {"send refused", want_send, true, false, NULL, say_not_sent, TF_CLIENT_REFUSED, false},
};

/* A session, up to the word. */
static void come_to(setup *s, const word_row *row)
{
    connect_relay(s);
    if (row->open) {
        answer_open(s, 0);
    }
    if (row->subscribed) {
        answer_subscribe(s, &(tf_result_subscribe){.epoch = 7, .head = 0, .first = 1, .next = 1});
    }
    if (row->follow != NULL) {
        row->follow(s);
    }
    cw_pull(&s->cw, 0);
}

/* One turn of the client's hub, in which allocation k fails. False: there were no more than k. */
static bool turn_without(setup *s, uint64_t k)
{
    tf_test_heap *heap = &s->cw.w.heap;
    uint64_t before = heap->failures;
    world_raw_pump(&s->cw.w, s->relay->end);
    (void)world_move(&s->cw.w, raw_pair(s->relay), 1);
    tf_test_heap_fail_at(heap, k, false);
    world_end_turn(&s->cw.w, s->cw.nodes[0]);
    tf_test_heap_fail_never(heap);
    return heap->failures > before;
}

static bool hear_without(const word_row *row, uint64_t k)
{
    static setup s;
    begin_client(&s, NULL);
    row->want(&s);
    come_to(&s, row);
    size_t before = s.cw.logs[0].counts[row->told];
    row->say(&s);
    bool failed = turn_without(&s, k);
    cw_pull(&s.cw, 0);
    size_t told = s.cw.logs[0].counts[row->told] - before;
    const world_node *node = s.cw.nodes[0];
    ck_assert_msg(node->failures <= 1 && told <= 1 && told + node->failures > 0, "%s, allocation %llu", row->name,
                  (unsigned long long)k);
    if (node->failures > 0) {
        ck_assert_int_eq(node->last_failure, TF_ERR_NOMEM);
        ck_assert(!tf_client_is_bound(s.cw.clients[0]));
    }
    if (node->failures > 0 && (told == 0 || row->anew)) {
        lose_relay(&s);
        come_to(&s, row);
        row->say(&s);
        hear(&s);
        ck_assert_msg(s.cw.logs[0].counts[row->told] == before + told + 1, "%s, again after allocation %llu", row->name,
                      (unsigned long long)k);
    }
    end(&s);
    return failed;
}

START_TEST(client_word_that_finds_no_memory_costs_at_most_the_session)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        uint64_t k = 0;
        while (hear_without(&words[i], k)) {
            k++;
        }
        ck_assert_msg(k > 0 || words[i].told == TF_CLIENT_ACK, "%s", words[i].name);
    }
}
END_TEST

/* A channel that is refused for good takes all that waits for it along, also when that takes two sessions. */
static bool refuse_without(uint64_t k)
{
    static setup s;
    begin_client(&s, NULL);
    want_much(&s);
    connect_relay(&s);
    say_no_channel(&s);
    bool failed = turn_without(&s, k);
    if (s.cw.nodes[0]->failures > 0) {
        lose_relay(&s);
        connect_relay(&s);
        if (find_asked(&s, "open") != NULL) {
            say_no_channel(&s);
        }
    }
    hear(&s);
    ck_assert_msg(!tf_client_has_unacked(s.cw.clients[0]), "allocation %llu", (unsigned long long)k);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_REFUSED], 2);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_ANSWER], 2);
    end(&s);
    return failed;
}

START_TEST(client_channel_refused_without_memory_refuses_all_that_waits_for_it_in_the_end)
{
    uint64_t k = 0;
    while (refuse_without(k)) {
        k++;
    }
    ck_assert_uint_gt(k, 4);
}
END_TEST

/* -- what is due in a session -------------------------------------------------------------------------------------- */

/* All that a session begins with, in one turn. */
static bool begin_without(uint64_t k)
{
    static setup s;
    begin_client(&s, NULL);
    want_much(&s);
    want_name(&s);
    want_lookup(&s);
    s.relay = raw_acceptor(&s.cw.w, s.cw.nodes[0]);
    tf_client_bind(s.cw.clients[0], s.cw.w.now, raw_pair(s.relay)->end[0].conn);
    bool failed = turn_without(&s, k);
    if (s.cw.nodes[0]->failures > 0) {
        ck_assert_int_eq(s.cw.nodes[0]->last_failure, TF_ERR_NOMEM);
        lose_relay(&s);
        connect_relay(&s);
    }
    raw_settle(s.relay);
    ck_assert_uint_eq(times_asked(&s, "open"), 1);
    ck_assert_uint_eq(times_asked(&s, "publish"), 1);
    ck_assert_uint_eq(times_asked(&s, "lookup"), 1);
    end(&s);
    return failed;
}

START_TEST(client_session_that_begins_without_memory_asks_for_all_in_the_next)
{
    uint64_t k = 0;
    while (begin_without(k)) {
        k++;
    }
    ck_assert_uint_gt(k, 2);
}
END_TEST

/* A send whose time is over is told as soon as there is memory. */
START_TEST(client_overdue_send_is_told_when_there_is_memory)
{
    static setup s;
    begin_client(&s, &(tf_client_config){.retry_limit = 100 * TF_MS});
    connect_relay(&s);
    answer_open(&s, 0);
    cw_send_range(&s.cw, 0, 0, 1, 1);
    raw_settle(s.relay);
    answer_refused(&s, "send", TF_REFUSAL_STORE_FULL);
    lose_relay(&s);
    s.cw.w.now += 200 * TF_MS;
    tf_test_heap_fail_at(&s.cw.w.heap, 0, true);
    world_end_turn(&s.cw.w, s.cw.nodes[0]);
    tf_test_heap_fail_never(&s.cw.w.heap);
    cw_pull(&s.cw, 0);
    ck_assert_uint_gt(s.cw.w.heap.failures, 0);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_REFUSED], 0);
    world_pass(&s.cw.w, 2);
    cw_pull(&s.cw, 0);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_REFUSED], 1);
    ck_assert_str_eq(s.cw.logs[0].code, "store_full");
    end(&s);
}
END_TEST

/* -- calls --------------------------------------------------------------------------------------------------------- */

static tf_err call_new(setup *s)
{
    tf_client *client = NULL;
    tf_err err = tf_client_new(&client, s->cw.nodes[0]->hub, &(tf_client_config){.instance = 5});
    tf_client_free(client);
    return err;
}

static tf_err call_open(setup *s)
{
    size_t channel = 0;
    char name[2] = {(char)('a' + (int)s->cw.clients[0]->channel_count), 0};
    return tf_client_open(s->cw.clients[0], s->cw.w.now, tf_slice_str(name), &channel);
}

static tf_err call_send(setup *s)
{
    return cw_send(&s->cw, 0, 0, 1);
}

static tf_err call_ask(setup *s)
{
    return tf_client_ask(s->cw.clients[0], s->cw.w.now, 0, &(tf_ask){.kind = TF_ASK_INFO});
}

static tf_err call_publish(setup *s)
{
    return tf_client_publish(s->cw.clients[0], s->cw.w.now, tf_slice_str("a"), s->channel);
}

START_TEST(client_call_without_memory_leaves_the_client_as_it_was)
{
    static tf_err (*const calls[])(setup *) = {call_new, call_open, call_send, call_ask, call_publish};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        static setup s;
        uint64_t failed = 0;
        begin_client(&s, NULL);
        const tf_client *client = s.cw.clients[0];
        ck_assert_int_eq(tf_hub_object_new(s.cw.nodes[0]->hub, NULL, &s.channel), TF_OK);
        for (unsigned times = 0; times < 10; times++) { /* so that all that grows does so */
            size_t items = client->channel_count + client->queued_items + client->ask_count + client->name_count;
            tf_test_heap_fail_at(&s.cw.w.heap, 0, false);
            tf_err err = calls[i](&s);
            for (uint64_t k = 1; err != TF_OK; k++) {
                ck_assert_int_eq(err, TF_ERR_NOMEM);
                ck_assert_uint_eq(
                    client->channel_count + client->queued_items + client->ask_count + client->name_count, items);
                failed++;
                tf_test_heap_fail_at(&s.cw.w.heap, k, false);
                err = calls[i](&s);
            }
            tf_test_heap_fail_never(&s.cw.w.heap);
        }
        ck_assert_uint_gt(failed, 0);
        end(&s);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        client_word_that_finds_no_memory_costs_at_most_the_session,
        client_channel_refused_without_memory_refuses_all_that_waits_for_it_in_the_end,
        client_session_that_begins_without_memory_asks_for_all_in_the_next,
        client_overdue_send_is_told_when_there_is_memory,
        client_call_without_memory_leaves_the_client_as_it_was,
        NULL,
    };
    return tf_test_run("node/client without memory", tests);
}
