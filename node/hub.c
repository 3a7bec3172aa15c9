#include "node/hub.h"

#include "node/client_internal.h"
#include "node/hub_internal.h"
#include "node/name.h"

#define VISITS_PER_RUN 256u
#define MESSAGES_PER_VISIT 64u
#define FEEDS_PER_VISIT 256u
#define FAN_OUT 16384u
#define COMMIT_BYTES (1u << 28)
#define OWN_MESSAGES 1024u /* drops and acks of a session beside what it is asked for */

/* -- life ---------------------------------------------------------------------------------------------------------- */

static uint32_t or_default(uint32_t value, uint32_t standard)
{
    return value == 0 ? standard : value;
}

static void fill_defaults(tf_hub_config *config)
{
    config->max_in_flight = or_default(config->max_in_flight, TF_MAX_IN_FLIGHT);
    config->max_message = or_default(config->max_message, TF_MESSAGE_MAX);
    config->max_channels = or_default(config->max_channels, TF_CHANNELS_MAX);
    config->channels_per_peer = or_default(config->channels_per_peer, TF_SUBSCRIPTIONS_PER_PEER);
    config->subscriptions_per_peer = or_default(config->subscriptions_per_peer, TF_SUBSCRIPTIONS_PER_PEER);
    config->out_queue_items = or_default(config->out_queue_items, TF_OUT_QUEUE_ITEMS);
    config->out_queue_bytes = or_default(config->out_queue_bytes, TF_OUT_QUEUE_BYTES);
    config->fan_out = or_default(config->fan_out, FAN_OUT);
    uint64_t window = (uint64_t)config->max_in_flight * config->max_message;
    config->commit_bytes_per_peer =
        or_default(config->commit_bytes_per_peer, window < COMMIT_BYTES / 4 ? (uint32_t)window : COMMIT_BYTES / 4);
    if (config->commit_bytes == 0) {
        config->commit_bytes = COMMIT_BYTES;
    }
}

