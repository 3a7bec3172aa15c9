/* The store of a node: in memory, or on disk with what its threads have to tell. */
#include <stdlib.h>
#include <unistd.h>

#include "node/node_internal.h"
#include "node/store/disk.h"
#include "node/store/memory.h"

#define BRISK_SPAN (300 * TF_MS / 1000) /* a commit on a good disk takes less */

/* -- what is told -------------------------------------------------------------------------------------------------- */

static const char *state_name(tf_store_state state)
{
    switch (state) {
    case TF_STORE_WRITABLE:
        return "writable";
    case TF_STORE_FULL:
        return "full";
    case TF_STORE_UNAVAILABLE:
        return "unavailable";
    }
    TF_UNREACHABLE();
}

static void tell_damage(tf_node *node)
{
    tf_store_damage damage;
    while (node->store.table->damage_next(node->store.ctx, &node->store_damage, &damage)) {
        TF_LOG(node->config.log, TF_LOG_ERROR, "store_damaged", NULL, tf_log_uint("channel", damage.channel),
               tf_log_uint("first", damage.first), tf_log_uint("last", damage.last));
    }
}

/* The store changed its state: said once. */
static void tell_state(tf_node *node)
{
    tf_store_stats stats;
    node->store.table->get_stats(node->store.ctx, &stats);
    if (stats.state == node->store_state) {
        return;
    }
    bool good = stats.state == TF_STORE_WRITABLE;
    TF_LOG(node->config.log, good ? TF_LOG_INFO : TF_LOG_ERROR, good ? "store_writable" : "store_not_writable", NULL,
           tf_log_str("state", state_name(stats.state)),
           tf_log_str("reason", good ? "" : strerror(tf_disk_store_errno(node->disk))),
           tf_log_uint("failures", stats.commits_failed));
    node->store_state = stats.state;
}

static void on_store(evutil_socket_t fd, short what, void *ctx)
{
    uint64_t count = 0;
    (void)what;
    ssize_t got = read(fd, &count, sizeof(count)); /* the turn that follows polls the store */
    (void)got;
    tell_damage(ctx);
}

static void tell_opened(tf_node *node)
{
    const tf_disk_report *report = tf_disk_store_report(node->disk);
    TF_LOG(node->config.log, report->damaged > 0 ? TF_LOG_ERROR : TF_LOG_INFO, "store_opened", NULL,
           tf_log_uint("channels", report->channels), tf_log_uint("messages", report->messages),
           tf_log_uint("replayed", report->replayed), tf_log_uint("torn", report->torn),
           tf_log_uint("damaged", report->damaged), tf_log_uint("new_epochs", report->new_epochs));
    tell_damage(node);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static tf_err open_memory(tf_node *node)
{
    tf_memory_store_config config = {.mem = node->mem,
                                     .hash_key = tf_rand_u64(node->rand),
                                     .bytes_max = node->config.limits.store_bytes,
                                     .channels_max = node->config.limits.channels};
    tf_err err = tf_memory_store_new(&node->memory, &config);
    if (err == TF_OK) {
        node->store = tf_memory_store_get(node->memory);
    }
    return err;
}

static tf_err open_disk(tf_node *node, char why[TF_WHY_MAX])
{
    const tf_node_store *store = &node->config.store;
    tf_disk_store_config config = {.directory = store->directory,
                                   .mem = node->mem,
                                   .rand = node->rand,
                                   .segment_size = store->segment_size,
                                   .segments_max = store->segment_size == 0 ? 0 : store->log_bytes / store->segment_size,
                                   .channels_max = node->config.limits.channels};
    tf_err err = tf_disk_store_open(&node->disk, &config, why);
    if (err != TF_OK) {
        TF_LOG(node->config.log, TF_LOG_ERROR, "store_failed", NULL, tf_log_str("reason", why));
        return err;
    }
    node->store = tf_disk_store_get(node->disk);
    node->store_event = event_new(node->base, tf_disk_store_fd(node->disk), EV_READ | EV_PERSIST, on_store, node);
    if (node->store_event == NULL || event_add(node->store_event, NULL) != 0) {
        return TF_ERR_NOMEM;
    }
    tell_opened(node);
    return TF_OK;
}

tf_err tf_node_store_open(tf_node *node, char why[TF_WHY_MAX])
{
    return node->config.store.directory == NULL ? open_memory(node) : open_disk(node, why);
}

bool tf_node_store_watch(tf_node *node)
{
    tf_time end = 0;
    if (node->disk == NULL) {
        return false;
    }
    while (tf_disk_store_is_brisk(node->disk) && !node->awake && !tf_hub_has_work(node->hub)) {
        tf_time now = tf_edge_now();
        end = end == 0 ? tf_time_add(now, BRISK_SPAN) : end;
        if (now >= end) {
            break;
        }
        (void)event_base_loop(node->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    }
    tf_disk_store_set_sleeping(node->disk, true);
    return node->awake || tf_hub_has_work(node->hub) || tf_disk_store_has_news(node->disk);
}

void tf_node_store_awake(tf_node *node)
{
    if (node->disk == NULL) {
        return;
    }
    tf_disk_store_set_sleeping(node->disk, false);
    uint64_t turns = tf_disk_store_turns(node->disk);
    if (turns != node->store_turns) {
        node->store_turns = turns;
        tell_state(node);
    }
}

void tf_node_store_close(tf_node *node)
{
    if (node->store_event != NULL) {
        event_free(node->store_event);
    }
    tf_disk_store_close(node->disk);
    tf_memory_store_free(node->memory);
}
