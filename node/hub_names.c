/* Names for objects: `publish` and `lookup` of the root; and `refs`, what the caller's connection has in its c-list. */
#include <xxhash.h>

#include "node/hub_internal.h"
#include "node/name.h"

/* -- the table ----------------------------------------------------------------------------------------------------- */

void tf_hub_names_init(tf_hub *hub)
{
    tf_map_init(&hub->names.by_name, hub->config.mem, hub->hash_key);
    tf_map_init(&hub->names.publishers, hub->config.mem, hub->hash_key);
}

static uint64_t hash_of(const tf_hub *hub, tf_slice bytes)
{
    return XXH3_64bits_withSeed(bytes.data, bytes.len, hub->hash_key);
}

static tf_name *find(const tf_hub *hub, tf_slice text)
{
    for (tf_chain *at = tf_chain_first(&hub->names.by_name, hash_of(hub, text)); at != NULL; at = at->next) {
        tf_name *name = TF_CONTAINER(at, tf_name, same_hash);
        if (tf_slice_eq(tf_slice_of(name->bytes, name->len), text)) {
            return name;
        }
    }
    return NULL;
}

static tf_publisher *find_publisher(const tf_hub *hub, const tf_node_id *id, uint64_t hash)
{
    for (tf_chain *at = tf_chain_first(&hub->names.publishers, hash); at != NULL; at = at->next) {
        tf_publisher *publisher = TF_CONTAINER(at, tf_publisher, same_hash);
        if (tf_node_id_eq(&publisher->id, id)) {
            return publisher;
        }
    }
    return NULL;
}

/* Made if there is none. NULL: no memory. */
static tf_publisher *get_publisher(tf_hub *hub, const tf_node_id *id)
{
    uint64_t hash = hash_of(hub, tf_slice_of(id->bytes, sizeof(id->bytes)));
    tf_publisher *publisher = find_publisher(hub, id, hash);
    if (publisher != NULL) {
        return publisher;
    }
    publisher = tf_alloc(hub->config.mem, sizeof(*publisher));
    if (publisher == NULL) {
        return NULL;
    }
    *publisher = (tf_publisher){.id = *id, .hash = hash};
    if (tf_chain_add(&hub->names.publishers, hash, &publisher->same_hash) != TF_OK) {
        tf_free(hub->config.mem, publisher, sizeof(*publisher));
        return NULL;
    }
    return publisher;
}

/* Freed if it has no names. */
static void put_publisher(tf_hub *hub, tf_publisher *publisher)
{
    if (publisher->count > 0) {
        return;
    }
    tf_chain_remove(&hub->names.publishers, publisher->hash, &publisher->same_hash);
    tf_free(hub->config.mem, publisher, sizeof(*publisher));
}

static void withdraw(tf_hub *hub, tf_name *name)
{
    tf_chain_remove(&hub->names.by_name, name->hash, &name->same_hash);
    tf_hub_unwatch(hub, &name->object);
    hub->names.count--;
    name->publisher->count--;
    put_publisher(hub, name->publisher);
    tf_free(hub->config.mem, name, sizeof(*name) + name->len);
}

void tf_hub_name_lost(tf_hub *hub, tf_watch *object)
{
    withdraw(hub, TF_CONTAINER(object, tf_name, object));
}

static void free_names(tf_hub *hub, tf_chain *at)
{
    for (tf_chain *next = NULL; at != NULL; at = next) {
        tf_name *name = TF_CONTAINER(at, tf_name, same_hash);
        next = at->next;
        tf_hub_unwatch(hub, &name->object);
        tf_free(hub->config.mem, name, sizeof(*name) + name->len);
    }
}

static void free_publishers(tf_hub *hub, tf_chain *at)
{
    for (tf_chain *next = NULL; at != NULL; at = next) {
        next = at->next;
        tf_free(hub->config.mem, TF_CONTAINER(at, tf_publisher, same_hash), sizeof(tf_publisher));
    }
}

