#include "paths/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LITERAL_MAX (INET6_ADDRSTRLEN + IFNAMSIZ + 1)

/* The scope after '%': the name of an interface, or its number. 0: neither. */
static uint32_t scope_of(const char *text)
{
    unsigned index = if_nametoindex(text);
    if (index != 0) {
        return index;
    }
    uint32_t number = 0;
    for (; *text >= '0' && *text <= '9' && number < 100000000u; text++) {
        number = number * 10u + (uint32_t)(*text - '0');
    }
    return *text == '\0' ? number : 0;
}

static tf_err parse_v6(tf_address *out, char *text, uint16_t port)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    char *scope = strchr(text, '%');
    if (scope != NULL) {
        *scope = '\0';
        v6.sin6_scope_id = scope_of(scope + 1);
        if (v6.sin6_scope_id == 0) {
            return TF_ERR_USAGE;
        }
    }
    if (inet_pton(AF_INET6, text, &v6.sin6_addr) != 1) {
        return TF_ERR_USAGE;
    }
    return tf_address_from_sockaddr(out, (const struct sockaddr *)&v6, sizeof(v6));
}

tf_err tf_address_parse(tf_address *out, tf_slice host, uint16_t port)
{
    char text[LITERAL_MAX];
    if (host.len == 0 || host.len >= sizeof(text) || memchr(host.data, '\0', host.len) != NULL) {
        return TF_ERR_USAGE;
    }
    memcpy(text, host.data, host.len);
    text[host.len] = '\0';
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        return tf_address_from_sockaddr(out, (const struct sockaddr *)&v4, sizeof(v4));
    }
    return parse_v6(out, text, port);
}

/* ::ffff:192.0.2.1 as 192.0.2.1. */
static void unmap(tf_address *address)
{
    const struct sockaddr_in6 v6 = address->u.v6;
    if (!IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
        return;
    }
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = v6.sin6_port};
    memcpy(&v4.sin_addr, v6.sin6_addr.s6_addr + 12, sizeof(v4.sin_addr));
    *address = (tf_address){.u.v4 = v4, .len = sizeof(v4)};
}

tf_err tf_address_from_sockaddr(tf_address *out, const struct sockaddr *from, socklen_t len)
{
    tf_address address;
    memset(&address, 0, sizeof(address));
    if (len >= sizeof(struct sockaddr_in) && from->sa_family == AF_INET) {
        address.len = sizeof(struct sockaddr_in);
        memcpy(&address.u.v4, from, sizeof(struct sockaddr_in));
    } else if (len >= sizeof(struct sockaddr_in6) && from->sa_family == AF_INET6) {
        address.len = sizeof(struct sockaddr_in6);
        memcpy(&address.u.v6, from, sizeof(struct sockaddr_in6));
        address.u.v6.sin6_flowinfo = 0;
        unmap(&address);
    } else {
        return TF_ERR_USAGE;
    }
    *out = address;
    return TF_OK;
}

static void format_v6(const struct sockaddr_in6 *v6, char out[TF_ADDRESS_TEXT_MAX])
{
    char text[INET6_ADDRSTRLEN] = "";
    char scope[IFNAMSIZ + 1] = "";
    (void)inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
    if (v6->sin6_scope_id != 0) {
        scope[0] = '%';
        if (if_indextoname(v6->sin6_scope_id, scope + 1) == NULL) {
            (void)snprintf(scope + 1, sizeof(scope) - 1, "%u", v6->sin6_scope_id);
        }
    }
    (void)snprintf(out, TF_ADDRESS_TEXT_MAX, "[%s%s]:%u", text, scope, ntohs(v6->sin6_port));
}

const char *tf_address_format(const tf_address *address, char out[TF_ADDRESS_TEXT_MAX])
{
    if (!tf_address_is_set(address)) {
        (void)snprintf(out, TF_ADDRESS_TEXT_MAX, "-");
    } else if (address->u.any.sa_family == AF_INET) {
        char text[INET_ADDRSTRLEN] = "";
        (void)inet_ntop(AF_INET, &address->u.v4.sin_addr, text, sizeof(text));
        (void)snprintf(out, TF_ADDRESS_TEXT_MAX, "%s:%u", text, ntohs(address->u.v4.sin_port));
    } else {
        format_v6(&address->u.v6, out);
    }
    return out;
}

uint16_t tf_address_port(const tf_address *address)
{
    if (!tf_address_is_set(address)) {
        return 0;
    }
    return ntohs(address->u.any.sa_family == AF_INET ? address->u.v4.sin_port : address->u.v6.sin6_port);
}

void tf_address_set_port(tf_address *address, uint16_t port)
{
    TF_ASSERT(tf_address_is_set(address));
    if (address->u.any.sa_family == AF_INET) {
        address->u.v4.sin_port = htons(port);
    } else {
        address->u.v6.sin6_port = htons(port);
    }
}

