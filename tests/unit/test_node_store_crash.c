/* node/store/disk over a disk that loses what was not synced: the power goes off at every single operation of a short
 * history in turn. Then every change that was reported durable is there, once, in order, and nothing is there in part
 * (P1, S6, S11). */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/edge_mem.h"
#include "node/store/disk.h"
#include "tests/support/check_main.h"
#include "tests/support/files_vfs.h"
#include "tests/support/lossy_files.h"
#include "tests/support/support.h"

#define VFS "lossy-crash"

enum { CHANNELS = 2, GROUPS = 14, GROUP_MAX = 6, MESSAGES_MAX = GROUPS * GROUP_MAX };

/* What the store has acked, and what it was asked. */
typedef struct ledger {
    uint64_t numbers[CHANNELS]; /* 0: its creation was not acked */
    uint64_t acked[CHANNELS];   /* messages, from seq 1 */
    uint64_t asked[CHANNELS];
    uint64_t trimmed[CHANNELS]; /* acked trims: the first that is kept */
    uint64_t trim_asked[CHANNELS];
    uint64_t cursor; /* acked position */
    uint64_t cursor_asked;
} ledger;

typedef struct bench_disk {
    tf_lossy_files *lossy;
    tf_files_vfs *vfs;
    tf_files files;
    tf_disk_store *store;
    tf_store table;
} bench_disk;

static const char *const names[CHANNELS] = {"one", "two"};
static const tf_node_id origin = {{7}};

static tf_err open_store(bench_disk *d)
{
    char why[TF_WHY_MAX] = "";
    tf_disk_store_config config = {.directory = "",
                                   .files = &d->files,
                                   .vfs = VFS,
                                   .mem = tf_test_mem(),
                                   .rand = tf_test_rand(5),
                                   .segment_size = 256u * 1024,
                                   .segments_max = 4,
                                   .tail_bytes = 2048};
    tf_err err = tf_disk_store_open(&d->store, &config, why);
    if (err == TF_OK) {
        d->table = tf_disk_store_get(d->store);
    } else {
        d->store = NULL;
    }
    return err;
}

static bool is_off(const bench_disk *d)
{
    return tf_lossy_files_is_off(d->lossy);
}

/* The power is off, or something else was done to the disk: then a start or a change may fail, and says so. */
static bool is_faulty(const bench_disk *d)
{
    tf_lossy_counts counts;
    tf_lossy_files_get_counts(d->lossy, &counts);
    return is_off(d) || counts.faults > 0;
}

/* True: the group has its outcomes. False: the power is off before. */
static bool commit(bench_disk *d, tf_store_op *ops, size_t count)
{
    tf_store_group group = {ops, count};
    tf_store_event_type type;
    d->table.table->submit(d->table.ctx, &group);
    for (;;) {
        while (d->table.table->poll(d->table.ctx, &type)) {
            if (type == TF_STORE_GROUP_DONE) {
                return true;
            }
        }
        struct pollfd wait = {.fd = tf_disk_store_fd(d->store), .events = POLLIN};
        if (poll(&wait, 1, 10) == 0 && is_off(d)) {
            return false;
        }
        uint64_t count_read = 0;
        ssize_t got = read(wait.fd, &count_read, sizeof(count_read));
        (void)got;
    }
}

static size_t body_of(unsigned channel, uint64_t seq, char *out, size_t cap)
{
    int len = snprintf(out, cap, "%s message %llu", names[channel], (unsigned long long)seq);
    /* Some are larger, so that groups differ and segments fill. */
    size_t size = (size_t)len + (seq % 5 == 0 ? 900u : seq % 7);
    memset(out + len, '.', size - (size_t)len);
    return size;
}

static bool create_all(bench_disk *d, ledger *l)
{
    for (unsigned i = 0; i < CHANNELS; i++) {
        tf_store_channel found;
        if (d->table.table->channel_find(d->table.ctx, tf_slice_str(names[i]), &found) == TF_OK) {
            l->numbers[i] = found.number;
            continue;
        }
        ck_assert_uint_eq(l->numbers[i], 0); /* what was acked is there */
        tf_store_op op = {.kind = TF_STORE_CREATE, .name = tf_slice_str(names[i]), .epoch = 100 + i};
        if (!commit(d, &op, 1) || op.outcome != TF_REFUSAL_NONE) {
            return false;
        }
        l->numbers[i] = op.channel;
    }
    return true;
}

