/* node/client, questions (info, trim, gaps, read, channels, forget_cursor): one answer each, over all sessions. */
#include "tests/support/check_main.h"
#include "tests/unit/client_relay.h"

static tf_err ask(setup *s, const tf_ask *question)
{
    tf_err err = tf_client_ask(s->cw.clients[0], s->cw.w.now, 0, question);
    if (s->relay != NULL) {
        raw_settle(s->relay);
    }
    return err;
}

/* The next ANSWER; its slices are valid until the next pull. */
static tf_client_event next_answer(setup *s)
{
    tf_client_event event;
    while (tf_client_next_event(s->cw.clients[0], &event)) {
        if (event.type == TF_CLIENT_ANSWER) {
            return event;
        }
    }
    ck_abort_msg("there is no answer");
}

static void begin_open(setup *s)
{
    begin_client(s, NULL);
    connect_relay(s);
    answer_open(s, 0);
}

static void say_trimmed(setup *s, uint64_t first)
{
    tf_result_trim_write(to_say(s), &(tf_result_trim){first});
}

START_TEST(client_question_of_a_channel_waits_until_it_is_open)
{
    static setup s;
    tf_args_trim args;
    tf_result_trim result;
    begin_client(&s, NULL);
    ck_assert_int_eq(ask(&s, &(tf_ask){.kind = TF_ASK_TRIM, .from = 40, .cookie = 11}), TF_OK);
    connect_relay(&s);
    ck_assert_ptr_null(find_asked(&s, "trim"));
    answer_open(&s, 0);
    ck_assert_int_eq(tf_args_trim_read(raw_data(asked(&s, "trim")), &args), TF_OK);
    ck_assert_uint_eq(args.before, 40);
    say_trimmed(&s, 38);
    answer_said(&s, "trim");
    tf_client_event event = next_answer(&s);
    ck_assert_int_eq(event.asked, TF_ASK_TRIM);
    ck_assert_uint_eq(event.cookie, 11);
    ck_assert_uint_eq(event.code.len, 0);
    ck_assert_int_eq(tf_result_trim_read(event.data, &result), TF_OK);
    ck_assert_uint_eq(result.first, 38);
    end(&s);
}
END_TEST

START_TEST(client_questions_are_asked_as_they_were_given)
{
    static setup s;
    tf_args_channels channels;
    tf_args_gaps gaps;
    tf_args_read read;
    tf_args_forget_cursor forget;
    begin_open(&s);
    ck_assert_int_eq(ask(&s, &(tf_ask){.kind = TF_ASK_CHANNELS, .from = 7, .to = 5}), TF_OK);
    ck_assert_int_eq(ask(&s, &(tf_ask){.kind = TF_ASK_INFO}), TF_OK);
    ck_assert_int_eq(ask(&s, &(tf_ask){.kind = TF_ASK_GAPS, .from = 3}), TF_OK);
    ck_assert_int_eq(ask(&s, &(tf_ask){.kind = TF_ASK_READ, .from = 2, .to = 9}), TF_OK);
    ck_assert_int_eq(ask(&s, &(tf_ask){.kind = TF_ASK_FORGET, .name = tf_slice_str("b")}), TF_OK);
    ck_assert_int_eq(tf_args_channels_read(raw_data(asked(&s, "channels")), &channels), TF_OK);
    ck_assert(channels.after == 7 && channels.limit == 5);
    ck_assert_int_eq(tf_args_none_read(raw_data(asked(&s, "info"))), TF_OK);
    ck_assert_int_eq(tf_args_gaps_read(raw_data(asked(&s, "gaps")), &gaps), TF_OK);
    ck_assert_uint_eq(gaps.from, 3);
    ck_assert_int_eq(tf_args_read_read(raw_data(asked(&s, "read")), &read), TF_OK);
    ck_assert(read.from == 2 && read.to == 9);
    ck_assert_int_eq(tf_args_forget_cursor_read(raw_data(asked(&s, "forget_cursor")), &forget), TF_OK);
    ck_assert(tf_slice_eq(forget.name, tf_slice_str("b")) && !forget.has_owner);
    end(&s);
}
END_TEST

START_TEST(client_question_without_an_answer_is_asked_again_in_the_next_session)
{
    static setup s;
    begin_open(&s);
    ck_assert_int_eq(ask(&s, &(tf_ask){.kind = TF_ASK_TRIM, .from = 5, .cookie = 1}), TF_OK);
    ck_assert_uint_eq(times_asked(&s, "trim"), 1);
    next_session(&s);
    ck_assert_uint_eq(times_asked(&s, "trim"), 1);
    say_trimmed(&s, 5);
    answer_said(&s, "trim");
    ck_assert_uint_eq(next_answer(&s).cookie, 1);
    next_session(&s);
    ck_assert_ptr_null(find_asked(&s, "trim"));
    end(&s);
}
END_TEST

