#include "node/uri.h"

#include <stdio.h>

#include "handshake/node_id.h"

static const char scheme[] = "twofold://";

/* Cuts text at the first `mark`; *rest is what follows it. False: there is no mark. */
static bool cut(tf_slice *text, char mark, tf_slice *rest)
{
    const uint8_t *at = text->len == 0 ? NULL : memchr(text->data, mark, text->len);
    if (at == NULL) {
        *rest = tf_slice_of(NULL, 0);
        return false;
    }
    size_t before = (size_t)(at - text->data);
    *rest = tf_slice_of(at + 1, text->len - before - 1);
    text->len = before;
    return true;
}

static tf_err parse_bind(char out[TF_URI_BIND_MAX], const char *name, tf_slice value, char why[TF_WHY_MAX])
{
    if (out[0] != '\0') {
        return tf_why(why, "%s= is given twice", name);
    }
    if (value.len == 0 || value.len >= TF_URI_BIND_MAX) {
        return tf_why(why, "%s= is %s: expected a local address or the name of an interface", name,
                      tf_quote(value).text);
    }
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] <= ' ' || value.data[i] >= 0x7f) {
            return tf_why(why, "%s= is %s: blanks and special characters are not allowed", name, tf_quote(value).text);
        }
    }
    memcpy(out, value.data, value.len);
    return TF_OK;
}

static tf_err parse_datagram(tf_uri *uri, tf_slice value, char why[TF_WHY_MAX])
{
    char inner[TF_WHY_MAX] = "";
    if (uri->has_datagram) {
        return tf_why(why, "datagram= is given twice");
    }
    if (tf_endpoint_parse(&uri->datagram, value, false, inner) != TF_OK) {
        return tf_why(why, "datagram=: %.200s", inner);
    }
    uri->has_datagram = true;
    return TF_OK;
}

/* given: the routes of which it was said before. */
static tf_err parse_copy(tf_uri *uri, tf_routes route, tf_slice value, tf_routes *given, char why[TF_WHY_MAX])
{
    const char *name = route == TF_ROUTES_STREAM ? "stream-copy" : "datagram-copy";
    bool standby = tf_slice_eq(value, tf_slice_str("standby"));
    if ((*given & route) != 0) {
        return tf_why(why, "%s= is given twice", name);
    }
    if (!standby && !tf_slice_eq(value, tf_slice_str("always"))) {
        return tf_why(why, "%s= is %s: expected always or standby", name, tf_quote(value).text);
    }
    *given |= route;
    uri->standby |= standby ? route : 0;
    return uri->standby == TF_ROUTES_BOTH ? tf_why(why, "both routes are on standby: one has to carry") : TF_OK;
}

static tf_err parse_option(tf_uri *uri, tf_slice option, tf_routes *copies, char why[TF_WHY_MAX])
{
    tf_slice value;
    tf_slice name = option;
    if (!cut(&name, '=', &value)) {
        return tf_why(why, "option %s has no value: expected name=value", tf_quote(option).text);
    }
    if (tf_slice_eq(name, tf_slice_str("datagram"))) {
        return parse_datagram(uri, value, why);
    }
    if (tf_slice_eq(name, tf_slice_str("stream-bind"))) {
        return parse_bind(uri->stream_bind, "stream-bind", value, why);
    }
    if (tf_slice_eq(name, tf_slice_str("datagram-bind"))) {
        return parse_bind(uri->datagram_bind, "datagram-bind", value, why);
    }
    if (tf_slice_eq(name, tf_slice_str("stream-copy"))) {
        return parse_copy(uri, TF_ROUTES_STREAM, value, copies, why);
    }
    if (tf_slice_eq(name, tf_slice_str("datagram-copy"))) {
        return parse_copy(uri, TF_ROUTES_DATAGRAM, value, copies, why);
    }
    return tf_why(why,
                  "option %s is not known: there are datagram, stream-bind, datagram-bind, stream-copy and datagram-copy",
                  tf_quote(name).text);
}

