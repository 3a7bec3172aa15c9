#include "handshake/keys.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include "dedup/replay.h"
#include "handshake/identity.h"
#include "proto/wire.h"

#define SECRET_LEN 32u /* of one direction and phase */
#define KEY_MAX 32u
#define IV_LEN 12u
#define FLAGS_FIXED 0x40u
#define FLAGS_PHASE 0x03u
#define GRACE_DEFAULT (1 * TF_SECOND)

_Static_assert(TF_KEYS_SECRET_LEN == 2 * SECRET_LEN, "one secret a direction");

/* A key in use: the cipher's context is made once and keyed anew for each phase. */
typedef struct aead {
    EVP_CIPHER_CTX *ctx;
    uint8_t iv[IV_LEN];
} aead;

typedef struct sender {
    aead key;
    uint8_t secret[SECRET_LEN]; /* of the phase after this one */
    uint64_t phase;
    uint64_t phase_first; /* the lowest packet number of this phase */
    uint64_t phase_sealed;
    tf_time phase_started;
    uint64_t phase_forged; /* forgeries when the phase began */
    uint64_t next;         /* the lowest packet number not yet used */
} sender;

typedef struct receiver {
    aead previous;
    aead current;
    aead next;                  /* ready, so that a trial of it costs no more than any */
    uint8_t secret[SECRET_LEN]; /* of the phase after `next` */
    uint64_t phase;             /* of current */
    uint64_t current_lowest;    /* lowest number opened under current; UINT64_MAX: none */
    uint64_t before_next;       /* above every number opened under a phase before current */
    uint64_t previous_from;     /* above every number opened under a phase before previous */
    tf_time previous_until;     /* TF_NEVER: previous holds no key */
    tf_replay replay;
} receiver;

struct tf_keys {
    const tf_mem *mem;
    tf_cipher cipher;
    size_t key_len;
    uint64_t local_connection_id;
    uint64_t remote_connection_id;
    tf_keys_limits limits;
    tf_time grace;
    bool exhausted;
    sender send;
    receiver receive;
    tf_keys_stats stats; /* phases and times are filled in by tf_keys_stats_get */
};

/* -- derivation (K2) ----------------------------------------------------------------------------------------------- */

/* HKDF-Expand-Label of RFC 8446 with "twofold " for "tls13 ", SHA-256 and no context; at most one block. */
static tf_err expand(const uint8_t secret[SECRET_LEN], tf_slice label, uint8_t *out, size_t len)
{
    uint8_t info[32];
    uint8_t block[EVP_MAX_MD_SIZE];
    unsigned block_len = 0;
    tf_writer w;
    TF_ASSERT(len <= SECRET_LEN);
    tf_wr_init(&w, info, sizeof(info));
    tf_wr_u16(&w, (uint16_t)len);
    tf_wr_u8(&w, (uint8_t)(8 + label.len));
    tf_wr_bytes(&w, tf_slice_str("twofold "));
    tf_wr_bytes(&w, label);
    tf_wr_u8(&w, 0);
    tf_wr_u8(&w, 1); /* the first block of RFC 5869 */
    TF_ASSERT(tf_wr_ok(&w));
    bool ok = HMAC(EVP_sha256(), secret, (int)SECRET_LEN, info, tf_wr_len(&w), block, &block_len) != NULL &&
              block_len >= len;
    if (ok) {
        memcpy(out, block, len);
    }
    tf_wipe(block, sizeof(block));
    return ok ? TF_OK : TF_ERR_CRYPTO;
}

static tf_err aead_set(aead *key, const uint8_t bytes[KEY_MAX], const uint8_t iv[IV_LEN])
{
    memcpy(key->iv, iv, IV_LEN);
    return EVP_CipherInit_ex(key->ctx, NULL, NULL, bytes, NULL, -1) == 1 ? TF_OK : TF_ERR_CRYPTO;
}

