/* node/hub, what is asked of a channel: requests that are none, without memory, and lists that do not fit one answer. */
#include "proto/mp.h"
#include "tests/support/check_main.h"
#include "tests/unit/raw_calls.h"

#define RANGES 100u /* that are damaged: 10 n + 1 and 10 n + 2 */
#define PAGE 64u    /* holes of one answer */

typedef struct setup {
    world w;
    world_node *node;
    raw_peer *raw;
    tf_store_table table; /* with this damage */
} setup;

/* In no order, and among those of another channel. */
static bool many_damages(void *ctx, size_t *position, tf_store_damage *out)
{
    (void)ctx;
    size_t at = *position;
    uint64_t n = at / 2 * 37 % RANGES;
    *out = (tf_store_damage){.channel = at % 2 == 0 ? 1 : 2, .first = 10 * n + 1, .last = 10 * n + 2};
    *position = at + 1;
    return at < (size_t)RANGES * 2;
}

/* Nothing but holes, each of one message. */
static tf_store_presence read_hole(void *ctx, uint64_t channel, uint64_t seq, tf_stored *out)
{
    (void)ctx;
    (void)channel;
    out->seq = seq + 1;
    return seq % 2 == 1 ? TF_STORE_DAMAGED : TF_STORE_GONE;
}

static void begin(setup *s)
{
    world_init(&s->w, 1);
    s->node = world_add(&s->w, true, NULL);
    s->raw = raw_new(&s->w, s->node, 11);
    raw_open(s->raw, "room");
    s->table = *s->node->hub->store.table;
    s->table.damage_next = many_damages;
    s->node->hub->store.table = &s->table;
}

static void end(setup *s)
{
    world_free(&s->w);
    free(s->raw);
}

/* The head of a list: `next` (0: none), and how many items; what the test keeps of them is the beginning. */
static uint64_t read_head(const raw_answer *answer, tf_items *items)
{
    tf_reader r;
    uint64_t next = 0;
    tf_rd_init(&r, raw_data(answer));
    size_t pairs = tf_mp_rd_map(&r, 4);
    if (pairs == 2) {
        (void)tf_mp_rd_str(&r, 16);
        next = tf_mp_rd_uint(&r);
    }
    (void)tf_mp_rd_str(&r, 16);
    items->left = tf_mp_rd_array(&r, 1000);
    ck_assert(tf_rd_ok(&r));
    items->r = r;
    return next;
}

static uint64_t ask_gaps(setup *s, uint64_t from, tf_items *items)
{
    raw_args args;
    tf_args_gaps_write(raw_begin(&args), &(tf_args_gaps){from});
    tf_local promise = raw_ask(s->raw, s->raw->channel, "gaps", &args);
    ck_assert_str_eq(raw_outcome(s->raw, promise), "acked");
    return read_head(raw_find(s->raw, promise), items);
}

/* The first items of a page: damaged ranges from number n on. */
static void expect_ranges(tf_items *items, uint64_t n)
{
    for (uint64_t i = n; i < n + 8 && items->left > 0; i++) {
        tf_slice item;
        tf_hole hole;
        ck_assert(tf_items_next(items, &item));
        ck_assert_int_eq(tf_hole_read(item, &hole), TF_OK);
        ck_assert_uint_eq(hole.first, 10 * i + 1);
        ck_assert_uint_eq(hole.last, 10 * i + 2);
        ck_assert(tf_slice_eq(hole.reason, tf_slice_str("damaged")));
    }
}

START_TEST(asks_gaps_come_in_order_and_in_pages)
{
    static const struct {
        uint64_t from;
        size_t first; /* range */
        size_t count;
        uint64_t next;
    } rows[] = {
        {1, 0, PAGE, 10 * PAGE + 1},     {2, 0, PAGE, 10 * PAGE + 1},       {3, 1, PAGE, 10 * (PAGE + 1) + 1},
        {10 * PAGE + 1, PAGE, 36, 0},    {10 * 35 + 1, 35, PAGE, 10 * 99 + 1}, {10 * 36 + 1, 36, PAGE, 0},
        {10 * 99 + 2, 99, 1, 0},         {10 * 99 + 3, 100, 0, 0},
    };
    static setup s;
    begin(&s);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_items items;
        uint64_t next = ask_gaps(&s, rows[i].from, &items);
        ck_assert_msg(next == rows[i].next && items.left == rows[i].count, "row %zu: %llu, %zu", i,
                      (unsigned long long)next, items.left);
        expect_ranges(&items, rows[i].first);
    }
    end(&s);
}
END_TEST

