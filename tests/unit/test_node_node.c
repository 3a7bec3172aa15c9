/* node/twofold.h: whole nodes in one process, over loopback. What takes real time here is waited for, not slept. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/edge_mem.h"
#include "node/node_internal.h"
#include "node/twofold.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define HANG (60 * TF_SECOND)

typedef struct member {
    tf_identity *identity;
    tf_node *node;
    tf_uri uri;
} member;

static void member_make(member *m, uint8_t seed_byte, tf_node_config config)
{
    uint8_t seed[TF_SEED_LEN] = {seed_byte};
    *m = (member){0};
    ck_assert_int_eq(tf_identity_new(&m->identity, seed), TF_OK);
    config.identity = m->identity;
    ck_assert_int_eq(tf_node_new(&m->node, &config, NULL), TF_OK);
}

static void member_new(member *m, uint8_t seed_byte, bool exclusive)
{
    member_make(m, seed_byte, (tf_node_config){.exclusive = exclusive});
}

static void member_new_stored(member *m, uint8_t seed_byte, const char *folder)
{
    member_make(m, seed_byte, (tf_node_config){.exclusive = true, .store = {.directory = folder}});
}

static void member_listen(member *m)
{
    char why[256];
    char text[TF_URI_TEXT_MAX];
    ck_assert_msg(tf_node_listen(m->node, "127.0.0.1:0", why, sizeof(why)) == TF_OK, "%s", why);
    ck_assert(tf_node_uri(m->node, text, sizeof(text)));
    ck_assert_msg(tf_uri_parse(&m->uri, text, why) == TF_OK, "%s", why);
}

static void member_allow(member *m, const member *other)
{
    tf_node_grant grant = {.id = *tf_identity_node_id(other->identity)};
    ck_assert_int_eq(tf_node_set_grants(m->node, &grant, 1, false), TF_OK);
}

static void member_free(member *m)
{
    tf_node_free(m->node);
    tf_identity_free(m->identity);
}

static tf_peer *dial(member *m, const member *to)
{
    tf_peer *peer = NULL;
    tf_connect_options options = {.connect_timeout = TF_NEVER};
    ck_assert_int_eq(tf_node_connect(m->node, &to->uri, &options, &peer), TF_OK);
    return peer;
}

static tf_peer *dial_once(member *m, const member *to)
{
    tf_peer *peer = NULL;
    tf_connect_options options = {.connect_timeout = HANG};
    ck_assert_int_eq(tf_node_connect(m->node, &to->uri, &options, &peer), TF_OK);
    return peer;
}

/* Runs both until `m` has an event of that type; gives it out. */
static void await(member *m, member *other, tf_node_event_type type, tf_node_event *out)
{
    tf_time end = tf_edge_now() + HANG;
    while (tf_edge_now() < end) {
        tf_node_run(m->node, TF_MS);
        tf_node_run(other->node, TF_MS);
        while (tf_node_next_event(m->node, out)) {
            if (out->type == type) {
                return;
            }
        }
    }
    ck_abort_msg("event %d did not come", (int)type);
}

static void pair(member *relay, member *client)
{
    member_new(relay, 1, true);
    member_new(client, 2, false);
    member_listen(relay);
    member_allow(relay, client);
}

START_TEST(node_send_is_acked_and_delivered)
{
    member relay, client;
    tf_remote *channel = NULL;
    tf_node_event event;
    pair(&relay, &client);
    tf_peer *peer = dial_once(&client, &relay);
    ck_assert_int_eq(tf_remote_open(peer, tf_slice_str("c"), &channel), TF_OK);
    tf_remote_send_args send = {.client_id = tf_slice_str("one"), .body = tf_slice_str("hello"), .cookie = 42};
    ck_assert_int_eq(tf_remote_send(channel, &send), TF_OK);
    await(&client, &relay, TF_EVENT_ACK, &event);
    ck_assert_uint_eq(event.cookie, 42);
    ck_assert_uint_eq(event.seq, 1);
    ck_assert(!event.duplicate);
    ck_assert_int_eq(tf_remote_send(channel, &send), TF_OK);
    await(&client, &relay, TF_EVENT_ACK, &event);
    ck_assert(event.duplicate);
    ck_assert_uint_eq(event.seq, 1);
    ck_assert_int_eq(tf_remote_subscribe(channel, TF_START_FIRST, 0), TF_OK);
    await(&client, &relay, TF_EVENT_ACTIVITY, &event);
    ck_assert(tf_slice_eq(event.body, tf_slice_str("hello")));
    ck_assert(tf_node_id_eq(&event.sender, tf_identity_node_id(client.identity)));
    member_free(&client);
    member_free(&relay);
}
END_TEST

