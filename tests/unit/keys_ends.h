/* What the tests of handshake/keys share: two ends with the same secret, packets that are kept. */
#ifndef TF_TESTS_UNIT_KEYS_ENDS_H
#define TF_TESTS_UNIT_KEYS_ENDS_H

#include "handshake/keys.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define DIALLER_CID UINT64_C(0xd000000000000001)
#define ACCEPTOR_CID UINT64_C(0xa000000000000002)

typedef struct packet {
    uint8_t bytes[TF_PACKET_MAX];
    size_t len;
} packet;

static inline tf_keys_params params_of(bool dialler, tf_keys_limits limits)
{
    tf_node_id d = {{1}};
    tf_node_id a = {{2}};
    return (tf_keys_params){.dialler = dialler,
                            .cipher = TF_CIPHER_AES_128_GCM,
                            .version = 1,
                            .local = dialler ? d : a,
                            .remote = dialler ? a : d,
                            .session = 1,
                            .generation = 1,
                            .local_connection_id = dialler ? DIALLER_CID : ACCEPTOR_CID,
                            .remote_connection_id = dialler ? ACCEPTOR_CID : DIALLER_CID,
                            .limits = limits};
}

static inline tf_keys *keys_of(bool dialler, tf_keys_limits limits)
{
    uint8_t secret[TF_KEYS_SECRET_LEN];
    tf_keys *keys = NULL;
    tf_keys_params params = params_of(dialler, limits);
    for (size_t i = 0; i < sizeof(secret); i++) {
        secret[i] = (uint8_t)(3 * i);
    }
    ck_assert_int_eq(tf_keys_new_from_secret(&keys, secret, &params, tf_test_mem(), 0), TF_OK);
    return keys;
}

static inline tf_keys_stats stats_of(const tf_keys *keys)
{
    tf_keys_stats stats;
    tf_keys_stats_get(keys, &stats);
    return stats;
}

static inline packet seal(tf_keys *keys, tf_time now, uint64_t pn)
{
    packet p = {.len = 7 + TF_PACKET_OVERHEAD};
    ck_assert_int_eq(tf_keys_seal(keys, now, pn, tf_slice_str("payload"), p.bytes, sizeof(p.bytes)), TF_OK);
    return p;
}

static inline tf_err open_at(tf_keys *keys, tf_time now, const packet *p, tf_opened *opened)
{
    static uint8_t out[TF_PACKET_MAX];
    tf_slice wire = tf_slice_of(p->bytes, p->len);
    uint8_t *exact = tf_test_exact(wire);
    tf_err err = tf_keys_open(keys, now, tf_slice_of(exact, p->len), out, sizeof(out), opened);
    free(exact);
    return err;
}

static inline tf_err open_only(tf_keys *keys, tf_time now, const packet *p)
{
    tf_opened opened;
    return open_at(keys, now, p, &opened);
}

#endif
