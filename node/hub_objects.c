/* Objects and promises of a program that embeds the node: what it does with them. */
#include "node/hub_objects.h"

#include "node/hub_internal.h"

#define REFUSAL_BYTES 512u

/* -- what it holds ------------------------------------------------------------------------------------------------- */

void tf_hub_app_init(tf_hub *hub)
{
    tf_map_init(&hub->app.held, hub->config.mem, hub->hash_key);
    tf_list_init(&hub->app.queue);
    tf_list_init(&hub->app.lost);
    tf_list_init(&hub->app.gone);
}

tf_app_held *tf_hub_app_find(const tf_hub *hub, tf_local local)
{
    uint64_t value = 0;
    return tf_map_get(&hub->app.held, local, &value) ? (tf_app_held *)(uintptr_t)value : NULL;
}

/* Room for one more, not in the map, whose place there is reserved. */
static tf_err new_held(tf_hub *hub, tf_app_held **out)
{
    if (hub->app.held.count >= TF_APP_HELD_MAX) {
        return TF_ERR_LIMIT_ITEMS;
    }
    tf_err err = tf_map_reserve(&hub->app.held, 1);
    *out = err == TF_OK ? tf_alloc(hub->config.mem, sizeof(**out)) : NULL;
    return *out == NULL ? TF_ERR_NOMEM : TF_OK;
}

/* The router holds it once for this. */
static void add_held(tf_hub *hub, tf_app_held *held, tf_local local)
{
    *held = (tf_app_held){.local = local};
    tf_err err = tf_map_put(&hub->app.held, local, (uintptr_t)held);
    TF_ASSERT(err == TF_OK);
}

tf_app_held *tf_hub_app_get(tf_hub *hub, tf_local local)
{
    tf_app_held *held = tf_hub_app_find(hub, local);
    if (held == NULL && new_held(hub, &held) == TF_OK) {
        add_held(hub, held, local);
        tf_router_hold(hub->router, local);
    }
    return held;
}

void tf_hub_app_put(tf_hub *hub, tf_app_held *held)
{
    if (held->holds > 0 || held->events > 0) {
        return;
    }
    (void)tf_map_remove(&hub->app.held, held->local);
    tf_list_remove(&held->in_lost);
    if (!held->settled) {
        tf_router_release(hub->router, hub->now, held->local);
    }
    tf_free(hub->config.mem, held, sizeof(*held));
}

/* Revoked already, and the router has told those who held it then. */
static void tell_revoked(tf_hub *hub, tf_app_held *held)
{
    const tf_record *record = tf_refs_find(tf_hub_refs(hub), held->local);
    bool is_over = record != NULL && record->state == TF_RECORD_REVOKED && !record->is_noted && !record->is_settling;
    if (is_over && !held->lost) {
        held->lost = true;
        tf_list_append(&hub->app.lost, &held->in_lost);
    }
}

tf_err tf_hub_hold(tf_hub *hub, tf_local local, void *user)
{
    tf_app_held *held = tf_hub_app_find(hub, local);
    if (held == NULL) {
        if (!tf_router_is_known(hub->router, local)) {
            return TF_ERR_USAGE;
        }
        tf_err err = new_held(hub, &held);
        if (err != TF_OK) {
            return err;
        }
        add_held(hub, held, local);
        tf_router_hold(hub->router, local);
    }
    if (held->told) {
        return TF_ERR_USAGE;
    }
    if (held->holds == 0 && held->revoked == 0) {
        tell_revoked(hub, held);
    }
    held->holds++;
    held->user = user;
    return TF_OK;
}

void tf_hub_release(tf_hub *hub, tf_time now, tf_local local)
{
    tf_app_held *held = tf_hub_app_find(hub, local);
    tf_hub_clock(hub, now);
    if (held != NULL && held->holds > 0) {
        held->holds--;
        tf_hub_app_put(hub, held);
    }
}

/* -- objects of the application ------------------------------------------------------------------------------------ */

