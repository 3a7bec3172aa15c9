/* node/hub_rights and node/hub_access: who may read and write which channels, and what changes when that does. */
#include "node/hub_rights.h"
#include "tests/support/check_main.h"
#include "tests/unit/hub_world.h"

#define READ TF_RIGHT_READ
#define WRITE TF_RIGHT_WRITE
#define BOTH (READ | WRITE)

/* -- the rules ----------------------------------------------------------------------------------------------------- */

START_TEST(rights_first_rule_that_matches_counts)
{
    tf_test_heap heap;
    tf_hub_rights *rights = NULL;
    tf_test_heap_init(&heap);
    tf_node_id a = world_id(1);
    tf_node_id b = world_id(2);
    tf_node_id c = world_id(3);
    tf_node_id ba[] = {b, a};
    const tf_hub_rule rules[] = {
        {tf_slice_str("log/secret"), {false, NULL, 0}, {false, NULL, 0}},
        {tf_slice_str("log/*"), {true, NULL, 0}, {false, &a, 1}},
        {tf_slice_str("?"), {false, ba, 2}, {false, &b, 1}},
        {tf_slice_str("*/x"), {false, &c, 1}, {true, NULL, 0}},
    };
    const struct {
        const char *channel;
        unsigned expected[3]; /* of a, b, c */
    } rows[] = {
        {"log/secret", {0, 0, 0}},       {"log/a", {BOTH, READ, READ}}, {"log/x", {BOTH, READ, READ}},
        {"z", {READ, BOTH, 0}},          {"y/x", {WRITE, WRITE, BOTH}}, {"zz", {0, 0, 0}},
        {"log/secrets", {BOTH, READ, READ}},
    };
    ck_assert_int_eq(tf_hub_rights_new(&rights, &heap.mem, rules, 4), TF_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const tf_node_id *who[] = {&a, &b, &c};
        for (size_t k = 0; k < 3; k++) {
            ck_assert_uint_eq(tf_hub_rights_of(rights, who[k], tf_slice_str(rows[i].channel)), rows[i].expected[k]);
        }
    }
    tf_hub_rights_free(rights);
    ck_assert_int_eq(tf_hub_rights_new(&rights, &heap.mem, rules, 0), TF_OK);
    ck_assert_uint_eq(tf_hub_rights_of(rights, &a, tf_slice_str("log/a")), 0);
    tf_hub_rights_free(rights);
    tf_hub_rights_free(NULL);
    ck_assert_uint_eq(heap.live_blocks, 0);
}
END_TEST

/* Sets of every size up to 70, in random order with repeats, against a look at each key. */
START_TEST(rights_keys_are_found_in_sets_of_any_order)
{
    tf_test_heap heap;
    tf_test_random random;
    tf_test_heap_init(&heap);
    tf_test_random_init(&random, 3);
    for (size_t count = 0; count <= 70; count++) {
        tf_node_id keys[70];
        bool there[100] = {false};
        tf_hub_rights *rights = NULL;
        for (size_t i = 0; i < count; i++) {
            uint8_t number = (uint8_t)tf_test_random_below(&random, 100);
            keys[i] = world_id(number);
            there[number] = true;
        }
        tf_hub_rule rule = {tf_slice_str("*"), {false, keys, count}, {false, NULL, 0}};
        ck_assert_int_eq(tf_hub_rights_new(&rights, &heap.mem, &rule, 1), TF_OK);
        for (uint8_t number = 0; number < 100; number++) {
            tf_node_id id = world_id(number);
            ck_assert_uint_eq(tf_hub_rights_of(rights, &id, tf_slice_str("c")), there[number] ? READ : 0u);
        }
        tf_hub_rights_free(rights);
    }
    ck_assert_uint_eq(heap.live_blocks, 0);
}
END_TEST

START_TEST(rights_without_memory_change_nothing)
{
    tf_test_heap heap;
    tf_test_heap_init(&heap);
    tf_node_id keys[2] = {world_id(1), world_id(2)};
    tf_hub_rule rules[2] = {{tf_slice_str("a"), {false, keys, 2}, {false, keys, 1}},
                            {tf_slice_str("b"), {false, keys, 1}, {false, keys, 2}}};
    for (uint64_t k = 0;; k++) {
        tf_hub_rights *rights = NULL;
        tf_test_heap_fail_at(&heap, k, false);
        tf_err err = tf_hub_rights_new(&rights, &heap.mem, rules, 2);
        if (err == TF_OK) {
            ck_assert_uint_eq(k, 5);
            tf_hub_rights_free(rights);
            break;
        }
        ck_assert_int_eq(err, TF_ERR_NOMEM);
        ck_assert_uint_eq(heap.live_blocks, 0);
    }
}
END_TEST

