#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "paths/stream_internal.h"

#define DISCARD_MAX ((size_t)64 * 1024) /* unread input thrown away before a socket is closed */

const char *tf_stream_reason_name(tf_stream_reason reason)
{
    switch (reason) {
    case TF_STREAM_CLOSED:
        return "closed";
    case TF_STREAM_TRUNCATED:
        return "truncated";
    case TF_STREAM_REFUSED:
        return "refused";
    case TF_STREAM_AUTH:
        return "auth";
    case TF_STREAM_PROTOCOL:
        return "protocol";
    case TF_STREAM_RESET:
        return "reset";
    case TF_STREAM_TIMEOUT:
        return "timeout";
    case TF_STREAM_UNREACHABLE:
        return "unreachable";
    case TF_STREAM_INTERNAL:
        return "internal";
    }
    TF_UNREACHABLE();
}

/* -- the end ------------------------------------------------------------------------------------------------------- */

void tf_stream_set_failure(tf_stream *stream, tf_stream_reason reason, int system_error, const char *text)
{
    stream->failure.reason = reason;
    stream->failure.system_error = system_error;
    (void)snprintf(stream->failure.text, sizeof(stream->failure.text), "%s%s%s", text, system_error != 0 ? ": " : "",
                   system_error != 0 ? strerror(system_error) : "");
}

void tf_stream_finish(tf_stream *stream)
{
    tf_stream_dial_stop(stream);
    stream->state = STREAM_ENDED;
    tf_stream_arm(stream);
    (void)event_del(&stream->limit);
    tf_stream_again(stream);
}

/* A socket that is closed with unread input sends a reset, which may overtake what the peer has not read yet. */
void tf_stream_close_socket(int fd)
{
    uint8_t scratch[4096];
    ssize_t got = 1;
    (void)shutdown(fd, SHUT_WR);
    for (size_t total = 0; total < DISCARD_MAX && got > 0; total += sizeof(scratch)) {
        got = recv(fd, scratch, sizeof(scratch), 0);
    }
    (void)close(fd);
}

void tf_stream_forget_last(tf_stream *stream)
{
    tf_free(stream->mem, stream->last, stream->last_len);
    stream->last = NULL;
    stream->last_len = 0;
}

/* What was written before has gone out: the last bytes become the output. False: there are none, or no memory. */
static bool take_last(tf_stream *stream)
{
    bool taken = stream->last != NULL && tf_stream_set_output(stream, tf_slice_of(stream->last, stream->last_len));
    if (taken) {
        stream->stats.written_bytes += stream->last_len;
        stream->stats.written_records++;
    }
    tf_stream_forget_last(stream);
    return taken;
}

/* True: all has gone out. */
static bool say_the_rest(tf_stream *stream)
{
    bool all_out = tf_stream_flush(stream);
    return all_out && take_last(stream) ? tf_stream_flush(stream) : all_out;
}

void tf_stream_drop_socket(tf_stream *stream)
{
    bool clean = stream->state == STREAM_OPEN && !stream->write_failed && !tf_stream_has_output(stream);
    if (clean || (stream->state == STREAM_CLOSING && say_the_rest(stream))) {
        (void)tf_tls_shutdown(&stream->io, stream->ssl);
    }
    SSL_free(stream->ssl);
    stream->ssl = NULL;
    if (stream->io.fd >= 0) {
        (void)event_del(&stream->readable);
        (void)event_del(&stream->writable);
        tf_stream_close_socket(stream->io.fd);
    }
    stream->io = (tf_tls_io){.fd = -1};
}

/* -- closing ------------------------------------------------------------------------------------------------------- */

void tf_stream_closing_turn(tf_stream *stream)
{
    if (!say_the_rest(stream)) {
        if (stream->write_failed) {
            tf_stream_finish(stream);
        }
        tf_stream_arm(stream);
        return;
    }
    tf_tls_result result = tf_tls_shutdown(&stream->io, stream->ssl);
    if (result.outcome == TF_TLS_ENDED) {
        tf_stream_set_failure(stream, result.reason, result.system_error, result.text);
        tf_stream_finish(stream);
        return;
    }
    if (result.outcome == TF_TLS_DONE) {
        (void)shutdown(stream->io.fd, SHUT_WR);
        stream->state = STREAM_LINGERING;
    }
    tf_stream_arm(stream);
}

void tf_stream_linger_turn(tf_stream *stream)
{
    uint8_t scratch[4096];
    ssize_t got = 1;
    for (size_t total = 0; total < TF_STREAM_TURN && got > 0; total += sizeof(scratch)) {
        got = recv(stream->io.fd, scratch, sizeof(scratch), 0);
    }
    if (got == 0) {
        tf_stream_set_failure(stream, TF_STREAM_CLOSED, 0, "closed");
        tf_stream_finish(stream);
    } else if (got < 0 && errno != EAGAIN && errno != EINTR) {
        tf_stream_set_failure(stream, TF_STREAM_RESET, errno, "the connection broke");
        tf_stream_finish(stream);
    }
}

static void keep_last(tf_stream *stream, tf_slice last)
{
    TF_ASSERT(last.len <= TF_STREAM_RECORD);
    stream->last = last.len == 0 ? NULL : tf_alloc(stream->mem, last.len);
    if (stream->last != NULL) {
        memcpy(stream->last, last.data, last.len);
        stream->last_len = last.len;
    }
}

void tf_stream_close(tf_stream *stream, tf_slice last)
{
    if (stream->state == STREAM_OPEN && !stream->write_failed) {
        keep_last(stream, last);
        stream->state = STREAM_CLOSING;
        tf_stream_set_limit(stream, TF_STREAM_LINGER);
        tf_stream_arm(stream);
    } else if (stream->state == STREAM_DIALLING || stream->state == STREAM_SHAKING) {
        tf_stream_set_failure(stream, TF_STREAM_CLOSED, 0, "closed before it was open");
        tf_stream_finish(stream);
    }
}
