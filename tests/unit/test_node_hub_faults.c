/* node/hub and node/client when memory runs out: allocation k fails, for k = 0, 1, 2 … until none does; once, and for
 * the rest of a step. At most sessions are lost: everything is acked, stored, delivered and answered once, and nothing
 * leaks. */
#include "tests/support/check_main.h"
#include "tests/unit/client_world.h"

#define SENDS 4u
#define STEPS_MAX 1000u

static client_world cw;
static tf_local object; /* of client 0 */
static unsigned asked;
static unsigned called; /* by client 1 */
static unsigned settled;

/* -- what is done: each does nothing when it says NOMEM ------------------------------------------------------------ */

static tf_err subscribe(size_t client, const char *durable)
{
    tf_subscribe args = {.from = {TF_FROM_FIRST, 0}, .echo = true, .durable = tf_slice_str(durable)};
    return tf_client_subscribe(cw.clients[client], cw.w.now, 0, &args);
}

static tf_err first_subscribes(void)
{
    return subscribe(0, "mine");
}

static tf_err second_subscribes(void)
{
    return subscribe(1, NULL);
}

static tf_err first_sends(void)
{
    return cw_send(&cw, 0, 0, (unsigned)tf_client_in_flight(cw.clients[0]) + (unsigned)cw.logs[0].acks + 1);
}

static tf_err first_publishes(void)
{
    return tf_client_publish(cw.clients[0], cw.w.now, tf_slice_str("bell"), object);
}

static tf_err second_asks(tf_ask_kind kind, uint64_t from, uint64_t to)
{
    tf_ask ask = {.kind = kind, .from = from, .to = to, .name = tf_slice_str(kind == TF_ASK_LOOKUP ? "bell" : "other")};
    tf_err err = tf_client_ask(cw.clients[1], cw.w.now, 0, &ask);
    asked += err == TF_OK ? 1 : 0;
    return err;
}

static tf_err second_opens(void)
{
    size_t channel = 0;
    return tf_client_open(cw.clients[1], cw.w.now, tf_slice_str("later"), &channel);
}

static tf_err second_opens_what_is_stored(void)
{
    size_t channel = 0;
    return tf_client_open(cw.clients[1], cw.w.now, tf_slice_str("stored"), &channel);
}

/* What was looked up, if its host is still the same. */
static tf_err second_calls(void)
{
    tf_local promise = TF_LOCAL_NONE;
    tf_router_send send = {
        .target = cw.logs[1].last[TF_CLIENT_ANSWER].object, .method = tf_slice_str("ring"), .want_result = true};
    tf_err err = tf_hub_call(cw.nodes[1]->hub, cw.w.now, &send, NULL, &promise);
    called += err == TF_OK ? 1 : 0;
    return err == TF_ERR_USAGE ? TF_OK : err;
}

static tf_err first_has_another_object(void)
{
    tf_local other = TF_LOCAL_NONE;
    tf_err err = tf_hub_object_new(cw.nodes[0]->hub, NULL, &other);
    if (err == TF_OK) {
        tf_hub_object_free(cw.nodes[0]->hub, cw.w.now, other);
    }
    return err;
}

static tf_err first_holds_its_object(void)
{
    tf_err err = tf_hub_hold(cw.nodes[0]->hub, object, NULL);
    if (err == TF_OK) {
        tf_hub_release(cw.nodes[0]->hub, cw.w.now, object);
    }
    return err;
}

/* Answers, without memory as soon as there is some. */
static void answer(tf_hub *hub, tf_local promise)
{
    tf_answer data = {.promise = promise, .kind = TF_RESOLUTION_DATA, .data = tf_slice_str("rung")};
    tf_err err = promise == TF_LOCAL_NONE ? TF_OK : tf_hub_resolve(hub, cw.w.now, &data, 1);
    if (err == TF_ERR_NOMEM) {
        tf_test_heap_fail_never(&cw.w.heap);
        err = tf_hub_resolve(hub, cw.w.now, &data, 1);
    }
    ck_assert_int_eq(err, TF_OK);
}

