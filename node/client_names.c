/* What is published at the peer: said again in each session, until it is withdrawn or refused. */
#include "node/client_internal.h"
#include "node/name.h"

typedef enum name_state {
    NAME_WANTED,    /* to be said */
    NAME_REQUESTED, /* said, without an answer yet */
    NAME_DONE
} name_state;

typedef struct named {
    tf_request request; /* its channel is NULL */
    tf_client *client;
    tf_list_node in_names;
    name_state state;
    bool withdrawn; /* `publish` without an object */
    bool again;     /* it has changed since it was said */
    bool held;
    tf_local object;
    tf_time retry_at; /* not before */
    size_t len;
    uint8_t bytes[TF_CHANNEL_NAME_MAX];
} named;

static named *named_at(tf_list_node *node)
{
    return TF_CONTAINER(node, named, in_names);
}

static tf_slice name_of(const named *name)
{
    return tf_slice_of(name->bytes, name->len);
}

static named *find(const tf_client *client, tf_slice text)
{
    for (tf_list_node *node = client->names.head.next; node != &client->names.head; node = node->next) {
        if (tf_slice_eq(name_of(named_at(node)), text)) {
            return named_at(node);
        }
    }
    return NULL;
}

/* -- what is wanted ------------------------------------------------------------------------------------------------ */

static void let_go(named *name)
{
    const tf_hub *hub = name->client->hub;
    if (name->held) {
        tf_router_release(hub->router, hub->now, name->object);
        name->held = false;
    }
}

static void forget(named *name)
{
    let_go(name);
    tf_list_remove(&name->in_names);
    name->client->name_count--;
    tf_free(name->client->hub->config.mem, name, sizeof(*name));
}

/* It is to be said, or said again. */
static void want(named *name)
{
    tf_client *client = name->client;
    if (name->state == NAME_REQUESTED) {
        name->again = true;
        return;
    }
    name->state = NAME_WANTED;
    name->retry_at = 0;
    if (client->conn != NULL) {
        tf_hub_wake(client->conn);
    }
}

static named *add(tf_client *client, tf_slice text)
{
    named *name = tf_alloc(client->hub->config.mem, sizeof(*name));
    if (name == NULL) {
        return NULL;
    }
    *name = (named){.request = {.kind = TF_REQUEST_PUBLISH}, .client = client, .len = text.len};
    memcpy(name->bytes, text.data, text.len);
    tf_list_append(&client->names, &name->in_names);
    client->name_count++;
    return name;
}

tf_err tf_client_publish(tf_client *client, tf_time now, tf_slice name, tf_local object)
{
    tf_router *router = client->hub->router;
    TF_ASSERT(object != TF_LOCAL_NONE);
    tf_hub_clock(client->hub, now);
    if (!tf_channel_name_is_valid(name)) {
        return TF_ERR_USAGE;
    }
    named *known = find(client, name);
    if (known == NULL) {
        if (client->name_count >= TF_CLIENT_NAMES_MAX) {
            return TF_ERR_LIMIT_ITEMS;
        }
        known = add(client, name);
        if (known == NULL) {
            return TF_ERR_NOMEM;
        }
    }
    bool held = tf_router_is_known(router, object);
    if (held) {
        tf_router_hold(router, object);
    }
    let_go(known);
    known->object = object;
    known->held = held;
    known->withdrawn = false;
    want(known);
    return TF_OK;
}

void tf_client_withdraw(tf_client *client, tf_time now, tf_slice name)
{
    tf_hub_clock(client->hub, now);
    named *known = find(client, name);
    if (known != NULL && !known->withdrawn) {
        let_go(known);
        known->withdrawn = true;
        want(known);
    }
}

/* -- out ----------------------------------------------------------------------------------------------------------- */

static tf_err say(named *name)
{
    uint8_t bytes[TF_RESULT_SMALL_MAX];
    tf_writer w;
    tf_client *client = name->client;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_args_name_write(&w, &(tf_args_name){name_of(name)});
    TF_ASSERT(tf_wr_ok(&w));
    tf_mention object = {name->object, TF_REF_OBJECT};
    tf_router_send send = {.target = tf_session_peer_root(client->conn->session),
                           .method = tf_slice_str("publish"),
                           .args = tf_slice_of(bytes, tf_wr_len(&w)),
                           .refs = &object,
                           .ref_count = name->withdrawn ? 0 : 1,
                           .want_result = true};
    tf_err err = tf_client_request(client, &name->request, &send);
    if (err == TF_OK) {
        name->state = NAME_REQUESTED;
        name->again = false;
    }
    return err;
}

