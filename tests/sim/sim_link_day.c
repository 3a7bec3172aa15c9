/* A day of datagrams alone, in virtual time: the stream is lost for good after the first second. Sparse messages both ways,
 * some loss, real keys that change phase every hour. All must arrive, the route must stay, memory must not grow, and at the
 * end it falls silent (P2, P3, P7, P9).
 *
 *     sim_link_day [--seeds A..B] */
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/traffic.h"

#define HOURS 24u
#define HOUR (3600 * TF_SECOND)
#define RTT (20 * TF_MS)
#define SEEDS_DEFAULT 2u
#define MEMORY_MAX ((size_t)96 * 1024)
#define MEMORY_SWING ((size_t)8 * 1024) /* what is under way */

static void fail(const traffic *t, const char *what)
{
    (void)fprintf(stderr, "seed %llu, at %llu s: %s\n", (unsigned long long)t->ends.seed,
                  (unsigned long long)(net_now(t->ends.net) / TF_SECOND), what);
    ends_print(&t->ends, stderr);
    abort();
}

static void check_hour(const traffic *t, unsigned hour, const size_t most[NET_ENDS])
{
    for (unsigned end = 0; end < NET_ENDS; end++) {
        const ends_end *s = &t->ends.end[end];
        if (tf_link_verdict(s->link, TF_ROUTE_DATAGRAM) != TF_VERDICT_UP) {
            fail(t, "the datagram route is not up");
        }
        if (s->heap.live_bytes > most[end]) {
            fail(t, "memory grows");
        }
        if (t->flow[end].got + 2 < t->flow[end].due) {
            fail(t, "messages are late");
        }
        tf_keys_stats stats;
        tf_keys_stats_get(ends_keys_of(&t->ends, end), &stats);
        if (stats.send_phase + 1 < hour || stats.receive_phase + 1 < hour || stats.forged + stats.misphased > 0) {
            fail(t, "key phases do not go on");
        }
    }
}

static void check_silence(traffic *t)
{
    ends_run_for(&t->ends, 60 * TF_SECOND);
    uint64_t before[NET_ENDS] = {t->ends.end[0].packets, t->ends.end[1].packets};
    ends_run_for(&t->ends, 600 * TF_SECOND);
    for (unsigned end = 0; end < NET_ENDS; end++) {
        uint64_t keepalives = 600 * TF_SECOND / t->ends.config.keepalive;
        if (!tf_link_is_quiet(t->ends.end[end].link) || t->flow[1 - end].got != t->flow[1 - end].due) {
            fail(t, "not all has arrived");
        }
        if (t->ends.end[end].packets - before[end] > 3 * keepalives) { /* a probe, an answer, an ack */
            fail(t, "it does not fall silent");
        }
    }
}

static void run(uint64_t seed)
{
    traffic *t = traffic_new(seed);
    for (unsigned end = 0; end < NET_ENDS; end++) {
        net_path_of(t->ends.net, end)->delay = RTT / 2;
        net_path_of(t->ends.net, end)->loss = 20;
    }
    t->ends.sealed = true;
    ends_start(&t->ends, NULL);
    ends_connect(&t->ends);
    ends_run_for(&t->ends, TF_SECOND);
    ends_cut(&t->ends, (const size_t[NET_ENDS]){0, 0}, (const tf_time[NET_ENDS]){TF_MS, TF_MS});
    traffic_start(t, 0, 4 * TF_SECOND, UINT64_MAX, 1, 200);
    traffic_start(t, 1, 7 * TF_SECOND, UINT64_MAX, 1, 3000);
    size_t most[NET_ENDS] = {MEMORY_MAX, MEMORY_MAX};
    for (unsigned hour = 1; hour <= HOURS; hour++) {
        ends_run_for(&t->ends, HOUR);
        check_hour(t, hour, most);
        for (unsigned end = 0; hour == HOURS / 2 && end < NET_ENDS; end++) {
            most[end] =
                t->ends.end[end].heap.live_bytes + MEMORY_SWING; /* the tags of the window are all there by now */
        }
    }
    tf_link_stats stats;
    tf_link_get_stats(t->ends.end[0].link, &stats);
    const tf_route_stats *route = &stats.routes[TF_ROUTE_DATAGRAM];
    if (route->downs > 0 || t->flow[0].longest_late > TF_SECOND) {
        fail(t, "the route was down, or a message late");
    }
    (void)printf("seed %llu: %llu + %llu messages, %llu packets, %llu lost, mtu %llu, the latest message %llu ms\n",
                 (unsigned long long)seed, (unsigned long long)t->flow[0].got, (unsigned long long)t->flow[1].got,
                 (unsigned long long)route->sent_packets, (unsigned long long)route->lost,
                 (unsigned long long)route->mtu, (unsigned long long)(t->flow[0].longest_late / TF_MS));
    traffic_stop(t, 0);
    traffic_stop(t, 1);
    check_silence(t);
    traffic_free(t);
}

int main(int argc, char **argv)
{
    uint64_t first = 1;
    uint64_t last = SEEDS_DEFAULT;
    if (argc == 3 && strcmp(argv[1], "--seeds") == 0) {
        char *end = NULL;
        first = strtoull(argv[2], &end, 10);
        last = strncmp(end, "..", 2) == 0 ? strtoull(end + 2, &end, 10) : first;
    } else if (argc != 1) {
        (void)fprintf(stderr, "usage: sim_link_day [--seeds A..B]\n");
        return 2;
    }
    (void)printf("sim_link_day --seeds %llu..%llu\n", (unsigned long long)first, (unsigned long long)last);
    (void)fflush(stdout);
    for (uint64_t seed = first; seed <= last; seed++) {
        run(seed);
    }
    (void)printf("sim_link_day: all well\n");
    return 0;
}
