/* A store that something else wrote to, on real files: values in the index that no program of ours writes, blocks
 * whose sums are right and that say anything, ops in the commit log that do not fit, flipped bytes, cut files. The
 * check ends and says what is wrong, or what is wrong says why there was no check; what it finds sound is opened,
 * written to, backed up, restored and still sound; a repair that succeeds leaves a sound store, and what fails leaves
 * nothing behind that is half made.
 * Input: one byte (what is done), then edits of values, ops of the log, flips of bytes, each behind their number. */
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>
#include <xxhash.h>

#include "node/edge_mem.h"
#include "node/store/backup.h"
#include "node/store/db.h"
#include "node/store/repair.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/support.h"

#define PATH_ROOM 160u
#define MESSAGES 40u
#define EPOCH 77u
#define FILE_ROOM ((size_t)1024 * 1024)
#define EDITS_MAX 5u
#define WAIT_MS 20
#define WAITS_MAX 1000u /* of them: then it hangs */

static char root[PATH_ROOM];
static uint8_t base[FILE_ROOM]; /* the index of a sound store */
static size_t base_len;
static tf_check_report report;
static tf_repair_report repaired;

static const char *path_of(char out[PATH_ROOM], const char *name)
{
    (void)snprintf(out, PATH_ROOM, "%.90s/%s", root, name);
    return out;
}

/* -- files --------------------------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_tree(const char *path)
{
    TF_ASSERT(nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT);
}

static void remove_root(void)
{
    remove_tree(root);
}

static size_t read_file(const char *path, uint8_t *out, size_t cap)
{
    FILE *file = fopen(path, "rb");
    size_t len = file == NULL ? 0 : fread(out, 1, cap, file);
    TF_ASSERT(file == NULL || fclose(file) == 0);
    return len;
}

static void write_file(const char *path, const uint8_t *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    TF_ASSERT(file != NULL && fwrite(bytes, 1, len, file) == len && fclose(file) == 0);
}

/* -- a sound store ------------------------------------------------------------------------------------------------- */

static tf_store_op append_op(uint64_t channel, uint64_t seq)
{
    static char ids[2 * MESSAGES + 2][8];
    char *id = ids[(channel - 1) * MESSAGES + seq % (MESSAGES + 1)];
    (void)snprintf(id, sizeof(ids[0]), "id%u", (unsigned)seq);
    tf_store_op op = {.kind = TF_STORE_APPEND, .channel = channel};
    op.message = (tf_stored){.seq = seq,
                             .epoch = EPOCH,
                             .timestamp_ms = 1000 + (int64_t)seq,
                             .client_id = tf_slice_str(id),
                             .body = tf_slice_str("the body of a message")};
    return op;
}

static void apply(tf_db *db, uint64_t *lsn, tf_store_op op)
{
    TF_ASSERT(tf_db_apply_op(db, ++*lsn, &op) == TF_OK);
}

static void make_base(void)
{
    char path[PATH_ROOM];
    tf_db *db = NULL;
    uint64_t lsn = 0;
    const tf_db_config config = {.path = path_of(path, "base.db"), .mem = tf_test_mem()};
    TF_ASSERT(tf_db_open(&db, &config, NULL) == TF_OK && tf_db_apply_begin(db) == TF_OK);
    apply(db, &lsn, (tf_store_op){.kind = TF_STORE_CREATE, .channel = 1, .name = tf_slice_str("a"), .epoch = EPOCH});
    apply(db, &lsn, (tf_store_op){.kind = TF_STORE_CREATE, .channel = 2, .name = tf_slice_str("b"), .epoch = EPOCH});
    for (uint64_t seq = 1; seq <= MESSAGES; seq++) {
        apply(db, &lsn, append_op(1, seq));
        if (seq == MESSAGES / 2) {
            TF_ASSERT(tf_db_apply_commit(db) == TF_OK && tf_db_apply_begin(db) == TF_OK);
        }
        if (seq <= 3) {
            apply(db, &lsn, append_op(2, seq));
        }
    }
    const tf_store_cursor cursor = {.channel = 1, .name = tf_slice_str("c"), .epoch = EPOCH, .next = 5};
    apply(db, &lsn, (tf_store_op){.kind = TF_STORE_CURSOR, .channel = 1, .cursor = cursor});
    apply(db, &lsn, (tf_store_op){.kind = TF_STORE_TRIM, .channel = 1, .seq = 4});
    TF_ASSERT(tf_db_apply_commit(db) == TF_OK && tf_db_checkpoint(db, true) == TF_OK);
    tf_db_free(db);
    base_len = read_file(path, base, sizeof(base));
    TF_ASSERT(base_len > 0 && base_len < sizeof(base));
}

