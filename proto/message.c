#include "proto/message.h"

#include "proto/mp.h"

/* Upper bounds of encoded parts. */
#define INT_MAX_LEN 9u
#define COUNT_MAX_LEN 5u
#define HEAD_MAX_LEN (1u + 1u + 2u * INT_MAX_LEN) /* array, kind, number, ack-delta */

/* What tf_message_read keeps while it reads: refs counted over all lists of the message. */
typedef struct message_reader {
    tf_reader r;
    size_t refs;
    bool over_limit;
} message_reader;

static void fail_limit(message_reader *m)
{
    m->over_limit = true;
    tf_rd_fail(&m->r);
}

static void count_refs(message_reader *m, size_t count)
{
    m->refs += count;
    if (m->refs > TF_REFS_PER_MESSAGE) {
        fail_limit(m);
    }
}

static tf_ref read_ref(message_reader *m, tf_ref_kind kind)
{
    tf_ref ref = tf_mp_rd_uint(&m->r);
    if (tf_ref_kind_of(ref) != kind) {
        tf_rd_fail(&m->r);
    }
    return ref;
}

static tf_ref_list read_ref_list(message_reader *m)
{
    size_t count = tf_mp_rd_array(&m->r, SIZE_MAX);
    count_refs(m, count);
    const uint8_t *start = m->r.at;
    for (size_t i = 0; i < count && tf_rd_ok(&m->r); i++) {
        (void)tf_mp_rd_uint(&m->r);
    }
    return (tf_ref_list){tf_slice_of(start, (size_t)(m->r.at - start)), count};
}

/* M2 */
static void read_deliver(message_reader *m, tf_message *out)
{
    out->target = tf_mp_rd_uint(&m->r);
    out->method = tf_mp_rd_str(&m->r, SIZE_MAX);
    if (out->method.len == 0 || !tf_utf8_is_valid(out->method)) {
        tf_rd_fail(&m->r);
    } else if (out->method.len > TF_METHOD_MAX) {
        fail_limit(m);
    }
    out->args = tf_mp_rd_bin(&m->r, SIZE_MAX);
    out->refs = read_ref_list(m);
    out->has_result = tf_mp_peek(&m->r) != TF_MP_NIL;
    if (out->has_result) {
        out->result = read_ref(m, TF_REF_PROMISE);
    } else {
        tf_mp_rd_nil(&m->r);
    }
}

/* How many elements the list of a resolve or revoke has. */
static size_t read_count(message_reader *m)
{
    size_t count = tf_mp_rd_array(&m->r, SIZE_MAX);
    if (count > TF_REFS_PER_MESSAGE) {
        fail_limit(m);
    }
    if (count == 0) {
        tf_rd_fail(&m->r);
    }
    return count;
}

/* The end of a line: how far it has come, if it is there. */
static uint32_t read_hops(message_reader *m, bool there)
{
    if (!there) {
        return 0;
    }
    uint64_t hops = tf_mp_rd_uint(&m->r);
    if (hops == 0 || hops > TF_HOPS_WIRE_MAX) {
        tf_rd_fail(&m->r);
        return 0;
    }
    return (uint32_t)hops;
}

/* M3: one resolution. */
static void read_resolution(message_reader *m, tf_resolution *out)
{
    *out = (tf_resolution){0};
    size_t fields = tf_mp_rd_array(&m->r, 5);
    out->promise = read_ref(m, TF_REF_PROMISE);
    uint64_t kind = tf_mp_rd_uint(&m->r);
    bool as_many = kind == TF_RESOLUTION_OBJECT ? fields == 3 : fields == 4 || fields == 5;
    if (kind > TF_RESOLUTION_REJECTION || !as_many) {
        tf_rd_fail(&m->r);
        return;
    }
    out->kind = (tf_resolution_kind)kind;
    if (out->kind == TF_RESOLUTION_OBJECT) {
        out->object = read_ref(m, TF_REF_OBJECT);
        count_refs(m, 1);
        return;
    }
    out->data = tf_mp_rd_bin(&m->r, SIZE_MAX);
    if (out->kind == TF_RESOLUTION_REJECTION && out->data.len > TF_REJECTION_MAX) {
        fail_limit(m);
    }
    out->refs = read_ref_list(m);
    out->hops = read_hops(m, fields == 5);
}