/* Runs both until the peer's datagram route is up. */
static void await_both_routes(member *m, member *other, const tf_peer *peer)
{
    tf_peer_stats stats;
    tf_time end = tf_edge_now() + HANG;
    do {
        tf_node_run(m->node, TF_MS);
        tf_node_run(other->node, TF_MS);
        tf_peer_get_stats(peer, &stats);
    } while (tf_edge_now() < end && stats.routes[TF_ROUTE_DATAGRAM].stats.verdict != TF_VERDICT_UP);
    ck_assert_int_eq(stats.routes[TF_ROUTE_DATAGRAM].stats.verdict, TF_VERDICT_UP);
}

START_TEST(node_ping_is_answered_by_both_routes)
{
    member relay, client;
    tf_ping ping;
    tf_time rtts[TF_ROUTE_COUNT] = {0};
    pair(&relay, &client);
    tf_peer *peer = dial_once(&client, &relay);
    ck_assert(!tf_peer_ping(peer, &ping)); /* no session yet */
    await_both_routes(&client, &relay, peer);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert(tf_peer_ping(peer, &ping));
        ck_assert_int_eq(tf_peer_pinged(peer, &ping, TF_ROUTE_STREAM, &rtts[0]), TF_PING_WAITING);
        tf_time end = tf_edge_now() + HANG;
        while (tf_edge_now() < end &&
               (tf_peer_pinged(peer, &ping, TF_ROUTE_STREAM, &rtts[0]) != TF_PING_ANSWERED ||
                tf_peer_pinged(peer, &ping, TF_ROUTE_DATAGRAM, &rtts[1]) != TF_PING_ANSWERED)) {
            tf_node_run(client.node, TF_MS);
            tf_node_run(relay.node, TF_MS);
        }
        ck_assert_int_eq(tf_peer_pinged(peer, &ping, TF_ROUTE_STREAM, &rtts[0]), TF_PING_ANSWERED);
        ck_assert_int_eq(tf_peer_pinged(peer, &ping, TF_ROUTE_DATAGRAM, &rtts[1]), TF_PING_ANSWERED);
        ck_assert_uint_gt(rtts[0], 0);
        ck_assert_uint_gt(rtts[1], 0);
    }
    ck_assert_int_eq(tf_node_set_grants(relay.node, NULL, 0, false), TF_OK);
    tf_node_event event;
    await(&client, &relay, TF_EVENT_DISCONNECTED, &event);
    ck_assert_int_eq(tf_peer_pinged(peer, &ping, TF_ROUTE_STREAM, &rtts[0]), TF_PING_LOST);
    member_free(&client);
    member_free(&relay);
}
END_TEST

/* P10 */
START_TEST(node_stats_of_a_peer_outlive_its_sessions)
{
    member relay, client;
    tf_node_event event;
    tf_remote *channel = NULL;
    tf_peer_stats first, second;
    pair(&relay, &client);
    tf_peer *peer = dial(&client, &relay);
    ck_assert_int_eq(tf_remote_open(peer, tf_slice_str("c"), &channel), TF_OK);
    await_both_routes(&client, &relay, peer);
    tf_remote_send_args send = {.body = tf_slice_str("hello")};
    ck_assert_int_eq(tf_remote_send(channel, &send), TF_OK);
    await(&client, &relay, TF_EVENT_ACK, &event);
    tf_peer_get_stats(peer, &first);
    ck_assert(first.connected);
    ck_assert(first.has_keys);
    ck_assert_uint_eq(first.sessions, 1);
    ck_assert_uint_eq(first.acks, 1);
    ck_assert_uint_gt(first.packets_sealed, 0);
    ck_assert_uint_gt(first.routes[TF_ROUTE_STREAM].stats.sent_segments, 0);
    ck_assert(strstr(first.routes[TF_ROUTE_STREAM].remote, "127.0.0.1:") != NULL);
    ck_assert(strstr(first.routes[TF_ROUTE_DATAGRAM].remote, "127.0.0.1:") != NULL);
    ck_assert_int_eq(tf_node_set_grants(relay.node, NULL, 0, false), TF_OK);
    await(&client, &relay, TF_EVENT_DISCONNECTED, &event);
    tf_peer_get_stats(peer, &second);
    ck_assert(!second.connected);
    ck_assert(!second.has_keys);
    ck_assert_uint_ge(second.routes[TF_ROUTE_STREAM].stats.sent_segments,
                      first.routes[TF_ROUTE_STREAM].stats.sent_segments);
    member_allow(&relay, &client);
    await(&client, &relay, TF_EVENT_CONNECTED, &event);
    ck_assert_int_eq(tf_remote_send(channel, &send), TF_OK);
    await(&client, &relay, TF_EVENT_ACK, &event);
    tf_peer_get_stats(peer, &second);
    ck_assert(second.connected);
    ck_assert_uint_eq(second.sessions, 2);
    ck_assert_uint_ge(second.dials, 2);
    ck_assert_uint_eq(second.handshakes, 2);
    ck_assert_uint_eq(second.acks, 2);
    ck_assert_uint_gt(second.messages_sent, first.messages_sent);
    ck_assert_uint_gt(second.routes[TF_ROUTE_STREAM].stats.sent_segments,
                      first.routes[TF_ROUTE_STREAM].stats.sent_segments);
    ck_assert_uint_ge(second.packets_opened, first.packets_opened);
    member_free(&client);
    member_free(&relay);
}
END_TEST

