/* Patterns of channel names. */
#include "node/pattern.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

START_TEST(pattern_matches_as_the_table_says)
{
    static const struct {
        const char *pattern;
        const char *name;
        bool matches;
    } rows[] = {
        {"a", "a", true},          {"a", "b", false},           {"a", "aa", false},         {"aa", "a", false},
        {"*", "", true},           {"*", "a/b.c", true},        {"?", "", false},           {"?", "a", true},
        {"?", "ab", false},        {"a*", "a", true},           {"a*", "ab", true},         {"a*", "ba", false},
        {"*a", "a", true},         {"*a", "aba", true},         {"*a", "ab", false},        {"a*b", "ab", true},
        {"a*b", "a/x/b", true},    {"a*b", "abc", false},       {"a*b*c", "abbcbc", true},  {"a*b*c", "acb", false},
        {"a?c", "a/c", true},      {"a?c", "ac", false},        {"**", "abc", true},        {"*?*", "", false},
        {"*?*", "a", true},        {"log/*", "log", false},     {"log/*", "log/", true},    {"log/*", "log/x/y", true},
        {"*.log", "a.log", true},  {"*.log", "a.log.b", false}, {"A", "a", false},          {"*ab", "aab", true},
        {"*aab*", "aaab", true},   {"??*", "a", false},         {"??*", "ab", true},        {"*a*a*a", "aa", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(tf_pattern_matches(tf_slice_str(rows[i].pattern), tf_slice_str(rows[i].name)) == rows[i].matches,
                      "%s and %s", rows[i].pattern, rows[i].name);
    }
}
END_TEST

/* The definition, byte by byte: reach[j]: what was read of the pattern stands for the first j bytes of the name. */
static bool model(tf_slice pattern, tf_slice name)
{
    bool reach[TF_CHANNEL_NAME_MAX + 1] = {true};
    for (size_t i = 0; i < pattern.len; i++) {
        bool next[TF_CHANNEL_NAME_MAX + 1] = {false};
        for (size_t j = 0; j <= name.len; j++) {
            if (pattern.data[i] == '*') {
                next[j] = reach[j] || (j > 0 && next[j - 1]);
            } else {
                next[j] = j > 0 && reach[j - 1] && (pattern.data[i] == '?' || pattern.data[i] == name.data[j - 1]);
            }
        }
        memcpy(reach, next, sizeof(reach));
    }
    return reach[name.len];
}

START_TEST(pattern_agrees_with_its_definition)
{
    tf_test_random random;
    size_t matches = 0;
    tf_test_random_init(&random, 11);
    for (int round = 0; round < 20000; round++) {
        uint8_t pattern[8];
        uint8_t name[10];
        size_t pattern_len = (size_t)tf_test_random_below(&random, sizeof(pattern) + 1);
        size_t name_len = (size_t)tf_test_random_below(&random, sizeof(name) + 1);
        for (size_t i = 0; i < pattern_len; i++) {
            pattern[i] = (uint8_t) "ab*?"[tf_test_random_below(&random, 4)];
        }
        for (size_t i = 0; i < name_len; i++) {
            name[i] = (uint8_t) "ab"[tf_test_random_below(&random, 2)];
        }
        bool expected = model(tf_slice_of(pattern, pattern_len), tf_slice_of(name, name_len));
        ck_assert_msg(
            tf_pattern_matches(tf_slice_of(pattern, pattern_len), tf_slice_of(name, name_len)) == expected,
            "%.*s and %.*s", (int)pattern_len, (const char *)pattern, (int)name_len, (const char *)name);
        matches += expected ? 1u : 0u;
    }
    ck_assert_uint_gt(matches, 1000);
}
END_TEST

START_TEST(pattern_outside_the_alphabet_or_length_is_invalid)
{
    static const char *const good[] = {"a", "*", "?", "a-b_c.d:e~f/G0*?"};
    static const char *const bad[] = {"", " ", "a b", "a\"", "[a]", "a,b", "\xc3\xa4", "a\n"};
    uint8_t text[TF_CHANNEL_NAME_MAX + 1];
    memset(text, '*', sizeof(text));
    ck_assert(tf_pattern_is_valid(tf_slice_of(text, TF_CHANNEL_NAME_MAX)));
    ck_assert(!tf_pattern_is_valid(tf_slice_of(text, sizeof(text))));
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ck_assert_msg(tf_pattern_is_valid(tf_slice_str(good[i])), "%s", good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(!tf_pattern_is_valid(tf_slice_str(bad[i])), "%s", bad[i]);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {pattern_matches_as_the_table_says, pattern_agrees_with_its_definition,
                                  pattern_outside_the_alphabet_or_length_is_invalid, NULL};
    return tf_test_run("node/pattern", tests);
}
