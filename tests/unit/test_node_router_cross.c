/* What crosses on the way (PROTOCOL.md, X1 to X16): two parties, and through one and two relays, X at the left end and Y at the
 * right one. Each pair of deeds is tried with every place where their messages can meet, one of which is at the ends: one deed
 * has come all the way before the other is done. */
#include "tests/support/check_main.h"
#include "tests/support/ref_chain.h"
#include "tests/support/support.h"

#define NODES_MAX 4u
#define X 0u
#define Y (chain.last)

static tf_chain chain;
static tf_local object;    /* X's, in hand of the deeds */
static tf_local import;    /* the same at Y */
static tf_local promise;   /* at X, decided by Y */
static tf_local result;    /* the same at Y */
static size_t gone_before; /* how often X had heard that nobody needs its object when it mentioned it */

typedef struct crossing {
    void (*before)(void);
    void (*x_does)(void);
    void (*y_does)(void);
    void (*after)(void); /* all has come; acks may be due */
    size_t not_first;    /* 1: X cannot do it any more when it has heard of Y's deed */
    size_t not_last;     /* 1: Y cannot when it has heard of X's */
} crossing;

/* -- where they meet ----------------------------------------------------------------------------------------------- */

/* What X has sent comes to this node; and what Y has. */
static void come_from_x(size_t node)
{
    for (size_t i = 0; i < node; i++) {
        tf_chain_right(&chain, i);
    }
}

static void come_from_y(size_t node)
{
    for (size_t i = Y; i > node; i--) {
        tf_chain_left(&chain, i);
    }
}

/* place 0: Y's deed has come to X before X does his; place nodes: the other way round; else they meet on line place - 1, and
 * left says which end of it hears first. */
static void meet(const crossing *c, size_t place, bool left)
{
    if (place == 0) {
        c->y_does();
        come_from_y(X);
        c->x_does();
    } else if (place > Y) {
        c->x_does();
        come_from_x(Y);
        c->y_does();
    } else {
        c->x_does();
        c->y_does();
        come_from_x(place - 1);
        come_from_y(place);
        if (left) {
            tf_chain_left(&chain, place);
        }
        tf_chain_right(&chain, place - 1);
    }
    tf_test_net_run(&chain.net);
}

static void try_all(const crossing *c)
{
    for (size_t nodes = 2; nodes <= NODES_MAX; nodes++) {
        for (size_t i = 2 * c->not_first; i < 2 * (nodes + 1 - c->not_last); i++) {
            tf_chain_begin(&chain, nodes);
            c->before();
            meet(c, i / 2, i % 2 == 0);
            c->after();
            tf_chain_settle(&chain);
            ck_assert_msg(tf_chain_end(&chain), "%zu nodes, place %zu: something is left", nodes, i / 2);
        }
    }
    ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, 0);
}

/* -- what they do -------------------------------------------------------------------------------------------------- */

static size_t count(size_t node, tf_router_event_type type, const char *text)
{
    return tf_chain_count(&chain, node, type, text);
}

static const tf_chain_event *find(size_t node, tf_router_event_type type, const char *text)
{
    const tf_chain_event *e = tf_chain_find(&chain, node, type, text, 0);
    ck_assert_msg(e != NULL && count(node, type, text) == 1, "%s is not there once", text);
    return e;
}

static void y_gets_object(void)
{
    object = tf_chain_object(&chain, X);
    tf_mention mention = {object, TF_REF_OBJECT};
    tf_chain_send(&chain, X, chain.y_at_x, "give", &mention, 1);
    tf_chain_settle(&chain);
    import = find(Y, TF_ROUTER_DELIVER, "give")->refs[0].local;
}

static void x_asks(void)
{
    promise = tf_chain_ask(&chain, X, chain.y_at_x, "get");
    tf_chain_settle(&chain);
    result = find(Y, TF_ROUTER_DELIVER, "get")->result;
}

static void x_mentions_object(void)
{
    gone_before = count(X, TF_ROUTER_GONE, NULL);
    tf_mention mention = {object, TF_REF_OBJECT};
    tf_chain_send(&chain, X, chain.y_at_x, "again", &mention, 1);
}

static void y_mentions_import(void)
{
    tf_mention mention = {import, TF_REF_OBJECT};
    tf_chain_send(&chain, Y, chain.x_at_y, "back", &mention, 1);
}