void tf_hub_names_clear(tf_hub *hub)
{
    size_t position = 0;
    uint64_t hash = 0;
    uint64_t value = 0;
    while (tf_map_next(&hub->names.by_name, &position, &hash, &value)) {
        free_names(hub, tf_chain_of(value));
    }
    tf_map_clear(&hub->names.by_name);
    position = 0;
    while (tf_map_next(&hub->names.publishers, &position, &hash, &value)) {
        free_publishers(hub, tf_chain_of(value));
    }
    tf_map_clear(&hub->names.publishers);
    hub->names.count = 0;
}

/* False: no memory. */
static bool add(tf_hub *hub, tf_slice text, tf_publisher *publisher, tf_local object)
{
    tf_name *name = tf_alloc(hub->config.mem, sizeof(*name) + text.len);
    if (name == NULL) {
        return false;
    }
    uint64_t hash = hash_of(hub, text);
    *name = (tf_name){.publisher = publisher, .hash = hash, .len = text.len};
    memcpy(name->bytes, text.data, text.len);
    if (tf_map_reserve(&hub->names.by_name, 1) != TF_OK ||
        tf_hub_watch(hub, &name->object, TF_WATCH_NAME, object) != TF_OK) {
        tf_free(hub->config.mem, name, sizeof(*name) + text.len);
        return false;
    }
    tf_err err = tf_chain_add(&hub->names.by_name, hash, &name->same_hash);
    TF_ASSERT(err == TF_OK);
    hub->names.count++;
    publisher->count++;
    return true;
}

/* -- publish, lookup ----------------------------------------------------------------------------------------------- */

/* It stands for another object from now on. False: no memory. */
static bool replace(tf_hub *hub, tf_name *name, tf_local object)
{
    tf_local before = name->object.local;
    if (tf_map_reserve(&hub->watches, 1) != TF_OK) {
        return false;
    }
    tf_router_hold(hub->router, before); /* it may be the same */
    tf_hub_unwatch(hub, &name->object);
    tf_err err = tf_hub_watch(hub, &name->object, TF_WATCH_NAME, object);
    TF_ASSERT(err == TF_OK);
    tf_router_release(hub->router, hub->now, before);
    return true;
}

static tf_refusal publish_new(tf_hub *hub, const tf_node_id *id, tf_slice text, tf_local object)
{
    if (hub->names.count >= TF_PUBLISHED_MAX) {
        return TF_REFUSAL_OVERLOADED;
    }
    tf_publisher *publisher = get_publisher(hub, id);
    if (publisher == NULL) {
        return TF_REFUSAL_OVERLOADED;
    }
    bool done = publisher->count < TF_PUBLISHED_PER_PEER && add(hub, text, publisher, object);
    put_publisher(hub, publisher);
    return done ? TF_REFUSAL_NONE : TF_REFUSAL_OVERLOADED;
}

static bool is_revoked(const tf_hub *hub, tf_local object)
{
    tf_session *owner = NULL;
    size_t exports = 0;
    bool revoked = false;
    return tf_router_describe(hub->router, object, &owner, &exports, &revoked) && revoked;
}

static tf_refusal publish(const tf_call *call, tf_slice text)
{
    tf_hub *hub = call->hub;
    const tf_node_id *id = &call->conn->config.link.peer;
    tf_name *name = find(hub, text);
    if (name != NULL && !tf_node_id_eq(&name->publisher->id, id)) {
        return TF_REFUSAL_NAME_TAKEN;
    }
    if (call->event->ref_count == 0) {
        if (name == NULL) {
            return TF_REFUSAL_NOT_FOUND;
        }
        withdraw(hub, name);
        return TF_REFUSAL_NONE;
    }
    tf_local object = call->event->refs[0].local;
    if (is_revoked(hub, object)) {
        return TF_REFUSAL_BAD_REQUEST; /* nobody would tell any more that it is */
    }
    if (name == NULL) {
        return publish_new(hub, id, text, object);
    }
    return replace(hub, name, object) ? TF_REFUSAL_NONE : TF_REFUSAL_OVERLOADED;
}

