/* Configuration files: what is read, and every error told with its line. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "handshake/node_id.h"
#include "node/config.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define ID_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaq"
#define ID_B "baaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static tf_config_errors errors;

static tf_config *read_good(const char *text)
{
    tf_config *config = NULL;
    tf_err err = tf_config_parse(&config, "f", text, &errors);
    ck_assert_msg(err == TF_OK, "%s", errors.count > 0 ? errors.list[0].text : tf_err_text(err));
    return config;
}

/* Each error contains the text of its place in `expected`, which ends with a NULL. */
static void check_bad(const char *text, const char *const *expected)
{
    tf_config *config = NULL;
    ck_assert_int_eq(tf_config_parse(&config, "f", text, &errors), TF_ERR_USAGE);
    ck_assert_ptr_null(config);
    size_t i = 0;
    for (; expected[i] != NULL; i++) {
        ck_assert_msg(i < errors.count, "missing: %s", expected[i]);
        ck_assert_msg(strstr(errors.list[i].text, expected[i]) != NULL, "%s: does not say: %s", errors.list[i].text,
                      expected[i]);
    }
    ck_assert_msg(errors.count == i, "also: %s", errors.list[i].text);
}

static void check_one_bad(const char *text, const char *expected)
{
    const char *const list[] = {expected, NULL};
    check_bad(text, list);
}

START_TEST(config_empty_file_is_the_defaults)
{
    tf_config *config = read_good("");
    tf_config *defaults = NULL;
    ck_assert_int_eq(tf_config_new(&defaults), TF_OK);
    ck_assert_int_eq(memcmp(config, defaults, sizeof(*config)), 0);
    ck_assert_uint_eq(config->limits.max_in_flight, TF_MAX_IN_FLIGHT);
    ck_assert_int_eq(config->accept, TF_ACCEPT_PINNED);
    ck_assert_int_eq(config->store.kind, TF_CONFIG_STORE_DISK);
    ck_assert_uint_eq(config->store.segment_size, TF_LOG_SEGMENT_SIZE);
    ck_assert_uint_eq(config->store.log_size, 0);
    ck_assert(!tf_config_has_rights(config));
    tf_config_free(config);
    tf_config_free(defaults);
}
END_TEST