/* -- in the hub ---------------------------------------------------------------------------------------------------- */

static void set_rights(world *w, world_node *node, unsigned bits)
{
    tf_node_id raw = world_id(99);
    tf_node_id other = world_id(1);
    const tf_node_id *reads = (bits & READ) != 0 ? &raw : &other;
    const tf_node_id *writes = (bits & WRITE) != 0 ? &raw : &other;
    tf_hub_rule rules[] = {{tf_slice_str("open/*"), {true, NULL, 0}, {true, NULL, 0}},
                           {tf_slice_str("room*"), {false, reads, 1}, {false, writes, 1}}};
    ck_assert_int_eq(tf_hub_set_rights(node->hub, w->now, rules, 2), TF_OK);
}

static tf_slice args_of(uint8_t bytes[256], const char *method)
{
    tf_writer w;
    tf_wr_init(&w, bytes, 256);
    if (strcmp(method, "send") == 0) {
        tf_args_send_write(&w, &(tf_args_send){.client_id = tf_slice_str("id"), .body = tf_slice_str("body")});
    } else if (strcmp(method, "subscribe") == 0) {
        tf_args_subscribe_write(&w, &(tf_args_subscribe){.from = {TF_FROM_NEW, 0}, .limit = UINT64_MAX});
    } else if (strcmp(method, "read") == 0) {
        tf_args_read_write(&w, &(tf_args_read){1, 9});
    } else if (strcmp(method, "trim") == 0) {
        tf_args_trim_write(&w, &(tf_args_trim){1});
    } else if (strcmp(method, "gaps") == 0) {
        tf_args_gaps_write(&w, &(tf_args_gaps){1});
    } else if (strcmp(method, "forget_cursor") == 0) {
        tf_args_forget_cursor_write(&w, &(tf_args_forget_cursor){.name = tf_slice_str("mine")});
    } else if (strcmp(method, "forget of another's") == 0) {
        tf_args_forget_cursor_write(
            &w, &(tf_args_forget_cursor){.name = tf_slice_str("his"), .has_owner = true, .owner = world_id(1)});
    } else {
        tf_args_none_write(&w);
    }
    ck_assert(tf_wr_ok(&w));
    return tf_slice_of(bytes, tf_wr_len(&w));
}

static const char *outcome_of(raw_peer *raw, const char *method)
{
    uint8_t bytes[256];
    tf_local sink = strcmp(method, "subscribe") == 0 ? tf_router_new_object(raw->end->router) : TF_LOCAL_NONE;
    const char *name = strcmp(method, "forget of another's") == 0 ? "forget_cursor" : method;
    tf_local promise = raw_call(raw, raw->channel, name, args_of(bytes, method), sink);
    raw_settle(raw);
    return raw_outcome(raw, promise);
}

START_TEST(rights_each_method_needs_its_own)
{
    static const struct {
        const char *method;
        unsigned right;
    } rows[] = {{"send", WRITE}, {"trim", WRITE}, {"forget of another's", WRITE}, {"subscribe", READ}, {"read", READ},
                {"info", READ},  {"gaps", READ},  {"forget_cursor", READ},        {"close", WRITE}};
    static const unsigned sets[] = {0, READ, WRITE, BOTH};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t k = 0; k < 4; k++) {
            world w;
            world_init(&w, 1);
            world_node *server = world_add(&w, true, NULL);
            raw_peer *raw = raw_new(&w, server, 3);
            raw_open(raw, "room");
            set_rights(&w, server, sets[k]);
            const char *expected = (sets[k] & rows[i].right) != 0 ? "acked" : "forbidden";
            for (int again = 0; again < 2; again++) {
                ck_assert_msg(strcmp(outcome_of(raw, rows[i].method), expected) == 0, "%s with rights %u: not %s",
                              rows[i].method, sets[k], expected);
            }
            ck_assert_uint_eq(store_head(server, "room"), strcmp(rows[i].method, "send") == 0 && (sets[k] & WRITE) != 0);
            world_free(&w);
            free(raw);
        }
    }
}
END_TEST

