#include "tests/sim/ends.h"

#include <stdlib.h>

#define TIMER_LINK (UINT64_C(1) << 63)
#define PULLS_MAX 100000u

static void fail(const ends *e, unsigned end, const char *what)
{
    (void)fprintf(stderr, "seed %llu, end %u, at %llu us: %s\n", (unsigned long long)e->seed, end,
                  (unsigned long long)net_now(e->net), what);
    abort();
}

static void print_route(const tf_route_stats *stats, tf_route route, FILE *to)
{
    (void)fprintf(
        to,
        "    %-8s %-7s srtt %llu us, sent %llu (%llu packets), received %llu (%llu first), lost %llu, shed %llu, "
        "retired %llu, repaired %llu, downs %llu\n",
        tf_route_name(route), tf_verdict_name(stats->verdict), (unsigned long long)stats->srtt,
        (unsigned long long)stats->sent_segments, (unsigned long long)stats->sent_packets,
        (unsigned long long)stats->received_segments, (unsigned long long)stats->first, (unsigned long long)stats->lost,
        (unsigned long long)stats->shed, (unsigned long long)stats->retired, (unsigned long long)stats->repaired,
        (unsigned long long)stats->downs);
}

void ends_print(const ends *e, FILE *to)
{
    for (unsigned end = 0; end < NET_ENDS; end++) {
        tf_link_stats stats;
        tf_link_get_stats(e->end[end].link, &stats);
        (void)fprintf(to, "  end %u: ring %llu, reorder %llu, expects %llu, sent up to %llu, memory %zu\n", end,
                      (unsigned long long)stats.ring_segments, (unsigned long long)stats.reorder_segments,
                      (unsigned long long)tf_link_next_expected(e->end[end].link),
                      (unsigned long long)tf_link_send_next(e->end[end].link), e->end[end].heap.live_bytes);
        for (unsigned route = 0; route < TF_ROUTE_COUNT; route++) {
            print_route(&stats.routes[route], (tf_route)route, to);
        }
    }
}

void ends_init(ends *e, uint64_t seed, const ends_handlers *handlers)
{
    *e = (ends){.handlers = *handlers, .seed = seed};
    e->net = net_new(seed);
    e->config = (tf_link_config){
        .session = 1,
        .routes = TF_ROUTES_BOTH,
        .send_data = TF_ROUTES_BOTH,
        .recv_data = TF_ROUTES_BOTH,
        .recv_window_segments = TF_WINDOW_SEGMENTS,
        .recv_window_bytes = TF_WINDOW_BYTES,
        .send_window_segments = TF_WINDOW_SEGMENTS,
        .send_window_bytes = TF_WINDOW_BYTES,
        .recv_max_message = TF_MESSAGE_MAX,
        .keepalive = TF_KEEPALIVE,
        .peer_keepalive = TF_KEEPALIVE,
    };
}

void ends_start(ends *e, void (*configure)(tf_link_config *config, unsigned end))
{
    for (unsigned end = 0; end < NET_ENDS; end++) {
        ends_end *s = &e->end[end];
        tf_test_heap_init(&s->heap);
        tf_test_random_init(&s->random, tf_test_random_u64(net_random(e->net)));
        tf_link_config config = e->config;
        config.mem = &s->heap.mem;
        config.rand = &s->random.rand;
        config.peer.bytes[0] = (uint8_t)(1 - end);
        config.peer_instance = 1 - end;
        if (configure != NULL) {
            configure(&config, end);
        }
        if (tf_link_new(&s->link, &config, net_now(e->net)) != TF_OK) {
            fail(e, end, "tf_link_new");
        }
        s->timer = TIMER_LINK;
        s->timer_at = TF_NEVER;
    }
}

void ends_free(ends *e)
{
    for (unsigned end = 0; end < NET_ENDS; end++) {
        tf_link_free(e->end[end].link);
        for (size_t i = 0; i < ENDS_KEYS; i++) {
            tf_keys_free(e->end[end].keys[i].sealing);
        }
        free(e->end[end].partial);
        if (e->end[end].heap.live_bytes != 0) {
            fail(e, end, "memory is left");
        }
    }
    net_free(e->net);
}

/* --- keys --- */

static ends_key *key_of(ends *e, unsigned end, uint64_t generation)
{
    for (size_t i = 0; i < ENDS_KEYS; i++) {
        ends_key *key = &e->end[end].keys[i];
        if (key->held && key->generation == generation) {
            return key;
        }
    }
    return NULL;
}

