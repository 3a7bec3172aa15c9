/* handshake/offer and handshake/hello: the maps of HELLO and WELCOME, and what is refused in them. */
#include <msgpack.h>
#include <stdio.h>
#include <string.h>

#include "handshake/hello.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

static tf_hello full_hello(void)
{
    tf_hello hello;
    tf_hello_init(&hello);
    hello.version_count = 3;
    hello.versions[1] = 7;
    hello.versions[2] = TF_VERSION_MAX;
    memcpy(hello.offer.software, "tw\xc3\xb6" "fold", 9);
    hello.offer.features = TF_FEATURE_REVOKE;
    hello.offer.data = (tf_data_routes){TF_ROUTES_DATAGRAM, TF_ROUTES_STREAM};
    hello.offer.datagram = (tf_datagram_offer){UINT64_MAX, 1u << TF_CIPHER_CHACHA20_POLY1305, 65535, "h.example"};
    hello.offer.limits = (tf_peer_limits){1, 4096, 65536, 64, 64, 64, 1};
    hello.offer.keepalive_ms = TF_KEEPALIVE_MS_MAX;
    hello.offer.instance = UINT64_MAX;
    hello.offer.exclusive = true;
    hello.offer.resume = (tf_resume){true, UINT64_MAX, UINT64_MAX};
    return hello;
}

static tf_err decode_exact(tf_hello *out, const uint8_t *bytes, size_t len)
{
    uint8_t *exact = tf_test_exact(tf_slice_of(bytes, len));
    tf_err err = tf_hello_decode(out, tf_slice_of(exact, len));
    free(exact);
    return err;
}

static void assert_same_offer(const tf_offer *a, const tf_offer *b)
{
    ck_assert_str_eq(a->software, b->software);
    ck_assert_uint_eq(a->features, b->features);
    ck_assert_uint_eq(a->routes, b->routes);
    ck_assert_uint_eq(a->data.up, b->data.up);
    ck_assert_uint_eq(a->data.down, b->data.down);
    ck_assert_uint_eq(a->datagram.connection_id, b->datagram.connection_id);
    ck_assert_uint_eq(a->datagram.ciphers, b->datagram.ciphers);
    ck_assert_uint_eq(a->datagram.port, b->datagram.port);
    ck_assert_str_eq(a->datagram.host, b->datagram.host);
    ck_assert_mem_eq(&a->limits, &b->limits, sizeof(a->limits));
    ck_assert_uint_eq(a->keepalive_ms, b->keepalive_ms);
    ck_assert_uint_eq(a->instance, b->instance);
    ck_assert_int_eq(a->exclusive, b->exclusive);
    ck_assert_int_eq(a->resume.present, b->resume.present);
    ck_assert_uint_eq(a->resume.session, b->resume.session);
    ck_assert_uint_eq(a->resume.next, b->resume.next);
}

/* -- writing ------------------------------------------------------------------------------------------------------- */

START_TEST(hello_comes_back_as_it_was)
{
    uint8_t buf[TF_FRAME_PAYLOAD_MAX];
    size_t len = 0;
    tf_hello hello = full_hello();
    tf_hello back;
    ck_assert_int_eq(tf_hello_encode(&hello, buf, sizeof(buf), &len), TF_OK);
    ck_assert_int_eq(decode_exact(&back, buf, len), TF_OK);
    ck_assert_uint_eq(back.version_count, 3);
    ck_assert_mem_eq(back.versions, hello.versions, 3 * sizeof(hello.versions[0]));
    assert_same_offer(&back.offer, &hello.offer);
}
END_TEST

START_TEST(hello_welcome_comes_back_as_it_was)
{
    uint8_t buf[TF_FRAME_PAYLOAD_MAX];
    size_t len = 0;
    tf_welcome welcome = {TF_VERSION_MAX, TF_GENERATION_MAX, UINT64_MAX, full_hello().offer};
    tf_welcome back;
    welcome.offer.resume.session = 0; /* not in a WELCOME: the session has a key of its own */
    ck_assert_int_eq(tf_welcome_encode(&welcome, buf, sizeof(buf), &len), TF_OK);
    ck_assert_int_eq(tf_welcome_decode(&back, tf_slice_of(buf, len)), TF_OK);
    ck_assert_uint_eq(back.version, welcome.version);
    ck_assert_uint_eq(back.generation, welcome.generation);
    ck_assert_uint_eq(back.session, welcome.session);
    assert_same_offer(&back.offer, &welcome.offer);
}
END_TEST