tf_err tf_client_names_push(tf_client *client)
{
    for (tf_list_node *node = client->names.head.next; node != &client->names.head; node = node->next) {
        named *name = named_at(node);
        if (name->state != NAME_WANTED || client->hub->now < name->retry_at) {
            continue;
        }
        tf_err err = say(name);
        if (err != TF_OK) {
            return err == TF_ERR_AGAIN ? TF_OK : err; /* an answer brings us here again */
        }
    }
    return TF_OK;
}

/* -- answers ------------------------------------------------------------------------------------------------------- */

/* Tells the application. refusal NULL: it was done. */
static tf_err tell(const named *name, tf_client_event_type type, const tf_result_refusal *refusal)
{
    static const tf_result_refusal none = {.retryable = false};
    const tf_result_refusal *why = refusal == NULL ? &none : refusal;
    size_t size = sizeof(tf_note) + name->len + why->code.len + why->message.len;
    tf_note *note = tf_alloc(name->client->hub->config.mem, size);
    if (note == NULL) {
        return TF_ERR_NOMEM;
    }
    *note = (tf_note){.event = {.type = type, .channel = SIZE_MAX}, .size = size};
    uint8_t *at = (uint8_t *)(note + 1);
    note->event.name = tf_client_keep(&at, name_of(name));
    note->event.code = tf_client_keep(&at, why->code);
    note->event.message = tf_client_keep(&at, why->message);
    tf_client_queue(name->client, note);
    return TF_OK;
}

static tf_err withdrawn(named *name)
{
    tf_err err = tell(name, TF_CLIENT_WITHDRAWN, NULL);
    if (err == TF_OK) {
        forget(name);
    }
    return err;
}

tf_err tf_client_name_answered(tf_request *request)
{
    named *name = TF_CONTAINER(request, named, request);
    name->state = NAME_DONE;
    if (name->again) {
        want(name); /* what was said is not what is wanted by now */
        return TF_OK;
    }
    return name->withdrawn ? withdrawn(name) : tell(name, TF_CLIENT_PUBLISHED, NULL);
}

tf_err tf_client_name_refused(tf_request *request, const tf_result_refusal *refusal)
{
    named *name = TF_CONTAINER(request, named, request);
    name->state = NAME_WANTED;
    if (refusal->retryable || name->again) {
        name->retry_at = refusal->retryable ? tf_client_retry_at(name->client, refusal) : 0;
        tf_client_wake_at(name->client, name->retry_at);
        return TF_OK;
    }
    if (name->withdrawn) {
        return withdrawn(name); /* the peer had lost it, or gave it to somebody else */
    }
    tf_err err = tell(name, TF_CLIENT_PUBLISH_REFUSED, refusal);
    if (err == TF_OK) {
        forget(name);
    }
    return err;
}

/* -- time, and the end --------------------------------------------------------------------------------------------- */

void tf_client_names_tick(tf_client *client)
{
    for (tf_list_node *node = client->names.head.next; node != &client->names.head; node = node->next) {
        const named *name = named_at(node);
        if (name->state != NAME_WANTED || client->conn == NULL) {
            continue;
        }
        if (client->hub->now >= name->retry_at) {
            tf_hub_wake(client->conn);
        } else {
            tf_client_wake_at(client, name->retry_at);
        }
    }
}

void tf_client_names_reset(tf_client *client)
{
    for (tf_list_node *node = client->names.head.next; node != &client->names.head; node = node->next) {
        named_at(node)->state = NAME_WANTED;
        named_at(node)->again = false;
        named_at(node)->retry_at = 0;
    }
}

void tf_client_names_clear(tf_client *client)
{
    tf_list_node *node = NULL;
    while ((node = tf_list_first(&client->names)) != NULL) {
        forget(named_at(node));
    }
}
