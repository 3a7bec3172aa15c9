/* node/rate, and the rates of sends that the hub keeps with it (S7, S9). */
#include "node/rate.h"
#include "tests/support/check_main.h"
#include "tests/unit/raw_room.h"

/* -- the bucket ---------------------------------------------------------------------------------------------------- */

START_TEST(rate_burst_is_had_at_once_and_the_rest_by_and_by)
{
    static const tf_rate_limit limits[] = {{1, 1},      {3, 1},          {7, 100},
                                           {1000, 32},  {1000000, 7},    {UINT64_C(4294967295), 1},
                                           {999983, 5}, {1, 1000000000}, {UINT64_C(1) << 45, TF_RATE_BURST_MAX}};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        const tf_rate_limit *limit = &limits[i];
        tf_rate rate;
        tf_time now = 12345;
        tf_rate_init(&rate, limit, now);
        ck_assert(tf_rate_is_full(&rate, limit, now));
        ck_assert_uint_eq(tf_rate_wait(&rate, limit, now, limit->burst), 0);
        tf_rate_take(&rate, limit, now, limit->burst);
        tf_time wait = tf_rate_wait(&rate, limit, now, 1);
        ck_assert_uint_eq(wait, (1000000 + limit->per_second - 1) / limit->per_second);
        ck_assert(wait == 1 || tf_rate_wait(&rate, limit, now + wait - 1, 1) > 0);
        ck_assert_uint_eq(tf_rate_wait(&rate, limit, now + wait, 1), 0);
        ck_assert(tf_rate_is_full(&rate, limit, now + UINT64_C(1000000) * limit->burst));
        ck_assert(tf_rate_is_full(&rate, limit, UINT64_MAX)); /* no overflow */
    }
}
END_TEST

START_TEST(rate_is_full_after_any_time)
{
    const tf_rate_limit limit = {1 << 10, UINT64_C(1) << 31};
    for (unsigned shift = 42; shift < 64; shift++) { /* the microseconds times the rate overflow */
        tf_rate rate;
        tf_rate_init(&rate, &limit, 0);
        tf_rate_take(&rate, &limit, 0, limit.burst);
        ck_assert(tf_rate_is_full(&rate, &limit, UINT64_C(1) << shift));
    }
}
END_TEST

START_TEST(rate_holds_in_the_long_run)
{
    tf_test_random random;
    tf_test_random_init(&random, 1);
    for (unsigned round = 0; round < 50; round++) {
        tf_rate_limit limit = {1 + tf_test_random_below(&random, 2000), 1 + tf_test_random_below(&random, 50)};
        tf_rate rate;
        tf_time now = 0;
        uint64_t taken = 0;
        tf_rate_init(&rate, &limit, now);
        while (now < 20 * TF_SECOND) {
            uint64_t amount = 1 + tf_test_random_below(&random, limit.burst);
            tf_time wait = tf_rate_wait(&rate, &limit, now, amount);
            if (wait == 0) {
                tf_rate_take(&rate, &limit, now, amount);
                taken += amount;
            } else {
                now += wait;
            }
        }
        ck_assert_uint_le(taken, limit.burst + limit.per_second * now / TF_SECOND + 1);
        ck_assert_uint_ge(taken + 2 * limit.burst, limit.per_second * 20);
    }
}
END_TEST

START_TEST(rate_of_more_than_the_burst_counts_as_the_burst)
{
    tf_rate_limit limit = {10, 5};
    tf_rate rate;
    tf_rate_init(&rate, &limit, 0);
    ck_assert_uint_eq(tf_rate_wait(&rate, &limit, 0, 1000), 0);
    tf_rate_take(&rate, &limit, 0, 1000);
    ck_assert_uint_eq(tf_rate_wait(&rate, &limit, 0, 1000), 500 * TF_MS);
    tf_rate_limit none = {0, 5};
    ck_assert_uint_eq(tf_rate_wait(&rate, &none, 0, UINT64_MAX), 0);
    ck_assert(tf_rate_is_full(&rate, &none, 0));
}
END_TEST

/* -- the hub ------------------------------------------------------------------------------------------------------- */

static uint64_t retry_after(setup *s, tf_local promise)
{
    tf_result_refusal refusal;
    ck_assert_str_eq(raw_outcome(s->raw, promise), "rate_limited");
    ck_assert_int_eq(tf_result_refusal_read(raw_data(raw_find(s->raw, promise)), &refusal), TF_OK);
    ck_assert(refusal.retryable);
    return refusal.retry_after_ms;
}

static void wait_ms(setup *s, uint64_t ms)
{
    s->w.now += ms * TF_MS;
    world_tick(&s->w);
    raw_settle(s->raw);
}

