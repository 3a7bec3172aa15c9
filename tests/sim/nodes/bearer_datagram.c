/* The datagram route of a bearer: packets, what stands for their keys, the dialler's address and its sockets. */
#include <stdlib.h>

#include "tests/sim/nodes/bearer_internal.h"

#define OVERHEAD (TF_PACKET_HEADER + TF_PACKET_TAG)
#define INBOX_BYTES ((size_t)208 * 1024) /* of a socket, as Linux has it unasked */
/* The net knows packets by one number: the dialler's address (from which, or to which), and the packet's own. */
#define NUMBER_BITS 40u
#define NUMBER_MASK ((UINT64_C(1) << NUMBER_BITS) - 1)

/* -- keys ---------------------------------------------------------------------------------------------------------- */

static bearer_key *key_of(bearer_end *e, uint64_t generation)
{
    for (size_t i = 0; i < BEARER_KEYS; i++) {
        if (e->keys[i].generation == generation) {
            return &e->keys[i];
        }
    }
    return NULL;
}

static bearer_key *key_by_id(bearer_end *e, uint64_t id)
{
    for (size_t i = 0; i < BEARER_KEYS; i++) {
        if (e->keys[i].generation != 0 && e->keys[i].local_id == id) {
            return &e->keys[i];
        }
    }
    return NULL;
}

static uint64_t newest_generation(const bearer_end *e)
{
    uint64_t newest = 0;
    for (size_t i = 0; i < BEARER_KEYS; i++) {
        newest = e->keys[i].generation > newest ? e->keys[i].generation : newest;
    }
    return newest;
}

/* Of four the oldest, or a free one, makes room. */
void bearer_add_key(bearer *b, unsigned end, const tf_agreed *agreed)
{
    bearer_end *e = &b->ends[end];
    bearer_key *oldest = &e->keys[0];
    for (size_t i = 1; i < BEARER_KEYS; i++) {
        oldest = e->keys[i].generation < oldest->generation ? &e->keys[i] : oldest;
    }
    *oldest = (bearer_key){.generation = agreed->generation,
                           .local_id = agreed->local_connection_id,
                           .remote_id = agreed->remote_connection_id};
    if (e->to != 0) {
        tf_link_datagram_up(e->link, bearer_now(b), agreed->generation);
    }
}

void bearer_drop_key(bearer_end *e, uint64_t generation)
{
    bearer_key *key = key_of(e, generation);
    if (key != NULL) {
        *key = (bearer_key){0};
    }
}

/* -- in ------------------------------------------------------------------------------------------------------------ */

static void set_address(bearer *b, unsigned end, uint64_t address)
{
    bearer_end *e = &b->ends[end];
    bool first = e->to == 0;
    e->candidate = 0;
    e->to = address;
    if (first && newest_generation(e) != 0) {
        tf_link_datagram_up(e->link, bearer_now(b), newest_generation(e));
        bearer_touch(b, end);
    }
}

/* As node/connection_datagram: the new address counts once it has answered and the old one has not. */
static void moved(bearer *b, bearer_end *e, uint64_t from, size_t len)
{
    if (from == e->to) {
        return;
    }
    if (e->candidate == 0) {
        e->candidate = from;
        e->credit = 0;
        tf_link_datagram_moved(e->link, bearer_now(b));
    }
    if (from == e->candidate) {
        e->credit += 3 * len;
    }
}

void bearer_decide_candidate(bearer *b, unsigned end, bool takes_it)
{
    bearer_end *e = &b->ends[end];
    if (e->candidate == 0) {
        return;
    }
    if (takes_it) {
        e->to = e->candidate;
        b->stats.moves++;
    }
    e->candidate = 0;
    e->credit = 0;
}

static void take_packet(bearer *b, unsigned end, uint64_t id, uint64_t number, tf_slice packet)
{
    bearer_end *e = &b->ends[end];
    bearer_key *key = e->conn == NULL ? NULL : key_by_id(e, id);
    uint64_t own = number & NUMBER_MASK;
    uint64_t address = number >> NUMBER_BITS;
    if (key == NULL || tf_replay_check(&key->replay, own) != TF_REPLAY_NEW) {
        return;
    }
    bool newest = own >= tf_replay_next(&key->replay);
    tf_replay_commit(&key->replay, own);
    uint64_t generation = key->generation;
    if (e->to == 0) {
        set_address(b, end, address);
    } else if (end == 1 && newest && generation == newest_generation(e)) {
        moved(b, e, address, packet.len + OVERHEAD);
    }
    tf_err err = tf_link_recv_packet(e->link, bearer_now(b), generation, own, packet);
    if (err != TF_OK) {
        bearer_fault(b, end, tf_err_text(err));
    }
    bearer_touch(b, end);
}

static void keep_packet(bearer_end *e, uint64_t id, uint64_t number, tf_slice packet)
{
    if (e->inbox_bytes + packet.len > INBOX_BYTES) {
        return;
    }
    bearer_packet *p = bearer_must(malloc(sizeof(*p) + packet.len));
    p->next = NULL;
    p->id = id;
    p->number = number;
    p->len = packet.len;
    memcpy(p->data, packet.data, packet.len);
    if (e->last == NULL) {
        e->first = p;
    } else {
        e->last->next = p;
    }
    e->last = p;
    e->inbox_bytes += packet.len;
    e->waits = true;
}

