/* The examples of the sections "Handshake" and "Datagram packets and keys" of proto/PROTOCOL.md. */
#include <openssl/evp.h>
#include <string.h>

#include "handshake/hello.h"
#include "handshake/identity.h"
#include "handshake/keys.h"
#include "tests/support/check_main.h"
#include "tests/support/protocol_md.h"
#include "tests/support/support.h"

#define DIALLER_TEXT "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="
#define ACCEPTOR_TEXT "TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs="
#define DIALLER_CONNECTION_ID UINT64_C(0xd0d1d2d3d4d5d6d7)
#define ACCEPTOR_CONNECTION_ID UINT64_C(0xa0a1a2a3a4a5a6a7)
#define SESSION UINT64_C(0x1122334455667788)
#define FAR_NUMBER ((UINT64_C(1) << 32) + 5)

typedef struct doc_bytes {
    uint8_t data[2048];
    size_t len;
} doc_bytes;

static doc_bytes fetch(const char *name)
{
    doc_bytes bytes;
    ck_assert_msg(tf_doc_block(name, bytes.data, sizeof(bytes.data), &bytes.len), "no block %s", name);
    return bytes;
}

static tf_node_id id_of_text(const char *text)
{
    tf_identity *identity = NULL;
    ck_assert_int_eq(tf_identity_parse(&identity, tf_slice_str(text)), TF_OK);
    tf_node_id id = *tf_identity_node_id(identity);
    tf_identity_free(identity);
    return id;
}

START_TEST(protocol_md_private_texts_give_the_ids)
{
    doc_bytes dialler = fetch("key dialler id");
    doc_bytes acceptor = fetch("key acceptor id");
    tf_node_id a = id_of_text(DIALLER_TEXT);
    tf_node_id b = id_of_text(ACCEPTOR_TEXT);
    ck_assert_uint_eq(dialler.len, TF_NODE_ID_LEN);
    ck_assert_uint_eq(acceptor.len, TF_NODE_ID_LEN);
    ck_assert_mem_eq(a.bytes, dialler.data, TF_NODE_ID_LEN);
    ck_assert_mem_eq(b.bytes, acceptor.data, TF_NODE_ID_LEN);
}
END_TEST

/* -- maps ---------------------------------------------------------------------------------------------------------- */

static tf_hello doc_hello(void)
{
    tf_hello hello;
    tf_hello_init(&hello);
    memcpy(hello.offer.software, "twofold 0.1.0", sizeof("twofold 0.1.0"));
    hello.offer.features = TF_FEATURE_REVOKE;
    hello.offer.datagram.connection_id = DIALLER_CONNECTION_ID;
    hello.offer.instance = UINT64_C(0x0102030405060708);
    hello.offer.resume = (tf_resume){true, SESSION, 258};
    return hello;
}

START_TEST(protocol_md_hello_is_what_is_written)
{
    doc_bytes doc = fetch("map hello");
    uint8_t buf[TF_FRAME_PAYLOAD_MAX];
    size_t len = 0;
    tf_hello hello = doc_hello();
    tf_hello back;
    ck_assert_int_eq(tf_hello_encode(&hello, buf, sizeof(buf), &len), TF_OK);
    ck_assert_uint_eq(len, doc.len);
    ck_assert_mem_eq(buf, doc.data, len);
    ck_assert_int_eq(tf_hello_decode(&back, tf_slice_of(doc.data, doc.len)), TF_OK);
    ck_assert_uint_eq(back.offer.resume.session, SESSION);
    ck_assert_uint_eq(back.offer.resume.next, 258);
}
END_TEST

