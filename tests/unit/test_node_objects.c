/* References through node/twofold.h: a relay, a program that exports objects, and one that uses them, over loopback.
 * What takes real time here is waited for, not slept. */
#include <stdio.h>

#include "node/edge_mem.h"
#include "node/twofold.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define HANG (60 * TF_SECOND)
#define CALLS_MAX 16u
#define TEXT_MAX 32u

enum { RELAY, SERVER, CLIENT, MEMBERS };

typedef struct member {
    tf_identity *identity;
    tf_node *node;
    tf_peer *peer; /* the relay */
} member;

static member members[MEMBERS];
static tf_node_event event; /* that was waited for */

/* What the handlers saw. */
static char log_text[CALLS_MAX * TEXT_MAX];
static char names[CALLS_MAX][TEXT_MAX]; /* of the objects */
static unsigned name_count;
static unsigned drops;
static tf_local dropped_object;
static tf_local kept_result; /* of a call that is not answered at once */
static tf_local made;        /* the object that `make` gave */

static void note(tf_slice text)
{
    size_t len = strlen(log_text);
    (void)snprintf(log_text + len, sizeof(log_text) - len, "%.*s ", (int)text.len, (const char *)text.data);
}

static void on_dropped(void *user, tf_local object)
{
    (void)user;
    drops++;
    dropped_object = object;
}

static void answer(const tf_call_info *call, tf_resolution_kind kind, tf_slice data, tf_local object)
{
    tf_answer said = {.promise = call->result, .kind = kind, .data = data, .object = {object, TF_REF_OBJECT}};
    ck_assert_int_eq(tf_node_resolve(call->node, &said, 1), TF_OK);
}

static void on_called(void *user, const tf_call_info *call);

static tf_local export(tf_node *node, const char *name)
{
    tf_local object = TF_LOCAL_NONE;
    char *user = names[name_count++ % CALLS_MAX];
    (void)snprintf(user, TEXT_MAX, "%s", name);
    tf_object_handler handler = {.called = on_called, .dropped = on_dropped, .user = user};
    ck_assert_int_eq(tf_node_export(node, &handler, &object), TF_OK);
    return object;
}

static void on_called(void *user, const tf_call_info *call)
{
    note(tf_slice_str(user));
    note(call->method);
    if (tf_slice_eq(call->method, tf_slice_str("echo"))) {
        answer(call, TF_RESOLUTION_DATA, call->args, TF_LOCAL_NONE);
    } else if (tf_slice_eq(call->method, tf_slice_str("make"))) {
        made = export(call->node, "made");
        answer(call, TF_RESOLUTION_OBJECT, (tf_slice){NULL, 0}, made);
    } else if (tf_slice_eq(call->method, tf_slice_str("refuse"))) {
        ck_assert_int_eq(tf_node_reject(call->node, call->result, tf_slice_str("no"), call->args), TF_OK);
    } else if (tf_slice_eq(call->method, tf_slice_str("count"))) {
        ck_assert(call->has_caller && tf_node_id_eq(&call->caller, tf_identity_node_id(members[RELAY].identity)));
        char text[TEXT_MAX];
        (void)snprintf(text, sizeof(text), "%zu", call->ref_count);
        answer(call, TF_RESOLUTION_DATA, tf_slice_str(text), TF_LOCAL_NONE);
    } else {
        kept_result = call->result;
    }
}

/* -- three nodes --------------------------------------------------------------------------------------------------- */

static void set_up(void)
{
    char why[TF_WHY_MAX];
    char text[TF_URI_TEXT_MAX];
    tf_uri uri;
    log_text[0] = '\0';
    drops = 0;
    kept_result = made = dropped_object = TF_LOCAL_NONE;
    for (uint8_t i = 0; i < MEMBERS; i++) {
        uint8_t seed[TF_SEED_LEN] = {(uint8_t)(i + 1)};
        members[i] = (member){0};
        ck_assert_int_eq(tf_identity_new(&members[i].identity, seed), TF_OK);
        tf_node_config config = {.identity = members[i].identity, .exclusive = i == RELAY, .accept_any = true};
        ck_assert_int_eq(tf_node_new(&members[i].node, &config, NULL), TF_OK);
    }
    ck_assert_int_eq(tf_node_listen(members[RELAY].node, "127.0.0.1:0", why, sizeof(why)), TF_OK);
    ck_assert(tf_node_uri(members[RELAY].node, text, sizeof(text)));
    ck_assert_int_eq(tf_uri_parse(&uri, text, why), TF_OK);
    for (int i = SERVER; i < MEMBERS; i++) {
        tf_connect_options options = {.connect_timeout = TF_NEVER};
        ck_assert_int_eq(tf_node_connect(members[i].node, &uri, &options, &members[i].peer), TF_OK);
    }
}

