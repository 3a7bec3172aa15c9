/* bench_store_layout: dedup keys packed in runs. A run is a set of keys sorted by hash and cut into parts by the upper
 * bits; FANOUT runs of a level are merged into one of the next. */
#include <xxhash.h>

#include "proto/wire.h"
#include "tests/bench/bench_store_layout.h"

#define FANOUT 8u
#define LEVELS 12u
#define PART_KEYS 64u /* at most, about */

typedef struct run {
    uint64_t first; /* rowid of its first blob */
    uint64_t keys;
    unsigned bits; /* it has up to 1 << bits blobs */
} run;

typedef struct key {
    uint64_t hash;
    tf_slice bytes; /* the whole entry */
} key;

/* Reads the keys of a run in order. */
typedef struct cursor {
    const run *of;
    uint64_t part; /* the next one to load */
    sqlite3_stmt *blob;
    tf_reader reader;
    bool end;
    key at;
} cursor;

/* Writes the keys of a run in order. */
typedef struct output {
    run to;
    uint64_t part;
    tf_writer writer;
} output;

static sqlite3_stmt *put_part, *get_part, *drop_parts;
static uint8_t part[1 << 20];
static key keys[BATCH_MAX];
static uint8_t key_bytes[BATCH_MAX * 128];
static run runs[LEVELS][FANOUT];
static unsigned run_count[LEVELS];
static uint64_t next_part = 1;
static uint64_t sink; /* what is read must not be optimised away */

void runs_prepare(void)
{
    put_part = prepare("INSERT INTO parts(id, data) VALUES (?1, ?2)");
    get_part = prepare("SELECT data FROM parts WHERE id = ?");
    drop_parts = prepare("DELETE FROM parts WHERE id >= ?1 AND id < ?2");
}

static unsigned bits_for(uint64_t count)
{
    unsigned bits = 0;
    while (count >> bits > PART_KEYS) {
        bits++;
    }
    return bits;
}

static uint64_t part_of(uint64_t hash, unsigned bits)
{
    return bits == 0 ? 0 : hash >> (64 - bits);
}

static void flush_part(output *out)
{
    if (tf_wr_len(&out->writer) == 0) {
        return;
    }
    tf_wr_u64(&out->writer, XXH3_64bits(part, tf_wr_len(&out->writer)));
    must(tf_wr_ok(&out->writer), "a blob of keys is too long");
    bind(put_part, 1, out->to.first + out->part);
    bind_blob(put_part, 2, part, tf_wr_len(&out->writer));
    run_once(put_part);
}

static void open_output(output *out, uint64_t count)
{
    *out = (output){.to = {.first = next_part, .keys = count, .bits = bits_for(count)}};
    next_part += (uint64_t)1 << out->to.bits;
    tf_wr_init(&out->writer, part, sizeof(part));
}

static void add_key(output *out, const key *k)
{
    uint64_t at = part_of(k->hash, out->to.bits);
    if (at != out->part) {
        flush_part(out);
        out->part = at;
        tf_wr_init(&out->writer, part, sizeof(part));
    }
    tf_wr_bytes(&out->writer, k->bytes);
}

static void read_key(tf_reader *r, key *out)
{
    const uint8_t *start = r->at;
    out->hash = tf_rd_u64(r);
    for (unsigned i = 0; i < 3; i++) {
        sink += tf_rd_var(r); /* channel, origin, seq */
    }
    sink += tf_rd_u64(r);
    (void)tf_rd_bytes(r, tf_rd_u8(r));
    must(tf_rd_ok(r), "a blob of keys is damaged");
    out->bytes = tf_slice_of(start, (size_t)(r->at - start));
}

/* The blob of a run, checked; false: it is empty. */
static bool load_part(sqlite3_stmt *stmt, uint64_t id, tf_reader *out)
{
    must(sqlite3_reset(stmt) == SQLITE_OK, "cannot read");
    bind(stmt, 1, id);
    if (sqlite3_step(stmt) != SQLITE_ROW) {
        return false;
    }
    size_t len = (size_t)sqlite3_column_bytes(stmt, 0);
    const uint8_t *data = sqlite3_column_blob(stmt, 0);
    tf_reader sum;
    must(len >= 8, "a blob of keys is damaged");
    tf_rd_init(&sum, tf_slice_of(data + len - 8, 8));
    must(tf_rd_u64(&sum) == XXH3_64bits(data, len - 8), "a blob of keys is damaged");
    tf_rd_init(out, tf_slice_of(data, len - 8));
    return true;
}

