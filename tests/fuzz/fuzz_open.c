/* handshake/keys: whatever arrives, and in whatever order, only what the peer sealed is opened, and once; everything else
 * moves one counter. Input: one byte of cipher and limits, then a program of steps. */
#include <stdlib.h>

#include "handshake/keys.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/support.h"

#define KEPT 32u
#define PLAIN_LEN 9u
#define PACKET_LEN (PLAIN_LEN + TF_PACKET_OVERHEAD)
#define RAW_MAX 80u

typedef struct kept_packet {
    uint64_t pn;
    bool sealed;
    bool opened;
    uint8_t bytes[PACKET_LEN];
} kept_packet;

typedef struct world {
    tf_keys *sender;
    tf_keys *receiver;
    tf_time now;
    uint64_t next;      /* of the sender */
    uint64_t next_back; /* of the receiver's own packets */
    kept_packet kept[KEPT];
} world;

static tf_keys *keys_of(bool dialler, uint8_t choice)
{
    uint8_t secret[TF_KEYS_SECRET_LEN] = {1, 2, 3};
    tf_keys *keys = NULL;
    tf_keys_params params = {.dialler = dialler,
                             .cipher = (tf_cipher)(choice & 1u),
                             .version = 1,
                             .local_connection_id = dialler ? 1 : 2,
                             .remote_connection_id = dialler ? 2 : 1,
                             .limits = {.phase_packets = 1 + (choice >> 1 & 7u),
                                        .phase_age = 1000,
                                        .forgeries = (choice & 0x80u) != 0 ? 8 : 0}};
    TF_ASSERT(tf_keys_new_from_secret(&keys, secret, &params, tf_test_mem(), 0) == TF_OK);
    return keys;
}

static uint64_t counted(const tf_keys *keys)
{
    tf_keys_stats stats;
    tf_keys_stats_get(keys, &stats);
    return stats.opened + stats.malformed + stats.replayed + stats.misphased + stats.forged;
}

/* The plaintext of a packet says its number. */
static void plain_of(uint64_t pn, uint8_t out[PLAIN_LEN])
{
    out[0] = 0x5a;
    memcpy(out + 1, &pn, sizeof(pn));
}

static void step_seal(world *w, uint8_t decision)
{
    kept_packet *p = &w->kept[decision % KEPT];
    uint8_t plain[PLAIN_LEN];
    w->next += decision / KEPT;
    plain_of(w->next, plain);
    tf_err err = tf_keys_seal(w->sender, w->now, w->next, tf_slice_of(plain, PLAIN_LEN), p->bytes, sizeof(p->bytes));
    TF_ASSERT(err == TF_OK || (err == TF_ERR_LIMIT_ITEMS && tf_keys_is_exhausted(w->sender)));
    p->pn = w->next;
    p->sealed = err == TF_OK;
    p->opened = false;
    w->next += err == TF_OK;
}

/* Opens one packet; a counter moves by one, unless the generation has ended. */
static tf_err open_packet(world *w, tf_slice packet, tf_opened *opened)
{
    static uint8_t out[RAW_MAX];
    uint8_t *exact = tf_test_exact(packet);
    bool ended = tf_keys_is_exhausted(w->receiver);
    uint64_t before = counted(w->receiver);
    tf_err err = tf_keys_open(w->receiver, w->now, tf_slice_of(exact, packet.len), out, sizeof(out), opened);
    TF_ASSERT(counted(w->receiver) == before + !ended);
    TF_ASSERT(!ended || err == TF_ERR_CLOSED);
    free(exact);
    return err;
}

static void step_deliver(world *w, uint8_t decision)
{
    kept_packet *p = &w->kept[decision % KEPT];
    uint8_t plain[PLAIN_LEN];
    tf_opened opened;
    if (!p->sealed || open_packet(w, tf_slice_of(p->bytes, PACKET_LEN), &opened) != TF_OK) {
        return;
    }
    plain_of(p->pn, plain);
    TF_ASSERT(!p->opened && opened.pn == p->pn);
    TF_ASSERT(tf_slice_eq(opened.plain, tf_slice_of(plain, PLAIN_LEN)));
    p->opened = true;
}

