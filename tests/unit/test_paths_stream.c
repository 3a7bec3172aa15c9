/* Streams over loopback: bytes, back-pressure, endings, memory. */
#include "tests/unit/stream_ends.h"

/* -- bytes --------------------------------------------------------------------------------------------------------- */

START_TEST(stream_dial_opens_with_the_proved_keys)
{
    set_up();
    connect_both();
    ck_assert(tf_node_id_eq(&dialler.peer, tf_identity_node_id(identities[1])));
    ck_assert(tf_node_id_eq(&acceptor.peer, tf_identity_node_id(identities[0])));
    ck_assert(tf_address_eq(tf_stream_remote(dialler.stream), tf_listener_local(listener)));
    ck_assert(tf_address_eq(tf_stream_local(dialler.stream), tf_stream_remote(acceptor.stream)));
    ck_assert(tf_address_eq(tf_stream_remote(dialler.stream), tf_stream_local(acceptor.stream)));
    ck_assert_uint_eq(tf_stream_room(dialler.stream), TF_STREAM_RECORD);
    tear_down();
}
END_TEST

START_TEST(stream_bytes_arrive_in_both_directions)
{
    set_up();
    connect_both();
    dialler.to_send = 5u * 1024u * 1024u + 17u;
    acceptor.to_send = 3u * 1024u * 1024u + 1u;
    pump(&dialler);
    pump(&acceptor);
    run_until(all_arrived);
    ck_assert(!dialler.wrong && !acceptor.wrong);
    ck_assert_uint_le(acceptor.most_waiting, TF_STREAM_IN);
    tf_stream_stats stats;
    tf_stream_get_stats(dialler.stream, &stats);
    ck_assert_uint_eq(stats.written_bytes, dialler.sent);
    ck_assert_uint_eq(stats.read_bytes, acceptor.sent);
    tear_down();
}
END_TEST

START_TEST(stream_small_writes_come_in_few_turns)
{
    set_up();
    connect_both();
    for (int i = 0; i < 64; i++) {
        dialler.to_send = 100;
        pump(&dialler);
    }
    run_until(all_arrived);
    ck_assert(!acceptor.wrong);
    ck_assert_uint_lt(acceptor.readable_calls, 32);
    tear_down();
}
END_TEST

START_TEST(stream_bytes_right_behind_the_handshake_arrive)
{
    set_up();
    dialler.write_when_opened = true;
    dialler.to_send = 1000;
    acceptor.write_when_opened = true;
    acceptor.to_send = 2000;
    connect_both();
    run_until(all_arrived);
    ck_assert(!dialler.wrong && !acceptor.wrong);
    tear_down();
}
END_TEST

static bool acceptor_is_full(void)
{
    return acceptor.most_waiting == TF_STREAM_IN && tf_stream_room(dialler.stream) == 0;
}

static bool acceptor_has_some(void)
{
    return acceptor.most_waiting > 0 && tf_stream_in(acceptor.stream).len == 100;
}

static void on_readable_later(void)
{
    acceptor.keep = false;
    on_readable(&acceptor, acceptor.stream);
}

START_TEST(stream_owner_that_takes_nothing_stops_the_sender)
{
    set_up();
    connect_both();
    acceptor.keep = true;
    dialler.to_send = 64u * 1024u * 1024u;
    pump(&dialler);
    run_until(acceptor_is_full);
    unsigned calls = acceptor.readable_calls;
    for (int i = 0; i < 50; i++) {
        ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK), 0);
    }
    ck_assert_uint_eq(acceptor.readable_calls, calls); /* it is not asked again and again */
    ck_assert_uint_lt(dialler.sent, 32u * 1024u * 1024u);
    dialler.to_send = 1;
    on_readable_later();
    run_until(all_arrived);
    ck_assert(!acceptor.wrong);
    tear_down();
}
END_TEST

START_TEST(stream_without_waiting_bytes_holds_no_buffer)
{
    set_up();
    connect_both();
    dialler.to_send = 3u * 1024u * 1024u;
    acceptor.to_send = 3u * 1024u * 1024u;
    pump(&dialler);
    pump(&acceptor);
    run_until(all_arrived);
    acceptor.keep = true;
    dialler.to_send = 100;
    pump(&dialler);
    run_until(acceptor_has_some);
    tf_stream_buffers_clear(&buffers);
    size_t holding = tf_test_heap_shared()->live_bytes;
    on_readable_later(); /* outside of a callback */
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    tf_stream_buffers_clear(&buffers);
    size_t none = tf_test_heap_shared()->live_bytes;
    ck_assert_uint_eq(holding - none, TF_STREAM_IN);
    ck_assert_uint_lt(none, TF_STREAM_RECORD);
    tear_down();
}
END_TEST

