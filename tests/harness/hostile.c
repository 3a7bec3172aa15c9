/* The options of tf-hostile, and its loop: keys first, then `ready`; a line on standard input lets all of them begin. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "node/edge_mem.h"
#include "tests/harness/hostile.h"

#define SLICE (5 * TF_MS)
#define PEERS_MAX 100000u

static const char usage_text[] =
    "usage: tf-hostile MODE URI [options], until standard input ends\n"
    "  hold            connects with every peer and stays\n"
    "  clients         the same with clients of the product, each with a subscription\n"
    "  never-ack       subscribes, takes all segments and acks none\n"
    "  ack-segments    acks segments that were never sent\n"
    "  ack-messages    acks messages that were never sent\n"
    "  refs            mentions objects of its own, and never acks that they were dropped\n"
    "  promises        asks for results, and never acks them\n"
    "  -p, --peers N            so many (1)\n"
    "  -n, --count N            refs or promises of each (100000)\n"
    "  -i, --identity FILE      the key of all of them (default: a new one for each)\n"
    "  -c, --channel NAME       for clients and never-ack (live)\n"
    "  -w, --window-bytes N     announced\n"
    "  -k, --keepalive SECONDS  announced\n"
    "  -s, --span SECONDS       all begin within so long (1)\n"
    "It prints `ready`, and begins with a line on standard input. Then it prints `served peers=N us=N dials=N failed=N`\n"
    "when all are connected, `closed code=WORD said=N` for each CLOSE, at the end (and for each further line on standard\n"
    "input) `counts` with all that was counted.\n";

typedef struct hostile_run {
    tf_hostile all;
    tf_hostile_peer *peers;
    uint32_t begun;
    tf_time began; /* 0: not yet */
    bool told;
    struct event *input;
    struct event *slice;
} hostile_run;

/* -- the loop ------------------------------------------------------------------------------------------------------ */

static void tell(const hostile_run *run, const char *word)
{
    const tf_hostile_counts *c = &run->all.counts;
    (void)printf("%s peers=%u served=%u up=%u us=%llu dials=%llu failed=%llu lost=%llu closed=%llu said=%llu "
                 "segments=%llu bytes=%llu\n",
                 word, run->all.options->peers, c->served, c->up, (unsigned long long)(tf_edge_now() - run->began),
                 (unsigned long long)c->dials, (unsigned long long)c->failed, (unsigned long long)c->lost,
                 (unsigned long long)c->closed, (unsigned long long)c->said, (unsigned long long)c->segments,
                 (unsigned long long)c->bytes);
    (void)fflush(stdout);
}

static void next_slice(hostile_run *run)
{
    struct timeval span = {.tv_usec = (suseconds_t)SLICE};
    (void)event_add(run->slice, &span);
}

/* Those whose time has come begin, so that all of them have begun when the span is over. */
static void on_slice(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    hostile_run *run = ctx;
    const tf_hostile_options *options = run->all.options;
    tf_time gone = tf_edge_now() - run->began;
    uint64_t due = gone >= options->span ? options->peers : 1 + (options->peers - 1) * gone / options->span;
    while (run->begun < due) {
        tf_hostile_peer_dial(&run->peers[run->begun++]);
    }
    if (!run->told && run->all.counts.served == options->peers) {
        run->told = true;
        tell(run, "served");
    }
    if (!run->told) {
        next_slice(run);
    }
}

static void on_input(evutil_socket_t fd, short what, void *ctx)
{
    (void)what;
    hostile_run *run = ctx;
    char bytes[256];
    ssize_t got = read(fd, bytes, sizeof(bytes));
    if (got <= 0) {
        (void)event_base_loopbreak(run->all.base);
    }
    for (ssize_t i = 0; i < got; i++) {
        if (bytes[i] != '\n') {
            continue;
        }
        if (run->began == 0) {
            run->began = tf_edge_now();
            on_slice(-1, 0, run);
        } else {
            tell(run, "counts");
        }
    }
}

static bool make(hostile_run *run, const tf_hostile_options *options)
{
    run->all.options = options;
    tf_stream_buffers_init(&run->all.buffers, tf_edge_mem());
    run->all.base = event_base_new();
    run->peers = calloc(options->peers, sizeof(*run->peers));
    if (run->all.base == NULL || run->peers == NULL ||
        tf_endpoint_literal(&options->uri.stream, &run->all.address) != TF_OK) {
        (void)fputs("tf-hostile: no memory, or no literal address\n", stderr);
        return false;
    }
    run->input = event_new(run->all.base, STDIN_FILENO, EV_READ | EV_PERSIST, on_input, run);
    run->slice = event_new(run->all.base, -1, 0, on_slice, run);
    for (uint32_t i = 0; i < options->peers; i++) {
        if (!tf_hostile_peer_init(&run->peers[i], &run->all)) {
            return false;
        }
    }
    return run->input != NULL && run->slice != NULL && event_add(run->input, NULL) == 0;
}

