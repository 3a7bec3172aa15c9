/* dedup/dedup: senders that restart, two routes that lose, repeat, delay and reorder; compared with a naive record of
 * what was accepted, with every kind of filter. Guards P4: nothing is dropped on a guess. */
#include <stdio.h>
#include <string.h>

#include "dedup/dedup.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define SENDERS 3u
#define FLOWS 64u       /* runs of a sender's instance, over the whole simulation */
#define FLOW_SEQS 6000u /* of one flow */
#define COPIES 2048u    /* on their way */
#define WIDTH 300u
#define STEPS 40000
#define SEEDS 12u
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Check notes the place of every assertion that holds with a system call: too slow for millions of them. */
#define HOLDS(condition, seed)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            ck_abort_msg("seed %u: %s", (unsigned)(seed), #condition);                                                 \
        }                                                                                                              \
    } while (0)

/* One instance of a sender, its stream at the receiver, and the naive record. Seqs are offsets from `first`. */
typedef struct flow {
    tf_dedup_stream *stream;
    uint64_t first;
    uint64_t next;
    uint64_t floor;
    bool accepted[FLOW_SEQS + 1];
} flow;

typedef struct copy {
    unsigned flow;
    uint64_t at;
} copy;

typedef struct world {
    uint64_t seed;
    tf_test_random random;
    tf_dedup *dedup;
    flow flows[FLOWS];
    unsigned flow_count;
    unsigned current[SENDERS]; /* the flow of the running instance */
    copy copies[COPIES];
    unsigned copy_count;
    uint64_t digest; /* of all verdicts */
} world;

static uint32_t tag_of(const flow *f, uint64_t at)
{
    const uint64_t body = at / 2; /* neighbours have equal bodies, and are different segments all the same */
    const tf_segment segment = {
        .seq = f->first + at, .flags = TF_SEGMENT_FIRST, .data = tf_slice_of(&body, sizeof(body))};
    return tf_dedup_stream_tag(f->stream, &segment);
}

/* A sender starts (again): a new instance, told apart by nothing else; its seqs begin anew. */
static void start_instance(world *w, unsigned sender)
{
    static const uint64_t firsts[] = {0, 65536 - 10, (UINT64_C(1) << 32) - 10, UINT64_MAX - 200};
    tf_dedup_stream_config config = {
        .dedup = w->dedup, .tag_key = 99, .session = 1, .instance = w->flow_count, .segments = WIDTH};
    config.sender.bytes[0] = (uint8_t)sender;
    config.first = firsts[tf_test_random_below(&w->random, COUNT(firsts))];
    flow *f = &w->flows[w->flow_count];
    f->first = config.first;
    HOLDS(tf_dedup_stream_new(&f->stream, &config, tf_test_mem()) == TF_OK, w->seed);
    w->current[sender] = w->flow_count++;
}

static void put_copy(world *w, unsigned flow_index, uint64_t at)
{
    if (w->copy_count < COPIES) {
        w->copies[w->copy_count++] = (copy){.flow = flow_index, .at = at};
    }
}

/* Two routes; each loses one in five. */
static void send_next(world *w, unsigned flow_index)
{
    flow *f = &w->flows[flow_index];
    if (f->next - f->floor >= WIDTH || f->next >= FLOW_SEQS) {
        return;
    }
    for (int route = 0; route < 2; route++) {
        if (!tf_test_random_chance(&w->random, 1, 5)) {
            put_copy(w, flow_index, f->next);
        }
    }
    f->next++;
}

static void arrive(world *w, const copy *c)
{
    flow *f = &w->flows[c->flow];
    uint64_t seq = f->first + c->at;
    uint32_t tag = tag_of(f, c->at);
    tf_window_verdict verdict = tf_dedup_stream_test(f->stream, seq, tag);
    HOLDS(verdict == (f->accepted[c->at] ? TF_WINDOW_REPEAT : TF_WINDOW_NEW), w->seed);
    w->digest = w->digest * 31 + (uint64_t)verdict;
    if (f->accepted[c->at] && c->at >= f->floor) {
        HOLDS(tf_dedup_stream_test(f->stream, seq, tag ^ 1u) == TF_WINDOW_CONFLICT, w->seed);
    }
    /* One in ten finds no room after the test: it was not accepted, so its next copy must still be new. */
    if (verdict == TF_WINDOW_NEW && !tf_test_random_chance(&w->random, 1, 10)) {
        HOLDS(tf_dedup_stream_accept(f->stream, seq, tag) == TF_OK, w->seed);
        f->accepted[c->at] = true;
        while (f->accepted[f->floor]) {
            f->floor++;
        }
    }
    HOLDS(tf_window_floor(tf_dedup_stream_window(f->stream)) == f->first + f->floor, w->seed);
}

