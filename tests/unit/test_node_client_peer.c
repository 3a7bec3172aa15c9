/* node/client against a relay that is at fault: nothing of what it says wrongly is passed on; the session ends. */
#include "tests/support/check_main.h"
#include "tests/unit/client_world.h"

typedef struct setup {
    client_world cw;
    raw_peer *relay;
    tf_local channel;
    tf_local sink;
    tf_local subscription;
} setup;

static const tf_result_subscribe start = {.epoch = 7, .head = 0, .first = 1, .next = 1};

static raw_answer *asked(setup *s, const char *method)
{
    for (size_t i = s->relay->count; i > 0; i--) {
        raw_answer *call = &s->relay->answers[i - 1];
        if (call->is_deliver && strcmp(call->method, method) == 0) {
            return call;
        }
    }
    ck_abort_msg("%s was not asked for", method);
}

static void answer(setup *s, const char *method, tf_slice data, tf_local ref, bool rejected)
{
    tf_mention mention = {ref, TF_REF_OBJECT};
    tf_answer resolution = {.promise = asked(s, method)->result,
                            .kind = rejected ? TF_RESOLUTION_REJECTION : TF_RESOLUTION_DATA,
                            .data = data,
                            .refs = &mention,
                            .ref_count = ref == TF_LOCAL_NONE ? 0 : 1};
    ck_assert_int_eq(tf_session_resolve(s->relay->end->conn->session, s->cw.w.now, &resolution, 1), TF_OK);
    raw_settle(s->relay);
}

static void tell(setup *s, const char *method, tf_slice args)
{
    tf_delivery delivery = {.target = s->sink, .method = tf_slice_str(method), .args = args};
    ck_assert_int_eq(tf_session_deliver(s->relay->end->conn->session, s->cw.w.now, &delivery, NULL), TF_OK);
}

static void tell_activity(setup *s, uint64_t epoch, uint64_t seq, size_t body_len)
{
    static uint8_t body[TF_BODY_MAX];
    static uint8_t bytes[TF_MESSAGE_MAX];
    tf_writer w;
    tf_activity activity = {.epoch = epoch,
                            .seq = seq,
                            .id = tf_slice_str("i"),
                            .client_id = tf_slice_str("c"),
                            .body = tf_slice_of(body, body_len)};
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_activity_write(&w, &activity);
    tell(s, "activity", tf_slice_of(bytes, tf_wr_len(&w)));
}

/* A client that has opened "room"; with a subscription to it, too. */
static void begin(setup *s, bool subscribed)
{
    uint8_t bytes[64];
    tf_writer w;
    cw_begin(&s->cw, 1, NULL);
    (void)cw_client(&s->cw, NULL);
    ck_assert_uint_eq(cw_open(&s->cw, 0, "room"), 0);
    s->relay = raw_acceptor(&s->cw.w, s->cw.nodes[0]);
    tf_client_bind(s->cw.clients[0], s->cw.w.now, raw_pair(s->relay)->end[0].conn);
    raw_settle(s->relay);
    s->channel = tf_local_next(&s->relay->end->ids);
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_result_open_write(&w, &(tf_result_open){.epoch = 7, .max_in_flight = 32, .max_body = 1000});
    answer(s, "open", tf_slice_of(bytes, tf_wr_len(&w)), s->channel, false);
    cw_subscribe(&s->cw, 0, 0, TF_FROM_FIRST, 0, true);
    raw_settle(s->relay);
    s->sink = asked(s, "subscribe")->ref;
    if (subscribed) {
        s->subscription = tf_local_next(&s->relay->end->ids);
        tf_wr_init(&w, bytes, sizeof(bytes));
        tf_result_subscribe_write(&w, &start);
        answer(s, "subscribe", tf_slice_of(bytes, tf_wr_len(&w)), s->subscription, false);
        cw_pull(&s->cw, 0);
    }
}

static void end(setup *s)
{
    world_disconnect(&s->cw.w, raw_pair(s->relay));
    cw_end(&s->cw);
    free(s->relay);
}

static void check_ended(setup *s, tf_err err)
{
    raw_settle(s->relay);
    ck_assert_uint_eq(s->cw.nodes[0]->failures, 1);
    ck_assert_int_eq(s->cw.nodes[0]->last_failure, err);
    ck_assert(!tf_client_is_bound(s->cw.clients[0]));
}

