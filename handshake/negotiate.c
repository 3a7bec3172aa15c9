#include "handshake/negotiate.h"

#include "handshake/node_id.h"

/* Where a peer announces more than we would ever use, we use what we would (H9). Every send in flight has a result. */
static tf_peer_limits limits_cut(const tf_peer_limits *limits)
{
    tf_peer_limits cut = *limits;
    const tf_peer_limits most = {.max_in_flight = TF_MAX_IN_FLIGHT_MAX,
                                 .max_message = TF_MESSAGE_MAX,
                                 .window_bytes = TF_WINDOW_BYTES_MAX,
                                 .window_segments = TF_WINDOW_SEGMENTS_MAX,
                                 .max_refs = TF_REFS_MAX,
                                 .max_promises = TF_PROMISES_MAX,
                                 .max_results = TF_RESULTS_MAX};
    cut.max_in_flight = cut.max_in_flight < most.max_in_flight ? cut.max_in_flight : most.max_in_flight;
    cut.max_message = cut.max_message < most.max_message ? cut.max_message : most.max_message;
    cut.window_bytes = cut.window_bytes < most.window_bytes ? cut.window_bytes : most.window_bytes;
    cut.window_segments = cut.window_segments < most.window_segments ? cut.window_segments : most.window_segments;
    cut.max_refs = cut.max_refs < most.max_refs ? cut.max_refs : most.max_refs;
    cut.max_promises = cut.max_promises < most.max_promises ? cut.max_promises : most.max_promises;
    cut.max_results = cut.max_results < most.max_results ? cut.max_results : most.max_results;
    cut.max_in_flight = cut.max_in_flight < cut.max_results ? cut.max_in_flight : cut.max_results;
    return cut;
}

static bool has_version(const tf_hello *hello, uint32_t version)
{
    for (size_t i = 0; i < hello->version_count; i++) {
        if (hello->versions[i] == version) {
            return true;
        }
    }
    return false;
}

/* The highest that both have, 0: none. */
static uint32_t common_version(const tf_hello *a, const tf_hello *b)
{
    uint32_t highest = 0;
    for (size_t i = 0; i < a->version_count; i++) {
        if (a->versions[i] > highest && has_version(b, a->versions[i])) {
            highest = a->versions[i];
        }
    }
    return highest;
}

/* The most preferred one of a set that is not empty. */
static tf_cipher first_cipher(tf_ciphers set)
{
    return (set & 1u << TF_CIPHER_AES_128_GCM) != 0 ? TF_CIPHER_AES_128_GCM : TF_CIPHER_CHACHA20_POLY1305;
}

/* Whether our ring still holds what the peer lacks, and the peer lacks nothing that was never sent. */
static bool next_is_possible(const tf_negotiate_session *state, uint64_t peer_next)
{
    return peer_next >= state->send_floor && peer_next <= state->send_next;
}

static bool is_resumed(const tf_resume *resume, const tf_negotiate_session *state)
{
    return state->resumable && resume->present && resume->session == state->session &&
           next_is_possible(state, resume->next) && state->last_generation < TF_GENERATION_MAX;
}

/* What is the same whoever dialled: the peer's side of its offer. */
static void agree_on_peer(tf_agreed *agreed, const tf_offer *ours, const tf_offer *theirs)
{
    agreed->local_connection_id = ours->datagram.connection_id;
    agreed->remote_connection_id = theirs->datagram.connection_id;
    agreed->remote_port = theirs->datagram.port;
    memcpy(agreed->remote_host, theirs->datagram.host, sizeof(agreed->remote_host));
    agreed->peer_limits = limits_cut(&theirs->limits);
    agreed->own_limits = ours->limits;
    agreed->peer_keepalive = theirs->keepalive_ms * TF_MS;
    agreed->peer_instance = theirs->instance;
    agreed->peer_exclusive = theirs->exclusive;
    memcpy(agreed->peer_software, theirs->software, sizeof(agreed->peer_software));
}

static void agree_on_welcome(tf_agreed *agreed, const tf_welcome *welcome)
{
    const tf_data_routes *data = &welcome->offer.data;
    agreed->version = welcome->version;
    agreed->features = welcome->offer.features;
    agreed->routes = welcome->offer.routes;
    agreed->send_routes = agreed->dialler ? data->up : data->down;
    agreed->receive_routes = agreed->dialler ? data->down : data->up;
    agreed->cipher = first_cipher(welcome->offer.datagram.ciphers);
    agreed->generation = welcome->generation;
    agreed->session = welcome->session;
    agreed->resumed = welcome->offer.resume.present;
}

