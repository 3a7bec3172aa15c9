#include "handshake/offer.h"

#include "proto/mp.h"

const char *tf_cipher_name(tf_cipher cipher)
{
    switch (cipher) {
#define X(name, number, text)                                                                                          \
    case TF_CIPHER_##name:                                                                                             \
        return text;
        TF_CIPHER_MAP(X)
#undef X
    }
    TF_UNREACHABLE();
}

/* Length of a text in a field of cap bytes; cap if it is not terminated. */
static size_t text_len(const char *text, size_t cap)
{
    size_t len = 0;
    while (len < cap && text[len] != '\0') {
        len++;
    }
    return len;
}

static bool software_is_valid(tf_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < 0x20 || text.data[i] == 0x7f) {
            return false;
        }
    }
    return text.len <= TF_SOFTWARE_MAX && tf_utf8_is_valid(text);
}

static bool host_is_valid(tf_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] <= 0x20 || text.data[i] >= 0x7f) {
            return false;
        }
    }
    return text.len <= TF_HOST_MAX;
}

static tf_err limits_judge(const tf_peer_limits *limits)
{
    bool enough = limits->max_in_flight >= 1 && limits->max_message >= TF_MESSAGE_MIN_LIMIT &&
                  limits->window_bytes >= TF_WINDOW_BYTES_MIN && limits->window_segments >= TF_WINDOW_SEGMENTS_MIN &&
                  limits->max_refs >= TF_REFS_MIN && limits->max_promises >= TF_REFS_MIN && limits->max_results >= 1;
    return enough ? TF_OK : TF_ERR_PEER_LIMIT;
}

static tf_err offer_judge(const tf_offer *offer)
{
    tf_slice software = tf_slice_of(offer->software, text_len(offer->software, sizeof(offer->software)));
    tf_slice host = tf_slice_of(offer->datagram.host, text_len(offer->datagram.host, sizeof(offer->datagram.host)));
    bool valid = software_is_valid(software) && (offer->routes & TF_ROUTES_STREAM) != 0 && host_is_valid(host);
    if (!valid) {
        return TF_ERR_PEER_SYNTAX;
    }
    if (offer->keepalive_ms < TF_KEEPALIVE_MS_MIN || offer->keepalive_ms > TF_KEEPALIVE_MS_MAX) {
        return TF_ERR_PEER_LIMIT;
    }
    return limits_judge(&offer->limits);
}

tf_err tf_hello_judge(const tf_hello *hello)
{
    bool valid = hello->version_count >= 1 && hello->version_count <= TF_VERSIONS_MAX;
    for (size_t i = 0; valid && i < hello->version_count; i++) {
        valid = hello->versions[i] >= 1 && hello->versions[i] <= TF_VERSION_MAX;
    }
    if (!valid || (hello->offer.resume.present && hello->offer.resume.session == 0)) {
        return TF_ERR_PEER_SYNTAX;
    }
    return offer_judge(&hello->offer);
}

tf_err tf_welcome_judge(const tf_welcome *welcome)
{
    bool valid = welcome->version >= 1 && welcome->version <= TF_VERSION_MAX && welcome->session != 0 &&
                 welcome->generation >= 1 && welcome->generation <= TF_GENERATION_MAX;
    return valid ? offer_judge(&welcome->offer) : TF_ERR_PEER_SYNTAX;
}

void tf_offer_init(tf_offer *offer)
{
    *offer = (tf_offer){
        .routes = TF_ROUTES_BOTH,
        .data = {TF_ROUTES_BOTH, TF_ROUTES_BOTH},
        .datagram = {.ciphers = TF_CIPHERS_ALL},
        .limits = {.max_in_flight = TF_MAX_IN_FLIGHT,
                   .max_message = TF_MESSAGE_MAX,
                   .window_bytes = TF_WINDOW_BYTES,
                   .window_segments = TF_WINDOW_SEGMENTS,
                   .max_refs = TF_REFS_MAX,
                   .max_promises = TF_PROMISES_MAX,
                   .max_results = TF_RESULTS_MAX},
        .keepalive_ms = (uint32_t)(TF_KEEPALIVE / TF_MS),
    };
}

void tf_hello_init(tf_hello *hello)
{
    *hello = (tf_hello){.version_count = 1, .versions = {TF_PROTOCOL_VERSION}};
    tf_offer_init(&hello->offer);
}
