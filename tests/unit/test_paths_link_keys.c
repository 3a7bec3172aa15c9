/* paths/link and the generations of datagram keys (PROTOCOL.md L9): challenged, confirmed, retired. */
#include "tests/unit/link_peer.h"

static bool is_told(link_peer *p, tf_link_event_type type, uint64_t generation)
{
    bool told = false;
    tf_link_event event;
    while (tf_link_next_event(p->link, &event)) {
        told = told || (event.type == type && event.generation == generation);
    }
    return told;
}

/* Generation 1 works; 2 was agreed on, and its first packet has just gone out. */
static void begin_second(link_peer *p)
{
    link_peer_defaults(p);
    link_peer_new(p);
    link_peer_up(p, 1);
    tf_link_datagram_up(p->link, p->now, 2);
    ck_assert(link_peer_pull_packet(p));
}

START_TEST(link_unconfirmed_generation_is_only_challenged)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    tf_link_stream_up(p.link, p.now, 4);
    link_peer_drain(&p);
    tf_link_datagram_up(p.link, p.now, 4);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_DATAGRAM), TF_VERDICT_JOINING);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(p.packet.len, TF_PACKET_PLAIN_BASE);
    ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_SEGMENT), 0);
    uint64_t token = link_peer_get(&p, TF_FRAME_CHALLENGE)->u.token;
    ck_assert(!link_peer_pull_packet(&p));
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_token(TF_FRAME_RESPONSE, token + 1)), TF_OK);
    ck_assert(!link_peer_pull_packet(&p));
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_token(TF_FRAME_RESPONSE, token)), TF_OK);
    tf_link_event event;
    ck_assert(tf_link_next_event(p.link, &event));
    ck_assert_int_eq(event.type, TF_LINK_EVENT_CONFIRMED);
    ck_assert_uint_eq(event.generation, 4);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_DATAGRAM), TF_VERDICT_UP);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_SEGMENT), 1);
    link_peer_free(&p);
}
END_TEST

/* The peer may be further than we are: what it asks while we still wait for its answer is answered none the less. */
START_TEST(link_probe_that_comes_while_joining_is_answered)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    tf_link_stream_up(p.link, p.now, 4);
    link_peer_drain(&p);
    tf_link_datagram_up(p.link, p.now, 4);
    ck_assert(link_peer_pull_packet(&p));
    uint64_t token = link_peer_get(&p, TF_FRAME_CHALLENGE)->u.token;
    ck_assert_int_eq(link_peer_send_packet_one(&p, 4, link_peer_token(TF_FRAME_PING, 77)), TF_OK);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_token(TF_FRAME_RESPONSE, token)), TF_OK);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_DATAGRAM), TF_VERDICT_UP);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(link_peer_get(&p, TF_FRAME_PONG)->u.token, 77);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_keys_are_retired_when_both_directions_work)
{
    link_peer p;
    begin_second(&p);
    ck_assert_uint_eq(p.packet.generation, 2);
    ck_assert_uint_eq(p.packet.number, 0);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(p.packet.generation, 1);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_packet_ack(2, 0, 0)), TF_OK);
    tf_link_event event;
    ck_assert(tf_link_next_event(p.link, &event));
    ck_assert_int_eq(event.type, TF_LINK_EVENT_CONFIRMED);
    ck_assert_int_eq(link_peer_say(&p, "y"), TF_OK);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(p.packet.generation, 2);
    ck_assert_uint_eq(p.packet.number, 1);
    link_peer_wait(&p, TF_SECOND); /* nothing of the peer's came under the new keys */
    while (tf_link_next_event(p.link, &event)) {
        ck_assert_int_ne(event.type, TF_LINK_EVENT_RETIRED);
    }
    ck_assert_int_eq(link_peer_send_packet_one(&p, 2, link_peer_ack(0)), TF_OK);
    link_peer_wait(&p, 300 * TF_MS);
    ck_assert(is_told(&p, TF_LINK_EVENT_RETIRED, 1));
    link_peer_free(&p);
}
END_TEST

