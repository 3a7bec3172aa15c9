/* Redis Streams by hiredis: XADD with a window of commands without an answer, all connections in one thread, and XREAD from
 * the first message. The replies are counted while they are parsed, and no objects are made of them. */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/peers/peer.h"

#define STREAM "bench"
#define ID_MAX 64u
#define ID_DEPTH 4 /* of an entry's id in what XREAD answers: streams, stream, entries, entry, id */

typedef struct connection {
    redisContext *redis;
    const tf_peer_options *options;
    uint64_t share;
    uint64_t sent;
    uint64_t acked;
    uint64_t *sent_at; /* a ring of the window: answers come in order */
    uint64_t got;      /* entries */
    char last_id[ID_MAX];
} connection;

/* -- replies ------------------------------------------------------------------------------------------------------- */

static char an_object; /* what is said to have been made of anything */

static int depth_of(const redisReadTask *task)
{
    int depth = 0;
    for (; task->parent != NULL; task = task->parent) {
        depth++;
    }
    return depth;
}

static void *on_string(const redisReadTask *task, char *text, size_t len)
{
    connection *c = task->privdata;
    if (task->type == REDIS_REPLY_ERROR) {
        (void)fprintf(stderr, "the server says: %.*s\n", (int)len, text);
        exit(EXIT_FAILURE);
    }
    if (depth_of(task) == ID_DEPTH && task->idx == 0) {
        tf_peer_must(len < ID_MAX, "an id is too long");
        memcpy(c->last_id, text, len);
        c->last_id[len] = '\0';
        c->got++;
    }
    return &an_object;
}

static void *on_array(const redisReadTask *task, int elements)
{
    (void)task, (void)elements;
    return &an_object;
}

static void *on_integer(const redisReadTask *task, long long value)
{
    (void)task, (void)value;
    return &an_object;
}

static void *on_nil(const redisReadTask *task)
{
    (void)task;
    return &an_object;
}

static void on_free(void *object)
{
    (void)object;
}

static redisReplyObjectFunctions counting = {on_string, on_array, on_integer, on_nil, on_free};

/* -- connections --------------------------------------------------------------------------------------------------- */

static void must(const connection *c, int result, const char *what)
{
    if (result != REDIS_OK) {
        (void)fprintf(stderr, "%s: %s\n", what, c->redis->errstr);
        exit(EXIT_FAILURE);
    }
}

static void dial(connection *c, const tf_peer_options *options)
{
    c->options = options;
    c->redis = redisConnectFd(tf_peer_connect(options));
    tf_peer_must(c->redis != NULL && c->redis->err == 0, "connect");
    c->redis->reader->fn = &counting;
    c->redis->reader->privdata = c;
}

static void flush(const connection *c)
{
    int done = 0;
    while (done == 0) {
        must(c, redisBufferWrite(c->redis, &done), "write");
    }
}

/* Reads once, and takes the whole replies. How many. */
static uint64_t take(const connection *c)
{
    uint64_t count = 0;
    void *reply = NULL;
    must(c, redisBufferRead(c->redis), "read");
    do {
        reply = NULL;
        must(c, redisGetReplyFromReader(c->redis, &reply), "reply");
        count += reply != NULL;
    } while (reply != NULL);
    return count;
}

/* -- sending ------------------------------------------------------------------------------------------------------- */

typedef struct command {
    char *bytes;
    size_t len;
    size_t body_at;
} command;

static void make_command(command *add, size_t size)
{
    char *body = tf_peer_alloc(1, size);
    const char *words[] = {"XADD", STREAM, "*", "b", body};
    const size_t lens[] = {4, sizeof(STREAM) - 1, 1, 1, size};
    int len = redisFormatCommandArgv(&add->bytes, 5, words, lens);
    tf_peer_must(len > 0, "memory");
    add->len = (size_t)len;
    add->body_at = add->len - 2 - size; /* the body and its line's end are last */
    free(body);
}

static bool wants_more(const connection *c, uint64_t now, uint64_t end)
{
    return c->sent < c->share && now < end;
}

