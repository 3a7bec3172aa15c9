/* Dialling several addresses (RFC 8305): what hangs on one of them is not felt on another. The limit is an hour wherever a
 * dial is to succeed, so one that waited for a share of it would hang. */
#include <netinet/tcp.h>

#include "tests/unit/stream_ends.h"

#define HOUR (3600 * TF_SECOND)
#define SILENT_MAX 32

static tf_address loopback_port(uint16_t port)
{
    tf_address address;
    ck_assert_int_eq(tf_address_parse(&address, tf_slice_str("127.0.0.1"), port), TF_OK);
    return address;
}

static void note_local(int fd, tf_address *out)
{
    struct sockaddr_storage storage;
    socklen_t len = sizeof(storage);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&storage, &len), 0);
    ck_assert_int_eq(tf_address_from_sockaddr(out, (struct sockaddr *)&storage, len), TF_OK);
}

/* -- addresses that lead nowhere ----------------------------------------------------------------------------------- */

/* A full backlog: the kernel drops every further SYN without a word. */
typedef struct hole {
    int listener;
    int fillers[2];
    tf_address at;
} hole;

static void dig(hole *h)
{
    tf_address any = loopback_port(0);
    h->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(h->listener, &any.u.any, any.len), 0);
    ck_assert_int_eq(listen(h->listener, 0), 0);
    note_local(h->listener, &h->at);
    for (int i = 0; i < 2; i++) {
        h->fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (i > 0 ? SOCK_NONBLOCK : 0), 0);
        int result = connect(h->fillers[i], &h->at.u.any, h->at.len);
        ck_assert(i == 0 ? result == 0 : result != 0 && errno == EINPROGRESS);
    }
}

static void fill_in(hole *h)
{
    close(h->listener);
    close(h->fillers[0]);
    close(h->fillers[1]);
}

/* A server that takes connections and says nothing. */
static tf_listener *silent;
static int silent_fds[SILENT_MAX];
static size_t silent_count;
static size_t silent_most; /* open at a time */

static bool is_established(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);
    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    return info.tcpi_state == TCP_ESTABLISHED;
}

static size_t silent_open(void)
{
    size_t count = 0;
    for (size_t i = 0; i < silent_count; i++) {
        count += is_established(silent_fds[i]);
    }
    return count;
}

static void silent_accepted(void *ctx, int fd, const tf_address *peer)
{
    (void)ctx, (void)peer;
    ck_assert_uint_lt(silent_count, SILENT_MAX);
    silent_fds[silent_count++] = fd;
    size_t now = silent_open();
    silent_most = now > silent_most ? now : silent_most;
}

static void silent_new(void)
{
    tf_address any = loopback_port(0);
    const tf_listener_config config = {.base = base, .mem = mem, .accepted = silent_accepted};
    silent_count = silent_most = 0;
    ck_assert_int_eq(tf_listener_new(&silent, tf_listen_tcp(&any), &config), TF_OK);
}

static void silent_free(void)
{
    tf_listener_free(silent);
    for (size_t i = 0; i < silent_count; i++) {
        close(silent_fds[i]);
    }
}

static bool all_silent_closed(void)
{
    return silent_count > 0 && silent_open() == 0;
}

/* -- a server with another key ------------------------------------------------------------------------------------- */

static SSL_CTX *other_tls;
static tf_listener *other;
static end other_end;
static unsigned other_ends;

static void other_ended(void *ctx, tf_stream *stream, const tf_stream_end *how)
{
    end *e = ctx;
    ck_assert_int_eq(how->reason, TF_STREAM_REFUSED);
    ck_assert_ptr_eq(e->stream, stream);
    other_ends++;
    release_end(e);
}

static const tf_stream_ops other_ops = {.ended = other_ended};

static void other_accepted(void *ctx, int fd, const tf_address *peer)
{
    (void)ctx, (void)peer;
    const tf_stream_env env = {base, other_tls, mem, &buffers};
    release_end(&other_end);
    ck_assert_int_eq(tf_stream_accept(&other_end.stream, &env, fd, LIMIT, &other_ops, &other_end), TF_OK);
}

static void other_new(void)
{
    tf_address any = loopback_port(0);
    const tf_listener_config config = {.base = base, .mem = mem, .accepted = other_accepted};
    other_ends = 0;
    other_end = (end){0};
    ck_assert_int_eq(tf_identity_ssl_ctx(&other_tls, identities[0], true, allow, NULL), TF_OK);
    ck_assert_int_eq(tf_listener_new(&other, tf_listen_tcp(&any), &config), TF_OK);
}

static void other_free(void)
{
    release_end(&other_end);
    tf_listener_free(other);
    SSL_CTX_free(other_tls);
}

/* -- tests --------------------------------------------------------------------------------------------------------- */

START_TEST(dial_address_that_drops_everything_is_passed_over)
{
    hole h;
    set_up();
    dig(&h);
    const tf_address addresses[] = {h.at, *tf_listener_local(listener)};
    ck_assert_int_eq(dial_to(addresses, 2, NULL, HOUR), TF_OK);
    run_until(both_open);
    ck_assert(tf_address_eq(tf_stream_remote(dialler.stream), &addresses[1]));
    ck_assert(tf_address_eq(tf_stream_local(dialler.stream), tf_stream_remote(acceptor.stream)));
    dialler.to_send = acceptor.to_send = 100000; /* it is a stream like any other */
    pump(&dialler);
    pump(&acceptor);
    run_until(all_arrived);
    fill_in(&h);
    tear_down();
}
END_TEST

