/* Addresses as text and as sockaddr, and what sockets are bound to. */
#include <errno.h>
#include <unistd.h>

#include "paths/address.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

static tf_address literal(const char *text, uint16_t port)
{
    tf_address address;
    ck_assert_int_eq(tf_address_parse(&address, tf_slice_str(text), port), TF_OK);
    return address;
}

START_TEST(address_literals_are_read_and_printed)
{
    static const struct {
        const char *text;
        const char *printed;
    } rows[] = {
        {"127.0.0.1", "127.0.0.1:7420"},
        {"255.255.255.255", "255.255.255.255:7420"},
        {"::", "[::]:7420"},
        {"2001:DB8:0:0:0:0:0:1", "[2001:db8::1]:7420"},
        {"::ffff:192.0.2.1", "192.0.2.1:7420"},
        {"fe80::1%lo", "[fe80::1%lo]:7420"},
        {"fe80::1%99999", "[fe80::1%99999]:7420"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[TF_ADDRESS_TEXT_MAX];
        tf_address address = literal(rows[i].text, 7420);
        ck_assert_str_eq(tf_address_format(&address, text), rows[i].printed);
        ck_assert_uint_eq(tf_address_port(&address), 7420);
    }
}
END_TEST

START_TEST(address_anything_else_is_refused)
{
    static const char *const rows[] = {"",
                                       "localhost",
                                       "127.0.0",
                                       "127.0.0.1.1",
                                       "127.1",
                                       "256.0.0.1",
                                       "[::1]",
                                       "::1%no-such-if",
                                       ":::",
                                       "1:2:3:4:5:6:7:8:9",
                                       " ::1",
                                       "::1%",
                                       "fe80::1%1234567890",
                                       "0x7f.1",
                                       "127.0.0.1 ",
                                       "fe80::1%1x"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_address address = literal("192.0.2.7", 1);
        ck_assert_msg(tf_address_parse(&address, tf_slice_str(rows[i]), 5) == TF_ERR_USAGE, "%s", rows[i]);
        ck_assert_uint_eq(tf_address_port(&address), 1);
    }
    tf_address address;
    ck_assert_int_eq(tf_address_parse(&address, tf_slice_of("::1\0x", 5), 5), TF_ERR_USAGE);
}
END_TEST

START_TEST(address_of_another_family_or_cut_short_is_refused)
{
    const struct sockaddr local = {.sa_family = AF_UNIX};
    const struct sockaddr_in v4 = {.sin_family = AF_INET};
    tf_address address;
    ck_assert_int_eq(tf_address_from_sockaddr(&address, &local, sizeof(local)), TF_ERR_USAGE);
    ck_assert_int_eq(tf_address_from_sockaddr(&address, (const struct sockaddr *)&v4, sizeof(v4) - 1), TF_ERR_USAGE);
    ck_assert_int_eq(tf_address_from_sockaddr(&address, (const struct sockaddr *)&v4, 0), TF_ERR_USAGE);
}
END_TEST

START_TEST(address_equality_looks_at_host_scope_and_port)
{
    const tf_address none = {.len = 0};
    const tf_address list[] = {literal("192.0.2.1", 1),
                               literal("192.0.2.1", 2),
                               literal("192.0.2.2", 1),
                               literal("::1", 1),
                               literal("fe80::1%lo", 1),
                               literal("fe80::1%77", 1),
                               none};
    size_t n = sizeof(list) / sizeof(list[0]);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            ck_assert_int_eq(tf_address_eq(&list[i], &list[j]), i == j);
        }
    }
    ck_assert(tf_address_same_host(&list[0], &list[1]));
    ck_assert(!tf_address_same_host(&list[0], &list[2]));
    ck_assert(!tf_address_same_host(&list[0], &none));
}
END_TEST

