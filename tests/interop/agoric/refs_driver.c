/* tf-refs-driver: one node that is nothing but a router of references, with an application and connections that its
 * stdin plays. See usage(). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/router.h"
#include "proto/limits.h"
#include "tests/support/support.h"

#define LINE_BYTES (256u * 1024u)
#define WORDS 512u
#define REFS 64u
#define ANSWERS 16u
#define SESSIONS 8u

typedef struct driver {
    tf_router *router;
    tf_local root;
    tf_session *sessions[SESSIONS];
    size_t session_count;
    tf_time now;
    /* The command being done. */
    char *words[WORDS];
    size_t word_count;
    size_t word; /* the next one */
    bool is_bad; /* a word is missing or wrong */
    uint8_t *bytes[WORDS]; /* of words that were hex, freed when it is done */
    size_t byte_count;
} driver;

static void usage(FILE *out)
{
    (void)fputs(
        "usage: tf-refs-driver\n"
        "One command a line of stdin, answered by lines that end with \"ok\" or \"error TEXT\":\n"
        "  new                               -> root ID; a new node, the old one is freed\n"
        "  connect dialler|acceptor          -> connection N ROOT (what the peer's root object is called here)\n"
        "  recv N HEX                        a message of the peer\n"
        "  tick MICROSECONDS\n"
        "  object | promise                  -> local ID\n"
        "  send TARGET METHOD ARGS 0|1 REF...-> result ID (0: none was asked for)\n"
        "  resolve ANSWER [; ANSWER]...      PROMISE object ID | PROMISE data|rejection HEX REF...\n"
        "  hold ID | release ID\n"
        "  entries N                         -> entry REF LOCAL LIVE for each, LIVE 0: retired or dropped\n"
        "  stats                             -> records N held N fences N; session N retirements N ignored N for each\n"
        "METHOD, ARGS and data are hex, - is empty. A REF is o or p and a local ID. Before the end of an answer:\n"
        "  out N HEX                         a message for the peer\n"
        "  deliver ID METHOD ARGS RESULT REF...\n"
        "  resolved ID object REF | resolved ID data|rejection HEX REF...\n"
        "  gone ID | dropped N ID | revoked ID | failed N TEXT\n"
        "What an event mentions is held once for each mention.\n",
        out);
}

/* -- words --------------------------------------------------------------------------------------------------------- */

static const char *next_word(driver *d)
{
    if (d->word == d->word_count) {
        d->is_bad = true;
        return "";
    }
    return d->words[d->word++];
}

static bool has_word(const driver *d)
{
    return d->word < d->word_count && strcmp(d->words[d->word], ";") != 0;
}

static uint64_t number_in(driver *d, const char *text)
{
    char *end = NULL;
    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    d->is_bad = d->is_bad || errno != 0 || end == text || *end != '\0';
    return number;
}

static uint64_t next_number(driver *d)
{
    return number_in(d, next_word(d));
}

static tf_slice next_bytes(driver *d)
{
    const char *text = next_word(d);
    size_t cap = strlen(text) / 2;
    if (cap == 0) {
        return (tf_slice){NULL, 0};
    }
    uint8_t *bytes = malloc(cap); /* exactly, so that AddressSanitizer sees what reads on */
    TF_ASSERT(bytes != NULL);
    d->bytes[d->byte_count++] = bytes;
    return tf_slice_of(bytes, tf_test_unhex(text, bytes, cap));
}

static size_t next_refs(driver *d, tf_mention refs[REFS])
{
    size_t count = 0;
    while (has_word(d) && count < REFS) {
        const char *text = next_word(d);
        d->is_bad = d->is_bad || (text[0] != 'o' && text[0] != 'p');
        refs[count].kind = text[0] == 'p' ? TF_REF_PROMISE : TF_REF_OBJECT;
        refs[count].local = number_in(d, text + (text[0] == '\0' ? 0 : 1));
        count++;
    }
    return count;
}

static tf_session *next_session(driver *d, size_t *number)
{
    *number = (size_t)next_number(d);
    if (*number >= d->session_count) {
        d->is_bad = true;
        return NULL;
    }
    return d->sessions[*number];
}

/* -- what is told -------------------------------------------------------------------------------------------------- */

static void tell_bytes(tf_slice bytes)
{
    (void)fputs(bytes.len == 0 ? " -" : " ", stdout);
    for (size_t i = 0; i < bytes.len; i++) {
        printf("%02x", bytes.data[i]);
    }
}

/* Mentions are held, so that the reader of this has the time to want them. */
static void tell_ref(driver *d, tf_mention mention)
{
    printf(" %c%" PRIu64, mention.kind == TF_REF_PROMISE ? 'p' : 'o', mention.local);
    tf_router_hold(d->router, mention.local);
}

static void tell_refs(driver *d, const tf_router_event *event)
{
    for (size_t i = 0; i < event->ref_count; i++) {
        tell_ref(d, event->refs[i]);
    }
}

