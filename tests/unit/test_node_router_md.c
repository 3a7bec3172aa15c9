/* proto/PROTOCOL.md, section Crossings: two routers, A the dialler and B the acceptor, go through every account of it. What
 * they do is taken from the text; what they say (each byte), see and have in their tables is compared with it. The notation
 * is explained there. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "tests/support/check_main.h"
#include "tests/support/protocol_md.h"
#include "tests/support/ref_nodes.h"
#include "tests/support/support.h"

#define OPENING "```crossing X"
#define FENCE "```"
#define ACCOUNTS 16u /* in the text */
#define WORDS 100u
#define KNOWN 64u
#define SEEN 16u
#define ON_LINE 16u
#define TEXT 400u

_Static_assert(TF_UNROLL_MAX == 64u && TF_KEPT_BYTES_MAX == 16u << 20 && TF_HOPS_MAX == 64u, "as D7, D8, D13 say");
_Static_assert(TF_HELD_ITEMS_MAX == 1024u && TF_HELD_BYTES_MAX == 1u << 20, "as D8 says");
_Static_assert(TF_SHARE_ITEMS == 1024u && TF_SHARE_BYTES == 1u << 20 && TF_SHARE_RESULTS == 64u, "as D15 says");

typedef struct heard {
    uint8_t *bytes; /* malloc */
    size_t len;
} heard;

/* One of the two ends. */
typedef struct end {
    struct {
        tf_ref ref;
        tf_local local;
    } known[KNOWN]; /* every pair that its table has had, oldest first */
    size_t known_count;
    tf_ref keeps[SEEN]; /* what it keeps of the next message */
    size_t keep_count;
    char seen[SEEN][TEXT]; /* events that the account has not named yet */
    size_t seen_count;
    heard said[ON_LINE]; /* on its way to the other end */
    size_t said_count;
} end;

static tf_test_net net;
static size_t line;
static end ends[2];
static FILE *doc;
static unsigned line_number;
static char text[1024];    /* the step in work */
static char *words[WORDS]; /* its words, in `text` */
static size_t word_count;

/* -- the text ------------------------------------------------------------------------------------------------------ */

#define REQUIRE(condition, ...) ck_assert_msg(condition, "PROTOCOL.md:%u: " __VA_ARGS__)

/* Puts the next line at `at`, less its comment. */
static bool read_line(char *at)
{
    if (fgets(at, (int)(sizeof(text) - (size_t)(at - text)), doc) == NULL) {
        return false;
    }
    line_number++;
    at[strcspn(at, "#\n")] = '\0';
    return true;
}

static bool step_goes_on(void)
{
    int c = fgetc(doc);
    (void)ungetc(c, doc);
    return c == ' ';
}

/* A step goes on in lines that begin with a blank. False: the account is over. */
static bool read_step(void)
{
    REQUIRE(read_line(text), "an account has no end", line_number);
    while (step_goes_on()) {
        REQUIRE(read_line(text + strlen(text)), "a line that cannot be read", line_number);
    }
    return strcmp(text, FENCE) != 0;
}

static void split(void)
{
    char *rest = NULL;
    word_count = 0;
    for (char *word = strtok_r(text, " ,", &rest); word != NULL; word = strtok_r(NULL, " ,", &rest)) {
        REQUIRE(word_count < WORDS, "too many words", line_number);
        words[word_count++] = word;
    }
}

static bool is_word(size_t at, const char *want)
{
    return at < word_count && strcmp(words[at], want) == 0;
}

static uint64_t number_at(size_t at)
{
    char *rest = NULL;
    REQUIRE(at < word_count, "a number is missing", line_number);
    uint64_t number = strtoull(words[at], &rest, 10);
    REQUIRE(*words[at] != '\0' && *rest == '\0', "%s is no number", line_number, words[at]);
    return number;
}

/* A word in quotes. */
static tf_slice data_at(size_t at)
{
    REQUIRE(at < word_count && strlen(words[at]) > 1 && *words[at] == '"', "text in quotes is missing", line_number);
    return tf_slice_of(words[at] + 1, strlen(words[at]) - 2);
}

static int end_at(size_t at)
{
    REQUIRE(is_word(at, "A") || is_word(at, "B"), "neither A nor B", line_number);
    return is_word(at, "A") ? 0 : 1;
}

