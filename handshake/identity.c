#include "handshake/identity.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

struct tf_identity {
    uint8_t seed[TF_SEED_LEN];
    tf_node_id node_id;
    EVP_PKEY *key;
    X509 *certificate;
};

void tf_wipe(void *secret, size_t len)
{
    OPENSSL_cleanse(secret, len);
}

/* The same for every identity but for the key: who signs it and when means nothing (H2). */
static tf_err certificate_fill(X509 *certificate, EVP_PKEY *key)
{
    static const unsigned char name[] = "twofold";
    X509_NAME *subject = X509_get_subject_name(certificate);
    bool ok = X509_set_version(certificate, X509_VERSION_3) == 1 &&
              ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) == 1 &&
              ASN1_TIME_set_string_X509(X509_getm_notBefore(certificate), "19700101000000Z") == 1 &&
              ASN1_TIME_set_string_X509(X509_getm_notAfter(certificate), "99991231235959Z") == 1 &&
              X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, name, (int)sizeof(name) - 1, -1, 0) == 1 &&
              X509_set_issuer_name(certificate, subject) == 1 && X509_set_pubkey(certificate, key) == 1 &&
              X509_sign(certificate, key, NULL) > 0;
    return ok ? TF_OK : TF_ERR_CRYPTO;
}

static tf_err identity_fill(tf_identity *identity)
{
    identity->key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, identity->seed, TF_SEED_LEN);
    identity->certificate = X509_new();
    if (identity->key == NULL || identity->certificate == NULL) {
        return TF_ERR_CRYPTO;
    }
    size_t len = TF_NODE_ID_LEN;
    if (EVP_PKEY_get_raw_public_key(identity->key, identity->node_id.bytes, &len) != 1 || len != TF_NODE_ID_LEN) {
        return TF_ERR_CRYPTO;
    }
    return certificate_fill(identity->certificate, identity->key);
}

tf_err tf_identity_new(tf_identity **out, const uint8_t seed[TF_SEED_LEN])
{
    ERR_clear_error();
    tf_identity *identity = OPENSSL_zalloc(sizeof(*identity));
    if (identity == NULL) {
        return TF_ERR_NOMEM;
    }
    memcpy(identity->seed, seed, TF_SEED_LEN);
    tf_err err = identity_fill(identity);
    if (err != TF_OK) {
        goto out;
    }
    *out = identity;
    identity = NULL; /* handed over */
out:
    tf_identity_free(identity);
    return err;
}

