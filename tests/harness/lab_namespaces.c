/* Routes between network namespaces: the relay lives in one, each client that is not direct in another, joined by two
 * links, one for each route, with the kernel's own TCP and UDP at both ends. A link is a TUN device in each of both, and
 * this process carries the packets between them, so that no kernel needs netem. The namespaces have no names: they are
 * gone with the last process that uses them.
 *
 * Client i has 10.80.i.1 and 10.81.i.1 (stream and datagram), the relay 10.80.i.2 and 10.81.i.2. */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/harness/lab.h"
#include "tests/harness/path.h"

#define NS_PER_US 1000u
#define LINK_MTU 1500
#define QUEUE_LENGTH 1000
#define RELAY_END 1 /* of a link; the client's is 0 */
_Static_assert(TF_PATH_NAT_END != RELAY_END, "it is the client that is behind the NAT");

typedef struct link_path {
    bool exists;
    bool is_down; /* cut */
    tf_path path; /* end 0 is the client's */
    char names[TF_PATH_WAYS][IFNAMSIZ];
    struct event *readable[TF_PATH_WAYS];
    struct event *timer;
} link_path;

typedef struct space {
    int fd;      /* the namespace; -1: none */
    int control; /* a socket in it, for settings */
} space;

struct tf_lab_net {
    const tf_scenario *s;
    struct event_base *base;
    int home;
    uint16_t port;
    space spaces[TF_SCENARIO_NODES_MAX]; /* by node */
    link_path links[TF_SCENARIO_NODES_MAX][TF_ROUTE_COUNT];
};

static bool has_space(const tf_scenario *s, uint32_t node)
{
    return s->nodes[node].is_relay || !s->nodes[node].is_direct;
}

/* -- packets ------------------------------------------------------------------------------------------------------- */

/* What is due goes out; the timer is for what is next. */
static void deliver(link_path *link)
{
    uint64_t next = tf_path_deliver(&link->path);
    if (next == TF_PATH_NEVER) {
        return;
    }
    uint64_t now = tf_path_now();
    uint64_t wait = next > now ? (next - now) / NS_PER_US : 0;
    struct timeval after = {.tv_sec = (time_t)(wait / TF_SECOND), .tv_usec = (suseconds_t)(wait % TF_SECOND)};
    (void)event_add(link->timer, &after);
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    deliver(ctx);
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
    link_path *link = ctx;
    (void)what;
    tf_path_read(&link->path, fd == link->path.ends[0] ? 0 : 1);
    deliver(link);
}

/* -- namespaces ---------------------------------------------------------------------------------------------------- */

static bool set_up_down(int control, const char *device, bool up)
{
    struct ifreq request = {0};
    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", device);
    if (ioctl(control, SIOCGIFFLAGS, &request) != 0) {
        return false;
    }
    request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    return ioctl(control, SIOCSIFFLAGS, &request) == 0;
}

/* A new namespace with its loopback up; this process is in its own again afterwards. */
static bool space_new(const tf_lab_net *net, space *out)
{
    if (unshare(CLONE_NEWNET) != 0) {
        return false;
    }
    out->fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    out->control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool good = out->fd >= 0 && out->control >= 0 && set_up_down(out->control, "lo", true);
    return setns(net->home, CLONE_NEWNET) == 0 && good;
}

static bool set_address(int control, unsigned long what, const char *device, const char *address)
{
    struct ifreq request = {0};
    struct sockaddr_in in = {.sin_family = AF_INET};
    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", device);
    if (inet_pton(AF_INET, address, &in.sin_addr) != 1) {
        return false;
    }
    memcpy(&request.ifr_addr, &in, sizeof(in));
    return ioctl(control, what, &request) == 0;
}

static void address_of(uint32_t node, tf_route route, size_t end, char out[32])
{
    (void)snprintf(out, 32, "10.%d.%u.%d", 80 + (int)route, (unsigned)node, end == RELAY_END ? 2 : 1);
}