static bool is_config_valid(const tf_hub_config *config)
{
    return config->max_in_flight <= TF_MAX_IN_FLIGHT_MAX && config->max_message >= TF_MESSAGE_MIN_LIMIT &&
           config->max_message <= TF_MESSAGE_MAX;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Bursts are never below the window (S7). */
static void init_rates(tf_hub *hub)
{
    const tf_hub_config *config = &hub->config;
    uint64_t times = TF_MAX_IN_FLIGHT_MAX / config->max_in_flight;
    hub->rates[TF_RATE_SENDS] = (tf_rate_limit){config->rate, larger(config->rate, config->max_in_flight)};
    hub->rates[TF_RATE_BYTES] =
        (tf_rate_limit){config->rate_bytes, larger(config->rate_bytes, config->commit_bytes_per_peer)};
    for (size_t i = 0; i < TF_RATES; i++) {
        uint64_t burst = hub->rates[i].burst < TF_RATE_BURST_MAX / times ? hub->rates[i].burst * times : TF_RATE_BURST_MAX;
        hub->relay_rates[i] = (tf_rate_limit){hub->rates[i].per_second * times, burst};
    }
}

static void init_tables(tf_hub *hub)
{
    const tf_mem *mem = hub->config.mem;
    hub->hash_key = tf_rand_u64(hub->config.rand);
    hub->max_body = hub->config.max_message - 2048u;
    if (hub->max_body > TF_BODY_MAX) {
        hub->max_body = TF_BODY_MAX;
    }
    tf_map_init(&hub->objects, mem, hub->hash_key);
    tf_map_init(&hub->requests, mem, hub->hash_key);
    tf_map_init(&hub->watches, mem, hub->hash_key);
    tf_map_init(&hub->pending, mem, hub->hash_key);
    tf_channels_init(&hub->channels, mem, hub->hash_key, hub->config.max_channels);
    tf_list_init(&hub->gathered);
    tf_list_init(&hub->conns);
    tf_list_init(&hub->ready);
    tf_list_init(&hub->dirty);
    tf_list_init(&hub->failed);
    tf_list_init(&hub->later);
    tf_list_init(&hub->clients);
    tf_hub_names_init(hub);
    tf_hub_app_init(hub);
}

static tf_err make_buffers(tf_hub *hub)
{
    const tf_mem *mem = hub->config.mem;
    /* Room for an activity and for an answer of `read`, also of bodies that were stored under a higher limit. */
    hub->scratch_size = (size_t)TF_MESSAGE_MAX + TF_HUB_READ_BYTES;
    hub->scratch = tf_alloc(mem, hub->scratch_size);
    if (hub->scratch == NULL) {
        return TF_ERR_NOMEM;
    }
    if (hub->has_store) {
        hub->group.ops = tf_alloc(mem, TF_HUB_GROUP_OPS * sizeof(*hub->group.ops));
        hub->group_pending = tf_alloc(mem, TF_HUB_GROUP_OPS * sizeof(*hub->group_pending));
        if (hub->group.ops == NULL || hub->group_pending == NULL) {
            return TF_ERR_NOMEM;
        }
    }
    tf_err err = tf_router_new(&hub->router, mem, hub->hash_key);
    if (err != TF_OK) {
        return err;
    }
    hub->root = (tf_object){TF_OBJECT_ROOT, tf_router_new_object(hub->router)};
    return tf_map_put(&hub->objects, hub->root.local, (uintptr_t)&hub->root);
}

tf_err tf_hub_new(tf_hub **out, const tf_hub_config *config)
{
    tf_hub_config filled = *config;
    fill_defaults(&filled);
    if (!is_config_valid(&filled)) {
        return TF_ERR_USAGE;
    }
    tf_hub *hub = tf_alloc(config->mem, sizeof(*hub));
    if (hub == NULL) {
        return TF_ERR_NOMEM;
    }
    *hub = (tf_hub){.config = filled, .has_store = config->store != NULL};
    if (config->store != NULL) {
        hub->store = *config->store;
        hub->config.store = &hub->store;
    }
    init_tables(hub);
    init_rates(hub);
    tf_err err = make_buffers(hub);
    if (err == TF_OK) {
        err = tf_hub_retention_set(hub, config->retention, config->retention_count);
    }
    if (err != TF_OK) {
        tf_hub_free(hub);
        return err;
    }
    *out = hub;
    return TF_OK;
}

/* What promises that nobody will resolve any more still name. */
static void release_channels(tf_hub *hub)
{
    size_t position = 0;
    uint64_t local = 0;
    uint64_t value = 0;
    while (tf_map_next(&hub->objects, &position, &local, &value)) {
        tf_object *object = (tf_object *)(uintptr_t)value;
        if (object->kind == TF_OBJECT_CHANNEL && ((tf_channel *)object)->mentioned) {
            tf_hub_channel_gone(hub, (tf_channel *)object);
            position = 0; /* the map has changed */
        }
    }
}

void tf_hub_free(tf_hub *hub)
{
    if (hub == NULL) {
        return;
    }
    const tf_mem *mem = hub->config.mem;
    TF_ASSERT(hub->conn_count == 0 && tf_list_is_empty(&hub->clients));
    tf_hub_app_clear(hub);
    tf_hub_names_clear(hub);
    release_channels(hub);
    tf_hub_rights_free(hub->rights);
    tf_hub_pending_clear(hub);
    tf_hub_retention_clear(hub);
    tf_channels_clear(&hub->channels);
    tf_map_clear(&hub->pending);
    tf_hub_app_objects_free(hub);
    tf_map_clear(&hub->objects);
    tf_map_clear(&hub->requests);
    tf_map_clear(&hub->watches);
    tf_router_free(hub->router);
    tf_free(mem, hub->group.ops, TF_HUB_GROUP_OPS * sizeof(*hub->group.ops));
    tf_free(mem, hub->group_pending, TF_HUB_GROUP_OPS * sizeof(*hub->group_pending));
    tf_free(mem, hub->scratch, hub->scratch_size);
    tf_free(mem, hub, sizeof(*hub));
}

tf_local tf_hub_root(const tf_hub *hub)
{
    return hub->root.local;
}

tf_refs *tf_hub_refs(const tf_hub *hub)
{
    return tf_router_refs(hub->router);
}

uint32_t tf_hub_max_in_flight(const tf_hub *hub)
{
    return hub->config.max_in_flight;
}

/* -- connections --------------------------------------------------------------------------------------------------- */

tf_err tf_hub_attach(tf_hub *hub, tf_time now, tf_conn *conn)
{
    TF_ASSERT(conn->hub == NULL);
    tf_hub_clock(hub, now);
    tf_err err = tf_router_attach(hub->router, conn->session, conn);
    if (err != TF_OK) {
        return err;
    }
    tf_conn_init_hub(conn, hub);
    tf_hub_rates_init(conn);
    tf_list_append(&hub->conns, &conn->in_conns);
    hub->conn_count++;
    tf_hub_wake(conn);
    return TF_OK;
}

void tf_hub_set_rates(tf_hub *hub, tf_time now, uint32_t rate, uint32_t rate_bytes)
{
    tf_hub_clock(hub, now);
    if (hub->config.rate == rate && hub->config.rate_bytes == rate_bytes) {
        return;
    }
    hub->config.rate = rate;
    hub->config.rate_bytes = rate_bytes;
    init_rates(hub);
    for (tf_list_node *node = hub->conns.head.next; node != &hub->conns.head; node = node->next) {
        tf_hub_rates_changed(TF_CONTAINER(node, tf_conn, in_conns));
    }
}

tf_err tf_hub_set_retention(tf_hub *hub, tf_time now, const tf_retention *list, size_t count)
{
    tf_hub_clock(hub, now);
    return tf_hub_retention_set(hub, list, count);
}

/* What the conn had here is undone; what it sent and is being committed stays. Nothing is passed on to it any more. */
static void forget(tf_hub *hub, tf_conn *conn)
{
    tf_router_detach(hub->router, hub->now, conn->session);
    if (conn->client != NULL) {
        tf_client_unbind(conn->client, hub->now);
    }
    tf_hub_subscriptions_clear(conn);
    tf_hub_reads_clear(conn);
    tf_hub_waiters_clear(conn);
    tf_hub_origins_clear(conn);
    tf_hub_ports_clear(conn);
    tf_hub_app_disowned(conn);
    tf_list_remove(&conn->in_ready);
    tf_list_remove(&conn->in_later);
}

void tf_hub_detach(tf_hub *hub, tf_time now, tf_conn *conn)
{
    if (conn->hub == NULL) {
        return;
    }
    TF_ASSERT(conn->hub == hub);
    tf_hub_clock(hub, now);
    forget(hub, conn);
    tf_list_remove(&conn->in_conns);
    tf_list_remove(&conn->in_dirty);
    tf_list_remove(&conn->in_failed);
    hub->conn_count--;
    conn->hub = NULL;
}

void tf_hub_wake(tf_conn *conn)
{
    if (conn->hub != NULL && !conn->failed && !tf_list_has(&conn->in_ready)) {
        tf_list_append(&conn->hub->ready, &conn->in_ready);
    }
}

static void set_dirty(tf_hub *hub, tf_conn *conn)
{
    if (!tf_list_has(&conn->in_dirty)) {
        tf_list_append(&hub->dirty, &conn->in_dirty);
    }
}

void tf_hub_touch(tf_hub *hub, tf_conn *conn)
{
    TF_ASSERT(conn->hub == NULL || conn->hub == hub);
    tf_hub_wake(conn);
    if (conn->failed) {
        set_dirty(hub, conn);
    }
}

static void add_text(tf_writer *w, const char *text)
{
    for (; *text != 0; text++) {
        tf_wr_u8(w, (uint8_t)*text);
    }
}

static void add_number(tf_writer *w, uint64_t number)
{
    uint8_t digits[20];
    tf_wr_bytes(w, tf_slice_of(digits, tf_decimal(number, digits)));
}

/* What is wrong, and where there are two numbers to it, both (D1). */
static tf_slice describe(tf_conn *conn, tf_err err)
{
    tf_writer w;
    tf_wr_init(&w, (uint8_t *)conn->failure_text, TF_CLOSE_REASON_MAX);
    add_text(&w, tf_err_text(err));
    if (err == TF_ERR_PEER_SEQ || err == TF_ERR_PEER_ACK || err == TF_ERR_PEER_REF) {
        tf_session_fault fault = tf_session_get_fault(conn->session);
        add_text(&w, ": got ");
        add_number(&w, fault.got);
        if (err != TF_ERR_PEER_REF) {
            add_text(&w, err == TF_ERR_PEER_SEQ ? ", expected " : ", at most ");
            add_number(&w, fault.expected);
        }
    }
    conn->failure_text[tf_wr_len(&w)] = 0;
    return tf_slice_of(conn->failure_text, tf_wr_len(&w));
}

void tf_hub_fail(tf_conn *conn, tf_err err)
{
    tf_hub *hub = conn->hub;
    if (conn->failed) {
        return;
    }
    forget(hub, conn);
    conn->failed = true;
    conn->failure = err;
    tf_link_close(conn->link, hub->now, tf_close_from_err(err), describe(conn, err));
    tf_list_append(&hub->failed, &conn->in_failed);
    set_dirty(hub, conn);
}

/* -- the turn ------------------------------------------------------------------------------------------------------ */

/* Takes messages from the link. True: there may be more. */
static bool take_messages(tf_hub *hub, tf_conn *conn)
{
    for (size_t i = 0; i < MESSAGES_PER_VISIT; i++) {
        tf_slice message = {NULL, 0};
        if (!tf_link_next_message(conn->link, &message, &conn->via)) {
            return false;
        }
        tf_err err = tf_hub_turn(hub, conn, message);
        if (err != TF_OK) {
            tf_hub_fail(conn, err);
        }
        if (conn->failed) {
            return false;
        }
    }
    return true;
}

/* Hands what the session has encoded to the link, as far as there is room. */
static tf_err pump_out(tf_hub *hub, tf_conn *conn)
{
    tf_slice message = {NULL, 0};
    while (tf_session_peek_out(conn->session, &message)) {
        tf_err err = tf_link_send(conn->link, hub->now, message);
        if (err == TF_ERR_AGAIN || err == TF_ERR_CLOSED) { /* closed: its owner is about to hear of it */
            return TF_OK;
        }
        if (err != TF_OK) {
            return err;
        }
        tf_session_pop_out(conn->session);
        tf_conn_used(conn, hub->now);
    }
    return TF_OK;
}

/* The peer takes nothing and goes on asking: what must be answered has its end, too (P7). One that keeps to max_results
 * never waits for more answers than that; everything else stops at the bounds of the queue. */
static bool owes_too_much(const tf_hub *hub, const tf_conn *conn)
{
    size_t answers = conn->config.session.local.max_results;
    return tf_session_out_items(conn->session) > hub->config.out_queue_items + answers + OWN_MESSAGES;
}

static tf_err visit_parts(tf_hub *hub, tf_conn *conn, bool *more)
{
    tf_err err = conn->error;
    if (err == TF_OK) {
        err = pump_out(hub, conn); /* room for what is fed */
    }
    if (err == TF_OK && conn->client != NULL) {
        err = tf_client_push(conn->client);
    }
    if (err == TF_OK) {
        err = tf_hub_serve_reads(hub, conn);
    }
    if (err == TF_OK && !tf_hub_feed(hub, conn, FEEDS_PER_VISIT)) {
        *more = true;
    }
    tf_hub_settle(hub);
    if (err == TF_OK && !conn->failed) {
        err = pump_out(hub, conn);
    }
    return err == TF_OK && owes_too_much(hub, conn) ? TF_ERR_PEER_LIMIT : err;
}

static void visit(tf_hub *hub, tf_conn *conn)
{
    bool more = conn->error == TF_OK && take_messages(hub, conn);
    if (conn->failed) {
        return;
    }
    tf_err err = visit_parts(hub, conn, &more);
    if (conn->failed) {
        return;
    }
    if (err != TF_OK) {
        tf_hub_fail(conn, err);
        tf_hub_settle(hub);
        return;
    }
    set_dirty(hub, conn);
    if (more) {
        tf_hub_wake(conn);
    }
}

/* What was written for others than the one that was visited (NULL: nobody) goes out at their visit. */
static void wake_written(const tf_hub *hub, const tf_conn *visited)
{
    for (tf_session *session; (session = tf_session_take_written(tf_hub_refs(hub))) != NULL;) {
        tf_conn *conn = tf_router_owner(session);
        if (conn != NULL && conn != visited) {
            tf_hub_wake(conn);
        }
    }
}

/* After something that was no visit. */
static void settle_all(tf_hub *hub)
{
    tf_hub_settle(hub);
    wake_written(hub, NULL);
}

bool tf_hub_run(tf_hub *hub, tf_time now, int64_t wall_ms)
{
    tf_hub_clock(hub, now);
    hub->wall_ms = wall_ms;
    hub->fan_out_left = hub->config.fan_out;
    tf_router_tick(hub->router, now);
    tf_clients_tick(hub);
    (void)tf_hub_poll_store(hub);
    tf_hub_retention_tick(hub);
    settle_all(hub);
    size_t visits = 0;
    for (;;) {
        tf_list_node *node = tf_list_first(&hub->ready);
        if (node != NULL && visits < VISITS_PER_RUN) {
            tf_list_remove(node);
            visits++;
            tf_conn *conn = TF_CONTAINER(node, tf_conn, in_ready);
            visit(hub, conn);
            wake_written(hub, conn);
            continue;
        }
        /* All that has come in makes one group; a store that is done at once has its acks out in this turn. */
        bool stirred = tf_hub_hand_over(hub);
        stirred = tf_hub_poll_store(hub) || stirred;
        if (stirred) {
            settle_all(hub);
        }
        if (!stirred || visits >= VISITS_PER_RUN) {
            break;
        }
    }
    return !tf_list_is_empty(&hub->ready);
}

bool tf_hub_next_dirty(tf_hub *hub, tf_conn **out)
{
    tf_list_node *node = tf_list_first(&hub->dirty);
    if (node == NULL) {
        return false;
    }
    tf_list_remove(node);
    *out = TF_CONTAINER(node, tf_conn, in_dirty);
    return true;
}

tf_time tf_hub_deadline(const tf_hub *hub)
{
    return tf_time_min(tf_router_deadline(hub->router),
                       tf_time_min(tf_clients_deadline(hub), tf_hub_retention_deadline(hub)));
}

bool tf_hub_has_work(const tf_hub *hub)
{
    return !tf_list_is_empty(&hub->ready) || tf_router_has_events(hub->router);
}

bool tf_hub_next_event(tf_hub *hub, tf_hub_event *out)
{
    tf_list_node *node = tf_list_first(&hub->failed);
    if (node == NULL) {
        return false;
    }
    tf_list_remove(node);
    tf_conn *conn = TF_CONTAINER(node, tf_conn, in_failed);
    *out = (tf_hub_event){TF_HUB_CONN_FAILED, conn, conn->failure, tf_close_from_err(conn->failure),
                          conn->failure_text};
    return true;
}

/* -- the end, and what it tells ------------------------------------------------------------------------------------ */

void tf_hub_drain(tf_hub *hub)
{
    hub->draining = true;
}

bool tf_hub_is_drained(const tf_hub *hub)
{
    return hub->draining && hub->committing == 0;
}

void tf_hub_get_stats(const tf_hub *hub, tf_hub_stats *out)
{
    *out = hub->stats;
    out->conns = hub->conn_count;
    out->channels = hub->channels.count;
    out->names = hub->names.count;
    out->subscriptions = hub->subscription_count;
    out->lagging = hub->subscription_count - hub->live_count;
    out->committing = hub->committing;
    out->committing_bytes = hub->committing_bytes;
    tf_router_get_stats(hub->router, &out->refs);
}
