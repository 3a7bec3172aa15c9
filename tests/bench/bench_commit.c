/* What a durable group costs: encoding its records, appending it to a commit log, one sync; beside the same number of
 * bytes written and synced over blocks that were written before, which is the least a disk can do.
 *
 * Usage: bench_commit FOLDER [COMMITS for each batch, default 2000]. FOLDER must be empty, on the disk to be measured;
 * what is made in it is removed. The two take turns, commit by commit, so that both see the same disk; segments are
 * prepared and released between commits, outside of what is measured. Prints "key value" lines. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "node/edge_mem.h"
#include "node/store/commit_log.h"
#include "node/store/log_file.h"
#include "tests/bench/measure.h"

#define BODY 128u
#define BATCH_MAX 1000u
#define RAW_NAME "raw"
#define RAW_SIZE (16u << 20)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const unsigned batches[] = {1, 32, 1000};

typedef struct series {
    tf_latency latency;
    double cpu; /* seconds */
} series;

typedef struct bench {
    tf_files files;
    tf_commit_log *log;
    tf_file *raw;
    uint64_t raw_offset;
    uint64_t seq;
    uint8_t *buffer;
    size_t buffer_size;
} bench;

static void must(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "bench_commit: %s\n", what);
        exit(1);
    }
}

static double thread_cpu(void)
{
    struct timespec at;
    must(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at) == 0, "no clock");
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static size_t encode(bench *b, unsigned batch)
{
    static uint8_t body[BODY];
    char client_id[40];
    uint64_t key = tf_commit_log_key(b->log);
    uint64_t lsn = tf_commit_log_next_lsn(b->log);
    size_t at = 0;
    tf_store_op op = {.kind = TF_STORE_APPEND,
                      .channel = 7,
                      .message = {.epoch = 0x0123456789abcdef, .timestamp_ms = 1700000000000, .instance = 42}};
    op.message.body = tf_slice_of(body, sizeof(body));
    for (unsigned i = 0; i < batch; i++) {
        int len = snprintf(client_id, sizeof(client_id), "0123456789abcdef%08llx", (unsigned long long)b->seq);
        op.message.client_id = tf_slice_of(client_id, (size_t)len);
        op.message.seq = ++b->seq;
        at += tf_record_write(b->buffer + at, b->buffer_size - at, key, lsn + i, &op);
    }
    return at;
}

static void commit(bench *b, unsigned batch, series *s, size_t *size)
{
    double cpu = thread_cpu();
    uint64_t start = tf_measure_now();
    *size = encode(b, batch);
    const tf_commit_group group = {.records = tf_slice_of(b->buffer, *size), .count = batch};
    must(tf_commit_log_append(b->log, &group) == TF_OK, "the log cannot be appended to");
    tf_latency_add(&s->latency, tf_measure_now() - start);
    s->cpu += thread_cpu() - cpu;
    tf_commit_log_release(b->log, tf_commit_log_next_lsn(b->log) - 1);
    while (tf_commit_log_wants_prepare(b->log)) {
        must(tf_commit_log_prepare(b->log) == TF_OK, "no segment can be prepared");
    }
}

static void write_raw(bench *b, size_t size, series *s)
{
    uint64_t span = tf_log_group_span(size); /* as many as the log writes */
    if (b->raw_offset + span > RAW_SIZE) {
        b->raw_offset = 0;
    }
    double cpu = thread_cpu();
    uint64_t start = tf_measure_now();
    must(tf_files_write(&b->files, b->raw, b->raw_offset, tf_slice_of(b->buffer, (size_t)span)) == TF_OK &&
             tf_files_sync(&b->files, b->raw) == TF_OK,
         "the raw file cannot be written");
    tf_latency_add(&s->latency, tf_measure_now() - start);
    s->cpu += thread_cpu() - cpu;
    b->raw_offset += span;
}