/* H9: the sets that both have, written over our own offer. */
static tf_err offer_intersect(tf_offer *ours, const tf_offer *theirs)
{
    tf_ciphers ciphers = ours->datagram.ciphers & theirs->datagram.ciphers;
    ours->features &= theirs->features;
    ours->routes &= theirs->routes;
    if ((ours->routes & TF_ROUTES_DATAGRAM) != 0 && ciphers == 0) {
        ours->routes = TF_ROUTES_STREAM;
    }
    ours->data.up &= theirs->data.up & ours->routes;
    ours->data.down &= theirs->data.down & ours->routes;
    if (ciphers != 0) {
        ours->datagram.ciphers = (tf_ciphers)(1u << first_cipher(ciphers));
    }
    return ours->data.up != 0 && ours->data.down != 0 ? TF_OK : TF_ERR_PEER_REFUSED;
}

tf_err tf_negotiate_answer(const tf_hello *theirs, const tf_hello *ours, const tf_negotiate_session *state,
                           tf_welcome *welcome, tf_agreed *agreed)
{
    TF_ASSERT(state->new_session != 0);
    tf_welcome answer = {.version = common_version(theirs, ours), .offer = ours->offer};
    if (answer.version == 0) {
        return TF_ERR_PEER_VERSION;
    }
    tf_err err = offer_intersect(&answer.offer, &theirs->offer);
    if (err != TF_OK) {
        return err;
    }
    bool resumed = is_resumed(&theirs->offer.resume, state);
    answer.session = resumed ? state->session : state->new_session;
    answer.generation = resumed ? state->last_generation + 1 : 1;
    answer.offer.resume = (tf_resume){.present = resumed, .next = resumed ? state->receive_next : 0};
    *agreed = (tf_agreed){.dialler = false, .peer_next = resumed ? theirs->offer.resume.next : 0};
    agree_on_peer(agreed, &ours->offer, &theirs->offer);
    agree_on_welcome(agreed, &answer);
    *welcome = answer;
    return TF_OK;
}

/* H10: nothing in the answer that was not offered. */
static bool answer_fits_offer(const tf_offer *ours, const tf_offer *answer)
{
    tf_routes routes = answer->routes;
    tf_ciphers ciphers = answer->datagram.ciphers;
    bool data = answer->data.up != 0 && (answer->data.up & ~(ours->data.up & routes)) == 0 && answer->data.down != 0 &&
                (answer->data.down & ~(ours->data.down & routes)) == 0;
    bool datagram = (routes & TF_ROUTES_DATAGRAM) == 0 ||
                    (ciphers != 0 && (ciphers & (ciphers - 1)) == 0 && (ciphers & ~ours->datagram.ciphers) == 0);
    return (routes & ~ours->routes) == 0 && data && datagram;
}

/* H10: a session that goes on does so with what we asked for, under a new generation; a new one is not the old one. */
static bool answer_fits_session(const tf_hello *ours, const tf_welcome *welcome, const tf_negotiate_session *state)
{
    const tf_resume *asked = &ours->offer.resume;
    const tf_resume *given = &welcome->offer.resume;
    if (!given->present) {
        return state->session == 0 || welcome->session != state->session;
    }
    return asked->present && welcome->session == asked->session && welcome->session == state->session &&
           welcome->generation > state->last_generation && next_is_possible(state, given->next);
}

tf_err tf_negotiate_accept(const tf_hello *ours, const tf_welcome *welcome, const tf_negotiate_session *state,
                           tf_agreed *agreed)
{
    if (!has_version(ours, welcome->version)) {
        return TF_ERR_PEER_VERSION;
    }
    if (!answer_fits_offer(&ours->offer, &welcome->offer) || !answer_fits_session(ours, welcome, state)) {
        return TF_ERR_PEER_STATE;
    }
    *agreed = (tf_agreed){.dialler = true, .peer_next = welcome->offer.resume.present ? welcome->offer.resume.next : 0};
    agree_on_peer(agreed, &ours->offer, &welcome->offer);
    agree_on_welcome(agreed, welcome);
    agreed->features &= ours->offer.features;
    return TF_OK;
}

bool tf_negotiate_keeps_dial(const tf_node_id *dialler, const tf_node_id *acceptor)
{
    return tf_node_id_compare(dialler, acceptor) < 0;
}
