/* What the peers of connections may do with channels (node/hub_rights.h), and what changes when that does: what is
 * accepted stays, what waits or goes on ends with `forbidden`. */
#include "node/hub_internal.h"

/* Kept per connection and channel until the rights change, so that a call costs one look-up. */
static unsigned rights_for(tf_conn *conn, const tf_channel *channel)
{
    const tf_hub *hub = conn->hub;
    uint64_t rights = 0;
    if (!tf_map_get(&conn->rights, channel->object.local, &rights)) {
        rights = tf_hub_rights_of(hub->rights, &conn->config.link.peer, tf_channel_name(channel));
        if (conn->rights.count >= hub->config.channels_per_peer ||
            tf_map_put(&conn->rights, channel->object.local, rights) != TF_OK) {
            return (unsigned)rights; /* no room: looked up again next time */
        }
    }
    return (unsigned)rights;
}

bool tf_hub_may(tf_conn *conn, const tf_channel *channel, unsigned right)
{
    return conn->hub->rights == NULL || (rights_for(conn, channel) & right) != 0;
}

bool tf_hub_may_by_name(const tf_conn *conn, tf_slice channel, unsigned right)
{
    const tf_hub *hub = conn->hub;
    return hub->rights == NULL ||
           (tf_hub_rights_of(hub->rights, &conn->config.link.peer, channel) & right) != 0;
}

/* Subscriptions and reads of what may no longer be read. */
static tf_err end_reading(tf_conn *conn)
{
    tf_list_node *next = NULL;
    for (tf_list_node *node = conn->subscriptions.head.next; node != &conn->subscriptions.head; node = next) {
        tf_subscription *subscription = TF_CONTAINER(node, tf_subscription, in_conn);
        next = node->next;
        if (!tf_hub_may(conn, subscription->channel, TF_RIGHT_READ)) {
            tf_hub_subscription_over(conn->hub, subscription, tf_slice_str("forbidden"));
        }
    }
    return tf_hub_reads_forbid(conn);
}

tf_err tf_hub_set_rights(tf_hub *hub, tf_time now, const tf_hub_rule *rules, size_t count)
{
    tf_hub_rights *rights = NULL;
    tf_err err = rules == NULL ? TF_OK : tf_hub_rights_new(&rights, hub->config.mem, rules, count);
    if (err != TF_OK) {
        return err;
    }
    tf_hub_clock(hub, now);
    tf_hub_rights_free(hub->rights);
    hub->rights = rights;
    for (tf_list_node *node = hub->conns.head.next; node != &hub->conns.head; node = node->next) {
        tf_conn *conn = TF_CONTAINER(node, tf_conn, in_conns);
        tf_map_clear(&conn->rights);
        err = conn->failed || conn->error != TF_OK ? TF_OK : end_reading(conn);
        if (err != TF_OK) {
            conn->error = err;
            tf_hub_wake(conn);
        }
    }
    return TF_OK;
}
