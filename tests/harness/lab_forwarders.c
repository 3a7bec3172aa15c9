/* Routes of user-space forwarders on loopback: no rights are needed. Each client has one, for both of its routes. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/harness/forwarder.h"
#include "tests/harness/lab.h"

#define UDP_HEADERS 28u

typedef struct client_route {
    bool exists;
    tf_fwd_common common;
    tf_fwd_tcp *tcp;
    tf_fwd_udp *udp;
} client_route;

struct tf_lab_net {
    const tf_scenario *s;
    uint16_t port;
    client_route clients[TF_SCENARIO_NODES_MAX]; /* by node */
};

static tf_lab_net *create(const tf_scenario *s, struct event_base *base, char why[TF_WHY_MAX])
{
    tf_lab_net *net = calloc(1, sizeof(*net));
    if (net == NULL) {
        (void)snprintf(why, TF_WHY_MAX, "no memory");
        return NULL;
    }
    net->s = s;
    for (uint32_t i = 0; i < s->node_count; i++) {
        net->clients[i].common.base = base;
        net->clients[i].exists = !s->nodes[i].is_relay && !s->nodes[i].is_direct;
    }
    return net;
}

static void destroy(tf_lab_net *net)
{
    if (net == NULL) {
        return;
    }
    for (uint32_t i = 0; i < net->s->node_count; i++) {
        tf_fwd_tcp_free(net->clients[i].tcp);
        tf_fwd_udp_free(net->clients[i].udp);
    }
    free(net);
}

static void loopback(tf_fwd_address *out, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memset(out, 0, sizeof(*out));
    memcpy(&out->storage, &address, sizeof(address));
    out->len = sizeof(address);
}

static bool open_client(client_route *client, uint64_t seed, uint16_t port)
{
    int tcp_fd = -1;
    int udp_fd = -1;
    tf_test_random_init(&client->common.random, seed);
    loopback(&client->common.listen, 0);
    loopback(&client->common.to, port);
    if (tf_fwd_bind(&client->common, &tcp_fd, &udp_fd) != 0) {
        return false;
    }
    client->tcp = tf_fwd_tcp_new(&client->common, tcp_fd);
    client->udp = tf_fwd_udp_new(&client->common, udp_fd, NULL);
    return client->tcp != NULL && client->udp != NULL;
}

static bool open_all(tf_lab_net *net, uint16_t port, char why[TF_WHY_MAX])
{
    net->port = port;
    for (uint32_t i = 0; i < net->s->node_count; i++) {
        if (net->clients[i].exists && !open_client(&net->clients[i], net->s->seed + i, port)) {
            (void)snprintf(why, TF_WHY_MAX, "no sockets on 127.0.0.1 for the forwarder of %s", net->s->nodes[i].name);
            return false;
        }
    }
    return true;
}

static bool enter(const tf_lab_net *net, uint32_t node)
{
    (void)net;
    (void)node;
    return true;
}

static void addresses(const tf_lab_net *net, uint32_t node, char stream[64], char datagram[64])
{
    const client_route *client = &net->clients[node];
    unsigned port = client->exists ? tf_fwd_port(&client->common.listen) : net->port;
    (void)snprintf(stream, 64, "127.0.0.1:%u", port);
    (void)snprintf(datagram, 64, "127.0.0.1:%u", port);
}

/* Faults of the file as those of a forwarder; what it knows by another name is set apart. */
static const struct {
    tf_scenario_fault fault;
    tf_fwd_fault forwarder;
    bool of_stream;
} rows[] = {
    {TF_FAULT_DELAY, TF_FWD_DELAY, true}, {TF_FAULT_JITTER, TF_FWD_JITTER, true},  {TF_FAULT_LOSS, TF_FWD_DROP, true},
    {TF_FAULT_BURST, TF_FWD_BURST, true}, {TF_FAULT_RATE, TF_FWD_RATE, true},      {TF_FAULT_QUEUE, TF_FWD_QUEUE, true},
    {TF_FAULT_BLOAT, TF_FWD_BLOAT, true}, {TF_FAULT_REPEAT, TF_FWD_REPEAT, false},
};

static void apply_datagram(tf_fwd_udp *udp, tf_fwd_directions way, const uint64_t value[TF_FAULT_COUNT])
{
    bool cut = (value[TF_FAULT_BLACKHOLE] | value[TF_FAULT_STALL] | value[TF_FAULT_CUT]) != 0;
    uint64_t mtu = value[TF_FAULT_MTU];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_fwd_udp_fault(udp, way, rows[i].forwarder, value[rows[i].fault]);
    }
    tf_fwd_udp_fault(udp, way, TF_FWD_MTU, mtu == 0 ? 0 : mtu > UDP_HEADERS ? mtu - UDP_HEADERS : 1);
    tf_fwd_udp_fault(udp, way, TF_FWD_CUT, cut ? 1 : 0);
}

static void apply(tf_lab_net *net, uint32_t node, tf_route route, tf_scenario_way way, const tf_scenario_state *state)
{
    client_route *client = &net->clients[node];
    tf_fwd_directions direction = 1u << (way == TF_WAY_OUT ? TF_FWD_UP : TF_FWD_DOWN);
    const uint64_t *value = state->value;
    if (!client->exists) {
        return;
    }
    if (route == TF_ROUTE_DATAGRAM) {
        apply_datagram(client->udp, direction, value);
        return;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].of_stream) {
            tf_fwd_tcp_fault(client->tcp, direction, rows[i].forwarder, value[rows[i].fault]);
        }
    }
    tf_fwd_tcp_stall(client->tcp, direction, (value[TF_FAULT_BLACKHOLE] | value[TF_FAULT_STALL]) != 0);
    tf_fwd_tcp_cut(client->tcp, value[TF_FAULT_CUT] != 0);
}

static void rebind(tf_lab_net *net, uint32_t node)
{
    if (net->clients[node].exists) {
        tf_fwd_udp_rebind(net->clients[node].udp);
    }
}

const tf_lab_net_kind tf_lab_forwarders = {
    .name = "forwarders",
    .create = create,
    .destroy = destroy,
    .listen_host = "127.0.0.1",
    .open = open_all,
    .enter = enter,
    .addresses = addresses,
    .apply = apply,
    .rebind = rebind,
};
