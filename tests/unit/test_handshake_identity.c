/* handshake/identity: keys and their texts, the certificate, and who gets through a TLS handshake (P8). */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <string.h>

#include "handshake/identity.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define SEED_A "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
#define TEXT_A "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="
#define ID_A "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkena"

static tf_identity *identity_of_hex(const char *hex)
{
    uint8_t seed[TF_SEED_LEN];
    tf_identity *identity = NULL;
    ck_assert_uint_eq(tf_test_unhex(hex, seed, sizeof(seed)), sizeof(seed));
    ck_assert_int_eq(tf_identity_new(&identity, seed), TF_OK);
    return identity;
}

static tf_identity *identity_of_seed(uint64_t seed)
{
    tf_identity *identity = NULL;
    ck_assert_int_eq(tf_identity_generate(&identity, tf_test_rand(seed)), TF_OK);
    return identity;
}

/* -- texts --------------------------------------------------------------------------------------------------------- */

START_TEST(identity_known_seed_has_its_key_and_texts)
{
    tf_identity *identity = identity_of_hex(SEED_A);
    char id[TF_NODE_ID_TEXT_LEN + 1];
    char text[TF_IDENTITY_TEXT_LEN + 1];
    tf_node_id_format(tf_identity_node_id(identity), id);
    tf_identity_format(identity, text);
    ck_assert_str_eq(id, ID_A);
    ck_assert_str_eq(text, TEXT_A);
    tf_identity_free(identity);
    tf_identity_free(NULL);
}
END_TEST

START_TEST(identity_text_with_white_space_around_is_read)
{
    static const char *const rows[] = {TEXT_A, TEXT_A "\n", TEXT_A "\r\n", "\n  " TEXT_A "\t \n"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_identity *identity = NULL;
        char id[TF_NODE_ID_TEXT_LEN + 1];
        ck_assert_int_eq(tf_identity_parse(&identity, tf_slice_str(rows[i])), TF_OK);
        tf_node_id_format(tf_identity_node_id(identity), id);
        ck_assert_str_eq(id, ID_A);
        tf_identity_free(identity);
    }
}
END_TEST

START_TEST(identity_any_other_text_is_refused)
{
    static const char *const rows[] = {
        "",
        "\n",
        "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",   /* no padding */
        "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A==", /* too much of it */
        "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2B=",  /* trailing bits */
        "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf===",
        "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A-",
        "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=", /* the other base64 */
        "nWGxne/9WmC6hEr0kuws xERJxWl7MmkZcDusAxyuf2A",
        (TEXT_A TEXT_A),
        SEED_A,
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_slice text = tf_slice_str(rows[i]);
        uint8_t *exact = tf_test_exact(text);
        tf_identity *identity = NULL;
        ck_assert_msg(tf_identity_parse(&identity, tf_slice_of(exact, text.len)) == TF_ERR_USAGE, "%s", rows[i]);
        ck_assert_ptr_null(identity);
        free(exact);
    }
    ck_assert_uint_eq(ERR_peek_error(), 0);
}
END_TEST

START_TEST(identity_generated_key_comes_back_from_its_text)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        tf_identity *identity = identity_of_seed(seed);
        tf_identity *back = NULL;
        char text[TF_IDENTITY_TEXT_LEN + 1];
        tf_identity_format(identity, text);
        ck_assert_int_eq(tf_identity_parse(&back, tf_slice_str(text)), TF_OK);
        ck_assert(tf_node_id_eq(tf_identity_node_id(identity), tf_identity_node_id(back)));
        tf_identity_free(identity);
        tf_identity_free(back);
    }
}
END_TEST

/* -- TLS between two ends in memory -------------------------------------------------------------------------------- */

typedef struct end {
    SSL_CTX *ctx;
    SSL *ssl;
    unsigned long error; /* the first one of this end */
    bool done;
} end;

typedef struct pair {
    end client;
    end server;
    size_t to_server; /* bytes that the client wrote */
} pair;

typedef struct allowed {
    tf_node_id id;
    unsigned asked;
} allowed;

static bool allow_one(void *ctx, const tf_node_id *peer)
{
    allowed *only = ctx;
    only->asked++;
    return tf_node_id_eq(&only->id, peer);
}

static bool allow_any(void *ctx, const tf_node_id *peer)
{
    (void)ctx, (void)peer;
    return true;
}

