/* Addresses of sockets: IPv4 and IPv6 literals as text and as sockaddr, and what a socket is bound to.
 *
 * No names are looked up here (node/resolve does). IPv4-mapped IPv6 addresses are turned into IPv4 where an address comes
 * in, so that one peer has one address. A link-local scope is written as in fe80::1%eth0. Any thread. */
#ifndef TF_PATHS_ADDRESS_H
#define TF_PATHS_ADDRESS_H

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "proto/types.h"

#define TF_ADDRESS_TEXT_MAX 80u /* "[ipv6%interface]:port" and a NUL */

/* len 0: no address. */
typedef struct tf_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } u;
    socklen_t len;
} tf_address;

/* What a route leaves by: a local address, or an interface, or (both empty) whatever the system's routes say. */
typedef struct tf_bind {
    tf_address address;       /* its port is 0 */
    char interface[IFNAMSIZ]; /* "" when an address was given */
} tf_bind;

static inline bool tf_address_is_set(const tf_address *address)
{
    return address->len != 0;
}

/* A literal without brackets. TF_ERR_USAGE: the host is none (perhaps it is a name); *out is then untouched. */
TF_MUST_CHECK tf_err tf_address_parse(tf_address *out, tf_slice host, uint16_t port);

/* From what the system gave. TF_ERR_USAGE: neither IPv4 nor IPv6. */
TF_MUST_CHECK tf_err tf_address_from_sockaddr(tf_address *out, const struct sockaddr *from, socklen_t len);

/* "192.0.2.1:7420" or "[2001:db8::1]:7420"; "-" when it is not set. Returns out. */
const char *tf_address_format(const tf_address *address, char out[TF_ADDRESS_TEXT_MAX]);

uint16_t tf_address_port(const tf_address *address);
void tf_address_set_port(tf_address *address, uint16_t port);

/* Same family, address, scope and port. Two that are not set are equal. */
bool tf_address_eq(const tf_address *a, const tf_address *b);
/* The same without the port. */
bool tf_address_same_host(const tf_address *a, const tf_address *b);
bool tf_address_is_loopback(const tf_address *address);
/* 0.0.0.0 or :: */
bool tf_address_is_any(const tf_address *address);

/* Whether a socket of this machine can have it now, so that what was bound to it still can send. True when that cannot be
 * found out, and of addresses that are not set or 0.0.0.0 or ::. */
bool tf_address_is_here(const tf_address *address);

/* Copies count addresses so that families take turns, beginning with that of the first; else the order stays. */
void tf_address_interleave(tf_address *out, const tf_address *in, size_t count);

/* A literal (with or without brackets) or the name of an interface that exists now. "" is no binding. TF_ERR_USAGE:
 * neither. */
TF_MUST_CHECK tf_err tf_bind_parse(tf_bind *out, tf_slice text);

/* Binds a socket before it is connected: to the address, or to the interface (SO_BINDTODEVICE; where that is not
 * permitted, an address of `family` that the interface has). 0, or an errno: EADDRNOTAVAIL when the address is not of
 * `family` or the interface has none. */
TF_MUST_CHECK int tf_bind_apply(const tf_bind *bind, int fd, int family);

#endif
