/* What a datagram costs in the cipher: sealing and opening packets (handshake/keys), and making the keys of a generation.
 *
 * Usage: bench_keys [THOUSANDS of packets, default 200]. Prints ns of CPU a packet of so many bytes of frames, the best
 * of five runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handshake/keys.h"
#include "tests/bench/measure.h"
#include "tests/support/support.h"

#define RUNS 5
#define BATCH 256u
#define KEYS_ROUNDS 2000u

static uint8_t packets[BATCH][TF_PACKET_BASE];

static void must(tf_err err, const char *what)
{
    if (err != TF_OK) {
        (void)fprintf(stderr, "bench_keys: %s: %s\n", what, tf_err_text(err));
        exit(EXIT_FAILURE);
    }
}

static tf_keys *keys_of(bool dialler, tf_cipher cipher, const tf_mem *mem)
{
    static const uint8_t secret[TF_KEYS_SECRET_LEN] = {1};
    tf_keys *keys = NULL;
    tf_keys_params params = {.dialler = dialler,
                             .cipher = cipher,
                             .version = 1,
                             .session = 1,
                             .generation = 1,
                             .local_connection_id = dialler ? 1 : 2,
                             .remote_connection_id = dialler ? 2 : 1};
    params.local.bytes[0] = dialler ? 1 : 2;
    params.remote.bytes[0] = dialler ? 2 : 1;
    must(tf_keys_new_from_secret(&keys, secret, &params, mem, 0), "keys");
    return keys;
}

static void seal_and_open(tf_keys *from, tf_keys *to, uint64_t first, size_t len, double spent[2])
{
    static const uint8_t plain[TF_PACKET_PLAIN_BASE];
    uint8_t out[TF_PACKET_PLAIN_BASE];
    tf_opened opened;
    double begin = tf_measure_cpu();
    for (size_t i = 0; i < BATCH; i++) {
        must(tf_keys_seal(from, 0, first + i, tf_slice_of(plain, len), packets[i], sizeof(packets[i])), "seal");
    }
    double sealed = tf_measure_cpu();
    for (size_t i = 0; i < BATCH; i++) {
        must(tf_keys_open(to, 0, tf_slice_of(packets[i], len + TF_PACKET_OVERHEAD), out, sizeof(out), &opened), "open");
    }
    spent[0] += sealed - begin;
    spent[1] += tf_measure_cpu() - sealed;
}

static void measure(const char *name, tf_cipher cipher, size_t len, uint64_t count, const tf_mem *mem)
{
    double best[2] = {1e12, 1e12};
    for (int run = 0; run < RUNS; run++) {
        tf_keys *from = keys_of(true, cipher, mem);
        tf_keys *to = keys_of(false, cipher, mem);
        double spent[2] = {0, 0};
        uint64_t done = 0;
        for (; done < count; done += BATCH) {
            seal_and_open(from, to, done, len, spent);
        }
        for (int i = 0; i < 2; i++) {
            double each = spent[i] / (double)done * 1e9;
            best[i] = each < best[i] ? each : best[i];
        }
        tf_keys_free(from);
        tf_keys_free(to);
    }
    (void)printf("%-18s %5zu bytes: seal %6.1f ns, open %6.1f ns\n", name, len, best[0], best[1]);
}

int main(int argc, char **argv)
{
    uint64_t count = (argc > 1 ? strtoull(argv[1], NULL, 10) : 200) * 1000;
    tf_test_heap heap;
    tf_test_heap_init(&heap);
    if (count == 0 || count > TF_KEY_PHASE_PACKETS) { /* one phase: the peer's acks that end one do not come here */
        (void)fprintf(stderr, "usage: bench_keys [THOUSANDS, up to %u]\n", TF_KEY_PHASE_PACKETS / 1000);
        return EXIT_FAILURE;
    }
    static const size_t sizes[] = {128, TF_PACKET_PLAIN_BASE};
    for (size_t i = 0; i < 2; i++) {
        measure("AES-128-GCM", TF_CIPHER_AES_128_GCM, sizes[i], count, &heap.mem);
        measure("ChaCha20-Poly1305", TF_CIPHER_CHACHA20_POLY1305, sizes[i], count, &heap.mem);
    }
    double begin = tf_measure_cpu();
    for (unsigned i = 0; i < KEYS_ROUNDS; i++) {
        tf_keys_free(keys_of(true, TF_CIPHER_AES_128_GCM, &heap.mem));
    }
    (void)printf("keys of a generation from its secret, both directions: %.1f us\n",
                 (tf_measure_cpu() - begin) * 1e6 / KEYS_ROUNDS);
    return EXIT_SUCCESS;
}