static void member_free(int which)
{
    tf_node_free(members[which].node);
    tf_identity_free(members[which].identity);
    members[which] = (member){0};
}

static void tear_down(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        member_free(i);
    }
}

static void turn(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        if (members[i].node != NULL) {
            tf_node_run(members[i].node, TF_MS);
        }
    }
}

/* Runs all until that member has an event of that type, which is in `event` then; handlers of others run meanwhile. */
static void await(int which, tf_node_event_type type)
{
    tf_node_event other;
    tf_time end = tf_edge_now() + HANG;
    while (tf_edge_now() < end) {
        turn();
        for (int i = 0; i < MEMBERS; i++) {
            while (i != which && members[i].node != NULL && tf_node_next_event(members[i].node, &other)) {
            }
        }
        while (tf_node_next_event(members[which].node, &event)) {
            if (event.type == type) {
                return;
            }
        }
    }
    ck_abort_msg("event %d did not come", (int)type);
}

static void await_drop(void)
{
    tf_node_event other;
    tf_time end = tf_edge_now() + HANG;
    while (drops == 0 && tf_edge_now() < end) {
        turn();
        for (int i = 0; i < MEMBERS; i++) {
            while (members[i].node != NULL && tf_node_next_event(members[i].node, &other)) {
            }
        }
    }
    ck_assert_uint_eq(drops, 1);
}

/* An object of the server's under that name, as the client has it. */
static tf_local publish_and_find(const char *name, tf_local *own)
{
    *own = export(members[SERVER].node, name);
    ck_assert_int_eq(tf_peer_publish(members[SERVER].peer, tf_slice_str(name), *own), TF_OK);
    await(SERVER, TF_EVENT_PUBLISHED);
    ck_assert(tf_slice_eq(event.name, tf_slice_str(name)));
    ck_assert_int_eq(tf_peer_lookup(members[CLIENT].peer, tf_slice_str(name), 5), TF_OK);
    await(CLIENT, TF_EVENT_FOUND);
    ck_assert_uint_eq(event.code.len, 0);
    ck_assert_uint_eq(event.cookie, 5);
    return event.local;
}

static tf_local ask(tf_local target, const char *method, const char *args)
{
    tf_local result = TF_LOCAL_NONE;
    tf_node_message message = {.target = target, .method = tf_slice_str(method), .args = tf_slice_str(args)};
    ck_assert_int_eq(tf_node_send(members[CLIENT].node, &message, &result), TF_OK);
    ck_assert_uint_ne(result, TF_LOCAL_NONE);
    return result;
}

static void await_settled(tf_local promise)
{
    do {
        await(CLIENT, TF_EVENT_SETTLED);
    } while (event.local != promise);
}

static void settles_as_data(tf_local promise, const char *data)
{
    await_settled(promise);
    ck_assert_int_eq(event.resolution, TF_RESOLUTION_DATA);
    ck_assert(tf_slice_eq(event.data, tf_slice_str(data)));
}

static void is_rejected(tf_slice data, const char *code, const char *message)
{
    tf_rejection rejection;
    ck_assert_int_eq(tf_rejection_read(data, &rejection), TF_OK);
    ck_assert_msg(tf_slice_eq(rejection.code, tf_slice_str(code)), "%.*s", (int)rejection.code.len,
                  (const char *)rejection.code.data);
    ck_assert(message == NULL || tf_slice_eq(rejection.message, tf_slice_str(message)));
}

static void settles_as_rejection(tf_local promise, const char *code, const char *message)
{
    await_settled(promise);
    ck_assert_int_eq(event.resolution, TF_RESOLUTION_REJECTION);
    is_rejected(event.data, code, message);
}

/* -- tests --------------------------------------------------------------------------------------------------------- */

START_TEST(objects_published_object_answers_calls)
{
    tf_local own;
    set_up();
    tf_local object = publish_and_find("thing", &own);
    settles_as_data(ask(object, "echo", "hello"), "hello");
    settles_as_data(ask(object, "echo", ""), "");
    settles_as_rejection(ask(object, "refuse", "not today"), "no", "not today");
    tf_local later = ask(object, "wait", "");
    settles_as_data(ask(object, "echo", "before"), "before");
    tf_answer said = {.promise = kept_result, .kind = TF_RESOLUTION_DATA, .data = tf_slice_str("after")};
    ck_assert_int_eq(tf_node_resolve(members[SERVER].node, &said, 1), TF_OK);
    settles_as_data(later, "after");
    ck_assert_str_eq(log_text, "thing echo thing echo thing refuse thing wait thing echo ");
    tear_down();
}
END_TEST

