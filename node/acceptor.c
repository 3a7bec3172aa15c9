/* Streams that were accepted and have no session yet, and those that only have their last bytes to send. Bounded in number
 * and in time; the TLS rules have already turned away every key that is not let in (P8).
 *
 * While as many handshakes are going on as may, nobody is accepted: whoever comes waits in the system's queue and is served
 * as soon as there is time for it. So that those who only want to fill the places cannot keep them for long, a handshake
 * that takes longer than TF_HANDSHAKE_PRESSED makes room then, unless it is this node that is slow. */
#include <poll.h>

#include "node/node_internal.h"
#include "proto/frame.h"

#define PLACE_PROBE (1 * TF_SECOND) /* how long the holder of an exclusive place may take to answer */

typedef struct tf_pending {
    tf_list_node in_list; /* node->handshakes or node->lingers */
    tf_node *node;
    tf_stream *stream;
    struct event *timer;
    bool lingers; /* nothing is read any more */
    tf_time accepted_at;
    uint64_t turn; /* of the loop, at that time */
    /* a HELLO that waits for the holder of its exclusive place to answer a probe */
    bool waits;
    tf_hello hello;
    uint64_t holder; /* its session */
    tf_time asked_at;
} tf_pending;

/* -- how many there may be ----------------------------------------------------------------------------------------- */

static tf_pending *first_of(const tf_list *list)
{
    tf_list_node *first = tf_list_first(list);
    return first == NULL ? NULL : TF_CONTAINER(first, tf_pending, in_list);
}

static void pause_listeners(tf_node *node, bool pause)
{
    for (tf_listen *listen = node->listens; listen != NULL; listen = listen->next) {
        tf_listener_pause(listen->listener, pause);
    }
}

static void begin_handshake(tf_pending *p)
{
    tf_node *node = p->node;
    p->accepted_at = tf_edge_now();
    p->turn = node->turns;
    tf_list_append(&node->handshakes, &p->in_list);
    node->handshake_count++;
    if (node->handshake_count >= node->config.limits.handshakes && !node->full) {
        node->full = true;
        pause_listeners(node, true);
        tf_node_arm(node->relief, p->accepted_at);
        TF_LOG(node->config.log, TF_LOG_WARN, "handshakes_full", NULL,
               tf_log_uint("handshakes", node->handshake_count));
    }
}

/* Some places are free again before others are accepted, so that not each of them costs a call of the system. */
static void end_handshake(tf_pending *p)
{
    tf_node *node = p->node;
    size_t limit = node->config.limits.handshakes;
    tf_list_remove(&p->in_list);
    node->handshake_count--;
    if (node->full && node->handshake_count < limit - limit / 8) {
        node->full = false;
        (void)event_del(node->relief);
        pause_listeners(node, node->draining);
    }
}

static void pending_free(tf_pending *p)
{
    tf_node *node = p->node;
    if (p->lingers) {
        tf_list_remove(&p->in_list);
        node->linger_count--;
    } else {
        end_handshake(p);
    }
    tf_node_free_timer(p->timer);
    tf_stream_free(p->stream);
    tf_free(node->mem, p, sizeof(*p));
}

static void too_slow(tf_pending *p, const char *text)
{
    p->node->stats.handshakes_failed++;
    TF_LOG(p->node->config.log, TF_LOG_WARN, "handshake_failed", NULL,
           tf_log_address("address", tf_stream_remote(p->stream)), tf_log_str("reason", "timeout"),
           tf_log_str("text", text));
    pending_free(p);
}

/* The oldest make room, as many as it takes. */
static void on_relief(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    tf_node *node = ctx;
    tf_time now = tf_edge_now();
    tf_pending *p = first_of(&node->handshakes);
    while (node->full && p != NULL && now >= tf_time_add(p->accepted_at, TF_HANDSHAKE_PRESSED) &&
           node->turns - p->turn >= TF_HANDSHAKE_TURNS) {
        too_slow(p, "others wait to be accepted");
        p = first_of(&node->handshakes);
    }
    if (node->full) {
        tf_node_arm(node->relief, tf_time_add(now, TF_HANDSHAKE_PRESSED / TF_HANDSHAKE_TURNS)); /* a turn by itself */
    }
}

tf_err tf_acceptor_init(tf_node *node)
{
    node->relief = event_new(node->base, -1, 0, on_relief, node);
    return node->relief == NULL ? TF_ERR_NOMEM : TF_OK;
}

void tf_acceptor_free_all(tf_node *node)
{
    for (tf_pending *p = NULL; (p = first_of(&node->handshakes)) != NULL;) {
        pending_free(p);
    }
    for (tf_pending *p = NULL; (p = first_of(&node->lingers)) != NULL;) {
        pending_free(p);
    }
}

