/* handshake/negotiate: what the two ends agree on, and what each refuses. */
#include <string.h>

#include "handshake/negotiate.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define NEW_SESSION 4242u
#define OLD_SESSION 7u

static tf_hello hello_of(uint64_t instance)
{
    tf_hello hello;
    tf_hello_init(&hello);
    hello.offer.instance = instance;
    hello.offer.datagram.connection_id = instance * 1000;
    return hello;
}

static tf_negotiate_session no_session(void)
{
    return (tf_negotiate_session){.new_session = NEW_SESSION};
}

/* A session that both ends know: 10 to 19 of ours are not acked, 30 comes next. */
static tf_negotiate_session old_session(void)
{
    return (tf_negotiate_session){.resumable = true,
                                  .session = OLD_SESSION,
                                  .last_generation = 4,
                                  .receive_next = 30,
                                  .send_floor = 10,
                                  .send_next = 20,
                                  .new_session = NEW_SESSION};
}

/* Through the bytes, as in life. */
static tf_welcome over_the_wire(const tf_welcome *welcome)
{
    uint8_t buf[TF_FRAME_PAYLOAD_MAX];
    size_t len = 0;
    tf_welcome back;
    ck_assert_int_eq(tf_welcome_encode(welcome, buf, sizeof(buf), &len), TF_OK);
    ck_assert_int_eq(tf_welcome_decode(&back, tf_slice_of(buf, len)), TF_OK);
    return back;
}

/* Both ends; the dialler's error is the result, the acceptor's must be none. */
static tf_err agree(const tf_hello *dialler, const tf_hello *acceptor, tf_agreed *at_dialler, tf_agreed *at_acceptor)
{
    tf_negotiate_session state = no_session();
    tf_welcome welcome;
    ck_assert_int_eq(tf_negotiate_answer(dialler, acceptor, &state, &welcome, at_acceptor), TF_OK);
    welcome = over_the_wire(&welcome);
    return tf_negotiate_accept(dialler, &welcome, &state, at_dialler);
}

static void assert_mirrored(const tf_agreed *d, const tf_agreed *a)
{
    ck_assert(d->dialler && !a->dialler);
    ck_assert_uint_eq(d->version, a->version);
    ck_assert_uint_eq(d->features, a->features);
    ck_assert_uint_eq(d->routes, a->routes);
    ck_assert_uint_eq(d->send_routes, a->receive_routes);
    ck_assert_uint_eq(d->receive_routes, a->send_routes);
    ck_assert_uint_eq(d->generation, a->generation);
    ck_assert_uint_eq(d->session, a->session);
    ck_assert_int_eq(d->resumed, a->resumed);
    if ((d->routes & TF_ROUTES_DATAGRAM) != 0) {
        ck_assert_uint_eq(d->cipher, a->cipher);
        ck_assert_uint_eq(d->local_connection_id, a->remote_connection_id);
        ck_assert_uint_eq(d->remote_connection_id, a->local_connection_id);
    }
}

START_TEST(negotiate_equal_ends_get_everything)
{
    tf_hello d = hello_of(1);
    tf_hello a = hello_of(2);
    tf_agreed at_d;
    tf_agreed at_a;
    memcpy(a.offer.software, "acceptor", 9);
    memcpy(a.offer.datagram.host, "h", 2);
    a.offer.datagram.port = 9;
    a.offer.exclusive = true;
    a.offer.keepalive_ms = 2500;
    ck_assert_int_eq(agree(&d, &a, &at_d, &at_a), TF_OK);
    assert_mirrored(&at_d, &at_a);
    ck_assert_uint_eq(at_d.version, TF_PROTOCOL_VERSION);
    ck_assert_uint_eq(at_d.routes, TF_ROUTES_BOTH);
    ck_assert_uint_eq(at_d.send_routes, TF_ROUTES_BOTH);
    ck_assert_int_eq(at_d.cipher, TF_CIPHER_AES_128_GCM);
    ck_assert_uint_eq(at_d.session, NEW_SESSION);
    ck_assert_uint_eq(at_d.generation, 1);
    ck_assert(!at_d.resumed);
    ck_assert_uint_eq(at_d.peer_instance, 2);
    ck_assert_uint_eq(at_a.peer_instance, 1);
    ck_assert(at_d.peer_exclusive && !at_a.peer_exclusive);
    ck_assert_uint_eq(at_d.peer_keepalive, 2500 * TF_MS);
    ck_assert_uint_eq(at_a.peer_keepalive, TF_KEEPALIVE);
    ck_assert_str_eq(at_d.peer_software, "acceptor");
    ck_assert_str_eq(at_d.remote_host, "h");
    ck_assert_uint_eq(at_d.remote_port, 9);
}
END_TEST

