/* node/client, sends that are older than the peer remembers them (S2): never sent again, reported as `unknown`. */
#include "tests/support/check_main.h"
#include "tests/unit/client_relay.h"

#define AGE_MS 10000u    /* the peer remembers sends for so long */
#define TIMEOUT_MS 4000u /* and one may be on its way for so long: it is not sent again after 6 s */

static const tf_client_config config = {.session_timeout = TIMEOUT_MS * TF_MS};

static size_t times_sent(setup *s)
{
    return times_asked(s, "send");
}

static void session(setup *s, uint64_t dedup_age_ms)
{
    connect_relay(s);
    answer_open(s, dedup_age_ms);
}

static void pass(setup *s, uint64_t ms)
{
    world_pass(&s->cw.w, ms);
    if (s->relay != NULL) {
        raw_settle(s->relay);
    }
    cw_pull(&s->cw, 0);
}

static void check_unknown(setup *s, uint64_t cookie)
{
    const client_log *log = &s->cw.logs[0];
    ck_assert_uint_eq(log->counts[TF_CLIENT_REFUSED], 1);
    ck_assert_str_eq(log->code, "unknown");
    ck_assert(!log->last[TF_CLIENT_REFUSED].retryable);
    ck_assert_uint_eq(log->last[TF_CLIENT_REFUSED].cookie, cookie);
    ck_assert(!tf_client_has_unacked(s->cw.clients[0]));
}

START_TEST(client_send_is_sent_again_until_the_limit_and_not_after_it)
{
    static const struct {
        uint64_t away_ms;
        bool again;
    } rows[] = {{5999, true}, {6000, false}, {60000, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static setup s;
        begin_client(&s, &config);
        session(&s, AGE_MS);
        cw_send_range(&s.cw, 0, 0, 5, 5);
        raw_settle(s.relay);
        ck_assert_uint_eq(times_sent(&s), 1);
        lose_relay(&s);
        s.cw.w.now += rows[i].away_ms * TF_MS; /* all in one: nothing ran meanwhile */
        session(&s, AGE_MS);
        ck_assert_uint_eq(times_sent(&s), rows[i].again ? 1 : 0);
        cw_pull(&s.cw, 0);
        if (!rows[i].again) {
            check_unknown(&s, 5);
        }
        end(&s);
    }
}
END_TEST

START_TEST(client_send_is_reported_when_its_time_is_over_also_without_a_session)
{
    static setup s;
    begin_client(&s, &config);
    session(&s, AGE_MS);
    cw_send_range(&s.cw, 0, 0, 5, 5);
    raw_settle(s.relay);
    lose_relay(&s);
    pass(&s, 5990);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_REFUSED], 0);
    pass(&s, 20);
    check_unknown(&s, 5);
    end(&s);
}
END_TEST

START_TEST(client_send_that_never_left_has_no_such_limit)
{
    static setup s;
    begin_client(&s, &config);
    session(&s, AGE_MS);
    lose_relay(&s);
    cw_send_range(&s.cw, 0, 0, 5, 5);
    pass(&s, 20000);
    session(&s, AGE_MS);
    ck_assert_uint_eq(times_sent(&s), 1);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_REFUSED], 0);
    end(&s);
}
END_TEST

START_TEST(client_send_in_flight_waits_for_its_answer_whatever_its_age)
{
    static setup s;
    tf_result_ack ack = {.id = tf_slice_str("7-1"), .seq = 1, .timestamp_ms = 1};
    begin_client(&s, &config);
    session(&s, AGE_MS);
    cw_send_range(&s.cw, 0, 0, 5, 5);
    raw_settle(s.relay);
    pass(&s, 7000);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_REFUSED], 0);
    ack.client_id = tf_slice_str("00000000abcdef00-1");
    tf_result_ack_write(to_say(&s), &ack);
    answer_said(&s, "send");
    cw_pull(&s.cw, 0);
    ck_assert(log_acked(&s.cw.logs[0], 5, 5));
    end(&s);
}
END_TEST

START_TEST(client_channel_that_remembers_for_ever_has_no_limit)
{
    static setup s;
    begin_client(&s, &config);
    session(&s, 0);
    cw_send_range(&s.cw, 0, 0, 5, 5);
    raw_settle(s.relay);
    lose_relay(&s);
    s.cw.w.now += 86400 * TF_SECOND;
    session(&s, 0);
    ck_assert_uint_eq(times_sent(&s), 1);
    end(&s);
}
END_TEST