static void print(const char *name, unsigned batch, const series *s, uint64_t commits)
{
    char key[64];
    (void)snprintf(key, sizeof(key), "%s_b%u", name, batch);
    tf_latency_print(&s->latency, key);
    (void)snprintf(key, sizeof(key), "%s_b%u_cpu_us_per_message", name, batch);
    tf_measure_print(key, s->cpu * 1e6 / (double)(commits * batch));
}

static void measure(bench *b, unsigned batch, uint64_t commits)
{
    static series log;
    static series raw;
    char key[64];
    size_t size = 0;
    log = (series){.cpu = 0};
    raw = (series){.cpu = 0};
    for (uint64_t i = 0; i < commits; i++) {
        commit(b, batch, &log, &size);
        write_raw(b, size, &raw);
    }
    print("commit", batch, &log, commits);
    print("raw", batch, &raw, commits);
    (void)snprintf(key, sizeof(key), "ratio_b%u_p50", batch);
    tf_measure_print(key, (double)tf_latency_at(&log.latency, 0.5) / (double)tf_latency_at(&raw.latency, 0.5));
    (void)snprintf(key, sizeof(key), "ratio_b%u_p99", batch);
    tf_measure_print(key, (double)tf_latency_at(&log.latency, 0.99) / (double)tf_latency_at(&raw.latency, 0.99));
    (void)snprintf(key, sizeof(key), "bytes_b%u_per_message", batch);
    tf_measure_print(key, (double)tf_log_group_span(size) / batch);
}

static void set_up(bench *b, tf_disk_files *disk)
{
    tf_log_item item;
    b->files = tf_disk_files_get(disk);
    const tf_commit_log_config config = {.files = b->files, .mem = tf_edge_mem(), .rand = tf_edge_rand()};
    must(tf_commit_log_open(&b->log, &config, 0, NULL) == TF_OK, "no log can be opened there");
    must(tf_commit_log_next(b->log, &item) == TF_ERR_CLOSED, "there is a log already");
    must(tf_files_open(&b->files, RAW_NAME, TF_FILE_CREATE, &b->raw) == TF_OK, "no file can be made there");
    must(b->files.table->allocate(b->files.ctx, b->raw, RAW_SIZE) == TF_OK, "there is no room");
    must(tf_files_sync(&b->files, b->raw) == TF_OK, "it cannot be synced");
    b->buffer_size = (size_t)BATCH_MAX * (BODY + TF_RECORD_HEADER + 256);
    b->buffer = calloc(1, b->buffer_size);
    must(b->buffer != NULL, "out of memory");
}

static void tear_down(bench *b, const char *path)
{
    static tf_file_name names[256];
    char name[200];
    size_t count = 0;
    tf_commit_log_close(b->log);
    tf_files_close(&b->files, b->raw);
    must(b->files.table->remove(b->files.ctx, RAW_NAME) == TF_OK, "what was made cannot be removed");
    must(b->files.table->list(b->files.ctx, TF_LOG_FOLDER, names, COUNT(names), &count) == TF_OK, "it cannot be listed");
    for (size_t i = 0; i < count && i < COUNT(names); i++) {
        (void)snprintf(name, sizeof(name), TF_LOG_FOLDER "/%.127s", names[i].text);
        must(b->files.table->remove(b->files.ctx, name) == TF_OK, "what was made cannot be removed");
    }
    (void)snprintf(name, sizeof(name), "%.180s/" TF_LOG_FOLDER, path);
    must(rmdir(name) == 0, "what was made cannot be removed");
    free(b->buffer);
}

int main(int argc, char **argv)
{
    static bench b;
    tf_disk_files *disk = NULL;
    uint64_t commits = argc > 2 ? strtoull(argv[2], NULL, 10) : 2000;
    must((argc == 2 || argc == 3) && commits > 0, "usage: bench_commit FOLDER [COMMITS]");
    must(tf_disk_files_new(&disk, argv[1], tf_edge_mem()) == TF_OK, "there is no such folder");
    set_up(&b, disk);
    for (size_t i = 0; i < COUNT(batches); i++) {
        measure(&b, batches[i], commits);
    }
    tear_down(&b, argv[1]);
    tf_disk_files_free(disk);
    return 0;
}
