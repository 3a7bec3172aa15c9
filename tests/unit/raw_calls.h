/* What a raw peer asks of channels beside `send`: arguments written, answers and deliveries found. */
#ifndef TF_TESTS_UNIT_RAW_CALLS_H
#define TF_TESTS_UNIT_RAW_CALLS_H

#include "tests/unit/hub_world.h"

typedef struct raw_args {
    uint8_t bytes[2048];
    tf_writer w;
} raw_args;

static inline tf_writer *raw_begin(raw_args *args)
{
    tf_wr_init(&args->w, args->bytes, sizeof(args->bytes));
    return &args->w;
}

static inline tf_slice raw_bytes(const raw_args *args)
{
    ck_assert(tf_wr_ok(&args->w));
    return tf_slice_of(args->bytes, tf_wr_len(&args->w));
}

/* A call with the arguments in args, settled. */
static inline tf_local raw_ask(raw_peer *raw, tf_local target, const char *method, const raw_args *args)
{
    tf_local promise = raw_call(raw, target, method, raw_bytes(args), TF_LOCAL_NONE);
    raw_settle(raw);
    return promise;
}

/* A call without a result. */
static inline void raw_tell(raw_peer *raw, tf_local target, const char *method, const raw_args *args)
{
    tf_router_send send = {.target = target, .method = tf_slice_str(method), .args = raw_bytes(args)};
    ck_assert_int_eq(tf_router_deliver(raw->end->router, raw->w->now, &send, NULL), TF_OK);
    raw_settle(raw);
}

/* A subscription: what it sends to, and what it gets by. */
typedef struct raw_sub {
    raw_peer *raw;
    tf_local sink;
    tf_local object;
    tf_result_subscribe start;
    size_t seen; /* of the answers, by raw_next */
} raw_sub;

static inline tf_local raw_ask_subscribe(raw_peer *raw, const tf_args_subscribe *args, tf_local sink)
{
    raw_args bytes;
    tf_args_subscribe filled = *args;
    filled.limit = args->limit == 0 ? UINT64_MAX : args->limit;
    tf_args_subscribe_write(raw_begin(&bytes), &filled);
    tf_local promise = raw_call(raw, raw->channel, "subscribe", raw_bytes(&bytes), sink);
    raw_settle(raw);
    return promise;
}

/* A sink, not asked for anything yet. */
static inline raw_sub raw_sink(raw_peer *raw)
{
    return (raw_sub){.raw = raw, .sink = tf_router_new_object(raw->end->router), .seen = raw->count};
}

/* limit 0: none. */
static inline raw_sub raw_subscribe(raw_peer *raw, const tf_args_subscribe *args)
{
    raw_sub sub = raw_sink(raw);
    tf_local promise = raw_ask_subscribe(raw, args, sub.sink);
    ck_assert_str_eq(raw_outcome(raw, promise), "acked");
    const raw_answer *answer = raw_find(raw, promise);
    ck_assert_int_eq(tf_result_subscribe_read(raw_data(answer), &sub.start), TF_OK);
    sub.object = answer == NULL ? TF_LOCAL_NONE : answer->ref;
    return sub;
}

/* The next that came to its sink; NULL: nothing more. */
static inline const raw_answer *raw_next(raw_sub *sub)
{
    while (sub->seen < sub->raw->count) {
        const raw_answer *answer = &sub->raw->answers[sub->seen++];
        if (answer->is_deliver && answer->promise == sub->sink) {
            return answer;
        }
    }
    return NULL;
}

/* The next that came is the activity of that seq. */
static inline tf_activity raw_expect(raw_sub *sub, uint64_t seq)
{
    tf_activity activity = {.seq = 0};
    const raw_answer *answer = raw_next(sub);
    ck_assert_msg(answer != NULL, "nothing came, %llu was expected", (unsigned long long)seq);
    ck_assert_str_eq(answer == NULL ? "" : answer->method, "activity");
    ck_assert_int_eq(tf_activity_read(raw_data(answer), &activity), TF_OK);
    ck_assert_uint_eq(activity.seq, seq);
    return activity;
}

static inline void raw_expect_range(raw_sub *sub, uint64_t from, uint64_t to)
{
    for (uint64_t seq = from; seq <= to; seq++) {
        (void)raw_expect(sub, seq);
    }
}

/* The next that came is a gap up to `next`. */
static inline void raw_expect_gap(raw_sub *sub, uint64_t next, const char *reason)
{
    tf_gap gap = {.next = 0};
    const raw_answer *answer = raw_next(sub);
    ck_assert_msg(answer != NULL, "nothing came, a gap was expected");
    ck_assert_str_eq(answer == NULL ? "" : answer->method, "gap");
    ck_assert_int_eq(tf_gap_read(raw_data(answer), &gap), TF_OK);
    ck_assert_uint_eq(gap.next, next);
    ck_assert(tf_slice_eq(gap.reason, tf_slice_str(reason)));
}

/* The next that came is its end. */
static inline void raw_expect_ended(raw_sub *sub, const char *reason)
{
    tf_ended ended = {.reason = {NULL, 0}};
    const raw_answer *answer = raw_next(sub);
    ck_assert_str_eq(answer == NULL ? "" : answer->method, "ended");
    ck_assert_int_eq(tf_ended_read(raw_data(answer), &ended), TF_OK);
    ck_assert(tf_slice_eq(ended.reason, tf_slice_str(reason)));
}

static inline void raw_expect_nothing(raw_sub *sub)
{
    const raw_answer *answer = raw_next(sub);
    ck_assert_msg(answer == NULL, "%s came", answer == NULL ? "" : answer->method);
}

static inline tf_local raw_confirm(raw_sub *sub, uint64_t epoch, uint64_t next)
{
    raw_args args;
    tf_args_confirm_write(raw_begin(&args), &(tf_args_confirm){epoch, next});
    return raw_ask(sub->raw, sub->object, "confirm", &args);
}

static inline tf_local raw_trim(raw_peer *raw, uint64_t before)
{
    raw_args args;
    tf_args_trim_write(raw_begin(&args), &(tf_args_trim){before});
    return raw_ask(raw, raw->channel, "trim", &args);
}

static inline tf_local raw_send_with(raw_peer *raw, const tf_args_send *args)
{
    raw_args bytes;
    tf_args_send_write(raw_begin(&bytes), args);
    return raw_ask(raw, raw->channel, "send", &bytes);
}

static inline void raw_send_range(raw_peer *raw, unsigned from, unsigned to)
{
    for (unsigned i = from; i <= to; i++) {
        tf_local promise = raw_send_numbered(raw, i);
        raw_settle(raw);
        ck_assert_str_eq(raw_outcome(raw, promise), "acked");
    }
}

static inline tf_result_info raw_info(raw_peer *raw)
{
    raw_args args;
    tf_result_info info;
    tf_args_none_write(raw_begin(&args));
    tf_local promise = raw_ask(raw, raw->channel, "info", &args);
    ck_assert_str_eq(raw_outcome(raw, promise), "acked");
    ck_assert_int_eq(tf_result_info_read(raw_data(raw_find(raw, promise)), &info), TF_OK);
    return info;
}

#endif