/* P6: what is sent to a promise goes to what it is resolved to, in order. */
START_TEST(objects_messages_to_a_promise_go_on)
{
    tf_local own;
    set_up();
    tf_local factory = publish_and_find("factory", &own);
    tf_local promise = ask(factory, "make", "");
    tf_local first = ask(promise, "echo", "1");
    tf_local second = ask(promise, "echo", "2");
    await(CLIENT, TF_EVENT_SETTLED);
    ck_assert_uint_eq(event.local, promise);
    ck_assert_int_eq(event.resolution, TF_RESOLUTION_OBJECT);
    ck_assert_int_eq(tf_node_hold(members[CLIENT].node, event.object.local), TF_OK);
    tf_local object = event.object.local;
    tf_local third = ask(object, "echo", "3");
    settles_as_data(first, "1");
    settles_as_data(second, "2");
    settles_as_data(third, "3");
    ck_assert_str_eq(log_text, "factory make made echo made echo made echo ");
    tf_node_drop(members[CLIENT].node, object);
    await_drop();
    ck_assert_uint_eq(dropped_object, made);
    tear_down();
}
END_TEST

/* Objects travel as arguments, and the node that gave one away is called back through the relay. */
START_TEST(objects_mentioned_object_can_be_used)
{
    tf_local own;
    tf_local result;
    set_up();
    tf_local object = publish_and_find("thing", &own);
    tf_local mine = export(members[CLIENT].node, "mine");
    tf_mention refs[2] = {{mine, TF_REF_OBJECT}, {object, TF_REF_OBJECT}};
    tf_node_message message = {.target = object, .method = tf_slice_str("count"), .refs = refs, .ref_count = 2};
    ck_assert_int_eq(tf_node_send(members[CLIENT].node, &message, &result), TF_OK);
    settles_as_data(result, "2");
    await_drop(); /* the server did not keep it */
    ck_assert_uint_eq(dropped_object, mine);
    tear_down();
}
END_TEST

/* D11 */
START_TEST(objects_revoked_object_rejects)
{
    tf_local own;
    set_up();
    tf_local object = publish_and_find("thing", &own);
    settles_as_data(ask(object, "echo", "a"), "a");
    ck_assert_int_eq(tf_node_revoke(members[SERVER].node, own, false, tf_slice_str("gone"), tf_slice_str("moved away")),
                     TF_OK);
    ck_assert_int_eq(tf_node_revoke(members[SERVER].node, own, false, tf_slice_str("gone"), tf_slice_str("again")),
                     TF_ERR_USAGE);
    await(CLIENT, TF_EVENT_REVOKED);
    ck_assert_uint_eq(event.local, object);
    ck_assert(!event.hard);
    is_rejected(event.data, "gone", "moved away");
    settles_as_rejection(ask(object, "echo", "b"), "gone", "moved away");
    ck_assert_str_eq(log_text, "thing echo ");
    tear_down();
}
END_TEST

/* D14 */
START_TEST(objects_host_that_ends_is_told)
{
    tf_local own;
    set_up();
    tf_local object = publish_and_find("thing", &own);
    tf_local later = ask(object, "wait", "");
    while (kept_result == TF_LOCAL_NONE) {
        tf_node_event other;
        turn();
        while (tf_node_next_event(members[SERVER].node, &other)) {
        }
    }
    member_free(SERVER);
    settles_as_rejection(later, "disconnected", NULL);
    settles_as_rejection(ask(object, "echo", ""), "disconnected", NULL);
    ck_assert_int_eq(tf_peer_lookup(members[CLIENT].peer, tf_slice_str("thing"), 6), TF_OK);
    await(CLIENT, TF_EVENT_FOUND);
    ck_assert(tf_slice_eq(event.code, tf_slice_str("not_found")));
    tear_down();
}
END_TEST

START_TEST(objects_name_is_withdrawn)
{
    tf_local own;
    set_up();
    tf_local object = publish_and_find("thing", &own);
    tf_peer_withdraw(members[SERVER].peer, tf_slice_str("thing"));
    await(SERVER, TF_EVENT_WITHDRAWN);
    ck_assert(tf_slice_eq(event.name, tf_slice_str("thing")));
    ck_assert_uint_eq(drops, 0);
    tf_node_drop(members[CLIENT].node, object);
    await_drop();
    ck_assert_uint_eq(dropped_object, own);
    ck_assert_int_eq(tf_peer_publish(members[SERVER].peer, tf_slice_str("no name"), own), TF_ERR_USAGE);
    tear_down();
}
END_TEST