/* One of the last few that were sent, or any, however late; one in ten stays on its way and comes again. */
static void deliver_one(world *w)
{
    unsigned span = tf_test_random_chance(&w->random, 4, 5) && w->copy_count > 20 ? 20 : w->copy_count;
    if (span == 0) {
        return;
    }
    unsigned index = w->copy_count - 1 - (unsigned)tf_test_random_below(&w->random, span);
    copy c = w->copies[index];
    if (!tf_test_random_chance(&w->random, 1, 10)) {
        w->copies[index] = w->copies[--w->copy_count];
    }
    arrive(w, &c);
}

static void step(world *w)
{
    unsigned sender = (unsigned)tf_test_random_below(&w->random, SENDERS);
    flow *f = &w->flows[w->current[sender]];
    switch (tf_test_random_below(&w->random, 8)) {
    case 0:
    case 1:
    case 2:
        send_next(w, w->current[sender]);
        break;
    case 3:
        if (f->floor < f->next && tf_test_random_chance(&w->random, 1, 4)) {
            put_copy(w, w->current[sender], f->floor); /* resent */
        }
        break;
    case 4:
        HOLDS(tf_dedup_stream_test(f->stream, f->first + f->floor + WIDTH, 0) == TF_WINDOW_BEYOND, w->seed);
        HOLDS(tf_dedup_stream_test(f->stream, f->first - 1, 0) == TF_WINDOW_BEYOND, w->seed);
        if (w->flow_count < FLOWS && tf_test_random_chance(&w->random, 1, 100)) {
            start_instance(w, sender);
        } else if (tf_test_random_chance(&w->random, 1, 1000)) {
            tf_dedup_stream_trim(f->stream);
        }
        break;
    default:
        deliver_one(w);
        break;
    }
}

/* Every seq that a running instance sent gets through in the end: nothing new was ever dropped. */
static void settle(world *w)
{
    for (unsigned sender = 0; sender < SENDERS; sender++) {
        flow *f = &w->flows[w->current[sender]];
        for (int tries = 0; f->floor < f->next && tries < 100000; tries++) {
            arrive(w, &(copy){.flow = w->current[sender], .at = f->floor});
        }
        HOLDS(f->floor == f->next, w->seed);
    }
}

/* Runs one seed in front of the given filter (NULL: none). Returns a digest of all verdicts. */
static uint64_t run(uint64_t seed, const tf_bloom_config *filter, tf_dedup_counts *counts)
{
    world *w = calloc(1, sizeof(*w));
    ck_assert_ptr_nonnull(w);
    w->seed = seed;
    tf_test_random_init(&w->random, seed);
    if (filter != NULL) {
        ck_assert_int_eq(tf_dedup_new(&w->dedup, filter, tf_test_mem()), TF_OK);
    }
    for (unsigned sender = 0; sender < SENDERS; sender++) {
        start_instance(w, sender);
    }
    for (int i = 0; i < STEPS; i++) {
        step(w);
    }
    settle(w);
    uint64_t digest = w->digest;
    for (unsigned i = 0; i < w->flow_count; i++) {
        tf_dedup_stream_free(w->flows[i].stream);
    }
    if (filter != NULL) {
        *counts = tf_dedup_get_counts(w->dedup);
    }
    tf_dedup_free(w->dedup);
    free(w);
    return digest;
}

START_TEST(dedup_verdicts_are_the_same_with_every_filter_p4)
{
    static const tf_bloom_config filters[] = {
        {.bytes = 64 * 4096, .key = 1},           /* roomy */
        {.bytes = 64, .fill = 1, .key = 2},       /* rotates at every insert: forgets what is still in the windows */
        {.bytes = 64 * 16, .fill = 50, .key = 3}, /* forgets soon */
        {.bytes = 64 * 4, .fill = 400, .key = 4}, /* guesses wrong often, forgets late */
    };
    tf_dedup_counts counts = {0};
    printf("dedup: seeds 1 to %u\n", SEEDS);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t alone = run(seed, NULL, &counts);
        for (size_t i = 0; i < COUNT(filters); i++) {
            HOLDS(run(seed, &filters[i], &counts) == alone, seed);
            HOLDS(counts.surely_new > 0, seed);
            HOLDS(i != 1 || counts.unsure > 1000, seed);
            HOLDS(i != 3 || counts.maybe_new > 1000, seed);
        }
    }
}
END_TEST

