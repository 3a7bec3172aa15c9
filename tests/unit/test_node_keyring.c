/* node/keyring: which keys are found by which name, and when they go. */
#include "node/keyring.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

static tf_keys *keys_of(uint64_t generation, uint64_t connection_id)
{
    uint8_t secret[TF_KEYS_SECRET_LEN] = {0};
    tf_keys *keys = NULL;
    tf_keys_params params = {.dialler = true,
                             .cipher = TF_CIPHER_AES_128_GCM,
                             .version = 1,
                             .local = {{1}},
                             .remote = {{2}},
                             .session = 7,
                             .generation = generation,
                             .local_connection_id = connection_id,
                             .remote_connection_id = 99};
    ck_assert_int_eq(tf_keys_new_from_secret(&keys, secret, &params, tf_test_mem(), 1), TF_OK);
    return keys;
}

static void add(tf_keyring *ring, uint64_t generation, uint64_t expected_out)
{
    uint64_t pushed_out = 0;
    tf_keyring_add(ring, keys_of(generation, 100 + generation), generation, 100 + generation, &pushed_out);
    ck_assert_uint_eq(pushed_out, expected_out);
}

static void erase_all(tf_keyring *ring)
{
    for (uint64_t generation = tf_keyring_newest(ring); generation != 0; generation = tf_keyring_newest(ring)) {
        ck_assert_uint_eq(tf_keyring_erase(ring, generation), 100 + generation);
    }
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}

START_TEST(keyring_generation_is_found_by_both_names)
{
    tf_keyring ring = {0};
    add(&ring, 1, 0);
    add(&ring, 2, 0);
    ck_assert_ptr_nonnull(tf_keyring_get(&ring, 1));
    ck_assert_ptr_eq(tf_keyring_find(&ring, 102)->keys, tf_keyring_get(&ring, 2));
    ck_assert_uint_eq(tf_keyring_find(&ring, 101)->generation, 1);
    ck_assert_ptr_null(tf_keyring_get(&ring, 3));
    ck_assert_ptr_null(tf_keyring_find(&ring, 0));
    ck_assert_uint_eq(tf_keyring_newest(&ring), 2);
    erase_all(&ring);
}
END_TEST

START_TEST(keyring_erased_generation_is_gone)
{
    tf_keyring ring = {0};
    add(&ring, 4, 0);
    ck_assert_uint_eq(tf_keyring_erase(&ring, 4), 104);
    ck_assert_uint_eq(tf_keyring_erase(&ring, 4), 0);
    ck_assert_ptr_null(tf_keyring_find(&ring, 104));
    ck_assert_uint_eq(tf_keyring_newest(&ring), 0);
    ck_assert_uint_eq(tf_keyring_deadline(&ring), TF_NEVER);
    erase_all(&ring);
}
END_TEST

START_TEST(keyring_full_ring_pushes_out_the_oldest)
{
    tf_keyring ring = {0};
    for (uint64_t generation = 1; generation <= TF_KEYRING_MAX; generation++) {
        add(&ring, generation, 0);
    }
    add(&ring, TF_KEYRING_MAX + 1, 101);
    ck_assert_ptr_null(tf_keyring_get(&ring, 1));
    ck_assert_ptr_nonnull(tf_keyring_get(&ring, 2));
    erase_all(&ring);
}
END_TEST

static void seal_one(tf_keyring *ring, uint64_t generation)
{
    uint8_t packet[64];
    ck_assert_int_eq(tf_keys_seal(tf_keyring_get(ring, generation), 1, 0, tf_slice_str("x"), packet, sizeof(packet)),
                     TF_OK);
}

START_TEST(keyring_counts_outlive_their_keys)
{
    tf_keyring ring = {0};
    tf_keys_stats stats;
    for (uint64_t generation = 1; generation <= TF_KEYRING_MAX; generation++) {
        add(&ring, generation, 0);
        seal_one(&ring, generation);
    }
    add(&ring, TF_KEYRING_MAX + 1, 101);
    ck_assert_uint_eq(tf_keyring_erase(&ring, 2), 102);
    tf_keyring_get_stats(&ring, &stats);
    ck_assert_uint_eq(stats.sealed, TF_KEYRING_MAX);
    erase_all(&ring);
    tf_keyring_get_stats(&ring, &stats);
    ck_assert_uint_eq(stats.sealed, TF_KEYRING_MAX);
    ck_assert_uint_eq(stats.created, 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {keyring_generation_is_found_by_both_names, keyring_erased_generation_is_gone,
                                         keyring_full_ring_pushes_out_the_oldest,
                                         keyring_counts_outlive_their_keys, NULL};
    return tf_test_run("node/keyring", tests);
}