START_TEST(negotiate_highest_common_version_is_used)
{
    static const struct {
        uint32_t ours[3];
        uint32_t theirs[3];
        uint32_t common; /* 0: none */
    } rows[] = {{{1, 1, 1}, {1, 1, 1}, 1}, {{1, 2, 3}, {3, 1, 9}, 3}, {{9, 2, 1}, {1, 2, 8}, 2}, {{1, 2, 3}, {4, 5, 6}, 0}};
    tf_negotiate_session state = no_session();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_hello d = hello_of(1);
        tf_hello a = hello_of(2);
        tf_welcome welcome;
        tf_agreed agreed;
        d.version_count = 3;
        a.version_count = 3;
        memcpy(d.versions, rows[i].theirs, sizeof(rows[i].theirs));
        memcpy(a.versions, rows[i].ours, sizeof(rows[i].ours));
        tf_err err = tf_negotiate_answer(&d, &a, &state, &welcome, &agreed);
        ck_assert_int_eq(err, rows[i].common == 0 ? TF_ERR_PEER_VERSION : TF_OK);
        ck_assert(err != TF_OK || welcome.version == rows[i].common);
    }
}
END_TEST

START_TEST(negotiate_data_routes_are_those_of_both)
{
    enum { S = TF_ROUTES_STREAM, D = TF_ROUTES_DATAGRAM, B = TF_ROUTES_BOTH, N = 0 };
    static const struct {
        tf_routes d_routes, d_up, d_down;
        tf_routes a_routes, a_up, a_down;
        tf_routes routes, up, down; /* routes 0: refused */
    } rows[] = {
        {B, B, B, B, B, B, B, B, B}, {S, S, S, B, B, B, S, S, S}, {B, B, B, S, S, S, S, S, S},
        {B, D, D, B, B, B, B, D, D}, {B, D, B, B, B, S, B, D, S}, {B, D, D, S, S, S, N, N, N},
        {B, S, B, B, D, B, N, N, N}, {B, B, N, B, B, B, N, N, N}, {S, B, B, B, B, B, S, S, S},
    };
    tf_negotiate_session state = no_session();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_hello d = hello_of(1);
        tf_hello a = hello_of(2);
        tf_welcome welcome;
        tf_agreed at_d;
        tf_agreed at_a;
        d.offer.routes = rows[i].d_routes;
        d.offer.data = (tf_data_routes){rows[i].d_up, rows[i].d_down};
        a.offer.routes = rows[i].a_routes;
        a.offer.data = (tf_data_routes){rows[i].a_up, rows[i].a_down};
        if (rows[i].routes == 0) {
            ck_assert_int_eq(tf_negotiate_answer(&d, &a, &state, &welcome, &at_a), TF_ERR_PEER_REFUSED);
            continue;
        }
        ck_assert_int_eq(agree(&d, &a, &at_d, &at_a), TF_OK);
        assert_mirrored(&at_d, &at_a);
        ck_assert_uint_eq(at_d.routes, rows[i].routes);
        ck_assert_uint_eq(at_d.send_routes, rows[i].up);
        ck_assert_uint_eq(at_d.receive_routes, rows[i].down);
    }
}
END_TEST

START_TEST(negotiate_cipher_of_both_is_chosen)
{
    enum { AES = 1u << TF_CIPHER_AES_128_GCM, CHACHA = 1u << TF_CIPHER_CHACHA20_POLY1305 };
    static const struct {
        tf_ciphers d, a;
        tf_cipher chosen;
        tf_routes routes;
    } rows[] = {
        {AES | CHACHA, AES | CHACHA, TF_CIPHER_AES_128_GCM, TF_ROUTES_BOTH},
        {CHACHA, AES | CHACHA, TF_CIPHER_CHACHA20_POLY1305, TF_ROUTES_BOTH},
        {AES | CHACHA, CHACHA, TF_CIPHER_CHACHA20_POLY1305, TF_ROUTES_BOTH},
        {AES, CHACHA, TF_CIPHER_AES_128_GCM, TF_ROUTES_STREAM},
        {0, AES, TF_CIPHER_AES_128_GCM, TF_ROUTES_STREAM}, /* only names that we do not know */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_hello d = hello_of(1);
        tf_hello a = hello_of(2);
        tf_agreed at_d;
        tf_agreed at_a;
        d.offer.datagram.ciphers = rows[i].d;
        a.offer.datagram.ciphers = rows[i].a;
        ck_assert_int_eq(agree(&d, &a, &at_d, &at_a), TF_OK);
        assert_mirrored(&at_d, &at_a);
        ck_assert_uint_eq(at_d.routes, rows[i].routes);
        ck_assert(rows[i].routes == TF_ROUTES_STREAM || at_d.cipher == rows[i].chosen);
    }
}
END_TEST