static tf_err first_decides_a_promise(void)
{
    tf_local promise = TF_LOCAL_NONE;
    tf_err err = tf_hub_promise_new(cw.nodes[0]->hub, NULL, &promise);
    if (err == TF_OK) {
        answer(cw.nodes[0]->hub, promise);
    }
    return err;
}

static tf_err second_looks_up(void)
{
    return second_asks(TF_ASK_LOOKUP, 0, 0);
}

static tf_err second_lists_channels(void)
{
    return second_asks(TF_ASK_CHANNELS, 0, 0);
}

static tf_err second_lists_refs(void)
{
    return second_asks(TF_ASK_REFS, 0, 0);
}

static tf_err second_asks_info(void)
{
    return second_asks(TF_ASK_INFO, 0, 0);
}

static tf_err second_reads(void)
{
    return second_asks(TF_ASK_READ, 1, SENDS);
}

static tf_err second_forgets_a_cursor(void)
{
    return second_asks(TF_ASK_FORGET, 0, 0);
}

static tf_err second_trims(void)
{
    return second_asks(TF_ASK_TRIM, 2, 0);
}

static tf_err second_asks_for_gaps(void)
{
    return second_asks(TF_ASK_GAPS, 1, 0);
}

static tf_err first_confirms(void)
{
    return cw.logs[0].activities < 2 ? TF_OK : tf_client_confirm(cw.clients[0], cw.w.now, 0, 2);
}

static tf_err second_closes(void)
{
    return tf_client_close_channel(cw.clients[1], cw.w.now, 0);
}

static tf_err first_withdraws(void)
{
    tf_client_withdraw(cw.clients[0], cw.w.now, tf_slice_str("bell"));
    return TF_OK;
}

static tf_err first_lets_go(void)
{
    tf_client_unsubscribe(cw.clients[0], cw.w.now, 0);
    return TF_OK;
}

static tf_err (*const steps[])(void) = {
    first_subscribes,
    second_subscribes,
    first_sends,
    first_sends,
    first_publishes,
    first_holds_its_object,
    second_looks_up,
    second_calls,
    first_sends,
    first_sends,
    second_opens,
    second_opens_what_is_stored,
    first_has_another_object,
    first_decides_a_promise,
    first_confirms,
    second_asks_info,
    second_reads,
    second_lists_channels,
    second_lists_refs,
    second_trims,
    second_asks_for_gaps,
    second_forgets_a_cursor,
    first_withdraws,
    second_closes,
    first_lets_go,
};

#define STEPS (sizeof(steps) / sizeof(steps[0]))

/* -- one run ------------------------------------------------------------------------------------------------------- */

/* Where a session could not go on, both begin anew. */
static void heal(void)
{
    size_t failures = cw.server->failures + cw.nodes[0]->failures + cw.nodes[1]->failures;
    tf_test_heap_fail_never(&cw.w.heap);
    for (size_t i = 0; i < cw.w.node_count; i++) {
        ck_assert(cw.w.nodes[i].failures == 0 || cw.w.nodes[i].last_failure == TF_ERR_NOMEM);
    }
    if (failures == 0 && !cw.pairs[0]->broken && !cw.pairs[1]->broken) {
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        cw_lose(&cw, i);
        cw_connect(&cw, i);
        cw.nodes[i]->failures = 0;
    }
    cw.server->failures = 0;
}

/* Calls are answered, answers come. */
static void serve(void)
{
    cw_settle(&cw);
    for (size_t i = 0; i < 2; i++) {
        tf_app_event event;
        while (tf_hub_next_app_event(cw.nodes[i]->hub, &event)) {
            settled += event.type == TF_APP_SETTLED ? 1 : 0;
            if (event.type == TF_APP_CALL) {
                answer(cw.nodes[i]->hub, event.result);
            }
        }
    }
    cw_settle(&cw);
}

/* Waits for what comes later: retries, for one. */
static void wait(void)
{
    for (size_t i = 0; i < 70; i++) {
        cw.w.now += 20 * TF_MS;
        cw.w.wall_ms += 20;
        world_tick(&cw.w);
        serve();
    }
}

/* A channel that nobody has open. */
static void create(const char *name)
{
    const tf_store *store = &cw.server->stub.inner;
    tf_store_op op = {.kind = TF_STORE_CREATE, .name = tf_slice_str(name), .epoch = 7};
    tf_store_group group = {&op, 1};
    tf_store_event_type type;
    store->table->submit(store->ctx, &group);
    ck_assert(store->table->poll(store->ctx, &type));
}