static size_t number_of(const driver *d, const tf_session *session)
{
    size_t number = 0;
    while (number < d->session_count && d->sessions[number] != session) {
        number++;
    }
    return number;
}

static void tell_resolved(driver *d, const tf_router_event *event)
{
    if (event->kind == TF_RESOLUTION_OBJECT) {
        (void)fputs(" object", stdout);
        tell_ref(d, event->object);
        return;
    }
    (void)fputs(event->kind == TF_RESOLUTION_DATA ? " data" : " rejection", stdout);
    tell_bytes(event->data);
    tell_refs(d, event);
}

static void tell_event(driver *d, const tf_router_event *event)
{
    switch (event->type) {
    case TF_ROUTER_DELIVER:
        printf("deliver %" PRIu64, event->local);
        tell_bytes(event->method);
        tell_bytes(event->args);
        printf(" %" PRIu64, event->result);
        tell_refs(d, event);
        break;
    case TF_ROUTER_RESOLVED:
        printf("resolved %" PRIu64, event->local);
        tell_resolved(d, event);
        break;
    case TF_ROUTER_REVOKED:
        printf("revoked %" PRIu64, event->local);
        break;
    case TF_ROUTER_DROPPED:
        printf("dropped %zu %" PRIu64, number_of(d, event->session), event->local);
        break;
    case TF_ROUTER_GONE:
        printf("gone %" PRIu64, event->local);
        break;
    }
    (void)fputs("\n", stdout);
}

static void tell_written(driver *d)
{
    tf_session *session = NULL;
    while ((session = tf_session_take_written(tf_router_refs(d->router))) != NULL) {
        tf_slice message;
        while (tf_session_peek_out(session, &message)) {
            printf("out %zu", number_of(d, session));
            tell_bytes(message);
            (void)fputs("\n", stdout);
            tf_session_pop_out(session);
        }
    }
}

static void tell_all(driver *d)
{
    tf_router_event event;
    tf_session *failed = NULL;
    tf_err err = TF_OK;
    while (tf_router_next_event(d->router, &event)) {
        tell_event(d, &event);
    }
    tell_written(d);
    while (tf_router_next_failed(d->router, &failed, &err)) {
        printf("failed %zu %s\n", number_of(d, failed), tf_err_text(err));
    }
}

/* -- commands ------------------------------------------------------------------------------------------------------ */

static void end_node(driver *d)
{
    tf_router_event event;
    for (size_t i = 0; i < d->session_count; i++) {
        tf_router_detach(d->router, d->now, d->sessions[i]);
        while (tf_router_next_event(d->router, &event)) {
        }
        tf_session_free(d->sessions[i]);
    }
    d->session_count = 0;
    tf_router_free(d->router);
    d->router = NULL;
}

static tf_err do_new(driver *d)
{
    end_node(d);
    d->now = 0;
    tf_err err = tf_router_new(&d->router, tf_test_mem(), 1);
    if (err == TF_OK) {
        d->root = tf_router_new_object(d->router);
        printf("root %" PRIu64 "\n", d->root);
    }
    return err;
}

static tf_err do_connect(driver *d)
{
    static const tf_session_limits limits = {.max_message = TF_MESSAGE_MAX,
                                             .max_refs = TF_REFS_MAX,
                                             .max_promises = TF_PROMISES_MAX,
                                             .max_results = TF_RESULTS_MAX};
    bool is_dialler = strcmp(next_word(d), "dialler") == 0;
    tf_session_config config = {.side = is_dialler ? TF_SIDE_DIALLER : TF_SIDE_ACCEPTOR,
                                .local = limits,
                                .remote = limits,
                                .refs = tf_router_refs(d->router),
                                .root = d->root,
                                .hash_key = 2,
                                .mem = tf_test_mem()};
    tf_session **session = &d->sessions[d->session_count];
    if (d->session_count == SESSIONS || d->is_bad) {
        return TF_ERR_USAGE;
    }
    tf_err err = tf_session_new(session, &config);
    if (err != TF_OK) {
        return err;
    }
    err = tf_router_attach(d->router, *session, d);
    if (err != TF_OK) {
        tf_session_free(*session);
        return err;
    }
    printf("connection %zu %" PRIu64 "\n", d->session_count++, tf_session_peer_root(*session));
    return TF_OK;
}

static tf_err do_recv(driver *d)
{
    size_t number;
    tf_session *session = next_session(d, &number);
    tf_slice message = next_bytes(d);
    return d->is_bad ? TF_ERR_USAGE : tf_router_recv(d->router, session, d->now, message);
}

static tf_err do_tick(driver *d)
{
    d->now += next_number(d);
    for (size_t i = 0; i < d->session_count; i++) {
        tf_err err = tf_session_tick(d->sessions[i], d->now);
        if (err != TF_OK) {
            return err;
        }
    }
    tf_router_tick(d->router, d->now);
    return TF_OK;
}

static tf_err do_object(driver *d)
{
    printf("local %" PRIu64 "\n", tf_router_new_object(d->router));
    return TF_OK;
}