static void end_set_bios(SSL *ssl)
{
    BIO *in = BIO_new(BIO_s_mem());
    BIO *out = BIO_new(BIO_s_mem());
    ck_assert(in != NULL && out != NULL);
    BIO_set_mem_eof_return(in, -1);
    BIO_set_mem_eof_return(out, -1);
    SSL_set_bio(ssl, in, out);
}

static void end_start(end *e, SSL_CTX *ctx, const tf_node_id *pin)
{
    e->ctx = ctx;
    ck_assert_int_eq(tf_identity_ssl(&e->ssl, ctx, pin), TF_OK);
    end_set_bios(e->ssl);
}

static size_t move_bytes(SSL *from, SSL *to)
{
    char buf[4096];
    size_t moved = 0;
    int len = 0;
    while ((len = BIO_read(SSL_get_wbio(from), buf, sizeof(buf))) > 0) {
        ck_assert_int_eq(BIO_write(SSL_get_rbio(to), buf, len), len);
        moved += (size_t)len;
    }
    return moved;
}

/* One step of the handshake, or, when it is done, a read that brings a late alert to light. */
static void end_step(end *e)
{
    char byte = 0;
    if (e->error != 0) {
        return;
    }
    ERR_clear_error();
    int result = e->done ? SSL_read(e->ssl, &byte, 1) : SSL_do_handshake(e->ssl);
    if (result != 1 && SSL_get_error(e->ssl, result) == SSL_ERROR_SSL) {
        e->error = ERR_peek_error();
    }
    e->done = e->done || result == 1;
    ERR_clear_error();
}

static void pair_run(pair *p)
{
    for (int i = 0; i < 10; i++) {
        end_step(&p->client);
        p->to_server += move_bytes(p->client.ssl, p->server.ssl);
        end_step(&p->server);
        (void)move_bytes(p->server.ssl, p->client.ssl);
    }
}

static void pair_free(pair *p)
{
    SSL_free(p->client.ssl);
    SSL_free(p->server.ssl);
    SSL_CTX_free(p->client.ctx);
    SSL_CTX_free(p->server.ctx);
}

static SSL_CTX *ctx_of(const tf_identity *identity, bool server, tf_tls_allow *allow, void *allow_ctx)
{
    SSL_CTX *ctx = NULL;
    ck_assert_int_eq(tf_identity_ssl_ctx(&ctx, identity, server, allow, allow_ctx), TF_OK);
    return ctx;
}

START_TEST(identity_pinned_keys_finish_and_know_each_other)
{
    tf_identity *client = identity_of_seed(1);
    tf_identity *server = identity_of_seed(2);
    allowed only = {*tf_identity_node_id(client), 0};
    pair p = {{0}, {0}, 0};
    tf_node_id id;
    end_start(&p.client, ctx_of(client, false, NULL, NULL), tf_identity_node_id(server));
    end_start(&p.server, ctx_of(server, true, allow_one, &only), NULL);
    ck_assert_int_eq(tf_identity_peer_id(p.client.ssl, &id), TF_ERR_PEER_AUTH);
    pair_run(&p);
    ck_assert(p.client.done && p.server.done && p.client.error == 0 && p.server.error == 0);
    ck_assert_uint_eq(only.asked, 1);
    ck_assert_int_eq(tf_identity_peer_id(p.client.ssl, &id), TF_OK);
    ck_assert(tf_node_id_eq(&id, tf_identity_node_id(server)));
    ck_assert_int_eq(tf_identity_peer_id(p.server.ssl, &id), TF_OK);
    ck_assert(tf_node_id_eq(&id, tf_identity_node_id(client)));
    ck_assert_int_eq(SSL_version(p.client.ssl), TLS1_3_VERSION);
    ck_assert_int_eq(SSL_session_reused(p.client.ssl), 0);
    ck_assert_int_eq(SSL_SESSION_has_ticket(SSL_get_session(p.client.ssl)), 0);
    pair_free(&p);
    tf_identity_free(client);
    tf_identity_free(server);
}
END_TEST

