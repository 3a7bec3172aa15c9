/* help: what there is, and each command with its options. */
#include "node/cli/cli.h"

const tf_option *tf_options_of(const char *command)
{
    if (strcmp(command, "relay") == 0) {
        return tf_relay_options();
    }
    if (strcmp(command, "pub") == 0) {
        return tf_pub_options();
    }
    if (strcmp(command, "sub") == 0) {
        return tf_sub_options();
    }
    if (strcmp(command, "ping") == 0) {
        return tf_ping_options();
    }
    if (strcmp(command, "channel") == 0) {
        return tf_channel_options();
    }
    if (strcmp(command, "cat") == 0) {
        return tf_cat_options();
    }
    if (strcmp(command, "serve") == 0) {
        return tf_serve_options();
    }
    if (strcmp(command, "call") == 0) {
        return tf_call_options();
    }
    if (strcmp(command, "ref") == 0) {
        return tf_ref_options();
    }
    if (strcmp(command, "backup") == 0) {
        return tf_backup_options();
    }
    if (strcmp(command, "restore") == 0) {
        return tf_restore_options();
    }
    if (strcmp(command, "store") == 0) {
        return tf_store_options();
    }
    return strcmp(command, "keygen") == 0 ? tf_keygen_options() : NULL;
}

static const char exit_codes[] = "Exit codes: 0 ok, 1 negative result, 2 usage, 3 cannot reach, 4 refused for good, 5 timeout,\n"
                                 "6 degraded, 7 damaged, 8 bad config, 70 internal, 130 interrupted.\n";

static void print_all(void)
{
    (void)printf("twofold: every message goes out twofold and arrives once.\n\nUsage: twofold COMMAND [arguments]\n\n");
    for (const tf_command *command = tf_commands; command->name != NULL; command++) {
        (void)printf("  %-9s %s\n", command->name, command->summary);
    }
    (void)printf("\nA relay has the address twofold://NODEID@HOST:PORT, which `twofold relay --print-uri` prints.\n"
                 "Options of an address: ?datagram=HOST:PORT&stream-bind=ADDR&datagram-bind=ADDR\n"
                 "                       &stream-copy=always|standby&datagram-copy=always|standby\n%s"
                 "See `twofold help COMMAND`.\n",
                 exit_codes);
}

static void print_one(const tf_command *command)
{
    const tf_option *table = tf_options_of(command->name);
    (void)printf("twofold %s %s\n\n%s\n", command->name, command->synopsis, command->summary);
    if (table != NULL) {
        (void)printf("\n");
        tf_options_print(table, stdout);
    }
    (void)printf("\n%s", exit_codes);
}

int tf_cmd_help(int argc, char **argv)
{
    bool broken_pipe = false;
    if (argc > 2) {
        return tf_usage("help", "explains one command at a time, not also '%s'", argv[2]);
    }
    if (argc < 2) {
        print_all();
        return tf_out_flush("help", &broken_pipe) || broken_pipe ? TF_EXIT_OK : TF_EXIT_NEGATIVE;
    }
    for (const tf_command *command = tf_commands; command->name != NULL; command++) {
        if (strcmp(command->name, argv[1]) == 0) {
            print_one(command);
            return tf_out_flush("help", &broken_pipe) || broken_pipe ? TF_EXIT_OK : TF_EXIT_NEGATIVE;
        }
    }
    return tf_usage("", "there is no command '%s'; `twofold help` lists them", argv[1]);
}