/* -- the last bytes ------------------------------------------------------------------------------------------------ */

static void lingering_readable(void *ctx, tf_stream *stream)
{
    (void)ctx;
    tf_stream_consume(stream, tf_stream_in(stream).len);
}

static void lingering_ended(void *ctx, tf_stream *stream, const tf_stream_end *end)
{
    (void)stream;
    (void)end;
    pending_free(ctx);
}

static const tf_stream_ops lingering_ops = {.readable = lingering_readable, .ended = lingering_ended};

static void linger(tf_pending *p, tf_slice last)
{
    tf_node *node = p->node;
    tf_pending *oldest = node->linger_count >= TF_LINGERS_MAX ? first_of(&node->lingers) : NULL;
    if (oldest != NULL) {
        pending_free(oldest);
    }
    p->lingers = true;
    tf_list_append(&node->lingers, &p->in_list);
    node->linger_count++;
    tf_stream_set_owner(p->stream, &lingering_ops, p);
    tf_stream_close(p->stream, last);
}

void tf_pending_linger(tf_node *node, tf_stream **stream, tf_slice last)
{
    tf_pending *p = tf_stream_is_open(*stream) ? tf_alloc(node->mem, sizeof(*p)) : NULL;
    if (p == NULL) {
        tf_stream_free(*stream);
    } else {
        *p = (tf_pending){.node = node, .stream = *stream};
        linger(p, last);
    }
    *stream = NULL;
}

/* who: whose lines of the log this is one of; NULL: of all who are refused for that. */
static void refuse_as(tf_pending *p, tf_close_code code, const char *reason, const tf_log_peer *who)
{
    uint8_t buf[TF_CLOSE_REASON_MAX + 32];
    tf_writer w;
    tf_frame frame = {.type = TF_FRAME_CLOSE, .u.close = {(uint64_t)code, tf_slice_str(reason)}};
    tf_wr_init(&w, buf, sizeof(buf));
    TF_ASSERT(tf_frame_write(&w, &frame));
    TF_LOG(p->node->config.log, TF_LOG_INFO, "hello_refused", who,
           tf_log_str("code", tf_close_text((uint64_t)code)), tf_log_str("reason", reason));
    p->node->stats.handshakes_failed++;
    (void)event_del(p->timer);
    end_handshake(p);
    linger(p, tf_slice_of(buf, tf_wr_len(&w)));
}

static void refuse(tf_pending *p, tf_close_code code, const char *reason)
{
    tf_log_peer who = {.id = {{0}}};
    refuse_as(p, code, reason, tf_stream_peer_id(p->stream, &who.id) == TF_OK ? &who : NULL);
}

/* -- HELLO --------------------------------------------------------------------------------------------------------- */

static size_t instances_of(const tf_node *node, const tf_node_id *id)
{
    size_t count = 0;
    for (const tf_connection *c = NULL; (c = tf_connection_next_of(node, id, c)) != NULL;) {
        count++;
    }
    return count;
}

/* Of those that were accepted the one that has had no route the longest; NULL: all have one. */
static tf_connection *longest_lost(const tf_node *node, const tf_node_id *id)
{
    tf_connection *found = NULL;
    for (tf_connection *c = NULL; (c = tf_connection_next_of(node, id, c)) != NULL;) {
        bool lost = c->stream == NULL && c->lost_since != TF_NEVER && !c->agreed.dialler;
        if (lost && (found == NULL || c->lost_since < found->lost_since)) {
            found = c;
        }
    }
    return found;
}

/* A client that crashes again and again leaves sessions behind, each for session_timeout: they do not lock it out. */
static bool has_room_for_instance(const tf_node *node, const tf_node_id *id)
{
    if (instances_of(node, id) < TF_INSTANCES_PER_PEER) {
        return true;
    }
    tf_connection *lost = longest_lost(node, id);
    if (lost == NULL) {
        return false;
    }
    tf_connection_close(lost, TF_CLOSE_TOO_MANY, "many instances of this identity, and this one cannot be reached");
    return true;
}

/* The connection of another instance that holds the place of an identity that says `exclusive`; NULL: it is free. */
static tf_connection *holder_of_place(tf_node *node, const tf_node_id *id, const tf_hello *hello)
{
    for (tf_connection *c = NULL; hello->offer.exclusive && (c = tf_connection_next_of(node, id, c)) != NULL;) {
        if (c->agreed.peer_exclusive && c->agreed.peer_instance != hello->offer.instance) {
            return c;
        }
    }
    return NULL;
}

