/* node/hub: random histories of refusals of every retryable kind (S7), against clients that push what they like, as long as
 * they send in their order and send a refused one again before what is behind it, or give it up. Never is anything stored
 * out of a client's order, twice, or after it was given up; and when the refusals end everybody gets through. */
#include "tests/support/check_main.h"
#include "tests/unit/hub_world.h"

#define HISTORIES 1500u
#define CLIENTS 2u
#define SENDS 40u
#define ROUNDS 16u
#define HEALED_ROUNDS 150u

typedef enum state { WAITING, ASKED, ACKED, GIVEN_UP } state;

typedef struct client {
    raw_peer *raw;
    state states[SENDS];
    tf_local promises[SENDS];
    size_t looked; /* answers */
} client;

typedef struct history {
    tf_test_random random;
    world w;
    world_node *node;
    client clients[CLIENTS];
    bool gives_up;
    unsigned seen[TF_REFUSAL_COUNT];
} history;

static uint64_t below(history *h, uint64_t bound)
{
    return tf_test_random_below(&h->random, bound);
}

static size_t body_of(size_t which, size_t number, char out[16])
{
    int len = snprintf(out, 16, "%zu-%zu", which, number);
    return len > 0 ? (size_t)len : 0;
}

/* -- what a client does -------------------------------------------------------------------------------------------- */

static void take_answer(history *h, client *c, size_t number)
{
    tf_result_refusal refusal;
    const raw_answer *answer = raw_find(c->raw, c->promises[number]);
    if (answer == NULL) {
        return;
    }
    if (!answer->rejected) {
        c->states[number] = ACKED;
        return;
    }
    ck_assert_int_eq(tf_result_refusal_read(raw_data(answer), &refusal), TF_OK);
    ck_assert(refusal.retryable && refusal.retry_after_ms > 0);
    h->seen[tf_refusal_find(refusal.code)]++;
    c->states[number] = h->gives_up && below(h, 6) == 0 ? GIVEN_UP : WAITING;
}

/* Takes some of what has come. */
static void listen(history *h, client *c, size_t most)
{
    (void)raw_take(c->raw, most);
    if (c->looked == c->raw->count) {
        return;
    }
    c->looked = c->raw->count;
    for (size_t i = 0; i < SENDS; i++) {
        if (c->states[i] == ASKED) {
            take_answer(h, c, i);
        }
    }
}

/* Sends up to `most` of what is not on its way, the oldest first. */
static void push(client *c, size_t which, size_t most)
{
    for (size_t i = 0; i < SENDS && most > 0; i++) {
        char body[16];
        if (c->states[i] != WAITING) {
            continue;
        }
        body[body_of(which, i, body)] = 0;
        c->promises[i] = raw_send(c->raw, body, body);
        c->states[i] = ASKED;
        most--;
    }
}

static bool is_done(const client *c)
{
    size_t left = 0;
    for (size_t i = 0; i < SENDS; i++) {
        left += c->states[i] == WAITING || c->states[i] == ASKED ? 1u : 0u;
    }
    return left == 0;
}

/* -- what happens to them ------------------------------------------------------------------------------------------- */

static void trouble(history *h)
{
    static const tf_refusal kinds[] = {TF_REFUSAL_NONE, TF_REFUSAL_NONE, TF_REFUSAL_STORE_FULL,
                                       TF_REFUSAL_UNAVAILABLE, TF_REFUSAL_INTERNAL, TF_REFUSAL_OVERLOADED};
    stub_store *stub = &h->node->stub;
    if (below(h, 3) == 0) {
        stub->refuse = kinds[below(h, 6)];
        stub->pass_first = below(h, 4);
    }
    stub->find_fails = below(h, 8) == 0;
    stub->hold = below(h, 2) == 0;
    if (below(h, 3) != 0) {
        (void)stub_release(stub);
    }
}

static void pass_some(history *h)
{
    for (uint64_t i = below(h, 4); i > 0; i--) {
        (void)world_step(&h->w);
    }
    h->w.now += below(h, 30 * TF_MS);
    world_tick(&h->w);
}

static void begin(history *h, uint64_t seed)
{
    memset(h, 0, sizeof(*h));
    tf_test_random_init(&h->random, seed);
    h->gives_up = below(h, 2) == 0;
    world_init(&h->w, seed);
    tf_hub_config config = {.max_in_flight = 1u + (uint32_t)below(h, 8)};
    if (below(h, 2) == 0) {
        config.rate = 8 + (uint32_t)below(h, 24);
    }
    if (below(h, 2) == 0) {
        config.commit_bytes_per_peer = 5u + (uint32_t)below(h, 20);
    }
    h->node = world_add(&h->w, true, &config);
    for (size_t i = 0; i < CLIENTS; i++) {
        h->clients[i].raw = raw_new(&h->w, h->node, 11 + i);
        raw_open(h->clients[i].raw, "room");
        h->clients[i].looked = h->clients[i].raw->count;
    }
}