void bearer_came_packet(bearer *b, unsigned end, uint64_t id, uint64_t number, tf_slice packet)
{
    bearer_end *e = &b->ends[end];
    if (end == 0 && number >> NUMBER_BITS != b->dial.address) {
        return; /* nobody is there any more */
    }
    if (e->side->paused) {
        keep_packet(e, id, number, packet);
    } else {
        take_packet(b, end, id, number, packet);
    }
}

void bearer_take_packets(bearer *b, unsigned end)
{
    bearer_end *e = &b->ends[end];
    for (const bearer_packet *p = e->first; p != NULL; p = p->next) {
        take_packet(b, end, p->id, p->number, tf_slice_of(p->data, p->len));
    }
    bearer_drop_packets(e);
}

void bearer_drop_packets(bearer_end *e)
{
    while (e->first != NULL) {
        bearer_packet *p = e->first;
        e->first = p->next;
        free(p);
    }
    e->last = NULL;
    e->inbox_bytes = 0;
}

/* -- out ----------------------------------------------------------------------------------------------------------- */

static void send(bearer *b, unsigned end, uint64_t address, const tf_link_packet *packet, tf_slice plain)
{
    const bearer_key *key = key_of(&b->ends[end], packet->generation);
    if (key != NULL) { /* else erased meanwhile: lost */
        net_send(b->net, end, key->remote_id, address << NUMBER_BITS | packet->number, plain);
    }
}

static void send_packet(bearer *b, unsigned end, const tf_link_packet *packet, tf_slice plain)
{
    bearer_end *e = &b->ends[end];
    size_t len = plain.len + OVERHEAD;
    if (end == 0) {
        send(b, end, b->dial.address, packet, plain);
        return;
    }
    bool in_credit = len <= e->credit || tf_link_datagram_move_answered(e->link);
    if (!packet->to_current_only && e->candidate != 0 && in_credit) {
        e->credit -= len < e->credit ? len : e->credit;
        send(b, end, e->candidate, packet, plain);
    }
    if (!packet->to_candidate) {
        send(b, end, e->to, packet, plain);
    }
}

void bearer_flush_packets(bearer *b, unsigned end)
{
    bearer_end *e = &b->ends[end];
    uint8_t buf[TF_PACKET_PLAIN_MAX];
    tf_link_packet packet;
    while (e->to != 0 && tf_link_pull_packet(e->link, bearer_now(b), buf, sizeof(buf), &packet)) {
        if (packet.len == 0 || packet.len > sizeof(buf)) {
            bearer_fault(b, end, "a packet of no length, or of too much");
        }
        send_packet(b, end, &packet, tf_slice_of(buf, packet.len));
    }
}

/* -- the dialler's sockets, as node/dialler_datagram with one address of the peer ---------------------------------- */

static bool has_route(const bearer *b)
{
    const bearer_end *e = &b->ends[0];
    return e->conn != NULL && (e->agreed.routes & TF_ROUTES_DATAGRAM) != 0;
}

static bool is_live(const bearer *b)
{
    tf_verdict verdict = tf_link_verdict(b->ends[0].link, TF_ROUTE_DATAGRAM);
    return verdict == TF_VERDICT_UP || verdict == TF_VERDICT_STALLED;
}

static void take_socket(bearer *b)
{
    b->dial.address++;
    b->stats.sockets++;
    bearer_drop_packets(&b->ends[0]);
    set_address(b, 0, 1);
    tf_link_probe(b->ends[0].link, bearer_now(b));
    bearer_touch(b, 0);
}

static tf_time next_wait(const bearer *b)
{
    tf_time wait = TF_REOPEN_MIN;
    for (uint32_t i = 1; i < b->dial.reopens && wait < TF_REOPEN_MAX; i++) {
        wait *= 2;
    }
    wait = tf_time_min(wait, TF_REOPEN_MAX);
    return wait - tf_rand_u64(b->ends[0].side->rand) % (wait / 2 + 1);
}

/* Now and then, and ever more seldom, what is new is a whole generation. */
static bool is_generations_turn(const bearer *b)
{
    uint32_t n = b->dial.reopens;
    return n > 1 && (n & (n - 1)) == 0 && b->ends[0].stream;
}

static void reopen(bearer *b)
{
    b->dial.reopens++;
    b->dial.reopen_at = tf_time_add(bearer_now(b), next_wait(b));
    if (is_generations_turn(b)) {
        bearer_new_generation(b);
    } else {
        take_socket(b);
    }
}

void bearer_reopen(bearer *b)
{
    b->dial.reopen_at = TF_NEVER;
    if (has_route(b) && !is_live(b)) {
        reopen(b);
    }
}

void bearer_find_datagram(bearer *b)
{
    if (!has_route(b) || (is_live(b) && b->ends[0].to != 0)) {
        return;
    }
    if (b->dial.reopen_at == TF_NEVER) {
        b->dial.reopen_at = tf_time_add(bearer_now(b), TF_REOPEN_FIRST);
    }
    take_socket(b);
}

void bearer_reopen_now(bearer *b)
{
    if (has_route(b) && b->dial.reopen_at == TF_NEVER) {
        reopen(b);
    }
}

void bearer_datagram_verdict(bearer *b, tf_verdict verdict)
{
    if (verdict == TF_VERDICT_UP) {
        b->dial.reopens = 0;
        b->dial.reopen_at = TF_NEVER;
    } else if (verdict == TF_VERDICT_DOWN && has_route(b)) {
        b->dial.reopen_at = tf_time_add(bearer_now(b), TF_REOPEN_FIRST);
    }
}

void bearer_rebind(bearer *b)
{
    b->dial.address++;
}
