/* The NAT of a path: what it changes keeps its checksum and finds back, what it forgot is nobody's, and what is odd passes
 * untouched. Packets are copied to blocks of their exact size. */
#include "tests/harness/path_nat.h"

#include <netinet/in.h>
#include <stdlib.h>

#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define RELAY_PORT 7000u
#define CLIENT_PORT 40000u
#define PACKET_MAX 128u
#define PAYLOAD 21u /* odd */
#define WHOLE SIZE_MAX

/* A UDP packet of IPv4 or, fragmented or not, IPv6. */
typedef struct packet {
    uint8_t bytes[PACKET_MAX];
    size_t len;
    size_t source; /* of two addresses, the target's behind it */
    size_t address_len;
    size_t udp;
} packet;

typedef enum shape { IP4, IP4_OPTIONS, IP6, IP6_FRAGMENT, SHAPES } shape;

static void put16(uint8_t *at, unsigned value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static unsigned get16(const uint8_t *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

static uint32_t sum_of(const uint8_t *bytes, size_t len)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < len; i++) {
        sum += (uint32_t)bytes[i] << (i % 2 == 0 ? 8 : 0);
    }
    return sum;
}

/* The plain sum of addresses, protocol, length, header and payload, as a UDP checksum; over one that is right: 0. */
static unsigned checksum_of(const packet *p)
{
    uint32_t sum = sum_of(p->bytes + p->source, 2 * p->address_len) + IPPROTO_UDP + (uint32_t)(p->len - p->udp) +
                   sum_of(p->bytes + p->udp, p->len - p->udp);
    while (sum > 0xffff) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return ~sum & 0xffff;
}

static packet make(shape kind, uint8_t host, unsigned from, unsigned to)
{
    static const size_t headers[SHAPES] = {[IP4] = 20, [IP4_OPTIONS] = 24, [IP6] = 40, [IP6_FRAGMENT] = 48};
    bool is4 = kind == IP4 || kind == IP4_OPTIONS;
    packet p = {.udp = headers[kind], .source = is4 ? 12 : 8, .address_len = is4 ? 4 : 16};
    size_t target = p.source + p.address_len;
    p.len = p.udp + 8 + PAYLOAD;
    p.bytes[0] = is4 ? (uint8_t)(0x40 | headers[kind] / 4) : 0x60;
    p.bytes[is4 ? 9 : 6] = kind == IP6_FRAGMENT ? IPPROTO_FRAGMENT : IPPROTO_UDP;
    if (kind == IP6_FRAGMENT) { /* the first of several */
        p.bytes[40] = IPPROTO_UDP;
        p.bytes[43] = 1;
    }
    p.bytes[p.source] = 10;
    p.bytes[target - 1] = host;
    p.bytes[target] = 10;
    p.bytes[target + p.address_len - 1] = 200;
    put16(p.bytes + p.udp, from);
    put16(p.bytes + p.udp + 2, to);
    put16(p.bytes + p.udp + 4, 8 + PAYLOAD);
    memset(p.bytes + p.udp + 8, 0xa5, PAYLOAD);
    unsigned checksum = checksum_of(&p);
    put16(p.bytes + p.udp + 6, checksum == 0 ? 0xffff : checksum);
    return p;
}

static packet sent(tf_path_nat *nat, packet p)
{
    uint8_t *exact = tf_test_exact(tf_slice_of(p.bytes, p.len));
    tf_path_nat_map(nat, exact, p.len);
    memcpy(p.bytes, exact, p.len);
    free(exact);
    return p;
}

static bool is_taken(const tf_path_nat *nat, packet *p)
{
    uint8_t *exact = tf_test_exact(tf_slice_of(p->bytes, p->len));
    bool passes = tf_path_nat_unmap(nat, exact, p->len);
    memcpy(p->bytes, exact, p->len);
    free(exact);
    return passes;
}

/* What the other end answers to a packet. */
static packet answer_to(const packet *p)
{
    packet back = *p;
    size_t target = p->source + p->address_len;
    memcpy(back.bytes + p->source, p->bytes + target, p->address_len);
    memcpy(back.bytes + target, p->bytes + p->source, p->address_len);
    memcpy(back.bytes + back.udp, p->bytes + p->udp + 2, 2);
    memcpy(back.bytes + back.udp + 2, p->bytes + p->udp, 2);
    return back;
}

static unsigned source_of(const packet *p)
{
    return get16(p->bytes + p->udp);
}

/* The port that a datagram of that client gets. */
static unsigned port_for(tf_path_nat *nat, shape kind, uint8_t host, unsigned port)
{
    packet p = sent(nat, make(kind, host, port, RELAY_PORT));
    return source_of(&p);
}

