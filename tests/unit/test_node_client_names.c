/* node/client_names, and what is asked of names: publish in each session, withdraw, lookup, refs. */
#include "tests/support/check_main.h"
#include "tests/unit/client_relay.h"
#include "tests/unit/raw_names.h"

/* The next event of one of the three kinds about names, or an answer. Slices are valid until the next pull. */
static bool next_told(setup *s, tf_client_event *out)
{
    while (tf_client_next_event(s->cw.clients[0], out)) {
        if (out->type == TF_CLIENT_PUBLISHED || out->type == TF_CLIENT_PUBLISH_REFUSED ||
            out->type == TF_CLIENT_WITHDRAWN || out->type == TF_CLIENT_ANSWER) {
            return true;
        }
    }
    return false;
}

static void check_told(setup *s, tf_client_event_type type, const char *name)
{
    tf_client_event event;
    ck_assert_msg(next_told(s, &event), "nothing was told");
    ck_assert_int_eq(event.type, type);
    ck_assert(tf_slice_eq(event.name, tf_slice_str(name)));
}

static void check_quiet(setup *s)
{
    tf_client_event event;
    ck_assert(!next_told(s, &event));
}

static tf_local make_object(setup *s)
{
    tf_local object = TF_LOCAL_NONE;
    ck_assert_int_eq(tf_hub_object_new(s->cw.nodes[0]->hub, NULL, &object), TF_OK);
    return object;
}

static void publish(setup *s, const char *name, tf_local object)
{
    ck_assert_int_eq(tf_client_publish(s->cw.clients[0], s->cw.w.now, tf_slice_str(name), object), TF_OK);
    if (s->relay != NULL) {
        raw_settle(s->relay);
    }
}

static void withdraw(setup *s, const char *name)
{
    tf_client_withdraw(s->cw.clients[0], s->cw.w.now, tf_slice_str(name));
    if (s->relay != NULL) {
        raw_settle(s->relay);
    }
}

/* The last publish that was asked for has that name. */
static void check_asked(setup *s, const char *name, bool with_object)
{
    tf_args_name args;
    const raw_answer *call = asked(s, "publish");
    ck_assert_int_eq(tf_args_name_read(raw_data(call), &args), TF_OK);
    ck_assert(tf_slice_eq(args.name, tf_slice_str(name)));
    ck_assert((call->ref != TF_LOCAL_NONE) == with_object);
}

static void answer_done(setup *s)
{
    tf_args_none_write(to_say(s));
    answer_said(s, "publish");
}

static void begin_names(setup *s)
{
    begin_client(s, NULL);
    connect_relay(s);
}

START_TEST(client_names_are_published_in_each_session)
{
    static setup s;
    begin_client(&s, NULL);
    publish(&s, "a", make_object(&s)); /* before there is a session */
    connect_relay(&s);
    check_asked(&s, "a", true);
    ck_assert_uint_eq(times_asked(&s, "publish"), 1);
    check_quiet(&s);
    answer_done(&s);
    check_told(&s, TF_CLIENT_PUBLISHED, "a");
    ck_assert_uint_eq(times_asked(&s, "publish"), 1);
    lose_relay(&s);
    connect_relay(&s);
    check_asked(&s, "a", true);
    answer_done(&s);
    check_told(&s, TF_CLIENT_PUBLISHED, "a");
    check_quiet(&s);
    end(&s);
}
END_TEST

START_TEST(client_names_that_are_withdrawn_are_not_published_again)
{
    static setup s;
    begin_names(&s);
    publish(&s, "a", make_object(&s));
    answer_done(&s);
    check_told(&s, TF_CLIENT_PUBLISHED, "a");
    withdraw(&s, "b"); /* not published here */
    ck_assert_uint_eq(times_asked(&s, "publish"), 1);
    withdraw(&s, "a");
    check_asked(&s, "a", false);
    lose_relay(&s); /* the peer may or may not have heard: it is said again */
    connect_relay(&s);
    check_asked(&s, "a", false);
    answer_refused(&s, "publish", TF_REFUSAL_NOT_FOUND);
    check_told(&s, TF_CLIENT_WITHDRAWN, "a");
    lose_relay(&s);
    connect_relay(&s);
    ck_assert_ptr_null(find_asked(&s, "publish"));
    check_quiet(&s);
    end(&s);
}
END_TEST

