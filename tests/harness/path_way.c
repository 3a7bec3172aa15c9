#include <netinet/in.h>
#include <stdlib.h>

#include "tests/harness/path.h"

#define NS_PER_SECOND 1000000000u
#define IP4_HEADER 20u
#define TCP_HEADER 20u
#define TCP_FLAGS 13u
#define TCP_SYN 0x02u
#define TCP_ACK 0x10u

static bool is_before(const tf_path_packet *a, const tf_path_packet *b)
{
    return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void push(tf_path_way *way, const tf_path_packet *packet)
{
    if (way->count == way->capacity) {
        way->capacity = way->capacity == 0 ? 256 : 2 * way->capacity;
        way->heap = realloc(way->heap, way->capacity * sizeof(*way->heap));
        if (way->heap == NULL) {
            abort();
        }
    }
    size_t at = way->count++;
    while (at > 0 && is_before(packet, &way->heap[(at - 1) / 2])) {
        way->heap[at] = way->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    way->heap[at] = *packet;
    way->bytes += packet->len;
}

tf_path_packet tf_path_way_take(tf_path_way *way)
{
    TF_ASSERT(way->count > 0);
    tf_path_packet first = way->heap[0];
    tf_path_packet last = way->heap[--way->count];
    size_t at = 0;
    for (size_t child = 1; child < way->count; child = 2 * at + 1) {
        if (child + 1 < way->count && is_before(&way->heap[child + 1], &way->heap[child])) {
            child++;
        }
        if (!is_before(&way->heap[child], &last)) {
            break;
        }
        way->heap[at] = way->heap[child];
        at = child;
    }
    way->heap[at] = last;
    way->bytes -= first.len;
    return first;
}

uint64_t tf_path_way_due(const tf_path_way *way)
{
    return way->count == 0 ? TF_PATH_NEVER : way->heap[0].due;
}

void tf_path_way_free(tf_path_way *way)
{
    for (size_t i = 0; i < way->count; i++) {
        free(way->heap[i].bytes);
    }
    free(way->heap);
    *way = (tf_path_way){0};
}

static void count_kind(tf_path_way *way, tf_slice packet)
{
    way->in++;
    if (packet.len < IP4_HEADER || packet.data[0] >> 4 != 4) {
        return;
    }
    size_t ip = (size_t)4 * (packet.data[0] & 0x0fu);
    if (packet.data[9] == IPPROTO_UDP) {
        way->udp++;
        way->udp_bytes += packet.len;
    } else if (packet.data[9] == IPPROTO_TCP && packet.len >= ip + TCP_HEADER) {
        size_t headers = ip + (size_t)4 * (packet.data[ip + 12] >> 4);
        unsigned flags = packet.data[ip + TCP_FLAGS] & (TCP_SYN | TCP_ACK);
        way->tcp++;
        way->tcp_bytes += packet.len > headers ? packet.len - headers : 0;
        way->syns += flags == TCP_SYN ? 1 : 0;
    }
}

/* When the packet has left a link with a rate, before its delay; TF_PATH_NEVER: the queue is full. */
static uint64_t leaves_at(tf_path_way *way, uint64_t now, size_t len)
{
    uint64_t rate = way->faults[TF_PATH_RATE];
    uint64_t bloat = way->faults[TF_PATH_BLOAT];
    double takes = (double)len * 8.0 * NS_PER_SECOND / (double)(rate != 0 ? rate : TF_BLOAT_RATE);
    uint64_t leaves = tf_bloat_leaves(&way->bloat, now, bloat, (uint64_t)takes);
    if (rate == 0 || bloat != 0) {
        return leaves == TF_BLOAT_FULL ? TF_PATH_NEVER : leaves;
    }
    uint64_t from = way->free_at > now ? way->free_at : now;
    double waiting = (double)(from - now) * (double)rate / 8.0 / NS_PER_SECOND;
    uint64_t most = way->faults[TF_PATH_QUEUE] == 0 ? TF_PATH_QUEUE_BYTES : way->faults[TF_PATH_QUEUE];
    if (waiting + (double)len > (double)most) {
        return TF_PATH_NEVER;
    }
    way->free_at = from + (uint64_t)takes;
    return way->free_at > leaves ? way->free_at : leaves;
}

static void put(tf_path_way *way, uint64_t leaves, tf_slice packet)
{
    if (way->count >= TF_PATH_PACKETS_MAX || way->bytes + packet.len > TF_PATH_BYTES_MAX) {
        way->overflow++;
        return;
    }
    uint64_t jitter = way->faults[TF_PATH_JITTER];
    uint64_t due = leaves + way->faults[TF_PATH_DELAY];
    if (jitter > 0) {
        due += tf_test_random_below(&way->random, 2 * jitter + 1);
        due = due > leaves + jitter ? due - jitter : leaves;
    }
    tf_path_packet copy = {.due = due, .order = way->orders++, .len = packet.len, .bytes = malloc(packet.len)};
    if (copy.bytes == NULL) {
        abort();
    }
    memcpy(copy.bytes, packet.data, packet.len);
    push(way, &copy);
}

void tf_path_way_admit(tf_path_way *way, uint64_t now, tf_slice packet)
{
    const uint64_t *faults = way->faults;
    count_kind(way, packet);
    if (faults[TF_PATH_HOLE] != 0) {
        way->holed++;
        return;
    }
    if (faults[TF_PATH_MTU] != 0 && packet.len > faults[TF_PATH_MTU]) {
        way->too_long++;
        return;
    }
    if (tf_burst_loses(&way->burst, &way->random, faults[TF_PATH_LOSS], faults[TF_PATH_BURST])) {
        way->lost++;
        return;
    }
    uint64_t leaves = leaves_at(way, now, packet.len);
    if (leaves == TF_PATH_NEVER) {
        way->overflow++;
        return;
    }
    put(way, leaves, packet);
    if (tf_test_random_chance(&way->random, faults[TF_PATH_REPEAT], TF_BURST_MILLION)) {
        way->repeated++;
        put(way, leaves, packet);
    }
}