/* P4: with all bits of the filter set every answer is "maybe", and still nothing new is dropped. */
START_TEST(dedup_full_filter_drops_nothing_p4)
{
    const tf_bloom_config full = {.bytes = 64, .fill = UINT64_MAX, .key = 6};
    tf_dedup_counts counts = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t alone = run(seed, NULL, &counts);
        HOLDS(run(seed, &full, &counts) == alone, seed);
        HOLDS(counts.maybe_new > counts.surely_new, seed);
    }

    tf_dedup *dedup = NULL;
    tf_dedup_stream *stream = NULL;
    ck_assert_int_eq(tf_dedup_new(&dedup, &full, tf_test_mem()), TF_OK);
    const tf_dedup_stream_config config = {.dedup = dedup, .segments = 1000};
    ck_assert_int_eq(tf_dedup_stream_new(&stream, &config, tf_test_mem()), TF_OK);
    for (uint64_t seq = 0; seq < 20000; seq++) { /* the first few thousand fill all 512 bits */
        HOLDS(tf_dedup_stream_test(stream, seq, 0) == TF_WINDOW_NEW, seq);
        HOLDS(tf_dedup_stream_accept(stream, seq, 0) == TF_OK, seq);
        HOLDS(tf_dedup_stream_test(stream, seq, 0) == TF_WINDOW_REPEAT, seq);
    }
    tf_dedup_counts before = tf_dedup_get_counts(dedup);
    for (uint64_t seq = 20000; seq < 21000; seq++) {
        HOLDS(tf_dedup_stream_test(stream, seq, 0) == TF_WINDOW_NEW, seq);
    }
    ck_assert_uint_eq(tf_dedup_get_counts(dedup).maybe_new, before.maybe_new + 1000); /* so all bits were set */
    ck_assert_uint_eq(tf_dedup_get_counts(dedup).surely_new, before.surely_new);
    tf_dedup_stream_free(stream);
    tf_dedup_free(dedup);
}
END_TEST

/* P4, the other way round: what others insert rotates this stream's held seq out of the filter, which then calls it
 * surely new. It must not be believed. */
START_TEST(dedup_forgetful_filter_lets_no_repeat_through_p4)
{
    const tf_bloom_config forgetful = {.bytes = 64, .fill = 4, .key = 7};
    tf_dedup *dedup = NULL;
    tf_dedup_stream *quiet = NULL;
    tf_dedup_stream *busy = NULL;
    ck_assert_int_eq(tf_dedup_new(&dedup, &forgetful, tf_test_mem()), TF_OK);
    tf_dedup_stream_config config = {.dedup = dedup, .instance = 1, .segments = 100};
    ck_assert_int_eq(tf_dedup_stream_new(&quiet, &config, tf_test_mem()), TF_OK);
    config.instance = 2;
    ck_assert_int_eq(tf_dedup_stream_new(&busy, &config, tf_test_mem()), TF_OK);
    ck_assert_int_eq(tf_dedup_stream_accept(quiet, 50, 8), TF_OK);
    for (uint64_t seq = 0; seq < 100; seq++) {
        ck_assert_int_eq(tf_dedup_stream_test(quiet, 50, 8), TF_WINDOW_REPEAT);
        ck_assert_int_eq(tf_dedup_stream_test(quiet, 50, 9), TF_WINDOW_CONFLICT);
        ck_assert_int_eq(tf_dedup_stream_test(quiet, seq < 50 ? seq : seq + 1, 0),
                         seq < 99 ? TF_WINDOW_NEW : TF_WINDOW_BEYOND);
        ck_assert_int_eq(tf_dedup_stream_accept(busy, seq, 0), TF_OK);
    }
    ck_assert_uint_gt(tf_dedup_get_counts(dedup).unsure, 0);
    tf_dedup_stream_free(quiet);
    tf_dedup_stream_free(busy);
    tf_dedup_free(dedup);
}
END_TEST

