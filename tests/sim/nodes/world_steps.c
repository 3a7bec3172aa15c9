/* What the steps of a plan do to a world, and how all of it is undone. */
#include <inttypes.h>
#include <string.h>

#include "tests/sim/nodes/world.h"

#define JUMP_MAX_MS 600000u
#define RIGHTS_KEYS_MAX PLAN_CLIENTS_MAX

typedef struct dice {
    tf_test_random random;
} dice;

static dice dice_of(const step *s)
{
    dice d;
    tf_test_random_init(&d.random, ((uint64_t)s->kind << 32) + s->salt);
    return d;
}

static unsigned roll(dice *d, unsigned bound)
{
    return (unsigned)tf_test_random_below(&d->random, bound);
}

static size_t bearer_index(const world *w, const step *s)
{
    return s->target % cluster_bearer_count(w->cluster);
}

static bearer *bearer_at(const world *w, const step *s)
{
    return cluster_bearer(w->cluster, bearer_index(w, s));
}

static sim_node *node_at(const world *w, const step *s)
{
    return cluster_node(w->cluster, s->target % cluster_node_count(w->cluster));
}

static view *view_at(const world *w, const step *s)
{
    return &w->views[s->target % w->view_count];
}

static relay *relay_at(world *w, const step *s)
{
    return &w->relays[s->target % w->plan.relays];
}

/* -- routes -------------------------------------------------------------------------------------------------------- */

/* May the world do that to that route? */
static bool is_free(const world *w, tf_route route)
{
    return !w->plan.healthy || w->plan.well != route;
}

static void set_packets(world *w, const step *s)
{
    dice d = dice_of(s);
    unsigned end = roll(&d, NET_ENDS);
    net_path *path = net_path_of(bearer_net(bearer_at(w, s)), end);
    const net_path *base = &w->base[bearer_index(w, s)][end].path;
    if (!is_free(w, TF_ROUTE_DATAGRAM)) {
        return;
    }
    switch (roll(&d, 7)) {
    case 0:
        path->loss = 1 + roll(&d, 500);
        break;
    case 1:
        path->repeat = 1 + roll(&d, 500);
        break;
    case 2:
        path->jitter = 1 + roll(&d, 4 * (unsigned)base->delay);
        break;
    case 3:
        path->late = 1 + roll(&d, 200);
        path->late_by = 1 + roll(&d, 8 * (unsigned)base->delay);
        break;
    case 4:
        path->rate = 2000 + roll(&d, 100000);
        path->queue = 2000 + roll(&d, 30000);
        break;
    case 5:
        path->mtu = TF_MTU_SMALL + roll(&d, TF_PACKET_MAX - TF_MTU_SMALL);
        break;
    default:
        path->delay = 200 + roll(&d, 200000);
        break;
    }
}

static void end_packets(world *w, const step *s)
{
    dice d = dice_of(s);
    unsigned end = roll(&d, NET_ENDS);
    net_path *path = net_path_of(bearer_net(bearer_at(w, s)), end);
    bool hole = path->hole;
    *path = w->base[bearer_index(w, s)][end].path;
    path->hole = hole;
}

static void set_pipe(world *w, const step *s)
{
    dice d = dice_of(s);
    unsigned end = roll(&d, NET_ENDS);
    net_pipe *pipe = net_pipe_of(bearer_net(bearer_at(w, s)), end);
    if (!is_free(w, TF_ROUTE_STREAM)) {
        return;
    }
    switch (roll(&d, 4)) {
    case 0:
        pipe->loss = 1 + roll(&d, 300);
        break;
    case 1:
        pipe->rate = 2000 + roll(&d, 100000);
        break;
    case 2:
        pipe->penalty = 1 + roll(&d, 500000);
        break;
    default:
        pipe->delay = 200 + roll(&d, 200000);
        break;
    }
}

static void end_pipe(world *w, const step *s)
{
    dice d = dice_of(s);
    unsigned end = roll(&d, NET_ENDS);
    net_pipe *pipe = net_pipe_of(bearer_net(bearer_at(w, s)), end);
    bool hole = pipe->hole;
    *pipe = w->base[bearer_index(w, s)][end].pipe;
    pipe->hole = hole;
}