START_TEST(protocol_md_welcome_is_what_is_written)
{
    doc_bytes doc = fetch("map welcome");
    uint8_t buf[TF_FRAME_PAYLOAD_MAX];
    size_t len = 0;
    tf_welcome welcome = {.version = 1, .generation = 3, .session = SESSION, .offer = doc_hello().offer};
    tf_welcome back;
    tf_offer *offer = &welcome.offer;
    offer->features = 0;
    offer->data.down = TF_ROUTES_STREAM;
    offer->datagram = (tf_datagram_offer){ACCEPTOR_CONNECTION_ID, 1u << TF_CIPHER_AES_128_GCM, 7421, "192.0.2.7"};
    offer->instance = UINT64_C(0x1112131415161718);
    offer->exclusive = true;
    offer->resume = (tf_resume){true, 0, 77};
    ck_assert_int_eq(tf_welcome_encode(&welcome, buf, sizeof(buf), &len), TF_OK);
    ck_assert_uint_eq(len, doc.len);
    ck_assert_mem_eq(buf, doc.data, len);
    ck_assert_int_eq(tf_welcome_decode(&back, tf_slice_of(doc.data, doc.len)), TF_OK);
    ck_assert_uint_eq(back.generation, 3);
    ck_assert_uint_eq(back.offer.resume.next, 77);
    ck_assert_str_eq(back.offer.datagram.host, "192.0.2.7");
    ck_assert_uint_eq(back.offer.datagram.port, 7421);
}
END_TEST

START_TEST(protocol_md_least_hello_has_the_defaults)
{
    doc_bytes doc = fetch("map hello least");
    tf_hello hello;
    ck_assert_int_eq(tf_hello_decode(&hello, tf_slice_of(doc.data, doc.len)), TF_OK);
    ck_assert_uint_eq(hello.version_count, 1);
    ck_assert_uint_eq(hello.versions[0], 1);
    ck_assert_str_eq(hello.offer.software, "");
    ck_assert_uint_eq(hello.offer.features, 0);
    ck_assert_uint_eq(hello.offer.routes, TF_ROUTES_STREAM);
    ck_assert_uint_eq(hello.offer.data.up, TF_ROUTES_STREAM);
    ck_assert_uint_eq(hello.offer.data.down, TF_ROUTES_STREAM);
    ck_assert_uint_eq(hello.offer.limits.max_in_flight, 32);
    ck_assert_uint_eq(hello.offer.limits.max_message, 1048576);
    ck_assert_uint_eq(hello.offer.limits.window_bytes, 4194304);
    ck_assert_uint_eq(hello.offer.limits.window_segments, 4096);
    ck_assert_uint_eq(hello.offer.limits.max_refs, 131072);
    ck_assert_uint_eq(hello.offer.limits.max_promises, 65536);
    ck_assert_uint_eq(hello.offer.limits.max_results, 8192);
    ck_assert_uint_eq(hello.offer.keepalive_ms, 10000);
    ck_assert_uint_eq(hello.offer.instance, 7);
    ck_assert(!hello.offer.exclusive && !hello.offer.resume.present);
}
END_TEST

/* -- keys and packets ---------------------------------------------------------------------------------------------- */

static tf_keys_params doc_params(bool dialler, tf_cipher cipher)
{
    tf_node_id d = id_of_text(DIALLER_TEXT);
    tf_node_id a = id_of_text(ACCEPTOR_TEXT);
    return (tf_keys_params){.dialler = dialler,
                            .cipher = cipher,
                            .version = 1,
                            .local = dialler ? d : a,
                            .remote = dialler ? a : d,
                            .session = SESSION,
                            .generation = 3,
                            .local_connection_id = dialler ? DIALLER_CONNECTION_ID : ACCEPTOR_CONNECTION_ID,
                            .remote_connection_id = dialler ? ACCEPTOR_CONNECTION_ID : DIALLER_CONNECTION_ID,
                            .limits = {.phase_packets = 2}};
}

static tf_keys *doc_keys(bool dialler, tf_cipher cipher)
{
    tf_keys *keys = NULL;
    tf_keys_params params = doc_params(dialler, cipher);
    doc_bytes secrets = fetch("key secrets");
    ck_assert_uint_eq(secrets.len, TF_KEYS_SECRET_LEN);
    ck_assert_int_eq(tf_keys_new_from_secret(&keys, secrets.data, &params, tf_test_mem(), 0), TF_OK);
    return keys;
}