static void x_mentions_promise(void)
{
    tf_mention mention = {promise, TF_REF_PROMISE};
    tf_chain_send(&chain, X, chain.y_at_x, "take", &mention, 1);
}

static void y_forgets(void)
{
    tf_chain_forget(&chain, Y, import);
}

static void x_forgets_promise(void)
{
    tf_chain_forget(&chain, X, promise);
}

static void y_resolves_to_data(void)
{
    tf_chain_resolve(&chain, Y, result, "hi", NULL, 0);
}

static void y_resolves_to_data_with_object(void)
{
    tf_mention mention = {tf_chain_object(&chain, Y), TF_REF_OBJECT};
    tf_chain_resolve(&chain, Y, result, "hi", &mention, 1);
}

static void y_resolves_to_object(void)
{
    tf_chain_resolve_to(&chain, Y, result, tf_chain_object(&chain, Y));
}

static void y_rejects_with_object(void)
{
    tf_mention mention = {tf_chain_object(&chain, Y), TF_REF_OBJECT};
    tf_chain_reject(&chain, Y, result, "no", &mention, 1);
}

static void x_calls_promise(void)
{
    (void)tf_chain_ask(&chain, X, promise, "call");
}

static void x_revokes_soft(void)
{
    tf_chain_revoke(&chain, X, object, false, "gone");
}

static void x_revokes_hard(void)
{
    tf_chain_revoke(&chain, X, object, true, "gone");
}

static void y_calls_import(void)
{
    (void)tf_chain_ask(&chain, Y, import, "call");
}

/* -- drop x mention, drop x drop ----------------------------------------------------------------------------------- */

/* Y can use what it got again, and X has heard of no end of it since. */
static void mention_is_alive(void)
{
    ck_assert_uint_eq(count(X, TF_ROUTER_GONE, NULL), gone_before);
    tf_local again = find(Y, TF_ROUTER_DELIVER, "again")->refs[0].local;
    (void)tf_chain_ask(&chain, Y, again, "call");
    tf_chain_settle(&chain);
    ck_assert_uint_eq(find(X, TF_ROUTER_DELIVER, "call")->local, object);
    tf_chain_answer_all(&chain, X, "done");
    tf_chain_settle(&chain);
    (void)find(Y, TF_ROUTER_RESOLVED, "done");
    tf_chain_forget(&chain, Y, again);
    tf_chain_settle(&chain);
    ck_assert_uint_eq(count(X, TF_ROUTER_GONE, NULL), gone_before + 1);
}

START_TEST(cross_drop_and_mention)
{
    try_all(&(crossing){y_gets_object, x_mentions_object, y_forgets, mention_is_alive, 0, 0});
}
END_TEST

static void both_get_an_object(void)
{
    y_gets_object();
    tf_mention mention = {tf_chain_object(&chain, Y), TF_REF_OBJECT};
    tf_chain_send(&chain, Y, chain.x_at_y, "give", &mention, 1);
    tf_chain_settle(&chain);
    promise = find(X, TF_ROUTER_DELIVER, "give")->refs[0].local;
}

static void both_are_gone(void)
{
    tf_chain_settle(&chain);
    ck_assert_uint_eq(find(X, TF_ROUTER_GONE, NULL)->local, object);
    (void)find(Y, TF_ROUTER_GONE, NULL);
}

START_TEST(cross_drop_and_drop)
{
    try_all(&(crossing){both_get_an_object, x_forgets_promise, y_forgets, both_are_gone, 0, 0});
}
END_TEST

/* The relay keeps for Z what Y drops; and drops it itself when Z does, not before. */
START_TEST(drop_by_one_importer_leaves_the_other)
{
    tf_chain_begin(&chain, 3);
    tf_chain_branch(&chain);
    y_gets_object();
    tf_chain_send(&chain, Y, chain.z_at_y, "give", &(tf_mention){import, TF_REF_OBJECT}, 1);
    y_forgets();
    tf_chain_settle(&chain);
    ck_assert_uint_eq(count(X, TF_ROUTER_GONE, NULL), 0);
    tf_local at_z = find(chain.branch, TF_ROUTER_DELIVER, "give")->refs[0].local;
    tf_chain_send(&chain, chain.branch, at_z, "call", NULL, 0);
    tf_chain_forget(&chain, chain.branch, at_z); /* while the relay is told of Y's new import */
    x_mentions_object();
    tf_chain_settle(&chain);
    ck_assert_uint_eq(find(X, TF_ROUTER_DELIVER, "call")->local, object);
    ck_assert_uint_eq(count(X, TF_ROUTER_GONE, NULL), 0);
    tf_chain_forget(&chain, Y, find(Y, TF_ROUTER_DELIVER, "again")->refs[0].local);
    tf_chain_settle(&chain);
    ck_assert_uint_eq(find(X, TF_ROUTER_GONE, NULL)->local, object);
    ck_assert(tf_chain_end(&chain));
    ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, 0);
}
END_TEST