static tf_keys *new_sealing(ends *e, unsigned end, uint64_t generation)
{
    uint8_t secret[TF_KEYS_SECRET_LEN] = {(uint8_t)generation, (uint8_t)e->seed};
    const tf_keys_params params = {
        .dialler = end == 0,
        .cipher = TF_CIPHER_AES_128_GCM,
        .version = 1,
        .local.bytes = {(uint8_t)(1 + end)},
        .remote.bytes = {(uint8_t)(2 - end)},
        .session = 1,
        .generation = generation,
        .local_connection_id = 2 * generation + end,
        .remote_connection_id = 2 * generation + 1 - end,
    };
    tf_keys *keys = NULL;
    if (tf_keys_new_from_secret(&keys, secret, &params, tf_test_mem(), net_now(e->net)) != TF_OK) {
        fail(e, end, "tf_keys_new_from_secret");
    }
    return keys;
}

const tf_keys *ends_keys_of(const ends *e, unsigned end)
{
    const ends_key *newest = NULL;
    for (size_t i = 0; i < ENDS_KEYS; i++) {
        const ends_key *key = &e->end[end].keys[i];
        newest = key->held && (newest == NULL || key->generation > newest->generation) ? key : newest;
    }
    return newest == NULL ? NULL : newest->sealing;
}

static void add_key(ends *e, unsigned end, uint64_t generation)
{
    for (size_t i = 0; i < ENDS_KEYS; i++) {
        ends_key *key = &e->end[end].keys[i];
        if (!key->held) {
            *key = (ends_key){.held = true, .generation = generation};
            key->sealing = e->sealed ? new_sealing(e, end, generation) : NULL;
            return;
        }
    }
    fail(e, end, "too many generations of keys are kept");
}

static void drop_key(ends *e, unsigned end, uint64_t generation)
{
    ends_key *key = key_of(e, end, generation);
    if (key == NULL) {
        fail(e, end, "keys are retired that are not held");
    } else {
        tf_keys_free(key->sealing);
        *key = (ends_key){0};
    }
}

/* --- out --- */

static void pull_stream(ends *e, unsigned end)
{
    ends_end *s = &e->end[end];
    uint8_t buf[TF_STREAM_RECORD];
    while (s->stream && net_is_open(e->net) && s->stream_generation == e->generation) {
        size_t room = net_room(e->net, end);
        size_t cap = room < sizeof(buf) ? room : sizeof(buf);
        size_t len = tf_link_pull_stream(s->link, net_now(e->net), buf, cap);
        if (len > cap) {
            fail(e, end, "more was pulled than there is room");
        }
        if (len == 0) {
            return;
        }
        s->frames_bytes += len;
        net_write(e->net, end, tf_slice_of(buf, len));
    }
}

static void send_packet(ends *e, unsigned end, const tf_link_packet *packet, tf_slice plain)
{
    const ends_key *key = key_of(e, end, packet->generation);
    tf_keys *keys = key == NULL ? NULL : key->sealing;
    if (keys == NULL) {
        net_send(e->net, end, packet->generation, packet->number, plain);
        return;
    }
    uint8_t sealed[TF_PACKET_PLAIN_MAX + TF_PACKET_OVERHEAD];
    if (tf_keys_seal(keys, net_now(e->net), packet->number, plain, sealed, sizeof(sealed)) != TF_OK) {
        fail(e, end, "tf_keys_seal");
    }
    net_send(e->net, end, packet->generation, packet->number, tf_slice_of(sealed, plain.len + TF_PACKET_OVERHEAD));
}

/* Keys follow what the peer has acked. */
static void note_acked(ends *e, unsigned end)
{
    for (size_t i = 0; e->sealed && i < ENDS_KEYS; i++) {
        const ends_key *key = &e->end[end].keys[i];
        uint64_t number = 0;
        if (key->held && tf_link_packet_acked(e->end[end].link, key->generation, &number)) {
            tf_keys_acked(key->sealing, net_now(e->net), number);
        }
    }
}

static void pull_packets(ends *e, unsigned end)
{
    ends_end *s = &e->end[end];
    uint8_t buf[TF_PACKET_PLAIN_MAX];
    tf_link_packet packet;
    unsigned pulls = 0;
    while (tf_link_pull_packet(s->link, net_now(e->net), buf, sizeof(buf), &packet)) {
        if (packet.len == 0 || packet.len > sizeof(buf) || key_of(e, end, packet.generation) == NULL) {
            fail(e, end, "a packet of no length or without keys");
        }
        s->packets++;
        s->frames_bytes += packet.len;
        s->candidates += packet.to_candidate ? 1 : 0;
        if (++pulls > PULLS_MAX) {
            fail(e, end, "packets without end");
        }
        if (packet.to_candidate ? s->candidate_dead : s->old_address_dead) {
            continue;
        }
        send_packet(e, end, &packet, tf_slice_of(buf, packet.len));
    }
}