START_TEST(config_every_key_is_read)
{
    tf_config *config = read_good("# a comment\n"
                                  "[node]\r\n"
                                  "data = /var/lib/twofold ; behind a value\n"
                                  "  key=/etc/twofold/key\n"
                                  "accept = any\n"
                                  "\n"
                                  "[listen]\n"
                                  "address = 127.0.0.1:7420\n"
                                  "address = [::1]:0\n"
                                  "[peer \"alice\"]\n"
                                  "key = " ID_A "\n"
                                  "uri = twofold://" ID_A "@alice.example:7420\n"
                                  "relay = yes\n"
                                  "stream_copy = always\n"
                                  "datagram_copy = standby\n"
                                  "[peer \"bob\"]\n"
                                  "key = " ID_B "\n"
                                  "[limits]\n"
                                  "max_in_flight = 100\n"
                                  "max_message = 64KiB\n"
                                  "window_bytes = 8 MiB\n"
                                  "window_segments = 8192\n"
                                  "session_timeout = 5m\n"
                                  "keepalive = 1500ms\n"
                                  "rehandshake = 12h\n"
                                  "peers = 7\n"
                                  "handshakes = 9\n"
                                  "channels = 8\n"
                                  "rate = 500\n"
                                  "rate_bytes = 3MB\n"
                                  "store_bytes = 2GiB\n"
                                  "key_phase_packets = 1000\n"
                                  "[log]\n"
                                  "level = debug\n"
                                  "format = json");
    ck_assert_str_eq(config->data, "/var/lib/twofold");
    ck_assert_str_eq(config->key, "/etc/twofold/key");
    ck_assert_int_eq(config->accept, TF_ACCEPT_ANY);
    ck_assert_uint_eq(config->listen_count, 2);
    ck_assert_str_eq(config->listen[1].host, "::1");
    ck_assert_uint_eq(config->peer_count, 2);
    ck_assert_str_eq(config->peers[0].name, "alice");
    ck_assert(config->peers[0].has_uri && config->peers[0].relay);
    ck_assert_uint_eq(config->peers[0].standby, TF_ROUTES_DATAGRAM);
    ck_assert_uint_eq(config->peers[1].standby, 0);
    ck_assert_str_eq(config->peers[0].uri.stream.host, "alice.example");
    ck_assert(!config->peers[1].has_uri && !config->peers[1].relay);
    ck_assert_uint_eq(config->limits.max_in_flight, 100);
    ck_assert_uint_eq(config->limits.max_message, 65536);
    ck_assert_uint_eq(config->limits.window_bytes, 8u * 1024 * 1024);
    ck_assert_uint_eq(config->limits.window_segments, 8192);
    ck_assert_uint_eq(config->limits.session_timeout, 300 * TF_SECOND);
    ck_assert_uint_eq(config->limits.keepalive, 1500 * TF_MS);
    ck_assert_uint_eq(config->limits.rehandshake, 12 * 3600 * TF_SECOND);
    ck_assert_uint_eq(config->limits.peers, 7);
    ck_assert_uint_eq(config->limits.handshakes, 9);
    ck_assert_uint_eq(config->limits.channels, 8);
    ck_assert_uint_eq(config->limits.store_bytes, (uint64_t)2 << 30);
    ck_assert_uint_eq(config->limits.key_phase_packets, 1000);
    ck_assert_uint_eq(config->limits.rate, 500);
    ck_assert_uint_eq(config->limits.rate_bytes, 3000000);
    ck_assert_int_eq(config->log_level, TF_LOG_DEBUG);
    ck_assert_int_eq(config->log_format, TF_LOG_JSON);
    tf_config_free(config);
}
END_TEST

START_TEST(config_every_error_is_told_with_its_line)
{
    static const char *const expected[] = {
        "f:1: \"level\" stands before the first [SECTION]",
        "f:3: unknown key \"dta\" in [node]: did you mean \"data\"?",
        "f:4: accept: \"all\": expected pinned or any",
        "f:5: \"nonsense\": expected KEY = VALUE or [SECTION]",
        "f:6: unknown section \"limit\": did you mean [limits]?",
        "f:9: \"max_in_flight\" is a key of [limits], not of [log]",
        "f:10: level: \"loud\": expected error, warn, info or debug",
        "f:11: \"[listen\" has no closing bracket",
        "f:13: address: \"127.0.0.1\" has no port",
        "f:14: unknown key \"xyzzy\" in [listen]",
        NULL,
    };
    check_bad("level = info\n"
              "[node]\n"
              "dta = x\n"
              "accept = all\n"
              "nonsense\n"
              "[limit]\n"
              "max_in_flight = 1\n"
              "[log]\n"
              "max_in_flight = 1\n"
              "level = loud\n"
              "[listen\n"
              "[listen]\n"
              "address = 127.0.0.1\n"
              "xyzzy = 1\n",
              expected);
}
END_TEST

START_TEST(config_copies_of_a_peer_go_by_one_route_at_least)
{
    check_one_bad("[peer \"a\"]\nkey = " ID_A "\nstream_copy = never\n", "f:3: stream_copy: \"never\": expected always or standby");
    check_one_bad("[peer \"a\"]\nkey = " ID_A "\nstream_copy = standby\ndatagram_copy = standby\n", "f:1: peer \"a\": both");
    check_one_bad("[peer \"a\"]\nkey = " ID_A "\nuri = twofold://" ID_A "@h:1?stream-copy=standby\n"
                  "datagram_copy = standby\n",
                  "both routes are on standby");
    check_one_bad("[peer \"a\"]\nkey = " ID_A "\nstream-copy = standby\n", "did you mean \"stream_copy\"?");
}
END_TEST

