/* twofold: one program, one command. */
#include <signal.h>

#include <event2/event.h>

#include "node/cli/cli.h"
#include "proto/version.h"

const tf_command tf_commands[] = {
    {"relay", tf_cmd_relay, "[-c FILE] [--listen HOST:PORT]... [options]", "run a relay in the foreground"},
    {"pub", tf_cmd_pub, "URI CHANNEL [MESSAGE]", "send messages, and wait until each is acked"},
    {"sub", tf_cmd_sub, "URI CHANNEL", "print the messages of a channel"},
    {"ping", tf_cmd_ping, "URI", "ask a relay by both routes: which answers, and which first"},
    {"cat", tf_cmd_cat, "URI CHANNEL", "print what is stored of a channel, and end"},
    {"channel", tf_cmd_channel, "ls|info|create|close|trim|gaps URI [CHANNEL]", "see and change the channels of a relay"},
    {"serve", tf_cmd_serve, "URI NAME -- COMMAND [ARGUMENT]...", "publish an object: a command answers each message to it"},
    {"call", tf_cmd_call, "URI NAME METHOD [BODY]", "send a message to a published object, and print the answer"},
    {"ref", tf_cmd_ref, "ls URI | ls --data DIR | ls --admin PATH", "list the references of our connection, or of a relay"},
    {"backup", tf_cmd_backup, "[-c FILE | --data DIR] DEST", "copy the store of a relay, which may be running"},
    {"restore", tf_cmd_restore, "[-c FILE | --data DIR] SRC", "make the store of a new relay from a backup"},
    {"store", tf_cmd_store, "check|repair [-c FILE | --data DIR]", "look for damage in a store, or save what can be read"},
    {"keygen", tf_cmd_keygen, "[-o FILE]", "make an identity"},
    {"pubkey", tf_cmd_pubkey, "[FILE]", "print the node id of an identity"},
    {"version", tf_cmd_version, "", "print the version"},
    {"help", tf_cmd_help, "[COMMAND]", "explain a command"},
    {NULL, NULL, NULL, NULL},
};

/* Names that later versions use; not to be taken by anything else. */
static const char *const reserved[] = {"status", "top",    "doctor", "bench", "check",     "reload",
                                       "drain",  "peer",   "acl",    "events", "trace", "completion"};

int tf_cmd_version(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        return tf_usage("version", "takes no arguments");
    }
    (void)printf("twofold %s\n", TF_VERSION);
    bool broken_pipe = false;
    return tf_out_flush("version", &broken_pipe) || broken_pipe ? TF_EXIT_OK : TF_EXIT_NEGATIVE;
}

static int unknown_command(const char *name)
{
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
        if (strcmp(reserved[i], name) == 0) {
            return tf_usage("", "'%s' is not in this version (%s); `twofold help` lists what is", name, TF_VERSION);
        }
    }
    return tf_usage("", "there is no command '%s'; `twofold help` lists them", name);
}

/* libevent warns on stderr, in a form of its own, of what it also returns as an error. */
static void ignore_warning(int severity, const char *text)
{
    (void)severity;
    (void)text;
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN);
    event_set_log_callback(ignore_warning);
    if (argc < 2) {
        return tf_usage("", "a command is needed: relay, pub, sub, cat, channel, ping, serve, call, ref, backup, restore, "
                            "store, keygen, pubkey, version or help");
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        name = "help";
    } else if (strcmp(name, "--version") == 0) {
        name = "version";
    }
    for (const tf_command *command = tf_commands; command->name != NULL; command++) {
        if (strcmp(command->name, name) != 0) {
            continue;
        }
        for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++) {
            if (strcmp(argv[i], "--help") == 0) {
                char *help[] = {argv[0], argv[1], NULL};
                return tf_cmd_help(2, help);
            }
        }
        return command->run(argc - 1, argv + 1);
    }
    return unknown_command(argv[1]);
}
