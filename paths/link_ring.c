#include "paths/link_ring.h"

#define CAPACITY_MIN 64u

void tf_link_ring_init(tf_link_ring *ring, const tf_mem *mem, tf_link_pool *pool, uint64_t first)
{
    *ring = (tf_link_ring){.mem = mem, .pool = pool, .floor = first, .next = first, .queued_low = first};
}

void tf_link_ring_free(tf_link_ring *ring)
{
    (void)tf_link_ring_ack_below(ring, ring->next);
    tf_link_ring_trim(ring);
}

bool tf_link_ring_fits(const tf_link_ring *ring, size_t segments, size_t bytes)
{
    size_t used = (size_t)(ring->next - ring->floor);
    return segments <= ring->max_segments - used && bytes <= ring->max_bytes - ring->bytes &&
           segments < UINT64_MAX - ring->next;
}

tf_link_entry *tf_link_ring_at(const tf_link_ring *ring, uint64_t seq)
{
    TF_ASSERT(seq - ring->floor < ring->next - ring->floor);
    return &ring->entries[seq & (ring->capacity - 1)];
}

tf_err tf_link_ring_reserve(tf_link_ring *ring, size_t segments)
{
    size_t used = (size_t)(ring->next - ring->floor);
    size_t capacity = ring->capacity == 0 ? CAPACITY_MIN : ring->capacity;
    while (capacity - used < segments) {
        capacity *= 2;
    }
    if (capacity == ring->capacity) {
        return TF_OK;
    }
    tf_link_entry *entries = tf_alloc(ring->mem, capacity * sizeof(*entries));
    if (entries == NULL) {
        return TF_ERR_NOMEM;
    }
    for (uint64_t seq = ring->floor; seq != ring->next; seq++) {
        entries[seq & (capacity - 1)] = *tf_link_ring_at(ring, seq);
    }
    tf_free(ring->mem, ring->entries, ring->capacity * sizeof(*entries));
    ring->entries = entries;
    ring->capacity = capacity;
    return TF_OK;
}

tf_err tf_link_ring_push(tf_link_ring *ring, tf_time now, uint8_t flags, tf_slice data)
{
    TF_ASSERT(tf_link_ring_fits(ring, 1, data.len) && ring->next - ring->floor < ring->capacity);
    uint8_t *copy = tf_link_pool_take(ring->pool, data.len);
    if (copy == NULL) {
        return TF_ERR_NOMEM;
    }
    if (data.len > 0) {
        memcpy(copy, data.data, data.len);
    }
    ring->next++;
    ring->bytes += data.len;
    *tf_link_ring_at(ring, ring->next - 1) =
        (tf_link_entry){.data = copy, .queued_at = now, .len = (uint16_t)data.len, .flags = flags};
    return TF_OK;
}

static void release(tf_link_ring *ring, tf_link_entry *entry)
{
    if (entry->copy == TF_LINK_COPY_QUEUED) {
        ring->queued--;
    }
    tf_link_pool_give(ring->pool, entry->data, entry->len);
    entry->data = NULL;
    entry->copy = TF_LINK_COPY_NONE;
}

void tf_link_ring_unpush(tf_link_ring *ring, size_t segments)
{
    for (size_t i = 0; i < segments; i++) {
        tf_link_entry *entry = tf_link_ring_at(ring, ring->next - 1);
        ring->bytes -= entry->len;
        release(ring, entry);
        ring->next--;
    }
}

bool tf_link_ring_is_acked(const tf_link_ring *ring, uint64_t seq)
{
    TF_ASSERT(seq < ring->next);
    return seq < ring->floor || tf_link_ring_at(ring, seq)->data == NULL;
}

tf_segment tf_link_ring_segment(const tf_link_ring *ring, uint64_t seq)
{
    const tf_link_entry *entry = tf_link_ring_at(ring, seq);
    return (tf_segment){.seq = seq, .flags = entry->flags, .data = tf_slice_of(entry->data, entry->len)};
}

bool tf_link_ring_ack_below(tf_link_ring *ring, uint64_t floor)
{
    TF_ASSERT(floor <= ring->next);
    bool any = false;
    while (ring->floor < floor) {
        tf_link_entry *entry = tf_link_ring_at(ring, ring->floor);
        if (entry->data != NULL) {
            release(ring, entry);
            any = true;
        }
        ring->bytes -= entry->len;
        ring->floor++;
    }
    return any;
}

bool tf_link_ring_ack_range(tf_link_ring *ring, tf_range range)
{
    TF_ASSERT(range.last < ring->next);
    bool any = false;
    uint64_t first = range.first < ring->floor ? ring->floor : range.first;
    for (uint64_t seq = first; seq <= range.last; seq++) {
        tf_link_entry *entry = tf_link_ring_at(ring, seq);
        if (entry->data != NULL) {
            release(ring, entry);
            any = true;
        }
    }
    return any;
}

void tf_link_ring_queue(tf_link_ring *ring, uint64_t seq, uint8_t repeats)
{
    tf_link_entry *entry = tf_link_ring_at(ring, seq);
    TF_ASSERT(entry->data != NULL && repeats > 0);
    if (entry->copy != TF_LINK_COPY_QUEUED) {
        entry->copy = TF_LINK_COPY_QUEUED;
        entry->repeats = repeats;
        ring->queued++;
    }
    if (ring->queued == 1 || seq < ring->queued_low) {
        ring->queued_low = seq;
    }
    if (ring->queued == 1 || seq > ring->queued_high) {
        ring->queued_high = seq;
    }
}

bool tf_link_ring_next_queued(tf_link_ring *ring, uint64_t from, uint64_t *seq)
{
    if (ring->queued == 0) {
        return false;
    }
    if (ring->queued_low < ring->floor) {
        ring->queued_low = ring->floor;
    }
    while (tf_link_ring_at(ring, ring->queued_low)->copy != TF_LINK_COPY_QUEUED) {
        ring->queued_low++;
    }
    for (uint64_t at = from < ring->queued_low ? ring->queued_low : from; at <= ring->queued_high; at++) {
        if (tf_link_ring_at(ring, at)->copy == TF_LINK_COPY_QUEUED) {
            *seq = at;
            return true;
        }
    }
    return false;
}

void tf_link_ring_queued_sent(tf_link_ring *ring, uint64_t seq)
{
    tf_link_entry *entry = tf_link_ring_at(ring, seq);
    TF_ASSERT(entry->copy == TF_LINK_COPY_QUEUED && entry->repeats > 0);
    entry->repeats--;
    if (entry->repeats == 0) {
        entry->copy = TF_LINK_COPY_FLYING;
        ring->queued--;
    }
}

void tf_link_ring_trim(tf_link_ring *ring)
{
    if (ring->floor == ring->next) {
        tf_free(ring->mem, ring->entries, ring->capacity * sizeof(*ring->entries));
        ring->entries = NULL;
        ring->capacity = 0;
    }
}
