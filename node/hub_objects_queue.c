/* Objects and promises of a program that embeds the node: what happens to them, until it is pulled. */
#include "node/hub_internal.h"
#include "node/hub_objects.h"

static bool is_call(const tf_app_note *note)
{
    return note->event.type == TF_APP_CALL;
}

/* -- bounds (P7) --------------------------------------------------------------------------------------------------- */

static size_t size_of(const tf_router_event *event)
{
    bool to_object = event->type == TF_ROUTER_RESOLVED && event->kind == TF_RESOLUTION_OBJECT;
    return sizeof(tf_app_note) + (event->ref_count + (to_object ? 1u : 0u)) * sizeof(tf_mention) + event->method.len +
           event->args.len + event->data.len;
}

static bool has_call_room(const tf_hub *hub, const tf_conn *conn, size_t size)
{
    const tf_hub_app *app = &hub->app;
    if (conn != NULL && conn->call_count > 0 &&
        (conn->call_count >= TF_APP_ITEMS / 4 || conn->call_bytes + size > TF_APP_BYTES / 4)) {
        return false;
    }
    return app->call_count == 0 || (app->call_count < TF_APP_ITEMS && app->call_bytes + size <= TF_APP_BYTES);
}

static bool has_other_room(const tf_hub *hub, size_t size)
{
    return hub->app.other_bytes == 0 || hub->app.other_bytes + size <= TF_APP_BYTES;
}

static void charge(tf_hub *hub, tf_app_note *note)
{
    tf_conn *conn = note->conn;
    tf_list_append(&hub->app.queue, &note->in_queue);
    if (!is_call(note)) {
        hub->app.other_bytes += note->size;
        return;
    }
    hub->app.call_count++;
    hub->app.call_bytes += note->size;
    if (conn != NULL) {
        tf_list_append(&conn->calls, &note->in_conn);
        conn->call_count++;
        conn->call_bytes += note->size;
    }
}

static void disown(tf_app_note *note)
{
    if (note->conn != NULL) {
        tf_list_remove(&note->in_conn);
        note->conn->call_count--;
        note->conn->call_bytes -= note->size;
        note->conn = NULL;
    }
}

static void discharge(tf_hub *hub, tf_app_note *note)
{
    disown(note);
    hub->app.call_count -= is_call(note) ? 1u : 0u;
    *(is_call(note) ? &hub->app.call_bytes : &hub->app.other_bytes) -= note->size;
    tf_list_remove(&note->in_queue);
}

/* -- into the queue ------------------------------------------------------------------------------------------------ */

/* What the first `count` of its refs need is let go. */
static void let_go(tf_hub *hub, const tf_app_note *note, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tf_app_held *held = tf_hub_app_find(hub, note->refs[i].local);
        held->events--;
        tf_hub_app_put(hub, held);
    }
}

static bool keep_refs(tf_hub *hub, const tf_app_note *note)
{
    for (size_t i = 0; i < note->ref_count; i++) {
        tf_app_held *held = tf_hub_app_get(hub, note->refs[i].local);
        if (held == NULL) {
            let_go(hub, note, i);
            return false;
        }
        held->events++;
    }
    return true;
}

static tf_slice keep(uint8_t **at, tf_slice bytes)
{
    tf_slice kept = tf_slice_of(*at, bytes.len);
    if (bytes.len > 0) {
        memcpy(*at, bytes.data, bytes.len);
    }
    *at += bytes.len;
    return kept;
}