/* M3 */
static void read_resolve(message_reader *m, tf_message *out)
{
    size_t count = read_count(m);
    const uint8_t *start = m->r.at;
    for (size_t i = 0; i < count && tf_rd_ok(&m->r); i++) {
        tf_resolution resolution;
        read_resolution(m, &resolution);
    }
    out->resolutions = (tf_resolution_list){tf_slice_of(start, (size_t)(m->r.at - start)), count};
}

/* M6: one revocation. */
static void read_revocation(message_reader *m, tf_revoked *out)
{
    *out = (tf_revoked){0};
    size_t fields = tf_mp_rd_array(&m->r, 5);
    out->object = read_ref(m, TF_REF_OBJECT);
    uint64_t mode = tf_mp_rd_uint(&m->r);
    if (mode > 1 || fields < 4) {
        tf_rd_fail(&m->r);
        return;
    }
    out->hard = mode == 1;
    out->data = tf_mp_rd_bin(&m->r, SIZE_MAX);
    if (out->data.len > TF_REJECTION_MAX) {
        fail_limit(m);
    }
    out->refs = read_ref_list(m);
    out->hops = read_hops(m, fields == 5);
}

/* M6 */
static void read_revoke(message_reader *m, tf_message *out)
{
    size_t count = read_count(m);
    const uint8_t *start = m->r.at;
    for (size_t i = 0; i < count && tf_rd_ok(&m->r); i++) {
        tf_revoked revoked;
        read_revocation(m, &revoked);
    }
    out->revocations = (tf_revocation_list){tf_slice_of(start, (size_t)(m->r.at - start)), count};
}

/* M4 */
static void read_drop(message_reader *m, tf_message *out)
{
    out->refs = read_ref_list(m);
    if (out->refs.count == 0) {
        tf_rd_fail(&m->r);
    }
}

/* M1: kind, number and ack-delta; the fields that follow depend on the kind. */
static void read_message(message_reader *m, tf_message *out)
{
    static const uint8_t fields_of[] = {[TF_MESSAGE_DELIVER] = 8,
                                        [TF_MESSAGE_RESOLVE] = 4,
                                        [TF_MESSAGE_DROP] = 4,
                                        [TF_MESSAGE_REVOKE] = 4,
                                        [TF_MESSAGE_ACK] = 3};
    size_t fields = tf_mp_rd_array(&m->r, 8);
    uint64_t kind = tf_mp_rd_uint(&m->r);
    if (fields == 0 || kind >= sizeof(fields_of) || fields_of[kind] != fields) {
        tf_rd_fail(&m->r);
        return;
    }
    out->kind = (tf_message_kind)kind;
    out->has_number = tf_mp_peek(&m->r) != TF_MP_NIL;
    if (out->has_number) {
        out->number = tf_mp_rd_uint(&m->r);
    } else {
        tf_mp_rd_nil(&m->r);
    }
    out->ack_delta = tf_mp_rd_uint(&m->r);
    switch (out->kind) {
    case TF_MESSAGE_DELIVER:
        read_deliver(m, out);
        return;
    case TF_MESSAGE_RESOLVE:
        read_resolve(m, out);
        return;
    case TF_MESSAGE_DROP:
        read_drop(m, out);
        return;
    case TF_MESSAGE_REVOKE:
        read_revoke(m, out);
        return;
    case TF_MESSAGE_ACK:
        return;
    }
    TF_UNREACHABLE();
}

