/* tf-forwarder: forwards TCP and UDP from one port to a relay, and stalls, cuts, delays, drops, repeats and reorders on
 * demand. See usage() and tests/harness/README.md. */
#include "tests/harness/forwarder.h"

#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>

#define FAULTS_MAX 16

typedef struct options {
    const char *listen;
    const char *to;
    const char *control;
    const char *record;
    bool print_port;
    bool from_stdin;
    uint64_t seed;
    char faults[FAULTS_MAX][64]; /* as commands */
    size_t fault_count;
} options;

static void usage(FILE *out)
{
    (void)fputs("usage: tf-forwarder --listen HOST:PORT --to HOST:PORT [OPTION]...\n"
                "  --print-port           print the port (with port 0: one free for TCP and UDP) once it is open\n"
                "  --control PATH         take commands on this unix stream socket\n"
                "  --stdin                take commands on stdin, too; its end ends the program\n"
                "  --seed N               of all randomness (default 1)\n"
                "  --udp-record FILE      write each datagram of a client: length (2 bytes, big-endian), bytes\n"
                "  --udp-drop, --udp-repeat, --udp-reorder PERCENT; --udp-delay MS; --udp-mtu BYTES\n"
                "  --tcp-delay MS; --tcp-close-every MS (each connection, at a random byte)\n"
                "commands, one a line, answered by one line:\n"
                "  stream stall|flow [up|down]      stream cut|heal\n"
                "  datagram cut|heal [up|down]      datagram rebind\n"
                "  udp-drop|udp-repeat|udp-reorder|tcp-drop PERCENT [up|down]   udp-mtu BYTES [up|down]\n"
                "  udp-delay|udp-jitter|tcp-delay|tcp-jitter MS [up|down]       tcp-close-every MS\n"
                "  udp-burst|tcp-burst PACKETS (dropped in a row) [up|down]     udp-queue|tcp-queue BYTES [up|down]\n"
                "  udp-bloat|tcp-bloat MS (a queue that others fill) [up|down]  udp-rate|tcp-rate KBIT/S [up|down]\n"
                "  stats                            quit\n",
                out);
}

