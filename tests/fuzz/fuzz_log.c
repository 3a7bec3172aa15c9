/* The commit log over hostile files: segments, groups and records whose checksums are right, wherever the input does
 * not damage them, and that say anything. Reading ends; what comes out goes up without a hole, each LSN once, as a
 * record or as damage, and the report says the same; a log opens over it and takes more. If the groups of each file
 * are in order, as every writer leaves them (torn and damaged ones among them), then at the next opening all that was
 * handed out and what was taken is there.
 * Input: one byte (how it is read), one byte (from where), then files: number, kind, count of groups, groups. */
#include <stdlib.h>

#include "node/store/commit_log.h"
#include "node/store/log_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/lossy_files.h"
#include "tests/support/support.h"

#define KEY UINT64_C(0x0123456789abcdef)
#define FILES_MAX 5u
#define GROUPS_MAX 6u
#define RECORDS_MAX 4u
#define FILE_BYTES (TF_LOG_SEGMENT_HEADER + 8u * 4096u)
#define ITEMS_MAX 4096u

typedef struct seen {
    bool is_record;
    uint64_t first;
    uint64_t last;
} seen;

typedef struct story {
    seen items[ITEMS_MAX];
    size_t count;
    tf_err end;
} story;

/* -- files --------------------------------------------------------------------------------------------------------- */

/* Small numbers, mostly; some that nothing can follow. */
static uint64_t take_lsn(tf_slice *input)
{
    uint8_t small = tf_fuzz_u8(input);
    switch (small) {
    case 0xff:
        return UINT64_MAX - tf_fuzz_u8(input);
    case 0xfe:
        return (UINT64_C(1) << 62) - tf_fuzz_u8(input);
    case 0xfd:
        return (uint64_t)tf_fuzz_u32(input) << 32 | tf_fuzz_u32(input);
    default:
        return small;
    }
}

static size_t put_record(tf_slice *input, uint64_t lsn, uint8_t *out, size_t cap)
{
    uint8_t what = tf_fuzz_u8(input);
    uint8_t size = tf_fuzz_u8(input);
    tf_store_op op = {.kind = TF_STORE_TRIM, .channel = 1 + (what & 3u), .seq = size};
    if ((what & 4u) != 0) {
        op = (tf_store_op){.kind = TF_STORE_APPEND,
                           .channel = 1,
                           .message = {.seq = size + 1u,
                                       .client_id = tf_slice_str("id"),
                                       .body = tf_fuzz_bytes(input, size)}};
    }
    if (tf_record_bound(&op) > cap) {
        return 0;
    }
    lsn = (what & 0xe0u) == 0xe0u ? take_lsn(input) : lsn;
    size_t len = tf_record_write(out, cap, KEY, lsn, &op);
    if ((what & 0x18u) == 0x18u) {
        out[tf_fuzz_u8(input) % len] ^= (uint8_t)(tf_fuzz_u8(input) | 1u);
    }
    return len;
}

typedef struct segment_file {
    uint64_t number;
    bool in_order;
    uint64_t next; /* LSN; in order: the next group's is not below */
} segment_file;

/* Returns what it takes of the file. */
static size_t put_group(tf_slice *input, segment_file *f, uint8_t *out, size_t cap)
{
    uint8_t what = tf_fuzz_u8(input);
    size_t len = 0;
    uint32_t count = tf_fuzz_u8(input) % (RECORDS_MAX + 1);
    tf_log_group group = {.segment = f->number, .first = take_lsn(input), .count = count};
    group.durable = (what & 3u) != 0 ? group.first - (what & 3u) : take_lsn(input);
    if (f->in_order) {
        what = (what & 0xc0u) == 0xc0u ? 0x40u : what;
        group.first = f->next == 0 ? 1 + (group.first & 0xffu) : f->next + (group.first & 1u);
        group.durable = group.first - 1; /* L10 */
        f->next = group.first + count;
    }
    if (cap < TF_LOG_BLOCK) {
        return cap;
    }
    for (uint32_t i = 0; i < count; i++) {
        len += put_record(input, group.first + i, out + TF_LOG_GROUP_HEADER + len, cap - TF_LOG_GROUP_HEADER - len);
    }
    group.size = (uint32_t)len;
    group.segment += (what & 0x1cu) == 0x1cu ? 1 : 0;
    group.count = (what & 0xe0u) == 0xe0u ? tf_fuzz_u32(input) : group.count;
    group.size = (what & 0xe0u) == 0xc0u ? tf_fuzz_u32(input) : group.size;
    tf_log_group_write(out, KEY, &group);
    if ((what & 0xe0u) == 0xa0u) { /* torn */
        size_t from = (size_t)tf_fuzz_u8(input) * 8;
        memset(out + from, 0, from < TF_LOG_GROUP_HEADER + len ? TF_LOG_GROUP_HEADER + len - from : 0);
    }
    return (size_t)tf_log_group_span(len);
}