START_TEST(client_names_that_change_while_they_are_said_are_said_again)
{
    static setup s;
    begin_names(&s);
    tf_local objects[2] = {make_object(&s), make_object(&s)};
    publish(&s, "a", objects[0]);
    tf_local first = asked(&s, "publish")->ref;
    publish(&s, "a", objects[1]);
    ck_assert_uint_eq(times_asked(&s, "publish"), 1);
    answer_done(&s);
    check_quiet(&s); /* that was the old one */
    ck_assert_uint_eq(times_asked(&s, "publish"), 2);
    ck_assert_uint_ne(asked(&s, "publish")->ref, first);
    answer_done(&s);
    check_told(&s, TF_CLIENT_PUBLISHED, "a");
    end(&s);
}
END_TEST

START_TEST(client_names_that_are_refused_are_told_or_said_again)
{
    static setup s;
    begin_names(&s);
    publish(&s, "a", make_object(&s));
    answer_refused(&s, "publish", TF_REFUSAL_OVERLOADED);
    for (size_t i = 0; i < 200 && times_asked(&s, "publish") < 2; i++) {
        world_pass(&s.cw.w, 1);
        raw_settle(s.relay);
    }
    ck_assert_uint_eq(times_asked(&s, "publish"), 2);
    check_quiet(&s);
    answer_refused(&s, "publish", TF_REFUSAL_NAME_TAKEN);
    tf_client_event event;
    ck_assert(next_told(&s, &event));
    ck_assert_int_eq(event.type, TF_CLIENT_PUBLISH_REFUSED);
    ck_assert(tf_slice_eq(event.name, tf_slice_str("a")) && tf_slice_eq(event.code, tf_slice_str("name_taken")));
    lose_relay(&s);
    connect_relay(&s);
    ck_assert_ptr_null(find_asked(&s, "publish"));
    end(&s);
}
END_TEST

START_TEST(client_names_are_bounded_and_valid)
{
    static setup s;
    char name[32];
    begin_client(&s, NULL);
    tf_local object = make_object(&s);
    ck_assert_int_eq(tf_client_publish(s.cw.clients[0], s.cw.w.now, tf_slice_str("a b"), object), TF_ERR_USAGE);
    ck_assert_int_eq(tf_client_publish(s.cw.clients[0], s.cw.w.now, tf_slice_str(""), object), TF_ERR_USAGE);
    for (unsigned i = 0; i < TF_CLIENT_NAMES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "n/%u", i);
        publish(&s, name, object);
    }
    ck_assert_int_eq(tf_client_publish(s.cw.clients[0], s.cw.w.now, tf_slice_str("m"), object), TF_ERR_LIMIT_ITEMS);
    publish(&s, "n/5", object); /* in place of itself */
    end(&s);
}
END_TEST

/* -- lookup and refs ----------------------------------------------------------------------------------------------- */

static tf_err ask(setup *s, const tf_ask *question)
{
    tf_err err = tf_client_ask(s->cw.clients[0], s->cw.w.now, SIZE_MAX, question);
    raw_settle(s->relay);
    return err;
}