static const char *open_outcome(raw_peer *raw, const char *name)
{
    uint8_t bytes[256];
    tf_writer w;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_args_open_write(&w, &(tf_args_open){.channel = tf_slice_str(name)});
    tf_local promise = raw_call(raw, tf_session_peer_root(raw->end->conn->session), "open",
                                tf_slice_of(bytes, tf_wr_len(&w)), TF_LOCAL_NONE);
    raw_settle(raw);
    return raw_outcome(raw, promise);
}

START_TEST(rights_open_needs_one_and_making_needs_write)
{
    static const struct {
        unsigned rights;
        const char *there;
        const char *missing;
    } rows[] = {{0, "forbidden", "forbidden"},
                {READ, "acked", "channel_not_found"},
                {WRITE, "acked", "acked"},
                {BOTH, "acked", "acked"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world w;
        world_init(&w, 1);
        world_node *server = world_add(&w, true, NULL);
        raw_peer *raw = raw_new(&w, server, 3);
        raw_peer *again = raw_new(&w, server, 4);
        ck_assert_str_eq(open_outcome(raw, "room"), "acked");
        set_rights(&w, server, rows[i].rights);
        ck_assert_str_eq(open_outcome(raw, "room"), rows[i].there);
        ck_assert_str_eq(open_outcome(again, "room"), rows[i].there);
        ck_assert_str_eq(open_outcome(raw, "room2"), rows[i].missing);
        ck_assert_str_eq(open_outcome(raw, "elsewhere"), "forbidden");
        ck_assert_str_eq(open_outcome(raw, "open/a"), "acked");
        world_free(&w);
        free(raw);
        free(again);
    }
}
END_TEST

START_TEST(rights_channels_lists_what_may_be_used)
{
    static const char *const names[] = {"open/a", "room", "hidden/a", "open/b", "hidden/b"};
    world w;
    world_init(&w, 1);
    world_node *server = world_add(&w, true, NULL);
    raw_peer *raw = raw_new(&w, server, 3);
    for (size_t i = 0; i < 5; i++) {
        raw_open(raw, names[i]);
    }
    for (unsigned bits = 0; bits <= BOTH; bits++) {
        uint8_t bytes[64];
        tf_writer args;
        tf_result_channels page;
        tf_slice item = {NULL, 0};
        char listed[64] = "";
        set_rights(&w, server, bits);
        for (uint64_t after = 0, pages = 0; pages == 0 || after != 0; pages++, after = page.next) {
            tf_wr_init(&args, bytes, sizeof(bytes));
            tf_args_channels_write(&args, &(tf_args_channels){.after = after, .limit = 1});
            tf_local promise = raw_call(raw, tf_session_peer_root(raw->end->conn->session), "channels",
                                        tf_slice_of(bytes, tf_wr_len(&args)), TF_LOCAL_NONE);
            raw_settle(raw);
            ck_assert_int_eq(tf_result_channels_read(raw_data(raw_find(raw, promise)), &page), TF_OK);
            while (tf_items_next(&page.items, &item)) {
                tf_channel_state state;
                ck_assert_int_eq(tf_channel_state_read(item, &state), TF_OK);
                (void)snprintf(listed + strlen(listed), sizeof(listed) - strlen(listed), "%.*s ", (int)state.name.len,
                               (const char *)state.name.data);
            }
            ck_assert_uint_lt(pages, 5);
        }
        ck_assert_str_eq(listed, bits == 0 ? "open/a open/b " : "open/a room open/b ");
    }
    world_free(&w);
    free(raw);
}
END_TEST

/* Channels that are not listed cost their look, too: so many of them end a page. */
START_TEST(rights_channels_page_is_bounded_when_nothing_may_be_seen)
{
    world w;
    world_init(&w, 1);
    world_node *server = world_add(&w, true, &(tf_hub_config){.channels_per_peer = 4000});
    raw_peer *raw = raw_new(&w, server, 3);
    size_t pages = 0;
    uint64_t after = 0;
    for (unsigned i = 0; i < 2100; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "%s/%u", i == 2050 ? "open" : "hidden", i);
        raw_open(raw, name);
    }
    set_rights(&w, server, BOTH);
    size_t listed = 0;
    do {
        uint8_t bytes[64];
        tf_writer args;
        tf_result_channels page;
        tf_slice item = {NULL, 0};
        tf_wr_init(&args, bytes, sizeof(bytes));
        tf_args_channels_write(&args, &(tf_args_channels){.after = after});
        tf_local promise = raw_call(raw, tf_session_peer_root(raw->end->conn->session), "channels",
                                    tf_slice_of(bytes, tf_wr_len(&args)), TF_LOCAL_NONE);
        raw_settle(raw);
        ck_assert_int_eq(tf_result_channels_read(raw_data(raw_find(raw, promise)), &page), TF_OK);
        for (; tf_items_next(&page.items, &item); listed++) {
        }
        ck_assert(page.next == 0 || page.next > after);
        after = page.next;
        pages++;
    } while (after != 0);
    ck_assert_uint_eq(listed, 1);
    ck_assert_uint_eq(pages, 3);
    world_free(&w);
    free(raw);
}
END_TEST