START_TEST(path_nat_changes_nothing_before_it_forgets)
{
    for (shape kind = IP4; kind < SHAPES; kind++) {
        tf_path_nat nat = {0};
        packet p = make(kind, 1, CLIENT_PORT, RELAY_PORT);
        packet out = sent(&nat, p);
        packet back = answer_to(&p);
        packet got = back;
        ck_assert(is_taken(&nat, &got));
        ck_assert_mem_eq(out.bytes, p.bytes, p.len);
        ck_assert_mem_eq(got.bytes, back.bytes, back.len);
    }
}
END_TEST

/* After each time it is another port, whose answers come, and those to all that were before do not. */
START_TEST(path_nat_that_forgot_gives_another_port_and_answers_to_the_old_are_nobodys)
{
    for (shape kind = IP4; kind < SHAPES; kind++) {
        tf_path_nat nat = {0};
        packet p = make(kind, 1, CLIENT_PORT, RELAY_PORT);
        packet old[4] = {p};
        for (size_t time = 1; time < 4; time++) {
            tf_path_nat_rebind(&nat);
            old[time] = sent(&nat, p);
            ck_assert_uint_eq(checksum_of(&old[time]), 0);
            packet again = sent(&nat, p);
            ck_assert_mem_eq(again.bytes, old[time].bytes, p.len);
            for (size_t i = 0; i < time; i++) {
                packet late = answer_to(&old[i]);
                ck_assert_uint_ne(source_of(&old[i]), source_of(&old[time]));
                ck_assert(!is_taken(&nat, &late));
            }
            packet back = answer_to(&old[time]);
            packet expected = answer_to(&p);
            ck_assert(is_taken(&nat, &back));
            ck_assert_mem_eq(back.bytes, expected.bytes, back.len);
        }
    }
}
END_TEST

START_TEST(path_nat_clients_have_ports_of_their_own)
{
    tf_path_nat nat = {0};
    tf_path_nat_rebind(&nat);
    const unsigned ports[] = {port_for(&nat, IP4, 1, CLIENT_PORT), port_for(&nat, IP4, 1, CLIENT_PORT + 1),
                              port_for(&nat, IP4, 2, CLIENT_PORT), port_for(&nat, IP6, 1, CLIENT_PORT),
                              port_for(&nat, IP4, 0, CLIENT_PORT)}; /* as the last one's begins */
    for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
        for (size_t j = 0; j < i; j++) {
            ck_assert_uint_ne(ports[i], ports[j]);
        }
    }
    ck_assert_uint_eq(port_for(&nat, IP4_OPTIONS, 1, CLIENT_PORT), ports[0]);
    ck_assert_uint_eq(port_for(&nat, IP6_FRAGMENT, 1, CLIENT_PORT), ports[3]);
    packet p = make(IP4, 2, ports[0], RELAY_PORT); /* the first one's port, another's address */
    packet back = answer_to(&p);
    ck_assert(!is_taken(&nat, &back));
}
END_TEST

/* Every checksum there can be, against the plain sum, of a port that gets smaller and of one that gets larger; a sum of 0
 * is sent as 0xffff, and none stays none. */
START_TEST(path_nat_checksum_is_that_of_the_plain_sum)
{
    tf_path_nat nat = {0};
    unsigned edges = 0;
    tf_path_nat_rebind(&nat);
    for (unsigned i = 0; i < 2 * 65536; i++) {
        packet p = make(IP4, 1, i % 2 == 0 ? CLIENT_PORT : 80, RELAY_PORT);
        put16(p.bytes + p.udp + 6, 0);
        put16(p.bytes + p.udp + 8, i / 2);
        unsigned checksum = checksum_of(&p);
        put16(p.bytes + p.udp + 6, checksum == 0 ? 0xffff : checksum);
        packet out = sent(&nat, p);
        unsigned got = get16(out.bytes + out.udp + 6);
        put16(out.bytes + out.udp + 6, 0);
        unsigned expected = checksum_of(&out);
        ck_assert_uint_eq(got, expected == 0 ? 0xffff : expected);
        edges += got == 0xffff ? 1 : 0;
    }
    ck_assert_uint_ge(edges, 2);
    packet none = make(IP4, 1, CLIENT_PORT, RELAY_PORT);
    put16(none.bytes + none.udp + 6, 0);
    none = sent(&nat, none);
    ck_assert_uint_ne(source_of(&none), CLIENT_PORT);
    ck_assert_uint_eq(get16(none.bytes + none.udp + 6), 0);
}
END_TEST