/* -- resolve x drop, send, mention, resolve ------------------------------------------------------------------------ */

static void answer_is_gone(void)
{
    tf_chain_settle(&chain);
    ck_assert_uint_eq(count(X, TF_ROUTER_RESOLVED, NULL), 0);
    ck_assert_uint_le(count(Y, TF_ROUTER_GONE, NULL), 2); /* the object, and the promise if it was dropped before */
    ck_assert_uint_ge(count(Y, TF_ROUTER_GONE, NULL), 1);
}

START_TEST(cross_drop_and_resolve)
{
    try_all(&(crossing){x_asks, x_forgets_promise, y_resolves_to_data_with_object, answer_is_gone, 1, 0});
}
END_TEST

static void call_is_rejected_for_data(void)
{
    tf_chain_settle(&chain);
    (void)find(X, TF_ROUTER_RESOLVED, "hi");
    ck_assert_int_eq(find(X, TF_ROUTER_RESOLVED, "cannot_send_to_data")->kind, TF_RESOLUTION_REJECTION);
    ck_assert_uint_eq(count(Y, TF_ROUTER_DELIVER, "call"), 0);
}

START_TEST(cross_resolve_to_data_and_send)
{
    try_all(&(crossing){x_asks, x_calls_promise, y_resolves_to_data, call_is_rejected_for_data, 1, 0});
}
END_TEST

static void call_is_rejected_alike(void)
{
    tf_chain_settle(&chain);
    ck_assert_uint_eq(count(X, TF_ROUTER_RESOLVED, "no"), 2);
    const tf_chain_event *first = tf_chain_find(&chain, X, TF_ROUTER_RESOLVED, "no", 0);
    const tf_chain_event *second = tf_chain_find(&chain, X, TF_ROUTER_RESOLVED, "no", 1);
    ck_assert_int_eq(second->kind, TF_RESOLUTION_REJECTION);
    ck_assert_uint_eq(second->ref_count, 1);
    ck_assert_uint_eq(second->refs[0].local, first->refs[0].local); /* the very object */
}

START_TEST(cross_reject_and_send)
{
    try_all(&(crossing){x_asks, x_calls_promise, y_rejects_with_object, call_is_rejected_alike, 1, 0});
}
END_TEST

static void call_has_arrived(void)
{
    tf_chain_answer_all(&chain, Y, "done");
    tf_chain_settle(&chain);
    (void)find(Y, TF_ROUTER_DELIVER, "call");
    (void)find(X, TF_ROUTER_RESOLVED, "done");
}

START_TEST(cross_resolve_to_object_and_send)
{
    try_all(&(crossing){x_asks, x_calls_promise, y_resolves_to_object, call_has_arrived, 1, 0});
}
END_TEST

static void mention_is_resolved(void)
{
    tf_chain_settle(&chain);
    tf_local taken = find(Y, TF_ROUTER_DELIVER, "take")->refs[0].local;
    bool told = false;
    for (size_t i = 0; i < count(Y, TF_ROUTER_RESOLVED, "hi"); i++) {
        told = told || tf_chain_find(&chain, Y, TF_ROUTER_RESOLVED, "hi", i)->local == taken;
    }
    ck_assert(told);
    (void)find(X, TF_ROUTER_RESOLVED, "hi");
}

START_TEST(cross_resolve_and_mention)
{
    try_all(&(crossing){x_asks, x_mentions_promise, y_resolves_to_data, mention_is_resolved, 1, 0});
}
END_TEST

static tf_local own[2], others[2]; /* promises that X and Y decide, and what they are at the other end */

