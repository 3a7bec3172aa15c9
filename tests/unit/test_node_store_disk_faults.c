/* node/store/disk without memory: each allocation of the caller's thread fails in turn, while the store is opened, written,
 * read and closed. It says so, nothing leaks, and what was acked before or in between is there when there is memory again
 * (P1). And what a full disk costs, and one that cannot be read. */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "node/store/disk.h"
#include "tests/support/check_main.h"
#include "tests/support/files_vfs.h"
#include "tests/support/lossy_files.h"
#include "tests/support/support.h"

#define VFS "lossy-memory"
#define EPOCH 9u
#define WAIT_MS 10
#define READS_MAX 10000

typedef struct world {
    tf_lossy_files *lossy;
    tf_files_vfs *vfs;
    tf_files files;
    tf_test_heap heap;
    tf_disk_store *store;
    tf_store table;
    uint64_t channel; /* 0: its creation was not acked */
    uint64_t acked;   /* messages, from seq 1 */
} world;

static const tf_node_id origin = {{7}};

static void begin(world *w)
{
    *w = (world){.lossy = tf_lossy_files_new(UINT64_MAX)};
    w->files = tf_lossy_files_get(w->lossy);
    w->vfs = tf_files_vfs_new(VFS, w->files);
    tf_test_heap_init(&w->heap);
}

static void end(world *w)
{
    ck_assert_uint_eq(w->heap.live_blocks, 0);
    tf_files_vfs_free(w->vfs);
    tf_lossy_files_free(w->lossy);
}

static tf_err open_store(world *w)
{
    char why[TF_WHY_MAX] = "";
    const tf_disk_store_config config = {.directory = "",
                                         .files = &w->files,
                                         .vfs = VFS,
                                         .mem = &w->heap.mem,
                                         .rand = tf_test_rand(5),
                                         .segment_size = 256u * 1024,
                                         .segments_max = 4,
                                         .tail_bytes = 1}; /* what is read comes from the index */
    tf_err err = tf_disk_store_open(&w->store, &config, why);
    if (err != TF_OK) {
        w->store = NULL;
        ck_assert_int_eq(err, TF_ERR_NOMEM);
        return err;
    }
    w->table = tf_disk_store_get(w->store);
    return TF_OK;
}

static void close_store(world *w)
{
    tf_disk_store_close(w->store);
    w->store = NULL;
}

static void wait_for(world *w, tf_store_event_type wanted)
{
    for (;;) {
        tf_store_event_type type;
        uint64_t rings = 0;
        while (w->table.table->poll(w->table.ctx, &type)) {
            if (type == wanted) {
                return;
            }
        }
        struct pollfd fd = {.fd = tf_disk_store_fd(w->store), .events = POLLIN};
        if (poll(&fd, 1, WAIT_MS) == 1) {
            ck_assert_int_eq(read(fd.fd, &rings, sizeof(rings)), (ssize_t)sizeof(rings));
        }
    }
}

static bool commit(world *w, tf_store_op *op)
{
    tf_store_group group = {op, 1};
    w->table.table->submit(w->table.ctx, &group);
    wait_for(w, TF_STORE_GROUP_DONE);
    return op->outcome == TF_REFUSAL_NONE;
}

static tf_store_op message_of(uint64_t channel, uint64_t seq)
{
    static char id[16];
    static char body[32];
    (void)snprintf(id, sizeof(id), "id-%u", (unsigned)seq);
    (void)snprintf(body, sizeof(body), "message %u", (unsigned)seq);
    return (tf_store_op){.kind = TF_STORE_APPEND,
                         .channel = channel,
                         .message = {.seq = seq,
                                     .epoch = EPOCH,
                                     .timestamp_ms = (int64_t)seq,
                                     .origin = origin,
                                     .client_id = tf_slice_str(id),
                                     .body = tf_slice_str(body)}};
}

static void write_some(world *w, uint64_t count)
{
    if (w->channel == 0) {
        tf_store_op op = {.kind = TF_STORE_CREATE, .name = tf_slice_str("room"), .epoch = EPOCH};
        w->channel = commit(w, &op) ? op.channel : 0;
    }
    for (uint64_t i = 0; i < count && w->channel != 0; i++) {
        tf_store_op op = message_of(w->channel, w->acked + 1);
        w->acked += commit(w, &op) ? 1 : 0;
    }
}