/* A copy, with what it names. NULL: no memory. */
static tf_app_note *new_note(tf_hub *hub, const tf_router_event *event)
{
    size_t size = size_of(event);
    bool to_object = event->type == TF_ROUTER_RESOLVED && event->kind == TF_RESOLUTION_OBJECT;
    tf_app_note *note = tf_alloc(hub->config.mem, size);
    if (note == NULL) {
        return NULL;
    }
    *note = (tf_app_note){.size = size, .ref_count = event->ref_count + (to_object ? 1u : 0u)};
    for (size_t i = 0; i < event->ref_count; i++) {
        note->refs[i] = event->refs[i];
    }
    if (to_object) {
        note->refs[event->ref_count] = event->object;
    }
    if (!keep_refs(hub, note)) {
        tf_free(hub->config.mem, note, size);
        return NULL;
    }
    uint8_t *at = (uint8_t *)&note->refs[note->ref_count];
    note->event = (tf_app_event){.local = event->local,
                                 .result = event->result,
                                 .refs = event->ref_count == 0 ? NULL : note->refs,
                                 .ref_count = event->ref_count,
                                 .kind = event->kind,
                                 .object = event->object,
                                 .hard = event->hard};
    note->event.method = keep(&at, event->method);
    note->event.args = keep(&at, event->args);
    note->event.data = keep(&at, event->data);
    return note;
}

static void free_note(tf_hub *hub, tf_app_note *note)
{
    let_go(hub, note, note->ref_count);
    tf_free(hub->config.mem, note, note->size);
}

/* No room: refused, and so is what comes behind it before its peer knows (P6). */
static tf_err refuse_call(tf_hub *hub, tf_conn *conn, const tf_router_event *event)
{
    if (conn == NULL) {
        tf_hub_abandon(hub, event->result, TF_CODE_OVERLOADED);
        return TF_OK;
    }
    tf_err err = tf_hub_refuse(conn, event->result, (tf_slice){NULL, 0}, TF_REFUSAL_OVERLOADED);
    if (event->result != TF_LOCAL_NONE) {
        conn->calls_guarded = tf_session_sent(conn->session);
    }
    return err;
}

tf_err tf_hub_app_call(tf_hub *hub, tf_conn *conn, tf_app_object *object, const tf_router_event *event)
{
    bool guarded = conn != NULL && tf_session_peer_processed(conn->session) < conn->calls_guarded;
    bool room = !guarded && has_call_room(hub, conn, size_of(event));
    tf_app_note *note = room ? new_note(hub, event) : NULL;
    if (note == NULL) {
        return refuse_call(hub, conn, event);
    }
    note->event.type = TF_APP_CALL;
    note->event.local = object->object.local;
    note->conn = conn;
    if (conn != NULL) {
        note->event.has_from = true;
        note->event.from = conn->config.link.peer;
    }
    charge(hub, note);
    return TF_OK;
}

/* Queues it, or what says that there was no room. */
static void tell(tf_hub *hub, tf_app_held *held, tf_app_event_type type, const tf_router_event *event)
{
    tf_app_note *note = has_other_room(hub, size_of(event)) ? new_note(hub, event) : NULL;
    if (note != NULL) {
        note->event.type = type;
        charge(hub, note);
    } else if (!held->lost) {
        held->lost = true;
        tf_list_append(&hub->app.lost, &held->in_lost);
    }
}

void tf_hub_app_settled(tf_hub *hub, const tf_router_event *event)
{
    tf_app_held *held = tf_hub_app_find(hub, event->local);
    if (held == NULL || held->settled) {
        return;
    }
    held->settled = true;
    tell(hub, held, TF_APP_SETTLED, event);
    if (!held->lost && event->kind == TF_RESOLUTION_OBJECT) {
        held->object = event->object.local;
    }
}

void tf_hub_app_revoked(tf_hub *hub, const tf_router_event *event)
{
    tf_app_held *held = tf_hub_app_find(hub, event->local);
    if (held != NULL) {
        tell(hub, held, TF_APP_REVOKED, event);
        held->revoked += held->lost ? 0 : 1;
    }
}

void tf_hub_app_gone(tf_hub *hub, tf_app_object *object)
{
    if (!tf_list_has(&object->in_gone)) {
        tf_list_append(&hub->app.gone, &object->in_gone);
    }
}

void tf_hub_app_disowned(tf_conn *conn)
{
    tf_list_node *node = NULL;
    while ((node = tf_list_first(&conn->calls)) != NULL) {
        tf_app_note *note = TF_CONTAINER(node, tf_app_note, in_conn);
        note->event.has_from = false;
        disown(note);
    }
}