START_TEST(dedup_tag_depends_on_flags_data_and_key_only)
{
    tf_dedup_stream *one = NULL;
    tf_dedup_stream *other = NULL;
    tf_dedup_stream_config config = {.tag_key = 1, .segments = 1};
    ck_assert_int_eq(tf_dedup_stream_new(&one, &config, tf_test_mem()), TF_OK);
    config.tag_key = UINT64_C(1) << 40;
    ck_assert_int_eq(tf_dedup_stream_new(&other, &config, tf_test_mem()), TF_OK);
    const tf_segment base = {.seq = 1, .flags = 1, .data = tf_slice_str("body")};
    tf_segment changed = base;
    uint32_t tag = tf_dedup_stream_tag(one, &base);
    changed.seq = 2;
    ck_assert_uint_eq(tf_dedup_stream_tag(one, &changed), tag);
    changed.flags = 3;
    ck_assert_uint_ne(tf_dedup_stream_tag(one, &changed), tag);
    changed = base;
    changed.data = tf_slice_str("bode");
    ck_assert_uint_ne(tf_dedup_stream_tag(one, &changed), tag);
    changed.data = tf_slice_of(NULL, 0);
    ck_assert_uint_ne(tf_dedup_stream_tag(one, &changed), tag);
    ck_assert_uint_ne(tf_dedup_stream_tag(other, &base), tag);
    changed.data = tf_slice_str("a");
    tag = tf_dedup_stream_tag(one, &changed);
    changed.data = tf_slice_str("b");
    ck_assert_uint_ne(tf_dedup_stream_tag(one, &changed), tag);
    tf_dedup_stream_free(one);
    tf_dedup_stream_free(other);
}
END_TEST

/* Makes a filter and a stream and uses them, while allocation k (and, for_ever, all later ones) fails. */
static void use_under_faults(uint64_t k, bool for_ever)
{
    tf_test_heap *heap = tf_test_heap_shared();
    const tf_bloom_config filter = {.bytes = 64 * 8, .key = 8};
    tf_dedup_stream_config config = {.segments = 128};
    tf_dedup_stream *stream = NULL;
    tf_test_heap_fail_at(heap, k, for_ever);
    tf_err err = tf_dedup_new(&config.dedup, &filter, tf_test_mem());
    if (err != TF_OK) {
        HOLDS(err == TF_ERR_NOMEM && config.dedup == NULL, k);
        return;
    }
    HOLDS(config.dedup != NULL, k);
    if (tf_dedup_stream_new(&stream, &config, tf_test_mem()) == TF_OK) {
        for (uint64_t seq = 0; seq < 500; seq++) {
            if (tf_dedup_stream_accept(stream, seq, 0) != TF_OK) {
                HOLDS(tf_dedup_stream_test(stream, seq, 0) == TF_WINDOW_NEW, k);
                tf_test_heap_fail_never(heap);
                HOLDS(tf_dedup_stream_accept(stream, seq, 0) == TF_OK, k);
            }
            HOLDS(tf_dedup_stream_test(stream, seq, 0) == TF_WINDOW_REPEAT, k);
        }
    }
    tf_dedup_stream_free(stream);
    tf_dedup_free(config.dedup);
}

START_TEST(dedup_without_memory_changes_nothing)
{
    tf_test_heap *heap = tf_test_heap_shared();
    size_t blocks = heap->live_blocks;
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        uint64_t failures = 0;
        uint64_t k = 0;
        do {
            failures = heap->failures;
            use_under_faults(k++, for_ever == 1);
            ck_assert_uint_eq(heap->live_blocks, blocks);
        } while (heap->failures != failures);
        ck_assert_uint_gt(k, 9);
        tf_test_heap_fail_never(heap);
    }
}
END_TEST

START_TEST(dedup_wrong_sizes_are_refused)
{
    size_t blocks = tf_test_heap_shared()->live_blocks;
    tf_dedup *dedup = NULL;
    tf_dedup_stream *stream = NULL;
    ck_assert_int_eq(tf_dedup_new(&dedup, &(tf_bloom_config){.bytes = 100}, tf_test_mem()), TF_ERR_USAGE);
    ck_assert_int_eq(tf_dedup_stream_new(&stream, &(tf_dedup_stream_config){.segments = 0}, tf_test_mem()),
                     TF_ERR_USAGE);
    ck_assert_ptr_null(dedup);
    ck_assert_ptr_null(stream);
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, blocks);
    tf_dedup_stream_free(NULL);
    tf_dedup_free(NULL);
}
END_TEST