tf_err tf_identity_generate(tf_identity **out, const tf_rand *rand)
{
    uint8_t seed[TF_SEED_LEN];
    rand->fill(rand->ctx, seed, sizeof(seed));
    tf_err err = tf_identity_new(out, seed);
    tf_wipe(seed, sizeof(seed));
    return err;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static tf_slice trimmed(tf_slice text)
{
    while (text.len > 0 && is_space(text.data[0])) {
        text.data++;
        text.len--;
    }
    while (text.len > 0 && is_space(text.data[text.len - 1])) {
        text.len--;
    }
    return text;
}

static void base64_of(const uint8_t seed[TF_SEED_LEN], char out[TF_IDENTITY_TEXT_LEN + 1])
{
    int len = EVP_EncodeBlock((unsigned char *)out, seed, (int)TF_SEED_LEN);
    TF_ASSERT(len == (int)TF_IDENTITY_TEXT_LEN);
}

/* Decodes, and encodes again: what does not come out the same was not canonical. */
static tf_err seed_parse(uint8_t seed[TF_SEED_LEN], tf_slice text)
{
    uint8_t bytes[TF_SEED_LEN + 2]; /* EVP_DecodeBlock gives the padding as zero bytes */
    char again[TF_IDENTITY_TEXT_LEN + 1] = {0};
    tf_err err = TF_ERR_USAGE;
    if (text.len != TF_IDENTITY_TEXT_LEN) {
        return err;
    }
    if (EVP_DecodeBlock(bytes, text.data, (int)text.len) != TF_SEED_LEN + 1) {
        goto out;
    }
    base64_of(bytes, again);
    if (CRYPTO_memcmp(again, text.data, TF_IDENTITY_TEXT_LEN) != 0) {
        goto out;
    }
    memcpy(seed, bytes, TF_SEED_LEN);
    err = TF_OK;
out:
    ERR_clear_error();
    tf_wipe(bytes, sizeof(bytes));
    tf_wipe(again, sizeof(again));
    return err;
}

tf_err tf_identity_parse(tf_identity **out, tf_slice text)
{
    uint8_t seed[TF_SEED_LEN];
    tf_err err = seed_parse(seed, trimmed(text));
    if (err == TF_OK) {
        err = tf_identity_new(out, seed);
    }
    tf_wipe(seed, sizeof(seed));
    return err;
}

void tf_identity_free(tf_identity *identity)
{
    if (identity == NULL) {
        return;
    }
    X509_free(identity->certificate);
    EVP_PKEY_free(identity->key);
    OPENSSL_clear_free(identity, sizeof(*identity));
}

void tf_identity_format(const tf_identity *identity, char out[TF_IDENTITY_TEXT_LEN + 1])
{
    base64_of(identity->seed, out);
}

const tf_node_id *tf_identity_node_id(const tf_identity *identity)
{
    return &identity->node_id;
}

/* The Ed25519 key of a certificate, which is all that is ever looked at in one (H3). */
static tf_err certificate_key(X509 *certificate, tf_node_id *out)
{
    EVP_PKEY *key = certificate == NULL ? NULL : X509_get0_pubkey(certificate);
    if (key == NULL || EVP_PKEY_get_id(key) != EVP_PKEY_ED25519) {
        return TF_ERR_PEER_AUTH;
    }
    tf_node_id id;
    size_t len = TF_NODE_ID_LEN;
    if (EVP_PKEY_get_raw_public_key(key, id.bytes, &len) != 1 || len != TF_NODE_ID_LEN) {
        return TF_ERR_PEER_AUTH;
    }
    *out = id;
    return TF_OK;
}

/* -- TLS ----------------------------------------------------------------------------------------------------------- */

static const unsigned char alpn_list[] = {sizeof(TF_ALPN) - 1, 't', 'w', 'o', 'f', 'o', 'l', 'd', '/', '1'};
_Static_assert(sizeof(alpn_list) == sizeof(TF_ALPN), "a length and the name");

/* Who is let in: kept with the SSL_CTX. The pin of one SSL is kept with that SSL. */
typedef struct tls_rule {
    tf_tls_allow *allow;
    void *allow_ctx;
} tls_rule;

static CRYPTO_ONCE index_once = CRYPTO_ONCE_STATIC_INIT;
static int rule_index = -1;
static int pin_index = -1;

static void ex_free(void *parent, void *ptr, CRYPTO_EX_DATA *ad, int idx, long argl, void *argp)
{
    (void)parent, (void)ad, (void)idx, (void)argl, (void)argp;
    OPENSSL_free(ptr);
}

static void index_init(void)
{
    rule_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, ex_free);
    pin_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, ex_free);
}

static bool is_allowed(const SSL *ssl, const tls_rule *rule, const tf_node_id *peer)
{
    const tf_node_id *pin = SSL_get_ex_data(ssl, pin_index);
    if (pin != NULL) {
        return tf_node_id_eq(pin, peer);
    }
    return rule->allow != NULL && rule->allow(rule->allow_ctx, peer);
}

static bool has_alpn(const SSL *ssl)
{
    const unsigned char *name = NULL;
    unsigned len = 0;
    SSL_get0_alpn_selected(ssl, &name, &len);
    return tf_slice_eq(tf_slice_of(name, len), tf_slice_str(TF_ALPN));
}

