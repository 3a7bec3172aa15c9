/* The log: one line an event, escaped, limited, summed up. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/log.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

static tf_time now;
static tf_log *log_;
static int pipe_[2];
static char out[1u << 16];

static tf_time get_now(void)
{
    return now;
}

static int64_t get_wall_ms(void)
{
    return 1767323045678; /* 2026-01-02T03:04:05.678Z */
}

static void set_up(tf_log_format format)
{
    now = 1000;
    ck_assert_int_eq(pipe2(pipe_, O_NONBLOCK), 0);
    const tf_log_config config = {.level = TF_LOG_INFO,
                                  .format = format,
                                  .fd = pipe_[1],
                                  .now = get_now,
                                  .wall_ms = get_wall_ms,
                                  .mem = tf_test_mem()};
    ck_assert_int_eq(tf_log_new(&log_, &config), TF_OK);
}

static void tear_down(void)
{
    tf_log_free(log_);
    close(pipe_[0]);
    close(pipe_[1]);
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}

static const char *written(void)
{
    ssize_t got = read(pipe_[0], out, sizeof(out) - 1);
    out[got > 0 ? got : 0] = '\0';
    return out;
}

static unsigned lines_of(const char *text)
{
    unsigned n = 0;
    for (; *text != '\0'; text++) {
        n += *text == '\n';
    }
    return n;
}

#define HEAD "time=2026-01-02T03:04:05.678Z level=info event="

START_TEST(log_line_is_logfmt_with_typed_fields)
{
    tf_log_peer peer = {.name = "alice"};
    tf_address address;
    set_up(TF_LOG_LOGFMT);
    ck_assert_int_eq(tf_address_parse(&address, tf_slice_str("::1"), 5), TF_OK);
    TF_LOG(log_, TF_LOG_INFO, "route_up", &peer, tf_log_str("route", "stream"), tf_log_uint("srtt_us", 812),
           tf_log_int("delta", -3), tf_log_bool("first", true), tf_log_address("address", &address),
           tf_log_node("node", &peer.id));
    ck_assert_str_eq(written(), HEAD "route_up peer=alice:aaaaaaaa route=stream srtt_us=812 delta=-3 first=true "
                                     "address=[::1]:5 node=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n");
    peer.name = NULL;
    tf_log_event(log_, TF_LOG_INFO, "route_down", &peer);
    ck_assert_str_eq(written(), HEAD "route_down peer=aaaaaaaa\n");
    tf_log_event(log_, TF_LOG_INFO, "ready", NULL);
    ck_assert_str_eq(written(), HEAD "ready\n");
    tear_down();
}
END_TEST

START_TEST(log_json_line_is_one_object)
{
    set_up(TF_LOG_JSON);
    TF_LOG(log_, TF_LOG_WARN, "refused", NULL, tf_log_str("text", "a \"b\"\n"), tf_log_uint("n", 1),
           tf_log_bool("b", false));
    ck_assert_str_eq(written(), "{\"time\":\"2026-01-02T03:04:05.678Z\",\"level\":\"warn\",\"event\":\"refused\","
                                "\"text\":\"a \\\"b\\\"\\n\",\"n\":1,\"b\":false}\n");
    tear_down();
}
END_TEST

START_TEST(log_values_are_quoted_and_escaped_when_needed)
{
    static const struct {
        const char *value;
        const char *text;
    } rows[] = {
        {"plain-1.0:/x", "plain-1.0:/x"},
        {"", "\"\""},
        {"two words", "\"two words\""},
        {"a=b", "\"a=b\""},
        {"say \"x\"", "\"say \\\"x\\\"\""},
        {"back\\slash", "\"back\\\\slash\""},
        {"line\nevent=forged", "\"line\\nevent=forged\""},
        {"\r\t", "\"\\r\\t\""},
        {"\x1b[31m", "\"\\u001b[31m\""},
        {"\x7f", "\"\\u007f\""},
        {"gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\""},
        {"\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\""},
        {"bad\xff", "\"bad\xef\xbf\xbd\""},
        {"cut\xc3", "\"cut\xef\xbf\xbd\""},
        {"\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\""},                 /* overlong */
        {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}, /* a surrogate */
        {"\xc2\x9b", "\"\xef\xbf\xbd\xef\xbf\xbd\""},                 /* a C1 control: it moves terminals, too */
    };
    char expected[256];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        set_up(TF_LOG_LOGFMT);
        TF_LOG(log_, TF_LOG_INFO, "e", NULL, tf_log_str("v", rows[i].value));
        (void)snprintf(expected, sizeof(expected), HEAD "e v=%s\n", rows[i].text);
        ck_assert_str_eq(written(), expected);
        tear_down();
    }
}
END_TEST