static tf_app_object *object_of(const tf_hub *hub, tf_local local)
{
    tf_object *object = tf_hub_object(hub, local);
    return object != NULL && object->kind == TF_OBJECT_APP ? (tf_app_object *)object : NULL;
}

tf_err tf_hub_object_new(tf_hub *hub, void *user, tf_local *out)
{
    if (hub->app.object_count >= TF_APP_OBJECTS_MAX) {
        return TF_ERR_LIMIT_ITEMS;
    }
    tf_app_object *object = tf_alloc(hub->config.mem, sizeof(*object));
    if (object == NULL) {
        return TF_ERR_NOMEM;
    }
    *object = (tf_app_object){.object = {TF_OBJECT_APP, tf_router_new_object(hub->router)}, .user = user};
    tf_err err = tf_map_put(&hub->objects, object->object.local, (uintptr_t)object);
    if (err != TF_OK) {
        tf_free(hub->config.mem, object, sizeof(*object));
        return err;
    }
    hub->app.object_count++;
    *out = object->object.local;
    return TF_OK;
}

static void free_object(tf_hub *hub, tf_app_object *object)
{
    (void)tf_map_remove(&hub->objects, object->object.local);
    tf_list_remove(&object->in_gone);
    hub->app.object_count--;
    tf_free(hub->config.mem, object, sizeof(*object));
}

void tf_hub_object_free(tf_hub *hub, tf_time now, tf_local object)
{
    tf_app_object *known = object_of(hub, object);
    if (known == NULL) {
        return;
    }
    tf_hub_clock(hub, now);
    free_object(hub, known);
    tf_revocation revocation = {.object = object, .data = tf_code_rejection(TF_CODE_REVOKED)};
    tf_err err = tf_router_revoke(hub->router, now, &revocation);
    /* It was revoked already; or its calls are refused all the same, one by one. */
    TF_ASSERT(err == TF_OK || err == TF_ERR_USAGE || err == TF_ERR_NOMEM);
}

bool tf_hub_object_user(const tf_hub *hub, tf_local object, void **user)
{
    const tf_app_object *known = object_of(hub, object);
    if (known != NULL && user != NULL) {
        *user = known->user;
    }
    return known != NULL;
}

void tf_hub_app_clear(tf_hub *hub)
{
    size_t position = 0;
    uint64_t local = 0;
    uint64_t value = 0;
    tf_hub_app_queue_clear(hub);
    while (tf_map_next(&hub->app.held, &position, &local, &value)) {
        tf_app_held *held = (tf_app_held *)(uintptr_t)value;
        tf_list_remove(&held->in_lost);
        if (!held->settled) {
            tf_router_release(hub->router, hub->now, held->local);
        }
        tf_free(hub->config.mem, held, sizeof(*held));
    }
    tf_map_clear(&hub->app.held);
}

void tf_hub_app_objects_free(tf_hub *hub)
{
    size_t position = 0;
    uint64_t local = 0;
    uint64_t value = 0;
    while (tf_map_next(&hub->objects, &position, &local, &value)) {
        tf_object *object = (tf_object *)(uintptr_t)value;
        if (object->kind == TF_OBJECT_APP) {
            tf_free(hub->config.mem, object, sizeof(tf_app_object));
        }
    }
    hub->app.object_count = 0;
}

tf_err tf_hub_promise_new(tf_hub *hub, void *user, tf_local *out)
{
    tf_app_held *held = NULL;
    tf_err err = new_held(hub, &held);
    if (err != TF_OK) {
        return err;
    }
    tf_local promise = tf_router_new_promise(hub->router);
    if (promise == TF_LOCAL_NONE) {
        tf_free(hub->config.mem, held, sizeof(*held));
        return TF_ERR_NOMEM;
    }
    add_held(hub, held, promise);
    held->holds = 1;
    held->user = user;
    held->decided = true;
    *out = promise;
    return TF_OK;
}

/* -- what it does -------------------------------------------------------------------------------------------------- */

/* A promise that was resolved to an object, which the application has not heard yet, is that object. */
static tf_local target_of(const tf_hub *hub, tf_local target)
{
    const tf_app_held *held = tf_hub_app_find(hub, target);
    return held != NULL && held->settled && !held->told && held->object != TF_LOCAL_NONE ? held->object : target;
}