tf_err tf_message_read(tf_slice in, tf_message *out)
{
    if (in.len > TF_MESSAGE_MAX) {
        return TF_ERR_PEER_LIMIT;
    }
    message_reader m = {0};
    tf_message message = {0};
    tf_rd_init(&m.r, in);
    read_message(&m, &message);
    if (m.over_limit) {
        return TF_ERR_PEER_LIMIT;
    }
    tf_err err = tf_rd_end(&m.r);
    if (err == TF_OK) {
        *out = message;
    }
    return err;
}

bool tf_refs_next(tf_ref_list *list, tf_ref *out)
{
    if (list->count == 0) {
        return false;
    }
    tf_reader r;
    tf_rd_init(&r, list->wire);
    *out = tf_mp_rd_uint(&r);
    TF_ASSERT(tf_rd_ok(&r));
    list->wire = tf_slice_of(r.at, tf_rd_left(&r));
    list->count--;
    return true;
}

bool tf_resolutions_next(tf_resolution_list *list, tf_resolution *out)
{
    if (list->count == 0) {
        return false;
    }
    message_reader m = {0};
    tf_rd_init(&m.r, list->wire);
    read_resolution(&m, out);
    TF_ASSERT(tf_rd_ok(&m.r));
    list->wire = tf_slice_of(m.r.at, tf_rd_left(&m.r));
    list->count--;
    return true;
}

bool tf_revocations_next(tf_revocation_list *list, tf_revoked *out)
{
    if (list->count == 0) {
        return false;
    }
    message_reader m = {0};
    tf_rd_init(&m.r, list->wire);
    read_revocation(&m, out);
    TF_ASSERT(tf_rd_ok(&m.r));
    list->wire = tf_slice_of(m.r.at, tf_rd_left(&m.r));
    list->count--;
    return true;
}

/* --- writing --- */

static void write_head(tf_writer *w, size_t fields, tf_message_kind kind, uint64_t number, uint64_t ack_delta)
{
    tf_mp_wr_array(w, fields);
    tf_mp_wr_uint(w, (uint64_t)kind);
    tf_mp_wr_uint(w, number);
    tf_mp_wr_uint(w, ack_delta);
}

static void write_refs(tf_writer *w, const tf_ref *refs, size_t count)
{
    TF_ASSERT(count <= TF_REFS_PER_MESSAGE);
    tf_mp_wr_array(w, count);
    for (size_t i = 0; i < count; i++) {
        tf_mp_wr_uint(w, refs[i]);
    }
}

void tf_message_write_deliver(tf_writer *w, uint64_t number, uint64_t ack_delta, const tf_deliver *deliver)
{
    TF_ASSERT(deliver->method.len > 0 && deliver->method.len <= TF_METHOD_MAX);
    write_head(w, 8, TF_MESSAGE_DELIVER, number, ack_delta);
    tf_mp_wr_uint(w, deliver->target);
    tf_mp_wr_str(w, deliver->method);
    tf_mp_wr_bin(w, deliver->args);
    write_refs(w, deliver->refs, deliver->ref_count);
    if (deliver->has_result) {
        TF_ASSERT(tf_ref_kind_of(deliver->result) == TF_REF_PROMISE);
        tf_mp_wr_uint(w, deliver->result);
    } else {
        tf_mp_wr_nil(w);
    }
}

void tf_message_write_resolve_head(tf_writer *w, uint64_t number, uint64_t ack_delta, size_t resolutions)
{
    TF_ASSERT(resolutions > 0 && resolutions <= TF_REFS_PER_MESSAGE);
    write_head(w, 4, TF_MESSAGE_RESOLVE, number, ack_delta);
    tf_mp_wr_array(w, resolutions);
}

void tf_message_write_resolution_object(tf_writer *w, tf_ref promise, tf_ref object)
{
    TF_ASSERT(tf_ref_kind_of(promise) == TF_REF_PROMISE && tf_ref_kind_of(object) == TF_REF_OBJECT);
    tf_mp_wr_array(w, 3);
    tf_mp_wr_uint(w, promise);
    tf_mp_wr_uint(w, TF_RESOLUTION_OBJECT);
    tf_mp_wr_uint(w, object);
}

