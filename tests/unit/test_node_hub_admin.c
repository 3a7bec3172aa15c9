/* node/hub: what there is and what is kept: open without making, channels, info, gaps, trim, holes in `read`. */
#include "proto/mp.h"
#include "tests/support/check_main.h"
#include "tests/unit/raw_room.h"

static tf_local root_of(const setup *s)
{
    return tf_session_peer_root(s->raw->end->conn->session);
}

static tf_local ask_open(setup *s, const char *name, bool existing_only)
{
    raw_args args;
    tf_args_open_write(raw_begin(&args), &(tf_args_open){tf_slice_str(name), existing_only});
    return raw_ask(s->raw, root_of(s), "open", &args);
}

START_TEST(admin_open_of_existing_makes_none)
{
    setup s;
    tf_store_channel found;
    begin(&s);
    ck_assert_str_eq(raw_outcome(s.raw, ask_open(&s, "nowhere", true)), "channel_not_found");
    ck_assert_int_eq(s.node->stub.inner.table->channel_find(s.node->stub.inner.ctx, tf_slice_str("nowhere"), &found),
                     TF_ERR_CLOSED);
    ck_assert_str_eq(raw_outcome(s.raw, ask_open(&s, "room", true)), "acked");
    ck_assert_str_eq(raw_outcome(s.raw, ask_open(&s, "nowhere", false)), "acked");
    ck_assert_str_eq(raw_outcome(s.raw, ask_open(&s, "nowhere", true)), "acked");
    end(&s);
}
END_TEST

/* One page; how many names of it are name-<first> and following. */
static size_t page(setup *s, const tf_args_channels *asked, unsigned first, uint64_t *next)
{
    raw_args args;
    tf_slice item;
    tf_result_channels result;
    size_t count = 0;
    tf_args_channels_write(raw_begin(&args), asked);
    tf_local promise = raw_ask(s->raw, root_of(s), "channels", &args);
    ck_assert_str_eq(raw_outcome(s->raw, promise), "acked");
    ck_assert_int_eq(tf_result_channels_read(raw_data(raw_find(s->raw, promise)), &result), TF_OK);
    while (tf_items_next(&result.items, &item)) {
        char name[32];
        tf_channel_state state;
        (void)snprintf(name, sizeof(name), "name-%u", first + (unsigned)count);
        ck_assert_int_eq(tf_channel_state_read(item, &state), TF_OK);
        ck_assert(tf_slice_eq(state.name, tf_slice_str(name)));
        count++;
    }
    *next = result.next;
    return count;
}

START_TEST(admin_channels_are_listed_in_pages)
{
    setup s;
    uint64_t next = 0;
    unsigned seen = 0;
    begin(&s);
    for (unsigned i = 0; i < 7; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "name-%u", i);
        ck_assert_str_eq(raw_outcome(s.raw, ask_open(&s, name, false)), "acked");
    }
    tf_args_channels asked = {.after = 1, .limit = 3}; /* behind "room" */
    do {
        size_t count = page(&s, &asked, seen, &next);
        ck_assert_uint_eq(count, seen < 6 ? 3 : 1);
        seen += (unsigned)count;
        asked.after = next;
    } while (next != 0);
    ck_assert_uint_eq(seen, 7);
    ck_assert_uint_eq(page(&s, &(tf_args_channels){.after = 8}, 0, &next), 0);
    ck_assert_uint_eq(next, 0);
    end(&s);
}
END_TEST

/* A page holds what one message may, whatever was asked for; the next begins behind it. */
START_TEST(admin_page_of_channels_is_bounded)
{
    static setup s;
    uint64_t after = 0;
    size_t seen = 0;
    size_t pages = 0;
    world_init(&s.w, 1);
    s.w.max_message = TF_MESSAGE_MIN_LIMIT;
    s.node = world_add(&s.w, true, NULL);
    s.raw = raw_new(&s.w, s.node, 11);
    for (unsigned i = 0; i < 200; i++) {
        char name[TF_CHANNEL_NAME_MAX + 1];
        (void)snprintf(name, sizeof(name), "%0128u", i);
        ck_assert_str_eq(raw_outcome(s.raw, ask_open(&s, name, false)), "acked");
    }
    do {
        tf_store_channel found;
        raw_args args;
        tf_args_channels_write(raw_begin(&args), &(tf_args_channels){.after = after, .limit = 1000});
        tf_local promise = raw_ask(s.raw, root_of(&s), "channels", &args);
        const raw_answer *answer = raw_find(s.raw, promise);
        ck_assert_str_eq(raw_outcome(s.raw, promise), "acked");
        uint64_t position = after;
        tf_reader r; /* what the test keeps of an answer is its beginning: `next`, and how many items */
        tf_rd_init(&r, raw_data(answer));
        size_t pairs = tf_mp_rd_map(&r, 4);
        after = 0;
        if (pairs == 2) {
            (void)tf_mp_rd_str(&r, 16);
            after = tf_mp_rd_uint(&r);
        }
        (void)tf_mp_rd_str(&r, 16);
        size_t count = tf_mp_rd_array(&r, 1000);
        ck_assert(tf_rd_ok(&r));
        for (size_t i = 0; i < count; i++) {
            ck_assert(s.node->stub.inner.table->channel_next(s.node->stub.inner.ctx, &position, &found));
        }
        ck_assert(after == 0 || after == position);
        ck_assert_uint_le(count, 20);
        seen += count;
        pages++;
    } while (after != 0);
    ck_assert_uint_eq(seen, 200);
    ck_assert_uint_ge(pages, 10);
    ck_assert_uint_eq(s.node->failures, 0);
    end(&s);
}
END_TEST