START_TEST(address_kinds_are_told_apart)
{
    static const struct {
        const char *text;
        bool loopback, any;
    } rows[] = {{"127.0.0.1", true, false},   {"127.9.9.9", true, false}, {"128.0.0.1", false, false},
                {"0.0.0.0", false, true},     {"::1", true, false},       {"::", false, true},
                {"2001:db8::1", false, false}};
    const tf_address none = {.len = 0};
    char text[TF_ADDRESS_TEXT_MAX];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_address address = literal(rows[i].text, 0);
        ck_assert_int_eq(tf_address_is_loopback(&address), rows[i].loopback);
        ck_assert_int_eq(tf_address_is_any(&address), rows[i].any);
        tf_address_set_port(&address, 9);
        ck_assert_uint_eq(tf_address_port(&address), 9);
    }
    ck_assert(!tf_address_is_set(&none) && !tf_address_is_loopback(&none) && !tf_address_is_any(&none));
    ck_assert_uint_eq(tf_address_port(&none), 0);
    ck_assert_str_eq(tf_address_format(&none, text), "-");
}
END_TEST

START_TEST(address_families_take_turns_and_keep_their_order)
{
    static const struct {
        const char *in; /* one letter an address: its family, small IPv4 and large IPv6 */
        const char *out;
    } rows[] = {{"", ""},         {"a", "a"},       {"A", "A"},           {"abc", "abc"},       {"ABCabc", "AaBbCc"},
                {"abA", "aAb"},   {"aAB", "aAB"},   {"AabcdB", "AaBbcd"}, {"aAbBcC", "aAbBcC"}, {"ABCDa", "AaBCD"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_address in[8];
        tf_address out[8];
        char got[9] = "";
        size_t count = strlen(rows[i].in);
        for (size_t k = 0; k < count; k++) {
            const char *host = rows[i].in[k] >= 'a' ? "192.0.2.1" : "2001:db8::1";
            ck_assert_int_eq(tf_address_parse(&in[k], tf_slice_str(host), (uint16_t)rows[i].in[k]), TF_OK);
        }
        tf_address_interleave(out, in, count);
        for (size_t k = 0; k < count; k++) {
            got[k] = (char)tf_address_port(&out[k]);
        }
        ck_assert_str_eq(got, rows[i].out);
    }
}
END_TEST

START_TEST(bind_text_is_an_address_or_an_interface)
{
    tf_bind bind;
    ck_assert_int_eq(tf_bind_parse(&bind, tf_slice_str("")), TF_OK);
    ck_assert(!tf_address_is_set(&bind.address) && bind.interface[0] == '\0');
    ck_assert_int_eq(tf_bind_parse(&bind, tf_slice_str("[::1]")), TF_OK);
    ck_assert(tf_address_is_loopback(&bind.address) && bind.interface[0] == '\0');
    ck_assert_int_eq(tf_bind_parse(&bind, tf_slice_str("lo")), TF_OK);
    ck_assert(!tf_address_is_set(&bind.address));
    ck_assert_str_eq(bind.interface, "lo");
    ck_assert_int_eq(tf_bind_parse(&bind, tf_slice_str("no-such-if")), TF_ERR_USAGE);
    ck_assert_int_eq(tf_bind_parse(&bind, tf_slice_str("an-overlong-interface")), TF_ERR_USAGE);
    ck_assert_int_eq(tf_bind_parse(&bind, tf_slice_of("lo\0x", 4)), TF_ERR_USAGE);
}
END_TEST

static int apply(const char *text, int family)
{
    tf_bind bind;
    ck_assert_int_eq(tf_bind_parse(&bind, tf_slice_str(text)), TF_OK);
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int error = tf_bind_apply(&bind, fd, family);
    close(fd);
    return error;
}

START_TEST(bind_applies_to_sockets_of_its_family)
{
    ck_assert_int_eq(apply("", AF_INET), 0);
    ck_assert_int_eq(apply("127.0.0.4", AF_INET), 0);
    ck_assert_int_eq(apply("lo", AF_INET), 0);
    ck_assert_int_eq(apply("::1", AF_INET), EADDRNOTAVAIL);
    ck_assert_int_eq(apply("127.0.0.4", AF_INET6), EADDRNOTAVAIL);
    ck_assert_int_eq(apply("192.0.2.200", AF_INET), EADDRNOTAVAIL); /* not of this machine */
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {address_literals_are_read_and_printed,
                                  address_anything_else_is_refused,
                                  address_of_another_family_or_cut_short_is_refused,
                                  address_equality_looks_at_host_scope_and_port,
                                  address_kinds_are_told_apart,
                                  address_families_take_turns_and_keep_their_order,
                                  bind_text_is_an_address_or_an_interface,
                                  bind_applies_to_sockets_of_its_family,
                                  NULL};
    return tf_test_run("paths/address", tests);
}
