/* Lost redundancy (PROTOCOL.md L8): each direction of each route by itself, while the other route does its work. */
#include "tests/unit/link_peer.h"

/* What gets through, and who sends. */
#define STREAM_THERE 0x01u
#define DATAGRAM_THERE 0x02u
#define STREAM_BACK 0x04u
#define DATAGRAM_BACK 0x08u
#define WE_SAY 0x10u
#define PEER_SAYS 0x20u
#define ALL_THROUGH 0x0fu
#define STEP (25 * TF_MS)

typedef struct world {
    link_peer p;
    uint64_t floor;                     /* the peer has all below */
    uint64_t counted;                   /* segments that came to it by the stream */
    uint64_t packet;                    /* one past the highest packet number that came to it */
    uint64_t said;                      /* messages of the peer */
    uint64_t pings[TF_ROUTE_COUNT][16]; /* that came to it */
    size_t ping_count[TF_ROUTE_COUNT];
    unsigned probes[TF_ROUTE_COUNT];  /* that we sent */
    unsigned lost[TF_ROUTE_COUNT][2]; /* what was told: outwards, inwards */
    tf_time lost_at;
    tf_time step;
} world;

static void start(world *w)
{
    *w = (world){.packet = 1, .step = STEP};
    link_peer_defaults(&w->p);
    w->p.config.send_window_segments = 1024;
    w->p.config.recv_window_segments = 1024;
    link_peer_new(&w->p);
    link_peer_up(&w->p, 1);
}

static void note_frames(world *w, tf_route route, bool there)
{
    for (size_t i = 0; i < w->p.frame_count; i++) {
        const tf_frame *frame = &w->p.frames[i];
        w->probes[route] += frame->type == TF_FRAME_PING ? 1 : 0;
        if (!there) {
            continue;
        }
        if (frame->type == TF_FRAME_PING && w->ping_count[route] < 16) {
            w->pings[route][w->ping_count[route]++] = frame->u.token;
        }
        if (frame->type == TF_FRAME_SEGMENT) {
            w->counted += route == TF_ROUTE_STREAM ? 1 : 0;
            w->floor = frame->u.segment.seq + 1 > w->floor ? frame->u.segment.seq + 1 : w->floor;
        }
    }
}

static void send_frame(world *w, tf_route route, tf_frame frame)
{
    tf_err err =
        route == TF_ROUTE_STREAM ? link_peer_send_one(&w->p, frame) : link_peer_send_packet_one(&w->p, 1, frame);
    ck_assert_int_eq(err, TF_OK);
}

static void answer(world *w, tf_route route, bool say)
{
    tf_frame ack = link_peer_ack(w->floor);
    ack.u.link_ack.route_count = w->counted > 0 ? 1 : 0;
    ack.u.link_ack.routes[0] = (tf_route_count){.route = TF_ROUTE_STREAM, .generation = 1, .first = w->counted};
    send_frame(w, route, ack);
    send_frame(w, route, link_peer_packet_ack(1, 0, w->packet - 1));
    for (size_t i = 0; i < w->ping_count[route]; i++) {
        send_frame(w, route, link_peer_token(TF_FRAME_PONG, w->pings[route][i]));
    }
    if (say) {
        send_frame(w, route, link_peer_message(w->said, "y"));
    }
}

static void note_events(world *w)
{
    tf_link_event event;
    while (tf_link_next_event(w->p.link, &event)) {
        if (event.type == TF_LINK_EVENT_REDUNDANCY_LOST) {
            w->lost[event.route][event.inbound ? 1 : 0]++;
            w->lost_at = w->p.now;
        }
    }
}