/* The other way round: the peer's packets come before its answer. */
START_TEST(link_keys_are_retired_when_the_second_direction_is_ours)
{
    link_peer p;
    begin_second(&p);
    ck_assert_int_eq(link_peer_send_packet_one(&p, 2, link_peer_ack(0)), TF_OK);
    link_peer_wait(&p, TF_MS);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_packet_ack(2, 0, 0)), TF_OK);
    ck_assert(is_told(&p, TF_LINK_EVENT_CONFIRMED, 2));
    link_peer_wait(&p, 300 * TF_MS);
    ck_assert(is_told(&p, TF_LINK_EVENT_RETIRED, 1));
    link_peer_free(&p);
}
END_TEST

/* A route that goes down gives up what is in flight under keys that are in use; a challenge under others can still be
 * answered. */
START_TEST(link_challenge_outlives_the_route)
{
    link_peer p;
    begin_second(&p);
    (void)link_peer_get(&p, TF_FRAME_CHALLENGE);
    tf_link_datagram_down(p.link, p.now);
    p.now += TF_MS;
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_packet_ack(2, 0, 0)), TF_OK);
    ck_assert(is_told(&p, TF_LINK_EVENT_CONFIRMED, 2));
    link_peer_free(&p);
}
END_TEST

/* Nothing can go by keys that are not there: no ack waits for them, and nobody is woken for it (P9). */
START_TEST(link_route_without_keys_has_no_acks_to_send)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    tf_link_stream_up(p.link, p.now, 1);
    link_peer_drain(&p);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_message(0, "x")), TF_OK);
    ck_assert_uint_lt(tf_link_deadline(p.link), p.now + TF_SECOND);
    link_peer_wait(&p, TF_LINK_ACK_DELAY - 1);
    ck_assert_int_eq(link_peer_say(&p, "y"), TF_OK);
    ck_assert_uint_gt(link_peer_pull_stream(&p), 0);
    (void)link_peer_get(&p, TF_FRAME_LINK_ACK);
    tf_frame ack = link_peer_ack(1);
    ack.u.link_ack.route_count = 1;
    ack.u.link_ack.routes[0] = (tf_route_count){.route = TF_ROUTE_STREAM, .generation = 1, .bytes = 1, .first = 1};
    ck_assert_int_eq(link_peer_send_one(&p, ack), TF_OK);
    ck_assert_uint_gt(tf_link_deadline(p.link), p.now + 100 * TF_MS);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_keys_it_knows_are_no_news)
{
    link_peer p;
    tf_link_event event;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    tf_link_datagram_up(p.link, p.now, 1);
    ck_assert(!link_peer_pull_packet(&p));
    tf_link_datagram_up(p.link, p.now, 2);
    ck_assert(link_peer_pull_packet(&p));
    tf_link_datagram_up(p.link, p.now, 2); /* it is challenged already */
    ck_assert(!link_peer_pull_packet(&p));
    ck_assert(!tf_link_next_event(p.link, &event));
    link_peer_free(&p);
}
END_TEST

/* What is owed for packets under keys that are gone is owed no more, not even when others take their place. */
START_TEST(link_keys_that_are_gone_are_owed_no_acks)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    for (uint64_t generation = 2; generation < 6; generation++) {
        tf_link_datagram_up(p.link, p.now, generation);
        ck_assert_int_eq(link_peer_send_packet_one(&p, generation, link_peer_message(generation - 2, "x")), TF_OK);
        tf_link_datagram_up(p.link, p.now, 10 * generation);
        ck_assert_int_eq(link_peer_send_one(&p, link_peer_packet_ack(generation, 0, 5)), TF_OK); /* says nothing */
        link_peer_wait(&p, TF_LINK_ACK_DELAY);
        (void)link_peer_pull_stream(&p);
        ck_assert_ptr_nonnull(link_peer_find(&p, TF_FRAME_LINK_ACK));
        ck_assert_ptr_null(link_peer_find(&p, TF_FRAME_PACKET_ACK));
        while (link_peer_pull_packet(&p)) {
            ck_assert_ptr_null(link_peer_find(&p, TF_FRAME_PACKET_ACK));
        }
    }
    link_peer_free(&p);
}
END_TEST

