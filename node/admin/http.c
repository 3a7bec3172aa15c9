#include "node/admin/http.h"

/* Takes what is before `end` off the front of rest, and `end` too. False: it is not there, or nothing is before it. */
static bool take(tf_slice *rest, uint8_t end, tf_slice *out)
{
    const uint8_t *at = rest->len == 0 ? NULL : memchr(rest->data, end, rest->len);
    if (at == NULL || at == rest->data) {
        return false;
    }
    *out = tf_slice_of(rest->data, (size_t)(at - rest->data));
    *rest = tf_slice_of(at + 1, rest->len - out->len - 1);
    return true;
}

static bool is_token(tf_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] <= ' ' || text.data[i] >= 0x7f) {
            return false;
        }
    }
    return true;
}

bool tf_http_parse(tf_slice head, tf_http_request *out)
{
    tf_slice rest = head;
    tf_slice version;
    tf_http_request request;
    if (!take(&rest, ' ', &request.method) || !take(&rest, ' ', &request.path) || !take(&rest, '\r', &version) ||
        rest.len == 0 || rest.data[0] != '\n') {
        return false;
    }
    bool newer = tf_slice_eq(version, tf_slice_str("HTTP/1.1"));
    if (!is_token(request.method) || !is_token(request.path) ||
        (!newer && !tf_slice_eq(version, tf_slice_str("HTTP/1.0")))) {
        return false;
    }
    request.minor = newer ? 1 : 0;
    *out = request;
    return true;
}