static void step(world *w, unsigned what)
{
    if ((what & WE_SAY) != 0 && tf_link_has_room(w->p.link, 1)) {
        ck_assert_int_eq(link_peer_say(&w->p, "x"), TF_OK);
    }
    while (link_peer_pull_stream(&w->p) > 0) {
        note_frames(w, TF_ROUTE_STREAM, (what & STREAM_THERE) != 0);
    }
    while (link_peer_pull_packet(&w->p)) {
        note_frames(w, TF_ROUTE_DATAGRAM, (what & DATAGRAM_THERE) != 0);
        w->packet = (what & DATAGRAM_THERE) != 0 ? w->p.packet.number + 1 : w->packet;
    }
    link_peer_wait(&w->p, w->step);
    bool say = (what & PEER_SAYS) != 0;
    if ((what & STREAM_BACK) != 0) {
        answer(w, TF_ROUTE_STREAM, say);
    }
    if ((what & DATAGRAM_BACK) != 0) {
        answer(w, TF_ROUTE_DATAGRAM, say);
    }
    w->ping_count[TF_ROUTE_STREAM] = 0; /* an answer that cannot go is lost */
    w->ping_count[TF_ROUTE_DATAGRAM] = 0;
    w->said += say && (what & (STREAM_BACK | DATAGRAM_BACK)) != 0 ? 1 : 0;
    tf_slice message;
    tf_route via;
    while (tf_link_next_message(w->p.link, &message, &via)) {
    }
    note_events(w);
}

static void run(world *w, unsigned what, tf_time span)
{
    for (tf_time end = w->p.now + span; w->p.now < end;) {
        step(w, what);
    }
}

static unsigned lost_in_all(const world *w)
{
    return w->lost[0][0] + w->lost[0][1] + w->lost[1][0] + w->lost[1][1];
}