/* More holes than one answer of `read` tells: it ends there, and the next goes on. */
START_TEST(asks_read_ends_where_it_has_no_room_for_holes)
{
    static setup s;
    begin(&s);
    raw_send_range(s.raw, 1, 40);
    s.table.read = read_hole;
    uint64_t holes = 0;
    size_t answers = 0;
    for (uint64_t from = 1; from <= 40; answers++) {
        raw_args args;
        tf_result_read result;
        tf_args_read_write(raw_begin(&args), &(tf_args_read){from, 40});
        tf_local promise = raw_ask(s.raw, s.raw->channel, "read", &args);
        ck_assert_str_eq(raw_outcome(s.raw, promise), "acked");
        ck_assert_int_eq(tf_result_read_read(raw_data(raw_find(s.raw, promise)), &result), TF_OK);
        ck_assert_uint_eq(result.items.left, 0);
        tf_slice item;
        for (tf_hole hole; tf_items_next(&result.gaps, &item); from++, holes++) {
            ck_assert_int_eq(tf_hole_read(item, &hole), TF_OK);
            ck_assert_uint_eq(hole.first, from);
            ck_assert_uint_eq(hole.last, from);
            ck_assert(tf_slice_eq(hole.reason, tf_slice_str(from % 2 == 1 ? "damaged" : "trimmed")));
        }
        ck_assert_uint_eq(result.next, from);
    }
    ck_assert_uint_eq(holes, 40);
    ck_assert_uint_eq(answers, 5);
    end(&s);
}
END_TEST

/* The number that the store gave to a channel. */
static uint64_t number_of(setup *s, const char *name)
{
    tf_store_channel found;
    ck_assert_int_eq(s->node->stub.inner.table->channel_find(s->node->stub.inner.ctx, tf_slice_str(name), &found), TF_OK);
    return found.number;
}

/* Sends on their way to the disk are found by a hash of client id, origin and channel. Here a relay has found origins with
 * which it is the same, for 8 channels: each is acked as what it is all the same, and so is each resend. */
START_TEST(asks_for_sends_that_share_a_hash_are_told_apart)
{
    static setup s;
    tf_local channels[8];
    tf_who who[8];
    tf_local promises[16];
    world_init(&s.w, 1);
    s.w.relay = true;
    s.node = world_add(&s.w, true, NULL);
    s.raw = raw_new(&s.w, s.node, 11);
    for (unsigned i = 0; i < 8; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "room-%u", i);
        raw_open(s.raw, name);
        channels[i] = s.raw->channel;
        uint64_t start = 0x1234567890abcdef ^ number_of(&s, name);
        who[i] = (tf_who){.node = world_id(50), .instance = 1};
        memcpy(who[i].node.bytes, &start, sizeof(start));
    }
    s.node->stub.hold = true;
    (void)raw_send_origin(s.raw, "first", tf_slice_str("x"), &who[0]);
    raw_settle(s.raw);
    for (unsigned i = 0; i < 16; i++) { /* each, and each once more */
        s.raw->channel = channels[i % 8];
        promises[i] = raw_send_origin(s.raw, "a", tf_slice_str("x"), &who[i % 8]);
        raw_settle(s.raw);
        ck_assert_str_eq(raw_outcome(s.raw, promises[i]), "waiting");
    }
    stub_let_go(&s.node->stub);
    raw_settle(s.raw);
    for (unsigned i = 0; i < 16; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "room-%u", i % 8);
        ck_assert_uint_eq(raw_ack(s.raw, promises[i]).seq, i % 8 == 7 ? 2 : 1);
        ck_assert_uint_eq(store_head(s.node, name), i % 8 == 7 ? 2 : 1);
    }
    ck_assert_uint_eq(s.node->hub->pending.count, 0);
    world_free(&s.w);
    free(s.raw);
}
END_TEST

/* Arguments that are none, or something mentioned where nothing may be. */
START_TEST(asks_that_are_none_are_bad_requests)
{
    static const struct {
        const char *method;
        bool of_channel;
    } rows[] = {{"info", true}, {"gaps", true}, {"trim", true}, {"read", true}, {"forget_cursor", true},
                {"channels", false}, {"refs", false}, {"lookup", false}, {"publish", false}, {"open", false}};
    static setup s;
    static const uint8_t junk[] = {0xc1};
    begin(&s);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_local target = rows[i].of_channel ? s.raw->channel : raw_root(s.raw);
        tf_local promise = raw_call(s.raw, target, rows[i].method, tf_slice_of(junk, sizeof(junk)), TF_LOCAL_NONE);
        raw_settle(s.raw);
        ck_assert_msg(strcmp(raw_outcome(s.raw, promise), "bad_request") == 0, "%s: %s", rows[i].method,
                      raw_outcome(s.raw, promise));
    }
    for (size_t i = 0; i < 3; i++) { /* what they ask is fine */
        raw_args args;
        tf_args_none_write(raw_begin(&args));
        if (i == 1) {
            tf_args_gaps_write(raw_begin(&args), &(tf_args_gaps){1});
        } else if (i == 2) {
            tf_args_trim_write(raw_begin(&args), &(tf_args_trim){9});
        }
        tf_local promise = raw_call(s.raw, s.raw->channel, rows[i].method, raw_bytes(&args),
                                    tf_router_new_object(s.raw->end->router));
        raw_settle(s.raw);
        ck_assert_str_eq(raw_outcome(s.raw, promise), "bad_request");
    }
    ck_assert_uint_eq(s.node->failures, 0);
    end(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        asks_gaps_come_in_order_and_in_pages,
        asks_read_ends_where_it_has_no_room_for_holes,
        asks_for_sends_that_share_a_hash_are_told_apart,
        asks_that_are_none_are_bad_requests,
        NULL,
    };
    return tf_test_run("node/hub asks", tests);
}