/* What is read is what was written; DAMAGED is not said of what only could not be had. */
static void read_one(world *w, uint64_t seq, bool must)
{
    tf_stored got;
    tf_store_presence presence = TF_STORE_LATER;
    for (int i = 0; presence == TF_STORE_LATER && i < READS_MAX; i++) {
        presence = w->table.table->read(w->table.ctx, w->channel, seq, &got);
        if (presence == TF_STORE_LATER && must) {
            wait_for(w, TF_STORE_READ_READY);
        } else if (presence == TF_STORE_LATER) {
            return; /* it is on its way, or there was no memory to fetch it */
        }
    }
    ck_assert_int_eq(presence, TF_STORE_HERE);
    const tf_store_op expected = message_of(w->channel, seq);
    ck_assert(tf_slice_eq(got.client_id, expected.message.client_id) && tf_slice_eq(got.body, expected.message.body));
}

static void look(world *w, bool must)
{
    tf_store_key key;
    for (uint64_t seq = 1; seq <= w->acked; seq++) {
        const tf_store_op op = message_of(w->channel, seq);
        read_one(w, seq, must);
        tf_err err = w->table.table->find(w->table.ctx, w->channel, &origin, op.message.client_id, &key);
        ck_assert(err == TF_OK || (!must && err != TF_ERR_CLOSED)); /* never taken for a new one */
        ck_assert(err != TF_OK || key.seq == seq);
    }
}

/* With all the memory there is: all that was acked is there, and it goes on. */
static void check_whole(world *w)
{
    tf_store_channel found;
    tf_test_heap_fail_never(&w->heap);
    ck_assert_int_eq(open_store(w), TF_OK);
    tf_err err = w->table.table->channel_find(w->table.ctx, tf_slice_str("room"), &found);
    if (w->channel != 0) {
        ck_assert_int_eq(err, TF_OK);
        ck_assert_uint_eq(found.head, w->acked);
        look(w, true);
    }
    write_some(w, 2);
    close_store(w);
}

static bool run(uint64_t k, bool for_ever)
{
    world w;
    begin(&w);
    ck_assert_int_eq(open_store(&w), TF_OK);
    write_some(&w, 5);
    close_store(&w);
    tf_test_heap_fail_at(&w.heap, k, for_ever);
    if (open_store(&w) == TF_OK) {
        look(&w, false);
        write_some(&w, 3);
        look(&w, false);
        close_store(&w);
    }
    bool failed = w.heap.failures > 0;
    check_whole(&w);
    end(&w);
    return failed;
}

START_TEST(disk_store_without_memory_says_so_and_loses_nothing)
{
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        uint64_t k = 0;
        while (run(k, for_ever != 0)) {
            k++;
        }
        ck_assert_uint_gt(k, 10);
    }
}
END_TEST

/* The same with no store before. */
START_TEST(disk_store_that_is_made_without_memory_is_none_or_whole)
{
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        bool failed = true;
        for (uint64_t k = 0; failed; k++) {
            world w;
            begin(&w);
            tf_test_heap_fail_at(&w.heap, k, for_ever != 0);
            if (open_store(&w) == TF_OK) {
                write_some(&w, 3);
                close_store(&w);
            }
            failed = w.heap.failures > 0;
            check_whole(&w);
            end(&w);
        }
    }
}
END_TEST

static bool create(world *w, const char *name, uint64_t *number)
{
    tf_store_op op = {.kind = TF_STORE_CREATE, .name = tf_slice_str(name), .epoch = EPOCH};
    bool made = commit(w, &op);
    *number = op.channel;
    return made;
}

