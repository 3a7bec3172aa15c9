/* Look-ups: literals, /etc/hosts, a name server in this process, none at all, and cancelling. */
#include <event2/dns.h>
#include <event2/dns_struct.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "node/resolve.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define GIVE_UP_S 20

static struct event_base *base;
static tf_resolve *lookup;
static tf_address addresses[TF_RESOLVE_ADDRESSES_MAX];
static size_t count;
static char error[TF_WHY_MAX];
static unsigned answers;
static bool free_in_answer;
static char hosts[64];
static char resolv_conf[64];
static int server_fd;
static struct evdns_server_port *server;
static unsigned questions;
static unsigned dropped; /* questions that get lost on the way, from now */
static tf_time limit;

static void on_done(void *ctx, const tf_address *list, size_t n, const char *text)
{
    (void)ctx;
    answers++;
    count = n;
    ck_assert((n > 0) == (text == NULL));
    memcpy(addresses, list, n * sizeof(*list));
    (void)snprintf(error, sizeof(error), "%s", text != NULL ? text : "");
    if (free_in_answer) {
        tf_resolve_free(lookup);
        lookup = NULL;
    }
}

/* Knows one name; asked for "silent.test" it says nothing. */
static void on_question(struct evdns_server_request *request, void *ctx)
{
    (void)ctx;
    bool found = false;
    for (int i = 0; i < request->nquestions; i++) {
        const struct evdns_server_question *question = request->questions[i];
        questions++;
        if (dropped > 0) {
            dropped--;
            evdns_server_request_drop(request);
            return;
        }
        if (strcasecmp(question->name, "silent.test") == 0) {
            evdns_server_request_drop(request);
            return;
        }
        if (strcasecmp(question->name, "two.test") == 0 && question->type == EVDNS_TYPE_A) {
            static const unsigned char two[] = {192, 0, 2, 1, 192, 0, 2, 2};
            evdns_server_request_add_a_reply(request, question->name, 2, two, 1);
            found = true;
        }
        if (strcasecmp(question->name, "two.test") == 0 && question->type == EVDNS_TYPE_AAAA) {
            static const unsigned char one[16] = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7};
            evdns_server_request_add_aaaa_reply(request, question->name, 1, one, 1);
            found = true;
        }
    }
    evdns_server_request_respond(request, found ? DNS_ERR_NONE : DNS_ERR_NOTEXIST);
}

