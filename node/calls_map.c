#include "node/calls_map.h"

#define DEPTH_MAX 4u
#define ARGS_ITEMS_MAX 64u
#define RESULT_ITEMS_MAX TF_MP_ITEMS_MAX
#define BODY_READ_MAX TF_MESSAGE_MAX

static void store(void *out, size_t offset, const void *value, size_t len)
{
    memcpy((uint8_t *)out + offset, value, len);
}

static void read_node(tf_reader *r, void *out, size_t offset)
{
    tf_slice bytes = tf_mp_rd_bin(r, TF_NODE_ID_LEN);
    if (bytes.len != TF_NODE_ID_LEN) {
        tf_rd_fail(r);
        return;
    }
    store(out, offset, bytes.data, TF_NODE_ID_LEN);
}

static void read_value(tf_reader *r, const tf_field *f, void *out)
{
    tf_slice bytes = {NULL, 0};
    uint64_t number = 0;
    bool flag = false;
    switch (f->type) {
    case UINT:
        number = tf_mp_rd_uint(r);
        store(out, f->offset, &number, sizeof(number));
        return;
    case BOOL:
        flag = tf_mp_rd_bool(r);
        store(out, f->offset, &flag, sizeof(flag));
        return;
    case NODE:
        read_node(r, out, f->offset);
        return;
    case STR:
        bytes = tf_mp_rd_str(r, TF_CALLS_TEXT_MAX);
        break;
    case BIN:
        bytes = tf_mp_rd_bin(r, BODY_READ_MAX);
        break;
    case RAW:
        bytes = tf_mp_rd_raw(r);
        break;
    }
    store(out, f->offset, &bytes, sizeof(bytes));
}

static size_t field_of(const tf_field *fields, size_t count, tf_slice key)
{
    size_t i = 0;
    while (i < count && !tf_slice_eq(key, tf_slice_of(fields[i].name, fields[i].name_len))) {
        i++;
    }
    return i;
}

tf_err tf_calls_read_map(tf_slice in, const tf_field *fields, size_t count, bool strict, void *out, unsigned *present)
{
    tf_reader r;
    unsigned seen = 0;
    size_t items_max = strict ? ARGS_ITEMS_MAX : RESULT_ITEMS_MAX;
    if (tf_mp_check(in, DEPTH_MAX, items_max) != TF_OK) {
        return TF_ERR_PEER_SYNTAX;
    }
    tf_rd_init(&r, in);
    size_t pairs = tf_mp_rd_map(&r, items_max);
    for (size_t i = 0; i < pairs && tf_rd_ok(&r); i++) {
        size_t index = field_of(fields, count, tf_mp_rd_str(&r, TF_CALLS_TEXT_MAX));
        if (index == count) {
            if (strict) {
                return TF_ERR_PEER_SYNTAX;
            }
            tf_mp_skip(&r);
            continue;
        }
        if ((seen & (1u << index)) != 0) {
            return TF_ERR_PEER_SYNTAX;
        }
        seen |= 1u << index;
        read_value(&r, &fields[index], out);
    }
    for (size_t i = 0; i < count; i++) {
        if (!fields[i].optional && (seen & (1u << i)) == 0) {
            return TF_ERR_PEER_SYNTAX;
        }
    }
    if (present != NULL) {
        *present = seen;
    }
    return tf_rd_end(&r);
}

void tf_calls_write_str(tf_writer *w, tf_slice key, tf_slice value)
{
    tf_mp_wr_str(w, key);
    tf_mp_wr_str(w, value);
}

void tf_calls_write_uint(tf_writer *w, tf_slice key, uint64_t value)
{
    tf_mp_wr_str(w, key);
    tf_mp_wr_uint(w, value);
}

void tf_calls_write_bin(tf_writer *w, tf_slice key, tf_slice value)
{
    tf_mp_wr_str(w, key);
    tf_mp_wr_bin(w, value);
}

void tf_calls_write_bool(tf_writer *w, tf_slice key, bool value)
{
    tf_mp_wr_str(w, key);
    tf_mp_wr_bool(w, value);
}
