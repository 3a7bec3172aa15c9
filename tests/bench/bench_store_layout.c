/* How messages and their dedup keys are best laid out in SQLite (behind a commit log: one applier, large transactions).
 *
 * Usage: bench_store_layout LAYOUT KEYS BATCH THOUSANDS [PAGE_SIZE, default 4096 [FILE]]
 *   LAYOUT rows    a row a message, UNIQUE(channel, origin, client_id)
 *          tuple   messages of a channel in blocks; keys WITHOUT ROWID by (channel, origin, client_id)
 *          sorted  the same, the keys of a batch inserted in their order
 *          hash    blocks; keys by a 64-bit hash as rowid, inserted in their order
 *          runs    blocks; the keys of a batch packed into blobs by hash (a run), FANOUT runs merged into a larger one
 *   KEYS   library (instance in hex, '-', counter) or random (64 hex digits)
 * Prints `key value` lines for each million and at the end; bodies of 128 bytes, 16 channels, 16 origins, WAL,
 * synchronous=FULL. Status 1 if a key is not found, or found though it was never stored. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "proto/wire.h"
#include "tests/bench/bench_store_layout.h"
#include "tests/bench/measure.h"

#define CHANNELS 16u
#define ORIGINS 16u
#define BODY 128u
#define BLOCK_MAX (64u << 10)
#define LOOKUPS 20000u

typedef struct layout {
    const char *name;
    const char *schema;
    const char *put;
    const char *get;
    void (*insert)(message *batch, size_t count);
    bool (*find)(const message *m);
} layout;

static sqlite3 *db;
static sqlite3_stmt *begin, *commit, *put, *get, *put_block, *get_blocks;
static bool random_keys;
static uint8_t body[BODY];
static uint64_t heads[CHANNELS];
static uint8_t block[2 * BLOCK_MAX];
static uint64_t sink;

void must(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "bench_store_layout: %s (%s)\n", what, db == NULL ? "no database" : sqlite3_errmsg(db));
        exit(EXIT_FAILURE);
    }
}

sqlite3_stmt *prepare(const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    must(sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL) == SQLITE_OK, sql);
    return stmt;
}

void run_once(sqlite3_stmt *stmt)
{
    must(sqlite3_step(stmt) == SQLITE_DONE, "a statement failed");
    must(sqlite3_reset(stmt) == SQLITE_OK, "a statement failed");
}

void bind(sqlite3_stmt *stmt, int at, uint64_t value)
{
    must(sqlite3_bind_int64(stmt, at, (int64_t)value) == SQLITE_OK, "cannot bind");
}

void bind_blob(sqlite3_stmt *stmt, int at, const void *data, size_t len)
{
    must(sqlite3_bind_blob(stmt, at, data, (int)len, SQLITE_STATIC) == SQLITE_OK, "cannot bind");
}

static uint64_t mix(uint64_t x)
{
    return XXH3_64bits_withSeed(&x, sizeof(x), 42);
}

/* The i-th message ever; the same each time. */
static void make(message *m, uint64_t i)
{
    uint64_t r = mix(i);
    m->channel = r % CHANNELS;
    m->origin = r / CHANNELS % ORIGINS;
    int len = random_keys ? snprintf(m->id, sizeof(m->id), "%016" PRIx64 "%016" PRIx64 "%016" PRIx64 "%016" PRIx64, r,
                                     mix(r), mix(r + 1), mix(r + 2))
                          : snprintf(m->id, sizeof(m->id), "%016" PRIx64 "-%" PRIu64, mix(m->origin), i);
    m->id_len = (size_t)len;
    m->hash = XXH3_64bits_withSeed(m->id, m->id_len, m->channel * ORIGINS + m->origin);
}

static int by_channel(const void *a, const void *b)
{
    const message *x = a;
    const message *y = b;
    if (x->channel != y->channel) {
        return x->channel < y->channel ? -1 : 1;
    }
    return x->seq < y->seq ? -1 : 1;
}

static int by_tuple(const void *a, const void *b)
{
    const message *x = a;
    const message *y = b;
    if (x->channel != y->channel) {
        return x->channel < y->channel ? -1 : 1;
    }
    if (x->origin != y->origin) {
        return x->origin < y->origin ? -1 : 1;
    }
    int order = memcmp(x->id, y->id, x->id_len < y->id_len ? x->id_len : y->id_len);
    return order != 0 ? order : (x->id_len > y->id_len) - (x->id_len < y->id_len);
}