START_TEST(client_refused_question_is_told_or_asked_again)
{
    static setup s;
    begin_open(&s);
    ck_assert_int_eq(ask(&s, &(tf_ask){.kind = TF_ASK_INFO, .cookie = 3}), TF_OK);
    answer_refused(&s, "info", TF_REFUSAL_OVERLOADED);
    ck_assert_uint_eq(times_asked(&s, "info"), 1);
    for (size_t i = 0; i < 100 && times_asked(&s, "info") < 2; i++) {
        world_pass(&s.cw.w, 1);
        raw_settle(s.relay);
    }
    ck_assert_uint_eq(times_asked(&s, "info"), 2);
    answer_refused(&s, "info", TF_REFUSAL_FORBIDDEN);
    tf_client_event event = next_answer(&s);
    ck_assert(tf_slice_eq(event.code, tf_slice_str("forbidden")));
    ck_assert_uint_eq(event.data.len, 0);
    end(&s);
}
END_TEST

START_TEST(client_channel_that_is_missing_is_not_made_and_its_questions_are_refused)
{
    static setup s;
    size_t found = 0;
    tf_args_open args;
    begin_client(&s, NULL);
    tf_client *client = s.cw.clients[0];
    ck_assert_int_eq(tf_client_find(client, s.cw.w.now, tf_slice_str("other"), &found), TF_OK);
    ck_assert_uint_eq(found, 1);
    ck_assert_int_eq(tf_client_ask(client, s.cw.w.now, found, &(tf_ask){.kind = TF_ASK_INFO, .cookie = 9}), TF_OK);
    connect_relay(&s);
    ck_assert_int_eq(tf_args_open_read(raw_data(asked(&s, "open")), &args), TF_OK);
    ck_assert(tf_slice_eq(args.channel, tf_slice_str("other")) && args.existing_only);
    answer_refused(&s, "open", TF_REFUSAL_CHANNEL_NOT_FOUND);
    tf_client_event event = next_answer(&s);
    ck_assert_uint_eq(event.cookie, 9);
    ck_assert(tf_slice_eq(event.code, tf_slice_str("channel_not_found")));
    ck_assert_int_eq(tf_client_ask(client, s.cw.w.now, found, &(tf_ask){.kind = TF_ASK_INFO}), TF_ERR_CLOSED);
    end(&s);
}
END_TEST

START_TEST(client_questions_are_bounded_until_their_answers_were_pulled)
{
    static setup s;
    begin_open(&s);
    const tf_ask question = {.kind = TF_ASK_TRIM, .from = 1};
    for (size_t i = 0; i < TF_CLIENT_ASKS_MAX; i++) {
        ck_assert_int_eq(ask(&s, &question), TF_OK);
    }
    ck_assert_int_eq(ask(&s, &question), TF_ERR_AGAIN);
    say_trimmed(&s, 1);
    answer_said(&s, "trim");
    ck_assert_int_eq(ask(&s, &question), TF_ERR_AGAIN);
    (void)next_answer(&s);
    ck_assert_int_eq(ask(&s, &question), TF_OK);
    end(&s);
}
END_TEST

START_TEST(client_question_that_cannot_be_is_refused_at_once)
{
    static setup s;
    static const tf_ask rows[] = {{.kind = TF_ASK_TRIM},
                                  {.kind = TF_ASK_GAPS},
                                  {.kind = TF_ASK_READ, .to = 1},
                                  {.kind = TF_ASK_READ, .from = 2, .to = 1},
                                  {.kind = TF_ASK_FORGET}};
    begin_open(&s);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_int_eq(ask(&s, &rows[i]), TF_ERR_USAGE);
    }
    end(&s);
}
END_TEST

/* -- lists --------------------------------------------------------------------------------------------------------- */

static void write_item(tf_writer *w, tf_ask_kind kind)
{
    switch (kind) {
    case TF_ASK_CHANNELS:
        tf_channel_state_write(w, &(tf_channel_state){.name = tf_slice_str("room"), .epoch = 7, .first = 1});
        return;
    case TF_ASK_INFO:
        tf_cursor_state_write(w, &(tf_cursor_state){.name = tf_slice_str("billing"), .epoch = 7, .next = 1});
        return;
    case TF_ASK_GAPS:
        tf_hole_write(w, &(tf_hole){.first = 1, .last = 2, .reason = tf_slice_str("trimmed")});
        return;
    case TF_ASK_REFS:
        tf_ref_state_write(w, &(tf_ref_state){.ref = 4, .local = 9, .count = 1});
        return;
    default:
        tf_activity_write(w, &(tf_activity){.epoch = 7,
                                            .seq = 3,
                                            .id = tf_slice_str("i"),
                                            .client_id = tf_slice_str("c"),
                                            .body = tf_slice_str("b")});
    }
}