static void begin(void)
{
    char path[PATH_ROOM];
    if (root[0] == '\0') {
        const char *memory = "/dev/shm"; /* where syncs cost nothing, if there is such a place */
        (void)snprintf(root, sizeof(root), "%s/tf-fuzz-store-XXXXXX", access(memory, W_OK) == 0 ? memory : "/tmp");
        TF_ASSERT(mkdtemp(root) != NULL && atexit(remove_root) == 0);
        (void)umask(S_IRWXG | S_IRWXO);
        make_base();
    }
    TF_ASSERT(mkdir(path_of(path, "store"), 0700) == 0);
    write_file(path_of(path, "store/index.db"), base, base_len);
}

static void end(void)
{
    static const char *const names[] = {"store", "backup", "restored", "restored.new"};
    char path[PATH_ROOM];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        remove_tree(path_of(path, names[i]));
    }
}

/* -- values -------------------------------------------------------------------------------------------------------- */

static int64_t take_value(tf_slice *input)
{
    uint8_t small = tf_fuzz_u8(input);
    uint64_t large = 0;
    switch (small) {
    case 0xff:
        return INT64_MAX - tf_fuzz_u8(input);
    case 0xfe:
        return INT64_MIN + tf_fuzz_u8(input);
    case 0xfd:
        return -1 - tf_fuzz_u8(input);
    case 0xfc:
        large = tf_fuzz_u32(input);
        return (int64_t)(large << 31 | tf_fuzz_u32(input));
    default:
        return small;
    }
}

static void exec(sqlite3 *db, const char *sql)
{
    char *message = NULL;
    (void)sqlite3_exec(db, sql, NULL, NULL, &message); /* a constraint may be against it */
    sqlite3_free(message);
}

/* A row of a table gets another number. */
static void edit_number(sqlite3 *db, tf_slice *input)
{
    static const struct {
        const char *table;
        const char *key;
        const char *column;
    } columns[] = {
        {"state", "id", "applied_lsn"},         {"state", "id", "next_part"},        {"channels", "number", "number"},
        {"channels", "number", "epoch"},        {"channels", "number", "first"},     {"channels", "number", "head"},
        {"channels", "number", "timestamp_ms"}, {"channels", "number", "bytes"},     {"channels", "number", "closed"},
        {"channels", "number", "keys_since_ms"}, {"channels", "number", "collected"}, {"blocks", "first", "channel"},
        {"blocks", "first", "first"},           {"blocks", "first", "count"},        {"blocks", "first", "time_first"},
        {"blocks", "first", "time_last"},       {"blocks", "first", "bytes_before"}, {"blocks", "first", "len"},
        {"blocks", "first", "data"},            {"block_data", "id", "id"},          {"key_runs", "id", "level"},
        {"key_runs", "id", "bits"},             {"key_runs", "id", "keys"},          {"key_runs", "id", "first_part"},
        {"key_runs", "id", "parts_done"},       {"key_runs", "id", "merged_into"},   {"key_runs", "id", "damaged"},
        {"key_parts", "id", "id"},              {"key_counts", "run", "channel"},    {"key_counts", "run", "keys"},
        {"key_counts", "run", "time_last"},     {"cursors", "id", "channel"},        {"cursors", "id", "epoch"},
        {"cursors", "id", "next"},              {"cursors", "id", "moved_ms"},
    };
    char sql[256];
    size_t i = tf_fuzz_u8(input) % (sizeof(columns) / sizeof(columns[0]));
    unsigned row = tf_fuzz_u8(input) % 4u;
    long long value = take_value(input);
    if (i == 1) {
        value &= 0xffff; /* next_part: so many parts are looked for, at most */
    }
    (void)snprintf(sql, sizeof(sql), "UPDATE %s SET %s = %lld WHERE %s = (SELECT %s FROM %s LIMIT 1 OFFSET %u)",
                   columns[i].table, columns[i].column, value, columns[i].key, columns[i].key, columns[i].table, row);
    exec(db, sql);
}