/* One group of appends to both channels. */
static bool append_group(bench_disk *d, ledger *l, unsigned number)
{
    static char bodies[GROUP_MAX][1200];
    char ids[GROUP_MAX][16];
    tf_store_op ops[GROUP_MAX];
    size_t count = 1 + number % GROUP_MAX;
    for (size_t i = 0; i < count; i++) {
        unsigned channel = (number + (unsigned)i) % CHANNELS;
        uint64_t seq = ++l->asked[channel];
        size_t len = body_of(channel, seq, bodies[i], sizeof(bodies[i]));
        (void)snprintf(ids[i], sizeof(ids[i]), "id-%llu", (unsigned long long)seq);
        ops[i] = (tf_store_op){.kind = TF_STORE_APPEND,
                               .channel = l->numbers[channel],
                               .message = {.seq = seq,
                                           .epoch = 100 + channel,
                                           .timestamp_ms = (int64_t)seq,
                                           .origin = origin,
                                           .instance = 3,
                                           .client_id = tf_slice_str(ids[i]),
                                           .body = tf_slice_of((uint8_t *)bodies[i], len)}};
    }
    bool on = commit(d, ops, count);
    for (size_t i = 0; i < count && on; i++) {
        unsigned channel = (number + (unsigned)i) % CHANNELS;
        if (ops[i].outcome != TF_REFUSAL_NONE) {
            ck_assert(is_faulty(d));
            on = false; /* the rest of this channel in the group is refused, too */
        } else {
            l->acked[channel] = ops[i].message.seq;
        }
    }
    return on;
}

static bool change_group(bench_disk *d, ledger *l)
{
    l->trim_asked[0] = l->acked[0] / 2 + 1;
    l->cursor_asked = l->acked[1] + 1;
    tf_store_op ops[2] = {{.kind = TF_STORE_TRIM, .channel = l->numbers[0], .seq = l->trim_asked[0]},
                          {.kind = TF_STORE_CURSOR,
                           .channel = l->numbers[1],
                           .cursor = {.channel = l->numbers[1],
                                      .owner = origin,
                                      .name = tf_slice_str("reader"),
                                      .epoch = 101,
                                      .next = l->cursor_asked}}};
    if (!commit(d, ops, 2)) {
        return false;
    }
    if (ops[0].outcome != TF_REFUSAL_NONE || ops[1].outcome != TF_REFUSAL_NONE) {
        ck_assert(is_faulty(d));
        return false;
    }
    l->trimmed[0] = l->trim_asked[0];
    l->cursor = l->cursor_asked;
    return true;
}

/* The history; false: the power went off in it. */
static bool run_history(bench_disk *d, ledger *l)
{
    if (open_store(d) != TF_OK) {
        ck_assert(is_faulty(d));
        return false;
    }
    bool on = create_all(d, l);
    for (unsigned i = 0; i < GROUPS && on; i++) {
        on = append_group(d, l, i);
        if (on && i % 5 == 4) {
            on = change_group(d, l);
        }
        if (on && i == GROUPS / 2) { /* a clean end in the middle */
            tf_disk_store_close(d->store);
            d->store = NULL;
            on = open_store(d) == TF_OK;
            ck_assert(on || is_faulty(d));
        }
    }
    tf_disk_store_close(d->store);
    d->store = NULL;
    return on && !is_off(d);
}

static tf_store_presence read_waiting(bench_disk *d, uint64_t channel, uint64_t seq, tf_stored *out)
{
    tf_store_presence presence = TF_STORE_LATER;
    while ((presence = d->table.table->read(d->table.ctx, channel, seq, out)) == TF_STORE_LATER) {
        tf_store_event_type type;
        struct pollfd wait = {.fd = tf_disk_store_fd(d->store), .events = POLLIN};
        if (!d->table.table->poll(d->table.ctx, &type)) {
            (void)poll(&wait, 1, -1);
        }
    }
    return presence;
}

