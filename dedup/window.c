#include "dedup/window.h"

#include "proto/limits.h"

#define SEQS 64u    /* of a block: one word of bits */
#define RING_MIN 4u /* so that a narrow window, too, has tags below its floor */

/* The tags of SEQS seqs. A tag counts where its seq was accepted: a block that is gone (trimmed, or its entry taken over)
 * lies below the floor, so it is never made again without the tags it had. */
typedef struct tag_block {
    uint64_t number; /* first seq / SEQS */
    uint32_t tags[SEQS];
} tag_block;

typedef struct ring_entry {
    uint64_t bits;    /* accepted; zero unless some seq of the word is at or above the floor */
    tag_block *block; /* NULL: no tags */
} ring_entry;

/* The ring has a power of two of entries, one for SEQS seqs, so that an index stays right when the seqs run over 2^64.
 * It spans at least twice the window: an entry is taken over by a new block only when the old one lies whole below the
 * floor (the assertions below). */
struct tf_window {
    const tf_mem *mem;
    uint64_t first;
    uint64_t floor;
    uint64_t end;      /* one past the highest accepted seq; the floor when none is held */
    uint64_t segments; /* width */
    size_t held;
    size_t ring_len;
    size_t block_count;
    ring_entry *ring;
};

/* Block b takes the entry of block b - ring_len, whose last seq is (b - ring_len) * SEQS + SEQS - 1; b has a seq below
 * floor + segments. So that last seq is below the floor if ring_len * SEQS > segments + SEQS - 2. */
_Static_assert(TF_WINDOW_SEGMENTS_MAX >= SEQS && TF_WINDOW_SEGMENTS_MAX % SEQS == 0,
               "the widest window is whole blocks");
_Static_assert(RING_MIN *SEQS > SEQS + SEQS - 2u,
               "and so it is up to one block; above, a ring of 2 * segments will do");

static size_t ring_len_for(size_t segments)
{
    size_t needed = 2 * ((segments + SEQS - 1) / SEQS);
    size_t len = RING_MIN;

    while (len < needed) {
        len *= 2;
    }
    return len;
}

tf_err tf_window_new(tf_window **out, uint64_t first, size_t segments, const tf_mem *mem)
{
    if (segments == 0 || segments > TF_WINDOW_SEGMENTS_MAX) {
        return TF_ERR_USAGE;
    }
    tf_window *window = tf_alloc(mem, sizeof(*window));
    if (window == NULL) {
        return TF_ERR_NOMEM;
    }
    *window = (tf_window){.mem = mem, .first = first, .floor = first, .end = first, .segments = segments};
    window->ring_len = ring_len_for(segments);
    window->ring = tf_alloc(mem, window->ring_len * sizeof(*window->ring));
    if (window->ring == NULL) {
        tf_window_free(window);
        return TF_ERR_NOMEM;
    }
    *out = window;
    return TF_OK;
}

void tf_window_free(tf_window *window)
{
    if (window == NULL) {
        return;
    }
    for (size_t i = 0; window->ring != NULL && i < window->ring_len; i++) {
        tf_free(window->mem, window->ring[i].block, sizeof(tag_block));
    }
    tf_free(window->mem, window->ring, window->ring_len * sizeof(*window->ring));
    tf_free(window->mem, window, sizeof(*window));
}

static ring_entry *entry_of(const tf_window *window, uint64_t seq)
{
    return &window->ring[(size_t)(seq / SEQS) & (window->ring_len - 1)];
}

static uint64_t bit_of(uint64_t seq)
{
    return (uint64_t)1 << (seq % SEQS);
}

static bool is_open(const tf_window *window, uint64_t seq)
{
    return seq - window->floor < window->segments;
}

static bool is_below(const tf_window *window, uint64_t seq)
{
    return seq - window->first < window->floor - window->first;
}

static bool bit_is_set(const tf_window *window, uint64_t seq)
{
    return (entry_of(window, seq)->bits & bit_of(seq)) != 0;
}

bool tf_window_is_held(const tf_window *window, uint64_t seq)
{
    return is_below(window, seq) || (is_open(window, seq) && bit_is_set(window, seq));
}

/* seq was accepted: REPEAT, or CONFLICT where its tag is kept and differs. */
static tf_window_verdict judge_repeat(const tf_window *window, uint64_t seq, uint32_t tag)
{
    const tag_block *block = entry_of(window, seq)->block;
    bool has_tag = block != NULL && block->number == seq / SEQS;

    return has_tag && block->tags[seq % SEQS] != tag ? TF_WINDOW_CONFLICT : TF_WINDOW_REPEAT;
}