/* Overwrites the key schedule with that of a key of zeros. */
static void aead_erase(aead *key)
{
    static const uint8_t zeros[KEY_MAX] = {0};
    if (aead_set(key, zeros, zeros) != TF_OK) {
        (void)EVP_CIPHER_CTX_reset(key->ctx);
    }
}

/* Keys `key` with the phase whose secret this is, and replaces the secret by the one of the next phase. On an error
 * neither may be used again. */
static tf_err aead_ratchet(aead *key, size_t key_len, uint8_t secret[SECRET_LEN])
{
    uint8_t bytes[KEY_MAX];
    uint8_t iv[IV_LEN];
    uint8_t next[SECRET_LEN];
    tf_err err = expand(secret, tf_slice_str("key"), bytes, key_len);
    err = err != TF_OK ? err : expand(secret, tf_slice_str("iv"), iv, sizeof(iv));
    err = err != TF_OK ? err : expand(secret, tf_slice_str("next"), next, sizeof(next));
    err = err != TF_OK ? err : aead_set(key, bytes, iv);
    if (err == TF_OK) {
        memcpy(secret, next, SECRET_LEN);
    }
    tf_wipe(bytes, sizeof(bytes));
    tf_wipe(iv, sizeof(iv));
    tf_wipe(next, sizeof(next));
    return err;
}

/* -- making and freeing -------------------------------------------------------------------------------------------- */

static tf_err aead_init(aead *key, tf_cipher cipher, bool seals)
{
    const EVP_CIPHER *type = cipher == TF_CIPHER_AES_128_GCM ? EVP_aes_128_gcm() : EVP_chacha20_poly1305();
    key->ctx = EVP_CIPHER_CTX_new();
    if (key->ctx == NULL) {
        return TF_ERR_NOMEM;
    }
    return EVP_CipherInit_ex(key->ctx, type, NULL, NULL, NULL, seals ? 1 : 0) == 1 ? TF_OK : TF_ERR_CRYPTO;
}

static void aead_free(aead *key)
{
    EVP_CIPHER_CTX_free(key->ctx); /* wipes the key schedule */
    key->ctx = NULL;
}

static tf_err aeads_init(tf_keys *keys)
{
    tf_err err = aead_init(&keys->send.key, keys->cipher, true);
    err = err != TF_OK ? err : aead_init(&keys->receive.previous, keys->cipher, false);
    err = err != TF_OK ? err : aead_init(&keys->receive.current, keys->cipher, false);
    err = err != TF_OK ? err : aead_init(&keys->receive.next, keys->cipher, false);
    err = err != TF_OK ? err : aead_ratchet(&keys->send.key, keys->key_len, keys->send.secret);
    err = err != TF_OK ? err : aead_ratchet(&keys->receive.current, keys->key_len, keys->receive.secret);
    err = err != TF_OK ? err : aead_ratchet(&keys->receive.next, keys->key_len, keys->receive.secret);
    return err;
}

static tf_keys_limits limits_or_defaults(const tf_keys_params *params)
{
    tf_keys_limits limits = params->limits;
    TF_ASSERT(limits.phase_packets <= TF_KEY_PHASE_PACKETS);
    if (limits.phase_packets == 0) {
        limits.phase_packets = TF_KEY_PHASE_PACKETS;
    }
    if (limits.phase_age == 0) {
        limits.phase_age = TF_KEY_PHASE_AGE;
    }
    if (limits.forgeries == 0) {
        limits.forgeries =
            params->cipher == TF_CIPHER_AES_128_GCM ? TF_FORGERY_LIMIT_GCM : TF_FORGERY_LIMIT_CHACHA;
    }
    return limits;
}