START_TEST(identity_unpinned_key_gets_an_alert)
{
    tf_identity *client = identity_of_seed(1);
    tf_identity *server = identity_of_seed(2);
    allowed only = {*tf_identity_node_id(server), 0}; /* some other key */
    pair p = {{0}, {0}, 0};
    tf_node_id id;
    end_start(&p.client, ctx_of(client, false, NULL, NULL), tf_identity_node_id(server));
    end_start(&p.server, ctx_of(server, true, allow_one, &only), NULL);
    pair_run(&p);
    ck_assert(p.client.done); /* its own side of TLS 1.3 succeeds; the first read tells */
    ck_assert(tf_identity_error_is_refusal(p.client.error));
    ck_assert(!tf_identity_error_is_wrong_key(p.client.error));
    ck_assert(!p.server.done && p.server.error != 0);
    ck_assert(!tf_identity_error_is_refusal(p.server.error));
    ck_assert_int_eq(tf_identity_peer_id(p.server.ssl, &id), TF_ERR_PEER_AUTH);
    pair_free(&p);
    tf_identity_free(client);
    tf_identity_free(server);
}
END_TEST

START_TEST(identity_other_node_than_the_pinned_one_is_left)
{
    tf_identity *client = identity_of_seed(1);
    tf_identity *server = identity_of_seed(2);
    pair p = {{0}, {0}, 0};
    end_start(&p.client, ctx_of(client, false, allow_any, NULL), tf_identity_node_id(client));
    end_start(&p.server, ctx_of(server, true, allow_any, NULL), NULL);
    pair_run(&p);
    ck_assert(!p.client.done && tf_identity_error_is_wrong_key(p.client.error));
    ck_assert(!p.server.done && tf_identity_error_is_refusal(p.server.error));
    pair_free(&p);
    tf_identity_free(client);
    tf_identity_free(server);
}
END_TEST

START_TEST(identity_without_pin_or_rule_nobody_is_let_in)
{
    tf_identity *identity = identity_of_seed(1);
    pair p = {{0}, {0}, 0};
    end_start(&p.client, ctx_of(identity, false, NULL, NULL), NULL);
    end_start(&p.server, ctx_of(identity, true, allow_any, NULL), NULL);
    pair_run(&p);
    ck_assert(!p.client.done && !p.server.done);
    pair_free(&p);
    p = (pair){{0}, {0}, 0};
    end_start(&p.client, ctx_of(identity, false, allow_any, NULL), NULL);
    end_start(&p.server, ctx_of(identity, true, NULL, NULL), NULL);
    pair_run(&p);
    ck_assert(!p.server.done && tf_identity_error_is_refusal(p.client.error));
    pair_free(&p);
    tf_identity_free(identity);
}
END_TEST

/* A client with a key of the given kind, not made by tf_identity. */
static SSL_CTX *foreign_ctx(EVP_PKEY *key)
{
    X509 *certificate = X509_new();
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    ck_assert(certificate != NULL && ctx != NULL);
    if (key != NULL) {
        ck_assert(X509_gmtime_adj(X509_getm_notBefore(certificate), 0) != NULL);
        ck_assert(X509_gmtime_adj(X509_getm_notAfter(certificate), 3600) != NULL);
        ck_assert_int_eq(X509_set_pubkey(certificate, key), 1);
        const EVP_MD *digest = EVP_PKEY_get_id(key) == EVP_PKEY_EC ? EVP_sha256() : NULL;
        ck_assert_int_gt(X509_sign(certificate, key, digest), 0);
        ck_assert_int_eq(SSL_CTX_use_certificate(ctx, certificate), 1);
        ck_assert_int_eq(SSL_CTX_use_PrivateKey(ctx, key), 1);
    }
    X509_free(certificate);
    return ctx;
}

/* Runs a foreign client against a server that lets every key in. */
static pair foreign_run(const tf_identity *server, SSL_CTX *client, const char *alpn)
{
    pair p = {{0}, {0}, 0};
    p.client.ctx = client;
    p.client.ssl = SSL_new(client);
    ck_assert_ptr_nonnull(p.client.ssl);
    SSL_set_connect_state(p.client.ssl);
    end_set_bios(p.client.ssl);
    if (alpn != NULL) {
        ck_assert_int_eq(SSL_set_alpn_protos(p.client.ssl, (const unsigned char *)alpn, (unsigned)strlen(alpn)), 0);
    }
    end_start(&p.server, ctx_of(server, true, allow_any, NULL), NULL);
    pair_run(&p);
    return p;
}

#define OUR_ALPN "\x09twofold/1"

