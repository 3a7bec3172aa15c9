#include "dedup/dedup.h"

#include <xxhash.h>

struct tf_dedup {
    const tf_mem *mem;
    tf_bloom *bloom;
    tf_dedup_counts counts;
};

struct tf_dedup_stream {
    const tf_mem *mem;
    tf_dedup *dedup; /* NULL: no filter */
    tf_window *window;
    uint64_t tag_key;
    uint64_t stream_key; /* stands for (sender, instance, session) in the hash of a seq */
    uint64_t
        since; /* rotation of the filter when the oldest seq that is held above the floor was accepted, or before */
};

tf_err tf_dedup_new(tf_dedup **out, const tf_bloom_config *config, const tf_mem *mem)
{
    tf_dedup *dedup = tf_alloc(mem, sizeof(*dedup));
    if (dedup == NULL) {
        return TF_ERR_NOMEM;
    }
    dedup->mem = mem;
    tf_err err = tf_bloom_new(&dedup->bloom, config, mem);
    if (err != TF_OK) {
        tf_dedup_free(dedup);
        return err;
    }
    *out = dedup;
    return TF_OK;
}

void tf_dedup_free(tf_dedup *dedup)
{
    if (dedup == NULL) {
        return;
    }
    tf_bloom_free(dedup->bloom);
    tf_free(dedup->mem, dedup, sizeof(*dedup));
}

tf_dedup_counts tf_dedup_get_counts(const tf_dedup *dedup)
{
    return dedup->counts;
}

/* One hash for what all seqs of a stream share, so that each seq costs a hash of 8 bytes only. */
static uint64_t stream_key(const tf_dedup_stream_config *config)
{
    struct {
        tf_node_id sender;
        uint64_t instance;
        uint64_t session;
    } name = {config->sender, config->instance, config->session};

    _Static_assert(sizeof(name) == TF_NODE_ID_LEN + 16, "no padding is hashed");
    return tf_bloom_hash(config->dedup->bloom, tf_slice_of(&name, sizeof(name)));
}

tf_err tf_dedup_stream_new(tf_dedup_stream **out, const tf_dedup_stream_config *config, const tf_mem *mem)
{
    tf_dedup_stream *stream = tf_alloc(mem, sizeof(*stream));
    if (stream == NULL) {
        return TF_ERR_NOMEM;
    }
    stream->mem = mem;
    tf_err err = tf_window_new(&stream->window, config->first, config->segments, mem);
    if (err != TF_OK) {
        tf_dedup_stream_free(stream);
        return err;
    }
    stream->dedup = config->dedup;
    stream->tag_key = config->tag_key;
    stream->stream_key = config->dedup == NULL ? 0 : stream_key(config);
    *out = stream;
    return TF_OK;
}

void tf_dedup_stream_free(tf_dedup_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    tf_window_free(stream->window);
    tf_free(stream->mem, stream, sizeof(*stream));
}

uint32_t tf_dedup_stream_tag(const tf_dedup_stream *stream, const tf_segment *segment)
{
    static const uint8_t none;
    const void *data = segment->data.len == 0 ? &none : segment->data.data;
    uint64_t seed = stream->tag_key + segment->flags;

    return (uint32_t)(XXH3_64bits_withSeed(data, segment->data.len, seed) >> 32);
}

static uint64_t seq_hash(const tf_dedup_stream *stream, uint64_t seq)
{
    uint64_t name[2] = {stream->stream_key, seq};

    return tf_bloom_hash(stream->dedup->bloom, tf_slice_of(name, sizeof(name)));
}

/* Does the filter still remember every seq that is held above the floor? What is below needs no filter. */
static bool filter_covers(const tf_dedup_stream *stream)
{
    return tf_bloom_rotation(stream->dedup->bloom) - stream->since <= 1 || tf_window_held(stream->window) == 0;
}

typedef enum shortcut { SURELY_NEW, MAYBE, UNSURE } shortcut;

/* seq is in the open window. SURELY_NEW is the only answer that decides anything (P4). */
static shortcut ask_filter(const tf_dedup_stream *stream, uint64_t seq)
{
    tf_dedup_counts *counts = &stream->dedup->counts;

    if (!filter_covers(stream)) {
        counts->unsure++;
        return UNSURE;
    }
    if (tf_bloom_may_hold(stream->dedup->bloom, seq_hash(stream, seq))) {
        counts->maybe++;
        return MAYBE;
    }
    counts->surely_new++;
    return SURELY_NEW;
}

static bool is_in_window(const tf_window *window, uint64_t seq)
{
    return seq - tf_window_floor(window) < tf_window_segments(window);
}

tf_window_verdict tf_dedup_stream_test(const tf_dedup_stream *stream, uint64_t seq, uint32_t tag)
{
    if (stream->dedup == NULL || !is_in_window(stream->window, seq)) {
        return tf_window_test(stream->window, seq, tag);
    }
    shortcut answer = ask_filter(stream, seq);
    if (answer == SURELY_NEW) {
        return TF_WINDOW_NEW;
    }
    tf_window_verdict verdict = tf_window_test(stream->window, seq, tag);
    stream->dedup->counts.maybe_new += answer == MAYBE && verdict == TF_WINDOW_NEW ? 1 : 0;
    return verdict;
}

tf_err tf_dedup_stream_accept(tf_dedup_stream *stream, uint64_t seq, uint32_t tag)
{
    bool none_held = tf_window_held(stream->window) == 0;
    tf_err err = tf_window_accept(stream->window, seq, tag);

    if (err != TF_OK || stream->dedup == NULL) {
        return err;
    }
    if (none_held) {
        stream->since = tf_bloom_rotation(stream->dedup->bloom);
    }
    tf_bloom_insert(stream->dedup->bloom, seq_hash(stream, seq));
    return TF_OK;
}

const tf_window *tf_dedup_stream_window(const tf_dedup_stream *stream)
{
    return stream->window;
}

void tf_dedup_stream_trim(tf_dedup_stream *stream)
{
    tf_window_trim(stream->window);
}
