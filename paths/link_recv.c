#include "paths/link_recv.h"

#define CAPACITY_MIN 64u
#define MESSAGE_ROOM_MIN 4096u

/* States of a recent segment. */
#define RECENT_ROUTE 0x01u  /* the route of the first copy */
#define RECENT_KNOWN 0x02u  /* the entry is in use */
#define RECENT_SECOND 0x04u /* the other copy came, or could not be expected */
#define RECENT_LATE 0x08u   /* it came: its lateness was counted */
#define LATELY 64u          /* first copies */
#define RECENT_UNIT 32u     /* us: a 32-bit number of them lasts for more than a day */

_Static_assert(TF_ROUTE_COUNT == 2, "RECENT_ROUTE is one bit");

const tf_time tf_late_bounds[TF_LATE_BUCKETS - 1] = {250,         500,         1 * TF_MS,   2 * TF_MS,
                                                     5 * TF_MS,   10 * TF_MS,  20 * TF_MS,  50 * TF_MS,
                                                     100 * TF_MS, 200 * TF_MS, 500 * TF_MS, 1000 * TF_MS};

tf_err tf_link_recv_init(tf_link_recv *recv, const tf_link_recv_config *config, const tf_mem *mem, tf_link_pool *pool)
{
    *recv = (tf_link_recv){
        .mem = mem,
        .pool = pool,
        .max_segments = config->max_segments,
        .max_bytes = config->max_bytes,
        .max_message = config->max_message,
        .floor = config->first,
        .whole = config->first,
    };
    const tf_dedup_stream_config stream = {
        .dedup = config->dedup,
        .tag_key = tf_rand_u64(config->rand),
        .sender = config->sender,
        .instance = config->instance,
        .session = config->session,
        .first = config->first,
        .segments = config->max_segments,
    };
    return tf_dedup_stream_new(&recv->seen, &stream, mem);
}

static tf_link_held *held_at(const tf_link_recv *recv, uint64_t seq)
{
    return &recv->held[seq & (recv->capacity - 1)];
}

static void release_lent(tf_link_recv *recv)
{
    if (recv->lent != NULL) {
        tf_link_pool_give(recv->pool, recv->lent, recv->lent_len);
        recv->lent = NULL;
    }
    if (recv->message_done) {
        recv->message_done = false;
        recv->message_len = 0;
    }
}

void tf_link_recv_free(tf_link_recv *recv)
{
    release_lent(recv);
    for (size_t i = 0; i < recv->capacity; i++) {
        if (recv->held[i].data != NULL) {
            tf_link_pool_give(recv->pool, recv->held[i].data, recv->held[i].len);
        }
    }
    tf_free(recv->mem, recv->held, recv->capacity * sizeof(*recv->held));
    tf_free(recv->mem, recv->message, recv->message_room);
    tf_dedup_stream_free(recv->seen);
}

/* --- judging --- */

tf_link_judgement tf_link_recv_judge_begin(const tf_link_recv *recv)
{
    return (tf_link_judgement){.whole = recv->whole, .open = recv->open, .length = recv->length};
}

static const tf_link_held *held_or_null(const tf_link_recv *recv, uint64_t seq)
{
    if (seq < recv->floor || seq - recv->floor >= recv->capacity || held_at(recv, seq)->data == NULL) {
        return NULL;
    }
    return held_at(recv, seq);
}

/* A message starts exactly where the one before has ended. */
static bool flags_fit(uint8_t before, uint8_t after)
{
    return ((before & TF_SEGMENT_LAST) != 0) == ((after & TF_SEGMENT_FIRST) != 0);
}

