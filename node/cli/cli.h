/* What the commands share: exit codes, the option table, the client that pub, sub and ping are made of, output.
 *
 * Data goes to stdout, talk to stderr. Each command is one function that takes its arguments (argv[0] is its name) and
 * returns the exit code. One thread. */
#ifndef TF_NODE_CLI_CLI_H
#define TF_NODE_CLI_CLI_H

#include <stdio.h>

#include "node/config.h"
#include "node/keyfile.h"
#include "node/twofold.h"

typedef enum tf_exit {
    TF_EXIT_OK = 0,
    TF_EXIT_NEGATIVE = 1,    /* gap, repeat, not acked */
    TF_EXIT_USAGE = 2,
    TF_EXIT_UNREACHABLE = 3,
    TF_EXIT_REFUSED = 4,     /* for good: the peer or a send */
    TF_EXIT_TIMEOUT = 5,
    TF_EXIT_DEGRADED = 6,
    TF_EXIT_DAMAGED = 7,
    TF_EXIT_CONFIG = 8,
    TF_EXIT_INTERNAL = 70,
    TF_EXIT_INTERRUPTED = 130
} tf_exit;

typedef struct tf_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *synopsis; /* after the name */
    const char *summary;  /* one line */
} tf_command;

/* All commands, ended by one without a name. */
extern const tf_command tf_commands[];

int tf_cmd_relay(int argc, char **argv);
int tf_cmd_keygen(int argc, char **argv);
int tf_cmd_pubkey(int argc, char **argv);
int tf_cmd_pub(int argc, char **argv);
int tf_cmd_sub(int argc, char **argv);
int tf_cmd_ping(int argc, char **argv);
int tf_cmd_channel(int argc, char **argv);
int tf_cmd_cat(int argc, char **argv);
int tf_cmd_serve(int argc, char **argv);
int tf_cmd_call(int argc, char **argv);
int tf_cmd_ref(int argc, char **argv);
int tf_cmd_backup(int argc, char **argv);
int tf_cmd_restore(int argc, char **argv);
int tf_cmd_store(int argc, char **argv);
int tf_cmd_version(int argc, char **argv);
int tf_cmd_help(int argc, char **argv);

