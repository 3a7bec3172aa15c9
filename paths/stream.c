#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handshake/identity.h"
#include "paths/stream_internal.h"

/* -- events -------------------------------------------------------------------------------------------------------- */

static void timer_set(struct event *timer, tf_time delay)
{
    struct timeval span = {.tv_sec = (time_t)(delay / TF_SECOND), .tv_usec = (suseconds_t)(delay % TF_SECOND)};
    (void)event_add(timer, &span);
}

void tf_stream_again(tf_stream *stream)
{
    timer_set(&stream->again, 0); /* event_active would run before the loop has looked at other sockets */
}

void tf_stream_again_in(tf_stream *stream, tf_time delay)
{
    timer_set(&stream->again, delay);
}

void tf_stream_set_limit(tf_stream *stream, tf_time delay)
{
    timer_set(&stream->limit, delay);
}

static void set_interest(struct event *event, bool wanted)
{
    bool pending = event_pending(event, EV_READ | EV_WRITE, NULL) != 0;
    if (wanted && !pending) {
        (void)event_add(event, NULL);
    } else if (!wanted && pending) {
        (void)event_del(event);
    }
}

bool tf_stream_has_output(const tf_stream *stream)
{
    return stream->out_from < stream->out_to;
}

static bool open_wants_write(const tf_stream *stream)
{
    if (stream->write_failed) {
        return false;
    }
    if (tf_stream_has_output(stream)) {
        return !stream->write_needs_read;
    }
    return stream->want_write || stream->read_needs_write;
}

void tf_stream_arm(tf_stream *stream)
{
    bool read = false;
    bool write = false;
    if (stream->io.fd < 0) {
        return;
    }
    switch (stream->state) {
    case STREAM_SHAKING:
        read = !stream->read_needs_write;
        write = stream->read_needs_write;
        break;
    case STREAM_OPEN:
        read = stream->in_to - stream->in_from < TF_STREAM_IN && !stream->write_failed;
        write = open_wants_write(stream);
        break;
    case STREAM_CLOSING:
        write = !stream->write_needs_read;
        break;
    case STREAM_LINGERING:
        read = true;
        break;
    case STREAM_DIALLING:
    case STREAM_ENDED:
        break;
    }
    set_interest(&stream->readable, read);
    set_interest(&stream->writable, write);
}

/* -- the end -------------------------------------------------------------------------------------------------------- */

static void report_end(tf_stream *stream)
{
    const tf_stream_end end = {stream->failure.reason, stream->has_opened, stream->failure.system_error,
                               stream->failure.text};
    stream->ops->ended(stream->ctx, stream, &end);
}

static void drop_input(tf_stream *stream)
{
    tf_stream_buffers_give(stream->buffers, &stream->buffers->in, stream->in);
    stream->in = NULL;
    stream->in_from = stream->in_to = 0;
}

static void drop_output(tf_stream *stream)
{
    tf_stream_buffers_give(stream->buffers, &stream->buffers->out, stream->out);
    stream->out = NULL;
    stream->out_from = stream->out_to = 0;
}

static void release(tf_stream *stream)
{
    drop_input(stream);
    drop_output(stream);
    tf_stream_forget_last(stream);
    tf_free(stream->mem, stream->dial, sizeof(*stream->dial));
    SSL_CTX_free(stream->tls);
    tf_free(stream->mem, stream, sizeof(*stream));
}

void tf_stream_free(tf_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    tf_stream_dial_stop(stream);
    tf_stream_drop_socket(stream);
    (void)event_del(&stream->again);
    (void)event_del(&stream->limit);
    stream->state = STREAM_ENDED;
    stream->freed = true;
    if (!stream->busy) {
        release(stream);
    }
}

/* -- writing ------------------------------------------------------------------------------------------------------- */

/* After an attempt to write: what is left of the record waits, or the stream is broken. A reset may have been preceded
 * by an alert that says more, so what can be read is read before the end is told. */
static void after_write(tf_stream *stream, const tf_tls_result *result)
{
    stream->write_needs_read = result->outcome == TF_TLS_WANT_READ;
    if (result->outcome == TF_TLS_ENDED) {
        stream->write_failed = true;
        drop_output(stream);
        tf_stream_set_failure(stream, result->reason, result->system_error, result->text);
        tf_stream_again(stream);
    }
}