tf_window_verdict tf_window_test(const tf_window *window, uint64_t seq, uint32_t tag)
{
    if (tf_window_is_held(window, seq)) {
        return judge_repeat(window, seq, tag);
    }
    return is_open(window, seq) ? TF_WINDOW_NEW : TF_WINDOW_BEYOND;
}

/* The tag block of seq, made where there is none. NULL: no memory. */
static tag_block *block_for(tf_window *window, uint64_t seq)
{
    ring_entry *entry = entry_of(window, seq);

    if (entry->block == NULL) {
        entry->block = tf_alloc(window->mem, sizeof(tag_block));
        if (entry->block == NULL) {
            return NULL;
        }
        window->block_count++;
    }
    entry->block->number = seq / SEQS;
    return entry->block;
}

/* Moves the floor over all that is contiguous. Words that it leaves become zero. */
static void move_floor(tf_window *window)
{
    uint64_t start = window->floor;

    for (;;) {
        uint64_t *word = &entry_of(window, window->floor)->bits;
        uint64_t offset = window->floor % SEQS;
        uint64_t clear = ~(*word >> offset); /* shifted-in zeros are ones here, so the run ends within the word */
        uint64_t run = clear == 0 ? SEQS : (uint64_t)__builtin_ctzll(clear);
        window->floor += run;
        if (offset + run < SEQS) {
            break;
        }
        *word = 0;
    }
    window->held -= (size_t)(window->floor - start);
}

tf_err tf_window_accept(tf_window *window, uint64_t seq, uint32_t tag)
{
    TF_ASSERT(is_open(window, seq) && !bit_is_set(window, seq));
    tag_block *block = block_for(window, seq);
    if (block == NULL) {
        return TF_ERR_NOMEM;
    }
    block->tags[seq % SEQS] = tag;
    entry_of(window, seq)->bits |= bit_of(seq);
    window->held++;
    if (seq - window->floor >= window->end - window->floor) {
        window->end = seq + 1;
    }
    if (seq == window->floor) {
        move_floor(window);
    }
    return TF_OK;
}

uint64_t tf_window_floor(const tf_window *window)
{
    return window->floor;
}

uint64_t tf_window_end(const tf_window *window)
{
    return window->end;
}

size_t tf_window_held(const tf_window *window)
{
    return window->held;
}

size_t tf_window_segments(const tf_window *window)
{
    return (size_t)window->segments;
}

/* The first seq from `from` on, below the end, whose bit is `set`; the end when there is none. */
static uint64_t find(const tf_window *window, uint64_t from, bool set)
{
    uint64_t left = window->end - from;

    while (left > 0) {
        uint64_t seq = window->end - left;
        uint64_t word = entry_of(window, seq)->bits;
        uint64_t found = (set ? word : ~word) >> (seq % SEQS);
        uint64_t rest = SEQS - seq % SEQS; /* of this word */

        if (found != 0) {
            uint64_t skip = (uint64_t)__builtin_ctzll(found);
            return skip < left ? seq + skip : window->end;
        }
        left = left > rest ? left - rest : 0;
    }
    return window->end;
}

size_t tf_window_ranges(const tf_window *window, uint64_t from, tf_range *out, size_t max)
{
    size_t count = 0;
    uint64_t at = is_below(window, from) ? window->floor : from;

    if (at - window->floor > window->end - window->floor) {
        return 0;
    }
    while (count < max) {
        uint64_t first = find(window, at, true);
        if (first == window->end) {
            break;
        }
        at = find(window, first, false);
        out[count++] = (tf_range){.first = first, .last = at - 1};
    }
    return count;
}

void tf_window_trim(tf_window *window)
{
    for (size_t i = 0; i < window->ring_len; i++) {
        tag_block *block = window->ring[i].block;
        /* It lies whole below the floor if its last seq does. */
        if (block != NULL && is_below(window, block->number * SEQS + SEQS - 1)) {
            tf_free(window->mem, block, sizeof(*block));
            window->ring[i].block = NULL;
            window->block_count--;
        }
    }
}

size_t tf_window_memory(const tf_window *window)
{
    return sizeof(*window) + window->ring_len * sizeof(*window->ring) + window->block_count * sizeof(tag_block);
}