START_TEST(protocol_md_context_is_the_same_from_both_ends)
{
    doc_bytes doc = fetch("key context");
    uint8_t context[TF_KEYS_CONTEXT_LEN];
    ck_assert_uint_eq(doc.len, sizeof(context));
    for (int dialler = 0; dialler < 2; dialler++) {
        tf_keys_params params = doc_params(dialler == 1, TF_CIPHER_AES_128_GCM);
        tf_keys_context(&params, context);
        ck_assert_mem_eq(context, doc.data, sizeof(context));
    }
}
END_TEST

static void seal_is(tf_keys *keys, uint64_t pn, const char *block)
{
    doc_bytes ping = fetch("frame ping");
    doc_bytes doc = fetch(block);
    uint8_t packet[TF_PACKET_MAX];
    size_t len = ping.len + TF_PACKET_OVERHEAD;
    ck_assert_int_eq(tf_keys_seal(keys, 0, pn, tf_slice_of(ping.data, ping.len), packet, sizeof(packet)), TF_OK);
    ck_assert_uint_eq(len, doc.len);
    ck_assert_mem_eq(packet, doc.data, len);
}

static void open_is_ping(tf_keys *keys, uint64_t pn, const char *block)
{
    doc_bytes ping = fetch("frame ping");
    doc_bytes doc = fetch(block);
    uint8_t plain[TF_PACKET_MAX];
    tf_opened opened;
    ck_assert_int_eq(tf_keys_open(keys, 0, tf_slice_of(doc.data, doc.len), plain, sizeof(plain), &opened), TF_OK);
    ck_assert_uint_eq(opened.pn, pn);
    ck_assert(tf_slice_eq(opened.plain, tf_slice_of(ping.data, ping.len)));
}

/* Carries one packet from the one to the other. */
static void pass(tf_keys *from, tf_keys *to, uint64_t pn)
{
    uint8_t packet[64];
    uint8_t plain[64];
    tf_opened opened;
    ck_assert_int_eq(tf_keys_seal(from, 0, pn, tf_slice_str("x"), packet, sizeof(packet)), TF_OK);
    ck_assert_int_eq(tf_keys_open(to, 0, tf_slice_of(packet, 1 + TF_PACKET_OVERHEAD), plain, sizeof(plain), &opened), TF_OK);
    ck_assert_uint_eq(opened.pn, pn);
}

static void packets_up(tf_cipher cipher, const char *first, const char *far)
{
    tf_keys *dialler = doc_keys(true, cipher);
    tf_keys *acceptor = doc_keys(false, cipher);
    seal_is(dialler, 0, first);
    open_is_ping(acceptor, 0, first);
    pass(dialler, acceptor, (UINT64_C(1) << 31) - 1);
    pass(dialler, acceptor, (UINT64_C(1) << 32) - 2); /* the third packet: phase 1 */
    tf_keys_stats stats;
    tf_keys_stats_get(acceptor, &stats);
    ck_assert_uint_eq(stats.receive_phase, 1);
    seal_is(dialler, FAR_NUMBER, far);
    open_is_ping(acceptor, FAR_NUMBER, far);
    tf_keys_free(dialler);
    tf_keys_free(acceptor);
}

START_TEST(protocol_md_packets_are_what_is_sealed_and_opened)
{
    packets_up(TF_CIPHER_AES_128_GCM, "packet up phase 0 aes-128-gcm", "packet up phase 1 aes-128-gcm");
    packets_up(TF_CIPHER_CHACHA20_POLY1305, "packet up phase 0 chacha20-poly1305", "packet up phase 1 chacha20-poly1305");
    tf_keys *dialler = doc_keys(true, TF_CIPHER_AES_128_GCM);
    tf_keys *acceptor = doc_keys(false, TF_CIPHER_AES_128_GCM);
    seal_is(acceptor, 7, "packet down phase 0 aes-128-gcm");
    open_is_ping(dialler, 7, "packet down phase 0 aes-128-gcm");
    tf_keys_free(dialler);
    tf_keys_free(acceptor);
}
END_TEST