/* In place of OpenSSL's verification of chains, names and dates. The error decides which alert the peer gets. */
static int verify_peer(X509_STORE_CTX *store, void *arg)
{
    const tls_rule *rule = arg;
    const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    tf_node_id peer;
    int error = X509_V_OK;
    if (ssl == NULL || !has_alpn(ssl)) {
        error = X509_V_ERR_APPLICATION_VERIFICATION; /* handshake_failure */
    } else if (certificate_key(X509_STORE_CTX_get0_cert(store), &peer) != TF_OK) {
        error = X509_V_ERR_INVALID_PURPOSE; /* unsupported_certificate */
    } else if (!is_allowed(ssl, rule, &peer)) {
        error = X509_V_ERR_CERT_REJECTED; /* bad_certificate */
    }
    X509_STORE_CTX_set_error(store, error);
    return error == X509_V_OK;
}

static int alpn_select(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                       unsigned in_len, void *arg)
{
    (void)ssl, (void)arg;
    unsigned char *chosen = NULL;
    int found = SSL_select_next_proto(&chosen, out_len, alpn_list, sizeof(alpn_list), in, in_len);
    *out = chosen;
    return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* alpn_select is not asked when the client offers no ALPN at all. */
static int client_hello_check(SSL *ssl, int *alert, void *arg)
{
    (void)arg;
    const unsigned char *data = NULL;
    size_t len = 0;
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &data, &len) == 1) {
        return SSL_CLIENT_HELLO_SUCCESS;
    }
    *alert = SSL_AD_NO_APPLICATION_PROTOCOL;
    return SSL_CLIENT_HELLO_ERROR;
}

static tf_err ctx_set_alpn(SSL_CTX *ctx, bool server)
{
    if (!server) {
        return SSL_CTX_set_alpn_protos(ctx, alpn_list, sizeof(alpn_list)) == 0 ? TF_OK : TF_ERR_CRYPTO;
    }
    SSL_CTX_set_alpn_select_cb(ctx, alpn_select, NULL);
    SSL_CTX_set_client_hello_cb(ctx, client_hello_check, NULL);
    return TF_OK;
}

/* What is negotiable in TLS 1.3 (H4); the system's openssl.cnf has no say in it. */
static tf_err ctx_set_algorithms(SSL_CTX *ctx)
{
    SSL_CTX_set_security_level(ctx, 2);
    bool ok = SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
              SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1 &&
              SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:"
                                            "TLS_AES_256_GCM_SHA384") == 1 &&
              SSL_CTX_set1_groups_list(ctx, "X25519:P-256") == 1 && SSL_CTX_set1_sigalgs_list(ctx, "ed25519") == 1 &&
              SSL_CTX_set1_client_sigalgs_list(ctx, "ed25519") == 1;
    return ok ? TF_OK : TF_ERR_CRYPTO;
}

/* No resumption of any kind: every handshake proves both keys anew. */
static tf_err ctx_set_behaviour(SSL_CTX *ctx)
{
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_max_cert_list(ctx, TF_CERTIFICATE_MESSAGE_MAX);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    bool ok = SSL_CTX_set_num_tickets(ctx, 0) == 1 && SSL_CTX_set_max_early_data(ctx, 0) == 1 &&
              SSL_CTX_set_recv_max_early_data(ctx, 0) == 1;
    return ok ? TF_OK : TF_ERR_CRYPTO;
}

static tf_err ctx_set_rule(SSL_CTX *ctx, tf_tls_allow *allow, void *allow_ctx)
{
    tls_rule *rule = OPENSSL_zalloc(sizeof(*rule));
    if (rule == NULL) {
        return TF_ERR_NOMEM;
    }
    *rule = (tls_rule){allow, allow_ctx};
    if (SSL_CTX_set_ex_data(ctx, rule_index, rule) != 1) {
        OPENSSL_free(rule);
        return TF_ERR_NOMEM;
    }
    SSL_CTX_set_cert_verify_callback(ctx, verify_peer, rule);
    return TF_OK;
}