/* Numbers end, and memory goes by the highest: what is refused while the disk is full takes none. */
START_TEST(disk_store_channel_that_was_refused_takes_no_number)
{
    static uint8_t large[200u * 1024];
    world w;
    tf_lossy_counts counts;
    uint64_t number = 0;
    begin(&w);
    ck_assert_int_eq(open_store(&w), TF_OK);
    write_some(&w, 1);
    tf_lossy_files_get_counts(w.lossy, &counts);
    tf_lossy_files_set_capacity(w.lossy, counts.bytes);
    bool full = false;
    for (uint64_t i = 0; !full; i++) {
        ck_assert_uint_lt(i, 100);
        tf_store_op op = message_of(w.channel, w.acked + 1);
        op.message.body = tf_slice_of(large, sizeof(large));
        full = !commit(&w, &op);
        w.acked += full ? 0 : 1;
    }
    char name[16];
    uint64_t last = w.channel;
    for (unsigned refused = 0; refused < 50;) { /* some small ones fit still */
        (void)snprintf(name, sizeof(name), "more-%u", (unsigned)last);
        bool made = create(&w, name, &number);
        ck_assert(!made || number == last + 1);
        last += made ? 1 : 0;
        refused += made ? 0 : 1;
        ck_assert_uint_lt(last, 5000);
    }
    tf_lossy_files_set_capacity(w.lossy, UINT64_MAX);
    while (!create(&w, "again", &number)) { /* it tries again by itself */
        (void)poll(NULL, 0, WAIT_MS);
    }
    ck_assert_uint_eq(number, last + 1);
    close_store(&w);
    end(&w);
}
END_TEST

static void check_bounds(const world *w, uint64_t by_time, uint64_t by_bytes)
{
    const tf_store_table *table = w->table.table;
    ck_assert_uint_eq(table->find_time(w->table.ctx, w->channel, 4), by_time);
    ck_assert_uint_eq(table->find_bytes(w->table.ctx, w->channel, 2 * 13), by_bytes); /* "id-n" and "message n" */
}

/* What is trimmed for its age or size follows from these: an index that cannot be read is none that is empty. */
START_TEST(disk_store_bounds_that_cannot_be_read_keep_everything)
{
    world w;
    begin(&w);
    ck_assert_int_eq(open_store(&w), TF_OK);
    write_some(&w, 5);
    close_store(&w);
    ck_assert_int_eq(open_store(&w), TF_OK);
    tf_lossy_files_fail_at(w.lossy, 0, TF_LOSSY_ERROR, true);
    check_bounds(&w, 1, 1);
    tf_lossy_files_fail_at(w.lossy, UINT64_MAX, TF_LOSSY_ERROR, false);
    check_bounds(&w, 4, 4);
    close_store(&w);
    end(&w);
}
END_TEST

/* A group that is larger than the log may be: its beginning is taken, and the rest refused, not waited for. */
START_TEST(disk_store_group_larger_than_the_log_is_taken_in_part)
{
    enum { OPS = 16, BODY = 400 * 1024 };
    static uint8_t body[BODY];
    static char ids[OPS][16];
    static tf_store_op ops[OPS];
    world w;
    begin(&w);
    ck_assert_int_eq(open_store(&w), TF_OK);
    write_some(&w, 1);
    for (uint64_t i = 0; i < OPS; i++) {
        ops[i] = message_of(w.channel, w.acked + 1 + i);
        (void)snprintf(ids[i], sizeof(ids[i]), "large-%u", (unsigned)i);
        ops[i].message.client_id = tf_slice_str(ids[i]);
        ops[i].message.body = tf_slice_of(body, sizeof(body));
    }
    tf_store_group group = {ops, OPS};
    w.table.table->submit(w.table.ctx, &group);
    wait_for(&w, TF_STORE_GROUP_DONE);
    ck_assert_int_eq(ops[0].outcome, TF_REFUSAL_NONE);
    ck_assert_int_eq(ops[OPS - 1].outcome, TF_REFUSAL_STORE_FULL);
    close_store(&w);
    end(&w);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {disk_store_without_memory_says_so_and_loses_nothing,
                                  disk_store_that_is_made_without_memory_is_none_or_whole,
                                  disk_store_channel_that_was_refused_takes_no_number,
                                  disk_store_bounds_that_cannot_be_read_keep_everything,
                                  disk_store_group_larger_than_the_log_is_taken_in_part, NULL};
    return tf_test_run_waiting("node/store/disk, faults", tests);
}