/* P8 */
START_TEST(node_key_that_is_not_pinned_is_refused)
{
    member relay, stranger;
    tf_node_event event;
    tf_node_stats stats;
    member_new(&relay, 1, true);
    member_new(&stranger, 3, false);
    member_listen(&relay);
    (void)dial_once(&stranger, &relay);
    await(&stranger, &relay, TF_EVENT_CONNECT_FAILED, &event);
    ck_assert_int_eq(event.err, TF_ERR_PEER_REFUSED);
    tf_node_get_stats(relay.node, &stats);
    ck_assert_uint_eq(stats.sessions, 0);
    member_free(&stranger);
    member_free(&relay);
}
END_TEST

START_TEST(node_grant_that_is_taken_back_ends_the_session)
{
    member relay, client;
    tf_node_event event;
    tf_node_stats stats;
    pair(&relay, &client);
    (void)dial(&client, &relay);
    await(&client, &relay, TF_EVENT_CONNECTED, &event);
    ck_assert_int_eq(tf_node_set_grants(relay.node, NULL, 0, false), TF_OK);
    await(&client, &relay, TF_EVENT_DISCONNECTED, &event);
    tf_node_get_stats(relay.node, &stats);
    ck_assert_uint_eq(stats.sessions_now, 0);
    member_free(&client);
    member_free(&relay);
}
END_TEST

START_TEST(node_exclusive_place_stays_with_the_first_that_answers)
{
    member relay, first, second;
    tf_node_event event;
    member_new(&relay, 1, true);
    member_new(&first, 2, true);
    member_new(&second, 2, true);
    member_listen(&relay);
    member_allow(&relay, &first);
    (void)dial_once(&first, &relay);
    await(&first, &relay, TF_EVENT_CONNECTED, &event);
    (void)dial_once(&second, &relay);
    tf_time end = tf_edge_now() + HANG;
    bool failed = false;
    while (!failed && tf_edge_now() < end) {
        tf_node_run(first.node, TF_MS);
        tf_node_run(relay.node, TF_MS);
        tf_node_run(second.node, TF_MS);
        while (!failed && tf_node_next_event(second.node, &event)) {
            failed = event.type == TF_EVENT_CONNECT_FAILED;
        }
    }
    ck_assert(failed);
    ck_assert_int_eq(event.err, TF_ERR_PEER_REFUSED);
    tf_node_stats stats;
    tf_node_get_stats(relay.node, &stats);
    ck_assert_uint_eq(stats.sessions_now, 1);
    member_free(&second);
    member_free(&first);
    member_free(&relay);
}
END_TEST

START_TEST(node_exclusive_place_of_one_that_is_silent_is_taken)
{
    member relay, first, second;
    tf_node_event event;
    member_new(&relay, 1, true);
    member_new(&first, 2, true);
    member_new(&second, 2, true);
    member_listen(&relay);
    member_allow(&relay, &first);
    (void)dial_once(&first, &relay);
    await(&first, &relay, TF_EVENT_CONNECTED, &event);
    (void)dial_once(&second, &relay); /* first is not run any more: it answers nothing */
    await(&second, &relay, TF_EVENT_CONNECTED, &event);
    member_free(&second);
    member_free(&first);
    member_free(&relay);
}
END_TEST

