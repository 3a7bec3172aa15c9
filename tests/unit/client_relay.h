/* A client and a raw peer that plays its relay: answers what it is asked, tells its sink, loses the session and takes the
 * next (for the tests of node/client). The relay's own state is none: what it says is up to the test. */
#ifndef TF_TESTS_UNIT_CLIENT_RELAY_H
#define TF_TESTS_UNIT_CLIENT_RELAY_H

#include "tests/unit/client_world.h"

typedef struct setup {
    client_world cw;
    raw_peer *relay;
    tf_local channel;
    tf_local sink;
    tf_local subscription;
    uint8_t bytes[4096]; /* of what is written here */
    tf_writer w;
} setup;

/* To begin an answer. */
static inline tf_writer *to_say(setup *s)
{
    tf_wr_init(&s->w, s->bytes, sizeof(s->bytes));
    return &s->w;
}

static inline tf_slice said(const setup *s)
{
    ck_assert(tf_wr_ok(&s->w));
    return tf_slice_of(s->bytes, tf_wr_len(&s->w));
}

/* The last call of that method; NULL: none. */
static inline raw_answer *find_asked(setup *s, const char *method)
{
    for (size_t i = s->relay->count; i > 0; i--) {
        raw_answer *call = &s->relay->answers[i - 1];
        if (call->is_deliver && strncmp(call->method, method, sizeof(call->method) - 1) == 0) {
            return call;
        }
    }
    return NULL;
}

static inline raw_answer *asked(setup *s, const char *method)
{
    raw_answer *call = find_asked(s, method);
    if (call == NULL) {
        ck_abort_msg("%s was not asked for", method);
    }
    return call;
}

static inline size_t times_asked(setup *s, const char *method)
{
    size_t times = 0;
    for (size_t i = 0; i < s->relay->count; i++) {
        const raw_answer *call = &s->relay->answers[i];
        times += call->is_deliver && strncmp(call->method, method, sizeof(call->method) - 1) == 0 ? 1 : 0;
    }
    return times;
}

/* Answers; it is not on its way yet. */
static inline void put_answer(setup *s, const raw_answer *call, tf_slice data, tf_local ref, bool rejected)
{
    tf_mention mention = {ref, TF_REF_OBJECT};
    tf_answer resolution = {.promise = call->result,
                            .kind = rejected ? TF_RESOLUTION_REJECTION : TF_RESOLUTION_DATA,
                            .data = data,
                            .refs = &mention,
                            .ref_count = ref == TF_LOCAL_NONE ? 0 : 1};
    ck_assert_int_eq(tf_router_resolve(s->relay->end->router, s->cw.w.now, &resolution, 1), TF_OK);
}

static inline void answer_call(setup *s, const raw_answer *call, tf_slice data, tf_local ref, bool rejected)
{
    put_answer(s, call, data, ref, rejected);
    raw_settle(s->relay);
}

static inline void answer(setup *s, const char *method, tf_slice data, tf_local ref, bool rejected)
{
    answer_call(s, asked(s, method), data, ref, rejected);
}

/* Answers with what was said. */
static inline void answer_said(setup *s, const char *method)
{
    answer(s, method, said(s), TF_LOCAL_NONE, false);
}

static inline void answer_refused(setup *s, const char *method, tf_refusal refusal)
{
    tf_result_refusal_write(to_say(s), &(tf_result_refusal){.code = tf_refusal_code(refusal),
                                                            .message = tf_refusal_message(refusal),
                                                            .retryable = tf_refusal_is_retryable(refusal)});
    answer(s, method, said(s), TF_LOCAL_NONE, true);
}

static inline void tell(setup *s, const char *method, tf_slice args)
{
    tf_router_send send = {.target = s->sink, .method = tf_slice_str(method), .args = args};
    ck_assert_int_eq(tf_router_deliver(s->relay->end->router, s->cw.w.now, &send, NULL), TF_OK);
}

static inline void tell_activity(setup *s, uint64_t epoch, uint64_t seq, size_t body_len)
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

static inline void tell_gap(setup *s, uint64_t epoch, uint64_t next, const char *reason)
{
    tf_gap_write(to_say(s), &(tf_gap){.epoch = epoch, .next = next, .reason = tf_slice_str(reason)});
    tell(s, "gap", said(s));
}

/* A client without a session that wants to use "room". */
static inline void begin_client(setup *s, const tf_client_config *config)
{
    memset(s, 0, sizeof(*s));
    cw_begin(&s->cw, 1, NULL);
    (void)cw_client(&s->cw, config);
    ck_assert_uint_eq(cw_open(&s->cw, 0, "room"), 0);
}

/* A session, in which the client has asked for what it wants. */
static inline void connect_relay(setup *s)
{
    s->relay = raw_acceptor(&s->cw.w, s->cw.nodes[0]);
    tf_client_bind(s->cw.clients[0], s->cw.w.now, raw_pair(s->relay)->end[0].conn);
    raw_settle(s->relay);
}

static inline void answer_open(setup *s, uint64_t dedup_age_ms)
{
    s->channel = tf_router_new_object(s->relay->end->router);
    tf_result_open_write(
        to_say(s),
        &(tf_result_open){.epoch = 7, .max_in_flight = 32, .max_body = 1000, .dedup_age_ms = dedup_age_ms});
    answer(s, "open", said(s), s->channel, false);
}

static inline void answer_subscribe(setup *s, const tf_result_subscribe *start)
{
    s->sink = asked(s, "subscribe")->ref;
    s->subscription = tf_router_new_object(s->relay->end->router);
    tf_result_subscribe_write(to_say(s), start);
    answer(s, "subscribe", said(s), s->subscription, false);
}

static inline void lose_relay(setup *s)
{
    world_disconnect(&s->cw.w, raw_pair(s->relay));
    free(s->relay);
    s->relay = NULL;
}

/* The session is lost, and "room" is open in the next one. */
static inline void next_session(setup *s)
{
    lose_relay(s);
    connect_relay(s);
    answer_open(s, 0);
}

/* What the relay has said comes out of the client. */
static inline void hear(setup *s)
{
    raw_settle(s->relay);
    cw_pull(&s->cw, 0);
}

/* A client that has opened "room"; with a subscription to it, too. */
static inline void begin(setup *s, bool subscribed)
{
    begin_client(s, NULL);
    connect_relay(s);
    answer_open(s, 0);
    cw_subscribe(&s->cw, 0, 0, TF_FROM_FIRST, 0, true);
    raw_settle(s->relay);
    s->sink = asked(s, "subscribe")->ref;
    if (subscribed) {
        answer_subscribe(s, &(tf_result_subscribe){.epoch = 7, .head = 0, .first = 1, .next = 1});
        cw_pull(&s->cw, 0);
    }
}

static inline void end(setup *s)
{
    if (s->relay != NULL) {
        world_disconnect(&s->cw.w, raw_pair(s->relay));
    }
    cw_end(&s->cw);
    free(s->relay);
}

#endif