START_TEST(admin_info_tells_what_is_kept)
{
    setup s;
    tf_retention keeps[] = {{tf_slice_str("x*"), 1, 2, 3, 4}, {tf_slice_str("r??m"), 60000, 0, 1000, 3600000}};
    begin_with(&s, &(tf_hub_config){.retention = keeps, .retention_count = 2});
    raw_send_range(s.raw, 1, 5);
    (void)raw_trim(s.raw, 3);
    tf_result_info info = raw_info(s.raw);
    ck_assert(tf_slice_eq(info.state.name, tf_slice_str("room")) && info.state.first == 3 && info.state.head == 5);
    ck_assert(info.state.bytes == 18 && !info.state.closed && info.state.timestamp_ms == (uint64_t)s.w.wall_ms);
    ck_assert(info.max_age_ms == 60000 && info.max_bytes == 0 && info.max_count == 1000);
    ck_assert(info.dedup_age_ms == 3600000 && info.subscriptions == 0 && info.cursor_count == 0);
    tf_result_open opened;
    tf_local promise = ask_open(&s, "room", true);
    ck_assert_int_eq(tf_result_open_read(raw_data(raw_find(s.raw, promise)), &opened), TF_OK);
    ck_assert_uint_eq(opened.dedup_age_ms, 3600000);
    end(&s);
}
END_TEST

static uint64_t trimmed_to(setup *s, tf_local promise)
{
    tf_result_trim result = {.first = 0};
    ck_assert_str_eq(raw_outcome(s->raw, promise), "acked");
    ck_assert_int_eq(tf_result_trim_read(raw_data(raw_find(s->raw, promise)), &result), TF_OK);
    return result.first;
}

START_TEST(admin_trim_moves_the_first_and_never_back)
{
    setup s;
    begin(&s);
    ck_assert_uint_eq(trimmed_to(&s, raw_trim(s.raw, 100)), 1); /* nothing there */
    raw_send_range(s.raw, 1, 10);
    ck_assert_uint_eq(trimmed_to(&s, raw_trim(s.raw, 4)), 4);
    ck_assert_uint_eq(trimmed_to(&s, raw_trim(s.raw, 2)), 4);
    ck_assert_uint_eq(trimmed_to(&s, raw_trim(s.raw, 100)), 11);
    raw_send_range(s.raw, 11, 12);
    raw_args args;
    tf_args_subscribe from = {.from = {TF_FROM_SEQ, 2}, .echo = true};
    raw_sub sub = raw_subscribe(s.raw, &from);
    ck_assert(sub.start.next == 11 && sub.start.first == 11 && sub.start.head == 12);
    raw_expect_range(&sub, 11, 12);
    tf_local again = raw_send(s.raw, "c-3", "c-3"); /* the key is still there (S3) */
    raw_settle(s.raw);
    tf_result_ack ack = raw_ack(s.raw, again);
    ck_assert(ack.duplicate && ack.seq == 3);
    tf_args_trim_write(raw_begin(&args), &(tf_args_trim){5});
    raw_tell(s.raw, s.raw->channel, "trim", &args); /* without an answer */
    ck_assert_uint_eq(raw_info(s.raw).state.first, 11);
    end(&s);
}
END_TEST

START_TEST(admin_trims_that_wait_become_one)
{
    setup s;
    tf_local promises[4];
    begin(&s);
    raw_send_range(s.raw, 1, 10);
    size_t groups = s.node->stub.groups;
    s.node->stub.hold = true;
    tf_local sending = raw_send(s.raw, "x", "x");
    raw_settle(s.raw);
    for (uint64_t i = 0; i < 4; i++) {
        promises[i] = raw_trim(s.raw, 3 + i);
    }
    stub_let_go(&s.node->stub);
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, sending), "acked");
    for (size_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(trimmed_to(&s, promises[i]), 6);
    }
    ck_assert_uint_eq(s.node->stub.groups, groups + 2);
    end(&s);
}
END_TEST

