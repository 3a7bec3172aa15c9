/* Sessions with instances of the dialler that are gone without a word: the acceptor keeps each, and sends to where it was,
 * until its time-out (node/acceptor; design §4). */
#include "tests/sim/nodes/bearer_internal.h"

void bearer_keep_older(bearer *b)
{
    const bearer_end *e = &b->ends[1];
    TF_ASSERT(b->older_count < BEARER_OLDER_MAX);
    if (e->stream) {
        tf_link_stream_down(e->link, bearer_now(b)); /* its process is gone */
    }
    tf_hub_touch(e->side->hub, e->conn);
    b->older[b->older_count++] =
        (bearer_older){.conn = e->conn, .sends = e->to != 0, .lost_since = e->lost_since, .timer_at = bearer_now(b)};
}

static bearer_older *older_of(bearer *b, const tf_conn *conn)
{
    for (size_t i = 0; i < b->older_count; i++) {
        if (b->older[i].conn == conn) {
            return &b->older[i];
        }
    }
    return NULL;
}

static void drop(bearer *b, bearer_older *o)
{
    tf_hub_detach(b->ends[1].side->hub, bearer_now(b), o->conn);
    tf_conn_free(o->conn);
    size_t behind = b->older_count - 1 - (size_t)(o - b->older);
    memmove(o, o + 1, behind * sizeof(*o));
    b->older_count--;
}

void bearer_drop_older(bearer *b)
{
    while (b->older_count > 0) {
        drop(b, &b->older[b->older_count - 1]);
    }
}

bool bearer_has_room_for_instance(bearer *b)
{
    const bearer_end *e = &b->ends[1];
    bearer_older *lost = NULL;
    if (b->older_count + (e->conn != NULL ? 1 : 0) < TF_INSTANCES_PER_PEER) {
        return true;
    }
    for (size_t i = 0; i < b->older_count; i++) {
        bearer_older *o = &b->older[i];
        if (o->lost_since != TF_NEVER && (lost == NULL || o->lost_since < lost->lost_since)) {
            lost = o;
        }
    }
    if (lost != NULL) {
        drop(b, lost);
    }
    return lost != NULL;
}

/* Nobody there knows what its packets are. */
static void send_in_vain(bearer *b, tf_link *link)
{
    uint8_t buf[TF_PACKET_PLAIN_MAX];
    tf_link_packet packet;
    while (tf_link_pull_packet(link, bearer_now(b), buf, sizeof(buf), &packet)) {
        b->vain_bytes += packet.len + TF_PACKET_HEADER + TF_PACKET_TAG;
    }
}

void bearer_pull_older(bearer *b, const tf_conn *conn)
{
    bearer_older *o = older_of(b, conn);
    tf_time now = bearer_now(b);
    tf_link_event event;
    if (o == NULL) {
        return;
    }
    tf_link *link = tf_conn_link(o->conn);
    if (o->sends) {
        send_in_vain(b, link);
    }
    while (tf_link_next_event(link, &event)) {
        net_mix(b->net, (uint64_t)event.type);
    }
    o->lost_since = bearer_lost_since(link, false, o->lost_since, now);
    tf_time timeout_at = tf_time_add(o->lost_since, b->ends[1].side->session_timeout);
    o->timer_at = tf_time_min(tf_conn_deadline(o->conn), timeout_at);
    if (timeout_at <= now) {
        drop(b, o);
    }
}

void bearer_tick_older(bearer *b)
{
    for (size_t i = 0; i < b->older_count; i++) {
        bearer_older *o = &b->older[i];
        if (o->timer_at <= bearer_now(b)) {
            o->timer_at = TF_NEVER;
            tf_conn_tick(o->conn, bearer_now(b));
            tf_hub_touch(b->ends[1].side->hub, o->conn);
        }
    }
}

tf_time bearer_older_deadline(const bearer *b)
{
    tf_time at = TF_NEVER;
    for (size_t i = 0; i < b->older_count; i++) {
        at = tf_time_min(at, b->older[i].timer_at);
    }
    return at;
}