static void advance(cursor *c)
{
    while (tf_rd_left(&c->reader) == 0) {
        if (c->part == (uint64_t)1 << c->of->bits) {
            c->end = true;
            return;
        }
        if (!load_part(c->blob, c->of->first + c->part++, &c->reader)) {
            tf_rd_init(&c->reader, tf_slice_of(part, 0));
        }
    }
    read_key(&c->reader, &c->at);
}

static void merge_into(output *out, cursor *inputs)
{
    for (;;) {
        cursor *least = NULL;
        for (unsigned i = 0; i < FANOUT; i++) {
            if (!inputs[i].end && (least == NULL || inputs[i].at.hash < least->at.hash)) {
                least = &inputs[i];
            }
        }
        if (least == NULL) {
            return;
        }
        add_key(out, &least->at);
        advance(least);
    }
}

static run merge(const run *old)
{
    cursor inputs[FANOUT];
    uint64_t count = 0;
    for (unsigned i = 0; i < FANOUT; i++) {
        inputs[i] = (cursor){.of = &old[i], .blob = prepare("SELECT data FROM parts WHERE id = ?")};
        tf_rd_init(&inputs[i].reader, tf_slice_of(part, 0));
        advance(&inputs[i]);
        count += old[i].keys;
    }
    output out;
    open_output(&out, count);
    merge_into(&out, inputs);
    flush_part(&out);
    for (unsigned i = 0; i < FANOUT; i++) {
        must(sqlite3_finalize(inputs[i].blob) == SQLITE_OK, "cannot read");
        bind(drop_parts, 1, old[i].first);
        bind(drop_parts, 2, old[i].first + ((uint64_t)1 << old[i].bits));
        run_once(drop_parts);
    }
    return out.to;
}

static void add_run(run fresh)
{
    for (unsigned level = 0; level < LEVELS; level++) {
        runs[level][run_count[level]++] = fresh;
        if (run_count[level] < FANOUT) {
            return;
        }
        fresh = merge(runs[level]);
        run_count[level] = 0;
    }
}

void runs_insert(const message *batch, size_t count)
{
    output out;
    open_output(&out, count);
    tf_writer w;
    tf_wr_init(&w, key_bytes, sizeof(key_bytes));
    for (size_t i = 0; i < count; i++) {
        uint8_t *start = w.at;
        tf_wr_u64(&w, batch[i].hash);
        tf_wr_var(&w, batch[i].channel);
        tf_wr_var(&w, batch[i].origin);
        tf_wr_var(&w, batch[i].seq);
        tf_wr_u64(&w, batch[i].hash);
        tf_wr_u8(&w, (uint8_t)batch[i].id_len);
        tf_wr_bytes(&w, tf_slice_of(batch[i].id, batch[i].id_len));
        keys[i] = (key){batch[i].hash, tf_slice_of(start, (size_t)(w.at - start))};
        add_key(&out, &keys[i]);
    }
    flush_part(&out);
    add_run(out.to);
}

static bool find_in(const run *r, const message *m)
{
    tf_reader reader;
    if (!load_part(get_part, r->first + part_of(m->hash, r->bits), &reader)) {
        return false;
    }
    while (tf_rd_left(&reader) > 0) {
        key k;
        read_key(&reader, &k);
        if (k.hash == m->hash && memcmp(k.bytes.data + k.bytes.len - m->id_len, m->id, m->id_len) == 0) {
            return true;
        }
    }
    return false;
}

bool runs_find(const message *m)
{
    for (unsigned level = 0; level < LEVELS; level++) {
        for (unsigned i = 0; i < run_count[level]; i++) {
            if (find_in(&runs[level][i], m)) {
                return true;
            }
        }
    }
    return false;
}