static void heal(history *h)
{
    stub_store *stub = &h->node->stub;
    stub->refuse = TF_REFUSAL_NONE;
    stub->find_fails = false;
    stub->hold = false;
    (void)stub_release(stub);
    for (unsigned round = 0; round < HEALED_ROUNDS; round++) {
        bool done = true;
        for (size_t i = 0; i < CLIENTS; i++) {
            push(&h->clients[i], i, round == 0 ? SENDS : 8);
            world_settle(&h->w);
            listen(h, &h->clients[i], SIZE_MAX);
            done = done && is_done(&h->clients[i]);
        }
        if (done) {
            return;
        }
        h->w.now += 100 * TF_MS;
        world_tick(&h->w);
    }
    ck_abort_msg("somebody starves");
}

/* Each acked one is there, once, in its client's order, and nothing else. */
static void check(history *h, uint64_t seed)
{
    size_t at[CLIENTS] = {0};
    uint64_t head = store_head(h->node, "room");
    for (uint64_t seq = 1; seq <= head; seq++) {
        char body[16];
        tf_stored stored = store_read(h->node, "room", seq);
        size_t which = (size_t)(stored.body.data[0] - '0');
        client *c = &h->clients[which];
        while (at[which] < SENDS && c->states[at[which]] != ACKED) {
            at[which]++;
        }
        ck_assert_msg(at[which] < SENDS, "seed %llu: more is stored than was acked", (unsigned long long)seed);
        size_t len = body_of(which, at[which], body);
        ck_assert_msg(tf_slice_eq(stored.body, tf_slice_of(body, len)), "seed %llu: out of order, or given up",
                      (unsigned long long)seed);
        at[which]++;
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        for (; at[i] < SENDS; at[i]++) {
            ck_assert_msg(h->clients[i].states[at[i]] != ACKED, "seed %llu: acked and not stored",
                          (unsigned long long)seed);
        }
        ck_assert_uint_eq(h->node->failures, 0);
    }
}

static void end(history *h)
{
    world_free(&h->w);
    for (size_t i = 0; i < CLIENTS; i++) {
        free(h->clients[i].raw);
    }
}

static void run(history *h, uint64_t seed)
{
    begin(h, seed);
    for (unsigned round = 0; round < ROUNDS; round++) {
        trouble(h);
        for (size_t i = 0; i < CLIENTS; i++) {
            if (below(h, 3) != 0) {
                push(&h->clients[i], i, (size_t)below(h, SENDS));
            }
            pass_some(h);
            listen(h, &h->clients[i], (size_t)below(h, 8));
        }
    }
    heal(h);
    check(h, seed);
    end(h);
}

START_TEST(histories_of_refusals_keep_the_order_and_starve_nobody)
{
    static history h;
    static unsigned seen[TF_REFUSAL_COUNT];
    for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
        run(&h, seed);
        for (size_t i = 0; i < TF_REFUSAL_COUNT; i++) {
            seen[i] += h.seen[i];
        }
    }
    static const tf_refusal all[] = {TF_REFUSAL_RATE_LIMITED, TF_REFUSAL_TOO_MANY_IN_FLIGHT, TF_REFUSAL_OVERLOADED,
                                     TF_REFUSAL_STORE_FULL,   TF_REFUSAL_UNAVAILABLE,        TF_REFUSAL_INTERNAL};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        ck_assert_msg(seen[all[i]] > HISTORIES / 2, "%s: %u times only", tf_refusal_name(all[i]), seen[all[i]]);
    }
}
END_TEST

/* The last kind there is: nothing is accepted after it, so nobody gets through; the order holds all the same. */
START_TEST(histories_that_end_in_a_drain_keep_the_order)
{
    static history h;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        begin(&h, seed);
        for (unsigned round = 0; round < 8; round++) {
            trouble(&h);
            for (size_t i = 0; i < CLIENTS; i++) {
                push(&h.clients[i], i, (size_t)below(&h, SENDS));
                pass_some(&h);
                listen(&h, &h.clients[i], (size_t)below(&h, 8));
            }
        }
        tf_hub_drain(h.node->hub);
        h.node->stub.hold = false;
        h.node->stub.find_fails = false;
        (void)stub_release(&h.node->stub);
        for (unsigned round = 0; round < 3; round++) {
            for (size_t i = 0; i < CLIENTS; i++) {
                push(&h.clients[i], i, SENDS);
                world_settle(&h.w);
                listen(&h, &h.clients[i], SIZE_MAX);
            }
        }
        ck_assert(tf_hub_is_drained(h.node->hub));
        check(&h, seed);
        end(&h);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        histories_of_refusals_keep_the_order_and_starve_nobody,
        histories_that_end_in_a_drain_keep_the_order,
        NULL,
    };
    return tf_test_run_waiting("node/hub histories", tests);
}
