/* What reading and writing a message costs, ours against msgpack-c; and a segment frame, and the map.
 *
 * Usage: bench_codec [MILLIONS, default 2]. Prints ns an operation, the best of five runs. The message is a deliver with
 * a method of 4 bytes, 128 bytes of arguments, 2 refs and a result; msgpack-c packs through a bounded callback and
 * unpacks into one reused zone, behind the shape check. */
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "proto/frame.h"
#include "proto/map.h"
#include "proto/message.h"
#include "proto/mp.h"
#include "tests/support/support.h"

#define RUNS 5
#define KEYS 4096u

static const uint8_t args[128];
static const tf_ref refs[2] = {20, 4242};
static uint8_t out[512];
static size_t out_len;
static volatile uint64_t sink; /* what is read must not be optimised away */
static tf_map map;
static msgpack_zone zone;

static void must(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "bench_codec: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

static uint64_t now_ns(void)
{
    struct timespec ts;
    must(clock_gettime(CLOCK_MONOTONIC, &ts) == 0, "no clock");
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void write_ours(uint64_t i)
{
    const tf_deliver deliver = {1, {(const uint8_t *)"send", 4}, {args, sizeof(args)}, refs, 2, true, 4 * i + 2};
    tf_writer w;
    tf_wr_init(&w, out, sizeof(out));
    tf_message_write_deliver(&w, i, 1, &deliver);
    must(tf_wr_ok(&w), "does not fit");
    out_len = tf_wr_len(&w);
}

static int bounded_write(void *data, const char *bytes, size_t len)
{
    tf_writer *w = data;
    tf_wr_bytes(w, tf_slice_of(bytes, len));
    return tf_wr_ok(w) ? 0 : -1;
}

static void write_msgpack_c(uint64_t i)
{
    tf_writer w;
    tf_wr_init(&w, out, sizeof(out));
    msgpack_packer pk;
    msgpack_packer_init(&pk, &w, bounded_write);
    int err = msgpack_pack_array(&pk, 8);
    err |= msgpack_pack_uint64(&pk, TF_MESSAGE_DELIVER);
    err |= msgpack_pack_uint64(&pk, i);
    err |= msgpack_pack_uint64(&pk, 1);
    err |= msgpack_pack_uint64(&pk, 1);
    err |= msgpack_pack_str(&pk, 4);
    err |= msgpack_pack_str_body(&pk, "send", 4);
    err |= msgpack_pack_bin(&pk, sizeof(args));
    err |= msgpack_pack_bin_body(&pk, args, sizeof(args));
    err |= msgpack_pack_array(&pk, 2);
    err |= msgpack_pack_uint64(&pk, refs[0]);
    err |= msgpack_pack_uint64(&pk, refs[1]);
    err |= msgpack_pack_uint64(&pk, 4 * i + 2);
    must(err == 0, "does not fit");
    out_len = tf_wr_len(&w);
}

static void read_ours(uint64_t i)
{
    (void)i;
    tf_message message;
    must(tf_message_read(tf_slice_of(out, out_len), &message) == TF_OK, "cannot be read");
    tf_ref ref = 0;
    while (tf_refs_next(&message.refs, &ref)) {
        sink += ref;
    }
}

static void check_ours(uint64_t i)
{
    (void)i;
    must(tf_mp_check(tf_slice_of(out, out_len), TF_MP_DEPTH_MAX, TF_MP_ITEMS_MAX) == TF_OK, "wrong shape");
}

static void read_msgpack_c(uint64_t i)
{
    check_ours(i);
    size_t offset = 0;
    msgpack_object object;
    must(msgpack_unpack((const char *)out, out_len, &offset, &zone, &object) == MSGPACK_UNPACK_SUCCESS,
         "cannot be read");
    const msgpack_object *field = object.via.array.ptr;
    sink += field[6].via.array.ptr[0].via.u64 + field[6].via.array.ptr[1].via.u64;
    msgpack_zone_clear(&zone);
}

static void write_segment(uint64_t i)
{
    const tf_frame frame = {.type = TF_FRAME_SEGMENT, .u.segment = {i, 3, {args, sizeof(args)}}};
    tf_writer w;
    tf_wr_init(&w, out, sizeof(out));
    must(tf_frame_write(&w, &frame), "does not fit");
    out_len = tf_wr_len(&w);
}

static void read_segment(uint64_t i)
{
    (void)i;
    tf_frame frame;
    tf_reader r;
    tf_rd_init(&r, tf_slice_of(out, out_len));
    must(tf_frame_read(&r, &frame) == TF_OK, "cannot be read");
    sink += frame.u.segment.seq;
}

static void map_put_remove(uint64_t i)
{
    must(tf_map_put(&map, KEYS + i, i) == TF_OK, "no memory");
    must(tf_map_remove(&map, i), "not there");
}

static void map_get(uint64_t i)
{
    uint64_t value = 0;
    (void)tf_map_get(&map, i, &value);
    sink += value;
}

static void map_fill(void)
{
    tf_map_clear(&map);
    for (uint64_t i = 0; i < KEYS; i++) {
        must(tf_map_put(&map, i, i) == TF_OK, "no memory");
    }
}

/* The best of several runs; `before` makes the input that each run starts with. */
static void measure(const char *name, void (*before)(void), void (*operation)(uint64_t), uint64_t count)
{
    double best = 0;
    for (int run = 0; run < RUNS; run++) {
        before();
        uint64_t start = now_ns();
        for (uint64_t i = 0; i < count; i++) {
            operation(i);
        }
        double ns = (double)(now_ns() - start) / (double)count;
        best = run == 0 || ns < best ? ns : best;
    }
    (void)printf("%-40s %8.1f ns\n", name, best);
}

static void message_before(void)
{
    write_ours(70000);
}

static void segment_before(void)
{
    write_segment(70000);
}

int main(int argc, char **argv)
{
    char *end = NULL;
    unsigned long millions = argc > 1 ? strtoul(argv[1], &end, 10) : 2;
    must(argc <= 2 && millions > 0 && (end == NULL || *end == '\0'), "usage: bench_codec [MILLIONS]");
    uint64_t count = (uint64_t)millions * 1000000;
    must(msgpack_zone_init(&zone, 8192), "no memory");
    tf_map_init(&map, tf_test_mem(), 42);
    measure("message write, proto/message", message_before, write_ours, count);
    measure("message write, msgpack-c", message_before, write_msgpack_c, count);
    measure("message read, proto/message", message_before, read_ours, count);
    measure("message read, shape check + msgpack-c", message_before, read_msgpack_c, count);
    measure("shape check alone", message_before, check_ours, count);
    measure("segment frame write", segment_before, write_segment, count);
    measure("segment frame read", segment_before, read_segment, count);
    measure("map put + remove, 4096 keys", map_fill, map_put_remove, count);
    measure("map get, 4096 keys", map_fill, map_get, count);
    tf_map_clear(&map);
    msgpack_zone_destroy(&zone);
    return EXIT_SUCCESS;
}
