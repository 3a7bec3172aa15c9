/* Streams and those at their other end: who is let in, bad peers, dialling. */
#include "tests/unit/stream_ends.h"

/* -- who is let in ------------------------------------------------------------------------------------------------- */

START_TEST(stream_key_that_is_not_let_in_is_told_so)
{
    set_up();
    let_in = false;
    dialler.write_when_opened = true; /* as a HELLO does: it must not turn the refusal into a reset */
    dialler.to_send = 20000;
    dial();
    run_until(both_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_REFUSED);
    ck_assert(dialler.end.opened);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_AUTH);
    ck_assert(!acceptor.end.opened && !acceptor.opened);
    tear_down();
}
END_TEST

START_TEST(stream_wrong_pin_ends_with_auth)
{
    set_up();
    const tf_stream_env env = {base, client_tls, mem, &buffers};
    const tf_stream_target target = {.addresses = tf_listener_local(listener),
                                     .count = 1,
                                     .pin = tf_identity_node_id(identities[0]),
                                     .limit = LIMIT};
    ck_assert_int_eq(tf_stream_dial(&dialler.stream, &env, &target, &ops, &dialler), TF_OK);
    run_until(both_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_AUTH);
    ck_assert(!dialler.opened);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_REFUSED);
    tear_down();
}
END_TEST

/* -- bad peers ----------------------------------------------------------------------------------------------------- */

START_TEST(stream_garbage_ends_only_that_stream)
{
    static const char garbage[] = "GET / HTTP/1.1\r\nHost: example\r\n\r\n";
    set_up();
    int fd = raw_client();
    ck_assert_int_eq(write(fd, garbage, sizeof(garbage)), sizeof(garbage));
    run_until(acceptor_ended);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_PROTOCOL);
    close(fd);
    memset(&acceptor, 0, sizeof(acceptor));
    connect_both();
    tear_down();
}
END_TEST

START_TEST(stream_client_that_goes_away_ends_truncated)
{
    set_up();
    close(raw_client());
    run_until(acceptor_ended);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_TRUNCATED);
    tear_down();
}
END_TEST

START_TEST(stream_silent_client_meets_the_limit)
{
    set_up();
    accept_limit = 50 * TF_MS;
    int fd = raw_client();
    run_until(acceptor_ended);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_TIMEOUT);
    uint8_t byte;
    ck_assert_int_eq(read(fd, &byte, 1), 0); /* it is closed for the client, too */
    close(fd);
    tear_down();
}
END_TEST

static int trickle_fd;

static void on_trickle(evutil_socket_t fd, short what, void *arg)
{
    static const uint8_t beginning[] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03};
    static size_t at;
    (void)fd, (void)what, (void)arg;
    ssize_t sent = send(trickle_fd, &beginning[at++ % sizeof(beginning)], 1, MSG_NOSIGNAL);
    ck_assert(sent == 1 || acceptor.ended);
}

START_TEST(stream_slow_client_meets_the_limit)
{
    set_up();
    accept_limit = 100 * TF_MS;
    trickle_fd = raw_client();
    struct event *tick = event_new(base, -1, EV_PERSIST, on_trickle, NULL);
    const struct timeval span = {0, 15000};
    event_add(tick, &span);
    run_until(acceptor_ended);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_TIMEOUT);
    event_free(tick);
    close(trickle_fd);
    tear_down();
}
END_TEST

START_TEST(stream_end_of_tcp_without_close_is_truncated)
{
    set_up();
    connect_both();
    ck_assert_int_eq(shutdown(accepted_fd, SHUT_WR), 0);
    run_until(dialler_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_TRUNCATED);
    ck_assert(dialler.end.opened);
    tear_down();
}
END_TEST

static void reset_connection(void)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    ck_assert_int_eq(connect(accepted_fd, &none, sizeof(none)), 0);
}

START_TEST(stream_reset_is_reported_with_its_errno)
{
    set_up();
    connect_both();
    reset_connection();
    run_until(dialler_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_RESET);
    ck_assert_int_eq(dialler.end.system_error, ECONNRESET);
    tear_down();
}
END_TEST

START_TEST(stream_write_after_a_reset_is_reported_later)
{
    set_up();
    connect_both();
    reset_connection();
    dialler.to_send = 100;
    pump(&dialler); /* no callback from in here */
    ck_assert(!dialler.ended);
    run_until(dialler_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_RESET);
    tear_down();
}
END_TEST

START_TEST(stream_bad_record_ends_only_that_stream)
{
    static const uint8_t record[] = {0x17, 0x03, 0x03, 0x00, 0x14, 1,  2,  3,  4,  5,  6,  7, 8,
                                     9,    10,   11,   12,   13,   14, 15, 16, 17, 18, 19, 20};
    set_up();
    connect_both();
    ck_assert_int_eq(send(accepted_fd, record, sizeof(record), 0), sizeof(record));
    run_until(both_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_PROTOCOL);
    tear_down();
}
END_TEST

/* -- dialling ------------------------------------------------------------------------------------------------------ */

