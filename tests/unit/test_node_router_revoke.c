/* Revocation (PROTOCOL.md D11, D12, D14): X at the left end revokes an object that Y at the right end holds; two parties, and
 * through relays. */
#include "proto/message.h"
#include "tests/support/check_main.h"
#include "tests/support/ref_chain.h"
#include "tests/support/support.h"

#define NODES_MAX 4u
#define X 0u
#define Y (chain.last)

static tf_chain chain;
static tf_local object; /* X's */
static tf_local import; /* the same at Y */

/* -- what is common ------------------------------------------------------------------------------------------------ */

static const tf_chain_event *find(size_t node, tf_router_event_type type, const char *text)
{
    const tf_chain_event *e = tf_chain_find(&chain, node, type, text, 0);
    ck_assert_msg(e != NULL && tf_chain_count(&chain, node, type, text) == 1, "%s is not there once", text);
    return e;
}

static size_t count(size_t node, tf_router_event_type type, const char *text)
{
    return tf_chain_count(&chain, node, type, text);
}

static void mention(size_t node, tf_local target, const char *method, tf_local what)
{
    tf_chain_send(&chain, node, target, method, &(tf_mention){what, TF_REF_OBJECT}, 1);
}

/* Y holds an object of X's. */
static void begin(size_t nodes)
{
    tf_chain_begin(&chain, nodes);
    object = tf_chain_object(&chain, X);
    mention(X, chain.y_at_x, "give", object);
    tf_chain_settle(&chain);
    import = find(Y, TF_ROUTER_DELIVER, "give")->refs[0].local;
    chain.event_count = 0;
}

static void end(void)
{
    ck_assert(tf_chain_end(&chain));
    ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, 0);
}

static void revoke(bool hard)
{
    tf_chain_revoke(&chain, X, object, hard, "gone");
}

static tf_router *router(size_t node)
{
    return chain.net.nodes[node].router;
}

/* -- what is known of it ------------------------------------------------------------------------------------------- */

/* Who knows that it was revoked rejects by itself. */
START_TEST(revoke_is_known_to_the_importer_who_rejects_by_himself)
{
    for (size_t nodes = 2; nodes <= NODES_MAX; nodes++) {
        for (int hard = 0; hard < 2; hard++) {
            begin(nodes);
            revoke(hard == 1);
            tf_chain_settle(&chain);
            const tf_chain_event *told = find(Y, TF_ROUTER_REVOKED, "gone");
            ck_assert_uint_eq(told->local, import);
            ck_assert_int_eq(told->hard, hard == 1);
            uint64_t carried = chain.net.carried;
            tf_local answer = tf_chain_ask(&chain, Y, import, "call");
            ck_assert_uint_eq(find(Y, TF_ROUTER_RESOLVED, "gone")->local, answer);
            tf_chain_settle(&chain);
            ck_assert_uint_eq(chain.net.carried, carried);
            end();
        }
    }
}
END_TEST

/* A call that was under way is rejected where it meets the revocation, and goes no further. */
START_TEST(revoke_is_known_to_a_relay_that_rejects_by_itself)
{
    for (int hard = 0; hard < 2; hard++) {
        begin(3);
        (void)tf_chain_ask(&chain, Y, import, "call");
        revoke(hard == 1);
        tf_chain_right(&chain, X);
        tf_chain_left(&chain, Y);
        tf_router_stats stats;
        tf_router_get_stats(router(1), &stats);
        uint64_t forwarded = stats.forwarded;
        tf_chain_settle(&chain);
        tf_router_get_stats(router(1), &stats);
        ck_assert_uint_eq(stats.forwarded, forwarded);
        (void)find(Y, TF_ROUTER_RESOLVED, "gone");
        ck_assert_uint_eq(count(X, TF_ROUTER_DELIVER, NULL), 0);
        end();
    }
}
END_TEST