int by_hash(const void *a, const void *b)
{
    const message *x = a;
    const message *y = b;
    return (x->hash > y->hash) - (x->hash < y->hash);
}

/* -- bodies -------------------------------------------------------------------------------------------------------- */

static void bind_tuple(sqlite3_stmt *stmt, const message *m)
{
    bind(stmt, 1, m->channel);
    bind(stmt, 2, m->origin);
    bind_blob(stmt, 3, m->id, m->id_len);
}

static void insert_rows(message *batch, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bind_tuple(put, &batch[i]);
        bind(put, 4, batch[i].seq);
        bind(put, 5, batch[i].hash);
        bind_blob(put, 6, body, BODY);
        run_once(put);
    }
}

static void write_message(tf_writer *w, const message *m)
{
    tf_wr_var(w, m->origin);
    tf_wr_var(w, m->seq);
    tf_wr_u8(w, (uint8_t)m->id_len);
    tf_wr_bytes(w, tf_slice_of(m->id, m->id_len));
    tf_wr_var(w, BODY);
    tf_wr_bytes(w, tf_slice_of(body, BODY));
}

/* One row for what one channel has in the batch, or more when it is long. */
static void insert_blocks(message *batch, size_t count)
{
    qsort(batch, count, sizeof(*batch), by_channel);
    for (size_t i = 0, first = 0; first < count; first = i) {
        tf_writer w;
        tf_wr_init(&w, block, sizeof(block));
        while (i < count && batch[i].channel == batch[first].channel && tf_wr_len(&w) < BLOCK_MAX) {
            write_message(&w, &batch[i++]);
        }
        tf_wr_u64(&w, XXH3_64bits(block, tf_wr_len(&w)));
        must(tf_wr_ok(&w), "a block is too long");
        bind(put_block, 1, batch[first].channel);
        bind(put_block, 2, batch[first].seq);
        bind(put_block, 3, i - first);
        bind_blob(put_block, 4, block, tf_wr_len(&w));
        run_once(put_block);
    }
}

/* -- keys in a table ----------------------------------------------------------------------------------------------- */

static void put_tuples(const message *batch, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bind_tuple(put, &batch[i]);
        bind(put, 4, batch[i].seq);
        bind(put, 5, batch[i].hash);
        run_once(put);
    }
}

static void insert_tuple(message *batch, size_t count)
{
    put_tuples(batch, count);
    insert_blocks(batch, count);
}

static void insert_sorted(message *batch, size_t count)
{
    insert_blocks(batch, count);
    qsort(batch, count, sizeof(*batch), by_tuple);
    put_tuples(batch, count);
}

static bool find_tuple(const message *m)
{
    bind_tuple(get, m);
    bool found = sqlite3_step(get) == SQLITE_ROW;
    must(sqlite3_reset(get) == SQLITE_OK, "cannot look up");
    return found;
}

/* A hash that is taken by another key: the next one (so a key is looked for until a number is free). */
static void insert_hash(message *batch, size_t count)
{
    insert_blocks(batch, count);
    qsort(batch, count, sizeof(*batch), by_hash);
    for (size_t i = 0; i < count; i++) {
        bind_tuple(put, &batch[i]);
        bind(put, 4, batch[i].seq);
        bind(put, 5, batch[i].hash);
        run_once(put);
    }
}

static bool find_hash(const message *m)
{
    bind(get, 1, m->hash);
    bool found = sqlite3_step(get) == SQLITE_ROW && sqlite3_column_bytes(get, 0) == (int)m->id_len &&
                 memcmp(sqlite3_column_blob(get, 0), m->id, m->id_len) == 0;
    must(sqlite3_reset(get) == SQLITE_OK, "cannot look up");
    return found;
}

static void insert_runs(message *batch, size_t count)
{
    insert_blocks(batch, count);
    qsort(batch, count, sizeof(*batch), by_hash);
    runs_insert(batch, count);
}

/* -- measuring ----------------------------------------------------------------------------------------------------- */

#define BLOCKS                                                                                                         \
    "CREATE TABLE blocks(channel INTEGER, first INTEGER, count INTEGER, data BLOB, PRIMARY KEY(channel, first));"
