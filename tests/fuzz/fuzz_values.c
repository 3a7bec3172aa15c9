/* What users write in one word: durations, sizes, HOST:PORT, URIs, node ids, addresses, patterns. A word is refused,
 * and then nothing comes out; or what it means is written and read again as the same, in no more room than there is.
 * Input: one byte (which kind), then the word. */
#include <stdlib.h>

#include "handshake/node_id.h"
#include "node/config_internal.h"
#include "node/name.h"
#include "node/pattern.h"
#include "node/uri.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/support.h"

/* A reason fits its room and a terminal. */
static void check_why(const char why[TF_WHY_MAX])
{
    size_t len = strnlen(why, TF_WHY_MAX);
    TF_ASSERT(len > 0 && len < TF_WHY_MAX);
    for (size_t i = 0; i < len; i++) {
        TF_ASSERT((uint8_t)why[i] >= 0x20 && why[i] != 0x7f);
    }
}

static bool is_untouched(const void *value, size_t len)
{
    const uint8_t *bytes = value;
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != 0x5a) {
            return false;
        }
    }
    return true;
}

static void run_duration(tf_slice in)
{
    tf_time value = 0;
    tf_time again = 0;
    char text[CONFIG_NUMBER_MAX];
    memset(&value, 0x5a, sizeof(value));
    if (tf_duration_parse(&value, in) != TF_OK) {
        TF_ASSERT(is_untouched(&value, sizeof(value)));
        return;
    }
    TF_ASSERT(value != TF_NEVER && value % TF_MS == 0);
    if (value != 0) { /* which has no unit there */
        (void)tf_config_number(text, CONFIG_TYPE_DURATION, value);
        TF_ASSERT(tf_duration_parse(&again, tf_slice_str(text)) == TF_OK && again == value);
    }
}

static void run_size(tf_slice in)
{
    uint64_t value = 0;
    uint64_t again = 0;
    char text[CONFIG_NUMBER_MAX];
    memset(&value, 0x5a, sizeof(value));
    if (tf_size_parse(&value, in) != TF_OK) {
        TF_ASSERT(is_untouched(&value, sizeof(value)));
        return;
    }
    (void)tf_config_number(text, CONFIG_TYPE_SIZE64, value);
    TF_ASSERT(tf_size_parse(&again, tf_slice_str(text)) == TF_OK && again == value);
}

static void run_endpoint(tf_slice in, bool allow_zero)
{
    tf_endpoint value;
    tf_endpoint again;
    tf_address address;
    char text[TF_ENDPOINT_TEXT_MAX];
    char why[TF_WHY_MAX] = "";
    memset(&value, 0x5a, sizeof(value));
    if (tf_endpoint_parse(&value, in, allow_zero, why) != TF_OK) {
        TF_ASSERT(is_untouched(&value, sizeof(value)));
        check_why(why);
        return;
    }
    TF_ASSERT(strnlen(value.host, sizeof(value.host)) < sizeof(value.host) && (allow_zero || value.port != 0));
    (void)tf_endpoint_format(&value, text);
    TF_ASSERT(tf_endpoint_parse(&again, tf_slice_str(text), allow_zero, why) == TF_OK);
    TF_ASSERT(tf_endpoint_eq(&value, &again));
    if (tf_endpoint_literal(&value, &address) == TF_OK) {
        tf_endpoint_from_address(&again, &address);
        TF_ASSERT(again.port == value.port);
    }
}

static void run_uri(tf_slice in)
{
    tf_uri value;
    tf_uri again;
    char out[2][TF_URI_TEXT_MAX];
    char why[TF_WHY_MAX] = "";
    char *text = tf_fuzz_text(in);
    memset(&value, 0x5a, sizeof(value));
    if (tf_uri_parse(&value, text, why) != TF_OK) {
        TF_ASSERT(is_untouched(&value, sizeof(value)));
        check_why(why);
        free(text);
        return;
    }
    TF_ASSERT(value.standby != TF_ROUTES_BOTH);
    (void)tf_uri_format(&value, out[0]);
    TF_ASSERT(strlen(out[0]) <= strlen(text)); /* the shortest */
    TF_ASSERT(tf_uri_parse(&again, out[0], why) == TF_OK);
    TF_ASSERT(tf_node_id_eq(&value.node, &again.node) && tf_endpoint_eq(&value.stream, &again.stream));
    TF_ASSERT(tf_endpoint_eq(&value.datagram, &again.datagram) && value.standby == again.standby);
    TF_ASSERT(strcmp(value.stream_bind, again.stream_bind) == 0);
    TF_ASSERT(strcmp(value.datagram_bind, again.datagram_bind) == 0);
    TF_ASSERT(strcmp(out[0], tf_uri_format(&again, out[1])) == 0);
    free(text);
}

static void run_node_id(tf_slice in)
{
    tf_node_id value;
    char text[TF_NODE_ID_TEXT_LEN + 1];
    memset(&value, 0x5a, sizeof(value));
    if (tf_node_id_parse(&value, in) != TF_OK) {
        TF_ASSERT(is_untouched(&value, sizeof(value)));
        return;
    }
    tf_node_id_format(&value, text);
    TF_ASSERT(tf_slice_eq(in, tf_slice_str(text)));
}

static void run_address(tf_slice in)
{
    tf_address value;
    tf_address again;
    char text[TF_ADDRESS_TEXT_MAX];
    tf_endpoint endpoint;
    if (tf_address_parse(&value, in, 7420) != TF_OK) {
        return;
    }
    TF_ASSERT(tf_address_is_set(&value) && tf_address_port(&value) == 7420);
    (void)tf_address_format(&value, text);
    TF_ASSERT(tf_endpoint_parse(&endpoint, tf_slice_str(text), false, NULL) == TF_OK);
    TF_ASSERT(tf_endpoint_literal(&endpoint, &again) == TF_OK && tf_address_eq(&value, &again));
}

/* By a table of what matches up to where, as slow as can be. */
static bool matches(tf_slice pattern, tf_slice name)
{
    static bool at[2][TF_CHANNEL_NAME_MAX + 1];
    memset(at, 0, sizeof(at));
    at[0][0] = true;
    for (size_t i = 0; i < pattern.len; i++) {
        bool *old = at[i % 2];
        bool *now = at[(i + 1) % 2];
        uint8_t c = pattern.data[i];
        now[0] = old[0] && c == '*';
        for (size_t k = 1; k <= name.len; k++) {
            bool same = c == '?' || c == name.data[k - 1];
            now[k] = c == '*' ? old[k] || now[k - 1] : old[k - 1] && same;
        }
    }
    return at[pattern.len % 2][name.len];
}

static void run_pattern(tf_slice in)
{
    tf_slice pattern = tf_fuzz_bytes(&in, tf_fuzz_u8(&in));
    if (tf_pattern_is_valid(pattern) && tf_channel_name_is_valid(in)) {
        TF_ASSERT(tf_pattern_matches(pattern, in) == matches(pattern, in));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tf_slice input = tf_slice_of(data, size);
    unsigned kind = tf_fuzz_u8(&input) % 8;
    uint8_t *exact = tf_test_exact(input);
    tf_slice word = tf_slice_of(exact, input.len);
    switch (kind) {
    case 0:
        run_duration(word);
        break;
    case 1:
        run_size(word);
        break;
    case 2:
    case 3:
        run_endpoint(word, kind == 3);
        break;
    case 4:
        run_uri(word);
        break;
    case 5:
        run_node_id(word);
        break;
    case 6:
        run_address(word);
        break;
    default:
        run_pattern(word);
        break;
    }
    free(exact);
    return 0;
}