/* The error is passed on with what it mentions, which can be used. */
START_TEST(revoke_error_takes_its_mentions_along)
{
    for (size_t nodes = 2; nodes <= NODES_MAX; nodes++) {
        begin(nodes);
        tf_local successor = tf_chain_object(&chain, X);
        tf_mention mentioned = {successor, TF_REF_OBJECT};
        tf_revocation revocation = {
            .object = object, .data = tf_slice_str("moved"), .refs = &mentioned, .ref_count = 1};
        ck_assert_int_eq(tf_router_revoke(router(X), chain.net.now, &revocation), TF_OK);
        tf_chain_settle(&chain);
        const tf_chain_event *told = find(Y, TF_ROUTER_REVOKED, "moved");
        ck_assert_uint_eq(told->ref_count, 1);
        (void)tf_chain_ask(&chain, Y, import, "call");
        const tf_chain_event *answer = find(Y, TF_ROUTER_RESOLVED, "moved");
        ck_assert_uint_eq(answer->ref_count, 1);
        ck_assert_uint_eq(answer->refs[0].local, told->refs[0].local);
        tf_chain_send(&chain, Y, told->refs[0].local, "to_successor", NULL, 0);
        tf_chain_settle(&chain);
        ck_assert_uint_eq(find(X, TF_ROUTER_DELIVER, "to_successor")->local, successor);
        end();
    }
}
END_TEST

/* -- identity ------------------------------------------------------------------------------------------------------ */

START_TEST(revoke_soft_keeps_the_identity)
{
    for (size_t nodes = 2; nodes <= NODES_MAX; nodes++) {
        begin(nodes);
        revoke(false);
        tf_chain_settle(&chain);
        mention(Y, chain.x_at_y, "back", import);
        tf_chain_settle(&chain);
        ck_assert_uint_eq(find(X, TF_ROUTER_DELIVER, "back")->refs[0].local, object);
        mention(X, chain.y_at_x, "again", object);
        tf_chain_settle(&chain);
        ck_assert_uint_eq(find(Y, TF_ROUTER_DELIVER, "again")->refs[0].local, import);
        ck_assert_uint_eq(count(Y, TF_ROUTER_REVOKED, NULL), 1); /* the second REVOKE says nothing new */
        end();
    }
}
END_TEST

/* Y speaks of it once more: for X it is a stranger, and revoked. And so is what X mentions, for Y. */
START_TEST(revoke_hard_takes_the_identity)
{
    for (size_t nodes = 2; nodes <= NODES_MAX; nodes++) {
        begin(nodes);
        tf_chain_hold(&chain, X, object);
        revoke(true);
        tf_chain_settle(&chain);
        mention(Y, chain.x_at_y, "back", import);
        mention(X, chain.y_at_x, "again", object);
        tf_chain_settle(&chain);
        tf_local back = find(X, TF_ROUTER_DELIVER, "back")->refs[0].local;
        tf_local again = find(Y, TF_ROUTER_DELIVER, "again")->refs[0].local;
        ck_assert_uint_ne(back, object);
        ck_assert_uint_ne(again, import);
        (void)tf_chain_ask(&chain, X, back, "call");
        (void)find(X, TF_ROUTER_RESOLVED, "gone");
        (void)tf_chain_ask(&chain, Y, again, "call");
        (void)find(Y, TF_ROUTER_RESOLVED, "gone");
        end();
    }
}
END_TEST

START_TEST(revoke_soft_can_become_hard)
{
    for (size_t nodes = 2; nodes <= NODES_MAX; nodes++) {
        for (int at_once = 0; at_once < 2; at_once++) {
            begin(nodes);
            revoke(false);
            if (at_once == 0) {
                tf_chain_settle(&chain);
            }
            tf_chain_revoke(&chain, X, object, true, "gone_for_good");
            tf_chain_settle(&chain);
            const tf_chain_event *told = find(Y, TF_ROUTER_REVOKED, "gone_for_good");
            ck_assert(told->hard);
            (void)tf_chain_ask(&chain, Y, import, "call");
            (void)find(Y, TF_ROUTER_RESOLVED, "gone_for_good");
            mention(Y, chain.x_at_y, "back", import);
            tf_chain_settle(&chain);
            ck_assert_uint_ne(find(X, TF_ROUTER_DELIVER, "back")->refs[0].local, object);
            end();
        }
    }
}
END_TEST

/* -- mentions afterwards ------------------------------------------------------------------------------------------- */