#define PUT_KEY "INSERT INTO keys(channel, origin, id, seq, digest) VALUES (?1, ?2, ?3, ?4, ?5)"
#define GET_KEY "SELECT seq, digest FROM keys WHERE channel = ?1 AND origin = ?2 AND id = ?3"
#define TUPLES                                                                                                         \
    BLOCKS "CREATE TABLE keys(channel INTEGER, origin INTEGER, id BLOB, seq INTEGER, digest INTEGER, "                 \
           "PRIMARY KEY(channel, origin, id)) WITHOUT ROWID;"

static const layout layouts[] = {
    {"rows",
     "CREATE TABLE keys(channel INTEGER, origin INTEGER, id BLOB, seq INTEGER, digest INTEGER, body BLOB, "
     "UNIQUE(channel, origin, id)); CREATE UNIQUE INDEX by_seq ON keys(channel, seq);"
     "CREATE TABLE blocks(channel INTEGER, first INTEGER, count INTEGER, data BLOB);",
     "INSERT INTO keys(channel, origin, id, seq, digest, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)", GET_KEY, insert_rows,
     find_tuple},
    {"tuple", TUPLES, PUT_KEY, GET_KEY, insert_tuple, find_tuple},
    {"sorted", TUPLES, PUT_KEY, GET_KEY, insert_sorted, find_tuple},
    {"hash",
     BLOCKS "CREATE TABLE keys(hash INTEGER PRIMARY KEY, channel INTEGER, origin INTEGER, id BLOB, seq INTEGER);",
     "INSERT INTO keys(channel, origin, id, seq, hash) VALUES (?1, ?2, ?3, ?4, ?5)",
     "SELECT id, seq FROM keys WHERE hash = ?1", insert_hash, find_hash},
    {"runs", BLOCKS RUNS_SCHEMA, "INSERT INTO parts(id, data) VALUES (?1, ?2)", "SELECT data FROM parts WHERE id = ?1",
     insert_runs, runs_find},
};

static void print(const char *name, uint64_t thousands, double value)
{
    char text[64];
    must(snprintf(text, sizeof(text), "%s_at_%" PRIu64 "k", name, thousands) > 0, "no name");
    tf_measure_print(text, value);
}

static double seconds_since(uint64_t start)
{
    return (double)(tf_measure_now() - start) / 1e9;
}

static void lookups(const layout *l, uint64_t stored)
{
    message m;
    uint64_t start = tf_measure_now();
    for (uint64_t i = 0; i < LOOKUPS; i++) {
        make(&m, mix(i) % stored);
        must(l->find(&m), "a key that was stored is not found");
    }
    print("present_per_s", stored / 1000, LOOKUPS / seconds_since(start));
    start = tf_measure_now();
    for (uint64_t i = 0; i < LOOKUPS; i++) {
        make(&m, stored + (1u << 30) + i);
        must(!l->find(&m), "a key is found that was never stored");
    }
    print("absent_per_s", stored / 1000, LOOKUPS / seconds_since(start));
}

static uint64_t read_block(tf_slice data, uint64_t count)
{
    tf_reader r;
    must(data.len > 8, "a block is damaged");
    tf_rd_init(&r, tf_slice_of(data.data, data.len - 8));
    sink += XXH3_64bits(data.data, data.len - 8);
    for (uint64_t i = 0; i < count; i++) {
        sink += tf_rd_var(&r) + tf_rd_var(&r);
        (void)tf_rd_bytes(&r, tf_rd_u8(&r));
        tf_slice b = tf_rd_bytes(&r, tf_rd_len(&r, BLOCK_MAX));
        sink += b.data[0];
    }
    must(tf_rd_end(&r) == TF_OK, "a block is damaged");
    return count;
}

/* Every message of every channel in order. */
static void replay(uint64_t stored)
{
    uint64_t start = tf_measure_now();
    uint64_t seen = 0;
    for (uint64_t channel = 0; channel < CHANNELS; channel++) {
        bind(get_blocks, 1, channel);
        while (sqlite3_step(get_blocks) == SQLITE_ROW) {
            uint64_t count = (uint64_t)sqlite3_column_int64(get_blocks, 0);
            size_t len = (size_t)sqlite3_column_bytes(get_blocks, 1);
            tf_slice data = tf_slice_of(sqlite3_column_blob(get_blocks, 1), len);
            seen += count == 0 ? 1 : read_block(data, count);
        }
        must(sqlite3_reset(get_blocks) == SQLITE_OK, "cannot replay");
    }
    must(seen == stored, "messages are missing");
    print("replay_per_s", stored / 1000, (double)seen / seconds_since(start));
}