tf_err tf_hub_serve_publish(const tf_call *call)
{
    tf_args_name args;
    const tf_router_event *event = call->event;
    bool is_valid = event->ref_count == 0 || (event->ref_count == 1 && event->refs[0].kind == TF_REF_OBJECT);
    if (!is_valid || tf_args_name_read(event->args, &args) != TF_OK || !tf_channel_name_is_valid(args.name)) {
        return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
    }
    if (!tf_hub_may_by_name(call->conn, args.name, TF_RIGHT_WRITE)) {
        return tf_hub_refuse_call(call, TF_REFUSAL_FORBIDDEN);
    }
    tf_refusal refusal = publish(call, args.name);
    if (refusal != TF_REFUSAL_NONE) {
        return tf_hub_refuse_call(call, refusal);
    }
    return tf_hub_answer_done(call->conn, event->result);
}

tf_err tf_hub_serve_lookup(const tf_call *call)
{
    static const uint8_t empty_map[] = {0x80};
    tf_args_name args;
    if (tf_args_name_read(call->event->args, &args) != TF_OK || !tf_channel_name_is_valid(args.name) ||
        call->event->ref_count != 0) {
        return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
    }
    if (!tf_hub_may_by_name(call->conn, args.name, TF_RIGHT_READ)) {
        return tf_hub_refuse_call(call, TF_REFUSAL_FORBIDDEN);
    }
    const tf_name *name = find(call->hub, args.name);
    if (name == NULL) {
        return tf_hub_refuse_call(call, TF_REFUSAL_NOT_FOUND);
    }
    tf_mention object = {name->object.local, TF_REF_OBJECT};
    tf_err err = tf_hub_answer(call->conn, call->event->result, tf_slice_of(empty_map, sizeof(empty_map)), &object, 1);
    if (err == TF_ERR_LIMIT_ITEMS || err == TF_ERR_LIMIT_BYTES) {
        return tf_hub_refuse_call(call, TF_REFUSAL_OVERLOADED);
    }
    return err;
}

/* -- refs ---------------------------------------------------------------------------------------------------------- */

tf_err tf_hub_serve_refs(const tf_call *call)
{
    uint8_t bytes[TF_HUB_LIST_HEAD];
    tf_writer head;
    tf_args_refs args;
    tf_session_entry entry;
    tf_result_refs result = {.next = 0};
    if (tf_args_refs_read(call->event->args, &args) != TF_OK || call->event->ref_count != 0) {
        return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
    }
    if (!tf_hub_has_room(call->conn)) {
        return tf_hub_refuse_call(call, TF_REFUSAL_OVERLOADED);
    }
    tf_hub_list items = tf_hub_list_begin(call);
    uint64_t position = args.after;
    while (tf_session_next_entry(call->conn->session, &position, &entry)) {
        if (entry.local == call->event->result && entry.local != TF_LOCAL_NONE) {
            continue; /* of this very answer: the next page would have its own */
        }
        if (!tf_hub_list_has_room(&items) || (args.limit != 0 && items.count >= args.limit)) {
            result.next = args.after;
            break;
        }
        tf_ref_state state = {.ref = entry.ref,
                              .is_export = entry.is_export,
                              .local = entry.local,
                              .is_revoked = entry.is_revoked,
                              .is_retired = entry.is_retired,
                              .retired = entry.retired,
                              .is_mentioned = entry.is_mentioned,
                              .mentioned = entry.mentioned,
                              .count = entry.count};
        tf_ref_state_write(&items.w, &state);
        items.count++;
        args.after = position;
    }
    tf_wr_init(&head, bytes, sizeof(bytes));
    tf_result_refs_write_head(&head, &result, items.count);
    return tf_hub_list_finish(call, &head, &items);
}