static void write_head(tf_writer *w, tf_ask_kind kind)
{
    switch (kind) {
    case TF_ASK_CHANNELS:
        tf_result_channels_write_head(w, &(tf_result_channels){.next = 0}, 2);
        return;
    case TF_ASK_INFO:
        tf_result_info_write_head(
            w, &(tf_result_info){.state = {.name = tf_slice_str("room"), .epoch = 7, .first = 1}, .cursor_count = 2}, 2);
        return;
    case TF_ASK_GAPS:
        tf_result_gaps_write_head(w, &(tf_result_gaps){.next = 0}, 2);
        return;
    case TF_ASK_REFS:
        tf_result_refs_write_head(w, &(tf_result_refs){.next = 0}, 2);
        return;
    default:
        tf_result_read_write_head(w, &(tf_result_read){.epoch = 7, .first = 1, .head = 9, .next = 4}, 2, 2);
    }
}

/* An answer with two items of its kind, of which the one with that number is no such item; 2: both are; `read` has gaps
 * with the numbers 2 and 3 as well. */
static void say_list(setup *s, tf_ask_kind kind, size_t bad, size_t count)
{
    tf_writer *w = to_say(s);
    write_head(w, kind);
    for (size_t i = 0; i < count; i++) {
        tf_ask_kind item = i < 2 ? kind : TF_ASK_GAPS;
        if (i == 2) {
            tf_result_read_write_gaps(w, 2);
        }
        if (i == bad) {
            tf_args_none_write(w);
        } else {
            write_item(w, item);
        }
    }
}

START_TEST(client_list_is_read_to_its_end_before_it_is_told)
{
    static const struct {
        tf_ask question;
        const char *method;
        size_t count;
    } rows[] = {
        {{.kind = TF_ASK_CHANNELS}, "channels", 2},        {{.kind = TF_ASK_INFO}, "info", 2},
        {{.kind = TF_ASK_GAPS, .from = 1}, "gaps", 2},     {{.kind = TF_ASK_REFS}, "refs", 2},
        {{.kind = TF_ASK_READ, .from = 1, .to = 9}, "read", 4},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t bad = 0; bad <= rows[i].count; bad++) { /* the last time all are good */
            static setup s;
            begin_open(&s);
            ck_assert_int_eq(ask(&s, &rows[i].question), TF_OK);
            say_list(&s, rows[i].question.kind, bad, rows[i].count);
            answer_said(&s, rows[i].method);
            if (bad < rows[i].count) {
                ck_assert_int_eq(s.cw.nodes[0]->last_failure, TF_ERR_PEER_SYNTAX);
            } else {
                ck_assert_int_eq(next_answer(&s).asked, rows[i].question.kind);
            }
            end(&s);
        }
    }
}
END_TEST

START_TEST(client_malformed_answer_to_a_question_ends_the_session)
{
    static const struct {
        tf_ask question;
        const char *method;
        const char *data;
    } rows[] = {
        {{.kind = TF_ASK_TRIM, .from = 1}, "trim", "80"},
        {{.kind = TF_ASK_CHANNELS}, "channels", "80"},
        {{.kind = TF_ASK_GAPS, .from = 1}, "gaps", "80"},
        {{.kind = TF_ASK_REFS}, "refs", "80"},
        {{.kind = TF_ASK_INFO}, "info", "80"},
        {{.kind = TF_ASK_CHANNELS}, "channels", "81 a5 6974656d73 91 80"},              /* an item that is none */
        {{.kind = TF_ASK_GAPS, .from = 1}, "gaps", "81 a5 6974656d73 91 81 a1 78 01"}, /* likewise */
        {{.kind = TF_ASK_READ, .from = 1, .to = 1}, "read", "c0"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static setup s;
        uint8_t bytes[128];
        begin_open(&s);
        ck_assert_int_eq(ask(&s, &rows[i].question), TF_OK);
        size_t len = tf_test_unhex(rows[i].data, bytes, sizeof(bytes));
        answer(&s, rows[i].method, tf_slice_of(bytes, len), TF_LOCAL_NONE, false);
        ck_assert_uint_eq(s.cw.nodes[0]->failures, 1);
        ck_assert_int_eq(s.cw.nodes[0]->last_failure, TF_ERR_PEER_SYNTAX);
        end(&s);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        client_question_of_a_channel_waits_until_it_is_open,
        client_questions_are_asked_as_they_were_given,
        client_question_without_an_answer_is_asked_again_in_the_next_session,
        client_refused_question_is_told_or_asked_again,
        client_channel_that_is_missing_is_not_made_and_its_questions_are_refused,
        client_questions_are_bounded_until_their_answers_were_pulled,
        client_question_that_cannot_be_is_refused_at_once,
        client_list_is_read_to_its_end_before_it_is_told,
        client_malformed_answer_to_a_question_ends_the_session,
        NULL,
    };
    return tf_test_run("node/client, questions", tests);
}