/* The kinds of the messages that X has written and nobody has carried, as digits. */
static const char *written(void)
{
    static char kinds[16];
    size_t len = 0;
    tf_session *session = chain.net.lines[0].sessions[0];
    for (tf_slice bytes; tf_session_peek_out(session, &bytes);) {
        tf_message m;
        ck_assert_int_eq(tf_message_read(bytes, &m), TF_OK);
        kinds[len++] = (char)('0' + m.kind);
        ck_assert(tf_chain_right_one(&chain, X));
    }
    kinds[len] = '\0';
    return kinds;
}

START_TEST(revoke_follows_every_mention)
{
    begin(2);
    tf_chain_hold(&chain, X, object);
    revoke(false);
    ck_assert_str_eq(written(), "4");
    mention(X, chain.y_at_x, "again", object);
    ck_assert_str_eq(written(), "14");
    tf_chain_settle(&chain);
    mention(X, chain.y_at_x, "again", object);
    ck_assert_str_eq(written(), "14");
    tf_local asked = tf_chain_ask(&chain, Y, chain.x_at_y, "get");
    tf_chain_settle(&chain);
    tf_chain_resolve_to(&chain, X, find(X, TF_ROUTER_DELIVER, "get")->result, object);
    ck_assert_str_eq(written(), "24"); /* also in a resolution */
    ck_assert_uint_eq(find(Y, TF_ROUTER_RESOLVED, NULL)->local, asked);
    end();
}
END_TEST

/* A promise that is resolved to it: a call is answered with its error, wherever it meets that. */
START_TEST(revoke_of_what_a_promise_was_resolved_to)
{
    for (size_t nodes = 2; nodes <= NODES_MAX; nodes++) {
        begin(nodes);
        tf_local asked = tf_chain_ask(&chain, Y, chain.x_at_y, "get");
        tf_chain_settle(&chain);
        tf_chain_resolve_to(&chain, X, find(X, TF_ROUTER_DELIVER, "get")->result, object);
        revoke(false);
        (void)tf_chain_ask(&chain, Y, asked, "call");
        tf_chain_settle(&chain);
        (void)find(Y, TF_ROUTER_RESOLVED, "gone");
        ck_assert_uint_eq(count(X, TF_ROUTER_DELIVER, "call"), 0);
        end();
    }
}
END_TEST

/* -- whoever breaks the rules -------------------------------------------------------------------------------------- */

/* The ref of X's object on the line to Y. */
static tf_ref ref_of_object(void)
{
    tf_session_entry entry;
    uint64_t cursor = 0;
    while (tf_session_next_entry(chain.net.lines[0].sessions[0], &cursor, &entry)) {
        if (entry.local == object) {
            return entry.ref;
        }
    }
    ck_abort_msg("X does not export it");
}

/* A deliver of Y's that Y would not make: to `target`, or that mentions `mentioned` if that is not 0. */
static tf_err forge(tf_ref target, tf_ref mentioned)
{
    uint8_t bytes[64];
    tf_writer w;
    tf_session *session = chain.net.lines[0].sessions[0];
    tf_session_stats stats;
    tf_session_get_stats(session, &stats);
    tf_deliver deliver = {
        .target = target, .method = tf_slice_str("forged"), .refs = &mentioned, .ref_count = mentioned == 0 ? 0 : 1};
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_message_write_deliver(&w, stats.received, 0, &deliver);
    ck_assert(tf_wr_ok(&w));
    tf_err err = tf_router_recv(router(X), session, chain.net.now, tf_slice_of(bytes, tf_wr_len(&w)));
    tf_test_net_take(&chain.net, X);
    return err;
}

/* Both were told, X has the ack of that, and what was forged has ended the connection. */
static void end_forged(void)
{
    ck_assert_uint_eq(count(X, TF_ROUTER_DELIVER, "forged"), 0);
    tf_test_net_cut(&chain.net, 0);
    end();
}

START_TEST(revoke_soft_ends_the_right_to_target_with_its_ack)
{
    begin(2);
    tf_ref ref = ref_of_object();
    revoke(false);
    ck_assert_int_eq(forge(ref, 0), TF_OK); /* may have crossed */
    end_forged();
    begin(2);
    ref = ref_of_object();
    revoke(false);
    tf_chain_settle(&chain);
    ck_assert_int_eq(forge(ref, ref), TF_ERR_PEER_STATE);
    ck_assert_uint_eq(tf_session_get_fault(chain.net.lines[0].sessions[0]).got, ref);
    ck_assert_int_eq(forge(0, ref), TF_OK); /* it may be mentioned: refs 0 and 1 are the roots */
    tf_test_net_cut(&chain.net, 0);
    end();
}
END_TEST

