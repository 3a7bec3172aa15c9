/* ref: the references that a relay has in common with us, or with everybody (by its admin.sock). */
#include <inttypes.h>

#include "node/admin/admin.h"
#include "node/cli/admin_get.h"
#include "node/cli/cli.h"

typedef struct ref {
    tf_cli cli;
    const char *data;  /* the relay's data directory; NULL: not said */
    const char *admin; /* the path of its socket; NULL: not said */
    bool has_header;
    bool is_whole; /* the last line came */
    int code;      /* -1: goes on */
} ref;

/* A line of the table; empty slices: nothing there. */
typedef struct row {
    tf_slice peer;
    tf_slice session;
    tf_slice ref;
    tf_slice kind;
    tf_slice role;
    tf_slice local;
    tf_slice mentioned;
    tf_slice retired;
    tf_slice count;
    bool revoked;
} row;

static const tf_option options[] = {
    {0, "data", "DIR", "of the relay with this data directory, on this machine: all connections"},
    {0, "admin", "PATH", "the same, by the path of its socket (DIR/admin.sock)"},
    TF_CLI_COMMON_OPTIONS,
    {0, NULL, NULL, NULL},
};

const tf_option *tf_ref_options(void)
{
    return options;
}

static bool one_option(ref *r, const tf_options *o, const tf_option *option)
{
    bool ok = true;
    if (tf_cli_common_option(&r->cli, o, option, &ok)) {
        return ok;
    }
    *(strcmp(option->name, "data") == 0 ? &r->data : &r->admin) = o->value;
    return true;
}

/* -- the table ----------------------------------------------------------------------------------------------------- */

static void put_cell(tf_slice text, int width)
{
    tf_slice shown = text.len == 0 ? tf_slice_str("-") : text;
    (void)printf("%-*.*s ", width, (int)shown.len, (const char *)shown.data);
}

static void put_header(ref *r, bool all)
{
    if (r->has_header) {
        return;
    }
    r->has_header = true;
    if (all) {
        (void)printf("%-12s %-16s ", "PEER", "SESSION");
    }
    (void)printf("%-8s %-8s %-7s %-8s %-10s %-8s %-8s %s\n", "REF", "KIND", "ROLE", "LOCAL", "MENTIONED", "RETIRED",
                 "REVOKED", "COUNT");
}

static void put_row(ref *r, const row *line)
{
    put_header(r, line->peer.len > 0);
    if (line->peer.len > 0) {
        put_cell(tf_slice_of(line->peer.data, line->peer.len < 12 ? line->peer.len : 12), 12);
        put_cell(line->session, 16);
    }
    put_cell(line->ref, 8);
    put_cell(line->kind, 8);
    put_cell(line->role, 7);
    put_cell(tf_slice_eq(line->local, tf_slice_str("0")) ? tf_slice_str("") : line->local, 8);
    put_cell(line->mentioned, 10);
    put_cell(line->retired, 8);
    put_cell(tf_slice_str(line->revoked ? "yes" : "no"), 8);
    (void)printf("%.*s\n", (int)line->count.len, (const char *)line->count.data);
}

/* -- our own, by the relay ----------------------------------------------------------------------------------------- */

static void put_number_json(const char *name, bool there, uint64_t value)
{
    if (there) {
        (void)printf(",\"%s\":%" PRIu64, name, value);
    }
}

static const char *kind_of(const tf_ref_state *state)
{
    return tf_ref_kind_of(state->ref) == TF_REF_OBJECT ? "object" : "promise";
}

static void put_own_json(const tf_ref_state *state)
{
    (void)printf("{\"v\":1,\"type\":\"ref\",\"ref\":%" PRIu64 ",\"kind\":\"%s\",\"role\":\"%s\"", state->ref,
                 kind_of(state), state->is_export ? "export" : "import");
    put_number_json("local", true, state->local);
    put_number_json("mentioned", state->is_mentioned, state->mentioned);
    put_number_json("retired", state->is_retired, state->retired);
    (void)printf(",\"revoked\":%s,\"count\":%" PRIu64 "}\n", state->is_revoked ? "true" : "false", state->count);
}

static tf_slice number(char out[24], bool there, uint64_t value)
{
    (void)snprintf(out, 24, "%" PRIu64, value);
    return tf_slice_str(there ? out : "");
}

static void put_own(ref *r, const tf_ref_state *state)
{
    char texts[5][24];
    if (r->cli.json) {
        put_own_json(state);
        return;
    }
    put_row(r, &(row){.ref = number(texts[0], true, state->ref),
                      .kind = tf_slice_str(kind_of(state)),
                      .role = tf_slice_str(state->is_export ? "export" : "import"),
                      .local = number(texts[1], true, state->local),
                      .mentioned = number(texts[2], state->is_mentioned, state->mentioned),
                      .retired = number(texts[3], state->is_retired, state->retired),
                      .count = number(texts[4], true, state->count),
                      .revoked = state->is_revoked});
}

static int answered(ref *r, const tf_node_event *event)
{
    tf_result_refs page;
    tf_ref_state state;
    tf_slice bytes;
    if (event->code.len > 0) {
        tf_complain("ref", "refused: %.*s: %.*s", (int)event->code.len, (const char *)event->code.data,
                    (int)event->text.len, (const char *)event->text.data);
        return TF_EXIT_REFUSED;
    }
    if (tf_result_refs_read(event->data, &page) != TF_OK) {
        return tf_cli_error(&r->cli, TF_ERR_PEER_SYNTAX);
    }
    while (tf_items_next(&page.items, &bytes) && tf_ref_state_read(bytes, &state) == TF_OK) {
        put_own(r, &state);
    }
    if (page.next == 0) {
        return TF_EXIT_OK;
    }
    tf_err err = tf_peer_ask_refs(r->cli.peer, page.next, 0);
    return err == TF_OK ? -1 : tf_cli_error(&r->cli, err);
}

