#include "paths/link_sent.h"

#define CAPACITY_MIN 16u

void tf_link_sent_init(tf_link_sent *sent, const tf_mem *mem)
{
    *sent = (tf_link_sent){.mem = mem};
}

static void release(tf_link_sent *sent)
{
    tf_free(sent->mem, sent->packets, sent->capacity * sizeof(*sent->packets));
    sent->packets = NULL;
    sent->capacity = 0;
}

void tf_link_sent_free(tf_link_sent *sent)
{
    release(sent);
}

tf_link_sent_packet *tf_link_sent_at(const tf_link_sent *sent, uint64_t number)
{
    TF_ASSERT(number - sent->oldest < sent->next - sent->oldest);
    return &sent->packets[number & (sent->capacity - 1)];
}

bool tf_link_sent_reserve(tf_link_sent *sent)
{
    size_t used = (size_t)(sent->next - sent->oldest);
    if (used < sent->capacity) {
        return true;
    }
    size_t capacity = sent->capacity == 0 ? CAPACITY_MIN : sent->capacity * 2;
    if (capacity > TF_LINK_SENT_MAX) {
        return false;
    }
    tf_link_sent_packet *packets = tf_alloc(sent->mem, capacity * sizeof(*packets));
    if (packets == NULL) {
        return false;
    }
    for (uint64_t number = sent->oldest; number != sent->next; number++) {
        packets[number & (capacity - 1)] = *tf_link_sent_at(sent, number);
    }
    release(sent);
    sent->packets = packets;
    sent->capacity = capacity;
    return true;
}

tf_link_sent_packet *tf_link_sent_push(tf_link_sent *sent)
{
    TF_ASSERT(sent->next - sent->oldest < sent->capacity);
    sent->next++;
    tf_link_sent_packet *packet = tf_link_sent_at(sent, sent->next - 1);
    packet->runs_used = 0;
    packet->eliciting = false;
    packet->open = false;
    return packet;
}

void tf_link_sent_settle(tf_link_sent *sent)
{
    while (sent->oldest != sent->next && !tf_link_sent_at(sent, sent->oldest)->open) {
        sent->oldest++;
    }
}

bool tf_link_sent_add(tf_link_sent_packet *packet, uint64_t seq)
{
    if (packet->runs_used > 0) {
        tf_link_run *run = &packet->runs[packet->runs_used - 1];
        if (run->first + run->count == seq) {
            run->count++;
            return true;
        }
    }
    if (packet->runs_used == TF_LINK_SENT_RUNS) {
        return false;
    }
    packet->runs[packet->runs_used++] = (tf_link_run){.first = seq, .count = 1};
    return true;
}

void tf_link_sent_trim(tf_link_sent *sent)
{
    tf_link_sent_settle(sent);
    if (sent->oldest == sent->next) {
        release(sent);
    }
}
