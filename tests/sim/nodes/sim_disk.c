/* One disk with its store, driven as a hub drives it, one run a seed: groups of changes, reads that may have to wait, stops,
 * kills and power cuts at any moment, weather that changes. Each seed has its own mix of them.
 *
 * At all times: what was acked is there, once, in order, also after every start, and nothing that was refused; of a group
 * under way it is what came first (P1, S2, S6, S10, S11). In good weather nothing is refused and every read is answered.
 * Then the weather becomes good: everything must be taken and read, and then the store must sleep (P9). All memory comes
 * back. Every seed runs twice and both traces must be the same.
 *
 *     sim_disk [--seeds A..B] [--verbose] */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/nodes/disk.h"
#include "tests/sim/nodes/sim_disk_model.h"
#include "tests/sim/nodes/threads.h"
#include "tests/sim/seeds.h"

#define SEEDS_DEFAULT 120u
#define GROUPS_MAX 200u
#define WAITING_MAX 8u
#define PATIENCE (20 * TF_SECOND) /* in good weather all is answered by then */

typedef struct waiting {
    unsigned channel;
    uint64_t seq;
    tf_time since;
} waiting;

typedef struct sim {
    uint64_t seed;
    tf_test_random random;
    tf_test_heap heap;
    disk_kind kind;
    disk *disk;
    model model;
    tf_time now;
    tf_time act_at;
    tf_time pause_max; /* between two acts */
    unsigned groups_max;
    size_t group_max;  /* ops */
    bool is_small;
    bool is_busy;      /* the next group is ready when one is done */
    unsigned storms;   /* in 1/100 of a change of the weather: it is bad */
    unsigned changes;  /* of the weather, in 1/1000 of an act */
    unsigned restarts; /* the same */
    unsigned cuts;     /* in 1/100 of a start: the power goes off in it */
    bool clean;        /* good weather since the store was opened */
    bool good;         /* it is now, */
    tf_time good_since;
    tf_time submitted_at;
    unsigned groups;
    unsigned starts;
    waiting waits[WAITING_MAX];
    size_t waiting;
} sim;

static uint64_t below(sim *s, uint64_t bound)
{
    return tf_test_random_below(&s->random, bound);
}

static void require(const sim *s, const char *wrong)
{
    if (wrong != NULL) {
        (void)fprintf(stderr, "seed %llu, at %llu us, %u groups, %u starts: %s\n", (unsigned long long)s->seed,
                      (unsigned long long)s->now, s->groups, s->starts, wrong);
        abort();
    }
}

static tf_store store_of(const sim *s)
{
    return disk_store(s->disk);
}

/* -- reads ---------------------------------------------------------------------------------------------------------- */

static void set_clean(sim *s)
{
    s->clean = s->clean && s->good;
}

/* True: it was answered. */
static bool try_read(sim *s, unsigned channel, uint64_t seq)
{
    tf_stored stored;
    tf_store store = store_of(s);
    tf_store_presence presence = store.table->read(store.ctx, s->model.channels[channel].number, seq, &stored);
    if (presence != TF_STORE_LATER) {
        require(s, model_check_read(&s->model, channel, seq, presence, &stored));
    }
    return presence != TF_STORE_LATER;
}

static void retry_reads(sim *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->waiting; i++) {
        waiting w = s->waits[i];
        tf_time since = tf_time_max(w.since, s->good_since);
        if (!try_read(s, w.channel, w.seq)) {
            require(s, s->clean && s->now - since > PATIENCE ? "a read is not answered (S6)" : NULL);
            s->waits[kept++] = w;
        }
    }
    s->waiting = kept;
}

static void read_one(sim *s)
{
    unsigned channel = (unsigned)below(s, MODEL_CHANNELS);
    const model_channel *c = &s->model.channels[channel];
    if (c->head == 0) {
        return;
    }
    uint64_t seq = 1 + below(s, c->head);
    switch (below(s, 4)) {
    case 0:
        require(s, model_check_key(&s->model, store_of(s), channel, seq));
        return;
    case 1:
        require(s, model_check_positions(&s->model, store_of(s), channel));
        return;
    case 2: {
        tf_stored stored;
        bool there = disk_peek(s->disk, model_name(channel), seq, &stored);
        if (there || s->clean) {
            tf_store_presence presence = there ? TF_STORE_HERE : TF_STORE_GONE;
            stored.seq = there ? stored.seq : c->first;
            require(s, model_check_read(&s->model, channel, seq, presence, &stored));
        }
        return;
    }
    default:
        break;
    }
    if (s->waiting < WAITING_MAX && !try_read(s, channel, seq)) {
        s->waits[s->waiting++] = (waiting){channel, seq, s->now};
    }
}

/* -- the store's turn ----------------------------------------------------------------------------------------------- */

