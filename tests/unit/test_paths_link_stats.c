/* What paths/link tells of its routes (P10): by how much second copies were late. */
#include "paths/link_recv.h"
#include "tests/unit/link_peer.h"

static uint64_t late_in_all(const link_peer *p, tf_route route)
{
    const tf_route_stats stats = link_peer_stats(p, route);
    uint64_t sum = 0;
    for (size_t i = 0; i < TF_LATE_BUCKETS; i++) {
        sum += stats.late[i];
    }
    return sum;
}

static void copy(link_peer *p, tf_route route, uint64_t seq)
{
    const tf_frame frame = link_peer_message(seq, "x");
    tf_err err = route == TF_ROUTE_STREAM ? link_peer_send_one(p, frame) : link_peer_send_packet_one(p, 1, frame);
    ck_assert_int_eq(err, TF_OK);
    tf_slice message;
    tf_route via;
    while (tf_link_next_message(p->link, &message, &via)) {
    }
}

START_TEST(link_second_copy_is_counted_by_its_lateness)
{
    static const struct {
        tf_time late;
        size_t bucket;
    } rows[] = {{0, 0},           {224, 0},          {288, 1},          {960, 2},           {1024, 3},
                {4 * TF_MS, 4},   {9 * TF_MS, 5},    {19 * TF_MS, 6},   {49 * TF_MS, 7},    {99 * TF_MS, 8},
                {199 * TF_MS, 9}, {499 * TF_MS, 10}, {999 * TF_MS, 11}, {1001 * TF_MS, 12}, {5 * TF_SECOND, 12}};
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_route first = i % 2 == 0 ? TF_ROUTE_STREAM : TF_ROUTE_DATAGRAM;
        tf_route second = i % 2 == 0 ? TF_ROUTE_DATAGRAM : TF_ROUTE_STREAM;
        uint64_t before = link_peer_stats(&p, second).late[rows[i].bucket];
        uint64_t all = late_in_all(&p, second);
        uint64_t other = late_in_all(&p, first);
        copy(&p, first, i);
        p.now += rows[i].late;
        copy(&p, second, i);
        ck_assert_uint_eq(link_peer_stats(&p, second).late[rows[i].bucket], before + 1);
        copy(&p, second, i); /* a third one is none */
        copy(&p, first, i);
        ck_assert_uint_eq(late_in_all(&p, second), all + 1);
        ck_assert_uint_eq(late_in_all(&p, first), other);
    }
    link_peer_free(&p);
}
END_TEST

START_TEST(link_copies_by_the_same_route_are_not_late)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    copy(&p, TF_ROUTE_DATAGRAM, 0);
    copy(&p, TF_ROUTE_DATAGRAM, 0);
    ck_assert_uint_eq(late_in_all(&p, TF_ROUTE_DATAGRAM), 0);
    ck_assert_uint_eq(late_in_all(&p, TF_ROUTE_STREAM), 0);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_copy_of_what_is_no_longer_recent_is_not_counted)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    for (uint64_t seq = 0; seq <= TF_LINK_RECENT; seq++) {
        copy(&p, TF_ROUTE_STREAM, seq);
    }
    copy(&p, TF_ROUTE_DATAGRAM, 0);
    ck_assert_uint_eq(late_in_all(&p, TF_ROUTE_DATAGRAM), 0);
    copy(&p, TF_ROUTE_DATAGRAM, 1);
    ck_assert_uint_eq(late_in_all(&p, TF_ROUTE_DATAGRAM), 1);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_verdicts_have_names)
{
    static const struct {
        tf_verdict verdict;
        const char *name;
    } rows[] = {{TF_VERDICT_ABSENT, "absent"},
                {TF_VERDICT_JOINING, "joining"},
                {TF_VERDICT_UP, "up"},
                {TF_VERDICT_STALLED, "stalled"},
                {TF_VERDICT_DOWN, "down"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_str_eq(tf_verdict_name(rows[i].verdict), rows[i].name);
    }
}
END_TEST

/* A copy that could not come is not missed. */
START_TEST(link_only_copies_are_counted_while_the_other_route_is_up)
{
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        link_peer p;
        tf_route route = (tf_route)i;
        tf_route other = route == TF_ROUTE_STREAM ? TF_ROUTE_DATAGRAM : TF_ROUTE_STREAM;
        link_peer_defaults(&p);
        link_peer_new(&p);
        link_peer_up(&p, 1);
        for (uint64_t seq = 0; seq < 3; seq++) {
            copy(&p, route, seq); /* the peer may have the other one on standby */
        }
        for (uint64_t seq = 3; seq < 6; seq++) {
            copy(&p, other, seq);
            copy(&p, route, seq);
        }
        for (uint64_t seq = 6; seq < 11; seq++) {
            copy(&p, route, seq);
        }
        if (other == TF_ROUTE_STREAM) {
            tf_link_stream_down(p.link, p.now);
        } else {
            tf_link_datagram_down(p.link, p.now);
        }
        for (uint64_t seq = 11; seq < 20; seq++) {
            copy(&p, route, seq);
        }
        link_peer_wait(&p, TF_KEEPALIVE); /* idle: no other copy is waited for any more */
        ck_assert_uint_eq(link_peer_stats(&p, route).only, 5);
        ck_assert_uint_eq(link_peer_stats(&p, other).only, 0);
        copy(&p, route, 20);
        link_peer_wait(&p, TF_KEEPALIVE); /* idle once more: none is counted again */
        ck_assert_uint_eq(link_peer_stats(&p, route).only, 5);
        link_peer_free(&p);
    }
}
END_TEST

/* What its segments carried; by each route by itself. */
START_TEST(link_bytes_that_were_sent_are_counted_by_route)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert_int_eq(link_peer_say(&p, "twelve bytes"), TF_OK);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).sent_bytes, 12);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_STREAM).sent_bytes, 0);
    ck_assert_uint_gt(link_peer_pull_stream(&p), 0);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_STREAM).sent_bytes, 12);
    link_peer_free(&p);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        link_second_copy_is_counted_by_its_lateness,
        link_copies_by_the_same_route_are_not_late,
        link_copy_of_what_is_no_longer_recent_is_not_counted,
        link_verdicts_have_names,
        link_only_copies_are_counted_while_the_other_route_is_up,
        link_bytes_that_were_sent_are_counted_by_route,
        NULL,
    };
    return tf_test_run("paths/link, statistics", tests);
}