static tf_err do_promise(driver *d)
{
    printf("local %" PRIu64 "\n", tf_router_new_promise(d->router));
    return TF_OK;
}

static tf_err do_send(driver *d)
{
    tf_mention refs[REFS];
    tf_local result = TF_LOCAL_NONE;
    tf_router_send send = {.refs = refs};
    send.target = next_number(d);
    send.method = next_bytes(d);
    send.args = next_bytes(d);
    send.want_result = next_number(d) != 0;
    send.ref_count = next_refs(d, refs);
    tf_err err = d->is_bad ? TF_ERR_USAGE : tf_router_deliver(d->router, d->now, &send, &result);
    if (err == TF_OK) {
        printf("result %" PRIu64 "\n", result);
    }
    return err;
}

static tf_answer next_answer(driver *d, tf_mention refs[REFS])
{
    tf_answer answer = {.promise = next_number(d), .refs = refs};
    const char *kind = next_word(d);
    if (strcmp(kind, "object") == 0) {
        answer.kind = TF_RESOLUTION_OBJECT;
        answer.object = (tf_mention){next_number(d), TF_REF_OBJECT};
        return answer;
    }
    d->is_bad = d->is_bad || (strcmp(kind, "data") != 0 && strcmp(kind, "rejection") != 0);
    answer.kind = strcmp(kind, "data") == 0 ? TF_RESOLUTION_DATA : TF_RESOLUTION_REJECTION;
    answer.data = next_bytes(d);
    answer.ref_count = next_refs(d, refs);
    return answer;
}

static tf_err do_resolve(driver *d)
{
    tf_mention refs[ANSWERS][REFS];
    tf_answer answers[ANSWERS];
    size_t count = 0;
    do {
        answers[count] = next_answer(d, refs[count]);
        count++;
    } while (count < ANSWERS && d->word < d->word_count && strcmp(next_word(d), ";") == 0);
    return d->is_bad || d->word < d->word_count ? TF_ERR_USAGE : tf_router_resolve(d->router, d->now, answers, count);
}

static tf_err do_hold(driver *d)
{
    tf_router_hold(d->router, next_number(d));
    return TF_OK;
}

static tf_err do_release(driver *d)
{
    tf_router_release(d->router, d->now, next_number(d));
    return TF_OK;
}

static tf_err do_entries(driver *d)
{
    size_t number;
    uint64_t cursor = 0;
    tf_session_entry entry;
    const tf_session *session = next_session(d, &number);
    while (!d->is_bad && tf_session_next_entry(session, &cursor, &entry)) {
        printf("entry %" PRIu64 " %" PRIu64 " %d\n", entry.ref, entry.local,
               !entry.is_retired && entry.local != TF_LOCAL_NONE);
    }
    return TF_OK;
}

static tf_err do_stats(driver *d)
{
    tf_router_stats stats;
    tf_router_get_stats(d->router, &stats);
    printf("records %zu held %zu fences %zu\n", stats.records, stats.held_items, stats.fences);
    for (size_t i = 0; i < d->session_count; i++) {
        tf_session_stats each;
        tf_session_get_stats(d->sessions[i], &each);
        printf("session %zu retirements %zu ignored %" PRIu64 "\n", i, each.retirements, each.drops_ignored);
    }
    return TF_OK;
}

static tf_err run(driver *d)
{
    static const struct {
        const char *name;
        tf_err (*run)(driver *d);
    } rows[] = {{"new", do_new},         {"connect", do_connect}, {"recv", do_recv},       {"tick", do_tick},
                {"object", do_object},   {"promise", do_promise}, {"send", do_send},       {"resolve", do_resolve},
                {"hold", do_hold},       {"release", do_release}, {"entries", do_entries}, {"stats", do_stats}};
    const char *name = next_word(d);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i].name, name) == 0 && (d->router != NULL || i == 0)) {
            tf_err err = rows[i].run(d);
            return d->is_bad ? TF_ERR_USAGE : err;
        }
    }
    return TF_ERR_USAGE;
}

static void do_line(driver *d, char *line)
{
    char *rest = NULL;
    d->word = 0;
    d->word_count = 0;
    d->is_bad = false;
    char *word = strtok_r(line, " \n", &rest);
    while (word != NULL && d->word_count < WORDS) {
        d->words[d->word_count++] = word;
        word = strtok_r(NULL, " \n", &rest);
    }
    tf_err err = run(d);
    if (d->router != NULL) {
        tell_all(d);
    }
    while (d->byte_count > 0) {
        free(d->bytes[--d->byte_count]);
    }
    if (err == TF_OK) {
        (void)fputs("ok\n", stdout);
    } else {
        printf("error %s\n", tf_err_text(err));
    }
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    static driver d;
    static char line[LINE_BYTES];
    (void)argv;
    if (argc != 1) {
        usage(stderr);
        return 2;
    }
    while (fgets(line, sizeof(line), stdin) != NULL) {
        do_line(&d, line);
    }
    if (d.router != NULL) {
        end_node(&d);
    }
    return EXIT_SUCCESS;
}