/* Opens or closes holes: of one route or both, in one direction or both. */
static void set_holes(world *w, const step *s, bool on)
{
    dice d = dice_of(s);
    unsigned routes = 1 + roll(&d, 3);
    unsigned ends = 1 + roll(&d, 3);
    net *n = bearer_net(bearer_at(w, s));
    if (w->plan.healthy) {
        routes = w->plan.well == TF_ROUTE_STREAM ? 2 : 1;
    }
    for (unsigned end = 0; end < NET_ENDS; end++) {
        if ((ends & (1u << end)) == 0) {
            continue;
        }
        if ((routes & 2u) != 0) {
            net_path_of(n, end)->hole = on;
        }
        if ((routes & 1u) != 0 && on) {
            net_pipe_of(n, end)->hole = true;
        } else if ((routes & 1u) != 0) {
            net_heal_stream(n, end);
        }
    }
}

static void cut(world *w, const step *s)
{
    dice d = dice_of(s);
    if (!is_free(w, TF_ROUTE_STREAM)) {
        return;
    }
    size_t keep[NET_ENDS];
    tf_time learns[NET_ENDS];
    for (unsigned end = 0; end < NET_ENDS; end++) {
        keep[end] = roll(&d, 3) == 0 ? roll(&d, 3000) : roll(&d, 40);
        learns[end] = roll(&d, roll(&d, 3) == 0 ? 3000000 : 50000);
    }
    bearer_cut(bearer_at(w, s), keep, learns);
}

static void set_closed(world *w, const step *s, bool on)
{
    if (is_free(w, TF_ROUTE_STREAM)) {
        bearer_set_closed(bearer_at(w, s), on);
    }
}

/* -- nodes --------------------------------------------------------------------------------------------------------- */

static void jump(world *w, const step *s)
{
    dice d = dice_of(s);
    sim_node *node = node_at(w, s);
    unsigned most = roll(&d, 2) == 0 ? 2000 : JUMP_MAX_MS;
    node->clock_offset_ms += (int64_t)roll(&d, 2 * most + 1) - most;
}

static void set_disk(world *w, const step *s)
{
    dice d = dice_of(s);
    disk_weather weather = {.least = TF_MS, .spread = 1 + roll(&d, 100000)};
    switch (roll(&d, 6)) {
    case 0:
        weather.refusals = 1 + roll(&d, 500);
        break;
    case 1:
        weather.later = 1 + roll(&d, 500);
        break;
    case 2:
        weather.errors = 1 + roll(&d, 200);
        break;
    case 3:
        weather.full = true;
        break;
    case 4:
        weather.failing = true;
        break;
    default:
        weather.spread = 1 + roll(&d, 1000000);
        break;
    }
    disk_set_weather(relay_at(w, s)->disk, world_now(w), &weather);
}

static void end_disk(world *w, relay *r)
{
    static const disk_weather fair = {0};
    disk_set_weather(r->disk, world_now(w), &fair);
}

/* A rule that lets most clients do what they want, and some not. */
void world_apply_rights(world *w, relay *r)
{
    static tf_node_id keys[2][RIGHTS_KEYS_MAX];
    if (r->node->side.hub == NULL) {
        return;
    }
    dice d;
    tf_test_random_init(&d.random, r->rights_salt);
    tf_hub_rule rule = {.pattern = tf_slice_str("**"), .read = {.keys = keys[0]}, .write = {.keys = keys[1]}};
    for (unsigned i = 0; i < w->plan.clients; i++) {
        if (roll(&d, 3) != 0) {
            keys[0][rule.read.count++] = w->members[i].node->side.id;
        }
        if (roll(&d, 3) != 0) {
            keys[1][rule.write.count++] = w->members[i].node->side.id;
        }
    }
    if (tf_hub_set_rights(r->node->side.hub, world_now(w), r->forbids ? &rule : NULL, r->forbids ? 1 : 0) != TF_OK) {
        world_fail(w, "rights were not taken", "%s", r->name);
    }
}

