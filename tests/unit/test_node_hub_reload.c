/* node/hub: policies and rates that change while it runs. */
#include "tests/support/check_main.h"
#include "tests/unit/hub_world.h"

static tf_result_info info(raw_peer *raw)
{
    static const uint8_t empty_map[] = {0x80};
    tf_result_info result;
    tf_local promise = raw_call(raw, raw->channel, "info", tf_slice_of(empty_map, 1), TF_LOCAL_NONE);
    raw_settle(raw);
    ck_assert_int_eq(tf_result_info_read(raw_data(raw_find(raw, promise)), &result), TF_OK);
    return result;
}

static raw_peer *filled(world *w, world_node **server, unsigned count)
{
    world_init(w, 4);
    *server = world_add(w, true, NULL);
    raw_peer *raw = raw_new(w, *server, 3);
    raw_open(raw, "log/a");
    for (unsigned i = 1; i <= count; i++) {
        (void)raw_send_numbered(raw, i);
        raw_settle(raw);
    }
    return raw;
}

START_TEST(reload_policy_applies_to_what_is_there)
{
    world w;
    world_node *server = NULL;
    raw_peer *raw = filled(&w, &server, 50);
    ck_assert_uint_eq(info(raw).state.first, 1);
    char pattern[] = "log/*"; /* is copied */
    tf_retention list[] = {{.pattern = tf_slice_str("x"), .max_count = 1},
                           {.pattern = tf_slice_str(pattern), .max_count = 20, .max_age_ms = 5000, .max_bytes = 1000000}};
    ck_assert_int_eq(tf_hub_set_retention(server->hub, w.now, list, 2), TF_OK);
    pattern[0] = 'x';
    raw_settle(raw);
    tf_result_info after = info(raw);
    ck_assert_uint_eq(after.state.first, 31);
    ck_assert_uint_eq(after.max_count, 20);
    ck_assert_uint_eq(after.max_age_ms, 5000);
    ck_assert_uint_eq(after.max_bytes, 1000000);
    /* Another one, which says less, and none. */
    ck_assert_int_eq(tf_hub_set_retention(server->hub, w.now, &(tf_retention){tf_slice_str("*"), 0, 0, 45, 0}, 1), TF_OK);
    raw_settle(raw);
    ck_assert_uint_eq(info(raw).max_count, 45);
    ck_assert_uint_eq(info(raw).max_age_ms, 0);
    ck_assert_int_eq(tf_hub_set_retention(server->hub, w.now, NULL, 0), TF_OK);
    raw_settle(raw);
    ck_assert_uint_eq(info(raw).max_count, 0);
    ck_assert_uint_eq(info(raw).state.first, 31);
    ck_assert_uint_eq(tf_hub_deadline(server->hub), TF_NEVER);
    world_free(&w);
    free(raw);
}
END_TEST

START_TEST(reload_bad_policies_change_nothing)
{
    world w;
    world_node *server = NULL;
    raw_peer *raw = filled(&w, &server, 30);
    tf_retention good = {tf_slice_str("*"), 0, 0, 20, 0};
    tf_retention bad[] = {{tf_slice_str("*"), 0, 0, 10, 0}, {tf_slice_str("a b"), 0, 0, 0, 0}};
    ck_assert_int_eq(tf_hub_set_retention(server->hub, w.now, &good, 1), TF_OK);
    ck_assert_int_eq(tf_hub_set_retention(server->hub, w.now, bad, 2), TF_ERR_USAGE);
    ck_assert_int_eq(tf_hub_set_retention(server->hub, w.now, &good, TF_RETENTIONS_MAX + 1), TF_ERR_USAGE);
    tf_test_heap_fail_at(&w.heap, 0, false);
    ck_assert_int_eq(tf_hub_set_retention(server->hub, w.now, bad, 1), TF_ERR_NOMEM);
    tf_test_heap_fail_at(&w.heap, 0, false);
    ck_assert_int_eq(tf_hub_set_rights(server->hub, w.now, &(tf_hub_rule){.pattern = tf_slice_str("*")}, 1), TF_ERR_NOMEM);
    tf_test_heap_fail_never(&w.heap);
    raw_settle(raw);
    ck_assert_uint_eq(info(raw).max_count, 20);
    ck_assert_uint_eq(info(raw).state.first, 11);
    world_free(&w);
    free(raw);
}
END_TEST

/* Sends so many at once; how many were taken. The rest is given up: its sender knows the refusal. */
static unsigned burst(raw_peer *raw, unsigned from, unsigned count)
{
    unsigned taken = 0;
    for (unsigned i = from; i < from + count; i++) {
        tf_local promise = raw_send_numbered(raw, i);
        raw_settle(raw);
        const char *outcome = raw_outcome(raw, promise);
        if (strcmp(outcome, "acked") == 0) {
            taken++;
        } else {
            ck_assert_str_eq(outcome, "rate_limited");
        }
    }
    return taken;
}

START_TEST(reload_rates_apply_at_once_and_begin_with_a_burst)
{
    world w;
    world_node *server = NULL;
    raw_peer *raw = filled(&w, &server, 10);
    ck_assert_uint_eq(burst(raw, 100, 200), 200);
    tf_hub_set_rates(server->hub, w.now, 50, 0);
    ck_assert_uint_eq(burst(raw, 1000, 200), 50);
    tf_hub_set_rates(server->hub, w.now, 50, 0); /* the same: nothing is given back */
    ck_assert_uint_eq(burst(raw, 2000, 10), 0);
    tf_hub_set_rates(server->hub, w.now, 10, 0); /* the window is 32: no burst is below it */
    ck_assert_uint_eq(burst(raw, 3000, 200), 32);
    tf_hub_set_rates(server->hub, w.now, 0, 0);
    ck_assert_uint_eq(burst(raw, 4000, 200), 200);
    world_free(&w);
    free(raw);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {reload_policy_applies_to_what_is_there, reload_bad_policies_change_nothing,
                                  reload_rates_apply_at_once_and_begin_with_a_burst, NULL};
    return tf_test_run("node/hub reload", tests);
}