/* Opens a packet with a key and nonce from the document and OpenSSL alone. */
static void opens_with(const EVP_CIPHER *cipher, const uint8_t *key, const uint8_t *nonce, doc_bytes *packet)
{
    doc_bytes ping = fetch("frame ping");
    uint8_t plain[64];
    int len = 0;
    uint8_t *sealed = packet->data + TF_PACKET_HEADER;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    ck_assert_uint_eq(packet->len, TF_PACKET_HEADER + ping.len + TF_PACKET_TAG);
    ck_assert_int_eq(EVP_DecryptInit_ex(ctx, cipher, NULL, key, nonce), 1);
    ck_assert_int_eq(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, TF_PACKET_TAG, sealed + ping.len), 1);
    ck_assert_int_eq(EVP_DecryptUpdate(ctx, NULL, &len, packet->data, TF_PACKET_HEADER), 1);
    ck_assert_int_eq(EVP_DecryptUpdate(ctx, plain, &len, sealed, (int)ping.len), 1);
    ck_assert_int_eq(EVP_DecryptFinal_ex(ctx, plain + len, &len), 1);
    ck_assert_mem_eq(plain, ping.data, ping.len);
    EVP_CIPHER_CTX_free(ctx);
}

START_TEST(protocol_md_keys_open_the_packets)
{
    doc_bytes nonce = fetch("key up phase 1 nonce");
    doc_bytes key = fetch("key up phase 0 aes-128-gcm");
    doc_bytes packet = fetch("packet up phase 0 aes-128-gcm");
    opens_with(EVP_aes_128_gcm(), key.data, key.data + 16, &packet);
    key = fetch("key up phase 1 aes-128-gcm");
    packet = fetch("packet up phase 1 aes-128-gcm");
    opens_with(EVP_aes_128_gcm(), key.data, nonce.data, &packet);
    key = fetch("key up phase 1 chacha20-poly1305");
    packet = fetch("packet up phase 1 chacha20-poly1305");
    opens_with(EVP_chacha20_poly1305(), key.data, nonce.data, &packet);
    for (unsigned i = 0; i < 8; i++) {
        nonce.data[4 + i] ^= (uint8_t)(FAR_NUMBER >> (8 * (7 - i)));
    }
    ck_assert_mem_eq(nonce.data, key.data + 32, 12);
}
END_TEST

START_TEST(protocol_md_secret_of_phase_1_is_phase_0_of_its_own)
{
    doc_bytes secrets = fetch("key secrets");
    doc_bytes phase_1 = fetch("key up phase 1 secret");
    doc_bytes doc = fetch("packet up phase 1 aes-128-gcm");
    tf_keys_params params = doc_params(true, TF_CIPHER_AES_128_GCM);
    doc_bytes ping = fetch("frame ping");
    uint8_t packet[64];
    tf_keys *keys = NULL;
    memcpy(secrets.data, phase_1.data, phase_1.len);
    ck_assert_int_eq(tf_keys_new_from_secret(&keys, secrets.data, &params, tf_test_mem(), 0), TF_OK);
    ck_assert_int_eq(tf_keys_seal(keys, 0, FAR_NUMBER, tf_slice_of(ping.data, ping.len), packet, sizeof(packet)),
                     TF_OK);
    ck_assert_mem_eq(packet + TF_PACKET_HEADER, doc.data + TF_PACKET_HEADER, ping.len); /* but for tag and flags */
    tf_keys_free(keys);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        protocol_md_private_texts_give_the_ids,
        protocol_md_hello_is_what_is_written,
        protocol_md_welcome_is_what_is_written,
        protocol_md_least_hello_has_the_defaults,
        protocol_md_context_is_the_same_from_both_ends,
        protocol_md_packets_are_what_is_sealed_and_opened,
        protocol_md_keys_open_the_packets,
        protocol_md_secret_of_phase_1_is_phase_0_of_its_own,
        NULL,
    };
    return tf_test_run("handshake/protocol_md", tests);
}