START_TEST(objects_name_of_another_node_is_refused)
{
    tf_local own;
    set_up();
    (void)publish_and_find("thing", &own);
    tf_local mine = export(members[CLIENT].node, "mine");
    ck_assert_int_eq(tf_peer_publish(members[CLIENT].peer, tf_slice_str("thing"), mine), TF_OK);
    await(CLIENT, TF_EVENT_PUBLISH_REFUSED);
    ck_assert(tf_slice_eq(event.code, tf_slice_str("name_taken")));
    ck_assert(tf_slice_eq(event.name, tf_slice_str("thing")));
    tear_down();
}
END_TEST

/* Of the relay: entries of all connections, and what waits for acks. */
static size_t count_refs(size_t *retirements)
{
    tf_node_refs_cursor cursor = {.entry = 0};
    tf_node_ref ref;
    size_t entries = 0;
    size_t summaries = 0;
    *retirements = 0;
    while (tf_node_refs_next(members[RELAY].node, &cursor, &ref)) {
        entries += ref.is_summary ? 0u : 1u;
        summaries += ref.is_summary ? 1u : 0u;
        *retirements += ref.is_summary ? ref.stats.retirements : 0u;
    }
    ck_assert_uint_eq(summaries, 2);
    return entries;
}

/* Runs all until the relay has so many entries and nothing waits for acks (P5). */
static void await_refs(size_t expected)
{
    tf_node_event other;
    size_t retirements = 1;
    size_t entries = 0;
    tf_time end = tf_edge_now() + HANG;
    while ((entries != expected || retirements != 0) && tf_edge_now() < end) {
        turn();
        for (int i = 0; i < MEMBERS; i++) {
            while (tf_node_next_event(members[i].node, &other)) {
            }
        }
        entries = count_refs(&retirements);
    }
    ck_assert_uint_eq(entries, expected);
    ck_assert_uint_eq(retirements, 0);
}

/* P5 */
START_TEST(objects_tables_are_back_after_many_calls)
{
    tf_local own;
    tf_local promise = TF_LOCAL_NONE;
    set_up();
    tf_local object = publish_and_find("factory", &own);
    await_refs(6); /* two roots a connection, the object in both */
    for (unsigned i = 0; i < 200; i++) {
        promise = ask(object, i % 2 == 0 ? "echo" : "make", "x");
        if (i % 2 == 1) {
            tf_node_drop(members[CLIENT].node, promise); /* nobody waits for it */
        }
    }
    settles_as_data(ask(object, "echo", "last"), "last");
    await_refs(6);
    tf_node_drop(members[CLIENT].node, object);
    tf_peer_withdraw(members[SERVER].peer, tf_slice_str("factory"));
    await_refs(4);
    tear_down();
}
END_TEST

/* No peer is needed for that. */
START_TEST(objects_own_object_can_be_sent_to)
{
    set_up();
    tf_local own = export(members[CLIENT].node, "own");
    tf_mention self = {own, TF_REF_OBJECT};
    tf_local promise = TF_LOCAL_NONE;
    ck_assert_int_eq(tf_node_new_promise(members[CLIENT].node, &promise), TF_OK);
    tf_local answer_of_it = ask(promise, "echo", "early");
    tf_answer said = {.promise = promise, .kind = TF_RESOLUTION_OBJECT, .object = self};
    ck_assert_int_eq(tf_node_resolve(members[CLIENT].node, &said, 1), TF_OK);
    settles_as_data(answer_of_it, "early");
    ck_assert_int_eq(tf_node_resolve(members[CLIENT].node, &said, 1), TF_OK); /* nobody waits for it */
    tf_node_unexport(members[CLIENT].node, own);
    tf_node_unexport(members[CLIENT].node, own);
    turn();
    tf_node_message message = {.target = own, .method = tf_slice_str("echo")};
    ck_assert_int_eq(tf_node_send(members[CLIENT].node, &message, NULL), TF_ERR_USAGE);
    tear_down();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {objects_published_object_answers_calls,  objects_messages_to_a_promise_go_on,
                                  objects_mentioned_object_can_be_used,    objects_revoked_object_rejects,
                                  objects_host_that_ends_is_told,          objects_name_is_withdrawn,
                                  objects_name_of_another_node_is_refused, objects_tables_are_back_after_many_calls,
                                  objects_own_object_can_be_sent_to,       NULL};
    return tf_test_run_waiting("node/objects", tests);
}