START_TEST(admin_subscribers_see_a_trim_only_of_what_they_had_not_got)
{
    setup s;
    begin(&s);
    tf_args_subscribe args = {.from = {TF_FROM_FIRST, 0}, .echo = true};
    raw_sub live = raw_subscribe(s.raw, &args);
    args.limit = 1;
    raw_sub slow = raw_subscribe(s.raw, &args);
    raw_send_range(s.raw, 1, 10);
    raw_expect_range(&live, 1, 10);
    raw_expect_range(&slow, 1, 1);
    (void)raw_trim(s.raw, 6);
    raw_expect_nothing(&live);
    raw_args more;
    tf_args_more_write(raw_begin(&more), &(tf_args_more){UINT64_MAX});
    raw_tell(s.raw, slow.object, "more", &more);
    raw_expect_gap(&slow, 6, "trimmed");
    raw_expect_range(&slow, 6, 10);
    raw_send_range(s.raw, 11, 11);
    raw_expect_range(&live, 11, 11);
    raw_expect_range(&slow, 11, 11);
    end(&s);
}
END_TEST

static void expect_hole(tf_items *items, uint64_t first, uint64_t last, const char *reason)
{
    tf_slice item;
    tf_hole hole;
    ck_assert(tf_items_next(items, &item) && tf_hole_read(item, &hole) == TF_OK);
    ck_assert(hole.first == first && hole.last == last && tf_slice_eq(hole.reason, tf_slice_str(reason)));
}

START_TEST(admin_gaps_are_what_cannot_be_had)
{
    setup s;
    tf_slice item;
    const uint64_t froms[] = {1, 2, 3, 7, 8};
    begin(&s);
    raw_send_range(s.raw, 1, 10);
    (void)raw_trim(s.raw, 3);
    s.node->stub.damaged_from = 6;
    s.node->stub.damaged_to = 7;
    for (size_t i = 0; i < 5; i++) {
        raw_args args;
        tf_result_gaps result;
        tf_args_gaps_write(raw_begin(&args), &(tf_args_gaps){froms[i]});
        tf_local promise = raw_ask(s.raw, s.raw->channel, "gaps", &args);
        ck_assert_str_eq(raw_outcome(s.raw, promise), "acked");
        ck_assert_int_eq(tf_result_gaps_read(raw_data(raw_find(s.raw, promise)), &result), TF_OK);
        if (froms[i] <= 2) {
            expect_hole(&result.items, 1, 2, "trimmed");
        }
        if (froms[i] <= 7) {
            expect_hole(&result.items, 6, 7, "damaged");
        }
        ck_assert(!tf_items_next(&result.items, &item) && result.next == 0);
    }
    end(&s);
}
END_TEST

START_TEST(admin_read_says_what_it_lacks)
{
    setup s;
    tf_slice item;
    raw_args args;
    tf_result_read result;
    begin(&s);
    raw_send_range(s.raw, 1, 5);
    (void)raw_trim(s.raw, 3);
    s.node->stub.damaged_from = 4;
    s.node->stub.damaged_to = 4;
    tf_args_read_write(raw_begin(&args), &(tf_args_read){1, 100});
    tf_local promise = raw_ask(s.raw, s.raw->channel, "read", &args);
    ck_assert_int_eq(tf_result_read_read(raw_data(raw_find(s.raw, promise)), &result), TF_OK);
    ck_assert(result.first == 3 && result.head == 5 && result.next == 6);
    for (uint64_t seq = 3; seq <= 5; seq += 2) {
        tf_activity activity;
        ck_assert(tf_items_next(&result.items, &item) && tf_activity_read(item, &activity) == TF_OK);
        ck_assert_uint_eq(activity.seq, seq);
    }
    ck_assert(!tf_items_next(&result.items, &item));
    expect_hole(&result.gaps, 1, 2, "trimmed");
    expect_hole(&result.gaps, 4, 4, "damaged");
    ck_assert(!tf_items_next(&result.gaps, &item));
    tf_args_read_write(raw_begin(&args), &(tf_args_read){1, 1});
    promise = raw_ask(s.raw, s.raw->channel, "read", &args);
    ck_assert_int_eq(tf_result_read_read(raw_data(raw_find(s.raw, promise)), &result), TF_OK);
    ck_assert(!tf_items_next(&result.items, &item) && result.next == 2);
    expect_hole(&result.gaps, 1, 1, "trimmed");
    end(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        admin_open_of_existing_makes_none,
        admin_channels_are_listed_in_pages,
        admin_page_of_channels_is_bounded,
        admin_info_tells_what_is_kept,
        admin_trim_moves_the_first_and_never_back,
        admin_trims_that_wait_become_one,
        admin_subscribers_see_a_trim_only_of_what_they_had_not_got,
        admin_gaps_are_what_cannot_be_had,
        admin_read_says_what_it_lacks,
        NULL,
    };
    return tf_test_run("node/hub admin", tests);
}