/* Some bytes of a blob become others; the sum at the end of a block or part is then right again. */
static void edit_bytes(sqlite3 *db, tf_slice *input)
{
    static const struct {
        const char *table;
        const char *column;
        bool summed;
    } blobs[] = {{"block_data", "data", true}, {"key_parts", "data", true}, {"channels", "name", false},
                 {"cursors", "name", false},   {"cursors", "owner", false}};
    size_t which = tf_fuzz_u8(input) % 5u;
    sqlite3_int64 row = 1 + tf_fuzz_u8(input) % 4;
    uint32_t at = tf_fuzz_u32(input);
    tf_slice with = tf_fuzz_bytes(input, tf_fuzz_u8(input) & 31u);
    sqlite3_blob *blob = NULL;
    if (sqlite3_blob_open(db, "main", blobs[which].table, blobs[which].column, row, 1, &blob) != SQLITE_OK) {
        (void)sqlite3_blob_close(blob);
        return;
    }
    int len = sqlite3_blob_bytes(blob);
    uint8_t *bytes = malloc((size_t)len + 1);
    TF_ASSERT(bytes != NULL && sqlite3_blob_read(blob, bytes, len, 0) == SQLITE_OK);
    for (size_t i = 0; i < with.len && len > 0; i++) {
        bytes[(at + i) % (size_t)len] = with.data[i];
    }
    if (blobs[which].summed && len >= 8) {
        tf_writer w;
        tf_wr_init(&w, bytes + len - 8, 8);
        tf_wr_u64(&w, XXH3_64bits(bytes, (size_t)len - 8));
    }
    (void)sqlite3_blob_write(blob, bytes, len, 0);
    (void)sqlite3_blob_close(blob);
    free(bytes);
}

static void delete_row(sqlite3 *db, tf_slice *input)
{
    static const char *const tables[][2] = {{"state", "id"},      {"channels", "number"}, {"blocks", "first"},
                                            {"block_data", "id"}, {"key_runs", "id"},     {"key_parts", "id"},
                                            {"key_counts", "run"}, {"cursors", "id"}};
    char sql[256];
    size_t i = tf_fuzz_u8(input) % (sizeof(tables) / sizeof(tables[0]));
    (void)snprintf(sql, sizeof(sql), "DELETE FROM %s WHERE %s = (SELECT %s FROM %s LIMIT 1 OFFSET %u)", tables[i][0],
                   tables[i][1], tables[i][1], tables[i][0], tf_fuzz_u8(input) % 4u);
    exec(db, sql);
}