static int take(void *ctx, const tf_node_event *event)
{
    return event->type == TF_EVENT_ANSWER ? answered(ctx, event) : -1;
}

static int list_own(ref *r, const char *uri)
{
    int code = tf_cli_start(&r->cli, uri, NULL);
    if (code == TF_EXIT_OK) {
        code = tf_cli_error(&r->cli, tf_peer_ask_refs(r->cli.peer, 0, 0));
    }
    return code == TF_EXIT_OK ? tf_cli_run(&r->cli, take, r) : code;
}

/* -- everybody's, by the socket ------------------------------------------------------------------------------------ */

/* The value of a field of a line: what the relay writes there has no escapes and no blanks. Empty: not there. */
static tf_slice field(const char *line, const char *name)
{
    char key[32];
    int len = snprintf(key, sizeof(key), "\"%s\":", name);
    const char *at = strstr(line, key);
    if (at == NULL) {
        return tf_slice_of(NULL, 0);
    }
    at += len;
    at += *at == '"' ? 1 : 0;
    return tf_slice_of(at, strcspn(at, "\",}\n"));
}

static void put_summary(const char *line, tf_slice type)
{
    static const char *const names[] = {"session", "sent",          "received",        "processed",   "exports",
                                        "imports", "promises_ours", "promises_theirs", "retirements", "waiting",
                                        "records", "held",          "fences"};
    (void)printf("# %.*s", (int)type.len, (const char *)type.data);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        tf_slice value = field(line, names[i]);
        if (value.len > 0) {
            (void)printf(" %s %.*s", names[i], (int)value.len, (const char *)value.data);
        }
    }
    (void)putchar_unlocked('\n');
}

static bool put_line(void *ctx, const char *line, size_t len)
{
    ref *r = ctx;
    bool broken_pipe = false;
    tf_slice type = field(line, "type");
    r->is_whole = tf_slice_eq(type, tf_slice_str("node"));
    if (r->cli.json) {
        (void)fwrite(line, 1, len, stdout);
    } else if (tf_slice_eq(type, tf_slice_str("ref"))) {
        put_row(r, &(row){.peer = field(line, "peer"),
                          .session = field(line, "session"),
                          .ref = field(line, "ref"),
                          .kind = field(line, "kind"),
                          .role = field(line, "role"),
                          .local = field(line, "local"),
                          .mentioned = field(line, "mentioned"),
                          .retired = field(line, "retired"),
                          .count = field(line, "count"),
                          .revoked = tf_slice_eq(field(line, "revoked"), tf_slice_str("true"))});
    } else {
        put_summary(line, type);
    }
    if (ferror(stdout) != 0 && !tf_out_flush("ref", &broken_pipe)) {
        r->code = broken_pipe ? TF_EXIT_OK : TF_EXIT_NEGATIVE;
    }
    return r->code < 0;
}

static int list_all(ref *r)
{
    char path[TF_PATH_MAX];
    bool broken_pipe = false;
    (void)snprintf(path, sizeof(path), "%s%s%s", r->admin != NULL ? r->admin : r->data, r->admin != NULL ? "" : "/",
                   r->admin != NULL ? "" : TF_ADMIN_NAME);
    int code = tf_admin_get("ref", path, "/refs", put_line, r);
    if (r->code >= 0) {
        return r->code;
    }
    if (!tf_out_flush("ref", &broken_pipe)) {
        return broken_pipe ? TF_EXIT_OK : TF_EXIT_NEGATIVE;
    }
    if (code == TF_EXIT_OK && !r->is_whole) {
        tf_complain("ref", "the relay ended before all was told");
        return TF_EXIT_NEGATIVE;
    }
    return code;
}

/* -- the command line ---------------------------------------------------------------------------------------------- */

static int check(const ref *r, const tf_options *o)
{
    if (o->failed) {
        return TF_EXIT_USAGE;
    }
    if (o->operand_count == 0 || strcmp(o->operands[0], "ls") != 0) {
        return tf_usage("ref", "'%s' is not ls", o->operand_count == 0 ? "" : o->operands[0]);
    }
    int wanted = r->data != NULL || r->admin != NULL ? 1 : 2;
    if (o->operand_count != wanted || (r->data != NULL && r->admin != NULL)) {
        return tf_usage("ref",
                        "ls needs one of: a URI (twofold ref ls twofold://NODEID@HOST:PORT), --data DIR, --admin "
                        "PATH");
    }
    return TF_EXIT_OK;
}

int tf_cmd_ref(int argc, char **argv)
{
    tf_options o;
    ref r = {.cli = {.command = "ref"}, .code = -1};
    int index = 0;
    tf_options_init(&o, "ref", options, argc, argv);
    while ((index = tf_options_next(&o)) >= 0) {
        if (!one_option(&r, &o, &options[index])) {
            return TF_EXIT_USAGE;
        }
    }
    int code = check(&r, &o);
    if (code == TF_EXIT_OK) {
        code = o.operand_count == 2 ? list_own(&r, o.operands[1]) : list_all(&r);
    }
    tf_cli_end(&r.cli);
    return code;
}