static tf_err parse_options(tf_uri *uri, tf_slice options, char why[TF_WHY_MAX])
{
    bool more = true;
    tf_routes copies = 0;
    while (more) {
        tf_slice rest;
        more = cut(&options, '&', &rest);
        tf_err err = parse_option(uri, options, &copies, why);
        if (err != TF_OK) {
            return err;
        }
        options = rest;
    }
    return TF_OK;
}

static tf_err parse_node(tf_uri *uri, tf_slice text, char why[TF_WHY_MAX])
{
    if (tf_node_id_parse(&uri->node, text) == TF_OK) {
        return TF_OK;
    }
    if (text.len != TF_NODE_ID_TEXT_LEN) {
        return tf_why(why,
                      "the node id %s has %zu characters: expected %u (a-z and 2-7), as printed by 'twofold pubkey'",
                      tf_quote(text).text, text.len, TF_NODE_ID_TEXT_LEN);
    }
    return tf_why(why, "%s is not a node id: expected %u characters a-z and 2-7, as printed by 'twofold pubkey'",
                  tf_quote(text).text, TF_NODE_ID_TEXT_LEN);
}

tf_err tf_uri_parse(tf_uri *out, const char *text, char why[TF_WHY_MAX])
{
    tf_uri uri;
    memset(&uri, 0, sizeof(uri));
    tf_slice rest = tf_slice_str(text);
    tf_slice options;
    tf_slice address;
    if (rest.len < sizeof(scheme) - 1 || memcmp(rest.data, scheme, sizeof(scheme) - 1) != 0) {
        return tf_why(why, "%s does not begin with %s: expected %sNODEID@HOST:PORT", tf_quote(rest).text, scheme,
                      scheme);
    }
    if (rest.len >= TF_URI_TEXT_MAX) {
        return tf_why(why, "the URI has more than %u characters", TF_URI_TEXT_MAX - 1);
    }
    rest = tf_slice_of(rest.data + sizeof(scheme) - 1, rest.len - (sizeof(scheme) - 1));
    bool has_options = cut(&rest, '?', &options);
    if (!cut(&rest, '@', &address)) {
        return tf_why(why, "the node id is missing: expected %sNODEID@HOST:PORT", scheme);
    }
    tf_err err = parse_node(&uri, rest, why);
    if (err == TF_OK && address.len > 0 && address.data[address.len - 1] == '/') {
        address.len--; /* as browsers and scripts write it */
    }
    err = err != TF_OK ? err : tf_endpoint_parse(&uri.stream, address, false, why);
    err = err != TF_OK || !has_options ? err : parse_options(&uri, options, why);
    if (err != TF_OK) {
        return err;
    }
    if (!uri.has_datagram) {
        uri.datagram = uri.stream;
    }
    *out = uri;
    return TF_OK;
}

/* Behind what is there; "" is no value. */
static void append_option(char out[TF_URI_TEXT_MAX], bool *any, const char *name, const char *value)
{
    size_t len = strlen(out);
    if (value[0] != '\0') {
        (void)snprintf(out + len, TF_URI_TEXT_MAX - len, "%c%s=%s", *any ? '&' : '?', name, value);
        *any = true;
    }
}

const char *tf_uri_format(const tf_uri *uri, char out[TF_URI_TEXT_MAX])
{
    char node[TF_NODE_ID_TEXT_LEN + 1];
    char stream[TF_ENDPOINT_TEXT_MAX];
    char datagram[TF_ENDPOINT_TEXT_MAX];
    bool any = false;
    tf_node_id_format(&uri->node, node);
    (void)snprintf(out, TF_URI_TEXT_MAX, "%s%s@%s", scheme, node, tf_endpoint_format(&uri->stream, stream));
    bool differs = !tf_endpoint_eq(&uri->stream, &uri->datagram);
    append_option(out, &any, "datagram", differs ? tf_endpoint_format(&uri->datagram, datagram) : "");
    append_option(out, &any, "stream-bind", uri->stream_bind);
    append_option(out, &any, "datagram-bind", uri->datagram_bind);
    append_option(out, &any, "stream-copy", (uri->standby & TF_ROUTES_STREAM) != 0 ? "standby" : "");
    append_option(out, &any, "datagram-copy", (uri->standby & TF_ROUTES_DATAGRAM) != 0 ? "standby" : "");
    return out;
}
