/* When the dialler of a bearer dials, as node/dialler, and the trips of a dial, at whose end both have a stream. */
#include <stdlib.h>

#include "proto/frame.h"
#include "tests/sim/nodes/bearer_internal.h"

/* The trips of a dial: even ones go to the acceptor. The WELCOME comes as bytes of the stream. */
#define TRIP_CONNECT 0u /* this and the next: the kernels make a connection */
#define TRIP_HELLO 4u   /* those between are TLS */
#define AGAIN_CONNECT (1 * TF_SECOND) /* what is lost goes again after so long */
#define AGAIN (200 * TF_MS)

/* -- when to dial -------------------------------------------------------------------------------------------------- */

static bool datagram_lives(const bearer *b)
{
    return b->ends[0].conn != NULL && tf_link_verdict(b->ends[0].link, TF_ROUTE_DATAGRAM) == TF_VERDICT_UP;
}

static void begin_dial(bearer *b)
{
    bearer_dial *d = &b->dial;
    tf_time limit = TF_DIAL_LIMIT;
    if (datagram_lives(b)) {
        limit = TF_DIAL_LIMIT_REDUNDANT + 4 * tf_link_srtt(b->ends[0].link, TF_ROUTE_DATAGRAM);
    }
    b->stats.dials++;
    tf_backoff_dial(&d->backoff, bearer_now(b));
    d->state = DIAL_TRIPS;
    d->trip = TRIP_CONNECT;
    d->departed = false;
    d->refused = false;
    d->in.len = 0;
    d->at = bearer_now(b);
    d->limit_at = tf_time_add(bearer_now(b), limit);
}

static void schedule_redial(bearer *b)
{
    bearer_dial *d = &b->dial;
    tf_time now = bearer_now(b);
    bool soon = datagram_lives(b) && now - d->lost_at < TF_BACKOFF_REDUNDANT_SPAN;
    tf_time cap = soon ? TF_BACKOFF_MAX_REDUNDANT : TF_BACKOFF_MAX;
    d->state = DIAL_WAITING;
    d->at = tf_time_add(now, tf_backoff_next(&d->backoff, b->ends[0].side->rand, now, cap));
}

/* A reason to dial at once, or as soon as the bound on dials allows it. */
static void dial_soon(bearer *b)
{
    bearer_dial *d = &b->dial;
    if (d->state == DIAL_WAITING) {
        d->at = tf_time_add(bearer_now(b), tf_backoff_until_allowed(&d->backoff, bearer_now(b)));
    }
}

void bearer_new_generation(bearer *b)
{
    if (b->ends[0].conn != NULL) {
        b->dial.wants_generation = true;
        dial_soon(b);
    }
}

/* The socket that it has made so far is closed. */
static void drop_dial(bearer *b)
{
    if (b->dial.state == DIAL_ANSWER && b->dial.stream_id == b->stream_id) {
        net_finish(b->net, 0);
    }
    b->dial.in.len = 0;
}

void bearer_dial_failed(bearer *b)
{
    b->stats.failed_dials++;
    net_mix(b->net, b->stats.failed_dials);
    drop_dial(b);
    schedule_redial(b);
}

void bearer_set_dialling(bearer *b, bool on)
{
    bearer_dial *d = &b->dial;
    drop_dial(b);
    d->backoff = (tf_backoff){0};
    d->wants_generation = false;
    d->state = on ? DIAL_WAITING : DIAL_OFF;
    d->at = on ? bearer_now(b) : TF_NEVER;
    d->rehandshake_at = TF_NEVER;
    d->reopen_at = TF_NEVER;
    d->reopens = 0;
}

/* -- what the session tells ---------------------------------------------------------------------------------------- */

void bearer_dial_stream_ended(bearer *b)
{
    b->dial.lost_at = bearer_now(b);
    tf_backoff_down(&b->dial.backoff, b->dial.lost_at);
    if (b->dial.state == DIAL_WAITING) {
        schedule_redial(b);
    }
}