START_TEST(path_nat_what_is_no_udp_passes_untouched)
{
    static const struct {
        shape kind;
        uint8_t value; /* of the byte that is changed */
        size_t at;
        size_t len;
    } rows[] = {
        {IP4, IPPROTO_TCP, 9, WHOLE},
        {IP4, IPPROTO_ICMP, 9, WHOLE},
        {IP4, 0x44, 0, WHOLE}, /* a header too short */
        {IP4, 0x4f, 0, WHOLE}, /* and one behind which no UDP header fits */
        {IP4, 1, 7, WHOLE},    /* not the first fragment */
        {IP4, 0x20, 6, 27},    /* the first one, without room for ports */
        {IP4, 0x45, 0, 19},
        {IP4, 0x45, 0, 1},
        {IP4, 0x45, 0, 0},
        {IP4_OPTIONS, 0x46, 0, 31},
        {IP4, 0x55, 0, WHOLE},
        {IP6, IPPROTO_TCP, 6, WHOLE},
        {IP6, IPPROTO_HOPOPTS, 6, WHOLE},
        {IP6, 0x60, 0, 47},
        {IP6, 0x60, 0, 39},
        {IP6_FRAGMENT, 8, 43, WHOLE}, /* not the first fragment */
        {IP6_FRAGMENT, 1, 42, WHOLE},
        {IP6_FRAGMENT, IPPROTO_TCP, 40, WHOLE},
        {IP6_FRAGMENT, 0x60, 0, 55},
        {IP6_FRAGMENT, 0x60, 0, 48},
        {IP6_FRAGMENT, 0x60, 0, 41},
    };
    tf_path_nat nat = {0};
    tf_path_nat_rebind(&nat);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        packet p = make(rows[i].kind, 1, CLIENT_PORT, RELAY_PORT);
        p.bytes[rows[i].at] = rows[i].value;
        p.len = rows[i].len == WHOLE ? p.len : rows[i].len;
        packet out = sent(&nat, p);
        ck_assert_msg(memcmp(out.bytes, p.bytes, PACKET_MAX) == 0, "row %zu", i);
        ck_assert_msg(is_taken(&nat, &out) && memcmp(out.bytes, p.bytes, PACKET_MAX) == 0, "row %zu", i);
    }
    ck_assert_uint_eq(nat.begun, 0);
}
END_TEST

START_TEST(path_nat_that_is_full_forgets_the_oldest)
{
    tf_path_nat nat = {0};
    tf_path_nat_rebind(&nat);
    packet first = sent(&nat, make(IP4, 1, CLIENT_PORT, RELAY_PORT));
    packet second = sent(&nat, make(IP4, 1, CLIENT_PORT + 1, RELAY_PORT));
    for (unsigned i = 2; i < TF_PATH_NAT_FLOWS; i++) {
        (void)port_for(&nat, IP4, 1, CLIENT_PORT + i);
    }
    packet back = answer_to(&first);
    ck_assert(is_taken(&nat, &back));
    (void)port_for(&nat, IP4, 1, CLIENT_PORT + TF_PATH_NAT_FLOWS);
    back = answer_to(&first);
    ck_assert(!is_taken(&nat, &back));
    back = answer_to(&second);
    ck_assert(is_taken(&nat, &back));
    ck_assert_uint_ne(port_for(&nat, IP4, 1, CLIENT_PORT), source_of(&first));
}
END_TEST

/* No two that are known share one, and nobody is known by his own: by that he was before the first time. */
START_TEST(path_nat_ports_come_again_after_all_others)
{
    static bool seen[65536];
    tf_path_nat nat = {0};
    tf_path_nat_rebind(&nat);
    for (unsigned i = 0; i < TF_PATH_NAT_PORTS; i++) {
        unsigned port = port_for(&nat, IP4, 1, CLIENT_PORT + i % 20000);
        ck_assert_uint_ge(port, TF_PATH_NAT_PORT_FIRST);
        ck_assert_uint_lt(port, TF_PATH_NAT_PORT_FIRST + TF_PATH_NAT_PORTS);
        ck_assert(!seen[port]);
        seen[port] = true;
    }
    ck_assert_uint_eq(port_for(&nat, IP4, 1, TF_PATH_NAT_PORT_FIRST), TF_PATH_NAT_PORT_FIRST + 1);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        path_nat_changes_nothing_before_it_forgets,
        path_nat_that_forgot_gives_another_port_and_answers_to_the_old_are_nobodys,
        path_nat_clients_have_ports_of_their_own,
        path_nat_checksum_is_that_of_the_plain_sum,
        path_nat_what_is_no_udp_passes_untouched,
        path_nat_that_is_full_forgets_the_oldest,
        path_nat_ports_come_again_after_all_others,
        NULL,
    };
    return tf_test_run("tests/harness/path_nat", tests);
}
