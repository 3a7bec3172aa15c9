/* node/conn: one connection, and how it ends (D1, D14, design §10). */
#include "tests/support/check_main.h"
#include "tests/unit/hub_world.h"

typedef struct setup {
    world w;
    world_node *node;
    raw_peer *raw;
} setup;

static void begin(setup *s)
{
    world_init(&s->w, 1);
    s->node = world_add(&s->w, true, NULL);
    s->raw = raw_new(&s->w, s->node, 11);
}

static void end(setup *s)
{
    world_free(&s->w);
    free(s->raw);
}

static tf_conn *server_conn(setup *s)
{
    return raw_pair(s->raw)->end[1].conn;
}

START_TEST(conn_tells_who_is_at_the_other_end)
{
    setup s;
    begin(&s);
    tf_conn *conn = server_conn(&s);
    tf_node_id id = world_id(99);
    ck_assert(tf_node_id_eq(tf_conn_peer(conn), &id));
    ck_assert_uint_eq(tf_conn_peer_instance(conn), 11);
    ck_assert_uint_eq(tf_conn_session_number(conn), 1);
    ck_assert_uint_eq(tf_conn_peer_max_in_flight(conn), TF_MAX_IN_FLIGHT);
    ck_assert_ptr_null(tf_conn_owner(conn));
    tf_conn_set_owner(conn, &s);
    ck_assert_ptr_eq(tf_conn_owner(conn), &s);
    end(&s);
}
END_TEST

START_TEST(conn_deadline_is_the_earlier_of_link_and_session)
{
    setup s;
    begin(&s);
    tf_conn *conn = server_conn(&s);
    raw_open(s.raw, "room");
    ck_assert_uint_le(tf_conn_deadline(conn), tf_link_deadline(conn->link));
    ck_assert_uint_le(tf_conn_deadline(conn), tf_session_deadline(conn->session));
    end(&s);
}
END_TEST

