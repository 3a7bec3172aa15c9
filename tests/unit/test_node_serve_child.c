/* node/cli/serve_child: the command that `serve` runs for a message. */
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/cli/serve_child.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define OUT_MAX 100000u
#define ERR_MAX 1000u

static struct event_base *base;
static struct event *ended; /* some child has */
static tf_child *child;
static tf_child_result result;

static void on_ended(evutil_socket_t number, short what, void *ctx)
{
    (void)number;
    (void)what;
    (void)ctx;
}

static void set_up(void)
{
    base = event_base_new();
    ended = evsignal_new(base, SIGCHLD, on_ended, NULL);
    ck_assert_int_eq(event_add(ended, NULL), 0);
}

static void tear_down(void)
{
    tf_child_free(child);
    child = NULL;
    event_free(ended);
    event_base_free(base);
}

static void start(const char *script, tf_slice body)
{
    char why[TF_WHY_MAX] = "";
    char shell[] = "sh";
    char flag[] = "-c";
    char method[] = "the method";
    char text[512];
    (void)snprintf(text, sizeof(text), "%s", script);
    char *argv[] = {shell, flag, text, shell, method, NULL};
    const tf_child_config config = {.base = base, .argv = argv, .body = body, .out_max = OUT_MAX, .err_max = ERR_MAX};
    ck_assert_msg(tf_child_start(&child, &config, why) == TF_OK, "%s", why);
}

static void run(const char *script, const char *body)
{
    tf_child_free(child);
    start(script, tf_slice_str(body));
    while (!tf_child_look(child, &result)) {
        (void)event_base_loop(base, EVLOOP_ONCE);
    }
    tf_child_result again;
    ck_assert(!tf_child_look(child, &again));
}

static void printed(const char *out, const char *err)
{
    ck_assert_msg(tf_slice_eq(result.out, tf_slice_str(out)), "%.*s", (int)result.out.len,
                  (const char *)result.out.data);
    ck_assert_msg(tf_slice_eq(result.err, tf_slice_str(err)), "%.*s", (int)result.err.len,
                  (const char *)result.err.data);
}

START_TEST(child_gets_body_and_method_and_gives_its_output)
{
    set_up();
    run("cat; printf ' %s' \"$1\"", "the body");
    printed("the body the method", "");
    ck_assert(!result.signalled && !result.too_large);
    ck_assert_uint_eq(result.code, 0);
    run("printf out; printf err >&2; exit 3", "");
    printed("out", "err");
    ck_assert_uint_eq(result.code, 3);
    run("kill -9 $$", "");
    printed("", "");
    ck_assert(result.signalled);
    ck_assert_uint_eq(result.code, 9);
    run("true", "it is not read");
    printed("", "");
    tear_down();
}
END_TEST

START_TEST(child_has_no_other_descriptors_and_default_signals)
{
    set_up();
    (void)signal(SIGPIPE, SIG_IGN);
    int kept = open("/dev/null", O_RDONLY);
    ck_assert_int_ge(kept, 3);
    run("ls /proc/self/fd | grep -v '^[012]$' | wc -l; sh -c 'kill -PIPE $$' 2>/dev/null; echo $?", "");
    printed("1\n141\n", ""); /* the one by which ls lists them */
    ck_assert_int_eq(close(kept), 0);
    tear_down();
}
END_TEST

START_TEST(child_too_much_output_ends_it)
{
    set_up();
    run("head -c 100000 /dev/zero", "");
    ck_assert(!result.too_large);
    ck_assert_uint_eq(result.out.len, OUT_MAX);
    run("yes", "");
    ck_assert(result.too_large);
    run("head -c 5000 /dev/zero | tr '\\0' a >&2; printf end >&2", "");
    ck_assert_uint_eq(result.err.len, ERR_MAX);
    ck_assert_int_eq(memcmp(result.err.data + ERR_MAX - 4, "aend", 4), 0);
    tear_down();
}
END_TEST

START_TEST(child_what_it_leaves_behind_is_killed)
{
    set_up();
    run("sleep 1000 & echo $!", ""); /* which has its stdout, too */
    char number[24] = "";
    ck_assert_uint_lt(result.out.len, sizeof(number));
    memcpy(number, result.out.data, result.out.len);
    pid_t left = (pid_t)strtol(number, NULL, 10);
    ck_assert_int_gt(left, 0);
    while (kill(left, 0) == 0) { /* until its new parent has looked at it */
        char path[64];
        char state[512] = "";
        (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)left);
        FILE *file = fopen(path, "r");
        size_t len = file == NULL ? 0 : fread(state, 1, sizeof(state) - 1, file);
        if (file != NULL) {
            (void)fclose(file);
        }
        if (len > 0 && strstr(state, ") Z ") != NULL) {
            break;
        }
    }
    tf_child_free(child);
    start("sleep 1000", tf_slice_str(""));
    tear_down(); /* ends it */
}
END_TEST

START_TEST(child_large_body_is_whole)
{
    static uint8_t body[OUT_MAX];
    tf_test_random random;
    set_up();
    tf_test_random_init(&random, 1);
    random.rand.fill(random.rand.ctx, body, sizeof(body));
    tf_child_free(child);
    start("cat", tf_slice_of(body, sizeof(body)));
    while (!tf_child_look(child, &result)) {
        (void)event_base_loop(base, EVLOOP_ONCE);
    }
    ck_assert(tf_slice_eq(result.out, tf_slice_of(body, sizeof(body))));
    tear_down();
}
END_TEST

START_TEST(child_that_cannot_be_started_says_why)
{
    char why[TF_WHY_MAX] = "";
    char name[] = "/nonexistent/command";
    char *argv[] = {name, NULL};
    set_up();
    const tf_child_config config = {.base = base, .argv = argv, .out_max = OUT_MAX, .err_max = ERR_MAX};
    ck_assert_int_eq(tf_child_start(&child, &config, why), TF_ERR_IO);
    ck_assert_str_eq(why, "/nonexistent/command: No such file or directory");
    tear_down();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {child_gets_body_and_method_and_gives_its_output,
                                  child_has_no_other_descriptors_and_default_signals,
                                  child_too_much_output_ends_it,
                                  child_what_it_leaves_behind_is_killed,
                                  child_large_body_is_whole,
                                  child_that_cannot_be_started_says_why,
                                  NULL};
    return tf_test_run_waiting("node/serve_child", tests);
}