static void take_event(ends *e, unsigned end, const tf_link_event *event)
{
    ends_end *s = &e->end[end];
    switch (event->type) {
    case TF_LINK_EVENT_VERDICT:
        s->verdicts[event->route][event->verdict]++;
        net_mix(e->net, (uint64_t)event->route * 16 + event->verdict);
        break;
    case TF_LINK_EVENT_CONFIRMED:
        s->confirmed = event->generation;
        break;
    case TF_LINK_EVENT_RETIRED:
        s->retired++;
        drop_key(e, end, event->generation);
        break;
    case TF_LINK_EVENT_MOVED:
        s->moved[event->moved ? 1 : 0]++;
        break;
    case TF_LINK_EVENT_UNREACHABLE:
        s->unreachable++;
        break;
    case TF_LINK_EVENT_REDUNDANCY_LOST:
        s->redundancy_lost[event->route]++;
        s->inbound_lost[event->route] += event->inbound ? 1 : 0;
        net_mix(e->net, (uint64_t)event->route * 16 + (event->inbound ? 8 : 9));
        break;
    case TF_LINK_EVENT_CLOSED:
        s->closed++;
        s->close_code = event->code;
        break;
    }
    if (e->handlers.event != NULL) {
        e->handlers.event(e->handlers.ctx, end, event);
    }
}

static void check_bounds(ends *e, unsigned end)
{
    tf_link_stats stats;
    tf_link_get_stats(e->end[end].link, &stats);
    if (stats.ring_segments > e->config.send_window_segments || stats.ring_bytes > e->config.send_window_bytes ||
        stats.reorder_segments > e->config.recv_window_segments || stats.reorder_bytes > e->config.recv_window_bytes) {
        fail(e, end, "more is held than the window allows");
    }
}

static void drain(ends *e, unsigned end)
{
    ends_end *s = &e->end[end];
    tf_slice message;
    tf_route via;
    while (tf_link_next_message(s->link, &message, &via)) {
        e->handlers.message(e->handlers.ctx, end, message, via);
    }
    if (e->handlers.turn != NULL) {
        e->handlers.turn(e->handlers.ctx, end);
    }
    tf_link_event event;
    while (tf_link_next_event(s->link, &event)) {
        take_event(e, end, &event);
    }
    check_bounds(e, end);
}

static void arm(ends *e, unsigned end)
{
    ends_end *s = &e->end[end];
    tf_time at = tf_link_deadline(s->link);
    if (at == s->timer_at) {
        return;
    }
    s->timer++;
    s->timer_at = at;
    if (at != TF_NEVER) {
        net_timer(e->net, end, tf_time_max(at, net_now(e->net)), s->timer);
    }
}

void ends_pull(ends *e, unsigned end)
{
    drain(e, end);
    note_acked(e, end);
    pull_stream(e, end);
    pull_packets(e, end);
    tf_link_event event;
    while (tf_link_next_event(e->end[end].link, &event)) {
        take_event(e, end, &event);
    }
    arm(e, end);
}

tf_err ends_queue(ends *e, unsigned end, tf_slice message)
{
    return tf_link_send(e->end[end].link, net_now(e->net), message);
}

tf_err ends_send(ends *e, unsigned end, tf_slice message)
{
    tf_err err = ends_queue(e, end, message);
    ends_pull(e, end);
    return err;
}

/* --- in --- */

static void came_packet(ends *e, const net_event *event)
{
    ends_end *s = &e->end[event->end];
    ends_key *key = key_of(e, event->end, event->generation);
    if (key == NULL || tf_replay_check(&key->replay, event->number) != TF_REPLAY_NEW) {
        return;
    }
    tf_replay_commit(&key->replay, event->number);
    tf_slice plain = tf_slice_of(event->data, event->len);
    uint8_t room[TF_PACKET_PLAIN_MAX];
    if (key->sealing != NULL) {
        tf_opened opened;
        if (tf_keys_open(key->sealing, net_now(e->net), plain, room, sizeof(room), &opened) != TF_OK) {
            fail(e, event->end, "tf_keys_open");
            return;
        }
        plain = opened.plain;
    }
    tf_err err = tf_link_recv_packet(s->link, net_now(e->net), event->generation, event->number, plain);
    if (err != TF_OK) {
        fail(e, event->end, tf_err_text(err));
    }
}