START_TEST(negotiate_limits_are_cut_to_what_we_would_use)
{
    tf_hello d = hello_of(1);
    tf_hello a = hello_of(2);
    tf_agreed at_d;
    tf_agreed at_a;
    memset(&d.offer.limits, 0xff, sizeof(d.offer.limits));
    a.offer.limits.max_results = 20; /* less than max_in_flight */
    a.offer.limits.window_bytes = TF_WINDOW_BYTES_MIN;
    ck_assert_int_eq(agree(&d, &a, &at_d, &at_a), TF_OK);
    ck_assert_uint_eq(at_a.peer_limits.max_in_flight, TF_MAX_IN_FLIGHT_MAX);
    ck_assert_uint_eq(at_a.peer_limits.max_message, TF_MESSAGE_MAX);
    ck_assert_uint_eq(at_a.peer_limits.window_bytes, TF_WINDOW_BYTES_MAX);
    ck_assert_uint_eq(at_a.peer_limits.window_segments, TF_WINDOW_SEGMENTS_MAX);
    ck_assert_uint_eq(at_a.peer_limits.max_refs, TF_REFS_MAX);
    ck_assert_uint_eq(at_a.peer_limits.max_promises, TF_PROMISES_MAX);
    ck_assert_uint_eq(at_a.peer_limits.max_results, TF_RESULTS_MAX);
    ck_assert_uint_eq(at_d.peer_limits.max_in_flight, 20);
    ck_assert_uint_eq(at_d.peer_limits.window_bytes, TF_WINDOW_BYTES_MIN);
    ck_assert_mem_eq(&at_d.own_limits, &d.offer.limits, sizeof(d.offer.limits));
}
END_TEST

/* -- sessions ------------------------------------------------------------------------------------------------------ */

START_TEST(negotiate_known_session_is_resumed)
{
    static const uint64_t nexts[] = {10, 15, 20};
    for (size_t i = 0; i < sizeof(nexts) / sizeof(nexts[0]); i++) {
        tf_negotiate_session at_acceptor = old_session();
        tf_negotiate_session at_dialler = old_session();
        tf_hello d = hello_of(1);
        tf_hello a = hello_of(2);
        tf_welcome welcome;
        tf_agreed at_d;
        tf_agreed at_a;
        d.offer.resume = (tf_resume){true, OLD_SESSION, nexts[i]};
        ck_assert_int_eq(tf_negotiate_answer(&d, &a, &at_acceptor, &welcome, &at_a), TF_OK);
        ck_assert(at_a.resumed);
        ck_assert_uint_eq(at_a.peer_next, nexts[i]);
        ck_assert_uint_eq(at_a.generation, 5);
        ck_assert_uint_eq(at_a.session, OLD_SESSION);
        ck_assert_uint_eq(welcome.offer.resume.next, 30);
        at_dialler.send_floor = 25;
        at_dialler.send_next = 30;
        welcome = over_the_wire(&welcome);
        ck_assert_int_eq(tf_negotiate_accept(&d, &welcome, &at_dialler, &at_d), TF_OK);
        assert_mirrored(&at_d, &at_a);
        ck_assert_uint_eq(at_d.peer_next, 30);
    }
}
END_TEST

START_TEST(negotiate_session_that_cannot_go_on_is_replaced)
{
    static const struct {
        bool resumable, asked;
        uint64_t session, next, last_generation;
    } rows[] = {
        {true, false, OLD_SESSION, 15, 4},           /* not asked for */
        {false, true, OLD_SESSION, 15, 4},           /* in an error state */
        {true, true, OLD_SESSION + 1, 15, 4},        /* another one */
        {true, true, OLD_SESSION, 9, 4},             /* lacks what is gone */
        {true, true, OLD_SESSION, 21, 4},            /* holds what was never sent */
        {true, true, OLD_SESSION, 15, TF_GENERATION_MAX},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_negotiate_session state = old_session();
        tf_hello d = hello_of(1);
        tf_hello a = hello_of(2);
        tf_welcome welcome;
        tf_agreed agreed;
        state.resumable = rows[i].resumable;
        state.last_generation = rows[i].last_generation;
        d.offer.resume = (tf_resume){rows[i].asked, rows[i].session, rows[i].next};
        ck_assert_int_eq(tf_negotiate_answer(&d, &a, &state, &welcome, &agreed), TF_OK);
        ck_assert(!agreed.resumed && !welcome.offer.resume.present);
        ck_assert_uint_eq(agreed.session, NEW_SESSION);
        ck_assert_uint_eq(agreed.generation, 1);
        state = old_session();
        ck_assert_int_eq(tf_negotiate_accept(&d, &welcome, &state, &agreed), TF_OK);
        ck_assert(!agreed.resumed);
    }
}
END_TEST

