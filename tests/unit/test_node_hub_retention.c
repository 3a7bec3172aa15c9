/* node/hub_retention: what is kept how long (S12). */
#include "tests/support/check_main.h"
#include "tests/unit/raw_room.h"

static tf_store_channel stored(setup *s)
{
    tf_store_channel found;
    ck_assert_int_eq(s->node->stub.inner.table->channel_find(s->node->stub.inner.ctx, tf_slice_str("room"), &found),
                     TF_OK);
    return found;
}

/* Time goes on in one step. */
static void jump(setup *s, uint64_t ms)
{
    s->w.now += ms * TF_MS;
    s->w.wall_ms += (int64_t)ms;
    world_tick(&s->w);
    raw_settle(s->raw);
}

START_TEST(retention_by_count_and_bytes_holds_with_slack_and_is_exact_at_the_tick)
{
    static setup s;
    const tf_retention rows[] = {{.pattern = tf_slice_str("*"), .max_count = 100},
                                 {.pattern = tf_slice_str("*"), .max_bytes = 100 * 1003}};
    static char body[1000];
    memset(body, 'x', sizeof(body));
    for (size_t k = 0; k < 2; k++) {
        begin_with(&s, &(tf_hub_config){.retention = &rows[k], .retention_count = 1});
        uint64_t least = UINT64_MAX;
        for (unsigned i = 0; i < 500; i++) {
            char id[8];
            (void)snprintf(id, sizeof(id), "%03u", i);
            tf_local promise = raw_send_origin(s.raw, id, tf_slice_of(body, sizeof(body)), NULL);
            raw_settle(s.raw);
            ck_assert_str_eq(raw_outcome(s.raw, promise), "acked");
            uint64_t kept = stored(&s).head + 1 - stored(&s).first;
            ck_assert_uint_le(kept, 100 + 12 + 66);
            least = i >= 200 && kept < least ? kept : least;
        }
        ck_assert_uint_eq(least, 100);
        ck_assert_uint_gt(stored(&s).first, 300);
        ck_assert(tf_hub_deadline(s.node->hub) <= s.w.now + 10 * TF_SECOND);
        jump(&s, 10000);
        ck_assert_uint_eq(stored(&s).head + 1 - stored(&s).first, 100);
        jump(&s, 10000);
        jump(&s, 10000);
        ck_assert(tf_hub_deadline(s.node->hub) == TF_NEVER); /* P9: nothing falls due any more */
        end(&s);
    }
}
END_TEST

/* Of a channel that is new and of one that was there: with so much slack, and not before. */
START_TEST(retention_by_count_begins_where_the_slack_ends)
{
    static setup s;
    const tf_retention keeps = {.pattern = tf_slice_str("*"), .max_count = 100};
    begin_with(&s, &(tf_hub_config){.retention = &keeps, .retention_count = 1});
    raw_send_range(s.raw, 1, 100 + 100 / 8 + 64);
    ck_assert_uint_eq(stored(&s).first, 1);
    raw_send_range(s.raw, 177, 177);
    ck_assert_uint_eq(stored(&s).first, 78);
    world_disconnect(&s.w, raw_pair(s.raw)); /* nobody has it open any more */
    free(s.raw);
    s.raw = in_room(&s, 12);
    raw_send_range(s.raw, 178, 253);
    ck_assert_uint_eq(stored(&s).first, 78);
    raw_send_range(s.raw, 254, 254);
    ck_assert_uint_eq(stored(&s).first, 155);
    end(&s);
}
END_TEST

/* What is stored while one is on its way brings no other. */
START_TEST(retention_by_count_trims_once_at_a_time)
{
    static setup s;
    const tf_retention keeps = {.pattern = tf_slice_str("*"), .max_count = 100};
    begin_with(&s, &(tf_hub_config){.retention = &keeps, .retention_count = 1});
    raw_send_range(s.raw, 1, 176);
    size_t groups = s.node->stub.groups;
    s.node->stub.hold = true;
    tf_local first = raw_send_numbered(s.raw, 177);
    raw_settle(s.raw);
    tf_local second = raw_send_numbered(s.raw, 178);
    raw_settle(s.raw);
    stub_let_go(&s.node->stub);
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, first), "acked");
    ck_assert_str_eq(raw_outcome(s.raw, second), "acked");
    ck_assert_uint_eq(s.node->stub.groups, groups + 2); /* the first; the second and the trim */
    ck_assert_uint_eq(stored(&s).first, 78);
    end(&s);
}
END_TEST

START_TEST(retention_by_bytes_asks_the_store_only_after_growth)
{
    static setup s;
    const tf_retention keeps = {.pattern = tf_slice_str("*"), .max_bytes = UINT64_C(1) << 30};
    begin_with(&s, &(tf_hub_config){.retention = &keeps, .retention_count = 1});
    size_t finds = s.node->stub.finds;
    raw_send_range(s.raw, 1, 50);
    ck_assert_uint_eq(s.node->stub.finds, finds);
    end(&s);
}
END_TEST

