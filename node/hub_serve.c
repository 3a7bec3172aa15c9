/* Methods of the root object and of channels, but `send`. */
#include "node/hub_internal.h"
#include "node/name.h"

#define METHOD(text) {(const uint8_t *)(text), sizeof(text) - 1}

static const tf_slice nobody = {NULL, 0};

static bool is_method(const tf_call *call, tf_slice name)
{
    return tf_slice_eq(call->event->method, name);
}

/* -- which channels a connection has open -------------------------------------------------------------------------- */

void tf_hub_channel_release(tf_hub *hub, tf_channel *channel)
{
    TF_ASSERT(channel->uses > 0);
    if (--channel->uses > 0) {
        return;
    }
    (void)tf_map_remove(&hub->objects, channel->object.local);
    tf_channels_remove(&hub->channels, channel);
}

void tf_hub_channel_look(tf_hub *hub, tf_channel *channel)
{
    tf_store_channel stored;
    if (hub->store.table->channel_find(hub->store.ctx, tf_channel_name(channel), &stored) == TF_OK) {
        channel->first = stored.first;
        channel->bytes = stored.bytes;
        channel->grown = 0;
    }
}

void tf_hub_port_dropped(tf_conn *conn, tf_local local)
{
    uint64_t value = 0;
    (void)tf_map_remove(&conn->rights, local);
    if (tf_map_get(&conn->ports, local, &value)) {
        (void)tf_map_remove(&conn->ports, local);
        tf_hub_channel_release(conn->hub, (tf_channel *)(uintptr_t)value);
    }
}

void tf_hub_channel_gone(tf_hub *hub, tf_channel *channel)
{
    if (channel->mentioned) {
        channel->mentioned = false;
        tf_hub_channel_release(hub, channel);
    }
}

/* It was mentioned: as long as somebody refers to it, whoever that is by then, it stays. */
static void mentioned(tf_hub *hub, tf_channel *channel)
{
    if (!channel->mentioned && tf_router_is_known(hub->router, channel->object.local)) {
        channel->mentioned = true;
        channel->uses++;
    }
}

/* Whether the conn's peer has it now. */
static bool has_port(const tf_conn *conn, const tf_channel *channel)
{
    const tf_record *record = tf_refs_find(tf_hub_refs(conn->hub), channel->object.local);
    return record != NULL && tf_session_knows(conn->session, record);
}

void tf_hub_ports_clear(tf_conn *conn)
{
    size_t position = 0;
    uint64_t local = 0;
    uint64_t value = 0;
    while (tf_map_next(&conn->ports, &position, &local, &value)) {
        tf_hub_channel_release(conn->hub, (tf_channel *)(uintptr_t)value);
    }
    tf_map_clear(&conn->ports);
    tf_map_clear(&conn->rights);
}

tf_err tf_hub_answer_open(tf_conn *conn, tf_local promise, tf_channel *channel)
{
    tf_hub *hub = conn->hub;
    uint8_t bytes[TF_RESULT_SMALL_MAX];
    tf_writer w;
    bool is_new = !tf_map_get(&conn->ports, channel->object.local, NULL);
    if (promise == TF_LOCAL_NONE) {
        return TF_OK;
    }
    if (is_new && conn->ports.count >= hub->config.channels_per_peer) {
        return tf_hub_refuse(conn, promise, nobody, TF_REFUSAL_OVERLOADED);
    }
    if (tf_map_reserve(&conn->ports, 1) != TF_OK) {
        return TF_ERR_NOMEM;
    }
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_result_open_write(&w, &(tf_result_open){.epoch = channel->epoch,
                                               .max_in_flight = hub->config.max_in_flight,
                                               .max_body = hub->max_body,
                                               .dedup_age_ms = channel->keeps == NULL ? 0 : channel->keeps->dedup_age_ms});
    tf_mention ref = {channel->object.local, TF_REF_OBJECT};
    tf_err err = tf_hub_answer(conn, promise, tf_slice_of(bytes, tf_wr_len(&w)), &ref, 1);
    mentioned(hub, channel);
    if (err == TF_ERR_LIMIT_ITEMS || err == TF_ERR_LIMIT_BYTES) {
        return tf_hub_refuse(conn, promise, nobody, TF_REFUSAL_OVERLOADED);
    }
    if (err == TF_OK && is_new && has_port(conn, channel)) { /* else nobody waits for this answer any more */
        err = tf_map_put(&conn->ports, channel->object.local, (uintptr_t)channel);
        TF_ASSERT(err == TF_OK);
        channel->uses++;
    }
    return err;
}

