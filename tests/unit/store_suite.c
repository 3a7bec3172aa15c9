#include "tests/support/check_main.h"
#include "tests/unit/store_suite_internal.h"

#define TESTS_MAX 64u

const suite_store *suite_impl;
tf_store suite_it;

void suite_begin(void)
{
    suite_it = suite_impl->open(suite_impl->ctx);
}

void suite_end(void)
{
    suite_impl->close(suite_impl->ctx);
}

/* Where it is kept over the end of the process: it ends and begins again. */
void suite_again(void)
{
    if (suite_impl->reopen != NULL) {
        suite_it = suite_impl->reopen(suite_impl->ctx);
    }
}

static void suite_wait_for(tf_store_event_type wanted)
{
    tf_store_event_type type;
    for (;;) {
        while (!suite_it.table->poll(suite_it.ctx, &type)) {
            ck_assert_msg(suite_impl->settle != NULL, "nothing comes");
            suite_impl->settle(suite_impl->ctx);
        }
        if (type == wanted) {
            return;
        }
    }
}

void suite_submit(tf_store_op *ops, size_t count)
{
    tf_store_group group = {ops, count};
    for (size_t i = 0; i < count; i++) {
        ops[i].outcome = TF_REFUSAL_INTERNAL; /* to be overwritten */
    }
    suite_it.table->submit(suite_it.ctx, &group);
    suite_wait_for(TF_STORE_GROUP_DONE);
}

void suite_submit_all(tf_store_op *ops, size_t count)
{
    suite_submit(ops, count);
    for (size_t i = 0; i < count; i++) {
        ck_assert_msg(ops[i].outcome == TF_REFUSAL_NONE, "op %zu: %s", i, tf_refusal_name(ops[i].outcome));
    }
}

tf_store_presence suite_read_at(uint64_t channel, uint64_t seq, tf_stored *out)
{
    tf_store_presence presence = suite_it.table->read(suite_it.ctx, channel, seq, out);
    while (presence == TF_STORE_LATER) {
        suite_wait_for(TF_STORE_READ_READY);
        presence = suite_it.table->read(suite_it.ctx, channel, seq, out);
    }
    return presence;
}

uint64_t suite_make_channel(const char *name)
{
    tf_store_op op = {.kind = TF_STORE_CREATE, .name = tf_slice_str(name), .epoch = SUITE_EPOCH};
    suite_submit_all(&op, 1);
    return op.channel;
}

tf_store_channel suite_find_channel(const char *name)
{
    tf_store_channel found;
    ck_assert_int_eq(suite_it.table->channel_find(suite_it.ctx, tf_slice_str(name), &found), TF_OK);
    ck_assert(tf_slice_eq(found.name, tf_slice_str(name)));
    return found;
}

tf_node_id suite_node_of(uint8_t number)
{
    tf_node_id id;
    memset(id.bytes, number, sizeof(id.bytes));
    return id;
}

tf_store_op suite_append_op(uint64_t channel, uint64_t seq, uint8_t origin, tf_slice client_id, tf_slice body)
{
    return (tf_store_op){.kind = TF_STORE_APPEND,
                         .channel = channel,
                         .message = {.seq = seq,
                                     .timestamp_ms = (int64_t)seq * 10,
                                     .epoch = SUITE_EPOCH,
                                     .origin = suite_node_of(origin),
                                     .client_id = client_id,
                                     .body = body}};
}

/* Client ids c-1, c-2 ... by seq. */
tf_slice suite_id_of(uint64_t seq, char buf[32])
{
    int len = snprintf(buf, 32, "c-%llu", (unsigned long long)seq);
    return tf_slice_of(buf, len > 0 ? (size_t)len : 0);
}

tf_refusal suite_append_one(uint64_t channel, uint64_t seq, size_t body_len)
{
    static uint8_t body[4096];
    char id[32];
    memset(body, (int)(seq % 251), sizeof(body));
    tf_store_op op = suite_append_op(channel, seq, 1, suite_id_of(seq, id), tf_slice_of(body, body_len));
    suite_submit(&op, 1);
    return op.outcome;
}

void suite_append_range(uint64_t channel, uint64_t from, uint64_t to, size_t body_len)
{
    for (uint64_t seq = from; seq <= to; seq++) {
        ck_assert_int_eq(suite_append_one(channel, seq, body_len), TF_REFUSAL_NONE);
    }
}

void suite_change(tf_store_op_kind kind, uint64_t channel, uint64_t value)
{
    tf_store_op op = {.kind = kind, .channel = channel, .seq = value, .time_ms = (int64_t)value, .epoch = value};
    suite_submit_all(&op, 1);
}

tf_err suite_find_key(uint64_t channel, uint8_t origin, tf_slice client_id, tf_store_key *out)
{
    tf_node_id id = suite_node_of(origin);
    return suite_it.table->find(suite_it.ctx, channel, &id, client_id, out);
}

/* The key of c-<seq> of origin 1: there, and of that message? */
bool suite_has_key(uint64_t channel, uint64_t seq)
{
    char id[32];
    tf_store_key key;
    return suite_find_key(channel, 1, suite_id_of(seq, id), &key) == TF_OK && key.seq == seq;
}

/* -- cursors ------------------------------------------------------------------------------------------------------- */

tf_store_op suite_cursor_op(uint64_t channel, uint8_t owner, const char *name, uint64_t next)
{
    return (tf_store_op){.kind = TF_STORE_CURSOR,
                         .channel = channel,
                         .cursor = {.channel = channel,
                                    .owner = suite_node_of(owner),
                                    .name = tf_slice_str(name),
                                    .epoch = SUITE_EPOCH + next,
                                    .next = next,
                                    .moved_ms = (int64_t)next * 7}};
}

/* Its position; 0: there is none. */
uint64_t suite_cursor_at(uint64_t channel, uint8_t owner, const char *name)
{
    tf_store_cursor found;
    tf_node_id id = suite_node_of(owner);
    tf_err err = suite_it.table->cursor_find(suite_it.ctx, channel, &id, tf_slice_str(name), &found);
    ck_assert(err == TF_OK || err == TF_ERR_CLOSED);
    if (err != TF_OK) {
        return 0;
    }
    ck_assert(found.channel == channel && tf_node_id_eq(&found.owner, &id));
    ck_assert(tf_slice_eq(found.name, tf_slice_str(name)) && found.epoch == SUITE_EPOCH + found.next);
    ck_assert_int_eq(found.moved_ms, (int64_t)found.next * 7);
    return found.next;
}

size_t suite_count_cursors(uint64_t channel)
{
    tf_store_cursor found;
    size_t position = 0;
    size_t count = 0;
    while (suite_it.table->cursor_next(suite_it.ctx, channel, &position, &found)) {
        ck_assert_uint_eq(found.channel, channel);
        count++;
    }
    return count;
}

/* -- all of it ----------------------------------------------------------------------------------------------------- */

int store_suite_run(const char *module, const suite_store *tested)
{
    static const TTest *all[TESTS_MAX + 1];
    const TTest *const *const parts[] = {suite_tests_basic(), suite_tests_keep(), suite_tests_room(),
                                         suite_tests_model()};
    size_t count = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        for (size_t k = 0; parts[i][k] != NULL; k++) {
            if (count == TESTS_MAX) {
                abort();
            }
            all[count++] = parts[i][k];
        }
    }
    all[count] = NULL;
    suite_impl = tested;
    return tf_test_run_waiting(module, all);
}