START_TEST(retention_by_age_reaches_channels_that_are_not_in_memory)
{
    setup s;
    const tf_retention keeps = {.pattern = tf_slice_str("ro*"), .max_age_ms = 60000};
    tf_hub_stats stats;
    begin_with(&s, &(tf_hub_config){.retention = &keeps, .retention_count = 1});
    raw_send_range(s.raw, 1, 5);
    jump(&s, 30000);
    raw_send_range(s.raw, 6, 8);
    world_disconnect(&s.w, raw_pair(s.raw));
    world_settle(&s.w);
    tf_hub_get_stats(s.node->hub, &stats);
    ck_assert_uint_eq(stats.channels, 0);
    for (unsigned i = 0; i < 6; i++) {
        s.w.now += 7 * TF_SECOND;
        s.w.wall_ms += 7000;
        world_settle(&s.w);
    }
    ck_assert_uint_eq(stored(&s).first, 6); /* 72 s and 42 s old */
    for (unsigned i = 0; i < 6; i++) {
        s.w.now += 7 * TF_SECOND;
        s.w.wall_ms += 7000;
        world_settle(&s.w);
    }
    ck_assert_uint_eq(stored(&s).first, 9);
    tf_hub_get_stats(s.node->hub, &stats);
    ck_assert_uint_eq(stats.channels, 0);
    s.w.now += 20 * TF_SECOND;
    world_settle(&s.w);
    ck_assert(tf_hub_deadline(s.node->hub) == TF_NEVER);
    end(&s);
}
END_TEST

/* A store that says under which names it has its channels until it is asked something else. */
static uint8_t passing[TF_CHANNEL_NAME_MAX];

static bool next_in_passing(void *ctx, uint64_t *position, tf_store_channel *out)
{
    bool any = stub_channel_next(ctx, position, out);
    if (any) {
        memcpy(passing, out->name.data, out->name.len);
        out->name.data = passing;
    }
    return any;
}

static uint64_t find_time_anew(void *ctx, uint64_t channel, int64_t timestamp_ms)
{
    memset(passing, 'x', sizeof(passing));
    return stub_find_time(ctx, channel, timestamp_ms);
}

START_TEST(retention_of_a_channel_in_memory_brings_no_other)
{
    setup s;
    const tf_retention keeps = {.pattern = tf_slice_str("room"), .max_age_ms = 5000};
    tf_hub_stats stats;
    begin_with(&s, &(tf_hub_config){.retention = &keeps, .retention_count = 1});
    tf_store_table table = *s.node->hub->store.table;
    table.channel_next = next_in_passing;
    table.find_time = find_time_anew;
    s.node->hub->store.table = &table;
    raw_send_range(s.raw, 1, 3);
    s.node->stub.hold = true;
    jump(&s, 10000);
    tf_hub_get_stats(s.node->hub, &stats);
    ck_assert(stats.committing == 1 && stats.channels == 1);
    stub_let_go(&s.node->stub);
    raw_settle(s.raw);
    ck_assert_uint_eq(stored(&s).first, 4);
    end(&s);
}
END_TEST

START_TEST(retention_forgets_keys_apart_from_messages)
{
    setup s;
    const tf_retention keeps = {.pattern = tf_slice_str("room"), .dedup_age_ms = 100000};
    begin_with(&s, &(tf_hub_config){.retention = &keeps, .retention_count = 1});
    raw_send_range(s.raw, 1, 3);
    jump(&s, 50000);
    raw_send_range(s.raw, 4, 4);
    tf_local old = raw_send(s.raw, "c-1", "c-1");
    raw_settle(s.raw);
    ck_assert(raw_ack(s.raw, old).duplicate);
    size_t groups = s.node->stub.groups;
    for (unsigned i = 0; i < 14; i++) {
        jump(&s, 5000); /* c-1 is 120 s old, c-4 is 70 s old */
    }
    ck_assert_uint_le(s.node->stub.groups - groups, 8); /* at most one in 10 s */
    ck_assert_int_gt(stored(&s).keys_since_ms, 0);
    tf_local anew = raw_send(s.raw, "c-1", "another");
    tf_local kept = raw_send(s.raw, "c-4", "c-4");
    raw_settle(s.raw);
    ck_assert(!raw_ack(s.raw, anew).duplicate && raw_ack(s.raw, anew).seq == 5);
    ck_assert(raw_ack(s.raw, kept).duplicate);
    ck_assert_uint_eq(stored(&s).first, 1);
    for (unsigned i = 0; i < 60; i++) {
        jump(&s, 10000);
    }
    ck_assert(tf_hub_deadline(s.node->hub) == TF_NEVER);
    end(&s);
}
END_TEST

