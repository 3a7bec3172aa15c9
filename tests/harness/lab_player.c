#include "tests/harness/lab_player.h"

#include <inttypes.h>
#include <stdio.h>

#include "tests/harness/body.h"

#define BATCH 256 /* sends between two looks at what came */

/* -- the beginning ------------------------------------------------------------------------------------------------- */

void tf_lab_player_init(tf_lab_player *p, const tf_scenario *s, uint32_t node, tf_routes most, tf_lab_shared *shared)
{
    *p = (tf_lab_player){.s = s,
                         .node = node,
                         .routes = most & s->nodes[node].routes,
                         .shared = shared,
                         .own = &shared->clients[node],
                         .connected_at = TF_NEVER};
    size_t count = atomic_load(&p->own->count);
    if (count > 0) {
        p->before = p->own->samples[count - 1];
    }
}

void tf_lab_player_fail(tf_lab_player *p, const char *what, tf_slice text)
{
    (void)snprintf(p->own->error, sizeof(p->own->error), "%s: %.*s", what, (int)text.len, (const char *)text.data);
    p->failed = true;
}

bool tf_lab_player_sends(const tf_lab_player *p, uint32_t flow)
{
    return p->s->flows[flow].client == p->node;
}

bool tf_lab_player_hears(const tf_lab_player *p, uint32_t sub)
{
    return p->s->subs[sub].client == p->node;
}

uint64_t tf_lab_player_position(const tf_lab_player *p, uint32_t sub)
{
    const tf_lab_shared_sub *shared = &p->shared->subs[sub];
    size_t count = atomic_load(&shared->count);
    size_t last = count < shared->capacity ? count : shared->capacity;
    return count == 0 ? 0 : shared->records[last - 1].seq + 1;
}

/* -- sending ------------------------------------------------------------------------------------------------------- */

/* True: it was taken, or needs nothing. */
static bool send_one(tf_lab_player *p, uint32_t flow, tf_time due, tf_time now)
{
    uint32_t number = p->next[flow];
    size_t size = p->s->flows[flow].size;
    uint8_t *state = &p->shared->flows[flow].messages[number];
    char id[48];
    if (*state == TF_LAB_ACKED || *state == TF_LAB_REFUSED) {
        return true;
    }
    int len = snprintf(id, sizeof(id), "lab-%" PRIu32 "-%" PRIu32, flow, number);
    tf_lab_body_write(p->body, size, flow, number);
    tf_remote_send_args send = {.client_id = tf_slice_of(id, (size_t)len),
                                .body = tf_slice_of(p->body, size),
                                .was_sent = *state == TF_LAB_SENT,
                                .sent_ago = now > due ? now - due : 0,
                                .cookie = (uint64_t)flow << 32 | number};
    tf_err err = p->send(p->ctx, flow, &send);
    if (err == TF_OK) {
        *state = TF_LAB_SENT;
        return true;
    }
    if (err == TF_ERR_AGAIN) {
        p->full = true;
    } else {
        tf_lab_player_fail(p, "a send was not taken", tf_slice_str(tf_err_text(err)));
    }
    return false;
}

tf_time tf_lab_player_feed(tf_lab_player *p, tf_time start, tf_time now)
{
    tf_time next = TF_NEVER;
    for (uint32_t flow = 0; flow < p->s->flow_count; flow++) {
        uint32_t count = tf_lab_player_sends(p, flow) ? p->s->flows[flow].count : 0;
        for (int n = 0; p->next[flow] < count && !p->full && !p->failed; n++) {
            tf_time due = start + tf_scenario_due(p->s, flow, p->next[flow]);
            if (due > now || n == BATCH) {
                next = tf_time_min(next, due);
                break;
            }
            if (send_one(p, flow, due, now)) {
                p->next[flow]++;
            }
        }
    }
    return next;
}

/* -- what comes ---------------------------------------------------------------------------------------------------- */

void tf_lab_player_answered(tf_lab_player *p, uint64_t cookie, tf_lab_message state)
{
    tf_lab_shared_flow *flow = &p->shared->flows[cookie >> 32];
    uint8_t *message = &flow->messages[(uint32_t)cookie];
    if (*message != TF_LAB_ACKED && *message != TF_LAB_REFUSED) {
        *message = (uint8_t)state;
        (void)atomic_fetch_add(&flow->answered, 1);
    }
}

void tf_lab_player_heard(tf_lab_player *p, uint32_t sub, uint64_t seq, tf_slice body, tf_time now)
{
    uint32_t flow = 0;
    uint32_t number = 0;
    bool intact = tf_lab_body_read(body, p->s, &flow, &number);
    tf_lab_shared_sub *shared = &p->shared->subs[sub];
    size_t count = atomic_load(&shared->count);
    if (count < shared->capacity) {
        shared->records[count] =
            (tf_lab_record){.at = now, .seq = seq, .number = number, .flow = (uint16_t)flow, .intact = intact};
    }
    atomic_store(&shared->count, count + 1);
}

/* -- what it tells ------------------------------------------------------------------------------------------------- */

static void add_route(tf_lab_route *out, const tf_route_stats *r)
{
    out->sent += r->sent_segments;
    out->received += r->received_segments;
    out->first += r->first;
    out->repeats += r->repeats;
    out->only += r->only;
    out->told_first += r->told_first;
    out->told_repeats += r->told_repeats;
    out->shed += r->shed;
    out->lost += r->lost;
    out->downs += r->downs;
    for (size_t i = 0; i < TF_LATE_BUCKETS; i++) {
        out->late[i] += r->late[i];
    }
}

void tf_lab_player_keep(tf_lab_player *p, const tf_lab_counts *counts)
{
    p->before.resumes += counts->resumes;
    for (int i = 0; i < TF_ROUTE_COUNT; i++) {
        add_route(&p->before.routes[i], counts->routes[i]);
    }
}

void tf_lab_player_sample(tf_lab_player *p, const tf_lab_counts *counts, tf_time start, tf_time now)
{
    tf_lab_sample s = p->before;
    size_t count = atomic_load(&p->own->count);
    s.at = start != 0 && now > start ? now - start : 0;
    s.sessions += counts->sessions;
    s.resumes += counts->resumes;
    for (int i = 0; i < TF_ROUTE_COUNT; i++) {
        add_route(&s.routes[i], counts->routes[i]);
    }
    if (count < p->own->capacity) {
        p->own->samples[count] = s;
        atomic_store(&p->own->count, count + 1);
    } else {
        p->own->samples[count - 1] = s;
    }
    p->sample_at = now + TF_LAB_SAMPLE;
}

static bool has_all_routes(const tf_lab_player *p, const tf_lab_counts *counts)
{
    for (int i = 0; i < TF_ROUTE_COUNT; i++) {
        bool wanted = (p->routes & (1u << i)) != 0 || i == TF_ROUTE_STREAM; /* the stream is there in any case */
        if (wanted && counts->routes[i]->verdict != TF_VERDICT_UP) {
            return false;
        }
    }
    return counts->connected;
}

void tf_lab_player_look(tf_lab_player *p, const tf_lab_counts *counts, tf_time now)
{
    bool ready = p->connected_at != TF_NEVER;
    for (uint32_t i = 0; i < p->s->sub_count; i++) {
        ready = ready && (p->subscribed[i] || !tf_lab_player_hears(p, i));
    }
    if (ready && (has_all_routes(p, counts) || now - p->connected_at >= p->s->settle)) {
        atomic_store(&p->own->ready, true);
    }
}