START_TEST(client_lookup_gives_an_object_that_is_held)
{
    static setup s;
    begin_names(&s);
    tf_local object = tf_router_new_object(s.relay->end->router);
    ck_assert_int_eq(ask(&s, &(tf_ask){.kind = TF_ASK_LOOKUP, .name = tf_slice_str("a b")}), TF_ERR_USAGE);
    ck_assert_int_eq(ask(&s, &(tf_ask){.kind = TF_ASK_LOOKUP, .name = tf_slice_str("a"), .cookie = 5}), TF_OK);
    tf_args_none_write(to_say(&s));
    answer(&s, "lookup", said(&s), object, false);
    world_pass(&s.cw.w, 50);
    tf_client_event event;
    ck_assert(next_told(&s, &event));
    ck_assert(event.asked == TF_ASK_LOOKUP && event.cookie == 5 && event.object != TF_LOCAL_NONE);
    tf_local found = event.object;
    check_quiet(&s);
    raw_settle(s.relay);
    ck_assert(tf_router_is_known(s.relay->end->router, object));
    tf_hub_release(s.cw.nodes[0]->hub, s.cw.w.now, found);
    raw_settle(s.relay);
    ck_assert(!tf_router_is_known(s.relay->end->router, object));
    end(&s);
}
END_TEST

START_TEST(client_lookup_that_nobody_pulls_is_let_go_with_the_client)
{
    static setup s;
    begin_names(&s);
    ck_assert_int_eq(ask(&s, &(tf_ask){.kind = TF_ASK_LOOKUP, .name = tf_slice_str("a")}), TF_OK);
    tf_args_none_write(to_say(&s));
    answer(&s, "lookup", said(&s), tf_router_new_object(s.relay->end->router), false);
    end(&s); /* nothing leaks */
}
END_TEST

START_TEST(client_lookup_without_an_object_ends_the_session)
{
    static setup s;
    begin_names(&s);
    ck_assert_int_eq(ask(&s, &(tf_ask){.kind = TF_ASK_LOOKUP, .name = tf_slice_str("a")}), TF_OK);
    tf_args_none_write(to_say(&s));
    answer_said(&s, "lookup");
    ck_assert_uint_eq(s.cw.nodes[0]->failures, 1);
    ck_assert_int_eq(s.cw.nodes[0]->last_failure, TF_ERR_PEER_SYNTAX);
    end(&s);
}
END_TEST

START_TEST(client_refs_of_a_node_are_a_page)
{
    static client_world cw;
    tf_client_event event = {.type = TF_CLIENT_ROOM};
    tf_result_refs page;
    tf_slice item;
    tf_ref_state state;
    size_t roots = 0;
    cw_begin(&cw, 3, NULL);
    (void)cw_client(&cw, NULL);
    cw_connect(&cw, 0);
    ck_assert_int_eq(tf_client_ask(cw.clients[0], cw.w.now, 0, &(tf_ask){.kind = TF_ASK_REFS, .to = 9}), TF_OK);
    world_settle(&cw.w);
    ck_assert(tf_client_next_event(cw.clients[0], &event));
    ck_assert(event.type == TF_CLIENT_ANSWER && event.asked == TF_ASK_REFS);
    ck_assert_int_eq(tf_result_refs_read(event.data, &page), TF_OK);
    ck_assert_uint_eq(page.next, 0);
    while (tf_items_next(&page.items, &item)) {
        ck_assert_int_eq(tf_ref_state_read(item, &state), TF_OK);
        roots += tf_ref_number(state.ref) == 0 ? 1 : 0;
    }
    ck_assert_uint_eq(roots, 2);
    cw_end(&cw);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        client_names_are_published_in_each_session,
        client_names_that_are_withdrawn_are_not_published_again,
        client_names_that_change_while_they_are_said_are_said_again,
        client_names_that_are_refused_are_told_or_said_again,
        client_names_are_bounded_and_valid,
        client_lookup_gives_an_object_that_is_held,
        client_lookup_that_nobody_pulls_is_let_go_with_the_client,
        client_lookup_without_an_object_ends_the_session,
        client_refs_of_a_node_are_a_page,
        NULL,
    };
    return tf_test_run("node/client names", tests);
}
