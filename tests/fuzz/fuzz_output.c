/* node/cli/output: what a relay or a sender says, as lines on stdout. Whatever the bytes are: a body for a terminal
 * has no control bytes and is one line; JSON is one line of valid UTF-8 whose strings are the bytes that went in, in
 * base64 where those are no UTF-8.
 * Input: one byte (which line), then the fields, each behind its length. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <openssl/evp.h>

#include "handshake/node_id.h"
#include "node/cli/cli.h"
#include "proto/mp.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/support.h"

/* Talk (node/cli/options.c); there is none here. */
void tf_complain(const char *command, const char *format, ...)
{
    TF_ASSERT(command == NULL || format == NULL);
}

/* -- JSON ---------------------------------------------------------------------------------------------------------- */

typedef struct json {
    tf_slice rest;
    uint8_t *text; /* of the string that was read last; room for all of the line */
    size_t len;
} json;

static uint8_t json_next(json *j)
{
    TF_ASSERT(j->rest.len > 0);
    return tf_fuzz_u8(&j->rest);
}

static void json_expect(json *j, const char *what)
{
    for (; *what != '\0'; what++) {
        TF_ASSERT(json_next(j) == (uint8_t)*what);
    }
}

static uint8_t json_hex(json *j)
{
    static const char digits[] = "0123456789abcdef";
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = json_next(j);
        const char *at = memchr(digits, c, 16);
        TF_ASSERT(at != NULL);
        value = value << 4 | (unsigned)(at - digits);
    }
    TF_ASSERT(value < 0x80);
    return (uint8_t)value;
}

static uint8_t json_escaped(json *j)
{
    switch (json_next(j)) {
    case '"':
        return '"';
    case '\\':
        return '\\';
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'u':
        return json_hex(j);
    default:
        TF_UNREACHABLE();
    }
}

static tf_slice json_string(json *j)
{
    json_expect(j, "\"");
    j->len = 0;
    for (uint8_t c = json_next(j); c != '"'; c = json_next(j)) {
        TF_ASSERT(c >= 0x20 && c != 0x7f);
        j->text[j->len++] = c == '\\' ? json_escaped(j) : c;
    }
    return tf_slice_of(j->text, j->len);
}

static void json_name(json *j, const char *name)
{
    json_expect(j, ",\"");
    json_expect(j, name);
    json_expect(j, "\":");
}

static void json_number(json *j, const char *name, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    json_name(j, name);
    json_expect(j, text);
}

static void check_base64(tf_slice text, tf_slice bytes)
{
    uint8_t *decoded = malloc(text.len + 4);
    TF_ASSERT(decoded != NULL && text.len == (bytes.len + 2) / 3 * 4 && text.len > 0);
    int len = EVP_DecodeBlock(decoded, text.data, (int)text.len);
    TF_ASSERT(len >= 0 && (size_t)len >= bytes.len && memcmp(decoded, bytes.data, bytes.len) == 0);
    free(decoded);
}

/* A string, or base64; `suffix` is then behind its name. */
static void json_bytes(json *j, const char *name, const char *suffix, tf_slice bytes)
{
    bool text = tf_utf8_is_valid(bytes);
    json_expect(j, ",\"");
    json_expect(j, name);
    json_expect(j, text ? "" : suffix);
    json_expect(j, "\":");
    tf_slice got = json_string(j);
    if (text) {
        TF_ASSERT(tf_slice_eq(got, bytes));
    } else {
        check_base64(got, bytes);
    }
}

static void json_begin(json *j, tf_slice line)
{
    j->rest = line;
    j->len = 0;
    j->text = malloc(line.len + 1);
    TF_ASSERT(j->text != NULL && tf_utf8_is_valid(line));
    TF_ASSERT(memchr(line.data, '\n', line.len) == line.data + line.len - 1);
    json_expect(j, "{\"v\":1");
}

static void json_end(json *j)
{
    json_expect(j, "}\n");
    TF_ASSERT(j->rest.len == 0);
    free(j->text);
}

/* -- lines --------------------------------------------------------------------------------------------------------- */

/* Takes stdout away from here on. */
static FILE *capture(char **text, size_t *len)
{
    FILE *terminal = stdout;
    stdout = open_memstream(text, len);
    TF_ASSERT(stdout != NULL);
    return terminal;
}

static void release(FILE *terminal)
{
    TF_ASSERT(ferror(stdout) == 0 && fclose(stdout) == 0);
    stdout = terminal;
}