START_TEST(client_hole_or_other_epoch_of_a_relay_is_never_passed_on)
{
    static const struct {
        uint64_t epoch, seq;
    } rows[] = {{7, 3}, {8, 2}, {8, 1}, {7, UINT64_MAX}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static setup s;
        memset(&s, 0, sizeof(s));
        begin(&s, true);
        tell_activity(&s, 7, 1, 5);
        tell_activity(&s, rows[i].epoch, rows[i].seq, 5);
        check_ended(&s, TF_ERR_PEER_STATE);
        cw_pull(&s.cw, 0);
        ck_assert_uint_eq(s.cw.logs[0].activities, 1);
        end(&s);
    }
}
END_TEST

START_TEST(client_repeat_of_a_relay_is_dropped)
{
    static setup s;
    memset(&s, 0, sizeof(s));
    begin(&s, true);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        tell_activity(&s, 7, seq, 5);
        tell_activity(&s, 7, seq, 5);
        tell_activity(&s, 7, 1, 5);
    }
    raw_settle(s.relay);
    cw_pull(&s.cw, 0);
    ck_assert_uint_eq(s.cw.logs[0].activities, 3);
    ck_assert_uint_eq(s.cw.nodes[0]->failures, 0);
    end(&s);
}
END_TEST

/* P7: it was told how much may come. */
START_TEST(client_relay_that_sends_more_than_it_may_is_ended)
{
    static setup s;
    memset(&s, 0, sizeof(s));
    begin(&s, true);
    for (uint64_t seq = 1; seq <= 4 * TF_CLIENT_EVENT_BYTES / 100000 && s.cw.nodes[0]->failures == 0; seq++) {
        tell_activity(&s, 7, seq, 100000);
        raw_settle(s.relay);
    }
    check_ended(&s, TF_ERR_PEER_LIMIT);
    ck_assert_uint_le(s.cw.clients[0]->channels[0]->backlog, TF_CLIENT_EVENT_BYTES + 101000);
    end(&s);
}
END_TEST

START_TEST(client_malformed_answer_ends_the_session)
{
    static const struct {
        const char *method; /* what is answered */
        const char *data;
        bool with_ref;
        bool rejected;
    } rows[] = {
        {"subscribe", "80", true, false},
        {"subscribe", "84 a5 65706f6368 07 a4 68656164 00 a5 6669727374 01 a4 6e657874 01", false, false}, /* no ref */
        {"subscribe", "84 a5 65706f6368 07 a4 68656164 00 a5 6669727374 01 a4 6e657874 00", true, false},  /* next 0 */
        {"subscribe", "c0", false, true},
        {"subscribe", "80", false, true},
        {"send", "80", false, false},
        /* the ack of another send */
        {"send", "84 a9 636c69656e745f6964 a1 78 a2 6964 a1 79 a3 736571 01 a9 74696d657374616d70 01", false, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static setup s;
        uint8_t bytes[128];
        memset(&s, 0, sizeof(s));
        begin(&s, false);
        cw_send_range(&s.cw, 0, 0, 1, 1);
        raw_settle(s.relay);
        size_t len = tf_test_unhex(rows[i].data, bytes, sizeof(bytes));
        tf_local ref = rows[i].with_ref ? tf_local_next(&s.relay->end->ids) : TF_LOCAL_NONE;
        answer(&s, rows[i].method, tf_slice_of(bytes, len), ref, rows[i].rejected);
        check_ended(&s, TF_ERR_PEER_SYNTAX);
        ck_assert(tf_client_has_unacked(s.cw.clients[0])); /* it is kept for the next session */
        end(&s);
    }
}
END_TEST

START_TEST(client_subscription_that_the_relay_drops_is_asked_for_again)
{
    static setup s;
    memset(&s, 0, sizeof(s));
    begin(&s, true);
    tell_activity(&s, 7, 1, 5);
    raw_settle(s.relay);
    size_t before = s.relay->count;
    tf_session_release(s.relay->end->conn->session, s.cw.w.now, s.sink);
    raw_settle(s.relay);
    ck_assert_uint_eq(s.relay->count, before);
    for (size_t i = 0; i < 1100; i++) {
        world_pass(&s.cw.w, 1);
        (void)raw_take(s.relay, SIZE_MAX);
    }
    ck_assert_uint_eq(s.relay->count, before + 1);
    tf_args_subscribe args;
    ck_assert_int_eq(tf_args_subscribe_read(raw_data(asked(&s, "subscribe")), &args), TF_OK);
    ck_assert(args.from.kind == TF_FROM_SEQ && args.from.value == 2 && args.has_epoch && args.epoch == 7);
    end(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        client_hole_or_other_epoch_of_a_relay_is_never_passed_on,
        client_repeat_of_a_relay_is_dropped,
        client_relay_that_sends_more_than_it_may_is_ended,
        client_malformed_answer_ends_the_session,
        client_subscription_that_the_relay_drops_is_asked_for_again,
        NULL,
    };
    return tf_test_run("node/client and its peer", tests);
}