static tf_err ctx_set_identity(SSL_CTX *ctx, const tf_identity *identity)
{
    bool ok = SSL_CTX_use_certificate(ctx, identity->certificate) == 1 &&
              SSL_CTX_use_PrivateKey(ctx, identity->key) == 1 && SSL_CTX_check_private_key(ctx) == 1;
    return ok ? TF_OK : TF_ERR_CRYPTO;
}

tf_err tf_identity_ssl_ctx(SSL_CTX **out, const tf_identity *identity, bool server, tf_tls_allow *allow,
                           void *allow_ctx)
{
    ERR_clear_error();
    if (CRYPTO_THREAD_run_once(&index_once, index_init) != 1 || rule_index < 0 || pin_index < 0) {
        return TF_ERR_CRYPTO;
    }
    SSL_CTX *ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    if (ctx == NULL) {
        return TF_ERR_CRYPTO;
    }
    tf_err err = ctx_set_algorithms(ctx);
    err = err != TF_OK ? err : ctx_set_behaviour(ctx);
    err = err != TF_OK ? err : ctx_set_alpn(ctx, server);
    err = err != TF_OK ? err : ctx_set_rule(ctx, allow, allow_ctx);
    err = err != TF_OK ? err : ctx_set_identity(ctx, identity);
    if (err != TF_OK) {
        goto out;
    }
    *out = ctx;
    ctx = NULL; /* handed over */
out:
    SSL_CTX_free(ctx);
    return err;
}

static tf_err ssl_set_pin(SSL *ssl, const tf_node_id *pin)
{
    tf_node_id *copy = OPENSSL_memdup(pin, sizeof(*pin));
    if (copy == NULL) {
        return TF_ERR_NOMEM;
    }
    if (SSL_set_ex_data(ssl, pin_index, copy) != 1) {
        OPENSSL_free(copy);
        return TF_ERR_NOMEM;
    }
    return TF_OK;
}

tf_err tf_identity_ssl(SSL **out, SSL_CTX *ctx, const tf_node_id *pin)
{
    ERR_clear_error();
    SSL *ssl = SSL_new(ctx);
    if (ssl == NULL) {
        return TF_ERR_CRYPTO;
    }
    tf_err err = pin == NULL ? TF_OK : ssl_set_pin(ssl, pin);
    if (err != TF_OK) {
        goto out;
    }
    if (SSL_is_server(ssl)) {
        SSL_set_accept_state(ssl);
    } else {
        SSL_set_connect_state(ssl);
    }
    *out = ssl;
    ssl = NULL; /* handed over */
out:
    SSL_free(ssl);
    return err;
}

tf_err tf_identity_peer_id(const SSL *ssl, tf_node_id *out)
{
    if (!SSL_is_init_finished(ssl) || SSL_get_verify_result(ssl) != X509_V_OK) {
        return TF_ERR_PEER_AUTH;
    }
    return certificate_key(SSL_get0_peer_certificate(ssl), out);
}

bool tf_identity_error_is_refusal(unsigned long openssl_error)
{
    if (ERR_GET_LIB(openssl_error) != ERR_LIB_SSL) {
        return false;
    }
    switch (ERR_GET_REASON(openssl_error) - SSL_AD_REASON_OFFSET) {
    case SSL_AD_HANDSHAKE_FAILURE:
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_PROTOCOL_VERSION:
    case SSL_AD_INSUFFICIENT_SECURITY:
    case SSL_AD_CERTIFICATE_REQUIRED:
    case SSL_AD_NO_APPLICATION_PROTOCOL:
        return true;
    default: /* the other alerts are faults, not answers */
        return false;
    }
}

bool tf_identity_error_is_wrong_key(unsigned long openssl_error)
{
    return ERR_GET_LIB(openssl_error) == ERR_LIB_SSL &&
           ERR_GET_REASON(openssl_error) == SSL_R_CERTIFICATE_VERIFY_FAILED;
}