/* What came to sinks after the first `from` notes: methods, and the reason of an `ended`. */
static void delivered(const raw_peer *raw, size_t from, char out[256])
{
    out[0] = '\0';
    for (size_t i = from; i < raw->count; i++) {
        const raw_answer *note = &raw->answers[i];
        tf_ended ended = {.reason = {NULL, 0}};
        if (!note->is_deliver) {
            continue;
        }
        if (strcmp(note->method, "ended") == 0) {
            ck_assert_int_eq(tf_ended_read(tf_slice_of(note->text, note->len), &ended), TF_OK);
        }
        (void)snprintf(out + strlen(out), 256 - strlen(out), "%s(%.*s) ", note->method, (int)ended.reason.len,
                       (const char *)ended.reason.data);
    }
}

static tf_local subscribe(raw_peer *raw, const char *durable)
{
    uint8_t bytes[128];
    tf_writer w;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_args_subscribe_write(&w, &(tf_args_subscribe){.from = {TF_FROM_FIRST, 0},
                                                     .echo = true,
                                                     .limit = UINT64_MAX,
                                                     .durable = tf_slice_str(durable)});
    tf_local sink = tf_router_new_object(raw->end->router);
    return raw_call(raw, raw->channel, "subscribe", tf_slice_of(bytes, tf_wr_len(&w)), sink);
}

START_TEST(rights_taken_away_end_subscriptions_and_reads)
{
    static const char *const durables[] = {"", "mine"};
    for (size_t i = 0; i < 2; i++) {
        char got[256];
        uint8_t bytes[256];
        world w;
        world_init(&w, 1);
        world_node *server = world_add(&w, true, NULL);
        raw_peer *raw = raw_new(&w, server, 3);
        raw_open(raw, "room");
        set_rights(&w, server, BOTH);
        tf_local first = subscribe(raw, durables[i]);
        (void)raw_send(raw, "one", "1");
        raw_settle(raw);
        ck_assert_str_eq(raw_outcome(raw, first), "acked");
        delivered(raw, 0, got);
        ck_assert_str_eq(got, "activity() ");
        /* Reading still allowed: nothing ends. */
        set_rights(&w, server, READ);
        server->stub.later = true;
        tf_local read = raw_call(raw, raw->channel, "read", args_of(bytes, "read"), TF_LOCAL_NONE);
        raw_settle(raw);
        ck_assert_str_eq(raw_outcome(raw, read), "waiting");
        size_t before = raw->count;
        set_rights(&w, server, WRITE);
        raw_settle(raw);
        ck_assert_str_eq(raw_outcome(raw, read), "forbidden");
        server->stub.later = false;
        (void)raw_send(raw, "two", "2");
        raw_settle(raw);
        delivered(raw, before, got);
        ck_assert_str_eq(got, "ended(forbidden) ");
        tf_hub_stats stats;
        tf_hub_get_stats(server->hub, &stats);
        ck_assert_uint_eq(stats.subscriptions, 0);
        /* And it can be had again. */
        set_rights(&w, server, BOTH);
        before = raw->count;
        tf_local again = subscribe(raw, durables[i]);
        raw_settle(raw);
        ck_assert_str_eq(raw_outcome(raw, again), "acked");
        delivered(raw, before, got);
        ck_assert_str_eq(got, "activity() activity() ");
        ck_assert_uint_eq(server->failures, 0);
        world_free(&w);
        free(raw);
    }
}
END_TEST