START_TEST(hello_without_room_is_an_error)
{
    uint8_t buf[2048];
    size_t need = 0;
    tf_hello hello = full_hello();
    ck_assert_int_eq(tf_hello_encode(&hello, buf, sizeof(buf), &need), TF_OK);
    for (size_t cap = 0; cap < need; cap++) {
        size_t len = 0;
        uint8_t *room = tf_test_exact(tf_slice_of(buf, cap));
        ck_assert_int_eq(tf_hello_encode(&hello, room, cap, &len), TF_ERR_LIMIT_BYTES);
        ck_assert_uint_eq(len, 0);
        free(room);
    }
}
END_TEST

START_TEST(hello_out_of_bounds_is_not_written)
{
    uint8_t buf[2048];
    size_t len = 0;
    tf_hello rows[13];
    const size_t count = sizeof(rows) / sizeof(rows[0]);
    for (size_t i = 0; i < count; i++) {
        rows[i] = full_hello();
    }
    rows[0].version_count = 0;
    rows[1].version_count = TF_VERSIONS_MAX + 1;
    rows[2].versions[1] = 0;
    rows[3].versions[1] = TF_VERSION_MAX + 1;
    rows[4].offer.routes = TF_ROUTES_DATAGRAM;
    rows[5].offer.datagram.ciphers = 0;
    rows[6].offer.limits.max_message = TF_MESSAGE_MIN_LIMIT - 1;
    rows[7].offer.keepalive_ms = 0;
    rows[8].offer.resume.session = 0;
    memset(rows[9].offer.software, 'x', sizeof(rows[9].offer.software)); /* not terminated */
    memset(rows[10].offer.datagram.host, 'x', sizeof(rows[10].offer.datagram.host));
    rows[11].offer.software[0] = '\n';
    rows[12].offer.datagram.host[0] = ' ';
    for (size_t i = 0; i < count; i++) {
        ck_assert_msg(tf_hello_encode(&rows[i], buf, sizeof(buf), &len) == TF_ERR_USAGE, "row %zu", i);
    }
}
END_TEST

START_TEST(hello_welcome_out_of_bounds_is_not_written)
{
    uint8_t buf[2048];
    size_t len = 0;
    for (size_t i = 0; i < 4; i++) {
        tf_welcome welcome = {TF_VERSION_MAX, TF_GENERATION_MAX, UINT64_MAX, full_hello().offer};
        welcome.offer.resume.session = 0;
        welcome.version = i == 1 ? 0 : welcome.version;
        welcome.offer.datagram.ciphers = i == 2 ? 0 : welcome.offer.datagram.ciphers; /* no cipher that is known */
        welcome.offer.keepalive_ms = i == 3 ? 0 : welcome.offer.keepalive_ms;
        ck_assert_msg(tf_welcome_encode(&welcome, buf, sizeof(buf), &len) == (i == 0 ? TF_OK : TF_ERR_USAGE), "row %zu", i);
    }
}
END_TEST

/* -- reading: a map from text -------------------------------------------------------------------------------------- */

/* A small JSON-like text to MessagePack: maps, lists, strings, numbers (with '-' a negative one), t, f, n (nil), and
 * x"..." for bin. */
typedef struct builder {
    const char *at;
    msgpack_sbuffer out;
    msgpack_packer pk;
} builder;

static size_t count_until(const char *at, char close)
{
    size_t depth = 0;
    size_t commas = 0;
    bool any = false;
    for (; depth > 0 || *at != close; at++) {
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
        commas += depth == 0 && *at == ',';
        any = any || *at != ' ';
    }
    return any ? commas + 1 : 0;
}

static void build_text(builder *b, bool bin)
{
    const char *start = ++b->at;
    while (*b->at != '"') {
        b->at++;
    }
    size_t len = (size_t)(b->at++ - start);
    if (bin) {
        (void)msgpack_pack_bin_with_body(&b->pk, start, len);
    } else {
        (void)msgpack_pack_str_with_body(&b->pk, start, len);
    }
}

