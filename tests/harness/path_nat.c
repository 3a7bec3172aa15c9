#include "tests/harness/path_nat.h"

#include <netinet/in.h>

#define IP4_HEADER 20u
#define IP4_FRAGMENT 6u
#define IP4_PROTOCOL 9u
#define IP4_SOURCE 12u
#define IP4_TARGET 16u
#define IP6_HEADER 40u
#define IP6_NEXT 6u
#define IP6_SOURCE 8u
#define IP6_TARGET 24u
#define IP6_FRAGMENT_HEADER 8u
#define UDP_HEADER 8u
#define UDP_SOURCE 0u
#define UDP_TARGET 2u
#define UDP_CHECKSUM 6u

_Static_assert(TF_PATH_NAT_PORTS % TF_PATH_NAT_FLOWS == 0 && TF_PATH_NAT_PORT_FIRST + TF_PATH_NAT_PORTS <= 32768,
               "a flow's number gives its place and its port, which is no ephemeral one");

/* Where a UDP packet has what: offsets. */
typedef struct udp_places {
    uint8_t version;
    size_t source;
    size_t target;
    size_t address_len;
    size_t udp;
} udp_places;

static uint16_t get16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static void put16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static bool find_udp4(const uint8_t *packet, size_t len, udp_places *out)
{
    if (len < IP4_HEADER) {
        return false;
    }
    size_t header = (size_t)4 * (packet[0] & 0x0fu);
    bool begins = (get16(packet + IP4_FRAGMENT) & 0x1fffu) == 0;
    *out = (udp_places){.version = 4, .source = IP4_SOURCE, .target = IP4_TARGET, .address_len = 4, .udp = header};
    return header >= IP4_HEADER && len >= header + UDP_HEADER && begins && packet[IP4_PROTOCOL] == IPPROTO_UDP;
}

static bool find_udp6(const uint8_t *packet, size_t len, udp_places *out)
{
    if (len < IP6_HEADER + UDP_HEADER) {
        return false;
    }
    unsigned next = packet[IP6_NEXT];
    *out = (udp_places){.version = 6, .source = IP6_SOURCE, .target = IP6_TARGET, .address_len = 16, .udp = IP6_HEADER};
    if (next == IPPROTO_FRAGMENT) {
        const uint8_t *fragment = packet + IP6_HEADER;
        bool begins = (get16(fragment + 2) & 0xfff8u) == 0;
        next = begins ? fragment[0] : IPPROTO_NONE;
        out->udp += IP6_FRAGMENT_HEADER;
    }
    return next == IPPROTO_UDP && len >= out->udp + UDP_HEADER;
}

/* False: it is no UDP, or nothing that could be changed. */
static bool find_udp(const uint8_t *packet, size_t len, udp_places *out)
{
    unsigned version = len == 0 ? 0 : packet[0] >> 4;
    return version == 4 ? find_udp4(packet, len, out) : version == 6 && find_udp6(packet, len, out);
}

/* With the checksum, which need not be reckoned anew (RFC 1624); 0: there is none. */
static void set_port(uint8_t *udp, size_t which, uint16_t port)
{
    uint16_t checksum = get16(udp + UDP_CHECKSUM);
    uint32_t sum = (uint32_t)(0xffffu - checksum) + (0xffffu - get16(udp + which)) + port;
    put16(udp + which, port);
    if (checksum != 0) {
        sum = (sum & 0xffffu) + (sum >> 16);
        sum = (sum & 0xffffu) + (sum >> 16);
        put16(udp + UDP_CHECKSUM, sum == 0xffffu ? 0xffffu : (uint16_t)(0xffffu - sum));
    }
}

static uint16_t port_of(uint64_t number)
{
    return (uint16_t)(TF_PATH_NAT_PORT_FIRST + number % TF_PATH_NAT_PORTS);
}

/* The oldest that is known. */
static uint64_t first_of(const tf_path_nat *nat)
{
    uint64_t kept = nat->begun < TF_PATH_NAT_FLOWS ? 0 : nat->begun - TF_PATH_NAT_FLOWS;
    return kept > nat->forgotten ? kept : nat->forgotten;
}

static bool is_of(const tf_path_nat_flow *flow, const udp_places *at, const uint8_t *address)
{
    return flow->version == at->version && memcmp(flow->address, address, at->address_len) == 0;
}

static uint64_t flow_begin(tf_path_nat *nat, const udp_places *at, const uint8_t *address, uint16_t port)
{
    tf_path_nat_flow flow = {.version = at->version, .port = port};
    memcpy(flow.address, address, at->address_len);
    if (port_of(nat->begun) == port) { /* by which it was known before the first time */
        nat->flows[nat->begun++ % TF_PATH_NAT_FLOWS] = (tf_path_nat_flow){0};
    }
    nat->flows[nat->begun % TF_PATH_NAT_FLOWS] = flow;
    return nat->begun++;
}

void tf_path_nat_rebind(tf_path_nat *nat)
{
    nat->is_on = true;
    nat->forgotten = nat->begun;
}

void tf_path_nat_map(tf_path_nat *nat, uint8_t *packet, size_t len)
{
    udp_places at;
    if (!nat->is_on || !find_udp(packet, len, &at)) {
        return;
    }
    const uint8_t *address = packet + at.source;
    uint16_t port = get16(packet + at.udp + UDP_SOURCE);
    uint64_t number = first_of(nat);
    while (number < nat->begun && !(nat->flows[number % TF_PATH_NAT_FLOWS].port == port &&
                                    is_of(&nat->flows[number % TF_PATH_NAT_FLOWS], &at, address))) {
        number++;
    }
    if (number == nat->begun) {
        number = flow_begin(nat, &at, address, port);
    }
    set_port(packet + at.udp, UDP_SOURCE, port_of(number));
}

bool tf_path_nat_unmap(const tf_path_nat *nat, uint8_t *packet, size_t len)
{
    udp_places at;
    if (!nat->is_on || !find_udp(packet, len, &at)) {
        return true;
    }
    uint16_t port = get16(packet + at.udp + UDP_TARGET);
    for (uint64_t number = first_of(nat); number < nat->begun; number++) {
        const tf_path_nat_flow *flow = &nat->flows[number % TF_PATH_NAT_FLOWS];
        if (port_of(number) == port && is_of(flow, &at, packet + at.target)) {
            set_port(packet + at.udp, UDP_TARGET, flow->port);
            return true;
        }
    }
    return false;
}
