/* node/hub_names: `publish`, `lookup` and `refs` of the root. */
#include "tests/support/check_main.h"
#include "tests/unit/raw_names.h"

typedef struct setup {
    world w;
    world_node *node;
    raw_peer *host;   /* node id 99 */
    raw_peer *caller; /* node id 98 */
    tf_local object;  /* of the host */
} setup;

static void begin(setup *s, const tf_hub_config *config)
{
    world_init(&s->w, 5);
    s->node = world_add(&s->w, true, config);
    s->host = raw_new(&s->w, s->node, 11);
    s->w.raw_id = 98;
    s->caller = raw_new(&s->w, s->node, 12);
    s->object = tf_router_new_object(s->host->end->router);
}

static void end(setup *s)
{
    world_free(&s->w);
    free(s->host);
    free(s->caller);
}

static uint64_t names_of(const setup *s)
{
    tf_hub_stats stats;
    tf_hub_get_stats(s->node->hub, &stats);
    return stats.names;
}

START_TEST(names_published_object_is_found_and_called)
{
    static setup s;
    begin(&s, NULL);
    ck_assert_str_eq(raw_publish(s.host, "echo/1", s.object), "acked");
    ck_assert_uint_eq(names_of(&s), 1);
    tf_local found = raw_lookup(s.caller, "echo/1");
    ck_assert_uint_ne(found, TF_LOCAL_NONE);
    tf_local promise = raw_ask_text(s.caller, found, "say", "hello", TF_LOCAL_NONE);
    raw_settle_both(s.caller, s.host);
    const raw_answer *call = raw_called(s.host, "say");
    ck_assert(raw_is_text(call, "hello"));
    ck_assert_uint_eq(call->promise, s.object);
    raw_answer_text(s.host, call->result, "hello yourself", TF_LOCAL_NONE);
    raw_settle_both(s.host, s.caller);
    ck_assert(raw_is_text(raw_find(s.caller, promise), "hello yourself"));
    end(&s);
}
END_TEST

START_TEST(names_call_goes_on_in_the_turn_in_which_it_came)
{
    static setup s;
    begin(&s, NULL);
    ck_assert_str_eq(raw_publish(s.host, "echo/1", s.object), "acked");
    tf_local found = raw_lookup(s.caller, "echo/1");
    raw_settle_both(s.caller, s.host);
    (void)raw_ask_text(s.caller, found, "say", "hello", TF_LOCAL_NONE);
    world_raw_pump(&s.w, s.caller->end);
    (void)world_move(&s.w, raw_pair(s.caller), 0);
    world_end_turn(&s.w, s.node);
    (void)world_move(&s.w, raw_pair(s.host), 1); /* to the host; the node has no other turn */
    (void)raw_take(s.host, SIZE_MAX);
    ck_assert(raw_is_text(raw_called(s.host, "say"), "hello"));
    end(&s);
}
END_TEST

START_TEST(names_same_node_replaces_and_another_may_not)
{
    static setup s;
    begin(&s, NULL);
    tf_local other = tf_router_new_object(s.host->end->router);
    ck_assert_str_eq(raw_publish(s.host, "n", s.object), "acked");
    ck_assert_str_eq(raw_publish(s.caller, "n", tf_router_new_object(s.caller->end->router)), "name_taken");
    ck_assert_str_eq(raw_publish(s.caller, "n", TF_LOCAL_NONE), "name_taken"); /* nor withdraw it */
    ck_assert_str_eq(raw_publish(s.host, "n", s.object), "acked"); /* the same again */
    raw_settle(s.host);
    ck_assert(raw_knows(s.host, s.object));
    ck_assert_str_eq(raw_publish(s.host, "n", other), "acked");
    raw_settle(s.host);
    ck_assert(!raw_knows(s.host, s.object)); /* nobody needs it any more */
    (void)raw_ask_text(s.caller, raw_lookup(s.caller, "n"), "say", "x", TF_LOCAL_NONE);
    raw_settle_both(s.caller, s.host);
    ck_assert_uint_eq(raw_got(s.host, "say")->promise, other);
    ck_assert_uint_eq(names_of(&s), 1);
    end(&s);
}
END_TEST

START_TEST(names_are_bounded_in_all)
{
    static setup s;
    begin(&s, NULL);
    s.node->hub->names.count = TF_PUBLISHED_MAX - 1; /* as if there were so many */
    ck_assert_str_eq(raw_publish(s.host, "last", s.object), "acked");
    ck_assert_str_eq(raw_publish(s.host, "more", s.object), "overloaded");
    ck_assert_str_eq(raw_publish(s.host, "last", TF_LOCAL_NONE), "acked");
    ck_assert_str_eq(raw_publish(s.host, "more", s.object), "acked");
    s.node->hub->names.count = 1;
    end(&s);
}
END_TEST

