#include "node/hub_rights.h"

#include "node/pattern.h"

/* Keys in ascending order. */
typedef struct key_set {
    bool any;
    tf_node_id *keys;
    size_t count;
} key_set;

typedef struct rule {
    size_t pattern_len;
    uint8_t pattern[TF_CHANNEL_NAME_MAX];
    key_set read;
    key_set write;
} rule;

struct tf_hub_rights {
    const tf_mem *mem;
    size_t count;
    rule rules[];
};

static int compare(const tf_node_id *a, const tf_node_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

/* Lets keys[at] sink in the heap that is below it. */
static void sink(tf_node_id *keys, size_t count, size_t at)
{
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && compare(&keys[child], &keys[child + 1]) < 0) {
            child++;
        }
        if (compare(&keys[at], &keys[child]) >= 0) {
            return;
        }
        tf_node_id moved = keys[at];
        keys[at] = keys[child];
        keys[child] = moved;
        at = child;
    }
}

/* Heapsort: no recursion, no memory, no bad case. */
static void sort(tf_node_id *keys, size_t count)
{
    for (size_t i = count / 2; i > 0; i--) {
        sink(keys, count, i - 1);
    }
    for (size_t end = count; end > 1; end--) {
        tf_node_id largest = keys[0];
        keys[0] = keys[end - 1];
        keys[end - 1] = largest;
        sink(keys, end - 1, 0);
    }
}

static bool has(const key_set *set, const tf_node_id *key)
{
    size_t from = 0;
    size_t to = set->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = compare(key, &set->keys[middle]);
        if (order == 0) {
            return true;
        }
        if (order < 0) {
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    return set->any;
}

static tf_err set_keys(const tf_mem *mem, const tf_hub_access *access, key_set *out)
{
    out->any = access->any;
    if (access->count == 0) {
        return TF_OK;
    }
    out->keys = tf_alloc(mem, access->count * sizeof(*out->keys));
    if (out->keys == NULL) {
        return TF_ERR_NOMEM;
    }
    out->count = access->count;
    memcpy(out->keys, access->keys, access->count * sizeof(*out->keys));
    sort(out->keys, out->count);
    return TF_OK;
}

static tf_err set_rule(const tf_mem *mem, const tf_hub_rule *in, rule *out)
{
    TF_ASSERT(in->pattern.len <= sizeof(out->pattern));
    memcpy(out->pattern, in->pattern.data, in->pattern.len);
    out->pattern_len = in->pattern.len;
    tf_err err = set_keys(mem, &in->read, &out->read);
    return err == TF_OK ? set_keys(mem, &in->write, &out->write) : err;
}

static size_t size_of(size_t count)
{
    return sizeof(tf_hub_rights) + count * sizeof(rule);
}

tf_err tf_hub_rights_new(tf_hub_rights **out, const tf_mem *mem, const tf_hub_rule *rules, size_t count)
{
    tf_hub_rights *rights = tf_alloc(mem, size_of(count));
    if (rights == NULL) {
        return TF_ERR_NOMEM;
    }
    memset(rights, 0, size_of(count));
    rights->mem = mem;
    rights->count = count;
    for (size_t i = 0; i < count; i++) {
        if (set_rule(mem, &rules[i], &rights->rules[i]) != TF_OK) {
            tf_hub_rights_free(rights);
            return TF_ERR_NOMEM;
        }
    }
    *out = rights;
    return TF_OK;
}

void tf_hub_rights_free(tf_hub_rights *rights)
{
    if (rights == NULL) {
        return;
    }
    const tf_mem *mem = rights->mem;
    for (size_t i = 0; i < rights->count; i++) {
        rule *r = &rights->rules[i];
        tf_free(mem, r->read.keys, r->read.count * sizeof(*r->read.keys));
        tf_free(mem, r->write.keys, r->write.count * sizeof(*r->write.keys));
    }
    tf_free(mem, rights, size_of(rights->count));
}

unsigned tf_hub_rights_of(const tf_hub_rights *rights, const tf_node_id *key, tf_slice channel)
{
    for (size_t i = 0; i < rights->count; i++) {
        const rule *r = &rights->rules[i];
        if (tf_pattern_matches(tf_slice_of(r->pattern, r->pattern_len), channel)) {
            return (has(&r->read, key) ? TF_RIGHT_READ : 0u) | (has(&r->write, key) ? TF_RIGHT_WRITE : 0u);
        }
    }
    return 0;
}