/* Moves over one segment in order. */
static tf_err advance(const tf_link_recv *recv, tf_link_judgement *j, uint8_t flags, size_t len)
{
    if (j->open == ((flags & TF_SEGMENT_FIRST) != 0)) {
        return TF_ERR_PEER_SYNTAX;
    }
    size_t length = (j->open ? j->length : 0) + len;
    if (length > recv->max_message) {
        return TF_ERR_PEER_LIMIT;
    }
    bool single = flags == (TF_SEGMENT_FIRST | TF_SEGMENT_LAST);
    if (!single && length > j->longest) {
        j->longest = length;
    }
    j->open = (flags & TF_SEGMENT_LAST) == 0;
    j->length = length;
    j->whole++;
    return TF_OK;
}

static tf_err advance_over_held(const tf_link_recv *recv, tf_link_judgement *j)
{
    const tf_link_held *held = held_or_null(recv, j->whole);
    while (held != NULL) {
        tf_err err = advance(recv, j, held->flags, held->len);
        if (err != TF_OK) {
            return err;
        }
        held = held_or_null(recv, j->whole);
    }
    return TF_OK;
}

static tf_err judge_new(const tf_link_recv *recv, tf_link_judgement *j, const tf_segment *segment)
{
    if (segment->seq - recv->floor >= recv->max_segments ||
        segment->data.len > recv->max_bytes - recv->held_bytes - j->bytes) {
        return TF_ERR_PEER_LIMIT;
    }
    const tf_link_held *before = segment->seq == 0 ? NULL : held_or_null(recv, segment->seq - 1);
    const tf_link_held *after = held_or_null(recv, segment->seq + 1);
    if ((before != NULL && !flags_fit(before->flags, segment->flags)) ||
        (after != NULL && !flags_fit(segment->flags, after->flags)) ||
        (j->any && j->last + 1 == segment->seq && !flags_fit(j->flags, segment->flags))) {
        return TF_ERR_PEER_SYNTAX;
    }
    if (segment->seq != j->whole) {
        return TF_OK;
    }
    tf_err err = advance(recv, j, segment->flags, segment->data.len);
    return err == TF_OK ? advance_over_held(recv, j) : err;
}

tf_err tf_link_recv_judge(const tf_link_recv *recv, tf_link_judgement *j, const tf_segment *segment,
                          tf_link_judged *judged)
{
    if (j->any && segment->seq <= j->last) {
        return TF_ERR_PEER_SYNTAX;
    }
    judged->tag = tf_dedup_stream_tag(recv->seen, segment);
    tf_window_verdict seen = tf_dedup_stream_test(recv->seen, segment->seq, judged->tag);
    judged->repeat = seen == TF_WINDOW_REPEAT;
    tf_err err = TF_OK;
    switch (seen) {
    case TF_WINDOW_BEYOND:
        return TF_ERR_PEER_LIMIT;
    case TF_WINDOW_CONFLICT:
        return TF_ERR_PEER_CONFLICT;
    case TF_WINDOW_NEW:
        err = judge_new(recv, j, segment);
        j->bytes += segment->data.len;
        break;
    case TF_WINDOW_REPEAT:
        break;
    }
    j->any = true;
    j->last = segment->seq;
    j->flags = segment->flags;
    return err;
}

/* --- accepting --- */

static tf_err reserve_held(tf_link_recv *recv, uint64_t seq)
{
    size_t capacity = recv->capacity == 0 ? CAPACITY_MIN : recv->capacity;
    while (seq - recv->floor >= capacity) {
        capacity *= 2;
    }
    if (capacity == recv->capacity) {
        return TF_OK;
    }
    tf_link_held *held = tf_alloc(recv->mem, capacity * sizeof(*held));
    if (held == NULL) {
        return TF_ERR_NOMEM;
    }
    for (uint64_t at = recv->floor; at - recv->floor < recv->capacity; at++) {
        held[at & (capacity - 1)] = *held_at(recv, at);
    }
    tf_free(recv->mem, recv->held, recv->capacity * sizeof(*held));
    recv->held = held;
    recv->capacity = capacity;
    return TF_OK;
}