/* -- endings ------------------------------------------------------------------------------------------------------- */

START_TEST(stream_close_delivers_the_last_bytes)
{
    set_up();
    connect_both();
    acceptor.to_send = 300000; /* unread by the dialler when it closes: a plain close would be a reset */
    pump(&acceptor);
    dialler.to_send = 10000;
    pump(&dialler);
    ck_assert_uint_eq(dialler.to_send, 0);
    tf_stream_close(dialler.stream, tf_slice_of(NULL, 0));
    run_until(both_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_CLOSED);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_CLOSED);
    ck_assert_uint_eq(acceptor.received, 10000);
    tear_down();
}
END_TEST

static void fill_socket(void)
{
    uint64_t before = UINT64_MAX;
    acceptor.keep = true;
    dialler.to_send = 64u * 1024u * 1024u;
    pump(&dialler);
    while (dialler.sent != before) {
        before = dialler.sent;
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
    }
    ck_assert_uint_gt(dialler.to_send, 0);
    ck_assert_uint_eq(tf_stream_room(dialler.stream), 0);
    dialler.to_send = 0;
}

static void close_with_last_word(void)
{
    uint8_t last[1000];
    for (size_t i = 0; i < sizeof(last); i++) {
        last[i] = (uint8_t)(dialler.sent + i);
    }
    tf_stream_close(dialler.stream, tf_slice_of(last, sizeof(last)));
    dialler.sent += sizeof(last);
}

START_TEST(stream_close_delivers_the_last_word)
{
    set_up();
    connect_both();
    close_with_last_word();
    run_until(both_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_CLOSED);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_CLOSED);
    ck_assert_uint_eq(acceptor.received, 1000);
    ck_assert(!acceptor.wrong);
    tear_down();
}
END_TEST

START_TEST(stream_close_of_a_full_one_delivers_the_last_word)
{
    set_up();
    connect_both();
    fill_socket();
    close_with_last_word();
    on_readable_later();
    run_until(both_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_CLOSED);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_CLOSED);
    ck_assert_uint_eq(acceptor.received, dialler.sent);
    ck_assert(!acceptor.wrong);
    tear_down();
}
END_TEST

START_TEST(stream_close_that_is_cut_short_says_what_the_socket_takes)
{
    set_up();
    connect_both();
    close_with_last_word();
    release_end(&dialler);
    run_until(acceptor_ended);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_CLOSED);
    ck_assert_uint_eq(acceptor.received, 1000);
    tear_down();
}
END_TEST

/* Unless the system has found room since then. */
START_TEST(stream_close_of_a_full_one_that_is_cut_short_is_truncated)
{
    set_up();
    connect_both();
    fill_socket();
    close_with_last_word();
    release_end(&dialler);
    on_readable_later();
    run_until(acceptor_ended);
    ck_assert(acceptor.end.reason == TF_STREAM_TRUNCATED || acceptor.received == dialler.sent);
    ck_assert(!acceptor.wrong);
    tear_down();
}
END_TEST

/* Of the copy, or of the buffer that it goes out from. */
START_TEST(stream_close_without_memory_for_the_last_word_ends_without_it)
{
    for (uint64_t k = 0; k < 2; k++) {
        set_up();
        connect_both();
        tf_stream_buffers_clear(&buffers);
        tf_test_heap_fail_at(tf_test_heap_shared(), k, false);
        close_with_last_word();
        run_until(both_ended);
        tf_test_heap_fail_never(tf_test_heap_shared());
        ck_assert_int_eq(dialler.end.reason, TF_STREAM_CLOSED);
        ck_assert_int_eq(acceptor.end.reason, TF_STREAM_CLOSED);
        ck_assert_uint_eq(acceptor.received, 0);
        tear_down();
    }
}
END_TEST

START_TEST(stream_free_is_a_clean_close_for_the_peer)
{
    set_up();
    connect_both();
    release_end(&dialler);
    run_until(acceptor_ended);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_CLOSED);
    tear_down();
}
END_TEST

