/* Random histories against a model. */
#include "tests/unit/store_suite_internal.h"

/* -- a history against a model ------------------------------------------------------------------------------------- */

#define CHANNELS 3u
#define MESSAGES 600u
#define NAMES 4u

typedef struct model_channel {
    uint64_t number;
    uint64_t epoch;
    uint64_t first;
    uint64_t head;
    int64_t keys_since;
    bool closed;
    uint64_t cursors[NAMES]; /* 0: none */
    int64_t times[MESSAGES + 1];
    uint64_t epochs[MESSAGES + 1];
    uint64_t lens[MESSAGES + 1];
} model_channel;

typedef struct model {
    tf_test_random random;
    model_channel channels[CHANNELS];
    int64_t clock;
} model;

static const char *const model_names[CHANNELS] = {"one", "two/2", "three"};
static const char *const cursor_names[NAMES] = {"a", "b", "c", "d"};
static uint8_t model_body[8192];

static uint64_t below(model *m, uint64_t bound)
{
    return tf_test_random_below(&m->random, bound);
}

/* What a body of that message begins with. */
static tf_slice body_of(const model_channel *c, uint64_t seq)
{
    return tf_slice_of(model_body + seq % 256, (size_t)c->lens[seq]);
}

static tf_store_op model_append(model *m, model_channel *c, char id[32])
{
    uint64_t seq = ++c->head;
    m->clock += (int64_t)below(m, 3);
    c->times[seq] = m->clock;
    c->epochs[seq] = c->epoch;
    c->lens[seq] = below(m, 10) == 0 ? below(m, 7000) : below(m, 60);
    tf_store_op op = suite_append_op(c->number, seq, (uint8_t)(seq % 3), suite_id_of(seq, id), body_of(c, seq));
    op.message.timestamp_ms = c->times[seq];
    op.message.epoch = c->epoch;
    op.message.expires_ms = (int64_t)(seq % 5);
    op.message.instance = seq;
    op.message.meta = tf_slice_of(model_body, seq % 7);
    return op;
}

static tf_store_op model_op(model *m, model_channel *c, uint64_t committed, char id[32])
{
    uint64_t dice = below(m, 100);
    uint64_t name = below(m, NAMES);
    if (dice < 80 && c->head < MESSAGES) {
        return model_append(m, c, id);
    }
    if (dice < 85) {
        uint64_t seq = 1 + below(m, committed + 1);
        c->first = seq > c->first ? seq : c->first;
        return (tf_store_op){.kind = TF_STORE_TRIM, .channel = c->number, .seq = seq};
    }
    if (dice < 89) {
        int64_t time = (int64_t)below(m, (uint64_t)m->clock + 1);
        c->keys_since = time > c->keys_since ? time : c->keys_since;
        return (tf_store_op){.kind = TF_STORE_FORGET, .channel = c->number, .time_ms = time};
    }
    if (dice < 98) {
        c->cursors[name] = below(m, 8) == 0 ? 0 : 1 + below(m, committed + 1);
        return suite_cursor_op(c->number, 1, cursor_names[name], c->cursors[name]);
    }
    if (dice < 99) {
        c->epoch = tf_test_random_u64(&m->random);
        return (tf_store_op){.kind = TF_STORE_EPOCH, .channel = c->number, .epoch = c->epoch};
    }
    c->closed = true;
    return (tf_store_op){.kind = TF_STORE_CLOSE, .channel = c->number};
}

static void check_message(const model_channel *c, uint64_t seq)
{
    char id[32];
    tf_stored stored;
    tf_store_key key;
    tf_store_presence presence = suite_read_at(c->number, seq, &stored);
    if (seq < c->first) {
        ck_assert(presence == TF_STORE_GONE && stored.seq == c->first);
    } else {
        ck_assert(presence == TF_STORE_HERE && stored.seq == seq && stored.timestamp_ms == c->times[seq]);
        ck_assert(stored.epoch == c->epochs[seq] && stored.instance == seq && stored.expires_ms == (int64_t)(seq % 5));
        ck_assert(tf_slice_eq(stored.body, body_of(c, seq)) && stored.meta.len == seq % 7);
        ck_assert(tf_slice_eq(stored.client_id, suite_id_of(seq, id)));
    }
    tf_err err = suite_find_key(c->number, (uint8_t)(seq % 3), suite_id_of(seq, id), &key);
    ck_assert_int_eq(err, c->times[seq] < c->keys_since ? TF_ERR_CLOSED : TF_OK);
    ck_assert(err != TF_OK || (key.seq == seq && key.timestamp_ms == c->times[seq] &&
                               key.epoch == c->epochs[seq] && key.digest == tf_store_digest(body_of(c, seq))));
}

static void check_model(const model *m)
{
    uint64_t kept = 0;
    for (size_t i = 0; i < CHANNELS; i++) {
        const model_channel *c = &m->channels[i];
        tf_store_channel found = suite_find_channel(model_names[i]);
        ck_assert(found.number == c->number && found.epoch == c->epoch && found.first == c->first);
        ck_assert(found.head == c->head && found.closed == c->closed && found.keys_since_ms == c->keys_since);
        ck_assert_int_eq(found.timestamp_ms, c->head == 0 ? 0 : c->times[c->head]);
        for (uint64_t seq = 1; seq <= c->head; seq++) {
            check_message(c, seq);
        }
        size_t cursors = 0;
        for (size_t k = 0; k < NAMES; k++) {
            ck_assert_uint_eq(suite_cursor_at(c->number, 1, cursor_names[k]), c->cursors[k]);
            cursors += c->cursors[k] != 0 ? 1u : 0u;
        }
        ck_assert_uint_eq(suite_count_cursors(c->number), cursors);
        kept += c->head + 1 - c->first;
    }
    tf_store_stats stats;
    suite_it.table->get_stats(suite_it.ctx, &stats);
    ck_assert(stats.channels == CHANNELS && stats.messages >= kept && stats.messages <= kept + CHANNELS * suite_impl->block);
}

START_TEST(store_random_history_is_what_the_model_says)
{
    static model m;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        tf_store_op ops[24];
        char ids[24][32];
        memset(&m, 0, sizeof(m));
        tf_test_random_init(&m.random, seed);
        m.clock = 1000;
        for (size_t i = 0; i < sizeof(model_body); i++) {
            model_body[i] = (uint8_t)(i * 7 + i / 256);
        }
        suite_begin();
        for (size_t i = 0; i < CHANNELS; i++) {
            m.channels[i] = (model_channel){.number = suite_make_channel(model_names[i]), .epoch = SUITE_EPOCH, .first = 1};
        }
        for (unsigned step = 0; step < 120; step++) {
            uint64_t committed[CHANNELS];
            size_t count = 1 + below(&m, 24);
            for (size_t i = 0; i < CHANNELS; i++) {
                committed[i] = m.channels[i].head;
            }
            for (size_t i = 0; i < count; i++) {
                uint64_t which = below(&m, CHANNELS);
                ops[i] = model_op(&m, &m.channels[which], committed[which], ids[i]);
            }
            suite_submit_all(ops, count);
            if (below(&m, 12) == 0) {
                suite_again();
                check_model(&m);
            }
        }
        check_model(&m);
        suite_end();
    }
}
END_TEST

const TTest *const *suite_tests_model(void)
{
    static const TTest *tests[2];
    const TTest *const filled[] = {
        store_random_history_is_what_the_model_says,
    };
    for (size_t i = 0; i < sizeof(filled) / sizeof(filled[0]); i++) {
        tests[i] = filled[i];
    }
    return tests;
}