static void expect_counts(const tf_dedup *dedup, uint64_t surely_new, uint64_t maybe, uint64_t maybe_new, uint64_t unsure)
{
    tf_dedup_counts counts = tf_dedup_get_counts(dedup);
    ck_assert_uint_eq(counts.surely_new, surely_new);
    ck_assert_uint_eq(counts.maybe, maybe);
    ck_assert_uint_eq(counts.maybe_new, maybe_new);
    ck_assert_uint_eq(counts.unsure, unsure);
}

/* What one sender, instance or session sent says nothing about another's. */
START_TEST(dedup_streams_share_the_filter_and_not_its_answers)
{
    tf_dedup_stream_config configs[4] = {{.segments = 128, .instance = 1, .session = 1}};
    tf_dedup_stream *streams[4] = {NULL, NULL, NULL, NULL};
    ck_assert_int_eq(tf_dedup_new(&configs[0].dedup, &(tf_bloom_config){.bytes = 64 * 8}, tf_test_mem()), TF_OK);
    for (size_t i = 1; i < 4; i++) {
        configs[i] = configs[0];
    }
    configs[1].sender.bytes[31] = 1;
    configs[2].instance = 2;
    configs[3].session = 2;
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(tf_dedup_stream_new(&streams[i], &configs[i], tf_test_mem()), TF_OK);
    }
    ck_assert_int_eq(tf_dedup_stream_accept(streams[0], 2, 0), TF_OK);
    for (size_t i = 1; i < 4; i++) {
        ck_assert_int_eq(tf_dedup_stream_test(streams[i], 2, 0), TF_WINDOW_NEW);
    }
    expect_counts(configs[0].dedup, 3, 0, 0, 0);
    for (size_t i = 0; i < 4; i++) {
        tf_dedup_stream_free(streams[i]);
    }
    tf_dedup_free(configs[0].dedup);
}
END_TEST

/* P10: who decided. The window alone decides what is outside of it, or what the filter has forgotten. */
START_TEST(dedup_counts_say_who_decided)
{
    tf_dedup_stream_config config = {.segments = 128};
    tf_dedup_stream *stream = NULL;
    ck_assert_int_eq(tf_dedup_new(&config.dedup, &(tf_bloom_config){.bytes = 64 * 8, .fill = 8}, tf_test_mem()), TF_OK);
    ck_assert_int_eq(tf_dedup_stream_new(&stream, &config, tf_test_mem()), TF_OK);
    ck_assert_int_eq(tf_dedup_stream_accept(stream, 2, 0), TF_OK);
    ck_assert_int_eq(tf_dedup_stream_test(stream, 2, 0), TF_WINDOW_REPEAT);
    expect_counts(config.dedup, 0, 1, 0, 0);
    ck_assert_int_eq(tf_dedup_stream_test(stream, 3, 0), TF_WINDOW_NEW);
    expect_counts(config.dedup, 1, 1, 0, 0);
    ck_assert_int_eq(tf_dedup_stream_test(stream, 128, 0), TF_WINDOW_BEYOND);
    expect_counts(config.dedup, 1, 1, 0, 0);
    for (uint64_t seq = 4; seq < 40; seq++) { /* rotates more than twice */
        ck_assert_int_eq(tf_dedup_stream_accept(stream, seq, 0), TF_OK);
    }
    ck_assert_int_eq(tf_dedup_stream_test(stream, 2, 0), TF_WINDOW_REPEAT);
    ck_assert_int_eq(tf_dedup_stream_test(stream, 3, 0), TF_WINDOW_NEW);
    expect_counts(config.dedup, 1, 1, 0, 2);
    tf_dedup_stream_free(stream);
    tf_dedup_free(config.dedup);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        dedup_verdicts_are_the_same_with_every_filter_p4,
        dedup_full_filter_drops_nothing_p4,
        dedup_forgetful_filter_lets_no_repeat_through_p4,
        dedup_tag_depends_on_flags_data_and_key_only,
        dedup_without_memory_changes_nothing,
        dedup_wrong_sizes_are_refused,
        dedup_counts_say_who_decided,
        dedup_streams_share_the_filter_and_not_its_answers,
        NULL,
    };
    return tf_test_run("dedup/dedup", tests);
}