/* True: no output waits. */
bool tf_stream_flush(tf_stream *stream)
{
    tf_tls_result result = {.outcome = TF_TLS_DONE};
    while (tf_stream_has_output(stream) && result.outcome == TF_TLS_DONE) {
        size_t done = 0;
        tf_slice rest = tf_slice_of(stream->out + stream->out_from, stream->out_to - stream->out_from);
        result = tf_tls_write(&stream->io, stream->ssl, rest, &done);
        stream->out_from += done;
    }
    if (!tf_stream_has_output(stream)) {
        drop_output(stream);
    }
    after_write(stream, &result);
    return !tf_stream_has_output(stream) && !stream->write_failed;
}

size_t tf_stream_room(const tf_stream *stream)
{
    bool free = stream->state == STREAM_OPEN && !stream->write_failed && !tf_stream_has_output(stream);
    return free && stream->turn_written < TF_STREAM_TURN ? TF_STREAM_RECORD : 0;
}

bool tf_stream_set_output(tf_stream *stream, tf_slice bytes)
{
    stream->out = tf_stream_buffers_take(stream->buffers, &stream->buffers->out);
    if (stream->out == NULL) {
        return false;
    }
    memcpy(stream->out, bytes.data, bytes.len);
    stream->out_from = 0;
    stream->out_to = bytes.len;
    return true;
}

/* Keeps what the socket did not take: the write is repeated with it (moving buffer). */
static tf_tls_result keep_output(tf_stream *stream, tf_slice rest, tf_tls_result result)
{
    return tf_stream_set_output(stream, rest)
               ? result
               : (tf_tls_result){TF_TLS_ENDED, TF_STREAM_INTERNAL, ENOMEM, "buffers"};
}

void tf_stream_write(tf_stream *stream, tf_slice bytes)
{
    if (bytes.len == 0) {
        return;
    }
    TF_ASSERT(bytes.len <= tf_stream_room(stream));
    size_t done = 0;
    tf_tls_result result = tf_tls_write(&stream->io, stream->ssl, bytes, &done);
    stream->turn_written += bytes.len;
    stream->stats.written_bytes += bytes.len;
    stream->stats.written_records++;
    if (done < bytes.len && result.outcome != TF_TLS_ENDED) {
        result = keep_output(stream, tf_slice_of(bytes.data + done, bytes.len - done), result);
    }
    after_write(stream, &result);
    tf_stream_arm(stream);
}

