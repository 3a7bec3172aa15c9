/* node/admin: the socket, requests, answers piece by piece; node/node_rejection. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/admin/admin.h"
#include "node/admin/http.h"
#include "node/admin/socket.h"
#include "node/refusal.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define ANSWER_MAX ((size_t)64 << 20)

static char folder[64];
static struct event_base *base;
static tf_admin *admin;
static uint64_t entries; /* that the source has */
static uint64_t told;

static bool next_ref(void *ctx, tf_node_refs_cursor *cursor, tf_node_ref *out)
{
    (void)ctx;
    if (cursor->entry > entries) {
        return false;
    }
    *out = (tf_node_ref){.session = 0xabc, .is_summary = cursor->entry == entries};
    out->entry =
        (tf_session_entry){.ref = 4 * cursor->entry, .local = cursor->entry + 1, .is_export = true, .count = 1};
    out->stats.exports = entries;
    cursor->entry++;
    told++;
    return true;
}

static void refs_stats(void *ctx, tf_router_stats *out)
{
    (void)ctx;
    *out = (tf_router_stats){.records = 77};
}

static tf_err open_admin(char why[TF_WHY_MAX])
{
    const tf_admin_config config = {.base = base,
                                    .mem = tf_test_mem(),
                                    .directory = folder,
                                    .source = {.next_ref = next_ref, .refs_stats = refs_stats}};
    return tf_admin_new(&admin, &config, why);
}