static void submit(sim *s)
{
    tf_store store = store_of(s);
    if (s->model.group.count == 0) {
        tf_store_group *group = model_draw(&s->model, s->group_max);
        if (group->count > 0) {
            s->submitted_at = s->now;
            s->groups++;
            store.table->submit(store.ctx, group);
        }
    }
}

static void advance(sim *s)
{
    tf_store store = store_of(s);
    tf_store_event_type type;
    disk_advance(s->disk, s->now);
    while (store.table->poll(store.ctx, &type)) {
        if (type == TF_STORE_GROUP_DONE) {
            require(s, model_complete(&s->model, s->clean && s->kind == DISK_REAL));
            require(s, model_check(&s->model, store));
            if (s->is_busy && below(s, 4) != 0) {
                submit(s); /* while its writer looks for more, or goes to sleep */
            }
        } else {
            retry_reads(s);
        }
    }
    bool late = s->model.group.count > 0 && s->clean && s->now - s->submitted_at > PATIENCE;
    require(s, late ? "a group is not answered" : NULL);
}

/* When something is to happen, at the latest then. */
static tf_time next_time(const sim *s, tf_time until)
{
    return tf_time_max(s->now, tf_time_min(until, disk_deadline(s->disk)));
}

/* -- what happens to it --------------------------------------------------------------------------------------------- */

static void change_weather(sim *s)
{
    static const tf_time spans[] = {0, 200, 5 * TF_MS, 80 * TF_MS};
    disk_weather w = {.least = below(s, spans[below(s, 4)] + 1), .spread = spans[below(s, 4)]};
    s->good = !tf_test_random_chance(&s->random, s->storms, 100);
    if (!s->good) {
        w.errors = below(s, 2) == 0 ? (unsigned[]){1, 20, 200}[below(s, 3)] : 0;
        w.full = below(s, 3) == 0;
        w.failing = below(s, 5) == 0;
        w.unreadable = below(s, 3) == 0 ? (unsigned[]){1, 30, 300}[below(s, 3)] : 0;
        w.refusals = (unsigned)below(s, 300);
        w.later = (unsigned)below(s, 500);
    }
    s->model.is_blind = w.unreadable > 0;
    s->good_since = s->now;
    set_clean(s);
    disk_set_weather(s->disk, s->now, &w);
}

static void heal(sim *s)
{
    s->good = true;
    s->model.is_blind = false;
    s->good_since = s->now;
    disk_set_weather(s->disk, s->now, &(disk_weather){.least = 100, .spread = 2 * TF_MS});
}

static void begin(sim *s)
{
    bool was_clean = s->clean;
    s->clean = s->good;
    bool cut = s->cuts > 0 && tf_test_random_chance(&s->random, s->cuts, 100);
    if (!disk_start_cut(s->disk, s->now, s->is_small, cut ? below(s, below(s, 200) + 1) : UINT64_MAX)) {
        require(s, s->good && !cut ? "it is not opened in good weather" : NULL);
        s->clean = was_clean;
        return;
    }
    s->starts++;
    require(s, model_resolve(&s->model, store_of(s), was_clean && s->kind == DISK_REAL));
}

static void end(sim *s)
{
    void (*const ends[])(disk *, tf_time) = {disk_stop, disk_kill, disk_crash};
    ends[below(s, 3)](s->disk, s->now);
    s->waiting = 0;
}

static void act(sim *s)
{
    s->act_at = s->now + below(s, below(s, 10) == 0 ? 10 * s->pause_max : s->pause_max);
    if (tf_test_random_chance(&s->random, s->changes, 1000)) {
        change_weather(s);
    }
    if (!disk_is_open(s->disk)) {
        begin(s);
        return;
    }
    for (uint64_t i = below(s, 4); i > 0; i--) {
        read_one(s);
    }
    submit(s);
    if (tf_test_random_chance(&s->random, s->restarts, 1000)) {
        if (below(s, 2) == 0) {
            disk_advance(s->disk, s->now);
        }
        end(s);
    }
}

static void run_faults(sim *s)
{
    while (s->groups < s->groups_max) {
        s->now = next_time(s, s->act_at);
        if (disk_is_open(s->disk)) {
            advance(s);
        }
        if (s->now >= s->act_at) {
            act(s);
        }
        disk_advance(s->disk, s->now);
    }
}

/* -- the end -------------------------------------------------------------------------------------------------------- */

static void run_until(sim *s, tf_time until)
{
    while (next_time(s, until) < until) {
        s->now = next_time(s, until);
        advance(s);
        disk_advance(s->disk, s->now);
    }
    s->now = until;
    advance(s);
}

