/* The datagram path of a net. */
#include <stdlib.h>

#include "tests/sim/net_internal.h"

void net_clear_path(path_state *path)
{
    while (path->first != NULL) {
        waiting *w = path->first;
        path->first = w->next;
        free(w);
    }
    path->last = NULL;
    path->waiting_bytes = 0;
}

/* When the last byte of a packet has left; TF_NEVER: there is no room for it. */
static tf_time leave(net *n, path_state *path, size_t len)
{
    const net_path *set = &path->set;
    tf_time start = tf_time_max(n->now, path->busy_until);
    if (set->bloat != 0 || path->bloat.is_on) {
        return net_bloated(n, &path->bloat, set->bloat, set->rate, len);
    }
    if (set->rate != 0 && (start - n->now) * set->rate / TF_SECOND > set->queue) {
        return TF_NEVER;
    }
    path->busy_until = start + net_transmission(set->rate, len);
    return path->busy_until;
}

static void send_copy(net *n, unsigned end, uint64_t generation, uint64_t number, tf_slice packet)
{
    path_state *path = &n->paths[end];
    tf_time left = leave(n, path, packet.len);
    if (left == TF_NEVER) {
        return;
    }
    tf_time at = left + path->set.delay;
    if (path->set.jitter > 0) {
        at += tf_test_random_below(&n->random, path->set.jitter);
    }
    if (net_happens(n, path->set.late, path->set.of)) {
        at += path->set.late_by;
    }
    net_push(n, at,
             (net_queued){.kind = KIND_PACKET,
                          .end = 1 - end,
                          .generation = generation,
                          .number = number,
                          .data = tf_test_exact(packet),
                          .len = packet.len});
}

/* Runs of loss: whether one goes on, or begins, follows from its mean length and the share that is lost in all. */
static bool is_lost(net *n, path_state *path)
{
    const net_path *set = &path->set;
    unsigned of = set->of == 0 ? ODDS : set->of;
    if (set->burst <= 1 || set->loss == 0 || set->loss >= of) {
        path->losing = false;
        return net_happens(n, set->loss, set->of);
    }
    path->losing = path->losing ? !tf_test_random_chance(&n->random, 1, set->burst)
                                : tf_test_random_chance(&n->random, set->loss, (uint64_t)(of - set->loss) * set->burst);
    return path->losing;
}

static void wait_for_end_of_stall(path_state *path, uint64_t generation, uint64_t number, tf_slice packet)
{
    if (packet.len > path->set.queue - path->waiting_bytes) {
        return;
    }
    waiting *w = net_must(malloc(sizeof(*w) + packet.len));
    w->next = NULL;
    w->generation = generation;
    w->number = number;
    w->len = packet.len;
    memcpy(w->data, packet.data, packet.len);
    if (path->last == NULL) {
        path->first = w;
    } else {
        path->last->next = w;
    }
    path->last = w;
    path->waiting_bytes += packet.len;
}

void net_send(net *n, unsigned end, uint64_t generation, uint64_t number, tf_slice packet)
{
    path_state *path = &n->paths[end];
    const net_path *set = &path->set;
    bool lost = is_lost(n, path);
    bool repeated = net_happens(n, set->repeat, set->of);
    size_t len = packet.len + TF_PACKET_HEADER + TF_PACKET_TAG;
    path->sent += len;
    if (set->hole || lost || (set->mtu != 0 && len > set->mtu)) {
        return;
    }
    for (unsigned copies = repeated ? 2 : 1; copies > 0; copies--) {
        if (set->stall) {
            wait_for_end_of_stall(path, generation, number, packet);
        } else {
            send_copy(n, end, generation, number, packet);
        }
    }
}

void net_heal_path(net *n, unsigned end)
{
    path_state *path = &n->paths[end];
    path->set.stall = false;
    for (const waiting *w = path->first; w != NULL; w = w->next) {
        send_copy(n, end, w->generation, w->number, tf_slice_of(w->data, w->len));
    }
    net_clear_path(path);
}

uint64_t net_sent(const net *n, unsigned end)
{
    return n->paths[end].sent;
}
