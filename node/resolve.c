#include "node/resolve.h"

#include <event2/dns.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/util.h>
#include <netdb.h>
#include <stdio.h>

/* What evdns is given: it may call back later than the look-up lives. */
typedef struct resolve_query {
    const tf_mem *mem;
    tf_resolve *owner; /* NULL: nobody wants to know any more */
} resolve_query;

struct tf_resolve {
    const tf_mem *mem;
    tf_resolve_done *done;
    void *ctx;
    struct evdns_base *dns; /* of this look-up alone; NULL: a literal, or answered */
    resolve_query *query;   /* NULL: none is open */
    struct event answer;    /* tells the result, a turn of the loop later */
    struct event limit;
    bool busy; /* in the callback */
    bool freed;
    uint16_t port;
    size_t count;
    tf_address addresses[TF_RESOLVE_ADDRESSES_MAX];
    char error[TF_WHY_MAX];
};

static void tell_soon(tf_resolve *resolve)
{
    const struct timeval at_once = {0, 0};
    (void)evtimer_add(&resolve->answer, &at_once);
}

static void release(tf_resolve *resolve)
{
    tf_free(resolve->mem, resolve, sizeof(*resolve));
}

/* Not from inside a callback of evdns. An open query is failed, which evdns tells in the next turn of the loop; to cancel it
 * first would leave evdns with a reference to the base that is freed here. */
static void drop_dns(tf_resolve *resolve)
{
    if (resolve->query != NULL) {
        resolve->query->owner = NULL;
        resolve->query = NULL;
    }
    if (resolve->dns != NULL) {
        evdns_base_free(resolve->dns, 1);
        resolve->dns = NULL;
    }
}

static void on_answer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    tf_resolve *resolve = arg;
    resolve->busy = true;
    drop_dns(resolve);
    resolve->done(resolve->ctx, resolve->addresses, resolve->count, resolve->count > 0 ? NULL : resolve->error);
    resolve->busy = false;
    if (resolve->freed) {
        release(resolve);
    }
}

static void set_error(tf_resolve *resolve, const char *text)
{
    (void)snprintf(resolve->error, sizeof(resolve->error), "%s", text);
}

static void on_limit(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    tf_resolve *resolve = arg;
    set_error(resolve, "no answer from the name servers in time");
    tell_soon(resolve);
}

static void take_address(tf_resolve *resolve, const struct evutil_addrinfo *info)
{
    tf_address address;
    if (resolve->count == TF_RESOLVE_ADDRESSES_MAX ||
        tf_address_from_sockaddr(&address, info->ai_addr, (socklen_t)info->ai_addrlen) != TF_OK) {
        return;
    }
    tf_address_set_port(&address, resolve->port);
    for (size_t i = 0; i < resolve->count; i++) {
        if (tf_address_eq(&resolve->addresses[i], &address)) {
            return;
        }
    }
    resolve->addresses[resolve->count++] = address;
}

static void on_resolved(int result, struct evutil_addrinfo *list, void *arg)
{
    resolve_query *query = arg;
    tf_resolve *resolve = query->owner;
    tf_free(query->mem, query, sizeof(*query));
    for (const struct evutil_addrinfo *at = list; at != NULL && resolve != NULL; at = at->ai_next) {
        take_address(resolve, at);
    }
    if (list != NULL) {
        evutil_freeaddrinfo(list);
    }
    if (resolve == NULL) {
        return;
    }
    resolve->query = NULL;
    set_error(resolve, result != 0 ? evutil_gai_strerror(result) : "the name has no address");
    (void)event_del(&resolve->limit);
    tell_soon(resolve);
}

/* The order in which files and servers are read is that of the system's own resolver. A missing resolv.conf leaves the
 * server of this machine, as there. */
static bool start_dns(tf_resolve *resolve, const tf_resolve_config *config)
{
    resolve->dns = evdns_base_new(config->base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
    if (resolve->dns == NULL) {
        return false;
    }
    const char *servers = config->resolv_conf != NULL ? config->resolv_conf : "/etc/resolv.conf";
    int flags = DNS_OPTION_SEARCH | DNS_OPTION_NAMESERVERS | DNS_OPTION_MISC;
    (void)evdns_base_resolv_conf_parse(resolve->dns, flags, servers);
    /* A lost packet is to cost less than the whole look-up, and a server that keeps quiet about IPv6 less than that. */
    (void)evdns_base_set_option(resolve->dns, "timeout", "1.2");
    (void)evdns_base_set_option(resolve->dns, "attempts", "4");
    (void)evdns_base_set_option(resolve->dns, "getaddrinfo-allow-skew", "0.5");
    (void)evdns_base_load_hosts(resolve->dns, config->hosts != NULL ? config->hosts : "/etc/hosts");
    return true;
}

static tf_err look_up(tf_resolve *resolve, const tf_resolve_config *config, const tf_endpoint *endpoint)
{
    tf_time limit = config->limit != 0 ? config->limit : TF_RESOLVE_LIMIT;
    const struct timeval span = {(time_t)(limit / TF_SECOND), (suseconds_t)(limit % TF_SECOND)};
    const struct evutil_addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_protocol = IPPROTO_TCP};
    resolve->query = tf_alloc(resolve->mem, sizeof(*resolve->query));
    if (resolve->query == NULL || !start_dns(resolve, config)) {
        tf_free(resolve->mem, resolve->query, sizeof(*resolve->query));
        resolve->query = NULL;
        return TF_ERR_NOMEM;
    }
    *resolve->query = (resolve_query){resolve->mem, resolve};
    (void)evtimer_add(&resolve->limit, &span);
    (void)evdns_getaddrinfo(resolve->dns, endpoint->host, NULL, &hints, on_resolved, resolve->query);
    return TF_OK;
}

tf_err tf_resolve_start(tf_resolve **out, const tf_resolve_config *config, const tf_endpoint *endpoint,
                        tf_resolve_done *done, void *ctx)
{
    tf_err err = TF_OK;
    tf_resolve *resolve = tf_alloc(config->mem, sizeof(*resolve));
    if (resolve == NULL) {
        return TF_ERR_NOMEM;
    }
    resolve->mem = config->mem;
    resolve->done = done;
    resolve->ctx = ctx;
    resolve->port = endpoint->port;
    TF_ASSERT(evtimer_assign(&resolve->answer, config->base, on_answer, resolve) == 0);
    TF_ASSERT(evtimer_assign(&resolve->limit, config->base, on_limit, resolve) == 0);
    if (tf_endpoint_literal(endpoint, &resolve->addresses[0]) == TF_OK) {
        resolve->count = 1;
        tell_soon(resolve);
    } else {
        err = look_up(resolve, config, endpoint);
    }
    if (err != TF_OK) {
        tf_resolve_free(resolve);
        return err;
    }
    *out = resolve;
    return TF_OK;
}

void tf_resolve_free(tf_resolve *resolve)
{
    if (resolve == NULL) {
        return;
    }
    (void)event_del(&resolve->answer);
    (void)event_del(&resolve->limit);
    drop_dns(resolve);
    resolve->freed = true;
    if (!resolve->busy) {
        release(resolve);
    }
}