START_TEST(config_numbers_out_of_range_are_told_with_the_range)
{
    check_one_bad("[limits]\nrehandshake = 999ms\n", "expected a duration with its unit (ms, s, m, h or d) from 1s to 30d");
    check_one_bad("[limits]\nmax_in_flight = 0\n", "f:2: max_in_flight: \"0\": expected a number from 1 to 8192");
    check_one_bad("[limits]\nmax_in_flight = 8193\n", "from 1 to 8192");
    check_one_bad("[limits]\nmax_in_flight = 4KiB\n", "expected a number from 1 to 8192");
    check_one_bad("[limits]\nmax_in_flight = -1\n", "expected a number");
    check_one_bad("[limits]\nmax_in_flight =\n", "expected a number");
    check_one_bad("[limits]\nmax_message = 1MB2\n", "from 4KiB to 1MiB");
    check_one_bad("[limits]\nmax_message = 2MiB\n", "from 4KiB to 1MiB");
    check_one_bad("[limits]\nkeepalive = 10\n",
                  "expected a duration with its unit (ms, s, m, h or d) from 100ms to 1h");
    check_one_bad("[limits]\nkeepalive = 99999999999999999999s\n", "from 100ms to 1h");
    check_one_bad("[limits]\nkeepalive = 18446744073709551615ms\n", "from 100ms to 1h");
    tf_config_free(read_good("[limits]\nmax_in_flight = 1\nmax_message = 1MiB\nkeepalive = 100ms\n"));
    tf_config_free(read_good("[limits]\nmax_in_flight = 8192\nmax_message = 4096\nkeepalive = 1h\n"));
}
END_TEST

START_TEST(config_repeated_keys_and_peers_are_errors)
{
    static const char *const peers[] = {"f:3: peer \"a\" is there already, on line 1", NULL};
    check_one_bad("[log]\nlevel = info\nlevel = warn\n", "f:3: level is given twice, first on line 2");
    check_one_bad("[log]\nlevel = info\n[node]\n[log]\nlevel = warn\n", "f:5: level is given twice, first on line 2");
    check_bad("[peer \"a\"]\nkey = " ID_A "\n[peer \"a\"]\nkey = " ID_B "\n", peers);
    check_one_bad("[peer \"a\"]\nkey = " ID_A "\n[peer \"b\"]\nkey = " ID_A "\n",
                  "f:3: peer \"b\" has the key of peer \"a\" on line 1");
}
END_TEST

START_TEST(config_peers_need_a_name_and_their_own_key)
{
    check_one_bad("[peer]\nkey = " ID_A "\n", "f:1: [peer]: expected [peer \"NAME\"]");
    check_one_bad("[peer \"\"]\n", "expected [peer \"NAME\"]");
    check_one_bad("[peer \"a b\"]\n", "expected [peer \"NAME\"]");
    check_one_bad("[peer alice]\n", "expected [peer \"NAME\"]");
    check_one_bad("[peer \"a,b\"]\n", "no blank and no comma");
    check_one_bad("[peer \"any\"]\n", "no peer can be called any");
    check_one_bad("[peer \"an-overlong-name-an-overlong-name-an-overlong-name\"]\n", "expected [peer \"NAME\"]");
    check_one_bad("[peer \"\x1b[31m\"]\n", "f:1: [peer \"?[31m\"]: expected"); /* fit for a terminal */
    check_one_bad("\n[peer \"a\"]\n", "f:2: peer \"a\" has no key: expected key = NODEID");
    check_one_bad("[peer \"a\"]\nuri = twofold://" ID_B "@h:1\n", "expected key = " ID_B);
    check_one_bad("[peer \"a\"]\nkey = " ID_A "\nuri = twofold://" ID_B "@h:1\n", "another node than its key");
    check_one_bad("[peer \"a\"]\nkey = short\n", "f:2: key: \"short\" is no node id");
    check_one_bad("[peer \"a\"]\nkey = " ID_A "\nuri = http://x\n",
                  "f:3: uri: \"http://x\" does not begin with twofold://");
    check_one_bad("[peer \"a\"]\nkey = " ID_A "\nrelay = maybe\n", "relay: \"maybe\": expected yes or no");
    tf_config_free(read_good("[peer \"exactly-forty-characters-may-be-a-name-x\"]\nkey = " ID_A "\n"));
}
END_TEST