/* -- a dialler is not told what it did not offer ------------------------------------------------------------------- */

static tf_welcome fine_welcome(const tf_hello *d)
{
    tf_negotiate_session state = old_session();
    tf_hello a = hello_of(2);
    tf_welcome welcome;
    tf_agreed agreed;
    ck_assert_int_eq(tf_negotiate_answer(d, &a, &state, &welcome, &agreed), TF_OK);
    return welcome;
}

static void bend(tf_welcome *w, size_t how)
{
    tf_offer *o = &w->offer;
    const struct {
        size_t how;
        uint64_t *number;
        uint64_t value;
    } numbers[] = {{0, &w->session, OLD_SESSION + 1}, {1, &w->generation, 4}, {2, &o->resume.next, 9}, {3, &o->resume.next, 21}};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (numbers[i].how == how) {
            *numbers[i].number = numbers[i].value;
        }
    }
    o->data.up = how == 4 ? 0 : o->data.up;
    o->data.down = how == 5 ? 0 : o->data.down;
    o->data.down = how == 6 ? TF_ROUTES_BOTH : o->data.down;
    o->routes = how == 7 ? TF_ROUTES_STREAM : o->routes; /* data.up still names the datagram route */
    o->datagram.ciphers = how == 8 ? 0 : o->datagram.ciphers;
    o->datagram.ciphers = how == 9 ? TF_CIPHERS_ALL : o->datagram.ciphers;
    o->datagram.ciphers = how == 10 ? 1u << TF_CIPHER_CHACHA20_POLY1305 : o->datagram.ciphers;
    o->resume.present = how == 11 ? false : o->resume.present; /* "new", under the old id */
}

START_TEST(negotiate_answer_beyond_the_offer_is_refused)
{
    tf_negotiate_session state = old_session();
    tf_hello d = hello_of(1);
    tf_agreed agreed = {.generation = 99};
    d.offer.resume = (tf_resume){true, OLD_SESSION, 15};
    d.offer.data.down = TF_ROUTES_STREAM;
    d.offer.datagram.ciphers = 1u << TF_CIPHER_AES_128_GCM;
    for (size_t how = 0; how < 12; how++) {
        tf_welcome welcome = fine_welcome(&d);
        welcome.offer.resume.next = 15;
        bend(&welcome, how);
        ck_assert_msg(tf_negotiate_accept(&d, &welcome, &state, &agreed) == TF_ERR_PEER_STATE, "%zu", how);
        ck_assert_uint_eq(agreed.generation, 99);
    }
    tf_welcome welcome = fine_welcome(&d);
    welcome.offer.resume.next = 15;
    ck_assert_int_eq(tf_negotiate_accept(&d, &welcome, &state, &agreed), TF_OK);
    d.offer.datagram.ciphers = TF_CIPHERS_ALL;
    bend(&welcome, 9); /* both ciphers, now that both were offered */
    ck_assert_int_eq(tf_negotiate_accept(&d, &welcome, &state, &agreed), TF_ERR_PEER_STATE);
    welcome.version = 2;
    ck_assert_int_eq(tf_negotiate_accept(&d, &welcome, &state, &agreed), TF_ERR_PEER_VERSION);
}
END_TEST

START_TEST(negotiate_resume_that_was_not_asked_for_is_refused)
{
    tf_negotiate_session state = old_session();
    tf_hello d = hello_of(1);
    tf_agreed agreed;
    d.offer.resume = (tf_resume){true, OLD_SESSION, 15};
    tf_welcome welcome = fine_welcome(&d);
    welcome.offer.resume.next = 15;
    d.offer.resume.present = false;
    ck_assert_int_eq(tf_negotiate_accept(&d, &welcome, &state, &agreed), TF_ERR_PEER_STATE);
    d = hello_of(1);
    d.offer.routes = TF_ROUTES_STREAM;
    welcome.offer.resume.present = false;
    welcome.session = NEW_SESSION;
    ck_assert_int_eq(tf_negotiate_accept(&d, &welcome, &state, &agreed), TF_ERR_PEER_STATE); /* a route not offered */
}
END_TEST