static void build_scalar(builder *b)
{
    char *end = NULL;
    switch (*b->at) {
    case 't':
        (void)msgpack_pack_true(&b->pk);
        b->at++;
        break;
    case 'f':
        (void)msgpack_pack_false(&b->pk);
        b->at++;
        break;
    case 'n':
        (void)msgpack_pack_nil(&b->pk);
        b->at++;
        break;
    case '-':
        (void)msgpack_pack_int64(&b->pk, strtoll(b->at, &end, 10));
        b->at = end;
        break;
    default:
        (void)msgpack_pack_uint64(&b->pk, strtoull(b->at, &end, 10));
        ck_assert_ptr_ne(end, b->at);
        b->at = end;
        break;
    }
}

/* Packs what is at b->at: containers only write their head, their elements come by themselves. */
static void build_all(builder *b)
{
    while (*b->at != '\0') {
        switch (*b->at) {
        case '{':
            (void)msgpack_pack_map(&b->pk, count_until(b->at + 1, '}'));
            b->at++;
            break;
        case '[':
            (void)msgpack_pack_array(&b->pk, count_until(b->at + 1, ']'));
            b->at++;
            break;
        case '"':
            build_text(b, false);
            break;
        case 'x':
            b->at++;
            build_text(b, true);
            break;
        case ' ':
        case ',':
        case ':':
        case '}':
        case ']':
            b->at++;
            break;
        default:
            build_scalar(b);
            break;
        }
    }
}

static msgpack_sbuffer bytes_of_text(const char *text)
{
    builder b = {.at = text};
    msgpack_sbuffer_init(&b.out);
    msgpack_packer_init(&b.pk, &b.out, msgpack_sbuffer_write);
    build_all(&b);
    return b.out;
}

static tf_err decode_text(const char *text, tf_hello *out)
{
    msgpack_sbuffer bytes = bytes_of_text(text);
    tf_err err = decode_exact(out, (const uint8_t *)bytes.data, bytes.size);
    msgpack_sbuffer_destroy(&bytes);
    return err;
}

static tf_err decode_welcome_text(const char *text, tf_welcome *out)
{
    msgpack_sbuffer bytes = bytes_of_text(text);
    tf_err err = tf_welcome_decode(out, tf_slice_of(bytes.data, bytes.size));
    msgpack_sbuffer_destroy(&bytes);
    return err;
}

#define LEAST "\"versions\": [1], \"routes\": [\"stream\"], \"instance\": 5"
#define BOTH "\"versions\": [1], \"routes\": [\"stream\", \"datagram\"], \"instance\": 5"

START_TEST(hello_map_that_is_right_is_read)
{
    static const char *const rows[] = {
        "{" LEAST "}",
        "{\"instance\": 0, \"routes\": [\"pigeon\", \"stream\", \"stream\"], \"versions\": [9, 1]}",
        "{" LEAST ", \"unknown\": {\"a\": [1, n, -5, {}], \"b\": x\"12\"}, \"other\": t}",
        "{" LEAST ", \"features\": [\"telepathy\"], \"limits\": {\"max_message\": 4096, \"new\": 1}}",
        "{" LEAST ", \"limits\": {\"window_bytes\": 18446744073709551615}}",
        "{" LEAST ", \"datagram\": {}}", /* of a route that is not offered: a key like an unknown one */
        "{" BOTH ", \"datagram\": {\"connection_id\": x\"12345678\", \"ciphers\": [\"rot13\"]}}",
        "{" BOTH ", \"datagram\": {\"connection_id\": x\"12345678\", \"ciphers\": [], \"port\": 0, \"host\": \"\"}}",
        "{" LEAST ", \"data\": {\"up\": []}, \"exclusive\": f, \"software\": \"\", \"keepalive_ms\": 100}",
        "{" LEAST ", \"resume\": {\"session\": 1, \"next\": 0}}",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_hello hello;
        ck_assert_msg(decode_text(rows[i], &hello) == TF_OK, "%s", rows[i]);
        ck_assert_uint_ne(hello.offer.routes & TF_ROUTES_STREAM, 0);
    }
}
END_TEST