START_TEST(log_long_values_are_cut_and_lines_bounded)
{
    char big[5000];
    memset(big, 'z', sizeof(big));
    for (int format = TF_LOG_LOGFMT; format <= TF_LOG_JSON; format++) {
        set_up((tf_log_format)format);
        TF_LOG(log_, TF_LOG_INFO, "e", NULL, tf_log_bytes("a", tf_slice_of(big, TF_LOG_VALUE_MAX)),
               tf_log_bytes("b", tf_slice_of(big, TF_LOG_VALUE_MAX + 1)), tf_log_bytes("c", tf_slice_of(big, 5000)),
               tf_log_bytes("d", tf_slice_of(big, 5000)), tf_log_uint("last", 5));
        const char *text = written();
        size_t len = strlen(text);
        ck_assert_uint_le(len, TF_LOG_LINE_MAX);
        ck_assert_uint_eq(lines_of(text), 1);
        ck_assert_ptr_nonnull(strstr(text, "zzz..."));
        ck_assert_ptr_null(strstr(text, format == TF_LOG_JSON ? "\"d\":" : " d=")); /* left out whole */
        ck_assert_ptr_nonnull(strstr(text, format == TF_LOG_JSON ? "\"last\":5}\n" : " last=5\n"));
        tear_down();
    }
}
END_TEST

START_TEST(log_lower_levels_are_left_out)
{
    set_up(TF_LOG_LOGFMT);
    tf_log_event(log_, TF_LOG_DEBUG, "e", NULL);
    ck_assert_str_eq(written(), "");
    tf_log_set(log_, TF_LOG_DEBUG, TF_LOG_LOGFMT);
    tf_log_event(log_, TF_LOG_DEBUG, "e", NULL);
    ck_assert_uint_eq(lines_of(written()), 1);
    tf_log_event(NULL, TF_LOG_ERROR, "e", NULL); /* no log is fine */
    ck_assert_uint_eq(tf_log_deadline(NULL), TF_NEVER);
    tear_down();
}
END_TEST

START_TEST(log_more_than_the_burst_is_counted_and_summed_up)
{
    tf_log_peer a = {.name = "a"};
    tf_log_peer b = {.name = "b", .id = {{1}}};
    set_up(TF_LOG_LOGFMT);
    ck_assert_uint_eq(tf_log_deadline(log_), TF_NEVER);
    for (unsigned i = 0; i < TF_LOG_BURST + 7; i++) {
        tf_log_event(log_, TF_LOG_INFO, "noise", &a);
    }
    tf_log_event(log_, TF_LOG_INFO, "noise", &b); /* another peer, another event: limits of their own */
    tf_log_event(log_, TF_LOG_INFO, "other", &a);
    tf_log_event(log_, TF_LOG_INFO, "noise", NULL);
    ck_assert_uint_eq(lines_of(written()), TF_LOG_BURST + 3);
    ck_assert_uint_eq(tf_log_deadline(log_), now + TF_LOG_SUMMARY);
    tf_log_tick(log_, now + TF_LOG_SUMMARY - 1);
    ck_assert_str_eq(written(), "");
    now += TF_LOG_SUMMARY;
    tf_log_tick(log_, now);
    ck_assert_str_eq(written(), HEAD "noise peer=aaaaaaaa suppressed=7\n");
    tf_log_event(log_, TF_LOG_INFO, "noise", &a); /* it begins anew */
    ck_assert_uint_eq(lines_of(written()), 1);
    now = tf_log_deadline(log_);
    tf_log_tick(log_, now);
    ck_assert_str_eq(written(), "");
    ck_assert_uint_eq(tf_log_deadline(log_), TF_NEVER); /* and falls silent */
    tear_down();
}
END_TEST

START_TEST(log_free_writes_the_summaries_that_are_left)
{
    set_up(TF_LOG_LOGFMT);
    for (unsigned i = 0; i < TF_LOG_BURST + 2; i++) {
        tf_log_event(log_, TF_LOG_INFO, "noise", NULL);
    }
    (void)written();
    tf_log_free(log_);
    log_ = NULL;
    ck_assert_str_eq(written(), HEAD "noise suppressed=2\n");
    tear_down();
}
END_TEST