/* -- names --------------------------------------------------------------------------------------------------------- */

static bool is_known(const end *e, tf_ref ref, tf_local local)
{
    for (size_t i = 0; i < e->known_count; i++) {
        if (e->known[i].ref == ref && e->known[i].local == local) {
            return true;
        }
    }
    return false;
}

static void learn(int side)
{
    end *e = &ends[side];
    uint64_t cursor = 0;
    tf_session_entry entry;
    while (tf_session_next_entry(net.lines[line].sessions[side], &cursor, &entry)) {
        if (entry.local != TF_LOCAL_NONE && !is_known(e, entry.ref, entry.local)) {
            REQUIRE(e->known_count < KNOWN, "too many refs", line_number);
            e->known[e->known_count].ref = entry.ref;
            e->known[e->known_count++].local = entry.local;
        }
    }
}

static tf_local local_of(int side, tf_ref ref)
{
    for (size_t i = ends[side].known_count; i > 0; i--) {
        if (ends[side].known[i - 1].ref == ref) {
            return ends[side].known[i - 1].local;
        }
    }
    ck_abort_msg("PROTOCOL.md:%u: nobody knows %" PRIu64, line_number, ref);
}

/* What it has, or had. False: it has had none. */
static bool ref_of(int side, tf_local local, tf_ref *out)
{
    for (size_t i = ends[side].known_count; i > 0; i--) {
        if (ends[side].known[i - 1].local == local) {
            *out = ends[side].known[i - 1].ref;
            return true;
        }
    }
    return false;
}

/* A ref, or "object" or "promise": a new one. */
static tf_mention mention_at(int side, size_t at)
{
    tf_router *router = net.nodes[side].router;
    if (is_word(at, "object")) {
        return (tf_mention){tf_router_new_object(router), TF_REF_OBJECT};
    }
    if (is_word(at, "promise")) {
        tf_local promise = tf_router_new_promise(router);
        tf_router_release(router, net.now, promise); /* it stays till the end of the step, and while it is mentioned */
        return (tf_mention){promise, TF_REF_PROMISE};
    }
    tf_ref ref = number_at(at);
    return (tf_mention){local_of(side, ref), tf_ref_kind_of(ref)};
}

/* What follows "with", from the word `at` on. */
static size_t mentions_from(int side, size_t at, tf_mention refs[WORDS])
{
    size_t count = 0;
    if (is_word(at, "with")) {
        for (size_t i = at + 1; i < word_count; i++) {
            refs[count++] = mention_at(side, i);
        }
    }
    return count;
}

/* -- what an end sees ---------------------------------------------------------------------------------------------- */

static void __attribute__((format(printf, 2, 3))) append(char *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t len = strlen(out);
    int added = vsnprintf(out + len, TEXT - len, format, arguments);
    va_end(arguments);
    ck_assert(added >= 0 && (size_t)added < TEXT - len);
}

/* Text in quotes, or the code of a rejection that a node gives by itself. */
static void append_data(char *out, tf_slice data)
{
    static const uint8_t head[] = {0x82, 0xa4, 'c', 'o', 'd', 'e'};
    if (data.len > sizeof(head) && memcmp(data.data, head, sizeof(head)) == 0) {
        append(out, " %.*s", data.data[sizeof(head)] & 0x1f, (const char *)data.data + sizeof(head) + 1);
    } else {
        append(out, " \"%.*s\"", (int)data.len, (const char *)data.data);
    }
}

/* An answer that a node gives itself is no reference of the connection. */
static void append_ref(char *out, int side, tf_local local)
{
    tf_ref ref = 0;
    if (ref_of(side, local, &ref)) {
        append(out, "%" PRIu64, ref);
    } else {
        append(out, "answer");
    }
}

static void append_refs(char *out, int side, const tf_router_event *event)
{
    for (size_t i = 0; i < event->ref_count; i++) {
        append(out, "%s ", i == 0 ? " with" : "");
        append_ref(out, side, event->refs[i].local);
    }
}

static void append_resolution(char *out, int side, const tf_router_event *event)
{
    if (event->kind == TF_RESOLUTION_OBJECT) {
        append(out, " ");
        append_ref(out, side, event->object.local);
        return;
    }
    append(out, "%s", event->kind == TF_RESOLUTION_REJECTION && event->type == TF_ROUTER_RESOLVED ? " rejected" : "");
    append_data(out, event->data);
    append_refs(out, side, event);
}