tf_err tf_keys_new_from_secret(tf_keys **out, const uint8_t secret[TF_KEYS_SECRET_LEN], const tf_keys_params *params,
                               const tf_mem *mem, tf_time now)
{
    tf_keys *keys = tf_alloc(mem, sizeof(*keys));
    if (keys == NULL) {
        return TF_ERR_NOMEM;
    }
    *keys = (tf_keys){.mem = mem,
                      .cipher = params->cipher,
                      .key_len = params->cipher == TF_CIPHER_AES_128_GCM ? 16 : 32,
                      .local_connection_id = params->local_connection_id,
                      .remote_connection_id = params->remote_connection_id,
                      .limits = limits_or_defaults(params),
                      .grace = GRACE_DEFAULT,
                      .send = {.phase_started = now},
                      .receive = {.current_lowest = UINT64_MAX, .previous_until = TF_NEVER},
                      .stats = {.created = now}};
    tf_replay_init(&keys->receive.replay);
    memcpy(keys->send.secret, secret + (params->dialler ? 0 : SECRET_LEN), SECRET_LEN);
    memcpy(keys->receive.secret, secret + (params->dialler ? SECRET_LEN : 0), SECRET_LEN);
    tf_err err = aeads_init(keys);
    if (err != TF_OK) {
        goto out;
    }
    *out = keys;
    keys = NULL; /* handed over */
out:
    tf_keys_free(keys);
    return err;
}

void tf_keys_context(const tf_keys_params *params, uint8_t out[TF_KEYS_CONTEXT_LEN])
{
    bool dialler = params->dialler;
    const tf_node_id *dialler_id = dialler ? &params->local : &params->remote;
    const tf_node_id *acceptor_id = dialler ? &params->remote : &params->local;
    tf_writer w;
    TF_ASSERT(params->version <= UINT16_MAX);
    tf_wr_init(&w, out, TF_KEYS_CONTEXT_LEN);
    tf_wr_u16(&w, (uint16_t)params->version);
    tf_wr_bytes(&w, tf_slice_of(dialler_id->bytes, TF_NODE_ID_LEN));
    tf_wr_bytes(&w, tf_slice_of(acceptor_id->bytes, TF_NODE_ID_LEN));
    tf_wr_u64(&w, params->session);
    tf_wr_u64(&w, params->generation);
    tf_wr_u64(&w, dialler ? params->local_connection_id : params->remote_connection_id);
    tf_wr_u64(&w, dialler ? params->remote_connection_id : params->local_connection_id);
    TF_ASSERT(tf_wr_ok(&w) && tf_wr_left(&w) == 0);
}

tf_err tf_keys_new_from_ssl(tf_keys **out, SSL *ssl, const tf_keys_params *params, const tf_mem *mem, tf_time now)
{
    uint8_t context[TF_KEYS_CONTEXT_LEN];
    uint8_t secret[TF_KEYS_SECRET_LEN];
    if (!SSL_is_init_finished(ssl) || SSL_version(ssl) != TLS1_3_VERSION) {
        return TF_ERR_USAGE;
    }
    ERR_clear_error();
    tf_keys_context(params, context);
    tf_err err = TF_ERR_CRYPTO;
    if (SSL_export_keying_material(ssl, secret, sizeof(secret), TF_KEYS_EXPORTER_LABEL,
                                   sizeof(TF_KEYS_EXPORTER_LABEL) - 1, context, sizeof(context), 1) == 1) {
        err = tf_keys_new_from_secret(out, secret, params, mem, now);
    }
    tf_wipe(secret, sizeof(secret));
    return err;
}

void tf_keys_free(tf_keys *keys)
{
    if (keys == NULL) {
        return;
    }
    const tf_mem *mem = keys->mem;
    aead_free(&keys->send.key);
    aead_free(&keys->receive.previous);
    aead_free(&keys->receive.current);
    aead_free(&keys->receive.next);
    tf_wipe(keys, sizeof(*keys));
    tf_free(mem, keys, sizeof(*keys));
}

/* -- phases (K6 to K8) --------------------------------------------------------------------------------------------- */

