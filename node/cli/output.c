/* The lines on stdout. */
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "handshake/node_id.h"
#include "node/cli/cli.h"
#include "proto/mp.h"

static void put_json_string(tf_slice text)
{
    (void)putchar_unlocked('"');
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if (c == '"' || c == '\\') {
            (void)putchar_unlocked('\\');
            (void)putchar_unlocked(c);
        } else if (c == '\n') {
            (void)fputs("\\n", stdout);
        } else if (c == '\t') {
            (void)fputs("\\t", stdout);
        } else if (c < 0x20 || c == 0x7f) {
            (void)printf("\\u%04x", c);
        } else {
            (void)putchar_unlocked(c);
        }
    }
    (void)putchar_unlocked('"');
}

static void put_base64(tf_slice bytes)
{
    (void)putchar_unlocked('"');
    for (size_t i = 0; i < bytes.len; i += 48) {
        unsigned char text[68];
        size_t part = bytes.len - i < 48 ? bytes.len - i : 48;
        int len = EVP_EncodeBlock(text, bytes.data + i, (int)part);
        (void)fwrite(text, 1, (size_t)len, stdout);
    }
    (void)putchar_unlocked('"');
}

/* Ids and codes are printable ASCII, but they come from outside. */
void tf_out_field(const char *name, tf_slice text)
{
    (void)printf(",\"%s\":", name);
    if (tf_utf8_is_valid(text)) {
        put_json_string(text);
    } else {
        put_base64(text);
    }
}

void tf_out_node_field(const char *name, const tf_node_id *id)
{
    char text[TF_NODE_ID_TEXT_LEN + 1];
    tf_node_id_format(id, text);
    tf_out_field(name, tf_slice_str(text));
}

void tf_out_epoch_field(uint64_t epoch)
{
    (void)printf(",\"epoch\":\"%016" PRIx64 "\"", epoch);
}

void tf_out_bytes_field(const char *name, tf_slice bytes)
{
    bool text = tf_utf8_is_valid(bytes);
    (void)printf(",\"%s%s\":", name, text ? "" : "_base64");
    if (text) {
        put_json_string(bytes);
    } else {
        put_base64(bytes);
    }
}

void tf_out_ack(const tf_node_event *event)
{
    (void)fputs("{\"v\":1", stdout);
    tf_out_field("client_id", event->client_id);
    tf_out_field("id", event->id);
    (void)printf(",\"seq\":%" PRIu64 ",\"timestamp\":%" PRId64 ",\"duplicate\":%s,\"via\":\"%s\"}\n", event->seq,
                 event->timestamp_ms, event->duplicate ? "true" : "false", tf_route_name(event->via));
}

void tf_out_refusal(const tf_node_event *event)
{
    (void)fputs("{\"v\":1", stdout);
    tf_out_field("client_id", event->client_id);
    tf_out_field("code", event->code);
    tf_out_field("message", event->text);
    (void)printf(",\"retryable\":%s", event->retryable ? "true" : "false");
    if (event->retry_after_ms != 0) {
        (void)printf(",\"retry_after_ms\":%" PRIu64, event->retry_after_ms);
    }
    (void)fputs("}\n", stdout);
}

void tf_out_activity_json(const tf_activity *activity, tf_slice channel)
{
    (void)fputs("{\"v\":1", stdout);
    tf_out_field("channel", channel);
    (void)printf(",\"seq\":%" PRIu64, activity->seq);
    tf_out_field("id", activity->id);
    tf_out_node_field("sender", &activity->sender);
    tf_out_field("client_id", activity->client_id);
    (void)printf(",\"timestamp\":%" PRIu64, activity->timestamp_ms);
    if (activity->expires_ms != 0) {
        (void)printf(",\"expires\":%" PRIu64, activity->expires_ms);
    }
    if (activity->meta.len > 0) {
        tf_out_bytes_field("meta", activity->meta);
    }
    tf_out_bytes_field("body", activity->body);
    (void)fputs("}\n", stdout);
}

/* The bytes at i are the UTF-8 of a C1 control character. */
static bool is_c1(tf_slice body, size_t i)
{
    return body.data[i] == 0xc2 && i + 1 < body.len && body.data[i + 1] >= 0x80 && body.data[i + 1] < 0xa0;
}

static void put_escaped(tf_slice body)
{
    bool utf8 = tf_utf8_is_valid(body);
    for (size_t i = 0; i < body.len; i++) {
        uint8_t c = body.data[i];
        bool control = (c < 0x20 && c != '\t') || c == 0x7f;
        if (control || (!utf8 && c >= 0x80) || is_c1(body, i) || (i > 0 && is_c1(body, i - 1))) {
            (void)printf("\\x%02x", c);
        } else {
            (void)putchar_unlocked(c);
        }
    }
}

void tf_out_body(tf_slice body, bool raw)
{
    if (raw) {
        (void)fwrite(body.data, 1, body.len, stdout);
    } else {
        put_escaped(body);
    }
    (void)putchar_unlocked('\n');
}

bool tf_out_flush(const char *command, bool *broken_pipe)
{
    errno = 0;
    *broken_pipe = false;
    if (fflush(stdout) == 0 && ferror(stdout) == 0) {
        return true;
    }
    *broken_pipe = errno == EPIPE;
    if (!*broken_pipe) {
        tf_complain(command, "stdout cannot be written: %s", strerror(errno));
    }
    return false;
}

bool tf_out_is_terminal(void)
{
    return isatty(STDOUT_FILENO) == 1;
}