static int open_device(const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (fd >= 0 && ioctl(fd, TUNSETIFF, &request) != 0) {
        int error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static bool configure(int control, const char *device, const char *mine, const char *other)
{
    struct ifreq request = {0};
    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", device);
    request.ifr_qlen = QUEUE_LENGTH;
    (void)ioctl(control, SIOCSIFTXQLEN, &request);
    request.ifr_mtu = LINK_MTU;
    return ioctl(control, SIOCSIFMTU, &request) == 0 && set_address(control, SIOCSIFADDR, device, mine) &&
           set_address(control, SIOCSIFDSTADDR, device, other) &&
           set_address(control, SIOCSIFNETMASK, device, "255.255.255.255") && set_up_down(control, device, true);
}

static bool open_end(tf_lab_net *net, link_path *link, uint32_t node, tf_route route, size_t end)
{
    const space *in = &net->spaces[end == RELAY_END ? net->s->relay : node];
    char mine[32];
    char other[32];
    (void)snprintf(link->names[end], IFNAMSIZ, "%s%u", route == TF_ROUTE_STREAM ? "stream" : "datagram",
                   (unsigned)node);
    address_of(node, route, end, mine);
    address_of(node, route, 1 - end, other);
    if (setns(in->fd, CLONE_NEWNET) != 0) {
        return false;
    }
    link->path.ends[end] = open_device(link->names[end]);
    int error = errno;
    bool good = setns(net->home, CLONE_NEWNET) == 0 && link->path.ends[end] >= 0;
    errno = error;
    if (!good || !configure(in->control, link->names[end], mine, other)) {
        return false;
    }
    link->readable[end] = event_new(net->base, link->path.ends[end], EV_READ | EV_PERSIST, on_readable, link);
    return link->readable[end] != NULL && event_add(link->readable[end], NULL) == 0;
}

static bool link_new(tf_lab_net *net, uint32_t node, tf_route route)
{
    link_path *link = &net->links[node][route];
    uint64_t seed = (net->s->seed * TF_SCENARIO_NODES_MAX + node) * TF_ROUTE_COUNT + (uint64_t)route;
    link->exists = true;
    link->path.ends[0] = -1;
    link->path.ends[1] = -1;
    for (size_t i = 0; i < TF_PATH_WAYS; i++) {
        tf_test_random_init(&link->path.ways[i].random, TF_PATH_WAYS * seed + i);
    }
    link->timer = evtimer_new(net->base, on_timer, link);
    return link->timer != NULL && open_end(net, link, node, route, 0) && open_end(net, link, node, route, RELAY_END);
}

static void link_free(link_path *link)
{
    if (!link->exists) {
        return;
    }
    for (size_t i = 0; i < TF_PATH_WAYS; i++) {
        tf_path_way_free(&link->path.ways[i]);
        if (link->readable[i] != NULL) {
            event_free(link->readable[i]);
        }
        if (link->path.ends[i] >= 0) {
            (void)close(link->path.ends[i]);
        }
    }
    if (link->timer != NULL) {
        event_free(link->timer);
    }
}

static void close_fd(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

static void destroy(tf_lab_net *net)
{
    if (net == NULL) {
        return;
    }
    for (uint32_t i = 0; i < TF_SCENARIO_NODES_MAX; i++) {
        link_free(&net->links[i][TF_ROUTE_STREAM]);
        link_free(&net->links[i][TF_ROUTE_DATAGRAM]);
        close_fd(net->spaces[i].fd);
        close_fd(net->spaces[i].control);
    }
    close_fd(net->home);
    free(net);
}

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close_fd(fd);
    return good;
}

/* Whoever is not root becomes it, in a user namespace of his own where the system lets him; the network of that is empty,
 * and all that this process needs. */
static void become_root(void)
{
    char map[64];
    unsigned user = (unsigned)geteuid();
    unsigned group = (unsigned)getegid();
    if (user == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        return;
    }
    (void)write_text("/proc/self/setgroups", "deny");
    (void)snprintf(map, sizeof(map), "0 %u 1", user);
    (void)write_text("/proc/self/uid_map", map);
    (void)snprintf(map, sizeof(map), "0 %u 1", group);
    (void)write_text("/proc/self/gid_map", map);
}

static bool build(tf_lab_net *net, char why[TF_WHY_MAX])
{
    become_root();
    net->home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    for (uint32_t i = 0; i < net->s->node_count; i++) {
        if (has_space(net->s, i) && (net->home < 0 || !space_new(net, &net->spaces[i]))) {
            (void)snprintf(why, TF_WHY_MAX,
                           "no network namespace: %s (they need root, or user namespaces; forwarders need neither)",
                           strerror(errno));
            return false;
        }
    }
    for (uint32_t i = 0; i < net->s->node_count; i++) {
        bool linked = has_space(net->s, i) && i != net->s->relay;
        if (linked && !(link_new(net, i, TF_ROUTE_STREAM) && link_new(net, i, TF_ROUTE_DATAGRAM))) {
            (void)snprintf(why, TF_WHY_MAX, "no TUN device for %s: %s (/dev/net/tun must be there)",
                           net->s->nodes[i].name, strerror(errno));
            return false;
        }
    }
    return true;
}

static tf_lab_net *create(const tf_scenario *s, struct event_base *base, char why[TF_WHY_MAX])
{
    tf_lab_net *net = calloc(1, sizeof(*net));
    if (net == NULL) {
        (void)snprintf(why, TF_WHY_MAX, "no memory");
        return NULL;
    }
    net->s = s;
    net->base = base;
    net->home = -1;
    for (uint32_t i = 0; i < TF_SCENARIO_NODES_MAX; i++) {
        net->spaces[i] = (space){.fd = -1, .control = -1};
    }
    if (!build(net, why)) {
        destroy(net);
        return NULL;
    }
    return net;
}

static bool open_all(tf_lab_net *net, uint16_t port, char why[TF_WHY_MAX])
{
    (void)why;
    net->port = port;
    return true;
}

static bool enter(const tf_lab_net *net, uint32_t node)
{
    const space *in = &net->spaces[has_space(net->s, node) ? node : net->s->relay];
    return setns(in->fd, CLONE_NEWNET) == 0;
}

static void addresses(const tf_lab_net *net, uint32_t node, char stream[64], char datagram[64])
{
    if (!has_space(net->s, node)) {
        (void)snprintf(stream, 64, "127.0.0.1:%u", (unsigned)net->port);
        (void)snprintf(datagram, 64, "127.0.0.1:%u", (unsigned)net->port);
        return;
    }
    char host[32];
    address_of(node, TF_ROUTE_STREAM, RELAY_END, host);
    (void)snprintf(stream, 64, "%s:%u", host, (unsigned)net->port);
    address_of(node, TF_ROUTE_DATAGRAM, RELAY_END, host);
    (void)snprintf(datagram, 64, "%s:%u", host, (unsigned)net->port);
}

/* Out is from the client's end, which is way 0. The path's jitter goes both ways about its delay. A cut takes the
 * client's device down, so that its kernel knows. */
static void apply(tf_lab_net *net, uint32_t node, tf_route route, tf_scenario_way way, const tf_scenario_state *state)
{
    link_path *link = &net->links[node][route];
    const uint64_t *value = state->value;
    bool down = value[TF_FAULT_CUT] != 0;
    if (!link->exists) {
        return;
    }
    uint64_t *faults = link->path.ways[way == TF_WAY_OUT ? 0 : 1].faults;
    faults[TF_PATH_JITTER] = value[TF_FAULT_JITTER] * NS_PER_US / 2;
    faults[TF_PATH_DELAY] = value[TF_FAULT_DELAY] * NS_PER_US + faults[TF_PATH_JITTER];
    faults[TF_PATH_LOSS] = value[TF_FAULT_LOSS];
    faults[TF_PATH_BURST] = value[TF_FAULT_BURST];
    faults[TF_PATH_REPEAT] = value[TF_FAULT_REPEAT];
    faults[TF_PATH_RATE] = value[TF_FAULT_RATE];
    faults[TF_PATH_QUEUE] = value[TF_FAULT_QUEUE];
    faults[TF_PATH_BLOAT] = value[TF_FAULT_BLOAT] * NS_PER_US;
    faults[TF_PATH_MTU] = value[TF_FAULT_MTU];
    faults[TF_PATH_HOLE] = (value[TF_FAULT_BLACKHOLE] | value[TF_FAULT_STALL]) != 0 ? 1 : 0;
    if (down != link->is_down) {
        link->is_down = down;
        (void)set_up_down(net->spaces[node].control, link->names[0], !down);
    }
}

static void rebind(tf_lab_net *net, uint32_t node)
{
    tf_path_nat_rebind(&net->links[node][TF_ROUTE_DATAGRAM].path.nat);
}

const tf_lab_net_kind tf_lab_namespaces = {
    .name = "namespaces",
    .create = create,
    .destroy = destroy,
    .listen_host = "0.0.0.0",
    .open = open_all,
    .enter = enter,
    .addresses = addresses,
    .apply = apply,
    .rebind = rebind,
};