START_TEST(identity_without_alpn_is_refused)
{
    static const struct {
        const char *alpn;
        bool accepted;
    } rows[] = {{OUR_ALPN, true}, {"\x02h2" OUR_ALPN, true}, {NULL, false}, {"\x02h2", false}, {"\x09twofold/2", false}};
    tf_identity *server = identity_of_seed(2);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
        pair p = foreign_run(server, foreign_ctx(key), rows[i].alpn);
        ck_assert_int_eq(p.server.done, rows[i].accepted);
        ck_assert_int_eq(tf_identity_error_is_refusal(p.client.error), !rows[i].accepted);
        ck_assert(rows[i].accepted || ERR_GET_REASON(p.client.error) == SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL);
        pair_free(&p);
        EVP_PKEY_free(key);
    }
    tf_identity_free(server);
}
END_TEST

START_TEST(identity_no_key_or_one_of_another_kind_is_refused)
{
    EVP_PKEY *keys[] = {NULL, EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256"), EVP_PKEY_Q_keygen(NULL, NULL, "ED448")};
    tf_identity *server = identity_of_seed(2);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        pair p = foreign_run(server, foreign_ctx(keys[i]), OUR_ALPN);
        ck_assert(!p.server.done);
        ck_assert(p.server.error != 0);
        pair_free(&p);
        EVP_PKEY_free(keys[i]);
    }
    tf_identity_free(server);
}
END_TEST

START_TEST(identity_older_tls_is_refused)
{
    tf_identity *server = identity_of_seed(2);
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    SSL_CTX *ctx = foreign_ctx(key);
    ck_assert_int_eq(SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION), 1);
    pair p = foreign_run(server, ctx, OUR_ALPN);
    ck_assert(!p.server.done && tf_identity_error_is_refusal(p.client.error));
    pair_free(&p);
    EVP_PKEY_free(key);
    tf_identity_free(server);
}
END_TEST

START_TEST(identity_server_without_alpn_is_left_by_the_client)
{
    tf_identity *identity = identity_of_seed(1);
    SSL_CTX *plain = SSL_CTX_new(TLS_server_method());
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    SSL_CTX *certified = foreign_ctx(key);
    ck_assert_int_eq(SSL_CTX_use_certificate(plain, SSL_CTX_get0_certificate(certified)), 1);
    ck_assert_int_eq(SSL_CTX_use_PrivateKey(plain, key), 1);
    pair p = {{0}, {0}, 0};
    end_start(&p.client, ctx_of(identity, false, allow_any, NULL), NULL);
    p.server.ctx = plain;
    p.server.ssl = SSL_new(plain);
    SSL_set_accept_state(p.server.ssl);
    end_set_bios(p.server.ssl);
    pair_run(&p);
    ck_assert(!p.client.done && p.client.error != 0);
    pair_free(&p);
    SSL_CTX_free(certified);
    EVP_PKEY_free(key);
    tf_identity_free(identity);
}
END_TEST

START_TEST(identity_certificate_is_short_and_valid_for_ever)
{
    tf_identity *identity = identity_of_seed(1);
    SSL_CTX *ctx = ctx_of(identity, true, NULL, NULL);
    X509 *certificate = SSL_CTX_get0_certificate(ctx);
    time_t far = 0;
    ck_assert_int_eq(X509_verify(certificate, X509_get0_pubkey(certificate)), 1);
    ck_assert_int_lt(X509_cmp_time(X509_get0_notBefore(certificate), &far), 1);
    far = (time_t)250000000000; /* the year 9892 */
    ck_assert_int_eq(X509_cmp_time(X509_get0_notAfter(certificate), &far), 1);
    ck_assert_int_lt(i2d_X509(certificate, NULL), 400);
    SSL_CTX_free(ctx);
    tf_identity_free(identity);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        identity_known_seed_has_its_key_and_texts,
        identity_text_with_white_space_around_is_read,
        identity_any_other_text_is_refused,
        identity_generated_key_comes_back_from_its_text,
        identity_pinned_keys_finish_and_know_each_other,
        identity_unpinned_key_gets_an_alert,
        identity_other_node_than_the_pinned_one_is_left,
        identity_without_pin_or_rule_nobody_is_let_in,
        identity_without_alpn_is_refused,
        identity_no_key_or_one_of_another_kind_is_refused,
        identity_older_tls_is_refused,
        identity_server_without_alpn_is_left_by_the_client,
        identity_certificate_is_short_and_valid_for_ever,
        NULL,
    };
    return tf_test_run("handshake/identity", tests);
}