static void stream_verdict(bearer *b, tf_verdict verdict)
{
    bearer_dial *d = &b->dial;
    tf_time now = bearer_now(b);
    if (verdict == TF_VERDICT_UP) {
        tf_backoff_up(&d->backoff, now);
        if (d->state == DIAL_WAITING && b->ends[0].stream && !d->wants_generation) {
            d->at = TF_NEVER; /* the old socket has revived */
        }
    }
    if (verdict == TF_VERDICT_DOWN) {
        tf_backoff_down(&d->backoff, now);
        if (d->state == DIAL_WAITING && d->at == TF_NEVER) {
            d->lost_at = now; /* the old socket is kept until the new one is authenticated */
            dial_soon(b);
        }
    }
}

void bearer_dial_verdict(bearer *b, const tf_link_event *event)
{
    if (event->route == TF_ROUTE_STREAM) {
        stream_verdict(b, event->verdict);
        return;
    }
    bool revived = event->verdict == TF_VERDICT_UP &&
                   (event->before == TF_VERDICT_DOWN || event->before == TF_VERDICT_JOINING);
    bearer_datagram_verdict(b, event->verdict);
    if (revived && tf_link_verdict(b->ends[0].link, TF_ROUTE_STREAM) == TF_VERDICT_DOWN) {
        dial_soon(b);
    }
}

void bearer_dial_session_over(bearer *b)
{
    bearer_dial *d = &b->dial;
    d->lost_at = bearer_now(b);
    d->wants_generation = false;
    d->rehandshake_at = TF_NEVER;
    d->reopen_at = TF_NEVER;
    d->reopens = 0;
    tf_backoff_down(&d->backoff, d->lost_at);
    if (d->state == DIAL_WAITING) {
        schedule_redial(b);
    }
}

/* -- HELLO and WELCOME --------------------------------------------------------------------------------------------- */

static void make_hello(const bearer_side *side, tf_hello *hello)
{
    tf_hello_init(hello);
    tf_offer *offer = &hello->offer;
    offer->features = TF_FEATURE_REVOKE;
    offer->routes = (side->routes & TF_ROUTES_DATAGRAM) != 0 ? TF_ROUTES_BOTH : TF_ROUTES_STREAM;
    offer->data = (tf_data_routes){side->routes, side->routes};
    while (offer->datagram.connection_id == 0) {
        offer->datagram.connection_id = tf_rand_u64(side->rand);
    }
    offer->limits.max_in_flight = tf_hub_max_in_flight(side->hub);
    offer->limits.max_message = side->max_message;
    offer->limits.window_bytes = side->window_bytes;
    offer->limits.window_segments = side->window_segments;
    offer->keepalive_ms = (uint32_t)(side->keepalive / TF_MS);
    offer->instance = side->instance;
}

static tf_negotiate_session state_of(const bearer_end *e)
{
    if (e->conn == NULL) {
        return (tf_negotiate_session){0};
    }
    return (tf_negotiate_session){.resumable = true,
                                  .session = e->agreed.session,
                                  .last_generation = e->agreed.generation,
                                  .receive_next = tf_link_next_expected(e->link),
                                  .send_floor = tf_link_send_floor(e->link),
                                  .send_next = tf_link_send_next(e->link)};
}

static void write_hello(bearer *b)
{
    const bearer_end *e = &b->ends[0];
    make_hello(e->side, &b->dial.hello);
    b->dial.hello_state = state_of(e);
    if (e->conn != NULL) {
        b->dial.hello.offer.resume = (tf_resume){true, e->agreed.session, b->dial.hello_state.receive_next};
    }
}

/* The session that is agreed on: the one that there is, or a new one. */
static void begin_or_resume(bearer *b, unsigned end, const tf_agreed *agreed)
{
    bearer_end *e = &b->ends[end];
    if (agreed->resumed) {
        tf_err err = tf_link_resume(e->link, bearer_now(b), agreed->peer_next);
        if (err != TF_OK) {
            bearer_fault(b, end, tf_err_text(err));
        }
        return;
    }
    if (e->conn != NULL) {
        bearer_close(b, end, TF_CLOSE_NORMAL, end == 0 ? "the peer has forgotten this session"
                                                       : "a new session replaces this one");
    }
    bearer_begin(b, end, agreed);
}