static void step_damage(world *w, uint8_t decision, tf_slice *input)
{
    kept_packet bad = w->kept[decision % KEPT];
    tf_opened opened;
    uint8_t at = tf_fuzz_u8(input);
    uint8_t change = tf_fuzz_u8(input);
    size_t len = PACKET_LEN - (change == 0 ? 1u + at % PACKET_LEN : 0); /* no change: cut */
    bad.bytes[at % PACKET_LEN] ^= change;
    TF_ASSERT(!bad.sealed || open_packet(w, tf_slice_of(bad.bytes, len), &opened) != TF_OK);
}

static void step_raw(world *w, uint8_t decision, tf_slice *input)
{
    uint8_t packet[RAW_MAX] = {(uint8_t)(0x40u | (decision & 3u)), 0, 0, 0, 0, 0, 0, 0, 2};
    size_t head = (decision & 4u) != 0 ? 9 : 0; /* as if it were meant for these keys */
    tf_slice bytes = tf_fuzz_bytes(input, tf_fuzz_u8(input) % (RAW_MAX - 9));
    tf_opened opened;
    if (bytes.len > 0) {
        memcpy(packet + head, bytes.data, bytes.len);
    }
    TF_ASSERT(open_packet(w, tf_slice_of(packet, head + bytes.len), &opened) != TF_OK);
}

/* The receiver answers, so that the sender learns that it has followed. */
static void step_back(world *w)
{
    uint8_t packet[64];
    uint8_t out[64];
    tf_opened opened;
    tf_err err = tf_keys_seal(w->receiver, w->now, w->next_back, tf_slice_str("b"), packet, sizeof(packet));
    if (err == TF_OK) {
        w->next_back++;
        err = tf_keys_open(w->sender, w->now, tf_slice_of(packet, 1 + TF_PACKET_OVERHEAD), out, sizeof(out), &opened);
        TF_ASSERT(err == TF_OK || err == TF_ERR_PEER_STATE || tf_keys_is_exhausted(w->sender));
    }
}

static void step_ack(world *w, uint8_t decision)
{
    const kept_packet *p = &w->kept[decision % KEPT];
    if (p->opened) {
        tf_keys_acked(w->sender, w->now, p->pn);
    }
}

static void step(world *w, tf_slice *input)
{
    uint8_t kind = tf_fuzz_u8(input);
    uint8_t decision = tf_fuzz_u8(input);
    switch (kind % 8) {
    case 0:
    case 1:
        step_seal(w, decision);
        break;
    case 2:
    case 3:
        step_deliver(w, decision);
        break;
    case 4:
        step_damage(w, decision, input);
        break;
    case 5:
        step_raw(w, decision, input);
        break;
    case 6:
        step_back(w);
        break;
    default:
        step_ack(w, decision);
        w->now += decision;
        tf_keys_set_grace(w->receiver, decision);
        break;
    }
}

static void assert_together(const tf_keys *keys)
{
    tf_keys_stats stats;
    tf_keys_stats_get(keys, &stats);
    TF_ASSERT(stats.send_phase == stats.receive_phase || stats.send_phase == stats.receive_phase + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tf_slice input = tf_slice_of(data, size);
    uint8_t choice = tf_fuzz_u8(&input);
    world *w = calloc(1, sizeof(*w));
    TF_ASSERT(w != NULL);
    w->sender = keys_of(true, choice);
    w->receiver = keys_of(false, choice);
    while (input.len > 0) {
        step(w, &input);
        assert_together(w->sender);
        assert_together(w->receiver);
    }
    tf_keys_free(w->sender);
    tf_keys_free(w->receiver);
    free(w);
    return 0;
}