static void both_get_a_promise(void)
{
    own[0] = tf_chain_promise(&chain, X);
    own[1] = tf_chain_promise(&chain, Y);
    tf_chain_send(&chain, X, chain.y_at_x, "give", &(tf_mention){own[0], TF_REF_PROMISE}, 1);
    tf_chain_send(&chain, Y, chain.x_at_y, "give", &(tf_mention){own[1], TF_REF_PROMISE}, 1);
    tf_chain_settle(&chain);
    others[0] = find(X, TF_ROUTER_DELIVER, "give")->refs[0].local;
    others[1] = find(Y, TF_ROUTER_DELIVER, "give")->refs[0].local;
}

static void x_resolves_to_y(void)
{
    tf_chain_resolve(&chain, X, own[0], "a", &(tf_mention){others[0], TF_REF_PROMISE}, 1);
}

static void y_resolves_to_x(void)
{
    tf_chain_resolve(&chain, Y, own[1], "b", &(tf_mention){others[1], TF_REF_PROMISE}, 1);
}

static void both_know_both(void)
{
    tf_chain_settle(&chain);
    for (size_t i = 0; i < 2; i++) {
        size_t node = i == 0 ? X : Y;
        ck_assert_uint_ge(count(node, TF_ROUTER_RESOLVED, "a"), 1);
        ck_assert_uint_ge(count(node, TF_ROUTER_RESOLVED, "b"), 1);
        ck_assert_uint_eq(tf_chain_find(&chain, node, TF_ROUTER_RESOLVED, "a", 0)->ref_count, 1);
        ck_assert_uint_eq(tf_chain_find(&chain, node, TF_ROUTER_RESOLVED, "b", 0)->ref_count, 1);
    }
}

START_TEST(cross_resolve_and_resolve)
{
    try_all(&(crossing){both_get_a_promise, x_resolves_to_y, y_resolves_to_x, both_know_both, 1, 1});
}
END_TEST

/* -- revoke x drop, send, mention ---------------------------------------------------------------------------------- */

static void nothing_is_left_at_x(void)
{
    tf_chain_settle(&chain);
    ck_assert_uint_eq(find(X, TF_ROUTER_GONE, NULL)->local, object);
}

static void x_revokes_soft_and_names(void)
{
    tf_mention mention = {tf_chain_object(&chain, X), TF_REF_OBJECT};
    tf_revocation revocation = {.object = object, .data = tf_slice_str("gone"), .refs = &mention, .ref_count = 1};
    ck_assert_int_eq(tf_router_revoke(chain.net.nodes[X].router, chain.net.now, &revocation), TF_OK);
    tf_test_net_take(&chain.net, X);
}

/* What the error names is gone, too, unless nobody was there to be told. */
static void both_are_gone_at_x(void)
{
    tf_chain_settle(&chain);
    for (size_t i = chain.held_count; i > 0; i--) { /* Y was told, and holds what the error names */
        if (chain.held[i - 1].node == Y && chain.held[i - 1].local != chain.x_at_y) {
            tf_chain_forget(&chain, Y, chain.held[i - 1].local);
        }
    }
    tf_chain_settle(&chain);
    ck_assert_uint_ge(count(X, TF_ROUTER_GONE, NULL), 1);
}

START_TEST(cross_revoke_soft_and_drop)
{
    try_all(&(crossing){y_gets_object, x_revokes_soft_and_names, y_forgets, both_are_gone_at_x, 0, 0});
    try_all(&(crossing){y_gets_object, x_revokes_soft, y_forgets, nothing_is_left_at_x, 0, 0});
}
END_TEST

START_TEST(cross_revoke_hard_and_drop)
{
    try_all(&(crossing){y_gets_object, x_revokes_hard, y_forgets, nothing_is_left_at_x, 0, 0});
}
END_TEST

/* The call has come before the revocation, or it is rejected with the error. */
static void call_is_answered_or_rejected(void)
{
    tf_chain_answer_all(&chain, X, "done");
    tf_chain_settle(&chain);
    ck_assert_uint_eq(find(Y, TF_ROUTER_REVOKED, "gone")->local, import);
    size_t arrived = count(X, TF_ROUTER_DELIVER, "call");
    ck_assert_uint_le(arrived, 1);
    (void)find(Y, TF_ROUTER_RESOLVED, arrived == 1 ? "done" : "gone");
    (void)tf_chain_ask(&chain, Y, import, "later");
    tf_chain_settle(&chain);
    ck_assert_uint_eq(count(X, TF_ROUTER_DELIVER, "later"), 0);
    ck_assert_uint_eq(count(Y, TF_ROUTER_RESOLVED, NULL), 2);
}