static void check_message(bench_disk *d, const ledger *l, unsigned channel, uint64_t seq)
{
    static char body[1200];
    char id[16];
    tf_stored stored;
    tf_store_key key;
    size_t len = body_of(channel, seq, body, sizeof(body));
    ck_assert_int_eq(read_waiting(d, l->numbers[channel], seq, &stored), TF_STORE_HERE);
    ck_assert(stored.seq == seq && stored.epoch == 100 + channel && stored.timestamp_ms == (int64_t)seq);
    ck_assert(tf_slice_eq(stored.body, tf_slice_of((uint8_t *)body, len)));
    (void)snprintf(id, sizeof(id), "id-%llu", (unsigned long long)seq);
    ck_assert_int_eq(
        d->table.table->find(d->table.ctx, l->numbers[channel], &origin, tf_slice_str(id), &key), TF_OK);
    ck_assert(key.seq == seq && key.digest == tf_store_digest(tf_slice_of((uint8_t *)body, len)));
}

static void check_channel(bench_disk *d, const ledger *l, unsigned i)
{
    tf_store_channel found;
    tf_err err = d->table.table->channel_find(d->table.ctx, tf_slice_str(names[i]), &found);
    if (l->numbers[i] == 0 && err == TF_ERR_CLOSED) {
        return;
    }
    ck_assert_int_eq(err, TF_OK);
    ck_assert(l->numbers[i] == 0 || found.number == l->numbers[i]);
    ck_assert_uint_eq(found.epoch, 100 + i);
    ck_assert_uint_ge(found.head, l->acked[i]);
    ck_assert_uint_le(found.head, l->asked[i]);
    ck_assert_uint_ge(found.first, l->trimmed[i] == 0 ? 1 : l->trimmed[i]);
    ck_assert(found.first == 1 || found.first <= l->trim_asked[i]);
    for (uint64_t seq = found.first; seq <= found.head; seq++) {
        check_message(d, l, i, seq);
    }
}

static void check_all(bench_disk *d, const ledger *l)
{
    tf_store_damage damage;
    size_t position = 0;
    tf_store_cursor cursor = {.next = 0};
    ck_assert_int_eq(open_store(d), TF_OK);
    for (unsigned i = 0; i < CHANNELS; i++) {
        check_channel(d, l, i);
    }
    ck_assert(!d->table.table->damage_next(d->table.ctx, &position, &damage));
    ck_assert_uint_eq(tf_disk_store_report(d->store)->damaged, 0);
    if (l->cursor != 0) {
        ck_assert_int_eq(d->table.table->cursor_find(d->table.ctx, l->numbers[1], &origin, tf_slice_str("reader"), &cursor),
                         TF_OK);
        ck_assert(cursor.next == l->cursor || cursor.next == l->cursor_asked);
    }
    tf_disk_store_close(d->store);
    d->store = NULL;
}

static void plug_in(bench_disk *d)
{
    *d = (bench_disk){.lossy = tf_lossy_files_new(UINT64_MAX)};
    d->files = tf_lossy_files_get(d->lossy);
    d->vfs = tf_files_vfs_new(VFS, d->files);
}

static void unplug(bench_disk *d)
{
    tf_files_vfs_free(d->vfs);
    tf_lossy_files_free(d->lossy);
}

/* The power goes off at operation n of the log's files and SQLite's. True: the history was over before. */
static bool one_crash(uint64_t n, uint64_t seed)
{
    bench_disk d;
    ledger l = {.cursor = 0};
    plug_in(&d);
    tf_lossy_files_stop_at(d.lossy, n);
    bool whole = run_history(&d, &l);
    tf_lossy_files_crash(d.lossy, seed);
    check_all(&d, &l);
    unplug(&d);
    return whole;
}

START_TEST(disk_power_off_at_every_operation_keeps_what_was_acked)
{
    uint64_t n = 0;
    while (!one_crash(n, n)) {
        n++;
    }
    ck_assert_uint_gt(n, 100);
}
END_TEST

/* A sync fails once: nothing is acked by it, everything is known in the end, and the next start has it all. */
START_TEST(disk_failed_sync_is_made_good_or_told)
{
    for (uint64_t n = 0; n < 60; n++) {
        bench_disk d;
        ledger l = {.cursor = 0};
        plug_in(&d);
        tf_lossy_files_fail_sync_at(d.lossy, n);
        (void)run_history(&d, &l);
        tf_lossy_files_crash(d.lossy, n);
        check_all(&d, &l);
        unplug(&d);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {disk_power_off_at_every_operation_keeps_what_was_acked,
                                  disk_failed_sync_is_made_good_or_told, NULL};
    return tf_test_run_waiting("node/store/crash", tests);
}