void tf_stream_want_write(tf_stream *stream, bool want)
{
    stream->want_write = want;
    tf_stream_arm(stream);
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

static size_t room_of_input(tf_stream *stream)
{
    if (stream->in_from > 0) {
        memmove(stream->in, stream->in + stream->in_from, stream->in_to - stream->in_from);
        stream->in_to -= stream->in_from;
        stream->in_from = 0;
    }
    return TF_STREAM_IN - stream->in_to;
}

/* Reads until TLS has no more, the buffer is full or the share is used up. */
static tf_tls_result fill(tf_stream *stream, size_t *share)
{
    tf_tls_result result = {.outcome = TF_TLS_DONE};
    if (stream->in == NULL) {
        stream->in = tf_stream_buffers_take(stream->buffers, &stream->buffers->in);
    }
    if (stream->in == NULL) {
        return (tf_tls_result){TF_TLS_ENDED, TF_STREAM_INTERNAL, ENOMEM, "buffers"};
    }
    size_t room = room_of_input(stream);
    while (room > 0 && *share > 0 && result.outcome == TF_TLS_DONE) {
        size_t done = 0;
        size_t cap = room < *share ? room : *share;
        result = tf_tls_read(&stream->io, stream->ssl, stream->in + stream->in_to, cap, &done);
        stream->in_to += done;
        stream->stats.read_bytes += done;
        stream->stats.read_records += done > 0;
        room -= done;
        *share -= done;
    }
    return result;
}

/* The outcome of reading, when the owner has seen all that was read. */
static void after_read(tf_stream *stream, const tf_tls_result *result)
{
    if (stream->in_from == stream->in_to) {
        drop_input(stream);
    }
    stream->read_needs_write = result->outcome == TF_TLS_WANT_WRITE;
    if (result->outcome == TF_TLS_ENDED) {
        bool says_more = result->reason != TF_STREAM_RESET && result->reason != TF_STREAM_TRUNCATED;
        if (!stream->write_failed || says_more) {
            tf_stream_set_failure(stream, result->reason, result->system_error, result->text);
        }
        tf_stream_finish(stream);
        return;
    }
    if (stream->write_needs_read && tf_stream_has_output(stream)) {
        (void)tf_stream_flush(stream);
    }
    bool full = stream->in_to - stream->in_from == TF_STREAM_IN;
    if (result->outcome == TF_TLS_DONE && !full && SSL_has_pending(stream->ssl)) {
        tf_stream_again(stream);
    }
    tf_stream_arm(stream);
}

static void read_turn(tf_stream *stream)
{
    size_t share = TF_STREAM_TURN;
    tf_tls_result result = {.outcome = TF_TLS_DONE};
    tf_tls_io_ready(&stream->io);
    bool progress = true;
    while (progress && result.outcome == TF_TLS_DONE && share > 0) {
        size_t before = share;
        result = fill(stream, &share);
        progress = share < before;
        if (progress && stream->ops->readable != NULL) {
            stream->ops->readable(stream->ctx, stream);
        }
        if (stream->state != STREAM_OPEN) {
            return; /* closed or freed by the owner */
        }
    }
    after_read(stream, &result);
}

tf_slice tf_stream_in(const tf_stream *stream)
{
    return stream->in == NULL ? tf_slice_of(NULL, 0)
                              : tf_slice_of(stream->in + stream->in_from, stream->in_to - stream->in_from);
}

void tf_stream_consume(tf_stream *stream, size_t n)
{
    size_t waiting = stream->in_to - stream->in_from;
    TF_ASSERT(n <= waiting);
    stream->in_from += n;
    bool stopped = waiting == TF_STREAM_IN; /* reading had */
    if ((stopped || n == waiting) && n > 0 && stream->state == STREAM_OPEN && !stream->busy) {
        tf_stream_again(stream); /* and there the buffer goes back */
        tf_stream_arm(stream);
    }
}

/* -- handlers ------------------------------------------------------------------------------------------------------ */

static void write_turn(tf_stream *stream)
{
    stream->turn_written = 0;
    if (tf_stream_flush(stream) && stream->want_write && stream->ops->writable != NULL) {
        stream->ops->writable(stream->ctx, stream);
    }
    if (stream->state == STREAM_OPEN && stream->read_needs_write) {
        read_turn(stream);
    }
    tf_stream_arm(stream);
}

static void handle_readable(tf_stream *stream)
{
    switch (stream->state) {
    case STREAM_SHAKING:
        tf_stream_shake(stream);
        return;
    case STREAM_OPEN:
        read_turn(stream);
        return;
    case STREAM_LINGERING:
        tf_stream_linger_turn(stream);
        return;
    case STREAM_DIALLING:
    case STREAM_CLOSING:
    case STREAM_ENDED:
        return; /* a readiness that was noticed before the state changed */
    }
    TF_UNREACHABLE();
}

static void handle_writable(tf_stream *stream)
{
    switch (stream->state) {
    case STREAM_SHAKING:
        tf_stream_shake(stream);
        return;
    case STREAM_OPEN:
        write_turn(stream);
        return;
    case STREAM_CLOSING:
        tf_stream_closing_turn(stream);
        return;
    case STREAM_DIALLING:
    case STREAM_LINGERING:
    case STREAM_ENDED:
        return;
    }
    TF_UNREACHABLE();
}

static void handle_again(tf_stream *stream)
{
    switch (stream->state) {
    case STREAM_DIALLING:
        tf_stream_dial_next(stream);
        return;
    case STREAM_OPEN:
        read_turn(stream);
        if (stream->state == STREAM_OPEN && stream->write_failed) {
            tf_stream_finish(stream);
        }
        return;
    case STREAM_ENDED:
        report_end(stream);
        return;
    case STREAM_SHAKING:
    case STREAM_CLOSING:
    case STREAM_LINGERING:
        return;
    }
    TF_UNREACHABLE();
}

static void handle_limit(tf_stream *stream)
{
    switch (stream->state) {
    case STREAM_DIALLING:
        tf_stream_dial_late(stream);
        return;
    case STREAM_SHAKING:
        tf_stream_set_failure(stream, TF_STREAM_TIMEOUT, 0, "the TLS handshake was not over in time");
        tf_stream_finish(stream);
        return;
    case STREAM_CLOSING:
    case STREAM_LINGERING:
        tf_stream_set_failure(stream, TF_STREAM_TIMEOUT, 0, "the peer did not close in time");
        tf_stream_finish(stream);
        return;
    case STREAM_OPEN:
    case STREAM_ENDED:
        return;
    }
    TF_UNREACHABLE();
}

void tf_stream_enter(tf_stream *stream)
{
    stream->busy = true;
}

void tf_stream_leave(tf_stream *stream)
{
    stream->busy = false;
    if (stream->freed) {
        release(stream);
    }
}

static void handle(tf_stream *stream, void (*handler)(tf_stream *))
{
    tf_stream_enter(stream);
    handler(stream);
    tf_stream_leave(stream);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    handle(arg, handle_readable);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    handle(arg, handle_writable);
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    handle(arg, handle_again);
}

static void on_limit(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    handle(arg, handle_limit);
}

/* -- making -------------------------------------------------------------------------------------------------------- */

tf_err tf_stream_new(tf_stream **out, const tf_stream_env *env, const tf_stream_ops *ops, void *ctx)
{
    tf_stream *stream = tf_alloc(env->mem, sizeof(*stream));
    if (stream == NULL) {
        return TF_ERR_NOMEM;
    }
    stream->mem = env->mem;
    stream->buffers = env->buffers;
    stream->base = env->base;
    stream->ops = ops;
    stream->ctx = ctx;
    stream->io.fd = -1;
    TF_ASSERT(SSL_CTX_up_ref(env->tls) == 1);
    stream->tls = env->tls;
    TF_ASSERT(evtimer_assign(&stream->again, env->base, on_again, stream) == 0);
    TF_ASSERT(evtimer_assign(&stream->limit, env->base, on_limit, stream) == 0);
    *out = stream;
    return TF_OK;
}

void tf_stream_use_socket(tf_stream *stream, int fd)
{
    stream->io = (tf_tls_io){.fd = fd};
    TF_ASSERT(event_assign(&stream->readable, stream->base, fd, EV_READ | EV_PERSIST, on_readable, stream) == 0);
    TF_ASSERT(event_assign(&stream->writable, stream->base, fd, EV_WRITE | EV_PERSIST, on_writable, stream) == 0);
}

void tf_stream_begin(tf_stream *stream)
{
    tf_stream_dial_stop(stream);
    tf_free(stream->mem, stream->dial, sizeof(*stream->dial));
    stream->dial = NULL;
    (void)event_del(&stream->limit);
    stream->read_needs_write = false;
    stream->has_opened = true;
    stream->state = STREAM_OPEN;
    if (stream->ops->opened != NULL) {
        stream->ops->opened(stream->ctx, stream);
    }
    if (stream->state == STREAM_OPEN) {
        read_turn(stream); /* the peer's first bytes may have come with the end of its handshake */
    }
}

/* -- looking at it ------------------------------------------------------------------------------------------------- */

void tf_stream_set_owner(tf_stream *stream, const tf_stream_ops *ops, void *ctx)
{
    stream->ops = ops;
    stream->ctx = ctx;
}

bool tf_stream_is_open(const tf_stream *stream)
{
    return stream->state == STREAM_OPEN;
}

tf_err tf_stream_peer_id(const tf_stream *stream, tf_node_id *out)
{
    return stream->has_opened && stream->ssl != NULL ? tf_identity_peer_id(stream->ssl, out) : TF_ERR_PEER_AUTH;
}

struct ssl_st *tf_stream_ssl(tf_stream *stream)
{
    return stream->ssl;
}

const tf_address *tf_stream_local(const tf_stream *stream)
{
    return &stream->local;
}

const tf_address *tf_stream_remote(const tf_stream *stream)
{
    return &stream->remote;
}

tf_time tf_stream_rtt(const tf_stream *stream)
{
    struct tcp_info info = {.tcpi_rtt = 0};
    socklen_t len = sizeof(info);
    if (stream->io.fd < 0 || getsockopt(stream->io.fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0) {
        return 0;
    }
    return info.tcpi_rtt;
}

void tf_stream_get_stats(const tf_stream *stream, tf_stream_stats *out)
{
    *out = stream->stats;
}