static void ask_holder(tf_pending *p, tf_connection *holder, const tf_hello *hello)
{
    p->waits = true;
    p->hello = *hello;
    p->holder = holder->session;
    p->asked_at = tf_edge_now();
    tf_link_probe(holder->link, p->asked_at);
    tf_hub_touch(p->node->hub, holder->conn);
    tf_node_arm(p->timer, tf_time_add(p->asked_at, PLACE_PROBE));
}

static tf_negotiate_session session_state(tf_node *node, const tf_connection *c)
{
    tf_negotiate_session state = {0};
    if (c != NULL) {
        state = tf_connection_state(c);
    }
    while (state.new_session == 0 || tf_connection_by_session(node, state.new_session) != NULL) {
        state.new_session = tf_rand_u64(node->rand);
    }
    return state;
}

static tf_connection *resumable(const tf_node *node, const tf_node_id *id, const tf_hello *hello)
{
    tf_connection *c = hello->offer.resume.present ? tf_connection_by_session(node, hello->offer.resume.session) : NULL;
    bool same = c != NULL && !c->failed && !c->agreed.dialler && tf_node_id_eq(&c->peer_id, id) &&
                c->agreed.peer_instance == hello->offer.instance;
    return same ? c : NULL;
}

static bool write_welcome(tf_pending *p, const tf_welcome *welcome)
{
    uint8_t payload[4096];
    uint8_t buf[sizeof(payload) + TF_FRAME_HEADER];
    size_t len = 0;
    tf_writer w;
    if (tf_welcome_encode(welcome, payload, sizeof(payload), &len) != TF_OK) {
        return false;
    }
    tf_frame frame = {.type = TF_FRAME_WELCOME, .u.payload = tf_slice_of(payload, len)};
    tf_wr_init(&w, buf, sizeof(buf));
    if (!tf_frame_write(&w, &frame) || tf_stream_room(p->stream) < tf_wr_len(&w)) {
        return false;
    }
    tf_stream_write(p->stream, tf_slice_of(buf, tf_wr_len(&w)));
    return true;
}

static void start_or_resume(tf_pending *p, const tf_node_id *id, tf_connection *c, const tf_welcome *welcome,
                            const tf_agreed *agreed)
{
    tf_err err = TF_OK;
    if (c != NULL && agreed->resumed) {
        err = tf_link_resume(c->link, tf_edge_now(), agreed->peer_next);
    } else {
        if (c != NULL) {
            tf_connection_close(c, TF_CLOSE_NORMAL, "a new session replaces this one");
        }
        tf_connection_start start = {.peer_id = *id, .standby = tf_node_standby(p->node, id), .agreed = agreed};
        err = tf_connection_new(&c, p->node, &start);
        if (err == TF_OK) {
            tf_peer_accepted(c);
        }
    }
    if (err != TF_OK || !write_welcome(p, welcome)) {
        if (err == TF_ERR_LIMIT_ITEMS) {
            refuse_as(p, TF_CLOSE_TOO_MANY, "too many connections", NULL);
            return;
        }
        refuse(p, tf_close_from_err(err), tf_err_text(err));
        if (c != NULL && err != TF_ERR_NOMEM) {
            tf_connection_close(c, tf_close_from_err(err), tf_err_text(err));
        }
        return;
    }
    tf_stream *stream = p->stream;
    p->stream = NULL;
    tf_node *node = p->node;
    pending_free(p);
    if (tf_connection_adopt(c, &stream, agreed) != TF_OK) {
        node->stats.handshakes_failed++;
    }
}

static void answer(tf_pending *p, const tf_node_id *id, const tf_hello *theirs)
{
    tf_node *node = p->node;
    tf_hello ours;
    tf_welcome welcome;
    tf_agreed agreed;
    if (node->draining) {
        refuse_as(p, TF_CLOSE_DRAINING, "this node is shutting down", NULL);
        return;
    }
    tf_connection *holder = holder_of_place(node, id, theirs);
    if (holder != NULL) {
        ask_holder(p, holder, theirs);
        return;
    }
    tf_connection *c = resumable(node, id, theirs);
    tf_connection *before = c != NULL ? c : tf_connection_find(node, id, &theirs->offer.instance);
    if (c == NULL && tf_peer_keeps_own_dial(node, id, before)) {
        refuse(p, TF_CLOSE_KEY_IN_USE, "this node has dialled you already");
        return;
    }
    if (before == NULL && !has_room_for_instance(node, id)) {
        refuse(p, TF_CLOSE_TOO_MANY, "too many instances of this identity");
        return;
    }
    tf_node_hello(node, &ours, TF_ROUTES_BOTH, TF_ROUTES_BOTH);
    tf_negotiate_session state = session_state(node, c);
    tf_err err = tf_negotiate_answer(theirs, &ours, &state, &welcome, &agreed);
    if (err != TF_OK) {
        refuse(p, err == TF_ERR_PEER_VERSION ? TF_CLOSE_UNSUPPORTED_VERSION : TF_CLOSE_REFUSED, tf_err_text(err));
        return;
    }
    start_or_resume(p, id, before, &welcome, &agreed);
}