/* -- open ---------------------------------------------------------------------------------------------------------- */

tf_err tf_hub_channel_bring(tf_hub *hub, tf_slice name, tf_channel **out)
{
    tf_local local = tf_router_new_object(hub->router);
    tf_err err = tf_channels_add(&hub->channels, name, local, out);
    if (err != TF_OK) {
        return err;
    }
    err = tf_map_put(&hub->objects, local, (uintptr_t)*out);
    if (err != TF_OK) {
        tf_channels_remove(&hub->channels, *out);
        return err;
    }
    (*out)->keeps = tf_hub_retention_of(hub, name);
    return TF_OK;
}

tf_err tf_hub_wait_call(const tf_call *call, tf_pending *pending)
{
    if (call->event->result == TF_LOCAL_NONE) {
        return TF_OK;
    }
    if (call->conn->waiting_opens >= TF_HUB_OPENS_MAX) {
        return tf_hub_refuse_call(call, TF_REFUSAL_OVERLOADED);
    }
    return tf_hub_wait(call->conn, pending, call->event->result, NULL);
}

/* A change of the channel itself: asked for by this call. */
static tf_err change_channel(const tf_call *call, tf_store_op_kind kind, tf_channel *channel)
{
    tf_pending *pending = tf_hub_pending_new(call->hub, call->conn, kind, channel, 0);
    if (pending == NULL) {
        return tf_hub_refuse_call(call, TF_REFUSAL_OVERLOADED);
    }
    pending->first.promise = call->event->result;
    call->conn->waiting_opens++;
    channel->change = pending;
    tf_hub_gather(call->hub, pending);
    return TF_OK;
}

static tf_err create_channel(const tf_call *call, const tf_args_open *args)
{
    tf_hub *hub = call->hub;
    tf_channel *channel = NULL;
    if (hub->config.known_channels_only || args->existing_only) {
        return tf_hub_refuse_call(call, TF_REFUSAL_CHANNEL_NOT_FOUND);
    }
    if (!tf_hub_may_by_name(call->conn, args->channel, TF_RIGHT_WRITE)) {
        return tf_hub_refuse_call(call, TF_REFUSAL_CHANNEL_NOT_FOUND); /* it may be made by others, and then be read */
    }
    if (hub->draining) {
        return tf_hub_refuse_call(call, TF_REFUSAL_DRAINING);
    }
    if (call->conn->waiting_opens >= TF_HUB_OPENS_MAX || tf_hub_channel_bring(hub, args->channel, &channel) != TF_OK) {
        return tf_hub_refuse_call(call, TF_REFUSAL_OVERLOADED);
    }
    channel->epoch = tf_rand_u64(hub->config.rand);
    channel->uses++; /* until it is known whether the change could be queued */
    tf_err err = change_channel(call, TF_STORE_CREATE, channel);
    tf_hub_channel_release(hub, channel);
    return err;
}

/* A channel that is not in memory. */
static tf_err open_stored(const tf_call *call, const tf_args_open *args)
{
    tf_hub *hub = call->hub;
    tf_channel *channel = NULL;
    tf_store_channel stored;
    tf_err err = hub->has_store ? hub->store.table->channel_find(hub->store.ctx, args->channel, &stored) : TF_OK;
    if (!hub->has_store) {
        return tf_hub_refuse_call(call, TF_REFUSAL_CHANNEL_NOT_FOUND);
    }
    if (err == TF_ERR_CLOSED) {
        return create_channel(call, args);
    }
    if (err != TF_OK) {
        return tf_hub_refuse_call(call, TF_REFUSAL_UNAVAILABLE);
    }
    if (tf_hub_channel_bring(hub, args->channel, &channel) != TF_OK) {
        return tf_hub_refuse_call(call, TF_REFUSAL_OVERLOADED);
    }
    tf_channel_load(channel, &stored);
    channel->uses++;
    err = tf_hub_answer_open(call->conn, call->event->result, channel);
    tf_hub_channel_release(hub, channel);
    return err;
}

