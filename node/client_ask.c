/* Questions with one answer each: asked once their channel is open, again in each session until there is an answer. */
#include "node/client_internal.h"
#include "node/name.h"

typedef struct asking {
    tf_request request; /* channel NULL: of the peer's root */
    tf_client *client;
    tf_list_node in_asks;
    tf_ask_kind kind;
    bool in_flight;
    tf_time retry_at; /* not before */
    uint64_t cookie;
    size_t args_len;
    uint8_t args[TF_RESULT_SMALL_MAX];
} asking;

static asking *asking_at(tf_list_node *node)
{
    return TF_CONTAINER(node, asking, in_asks);
}

static void forget(asking *ask)
{
    tf_list_remove(&ask->in_asks);
    tf_free(ask->client->hub->config.mem, ask, sizeof(*ask));
}

/* -- asking -------------------------------------------------------------------------------------------------------- */

static bool is_valid(const tf_ask *ask)
{
    switch (ask->kind) {
    case TF_ASK_CHANNELS:
    case TF_ASK_INFO:
    case TF_ASK_REFS:
        return true;
    case TF_ASK_TRIM:
    case TF_ASK_GAPS:
        return ask->from >= 1;
    case TF_ASK_READ:
        return ask->from >= 1 && ask->to >= ask->from;
    case TF_ASK_FORGET:
        return tf_cursor_name_is_valid(ask->name);
    case TF_ASK_LOOKUP:
        return tf_channel_name_is_valid(ask->name);
    }
    TF_UNREACHABLE();
}

static void write_args(tf_writer *w, const tf_ask *ask)
{
    switch (ask->kind) {
    case TF_ASK_CHANNELS:
        tf_args_channels_write(w, &(tf_args_channels){.after = ask->from, .limit = ask->to});
        return;
    case TF_ASK_INFO:
        tf_args_none_write(w);
        return;
    case TF_ASK_TRIM:
        tf_args_trim_write(w, &(tf_args_trim){ask->from});
        return;
    case TF_ASK_GAPS:
        tf_args_gaps_write(w, &(tf_args_gaps){ask->from});
        return;
    case TF_ASK_READ:
        tf_args_read_write(w, &(tf_args_read){.from = ask->from, .to = ask->to});
        return;
    case TF_ASK_FORGET:
        tf_args_forget_cursor_write(w, &(tf_args_forget_cursor){.name = ask->name});
        return;
    case TF_ASK_LOOKUP:
        tf_args_name_write(w, &(tf_args_name){ask->name});
        return;
    case TF_ASK_REFS:
        tf_args_refs_write(w, &(tf_args_refs){.after = ask->from, .limit = ask->to});
        return;
    }
    TF_UNREACHABLE();
}

static tf_slice method_of(tf_ask_kind kind)
{
    switch (kind) {
    case TF_ASK_CHANNELS:
        return tf_slice_str("channels");
    case TF_ASK_INFO:
        return tf_slice_str("info");
    case TF_ASK_TRIM:
        return tf_slice_str("trim");
    case TF_ASK_GAPS:
        return tf_slice_str("gaps");
    case TF_ASK_READ:
        return tf_slice_str("read");
    case TF_ASK_FORGET:
        return tf_slice_str("forget_cursor");
    case TF_ASK_LOOKUP:
        return tf_slice_str("lookup");
    case TF_ASK_REFS:
        return tf_slice_str("refs");
    }
    TF_UNREACHABLE();
}

static bool is_of_root(tf_ask_kind kind)
{
    return kind == TF_ASK_CHANNELS || kind == TF_ASK_LOOKUP || kind == TF_ASK_REFS;
}

tf_err tf_client_ask(tf_client *client, tf_time now, size_t channel, const tf_ask *ask)
{
    tf_writer w;
    tf_client_channel *ch = is_of_root(ask->kind) ? NULL : client->channels[channel];
    TF_ASSERT(ch == NULL || channel < client->channel_count);
    tf_hub_clock(client->hub, now);
    if (!is_valid(ask)) {
        return TF_ERR_USAGE;
    }
    if (ch != NULL && ch->open == TF_OPEN_REFUSED) {
        return TF_ERR_CLOSED;
    }
    if (client->ask_count >= TF_CLIENT_ASKS_MAX) {
        return TF_ERR_AGAIN;
    }
    asking *a = tf_alloc(client->hub->config.mem, sizeof(*a));
    if (a == NULL) {
        return TF_ERR_NOMEM;
    }
    *a = (asking){
        .request = {.kind = TF_REQUEST_ASK, .channel = ch}, .client = client, .kind = ask->kind, .cookie = ask->cookie};
    tf_wr_init(&w, a->args, sizeof(a->args));
    write_args(&w, ask);
    TF_ASSERT(tf_wr_ok(&w));
    a->args_len = tf_wr_len(&w);
    tf_list_append(&client->asks, &a->in_asks);
    client->ask_count++;
    if (client->conn != NULL) {
        tf_hub_wake(client->conn);
    }
    return TF_OK;
}