START_TEST(retention_forgets_keys_of_a_channel_once_at_a_time)
{
    setup s;
    const tf_retention keeps = {.pattern = tf_slice_str("room"), .dedup_age_ms = 100000};
    tf_hub_stats stats;
    begin_with(&s, &(tf_hub_config){.retention = &keeps, .retention_count = 1});
    raw_send_range(s.raw, 1, 3);
    s.node->stub.hold = true;
    for (unsigned i = 0; i < 5; i++) {
        jump(&s, 150000);
        tf_hub_get_stats(s.node->hub, &stats);
        ck_assert_uint_eq(stats.committing, 1);
    }
    stub_let_go(&s.node->stub);
    raw_settle(s.raw);
    ck_assert_int_gt(stored(&s).keys_since_ms, 0);
    end(&s);
}
END_TEST

/* S2: without an age they live as long as the channel, also those of messages that are gone. */
START_TEST(retention_of_messages_alone_forgets_no_keys)
{
    setup s;
    const tf_retention keeps = {.pattern = tf_slice_str("room"), .max_count = 2};
    begin_with(&s, &(tf_hub_config){.retention = &keeps, .retention_count = 1});
    raw_send_range(s.raw, 1, 5);
    for (unsigned i = 0; i < 4; i++) {
        jump(&s, 10000);
    }
    ck_assert_uint_eq(stored(&s).first, 4);
    ck_assert_int_eq(stored(&s).keys_since_ms, 0);
    tf_local again = raw_send_numbered(s.raw, 1);
    raw_settle(s.raw);
    ck_assert(raw_ack(s.raw, again).duplicate);
    end(&s);
}
END_TEST

START_TEST(retention_walks_many_channels_in_pages)
{
    static setup s;
    const tf_retention keeps = {.pattern = tf_slice_str("name-*"), .max_count = 1};
    begin_with(&s, &(tf_hub_config){.retention = &keeps, .retention_count = 1});
    raw_send_range(s.raw, 1, 3);
    for (unsigned i = 0; i < 200; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "name-%u", i);
        raw_open(s.raw, name);
        raw_send_range(s.raw, 1, 2);
    }
    jump(&s, 10000);
    for (unsigned i = 0; i < 10; i++) {
        world_settle(&s.w);
    }
    uint64_t position = 0;
    tf_store_channel found;
    while (s.node->stub.inner.table->channel_next(s.node->stub.inner.ctx, &position, &found)) {
        ck_assert_uint_eq(found.first, found.number == 1 ? 1 : 2); /* "room" has no policy */
    }
    end(&s);
}
END_TEST

START_TEST(retention_without_policies_wakes_nobody)
{
    setup s;
    begin(&s);
    raw_send_range(s.raw, 1, 3);
    ck_assert(tf_hub_deadline(s.node->hub) == TF_NEVER);
    end(&s);
}
END_TEST

START_TEST(retention_that_the_store_refuses_is_tried_again)
{
    setup s;
    const tf_retention keeps = {.pattern = tf_slice_str("*"), .max_count = 2};
    begin_with(&s, &(tf_hub_config){.retention = &keeps, .retention_count = 1});
    raw_send_range(s.raw, 1, 5);
    s.node->stub.refuse = TF_REFUSAL_UNAVAILABLE;
    jump(&s, 10000);
    ck_assert_uint_eq(stored(&s).first, 1);
    ck_assert(tf_hub_deadline(s.node->hub) <= s.w.now + 10 * TF_SECOND);
    s.node->stub.refuse = TF_REFUSAL_NONE;
    jump(&s, 10000);
    ck_assert_uint_eq(stored(&s).first, 4);
    raw_send_range(s.raw, 6, 8);
    s.node->stub.refuse = TF_REFUSAL_UNAVAILABLE;
    jump(&s, 10000);
    s.node->stub.refuse = TF_REFUSAL_NONE;
    raw_send_range(s.raw, 9, 90); /* nor does the next one by count wait for the refused one */
    ck_assert_uint_gt(stored(&s).first, 60);
    end(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        retention_by_count_and_bytes_holds_with_slack_and_is_exact_at_the_tick,
        retention_by_count_begins_where_the_slack_ends,
        retention_by_count_trims_once_at_a_time,
        retention_by_bytes_asks_the_store_only_after_growth,
        retention_by_age_reaches_channels_that_are_not_in_memory,
        retention_of_a_channel_in_memory_brings_no_other,
        retention_forgets_keys_apart_from_messages,
        retention_forgets_keys_of_a_channel_once_at_a_time,
        retention_of_messages_alone_forgets_no_keys,
        retention_walks_many_channels_in_pages,
        retention_without_policies_wakes_nobody,
        retention_that_the_store_refuses_is_tried_again,
        NULL,
    };
    return tf_test_run("node/hub retention", tests);
}