/* Its new connection takes a name over before the old one is known to be dead. */
START_TEST(names_node_that_comes_back_takes_its_names_over)
{
    static setup s;
    begin(&s, NULL);
    ck_assert_str_eq(raw_publish(s.host, "n", s.object), "acked");
    s.w.raw_id = 99;
    raw_peer *again = raw_new(&s.w, s.node, 13);
    tf_local object = tf_router_new_object(again->end->router);
    ck_assert_str_eq(raw_publish(again, "n", object), "acked");
    raw_lose(&s.host);
    ck_assert_uint_eq(names_of(&s), 1);
    (void)raw_ask_text(s.caller, raw_lookup(s.caller, "n"), "say", "x", TF_LOCAL_NONE);
    raw_settle_both(s.caller, again);
    ck_assert_uint_eq(raw_got(again, "say")->promise, object);
    raw_lose(&again);
    ck_assert_uint_eq(names_of(&s), 0);
    end(&s);
}
END_TEST

START_TEST(names_withdrawn_one_is_not_found_and_its_object_let_go)
{
    static setup s;
    begin(&s, NULL);
    ck_assert_str_eq(raw_publish(s.host, "n", TF_LOCAL_NONE), "not_found");
    ck_assert_str_eq(raw_publish(s.host, "n", s.object), "acked");
    ck_assert(raw_knows(s.host, s.object));
    ck_assert_str_eq(raw_publish(s.host, "n", TF_LOCAL_NONE), "acked");
    raw_settle(s.host);
    ck_assert(!raw_knows(s.host, s.object));
    ck_assert_str_eq(raw_lookup_outcome(s.caller, "n"), "not_found");
    ck_assert_str_eq(raw_publish(s.caller, "n", tf_router_new_object(s.caller->end->router)), "acked");
    ck_assert_uint_eq(names_of(&s), 1);
    end(&s);
}
END_TEST

START_TEST(names_host_that_goes_takes_its_names_and_calls_in_flight_along)
{
    static setup s;
    begin(&s, NULL);
    ck_assert_str_eq(raw_publish(s.host, "a", s.object), "acked");
    ck_assert_str_eq(raw_publish(s.host, "b", s.object), "acked");
    tf_local found = raw_lookup(s.caller, "a");
    tf_local promise = raw_ask_text(s.caller, found, "say", "hello", TF_LOCAL_NONE);
    raw_settle_both(s.caller, s.host);
    ck_assert_ptr_nonnull(raw_called(s.host, "say"));
    raw_lose(&s.host);
    raw_settle(s.caller);
    ck_assert_str_eq(raw_outcome(s.caller, promise), "disconnected");
    ck_assert_str_eq(raw_lookup_outcome(s.caller, "a"), "not_found");
    ck_assert_str_eq(raw_lookup_outcome(s.caller, "b"), "not_found");
    ck_assert_uint_eq(names_of(&s), 0);
    promise = raw_ask_text(s.caller, found, "say", "again", TF_LOCAL_NONE);
    raw_settle(s.caller);
    ck_assert_str_eq(raw_outcome(s.caller, promise), "disconnected");
    ck_assert_uint_eq(s.node->failures, 0);
    end(&s);
}
END_TEST

START_TEST(names_object_that_its_host_revokes_is_not_found_any_more)
{
    static setup s;
    begin(&s, NULL);
    ck_assert_str_eq(raw_publish(s.host, "n", s.object), "acked");
    tf_local found = raw_lookup(s.caller, "n");
    tf_revocation revocation = {.object = s.object, .data = tf_code_rejection(TF_CODE_REVOKED)};
    ck_assert_int_eq(tf_router_revoke(s.host->end->router, s.w.now, &revocation), TF_OK);
    raw_settle(s.host);
    ck_assert_str_eq(raw_lookup_outcome(s.caller, "n"), "not_found");
    ck_assert_uint_eq(names_of(&s), 0);
    ck_assert_str_eq(raw_publish(s.caller, "n", found), "bad_request");
    end(&s);
}
END_TEST

/* A published object of somebody else stays published when its publisher goes: it is the host that counts. */
START_TEST(names_object_of_another_stays_when_its_publisher_goes)
{
    static setup s;
    begin(&s, NULL);
    ck_assert_str_eq(raw_publish(s.host, "mine", s.object), "acked");
    ck_assert_str_eq(raw_publish(s.caller, "yours", raw_lookup(s.caller, "mine")), "acked");
    raw_lose(&s.caller);
    s.w.raw_id = 97;
    s.caller = raw_new(&s.w, s.node, 14);
    ck_assert_uint_ne(raw_lookup(s.caller, "yours"), TF_LOCAL_NONE);
    raw_lose(&s.host);
    ck_assert_str_eq(raw_lookup_outcome(s.caller, "yours"), "not_found");
    end(&s);
}
END_TEST