/* "twofold COMMAND: text" and a newline on stderr. */
void tf_complain(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, with a hint at `twofold help COMMAND`; returns TF_EXIT_USAGE. */
int tf_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The exit code that goes with an error of the library. */
tf_exit tf_exit_of(tf_err err);

/* -- options (options.c) ------------------------------------------------------------------------------------------- */

typedef struct tf_option {
    char letter;      /* 0: none */
    const char *name; /* long name; NULL: none */
    const char *value; /* what the value is called in the help; NULL: takes none */
    const char *help;
} tf_option;

/* Walks the arguments. Options may stand anywhere before `--`; what is no option is collected in operands. */
typedef struct tf_options {
    const char *command;
    const tf_option *table; /* ended by one without letter and name */
    int argc;
    char **argv;
    int at;
    bool only_operands;
    const char *operands[8];
    int operand_count;
    const char *value; /* of the option that was given out last */
    bool failed;       /* the user was told */
} tf_options;

void tf_options_init(tf_options *o, const char *command, const tf_option *table, int argc, char **argv);
/* The next option's index in the table; -1: no more (then ask o->failed). */
int tf_options_next(tf_options *o);
/* Prints the table for `twofold help COMMAND`. */
void tf_options_print(const tf_option *table, FILE *out);
const tf_option *tf_relay_options(void);
const tf_option *tf_pub_options(void);
const tf_option *tf_sub_options(void);
const tf_option *tf_ping_options(void);
const tf_option *tf_channel_options(void);
const tf_option *tf_cat_options(void);
const tf_option *tf_serve_options(void);
const tf_option *tf_call_options(void);
const tf_option *tf_ref_options(void);
const tf_option *tf_keygen_options(void);
const tf_option *tf_backup_options(void);
const tf_option *tf_restore_options(void);
const tf_option *tf_store_options(void);
/* The table of a command, NULL when it has none. */
const tf_option *tf_options_of(const char *command);

/* Values of options; false: the user was told what would be right. */
bool tf_value_count(const tf_options *o, const char *name, uint64_t low, uint64_t high, uint64_t *out);
bool tf_value_seconds(const tf_options *o, const char *name, tf_time *out);
bool tf_value_duration(const tf_options *o, const char *name, tf_time *out);
bool tf_value_size(const tf_options *o, const char *name, uint64_t high, uint64_t *out);

/* -- a client (connect.c) ------------------------------------------------------------------------------------------ */

typedef struct tf_cli {
    const char *command;
    const char *identity_path; /* NULL: the default */
    tf_routes routes;
    tf_time connect_timeout;
    tf_time retry_limit;
    uint32_t max_in_flight;
    bool existing_only; /* the channel is not made if it is missing: channel_not_found */
    bool verbose;
    bool json;
    bool stats;
    tf_uri uri;
    tf_identity *identity;
    tf_log *log;
    tf_node *node;
    tf_peer *peer;
    tf_remote *channel;
    tf_time started;
    struct event *signals[3];
    bool interrupted;
    bool terminated; /* the last time by TERM */
    unsigned stops;  /* how often */
} tf_cli;

/* The options that clients have in common: true when index (of name) was one of them; *ok: its value was good. */
bool tf_cli_common_option(tf_cli *cli, const tf_options *o, const tf_option *option, bool *ok);
#define TF_CLI_COMMON_OPTIONS                                                                                          \
    {'i', "identity", "FILE", "identity (default: $XDG_CONFIG_HOME/twofold/key, made on first use)"},                  \
    {0, "routes", "ROUTES", "stream, datagram or both: which routes carry messages (default: both)"},                  \
    {0, "connect-timeout", "DURATION", "how long the first connection is tried (default: 10s)"},                       \
    {0, "json", NULL, "one JSON object per line on stdout, field v = 1"},                                              \
    {'v', "verbose", NULL, "say on stderr what happens to the connection"}
#define TF_CLI_STATS_OPTION {0, "stats", NULL, "at the end, and at SIGUSR1, what each route did, on stderr"}

/* Parses the URI operand, loads the identity, starts to connect and opens the channel (NULL: none). TF_EXIT_OK, or the
 * code to exit with (the user was told). */
int tf_cli_start(tf_cli *cli, const char *uri, const char *channel);
/* TF_EXIT_USAGE; the user is told what a name of an object is. */
int tf_cli_bad_object_name(const char *command, const char *name);
/* What the library did not take: the code to exit with (the user was told); TF_EXIT_OK for TF_OK. */
int tf_cli_error(const tf_cli *cli, tf_err err);
/* A connection event that ends a client: the code to exit with (the user was told); -1: it does not end. */
int tf_cli_event(tf_cli *cli, const tf_node_event *event);
/* Runs until there is an exit code: from tf_cli_event, or from `take`, which gets every other event and gives -1 to go on;
 * INTERRUPTED; or, when stdout cannot be written, OK (nobody reads it any more) or NEGATIVE. stdout is flushed each round. */
int tf_cli_run(tf_cli *cli, int (*take)(void *ctx, const tf_node_event *event), void *ctx);
/* Prints the statistics if they were asked for, frees everything. */
void tf_cli_end(tf_cli *cli);

/* -- a store without its relay (data.c) ---------------------------------------------------------------------------- */

typedef struct tf_cli_store {
    const char *command;
    const char *config_path; /* NULL: none */
    const char *data;        /* --data; NULL: as the config says, or the default */
    uint64_t segment_size;   /* of the config; 0: the default */
    char directory[TF_PATH_MAX]; /* of the data */
    char path[TF_PATH_MAX + 8];  /* of the store in it */
} tf_cli_store;

#define TF_CLI_STORE_OPTIONS                                                                                           \
    {'c', "config", "FILE", "configuration file of the relay"},                                                        \
    {0, "data", "DIR", "its data directory (default: $STATE_DIRECTORY, else $XDG_STATE_HOME/twofold)"}

/* True: the option of that name was one of these. */
bool tf_cli_store_option(tf_cli_store *s, const tf_options *o, const char *name);
/* Fills directory and path. TF_EXIT_OK, or the code to exit with (the user was told). */
int tf_cli_find_store(tf_cli_store *s);
struct tf_check_report;
/* A line for each finding: on stderr for people, or as JSON on stdout. */
void tf_cli_tell_findings(const char *command, const struct tf_check_report *report);
void tf_cli_print_findings(const struct tf_check_report *report, bool json);
/* The exit code that goes with an error of a store. */
int tf_cli_store_exit(tf_err err);

/* -- output (output.c) --------------------------------------------------------------------------------------------- */

/* Lines on stdout: whole, flushed after each batch. */
void tf_out_ack(const tf_node_event *event);
void tf_out_refusal(const tf_node_event *event);
/* channel: its name. id, sender and so on as the relay told them. */
void tf_out_activity_json(const tf_activity *activity, tf_slice channel);
/* ,"name":"text"; in base64 where that is no UTF-8. */
void tf_out_field(const char *name, tf_slice text);
/* ,"name":"text", or ,"name_base64": where it is no UTF-8. */
void tf_out_bytes_field(const char *name, tf_slice bytes);
void tf_out_node_field(const char *name, const tf_node_id *id);
void tf_out_epoch_field(uint64_t epoch); /* 16 hexadecimal digits, with which the ids of messages begin */
/* Body and newline; control bytes escaped unless raw. */
void tf_out_body(tf_slice body, bool raw);
/* False: stdout cannot be written; *broken_pipe says that its reader went away (then nothing is told). */
bool tf_out_flush(const char *command, bool *broken_pipe);
bool tf_out_is_terminal(void);

#endif