START_TEST(client_refusals_do_not_make_a_send_live_longer)
{
    static setup s;
    begin_client(&s, &config);
    session(&s, AGE_MS);
    cw_send_range(&s.cw, 0, 0, 5, 5);
    raw_settle(s.relay);
    for (size_t i = 1; s.cw.logs[0].counts[TF_CLIENT_REFUSED] == 0; i++) {
        ck_assert_uint_lt(i, 100);
        if (times_sent(&s) == i) {
            answer_refused(&s, "send", TF_REFUSAL_STORE_FULL);
        }
        pass(&s, 500);
    }
    check_unknown(&s, 5);
    ck_assert_uint_ge(s.cw.w.now, TF_SECOND + 6000 * TF_MS);
    ck_assert_uint_le(s.cw.w.now, TF_SECOND + 7000 * TF_MS);
    end(&s);
}
END_TEST

/* A spool: another process had sent it. */
START_TEST(client_age_of_an_earlier_process_counts)
{
    static const struct {
        tf_time sent_ago;
        bool goes;
    } rows[] = {{0, true}, {5999 * TF_MS, true}, {6000 * TF_MS, false}, {TF_NEVER, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static setup s;
        begin_client(&s, &config);
        tf_send send = {
            .body = tf_slice_str("b"), .cookie = 5, .was_sent = true, .sent_ago = rows[i].sent_ago};
        ck_assert_int_eq(tf_client_send(s.cw.clients[0], s.cw.w.now, 0, &send), TF_OK);
        session(&s, AGE_MS);
        ck_assert_uint_eq(times_sent(&s), rows[i].goes ? 1 : 0);
        cw_pull(&s.cw, 0);
        if (!rows[i].goes) {
            check_unknown(&s, 5);
        }
        end(&s);
    }
}
END_TEST

START_TEST(client_those_behind_an_unknown_one_go_on_in_order)
{
    static setup s;
    begin_client(&s, &config);
    tf_send old = {.body = tf_slice_str("old"), .cookie = 5, .was_sent = true, .sent_ago = TF_NEVER};
    ck_assert_int_eq(tf_client_send(s.cw.clients[0], s.cw.w.now, 0, &old), TF_OK);
    cw_send_range(&s.cw, 0, 0, 6, 8);
    session(&s, AGE_MS);
    ck_assert_uint_eq(times_sent(&s), 3);
    cw_pull(&s.cw, 0);
    ck_assert_uint_eq(s.cw.logs[0].last[TF_CLIENT_REFUSED].cookie, 5);
    end(&s);
}
END_TEST

/* meta and expires travel with it, in every session. */
START_TEST(client_send_keeps_meta_and_expires)
{
    static setup s;
    tf_send send = {
        .body = tf_slice_str("b"), .meta = tf_slice_str("m"), .expires_ms = 1700000001000, .cookie = 1};
    begin_client(&s, &config);
    ck_assert_int_eq(tf_client_send(s.cw.clients[0], s.cw.w.now, 0, &send), TF_OK);
    for (size_t i = 0; i < 2; i++) {
        tf_args_send args;
        session(&s, 0);
        ck_assert_int_eq(tf_args_send_read(raw_data(asked(&s, "send")), &args), TF_OK);
        ck_assert(tf_slice_eq(args.meta, send.meta) && tf_slice_eq(args.body, send.body));
        ck_assert_uint_eq(args.expires_ms, 1700000001000);
        lose_relay(&s);
    }
    static uint8_t meta[TF_META_MAX + 1];
    send.meta = tf_slice_of(meta, sizeof(meta));
    ck_assert_int_eq(tf_client_send(s.cw.clients[0], s.cw.w.now, 0, &send), TF_ERR_LIMIT_BYTES);
    end(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        client_send_is_sent_again_until_the_limit_and_not_after_it,
        client_send_is_reported_when_its_time_is_over_also_without_a_session,
        client_send_that_never_left_has_no_such_limit,
        client_send_in_flight_waits_for_its_answer_whatever_its_age,
        client_channel_that_remembers_for_ever_has_no_limit,
        client_refusals_do_not_make_a_send_live_longer,
        client_age_of_an_earlier_process_counts,
        client_those_behind_an_unknown_one_go_on_in_order,
        client_send_keeps_meta_and_expires,
        NULL,
    };
    return tf_test_run("node/client, ages", tests);
}
