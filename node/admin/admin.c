#include "node/admin/admin.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <stdio.h>
#include <unistd.h>

#include "node/admin/http.h"
#include "node/admin/ref_line.h"
#include "node/admin/socket.h"
#include "node/list.h"
#include "proto/version.h"

#define NDJSON "application/x-ndjson"
#define TEXT "text/plain; charset=utf-8"
#define REPLY_HEAD_MAX 512u
#define CHUNK_HEAD_MAX 16u

struct tf_admin {
    tf_admin_config config;
    struct evconnlistener *listener;
    struct event *resume; /* accepting, after there was no descriptor */
    tf_list connections;
    size_t count;
    tf_admin_socket socket;
};

typedef enum connection_state {
    CONNECTION_READING, /* its request */
    CONNECTION_TELLING, /* there is more of the answer */
    CONNECTION_ENDING   /* its last bytes are to go out */
} connection_state;

typedef struct connection {
    tf_list_node in_admin;
    tf_admin *admin;
    struct bufferevent *stream;
    struct event *late; /* the request is not there in time */
    connection_state state;
    bool chunked;
    tf_node_refs_cursor cursor;
} connection;

static const struct timeval span = {.tv_sec = (time_t)(TF_ADMIN_SPAN / TF_SECOND)};

static void connection_free(connection *c)
{
    tf_list_remove(&c->in_admin);
    c->admin->count--;
    if (c->stream != NULL) {
        bufferevent_free(c->stream);
    }
    if (c->late != NULL) {
        event_free(c->late);
    }
    tf_free(c->admin->config.mem, c, sizeof(*c));
}

/* -- answers ------------------------------------------------------------------------------------------------------- */

/* How much more goes out is not told: the end of the connection, or the last chunk, is the end. */
static void put_head(const connection *c, const char *status, const char *fields)
{
    char head[REPLY_HEAD_MAX];
    int len = snprintf(head, sizeof(head), "HTTP/1.1 %s\r\n%sCache-Control: no-store\r\nConnection: close\r\n\r\n",
                       status, fields);
    TF_ASSERT(len > 0 && (size_t)len < sizeof(head));
    (void)bufferevent_write(c->stream, head, (size_t)len);
}

static void put_short(connection *c, const char *status, const char *extra, const char *body)
{
    char fields[REPLY_HEAD_MAX / 2];
    (void)snprintf(fields, sizeof(fields), "Content-Type: " TEXT "\r\nContent-Length: %zu\r\n%s", strlen(body), extra);
    put_head(c, status, fields);
    (void)bufferevent_write(c->stream, body, strlen(body));
    c->state = CONNECTION_ENDING;
}

static void put_chunk(const connection *c, const char *text, size_t len)
{
    char head[CHUNK_HEAD_MAX];
    if (c->chunked) {
        int head_len = snprintf(head, sizeof(head), "%zx\r\n", len);
        (void)bufferevent_write(c->stream, head, (size_t)head_len);
    }
    (void)bufferevent_write(c->stream, text, len);
    if (c->chunked) {
        (void)bufferevent_write(c->stream, "\r\n", 2);
    }
}

/* One piece of GET /refs; the next one when this has gone out. */
static void tell_refs(connection *c)
{
    char text[TF_ADMIN_PIECE];
    const tf_admin_source *source = &c->admin->config.source;
    tf_node_ref ref;
    size_t len = 0;
    while (c->state == CONNECTION_TELLING && sizeof(text) - len >= TF_REF_LINE_MAX) {
        if (source->next_ref(source->ctx, &c->cursor, &ref)) {
            len += tf_ref_line(text + len, &ref);
            continue;
        }
        tf_router_stats stats;
        source->refs_stats(source->ctx, &stats);
        len += tf_ref_last_line(text + len, &stats);
        c->state = CONNECTION_ENDING;
    }
    put_chunk(c, text, len);
    if (c->state == CONNECTION_ENDING && c->chunked) {
        (void)bufferevent_write(c->stream, "0\r\n\r\n", 5);
    }
}

static void answer(connection *c, const tf_http_request *request)
{
    if (!tf_slice_eq(request->method, tf_slice_str("GET"))) {
        put_short(c, "405 Method Not Allowed", "Allow: GET\r\n", "only GET\n");
    } else if (tf_slice_eq(request->path, tf_slice_str("/version"))) {
        put_short(c, "200 OK", "", "twofold " TF_VERSION "\n");
    } else if (tf_slice_eq(request->path, tf_slice_str("/refs"))) {
        c->state = CONNECTION_TELLING;
        c->chunked = request->minor > 0;
        put_head(c, "200 OK",
                 c->chunked ? "Content-Type: " NDJSON "\r\nTransfer-Encoding: chunked\r\n"
                            : "Content-Type: " NDJSON "\r\n");
        tell_refs(c);
    } else {
        put_short(c, "404 Not Found", "", "there are /refs and /version\n");
    }
}

/* -- connections --------------------------------------------------------------------------------------------------- */

