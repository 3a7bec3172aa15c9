/* node/twofold.h over sockets whose calls fail: a relay, a sender and a reader in one process, by both routes. Whatever call fails,
 * with whatever error, every send is acked once and every message arrives once, in order (P1, P2, P6): the session goes on
 * by the other route, is resumed, or is made anew. */
#include <errno.h>
#include <stdio.h>

#include "node/edge_mem.h"
#include "node/twofold.h"
#include "tests/support/check_main.h"
#include "tests/support/faulty_sockets.h"
#include "tests/support/support.h"

#define HANG (60 * TF_SECOND)
#define MESSAGES 12u

typedef struct world {
    tf_identity *identities[3];
    tf_node *nodes[3]; /* relay, sender, reader */
    tf_remote *channels[3];
    unsigned sent;
    unsigned acks;
    unsigned activities;
    bool acked[MESSAGES + 1];
} world;

static void set_up(world *w, tf_uri *uri)
{
    char why[TF_WHY_MAX];
    char text[TF_URI_TEXT_MAX];
    *w = (world){.sent = 0};
    for (uint8_t i = 0; i < 3; i++) {
        const uint8_t seed[TF_SEED_LEN] = {(uint8_t)(i + 1)};
        ck_assert_int_eq(tf_identity_new(&w->identities[i], seed), TF_OK);
        const tf_node_config config = {.identity = w->identities[i], .exclusive = i == 0, .accept_any = true};
        ck_assert_int_eq(tf_node_new(&w->nodes[i], &config, NULL), TF_OK);
    }
    ck_assert_msg(tf_node_listen(w->nodes[0], "127.0.0.1:0", why, sizeof(why)) == TF_OK, "%s", why);
    ck_assert(tf_node_uri(w->nodes[0], text, sizeof(text)));
    ck_assert_msg(tf_uri_parse(uri, text, why) == TF_OK, "%s", why);
}

static void tear_down(world *w)
{
    for (size_t i = 3; i > 0; i--) {
        tf_node_free(w->nodes[i - 1]);
        tf_identity_free(w->identities[i - 1]);
    }
}

static void send_next(world *w)
{
    char body[8];
    int len = snprintf(body, sizeof(body), "%u", w->sent + 1);
    const tf_remote_send_args send = {.body = tf_slice_of((uint8_t *)body, (size_t)len), .cookie = w->sent + 1};
    w->sent += tf_remote_send(w->channels[1], &send) == TF_OK ? 1 : 0;
}

static void handle(world *w, const tf_node_event *event)
{
    char body[8];
    if (event->type == TF_EVENT_ACK) {
        ck_assert(event->cookie >= 1 && event->cookie <= w->sent && !w->acked[event->cookie]);
        ck_assert_uint_eq(event->seq, event->cookie);
        w->acked[event->cookie] = true;
        w->acks++;
    } else if (event->type == TF_EVENT_ACTIVITY) {
        w->activities++;
        (void)snprintf(body, sizeof(body), "%u", w->activities);
        ck_assert_uint_eq(event->seq, w->activities);
        ck_assert(tf_slice_eq(event->body, tf_slice_str(body)));
    } else {
        ck_assert_int_ne(event->type, TF_EVENT_REFUSED);
        ck_assert_int_ne(event->type, TF_EVENT_GAP);
        ck_assert_int_ne(event->type, TF_EVENT_CHANNEL_REFUSED);
    }
}

static void start(world *w)
{
    tf_uri uri;
    const tf_connect_options options = {.connect_timeout = TF_NEVER};
    set_up(w, &uri);
    for (size_t i = 1; i < 3; i++) {
        tf_peer *peer = NULL;
        ck_assert_int_eq(tf_node_connect(w->nodes[i], &uri, &options, &peer), TF_OK);
        ck_assert_int_eq(tf_remote_open(peer, tf_slice_str("c"), &w->channels[i]), TF_OK);
    }
    ck_assert_int_eq(tf_remote_subscribe(w->channels[2], TF_START_FIRST, 0), TF_OK);
}

/* One message after the other, each with the ack before it on its way. */
static void exchange(void)
{
    world w;
    tf_node_event event;
    start(&w);
    tf_time end = tf_edge_now() + HANG;
    while (w.acks < MESSAGES || w.activities < MESSAGES) {
        ck_assert_msg(tf_edge_now() < end, "%u acks, %u activities", w.acks, w.activities);
        if (w.sent < MESSAGES && w.acks + 2 > w.sent) {
            send_next(&w);
        }
        for (size_t i = 0; i < 3; i++) {
            tf_node_run(w.nodes[i], i == 0 ? TF_MS : 0);
            while (tf_node_next_event(w.nodes[i], &event)) {
                handle(&w, &event);
            }
        }
    }
    ck_assert_uint_eq(w.activities, MESSAGES);
    tear_down(&w);
}

/* Every call in turn, up to one that is not reached. */
static void fail_in_turn(unsigned calls, const int *errors, size_t error_count)
{
    unsigned files = tf_test_open_files();
    bool failed = true;
    for (uint64_t k = 0; failed && k < 400; k++) {
        tf_faulty_sockets_fail(calls, k, errors[k % error_count]);
        exchange();
        failed = tf_faulty_sockets_failures() > 0;
        ck_assert_uint_eq(tf_test_open_files(), files);
    }
    tf_faulty_sockets_reset();
}

START_TEST(node_stream_call_that_fails_loses_and_repeats_nothing)
{
    static const int errors[] = {ECONNRESET, EAGAIN, EPIPE, EINTR, ENOBUFS, ETIMEDOUT};
    fail_in_turn(TF_CALLS_STREAM, errors, sizeof(errors) / sizeof(errors[0]));
}
END_TEST

START_TEST(node_datagram_call_that_fails_loses_and_repeats_nothing)
{
    static const int errors[] = {ENOBUFS, EAGAIN, EPERM, EINTR, ECONNREFUSED, EMSGSIZE, ENETUNREACH, EIO};
    fail_in_turn(TF_CALLS_DATAGRAM, errors, sizeof(errors) / sizeof(errors[0]));
}
END_TEST

START_TEST(node_socket_that_cannot_be_had_is_tried_again)
{
    static const int errors[] = {EMFILE, ENOBUFS, ENFILE, ENOMEM};
    fail_in_turn(TF_CALLS_ACCEPT, errors, sizeof(errors) / sizeof(errors[0]));
    fail_in_turn(TF_CALLS_CONNECT, (const int[]){ECONNREFUSED, ENETUNREACH}, 2);
}
END_TEST

START_TEST(node_cut_reads_and_writes_change_nothing)
{
    static const size_t most[] = {1, 17, 1000};
    for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
        tf_faulty_sockets_cut(most[i]);
        exchange();
    }
    tf_faulty_sockets_reset();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {node_stream_call_that_fails_loses_and_repeats_nothing,
                                  node_datagram_call_that_fails_loses_and_repeats_nothing,
                                  node_socket_that_cannot_be_had_is_tried_again,
                                  node_cut_reads_and_writes_change_nothing,
                                  NULL};
    return tf_test_run_waiting("node/faults", tests);
}