START_TEST(hello_limit_beyond_32_bits_is_the_largest)
{
    tf_hello hello;
    ck_assert_int_eq(decode_text("{" LEAST ", \"limits\": {\"window_bytes\": 4294967296, \"max_refs\": 99}}", &hello), TF_OK);
    ck_assert_uint_eq(hello.offer.limits.window_bytes, UINT32_MAX);
    ck_assert_uint_eq(hello.offer.limits.max_refs, 99);
    ck_assert_uint_eq(hello.offer.limits.max_results, TF_RESULTS_MAX);
}
END_TEST

START_TEST(hello_map_that_is_malformed_is_refused)
{
    static const char *const rows[] = {
        "{}",
        "[]",
        "5",
        "\"versions\"",
        "{\"routes\": [\"stream\"], \"instance\": 5}",
        "{\"versions\": [1], \"instance\": 5}",
        "{\"versions\": [1], \"routes\": [\"stream\"]}",
        "{\"versions\": [], \"routes\": [\"stream\"], \"instance\": 5}",
        "{\"versions\": 1, \"routes\": [\"stream\"], \"instance\": 5}",
        "{\"versions\": [0], \"routes\": [\"stream\"], \"instance\": 5}",
        "{\"versions\": [65536], \"routes\": [\"stream\"], \"instance\": 5}",
        "{\"versions\": [-1], \"routes\": [\"stream\"], \"instance\": 5}",
        "{\"versions\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17], \"routes\": [\"stream\"], \"instance\": 5}",
        "{\"versions\": [1], \"routes\": [\"datagram\"], \"instance\": 5}",
        "{\"versions\": [1], \"routes\": [], \"instance\": 5}",
        "{\"versions\": [1], \"routes\": [0], \"instance\": 5}",
        "{\"versions\": [1], \"routes\": \"stream\", \"instance\": 5}",
        "{\"versions\": [1], \"routes\": [\"stream\"], \"instance\": -5}",
        "{\"versions\": [1], \"routes\": [\"stream\"], \"instance\": \"5\"}",
        "{" LEAST ", \"instance\": 5}",
        "{" LEAST ", \"new\": 1, \"new\": 1}",
        "{" LEAST ", 7: 1}",
        "{" LEAST ", x\"bin\": 1}",
        "{" LEAST ", \"exclusive\": 1}",
        "{" LEAST ", \"exclusive\": n}",
        "{" LEAST ", \"software\": x\"ab\"}",
        "{" LEAST ", \"software\": \"a\tb\"}",
        "{" LEAST ", \"software\": \"\xff\"}",
        "{" LEAST ", \"software\": \"12345678901234567890123456789012345678901234567890123456789012345\"}",
        "{" LEAST ", \"features\": [\"a name of more than 32 bytes is no name\"]}",
        "{" LEAST ", \"features\": {}}",
        "{" LEAST ", \"data\": []}",
        "{" LEAST ", \"data\": {\"up\": \"stream\"}}",
        "{" LEAST ", \"data\": {\"up\": [], \"up\": []}}",
        "{" LEAST ", \"limits\": {\"max_refs\": -1}}",
        "{" LEAST ", \"limits\": 5}",
        "{" LEAST ", \"resume\": {}}",
        "{" LEAST ", \"resume\": {\"session\": 0, \"next\": 1}}",
        "{" LEAST ", \"resume\": {\"session\": 1}}",
        "{" LEAST ", \"resume\": {\"next\": 1}}",
        "{" LEAST ", \"resume\": n}",
        "{" BOTH "}",
        "{" BOTH ", \"datagram\": {}}",
        "{" BOTH ", \"datagram\": {\"connection_id\": x\"12345678\"}}",
        "{" BOTH ", \"datagram\": {\"ciphers\": []}}",
        "{" BOTH ", \"datagram\": {\"connection_id\": x\"1234567\", \"ciphers\": []}}",
        "{" BOTH ", \"datagram\": {\"connection_id\": \"12345678\", \"ciphers\": []}}",
        "{" BOTH ", \"datagram\": {\"connection_id\": x\"12345678\", \"ciphers\": [], \"port\": 65536}}",
        "{" BOTH ", \"datagram\": {\"connection_id\": x\"12345678\", \"ciphers\": [], \"host\": \"a b\"}}",
        "{" LEAST ", \"deep\": [[[[[[[[1]]]]]]]]}",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_hello hello = {.version_count = 99};
        ck_assert_msg(decode_text(rows[i], &hello) == TF_ERR_PEER_SYNTAX, "%s", rows[i]);
        ck_assert_uint_eq(hello.version_count, 99);
    }
}
END_TEST