START_TEST(config_quotes_around_a_value_are_an_error)
{
    check_one_bad("[node]\ndata = \"/var/lib/x\"\n", "f:2: data: write the value without quotes");
}
END_TEST

/* -- the store ----------------------------------------------------------------------------------------------------- */

START_TEST(config_store_is_read)
{
    static const struct {
        const char *text;
        tf_config_store store;
    } rows[] = {
        {"kind = memory\n", {TF_CONFIG_STORE_MEMORY, TF_LOG_SEGMENT_SIZE, 0}},
        {"kind = disk\nsegment_size = 256KiB\n", {TF_CONFIG_STORE_DISK, 256u << 10, 0}},
        {"segment_size = 64MiB\n", {TF_CONFIG_STORE_DISK, 64u << 20, 0}},
        {"log_size = 64MiB\n", {TF_CONFIG_STORE_DISK, TF_LOG_SEGMENT_SIZE, 64u << 20}},
        {"log_size = 1MiB\nsegment_size = 262144\n", {TF_CONFIG_STORE_DISK, 256u << 10, 1u << 20}},
        {"log_size = 1TiB\n", {TF_CONFIG_STORE_DISK, TF_LOG_SEGMENT_SIZE, (uint64_t)1 << 40}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[200];
        (void)snprintf(text, sizeof(text), "[store]\n%s", rows[i].text);
        tf_config *config = read_good(text);
        ck_assert_int_eq(config->store.kind, rows[i].store.kind);
        ck_assert_uint_eq(config->store.segment_size, rows[i].store.segment_size);
        ck_assert_uint_eq(config->store.log_size, rows[i].store.log_size);
        tf_config_free(config);
    }
}
END_TEST

START_TEST(config_store_out_of_its_bounds_is_told)
{
    check_one_bad("[store]\nkind = ram\n", "f:2: kind: \"ram\": expected disk or memory");
    check_one_bad("[store]\nsegment_size = 262143\n", "f:2: segment_size: \"262143\": expected a size");
    check_one_bad("[store]\nsegment_size = 65MiB\n", "from 256KiB to 64MiB");
    check_one_bad("[store]\nsegment_size = 300000\n",
                  "f:2: segment_size = 300000B (line 2) is no multiple of 4KiB: 292KiB would be one");
    check_one_bad("[store]\nlog_size = 1048575\n", "f:2: log_size: \"1048575\": expected a size");
    check_one_bad("[store]\nlog_size = 1025GiB\n", "from 1MiB to 1TiB");
    check_one_bad("[store]\nlog_size = 32MiB\n",
                  "f:2: log_size = 32MiB (line 2) is less than 4 segments of segment_size = 16MiB (the default): "
                  "log_size is 64MiB at least, or segment_size 8MiB at most");
    check_one_bad("[store]\n\nsegment_size = 1MiB\nlog_size = 4194303\n",
                  "f:4: log_size = 4194303B (line 4) is less than 4 segments of segment_size = 1MiB (line 3): log_size is "
                  "4MiB at least, or segment_size 1020KiB at most");
    check_one_bad("[store]\nsegment_size = 1MiB\nlog_size = 65GiB\n",
                  "f:3: log_size = 65GiB (line 3) is more than 65536 segments of segment_size = 1MiB (line 2): log_size is "
                  "64GiB at most");
    tf_config_free(read_good("[store]\nsegment_size = 1MiB\nlog_size = 64GiB\n"));
    check_one_bad("[store]\nsize = 1\n", "f:2: unknown key \"size\" in [store]");
    check_one_bad("[stor]\n", "did you mean [store]?");
    check_one_bad("[limits]\nrate = 1000000001\n", "from 0 to 1000000000");
    check_one_bad("[limits]\nrate_bytes = 2049MiB\n", "from 0 to 2GiB");
    tf_config_free(read_good("[limits]\nrate = 0\nrate_bytes = 0\n"));
}
END_TEST

/* -- channels ------------------------------------------------------------------------------------------------------ */

START_TEST(config_channels_are_read_in_their_order)
{
    tf_config *config = read_good("[channel \"log/*\"]\n"
                                  "max_age = 7d\n"
                                  "max_bytes = 10GiB\n"
                                  "max_count = 1000000000000000\n"
                                  "dedup_age = 70m\n"
                                  "write = bob\n"
                                  "read = alice,bob\talice\n"
                                  "[peer \"alice\"]\n"
                                  "key = " ID_A "\n"
                                  "[channel \"*\"]\n"
                                  "read = any\n"
                                  "max_count = 1\n"
                                  "[peer \"bob\"]\n"
                                  "key = " ID_B "\n"
                                  "[channel \"a-very.long_name:of~a/channel?that*inih/would-cut-off-at-49-bytes/and-more\"]\n");
    ck_assert_uint_eq(config->channel_count, 3);
    const tf_config_channel *c = config->channels;
    ck_assert_str_eq(c[0].pattern, "log/*");
    ck_assert_str_eq(c[1].pattern, "*");
    ck_assert_str_eq(c[2].pattern, "a-very.long_name:of~a/channel?that*inih/would-cut-off-at-49-bytes/and-more");
    ck_assert_uint_eq(c[0].max_age, 7 * 86400 * TF_SECOND);
    ck_assert_uint_eq(c[0].max_bytes, (uint64_t)10 << 30);
    ck_assert_uint_eq(c[0].max_count, UINT64_C(1000000000000000));
    ck_assert_uint_eq(c[0].dedup_age, 4200 * TF_SECOND);
    ck_assert_uint_eq(c[0].write.count, 1);
    ck_assert_uint_eq(c[0].write.peers[0], 1);
    ck_assert_uint_eq(c[0].read.count, 3);
    ck_assert_uint_eq(c[0].read.peers[0], 0);
    ck_assert_uint_eq(c[0].read.peers[1], 1);
    ck_assert(!c[0].read.any && c[1].read.any);
    ck_assert_uint_eq(c[1].max_age + c[1].max_bytes + c[1].dedup_age, 0);
    ck_assert_ptr_null(c[1].write.text);
    ck_assert(tf_config_has_rights(config));
    tf_config_free(config);
    config = read_good("[channel \"*\"]\nmax_age = 1s\n");
    ck_assert(!tf_config_has_rights(config));
    tf_config_free(config);
}
END_TEST

START_TEST(config_channels_need_a_pattern_of_their_own)
{
    char text[300];
    check_one_bad("[channel]\n", "f:1: [channel]: expected [channel \"PATTERN\"]");
    check_one_bad("[channel \"\"]\n", "expected [channel \"PATTERN\"]");
    check_one_bad("[channel news]\n", "expected [channel \"PATTERN\"]");
    check_one_bad("[channel \"a b\"]\n", "A-Z a-z 0-9 . _ : ~ - / and * (any characters) and ? (one)");
    check_one_bad("[channels \"a\"]\n", "unknown section \"channels ?a?\": did you mean [channel]?");
    check_one_bad("[channel \"a\"]\n[channel \"b\"]\n[channel \"a\"]\n",
                  "f:3: channel \"a\" is there already, on line 1");
    memset(text, 'x', sizeof(text));
    memcpy(text, "[channel \"", 10);
    memcpy(text + 10 + TF_CHANNEL_NAME_MAX, "\"]", 3);
    tf_config_free(read_good(text));
    memcpy(text + 10 + TF_CHANNEL_NAME_MAX, "x\"]", 4);
    check_one_bad(text, "PATTERN having 1 to 128 characters");
    memset(text, '[', sizeof(text)); /* longer than what is kept of a head, and than what inih takes */
    memcpy(text + sizeof(text) - 2, "]", 2);
    check_one_bad(text, "f:1: unknown section \"[[[");
}
END_TEST

START_TEST(config_channels_numbers_have_their_range)
{
    static const struct {
        const char *text;
        const char *expected;
    } rows[] = {
        {"max_age = 999ms", "from 1s to 36500d"},
        {"max_age = 36501d", "from 1s to 36500d"},
        {"max_bytes = 0", "from 1B to 1024TiB"},
        {"max_count = 0", "expected a number from 1 to 1000000000000000"},
        {"max_count = 1000000000000001", "expected a number from 1 to"},
        {"max_count = 1kB", "expected a number from 1 to"},
        {"dedup_age = 59m", "from 1h to 36500d"},
        {"max_coumt = 1", "unknown key \"max_coumt\" in [channel]: did you mean \"max_count\"?"},
        {"max_in_flight = 1", "is a key of [limits], not of [channel]"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[200];
        (void)snprintf(text, sizeof(text), "[channel \"c\"]\n%s\n", rows[i].text);
        check_one_bad(text, rows[i].expected);
    }
    check_one_bad("[channel \"a\"]\nmax_age = 1s\nmax_age = 2s\n", "f:3: max_age is given twice, first on line 2");
    tf_config_free(read_good("[channel \"a\"]\nmax_age = 1s\n[channel \"b\"]\nmax_age = 36500d\nmax_bytes = 1\n"
                             "max_count = 1\n"));
}
END_TEST

START_TEST(config_keys_of_sends_live_longer_than_sessions)
{
    static const char *const two[] = {"f:2: dedup_age = 1h (line 2) is too short", "f:6: dedup_age = 100m (line 6) is", NULL};
    check_one_bad("[channel \"a\"]\ndedup_age = 69m\n",
                  "f:2: dedup_age = 69m (line 2) is too short: with session_timeout = 10m (the default) it is 70m at least");
    check_bad("[channel \"a\"]\ndedup_age = 1h\n[limits]\nsession_timeout = 41m\n[channel \"b\"]\ndedup_age = 100m\n",
              two);
    tf_config_free(read_good("[channel \"a\"]\ndedup_age = 70m\n"));
    tf_config_free(read_good("[channel \"a\"]\ndedup_age = 101m\n[limits]\nsession_timeout = 41m\n"));
}
END_TEST

START_TEST(config_rights_name_peers_that_there_are)
{
    static const char *const expected[] = {"f:4: read: no [peer \"alcie\"]: did you mean \"alice\"?",
                                           "f:5: write: no [peer \"xyz\"]: expected any, or names of [peer] sections", NULL};
    check_bad("[peer \"alice\"]\nkey = " ID_A "\n[channel \"*\"]\nread = alice, alcie\nwrite = xyz\n", expected);
    check_one_bad("[peer \"alice\"]\nkey = " ID_A "\n[channel \"*\"]\nread = any alice\n",
                  "f:4: read: any lets everybody in who is let in at all: it stands alone");
    check_one_bad("[channel \"*\"]\nread =\n", "f:2: read: expected any, or names of [peer] sections");
    check_one_bad("[channel \"*\"]\nwrite = ,\n", "f:2: write: expected any, or names of [peer] sections");
    check_one_bad("[channel \"*\"]\nread = any\nread = any\n", "f:3: read is given twice");
    check_one_bad("[channel \"*\"]\nraed = any\n", "did you mean \"read\"?");
}
END_TEST

/* inih takes 200 bytes at once; a longer line is the same to us. */
START_TEST(config_long_lines_are_read_whole)
{
    char text[6000];
    char path[TF_CONFIG_PATH_MAX];
    for (size_t len = 150; len < 4000; len += len < 620 ? 1 : 257) {
        for (size_t i = 0; i < len; i++) {
            path[i] = "/abc def;gh#"[(i * 7 + i / 12) % 12];
            path[i] = i == 0 || i + 1 == len || (path[i - 1] == ' ' && path[i] == ';') ? '/' : path[i];
        }
        path[len] = '\0';
        (void)snprintf(text, sizeof(text), "[node]\ndata = %s\naccept = any\n", path);
        tf_config *config = read_good(text);
        ck_assert_str_eq(config->data, path);
        ck_assert_int_eq(config->accept, TF_ACCEPT_ANY);
        tf_config_free(config);
    }
    memset(text, 'x', sizeof(text));
    memcpy(text, "[node]\n#", 8);
    text[sizeof(text) - 1] = '\0';
    tf_config_free(read_good(text));
    memcpy(text, "[node]\ndata=", 12);
    check_one_bad(text, "f:2: the line is longer than 5120 bytes");
    text[12 + TF_CONFIG_PATH_MAX] = '\0';
    check_one_bad(text, "f:2: data: expected a path of 1 to 4095 bytes");
    memcpy(text, "[node]\nxxxxx", 12); /* beyond what inih takes at once there is no key */
    memcpy(text + 400, "=1\n", 4);
    check_one_bad(text, "f:2: \"xxxxx");
    memcpy(text + 80, "=1\n", 4);
    check_one_bad(text, "f:2: \"xxxxx");
}
END_TEST

START_TEST(config_more_errors_than_are_told_are_counted)
{
    static const char line[] = "nonsense\n";
    char text[(TF_CONFIG_ERRORS_MAX + 3) * (sizeof(line) - 1) + 1] = "";
    for (size_t at = 0; at + 1 < sizeof(text); at += sizeof(line) - 1) {
        memcpy(text + at, line, sizeof(line));
    }
    tf_config *config = NULL;
    ck_assert_int_eq(tf_config_parse(&config, "f", text, &errors), TF_ERR_USAGE);
    ck_assert_uint_eq(errors.count, TF_CONFIG_ERRORS_MAX);
    ck_assert_uint_eq(errors.more, 3);
}
END_TEST

START_TEST(config_any_bytes_are_read_or_refused)
{
    tf_test_random random;
    static const char alphabet[] = "[]peer\"limitschan*,=: ;#\n\n\n\t\r\\max_\xff\x01" ID_A;
    tf_test_random_init(&random, 5);
    for (int round = 0; round < 3000; round++) {
        char text[700];
        size_t len = (size_t)tf_test_random_below(&random, sizeof(text) - 1);
        for (size_t i = 0; i < len; i++) {
            text[i] = alphabet[tf_test_random_below(&random, sizeof(alphabet) - 1)];
        }
        text[len] = '\0';
        tf_config *config = NULL;
        tf_err err = tf_config_parse(&config, "f", text, &errors);
        ck_assert(err == TF_OK ? config != NULL && errors.count == 0 : err == TF_ERR_USAGE && errors.count > 0);
        tf_config_free(config);
    }
}
END_TEST

START_TEST(config_file_is_read_or_says_why_not)
{
    char path[] = "/tmp/twofold-config-XXXXXX";
    tf_config *config = NULL;
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "\xef\xbb\xbf[log]\nlevel=warn\n", 20), 20);
    ck_assert_int_eq(tf_config_load(&config, path, &errors), TF_OK);
    ck_assert_int_eq(config->log_level, TF_LOG_WARN);
    tf_config_free(config);
    ck_assert_int_eq(write(fd, "\0", 1), 1);
    ck_assert_int_eq(tf_config_load(&config, path, &errors), TF_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(errors.list[0].text, "NUL"));
    ck_assert_int_eq(ftruncate(fd, TF_CONFIG_FILE_MAX + 1), 0);
    ck_assert_int_eq(tf_config_load(&config, path, &errors), TF_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(errors.list[0].text, "1 MiB"));
    close(fd);
    unlink(path);
    ck_assert_int_eq(tf_config_load(&config, path, &errors), TF_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(errors.list[0].text, "No such file"));
    ck_assert_uint_eq(errors.list[0].line, 0);
    ck_assert_int_eq(tf_config_load(&config, "/tmp", &errors), TF_ERR_USAGE);
}
END_TEST

