/* paths/link and a peer whose datagrams come from another address: what it is asked, under which keys, and what its answers
 * prove (L9, L10). */
#include "tests/unit/link_peer.h"

#define SMALLEST_PACKET (TF_PACKET_HEADER + TF_FRAME_HEADER + TF_PACKET_TAG)

typedef struct asked {
    unsigned count;
    uint64_t generation; /* of the last one */
    uint64_t number;
    uint64_t token;
    size_t bytes; /* of all, as UDP payload */
} asked;

/* The challenges that go out now: those for the address under test and those for the one in use, by generation (1 or 2),
 * and those for both, which are whole base packets. */
typedef struct challenges {
    asked candidate[3];
    asked current[3];
    asked both[3];
} challenges;

static void note(asked *a, const link_peer *p)
{
    a->count++;
    a->generation = p->packet.generation;
    a->number = p->packet.number;
    a->token = link_peer_get(p, TF_FRAME_CHALLENGE)->u.token;
    a->bytes += p->packet.len + TF_PACKET_HEADER + TF_PACKET_TAG;
}

static challenges pull(link_peer *p)
{
    challenges all = {0};
    while (link_peer_pull_packet(p)) {
        ck_assert_uint_lt(p->packet.generation, 3);
        if (link_peer_find(p, TF_FRAME_CHALLENGE) == NULL) {
            continue;
        }
        if (p->packet.to_candidate) {
            note(&all.candidate[p->packet.generation], p);
        } else if (p->packet.to_current_only) {
            note(&all.current[p->packet.generation], p);
        } else {
            note(&all.both[p->packet.generation], p);
            ck_assert_uint_eq(p->packet.len, TF_PACKET_PLAIN_BASE);
        }
    }
    return all;
}

/* Generation 1 works; 2 was agreed on, and its first challenge was not answered. */
static void make_two_generations(link_peer *p)
{
    link_peer_defaults(p);
    link_peer_new(p);
    link_peer_up(p, 1);
    tf_link_datagram_up(p->link, p->now, 2);
    link_peer_drain(p);
    p->now += TF_MS;
}

static bool take_event(link_peer *p, tf_link_event_type type, tf_link_event *out)
{
    while (tf_link_next_event(p->link, out)) {
        if (out->type == type) {
            return true;
        }
    }
    return false;
}

static void ack(link_peer *p, const asked *packet)
{
    const tf_frame frame = link_peer_packet_ack(packet->generation, packet->number, packet->number);
    ck_assert_int_eq(link_peer_send_one(p, frame), TF_OK);
}

static void respond(link_peer *p, const asked *packet)
{
    ck_assert_int_eq(link_peer_send_one(p, link_peer_token(TF_FRAME_RESPONSE, packet->token)), TF_OK);
}

START_TEST(link_move_asks_both_addresses_under_all_keys)
{
    link_peer p;
    make_two_generations(&p);
    tf_link_datagram_moved(p.link, p.now);
    const challenges all = pull(&p);
    ck_assert_uint_eq(all.both[2].count, 1);
    ck_assert_uint_eq(all.both[1].count, 0);
    for (size_t generation = 1; generation <= 2; generation++) {
        ck_assert_uint_eq(all.candidate[generation].count, 1);
        ck_assert_uint_eq(all.current[generation].count, 1);
        ck_assert_uint_ne(all.candidate[generation].token, all.current[generation].token);
    }
    /* Whatever made the address known allows for as much (three times its size). */
    ck_assert_uint_le(all.candidate[1].bytes + all.candidate[2].bytes, (size_t)3 * SMALLEST_PACKET);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_move_asks_again_until_it_is_answered)
{
    link_peer p;
    make_two_generations(&p);
    tf_link_datagram_moved(p.link, p.now);
    const challenges first = pull(&p);
    link_peer_wait(&p, tf_link_deadline(p.link) - p.now);
    const challenges again = pull(&p);
    ck_assert_uint_eq(again.candidate[2].count, 1);
    ck_assert_uint_eq(again.candidate[2].token, first.candidate[2].token);
    respond(&p, &again.candidate[2]);
    ck_assert(tf_link_datagram_move_answered(p.link));
    (void)pull(&p);
    unsigned current = 0;
    tf_link_event event;
    while (!take_event(&p, TF_LINK_EVENT_MOVED, &event)) {
        link_peer_wait(&p, tf_link_deadline(p.link) - p.now);
        const challenges later = pull(&p);
        ck_assert_uint_eq(later.candidate[1].count + later.candidate[2].count, 0);
        current += later.current[2].count;
    }
    ck_assert(event.moved);
    ck_assert_uint_gt(current, 0); /* which still may answer, and keep its place */
    link_peer_free(&p);
}
END_TEST

