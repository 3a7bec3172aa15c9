/* proto/message: any bytes are read without a fault; what is read has the right shape, is written within the bounds, and
 * is read again as the same. Input: a message. */
#include <stdlib.h>

#include "proto/message.h"
#include "proto/mp.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/support.h"

typedef struct refs {
    tf_ref at[TF_REFS_PER_MESSAGE];
    size_t count;
} refs;

static refs take_refs(tf_ref_list list)
{
    refs taken = {.count = 0};
    TF_ASSERT(list.count <= TF_REFS_PER_MESSAGE);
    tf_ref ref = 0;
    while (tf_refs_next(&list, &ref)) {
        taken.at[taken.count++] = ref;
    }
    TF_ASSERT(list.wire.len == 0);
    return taken;
}

static void write_deliver(tf_writer *w, const tf_message *m)
{
    refs taken = take_refs(m->refs);
    const tf_deliver deliver = {.target = m->target,
                                .method = m->method,
                                .args = m->args,
                                .refs = taken.at,
                                .ref_count = taken.count,
                                .has_result = m->has_result,
                                .result = m->result};
    tf_message_write_deliver(w, m->number, m->ack_delta, &deliver);
    TF_ASSERT(tf_wr_len(w) <= tf_message_deliver_bound(m->method.len, m->args.len, taken.count));
}

static void write_resolve(tf_writer *w, const tf_message *m)
{
    tf_resolution_list list = m->resolutions;
    tf_message_write_resolve_head(w, m->number, m->ack_delta, list.count);
    tf_resolution resolution;
    while (tf_resolutions_next(&list, &resolution)) {
        size_t before = tf_wr_len(w);
        refs taken = take_refs(resolution.refs);
        if (resolution.kind == TF_RESOLUTION_OBJECT) {
            tf_message_write_resolution_object(w, resolution.promise, resolution.object);
        } else {
            tf_told told = {.ref = resolution.promise,
                            .mode = (unsigned)resolution.kind,
                            .data = resolution.data,
                            .refs = taken.at,
                            .ref_count = taken.count,
                            .hops = resolution.hops};
            tf_message_write_told(w, &told);
        }
        TF_ASSERT(tf_wr_len(w) - before <= tf_message_resolution_bound(resolution.data.len, taken.count));
    }
    TF_ASSERT(list.wire.len == 0);
}

static void write_revoke(tf_writer *w, const tf_message *m)
{
    tf_revocation_list list = m->revocations;
    tf_message_write_revoke_head(w, m->number, m->ack_delta, list.count);
    tf_revoked revoked;
    while (tf_revocations_next(&list, &revoked)) {
        size_t before = tf_wr_len(w);
        refs taken = take_refs(revoked.refs);
        tf_told told = {.ref = revoked.object,
                        .mode = revoked.hard ? 1 : 0,
                        .data = revoked.data,
                        .refs = taken.at,
                        .ref_count = taken.count,
                        .hops = revoked.hops};
        tf_message_write_told(w, &told);
        TF_ASSERT(tf_wr_len(w) - before == tf_message_told_len(&told));
    }
    TF_ASSERT(list.wire.len == 0);
}

static void write_message(tf_writer *w, const tf_message *m)
{
    switch (m->kind) {
    case TF_MESSAGE_DELIVER:
        write_deliver(w, m);
        return;
    case TF_MESSAGE_RESOLVE:
        write_resolve(w, m);
        return;
    case TF_MESSAGE_DROP: {
        refs taken = take_refs(m->refs);
        tf_message_write_drop(w, m->number, m->ack_delta, taken.at, taken.count);
        return;
    }
    case TF_MESSAGE_REVOKE:
        write_revoke(w, m);
        return;
    case TF_MESSAGE_ACK:
        tf_message_write_ack(w, m->number, m->ack_delta);
        return;
    }
    TF_UNREACHABLE();
}

/* Writes into a block of that size, which the caller frees. */
static uint8_t *write_into(const tf_message *m, size_t cap, size_t *len)
{
    uint8_t *block = malloc(cap);
    TF_ASSERT(block != NULL);
    tf_writer w;
    tf_wr_init(&w, block, cap);
    write_message(&w, m);
    TF_ASSERT(tf_wr_ok(&w));
    *len = tf_wr_len(&w);
    return block;
}

static void assert_comes_back(const tf_message *m, size_t was)
{
    size_t first_len = 0;
    size_t second_len = 0;
    uint8_t *first = write_into(m, was, &first_len); /* the shortest form; a number that was nil is written as 0 */
    tf_message again;
    TF_ASSERT(tf_message_read(tf_slice_of(first, first_len), &again) == TF_OK);
    TF_ASSERT(again.has_number && again.kind == m->kind && again.number == m->number);
    uint8_t *second = write_into(&again, first_len, &second_len);
    TF_ASSERT(tf_slice_eq(tf_slice_of(first, first_len), tf_slice_of(second, second_len)));
    free(first);
    free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *exact = tf_test_exact(tf_slice_of(data, size));
    tf_slice in = tf_slice_of(exact, size);
    tf_message message;
    uint8_t before[sizeof(message)];
    uint8_t after[sizeof(message)];
    memset(&message, 0x5a, sizeof(message));
    memset(before, 0x5a, sizeof(before));
    tf_err err = tf_message_read(in, &message);
    if (err == TF_OK) {
        TF_ASSERT(tf_mp_check(in, TF_MP_DEPTH_MAX, TF_MP_ITEMS_MAX) == TF_OK);
        assert_comes_back(&message, size);
    } else {
        TF_ASSERT(err == TF_ERR_PEER_SYNTAX || err == TF_ERR_PEER_LIMIT);
        memcpy(after, &message, sizeof(after));
        TF_ASSERT(memcmp(before, after, sizeof(before)) == 0);
    }
    free(exact);
    return 0;
}