/* Sends number from .. to; how many were acked. */
static unsigned send_all(setup *s, unsigned from, unsigned to)
{
    static tf_local promises[256];
    unsigned acked = 0;
    for (unsigned i = from; i <= to; i++) {
        promises[i] = raw_send_numbered(s->raw, i);
    }
    raw_settle(s->raw);
    for (unsigned i = from; i <= to; i++) {
        acked += strcmp(raw_outcome(s->raw, promises[i]), "acked") == 0 ? 1u : 0u;
    }
    return acked;
}

START_TEST(hub_rate_lets_a_window_through_and_says_when_to_come_again)
{
    setup s;
    begin_with(&s, &(tf_hub_config){.rate = 10});
    ck_assert_uint_eq(send_all(&s, 1, 32), 32); /* the window, though it is more than a second's worth */
    tf_local refused = raw_send_numbered(s.raw, 33);
    raw_settle(s.raw);
    uint64_t after = retry_after(&s, refused);
    ck_assert_uint_eq(after, 100);
    wait_ms(&s, after - 1);
    refused = raw_send_numbered(s.raw, 33);
    raw_settle(s.raw);
    ck_assert_uint_eq(retry_after(&s, refused), 1);
    wait_ms(&s, 1);
    ck_assert_uint_eq(send_all(&s, 33, 33), 1);
    wait_ms(&s, 100000);
    ck_assert_uint_eq(send_all(&s, 34, 65), 32); /* never more than a burst at once */
    refused = raw_send_numbered(s.raw, 66);
    raw_settle(s.raw);
    (void)retry_after(&s, refused);
    ck_assert(store_holds(s.node, "room", 1, 65));
    end(&s);
}
END_TEST

START_TEST(hub_rate_counts_no_duplicates_and_keeps_the_order)
{
    setup s;
    tf_local promises[8];
    begin_with(&s, &(tf_hub_config){.rate = 1, .max_in_flight = 4});
    ck_assert_uint_eq(send_all(&s, 1, 4), 4);
    for (unsigned i = 0; i < 4; i++) {
        promises[i] = raw_send_numbered(s.raw, 5 + i);
    }
    tf_local again = raw_send_numbered(s.raw, 2);
    raw_settle(s.raw);
    ck_assert(raw_ack(s.raw, again).duplicate); /* S3: before the rate */
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_uint_ge(retry_after(&s, promises[i]), 1000);
    }
    for (unsigned i = 0; i < 4; i++) { /* one a second, and only the oldest */
        wait_ms(&s, 1000);
        tf_local first = raw_send_numbered(s.raw, 5 + i);
        tf_local next = raw_send_numbered(s.raw, 6 + i);
        raw_settle(s.raw);
        ck_assert_str_eq(raw_outcome(s.raw, first), "acked");
        ck_assert_str_eq(raw_outcome(s.raw, next), "rate_limited");
    }
    ck_assert(store_holds(s.node, "room", 1, 8));
    end(&s);
}
END_TEST

/* A send of 1000 bytes, settled. */
static tf_local send_body(setup *s, unsigned number)
{
    char id[8];
    static char body[1000];
    (void)snprintf(id, sizeof(id), "%u", number);
    memset(body, 'x', sizeof(body));
    tf_local promise = raw_send_origin(s->raw, id, tf_slice_of(body, sizeof(body)), NULL);
    raw_settle(s->raw);
    return promise;
}

START_TEST(hub_rate_of_bytes_counts_bodies)
{
    setup s;
    begin_with(&s, &(tf_hub_config){.rate_bytes = 2000, .commit_bytes_per_peer = 4000, .max_in_flight = 32});
    tf_local promises[5];
    for (unsigned i = 0; i < 5; i++) {
        promises[i] = send_body(&s, i);
    }
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_str_eq(raw_outcome(s.raw, promises[i]), "acked");
    }
    ck_assert_uint_eq(retry_after(&s, promises[4]), 500);
    wait_ms(&s, 500);
    promises[4] = send_body(&s, 4);
    ck_assert_str_eq(raw_outcome(s.raw, promises[4]), "acked");
    tf_hub_set_rates(s.node->hub, s.w.now, 0, 1000); /* a reload; it begins with a burst */
    for (unsigned i = 5; i < 10; i++) {
        promises[0] = send_body(&s, i);
    }
    ck_assert_uint_eq(retry_after(&s, promises[0]), 1000);
    end(&s);
}
END_TEST

/* Behind a relay each origin has its own, which it does not get anew by being silent for a moment. */
START_TEST(hub_rate_is_per_origin_behind_a_relay)
{
    setup s;
    tf_who a = {world_id(1), 5};
    tf_who b = {world_id(2), 5};
    begin_as(&s, true, &(tf_hub_config){.rate = 1, .max_in_flight = 2});
    const struct {
        const char *id;
        const tf_who *who;
        const char *outcome;
    } rows[] = {{"a1", &a, "acked"}, {"a2", &a, "acked"}, {"a3", &a, "rate_limited"},
                {"b1", &b, "acked"}, {"b2", &b, "acked"}, {"b3", &b, "rate_limited"},
                {"a3", &a, "rate_limited"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_local promise = raw_send_origin(s.raw, rows[i].id, tf_slice_str("x"), rows[i].who);
        raw_settle(s.raw);
        ck_assert_str_eq(raw_outcome(s.raw, promise), rows[i].outcome);
    }
    wait_ms(&s, 1000);
    tf_local promise = raw_send_origin(s.raw, "a3", tf_slice_str("x"), &a);
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, promise), "acked");
    end(&s);
}
END_TEST