/* After round trips of this route, whatever the other's are: nothing is known of the stream's here. */
START_TEST(link_move_asks_again_as_often_as_the_route_allows)
{
    link_peer p;
    make_two_generations(&p);
    tf_link_datagram_moved(p.link, p.now);
    (void)pull(&p);
    const tf_time begin = p.now;
    for (unsigned times = 0; times < 3;) {
        link_peer_wait(&p, tf_link_deadline(p.link) - p.now);
        times += pull(&p).candidate[2].count;
    }
    ck_assert_uint_lt(p.now - begin, 200 * TF_MS);
    link_peer_free(&p);
}
END_TEST

/* What may be in flight there is not known yet. */
START_TEST(link_move_begins_with_a_new_window)
{
    static const uint8_t bytes[1000];
    link_peer p;
    tf_link_event event;
    link_peer_defaults(&p);
    p.config.send_data = TF_ROUTES_DATAGRAM;
    p.config.send_window_segments = 1024;
    p.config.send_window_bytes = 1u << 20;
    link_peer_new(&p);
    link_peer_up(&p, 1);
    for (unsigned i = 0; i < 20; i++) {
        for (unsigned k = 0; k < 100; k++) {
            ck_assert_int_eq(tf_link_send(p.link, p.now, tf_slice_of(bytes, sizeof(bytes))), TF_OK);
        }
        for (unsigned ms = 0; ms < 20; ms++) { /* the pacer has them wait */
            link_peer_drain(&p);
            link_peer_wait(&p, TF_MS);
        }
        ck_assert_int_eq(link_peer_send_one(&p, link_peer_packet_ack(1, 0, p.packet.number)), TF_OK);
        ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(tf_link_send_next(p.link))), TF_OK);
    }
    ck_assert_uint_gt(link_peer_stats(&p, TF_ROUTE_DATAGRAM).cwnd, (size_t)(TF_CWND_INITIAL));
    tf_link_datagram_moved(p.link, p.now);
    const challenges all = pull(&p);
    respond(&p, &all.candidate[1]);
    while (!take_event(&p, TF_LINK_EVENT_MOVED, &event)) {
        const tf_time due = tf_link_deadline(p.link);
        link_peer_wait(&p, due > p.now ? due - p.now : 0);
        link_peer_drain(&p);
    }
    ck_assert(event.moved);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).cwnd, (size_t)(TF_CWND_INITIAL));
    link_peer_free(&p);
}
END_TEST

START_TEST(link_move_is_off_when_the_old_address_answers_under_the_newest_keys)
{
    link_peer p;
    make_two_generations(&p);
    tf_link_datagram_moved(p.link, p.now);
    const challenges all = pull(&p);
    respond(&p, &all.candidate[2]);
    respond(&p, &all.current[2]);
    tf_link_event event;
    ck_assert(take_event(&p, TF_LINK_EVENT_MOVED, &event));
    ck_assert(!event.moved);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_move_small_packet_that_is_acked_confirms_no_keys)
{
    link_peer p;
    tf_link_event event;
    make_two_generations(&p);
    tf_link_datagram_moved(p.link, p.now);
    const challenges all = pull(&p);
    ack(&p, &all.candidate[2]);
    ack(&p, &all.current[2]);
    ck_assert(!take_event(&p, TF_LINK_EVENT_CONFIRMED, &event));
    ack(&p, &all.both[2]);
    ck_assert(take_event(&p, TF_LINK_EVENT_CONFIRMED, &event));
    ck_assert_uint_eq(event.generation, 2);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_move_answer_has_the_newest_keys_proved_at_once)
{
    link_peer p;
    tf_link_event event;
    make_two_generations(&p);
    tf_link_datagram_moved(p.link, p.now);
    const challenges all = pull(&p);
    respond(&p, &all.candidate[2]);
    ck_assert(!take_event(&p, TF_LINK_EVENT_CONFIRMED, &event));
    const challenges then = pull(&p);
    ck_assert_uint_eq(then.both[2].count, 1);
    ack(&p, &then.both[2]);
    ck_assert(take_event(&p, TF_LINK_EVENT_CONFIRMED, &event));
    respond(&p, &all.candidate[2]); /* a second time: nothing is asked again */
    ck_assert_uint_eq(pull(&p).both[2].count, 0);
    link_peer_free(&p);
}
END_TEST

