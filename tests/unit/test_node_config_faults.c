/* node/config without memory: whichever allocation fails, the caller is told, gets nothing and owes nothing. The linker puts
 * the allocators below in place of the C library's (CMakeLists.txt). */
#include <stdlib.h>

#include "node/config.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define ID_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaq"
#define ID_B "baaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static bool counting;   /* Check allocates, too */
static bool failing;
static uint64_t left;   /* allocations before the one that fails */
static bool for_ever;   /* and all later ones */
static unsigned failed;
static long live;

void *real_malloc(size_t size) __asm__("__real_malloc");
void *real_calloc(size_t count, size_t size) __asm__("__real_calloc");
void *real_realloc(void *block, size_t size) __asm__("__real_realloc");
void real_free(void *block) __asm__("__real_free");
void *faulty_malloc(size_t size) __asm__("__wrap_malloc");
void *faulty_calloc(size_t count, size_t size) __asm__("__wrap_calloc");
void *faulty_realloc(void *block, size_t size) __asm__("__wrap_realloc");
void faulty_free(void *block) __asm__("__wrap_free");

static bool fails(void)
{
    if (!failing) {
        return false;
    }
    if (left > 0) {
        left--;
        return false;
    }
    failing = for_ever;
    failed++;
    return true;
}

static void *counted(void *block)
{
    live += counting && block != NULL ? 1 : 0;
    return block;
}

void *faulty_malloc(size_t size)
{
    return fails() ? NULL : counted(real_malloc(size));
}

void *faulty_calloc(size_t count, size_t size)
{
    return fails() ? NULL : counted(real_calloc(count, size));
}

void *faulty_realloc(void *block, size_t size)
{
    if (fails()) {
        return NULL;
    }
    void *larger = real_realloc(block, size);
    return block == NULL ? counted(larger) : larger;
}

void faulty_free(void *block)
{
    live -= counting && block != NULL ? 1 : 0;
    real_free(block);
}

static const char good[] = "[node]\ndata = /d\naccept = pinned\n[listen]\naddress = [::]:1\n"
                           "[peer \"a\"]\nkey = " ID_A "\nuri = twofold://" ID_A "@h:1\n[peer \"b\"]\nkey = " ID_B "\n"
                           "[channel \"x\"]\nread = a, b\nwrite = any\n[channel \"*\"]\nmax_age = 1d\nread = b\n";

static void begin(uint64_t k, bool later_too)
{
    left = k;
    for_ever = later_too;
    failed = 0;
    live = 0;
    counting = failing = true;
}

/* Reads the text with the k-th allocation failing, then with it and all later ones; the number of failures met. */
static unsigned read_with(const char *text, uint64_t k, bool later_too, tf_err otherwise)
{
    static tf_config_errors errors;
    static tf_config untouched;
    tf_config *config = &untouched;
    begin(k, later_too);
    tf_err err = tf_config_parse(&config, "f", text, &errors);
    failing = false;
    if (err == TF_OK) {
        tf_config_free(config);
    }
    counting = false;
    ck_assert_int_eq(err, failed > 0 ? TF_ERR_NOMEM : otherwise);
    ck_assert(err == TF_OK || config == &untouched);
    ck_assert_int_eq(live, 0);
    return failed;
}

START_TEST(config_without_memory_says_so_and_leaves_nothing)
{
    for (int later_too = 0; later_too < 2; later_too++) {
        uint64_t k = 0;
        while (read_with(good, k, later_too != 0, TF_OK) > 0) {
            k++;
        }
        ck_assert_uint_gt(k, 10);
        for (k = 0; read_with("[peer \"a\"]\n[nodes]\nx\n", k, later_too != 0, TF_ERR_USAGE) > 0;) {
            k++;
        }
        ck_assert_uint_gt(k, 2);
    }
}
END_TEST

START_TEST(config_that_no_key_can_be_added_to_stays_as_it_is)
{
    static tf_config_errors errors;
    tf_config *config = NULL;
    const tf_node_id key = {{9}};
    ck_assert_int_eq(tf_config_parse(&config, "f", good, &errors), TF_OK);
    begin(0, false);
    tf_err err = tf_config_allow(config, &key);
    counting = failing = false;
    ck_assert_int_eq(err, TF_ERR_NOMEM);
    ck_assert_uint_eq(config->peer_count, 2);
    ck_assert_ptr_null(tf_config_find_peer(config, &key));
    ck_assert_int_eq(tf_config_allow(config, &key), TF_OK);
    ck_assert_ptr_nonnull(tf_config_find_peer(config, &key));
    tf_config_free(config);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {config_without_memory_says_so_and_leaves_nothing,
                                  config_that_no_key_can_be_added_to_stays_as_it_is, NULL};
    return tf_test_run("node/config_faults", tests);
}