static void send_advance(tf_keys *keys, tf_time now)
{
    sender *send = &keys->send;
    if (aead_ratchet(&send->key, keys->key_len, send->secret) != TF_OK) {
        keys->exhausted = true;
        return;
    }
    send->phase++;
    send->phase_first = send->next;
    send->phase_sealed = 0;
    send->phase_started = now;
    send->phase_forged = keys->stats.forged;
}

/* The next phase becomes the current one; the current one is kept for the grace, the one before it is overwritten. The
 * send phase follows. */
static void receive_advance(tf_keys *keys, tf_time now)
{
    receiver *receive = &keys->receive;
    aead oldest = receive->previous;
    receive->previous = receive->current;
    receive->current = receive->next;
    receive->next = oldest;
    receive->phase++;
    receive->current_lowest = UINT64_MAX;
    receive->previous_from = receive->before_next;
    receive->before_next = tf_replay_next(&receive->replay);
    receive->previous_until = tf_time_add(now, keys->grace);
    if (aead_ratchet(&receive->next, keys->key_len, receive->secret) != TF_OK) {
        keys->exhausted = true;
    }
    if (keys->send.phase < receive->phase) {
        send_advance(keys, now);
    }
}

static bool phase_is_over(const tf_keys *keys, tf_time now)
{
    const sender *send = &keys->send;
    uint64_t quarter = keys->limits.forgeries < 4 ? 1 : keys->limits.forgeries / 4;
    return send->phase_sealed >= keys->limits.phase_packets ||
           now >= tf_time_add(send->phase_started, keys->limits.phase_age) ||
           keys->stats.forged - send->phase_forged >= quarter;
}

void tf_keys_acked(tf_keys *keys, tf_time now, uint64_t pn)
{
    if (keys->send.phase > keys->receive.phase && pn >= keys->send.phase_first && pn < keys->send.next) {
        receive_advance(keys, now); /* it opened a packet of this phase, so it has followed (K7) */
    }
}

void tf_keys_set_grace(tf_keys *keys, tf_time grace)
{
    keys->grace = grace;
}

tf_time tf_keys_deadline(const tf_keys *keys)
{
    return keys->receive.previous_until;
}

void tf_keys_tick(tf_keys *keys, tf_time now)
{
    if (keys->receive.previous_until != TF_NEVER && now >= keys->receive.previous_until) {
        aead_erase(&keys->receive.previous);
        keys->receive.previous_until = TF_NEVER;
    }
}

bool tf_keys_is_exhausted(const tf_keys *keys)
{
    return keys->exhausted;
}

/* -- packets (K3 to K5) -------------------------------------------------------------------------------------------- */

static void nonce_of(const aead *key, uint64_t pn, uint8_t out[IV_LEN])
{
    memcpy(out, key->iv, IV_LEN);
    for (unsigned i = 0; i < 8; i++) {
        out[IV_LEN - 1 - i] ^= (uint8_t)(pn >> (8 * i));
    }
}

/* out: header, then room for the sealed bytes and the tag. */
static bool aead_seal(const aead *key, uint64_t pn, tf_slice plain, uint8_t *out)
{
    uint8_t nonce[IV_LEN];
    int len = 0;
    uint8_t *sealed = out + TF_PACKET_HEADER;
    nonce_of(key, pn, nonce);
    return EVP_EncryptInit_ex(key->ctx, NULL, NULL, NULL, nonce) == 1 &&
           EVP_EncryptUpdate(key->ctx, NULL, &len, out, (int)TF_PACKET_HEADER) == 1 &&
           EVP_EncryptUpdate(key->ctx, sealed, &len, plain.data, (int)plain.len) == 1 && (size_t)len == plain.len &&
           EVP_EncryptFinal_ex(key->ctx, sealed + plain.len, &len) == 1 && len == 0 &&
           EVP_CIPHER_CTX_ctrl(key->ctx, EVP_CTRL_AEAD_GET_TAG, (int)TF_PACKET_TAG, sealed + plain.len) == 1;
}