static uint64_t insert_batch(const layout *l, uint64_t from, uint64_t count)
{
    static message batch[BATCH_MAX];
    for (uint64_t i = 0; i < count; i++) {
        make(&batch[i], from + i);
        batch[i].seq = ++heads[batch[i].channel];
    }
    run_once(begin);
    l->insert(batch, count);
    run_once(commit);
    return count;
}

static void fill(const layout *l, uint64_t batch, uint64_t total, const char *path)
{
    uint64_t stored = 0;
    while (stored < total) {
        uint64_t until = stored + 1000000 < total ? stored + 1000000 : total;
        uint64_t from = stored;
        uint64_t start = tf_measure_now();
        uint64_t slowest = 0;
        double cpu = tf_measure_cpu();
        while (stored < until) {
            uint64_t before = tf_measure_now();
            stored += insert_batch(l, stored, batch < until - stored ? batch : until - stored);
            uint64_t took = tf_measure_now() - before;
            slowest = took > slowest ? took : slowest;
        }
        print("insert_per_s", stored / 1000, (double)(stored - from) / seconds_since(start));
        print("cpu_us_per_message", stored / 1000, (tf_measure_cpu() - cpu) * 1e6 / (double)(stored - from));
        print("slowest_batch_ms", stored / 1000, (double)slowest / 1e6);
        struct stat st;
        must(stat(path, &st) == 0, "no file");
        print("bytes_per_message", stored / 1000, (double)st.st_size / (double)stored);
    }
    lookups(l, stored);
    replay(stored);
}

static void open_db(const layout *l, const char *path, const char *page_size)
{
    char sql[256];
    must(sqlite3_open(path, &db) == SQLITE_OK, "cannot open");
    must(snprintf(sql, sizeof(sql),
                  "PRAGMA page_size=%s; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-65536;"
                  "PRAGMA wal_autocheckpoint=%s;",
                  page_size, "8000") > 0,
         "no text");
    must(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "cannot set up");
    must(sqlite3_exec(db, l->schema, NULL, NULL, NULL) == SQLITE_OK, "cannot make tables");
    begin = prepare("BEGIN IMMEDIATE");
    commit = prepare("COMMIT");
    put = prepare(l->put);
    get = prepare(l->get);
    bool blocks = l->insert != insert_rows;
    put_block = prepare("INSERT INTO blocks(channel, first, count, data) VALUES (?1, ?2, ?3, ?4)");
    get_blocks = prepare(blocks ? "SELECT count, data FROM blocks WHERE channel = ?1 ORDER BY first"
                                : "SELECT 0, body FROM keys WHERE channel = ?1 ORDER BY seq");
    if (l->insert == insert_runs) {
        runs_prepare();
    }
}

static void close_db(const char *path)
{
    sqlite3_stmt *stmt = NULL;
    while ((stmt = sqlite3_next_stmt(db, NULL)) != NULL) {
        must(sqlite3_finalize(stmt) == SQLITE_OK, "cannot finish");
    }
    must(sqlite3_close(db) == SQLITE_OK, "cannot close");
    must(unlink(path) == 0, "cannot remove the file");
}

int main(int argc, char **argv)
{
    const layout *chosen = NULL;
    for (size_t i = 0; argc >= 5 && i < sizeof(layouts) / sizeof(*layouts); i++) {
        chosen = strcmp(argv[1], layouts[i].name) == 0 ? &layouts[i] : chosen;
    }
    uint64_t batch = chosen == NULL ? 0 : strtoull(argv[3], NULL, 10);
    uint64_t thousands = chosen == NULL ? 0 : strtoull(argv[4], NULL, 10);
    if (batch < 1 || batch > BATCH_MAX || thousands < 1) {
        (void)fprintf(stderr, "usage: bench_store_layout rows|tuple|sorted|hash|runs library|random BATCH THOUSANDS "
                              "[PAGE_SIZE [FILE]]\n");
        return 2;
    }
    random_keys = strcmp(argv[2], "random") == 0;
    const char *path = argc > 6 ? argv[6] : "bench_store_layout.db";
    (void)unlink(path);
    open_db(chosen, path, argc > 5 ? argv[5] : "4096");
    fill(chosen, batch, thousands * 1000, path);
    close_db(path);
    return EXIT_SUCCESS;
}