bool tf_address_same_host(const tf_address *a, const tf_address *b)
{
    if (a->len != b->len || a->len == 0) {
        return a->len == b->len;
    }
    if (a->u.any.sa_family == AF_INET) {
        return b->u.any.sa_family == AF_INET && a->u.v4.sin_addr.s_addr == b->u.v4.sin_addr.s_addr;
    }
    return b->u.any.sa_family == AF_INET6 && IN6_ARE_ADDR_EQUAL(&a->u.v6.sin6_addr, &b->u.v6.sin6_addr) &&
           a->u.v6.sin6_scope_id == b->u.v6.sin6_scope_id;
}

bool tf_address_eq(const tf_address *a, const tf_address *b)
{
    return tf_address_same_host(a, b) && tf_address_port(a) == tf_address_port(b);
}

bool tf_address_is_loopback(const tf_address *address)
{
    if (!tf_address_is_set(address)) {
        return false;
    }
    if (address->u.any.sa_family == AF_INET) {
        return ntohl(address->u.v4.sin_addr.s_addr) >> 24 == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(&address->u.v6.sin6_addr);
}

bool tf_address_is_any(const tf_address *address)
{
    if (!tf_address_is_set(address)) {
        return false;
    }
    if (address->u.any.sa_family == AF_INET) {
        return address->u.v4.sin_addr.s_addr == htonl(INADDR_ANY);
    }
    return IN6_IS_ADDR_UNSPECIFIED(&address->u.v6.sin6_addr);
}

bool tf_address_is_here(const tf_address *address)
{
    if (!tf_address_is_set(address) || tf_address_is_any(address)) {
        return true;
    }
    tf_address wanted = *address;
    tf_address_set_port(&wanted, 0);
    int fd = socket(wanted.u.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool here = fd < 0 || bind(fd, &wanted.u.any, wanted.len) == 0 || (errno != EADDRNOTAVAIL && errno != ENODEV);
    if (fd >= 0) {
        (void)close(fd);
    }
    return here;
}

/* The first one from `at` on that is of the family of in[0], or is not. */
static size_t next_of_family(const tf_address *in, size_t count, size_t at, bool same)
{
    while (at < count && (in[at].u.any.sa_family == in[0].u.any.sa_family) != same) {
        at++;
    }
    return at;
}

void tf_address_interleave(tf_address *out, const tf_address *in, size_t count)
{
    size_t at[] = {next_of_family(in, count, 0, false), next_of_family(in, count, 0, true)};
    bool same = true;
    for (size_t i = 0; i < count; i++) {
        same = at[same] < count ? same : !same; /* one family is used up */
        out[i] = in[at[same]];
        at[same] = next_of_family(in, count, at[same] + 1, same);
        same = !same;
    }
}

tf_err tf_bind_parse(tf_bind *out, tf_slice text)
{
    tf_bind bind;
    memset(&bind, 0, sizeof(bind));
    if (text.len == 0) {
        *out = bind;
        return TF_OK;
    }
    tf_slice host = text;
    if (host.len >= 2 && host.data[0] == '[' && host.data[host.len - 1] == ']') {
        host = tf_slice_of(host.data + 1, host.len - 2);
    }
    if (tf_address_parse(&bind.address, host, 0) != TF_OK) {
        if (text.len >= sizeof(bind.interface) || memchr(text.data, '\0', text.len) != NULL) {
            return TF_ERR_USAGE;
        }
        memcpy(bind.interface, text.data, text.len);
        if (if_nametoindex(bind.interface) == 0) {
            return TF_ERR_USAGE;
        }
    }
    *out = bind;
    return TF_OK;
}

static int bind_to(int fd, const tf_address *address)
{
    return bind(fd, &address->u.any, address->len) == 0 ? 0 : errno;
}

/* An address that the interface has; of IPv6 ones a link-local one only when there is no other. */
static int interface_address(const char *interface, int family, tf_address *out)
{
    struct ifaddrs *list = NULL;
    int error = EADDRNOTAVAIL;
    if (getifaddrs(&list) != 0) {
        return errno;
    }
    socklen_t len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    for (const struct ifaddrs *at = list; at != NULL; at = at->ifa_next) {
        tf_address address;
        if (at->ifa_addr == NULL || at->ifa_addr->sa_family != family || strcmp(at->ifa_name, interface) != 0 ||
            tf_address_from_sockaddr(&address, at->ifa_addr, len) != TF_OK) {
            continue;
        }
        bool local = family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address.u.v6.sin6_addr);
        if (error != 0 || !local) {
            *out = address;
            error = 0;
        }
        if (!local) {
            break;
        }
    }
    freeifaddrs(list);
    return error;
}

int tf_bind_apply(const tf_bind *bind, int fd, int family)
{
    if (tf_address_is_set(&bind->address)) {
        return bind->address.u.any.sa_family == family ? bind_to(fd, &bind->address) : EADDRNOTAVAIL;
    }
    if (bind->interface[0] == '\0') {
        return 0;
    }
    socklen_t len = (socklen_t)strnlen(bind->interface, sizeof(bind->interface));
    if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, bind->interface, len) == 0) {
        return 0;
    }
    if (errno != EPERM) {
        return errno;
    }
    tf_address address = {.len = 0};
    int error = interface_address(bind->interface, family, &address);
    return error != 0 ? error : bind_to(fd, &address);
}