/* "HOST:PORT", "[HOST]:PORT". */
static bool resolve(const char *text, tf_fwd_address *out)
{
    char host[256];
    const char *colon = strrchr(text, ':');
    size_t len = colon == NULL ? 0 : (size_t)(colon - text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    if (colon == NULL || len == 0 || len >= sizeof(host)) {
        return false;
    }
    memcpy(host, text, len);
    host[len] = '\0';
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0) {
        return false;
    }
    memcpy(&out->storage, found->ai_addr, found->ai_addrlen);
    out->len = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

static bool add_fault(options *o, const char *name, const char *value)
{
    if (o->fault_count == FAULTS_MAX) {
        return false;
    }
    int len = snprintf(o->faults[o->fault_count], sizeof(o->faults[0]), "%s %s", name, value);
    o->fault_count++;
    return len > 0 && (size_t)len < sizeof(o->faults[0]);
}

static bool parse_seed(const char *text, uint64_t *seed)
{
    char *end = NULL;
    errno = 0;
    *seed = strtoull(text, &end, 0);
    return errno == 0 && end != text && *end == '\0';
}

static bool parse(int argc, char **argv, options *o)
{
    static const struct option known[] = {
        {"listen", required_argument, NULL, 'l'},
        {"to", required_argument, NULL, 't'},
        {"control", required_argument, NULL, 'c'},
        {"udp-record", required_argument, NULL, 'r'},
        {"print-port", no_argument, NULL, 'p'},
        {"stdin", no_argument, NULL, 'i'},
        {"seed", required_argument, NULL, 's'},
        {"udp-drop", required_argument, NULL, 'f'},
        {"udp-repeat", required_argument, NULL, 'f'},
        {"udp-reorder", required_argument, NULL, 'f'},
        {"udp-delay", required_argument, NULL, 'f'},
        {"udp-mtu", required_argument, NULL, 'f'},
        {"tcp-delay", required_argument, NULL, 'f'},
        {"tcp-close-every", required_argument, NULL, 'f'},
        {NULL, 0, NULL, 0},
    };
    int which = 0;
    int option;
    bool good = true;
    while ((option = getopt_long(argc, argv, "", known, &which)) != -1 && good) {
        switch (option) {
        case 'l':
            o->listen = optarg;
            break;
        case 't':
            o->to = optarg;
            break;
        case 'c':
            o->control = optarg;
            break;
        case 'r':
            o->record = optarg;
            break;
        case 'p':
            o->print_port = true;
            break;
        case 'i':
            o->from_stdin = true;
            break;
        case 's':
            good = parse_seed(optarg, &o->seed);
            break;
        case 'f':
            good = add_fault(o, known[which].name, optarg);
            break;
        default:
            good = false;
            break;
        }
    }
    return good && optind == argc && o->listen != NULL && o->to != NULL;
}

static void on_signal(evutil_socket_t number, short what, void *ctx)
{
    (void)number;
    (void)what;
    (void)event_base_loopexit(ctx, NULL);
}

/* From the parts to the loop. The exit status of the program. */
static int serve(tf_fwd_target *target, const options *o)
{
    struct event_base *base = target->common->base;
    tf_fwd_control *control = NULL;
    struct event *term = evsignal_new(base, SIGTERM, on_signal, base);
    struct event *interrupt = evsignal_new(base, SIGINT, on_signal, base);
    int status = 70;
    if (term == NULL || interrupt == NULL || event_add(term, NULL) != 0 || event_add(interrupt, NULL) != 0) {
        goto out;
    }
    for (size_t i = 0; i < o->fault_count; i++) {
        char line[sizeof(o->faults[0])];
        memcpy(line, o->faults[i], sizeof(line));
        if (!tf_fwd_command(target, line, NULL)) {
            (void)fprintf(stderr, "tf-forwarder: --%s: no such number, or out of range\n", o->faults[i]);
            status = 2;
            goto out;
        }
    }
    control = tf_fwd_control_new(target, o->control, o->from_stdin);
    if (control == NULL) {
        goto out;
    }
    if (o->print_port) {
        (void)printf("%u\n", (unsigned)tf_fwd_port(&target->common->listen));
        (void)fflush(stdout);
    }
    status = event_base_dispatch(base) < 0 ? 70 : 0;
out:
    tf_fwd_control_free(control);
    if (term != NULL) {
        event_free(term);
    }
    if (interrupt != NULL) {
        event_free(interrupt);
    }
    return status;
}

static int run(const options *o, tf_fwd_common *common)
{
    int tcp_fd = -1;
    int udp_fd = -1;
    FILE *record = NULL;
    if (o->record != NULL) {
        record = fopen(o->record, "wbe");
        if (record == NULL) {
            perror(o->record);
            return 2;
        }
    }
    if (tf_fwd_bind(common, &tcp_fd, &udp_fd) != 0) {
        perror("tf-forwarder: --listen");
        if (record != NULL) {
            (void)fclose(record);
        }
        return 3;
    }
    tf_fwd_target target = {.common = common, .tcp = tf_fwd_tcp_new(common, tcp_fd)};
    target.udp = tf_fwd_udp_new(common, udp_fd, record);
    int status = target.tcp == NULL || target.udp == NULL ? 70 : serve(&target, o);
    tf_fwd_udp_free(target.udp);
    tf_fwd_tcp_free(target.tcp);
    return status;
}

int main(int argc, char **argv)
{
    static options o = {.seed = 1};
    static tf_fwd_common common;
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    if (!parse(argc, argv, &o)) {
        usage(stderr);
        return 2;
    }
    if (!resolve(o.listen, &common.listen) || !resolve(o.to, &common.to)) {
        (void)fputs("tf-forwarder: --listen or --to is no address with a port\n", stderr);
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    tf_test_random_init(&common.random, o.seed);
    common.base = event_base_new();
    if (common.base == NULL) {
        return 70;
    }
    int status = run(&o, &common);
    event_base_free(common.base);
    return status;
}