static void write_file(const tf_files *files, uint64_t number, tf_slice bytes)
{
    tf_file_name name;
    tf_file *file = NULL;
    tf_log_file_name(number, &name);
    TF_ASSERT(tf_files_open(files, name.text, TF_FILE_ANY, &file) == TF_OK);
    TF_ASSERT(tf_files_write(files, file, 0, bytes) == TF_OK);
    tf_files_close(files, file);
}

static void put_file(tf_slice *input, const tf_files *files, bool in_order)
{
    static uint8_t bytes[FILE_BYTES];
    segment_file f = {.number = 1 + tf_fuzz_u8(input) % (FILES_MAX + 2), .in_order = in_order};
    uint8_t kind = tf_fuzz_u8(input);
    size_t groups = tf_fuzz_u8(input) % (GROUPS_MAX + 1);
    tf_log_segment_header header = {.number = f.number, .key = KEY, .size = sizeof(bytes)};
    memset(bytes, 0, sizeof(bytes));
    header.number += (kind & 0x0fu) == 1 ? 1 : 0;
    header.key += (kind & 0x0fu) == 2 ? 1 : 0;
    header.size += (kind & 0x0fu) == 3 ? 512 : 0;
    tf_log_segment_write(bytes, &header);
    bytes[tf_fuzz_u8(input)] ^= (kind & 0x0fu) == 4 ? 1 : 0;
    size_t at = TF_LOG_SEGMENT_HEADER;
    for (size_t i = 0; i < groups && at < sizeof(bytes); i++) {
        at += put_group(input, &f, bytes + at, sizeof(bytes) - at);
    }
    size_t size = (kind & 0xf0u) == 0xf0u ? tf_fuzz_u32(input) % sizeof(bytes) : sizeof(bytes);
    write_file(files, f.number, tf_slice_of(bytes, size));
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

/* One more item: it begins where the one before ended. */
static void note(story *s, const tf_log_item *item, uint64_t from)
{
    uint64_t next = s->count == 0 ? from + 1 : s->items[s->count - 1].last + 1;
    TF_ASSERT(s->count < ITEMS_MAX);
    seen *it = &s->items[s->count++];
    it->is_record = item->type == TF_LOG_RECORD;
    it->first = it->is_record ? item->record.lsn : item->damage.first;
    it->last = it->is_record ? item->record.lsn : item->damage.last;
    TF_ASSERT(it->first == next && it->last >= it->first && it->last != UINT64_MAX);
}

static void check_report(const story *s, const tf_log_report *report)
{
    uint64_t records = 0;
    uint64_t damaged = 0;
    for (size_t i = 0; i < s->count; i++) {
        records += s->items[i].is_record ? 1 : 0;
        damaged += s->items[i].is_record ? 0 : s->items[i].last - s->items[i].first + 1;
    }
    TF_ASSERT(report->records == records && report->damaged == damaged && report->range_count <= TF_LOG_RANGES);
    for (size_t i = 0; i < report->range_count; i++) {
        TF_ASSERT(report->ranges[i].first <= report->ranges[i].last);
        TF_ASSERT(i == 0 || report->ranges[i].first > report->ranges[i - 1].last);
    }
}

static void read_all(const tf_files *files, uint64_t from, bool live, story *s)
{
    const tf_log_reader_config config = {.files = *files, .mem = tf_test_mem(), .from = from, .live = live};
    tf_log_reader *reader = NULL;
    tf_log_item item;
    char why[TF_WHY_MAX] = "";
    s->count = 0;
    s->end = tf_log_reader_new(&reader, &config, why);
    if (s->end != TF_OK) {
        TF_ASSERT(s->end == TF_ERR_USAGE && why[0] != '\0');
        return;
    }
    while ((s->end = tf_log_reader_next(reader, &item)) == TF_OK) {
        note(s, &item, from);
    }
    TF_ASSERT(s->end == TF_ERR_CLOSED || s->end == TF_ERR_USAGE || (live && s->end == TF_ERR_AGAIN));
    check_report(s, tf_log_reader_report(reader));
    tf_log_reader_free(reader);
}

/* NULL: it could not be opened, for the same reason as it could not be read. */
static tf_commit_log *open_log(const tf_files *files, uint64_t from, story *s)
{
    const tf_commit_log_config config = {.files = *files,
                                         .mem = tf_test_mem(),
                                         .rand = tf_test_rand(3),
                                         .segment_size = TF_LOG_SEGMENT_SIZE_MIN,
                                         .segments_max = TF_LOG_SEGMENTS_MIN};
    tf_commit_log *log = NULL;
    tf_log_item item;
    char why[TF_WHY_MAX] = "";
    s->count = 0;
    s->end = tf_commit_log_open(&log, &config, from, why);
    while (s->end == TF_OK && (s->end = tf_commit_log_next(log, &item)) == TF_OK) {
        note(s, &item, from);
    }
    if (s->end == TF_ERR_CLOSED) {
        check_report(s, tf_commit_log_report(log));
        return log;
    }
    TF_ASSERT(s->end == TF_ERR_USAGE);
    tf_commit_log_close(log);
    return NULL;
}

static void check_same(const story *a, const story *b)
{
    TF_ASSERT(a->end == b->end && a->count == b->count);
    for (size_t i = 0; i < a->count; i++) {
        TF_ASSERT(a->items[i].is_record == b->items[i].is_record && a->items[i].last == b->items[i].last);
    }
}

/* The LSN that it got; 0: there was no room. */
static uint64_t append(tf_commit_log *log)
{
    uint8_t record[256];
    const tf_store_op op = {.kind = TF_STORE_TRIM, .channel = 9, .seq = 9};
    uint64_t lsn = tf_commit_log_next_lsn(log);
    size_t len = tf_record_write(record, sizeof(record), tf_commit_log_key(log), lsn, &op);
    tf_err err = tf_commit_log_append(log, &(tf_commit_group){tf_slice_of(record, len), 1, true});
    TF_ASSERT(err == TF_OK || err == TF_ERR_AGAIN);
    return err == TF_OK ? lsn : 0;
}

static void check_again(const tf_files *files, uint64_t from, const story *before, uint64_t lsn)
{
    static story now;
    uint64_t added = lsn != 0 ? 1 : 0;
    tf_commit_log *log = open_log(files, from, &now);
    TF_ASSERT(log != NULL && now.count == before->count + added);
    for (size_t i = 0; i < before->count; i++) {
        const seen *a = &before->items[i];
        const seen *b = &now.items[i];
        TF_ASSERT(a->is_record == b->is_record && a->first == b->first && a->last == b->last);
    }
    TF_ASSERT(lsn == 0 || (now.items[now.count - 1].is_record && now.items[now.count - 1].last == lsn));
    tf_commit_log_close(log);
}

static void run_log(const tf_files *files, uint64_t from, bool in_order, const story *expected)
{
    static story first;
    tf_commit_log *log = open_log(files, from, &first);
    check_same(expected, &first);
    if (log == NULL) {
        return;
    }
    uint64_t last = first.count == 0 ? from : first.items[first.count - 1].last;
    TF_ASSERT(tf_commit_log_next_lsn(log) == last + 1);
    uint64_t lsn = append(log);
    tf_commit_log_close(log);
    if (in_order) {
        check_again(files, from, &first, lsn);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static story read;
    tf_slice input = tf_slice_of(data, size);
    tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
    tf_files files = tf_lossy_files_get(lossy);
    uint8_t how = tf_fuzz_u8(&input);
    uint64_t from = take_lsn(&input);
    from = from >= TF_LOG_LSN_MAX ? 0 : from; /* the index and the spool have refused it */
    TF_ASSERT(files.table->make_dir(files.ctx, TF_LOG_FOLDER) == TF_OK);
    for (unsigned i = 0; i < FILES_MAX && input.len > 0; i++) {
        put_file(&input, &files, (how & 2u) != 0);
    }
    tf_lossy_files_settle(lossy);
    read_all(&files, from, true, &read);
    read_all(&files, from, false, &read);
    if ((how & 1u) != 0) {
        run_log(&files, from, (how & 2u) != 0, &read);
    }
    tf_lossy_files_free(lossy);
    TF_ASSERT(tf_test_heap_shared()->live_blocks == 0);
    return 0;
}