static tf_err send_one(asking *ask)
{
    const tf_client_channel *channel = ask->request.channel;
    tf_client *client = ask->client;
    tf_router_send send = {.target = channel == NULL ? tf_session_peer_root(client->conn->session) : channel->remote,
                           .method = method_of(ask->kind),
                           .args = tf_slice_of(ask->args, ask->args_len),
                           .want_result = true};
    tf_err err = tf_client_request(client, &ask->request, &send);
    ask->in_flight = err == TF_OK;
    return err;
}

tf_err tf_client_asks_push(tf_client *client)
{
    for (tf_list_node *node = client->asks.head.next; node != &client->asks.head; node = node->next) {
        asking *ask = asking_at(node);
        const tf_client_channel *channel = ask->request.channel;
        bool is_open = channel == NULL || channel->open == TF_OPEN_DONE;
        if (ask->in_flight || !is_open || client->hub->now < ask->retry_at) {
            continue;
        }
        tf_err err = send_one(ask);
        if (err != TF_OK) {
            return err == TF_ERR_AGAIN ? TF_OK : err; /* an answer brings us here again */
        }
    }
    return TF_OK;
}

/* -- answers ------------------------------------------------------------------------------------------------------- */

typedef union any_item {
    tf_channel_state channel;
    tf_cursor_state cursor;
    tf_hole hole;
    tf_activity activity;
    tf_ref_state ref;
} any_item;

typedef enum item_kind { ITEM_CHANNEL, ITEM_CURSOR, ITEM_HOLE, ITEM_ACTIVITY, ITEM_REF } item_kind;

static bool are_valid(tf_items items, item_kind kind)
{
    tf_slice bytes;
    any_item item;
    tf_err err = TF_OK;
    while (err == TF_OK && tf_items_next(&items, &bytes)) {
        switch (kind) {
        case ITEM_CHANNEL:
            err = tf_channel_state_read(bytes, &item.channel);
            break;
        case ITEM_CURSOR:
            err = tf_cursor_state_read(bytes, &item.cursor);
            break;
        case ITEM_HOLE:
            err = tf_hole_read(bytes, &item.hole);
            break;
        case ITEM_ACTIVITY:
            err = tf_activity_read(bytes, &item.activity);
            break;
        case ITEM_REF:
            err = tf_ref_state_read(bytes, &item.ref);
            break;
        }
    }
    return err == TF_OK;
}

/* All of it, so that its reader need not look out. */
static bool is_valid_answer(tf_ask_kind kind, tf_slice data)
{
    union {
        tf_result_channels channels;
        tf_result_info info;
        tf_result_trim trim;
        tf_result_gaps gaps;
        tf_result_read read;
        tf_result_refs refs;
    } r;
    switch (kind) {
    case TF_ASK_CHANNELS:
        return tf_result_channels_read(data, &r.channels) == TF_OK && are_valid(r.channels.items, ITEM_CHANNEL);
    case TF_ASK_INFO:
        return tf_result_info_read(data, &r.info) == TF_OK && are_valid(r.info.cursors, ITEM_CURSOR);
    case TF_ASK_TRIM:
        return tf_result_trim_read(data, &r.trim) == TF_OK;
    case TF_ASK_GAPS:
        return tf_result_gaps_read(data, &r.gaps) == TF_OK && are_valid(r.gaps.items, ITEM_HOLE);
    case TF_ASK_READ:
        return tf_result_read_read(data, &r.read) == TF_OK && are_valid(r.read.items, ITEM_ACTIVITY) &&
               are_valid(r.read.gaps, ITEM_HOLE);
    case TF_ASK_REFS:
        return tf_result_refs_read(data, &r.refs) == TF_OK && are_valid(r.refs.items, ITEM_REF);
    case TF_ASK_FORGET:
    case TF_ASK_LOOKUP:
        return true; /* a map, of which nothing is used */
    }
    TF_UNREACHABLE();
}