static void describe_delivery(char *out, int side, const tf_router_event *event)
{
    append(out, "%.*s to ", (int)event->method.len, (const char *)event->method.data);
    append_ref(out, side, event->local);
    append_refs(out, side, event);
    if (event->result != TF_LOCAL_NONE) {
        append(out, " result ");
        append_ref(out, side, event->result);
    }
}

static void describe(char *out, int side, const tf_router_event *event)
{
    *out = '\0';
    if (event->type == TF_ROUTER_DELIVER) {
        describe_delivery(out, side, event);
        return;
    }
    append_ref(out, side, event->local);
    if (event->type == TF_ROUTER_GONE) {
        append(out, " forgotten");
        return;
    }
    append(out, event->type == TF_ROUTER_RESOLVED ? " is" : event->hard ? " revoked hard" : " revoked soft");
    append_resolution(out, side, event);
}

static void keep(int side, const tf_mention *mention)
{
    end *e = &ends[side];
    tf_ref ref = 0;
    for (size_t i = 0; ref_of(side, mention->local, &ref) && i < e->keep_count; i++) {
        if (e->keeps[i] == ref) {
            tf_router_hold(net.nodes[side].router, mention->local);
            e->keeps[i] = e->keeps[--e->keep_count];
            return;
        }
    }
}

static void on_event(tf_test_net *of, size_t node, const tf_router_event *event)
{
    int side = (int)node;
    end *e = &ends[side];
    (void)of;
    if (event->type == TF_ROUTER_DROPPED) {
        return;
    }
    learn(side);
    REQUIRE(e->seen_count < SEEN, "too much to see", line_number);
    describe(e->seen[e->seen_count++], side, event);
    for (size_t i = 0; i < event->ref_count; i++) {
        keep(side, &event->refs[i]);
    }
    if (event->type == TF_ROUTER_RESOLVED && event->kind == TF_RESOLUTION_OBJECT) {
        keep(side, &event->object);
    }
}

/* The words from `at` on, as they would be described. */
static void join(char *out, size_t at)
{
    *out = '\0';
    for (size_t i = at; i < word_count; i++) {
        append(out, "%s%s", i == at ? "" : " ", words[i]);
    }
}

static void sees(int side)
{
    end *e = &ends[side];
    char want[TEXT];
    join(want, 2);
    REQUIRE(e->seen_count > 0, "%s sees nothing", line_number, words[0]);
    REQUIRE(strcmp(want, e->seen[0]) == 0, "seen is: %s", line_number, e->seen[0]);
    memmove(e->seen[0], e->seen[1], (SEEN - 1) * sizeof(e->seen[0]));
    e->seen_count--;
}

/* -- tables -------------------------------------------------------------------------------------------------------- */

static void append_entry(char *out, const tf_session_entry *entry)
{
    append(out, "%s%" PRIu64 " %s", *out == '\0' ? "" : " ", entry->ref, entry->is_export ? "export" : "import");
    if (entry->is_mentioned) {
        append(out, " mentioned %" PRIu64, entry->mentioned);
    }
    if (entry->is_revoked) {
        append(out, " revoked");
    }
    if (entry->is_retired) {
        append(out, " retired %" PRIu64, entry->retired);
    }
}

/* Everything but the roots, in the order of the refs. */
static void describe_table(char *out, int side)
{
    *out = '\0';
    for (tf_ref next = 2; next != UINT64_MAX;) {
        tf_session_entry lowest = {.ref = UINT64_MAX};
        tf_session_entry entry;
        uint64_t cursor = 0;
        while (tf_session_next_entry(net.lines[line].sessions[side], &cursor, &entry)) {
            lowest = entry.ref >= next && entry.ref < lowest.ref ? entry : lowest;
        }
        next = lowest.ref;
        if (next != UINT64_MAX) {
            append_entry(out, &lowest);
            next++;
        }
    }
    if (*out == '\0') {
        append(out, "nothing");
    }
}

static void has(int side)
{
    char want[TEXT];
    char got[TEXT];
    join(want, 2);
    describe_table(got, side);
    REQUIRE(strcmp(want, got) == 0, "the table is: %s", line_number, got);
}