START_TEST(revoke_soft_mention_gives_the_right_to_target_back)
{
    begin(2);
    tf_ref ref = ref_of_object();
    revoke(false);
    tf_chain_settle(&chain);
    mention(X, chain.y_at_x, "again", object);
    ck_assert_int_eq(forge(ref, 0), TF_OK);
    tf_test_net_cut(&chain.net, 0);
    end();
    begin(2);
    ref = ref_of_object();
    revoke(false);
    tf_chain_settle(&chain);
    mention(X, chain.y_at_x, "again", object);
    tf_chain_settle(&chain); /* until the new REVOKE is acked */
    ck_assert_int_eq(forge(ref, 0), TF_ERR_PEER_STATE);
    end_forged();
}
END_TEST

START_TEST(revoke_hard_is_taboo_after_its_ack)
{
    for (int how = 0; how < 4; how++) {
        begin(2);
        tf_ref ref = ref_of_object();
        bool targets = how % 2 == 0;
        revoke(true);
        if (how < 2) {
            tf_chain_settle(&chain);
        }
        tf_err err = targets ? forge(ref, 0) : forge(0, ref);
        ck_assert_int_eq(err, how < 2 ? TF_ERR_PEER_REF : TF_OK);
        tf_test_net_cut(&chain.net, 0);
        end();
    }
}
END_TEST

/* -- several importers --------------------------------------------------------------------------------------------- */

/* Y has heard of it and acked, Z has not: each has the rights that its own ack leaves it. */
START_TEST(revoke_is_acked_by_each_importer)
{
    begin(3);
    tf_chain_branch(&chain);
    mention(Y, chain.z_at_y, "give", import);
    tf_chain_settle(&chain);
    tf_local at_z = find(chain.branch, TF_ROUTER_DELIVER, "give")->refs[0].local;
    revoke(false);
    tf_chain_right(&chain, X); /* the relay tells both */
    (void)tf_chain_ask(&chain, chain.branch, at_z, "call");
    tf_chain_right(&chain, 1);
    (void)tf_chain_ask(&chain, Y, import, "call");
    (void)find(Y, TF_ROUTER_RESOLVED, "gone");
    ck_assert_uint_eq(count(chain.branch, TF_ROUTER_REVOKED, NULL), 0);
    tf_chain_settle(&chain);
    (void)find(chain.branch, TF_ROUTER_REVOKED, "gone");
    (void)find(chain.branch, TF_ROUTER_RESOLVED, "gone");
    ck_assert_uint_eq(count(X, TF_ROUTER_DELIVER, "call"), 0);
    end();
}
END_TEST

/* -- the host is lost (D14) ---------------------------------------------------------------------------------------- */

START_TEST(revoke_of_a_lost_host_is_disconnected)
{
    for (size_t nodes = 2; nodes <= NODES_MAX; nodes++) {
        for (size_t line = 0; line + 1 < nodes; line++) {
            begin(nodes);
            tf_local asked = tf_chain_ask(&chain, Y, import, "call");
            tf_test_net_cut(&chain.net, line);
            tf_chain_settle(&chain);
            bool known = false;
            for (size_t i = 0; i < count(Y, TF_ROUTER_REVOKED, "disconnected"); i++) {
                const tf_chain_event *e = tf_chain_find(&chain, Y, TF_ROUTER_REVOKED, "disconnected", i);
                ck_assert(!e->hard);
                known = known || e->local == import;
            }
            ck_assert(known);
            ck_assert_uint_eq(find(Y, TF_ROUTER_RESOLVED, "disconnected")->local, asked);
            tf_local later = tf_chain_ask(&chain, Y, import, "later");
            tf_chain_settle(&chain);
            ck_assert_uint_eq(tf_chain_find(&chain, Y, TF_ROUTER_RESOLVED, "disconnected", 1)->local, later);
            end();
        }
    }
}
END_TEST