static void read_request(connection *c, struct evbuffer *input)
{
    struct evbuffer_ptr end = evbuffer_search(input, "\r\n\r\n", 4, NULL);
    size_t len = end.pos < 0 ? evbuffer_get_length(input) : (size_t)end.pos + 4;
    tf_http_request request;
    if (end.pos < 0 && len < TF_HTTP_HEAD_MAX) {
        return;
    }
    (void)event_del(c->late);
    const uint8_t *head = len > TF_HTTP_HEAD_MAX || end.pos < 0 ? NULL : evbuffer_pullup(input, (ev_ssize_t)len);
    if (len > TF_HTTP_HEAD_MAX || end.pos < 0) {
        put_short(c, "431 Request Header Fields Too Large", "", "the request is too long\n");
    } else if (head == NULL || !tf_http_parse(tf_slice_of(head, len), &request)) {
        put_short(c, "400 Bad Request", "", "this is no request of HTTP/1\n");
    } else {
        answer(c, &request);
    }
}

static void on_read(struct bufferevent *stream, void *ctx)
{
    connection *c = ctx;
    struct evbuffer *input = bufferevent_get_input(stream);
    if (c->state == CONNECTION_READING) {
        read_request(c, input);
    }
    if (c->state != CONNECTION_READING) {
        (void)evbuffer_drain(input, evbuffer_get_length(input)); /* what else it says is not looked at */
    }
}

static void on_written(struct bufferevent *stream, void *ctx)
{
    connection *c = ctx;
    (void)stream;
    if (c->state == CONNECTION_TELLING) {
        tell_refs(c);
    } else if (c->state == CONNECTION_ENDING) {
        connection_free(c);
    }
}

static void on_event(struct bufferevent *stream, short what, void *ctx)
{
    connection *c = ctx;
    (void)stream;
    bool only_asked = (what & BEV_EVENT_EOF) != 0 && c->state != CONNECTION_READING; /* it still reads, maybe */
    if (!only_asked) {
        connection_free(c);
    }
}

static void on_late(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    connection_free(ctx);
}

static void on_accepted(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from, int len, void *ctx)
{
    tf_admin *admin = ctx;
    (void)listener;
    (void)from;
    (void)len;
    connection *c = admin->count < TF_ADMIN_CONNECTIONS ? tf_alloc(admin->config.mem, sizeof(*c)) : NULL;
    if (c == NULL) {
        (void)close(fd);
        return;
    }
    *c = (connection){.admin = admin};
    tf_list_append(&admin->connections, &c->in_admin);
    admin->count++;
    c->late = evtimer_new(admin->config.base, on_late, c);
    c->stream = bufferevent_socket_new(admin->config.base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (c->stream == NULL) {
        (void)close(fd);
    }
    if (c->stream == NULL || c->late == NULL || evtimer_add(c->late, &span) != 0) {
        connection_free(c);
        return;
    }
    bufferevent_setcb(c->stream, on_read, on_written, on_event, c);
    bufferevent_setwatermark(c->stream, EV_READ, 0, TF_HTTP_HEAD_MAX);
    (void)bufferevent_set_timeouts(c->stream, NULL, &span);
    (void)bufferevent_enable(c->stream, EV_READ | EV_WRITE);
}

/* Out of descriptors, most likely: whoever waits goes on to wait. */
static void on_accept_failed(struct evconnlistener *listener, void *ctx)
{
    static const struct timeval pause = {.tv_sec = 1};
    tf_admin *admin = ctx;
    (void)evconnlistener_disable(listener);
    (void)evtimer_add(admin->resume, &pause);
}

static void on_resume(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    tf_admin *admin = ctx;
    (void)evconnlistener_enable(admin->listener);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static tf_err start(tf_admin *admin)
{
    admin->resume = evtimer_new(admin->config.base, on_resume, admin);
    admin->listener = admin->resume == NULL
                          ? NULL
                          : evconnlistener_new(admin->config.base, on_accepted, admin,
                                               LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, admin->socket.fd);
    if (admin->listener == NULL) {
        return TF_ERR_NOMEM;
    }
    evconnlistener_set_error_cb(admin->listener, on_accept_failed);
    return TF_OK;
}

tf_err tf_admin_new(tf_admin **out, const tf_admin_config *config, char why[TF_WHY_MAX])
{
    tf_admin *admin = tf_alloc(config->mem, sizeof(*admin));
    (void)snprintf(why, TF_WHY_MAX, "%s", tf_err_text(TF_ERR_NOMEM));
    if (admin == NULL) {
        return TF_ERR_NOMEM;
    }
    *admin = (tf_admin){.config = *config, .socket = {.fd = -1}};
    tf_list_init(&admin->connections);
    tf_err err = tf_admin_socket_open(&admin->socket, config->directory, TF_ADMIN_NAME, why);
    if (err == TF_OK) {
        err = start(admin);
    }
    if (err != TF_OK) {
        tf_admin_free(admin);
        return err;
    }
    *out = admin;
    return TF_OK;
}

void tf_admin_free(tf_admin *admin)
{
    if (admin == NULL) {
        return;
    }
    while (!tf_list_is_empty(&admin->connections)) {
        connection_free(TF_CONTAINER(admin->connections.head.next, connection, in_admin));
    }
    if (admin->listener != NULL) {
        evconnlistener_free(admin->listener);
        admin->socket.fd = -1; /* which is closed by that */
    }
    if (admin->resume != NULL) {
        event_free(admin->resume);
    }
    tf_admin_socket_close(&admin->socket);
    tf_free(admin->config.mem, admin, sizeof(*admin));
}