static void edit_index(tf_slice *input)
{
    char path[PATH_ROOM];
    sqlite3 *db = NULL;
    unsigned count = tf_fuzz_u8(input) % (EDITS_MAX + 1);
    if (count == 0) {
        return;
    }
    TF_ASSERT(sqlite3_open_v2(path_of(path, "store/index.db"), &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK);
    exec(db, "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF");
    for (unsigned i = 0; i < count; i++) {
        uint8_t kind = tf_fuzz_u8(input);
        ((kind & 7u) == 0 ? delete_row : (kind & 3u) == 1 ? edit_bytes : edit_number)(db, input);
    }
    TF_ASSERT(sqlite3_close(db) == SQLITE_OK);
}

/* -- the log ------------------------------------------------------------------------------------------------------- */

static tf_store_op take_op(tf_slice *input)
{
    static const tf_store_op_kind kinds[] = {TF_STORE_APPEND, TF_STORE_CREATE, TF_STORE_CLOSE, TF_STORE_TRIM,
                                             TF_STORE_FORGET, TF_STORE_EPOCH,  TF_STORE_CURSOR, TF_STORE_APPEND};
    const uint64_t var_max = (UINT64_C(1) << 62) - 1;
    uint8_t what = tf_fuzz_u8(input);
    uint64_t channel = (what & 0xc0u) == 0xc0u ? (uint64_t)take_value(input) & var_max : 1u + (what >> 6);
    uint64_t seq = MESSAGES + 1u + (what >> 3 & 3u);
    seq = (what & 0x20u) != 0 ? (uint64_t)take_value(input) & var_max : seq;
    tf_store_op op = append_op(channel < 3 && channel > 0 ? channel : 1, seq);
    op.kind = kinds[what & 7u];
    op.channel = channel;
    if (op.kind == TF_STORE_APPEND) {
        op.message.timestamp_ms = (what & 0x20u) != 0 ? take_value(input) : 5000;
        return op;
    }
    op.message = (tf_stored){.seq = 0};
    op.seq = op.kind == TF_STORE_TRIM ? seq : 0;
    op.epoch = op.kind == TF_STORE_CREATE || op.kind == TF_STORE_EPOCH ? EPOCH + 1u : 0;
    if (op.kind == TF_STORE_CREATE) { /* one name a number, as the key of the log vouches for */
        static char name[32];
        (void)snprintf(name, sizeof(name), "new-%llu", (unsigned long long)channel);
        op.name = tf_slice_str(name);
    }
    op.time_ms = op.kind == TF_STORE_FORGET ? take_value(input) : 0;
    if (op.kind == TF_STORE_CURSOR) {
        op.cursor = (tf_store_cursor){.channel = channel, .name = tf_slice_str("c"), .epoch = EPOCH, .next = seq};
    }
    return op;
}

static void write_log(tf_slice *input)
{
    char path[PATH_ROOM];
    tf_disk_files *disk = NULL;
    tf_commit_log *log = NULL;
    tf_log_item item;
    uint8_t bytes[1024];
    unsigned count = tf_fuzz_u8(input) % (2 * EDITS_MAX);
    uint64_t applied = 2 + MESSAGES + 3 + 2;
    applied += (tf_fuzz_u8(input) & 7u) == 7 ? 1 : 0; /* a change before is lost */
    if (count == 0) {
        return;
    }
    TF_ASSERT(tf_disk_files_new(&disk, path_of(path, "store"), tf_test_mem()) == TF_OK);
    const tf_commit_log_config config = {.files = tf_disk_files_get(disk),
                                         .mem = tf_test_mem(),
                                         .rand = tf_test_rand(3),
                                         .segment_size = TF_LOG_SEGMENT_SIZE_MIN,
                                         .segments_max = TF_LOG_SEGMENTS_MIN};
    TF_ASSERT(tf_commit_log_open(&log, &config, applied, NULL) == TF_OK);
    TF_ASSERT(tf_commit_log_next(log, &item) == TF_ERR_CLOSED);
    for (unsigned i = 0; i < count; i++) {
        tf_store_op op = take_op(input);
        size_t len = tf_record_write(bytes, sizeof(bytes), tf_commit_log_key(log), tf_commit_log_next_lsn(log), &op);
        TF_ASSERT(tf_commit_log_append(log, &(tf_commit_group){tf_slice_of(bytes, len), 1, false}) == TF_OK);
    }
    tf_commit_log_close(log);
    tf_disk_files_free(disk);
}

/* Bytes of a file change, or its end is gone. */
static void damage(tf_slice *input, const char *name)
{
    static uint8_t bytes[FILE_ROOM];
    char path[PATH_ROOM];
    size_t len = read_file(path_of(path, name), bytes, sizeof(bytes));
    unsigned count = tf_fuzz_u8(input) % (EDITS_MAX + 1);
    for (unsigned i = 0; i < count && len > 0; i++) {
        uint32_t at = tf_fuzz_u32(input);
        uint8_t with = tf_fuzz_u8(input);
        if (at >> 28 == 15) {
            len = at % len;
        } else {
            bytes[at % (len < 65536 ? len : 65536)] = with;
        }
    }
    if (count > 0 && access(path, F_OK) == 0) {
        write_file(path, bytes, len);
    }
}

/* -- what is done -------------------------------------------------------------------------------------------------- */

static void check_why(tf_err err, const char why[TF_WHY_MAX])
{
    TF_ASSERT(err == TF_ERR_USAGE || err == TF_ERR_DAMAGED || err == TF_ERR_IO || err == TF_ERR_AGAIN);
    TF_ASSERT(why[0] != '\0');
}

/* Whether nothing is wrong with the store of that name. */
static bool is_sound(const char *name)
{
    char path[PATH_ROOM];
    char why[TF_WHY_MAX] = "";
    tf_err err = tf_check_store(path_of(path, name), tf_test_mem(), &report, why);
    if (err != TF_OK) {
        check_why(err, why);
        return false;
    }
    TF_ASSERT(report.count <= TF_CHECK_FINDINGS && report.found >= report.count);
    TF_ASSERT((report.found == 0) == (report.kinds == 0));
    for (size_t i = 0; i < report.count; i++) {
        const tf_check_finding *f = &report.findings[i];
        TF_ASSERT(f->text[0] != '\0' && (report.kinds & 1u << f->kind) != 0);
        TF_ASSERT(memchr(f->channel, '\0', sizeof(f->channel)) != NULL);
    }
    return report.found == 0;
}

static tf_refusal commit(tf_disk_store *disk, tf_store_op *op)
{
    tf_store store = tf_disk_store_get(disk);
    tf_store_group group = {op, 1};
    tf_store_event_type event = TF_STORE_READ_READY;
    store.table->submit(store.ctx, &group);
    for (unsigned i = 0; i < WAITS_MAX; i++) {
        while (store.table->poll(store.ctx, &event)) {
            if (event == TF_STORE_GROUP_DONE) {
                return op->outcome;
            }
        }
        struct pollfd fd = {.fd = tf_disk_store_fd(disk), .events = POLLIN};
        uint64_t rings = 0;
        if (poll(&fd, 1, WAIT_MS) == 1) {
            TF_ASSERT(read(fd.fd, &rings, sizeof(rings)) == (ssize_t)sizeof(rings));
        }
    }
    TF_UNREACHABLE(); /* it hangs */
}

/* One message more to each channel. */
static void append_to_all(tf_disk_store *disk, bool sound)
{
    tf_store store = tf_disk_store_get(disk);
    uint64_t position = 0;
    tf_store_channel channel;
    while (store.table->channel_next(store.ctx, &position, &channel)) {
        tf_store_op op = append_op(1, MESSAGES);
        op.channel = channel.number;
        op.message.seq = channel.head + 1;
        op.message.epoch = channel.epoch;
        op.message.client_id = tf_slice_str("another");
        op.message.timestamp_ms = channel.timestamp_ms > 9000 ? channel.timestamp_ms : 9000;
        if (!channel.closed && channel.head < UINT32_MAX && channel.timestamp_ms < INT64_MAX) {
            tf_refusal outcome = commit(disk, &op);
            TF_ASSERT(!sound || outcome == TF_REFUSAL_NONE);
        }
    }
}

static void open_and_write(const char *name, bool sound)
{
    char path[PATH_ROOM];
    char why[TF_WHY_MAX] = "";
    tf_disk_store *disk = NULL;
    const tf_disk_store_config config = {.directory = path_of(path, name),
                                         .mem = tf_test_mem(),
                                         .rand = tf_test_rand(7),
                                         .segment_size = TF_LOG_SEGMENT_SIZE_MIN,
                                         .segments_max = TF_LOG_SEGMENTS_MIN};
    tf_err err = tf_disk_store_open(&disk, &config, why);
    if (err != TF_OK) {
        TF_ASSERT(!sound);
        check_why(err, why);
        return;
    }
    append_to_all(disk, sound);
    tf_disk_store_close(disk);
    TF_ASSERT(!sound || is_sound(name));
}

static void repair(bool sound)
{
    char path[PATH_ROOM];
    char why[TF_WHY_MAX] = "";
    const tf_repair_config config = {.directory = path_of(path, "store"),
                                     .segment_size = TF_LOG_SEGMENT_SIZE_MIN,
                                     .mem = tf_test_mem(),
                                     .rand = tf_test_rand(9)};
    tf_err err = tf_repair_store(&config, &repaired, why);
    if (err != TF_OK) {
        TF_ASSERT(!sound);
        check_why(err, why);
        return;
    }
    TF_ASSERT(!sound || !repaired.needed);
    (void)is_sound("store");
    const unsigned lost_only = 1u << TF_CHECK_LOST | 1u << TF_CHECK_KEYS | 1u << TF_CHECK_NUMBERS;
    TF_ASSERT((report.kinds & ~lost_only) == 0);
}

static void back_up(tf_slice *input, bool sound)
{
    char store[PATH_ROOM];
    char backup[PATH_ROOM];
    char restored[PATH_ROOM];
    char why[TF_WHY_MAX] = "";
    tf_manifest manifest;
    tf_backup_config config = {.store = path_of(store, "store"),
                               .backup = path_of(backup, "backup"),
                               .damaged_too = (tf_fuzz_u8(input) & 3u) == 3,
                               .mem = tf_test_mem(),
                               .rand = tf_test_rand(11)};
    tf_err err = tf_backup_write(&config, &manifest, &report, why);
    if (err != TF_OK) {
        TF_ASSERT(!sound && (why[0] != '\0' || report.count > 0));
        TF_ASSERT(access(path_of(backup, "backup/manifest"), F_OK) != 0);
        return;
    }
    damage(input, "backup/manifest");
    damage(input, "backup/store.db");
    config.store = path_of(restored, "restored");
    err = tf_backup_restore(&config, &manifest, why);
    if (err != TF_OK) {
        check_why(err, why);
        TF_ASSERT(access(restored, F_OK) != 0);
    } else {
        TF_ASSERT(is_sound("restored") || !sound);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tf_slice input = tf_slice_of(data, size);
    uint8_t decisions = tf_fuzz_u8(&input);
    size_t blocks = tf_test_heap_shared()->live_blocks;
    begin();
    edit_index(&input);
    write_log(&input);
    damage(&input, "store/index.db");
    damage(&input, "store/log/0000000000000001.log");
    bool sound = is_sound("store");
    if ((decisions & 3u) == 1) {
        repair(sound);
    } else if ((decisions & 3u) == 2) {
        back_up(&input, sound);
    } else if ((decisions & 3u) == 3) {
        open_and_write("store", sound);
    }
    end();
    TF_ASSERT(tf_test_heap_shared()->live_blocks == blocks);
    return 0;
}