/* Every message and key, as a reader finds them. */
static void check_all(sim *s)
{
    for (unsigned i = 0; i < MODEL_CHANNELS; i++) {
        for (uint64_t seq = 1; seq <= s->model.channels[i].head; seq++) {
            tf_time began = s->now;
            while (!try_read(s, i, seq)) {
                require(s, s->now - began > PATIENCE ? "a message does not come" : NULL);
                disk_advance(s->disk, s->now); /* what was asked for begins */
                s->now = next_time(s, s->now + TF_SECOND);
                advance(s);
            }
            require(s, model_check_key(&s->model, store_of(s), i, seq));
        }
    }
}

static void fall_silent(sim *s)
{
    tf_store_stats stats;
    tf_store store = store_of(s);
    run_until(s, s->now + 2 * PATIENCE);
    store.table->get_stats(store.ctx, &stats);
    require(s, stats.state == TF_STORE_WRITABLE ? NULL : "it does not become writable again");
    require(s, stats.unapplied == 0 ? NULL : "something stays out of the index");
    require(s, disk_deadline(s->disk) == TF_NEVER ? NULL : "it does not sleep (P9)");
    require(s, model_check_silent(&s->model, store));
}

static void run_end(sim *s)
{
    heal(s);
    s->is_busy = false;
    s->group_max = 4;
    s->cuts = 0;
    if (!disk_is_open(s->disk)) {
        begin(s);
    }
    run_until(s, s->now + PATIENCE);
    require(s, s->model.group.count > 0 ? "a group is not answered in good weather" : NULL);
    s->clean = true;
    submit(s);
    run_until(s, s->now + PATIENCE);
    check_all(s);
    fall_silent(s);
    end(s);
    begin(s);
    require(s, model_check(&s->model, store_of(s)));
    check_all(s);
    fall_silent(s);
    disk_stop(s->disk, s->now);
}

static void set_up(sim *s, uint64_t seed)
{
    *s = (sim){.seed = seed, .good = true, .clean = true};
    tf_test_random_init(&s->random, seed);
    tf_test_heap_init(&s->heap);
    model_init(&s->model, &s->random);
    s->kind = below(s, 10) == 0 ? DISK_SLOW : DISK_REAL;
    s->pause_max = (tf_time[]){100, 3 * TF_MS, 30 * TF_MS, 400 * TF_MS}[below(s, 4)];
    s->group_max = (size_t[]){1, 4, MODEL_OPS}[below(s, 3)];
    s->groups_max = s->group_max == MODEL_OPS ? GROUPS_MAX / 4 : GROUPS_MAX;
    s->is_small = below(s, 4) != 0;
    s->model.is_tight = s->is_small && s->model.body_max > TF_LOG_SEGMENT_SIZE_MIN;
    s->is_busy = below(s, 2) == 0;
    s->storms = (unsigned[]){0, 0, 50, 90}[below(s, 4)];
    s->changes = (unsigned[]){0, 10, 50}[below(s, 3)];
    s->restarts = (unsigned[]){0, 10, 40}[below(s, 3)];
    s->cuts = (unsigned[]){0, 0, 30, 70}[below(s, 4)];
    s->disk = disk_new(s->kind, "sim-disk", seed, &s->heap.mem);
}

static uint64_t run_seed(uint64_t seed, bool verbose)
{
    static sim s;
    sqlite3_int64 before = sqlite3_memory_used();
    set_up(&s, seed);
    run_faults(&s);
    run_end(&s);
    uint64_t trace = disk_trace(s.disk) ^ tf_test_random_u64(&s.random);
    disk_free(s.disk);
    require(&s, s.heap.live_blocks != 0 ? "the store keeps memory" : NULL);
    require(&s, sqlite3_memory_used() != before ? "SQLite keeps memory" : NULL);
    if (verbose) {
        (void)printf("seed %llu: %s, %u groups, %llu ops acked, %llu refused, %u starts, %llu ms\n",
                     (unsigned long long)seed, s.kind == DISK_REAL ? "on disk" : "in memory", s.groups,
                     (unsigned long long)s.model.done, (unsigned long long)s.model.refused, s.starts,
                     (unsigned long long)(s.now / TF_MS));
    }
    return trace;
}

int main(int argc, char **argv)
{
    seeds asked = {1, SEEDS_DEFAULT, false};
    if (!seeds_parse(&asked, "sim_disk", argc, argv)) {
        return 2;
    }
    (void)printf("sim_disk: seeds %llu..%llu\n", (unsigned long long)asked.first, (unsigned long long)asked.last);
    (void)fflush(stdout);
    for (uint64_t seed = asked.first; seed <= asked.last; seed++) {
        uint64_t trace = run_seed(seed, asked.verbose);
        if (run_seed(seed, false) != trace) {
            (void)fprintf(stderr, "seed %llu: two runs differ\n", (unsigned long long)seed);
            return 1;
        }
    }
    (void)printf("sim_disk: ok\n");
    return 0;
}