static void write_welcome(bearer *b, const tf_welcome *welcome)
{
    uint8_t payload[4096];
    uint8_t buf[sizeof(payload) + TF_FRAME_HEADER];
    size_t len = 0;
    tf_writer w;
    tf_err err = tf_welcome_encode(welcome, payload, sizeof(payload), &len);
    tf_frame frame = {.type = TF_FRAME_WELCOME, .u.payload = tf_slice_of(payload, len)};
    tf_wr_init(&w, buf, sizeof(buf));
    if (err != TF_OK || !tf_frame_write(&w, &frame) || net_room(b->net, 1) < tf_wr_len(&w)) {
        bearer_fault(b, 1, "WELCOME cannot be written");
        return;
    }
    net_write(b->net, 1, tf_slice_of(buf, tf_wr_len(&w)));
}

/* The only stream of the net from now on; of one before, nothing more arrives. */
static void open_stream(bearer *b)
{
    static const size_t nothing[NET_ENDS] = {0, 0};
    if (net_is_open(b->net)) {
        const tf_time learns[NET_ENDS] = {bearer_delay(b, 1), 0};
        net_cut(b->net, nothing, learns);
    }
    b->stream_id++;
    net_open(b->net, b->stream_id);
}

/* The HELLO has come. False: it is refused. */
static bool answer(bearer *b)
{
    bearer_end *e = &b->ends[1];
    const tf_hello *theirs = &b->dial.hello;
    tf_hello ours;
    tf_welcome welcome;
    tf_agreed agreed;
    bool known = e->conn != NULL && e->agreed.peer_instance == theirs->offer.instance;
    if (!known && !bearer_has_room_for_instance(b)) {
        return false;
    }
    tf_negotiate_session state = known ? state_of(e) : (tf_negotiate_session){0};
    state.new_session = b->session + 1;
    make_hello(e->side, &ours);
    if (tf_negotiate_answer(theirs, &ours, &state, &welcome, &agreed) != TF_OK) {
        return false;
    }
    if (e->conn != NULL && !known) {
        bearer_set_aside(b);
    }
    begin_or_resume(b, 1, &agreed);
    b->session = agreed.session;
    open_stream(b);
    b->dial.state = DIAL_ANSWER;
    b->dial.stream_id = b->stream_id;
    write_welcome(b, &welcome);
    bearer_adopt(b, 1, &agreed);
    return true;
}

static void plan_rehandshake(bearer *b)
{
    tf_time early = tf_rand_u64(b->ends[0].side->rand) % (TF_REHANDSHAKE_AGE / 10 + 1);
    b->dial.rehandshake_at = tf_time_add(bearer_now(b), TF_REHANDSHAKE_AGE - early);
}

static void welcomed(bearer *b, const tf_agreed *agreed)
{
    bearer_dial *d = &b->dial;
    bearer_end *e = &b->ends[0];
    if (agreed->resumed && (e->conn == NULL || e->agreed.session != agreed->session)) {
        bearer_dial_failed(b);
        return;
    }
    begin_or_resume(b, 0, agreed);
    bearer_bytes rest = d->in;
    d->in = e->in;
    d->in.len = 0;
    e->in = rest;
    d->state = DIAL_WAITING;
    d->at = TF_NEVER;
    d->wants_generation = false;
    tf_backoff_up(&d->backoff, bearer_now(b));
    plan_rehandshake(b);
    bearer_adopt(b, 0, agreed);
    bearer_find_datagram(b);
}

void bearer_dial_answered(bearer *b)
{
    bearer_dial *d = &b->dial;
    tf_reader r;
    tf_frame frame;
    tf_welcome welcome;
    tf_agreed agreed;
    tf_rd_init(&r, tf_slice_of(d->in.data, d->in.len));
    tf_err err = tf_frame_read(&r, &frame);
    if (err == TF_ERR_AGAIN) {
        return;
    }
    if (err == TF_OK) {
        err = frame.type == TF_FRAME_WELCOME ? tf_welcome_decode(&welcome, frame.u.payload) : TF_ERR_PEER_STATE;
    }
    if (b->ends[0].conn != NULL) { /* more went out by the datagram route meanwhile */
        d->hello_state.send_next = tf_link_send_next(b->ends[0].link);
    }
    if (err == TF_OK) {
        err = tf_negotiate_accept(&d->hello, &welcome, &d->hello_state, &agreed);
    }
    if (err != TF_OK) {
        bearer_fault(b, 0, tf_err_text(err));
        return;
    }
    size_t left = tf_rd_left(&r);
    memmove(d->in.data, d->in.data + (d->in.len - left), left);
    d->in.len = left;
    welcomed(b, &agreed);
}