static void came_bytes(ends *e, const net_event *event)
{
    ends_end *s = &e->end[event->end];
    if (!s->stream || s->stream_generation != event->generation) {
        return;
    }
    s->partial = realloc(s->partial, s->partial_len + event->len);
    if (s->partial == NULL) {
        fail(e, event->end, "out of memory");
        return;
    }
    memcpy(s->partial + s->partial_len, event->data, event->len);
    s->partial_len += event->len;
    size_t used = 0;
    tf_err err = tf_link_recv_stream(s->link, net_now(e->net), tf_slice_of(s->partial, s->partial_len), &used);
    if (err != TF_OK || used > s->partial_len) {
        fail(e, event->end, tf_err_text(err));
    }
    s->partial_len -= used;
    memmove(s->partial, s->partial + used, s->partial_len);
}

static void broke(ends *e, const net_event *event)
{
    ends_end *s = &e->end[event->end];
    if (s->stream && s->stream_generation == event->generation) {
        s->stream = false;
        s->partial_len = 0;
        tf_link_stream_down(s->link, net_now(e->net));
    }
}

static void timed(ends *e, const net_event *event)
{
    ends_end *s = &e->end[event->end];
    if (event->number < TIMER_LINK) {
        e->handlers.timer(e->handlers.ctx, event->end, event->number);
        return;
    }
    if (event->number != s->timer) {
        return;
    }
    s->timer_at = TF_NEVER;
    tf_link_tick(s->link, net_now(e->net));
    if (tf_link_deadline(s->link) <= net_now(e->net)) {
        fail(e, event->end, "the deadline is not in the future after a tick");
    }
}

static void handle(ends *e, const net_event *event)
{
    switch (event->type) {
    case NET_PACKET:
        came_packet(e, event);
        break;
    case NET_BYTES:
        came_bytes(e, event);
        break;
    case NET_WRITABLE:
        break;
    case NET_BROKEN:
        broke(e, event);
        break;
    case NET_TIMER:
        timed(e, event);
        break;
    }
    ends_pull(e, event->end);
}

void ends_run(ends *e, tf_time until)
{
    net_event event;
    while (net_next(e->net, until, &event)) {
        handle(e, &event);
    }
}

void ends_run_for(ends *e, tf_time span)
{
    ends_run(e, net_now(e->net) + span);
}

/* --- handshakes --- */

static void up(ends *e, unsigned end)
{
    ends_end *s = &e->end[end];
    if (s->stream) {
        tf_link_stream_down(s->link, net_now(e->net));
    }
    s->stream = true;
    s->partial_len = 0;
    s->stream_generation = e->generation;
    tf_link_stream_up(s->link, net_now(e->net), e->generation);
}

static void new_keys(ends *e, unsigned end)
{
    tf_link_datagram_up(e->end[end].link, net_now(e->net), e->generation);
    tf_link_event event;
    while (tf_link_next_event(e->end[end].link, &event)) {
        take_event(e, end, &event);
    }
    add_key(e, end, e->generation);
}

void ends_connect(ends *e)
{
    if (net_is_open(e->net)) {
        ends_cut(e, (const size_t[NET_ENDS]){0, 0}, (const tf_time[NET_ENDS]){0, 0});
    }
    e->generation++;
    net_open(e->net, e->generation);
    for (unsigned end = 0; end < NET_ENDS; end++) {
        up(e, end);
        if ((e->config.routes & TF_ROUTES_DATAGRAM) != 0) {
            new_keys(e, end);
        }
    }
    for (unsigned end = 0; end < NET_ENDS; end++) {
        ends_pull(e, end);
    }
}

void ends_keys(ends *e)
{
    e->generation++;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        new_keys(e, end);
    }
    for (unsigned end = 0; end < NET_ENDS; end++) {
        ends_pull(e, end);
    }
}

void ends_resume(ends *e)
{
    for (unsigned end = 0; end < NET_ENDS; end++) {
        uint64_t expected = tf_link_next_expected(e->end[1 - end].link);
        if (tf_link_resume(e->end[end].link, net_now(e->net), expected) != TF_OK) {
            fail(e, end, "tf_link_resume");
        }
    }
    ends_connect(e);
}

void ends_cut(ends *e, const size_t keep[NET_ENDS], const tf_time learns[NET_ENDS])
{
    net_cut(e->net, keep, learns);
}
