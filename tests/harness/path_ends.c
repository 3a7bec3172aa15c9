#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/harness/path.h"

#define BATCH 64 /* packets read from one device before others have their turn */
#define NS_PER_SECOND 1000000000u

uint64_t tf_path_now(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) {
        abort();
    }
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

void tf_path_read(tf_path *path, size_t end)
{
    static uint8_t bytes[TF_PATH_PACKET_MAX];
    uint64_t now = tf_path_now();
    for (int i = 0; i < BATCH; i++) {
        ssize_t len = read(path->ends[end], bytes, sizeof(bytes));
        if (len <= 0) {
            return;
        }
        if (end == TF_PATH_NAT_END) {
            tf_path_nat_map(&path->nat, bytes, (size_t)len);
        }
        tf_path_way_admit(&path->ways[end], now, tf_slice_of(bytes, (size_t)len));
    }
}

uint64_t tf_path_deliver(tf_path *path)
{
    uint64_t next = TF_PATH_NEVER;
    for (size_t i = 0; i < TF_PATH_WAYS; i++) {
        tf_path_way *way = &path->ways[i];
        size_t to = 1 - i;
        while (tf_path_way_due(way) <= tf_path_now()) {
            tf_path_packet packet = tf_path_way_take(way);
            if (to == TF_PATH_NAT_END && !tf_path_nat_unmap(&path->nat, packet.bytes, packet.len)) {
                way->unmapped++;
            } else if (write(path->ends[to], packet.bytes, packet.len) >= 0) {
                way->out++;
            } else {
                way->overflow++;
            }
            free(packet.bytes);
        }
        uint64_t due = tf_path_way_due(way);
        next = due < next ? due : next;
    }
    return next;
}
