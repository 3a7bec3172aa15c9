/* paths/stream and paths/listener over sockets whose calls fail: short reads and writes, calls that are put off, errors at
 * any call. What was sent arrives whole, or both ends are told that it does not; nothing leaks. */
#include "tests/support/faulty_sockets.h"
#include "tests/unit/stream_ends.h"

#define BYTES 3000u

static bool is_over(void)
{
    bool no_acceptor = acceptor.ended || (acceptor.stream == NULL && !acceptor.opened);
    return (both_open() && all_arrived()) || (dialler.ended && no_acceptor);
}

/* Both write as soon as they are open. True: all arrived. */
static bool exchange(void)
{
    set_up();
    dialler.to_send = BYTES;
    acceptor.to_send = BYTES + 1;
    dialler.write_when_opened = acceptor.write_when_opened = true;
    dial();
    run_until(is_over);
    bool arrived = both_open() && all_arrived();
    ck_assert(!dialler.wrong && !acceptor.wrong);
    if (!arrived) {
        ck_assert_uint_gt(strlen(dialler.text), 0);
    }
    tear_down();
    return arrived;
}

START_TEST(stream_cut_reads_and_writes_arrive_whole)
{
    static const size_t most[] = {1, 2, 5, 100, 4000};
    for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
        tf_faulty_sockets_cut(most[i]);
        ck_assert(exchange());
        tf_faulty_sockets_reset();
    }
}
END_TEST

/* The k-th call says "later" although it need not: nobody waits for what does not come. */
START_TEST(stream_call_that_is_put_off_costs_nothing)
{
    static const int errors[] = {EAGAIN, EINTR};
    for (size_t i = 0; i < 2; i++) {
        uint64_t k = 0;
        bool failed = true;
        for (; failed; k++) {
            tf_faulty_sockets_fail(TF_CALLS_STREAM | TF_CALLS_ACCEPT, k, errors[i]);
            ck_assert_msg(exchange(), "call %u, %s", (unsigned)k, strerror(errors[i]));
            failed = tf_faulty_sockets_failures() > 0;
        }
        ck_assert_uint_gt(k, 8);
    }
    tf_faulty_sockets_reset();
}
END_TEST

START_TEST(stream_call_that_fails_is_told_to_both_ends)
{
    static const int errors[] = {ECONNRESET, EPIPE, ENOBUFS, ETIMEDOUT, EIO};
    unsigned files = tf_test_open_files();
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        unsigned ended = 0;
        bool failed = true;
        for (uint64_t k = 0; failed; k++) {
            tf_faulty_sockets_fail(TF_CALLS_STREAM, k, errors[i]);
            ended += exchange() ? 0 : 1;
            failed = tf_faulty_sockets_failures() > 0;
            ck_assert_uint_eq(tf_test_open_files(), files);
        }
        ck_assert_uint_gt(ended, 4);
    }
    tf_faulty_sockets_reset();
}
END_TEST

/* -- dialling ------------------------------------------------------------------------------------------------------ */

/* The first address meets the fault, the second is the same once more. */
START_TEST(stream_address_without_a_socket_is_passed_over)
{
    static const int errors[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM, EACCES, ENETUNREACH, EADDRNOTAVAIL, ECONNREFUSED};
    static const unsigned calls[] = {TF_CALLS_SOCKET, TF_CALLS_CONNECT};
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        for (size_t c = 0; c < 2; c++) {
            set_up();
            const tf_address both[2] = {*tf_listener_local(listener), *tf_listener_local(listener)};
            tf_faulty_sockets_fail(calls[c], 0, errors[i]);
            ck_assert_int_eq(dial_to(both, 2, NULL, LIMIT), TF_OK);
            run_until(both_open);
            ck_assert_uint_eq(tf_faulty_sockets_failures(), 1);
            tear_down();
            set_up();
            tf_faulty_sockets_fail(calls[c], 0, errors[i]);
            ck_assert_int_eq(dial_to(both, 1, NULL, LIMIT), TF_OK);
            run_until(dialler_ended);
            ck_assert(dialler.end.reason == TF_STREAM_UNREACHABLE || dialler.end.reason == TF_STREAM_INTERNAL);
            ck_assert_int_eq(dialler.end.system_error, errors[i]);
            tear_down();
        }
    }
    tf_faulty_sockets_reset();
}
END_TEST

/* -- accepting ----------------------------------------------------------------------------------------------------- */

static unsigned let_in_count;

static void on_client(void *ctx, int fd, const tf_address *peer)
{
    (void)ctx, (void)peer;
    let_in_count++;
    close(fd);
}

static bool both_are_in(void)
{
    return let_in_count == 2;
}

static bool one_is_in(void)
{
    return let_in_count == 1;
}

/* It goes on by itself, at once or after a pause; where descriptors were short one client is turned away. */
START_TEST(listener_accept_that_fails_goes_on_later)
{
    static const struct {
        int error;
        bool turns_away;
    } rows[] = {{EMFILE, true},        {ENFILE, true}, {ENOBUFS, true}, {ENOMEM, true},  {EINTR, false},
                {ECONNABORTED, false}, {EPROTO, false}, {EAGAIN, false}, {ENETDOWN, false}, {EHOSTUNREACH, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_listener *accepting = NULL;
        tf_listener_stats stats;
        set_up();
        const tf_address any = loopback(0);
        const tf_listener_config config = {.base = base, .mem = mem, .accepted = on_client};
        ck_assert_int_eq(tf_listener_new(&accepting, tf_listen_tcp(&any), &config), TF_OK);
        const tf_address *to = tf_listener_local(accepting);
        let_in_count = 0;
        int clients[2];
        for (size_t c = 0; c < 2; c++) {
            clients[c] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            ck_assert_int_eq(connect(clients[c], &to->u.any, to->len), 0);
        }
        tf_faulty_sockets_fail(TF_CALLS_ACCEPT, 0, rows[i].error);
        run_until(rows[i].turns_away ? one_is_in : both_are_in);
        tf_listener_get_stats(accepting, &stats);
        ck_assert_uint_eq(stats.turned_away, rows[i].turns_away ? 1 : 0);
        close(clients[0]);
        close(clients[1]);
        tf_listener_free(accepting);
        tear_down();
    }
    tf_faulty_sockets_reset();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {stream_cut_reads_and_writes_arrive_whole,
                                  stream_call_that_is_put_off_costs_nothing,
                                  stream_call_that_fails_is_told_to_both_ends,
                                  stream_address_without_a_socket_is_passed_over,
                                  listener_accept_that_fails_goes_on_later,
                                  NULL};
    return tf_test_run_waiting("paths/faults", tests);
}