static void set_up(void)
{
    char why[TF_WHY_MAX] = "";
    (void)snprintf(folder, sizeof(folder), "/tmp/tf-admin-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    base = event_base_new();
    entries = told = 0;
    ck_assert_msg(open_admin(why) == TF_OK, "%s", why);
}

static void tear_down(void)
{
    tf_admin_free(admin);
    admin = NULL;
    event_base_free(base);
    ck_assert_int_eq(rmdir(folder), 0); /* nothing is left in it */
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}

static int client(void)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    ck_assert(tf_admin_socket_address(&address, folder, TF_ADMIN_NAME));
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void turn(void)
{
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
}

/* All that comes until the other side closes; the caller frees it. */
static char *read_all(int fd)
{
    char *text = malloc(ANSWER_MAX);
    size_t len = 0;
    ssize_t got = 1;
    while (got != 0 && len < ANSWER_MAX - 1) {
        got = read(fd, text + len, ANSWER_MAX - 1 - len);
        if (got < 0 && errno == ECONNRESET) { /* it was told more than it wanted to hear */
            break;
        }
        ck_assert(got >= 0 || errno == EAGAIN);
        len += got > 0 ? (size_t)got : 0;
        turn();
    }
    text[len] = '\0';
    ck_assert_int_eq(close(fd), 0);
    return text;
}

static char *ask(const char *request)
{
    int fd = client();
    ck_assert_int_eq(write(fd, request, strlen(request)), (ssize_t)strlen(request));
    return read_all(fd);
}

static void answer_has(const char *request, const char *beginning, const char *part)
{
    char *text = ask(request);
    ck_assert_msg(strncmp(text, beginning, strlen(beginning)) == 0, "%s: %s", request, text);
    ck_assert_msg(strstr(text, part) != NULL, "%s: %s", request, text);
    free(text);
}

START_TEST(admin_requests_get_their_answers)
{
    set_up();
    entries = 2;
    answer_has("GET /version HTTP/1.0\r\n\r\n", "HTTP/1.1 200 ", "\r\n\r\ntwofold ");
    answer_has("GET /refs HTTP/1.0\r\nA: b\r\n\r\n", "HTTP/1.1 200 ",
               "application/x-ndjson\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n{\"v\":1,\"type\":\"ref\"");
    answer_has("GET /refs HTTP/1.1\r\n\r\n", "HTTP/1.1 200 ", "chunked\r\n");
    answer_has("GET /refs HTTP/1.1\r\n\r\n", "HTTP/1.1 200 ", "\"records\":77");
    answer_has("GET /refs HTTP/1.1\r\n\r\n", "HTTP/1.1 200 ", "}\n\r\n0\r\n\r\n");
    answer_has("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 ", "/refs");
    answer_has("GET /refs?all HTTP/1.1\r\n\r\n", "HTTP/1.1 404 ", "/refs");
    answer_has("POST /refs HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody", "HTTP/1.1 405 ", "Allow: GET\r\n");
    answer_has("HEAD /refs HTTP/1.1\r\n\r\n", "HTTP/1.1 405 ", "Allow: GET\r\n");
    answer_has("nonsense\r\n\r\n", "HTTP/1.1 400 ", "HTTP/1");
    answer_has("GET /refs HTTP/2\r\n\r\n", "HTTP/1.1 400 ", "HTTP/1");
    tear_down();
}
END_TEST

START_TEST(admin_request_in_pieces_is_one_request)
{
    static const char request[] = "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n";
    set_up();
    int fd = client();
    for (size_t i = 0; i < sizeof(request) - 1; i++) {
        ck_assert_int_eq(write(fd, request + i, 1), 1);
        turn();
    }
    char *text = read_all(fd);
    ck_assert_ptr_nonnull(strstr(text, "200 OK"));
    free(text);
    tear_down();
}
END_TEST

START_TEST(admin_request_that_is_too_long_is_refused)
{
    static char request[2 * TF_HTTP_HEAD_MAX];
    set_up();
    memset(request, 'a', sizeof(request) - 1);
    memcpy(request, "GET /", 5);
    answer_has(request, "HTTP/1.1 431 ", "too long");
    tear_down();
}
END_TEST

/* Of its body. */
static size_t lines_of(const char *text)
{
    size_t lines = 0;
    for (const char *at = strstr(text, "\r\n\r\n") + 4; *at != '\0'; at++) {
        lines += *at == '\n' ? 1u : 0u;
    }
    return lines;
}

/* P7 */
START_TEST(admin_long_answer_waits_for_its_reader)
{
    static const char request[] = "GET /refs HTTP/1.0\r\n\r\n";
    set_up();
    entries = 100000;
    int fd = client();
    ck_assert_int_eq(write(fd, request, sizeof(request) - 1), (ssize_t)sizeof(request) - 1);
    uint64_t before = 1;
    while (before != told || told == 0) { /* until nothing more is made */
        before = told;
        turn();
        turn();
    }
    ck_assert_uint_lt(told, entries / 10);
    char *text = read_all(fd);
    ck_assert_uint_eq(lines_of(text), entries + 2);
    free(text);
    tear_down();
}
END_TEST

START_TEST(admin_connections_are_bounded)
{
    int fds[TF_ADMIN_CONNECTIONS + 1];
    char byte = 0;
    set_up();
    for (unsigned i = 0; i <= TF_ADMIN_CONNECTIONS; i++) {
        fds[i] = client();
        turn();
    }
    ck_assert_int_eq(read(fds[TF_ADMIN_CONNECTIONS], &byte, 1), 0); /* one too many is closed */
    ck_assert_int_eq(read(fds[0], &byte, 1), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(close(fds[0]), 0);
    turn();
    answer_has("GET /version HTTP/1.0\r\n\r\n", "HTTP/1.1 200 ", "twofold");
    for (unsigned i = 1; i <= TF_ADMIN_CONNECTIONS; i++) {
        ck_assert_int_eq(close(fds[i]), 0);
    }
    tear_down();
}
END_TEST

/* -- the socket ---------------------------------------------------------------------------------------------------- */

static void path_of(char out[128], const char *name)
{
    (void)snprintf(out, 128, "%s/%s", folder, name);
}

START_TEST(admin_socket_is_for_its_owner_only)
{
    struct stat file;
    char path[128];
    mode_t mask = umask(0);
    set_up();
    (void)umask(mask);
    path_of(path, TF_ADMIN_NAME);
    ck_assert_int_eq(lstat(path, &file), 0);
    ck_assert(S_ISSOCK(file.st_mode));
    ck_assert_uint_eq(file.st_mode & 07777u, 0600);
    tear_down();
}
END_TEST

START_TEST(admin_living_socket_is_left_alone)
{
    char why[TF_WHY_MAX] = "";
    set_up();
    tf_admin *first = admin;
    ck_assert_int_eq(open_admin(why), TF_ERR_USAGE);
    ck_assert_msg(strstr(why, "another process listens") != NULL, "%s", why);
    ck_assert_ptr_eq(admin, first);
    answer_has("GET /version HTTP/1.0\r\n\r\n", "HTTP/1.1 200 ", "twofold");
    tear_down();
}
END_TEST

START_TEST(admin_stale_socket_is_replaced)
{
    char why[TF_WHY_MAX] = "";
    char path[128];
    tf_admin_socket stale;
    set_up();
    tf_admin_free(admin);
    admin = NULL;
    ck_assert_int_eq(tf_admin_socket_open(&stale, folder, TF_ADMIN_NAME, why), TF_OK);
    ck_assert_int_eq(close(stale.fd), 0); /* as by a crash */
    stale.fd = -1;
    path_of(path, TF_ADMIN_NAME);
    ck_assert_int_eq(access(path, F_OK), 0);
    ck_assert_msg(open_admin(why) == TF_OK, "%s", why);
    tf_admin_socket_close(&stale); /* the name is another's by now */
    answer_has("GET /version HTTP/1.0\r\n\r\n", "HTTP/1.1 200 ", "twofold");
    tear_down();
}
END_TEST

START_TEST(admin_file_in_the_way_is_not_replaced)
{
    char why[TF_WHY_MAX] = "";
    char path[128];
    set_up();
    tf_admin_free(admin);
    admin = NULL;
    path_of(path, TF_ADMIN_NAME);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(open_admin(why), TF_ERR_USAGE);
    ck_assert_msg(strstr(why, "is in the way") != NULL, "%s", why);
    ck_assert_int_eq(unlink(path), 0);
    tear_down();
}
END_TEST

START_TEST(admin_path_that_is_too_long_is_said)
{
    char why[TF_WHY_MAX] = "";
    char path[256];
    tf_admin_socket socket;
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    for (size_t len = 90; len < 120; len++) {
        struct sockaddr_un address;
        path[len] = '\0';
        bool fits = len + 1 + strlen(TF_ADMIN_NAME) < sizeof(address.sun_path);
        ck_assert_int_eq(tf_admin_socket_address(&address, path, TF_ADMIN_NAME), fits);
        path[len] = 'x';
    }
    ck_assert_int_eq(tf_admin_socket_open(&socket, path, TF_ADMIN_NAME, why), TF_ERR_USAGE);
    ck_assert_msg(strstr(why, "at most 107 bytes") != NULL, "%s", why);
}
END_TEST

/* -- rejections ---------------------------------------------------------------------------------------------------- */

static void rejection_becomes(tf_slice message, const char *expected, size_t expected_len)
{
    uint8_t bytes[TF_REJECTION_MAX];
    tf_rejection back;
    tf_rejection in = {.code = tf_slice_str("failed"), .message = message, .has_status = true, .status = 300};
    size_t len = tf_rejection_write(bytes, &in);
    ck_assert_uint_le(len, TF_REJECTION_MAX);
    uint8_t *exact = tf_test_exact(tf_slice_of(bytes, len));
    ck_assert_int_eq(tf_rejection_read(tf_slice_of(exact, len), &back), TF_OK);
    ck_assert(tf_slice_eq(back.code, in.code));
    ck_assert(back.has_status && back.status == 300);
    ck_assert_uint_eq(back.message.len, expected_len);
    ck_assert_int_eq(memcmp(back.message.data, expected, expected_len), 0);
    free(exact);
}

START_TEST(rejection_is_read_as_it_was_written)
{
    static char umlauts[2 * TF_REJECTION_MAX + 1];
    rejection_becomes(tf_slice_str("no such file"), "no such file", 12);
    rejection_becomes(tf_slice_str("a\xff\xfe z"), "a?? z", 5); /* no UTF-8 */
    for (size_t i = 0; i < TF_REJECTION_MAX; i++) {
        memcpy(umlauts + 2 * i, "\xc3\xbc", 2);
    }
    uint8_t bytes[TF_REJECTION_MAX];
    tf_rejection in = {.code = tf_slice_str("failed")};
    tf_rejection back;
    for (size_t len = TF_REJECTION_MAX - 200; len <= TF_REJECTION_MAX + 4; len += 2) {
        in.message = tf_slice_of(umlauts, len);
        size_t written = tf_rejection_write(bytes, &in);
        ck_assert_int_eq(tf_rejection_read(tf_slice_of(bytes, written), &back), TF_OK);
        ck_assert_uint_eq(back.message.len % 2, 0); /* cut between characters */
        ck_assert_uint_ge(back.message.len, TF_REJECTION_MAX - 256);
    }
}
END_TEST

START_TEST(rejection_of_another_kind_is_not_read)
{
    static const char *const others[] = {
        "", "90", "80", "a568656c6c6f", "81a4636f6465a0", "81a4636f646507", "81a4636f6465a2ffff", "81a4636f6465a16180"};
    uint8_t bytes[64];
    tf_rejection out;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        size_t len = tf_test_unhex(others[i], bytes, sizeof(bytes));
        ck_assert_msg(tf_rejection_read(tf_slice_of(bytes, len), &out) == TF_ERR_PEER_SYNTAX, "%s", others[i]);
    }
    size_t len =
        tf_test_unhex("82 a4636f6465 a161 a178 9103", bytes, sizeof(bytes)); /* what it does not know is skipped */
    ck_assert_int_eq(tf_rejection_read(tf_slice_of(bytes, len), &out), TF_OK);
    ck_assert(tf_slice_eq(out.code, tf_slice_str("a")));
    ck_assert_uint_eq(out.message.len, 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {admin_requests_get_their_answers,
                                  admin_request_in_pieces_is_one_request,
                                  admin_request_that_is_too_long_is_refused,
                                  admin_long_answer_waits_for_its_reader,
                                  admin_connections_are_bounded,
                                  admin_socket_is_for_its_owner_only,
                                  admin_living_socket_is_left_alone,
                                  admin_stale_socket_is_replaced,
                                  admin_file_in_the_way_is_not_replaced,
                                  admin_path_that_is_too_long_is_said,
                                  rejection_is_read_as_it_was_written,
                                  rejection_of_another_kind_is_not_read,
                                  NULL};
    return tf_test_run_waiting("node/admin", tests);
}
