/* HOST:PORT and twofold:// as people write them. */
#include <stdio.h>

#include "handshake/node_id.h"
#include "node/uri.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define ID "baaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define AT "twofold://" ID "@"

static char why[TF_WHY_MAX];

START_TEST(endpoint_good_texts_are_read_and_printed)
{
    static const struct {
        const char *text;
        const char *host;
        unsigned port;
    } rows[] = {
        {"relay.example:7420", "relay.example", 7420},
        {"localhost:1", "localhost", 1},
        {"a_b-c.d.:65535", "a_b-c.d.", 65535},
        {"192.0.2.1:80", "192.0.2.1", 80},
        {"[::1]:7420", "::1", 7420},
        {"[2001:db8::5]:443", "2001:db8::5", 443},
        {"[::]:0", "::", 0},
        {"0.0.0.0:0", "0.0.0.0", 0},
        {"[fe80::1%lo]:5", "fe80::1%lo", 5},
        {"3com.example:9", "3com.example", 9},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_endpoint endpoint;
        char text[TF_ENDPOINT_TEXT_MAX];
        tf_err err = tf_endpoint_parse(&endpoint, tf_slice_str(rows[i].text), true, why);
        ck_assert_msg(err == TF_OK, "%s: %s", rows[i].text, why);
        ck_assert_str_eq(endpoint.host, rows[i].host);
        ck_assert_uint_eq(endpoint.port, rows[i].port);
        ck_assert_str_eq(tf_endpoint_format(&endpoint, text), rows[i].text);
    }
}
END_TEST

START_TEST(endpoint_bad_texts_say_what_is_wrong)
{
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        {"", "the address is empty: expected HOST:PORT"},
        {"relay.example", "\"relay.example\" has no port"},
        {"[::1]", "\"[::1]\" has no port"},
        {"[::1]7420", "has no port"},
        {"[::1:7420", "has no closing bracket"},
        {"::1:7420", "write an IPv6 address in brackets"},
        {":7420", "the host is missing"},
        {"[]:7420", "the host is missing"},
        {"[192.0.2.1]:7420", "in brackets is not an IPv6 address"},
        {"[relay.example]:7420", "in brackets is not an IPv6 address"},
        {"[fe80::1%no-such-if]:7420", "in brackets is not an IPv6 address"},
        {"300.0.0.1:7420", "is not an IPv4 address"},
        {"1.2.3:7420", "is not an IPv4 address"},
        {"h:", "the port is \"\": expected a number from 1 to 65535"},
        {"h:0", "the port is \"0\""},
        {"h:65536", "the port is \"65536\""},
        {"h:+1", "the port is \"+1\""},
        {"h:7420x", "the port is \"7420x\""},
        {"h:074200000", "the port is"},
        {"a b:1", "is not the name of a host"},
        {"a..b:1", "is not the name of a host"},
        {".b:1", "is not the name of a host"},
        {"a/b:1", "is not the name of a host"},
        {"a\x1b[2J:1", "\"a?[2J\" is not the name of a host"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:1", "is not the name of a host"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_endpoint endpoint = {"untouched", 7};
        ck_assert_int_eq(tf_endpoint_parse(&endpoint, tf_slice_str(rows[i].text), false, why), TF_ERR_USAGE);
        ck_assert_msg(strstr(why, rows[i].says) != NULL, "%s: does not say: %s", why, rows[i].says);
        ck_assert_str_eq(endpoint.host, "untouched");
        ck_assert_int_eq(tf_endpoint_parse(&endpoint, tf_slice_str(rows[i].text), false, NULL), TF_ERR_USAGE);
    }
}
END_TEST

START_TEST(endpoint_literals_are_addresses_and_names_are_not)
{
    tf_endpoint endpoint;
    tf_endpoint again;
    tf_address address;
    ck_assert_int_eq(tf_endpoint_parse(&endpoint, tf_slice_str("[::1]:5"), false, why), TF_OK);
    ck_assert_int_eq(tf_endpoint_literal(&endpoint, &address), TF_OK);
    ck_assert_uint_eq(tf_address_port(&address), 5);
    tf_endpoint_from_address(&again, &address);
    ck_assert(tf_endpoint_eq(&endpoint, &again));
    ck_assert_int_eq(tf_endpoint_parse(&endpoint, tf_slice_str("h:5"), false, why), TF_OK);
    ck_assert_int_eq(tf_endpoint_literal(&endpoint, &address), TF_ERR_USAGE);
    ck_assert(!tf_endpoint_eq(&endpoint, &again));
}
END_TEST