static tf_err serve_open(const tf_call *call)
{
    tf_args_open args;
    if (tf_args_open_read(call->event->args, &args) != TF_OK || call->event->ref_count != 0 ||
        !tf_channel_name_is_valid(args.channel)) {
        return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
    }
    if (!tf_hub_may_by_name(call->conn, args.channel, TF_RIGHT_READ | TF_RIGHT_WRITE)) {
        return tf_hub_refuse_call(call, TF_REFUSAL_FORBIDDEN);
    }
    tf_channel *channel = tf_channels_find(&call->hub->channels, args.channel);
    if (channel == NULL) {
        return open_stored(call, &args);
    }
    if (channel->stored) {
        return tf_hub_answer_open(call->conn, call->event->result, channel);
    }
    return tf_hub_wait_call(call, channel->change);
}

tf_err tf_hub_serve_root(const tf_call *call)
{
    static const struct {
        tf_slice name;
        tf_err (*serve)(const tf_call *call);
    } methods[] = {{METHOD("open"), serve_open},
                   {METHOD("publish"), tf_hub_serve_publish},
                   {METHOD("lookup"), tf_hub_serve_lookup},
                   {METHOD("channels"), tf_hub_serve_channels},
                   {METHOD("refs"), tf_hub_serve_refs}};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (is_method(call, methods[i].name)) {
            return methods[i].serve(call);
        }
    }
    return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
}

/* -- channels ------------------------------------------------------------------------------------------------------ */

static tf_err serve_close(const tf_call *call)
{
    if (tf_args_none_read(call->event->args) != TF_OK || call->event->ref_count != 0) {
        return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
    }
    if (call->channel->closed) {
        return tf_hub_answer_done(call->conn, call->event->result);
    }
    if (call->channel->change != NULL) {
        return tf_hub_wait_call(call, call->channel->change);
    }
    if (call->conn->waiting_opens >= TF_HUB_OPENS_MAX) {
        return tf_hub_refuse_call(call, TF_REFUSAL_OVERLOADED);
    }
    return change_channel(call, TF_STORE_CLOSE, call->channel);
}

static tf_err serve_subscribe(const tf_call *call)
{
    tf_args_subscribe args;
    if (tf_args_subscribe_read(call->event->args, &args) != TF_OK || call->event->ref_count != 1) {
        return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
    }
    return tf_hub_subscribe(call, &args);
}

static tf_err serve_read(const tf_call *call)
{
    tf_args_read args;
    if (tf_args_read_read(call->event->args, &args) != TF_OK || call->event->ref_count != 0) {
        return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
    }
    return tf_hub_read(call, &args);
}

tf_err tf_hub_serve_channel(const tf_call *call)
{
    static const struct {
        tf_slice name;
        unsigned right; /* 0: it asks by itself */
        tf_err (*serve)(const tf_call *call);
    } methods[] = {{METHOD("send"), 0, tf_hub_serve_send},
                   {METHOD("subscribe"), TF_RIGHT_READ, serve_subscribe},
                   {METHOD("read"), TF_RIGHT_READ, serve_read},
                   {METHOD("info"), TF_RIGHT_READ, tf_hub_serve_info},
                   {METHOD("gaps"), TF_RIGHT_READ, tf_hub_serve_gaps},
                   {METHOD("trim"), TF_RIGHT_WRITE, tf_hub_serve_trim},
                   {METHOD("forget_cursor"), 0, tf_hub_serve_forget_cursor},
                   {METHOD("close"), TF_RIGHT_WRITE, serve_close}};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (is_method(call, methods[i].name)) {
            return methods[i].right == 0 || tf_hub_may(call->conn, call->channel, methods[i].right)
                       ? methods[i].serve(call)
                       : tf_hub_refuse_call(call, TF_REFUSAL_FORBIDDEN);
        }
    }
    return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
}