/* What was revoked before keeps its error. */
START_TEST(revoke_before_the_host_was_lost_keeps_its_error)
{
    begin(3);
    revoke(false);
    tf_chain_settle(&chain);
    tf_test_net_cut(&chain.net, 0);
    tf_chain_settle(&chain);
    (void)tf_chain_ask(&chain, Y, import, "call");
    (void)find(Y, TF_ROUTER_RESOLVED, "gone");
    end();
}
END_TEST

/* -- use ----------------------------------------------------------------------------------------------------------- */

static tf_err try_revoke(size_t node, tf_local local, bool hard)
{
    tf_revocation revocation = {.object = local, .hard = hard, .data = tf_slice_str("no")};
    return tf_router_revoke(router(node), chain.net.now, &revocation);
}

START_TEST(revoke_is_the_hosts_and_once)
{
    begin(2);
    ck_assert_int_eq(try_revoke(Y, import, false), TF_ERR_USAGE);
    ck_assert_int_eq(try_revoke(X, tf_chain_object(&chain, X), false), TF_OK); /* nobody refers to it */
    revoke(false);
    ck_assert_int_eq(try_revoke(X, object, false), TF_ERR_USAGE);
    revoke(true);
    ck_assert_int_eq(try_revoke(X, object, true), TF_ERR_USAGE);
    tf_chain_settle(&chain);
    end();
}
END_TEST

/* Nor when it is mentioned like any other object. */
START_TEST(revoke_of_a_root_is_refused)
{
    begin(2);
    tf_local root = chain.net.nodes[X].root;
    ck_assert_int_eq(try_revoke(X, root, false), TF_ERR_USAGE);
    mention(X, chain.y_at_x, "root", root);
    tf_chain_settle(&chain);
    ck_assert_int_eq(try_revoke(X, root, false), TF_ERR_USAGE);
    (void)tf_chain_ask(&chain, Y, tf_test_net_root(&chain.net, 0, Y), "call");
    tf_chain_settle(&chain);
    ck_assert_uint_eq(find(X, TF_ROUTER_DELIVER, "call")->local, root);
    tf_chain_answer_all(&chain, X, "");
    end();
}
END_TEST

/* The error names a promise that was resolved to data that names the object: each mention of it tells both once more, and no
 * more than that. */
START_TEST(revoke_error_that_leads_back_to_its_object_is_told_once_a_message)
{
    for (size_t nodes = 2; nodes <= 3; nodes++) {
        begin(nodes);
        tf_local promise = tf_chain_promise(&chain, X);
        tf_mention refs[] = {{promise, TF_REF_PROMISE}};
        tf_revocation revocation = {.object = object, .data = tf_slice_str("gone"), .refs = refs, .ref_count = 1};
        ck_assert_int_eq(tf_router_revoke(router(X), chain.net.now, &revocation), TF_OK);
        tf_chain_resolve(&chain, X, promise, "data", &(tf_mention){object, TF_REF_OBJECT}, 1);
        tf_chain_settle(&chain);
        uint64_t carried = chain.net.carried;
        mention(X, chain.y_at_x, "again", object);
        tf_chain_settle(&chain);
        ck_assert_uint_lt(chain.net.carried - carried, 12 * nodes);
        end();
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        revoke_is_known_to_the_importer_who_rejects_by_himself,
        revoke_is_known_to_a_relay_that_rejects_by_itself,
        revoke_error_takes_its_mentions_along,
        revoke_soft_keeps_the_identity,
        revoke_hard_takes_the_identity,
        revoke_soft_can_become_hard,
        revoke_follows_every_mention,
        revoke_of_what_a_promise_was_resolved_to,
        revoke_soft_ends_the_right_to_target_with_its_ack,
        revoke_soft_mention_gives_the_right_to_target_back,
        revoke_hard_is_taboo_after_its_ack,
        revoke_is_acked_by_each_importer,
        revoke_of_a_lost_host_is_disconnected,
        revoke_before_the_host_was_lost_keeps_its_error,
        revoke_is_the_hosts_and_once,
        revoke_of_a_root_is_refused,
        revoke_error_that_leads_back_to_its_object_is_told_once_a_message,
        NULL,
    };
    return tf_test_run("node/router, revocation", tests);
}
