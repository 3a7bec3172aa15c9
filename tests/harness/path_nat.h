/* A NAT at the client's end of a path, which can forget: UDP that comes from there has another source port behind it, and
 * what comes for that port finds back. Pure; tcp, icmp and all else pass unchanged, errors about UDP among them.
 *
 * Of IPv4 the first fragment is changed and the others, which have no ports, pass as they are; of IPv6 only UDP that
 * stands behind the header, or behind that of a first fragment. Whoever may answer is not looked at (a full cone). */
#ifndef TF_TESTS_HARNESS_PATH_NAT_H
#define TF_TESTS_HARNESS_PATH_NAT_H

#include "proto/types.h"

#define TF_PATH_NAT_FLOWS 256u /* known at a time; one more, and the oldest is forgotten */
/* The ports that it gives, one after the other: below those that a system gives to its sockets by itself. */
#define TF_PATH_NAT_PORT_FIRST 1024u
#define TF_PATH_NAT_PORTS 31744u

typedef struct tf_path_nat_flow {
    uint8_t version;     /* of IP; 0: no flow, its port is nobody's */
    uint8_t address[16]; /* of IPv4: the first four bytes */
    uint16_t port;       /* of the client */
} tf_path_nat_flow;

/* Embed it; zero bytes are one that changes nothing until it forgets for the first time. */
typedef struct tf_path_nat {
    bool is_on;
    uint64_t begun;     /* flows so far; the port that the NAT gives to one follows from its number */
    uint64_t forgotten; /* all before this one are */
    tf_path_nat_flow flows[TF_PATH_NAT_FLOWS];
} tf_path_nat;

/* It forgets all flows: what comes for their ports is nobody's, and the next packet of each gets another port. */
void tf_path_nat_rebind(tf_path_nat *nat);
/* A packet from the client, changed in place if it is UDP. */
void tf_path_nat_map(tf_path_nat *nat, uint8_t *packet, size_t len);
/* A packet to the client. False: it is for a port that is nobody's, and is to be dropped. */
TF_MUST_CHECK bool tf_path_nat_unmap(const tf_path_nat *nat, uint8_t *packet, size_t len);

#endif