/* packet is at least TF_PACKET_MIN long. */
static bool aead_open(const aead *key, uint64_t pn, tf_slice packet, uint8_t *out)
{
    uint8_t nonce[IV_LEN];
    uint8_t tag[TF_PACKET_TAG];
    int len = 0;
    size_t plain_len = packet.len - TF_PACKET_OVERHEAD;
    memcpy(tag, packet.data + packet.len - TF_PACKET_TAG, TF_PACKET_TAG);
    nonce_of(key, pn, nonce);
    return EVP_DecryptInit_ex(key->ctx, NULL, NULL, NULL, nonce) == 1 &&
           EVP_CIPHER_CTX_ctrl(key->ctx, EVP_CTRL_AEAD_SET_TAG, (int)TF_PACKET_TAG, tag) == 1 &&
           EVP_DecryptUpdate(key->ctx, NULL, &len, packet.data, (int)TF_PACKET_HEADER) == 1 &&
           EVP_DecryptUpdate(key->ctx, out, &len, packet.data + TF_PACKET_HEADER, (int)plain_len) == 1 &&
           (size_t)len == plain_len && EVP_DecryptFinal_ex(key->ctx, out + plain_len, &len) == 1;
}

static void header_write(const tf_keys *keys, uint64_t pn, uint8_t out[TF_PACKET_HEADER])
{
    tf_writer w;
    tf_wr_init(&w, out, TF_PACKET_HEADER);
    tf_wr_u8(&w, (uint8_t)(FLAGS_FIXED | (keys->send.phase & FLAGS_PHASE)));
    tf_wr_u64(&w, keys->remote_connection_id);
    tf_wr_u32(&w, (uint32_t)pn);
}

tf_err tf_keys_seal(tf_keys *keys, tf_time now, uint64_t pn, tf_slice plain, uint8_t *out, size_t cap)
{
    sender *send = &keys->send;
    TF_ASSERT(plain.len > 0 && pn >= send->next && pn <= TF_PACKET_NUMBER_MAX);
    tf_keys_tick(keys, now);
    if (cap < TF_PACKET_OVERHEAD || plain.len > cap - TF_PACKET_OVERHEAD) {
        return TF_ERR_LIMIT_BYTES;
    }
    if (send->phase == keys->receive.phase && phase_is_over(keys, now)) {
        send_advance(keys, now);
    }
    if (send->phase_sealed >= 2 * keys->limits.phase_packets) {
        keys->exhausted = true;
    }
    if (keys->exhausted) {
        return TF_ERR_LIMIT_ITEMS;
    }
    send->next = pn + 1; /* whatever comes: a nonce is used once */
    send->phase_sealed++;
    header_write(keys, pn, out);
    if (!aead_seal(&send->key, pn, plain, out)) {
        ERR_clear_error();
        return TF_ERR_CRYPTO;
    }
    keys->stats.sealed++;
    return TF_OK;
}

typedef struct header {
    unsigned phase_bits;
    uint64_t connection_id;
    uint32_t short_pn;
} header;

static bool header_read(tf_slice packet, header *out)
{
    tf_reader r;
    if (packet.len < TF_PACKET_MIN || packet.len > INT32_MAX) {
        return false;
    }
    tf_rd_init(&r, packet);
    uint8_t flags = tf_rd_u8(&r);
    *out = (header){.phase_bits = flags & FLAGS_PHASE, .connection_id = tf_rd_u64(&r), .short_pn = tf_rd_u32(&r)};
    return (flags & ~FLAGS_PHASE) == FLAGS_FIXED;
}

bool tf_keys_packet_connection_id(tf_slice packet, uint64_t *connection_id)
{
    header head;
    if (!header_read(packet, &head)) {
        return false;
    }
    *connection_id = head.connection_id;
    return true;
}