static void write_temporary(char *path, size_t cap, const char *text)
{
    (void)snprintf(path, cap, "/tmp/twofold-resolve-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void set_up(void)
{
    tf_address any;
    socklen_t len = sizeof(any.u.v4);
    char text[64];
    base = event_base_new();
    ck_assert_int_eq(tf_address_parse(&any, tf_slice_str("127.0.0.1"), 0), TF_OK);
    server_fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(server_fd, &any.u.any, any.len), 0);
    ck_assert_int_eq(getsockname(server_fd, &any.u.any, &len), 0);
    server = evdns_add_server_port_with_base(base, server_fd, 0, on_question, NULL);
    (void)snprintf(text, sizeof(text), "nameserver 127.0.0.1:%u\n", tf_address_port(&any));
    write_temporary(resolv_conf, sizeof(resolv_conf), text);
    write_temporary(hosts, sizeof(hosts), "127.0.0.5 inhouse alias.inhouse\n::1 inhouse\n");
    answers = questions = dropped = 0;
    limit = 0;
    count = 0;
    free_in_answer = false;
}

static void tear_down(void)
{
    tf_resolve_free(lookup);
    lookup = NULL;
    ck_assert_int_ge(event_base_loop(base, EVLOOP_NONBLOCK), 0);
    evdns_close_server_port(server);
    ck_assert_int_ge(event_base_loop(base, EVLOOP_NONBLOCK), 0);
    close(server_fd);
    event_base_free(base);
    unlink(hosts);
    unlink(resolv_conf);
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}

static void on_give_up(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what, (void)arg;
    ck_abort_msg("no answer in time");
}

static void start(const char *host)
{
    tf_endpoint endpoint = {.port = 7420};
    const tf_resolve_config config = {base, tf_test_mem(), hosts, resolv_conf, limit};
    (void)snprintf(endpoint.host, sizeof(endpoint.host), "%s", host);
    ck_assert_int_eq(tf_resolve_start(&lookup, &config, &endpoint, on_done, NULL), TF_OK);
    ck_assert_uint_eq(answers, 0); /* never from inside */
}

static void resolve(const char *host)
{
    start(host);
    struct event *guard = evtimer_new(base, on_give_up, NULL);
    const struct timeval span = {GIVE_UP_S, 0};
    evtimer_add(guard, &span);
    while (answers == 0) {
        ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
    }
    event_free(guard);
}

static bool has(const char *literal)
{
    tf_address wanted;
    ck_assert_int_eq(tf_address_parse(&wanted, tf_slice_str(literal), 7420), TF_OK);
    for (size_t i = 0; i < count; i++) {
        if (tf_address_eq(&addresses[i], &wanted)) {
            return true;
        }
    }
    return false;
}

START_TEST(resolve_literal_asks_nobody)
{
    set_up();
    resolve("2001:db8::1");
    ck_assert_uint_eq(count, 1);
    ck_assert(has("2001:db8::1"));
    ck_assert_uint_eq(questions, 0);
    tear_down();
}
END_TEST

START_TEST(resolve_name_of_the_hosts_file_asks_nobody)
{
    set_up();
    resolve("inhouse");
    ck_assert(has("127.0.0.5"));
    ck_assert(has("::1"));
    ck_assert_uint_eq(count, 2);
    ck_assert_uint_eq(questions, 0);
    tear_down();
}
END_TEST

START_TEST(resolve_name_gives_all_addresses_of_the_server)
{
    set_up();
    resolve("two.test");
    ck_assert_uint_eq(count, 3);
    ck_assert(has("192.0.2.1") && has("192.0.2.2") && has("2001:db8::7"));
    tear_down();
}
END_TEST

START_TEST(resolve_is_asked_anew_each_time)
{
    set_up();
    resolve("two.test");
    unsigned before = questions;
    tf_resolve_free(lookup);
    answers = 0;
    resolve("two.test");
    ck_assert_uint_gt(questions, before);
    tear_down();
}
END_TEST

START_TEST(resolve_unknown_name_says_so)
{
    set_up();
    resolve("unknown.test");
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_gt(strlen(error), 0);
    tear_down();
}
END_TEST

START_TEST(resolve_lost_question_is_repeated)
{
    set_up();
    dropped = 2; /* both families' */
    resolve("two.test");
    ck_assert_uint_gt(count, 0);
    tear_down();
}
END_TEST

START_TEST(resolve_silent_server_meets_the_limit)
{
    set_up();
    limit = 100 * TF_MS;
    resolve("silent.test");
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_gt(strlen(error), 0);
    tear_down();
}
END_TEST

START_TEST(resolve_freed_at_every_step_calls_nobody)
{
    static const char *const names[] = {"127.0.0.1", "inhouse", "two.test", "unknown.test", "silent.test"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (int steps = 0; steps < 6; steps++) {
            set_up();
            start(names[i]);
            for (int s = 0; s < steps; s++) {
                ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK), 0);
            }
            unsigned before = answers;
            tf_resolve_free(lookup);
            lookup = NULL;
            for (int s = 0; s < 6; s++) {
                ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK), 0);
            }
            ck_assert_uint_eq(answers, before);
            tear_down();
        }
    }
}
END_TEST

START_TEST(resolve_may_be_freed_in_its_answer)
{
    static const char *const names[] = {"::1", "inhouse", "two.test", "unknown.test"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        set_up();
        free_in_answer = true;
        resolve(names[i]);
        ck_assert_ptr_null(lookup);
        tear_down();
    }
}
END_TEST

START_TEST(resolve_answers_once_and_falls_silent)
{
    set_up();
    resolve("two.test");
    for (int s = 0; s < 5; s++) {
        ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK), 0);
    }
    ck_assert_uint_eq(answers, 1);
    ck_assert_int_eq(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 1); /* that of the test's own server */
    tear_down();
}
END_TEST

START_TEST(resolve_without_memory_is_not_started)
{
    set_up();
    tf_endpoint endpoint = {"two.test", 1};
    const tf_resolve_config config = {base, tf_test_mem(), hosts, resolv_conf, limit};
    for (uint64_t k = 0; k < 2; k++) {
        tf_test_heap_fail_at(tf_test_heap_shared(), k, false);
        ck_assert_int_eq(tf_resolve_start(&lookup, &config, &endpoint, on_done, NULL), TF_ERR_NOMEM);
    }
    tf_test_heap_fail_never(tf_test_heap_shared());
    tear_down();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {resolve_literal_asks_nobody,
                                  resolve_name_of_the_hosts_file_asks_nobody,
                                  resolve_name_gives_all_addresses_of_the_server,
                                  resolve_is_asked_anew_each_time,
                                  resolve_unknown_name_says_so,
                                  resolve_lost_question_is_repeated,
                                  resolve_silent_server_meets_the_limit,
                                  resolve_freed_at_every_step_calls_nobody,
                                  resolve_may_be_freed_in_its_answer,
                                  resolve_answers_once_and_falls_silent,
                                  resolve_without_memory_is_not_started,
                                  NULL};
    return tf_test_run("node/resolve", tests);
}
