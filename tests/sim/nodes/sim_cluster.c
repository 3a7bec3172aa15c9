/* Whole nodes in virtual time: what a cluster and its bearers do in named conditions (P1, P2, P3, P6), and that two runs of
 * the same are the same. */
#include <stdlib.h>

#include "tests/sim/nodes/sim_cluster_world.h"

#define DELAY (5 * TF_MS)

static world w;
static const sim_node_config usual = {.session_timeout = 30 * TF_SECOND};

static void begin(void)
{
    world_make(&w, 1, &usual, DELAY);
    world_start(&w);
    world_flow(&w, true);
    world_run(&w, TF_SECOND);
}

static app *a(void)
{
    return &w.apps[0];
}

/* Nothing was lost at either end of A's connection since the world began. */
static void assert_one_session(void)
{
    ck_assert_uint_eq(a()->told[0][BEARER_OPENED], 1);
    ck_assert_uint_eq(a()->told[1][BEARER_OPENED], 1);
    ck_assert_uint_eq(a()->told[0][BEARER_LOST] + a()->told[1][BEARER_LOST], 0);
}

START_TEST(cluster_steady_delivers_by_both_routes)
{
    begin();
    tf_link_stats stats = world_link_stats(a(), 0);
    ck_assert_uint_gt(stats.routes[TF_ROUTE_STREAM].sent_segments, 90);
    ck_assert_uint_gt(stats.routes[TF_ROUTE_DATAGRAM].sent_segments, 90);
    assert_one_session();
    (void)world_finish(&w, TF_SECOND);
}
END_TEST

START_TEST(cluster_cut_stream_resumes)
{
    begin();
    world_cut(a());
    world_run(&w, 2 * TF_SECOND);
    ck_assert_uint_eq(a()->told[0][BEARER_RESUMED], 1);
    ck_assert_uint_eq(world_bearer_stats(a()).resumes, 1);
    ck_assert_uint_eq(world_link_stats(a(), 0).routes[TF_ROUTE_STREAM].generation, 2);
    assert_one_session();
    (void)world_finish(&w, TF_SECOND);
}
END_TEST

START_TEST(cluster_killed_client_begins_a_session)
{
    begin();
    cluster_kill(w.cluster, a()->node);
    ck_assert_uint_eq(a()->told[0][BEARER_LOST], 1);
    world_run(&w, TF_SECOND);
    ck_assert_uint_eq(a()->told[1][BEARER_LOST], 0); /* the relay knows only that the stream is gone */
    cluster_start(w.cluster, a()->node);
    world_run(&w, TF_SECOND);
    ck_assert_uint_eq(a()->told[1][BEARER_LOST], 1);
    ck_assert_str_eq(a()->why[1], "its peer is another instance now");
    ck_assert_uint_eq(world_bearer_stats(a()).sessions, 2);
    ck_assert_uint_eq(world_bearer_stats(a()).older, 1);
    world_run(&w, 60 * TF_SECOND); /* the datagram route is down after a while, and then a session timeout passes */
    ck_assert_uint_eq(world_bearer_stats(a()).older, 0);
    (void)world_finish(&w, TF_SECOND);
}
END_TEST

/* Each leaves a session behind, which makes room for another once its datagram route is not believed in any more. */
START_TEST(cluster_client_killed_often_is_let_in_again)
{
    begin();
    world_flow(&w, false);
    for (unsigned i = 1; i <= TF_INSTANCES_PER_PEER; i++) {
        cluster_kill(w.cluster, a()->node);
        cluster_start(w.cluster, a()->node);
        world_run(&w, TF_SECOND / 2);
    }
    ck_assert_uint_eq(world_bearer_stats(a()).older, TF_INSTANCES_PER_PEER - 1u);
    world_run(&w, 60 * TF_SECOND);
    ck_assert(bearer_is_carrying(a()->bearer));
    world_run(&w, 60 * TF_SECOND);
    ck_assert_uint_eq(world_bearer_stats(a()).older, 0);
    (void)world_finish(&w, TF_SECOND);
}
END_TEST