static void set_rights(world *w, relay *r, uint32_t salt, bool on)
{
    r->forbids = on;
    r->forbade = r->forbade || on;
    r->rights_salt = salt;
    world_apply_rights(w, r);
}

void world_apply_keep(world *w, relay *r)
{
    tf_retention keep = {.pattern = tf_slice_str("**"), .max_count = r->keep};
    if (r->node->side.hub == NULL || r->keep == 0) {
        return;
    }
    if (tf_hub_set_retention(r->node->side.hub, world_now(w), &keep, 1) != TF_OK) {
        world_fail(w, "retention was not taken", "%s", r->name);
    }
}

static void set_keep(world *w, const step *s)
{
    dice d = dice_of(s);
    relay *r = relay_at(w, s);
    r->keep = 1 + roll(&d, 8);
    r->keep_least = r->keep_least == 0 || r->keep < r->keep_least ? r->keep : r->keep_least;
    world_apply_keep(w, r);
}

/* -- applications -------------------------------------------------------------------------------------------------- */

static void send(world *w, const step *s)
{
    dice d = dice_of(s);
    view *v = view_at(w, s);
    unsigned count = 1 + roll(&d, w->plan.healthy ? 4 : roll(&d, 4) == 0 ? 40 : 8);
    uint32_t len = roll(&d, 4) == 0 ? roll(&d, 1500) : 0;
    if (w->plan.big_bodies && roll(&d, 4) == 0) {
        len = roll(&d, PUBLISHER_BODY_MAX);
        count = 1 + count / 4;
    }
    int64_t expires = w->plan.expires && roll(&d, 2) == 0 ? 1 + (int64_t)roll(&d, 2000) : 0;
    publisher_make(v, count, len, expires);
}

static void trim(world *w, const step *s)
{
    dice d = dice_of(s);
    view *v = view_at(w, s);
    if (world_client_of(v) == NULL || v->ledger->known == 0 || v->refused) {
        return;
    }
    uint64_t before = 1 + roll(&d, (unsigned)v->ledger->known + 1);
    tf_ask ask = {.kind = TF_ASK_TRIM, .from = before};
    if (tf_client_ask(world_client_of(v), world_now(w), v->handle, &ask) == TF_OK) {
        v->ledger->trim_asked = before > v->ledger->trim_asked ? before : v->ledger->trim_asked;
    }
}

static void close_channel(world *w, const step *s)
{
    view *v = view_at(w, s);
    if (world_client_of(v) != NULL && !v->refused) {
        v->ledger->close_asked = true;
        (void)!tf_client_close_channel(world_client_of(v), world_now(w), v->handle);
    }
}

static void slow_down(world *w, const step *s)
{
    member *m = &w->members[s->target % w->plan.clients];
    m->pull_at = world_now(w) + s->span;
}

/* What waits is taken first: what comes after a new beginning is told apart by nothing. */
static void leave(world *w, const step *s)
{
    view *v = view_at(w, s);
    if (v->member->node->state != NODE_UP) {
        return;
    }
    v->member->away[v->home][v->channel] = true;
    world_pull(w, v->member);
    subscriber_leave(v);
}

static void rejoin(world *w, view *v)
{
    v->member->away[v->home][v->channel] = false;
    world_pull(w, v->member);
}

/* -- all ----------------------------------------------------------------------------------------------------------- */