/* -- out of it ----------------------------------------------------------------------------------------------------- */

static void free_current(tf_hub *hub)
{
    tf_app_note *note = hub->app.current;
    hub->app.current = NULL;
    if (note != NULL) {
        free_note(hub, note);
    }
}

/* False: it concerns nobody any more. */
static bool fill(tf_hub *hub, tf_app_event *event)
{
    if (event->type == TF_APP_CALL) {
        if (tf_hub_object_user(hub, event->local, &event->user)) {
            return true;
        }
        tf_hub_abandon(hub, event->result, TF_CODE_REVOKED); /* it is no object any more */
        return false;
    }
    tf_app_held *held = tf_hub_app_find(hub, event->local);
    if (held == NULL) {
        return false;
    }
    held->revoked -= event->type == TF_APP_REVOKED && held->revoked > 0 ? 1u : 0u;
    if (held->holds == 0) {
        return false;
    }
    event->user = held->user;
    if (event->type == TF_APP_SETTLED) {
        held->told = true;
        held->holds = 0;
        tf_hub_app_put(hub, held);
    }
    return true;
}

static bool take_queued(tf_hub *hub, tf_app_event *out)
{
    tf_list_node *node = NULL;
    while ((node = tf_list_first(&hub->app.queue)) != NULL) {
        tf_app_note *note = TF_CONTAINER(node, tf_app_note, in_queue);
        discharge(hub, note);
        hub->app.current = note;
        *out = note->event;
        if (fill(hub, out)) {
            return true;
        }
        free_current(hub);
    }
    return false;
}

static tf_app_event lost_event(const tf_hub *hub, const tf_app_held *held)
{
    tf_app_event event = {.local = held->local, .kind = TF_RESOLUTION_REJECTION};
    const tf_record *record = tf_refs_find(tf_hub_refs(hub), held->local);
    if (held->settled) {
        event.type = TF_APP_SETTLED;
        event.data = tf_code_rejection(TF_CODE_OVERLOADED);
    } else {
        TF_ASSERT(record != NULL && record->state == TF_RECORD_REVOKED);
        event.type = TF_APP_REVOKED;
        event.data = record->value->data;
        event.hard = record->hard;
    }
    return event;
}

static bool take_lost(tf_hub *hub, tf_app_event *out)
{
    tf_list_node *node = NULL;
    while ((node = tf_list_first(&hub->app.lost)) != NULL) {
        tf_app_held *held = TF_CONTAINER(node, tf_app_held, in_lost);
        tf_list_remove(node);
        held->lost = false;
        *out = lost_event(hub, held);
        if (fill(hub, out)) {
            return true;
        }
    }
    return false;
}

static bool take_gone(tf_hub *hub, tf_app_event *out)
{
    tf_list_node *node = NULL;
    while ((node = tf_list_first(&hub->app.gone)) != NULL) {
        tf_app_object *object = TF_CONTAINER(node, tf_app_object, in_gone);
        tf_list_remove(node);
        if (!tf_router_is_known(hub->router, object->object.local)) { /* else it was mentioned again meanwhile */
            *out = (tf_app_event){.type = TF_APP_GONE, .local = object->object.local, .user = object->user};
            return true;
        }
    }
    return false;
}

bool tf_hub_next_app_event(tf_hub *hub, tf_app_event *out)
{
    free_current(hub);
    return take_queued(hub, out) || take_lost(hub, out) || take_gone(hub, out);
}

bool tf_hub_has_app_events(const tf_hub *hub)
{
    return !tf_list_is_empty(&hub->app.queue) || !tf_list_is_empty(&hub->app.lost) || !tf_list_is_empty(&hub->app.gone);
}

void tf_hub_app_queue_clear(tf_hub *hub)
{
    tf_list_node *node = NULL;
    free_current(hub);
    while ((node = tf_list_first(&hub->app.queue)) != NULL) {
        tf_app_note *note = TF_CONTAINER(node, tf_app_note, in_queue);
        discharge(hub, note);
        free_note(hub, note);
    }
}