START_TEST(hub_rate_of_bytes_is_per_origin_behind_a_relay)
{
    static setup s;
    static const uint8_t body[600];
    tf_who a = {world_id(1), 5};
    tf_who b = {world_id(2), 5};
    begin_as(&s, true, &(tf_hub_config){.rate = 1000, .rate_bytes = 1000, .commit_bytes_per_peer = 1000});
    const struct {
        const char *id;
        const tf_who *who;
        const char *outcome;
    } rows[] = {{"a1", &a, "acked"}, {"b1", &b, "acked"}, {"a2", &a, "rate_limited"}, {"b2", &b, "rate_limited"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_local promise = raw_send_origin(s.raw, rows[i].id, tf_slice_of(body, sizeof(body)), rows[i].who);
        raw_settle(s.raw);
        ck_assert_str_eq(raw_outcome(s.raw, promise), rows[i].outcome);
        wait_ms(&s, 1); /* of sends it may as many again */
    }
    end(&s);
}
END_TEST

/* Origins that are kept for their rates only are bounded, and go when their buckets are full again. */
START_TEST(hub_rate_of_many_origins_behind_a_relay_is_bounded)
{
    static setup s;
    begin_as(&s, true, &(tf_hub_config){.rate = 1, .max_in_flight = 1});
    tf_conn *conn = raw_pair(s.raw)->end[1].conn;
    for (unsigned i = 0; i < 100; i++) {
        tf_who who = {world_id(1), i};
        char id[16];
        (void)snprintf(id, sizeof(id), "%u", i);
        tf_local promise = raw_send_origin(s.raw, id, tf_slice_str("x"), &who);
        raw_settle(s.raw);
        ck_assert_str_eq(raw_outcome(s.raw, promise), "acked");
    }
    ck_assert_uint_eq(conn->idle_count, 100);
    wait_ms(&s, 1000);
    for (unsigned i = 100; i < 200; i++) {
        tf_who who = {world_id(1), i};
        char id[16];
        (void)snprintf(id, sizeof(id), "%u", i);
        (void)raw_send_origin(s.raw, id, tf_slice_str("x"), &who);
        raw_settle(s.raw);
    }
    ck_assert_uint_eq(conn->idle_count, 100);
    ck_assert_uint_eq(conn->origins.count, 100);
    end(&s);
}
END_TEST

/* What was refused to an origin is waited for, however long the others go on and its own bucket is full again. */
START_TEST(hub_rate_of_an_origin_is_not_let_go_before_its_guard)
{
    static setup s;
    tf_who a = {world_id(1), 5};
    tf_who b = {world_id(2), 5};
    begin_as(&s, true, &(tf_hub_config){.rate = 1, .max_in_flight = 1});
    (void)raw_send_origin(s.raw, "a1", tf_slice_str("x"), &a);
    raw_settle(s.raw);
    tf_local second = raw_send_origin(s.raw, "a2", tf_slice_str("x"), &a);
    world_settle(&s.w); /* the raw peer processes nothing: no session ack covers the refusal */
    s.w.now += 2 * TF_SECOND;
    (void)raw_send_origin(s.raw, "b1", tf_slice_str("x"), &b);
    world_settle(&s.w);
    tf_local third = raw_send_origin(s.raw, "a3", tf_slice_str("x"), &a);
    tf_local again = raw_send_origin(s.raw, "a2", tf_slice_str("x"), &a);
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, second), "rate_limited");
    ck_assert_str_eq(raw_outcome(s.raw, third), "rate_limited");
    ck_assert_uint_eq(raw_ack(s.raw, again).seq, 3);
    end(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        rate_burst_is_had_at_once_and_the_rest_by_and_by,
        rate_is_full_after_any_time,
        rate_holds_in_the_long_run,
        rate_of_more_than_the_burst_counts_as_the_burst,
        hub_rate_lets_a_window_through_and_says_when_to_come_again,
        hub_rate_counts_no_duplicates_and_keeps_the_order,
        hub_rate_of_bytes_counts_bodies,
        hub_rate_is_per_origin_behind_a_relay,
        hub_rate_of_bytes_is_per_origin_behind_a_relay,
        hub_rate_of_many_origins_behind_a_relay_is_bounded,
        hub_rate_of_an_origin_is_not_let_go_before_its_guard,
        NULL,
    };
    return tf_test_run("node/hub rates", tests);
}
