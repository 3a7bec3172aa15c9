#include "node/conn.h"

#include "node/hub_internal.h"

tf_err tf_conn_new(tf_conn **out, const tf_conn_config *config, tf_time now)
{
    tf_err err = TF_ERR_NOMEM;
    tf_conn *conn = tf_alloc(config->mem, sizeof(*conn));
    if (conn == NULL) {
        return err;
    }
    *conn = (tf_conn){.config = *config, .trim_at = TF_NEVER};
    err = tf_link_new(&conn->link, &config->link, now);
    if (err == TF_OK) {
        err = tf_session_new(&conn->session, &config->session);
    }
    if (err != TF_OK) {
        tf_conn_free(conn);
        return err;
    }
    *out = conn;
    return TF_OK;
}

void tf_conn_free(tf_conn *conn)
{
    if (conn == NULL) {
        return;
    }
    TF_ASSERT(conn->hub == NULL);
    const tf_mem *mem = conn->config.mem;
    tf_session_free(conn->session);
    tf_link_free(conn->link);
    tf_free(mem, conn, sizeof(*conn));
}

tf_link *tf_conn_link(tf_conn *conn)
{
    return conn->link;
}

const tf_session *tf_conn_session(const tf_conn *conn)
{
    return conn->session;
}

void *tf_conn_owner(const tf_conn *conn)
{
    return conn->config.owner;
}

void tf_conn_set_owner(tf_conn *conn, void *owner)
{
    conn->config.owner = owner;
}

const tf_node_id *tf_conn_peer(const tf_conn *conn)
{
    return &conn->config.link.peer;
}

uint64_t tf_conn_peer_instance(const tf_conn *conn)
{
    return conn->config.link.peer_instance;
}

uint64_t tf_conn_session_number(const tf_conn *conn)
{
    return conn->config.link.session;
}

uint32_t tf_conn_peer_max_in_flight(const tf_conn *conn)
{
    return conn->config.peer_max_in_flight;
}

tf_time tf_conn_deadline(const tf_conn *conn)
{
    tf_time link = tf_link_deadline(conn->link);
    bool over = conn->failed || conn->error != TF_OK;
    return over ? link : tf_time_min(conn->trim_at, tf_time_min(link, tf_session_deadline(conn->session)));
}

static uint64_t traffic(const tf_conn *conn)
{
    tf_session_stats stats;
    tf_session_get_stats(conn->session, &stats);
    return stats.sent + stats.received;
}

void tf_conn_used(tf_conn *conn, tf_time now)
{
    if (conn->trim_at == TF_NEVER) {
        conn->trim_at = tf_time_add(now, conn->config.link.keepalive);
        conn->traffic = traffic(conn);
    }
}

/* When nothing went or came for a keepalive's time, the session gives its memory back, as the link does. */
static void trim(tf_conn *conn, tf_time now)
{
    uint64_t seen = traffic(conn);
    if (seen != conn->traffic) {
        conn->traffic = seen;
        conn->trim_at = tf_time_add(now, conn->config.link.keepalive);
        return;
    }
    conn->trim_at = TF_NEVER;
    tf_session_trim(conn->session);
    tf_refs_trim(conn->config.session.refs);
}

void tf_conn_tick(tf_conn *conn, tf_time now)
{
    tf_link_tick(conn->link, now);
    if (!conn->failed && conn->error == TF_OK) {
        conn->error = tf_session_tick(conn->session, now);
        if (conn->trim_at <= now) {
            trim(conn, now);
        }
    }
}

void tf_conn_init_hub(tf_conn *conn, tf_hub *hub)
{
    const tf_mem *mem = hub->config.mem;
    conn->hub = hub;
    tf_list_init(&conn->waiting);
    tf_list_init(&conn->subscriptions);
    tf_list_init(&conn->lagging);
    tf_list_init(&conn->reads);
    tf_list_init(&conn->calls);
    tf_map_init(&conn->ports, mem, hub->hash_key);
    tf_map_init(&conn->rights, mem, hub->hash_key);
    tf_map_init(&conn->origins, mem, hub->hash_key);
    tf_map_init(&conn->guards, mem, hub->hash_key);
    conn->guard_room = 16u * (size_t)hub->config.max_in_flight;
    conn->self = (tf_origin){.node = conn->config.link.peer, .instance = conn->config.link.peer_instance};
}