START_TEST(log_many_keys_do_not_get_around_the_limit)
{
    set_up(TF_LOG_LOGFMT);
    unsigned lines = 0;
    for (unsigned i = 0; i < 20000; i++) {
        tf_log_peer peer = {.name = ""};
        memcpy(peer.id.bytes, &i, sizeof(i));
        tf_log_event(log_, TF_LOG_INFO, "refused", &peer);
        lines += lines_of(written());
    }
    ck_assert_uint_le(lines, TF_LOG_BUCKETS + TF_LOG_BURST);
    tf_log_event(log_, TF_LOG_INFO, "other", NULL); /* other events are not hurt */
    ck_assert_uint_eq(lines_of(written()), 1);
    tf_log_free(log_);
    log_ = NULL;
    ck_assert_ptr_nonnull(strstr(written(), "event=refused suppressed="));
    tear_down();
}
END_TEST

START_TEST(log_priorities_stand_before_the_line)
{
    set_up(TF_LOG_LOGFMT);
    const tf_log_config config = {.level = TF_LOG_DEBUG,
                                  .format = TF_LOG_JSON,
                                  .fd = pipe_[1],
                                  .priorities = true,
                                  .now = get_now,
                                  .wall_ms = get_wall_ms,
                                  .mem = tf_test_mem()};
    tf_log_free(log_);
    ck_assert_int_eq(tf_log_new(&log_, &config), TF_OK);
    tf_log_event(log_, TF_LOG_ERROR, "e", NULL);
    ck_assert_int_eq(strncmp(written(), "<3>{\"time\":", 11), 0);
    tf_log_set(log_, TF_LOG_DEBUG, TF_LOG_LOGFMT);
    tf_log_event(log_, TF_LOG_DEBUG, "e", NULL);
    ck_assert_int_eq(strncmp(written(), "<7>time=", 8), 0);
    tear_down();
}
END_TEST

START_TEST(log_journal_is_known_by_its_stream)
{
    char stream[64];
    struct stat status;
    set_up(TF_LOG_LOGFMT);
    ck_assert_int_eq(fstat(pipe_[1], &status), 0);
    (void)snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
    ck_assert_int_eq(setenv("JOURNAL_STREAM", stream, 1), 0);
    ck_assert(tf_log_is_journal(pipe_[1]));
    ck_assert(!tf_log_is_journal(0));
    ck_assert_int_eq(setenv("JOURNAL_STREAM", "x", 1), 0);
    ck_assert(!tf_log_is_journal(pipe_[1]));
    ck_assert_int_eq(unsetenv("JOURNAL_STREAM"), 0);
    ck_assert(!tf_log_is_journal(pipe_[1]));
    tear_down();
}
END_TEST

START_TEST(log_names_of_levels_and_formats_are_read_back)
{
    tf_log_level level = TF_LOG_ERROR;
    tf_log_format format = TF_LOG_JSON;
    ck_assert_int_eq(tf_log_level_parse(&level, tf_slice_str("debug")), TF_OK);
    ck_assert_str_eq(tf_log_level_name(level), "debug");
    ck_assert_int_eq(tf_log_level_parse(&level, tf_slice_str("Debug")), TF_ERR_USAGE);
    ck_assert_int_eq(tf_log_format_parse(&format, tf_slice_str("logfmt")), TF_OK);
    ck_assert_str_eq(tf_log_format_name(format), "logfmt");
    ck_assert_int_eq(tf_log_format_parse(&format, tf_slice_str("")), TF_ERR_USAGE);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {log_line_is_logfmt_with_typed_fields,
                                  log_json_line_is_one_object,
                                  log_values_are_quoted_and_escaped_when_needed,
                                  log_long_values_are_cut_and_lines_bounded,
                                  log_lower_levels_are_left_out,
                                  log_more_than_the_burst_is_counted_and_summed_up,
                                  log_free_writes_the_summaries_that_are_left,
                                  log_many_keys_do_not_get_around_the_limit,
                                  log_priorities_stand_before_the_line,
                                  log_journal_is_known_by_its_stream,
                                  log_names_of_levels_and_formats_are_read_back,
                                  NULL};
    return tf_test_run("node/log", tests);
}