START_TEST(watch_finds_the_direction_that_is_dead_and_tells_it_once)
{
    static const struct {
        unsigned dead;
        unsigned who;
        tf_route route;
        bool inbound;
    } rows[] = {
        {STREAM_THERE, WE_SAY, TF_ROUTE_STREAM, false},  {DATAGRAM_THERE, WE_SAY, TF_ROUTE_DATAGRAM, false},
        {STREAM_BACK, PEER_SAYS, TF_ROUTE_STREAM, true}, {DATAGRAM_BACK, PEER_SAYS, TF_ROUTE_DATAGRAM, true},
        {STREAM_BACK, WE_SAY, TF_ROUTE_STREAM, true},    {DATAGRAM_BACK, WE_SAY, TF_ROUTE_DATAGRAM, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world w;
        start(&w);
        run(&w, ALL_THROUGH | rows[i].who, TF_SECOND);
        ck_assert_uint_eq(lost_in_all(&w), 0);
        for (unsigned again = 1; again < 3; again++) {
            const tf_time since = w.p.now;
            run(&w, (ALL_THROUGH & ~rows[i].dead) | rows[i].who, TF_REDUNDANCY_SPAN - STEP);
            ck_assert_msg(lost_in_all(&w) == again - 1, "row %u: too soon", (unsigned)i);
            run(&w, (ALL_THROUGH & ~rows[i].dead) | rows[i].who, 5 * TF_SECOND);
            ck_assert_msg(lost_in_all(&w) == again, "row %u: %u", (unsigned)i, lost_in_all(&w));
            ck_assert_uint_eq(w.lost[rows[i].route][rows[i].inbound ? 1 : 0], again);
            ck_assert_uint_ge(w.lost_at, since + TF_REDUNDANCY_SPAN);
            run(&w, ALL_THROUGH | rows[i].who, 3 * TF_SECOND); /* it works again, so it may be lost again */
        }
        link_peer_free(&w.p);
    }
}
END_TEST

START_TEST(watch_judges_nothing_while_nothing_gets_through)
{
    world w;
    start(&w);
    run(&w, ALL_THROUGH | WE_SAY | PEER_SAYS, 2 * TF_SECOND);
    run(&w, WE_SAY, 20 * TF_SECOND); /* neither route does its work */
    ck_assert_uint_eq(lost_in_all(&w), 0);
    link_peer_free(&w.p);
}
END_TEST

START_TEST(watch_suspicion_ends_with_an_arrival_or_with_the_stream)
{
    world w;
    start(&w);
    run(&w, ALL_THROUGH | WE_SAY, 2 * TF_SECOND);
    for (unsigned i = 0; i < 5; i++) { /* holes that are shorter */
        run(&w, (ALL_THROUGH & ~STREAM_THERE) | WE_SAY, 2 * TF_SECOND);
        run(&w, ALL_THROUGH | WE_SAY, TF_SECOND / 2);
        run(&w, (ALL_THROUGH & ~DATAGRAM_BACK) | WE_SAY, 2 * TF_SECOND);
        run(&w, ALL_THROUGH | WE_SAY, TF_SECOND / 2);
    }
    run(&w, (ALL_THROUGH & ~STREAM_THERE) | WE_SAY, 2 * TF_SECOND);
    tf_link_stream_down(w.p.link, w.p.now);
    run(&w, (ALL_THROUGH & ~(STREAM_THERE | STREAM_BACK)) | WE_SAY, 5 * TF_SECOND);
    ck_assert_uint_eq(lost_in_all(&w), 0);
    ck_assert_int_eq(tf_link_verdict(w.p.link, TF_ROUTE_STREAM), TF_VERDICT_DOWN);
    link_peer_free(&w.p);
}
END_TEST

/* What should have come by both routes and came by one makes the other be asked, though nothing goes there. */
START_TEST(watch_suspicion_asks_after_750_ms)
{
    world w;
    start(&w);
    run(&w, ALL_THROUGH, 2 * TF_SECOND);
    const unsigned before = w.probes[TF_ROUTE_DATAGRAM];
    run(&w, (ALL_THROUGH & ~DATAGRAM_BACK) | PEER_SAYS, STEP);
    run(&w, ALL_THROUGH & ~DATAGRAM_BACK, TF_REDUNDANCY_SUSPECT - STEP);
    ck_assert_uint_eq(w.probes[TF_ROUTE_DATAGRAM], before);
    run(&w, ALL_THROUGH & ~DATAGRAM_BACK, 2 * STEP);
    ck_assert_uint_eq(w.probes[TF_ROUTE_DATAGRAM], before + 1);
    run(&w, ALL_THROUGH, 5 * TF_SECOND);
    ck_assert_uint_eq(w.probes[TF_ROUTE_DATAGRAM], before + 1);
    ck_assert_uint_eq(lost_in_all(&w), 0);
    link_peer_free(&w.p);
}
END_TEST

/* It waits for what it needs to judge as long as there is traffic, not only at the beginning. */
START_TEST(watch_goes_on_as_long_as_there_is_traffic)
{
    world w;
    start(&w);
    run(&w, ALL_THROUGH | WE_SAY, TF_SECOND);
    run(&w, WE_SAY, 6 * TF_SECOND); /* the other route shows nothing meanwhile, */
    ck_assert_uint_eq(lost_in_all(&w), 0);
    run(&w, DATAGRAM_THERE | DATAGRAM_BACK | WE_SAY, TF_SECOND); /* and then it does */
    ck_assert_uint_eq(w.lost[TF_ROUTE_STREAM][0], 1);
    link_peer_free(&w.p);
    start(&w);
    w.step = TF_SECOND / 2;
    run(&w, STREAM_THERE | STREAM_BACK, 150 * TF_SECOND); /* its probes are rare by now */
    ck_assert_int_eq(tf_link_verdict(w.p.link, TF_ROUTE_DATAGRAM), TF_VERDICT_DOWN);
    ck_assert_uint_eq(lost_in_all(&w), 0);
    run(&w, STREAM_THERE | STREAM_BACK | PEER_SAYS, 80 * TF_SECOND);
    ck_assert_uint_eq(w.lost[TF_ROUTE_DATAGRAM][1], 1);
    link_peer_free(&w.p);
}
END_TEST

/* One message tells little, and what it began ends by itself. */
START_TEST(watch_ends_with_the_traffic)
{
    world w;
    start(&w);
    run(&w, ALL_THROUGH, TF_SECOND);
    run(&w, WE_SAY, STEP);
    run(&w, 0, 10 * TF_SECOND);
    run(&w, DATAGRAM_THERE | DATAGRAM_BACK, 5 * TF_SECOND);
    ck_assert_uint_eq(lost_in_all(&w), 0);
    link_peer_free(&w.p);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        watch_finds_the_direction_that_is_dead_and_tells_it_once,
        watch_judges_nothing_while_nothing_gets_through,
        watch_suspicion_ends_with_an_arrival_or_with_the_stream,
        watch_suspicion_asks_after_750_ms,
        watch_goes_on_as_long_as_there_is_traffic,
        watch_ends_with_the_traffic,
        NULL,
    };
    return tf_test_run("paths/link, lost redundancy", tests);
}