static tf_note *note_of(const asking *ask, size_t bytes)
{
    const tf_mem *mem = ask->client->hub->config.mem;
    tf_note *note = tf_alloc(mem, sizeof(*note) + bytes);
    if (note != NULL) {
        size_t channel = ask->request.channel == NULL ? SIZE_MAX : ask->request.channel->index;
        *note = (tf_note){
            .event = {.type = TF_CLIENT_ANSWER, .channel = channel, .cookie = ask->cookie, .asked = ask->kind},
            .size = sizeof(*note) + bytes};
    }
    return note;
}

/* What was looked up: the application's from now on. */
static tf_err take_object(const asking *ask, const tf_router_event *event, tf_note *note)
{
    tf_err err = tf_hub_hold(ask->client->hub, event->refs[0].local, NULL);
    if (err == TF_OK) {
        note->event.object = event->refs[0].local;
        note->holds = true;
    }
    return err;
}

static bool has_object(const tf_router_event *event)
{
    return event->ref_count == 1 && event->refs[0].kind == TF_REF_OBJECT;
}

tf_err tf_client_ask_answered(tf_request *request, const tf_router_event *event)
{
    asking *ask = TF_CONTAINER(request, asking, request);
    if (event->kind != TF_RESOLUTION_DATA || !is_valid_answer(ask->kind, event->data) ||
        (ask->kind == TF_ASK_LOOKUP && !has_object(event))) {
        return TF_ERR_PEER_SYNTAX;
    }
    tf_note *note = note_of(ask, event->data.len);
    tf_err err = note == NULL ? TF_ERR_NOMEM : TF_OK;
    if (err == TF_OK && ask->kind == TF_ASK_LOOKUP) {
        err = take_object(ask, event, note);
    }
    if (err != TF_OK) {
        tf_free(ask->client->hub->config.mem, note, sizeof(*note) + event->data.len);
        return err;
    }
    uint8_t *at = (uint8_t *)(note + 1);
    note->event.data = tf_client_keep(&at, event->data);
    tf_client_queue(ask->client, note);
    forget(ask);
    return TF_OK;
}

static tf_err report(asking *ask, const tf_result_refusal *refusal)
{
    tf_note *note = note_of(ask, refusal->code.len + refusal->message.len);
    if (note == NULL) {
        return TF_ERR_NOMEM;
    }
    uint8_t *at = (uint8_t *)(note + 1);
    note->event.code = tf_client_keep(&at, refusal->code);
    note->event.message = tf_client_keep(&at, refusal->message);
    tf_client_queue(ask->client, note);
    forget(ask);
    return TF_OK;
}

tf_err tf_client_ask_refused(tf_request *request, const tf_result_refusal *refusal)
{
    asking *ask = TF_CONTAINER(request, asking, request);
    if (!refusal->retryable) {
        return report(ask, refusal);
    }
    ask->in_flight = false;
    ask->retry_at = tf_client_retry_at(ask->client, refusal);
    tf_client_wake_at(ask->client, ask->retry_at);
    return TF_OK;
}

tf_err tf_client_asks_refuse(tf_client_channel *channel, const tf_result_refusal *refusal)
{
    tf_list_node *next = NULL;
    for (tf_list_node *node = channel->client->asks.head.next; node != &channel->client->asks.head; node = next) {
        next = node->next;
        tf_err err = asking_at(node)->request.channel == channel ? report(asking_at(node), refusal) : TF_OK;
        if (err != TF_OK) {
            return err;
        }
    }
    return TF_OK;
}

/* -- time, and the end --------------------------------------------------------------------------------------------- */

void tf_client_asks_tick(tf_client *client)
{
    for (tf_list_node *node = client->asks.head.next; node != &client->asks.head; node = node->next) {
        const asking *ask = asking_at(node);
        if (ask->in_flight || client->conn == NULL) {
            continue;
        }
        if (client->hub->now >= ask->retry_at) {
            tf_hub_wake(client->conn);
        } else {
            tf_client_wake_at(client, ask->retry_at);
        }
    }
}

void tf_client_asks_reset(tf_client *client)
{
    for (tf_list_node *node = client->asks.head.next; node != &client->asks.head; node = node->next) {
        asking_at(node)->in_flight = false;
        asking_at(node)->retry_at = 0;
    }
}

void tf_client_asks_clear(tf_client *client)
{
    tf_list_node *node = NULL;
    while ((node = tf_list_first(&client->asks)) != NULL) {
        forget(asking_at(node));
    }
}