START_TEST(rights_taken_away_for_one_channel_leave_reads_of_another)
{
    static const char *const names[] = {"open/a", "room", "open/b"};
    tf_local reads[3];
    world w;
    world_init(&w, 1);
    world_node *server = world_add(&w, true, NULL);
    raw_peer *raw = raw_new(&w, server, 3);
    server->stub.later = true;
    for (size_t i = 0; i < 3; i++) {
        uint8_t bytes[256];
        raw_open(raw, names[i]);
        (void)raw_send(raw, "id", "1");
        raw_settle(raw);
        reads[i] = raw_call(raw, raw->channel, "read", args_of(bytes, "read"), TF_LOCAL_NONE);
    }
    raw_settle(raw);
    set_rights(&w, server, WRITE);
    raw_settle(raw);
    ck_assert_str_eq(raw_outcome(raw, reads[0]), "waiting");
    ck_assert_str_eq(raw_outcome(raw, reads[1]), "forbidden");
    ck_assert_str_eq(raw_outcome(raw, reads[2]), "waiting");
    server->stub.later = false;
    server->stub.ready = true;
    raw_settle(raw);
    ck_assert_str_eq(raw_outcome(raw, reads[0]), "acked");
    ck_assert_str_eq(raw_outcome(raw, reads[2]), "acked");
    world_free(&w);
    free(raw);
}
END_TEST

/* Allocation k fails: they stay, or what waits is refused, or its connection ends. */
START_TEST(rights_taken_away_without_memory_answer_no_read)
{
    bool failed = true;
    for (uint64_t k = 0; failed; k++) {
        uint8_t bytes[256];
        world w;
        world_init(&w, 1);
        world_node *server = world_add(&w, true, NULL);
        raw_peer *raw = raw_new(&w, server, 3);
        raw_open(raw, "room");
        (void)raw_send(raw, "id", "1");
        raw_settle(raw);
        server->stub.later = true;
        tf_local read = raw_call(raw, raw->channel, "read", args_of(bytes, "read"), TF_LOCAL_NONE);
        raw_settle(raw);
        tf_test_heap_fail_at(&w.heap, k, false);
        tf_err err = tf_hub_set_rights(server->hub, w.now, &(tf_hub_rule){.pattern = tf_slice_str("room")}, 1);
        failed = w.heap.failures > 0;
        tf_test_heap_fail_never(&w.heap);
        server->stub.later = false;
        server->stub.ready = true;
        raw_settle(raw);
        const char *expected = err != TF_OK ? "acked" : server->failures > 0 ? "waiting" : "forbidden";
        ck_assert_str_eq(raw_outcome(raw, read), expected);
        world_free(&w);
        free(raw);
    }
}
END_TEST

START_TEST(rights_accepted_send_is_acked_again_without_them)
{
    world w;
    world_init(&w, 1);
    world_node *server = world_add(&w, true, NULL);
    raw_peer *raw = raw_new(&w, server, 3);
    raw_open(raw, "room");
    tf_local sent = raw_send(raw, "one", "1");
    raw_settle(raw);
    set_rights(&w, server, READ);
    tf_local again = raw_send(raw, "one", "1");
    tf_local other = raw_send(raw, "two", "2");
    raw_settle(raw);
    ck_assert_uint_eq(raw_ack(raw, again).seq, raw_ack(raw, sent).seq);
    ck_assert(raw_ack(raw, again).duplicate);
    ck_assert_str_eq(raw_outcome(raw, other), "forbidden");
    /* The refusal says of which send it is, and is for good. */
    tf_result_refusal refusal;
    ck_assert_int_eq(tf_result_refusal_read(raw_data(raw_find(raw, other)), &refusal), TF_OK);
    ck_assert(tf_slice_eq(refusal.client_id, tf_slice_str("two")) && !refusal.retryable);
    ck_assert_int_eq(tf_hub_set_rights(server->hub, w.now, NULL, 0), TF_OK);
    other = raw_send(raw, "two", "2");
    raw_settle(raw);
    ck_assert_uint_eq(raw_ack(raw, other).seq, 2);
    world_free(&w);
    free(raw);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {rights_first_rule_that_matches_counts,
                                  rights_keys_are_found_in_sets_of_any_order,
                                  rights_without_memory_change_nothing,
                                  rights_each_method_needs_its_own,
                                  rights_open_needs_one_and_making_needs_write,
                                  rights_channels_lists_what_may_be_used,
                                  rights_channels_page_is_bounded_when_nothing_may_be_seen,
                                  rights_taken_away_end_subscriptions_and_reads,
                                  rights_taken_away_for_one_channel_leave_reads_of_another,
                                  rights_taken_away_without_memory_answer_no_read,
                                  rights_accepted_send_is_acked_again_without_them,
                                  NULL};
    return tf_test_run("node/hub rights", tests);
}