START_TEST(cluster_stopped_client_closes)
{
    begin();
    cluster_stop(w.cluster, a()->node);
    world_run(&w, 2 * DELAY);
    ck_assert_uint_eq(a()->told[1][BEARER_LOST], 1);
    ck_assert_str_eq(a()->why[1], "the peer has closed the session");
    cluster_start(w.cluster, a()->node);
    (void)world_finish(&w, 2 * TF_SECOND);
}
END_TEST

START_TEST(cluster_killed_relay_is_dialled_again)
{
    begin();
    cluster_kill(w.cluster, w.relay);
    world_run(&w, TF_SECOND);
    ck_assert_uint_gt(world_bearer_stats(a()).failed_dials, 0);
    cluster_start(w.cluster, w.relay);
    world_run(&w, 10 * TF_SECOND);
    ck_assert_uint_eq(world_bearer_stats(a()).sessions, 2);
    ck_assert_str_eq(a()->why[0], "the peer has forgotten this session");
    (void)world_finish(&w, TF_SECOND);
}
END_TEST

/* Nobody tells that the machine is gone: what the client writes is not answered, until its kernel gives up. */
START_TEST(cluster_crashed_relay_leaves_half_a_stream)
{
    begin();
    cluster_crash(w.cluster, w.relay);
    world_run(&w, 2500 * TF_MS);
    ck_assert_uint_ne(tf_link_verdict(tf_conn_link(bearer_conn(a()->bearer, 0)), TF_ROUTE_STREAM), TF_VERDICT_UP);
    cluster_start(w.cluster, w.relay);
    world_run(&w, 20 * TF_SECOND);
    ck_assert_uint_eq(world_bearer_stats(a()).sessions, 2);
    (void)world_finish(&w, TF_SECOND);
}
END_TEST

START_TEST(cluster_session_timeout_is_lost_on_both_ends)
{
    begin();
    world_stream_hole(a(), true);
    world_datagram_hole(a(), true);
    world_run(&w, 25 * TF_SECOND);
    assert_one_session();
    world_run(&w, 40 * TF_SECOND);
    ck_assert_str_eq(a()->why[0], "session timeout");
    ck_assert_str_eq(a()->why[1], "session timeout");
    world_stream_hole(a(), false);
    world_datagram_hole(a(), false);
    world_run(&w, 40 * TF_SECOND);
    ck_assert_uint_eq(world_bearer_stats(a()).sessions, 2);
    (void)world_finish(&w, 10 * TF_SECOND);
}
END_TEST

START_TEST(cluster_refused_dials_back_off)
{
    world_make(&w, 1, &usual, DELAY);
    cluster_start(w.cluster, a()->node);
    cluster_start(w.cluster, w.apps[1].node);
    world_run(&w, 120 * TF_SECOND);
    bearer_stats stats = world_bearer_stats(a());
    ck_assert_uint_eq(stats.failed_dials, stats.dials);
    ck_assert_uint_ge(stats.dials, 8);
    ck_assert_uint_le(stats.dials, 40);
    cluster_start(w.cluster, w.relay);
    world_run(&w, 31 * TF_SECOND);
    ck_assert(bearer_is_carrying(a()->bearer));
    world_flow(&w, true);
    world_run(&w, TF_SECOND);
    (void)world_finish(&w, TF_SECOND);
}
END_TEST

START_TEST(cluster_closed_port_leaves_the_datagram_route)
{
    begin();
    bearer_set_closed(a()->bearer, true);
    world_cut(a());
    world_run(&w, 10 * TF_SECOND);
    ck_assert_uint_ge(world_bearer_stats(a()).failed_dials, 5);
    ck_assert_uint_eq(a()->told[0][BEARER_RESUMED], 0);
    ck_assert_uint_le(a()->sent - a()->acked, 3);
    bearer_set_closed(a()->bearer, false);
    world_run(&w, 2 * TF_SECOND);
    ck_assert_uint_eq(a()->told[0][BEARER_RESUMED], 1);
    assert_one_session();
    (void)world_finish(&w, TF_SECOND);
}
END_TEST