void world_begin_step(world *w, const step *s)
{
    world_say(w, "%s %u %" PRIu32 " begins", step_name(s->kind), s->target, s->salt);
    switch (s->kind) {
    case STEP_SEND:
        send(w, s);
        break;
    case STEP_PACKETS:
        set_packets(w, s);
        break;
    case STEP_PIPE:
        set_pipe(w, s);
        break;
    case STEP_HOLE:
    case STEP_BURST:
        set_holes(w, s, true);
        break;
    case STEP_CUT:
        cut(w, s);
        break;
    case STEP_CLOSED:
        set_closed(w, s, true);
        break;
    case STEP_REBIND:
        bearer_rebind(bearer_at(w, s));
        break;
    case STEP_KILL:
        cluster_kill(w->cluster, node_at(w, s));
        break;
    case STEP_CRASH:
        cluster_crash(w->cluster, node_at(w, s));
        break;
    case STEP_STOP:
        cluster_stop(w->cluster, node_at(w, s));
        break;
    case STEP_PAUSE:
        cluster_pause(w->cluster, node_at(w, s));
        break;
    case STEP_CLOCK:
        jump(w, s);
        break;
    case STEP_DISK:
        set_disk(w, s);
        break;
    case STEP_SLOW:
        slow_down(w, s);
        break;
    case STEP_LEAVE:
        leave(w, s);
        break;
    case STEP_TRIM:
        trim(w, s);
        break;
    case STEP_CLOSE:
        close_channel(w, s);
        break;
    case STEP_KEEP:
        set_keep(w, s);
        break;
    case STEP_RIGHTS:
        set_rights(w, relay_at(w, s), s->salt, true);
        break;
    case STEP_KIND_COUNT:
        break;
    }
}

void world_end_step(world *w, const step *s)
{
    switch (s->kind) {
    case STEP_PACKETS:
        end_packets(w, s);
        break;
    case STEP_PIPE:
        end_pipe(w, s);
        break;
    case STEP_HOLE:
    case STEP_BURST:
        set_holes(w, s, false);
        break;
    case STEP_CLOSED:
        set_closed(w, s, false);
        break;
    case STEP_KILL:
    case STEP_CRASH:
    case STEP_STOP:
        cluster_start(w->cluster, node_at(w, s));
        break;
    case STEP_PAUSE:
        cluster_go(w->cluster, node_at(w, s));
        break;
    case STEP_DISK:
        end_disk(w, relay_at(w, s));
        break;
    case STEP_LEAVE:
        rejoin(w, view_at(w, s));
        break;
    case STEP_RIGHTS:
        set_rights(w, relay_at(w, s), 0, false);
        break;
    case STEP_SEND:
    case STEP_CUT:
    case STEP_REBIND:
    case STEP_CLOCK:
    case STEP_SLOW:
    case STEP_TRIM:
    case STEP_CLOSE:
    case STEP_KEEP:
    case STEP_KIND_COUNT:
        break;
    }
}

static void heal_routes(world *w)
{
    for (size_t i = 0; i < cluster_bearer_count(w->cluster); i++) {
        bearer *b = cluster_bearer(w->cluster, i);
        bearer_set_closed(b, false);
        for (unsigned end = 0; end < NET_ENDS; end++) {
            net *n = bearer_net(b);
            net_heal_stream(n, end);
            *net_path_of(n, end) = w->base[i][end].path;
            *net_pipe_of(n, end) = w->base[i][end].pipe;
        }
    }
}

/* A channel that was refused once stays refused for that process. */
static bool has_refused(const world *w, const member *m)
{
    for (unsigned home = 0; home < m->home_count; home++) {
        for (unsigned i = 0; i < w->plan.channels; i++) {
            if (m->views[home][i].refused) {
                return true;
            }
        }
    }
    return false;
}

void world_restart_refused(world *w)
{
    for (unsigned i = 0; i < w->plan.clients; i++) {
        if (has_refused(w, &w->members[i])) {
            cluster_stop(w->cluster, w->members[i].node);
            cluster_start(w->cluster, w->members[i].node);
        }
    }
}

void world_heal(world *w)
{
    world_say(w, "all heals");
    w->next_moment = w->moment_count;
    heal_routes(w);
    for (unsigned i = 0; i < w->plan.relays; i++) {
        end_disk(w, &w->relays[i]);
        if (w->relays[i].forbids) {
            set_rights(w, &w->relays[i], 0, false);
        }
    }
    for (size_t i = 0; i < cluster_node_count(w->cluster); i++) {
        cluster_go(w->cluster, cluster_node(w->cluster, i));
        cluster_start(w->cluster, cluster_node(w->cluster, i));
    }
    for (unsigned i = 0; i < w->plan.clients; i++) {
        member *m = &w->members[i];
        m->pull_at = 0;
        world_pull(w, m);
    }
    for (size_t i = 0; i < w->view_count; i++) {
        rejoin(w, &w->views[i]);
    }
}
