/* store: look for damage in the store of a relay that is not running, and save what can be read of a damaged one. */
#include <inttypes.h>

#include "node/cli/cli.h"
#include "node/edge_mem.h"
#include "node/store/repair.h"

static const tf_option options[] = {
    TF_CLI_STORE_OPTIONS,
    {0, "json", NULL, "one JSON object per line on stdout, field v = 1"},
    {0, NULL, NULL, NULL},
};

const tf_option *tf_store_options(void)
{
    return options;
}

/* -- findings ------------------------------------------------------------------------------------------------------ */

/* "damaged alpha 17-23: messages that cannot be read" */
static void print_finding(const tf_check_finding *f, FILE *out)
{
    (void)fputs(tf_check_kind_name(f->kind), out);
    if (f->channel[0] != '\0') {
        (void)fprintf(out, " %s", f->channel);
    }
    if (f->first != 0) {
        (void)fprintf(out, " %" PRIu64 "-%" PRIu64, f->first, f->last);
    }
    (void)fprintf(out, ": %s\n", f->text);
}

static void print_finding_json(const tf_check_finding *f)
{
    (void)fputs("{\"v\":1", stdout);
    tf_out_field("kind", tf_slice_str(tf_check_kind_name(f->kind)));
    if (f->channel[0] != '\0') {
        tf_out_field("channel", tf_slice_str(f->channel));
    }
    if (f->first != 0) {
        (void)printf(",\"first\":%" PRIu64 ",\"last\":%" PRIu64, f->first, f->last);
    }
    tf_out_field("text", tf_slice_str(f->text));
    (void)fputs("}\n", stdout);
}

void tf_cli_tell_findings(const char *command, const tf_check_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        (void)fprintf(stderr, "twofold %s: ", command);
        print_finding(&report->findings[i], stderr);
    }
    if (report->found > report->count) {
        tf_complain(command, "and %" PRIu64 " more", report->found - report->count);
    }
}

void tf_cli_print_findings(const tf_check_report *report, bool json)
{
    for (size_t i = 0; i < report->count; i++) {
        if (json) {
            print_finding_json(&report->findings[i]);
        } else {
            print_finding(&report->findings[i], stdout);
        }
    }
    if (json) {
        (void)printf("{\"v\":1,\"sound\":%s,\"channels\":%" PRIu64 ",\"messages\":%" PRIu64 ",\"applied_lsn\":%" PRIu64
                     ",\"log_records\":%" PRIu64 ",\"findings\":%" PRIu64 "}\n",
                     report->found == 0 ? "true" : "false", report->channels, report->messages, report->applied_lsn,
                     report->log_records, report->found);
    } else {
        (void)printf("%s: %" PRIu64 " messages in %" PRIu64 " channels can be read\n",
                     report->found == 0 ? "sound" : "damaged", report->messages, report->channels);
    }
}

/* -- the commands -------------------------------------------------------------------------------------------------- */

static int finish(const tf_check_report *report, bool json)
{
    bool broken_pipe = false;
    tf_cli_print_findings(report, json);
    if (!tf_out_flush("store", &broken_pipe) && !broken_pipe) {
        return TF_EXIT_NEGATIVE;
    }
    return report->found == 0 ? TF_EXIT_OK : TF_EXIT_DAMAGED;
}

static int check(const tf_cli_store *s, bool json)
{
    static tf_check_report report;
    char why[TF_WHY_MAX] = "out of memory";
    tf_err err = tf_check_store(s->path, tf_edge_mem(), &report, why);
    if (err != TF_OK) {
        tf_complain("store", "%s", why);
        return tf_cli_store_exit(err);
    }
    return finish(&report, json);
}

static void print_repair(const tf_repair_report *r, bool json)
{
    if (json) {
        for (size_t i = 0; i < r->before.count; i++) {
            print_finding_json(&r->before.findings[i]);
        }
        (void)printf("{\"v\":1,\"repaired\":%s", r->needed ? "true" : "false");
        if (r->aside[0] != '\0') {
            tf_out_field("aside", tf_slice_str(r->aside));
        }
        (void)printf(",\"replayed\":%" PRIu64 ",\"channels\":%" PRIu64 ",\"messages\":%" PRIu64 "}\n", r->replayed,
                     r->after.channels, r->after.messages);
        return;
    }
    for (size_t i = 0; i < r->before.count; i++) {
        print_finding(&r->before.findings[i], stdout);
    }
    if (r->aside[0] != '\0') {
        (void)printf("the old index is kept as %s\n", r->aside);
    }
    if (r->new_epochs > 0) {
        (void)printf("%" PRIu64 " channels go on under a new epoch, since the log has lost changes\n", r->new_epochs);
    }
    (void)printf("%s: %" PRIu64 " messages in %" PRIu64 " channels can be read\n",
                 r->needed ? "repaired" : "nothing to repair", r->after.messages, r->after.channels);
}

static int repair(const tf_cli_store *s, bool json)
{
    static tf_repair_report report;
    char why[TF_WHY_MAX] = "out of memory";
    bool broken_pipe = false;
    const tf_repair_config config = {
        .directory = s->path, .segment_size = s->segment_size, .mem = tf_edge_mem(), .rand = tf_edge_rand()};
    tf_err err = tf_repair_store(&config, &report, why);
    if (err != TF_OK) {
        tf_cli_tell_findings("store", report.after.found > 0 ? &report.after : &report.before);
        tf_complain("store", "%s", why);
        return tf_cli_store_exit(err);
    }
    print_repair(&report, json);
    return tf_out_flush("store", &broken_pipe) || broken_pipe ? TF_EXIT_OK : TF_EXIT_NEGATIVE;
}

int tf_cmd_store(int argc, char **argv)
{
    tf_options o;
    tf_cli_store store = {.command = "store"};
    bool json = false;
    int index = 0;
    tf_options_init(&o, "store", options, argc, argv);
    while ((index = tf_options_next(&o)) >= 0) {
        json = !tf_cli_store_option(&store, &o, options[index].name) || json;
    }
    if (o.failed) {
        return TF_EXIT_USAGE;
    }
    if (o.operand_count != 1) {
        return tf_usage("store", "takes one word: check or repair");
    }
    bool checks = strcmp(o.operands[0], "check") == 0;
    if (!checks && strcmp(o.operands[0], "repair") != 0) {
        return tf_usage("store", "'%s' is neither check nor repair", o.operands[0]);
    }
    int code = tf_cli_find_store(&store);
    if (code != TF_EXIT_OK) {
        return code;
    }
    return checks ? check(&store, json) : repair(&store, json);
}