/* The entry that this one displaces waited long enough for its second copy. */
static void settle_recent(tf_link_recv *recv, size_t i)
{
    uint8_t state = recv->recent[i];
    if ((state & RECENT_KNOWN) != 0 && (state & RECENT_SECOND) == 0) {
        recv->routes[state & RECENT_ROUTE].only++;
    }
    recv->recent[i] = 0;
}

/* Has another route brought segments lately? The peer may have one on standby. */
static bool others_bring(const tf_link_recv *recv, tf_route route)
{
    bool any = false;
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        const tf_link_received *other = &recv->routes[i];
        any = any || (i != (size_t)route && other->total_segments > 0 && recv->news - other->lately <= LATELY);
    }
    return any;
}

static void count_first(tf_link_recv *recv, const tf_link_arrival *arrival, uint64_t seq)
{
    size_t i = (size_t)(seq % TF_LINK_RECENT);
    settle_recent(recv, i);
    recv->first_at[i] = (uint32_t)(arrival->now / RECENT_UNIT);
    bool expected = arrival->other_up && others_bring(recv, arrival->route);
    recv->recent[i] = (uint8_t)((unsigned)arrival->route | RECENT_KNOWN | (expected ? 0u : RECENT_SECOND));
    recv->news++;
    tf_link_received *received = &recv->routes[arrival->route];
    received->total_first++;
    if (arrival->generation == received->generation) {
        received->first++;
    }
}

static void count_late(tf_link_received *received, tf_time late)
{
    size_t bucket = 0;
    while (bucket < TF_LATE_BUCKETS - 1 && late > tf_late_bounds[bucket]) {
        bucket++;
    }
    received->late[bucket]++;
}

static void count_repeat(tf_link_recv *recv, const tf_link_arrival *arrival, uint64_t seq)
{
    tf_link_received *received = &recv->routes[arrival->route];
    uint64_t end = tf_window_end(tf_dedup_stream_window(recv->seen));
    if (seq < end && end - seq <= TF_LINK_RECENT) {
        size_t i = (size_t)(seq % TF_LINK_RECENT);
        uint8_t state = recv->recent[i];
        if ((state & (RECENT_KNOWN | RECENT_LATE)) == RECENT_KNOWN && (state & RECENT_ROUTE) != arrival->route) {
            recv->recent[i] |= RECENT_SECOND | RECENT_LATE;
            uint32_t at = (uint32_t)(arrival->now / RECENT_UNIT);
            count_late(received, (tf_time)(at - recv->first_at[i]) * RECENT_UNIT);
        }
    }
    received->total_repeats++;
    if (arrival->generation == received->generation) {
        received->repeats++;
    }
}

static tf_err hold(tf_link_recv *recv, tf_route route, const tf_segment *segment, uint32_t tag)
{
    tf_err err = reserve_held(recv, segment->seq);
    if (err != TF_OK) {
        return err;
    }
    uint8_t *data = tf_link_pool_take(recv->pool, segment->data.len);
    if (data == NULL) {
        return TF_ERR_NOMEM;
    }
    err = tf_dedup_stream_accept(recv->seen, segment->seq, tag);
    if (err != TF_OK) {
        tf_link_pool_give(recv->pool, data, segment->data.len);
        return err;
    }
    if (segment->data.len > 0) {
        memcpy(data, segment->data.data, segment->data.len);
    }
    *held_at(recv, segment->seq) = (tf_link_held){
        .data = data, .len = (uint16_t)segment->data.len, .flags = segment->flags, .via = (uint8_t)route};
    recv->held_segments++;
    recv->held_bytes += segment->data.len;
    return TF_OK;
}

tf_err tf_link_recv_accept(tf_link_recv *recv, const tf_link_arrival *arrival, const tf_segment *segment,
                           const tf_link_judged *judged)
{
    release_lent(recv);
    if (judged->repeat) {
        count_repeat(recv, arrival, segment->seq);
    } else {
        tf_err err = hold(recv, arrival->route, segment, judged->tag);
        if (err != TF_OK) {
            return err;
        }
        count_first(recv, arrival, segment->seq);
    }
    tf_link_received *received = &recv->routes[arrival->route];
    received->total_bytes += segment->data.len;
    received->total_segments++;
    received->lately = recv->news;
    if (arrival->generation == received->generation) {
        received->bytes += segment->data.len;
    }
    return TF_OK;
}