/* Challenges that nobody answers: at intervals that double from a PTO to 1 s, after a minute to 10 s; three, and it is down. */
START_TEST(link_challenges_go_more_and_more_rarely)
{
    static const tf_time late[] = {2, 4, 8, 10, 10};
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    tf_link_datagram_up(p.link, p.now, 1);
    const tf_time start = p.now;
    ck_assert(link_peer_pull_packet(&p));
    tf_time span = 320 * TF_MS; /* SRTT and variation before there are any, and the delay of acks */
    for (unsigned i = 1; i < 10; i++) {
        ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_DATAGRAM),
                         i <= TF_PROBES_DOWN ? TF_VERDICT_JOINING : TF_VERDICT_DOWN);
        ck_assert_uint_eq(tf_link_deadline(p.link), p.now + span);
        link_peer_wait(&p, span - 1);
        ck_assert(!link_peer_pull_packet(&p));
        link_peer_wait(&p, 1);
        ck_assert(link_peer_pull_packet(&p));
        ck_assert_ptr_nonnull(link_peer_find(&p, TF_FRAME_CHALLENGE));
        span = tf_time_min(2 * span, TF_SECOND);
    }
    while (p.now < start + TF_PROBE_SOON_SPAN) {
        link_peer_wait(&p, TF_SECOND);
        ck_assert(link_peer_pull_packet(&p));
    }
    for (size_t i = 0; i < sizeof(late) / sizeof(late[0]); i++) {
        ck_assert_uint_eq(tf_link_deadline(p.link), p.now + late[i] * TF_SECOND);
        link_peer_wait(&p, late[i] * TF_SECOND);
        ck_assert(link_peer_pull_packet(&p));
    }
    link_peer_free(&p);
}
END_TEST

START_TEST(link_probe_challenges_keys_that_are_not_confirmed)
{
    link_peer p;
    begin_second(&p);
    ck_assert(!link_peer_pull_packet(&p));
    tf_link_probe(p.link, p.now);
    unsigned challenges = 0;
    while (link_peer_pull_packet(&p)) {
        challenges += link_peer_find(&p, TF_FRAME_CHALLENGE) != NULL ? 1 : 0;
        ck_assert_uint_eq(p.packet.generation, link_peer_find(&p, TF_FRAME_CHALLENGE) != NULL ? 2 : 1);
    }
    ck_assert_uint_eq(challenges, 1);
    link_peer_free(&p);
}
END_TEST

/* P9: whichever keys it is under, an idle link needs no memory for packets. */
START_TEST(link_idle_under_any_keys_gives_memory_back)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    const size_t least = tf_test_heap_shared()->live_blocks;
    link_peer_up(&p, 1);
    for (uint64_t generation = 2; generation < 6; generation++) {
        tf_link_datagram_up(p.link, p.now, generation);
        ck_assert(link_peer_pull_packet(&p));
        ck_assert_int_eq(link_peer_send_packet_one(&p, generation, link_peer_packet_ack(generation, 0, 0)), TF_OK);
        link_peer_wait(&p, TF_SECOND);
        for (unsigned i = 0; i < 40; i++) {
            ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
            link_peer_drain(&p);
        }
        ck_assert_uint_eq(p.packet.generation, generation);
        tf_frame ack = link_peer_packet_ack(generation, 0, p.packet.number);
        ck_assert_int_eq(link_peer_send_packet_one(&p, generation, ack), TF_OK);
        ck_assert_int_eq(link_peer_send_packet_one(&p, generation, link_peer_ack(tf_link_send_next(p.link))), TF_OK);
        link_peer_wait(&p, TF_KEEPALIVE);
        ck_assert_uint_le(tf_test_heap_shared()->live_blocks, least);
    }
    link_peer_free(&p);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        link_unconfirmed_generation_is_only_challenged,
        link_probe_that_comes_while_joining_is_answered,
        link_keys_are_retired_when_both_directions_work,
        link_keys_are_retired_when_the_second_direction_is_ours,
        link_challenge_outlives_the_route,
        link_route_without_keys_has_no_acks_to_send,
        link_keys_it_knows_are_no_news,
        link_keys_that_are_gone_are_owed_no_acks,
        link_challenges_go_more_and_more_rarely,
        link_probe_challenges_keys_that_are_not_confirmed,
        link_idle_under_any_keys_gives_memory_back,
        NULL,
    };
    return tf_test_run("paths/link, keys", tests);
}