START_TEST(cluster_hole_of_the_stream_breaks_it)
{
    begin();
    world_stream_hole(a(), true);
    world_run(&w, 60 * TF_SECOND);
    ck_assert_uint_ge(world_bearer_stats(a()).failed_dials, 3);
    ck_assert_uint_le(a()->sent - a()->acked, 3);
    world_stream_hole(a(), false);
    world_run(&w, 31 * TF_SECOND);
    ck_assert_uint_ge(a()->told[0][BEARER_RESUMED], 1);
    assert_one_session();
    (void)world_finish(&w, TF_SECOND);
}
END_TEST

START_TEST(cluster_rebinding_keeps_the_datagram_route)
{
    begin();
    world_stream_hole(a(), true);
    world_run(&w, TF_SECOND);
    bearer_rebind(a()->bearer);
    world_run(&w, 2 * TF_SECOND);
    ck_assert_uint_eq(world_bearer_stats(a()).moves, 1);
    ck_assert_uint_le(a()->sent - a()->acked, 3);
    ck_assert_uint_eq(world_link_stats(a(), 0).routes[TF_ROUTE_DATAGRAM].downs, 0);
    world_stream_hole(a(), false);
    assert_one_session();
    (void)world_finish(&w, 5 * TF_SECOND);
}
END_TEST

START_TEST(cluster_paused_relay_keeps_its_sessions)
{
    begin();
    cluster_pause(w.cluster, w.relay);
    world_run(&w, 5 * TF_SECOND);
    ck_assert_uint_gt(a()->sent - a()->acked, 30);
    cluster_go(w.cluster, w.relay);
    world_run(&w, 5 * TF_SECOND);
    assert_one_session();
    (void)world_finish(&w, TF_SECOND);
}
END_TEST

START_TEST(cluster_paused_client_keeps_its_session)
{
    begin();
    cluster_pause(w.cluster, a()->node);
    world_run(&w, 20 * TF_SECOND);
    ck_assert_uint_gt(w.apps[1].sent, a()->sent);
    cluster_go(w.cluster, a()->node);
    world_run(&w, 5 * TF_SECOND);
    assert_one_session();
    (void)world_finish(&w, TF_SECOND);
}
END_TEST

START_TEST(cluster_sick_disk_delays_the_start)
{
    world_make(&w, 1, &usual, DELAY);
    disk_set_weather(w.disk, TF_SECOND, &(disk_weather){.failing = true});
    cluster_start(w.cluster, w.relay);
    world_run(&w, 3 * TF_SECOND);
    ck_assert(w.relay->waits_for_disk && w.relay->state == NODE_DOWN);
    disk_set_weather(w.disk, cluster_now(w.cluster), &(disk_weather){0});
    world_run(&w, CLUSTER_DISK_RETRY);
    ck_assert(!w.relay->waits_for_disk && w.relay->state == NODE_UP);
    world_start(&w);
    world_flow(&w, true);
    world_run(&w, TF_SECOND);
    (void)world_finish(&w, TF_SECOND);
}
END_TEST

START_TEST(cluster_standby_route_carries_no_copies)
{
    sim_node_config config = usual;
    config.standby = TF_ROUTES_DATAGRAM;
    world_make(&w, 1, &config, DELAY);
    world_start(&w);
    world_flow(&w, true);
    world_run(&w, 2 * TF_SECOND);
    tf_link_stats stats = world_link_stats(a(), 0);
    ck_assert_uint_gt(stats.routes[TF_ROUTE_STREAM].sent_segments, 190);
    ck_assert_uint_lt(stats.routes[TF_ROUTE_DATAGRAM].sent_segments, 20);
    (void)world_finish(&w, TF_SECOND);
}
END_TEST

