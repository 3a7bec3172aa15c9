/* The peer's datagram address has changed, or somebody races copies of its packets: both addresses are challenged, and the
 * old one wins if it answers. Who copies packets to both meanwhile is the edge. */
#include "paths/link_private.h"

/* RFC 9000 8.2.4: what was measured may have been measured through one who stands nearer than the peer and passes packets
 * on, so the old address has at least as long as it would have before any measurement. */
static tf_time span(tf_time pto)
{
    tf_link_rtt unmeasured;
    tf_link_rtt_init(&unmeasured);
    return tf_time_min(TF_MOVE_PTOS * tf_time_max(pto, tf_link_rtt_pto(&unmeasured)), TF_MOVE_SPAN_MAX);
}

/* The peer may have no keys any more but those of the generation that is not confirmed here: both addresses are asked under
 * them, too. */
static void want(tf_link *link, size_t address)
{
    for (size_t i = 0; i < TF_LINK_GENERATIONS; i++) {
        tf_link_keys keys = link->datagram.generations[i].keys;
        link->datagram.move.wanted[address][i] = keys == TF_LINK_KEYS_CURRENT || keys == TF_LINK_KEYS_UNCONFIRMED;
    }
}

void tf_link_datagram_moved(tf_link *link, tf_time now)
{
    tf_link_enter(link, now);
    tf_link_move *move = &link->datagram.move;
    if (move->testing || link->state != TF_LINK_OPEN || tf_link_datagram_sending(link) == NULL) {
        return;
    }
    tf_time pto = tf_link_rtt_pto(&link->routes[TF_ROUTE_DATAGRAM].rtt);
    *move = (tf_link_move){
        .testing = true,
        .tokens = {tf_rand_u64(link->config.rand), tf_rand_u64(link->config.rand)},
        .again_at = now + pto,
        .ends_at = now + span(pto),
    };
    want(link, TF_LINK_MOVE_OLD);
    want(link, TF_LINK_MOVE_NEW);
    tf_link_datagram_challenge(link, now);
}

bool tf_link_datagram_move_answered(const tf_link *link)
{
    return link->datagram.move.testing && link->datagram.move.answered;
}

static void decide(tf_link *link, bool moved)
{
    tf_link_move *move = &link->datagram.move;
    *move = (tf_link_move){.decided = true, .moved = moved};
    if (moved) {
        tf_link_congestion_restart(&link->datagram.cc);
        link->routes[TF_ROUTE_DATAGRAM].rtt.measured = false; /* the next sample starts it anew (RFC 9000 9.4) */
        tf_link_mtu_restart(&link->datagram.mtu);
    }
}

/* From here on base packets may go to the new address, too: what is to be proved with them need not wait for its time. */
static void answered(tf_link *link, tf_time now)
{
    link->datagram.move.answered = true;
    tf_link_datagram_challenge(link, now);
    if (link->routes[TF_ROUTE_DATAGRAM].verdict == TF_VERDICT_DOWN) {
        tf_link_route_probe(&link->routes[TF_ROUTE_DATAGRAM], now);
    }
}

void tf_link_move_response(tf_link *link, tf_time now, uint64_t token)
{
    tf_link_move *move = &link->datagram.move;
    if (!move->testing) {
        return;
    }
    if (token == move->tokens[TF_LINK_MOVE_OLD]) {
        decide(link, false);
    } else if (token == move->tokens[TF_LINK_MOVE_NEW] && !move->answered) {
        answered(link, now);
    }
}

tf_time tf_link_move_deadline(const tf_link *link)
{
    const tf_link_move *move = &link->datagram.move;
    return move->testing ? tf_time_min(move->again_at, move->ends_at) : TF_NEVER;
}

void tf_link_move_tick(tf_link *link, tf_time now)
{
    tf_link_move *move = &link->datagram.move;
    if (!move->testing) {
        return;
    }
    if (move->ends_at <= now) {
        decide(link, move->answered);
    } else if (move->again_at <= now) {
        move->again_at = now + tf_link_rtt_pto(&link->routes[TF_ROUTE_DATAGRAM].rtt);
        want(link, TF_LINK_MOVE_OLD);
        if (!move->answered) {
            want(link, TF_LINK_MOVE_NEW);
        }
    }
}