START_TEST(config_allow_adds_a_key_once)
{
    tf_config *config = read_good("[peer \"a\"]\nkey = " ID_A "\nrelay = yes\n");
    tf_node_id a;
    tf_node_id b;
    ck_assert_int_eq(tf_node_id_parse(&a, tf_slice_str(ID_A)), TF_OK);
    ck_assert_int_eq(tf_node_id_parse(&b, tf_slice_str(ID_B)), TF_OK);
    ck_assert_ptr_null(tf_config_find_peer(config, &b));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(tf_config_allow(config, &a), TF_OK);
        ck_assert_int_eq(tf_config_allow(config, &b), TF_OK);
    }
    ck_assert_uint_eq(config->peer_count, 2);
    ck_assert(tf_config_find_peer(config, &a)->relay);
    ck_assert_str_eq(tf_config_find_peer(config, &b)->name, "");
    tf_config_free(config);
}
END_TEST

START_TEST(config_durations_and_sizes_have_units)
{
    static const struct {
        const char *text;
        tf_time duration; /* TF_NEVER: none */
        uint64_t size;    /* UINT64_MAX: none */
    } rows[] = {
        {"0ms", 0, UINT64_MAX},
        {"1s", TF_SECOND, UINT64_MAX},
        {"90 s", 90 * TF_SECOND, UINT64_MAX},
        {"2m", 120 * TF_SECOND, UINT64_MAX},
        {"3h", 3 * 3600 * TF_SECOND, UINT64_MAX},
        {"7d", 7 * 86400 * TF_SECOND, UINT64_MAX},
        {"0", TF_NEVER, 0},
        {"12B", TF_NEVER, 12},
        {"1kB", TF_NEVER, 1000},
        {"1KiB", TF_NEVER, 1024},
        {"3MiB", TF_NEVER, 3u << 20},
        {"3MB", TF_NEVER, 3000000},
        {"1GiB", TF_NEVER, 1u << 30},
        {"1TiB", TF_NEVER, (uint64_t)1 << 40},
        {"18446744073709551614", TF_NEVER, UINT64_MAX - 1},
        {"18446744073709551616", TF_NEVER, UINT64_MAX},
        {"18446744073709551615KiB", TF_NEVER, UINT64_MAX},
        {"213503983d", TF_NEVER, UINT64_MAX},
        {"", TF_NEVER, UINT64_MAX},
        {"s", TF_NEVER, UINT64_MAX},
        {"-1s", TF_NEVER, UINT64_MAX},
        {"1.5s", TF_NEVER, UINT64_MAX},
        {"1 day", TF_NEVER, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_time duration = TF_NEVER;
        uint64_t size = UINT64_MAX;
        tf_err err = tf_duration_parse(&duration, tf_slice_str(rows[i].text));
        ck_assert_int_eq(err, rows[i].duration == TF_NEVER ? TF_ERR_USAGE : TF_OK);
        ck_assert_uint_eq(duration, rows[i].duration);
        err = tf_size_parse(&size, tf_slice_str(rows[i].text));
        ck_assert_int_eq(err, rows[i].size == UINT64_MAX ? TF_ERR_USAGE : TF_OK);
        ck_assert_uint_eq(size, rows[i].size);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {config_empty_file_is_the_defaults,
                                  config_every_key_is_read,
                                  config_every_error_is_told_with_its_line,
                                  config_copies_of_a_peer_go_by_one_route_at_least,
                                  config_numbers_out_of_range_are_told_with_the_range,
                                  config_repeated_keys_and_peers_are_errors,
                                  config_peers_need_a_name_and_their_own_key,
                                  config_quotes_around_a_value_are_an_error,
                                  config_store_is_read,
                                  config_store_out_of_its_bounds_is_told,
                                  config_channels_are_read_in_their_order,
                                  config_channels_need_a_pattern_of_their_own,
                                  config_channels_numbers_have_their_range,
                                  config_keys_of_sends_live_longer_than_sessions,
                                  config_rights_name_peers_that_there_are,
                                  config_long_lines_are_read_whole,
                                  config_more_errors_than_are_told_are_counted,
                                  config_any_bytes_are_read_or_refused,
                                  config_file_is_read_or_says_why_not,
                                  config_allow_adds_a_key_once,
                                  config_durations_and_sizes_have_units,
                                  NULL};
    return tf_test_run("node/config", tests);
}