START_TEST(cross_revoke_soft_and_send)
{
    try_all(&(crossing){y_gets_object, x_revokes_soft, y_calls_import, call_is_answered_or_rejected, 0, 0});
}
END_TEST

START_TEST(cross_revoke_hard_and_send)
{
    try_all(&(crossing){y_gets_object, x_revokes_hard, y_calls_import, call_is_answered_or_rejected, 0, 0});
}
END_TEST

/* X gets its own object back, the very one. */
static void own_object_has_come_back(void)
{
    tf_chain_settle(&chain);
    ck_assert_uint_eq(find(X, TF_ROUTER_DELIVER, "back")->refs[0].local, object);
    ck_assert_uint_eq(find(Y, TF_ROUTER_REVOKED, "gone")->local, import);
}

START_TEST(cross_revoke_soft_and_mention_by_the_importer)
{
    try_all(&(crossing){y_gets_object, x_revokes_soft, y_mentions_import, own_object_has_come_back, 0, 0});
}
END_TEST

/* X gets its own object, or a stranger that is revoked, if a node on the way had processed the revocation (D12). */
static void something_revoked_has_come_back(void)
{
    tf_chain_settle(&chain);
    tf_local back = find(X, TF_ROUTER_DELIVER, "back")->refs[0].local;
    (void)tf_chain_ask(&chain, X, back, "call");
    tf_chain_settle(&chain);
    (void)find(X, TF_ROUTER_RESOLVED, "gone");
    ck_assert_uint_eq(find(Y, TF_ROUTER_REVOKED, "gone")->local, import);
}

START_TEST(cross_revoke_hard_and_mention_by_the_importer)
{
    try_all(&(crossing){y_gets_object, x_revokes_hard, y_mentions_import, something_revoked_has_come_back, 0, 0});
}
END_TEST

static void x_revokes_soft_and_mentions(void)
{
    x_revokes_soft();
    x_mentions_object();
}

static void x_revokes_hard_and_mentions(void)
{
    x_revokes_hard();
    x_mentions_object();
}

/* Y drops meanwhile what it had. What is mentioned is known to be revoked. */
static void mention_is_revoked(void)
{
    tf_chain_settle(&chain);
    tf_local again = find(Y, TF_ROUTER_DELIVER, "again")->refs[0].local;
    const tf_chain_event *revoked = NULL;
    for (size_t i = 0; i < count(Y, TF_ROUTER_REVOKED, "gone"); i++) {
        const tf_chain_event *e = tf_chain_find(&chain, Y, TF_ROUTER_REVOKED, "gone", i);
        revoked = e->local == again ? e : revoked;
    }
    ck_assert_ptr_nonnull(revoked);
    ck_assert(!revoked->hard);
    (void)tf_chain_ask(&chain, Y, again, "call");
    tf_chain_settle(&chain);
    (void)find(Y, TF_ROUTER_RESOLVED, "gone");
    ck_assert_uint_eq(count(X, TF_ROUTER_DELIVER, "call"), 0);
}

static void x_holds_object(void)
{
    y_gets_object();
    tf_chain_hold(&chain, X, object);
}

START_TEST(cross_revoke_soft_and_mention_by_the_exporter)
{
    try_all(&(crossing){x_holds_object, x_revokes_soft_and_mentions, y_forgets, mention_is_revoked, 0, 0});
}
END_TEST

START_TEST(cross_revoke_hard_and_mention_by_the_exporter)
{
    try_all(&(crossing){x_holds_object, x_revokes_hard_and_mentions, y_forgets, mention_is_revoked, 0, 0});
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        cross_drop_and_mention,
        cross_drop_and_drop,
        drop_by_one_importer_leaves_the_other,
        cross_drop_and_resolve,
        cross_resolve_to_data_and_send,
        cross_reject_and_send,
        cross_resolve_to_object_and_send,
        cross_resolve_and_mention,
        cross_resolve_and_resolve,
        cross_revoke_soft_and_drop,
        cross_revoke_hard_and_drop,
        cross_revoke_soft_and_send,
        cross_revoke_hard_and_send,
        cross_revoke_soft_and_mention_by_the_importer,
        cross_revoke_hard_and_mention_by_the_importer,
        cross_revoke_soft_and_mention_by_the_exporter,
        cross_revoke_hard_and_mention_by_the_exporter,
        NULL,
    };
    return tf_test_run("node/router, crossings", tests);
}