/* One row a fault: what the peer says, and the code that it hears. */
START_TEST(conn_faulty_message_ends_it_with_its_code)
{
    static const struct {
        const char *message;
        tf_close_code code;
        const char *text; /* that the reason must contain, or NULL */
    } rows[] = {
        {"c0", TF_CLOSE_MALFORMED, NULL},
        {"94 04 00 00 90", TF_CLOSE_MALFORMED, NULL},                    /* an unknown kind */
        {"93 05 00 00 00", TF_CLOSE_MALFORMED, NULL},                    /* trailing garbage */
        {"93 05 07 00", TF_CLOSE_BAD_SEQUENCE, "got 7, expected 0"},     /* D1: both numbers are named */
        {"93 05 00 09", TF_CLOSE_BAD_ACK, "got 9, at most 0"},           /* D2 */
        {"94 03 00 00 91 15", TF_CLOSE_BAD_REF, "got 21"},               /* D4: never issued */
        {"98 01 00 00 15 a1 78 c4 00 90 c0", TF_CLOSE_BAD_REF, NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        setup s;
        uint8_t bytes[64];
        tf_link_event event;
        bool closed = false;
        begin(&s);
        size_t len = tf_test_unhex(rows[i].message, bytes, sizeof(bytes));
        ck_assert_int_eq(tf_link_send(s.raw->end->conn->link, s.w.now, tf_slice_of(bytes, len)), TF_OK);
        world_settle(&s.w);
        ck_assert_uint_eq(s.node->failures, 1);
        while (tf_link_next_event(s.raw->end->conn->link, &event)) {
            if (event.type == TF_LINK_EVENT_CLOSED) {
                closed = true;
                ck_assert_msg(event.code == (uint64_t)rows[i].code, "row %zu: code %d", i, (int)event.code);
                ck_assert_msg(rows[i].text == NULL || memmem(event.reason.data, event.reason.len, rows[i].text,
                                                             strlen(rows[i].text)) != NULL,
                              "row %zu: %.*s", i, (int)event.reason.len, (const char *)event.reason.data);
            }
        }
        ck_assert_msg(closed, "row %zu", i);
        end(&s);
    }
}
END_TEST

START_TEST(conn_that_failed_is_not_worked_on_any_more)
{
    setup s;
    uint8_t junk = 0xc0;
    begin(&s);
    raw_open(s.raw, "room");
    ck_assert_int_eq(tf_link_send(s.raw->end->conn->link, s.w.now, tf_slice_of(&junk, 1)), TF_OK);
    (void)raw_send_numbered(s.raw, 1);
    world_settle(&s.w);
    tf_hub_touch(s.node->hub, server_conn(&s));
    tf_conn_tick(server_conn(&s), s.w.now);
    world_settle(&s.w);
    ck_assert_uint_eq(s.node->failures, 1);
    ck_assert_uint_eq(store_head(s.node, "room"), 0);
    end(&s);
}
END_TEST

START_TEST(conn_detached_while_its_send_is_committed_is_forgotten)
{
    setup s;
    tf_hub_stats stats;
    begin(&s);
    raw_open(s.raw, "room");
    s.node->stub.hold = true;
    (void)raw_send_numbered(s.raw, 1);
    (void)raw_send_numbered(s.raw, 1); /* and one that waits for it */
    world_settle(&s.w);
    world_disconnect(&s.w, raw_pair(s.raw));
    ck_assert(stub_release(&s.node->stub));
    world_settle(&s.w);
    ck_assert_uint_eq(store_head(s.node, "room"), 1); /* accepted is accepted */
    tf_hub_get_stats(s.node->hub, &stats);
    ck_assert_uint_eq(stats.conns + stats.committing + stats.channels + stats.committing_bytes, 0);
    end(&s);
}
END_TEST

START_TEST(conn_failed_allocation_leaves_no_conn_and_no_leak)
{
    tf_test_heap heap;
    tf_test_random random;
    tf_refs refs;
    tf_test_heap_init(&heap);
    tf_test_random_init(&random, 1);
    ck_assert_int_eq(tf_refs_init(&refs, &heap.mem, 1), TF_OK);
    tf_session_limits limits = {TF_MESSAGE_MAX, TF_REFS_MAX, TF_PROMISES_MAX, TF_RESULTS_MAX};
    tf_conn_config config = {
        .mem = &heap.mem,
        .link = {.mem = &heap.mem,
                 .rand = &random.rand,
                 .routes = TF_ROUTES_BOTH,
                 .send_data = TF_ROUTES_BOTH,
                 .recv_data = TF_ROUTES_BOTH,
                 .recv_window_segments = 64,
                 .recv_window_bytes = 65536,
                 .send_window_segments = 64,
                 .send_window_bytes = 65536,
                 .recv_max_message = TF_MESSAGE_MAX,
                 .keepalive = TF_KEEPALIVE,
                 .peer_keepalive = TF_KEEPALIVE},
        .session = {.local = limits,
                    .remote = limits,
                    .refs = &refs,
                    .root = tf_refs_next_local(&refs),
                    .mem = &heap.mem}};
    uint64_t k = 0;
    tf_err err = TF_ERR_NOMEM;
    for (; err == TF_ERR_NOMEM; k++) {
        tf_conn *conn = NULL;
        tf_test_heap_fail_at(&heap, k, true);
        err = tf_conn_new(&conn, &config, 1);
        tf_test_heap_fail_never(&heap);
        ck_assert(err == TF_OK || conn == NULL);
        tf_conn_free(conn);
    }
    ck_assert_int_eq(err, TF_OK);
    ck_assert_uint_gt(k, 2);
    while (tf_refs_take_idle(&refs) != NULL) {
    }
    tf_refs_clear(&refs);
    ck_assert_uint_eq(heap.live_blocks, 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        conn_tells_who_is_at_the_other_end,
        conn_deadline_is_the_earlier_of_link_and_session,
        conn_faulty_message_ends_it_with_its_code,
        conn_that_failed_is_not_worked_on_any_more,
        conn_detached_while_its_send_is_committed_is_forgotten,
        conn_failed_allocation_leaves_no_conn_and_no_leak,
        NULL,
    };
    return tf_test_run("node/conn", tests);
}