/* -- any two ends -------------------------------------------------------------------------------------------------- */

static tf_hello random_hello(tf_test_random *random, uint64_t instance)
{
    tf_hello hello = hello_of(instance);
    hello.version_count = 1 + tf_test_random_below(random, 3);
    for (size_t i = 0; i < hello.version_count; i++) {
        hello.versions[i] = 1 + (uint32_t)tf_test_random_below(random, 4);
    }
    hello.offer.features = (tf_features)tf_test_random_below(random, 2);
    hello.offer.routes = tf_test_random_chance(random, 1, 3) ? TF_ROUTES_STREAM : TF_ROUTES_BOTH;
    hello.offer.data.up = (tf_routes)tf_test_random_below(random, 4);
    hello.offer.data.down = (tf_routes)tf_test_random_below(random, 4);
    hello.offer.datagram.ciphers = (tf_ciphers)(1 + tf_test_random_below(random, 3));
    hello.offer.limits.max_refs = 64 + (uint32_t)tf_test_random_below(random, 1000000);
    hello.offer.exclusive = tf_test_random_chance(random, 1, 2);
    return hello;
}

static tf_negotiate_session random_session(tf_test_random *random)
{
    tf_negotiate_session state = {.resumable = tf_test_random_chance(random, 3, 4),
                                  .session = tf_test_random_below(random, 3),
                                  .last_generation = tf_test_random_below(random, 3),
                                  .receive_next = tf_test_random_below(random, 4),
                                  .new_session = 100 + tf_test_random_below(random, 100)};
    state.send_floor = tf_test_random_below(random, 4);
    state.send_next = state.send_floor + tf_test_random_below(random, 4);
    state.resumable = state.resumable && state.session != 0;
    return state;
}

START_TEST(negotiate_both_ends_agree)
{
    tf_test_random random;
    tf_test_random_init(&random, 11);
    unsigned agreements = 0;
    unsigned resumes = 0;
    for (int i = 0; i < 20000; i++) {
        tf_hello d = random_hello(&random, 1);
        tf_hello a = random_hello(&random, 2);
        tf_negotiate_session of_d = random_session(&random);
        tf_negotiate_session of_a = random_session(&random);
        tf_welcome welcome;
        tf_agreed at_d;
        tf_agreed at_a;
        d.offer.resume = (tf_resume){of_d.resumable, of_d.session, of_d.receive_next};
        if (tf_negotiate_answer(&d, &a, &of_a, &welcome, &at_a) != TF_OK) {
            continue;
        }
        welcome = over_the_wire(&welcome);
        tf_err err = tf_negotiate_accept(&d, &welcome, &of_d, &at_d);
        if (err != TF_OK) { /* only when the two ends do not know the same of the session */
            ck_assert(at_a.resumed && err == TF_ERR_PEER_STATE);
            continue;
        }
        assert_mirrored(&at_d, &at_a);
        ck_assert(at_d.send_routes != 0 && at_d.receive_routes != 0);
        ck_assert_uint_eq((at_d.send_routes | at_d.receive_routes) & ~at_d.routes, 0);
        agreements++;
        resumes += at_d.resumed;
    }
    ck_assert_uint_gt(agreements, 1000);
    ck_assert_uint_gt(resumes, 20);
}
END_TEST

START_TEST(negotiate_dial_of_the_lower_id_is_kept)
{
    tf_node_id low = {{1, 200}};
    tf_node_id high = {{2, 0}};
    ck_assert(tf_negotiate_keeps_dial(&low, &high));
    ck_assert(!tf_negotiate_keeps_dial(&high, &low));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        negotiate_equal_ends_get_everything,
        negotiate_highest_common_version_is_used,
        negotiate_data_routes_are_those_of_both,
        negotiate_cipher_of_both_is_chosen,
        negotiate_limits_are_cut_to_what_we_would_use,
        negotiate_known_session_is_resumed,
        negotiate_session_that_cannot_go_on_is_replaced,
        negotiate_answer_beyond_the_offer_is_refused,
        negotiate_resume_that_was_not_asked_for_is_refused,
        negotiate_both_ends_agree,
        negotiate_dial_of_the_lower_id_is_kept,
        NULL,
    };
    return tf_test_run("handshake/negotiate", tests);
}