static tf_peer *dial_by_stream(member *m, const member *to, tf_time connect_timeout)
{
    tf_peer *peer = NULL;
    tf_connect_options options = {.routes = TF_ROUTES_STREAM, .connect_timeout = connect_timeout};
    ck_assert_int_eq(tf_node_connect(m->node, &to->uri, &options, &peer), TF_OK);
    return peer;
}

/* Until nothing more of what its subscriber was sent fits the relay's socket: the subscriber is not run meanwhile. */
static void fill_socket(member *relay)
{
    const tf_connection *c = relay->node->connections;
    tf_time end = tf_edge_now() + HANG;
    while (tf_stream_room(c->stream) > 0 && tf_edge_now() < end) {
        tf_node_run(relay->node, TF_MS);
    }
    ck_assert_uint_eq(tf_stream_room(c->stream), 0);
}

/* P7: why it ends is told behind what waits for the socket, too. */
START_TEST(node_session_that_ends_without_room_says_why)
{
    static uint8_t body[100000];
    member relay, client;
    tf_remote *channel = NULL;
    tf_node_event event;
    pair(&relay, &client);
    tf_peer *peer = dial_by_stream(&client, &relay, TF_NEVER);
    ck_assert_int_eq(tf_remote_open(peer, tf_slice_str("c"), &channel), TF_OK);
    tf_remote_send_args send = {.body = tf_slice_of(body, sizeof(body))};
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(tf_remote_send(channel, &send), TF_OK);
        await(&client, &relay, TF_EVENT_ACK, &event);
    }
    ck_assert_int_eq(tf_remote_subscribe(channel, TF_START_FIRST, 0), TF_OK);
    tf_node_run(client.node, TF_MS);
    fill_socket(&relay);
    tf_connection_close(relay.node->connections, TF_CLOSE_TOO_MANY, "there are others");
    await(&client, &relay, TF_EVENT_DISCONNECTED, &event);
    ck_assert(tf_slice_eq(event.text, tf_slice_str("there are others")));
    member_free(&client);
    member_free(&relay);
}
END_TEST

/* As many as may be are connected: one more is refused while each of them has a route, and takes the place of one that has
 * none and has said nothing. */
START_TEST(node_instance_that_is_lost_makes_room_for_another)
{
    static member clients[TF_INSTANCES_PER_PEER];
    member relay, late, last;
    tf_node_event event;
    tf_node_stats stats;
    member_new(&relay, 1, true);
    member_listen(&relay);
    for (unsigned i = 0; i < TF_INSTANCES_PER_PEER; i++) {
        member_new(&clients[i], 2, false);
        member_allow(&relay, &clients[i]);
        (void)dial_by_stream(&clients[i], &relay, HANG);
        await(&clients[i], &relay, TF_EVENT_CONNECTED, &event);
    }
    member_new(&late, 2, false);
    (void)dial_by_stream(&late, &relay, TF_SECOND);
    await(&late, &relay, TF_EVENT_CONNECT_FAILED, &event);
    tf_stream_free(clients[3].node->connections->stream); /* as its system does when it is killed */
    clients[3].node->connections->stream = NULL;
    member_new(&last, 2, false);
    (void)dial_by_stream(&last, &relay, HANG);
    await(&last, &relay, TF_EVENT_CONNECTED, &event);
    tf_node_get_stats(relay.node, &stats);
    ck_assert_uint_eq(stats.sessions_now, TF_INSTANCES_PER_PEER);
    member_free(&last);
    member_free(&late);
    for (unsigned i = 0; i < TF_INSTANCES_PER_PEER; i++) {
        member_free(&clients[i]);
    }
    member_free(&relay);
}
END_TEST

/* Of two dials the one of the lower node id is kept, and then nothing is dialled any more. */
START_TEST(node_two_that_dial_each_other_keep_one_session)
{
    member a, b;
    tf_node_stats stats_a, stats_b;
    member_new(&a, 1, true);
    member_new(&b, 2, true);
    member_listen(&a);
    member_listen(&b);
    member_allow(&a, &b);
    member_allow(&b, &a);
    tf_peer *to_b = dial(&a, &b);
    tf_peer *to_a = dial(&b, &a);
    tf_peer_stats a_says, b_says;
    tf_time end = tf_edge_now() + HANG;
    do {
        tf_node_run(a.node, TF_MS);
        tf_node_run(b.node, TF_MS);
        tf_peer_get_stats(to_b, &a_says);
        tf_peer_get_stats(to_a, &b_says);
        tf_node_get_stats(a.node, &stats_a);
        tf_node_get_stats(b.node, &stats_b);
    } while (tf_edge_now() < end && !(stats_a.sessions_now == 1 && stats_b.sessions_now == 1 &&
                                      a_says.connected && b_says.connected));
    ck_assert_uint_eq(stats_a.sessions_now, 1);
    ck_assert_uint_eq(stats_b.sessions_now, 1);
    ck_assert(a_says.connected);
    ck_assert(b_says.connected);
    member_free(&a);
    member_free(&b);
}
END_TEST