/* Sends as much as the window takes. */
static void top_up(connection *c, const command *add, uint64_t begin, uint64_t end)
{
    uint64_t before = c->sent;
    while (c->sent - c->acked < c->options->window) {
        tf_stamp stamp = tf_peer_stamp(c->options, begin, c->sent);
        if (!wants_more(c, stamp.sent, end)) {
            break;
        }
        memcpy(add->bytes + add->body_at, &stamp, sizeof(stamp));
        must(c, redisAppendFormattedCommand(c->redis, add->bytes, add->len), "append");
        c->sent_at[c->sent % c->options->window] = stamp.sent;
        c->sent++;
    }
    if (c->sent > before) {
        flush(c);
    }
}

static void count_acks(connection *c, tf_acks *acks)
{
    uint64_t replies = take(c);
    uint64_t now = tf_measure_now();
    tf_peer_must(replies <= c->sent - c->acked, "too many answers");
    for (; replies > 0; replies--) {
        tf_acks_add(acks, c->sent_at[c->acked % c->options->window], now);
        c->acked++;
    }
}

static void run_turns(connection *all, struct pollfd *fds, const command *add, tf_acks *acks)
{
    const tf_peer_options *o = all[0].options;
    uint64_t end = tf_peer_end(o, acks->begin);
    uint64_t unacked = 1;
    for (unsigned i = 0; i < o->connections; i++) {
        top_up(&all[i], add, acks->begin, end);
    }
    while (unacked > 0) {
        int ready = poll(fds, o->connections, (int)(o->limit_ns / 1000000u));
        tf_peer_must(ready > 0 || (ready < 0 && errno == EINTR), "no answer");
        unacked = 0;
        for (unsigned i = 0; i < o->connections; i++) {
            if (ready > 0 && fds[i].revents != 0) {
                count_acks(&all[i], acks);
                top_up(&all[i], add, acks->begin, end);
            }
            unacked += all[i].sent - all[i].acked;
        }
    }
}

static int run_pub(const tf_peer_options *options)
{
    command add = {0};
    tf_acks *acks = tf_peer_alloc(1, sizeof(*acks));
    connection *all = tf_peer_alloc(options->connections, sizeof(*all));
    struct pollfd *fds = tf_peer_alloc(options->connections, sizeof(*fds));
    make_command(&add, options->size);
    for (unsigned i = 0; i < options->connections; i++) {
        dial(&all[i], options);
        all[i].share = tf_peer_share(options, i);
        all[i].sent_at = tf_peer_alloc(options->window, sizeof(*all[i].sent_at));
        fds[i] = (struct pollfd){.fd = all[i].redis->fd, .events = POLLIN};
    }
    acks->begin = tf_measure_now();
    acks->slice = options->slice_ns;
    run_turns(all, fds, &add, acks);
    tf_acked_report(acks);
    for (unsigned i = 0; i < options->connections; i++) {
        redisFree(all[i].redis);
        free(all[i].sent_at);
    }
    redisFreeCommand(add.bytes);
    free(fds);
    free(all);
    free(acks);
    return EXIT_SUCCESS;
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

static int run_sub(const tf_peer_options *options)
{
    connection c = {.last_id = "0"};
    uint64_t before = 0;
    dial(&c, options);
    uint64_t asked = tf_measure_now();
    do {
        before = c.got;
        must(&c, redisAppendCommand(c.redis, "XREAD COUNT 1000 STREAMS " STREAM " %s", c.last_id), "append");
        flush(&c);
        while (take(&c) == 0) {
        }
    } while (c.got < options->count && c.got > before); /* an answer without entries: the stream ends */
    int status = tf_replay_report(options, c.got, asked, tf_measure_now());
    redisFree(c.redis);
    return status;
}

int main(int argc, char **argv)
{
    tf_peer_options options;
    tf_peer_options_parse(&options, argc, argv);
    return options.is_sub ? run_sub(&options) : run_pub(&options);
}