/* RFC 9000 A.3 for 32 bits: the number nearest to the expected one that ends in these. */
static uint64_t number_of(uint64_t expected, uint32_t short_pn)
{
    const uint64_t window = (uint64_t)1 << 32;
    const uint64_t half = window / 2;
    uint64_t candidate = (expected & ~(window - 1)) | short_pn;
    if (expected >= half && candidate <= expected - half && candidate < TF_PACKET_NUMBER_MAX + 1 - window) {
        return candidate + window;
    }
    return candidate > expected + half && candidate >= window ? candidate - window : candidate;
}

/* Phases as far from the current one as the two bits tell. */
typedef enum phase_step { STEP_CURRENT = 0, STEP_NEXT = 1, STEP_FAR = 2, STEP_PREVIOUS = 3 } phase_step;

/* The key for a packet of that phase and number; NULL when no honest peer would send it (K8). */
static const aead *key_for(const receiver *receive, phase_step step, uint64_t pn)
{
    switch (step) {
    case STEP_CURRENT:
        return pn >= receive->before_next ? &receive->current : NULL;
    case STEP_NEXT:
        return pn >= tf_replay_next(&receive->replay) ? &receive->next : NULL;
    case STEP_PREVIOUS:
        return receive->previous_until != TF_NEVER && pn >= receive->previous_from && pn < receive->current_lowest
                   ? &receive->previous
                   : NULL;
    case STEP_FAR:
        return NULL;
    }
    TF_UNREACHABLE();
}

static void count_forgery(tf_keys *keys)
{
    ERR_clear_error();
    keys->stats.forged++;
    if (keys->stats.forged >= keys->limits.forgeries) {
        keys->exhausted = true;
    }
}

/* The packet is authentic: only from here on anything but counters moves. */
static void accept(tf_keys *keys, tf_time now, phase_step step, uint64_t pn)
{
    receiver *receive = &keys->receive;
    if (step == STEP_NEXT) {
        receive_advance(keys, now);
    }
    if (step == STEP_PREVIOUS) {
        receive->before_next = pn >= receive->before_next ? pn + 1 : receive->before_next;
    } else {
        receive->current_lowest = pn < receive->current_lowest ? pn : receive->current_lowest;
    }
    tf_replay_commit(&receive->replay, pn);
    keys->stats.opened++;
}

tf_err tf_keys_open(tf_keys *keys, tf_time now, tf_slice packet, uint8_t *out, size_t cap, tf_opened *opened)
{
    receiver *receive = &keys->receive;
    header head;
    tf_keys_tick(keys, now);
    if (keys->exhausted) {
        return TF_ERR_CLOSED;
    }
    if (!header_read(packet, &head) || head.connection_id != keys->local_connection_id) {
        keys->stats.malformed++;
        return TF_ERR_PEER_SYNTAX;
    }
    size_t plain_len = packet.len - TF_PACKET_OVERHEAD;
    if (plain_len > cap) {
        return TF_ERR_LIMIT_BYTES;
    }
    uint64_t newest = tf_replay_next(&receive->replay);
    uint64_t pn = number_of(newest, head.short_pn);
    if (tf_replay_check(&receive->replay, pn) != TF_REPLAY_NEW) {
        keys->stats.replayed++;
        return TF_ERR_PEER_REPLAY;
    }
    phase_step step = (phase_step)((head.phase_bits - receive->phase) & FLAGS_PHASE);
    const aead *key = key_for(receive, step, pn);
    if (key == NULL) {
        keys->stats.misphased++;
        return TF_ERR_PEER_STATE;
    }
    if (!aead_open(key, pn, packet, out)) {
        count_forgery(keys);
        return TF_ERR_PEER_AUTH;
    }
    accept(keys, now, step, pn);
    *opened = (tf_opened){.pn = pn, .plain = tf_slice_of(out, plain_len), .newest = pn >= newest};
    return TF_OK;
}

void tf_keys_stats_get(const tf_keys *keys, tf_keys_stats *out)
{
    *out = keys->stats;
    out->send_phase = keys->send.phase;
    out->receive_phase = keys->receive.phase;
    out->phase_started = keys->send.phase_started;
}