START_TEST(stream_closed_port_is_unreachable)
{
    set_up();
    int holder;
    tf_address closed = closed_port(&holder);
    ck_assert_int_eq(dial_to(&closed, 1, NULL, LIMIT), TF_OK);
    run_until(dialler_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_UNREACHABLE);
    ck_assert_int_eq(dialler.end.system_error, ECONNREFUSED);
    ck_assert_ptr_nonnull(strstr(dialler.end.text, "127.0.0.1:"));
    close(holder);
    tear_down();
}
END_TEST

START_TEST(stream_next_address_is_tried)
{
    set_up();
    int holder;
    tf_address addresses[] = {closed_port(&holder), loopback(1), *tf_listener_local(listener)};
    ck_assert_int_eq(dial_to(addresses, 3, NULL, LIMIT), TF_OK);
    run_until(both_open);
    close(holder);
    tear_down();
}
END_TEST

START_TEST(stream_no_address_is_a_usage_error)
{
    set_up();
    ck_assert_int_eq(dial_to(NULL, 0, NULL, LIMIT), TF_ERR_USAGE);
    ck_assert_ptr_null(dialler.stream);
    tear_down();
}
END_TEST

START_TEST(stream_server_that_says_nothing_meets_the_limit_and_the_next_is_tried)
{
    set_up();
    tf_address silent = loopback(0);
    int fd = tf_listen_tcp(&silent);
    socklen_t len = sizeof(silent.u.v4);
    ck_assert_int_eq(getsockname(fd, &silent.u.any, &len), 0);
    ck_assert_int_eq(dial_to(&silent, 1, NULL, 50 * TF_MS), TF_OK);
    run_until(dialler_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_TIMEOUT);
    memset(&dialler, 0, sizeof(dialler));
    const tf_address both[] = {silent, *tf_listener_local(listener)};
    ck_assert_int_eq(dial_to(both, 2, NULL, 2 * TF_SECOND), TF_OK);
    run_until(both_open);
    close(fd);
    tear_down();
}
END_TEST

static void answer_garbage(void *ctx, int fd, const tf_address *peer)
{
    static const char banner[] = "220 mail.example ESMTP ready\r\n";
    (void)ctx, (void)peer;
    ck_assert_int_eq(send(fd, banner, sizeof(banner), 0), sizeof(banner));
    close(fd);
}

START_TEST(stream_server_without_tls_is_a_protocol_error)
{
    set_up();
    tf_listener *mail = NULL;
    tf_address at = loopback(0);
    const tf_listener_config config = {.base = base, .mem = mem, .accepted = answer_garbage};
    ck_assert_int_eq(tf_listener_new(&mail, tf_listen_tcp(&at), &config), TF_OK);
    int holder;
    const tf_address addresses[] = {*tf_listener_local(mail), closed_port(&holder)};
    ck_assert_int_eq(dial_to(addresses, 2, NULL, LIMIT), TF_OK); /* what got furthest is told */
    run_until(dialler_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_PROTOCOL);
    close(holder);
    tf_listener_free(mail);
    tear_down();
}
END_TEST

START_TEST(stream_leaves_by_the_bound_address)
{
    set_up();
    tf_bind bind;
    ck_assert_int_eq(tf_bind_parse(&bind, tf_slice_str("127.0.0.9")), TF_OK);
    ck_assert_int_eq(dial_to(tf_listener_local(listener), 1, &bind, LIMIT), TF_OK);
    run_until(both_open);
    ck_assert(tf_address_same_host(tf_stream_remote(acceptor.stream), &bind.address));
    tear_down();
}
END_TEST

START_TEST(stream_bound_to_another_family_is_unreachable)
{
    set_up();
    tf_bind bind;
    ck_assert_int_eq(tf_bind_parse(&bind, tf_slice_str("[::1]")), TF_OK);
    ck_assert_int_eq(dial_to(tf_listener_local(listener), 1, &bind, LIMIT), TF_OK);
    run_until(dialler_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_UNREACHABLE);
    ck_assert_int_eq(dialler.end.system_error, EADDRNOTAVAIL);
    tear_down();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {stream_key_that_is_not_let_in_is_told_so,
                                  stream_wrong_pin_ends_with_auth,
                                  stream_garbage_ends_only_that_stream,
                                  stream_client_that_goes_away_ends_truncated,
                                  stream_silent_client_meets_the_limit,
                                  stream_slow_client_meets_the_limit,
                                  stream_end_of_tcp_without_close_is_truncated,
                                  stream_reset_is_reported_with_its_errno,
                                  stream_write_after_a_reset_is_reported_later,
                                  stream_bad_record_ends_only_that_stream,
                                  stream_closed_port_is_unreachable,
                                  stream_next_address_is_tried,
                                  stream_no_address_is_a_usage_error,
                                  stream_server_that_says_nothing_meets_the_limit_and_the_next_is_tried,
                                  stream_server_without_tls_is_a_protocol_error,
                                  stream_leaves_by_the_bound_address,
                                  stream_bound_to_another_family_is_unreachable,
                                  NULL};
    return tf_test_run("paths/stream, peers", tests);
}