/* An object of the node itself is never lost with a connection. */
START_TEST(names_of_what_the_node_has_itself_stay_as_long_as_it)
{
    static setup s;
    begin(&s, NULL);
    for (char name[] = "a"; name[0] <= 'z'; name[0]++) {
        ck_assert_str_eq(raw_publish(s.host, name, raw_root(s.host)), "acked");
    }
    raw_lose(&s.host);
    ck_assert_str_eq(raw_lookup_outcome(s.caller, "a"), "acked");
    ck_assert_uint_eq(names_of(&s), 26);
    end(&s);
}
END_TEST

START_TEST(names_rights_are_those_of_channels)
{
    static setup s;
    const tf_node_id host = world_id(99);
    const tf_node_id caller = world_id(98);
    const tf_hub_rule rules[] = {{tf_slice_str("in/*"), {false, &caller, 1}, {false, &host, 1}}};
    begin(&s, NULL);
    ck_assert_int_eq(tf_hub_set_rights(s.node->hub, s.w.now, rules, 1), TF_OK);
    ck_assert_str_eq(raw_publish(s.caller, "in/a", tf_router_new_object(s.caller->end->router)), "forbidden");
    ck_assert_str_eq(raw_publish(s.host, "out", s.object), "forbidden");
    ck_assert_str_eq(raw_publish(s.host, "in/a", s.object), "acked");
    ck_assert_str_eq(raw_lookup_outcome(s.host, "in/a"), "forbidden");
    ck_assert_str_eq(raw_lookup_outcome(s.caller, "in/a"), "acked");
    ck_assert_str_eq(raw_lookup_outcome(s.caller, "in/b"), "not_found");
    ck_assert_str_eq(raw_lookup_outcome(s.caller, "out"), "forbidden");
    end(&s);
}
END_TEST

START_TEST(names_of_one_node_are_bounded)
{
    static setup s;
    char name[32];
    begin(&s, NULL);
    for (unsigned i = 0; i < TF_PUBLISHED_PER_PEER; i++) {
        raw_args args;
        (void)snprintf(name, sizeof(name), "n/%u", i);
        tf_args_name_write(raw_begin(&args), &(tf_args_name){tf_slice_str(name)});
        (void)raw_call(s.host, raw_root(s.host), "publish", raw_bytes(&args), s.object);
    }
    raw_settle(s.host);
    ck_assert_uint_eq(names_of(&s), TF_PUBLISHED_PER_PEER);
    ck_assert_str_eq(raw_publish(s.host, "n/0", s.object), "acked"); /* in place of itself */
    ck_assert_str_eq(raw_publish(s.host, "one more", s.object), "bad_request");
    ck_assert_str_eq(raw_publish(s.host, "one/more", s.object), "overloaded");
    ck_assert_str_eq(raw_publish(s.caller, "one/more", tf_router_new_object(s.caller->end->router)), "acked");
    ck_assert_str_eq(raw_publish(s.host, "n/0", TF_LOCAL_NONE), "acked");
    ck_assert_str_eq(raw_publish(s.host, "n/0", s.object), "acked");
    raw_lose(&s.host);
    ck_assert_uint_eq(names_of(&s), 1);
    end(&s);
}
END_TEST

START_TEST(names_malformed_requests_are_refused)
{
    static const struct {
        const char *method;
        const char *args;
        bool with_ref;
    } rows[] = {
        {"publish", "80", true},
        {"publish", "81 a4 6e616d65 a0", true},                /* "" */
        {"publish", "81 a4 6e616d65 a3 612062", true},         /* "a b" */
        {"publish", "82 a4 6e616d65 a1 61 a1 78 01", true},    /* x: 1 */
        {"lookup", "81 a4 6e616d65 a1 61", true},              /* a ref */
        {"lookup", "81 a4 6e616d65 c4 01 61", false},          /* no str */
        {"lookup", "81 a4 6e616d65 a0", false},
        {"refs", "81 a5 6c696d6974 00", false},                /* limit: 0 */
        {"refs", "80", true},
    };
    static setup s;
    uint8_t bytes[64];
    begin(&s, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t len = tf_test_unhex(rows[i].args, bytes, sizeof(bytes));
        tf_local promise = raw_call(s.host, raw_root(s.host), rows[i].method, tf_slice_of(bytes, len),
                                    rows[i].with_ref ? s.object : TF_LOCAL_NONE);
        raw_settle(s.host);
        ck_assert_msg(strcmp(raw_outcome(s.host, promise), "bad_request") == 0, "row %zu: %s", i,
                      raw_outcome(s.host, promise));
    }
    ck_assert_uint_eq(names_of(&s), 0);
    end(&s);
}
END_TEST