#define WELCOME_OF(version, generation, session)                                                                       \
    "{\"routes\": [\"stream\"], \"instance\": 5, \"version\": " version ", \"generation\": " generation                   \
    ", \"session\": " session "}"

START_TEST(hello_welcome_that_is_malformed_is_refused)
{
    static const char *const rows[] = {
        WELCOME_OF("0", "1", "1"),
        WELCOME_OF("65536", "1", "1"),
        WELCOME_OF("[1]", "1", "1"),
        WELCOME_OF("1", "0", "1"),
        WELCOME_OF("1", "281474976710657", "1"),
        WELCOME_OF("1", "1", "0"),
        WELCOME_OF("1", "1", "-1"),
        "{" LEAST "}",
        "{" LEAST ", \"version\": 1, \"session\": 1}",
        "{" LEAST ", \"version\": 1, \"generation\": 1}",
        "{" LEAST ", \"session\": 1, \"generation\": 1}",
        "{" LEAST ", \"version\": 1, \"session\": 1, \"generation\": 1, \"resume\": {}}",
    };
    tf_welcome welcome = {.version = 99};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(decode_welcome_text(rows[i], &welcome) == TF_ERR_PEER_SYNTAX, "%s", rows[i]);
        ck_assert_uint_eq(welcome.version, 99);
    }
    ck_assert_int_eq(decode_welcome_text(WELCOME_OF("1", "281474976710656", "1"), &welcome), TF_OK);
}
END_TEST

START_TEST(hello_limit_below_the_least_is_refused)
{
    static const struct {
        const char *key;
        unsigned least;
    } rows[] = {{"max_in_flight", 1}, {"max_message", 4096}, {"window_bytes", 65536}, {"window_segments", 64},
                {"max_refs", 64},     {"max_promises", 64},  {"max_results", 1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[200];
        tf_hello hello;
        (void)snprintf(text, sizeof(text), "{" LEAST ", \"limits\": {\"%s\": %u}}", rows[i].key, rows[i].least);
        ck_assert_msg(decode_text(text, &hello) == TF_OK, "%s", text);
        (void)snprintf(text, sizeof(text), "{" LEAST ", \"limits\": {\"%s\": %u}}", rows[i].key, rows[i].least - 1);
        ck_assert_msg(decode_text(text, &hello) == TF_ERR_PEER_LIMIT, "%s", text);
    }
    tf_hello hello;
    ck_assert_int_eq(decode_text("{" LEAST ", \"keepalive_ms\": 99}", &hello), TF_ERR_PEER_LIMIT);
    ck_assert_int_eq(decode_text("{" LEAST ", \"keepalive_ms\": 3600001}", &hello), TF_ERR_PEER_LIMIT);
    ck_assert_int_eq(decode_text("{" LEAST ", \"keepalive_ms\": 3600000}", &hello), TF_OK);
}
END_TEST

/* {LEAST and `extra` unknown keys} */
static tf_err decode_with_keys(unsigned extra)
{
    static char text[4096];
    size_t len = (size_t)snprintf(text, sizeof(text), "{" LEAST);
    tf_hello hello;
    for (unsigned i = 0; i < extra; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, ", \"k%u\": 0", i);
    }
    (void)snprintf(text + len, sizeof(text) - len, "}");
    return decode_text(text, &hello);
}

START_TEST(hello_number_of_keys_is_bounded)
{
    ck_assert_int_eq(decode_with_keys(TF_KEYS_MAX - 3), TF_OK);
    ck_assert_int_eq(decode_with_keys(TF_KEYS_MAX - 2), TF_ERR_PEER_SYNTAX);
}
END_TEST