static void release(hostile_run *run)
{
    for (uint32_t i = 0; run->peers != NULL && i < run->all.options->peers; i++) {
        tf_hostile_peer_free(&run->peers[i]);
    }
    free(run->peers);
    if (run->input != NULL) {
        event_free(run->input);
    }
    if (run->slice != NULL) {
        event_free(run->slice);
    }
    tf_stream_buffers_clear(&run->all.buffers);
    if (run->all.base != NULL) {
        event_base_free(run->all.base);
    }
}

static int peers(const tf_hostile_options *options)
{
    hostile_run run = {.told = false};
    bool ok = make(&run, options);
    if (ok) {
        (void)puts("ready");
        (void)fflush(stdout);
        ok = event_base_dispatch(run.all.base) >= 0 && !run.all.wrong;
        tell(&run, "counts");
    }
    for (uint32_t i = 0; ok && i < run.begun; i++) {
        tf_hostile_peer_leave(&run.peers[i]);
    }
    release(&run);
    return ok ? TF_HOSTILE_OK : TF_HOSTILE_WRONG;
}

/* -- the options --------------------------------------------------------------------------------------------------- */

static bool number(uint64_t *out, const char *text, uint64_t most)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    *out = value;
    return errno == 0 && end != text && *end == '\0' && text[0] != '-' && value >= 1 && value <= most;
}

static bool option(tf_hostile_options *options, int letter)
{
    uint64_t value = 0;
    switch (letter) {
    case 'p':
        if (!number(&value, optarg, PEERS_MAX)) {
            return false;
        }
        options->peers = (uint32_t)value;
        return true;
    case 'n':
        return number(&options->count, optarg, UINT32_MAX);
    case 'i':
        options->identity = optarg;
        return true;
    case 'c':
        options->channel = optarg;
        return strlen(optarg) <= TF_CHANNEL_NAME_MAX;
    case 'w':
        if (!number(&value, optarg, UINT32_MAX)) {
            return false;
        }
        options->window_bytes = (uint32_t)value;
        return true;
    case 'k':
    case 's':
        if (!number(&value, optarg, 3600)) {
            return false;
        }
        *(letter == 'k' ? &options->keepalive : &options->span) = value * TF_SECOND;
        return true;
    default:
        return false;
    }
}

static bool parse(tf_hostile_options *options, int argc, char **argv)
{
    static const struct option names[] = {
        {"peers", required_argument, NULL, 'p'},        {"count", required_argument, NULL, 'n'},
        {"identity", required_argument, NULL, 'i'},     {"channel", required_argument, NULL, 'c'},
        {"window-bytes", required_argument, NULL, 'w'}, {"keepalive", required_argument, NULL, 'k'},
        {"span", required_argument, NULL, 's'},         {NULL, 0, NULL, 0}};
    char why[TF_WHY_MAX];
    int letter = 0;
    while ((letter = getopt_long(argc, argv, "p:n:i:c:w:k:s:", names, NULL)) != -1) {
        if (!option(options, letter)) {
            return false;
        }
    }
    if (argc - optind != 1) {
        return false;
    }
    if (tf_uri_parse(&options->uri, argv[optind], why) != TF_OK) {
        (void)fprintf(stderr, "tf-hostile: %s\n", why);
        return false;
    }
    return true;
}

static void all_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* what is not granted shows at the peer that does not fit */
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(const tf_hostile_options *options);
        tf_hostile_mode mode;
    } modes[] = {
        {"hold", peers, TF_HOSTILE_HOLD},
        {"clients", tf_hostile_clients, TF_HOSTILE_HOLD},
        {"never-ack", peers, TF_HOSTILE_NEVER_ACK},
        {"ack-segments", peers, TF_HOSTILE_ACK_SEGMENTS},
        {"ack-messages", peers, TF_HOSTILE_ACK_MESSAGES},
        {"refs", peers, TF_HOSTILE_REFS},
        {"promises", peers, TF_HOSTILE_PROMISES},
    };
    tf_hostile_options options = {.channel = "live", .peers = 1, .count = 100000, .span = TF_SECOND};
    for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[1], modes[i].name) == 0 && parse(&options, argc - 1, argv + 1)) {
            options.mode = modes[i].mode;
            all_descriptors();
            return modes[i].run(&options);
        }
    }
    (void)fputs(usage_text, stderr);
    return TF_HOSTILE_USAGE;
}
