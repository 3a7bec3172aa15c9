#include "proto/err.h"

/* Switches, not tables: a table of pointers is writable data until it has been relocated. */

const char *tf_err_text(tf_err err)
{
    switch (err) {
#define X(name, text)                                                                                                  \
    case TF_ERR_##name:                                                                                                \
        return text;
        TF_ERR_MAP(X)
#undef X
    }
    TF_UNREACHABLE();
}

const char *tf_close_text(uint64_t code)
{
    switch (code) {
#define X(name, number, text)                                                                                          \
    case (number):                                                                                                      \
        return text;
        TF_CLOSE_MAP(X)
#undef X
    }
    return "unknown";
}

tf_close_code tf_close_from_err(tf_err err)
{
    switch (err) {
    case TF_ERR_PEER_SYNTAX:
        return TF_CLOSE_MALFORMED;
    case TF_ERR_PEER_LIMIT:
        return TF_CLOSE_LIMIT;
    case TF_ERR_PEER_SEQ:
    case TF_ERR_PEER_REPLAY:
        return TF_CLOSE_BAD_SEQUENCE;
    case TF_ERR_PEER_ACK:
        return TF_CLOSE_BAD_ACK;
    case TF_ERR_PEER_REF:
        return TF_CLOSE_BAD_REF;
    case TF_ERR_PEER_STATE:
        return TF_CLOSE_BAD_STATE;
    case TF_ERR_PEER_CONFLICT:
        return TF_CLOSE_CONTENT_CONFLICT;
    case TF_ERR_PEER_VERSION:
        return TF_CLOSE_UNSUPPORTED_VERSION;
    case TF_ERR_PEER_AUTH:
    case TF_ERR_PEER_REFUSED:
        return TF_CLOSE_REFUSED;
    case TF_ERR_OK:
    case TF_ERR_AGAIN:
    case TF_ERR_LIMIT_ITEMS:
    case TF_ERR_LIMIT_BYTES:
    case TF_ERR_TIMEOUT:
    case TF_ERR_CLOSED:
    case TF_ERR_USAGE:
    case TF_ERR_NOMEM:
    case TF_ERR_IO:
    case TF_ERR_CRYPTO:
    case TF_ERR_FULL:
    case TF_ERR_DAMAGED:
        return TF_CLOSE_INTERNAL;
    }
    TF_UNREACHABLE();
}
