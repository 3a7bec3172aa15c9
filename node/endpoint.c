#include "node/endpoint.h"

#include <stdio.h>

#define NAME_MAX_LEN 253u /* RFC 1035 */
#define LABEL_MAX_LEN 63u

static const char example[] = "as in relay.example:7420, 192.0.2.1:7420 or [2001:db8::1]:7420";

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_byte(uint8_t c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
}

static bool is_name(tf_slice host)
{
    size_t label = 0;
    if (host.len == 0 || host.len > NAME_MAX_LEN) {
        return false;
    }
    for (size_t i = 0; i < host.len; i++) {
        if (host.data[i] == '.') {
            if (label == 0) {
                return false;
            }
            label = 0;
        } else if (!is_name_byte(host.data[i]) || ++label > LABEL_MAX_LEN) {
            return false;
        }
    }
    return true; /* a dot at the end is allowed */
}

/* Nothing but digits and dots: no name of a host looks like this. */
static bool is_like_ipv4(tf_slice host)
{
    for (size_t i = 0; i < host.len; i++) {
        if (!is_digit(host.data[i]) && host.data[i] != '.') {
            return false;
        }
    }
    return host.len > 0;
}

static tf_err check_host(tf_slice host, bool bracketed, char why[TF_WHY_MAX])
{
    tf_address address;
    bool literal = tf_address_parse(&address, host, 0) == TF_OK;
    if (host.len == 0) {
        return tf_why(why, "the host is missing: expected HOST:PORT, %s", example);
    }
    if (bracketed && !(literal && memchr(host.data, ':', host.len) != NULL)) {
        return tf_why(why,
                      "%s in brackets is not an IPv6 address (and one that exists here, if it ends in %%interface)",
                      tf_quote(host).text);
    }
    if (bracketed || literal) {
        return TF_OK;
    }
    if (is_like_ipv4(host)) {
        return tf_why(why, "%s is not an IPv4 address: expected four numbers from 0 to 255", tf_quote(host).text);
    }
    return is_name(host) ? TF_OK : tf_why(why, "%s is not the name of a host", tf_quote(host).text);
}

static tf_err parse_port(uint16_t *out, tf_slice text, bool allow_zero, char why[TF_WHY_MAX])
{
    uint32_t port = 0;
    bool ok = text.len > 0 && text.len <= 5;
    for (size_t i = 0; ok && i < text.len; i++) {
        ok = is_digit(text.data[i]);
        port = port * 10u + (uint32_t)(text.data[i] - '0');
    }
    if (!ok || port > UINT16_MAX || (port == 0 && !allow_zero)) {
        return tf_why(why, "the port is %s: expected a number from %d to 65535", tf_quote(text).text,
                      allow_zero ? 0 : 1);
    }
    *out = (uint16_t)port;
    return TF_OK;
}

/* Where the host ends: at the colon before the port. Brackets are not looked into. */
static tf_err split(tf_slice text, tf_slice *host, tf_slice *port, bool *bracketed, char why[TF_WHY_MAX])
{
    const uint8_t *end = text.data + text.len;
    const uint8_t *colon = NULL;
    *bracketed = text.len > 0 && text.data[0] == '[';
    if (*bracketed) {
        const uint8_t *bracket = memchr(text.data, ']', text.len);
        if (bracket == NULL) {
            return tf_why(why, "%s has no closing bracket", tf_quote(text).text);
        }
        *host = tf_slice_of(text.data + 1, (size_t)(bracket - text.data) - 1);
        colon = bracket + 1 < end && bracket[1] == ':' ? bracket + 1 : NULL;
    } else if (text.len > 0) {
        colon = memrchr(text.data, ':', text.len);
        *host = tf_slice_of(text.data, colon == NULL ? text.len : (size_t)(colon - text.data));
    }
    if (colon == NULL) {
        return tf_why(why, "%s has no port: expected HOST:PORT, %s", tf_quote(text).text, example);
    }
    *port = tf_slice_of(colon + 1, (size_t)(end - colon) - 1);
    return TF_OK;
}

tf_err tf_endpoint_parse(tf_endpoint *out, tf_slice text, bool allow_zero, char why[TF_WHY_MAX])
{
    tf_slice host = {NULL, 0};
    tf_slice port = {NULL, 0};
    bool bracketed = false;
    tf_endpoint endpoint;
    memset(&endpoint, 0, sizeof(endpoint));
    if (text.len == 0) {
        return tf_why(why, "the address is empty: expected HOST:PORT, %s", example);
    }
    tf_err err = split(text, &host, &port, &bracketed, why);
    if (err == TF_OK && !bracketed && memchr(host.data, ':', host.len) != NULL) {
        return tf_why(why, "%s: write an IPv6 address in brackets, as in [2001:db8::1]:7420", tf_quote(text).text);
    }
    err = err != TF_OK ? err : check_host(host, bracketed, why);
    err = err != TF_OK ? err : parse_port(&endpoint.port, port, allow_zero, why);
    if (err != TF_OK) {
        return err;
    }
    TF_ASSERT(host.len > 0 && host.len < sizeof(endpoint.host)); /* check_host has seen to it */
    memcpy(endpoint.host, host.data, host.len);
    *out = endpoint;
    return TF_OK;
}

const char *tf_endpoint_format(const tf_endpoint *endpoint, char out[TF_ENDPOINT_TEXT_MAX])
{
    bool brackets = strchr(endpoint->host, ':') != NULL;
    (void)snprintf(out, TF_ENDPOINT_TEXT_MAX, "%s%s%s:%u", brackets ? "[" : "", endpoint->host, brackets ? "]" : "",
                   endpoint->port);
    return out;
}

void tf_endpoint_from_address(tf_endpoint *out, const tf_address *address)
{
    char text[TF_ADDRESS_TEXT_MAX];
    tf_address_format(address, text);
    memset(out, 0, sizeof(*out));
    if (tf_address_is_set(address)) {
        TF_ASSERT(tf_endpoint_parse(out, tf_slice_str(text), true, NULL) == TF_OK);
    }
}

tf_err tf_endpoint_literal(const tf_endpoint *endpoint, tf_address *out)
{
    return tf_address_parse(out, tf_slice_str(endpoint->host), endpoint->port);
}

bool tf_endpoint_eq(const tf_endpoint *a, const tf_endpoint *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}
