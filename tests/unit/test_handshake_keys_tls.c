/* handshake/keys: keys from the exporter of a TLS handshake. */
#include <openssl/ssl.h>
#include <string.h>

#include "handshake/identity.h"
#include "tests/unit/keys_ends.h"

/* -- from TLS ------------------------------------------------------------------------------------------------------ */

static bool allow_any(void *ctx, const tf_node_id *peer)
{
    (void)ctx, (void)peer;
    return true;
}

typedef struct tls_pair {
    SSL_CTX *ctx[2];
    SSL *ssl[2]; /* dialler, acceptor */
} tls_pair;

static void tls_pair_init(tls_pair *p)
{
    tf_identity *identity = NULL;
    ck_assert_int_eq(tf_identity_generate(&identity, tf_test_rand(5)), TF_OK);
    for (int end = 0; end < 2; end++) {
        ck_assert_int_eq(tf_identity_ssl_ctx(&p->ctx[end], identity, end == 1, allow_any, NULL), TF_OK);
    }
    tf_identity_free(identity);
}

static void tls_pair_connect(tls_pair *p)
{
    BIO *bio[2] = {NULL, NULL};
    ck_assert_int_eq(BIO_new_bio_pair(&bio[0], 0, &bio[1], 0), 1);
    for (int end = 0; end < 2; end++) {
        ck_assert_int_eq(tf_identity_ssl(&p->ssl[end], p->ctx[end], NULL), TF_OK);
        SSL_set_bio(p->ssl[end], bio[end], bio[end]);
    }
}

static void tls_pair_handshake(tls_pair *p)
{
    for (int i = 0; i < 10; i++) {
        (void)SSL_do_handshake(p->ssl[i % 2]);
    }
    ck_assert(SSL_is_init_finished(p->ssl[0]) && SSL_is_init_finished(p->ssl[1]));
}

static void tls_pair_close(tls_pair *p)
{
    SSL_free(p->ssl[0]);
    SSL_free(p->ssl[1]);
}

static tf_keys *keys_of_ssl(tls_pair *p, bool dialler, uint64_t generation)
{
    tf_keys *keys = NULL;
    tf_keys_params params = params_of(dialler, (tf_keys_limits){.phase_packets = 2});
    params.generation = generation;
    ck_assert_int_eq(tf_keys_new_from_ssl(&keys, p->ssl[dialler ? 0 : 1], &params, tf_test_mem(), 0), TF_OK);
    return keys;
}

START_TEST(keys_from_tls_fit_only_with_the_same_context)
{
    tls_pair p;
    tf_keys *early = NULL;
    tf_keys_params params = params_of(true, (tf_keys_limits){0});
    tls_pair_init(&p);
    tls_pair_connect(&p);
    ck_assert_int_eq(tf_keys_new_from_ssl(&early, p.ssl[0], &params, tf_test_mem(), 0), TF_ERR_USAGE);
    tls_pair_handshake(&p);
    tf_keys *a = keys_of_ssl(&p, true, 1);
    tf_keys *b = keys_of_ssl(&p, false, 1);
    tf_keys *other = keys_of_ssl(&p, false, 2);
    packet up = seal(a, 0, 0);
    packet down = seal(b, 0, 0);
    ck_assert_int_eq(open_only(other, 0, &up), TF_ERR_PEER_AUTH);
    ck_assert_int_eq(open_only(b, 0, &up), TF_OK);
    ck_assert_int_eq(open_only(a, 0, &down), TF_OK);
    tf_keys_free(a);
    tf_keys_free(b);
    tf_keys_free(other);
    tls_pair_close(&p);
    SSL_CTX_free(p.ctx[0]);
    SSL_CTX_free(p.ctx[1]);
}
END_TEST

#define GENERATIONS 1000u
#define BLOCKS_EACH 8u /* packets 0 to 3 of both ends, over two phases */

typedef struct keystream {
    uint8_t bytes[16];
} keystream;

static int keystream_compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(keystream));
}

/* Sealing zeros shows the key stream, which is the same only if key and nonce are. */
static void keystream_take(tf_keys *keys, keystream *out)
{
    static const uint8_t zeros[16];
    for (uint64_t pn = 0; pn < 4; pn++) {
        packet p;
        ck_assert_int_eq(tf_keys_seal(keys, 0, pn, tf_slice_of(zeros, 16), p.bytes, sizeof(p.bytes)), TF_OK);
        memcpy(out[pn].bytes, p.bytes + TF_PACKET_HEADER, sizeof(out[pn].bytes));
    }
}

START_TEST(keys_nonce_is_unique_over_generations)
{
    static keystream seen[GENERATIONS * BLOCKS_EACH];
    tls_pair p;
    tls_pair_init(&p);
    for (size_t i = 0; i < GENERATIONS; i++) {
        tls_pair_connect(&p);
        tls_pair_handshake(&p);
        tf_keys *a = keys_of_ssl(&p, true, 1); /* the same context each time, as if all else failed */
        tf_keys *b = keys_of_ssl(&p, false, 1);
        keystream_take(a, &seen[i * BLOCKS_EACH]);
        keystream_take(b, &seen[i * BLOCKS_EACH + 4]);
        tf_keys_free(a);
        tf_keys_free(b);
        tls_pair_close(&p);
    }
    SSL_CTX_free(p.ctx[0]);
    SSL_CTX_free(p.ctx[1]);
    qsort(seen, GENERATIONS * BLOCKS_EACH, sizeof(seen[0]), keystream_compare);
    for (size_t i = 1; i < GENERATIONS * BLOCKS_EACH; i++) {
        ck_assert_int_ne(keystream_compare(&seen[i - 1], &seen[i]), 0);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        keys_from_tls_fit_only_with_the_same_context,
        keys_nonce_is_unique_over_generations,
        NULL,
    };
    return tf_test_run("handshake/keys tls", tests);
}