static tf_err reserve_message(tf_link_recv *recv, size_t length)
{
    if (length <= recv->message_room) {
        return TF_OK;
    }
    size_t room = recv->message_room == 0 ? MESSAGE_ROOM_MIN : recv->message_room;
    while (room < length) {
        room *= 2;
    }
    uint8_t *message = tf_alloc(recv->mem, room);
    if (message == NULL) {
        return TF_ERR_NOMEM;
    }
    if (recv->message_len > 0) {
        memcpy(message, recv->message, recv->message_len);
    }
    tf_free(recv->mem, recv->message, recv->message_room);
    recv->message = message;
    recv->message_room = room;
    return TF_OK;
}

tf_err tf_link_recv_judge_commit(tf_link_recv *recv, const tf_link_judgement *j)
{
    release_lent(recv);
    tf_err err = reserve_message(recv, j->longest);
    if (err != TF_OK) {
        return err;
    }
    recv->whole = j->whole;
    recv->open = j->open;
    recv->length = j->length;
    return TF_OK;
}

/* --- handing out --- */

bool tf_link_recv_next(tf_link_recv *recv, tf_slice *message, tf_route *via)
{
    release_lent(recv);
    while (recv->floor < recv->whole) {
        tf_link_held *held = held_at(recv, recv->floor);
        const tf_link_held taken = *held;
        held->data = NULL;
        recv->held_segments--;
        recv->held_bytes -= taken.len;
        recv->floor++;
        *via = (tf_route)taken.via;
        if (taken.flags == (TF_SEGMENT_FIRST | TF_SEGMENT_LAST)) {
            recv->lent = taken.data;
            recv->lent_len = taken.len;
            *message = tf_slice_of(taken.data, taken.len);
            recv->messages++;
            return true;
        }
        TF_ASSERT(taken.len <= recv->message_room - recv->message_len);
        memcpy(recv->message + recv->message_len, taken.data, taken.len);
        recv->message_len += taken.len;
        tf_link_pool_give(recv->pool, taken.data, taken.len);
        if ((taken.flags & TF_SEGMENT_LAST) != 0) {
            recv->message_done = true;
            *message = tf_slice_of(recv->message, recv->message_len);
            recv->messages++;
            return true;
        }
    }
    return false;
}

void tf_link_recv_generation(tf_link_recv *recv, tf_route route, uint64_t generation)
{
    tf_link_received *received = &recv->routes[route];
    if (generation > received->generation) {
        received->generation = generation;
        received->bytes = 0;
        received->first = 0;
        received->repeats = 0;
    }
}

void tf_link_recv_fill_ack(const tf_link_recv *recv, tf_link_ack *ack)
{
    ack->floor = recv->floor;
    ack->range_count =
        tf_window_ranges(tf_dedup_stream_window(recv->seen), recv->whole, ack->ranges, TF_ACK_RANGES_MAX);
}

void tf_link_recv_trim(tf_link_recv *recv)
{
    release_lent(recv);
    for (size_t i = 0; i < TF_LINK_RECENT; i++) {
        settle_recent(recv, i);
    }
    tf_dedup_stream_trim(recv->seen);
    if (recv->held_segments == 0) {
        tf_free(recv->mem, recv->held, recv->capacity * sizeof(*recv->held));
        recv->held = NULL;
        recv->capacity = 0;
    }
    if (recv->message_len == 0 && recv->floor == recv->whole) { /* else room for what is held was promised */
        tf_free(recv->mem, recv->message, recv->message_room);
        recv->message = NULL;
        recv->message_room = 0;
    }
}