START_TEST(uri_good_texts_are_read_and_printed_the_shortest_way)
{
    static const struct {
        const char *text;
        const char *printed; /* NULL: as text */
    } rows[] = {
        {AT "relay.example:7420", NULL},
        {AT "[2001:db8::1]:7420", NULL},
        {AT "h:1/", AT "h:1"},
        {AT "h:1?datagram=h:1", AT "h:1"},
        {AT "h:1?datagram=h:2", NULL},
        {AT "h:1?datagram=[::1]:1", NULL},
        {AT "h:1?stream-bind=192.0.2.9", NULL},
        {AT "h:1?datagram-bind=wlan0", NULL},
        {AT "h:1?datagram=i:1&stream-bind=eth0&datagram-bind=[::1]", NULL},
        {AT "h:1?stream-copy=standby", NULL},
        {AT "h:1?datagram-copy=standby&stream-copy=always", AT "h:1?datagram-copy=standby"},
        {AT "h:1?stream-copy=always&datagram-copy=always", AT "h:1"},
        {AT "h:1?datagram-copy=standby&datagram=h:2", AT "h:1?datagram=h:2&datagram-copy=standby"},
        {AT "h:1?datagram-bind=wlan0&stream-bind=eth0", AT "h:1?stream-bind=eth0&datagram-bind=wlan0"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_uri uri;
        char text[TF_URI_TEXT_MAX];
        tf_err err = tf_uri_parse(&uri, rows[i].text, why);
        ck_assert_msg(err == TF_OK, "%s: %s", rows[i].text, why);
        ck_assert_str_eq(tf_uri_format(&uri, text), rows[i].printed != NULL ? rows[i].printed : rows[i].text);
    }
}
END_TEST

START_TEST(uri_parts_are_told_apart)
{
    tf_uri uri;
    tf_node_id id;
    ck_assert_int_eq(tf_node_id_parse(&id, tf_slice_str(ID)), TF_OK);
    ck_assert_int_eq(tf_uri_parse(&uri, AT "h:1?datagram=[::2]:3&datagram-bind=lo&stream-bind=127.0.0.1", why), TF_OK);
    ck_assert(tf_node_id_eq(&uri.node, &id));
    ck_assert_str_eq(uri.stream.host, "h");
    ck_assert_str_eq(uri.datagram.host, "::2");
    ck_assert_uint_eq(uri.datagram.port, 3);
    ck_assert(uri.has_datagram);
    ck_assert_str_eq(uri.stream_bind, "127.0.0.1");
    ck_assert_str_eq(uri.datagram_bind, "lo");
    ck_assert_int_eq(tf_uri_parse(&uri, AT "h:1", why), TF_OK);
    ck_assert(!uri.has_datagram && tf_endpoint_eq(&uri.stream, &uri.datagram));
    ck_assert_uint_eq(uri.standby, 0);
    ck_assert_int_eq(tf_uri_parse(&uri, AT "h:1?datagram-copy=standby", why), TF_OK);
    ck_assert_uint_eq(uri.standby, TF_ROUTES_DATAGRAM);
    ck_assert_int_eq(tf_uri_parse(&uri, AT "h:1?stream-copy=standby", why), TF_OK);
    ck_assert_uint_eq(uri.standby, TF_ROUTES_STREAM);
}
END_TEST

START_TEST(uri_bad_texts_say_what_is_wrong)
{
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        {AT "h:1?stream-copy=never", "expected always or standby"},
        {AT "h:1?stream-copy=", "expected always or standby"},
        {AT "h:1?datagram-copy=always&datagram-copy=standby", "datagram-copy= is given twice"},
        {AT "h:1?datagram-copy=standby&stream-copy=standby", "both routes are on standby"},
        {"", "\"\" does not begin with twofold://"},
        {"relay.example:7420", "does not begin with twofold://: expected twofold://NODEID@HOST:PORT"},
        {"twofold://relay.example:7420", "the node id is missing"},
        {"twofold://@h:1", "the node id \"\" has 0 characters: expected 52"},
        {"twofold://abc@h:1", "the node id \"abc\" has 3 characters"},
        {"twofold://BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA@h:1", "is not a node id"},
        {"twofold://baaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab@h:1", "is not a node id"},
        {AT, "the address is empty"},
        {AT "h", "\"h\" has no port"},
        {AT "h:0", "the port is \"0\""},
        {AT "::1:5", "write an IPv6 address in brackets"},
        {AT "h:1?", "option \"\" has no value"},
        {AT "h:1?datagram", "option \"datagram\" has no value"},
        {AT "h:1?datagram=h", "datagram=: \"h\" has no port"},
        {AT "h:1?datagram=h:2&datagram=h:3", "datagram= is given twice"},
        {AT "h:1?stream-bind=a&stream-bind=b", "stream-bind= is given twice"},
        {AT "h:1?stream-bind=", "stream-bind= is \"\": expected a local address"},
        {AT "h:1?stream-bind=a b", "blanks and special characters"},
        {AT "h:1?bind=a", "option \"bind\" is not known: there are datagram"},
        {AT "h:1?stream-bind=a&", "option \"\" has no value"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_uri uri = {.stream = {"untouched", 0}};
        ck_assert_int_eq(tf_uri_parse(&uri, rows[i].text, why), TF_ERR_USAGE);
        ck_assert_msg(strstr(why, rows[i].says) != NULL, "%s: does not say: %s", why, rows[i].says);
        ck_assert_str_eq(uri.stream.host, "untouched");
    }
}
END_TEST

START_TEST(uri_any_bytes_are_refused_or_come_out_as_they_went_in)
{
    static const char alphabet[] = "a:[]@/?&=.1%datagram-bindstream \x01\xff";
    tf_test_random random;
    tf_test_random_init(&random, 11);
    for (int round = 0; round < 20000; round++) {
        char text[400] = AT "h:1?";
        size_t at = tf_test_random_chance(&random, 1, 2) ? sizeof(AT) - 1 : strlen(text);
        size_t len = at + (size_t)tf_test_random_below(&random, 40);
        for (; at < len; at++) {
            text[at] = alphabet[tf_test_random_below(&random, sizeof(alphabet) - 1)];
        }
        text[len] = '\0';
        tf_uri uri;
        tf_uri again;
        char printed[TF_URI_TEXT_MAX];
        if (tf_uri_parse(&uri, text, why) == TF_OK) {
            ck_assert_int_eq(tf_uri_parse(&again, tf_uri_format(&uri, printed), why), TF_OK);
            ck_assert(tf_endpoint_eq(&uri.stream, &again.stream) && tf_endpoint_eq(&uri.datagram, &again.datagram));
            ck_assert_str_eq(uri.stream_bind, again.stream_bind);
            ck_assert_str_eq(uri.datagram_bind, again.datagram_bind);
        }
    }
}
END_TEST

START_TEST(uri_longest_text_is_printed_whole)
{
    tf_uri uri;
    tf_uri again;
    char text[TF_URI_TEXT_MAX];
    memset(&uri, 0, sizeof(uri));
    for (size_t i = 0; i < 253; i++) {
        uri.stream.host[i] = i % 64 == 63 ? '.' : 'a';
        uri.datagram.host[i] = i % 64 == 63 ? '.' : 'b';
    }
    uri.stream.port = uri.datagram.port = 65535;
    memset(uri.stream_bind, 'x', TF_URI_BIND_MAX - 1);
    memset(uri.datagram_bind, 'y', TF_URI_BIND_MAX - 1);
    ck_assert_int_eq(tf_uri_parse(&again, tf_uri_format(&uri, text), why), TF_OK);
    ck_assert_str_eq(again.datagram_bind, uri.datagram_bind);
    char too_long[TF_URI_TEXT_MAX + 10];
    memset(too_long, 'a', sizeof(too_long));
    memcpy(too_long, "twofold://", 10);
    too_long[sizeof(too_long) - 1] = '\0';
    ck_assert_int_eq(tf_uri_parse(&again, too_long, why), TF_ERR_USAGE);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {endpoint_good_texts_are_read_and_printed,
                                  endpoint_bad_texts_say_what_is_wrong,
                                  endpoint_literals_are_addresses_and_names_are_not,
                                  uri_good_texts_are_read_and_printed_the_shortest_way,
                                  uri_parts_are_told_apart,
                                  uri_bad_texts_say_what_is_wrong,
                                  uri_any_bytes_are_refused_or_come_out_as_they_went_in,
                                  uri_longest_text_is_printed_whole,
                                  NULL};
    return tf_test_run("node/uri", tests);
}