tf_err tf_hub_call(tf_hub *hub, tf_time now, const tf_router_send *send, void *user, tf_local *result)
{
    tf_app_held *held = NULL;
    tf_local promise = TF_LOCAL_NONE;
    tf_router_send sent = *send;
    sent.target = target_of(hub, send->target);
    TF_ASSERT(!send->want_result || result != NULL);
    tf_hub_clock(hub, now);
    if (send->want_result) {
        tf_err err = new_held(hub, &held);
        if (err != TF_OK) {
            return err;
        }
    }
    tf_err err = tf_router_deliver(hub->router, now, &sent, &promise);
    if (err != TF_OK) {
        tf_free(hub->config.mem, held, sizeof(*held));
        return err;
    }
    if (held != NULL) {
        add_held(hub, held, promise);
        held->holds = 1;
        held->user = user;
        *result = promise;
    }
    return TF_OK;
}

tf_err tf_hub_resolve(tf_hub *hub, tf_time now, const tf_answer *answers, size_t count)
{
    tf_hub_clock(hub, now);
    tf_err err = tf_router_resolve(hub->router, now, answers, count);
    for (size_t i = 0; err == TF_OK && i < count; i++) {
        tf_app_held *held = tf_hub_app_find(hub, answers[i].promise);
        if (held != NULL && held->decided) {
            held->holds = 0;
            tf_hub_app_put(hub, held);
        }
    }
    return err;
}

/* A refusal as bytes; false: it is none. */
static bool write_refusal(const tf_result_refusal *refusal, uint8_t bytes[REFUSAL_BYTES], tf_slice *out)
{
    tf_writer w;
    if (refusal->code.len == 0 || refusal->code.len > TF_REFUSAL_CODE_MAX ||
        refusal->message.len > TF_REFUSAL_MESSAGE_MAX || refusal->client_id.len > 0) {
        return false;
    }
    tf_wr_init(&w, bytes, REFUSAL_BYTES);
    tf_result_refusal_write(&w, refusal);
    TF_ASSERT(tf_wr_ok(&w));
    *out = tf_slice_of(bytes, tf_wr_len(&w));
    return true;
}

tf_err tf_hub_reject(tf_hub *hub, tf_time now, tf_local promise, tf_slice code, tf_slice message)
{
    uint8_t bytes[REFUSAL_BYTES];
    tf_answer answer = {.promise = promise, .kind = TF_RESOLUTION_REJECTION};
    tf_result_refusal refusal = {.code = code, .message = message};
    return write_refusal(&refusal, bytes, &answer.data) ? tf_hub_resolve(hub, now, &answer, 1) : TF_ERR_USAGE;
}

tf_err tf_hub_revoke(tf_hub *hub, tf_time now, tf_local object, bool hard, const tf_result_refusal *why)
{
    uint8_t bytes[REFUSAL_BYTES];
    tf_revocation revocation = {.object = object, .hard = hard};
    tf_hub_clock(hub, now);
    if (object_of(hub, object) == NULL || !write_refusal(why, bytes, &revocation.data)) {
        return TF_ERR_USAGE;
    }
    return tf_router_revoke(hub->router, now, &revocation);
}

/* -- what it is ---------------------------------------------------------------------------------------------------- */

bool tf_hub_describe(const tf_hub *hub, tf_local local, tf_hub_ref_state *out)
{
    tf_session *owner = NULL;
    *out = (tf_hub_ref_state){.conn = NULL};
    if (!tf_router_describe(hub->router, local, &owner, &out->exports, &out->is_revoked)) {
        return false;
    }
    out->conn = owner == NULL ? NULL : tf_router_owner(owner);
    out->is_own = tf_hub_object(hub, local) != NULL || tf_refs_find(tf_hub_refs(hub), local)->is_own;
    return true;
}

tf_local tf_hub_peer_root(const tf_conn *conn)
{
    return tf_session_peer_root(conn->session);
}