START_TEST(cluster_stream_only_sends_no_datagrams)
{
    sim_node_config config = usual;
    config.routes = TF_ROUTES_STREAM;
    world_make(&w, 1, &config, DELAY);
    world_start(&w);
    world_flow(&w, true);
    world_run(&w, TF_SECOND);
    ck_assert_uint_eq(net_sent(bearer_net(a()->bearer), 0) + net_sent(bearer_net(a()->bearer), 1), 0);
    ck_assert_int_eq(world_link_stats(a(), 0).routes[TF_ROUTE_DATAGRAM].verdict, TF_VERDICT_ABSENT);
    world_cut(a());
    world_run(&w, TF_SECOND);
    assert_one_session();
    (void)world_finish(&w, TF_SECOND);
}
END_TEST

START_TEST(cluster_datagram_only_leaves_the_stream_without_messages)
{
    sim_node_config config = usual;
    config.routes = TF_ROUTES_DATAGRAM;
    world_make(&w, 1, &config, DELAY);
    world_start(&w);
    world_flow(&w, true);
    world_run(&w, TF_SECOND);
    tf_link_stats stats = world_link_stats(a(), 0);
    ck_assert_uint_eq(stats.routes[TF_ROUTE_STREAM].sent_segments, 0);
    ck_assert_int_eq(stats.routes[TF_ROUTE_STREAM].verdict, TF_VERDICT_UP);
    (void)world_finish(&w, TF_SECOND);
}
END_TEST

/* A bit of everything, each while messages flow. */
static uint64_t run_all(uint64_t seed)
{
    world_make(&w, seed, &usual, DELAY);
    for (unsigned end = 0; end < NET_ENDS; end++) {
        net_path *path = net_path_of(bearer_net(a()->bearer), end);
        path->loss = 100;
        path->burst = 4;
        path->jitter = 3 * DELAY;
        path->repeat = 20;
    }
    world_start(&w);
    world_flow(&w, true);
    world_cut(a());
    world_run(&w, TF_SECOND);
    cluster_kill(w.cluster, w.apps[1].node);
    world_datagram_hole(a(), true);
    world_run(&w, TF_SECOND);
    cluster_crash(w.cluster, w.relay);
    cluster_start(w.cluster, w.apps[1].node);
    world_run(&w, TF_SECOND);
    cluster_start(w.cluster, w.relay);
    world_datagram_hole(a(), false);
    world_run(&w, 5 * TF_SECOND);
    bearer_rebind(a()->bearer);
    cluster_pause(w.cluster, a()->node);
    world_run(&w, TF_SECOND);
    cluster_go(w.cluster, a()->node);
    cluster_stop(w.cluster, w.relay);
    world_stream_hole(a(), true);
    world_run(&w, TF_SECOND);
    cluster_start(w.cluster, w.relay);
    world_run(&w, 20 * TF_SECOND);
    world_stream_hole(a(), false);
    return world_finish(&w, 60 * TF_SECOND);
}

START_TEST(cluster_seed_gives_the_same_again)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        ck_assert_uint_eq(run_all(seed), run_all(seed));
    }
    ck_assert_uint_ne(run_all(1), run_all(2));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {cluster_steady_delivers_by_both_routes,
                                  cluster_cut_stream_resumes,
                                  cluster_killed_client_begins_a_session,
                                  cluster_client_killed_often_is_let_in_again,
                                  cluster_stopped_client_closes,
                                  cluster_killed_relay_is_dialled_again,
                                  cluster_crashed_relay_leaves_half_a_stream,
                                  cluster_session_timeout_is_lost_on_both_ends,
                                  cluster_refused_dials_back_off,
                                  cluster_closed_port_leaves_the_datagram_route,
                                  cluster_hole_of_the_stream_breaks_it,
                                  cluster_rebinding_keeps_the_datagram_route,
                                  cluster_paused_relay_keeps_its_sessions,
                                  cluster_paused_client_keeps_its_session,
                                  cluster_sick_disk_delays_the_start,
                                  cluster_standby_route_carries_no_copies,
                                  cluster_stream_only_sends_no_datagrams,
                                  cluster_datagram_only_leaves_the_stream_without_messages,
                                  cluster_seed_gives_the_same_again,
                                  NULL};
    return tf_test_run("tests/sim/nodes", tests);
}