/* The probe's time is over: the first instance keeps its place while it answers, else it is replaced. */
static void place_decided(tf_pending *p)
{
    tf_node_id id;
    tf_connection *holder = tf_connection_by_session(p->node, p->holder);
    p->waits = false;
    if (holder != NULL && tf_link_heard(holder->link) >= p->asked_at) {
        refuse(p, TF_CLOSE_KEY_IN_USE, "another instance of this identity is connected");
        return;
    }
    if (holder != NULL) {
        tf_connection_close(holder, TF_CLOSE_KEY_IN_USE, "replaced by another instance");
    }
    tf_err err = tf_stream_peer_id(p->stream, &id);
    if (err != TF_OK) {
        refuse(p, tf_close_from_err(err), tf_err_text(err));
        return;
    }
    answer(p, &id, &p->hello);
}

static void on_readable(void *ctx, tf_stream *stream)
{
    tf_pending *p = ctx;
    if (p->waits) {
        return; /* what follows a HELLO waits for the WELCOME */
    }
    tf_reader r;
    tf_frame frame;
    tf_hello hello;
    tf_node_id id;
    tf_slice in = tf_stream_in(stream);
    tf_rd_init(&r, in);
    tf_err err = tf_frame_read(&r, &frame);
    if (err == TF_ERR_AGAIN) {
        return;
    }
    if (err == TF_OK && frame.type != TF_FRAME_HELLO) {
        err = TF_ERR_PEER_STATE;
    }
    if (err == TF_OK) {
        err = tf_hello_decode(&hello, frame.u.payload);
    }
    if (err == TF_OK) {
        err = tf_stream_peer_id(stream, &id);
    }
    tf_stream_consume(stream, in.len - tf_rd_left(&r));
    if (err != TF_OK) {
        refuse(p, tf_close_from_err(err), tf_err_text(err));
        return;
    }
    answer(p, &id, &hello);
}

static void on_opened(void *ctx, tf_stream *stream)
{
    (void)ctx;
    (void)stream;
}

static void on_ended(void *ctx, tf_stream *stream, const tf_stream_end *end)
{
    (void)stream;
    tf_pending *p = ctx;
    tf_node *node = p->node;
    bool refused = end->reason == TF_STREAM_AUTH;
    if (refused) {
        node->stats.handshakes_refused++;
    } else {
        node->stats.handshakes_failed++;
    }
    TF_LOG(node->config.log, TF_LOG_WARN, refused ? "handshake_refused" : "handshake_failed", NULL,
           tf_log_address("address", tf_stream_remote(p->stream)),
           tf_log_str("reason", tf_stream_reason_name(end->reason)), tf_log_str("text", end->text));
    pending_free(p);
}

static const tf_stream_ops pending_ops = {.opened = on_opened, .readable = on_readable, .ended = on_ended};

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    tf_pending *p = ctx;
    if (p->waits) {
        place_decided(p);
        return;
    }
    too_slow(p, "no HELLO in time");
}

/* While it waited to be accepted its client lost patience: a handshake would be for nothing, and others wait. */
static bool has_gone(int fd)
{
    struct pollfd look = {.fd = fd, .events = POLLRDHUP};
    return poll(&look, 1, 0) > 0;
}

void tf_acceptor_accepted(tf_node *node, int fd)
{
    tf_stream_env env = {.base = node->base, .tls = node->server_ctx, .mem = node->mem, .buffers = &node->buffers};
    node->stats.accepted++;
    tf_pending *p = has_gone(fd) ? NULL : tf_alloc(node->mem, sizeof(*p));
    if (p == NULL) {
        node->stats.handshakes_failed++;
        (void)evutil_closesocket(fd);
        return;
    }
    *p = (tf_pending){.node = node};
    begin_handshake(p);
    p->timer = event_new(node->base, -1, 0, on_timer, p);
    tf_err err = p->timer == NULL ? TF_ERR_NOMEM : TF_OK;
    if (err != TF_OK) {
        (void)evutil_closesocket(fd);
    } else {
        err = tf_stream_accept(&p->stream, &env, fd, TF_HANDSHAKE_LIMIT, &pending_ops, p);
    }
    if (err != TF_OK) {
        node->stats.handshakes_failed++;
        pending_free(p);
        return;
    }
    tf_node_arm(p->timer, tf_time_add(tf_edge_now(), TF_HANDSHAKE_LIMIT));
}
