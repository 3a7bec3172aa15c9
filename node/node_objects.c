/* References of the program that embeds the node: its objects with their handlers, what it sends, resolves and
 * holds. */
#include "node/edge_mem.h"
#include "node/hub_objects.h"
#include "node/node_internal.h"

struct tf_node_object {
    tf_list_node in_node;
    tf_object_handler handler;
    tf_local local;
};

/* What was done is written in the next turn, which is not to be waited for. */
static tf_err done(tf_node *node, tf_err err)
{
    node->awake = node->awake || err == TF_OK;
    return err;
}

/* -- objects ------------------------------------------------------------------------------------------------------- */

tf_err tf_node_export(tf_node *node, const tf_object_handler *handler, tf_local *object)
{
    tf_node_object *made = tf_alloc(node->mem, sizeof(*made));
    if (made == NULL) {
        return TF_ERR_NOMEM;
    }
    made->handler = *handler;
    tf_err err = tf_hub_object_new(node->hub, made, &made->local);
    if (err != TF_OK) {
        tf_free(node->mem, made, sizeof(*made));
        return err;
    }
    tf_list_append(&node->objects, &made->in_node);
    *object = made->local;
    return TF_OK;
}

static void object_free(tf_node *node, tf_node_object *object)
{
    tf_list_remove(&object->in_node);
    tf_free(node->mem, object, sizeof(*object));
}

void tf_node_unexport(tf_node *node, tf_local object)
{
    void *user = NULL;
    if (tf_hub_object_user(node->hub, object, &user)) {
        tf_hub_object_free(node->hub, tf_edge_now(), object);
        object_free(node, user);
        (void)done(node, TF_OK);
    }
}

void tf_node_objects_free(tf_node *node)
{
    while (!tf_list_is_empty(&node->objects)) {
        object_free(node, TF_CONTAINER(node->objects.head.next, tf_node_object, in_node));
    }
}

/* -- what it does -------------------------------------------------------------------------------------------------- */

tf_err tf_node_new_promise(tf_node *node, tf_local *promise)
{
    return tf_hub_promise_new(node->hub, NULL, promise);
}

tf_err tf_node_send(tf_node *node, const tf_node_message *message, tf_local *result)
{
    tf_router_send send = {.target = message->target,
                           .method = message->method,
                           .args = message->args,
                           .refs = message->refs,
                           .ref_count = message->ref_count,
                           .want_result = result != NULL};
    return done(node, tf_hub_call(node->hub, tf_edge_now(), &send, NULL, result));
}

tf_err tf_node_resolve(tf_node *node, const tf_answer *answers, size_t count)
{
    return done(node, tf_hub_resolve(node->hub, tf_edge_now(), answers, count));
}

tf_err tf_node_reject(tf_node *node, tf_local promise, tf_slice code, tf_slice message)
{
    uint8_t text[TF_REJECTION_MAX];
    tf_rejection rejection = {.code = code, .message = message};
    tf_answer answer = {.promise = promise, .kind = TF_RESOLUTION_REJECTION};
    if (code.len == 0 || code.len > TF_REFUSAL_CODE_MAX) {
        return TF_ERR_USAGE;
    }
    answer.data = tf_slice_of(text, tf_rejection_write(text, &rejection));
    return tf_node_resolve(node, &answer, 1);
}

tf_err tf_node_revoke(tf_node *node, tf_local object, bool hard, tf_slice code, tf_slice message)
{
    tf_result_refusal why = {.code = code, .message = message};
    return done(node, tf_hub_revoke(node->hub, tf_edge_now(), object, hard, &why));
}

tf_err tf_node_hold(tf_node *node, tf_local local)
{
    return done(node, tf_hub_hold(node->hub, local, NULL));
}

void tf_node_drop(tf_node *node, tf_local local)
{
    tf_hub_release(node->hub, tf_edge_now(), local);
    (void)done(node, TF_OK);
}

/* -- what happens -------------------------------------------------------------------------------------------------- */

static void called(tf_node *node, const tf_app_event *event)
{
    tf_node_object *object = event->user;
    tf_call_info info = {.node = node,
                         .object = event->local,
                         .method = event->method,
                         .args = event->args,
                         .refs = event->refs,
                         .ref_count = event->ref_count,
                         .result = event->result,
                         .has_caller = event->has_from,
                         .caller = event->from};
    object->handler.called(object->handler.user, &info);
}

static void dropped(const tf_app_event *event)
{
    tf_node_object *object = event->user;
    if (object->handler.dropped != NULL) {
        object->handler.dropped(object->handler.user, event->local);
    }
}

static void shown(const tf_app_event *event, tf_node_event *out)
{
    *out = (tf_node_event){.type = event->type == TF_APP_SETTLED ? TF_EVENT_SETTLED : TF_EVENT_REVOKED,
                           .local = event->local,
                           .resolution = event->kind,
                           .object = event->object,
                           .data = event->data,
                           .refs = event->refs,
                           .ref_count = event->ref_count,
                           .hard = event->hard};
}

bool tf_node_next_object_event(tf_node *node, tf_node_event *out)
{
    tf_app_event event;
    while (tf_hub_next_app_event(node->hub, &event)) {
        switch (event.type) {
        case TF_APP_CALL:
            called(node, &event);
            break;
        case TF_APP_GONE:
            dropped(&event);
            break;
        case TF_APP_SETTLED:
        case TF_APP_REVOKED:
            shown(&event, out);
            return true;
        }
    }
    return false;
}