START_TEST(dial_address_whose_tls_stalls_does_not_block_the_others_and_is_closed)
{
    set_up();
    silent_new();
    const tf_address addresses[] = {*tf_listener_local(silent), *tf_listener_local(listener)};
    ck_assert_int_eq(dial_to(addresses, 2, NULL, HOUR), TF_OK);
    run_until(both_open);
    run_until(all_silent_closed);
    silent_free();
    tear_down();
}
END_TEST

START_TEST(dial_last_of_many_addresses_is_tried_with_a_bounded_number_of_sockets)
{
    tf_address addresses[TF_STREAM_ADDRESSES_MAX];
    set_up();
    silent_new();
    for (size_t i = 0; i < TF_STREAM_ADDRESSES_MAX; i++) {
        addresses[i] = *tf_listener_local(i + 1 < TF_STREAM_ADDRESSES_MAX ? silent : listener);
    }
    ck_assert_int_eq(dial_to(addresses, TF_STREAM_ADDRESSES_MAX, NULL, 3 * TF_SECOND), TF_OK);
    run_until(both_open);
    ck_assert_uint_eq(silent_count, TF_STREAM_ADDRESSES_MAX - 1);
    ck_assert_uint_le(silent_most, TF_STREAM_ATTEMPTS_MAX);
    run_until(all_silent_closed);
    silent_free();
    tear_down();
}
END_TEST

START_TEST(dial_address_with_another_key_loses_to_the_right_one)
{
    set_up();
    other_new();
    const tf_address addresses[] = {*tf_listener_local(other), *tf_listener_local(listener)};
    ck_assert_int_eq(dial_to(addresses, 2, NULL, HOUR), TF_OK);
    run_until(both_open);
    ck_assert_uint_eq(other_ends, 1);
    ck_assert(tf_node_id_eq(&dialler.peer, tf_identity_node_id(identities[1])));
    other_free();
    tear_down();
}
END_TEST

START_TEST(dial_other_keys_alone_end_with_auth_whatever_else_hangs)
{
    hole h;
    set_up();
    dig(&h);
    other_new();
    const tf_address addresses[] = {*tf_listener_local(other), h.at};
    ck_assert_int_eq(dial_to(addresses, 2, NULL, 600 * TF_MS), TF_OK);
    run_until(dialler_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_AUTH);
    ck_assert(!dialler.end.opened);
    other_free();
    fill_in(&h);
    tear_down();
}
END_TEST

START_TEST(dial_that_is_late_on_all_addresses_is_a_timeout)
{
    hole h;
    set_up();
    dig(&h);
    silent_new();
    const tf_address addresses[] = {h.at, *tf_listener_local(silent)};
    ck_assert_int_eq(dial_to(addresses, 2, NULL, 300 * TF_MS), TF_OK);
    run_until(dialler_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_TIMEOUT);
    run_until(all_silent_closed);
    silent_free();
    fill_in(&h);
    tear_down();
}
END_TEST

START_TEST(dial_of_several_may_be_freed_or_closed_at_every_step)
{
    for (int steps = 0; steps < 24; steps++) {
        set_up();
        silent_new();
        const tf_address addresses[] = {*tf_listener_local(silent), loopback_port(1), *tf_listener_local(listener)};
        ck_assert_int_eq(dial_to(addresses, 3, NULL, 30 * TF_MS), TF_OK);
        for (int i = 0; i < steps / 2 && dialler.stream != NULL && !both_open(); i++) {
            ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
        }
        if (steps % 2 == 0 && dialler.stream != NULL) {
            tf_stream_close(dialler.stream, tf_slice_of(NULL, 0));
        } else {
            release_end(&dialler);
            dialler.ended = true;
        }
        run_until(dialler_ended);
        silent_free();
        tear_down();
    }
}
END_TEST

static bool dialler_settled(void)
{
    return dialler.opened || dialler.ended;
}

/* Every allocation in turn fails: that attempt fails, or all; nothing leaks (tear_down looks). */
START_TEST(dial_of_several_without_memory_ends_or_opens)
{
    bool failed = true;
    for (uint64_t k = 0; failed; k++) {
        set_up();
        silent_new();
        uint64_t before = tf_test_heap_shared()->failures;
        const tf_address addresses[] = {*tf_listener_local(silent), *tf_listener_local(listener)};
        tf_test_heap_fail_at(tf_test_heap_shared(), k, false);
        tf_err err = dial_to(addresses, 2, NULL, 40 * TF_MS);
        ck_assert(err == TF_OK || err == TF_ERR_NOMEM);
        if (err == TF_OK) {
            run_until(dialler_settled);
        }
        failed = tf_test_heap_shared()->failures > before;
        tf_test_heap_fail_never(tf_test_heap_shared());
        silent_free();
        tear_down();
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {dial_address_that_drops_everything_is_passed_over,
                                  dial_address_whose_tls_stalls_does_not_block_the_others_and_is_closed,
                                  dial_last_of_many_addresses_is_tried_with_a_bounded_number_of_sockets,
                                  dial_address_with_another_key_loses_to_the_right_one,
                                  dial_other_keys_alone_end_with_auth_whatever_else_hangs,
                                  dial_that_is_late_on_all_addresses_is_a_timeout,
                                  dial_of_several_may_be_freed_or_closed_at_every_step,
                                  dial_of_several_without_memory_ends_or_opens,
                                  NULL};
    return tf_test_run("paths/stream, several addresses", tests);
}