/* -- the trips ----------------------------------------------------------------------------------------------------- */

/* Whose process has to go on at the end of a trip; what the kernels do alone goes on in a pause. */
static bool waits_for_process(const bearer *b)
{
    const bearer_dial *d = &b->dial;
    if (d->trip == TRIP_CONNECT || !d->departed) {
        return false;
    }
    return b->ends[d->trip % 2 == 0 ? 1 : 0].side->paused;
}

static void depart(bearer *b)
{
    bearer_dial *d = &b->dial;
    unsigned from = d->trip % 2;
    const net_pipe *pipe = net_pipe_of(b->net, from);
    tf_time again = d->trip <= TRIP_CONNECT + 1 ? AGAIN_CONNECT : AGAIN;
    unsigned of = pipe->of == 0 ? 1000 : pipe->of;
    bool lost = pipe->loss > 0 && tf_test_random_chance(net_random(b->net), pipe->loss, of);
    d->departed = !pipe->hole && !lost && !b->ends[1].side->dark;
    d->at = tf_time_add(bearer_now(b), d->departed ? bearer_delay(b, from) : again);
}

/* What happens at the acceptor at the end of a trip. */
static void at_acceptor(bearer *b)
{
    bearer_dial *d = &b->dial;
    const bearer_side *side = b->ends[1].side;
    if (d->trip == TRIP_CONNECT) {
        d->accepted = side->instance;
        d->refused = d->refused || b->closed;
    }
    d->refused = d->refused || side->hub == NULL || side->instance != d->accepted;
    if (d->trip == TRIP_HELLO && !d->refused) {
        d->refused = !answer(b);
    }
}

/* What happens at the dialler. */
static void at_dialler(bearer *b)
{
    if (b->dial.refused) {
        bearer_dial_failed(b);
    } else if (b->dial.trip + 1 == TRIP_HELLO) {
        write_hello(b);
    }
}

static void make_trip(bearer *b)
{
    bearer_dial *d = &b->dial;
    if (!d->departed) {
        depart(b);
        return;
    }
    if (d->trip % 2 == 0) {
        at_acceptor(b);
    } else {
        at_dialler(b);
    }
    if (d->state == DIAL_TRIPS) {
        d->trip++;
        d->departed = false;
        depart(b);
    }
}

void bearer_dial_tick(bearer *b)
{
    bearer_dial *d = &b->dial;
    tf_time now = bearer_now(b);
    if (b->ends[0].side->paused) {
        return;
    }
    if (d->rehandshake_at <= now) {
        d->rehandshake_at = TF_NEVER;
        bearer_new_generation(b);
    }
    if (d->reopen_at <= now) {
        bearer_reopen(b);
    }
    if (d->state == DIAL_WAITING && d->at <= now) {
        d->at = TF_NEVER;
        begin_dial(b);
    }
    if (d->state == DIAL_TRIPS && d->at <= now && !waits_for_process(b)) {
        make_trip(b);
    }
    if ((d->state == DIAL_TRIPS || d->state == DIAL_ANSWER) && d->limit_at <= now) {
        bearer_dial_failed(b);
    }
}

tf_time bearer_dial_deadline(const bearer *b)
{
    const bearer_dial *d = &b->dial;
    tf_time at = tf_time_min(d->rehandshake_at, d->reopen_at);
    if (b->ends[0].side->paused) {
        return TF_NEVER;
    }
    switch (d->state) {
    case DIAL_OFF:
        return TF_NEVER;
    case DIAL_WAITING:
        return tf_time_min(at, d->at);
    case DIAL_TRIPS:
        return tf_time_min(at, waits_for_process(b) ? d->limit_at : tf_time_min(d->at, d->limit_at));
    case DIAL_ANSWER:
        return tf_time_min(at, d->limit_at);
    }
    TF_UNREACHABLE();
}