/* And again, as often as round trips of this route allow. */
START_TEST(link_move_newest_keys_are_asked_again)
{
    link_peer p;
    make_two_generations(&p);
    tf_link_datagram_moved(p.link, p.now);
    const challenges all = pull(&p);
    respond(&p, &all.candidate[2]);
    ck_assert_uint_eq(pull(&p).both[2].count, 1);
    const tf_time begin = p.now;
    while (pull(&p).both[2].count == 0) {
        link_peer_wait(&p, tf_link_deadline(p.link) - p.now);
    }
    ck_assert_uint_lt(p.now - begin, 100 * TF_MS);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_move_small_packet_that_is_acked_revives_no_route)
{
    link_peer p;
    tf_link_event event;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    tf_link_datagram_down(p.link, p.now);
    link_peer_drain(&p);
    tf_link_datagram_moved(p.link, p.now);
    const challenges all = pull(&p);
    ack(&p, &all.candidate[1]);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_DATAGRAM), TF_VERDICT_DOWN);
    respond(&p, &all.candidate[1]);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_DATAGRAM), TF_VERDICT_DOWN);
    ck_assert(link_peer_pull_packet(&p)); /* probed at once, with a base packet */
    ck_assert_uint_eq(p.packet.len, TF_PACKET_PLAIN_BASE);
    const uint64_t token = link_peer_get(&p, TF_FRAME_PING)->u.token;
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_token(TF_FRAME_PONG, token)), TF_OK);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_DATAGRAM), TF_VERDICT_UP);
    ck_assert(!take_event(&p, TF_LINK_EVENT_MOVED, &event)); /* the old one still has its time */
    link_peer_free(&p);
}
END_TEST

/* An answer that nobody asked for, with whatever token, is none. */
START_TEST(link_move_answer_without_a_test_moves_nothing)
{
    static const uint64_t tokens[] = {0, 1, UINT64_MAX};
    link_peer p;
    tf_link_event event;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        ck_assert_int_eq(link_peer_send_one(&p, link_peer_token(TF_FRAME_RESPONSE, tokens[i])), TF_OK);
        ck_assert(!take_event(&p, TF_LINK_EVENT_MOVED, &event));
        ck_assert(!tf_link_datagram_move_answered(p.link));
    }
    link_peer_free(&p);
}
END_TEST

START_TEST(link_move_measures_no_round_trips_meanwhile)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    tf_link_datagram_moved(p.link, p.now);
    const uint64_t samples = link_peer_stats(&p, TF_ROUTE_DATAGRAM).rtt_samples;
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    link_peer_drain(&p);
    p.now += TF_MS;
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_packet_ack(1, 0, p.packet.number)), TF_OK);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).in_flight, 0);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).rtt_samples, samples);
    link_peer_free(&p);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        link_move_asks_both_addresses_under_all_keys,
        link_move_asks_again_until_it_is_answered,
        link_move_asks_again_as_often_as_the_route_allows,
        link_move_begins_with_a_new_window,
        link_move_is_off_when_the_old_address_answers_under_the_newest_keys,
        link_move_small_packet_that_is_acked_confirms_no_keys,
        link_move_answer_has_the_newest_keys_proved_at_once,
        link_move_newest_keys_are_asked_again,
        link_move_small_packet_that_is_acked_revives_no_route,
        link_move_answer_without_a_test_moves_nothing,
        link_move_measures_no_round_trips_meanwhile,
        NULL,
    };
    return tf_test_run("paths/link, a new address", tests);
}