/* fill: names and channels that are there already, so that tables grow where they did not. */
static void begin(unsigned fill)
{
    cw_begin(&cw, 41, NULL);
    create("stored");
    for (size_t i = 0; i < 2; i++) {
        (void)cw_client(&cw, NULL);
        ck_assert_uint_eq(cw_open(&cw, i, "room"), 0);
        cw_connect(&cw, i);
    }
    cw_settle(&cw);
    ck_assert_int_eq(tf_hub_object_new(cw.nodes[0]->hub, NULL, &object), TF_OK);
    for (unsigned i = 0; i < fill; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "other-%u", i);
        ck_assert_int_eq(tf_client_publish(cw.clients[0], cw.w.now, tf_slice_str(name), object), TF_OK);
        (void)cw_open(&cw, 1, name);
    }
    cw_settle(&cw);
    asked = 0;
    called = 0;
    settled = 0;
}

static void check(unsigned step, uint64_t k, unsigned fill)
{
    const client_log *logs = cw.logs;
    ck_assert_msg(log_acked(&logs[0], 1, SENDS), "step %u, allocation %u: %zu acks", step, (unsigned)k, logs[0].acks);
    ck_assert(store_head(cw.server, "room") == SENDS);
    ck_assert_msg(logs[0].activities == SENDS && logs[1].activities == SENDS, "step %u, allocation %u: %zu and %zu",
                  step, (unsigned)k, logs[0].activities, logs[1].activities);
    ck_assert_uint_eq(logs[1].counts[TF_CLIENT_ANSWER], asked);
    ck_assert_uint_ge(logs[0].counts[TF_CLIENT_PUBLISHED], 1);
    ck_assert_uint_eq(logs[0].counts[TF_CLIENT_WITHDRAWN], 1);
    ck_assert_uint_eq(logs[1].counts[TF_CLIENT_CLOSED], 1);
    ck_assert_uint_ge(logs[1].counts[TF_CLIENT_OPENED], 3 + fill);
    ck_assert_uint_ge(logs[0].counts[TF_CLIENT_CONFIRMED], 1);
    ck_assert(!tf_client_has_unacked(cw.clients[0]) && tf_client_has_room(cw.clients[0]));
    ck_assert_uint_eq(settled, called);
}

/* In step `failing` allocation k fails. False: there were not so many. */
static bool run(unsigned failing, uint64_t k, bool for_ever, unsigned fill)
{
    bool failed = false;
    begin(fill);
    for (unsigned i = 0; i < STEPS; i++) {
        if (i == failing) {
            tf_test_heap_fail_at(&cw.w.heap, k, for_ever);
        }
        uint64_t failures = cw.w.heap.failures;
        tf_err err = steps[i]();
        if (err == TF_ERR_NOMEM) {
            tf_test_heap_fail_never(&cw.w.heap);
            err = steps[i]();
        }
        ck_assert_int_eq(err, TF_OK);
        serve();
        failed = failed || cw.w.heap.failures > failures;
        heal();
        wait();
    }
    check(failing, k, fill);
    cw_end(&cw);
    return failed;
}

static void fail_in_each_step(bool for_ever, unsigned fill)
{
    uint64_t failed = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        uint64_t k = 0;
        while (run(step, k, for_ever, fill)) {
            ck_assert_uint_lt(++k, STEPS_MAX);
        }
        failed += k;
    }
    ck_assert_uint_gt(failed, 100);
}

START_TEST(hub_one_failed_allocation_costs_at_most_the_sessions)
{
    fail_in_each_step(false, 0);
    fail_in_each_step(false, 6);
}
END_TEST

START_TEST(hub_no_memory_for_a_while_costs_at_most_the_sessions)
{
    fail_in_each_step(true, 0);
    fail_in_each_step(true, 5);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        hub_one_failed_allocation_costs_at_most_the_sessions,
        hub_no_memory_for_a_while_costs_at_most_the_sessions,
        NULL,
    };
    return tf_test_run("node/hub memory", tests);
}