/* "waits 1 message 1 resolution": held messages, and resolutions behind a fence. */
static void waits(int side)
{
    tf_router_stats stats;
    tf_router_get_stats(net.nodes[side].router, &stats);
    REQUIRE(stats.held_items == number_at(2), "%zu messages wait", line_number, stats.held_items);
    REQUIRE(stats.fences == number_at(4), "%zu resolutions wait", line_number, stats.fences);
}

/* -- what an end does ---------------------------------------------------------------------------------------------- */

/* A sends METHOD to REF [with ...]; A asks METHOD of REF [with ...] */
static void sends(int side)
{
    tf_mention refs[WORDS];
    tf_router_send send = {.target = local_of(side, number_at(4)),
                           .method = tf_slice_str(words[2]),
                           .refs = refs,
                           .ref_count = mentions_from(side, 5, refs),
                           .want_result = is_word(1, "asks")};
    tf_local result = TF_LOCAL_NONE;
    REQUIRE(tf_router_deliver(net.nodes[side].router, net.now, &send, &result) == TF_OK, "not sent", line_number);
}

/* A resolves REF to REF | object | "data" [with ...]; A rejects REF by "data" [with ...] */
static void resolves(int side)
{
    tf_mention refs[WORDS];
    tf_answer answer = {.promise = local_of(side, number_at(2)), .refs = refs};
    answer.kind = is_word(1, "rejects") ? TF_RESOLUTION_REJECTION : TF_RESOLUTION_DATA;
    if (*words[4] != '"') {
        answer.kind = TF_RESOLUTION_OBJECT;
        answer.object = mention_at(side, 4);
    } else {
        answer.data = data_at(4);
        answer.ref_count = mentions_from(side, 5, refs);
    }
    REQUIRE(tf_router_resolve(net.nodes[side].router, net.now, &answer, 1) == TF_OK, "not resolved", line_number);
}

/* A revokes REF soft | hard by "data" [with ...] */
static void revokes(int side)
{
    tf_mention refs[WORDS];
    tf_revocation revocation = {.object = local_of(side, number_at(2)),
                                .hard = is_word(3, "hard"),
                                .data = data_at(5),
                                .refs = refs,
                                .ref_count = mentions_from(side, 6, refs)};
    REQUIRE(tf_router_revoke(net.nodes[side].router, net.now, &revocation) == TF_OK, "not revoked", line_number);
}

static size_t bytes_from(size_t at, uint8_t bytes[TEXT / 2])
{
    char hex[TEXT];
    join(hex, at);
    return tf_test_unhex(hex, bytes, TEXT / 2);
}

/* The next message of an end, as far as the account has not shown it. */
static void says(int side)
{
    end *e = &ends[side];
    char got[TEXT];
    char want[TEXT];
    uint8_t bytes[TEXT / 2];
    tf_slice message;
    size_t len = bytes_from(2, bytes);
    tf_session *session = net.lines[line].sessions[side];
    REQUIRE(tf_session_peek_out(session, &message), "nothing is said", line_number);
    REQUIRE(strcmp(tf_test_hex(message, got, sizeof(got)), tf_test_hex(tf_slice_of(bytes, len), want, sizeof(want))) ==
                0,
            "said is: %s", line_number, got);
    REQUIRE(e->said_count < ON_LINE, "too many on the line", line_number);
    e->said[e->said_count++] = (heard){.bytes = tf_test_exact(message), .len = message.len};
    tf_session_pop_out(session);
}

/* The oldest message on its way to an end. */
static heard take_said(int from)
{
    end *e = &ends[from];
    REQUIRE(e->said_count > 0, "nothing is on its way", line_number);
    heard message = e->said[0];
    memmove(&e->said[0], &e->said[1], (ON_LINE - 1) * sizeof(e->said[0]));
    e->said_count--;
    return message;
}

static void hears(int side)
{
    tf_session *session = net.lines[line].sessions[side];
    REQUIRE(ends[side].seen_count == 0, "not named: %s", line_number, ends[side].seen[0]);
    heard message = take_said(1 - side);
    tf_err err = tf_router_recv(net.nodes[side].router, session, net.now, tf_slice_of(message.bytes, message.len));
    REQUIRE(err == TF_OK, "refused: %d", line_number, err);
    tf_test_net_take(&net, (size_t)side);
    free(message.bytes);
    REQUIRE(ends[side].keep_count == 0, "not kept: %" PRIu64, line_number, ends[side].keeps[0]);
}