START_TEST(stream_may_be_freed_in_every_callback)
{
    for (int which = 0; which < 3; which++) {
        set_up();
        dialler.write_when_opened = true;
        dialler.to_send = 100000;
        acceptor.free_when_opened = which == 0;
        acceptor.free_when_readable = which == 1;
        acceptor.free_when_writable = which == 2;
        acceptor.write_when_opened = true;
        acceptor.to_send = 64u * 1024u * 1024u;
        dial();
        while (!acceptor.opened || acceptor.stream != NULL) {
            ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
        }
        tear_down();
    }
}
END_TEST

START_TEST(stream_may_be_freed_at_every_step)
{
    for (int steps = 0; steps < 12; steps++) {
        set_up();
        dialler.to_send = acceptor.to_send = 1000000;
        dialler.write_when_opened = acceptor.write_when_opened = true;
        dial();
        for (int i = 0; i < steps; i++) {
            ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK), 0);
        }
        tear_down();
    }
}
END_TEST

static bool both_settled(void)
{
    return (dialler.opened || dialler.ended) && (acceptor.opened || acceptor.ended);
}

/* Every allocation in turn fails: the stream is not made, or ends and says so; nothing leaks (tear_down looks). */
START_TEST(stream_without_memory_ends_or_is_not_made)
{
    bool failed = true;
    for (uint64_t k = 0; failed; k++) {
        set_up();
        uint64_t before = tf_test_heap_shared()->failures;
        tf_test_heap_fail_at(tf_test_heap_shared(), k, false);
        tf_err err = dial_to(tf_listener_local(listener), 1, NULL, LIMIT);
        ck_assert(err == TF_OK || err == TF_ERR_NOMEM);
        if (err == TF_OK) {
            run_until(both_settled);
        }
        failed = tf_test_heap_shared()->failures > before;
        tf_test_heap_fail_never(tf_test_heap_shared());
        ck_assert(failed || (dialler.opened && acceptor.opened));
        tear_down();
    }
}
END_TEST

static bool acceptor_waits_full(void)
{
    return acceptor.most_waiting == TF_STREAM_IN;
}

START_TEST(stream_without_memory_for_its_input_ends)
{
    set_up();
    connect_both();
    dialler.to_send = 1;
    pump(&dialler);
    tf_stream_buffers_clear(&buffers);
    tf_test_heap_fail_at(tf_test_heap_shared(), 0, true);
    run_until(acceptor_ended);
    tf_test_heap_fail_never(tf_test_heap_shared());
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_INTERNAL);
    ck_assert_int_eq(acceptor.end.system_error, ENOMEM);
    tear_down();
}
END_TEST

START_TEST(stream_without_memory_for_the_rest_of_a_record_ends)
{
    set_up();
    connect_both();
    acceptor.keep = true;
    dialler.to_send = TF_STREAM_IN;
    pump(&dialler);
    run_until(acceptor_waits_full); /* from now on it reads no more */
    tf_stream_buffers_clear(&buffers);
    tf_test_heap_fail_at(tf_test_heap_shared(), 0, true);
    dialler.to_send = 64u * 1024u * 1024u;
    pump(&dialler);
    run_until(dialler_ended);
    tf_test_heap_fail_never(tf_test_heap_shared());
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_INTERNAL);
    ck_assert_int_eq(dialler.end.system_error, ENOMEM);
    tear_down();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {stream_dial_opens_with_the_proved_keys,
                                  stream_bytes_arrive_in_both_directions,
                                  stream_small_writes_come_in_few_turns,
                                  stream_bytes_right_behind_the_handshake_arrive,
                                  stream_without_waiting_bytes_holds_no_buffer,
                                  stream_owner_that_takes_nothing_stops_the_sender,
                                  stream_close_delivers_the_last_bytes,
                                  stream_close_delivers_the_last_word,
                                  stream_close_of_a_full_one_delivers_the_last_word,
                                  stream_close_that_is_cut_short_says_what_the_socket_takes,
                                  stream_close_of_a_full_one_that_is_cut_short_is_truncated,
                                  stream_close_without_memory_for_the_last_word_ends_without_it,
                                  stream_free_is_a_clean_close_for_the_peer,
                                  stream_may_be_freed_in_every_callback,
                                  stream_may_be_freed_at_every_step,
                                  stream_without_memory_ends_or_is_not_made,
                                  stream_without_memory_for_its_input_ends,
                                  stream_without_memory_for_the_rest_of_a_record_ends,
                                  NULL};
    return tf_test_run("paths/stream", tests);
}