/* Runs both until a commit of the relay is under way. */
static void await_commit(member *relay, member *client)
{
    tf_hub_stats stats = {0};
    tf_time end = tf_edge_now() + HANG;
    while (stats.committing == 0) {
        ck_assert(tf_edge_now() < end);
        tf_node_run(client->node, 0);
        tf_node_run(relay->node, 0);
        tf_hub_get_stats(relay->node->hub, &stats);
    }
}

static int remove_one(const char *path, const struct stat *state, int type, struct FTW *where)
{
    (void)state, (void)type, (void)where;
    return remove(path);
}

/* What the store's thread still writes must not be gone. */
START_TEST(node_freed_amid_a_commit_ends_that_first)
{
    static uint8_t body[200000];
    char folder[] = "/tmp/twofold-node-XXXXXX";
    member relay, client;
    tf_remote *channel = NULL;
    tf_node_event event;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    memset(body, 'b', sizeof(body));
    for (unsigned round = 0; round < 10; round++) {
        member_new_stored(&relay, 1, folder);
        member_new(&client, 2, false);
        member_listen(&relay);
        member_allow(&relay, &client);
        tf_peer *peer = dial_once(&client, &relay);
        ck_assert_int_eq(tf_remote_open(peer, tf_slice_str("c"), &channel), TF_OK);
        tf_remote_send_args send = {.body = tf_slice_of(body, sizeof(body))};
        ck_assert_int_eq(tf_remote_send(channel, &send), TF_OK);
        await(&client, &relay, TF_EVENT_ACK, &event);
        for (unsigned i = 0; i < 8; i++) {
            ck_assert_int_eq(tf_remote_send(channel, &send), TF_OK);
        }
        await_commit(&relay, &client);
        member_free(&relay);
        member_free(&client);
    }
    ck_assert_int_eq(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}
END_TEST

START_TEST(node_addresses_that_cannot_be_had_are_named)
{
    static const struct {
        const char *address;
        tf_err err;
        const char *text;
    } rows[] = {
        {"localhost:7420", TF_ERR_USAGE, "is a name"},
        {"127.0.0.1", TF_ERR_USAGE, "127.0.0.1"},
        {"127.0.0.1:70000", TF_ERR_USAGE, "70000"},
        {"192.0.2.1:0", TF_ERR_IO, "no such address"},
    };
    member m;
    char why[256] = "";
    member_new(&m, 1, true);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_int_eq(tf_node_listen(m.node, rows[i].address, why, sizeof(why)), rows[i].err);
        ck_assert_msg(strstr(why, rows[i].text) != NULL, "%s: %s", rows[i].address, why);
    }
    member_listen(&m);
    char taken[64];
    (void)snprintf(taken, sizeof(taken), "127.0.0.1:%u", (unsigned)m.uri.stream.port);
    ck_assert_int_eq(tf_node_listen(m.node, taken, why, sizeof(why)), TF_ERR_IO);
    ck_assert_msg(strstr(why, "taken") != NULL, "%s", why);
    member_free(&m);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {node_send_is_acked_and_delivered,
                                         node_ping_is_answered_by_both_routes,
                                         node_stats_of_a_peer_outlive_its_sessions,
                                         node_key_that_is_not_pinned_is_refused,
                                         node_grant_that_is_taken_back_ends_the_session,
                                         node_exclusive_place_stays_with_the_first_that_answers,
                                         node_exclusive_place_of_one_that_is_silent_is_taken,
                                         node_session_that_ends_without_room_says_why,
                                         node_instance_that_is_lost_makes_room_for_another,
                                         node_two_that_dial_each_other_keep_one_session,
                                         node_freed_amid_a_commit_ends_that_first,
                                         node_addresses_that_cannot_be_had_are_named,
                                         NULL};
    return tf_test_run_waiting("node/node", tests);
}