/* A message that breaks a rule, and changes nothing: A refuses bad_ref | bad_state HEX */
static void refuses(int side)
{
    uint8_t bytes[TEXT / 2];
    size_t len = bytes_from(3, bytes);
    tf_err want = is_word(2, "bad_ref") ? TF_ERR_PEER_REF : TF_ERR_PEER_STATE;
    REQUIRE(is_word(2, "bad_ref") || is_word(2, "bad_state"), "an unknown code", line_number);
    tf_slice message = tf_slice_of(bytes, len);
    tf_err err = tf_router_recv(net.nodes[side].router, net.lines[line].sessions[side], net.now, message);
    REQUIRE(err == want, "refused: %d", line_number, err);
}

static void pass(void)
{
    net.now += number_at(0) * TF_MS;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(tf_session_tick(net.lines[line].sessions[i], net.now), TF_OK);
    }
}

static void keeps(int side)
{
    for (size_t i = 2; i < word_count; i++) {
        ends[side].keeps[ends[side].keep_count++] = number_at(i);
    }
}

static void lets_go(int side)
{
    tf_router_release(net.nodes[side].router, net.now, local_of(side, number_at(2)));
}

static const struct {
    const char *verb;
    size_t words; /* at least */
    void (*act)(int side);
} verbs[] = {
    {"sends", 5, sends},     {"asks", 5, sends},      {"resolves", 5, resolves}, {"rejects", 5, resolves},
    {"revokes", 6, revokes}, {"forgets", 3, lets_go}, {"keeps", 3, keeps},       {"says", 3, says},
    {"hears", 2, hears},     {"sees", 3, sees},       {"has", 3, has},           {"waits", 6, waits},
    {"refuses", 4, refuses},
};

static void act(void)
{
    if (is_word(1, "ms")) {
        pass();
        return;
    }
    int side = end_at(0);
    learn(0);
    learn(1);
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (is_word(1, verbs[i].verb)) {
            REQUIRE(word_count >= verbs[i].words, "words are missing", line_number);
            verbs[i].act(side);
            tf_test_net_take(&net, 0);
            tf_test_net_take(&net, 1);
            return;
        }
    }
    ck_abort_msg("PROTOCOL.md:%u: an unknown verb", line_number);
}

/* -- accounts ------------------------------------------------------------------------------------------------------ */

static void assert_all_told(int side)
{
    tf_slice message;
    REQUIRE(ends[side].seen_count == 0, "not named: %s", line_number, ends[side].seen[0]);
    REQUIRE(ends[side].said_count == 0, "a message was not heard", line_number);
    REQUIRE(!tf_session_peek_out(net.lines[line].sessions[side], &message), "a message is not shown", line_number);
}

/* The account whose opening line was just read, to its end; both have nothing then. */
static void run_account(void)
{
    memset(ends, 0, sizeof(ends));
    tf_test_net_init(&net, tf_test_mem(), on_event);
    size_t a = tf_test_net_add(&net);
    line = tf_test_net_connect(&net, a, tf_test_net_add(&net));
    while (read_step()) {
        split();
        if (word_count > 0) {
            act();
        }
    }
    assert_all_told(0);
    assert_all_told(1);
    tf_test_net_settle(&net, net.now + 2 * TF_SECOND); /* for what a node does without a word */
    REQUIRE(net.carried == 0 && tf_test_net_is_clean(&net), "something is left", line_number);
    tf_test_net_clear(&net);
}

START_TEST(protocol_md_every_crossing_is_what_two_nodes_do)
{
    unsigned count = 0;
    doc = fopen(TF_PROTOCOL_MD, "r");
    ck_assert_ptr_nonnull(doc);
    line_number = 0;
    while (read_line(text)) {
        if (strncmp(text, OPENING, sizeof(OPENING) - 1) == 0) {
            REQUIRE(strtoul(text + sizeof(OPENING) - 1, NULL, 10) == ++count, "not the next number", line_number);
            run_account();
        }
    }
    ck_assert_int_eq(fclose(doc), 0);
    ck_assert_uint_eq(count, ACCOUNTS);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {protocol_md_every_crossing_is_what_two_nodes_do, NULL};
    return tf_test_run("PROTOCOL.md, crossings", tests);
}