static tf_slice take_field(tf_slice *input)
{
    uint8_t len = tf_fuzz_u8(input);
    return tf_fuzz_bytes(input, len < 0xf0 ? len : (size_t)len << 4);
}

static void check_body(tf_slice line)
{
    TF_ASSERT(line.len > 0 && line.data[line.len - 1] == '\n' && tf_utf8_is_valid(line));
    for (size_t i = 0; i + 1 < line.len; i++) {
        uint8_t c = line.data[i];
        TF_ASSERT((c >= 0x20 || c == '\t') && c != 0x7f);
        TF_ASSERT(c != 0xc2 || line.data[i + 1] >= 0xa0); /* C1 */
    }
}

static void run_body(tf_slice body, bool raw)
{
    char *text = NULL;
    size_t len = 0;
    FILE *terminal = capture(&text, &len);
    tf_out_body(body, raw);
    release(terminal);
    tf_slice line = tf_slice_of((uint8_t *)text, len);
    if (raw) {
        TF_ASSERT(len == body.len + 1 && text[len - 1] == '\n');
        TF_ASSERT(body.len == 0 || memcmp(text, body.data, body.len) == 0);
    } else {
        check_body(line);
    }
    free(text);
}

static void run_activity(tf_slice input)
{
    char node[TF_NODE_ID_TEXT_LEN + 1];
    char *text = NULL;
    size_t len = 0;
    json j;
    tf_slice channel = take_field(&input);
    tf_activity a = {.seq = tf_fuzz_u32(&input), .timestamp_ms = tf_fuzz_u32(&input), .expires_ms = tf_fuzz_u8(&input)};
    a.id = take_field(&input);
    a.client_id = take_field(&input);
    a.meta = take_field(&input);
    a.body = input;
    memset(a.sender.bytes, (int)a.seq & 0xff, TF_NODE_ID_LEN);
    FILE *terminal = capture(&text, &len);
    tf_out_activity_json(&a, channel);
    release(terminal);
    json_begin(&j, tf_slice_of((uint8_t *)text, len));
    json_bytes(&j, "channel", "", channel);
    json_number(&j, "seq", a.seq);
    json_bytes(&j, "id", "", a.id);
    tf_node_id_format(&a.sender, node);
    json_bytes(&j, "sender", "", tf_slice_str(node));
    json_bytes(&j, "client_id", "", a.client_id);
    json_number(&j, "timestamp", a.timestamp_ms);
    if (a.expires_ms != 0) {
        json_number(&j, "expires", a.expires_ms);
    }
    if (a.meta.len > 0) {
        json_bytes(&j, "meta", "_base64", a.meta);
    }
    json_bytes(&j, "body", "_base64", a.body);
    json_end(&j);
    free(text);
}

static void run_answer(tf_slice input, bool ack)
{
    char *text = NULL;
    size_t len = 0;
    json j;
    tf_node_event e = {.seq = tf_fuzz_u32(&input), .retry_after_ms = tf_fuzz_u8(&input)};
    e.client_id = take_field(&input);
    e.id = take_field(&input);
    e.code = take_field(&input);
    e.text = input;
    FILE *terminal = capture(&text, &len);
    (ack ? tf_out_ack : tf_out_refusal)(&e);
    release(terminal);
    json_begin(&j, tf_slice_of((uint8_t *)text, len));
    json_bytes(&j, "client_id", "", e.client_id);
    if (ack) {
        json_bytes(&j, "id", "", e.id);
        json_number(&j, "seq", e.seq);
        json_expect(&j, ",\"timestamp\":0,\"duplicate\":false,\"via\":\"");
        json_expect(&j, tf_route_name(e.via));
        json_expect(&j, "\"");
    } else {
        json_bytes(&j, "code", "", e.code);
        json_bytes(&j, "message", "", e.text);
        json_expect(&j, ",\"retryable\":false");
        if (e.retry_after_ms != 0) {
            json_number(&j, "retry_after_ms", e.retry_after_ms);
        }
    }
    json_end(&j);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tf_slice input = tf_slice_of(data, size);
    unsigned kind = tf_fuzz_u8(&input) % 5;
    uint8_t *exact = tf_test_exact(input);
    tf_slice fields = tf_slice_of(exact, input.len);
    switch (kind) {
    case 0:
    case 1:
        run_body(fields, kind == 1);
        break;
    case 2:
        run_activity(fields);
        break;
    default:
        run_answer(fields, kind == 3);
        break;
    }
    free(exact);
    return 0;
}