void tf_message_write_told(tf_writer *w, const tf_told *told)
{
    bool revoked = tf_ref_kind_of(told->ref) == TF_REF_OBJECT;
    bool rejection = revoked || told->mode == TF_RESOLUTION_REJECTION;
    TF_ASSERT(revoked ? told->mode <= 1 : rejection || told->mode == TF_RESOLUTION_DATA);
    TF_ASSERT((!rejection || told->data.len <= TF_REJECTION_MAX) && told->hops <= TF_HOPS_WIRE_MAX);
    tf_mp_wr_array(w, told->hops == 0 ? 4 : 5);
    tf_mp_wr_uint(w, told->ref);
    tf_mp_wr_uint(w, told->mode);
    tf_mp_wr_bin(w, told->data);
    write_refs(w, told->refs, told->ref_count);
    if (told->hops > 0) {
        tf_mp_wr_uint(w, told->hops);
    }
}

void tf_message_write_revoke_head(tf_writer *w, uint64_t number, uint64_t ack_delta, size_t revocations)
{
    TF_ASSERT(revocations > 0 && revocations <= TF_REFS_PER_MESSAGE);
    write_head(w, 4, TF_MESSAGE_REVOKE, number, ack_delta);
    tf_mp_wr_array(w, revocations);
}

void tf_message_write_drop(tf_writer *w, uint64_t number, uint64_t ack_delta, const tf_ref *refs, size_t ref_count)
{
    TF_ASSERT(ref_count > 0);
    write_head(w, 4, TF_MESSAGE_DROP, number, ack_delta);
    write_refs(w, refs, ref_count);
}

void tf_message_write_ack(tf_writer *w, uint64_t number, uint64_t ack_delta)
{
    write_head(w, 3, TF_MESSAGE_ACK, number, ack_delta);
}

size_t tf_message_deliver_bound(size_t method_len, size_t args_len, size_t ref_count)
{
    return HEAD_MAX_LEN + INT_MAX_LEN + COUNT_MAX_LEN + method_len + COUNT_MAX_LEN + args_len + COUNT_MAX_LEN +
           ref_count * INT_MAX_LEN + INT_MAX_LEN;
}

size_t tf_message_resolution_bound(size_t data_len, size_t ref_count)
{
    return HEAD_MAX_LEN + COUNT_MAX_LEN + 1 + INT_MAX_LEN + 1 + COUNT_MAX_LEN + data_len + COUNT_MAX_LEN +
           ref_count * INT_MAX_LEN + 2;
}

static size_t uint_len(uint64_t value)
{
    if (value <= UINT8_MAX) {
        return value < 128 ? 1 : 2;
    }
    if (value <= UINT32_MAX) {
        return value <= UINT16_MAX ? 3 : 5;
    }
    return INT_MAX_LEN;
}

size_t tf_message_list_head_len(uint64_t number, uint64_t ack_delta)
{
    return 1 + 1 + uint_len(number) + uint_len(ack_delta) + 1;
}

size_t tf_message_resolution_object_len(tf_ref promise, tf_ref object)
{
    return 1 + uint_len(promise) + 1 + uint_len(object);
}

static size_t bin_head_len(size_t len)
{
    if (len <= UINT16_MAX) {
        return len <= UINT8_MAX ? 2 : 3;
    }
    return COUNT_MAX_LEN;
}

size_t tf_message_told_len(const tf_told *told)
{
    size_t len = 1 + uint_len(told->ref) + 1 + bin_head_len(told->data.len) + told->data.len +
                 (told->ref_count < 16 ? 1 : 3) + (told->hops == 0 ? 0 : uint_len(told->hops));
    for (size_t i = 0; i < told->ref_count; i++) {
        len += uint_len(told->refs[i]);
    }
    return len;
}