/* A promise is no object. */
START_TEST(names_promise_is_not_published)
{
    static setup s;
    raw_args args;
    begin(&s, NULL);
    tf_mention promise = {tf_router_new_promise(s.host->end->router), TF_REF_PROMISE};
    tf_args_name_write(raw_begin(&args), &(tf_args_name){tf_slice_str("p")});
    tf_router_send send = {.target = raw_root(s.host),
                           .method = tf_slice_str("publish"),
                           .args = raw_bytes(&args),
                           .refs = &promise,
                           .ref_count = 1,
                           .want_result = true};
    tf_local result = TF_LOCAL_NONE;
    ck_assert_int_eq(tf_router_deliver(s.host->end->router, s.w.now, &send, &result), TF_OK);
    raw_settle(s.host);
    ck_assert_str_eq(raw_outcome(s.host, result), "bad_request");
    end(&s);
}
END_TEST

/* -- refs ---------------------------------------------------------------------------------------------------------- */

/* One page; returns `next`. The last entry that is the export or import of that kind is kept in *out. */
static uint64_t page(setup *s, const tf_args_refs *args, size_t *count, tf_ref_state *out)
{
    raw_args bytes;
    tf_result_refs result;
    tf_slice item;
    world_pass(&s->w, 25); /* what was answered before is acked: not in the list any more */
    raw_settle(s->host);
    tf_args_refs_write(raw_begin(&bytes), args);
    tf_local promise = raw_ask(s->host, raw_root(s->host), "refs", &bytes);
    ck_assert_str_eq(raw_outcome(s->host, promise), "acked");
    ck_assert_int_eq(tf_result_refs_read(raw_data(raw_find(s->host, promise)), &result), TF_OK);
    while (tf_items_next(&result.items, &item)) {
        ck_assert_int_eq(tf_ref_state_read(item, out), TF_OK);
        (*count)++;
    }
    return result.next;
}

START_TEST(names_refs_are_listed_in_pages)
{
    static setup s;
    tf_ref_state state = {.ref = 0};
    size_t roots = 0;
    size_t count = 0;
    size_t pages = 0;
    uint64_t after = 0;
    begin(&s, NULL);
    ck_assert_str_eq(raw_publish(s.host, "n", s.object), "acked");
    do {
        size_t before = count;
        after = page(&s, &(tf_args_refs){.after = after, .limit = 1}, &count, &state);
        ck_assert_uint_le(count, before + 1);
        roots += count > before && tf_ref_number(state.ref) == 0 && tf_ref_kind_of(state.ref) == TF_REF_OBJECT ? 1 : 0;
        pages++;
        ck_assert_uint_lt(pages, 100);
    } while (after != 0);
    ck_assert_uint_eq(roots, 2);
    ck_assert_uint_eq(count, 3); /* both roots and the object; not the promises of these answers */
    end(&s);
}
END_TEST

START_TEST(names_refs_tell_what_is_imported)
{
    static setup s;
    size_t count = 0;
    tf_ref_state state = {.ref = 0};
    bool found = false;
    begin(&s, NULL);
    ck_assert_str_eq(raw_publish(s.host, "n", s.object), "acked");
    for (uint64_t after = 0, more = 1; more != 0; after = more) {
        more = page(&s, &(tf_args_refs){.after = after, .limit = 1}, &count, &state);
        found = found || (tf_ref_number(state.ref) > 0 && !state.is_export && state.count == 1 &&
                          tf_ref_kind_of(state.ref) == TF_REF_OBJECT && !state.is_mentioned && !state.is_revoked);
    }
    ck_assert(found);
    end(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        names_published_object_is_found_and_called,
        names_call_goes_on_in_the_turn_in_which_it_came,
        names_same_node_replaces_and_another_may_not,
        names_are_bounded_in_all,
        names_node_that_comes_back_takes_its_names_over,
        names_withdrawn_one_is_not_found_and_its_object_let_go,
        names_host_that_goes_takes_its_names_and_calls_in_flight_along,
        names_object_that_its_host_revokes_is_not_found_any_more,
        names_object_of_another_stays_when_its_publisher_goes,
        names_of_what_the_node_has_itself_stay_as_long_as_it,
        names_rights_are_those_of_channels,
        names_of_one_node_are_bounded,
        names_malformed_requests_are_refused,
        names_promise_is_not_published,
        names_refs_are_listed_in_pages,
        names_refs_tell_what_is_imported,
        NULL,
    };
    return tf_test_run("node/hub names", tests);
}