START_TEST(hello_cut_or_longer_bytes_are_refused)
{
    uint8_t buf[2048];
    size_t len = 0;
    tf_hello hello = full_hello();
    tf_hello back;
    ck_assert_int_eq(tf_hello_encode(&hello, buf, sizeof(buf), &len), TF_OK);
    for (size_t cut = 0; cut < len; cut++) {
        ck_assert_int_eq(decode_exact(&back, buf, cut), TF_ERR_PEER_SYNTAX);
    }
    buf[len] = 0xc0;
    ck_assert_int_eq(decode_exact(&back, buf, len + 1), TF_ERR_PEER_SYNTAX);
}
END_TEST

START_TEST(hello_damaged_bytes_are_an_error_or_within_bounds)
{
    uint8_t good[2048];
    size_t len = 0;
    tf_hello hello = full_hello();
    tf_test_random random;
    tf_test_random_init(&random, 3);
    ck_assert_int_eq(tf_hello_encode(&hello, good, sizeof(good), &len), TF_OK);
    for (int i = 0; i < 20000; i++) {
        uint8_t bad[2048];
        tf_hello back;
        tf_welcome welcome;
        memcpy(bad, good, len);
        for (uint64_t k = tf_test_random_below(&random, 3) + 1; k > 0; k--) {
            bad[tf_test_random_below(&random, len)] = (uint8_t)tf_test_random_u64(&random);
        }
        if (decode_exact(&back, bad, len) == TF_OK) {
            ck_assert_int_eq(tf_hello_judge(&back), TF_OK);
        }
        ck_assert_int_ne(tf_welcome_decode(&welcome, tf_slice_of(bad, len)), TF_OK);
    }
}
END_TEST

START_TEST(hello_text_with_a_nul_is_refused)
{
    uint8_t buf[2048];
    size_t len = 0;
    tf_hello hello = full_hello();
    tf_hello back;
    ck_assert_int_eq(tf_hello_encode(&hello, buf, sizeof(buf), &len), TF_OK);
    uint8_t *fold = memmem(buf, len, "fold", 4);
    ck_assert_ptr_nonnull(fold);
    fold[1] = 0;
    ck_assert_int_eq(decode_exact(&back, buf, len), TF_ERR_PEER_SYNTAX);
    fold[1] = 'o';
    ck_assert_int_eq(decode_exact(&back, buf, len), TF_OK);
}
END_TEST

START_TEST(hello_claimed_sizes_take_no_memory)
{
    static const char *const rows[] = {
        "df ff ff ff ff", "dd ff ff ff ff", "81 a1 61 dd 00 ff ff ff", "db ff ff ff ff 61", "c7 01 01 00", "c1", "",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t bytes[16];
        size_t len = tf_test_unhex(rows[i], bytes, sizeof(bytes));
        tf_hello hello;
        ck_assert_int_eq(decode_exact(&hello, bytes, len), TF_ERR_PEER_SYNTAX);
    }
}
END_TEST

START_TEST(hello_cipher_names_are_those_on_the_wire)
{
    ck_assert_str_eq(tf_cipher_name(TF_CIPHER_AES_128_GCM), "aes-128-gcm");
    ck_assert_str_eq(tf_cipher_name(TF_CIPHER_CHACHA20_POLY1305), "chacha20-poly1305");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        hello_comes_back_as_it_was,
        hello_welcome_comes_back_as_it_was,
        hello_without_room_is_an_error,
        hello_out_of_bounds_is_not_written,
        hello_welcome_out_of_bounds_is_not_written,
        hello_map_that_is_right_is_read,
        hello_limit_beyond_32_bits_is_the_largest,
        hello_map_that_is_malformed_is_refused,
        hello_welcome_that_is_malformed_is_refused,
        hello_limit_below_the_least_is_refused,
        hello_number_of_keys_is_bounded,
        hello_cut_or_longer_bytes_are_refused,
        hello_damaged_bytes_are_an_error_or_within_bounds,
        hello_text_with_a_nul_is_refused,
        hello_claimed_sizes_take_no_memory,
        hello_cipher_names_are_those_on_the_wire,
        NULL,
    };
    return tf_test_run("handshake/hello", tests);
}
