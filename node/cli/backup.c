/* backup and restore: the store of a relay as a directory with a manifest. */
#include <inttypes.h>

#include "node/cli/cli.h"
#include "node/edge_mem.h"
#include "node/store/backup.h"

static const tf_option backup_options[] = {
    TF_CLI_STORE_OPTIONS,
    {0, "damaged-too", NULL, "copy what can be read, although the store is damaged"},
    {0, "json", NULL, "one JSON object on stdout, field v = 1"},
    {0, NULL, NULL, NULL},
};
static const tf_option restore_options[] = {
    TF_CLI_STORE_OPTIONS,
    {0, "json", NULL, "one JSON object on stdout, field v = 1"},
    {0, NULL, NULL, NULL},
};

const tf_option *tf_backup_options(void)
{
    return backup_options;
}

const tf_option *tf_restore_options(void)
{
    return restore_options;
}

typedef struct backup {
    tf_cli_store store;
    const char *directory; /* of the backup */
    bool damaged_too;
    bool json;
} backup;

/* TF_EXIT_OK, or the code to exit with. */
static int arguments(backup *b, const tf_option *table, int argc, char **argv)
{
    tf_options o;
    int index = 0;
    tf_options_init(&o, b->store.command, table, argc, argv);
    while ((index = tf_options_next(&o)) >= 0) {
        const char *name = table[index].name;
        if (!tf_cli_store_option(&b->store, &o, name)) {
            b->json = b->json || strcmp(name, "json") == 0;
            b->damaged_too = b->damaged_too || strcmp(name, "damaged-too") == 0;
        }
    }
    if (o.failed) {
        return TF_EXIT_USAGE;
    }
    if (o.operand_count != 1) {
        return tf_usage(b->store.command, "takes one directory: that of the backup");
    }
    b->directory = o.operands[0];
    return tf_cli_find_store(&b->store);
}

static int print(const backup *b, const tf_manifest *m, const char *what)
{
    bool broken_pipe = false;
    if (b->json) {
        (void)fputs("{\"v\":1", stdout);
        tf_out_field("created", tf_slice_str(m->created));
        (void)printf(",\"applied_lsn\":%" PRIu64 ",\"channels\":%" PRIu64 ",\"messages\":%" PRIu64 ",\"bytes\":%" PRIu64,
                     m->applied_lsn, m->channels, m->messages, m->size);
        tf_out_field("sha256", tf_slice_str(m->sum));
        (void)fputs("}\n", stdout);
    } else {
        (void)printf("%s: %" PRIu64 " messages in %" PRIu64 " channels, %" PRIu64 " bytes\n", what, m->messages,
                     m->channels, m->size);
    }
    return tf_out_flush(b->store.command, &broken_pipe) || broken_pipe ? TF_EXIT_OK : TF_EXIT_NEGATIVE;
}

static tf_backup_config config_of(const backup *b)
{
    return (tf_backup_config){.store = b->store.path,
                              .backup = b->directory,
                              .damaged_too = b->damaged_too,
                              .mem = tf_edge_mem(),
                              .rand = tf_edge_rand()};
}

int tf_cmd_backup(int argc, char **argv)
{
    backup b = {.store = {.command = "backup"}};
    char why[TF_WHY_MAX] = "out of memory";
    tf_manifest manifest;
    static tf_check_report check;
    int code = arguments(&b, backup_options, argc, argv);
    if (code != TF_EXIT_OK) {
        return code;
    }
    const tf_backup_config config = config_of(&b);
    tf_err err = tf_backup_write(&config, &manifest, &check, why);
    tf_cli_tell_findings("backup", &check);
    if (err != TF_OK) {
        tf_complain("backup", "%s", why);
        return tf_cli_store_exit(err);
    }
    return print(&b, &manifest, "copied");
}

int tf_cmd_restore(int argc, char **argv)
{
    backup b = {.store = {.command = "restore"}};
    char why[TF_WHY_MAX] = "out of memory";
    tf_manifest manifest;
    int code = arguments(&b, restore_options, argc, argv);
    if (code != TF_EXIT_OK) {
        return code;
    }
    if (tf_directory_make(b.store.directory, why) != TF_OK) {
        tf_complain("restore", "%s", why);
        return TF_EXIT_NEGATIVE;
    }
    const tf_backup_config config = config_of(&b);
    tf_err err = tf_backup_restore(&config, &manifest, why);
    if (err != TF_OK) {
        tf_complain("restore", "%s", why);
        return tf_cli_store_exit(err);
    }
    return print(&b, &manifest, "restored");
}
