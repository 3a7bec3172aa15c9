/* keygen and pubkey: identities, as `wg genkey` and `wg pubkey`. */
#include <errno.h>
#include <unistd.h>

#include "handshake/node_id.h"
#include "node/cli/cli.h"
#include "node/edge_mem.h"

static const tf_option keygen_options[] = {
    {'o', "output", "FILE", "write it there (mode 0600, never over a file); default: stdout"},
    {0, NULL, NULL, NULL},
};
static const tf_option no_options[] = {{0, NULL, NULL, NULL}};

static int finish(const char *command)
{
    bool broken_pipe = false;
    return tf_out_flush(command, &broken_pipe) || broken_pipe ? TF_EXIT_OK : TF_EXIT_NEGATIVE;
}

static int print_secret(const tf_identity *identity)
{
    char text[TF_IDENTITY_TEXT_LEN + 1];
    tf_identity_format(identity, text);
    (void)printf("%s\n", text);
    int code = finish("keygen");
    tf_wipe(text, sizeof(text));
    return code;
}

int tf_cmd_keygen(int argc, char **argv)
{
    tf_options o;
    tf_identity *identity = NULL;
    const char *path = NULL;
    char why[TF_WHY_MAX];
    tf_options_init(&o, "keygen", keygen_options, argc, argv);
    while (tf_options_next(&o) >= 0) {
        path = o.value;
    }
    if (o.failed || o.operand_count > 0) {
        return o.failed ? TF_EXIT_USAGE : tf_usage("keygen", "takes no '%s'; a file is named with -o", o.operands[0]);
    }
    tf_err err = tf_identity_generate(&identity, tf_edge_rand());
    if (err != TF_OK) {
        tf_complain("keygen", "%s", tf_err_text(err));
        return TF_EXIT_INTERNAL;
    }
    int code = TF_EXIT_OK;
    if (path == NULL) {
        code = print_secret(identity);
    } else if (tf_keyfile_create(path, identity, why) != TF_OK) {
        tf_complain("keygen", "%s", why);
        code = TF_EXIT_USAGE;
    }
    tf_identity_free(identity);
    return code;
}

static tf_err read_stdin(tf_identity **out, char why[TF_WHY_MAX])
{
    uint8_t text[256];
    size_t len = 0;
    ssize_t got = 0;
    while (len < sizeof(text) && (got = read(STDIN_FILENO, text + len, sizeof(text) - len)) != 0) {
        if (got < 0 && errno != EINTR) {
            break;
        }
        len += got > 0 ? (size_t)got : 0;
    }
    tf_err err = tf_identity_parse(out, tf_slice_of(text, len));
    tf_wipe(text, sizeof(text));
    (void)snprintf(why, TF_WHY_MAX, "stdin holds no identity; it is the one line that `twofold keygen` prints");
    return err;
}

int tf_cmd_pubkey(int argc, char **argv)
{
    tf_options o;
    tf_identity *identity = NULL;
    char why[TF_WHY_MAX] = "";
    char text[TF_NODE_ID_TEXT_LEN + 1];
    tf_options_init(&o, "pubkey", no_options, argc, argv);
    (void)tf_options_next(&o);
    if (o.failed || o.operand_count > 1) {
        return o.failed ? TF_EXIT_USAGE : tf_usage("pubkey", "takes one file, not also '%s'", o.operands[1]);
    }
    tf_err err = o.operand_count == 1 ? tf_keyfile_load(&identity, o.operands[0], why) : read_stdin(&identity, why);
    if (err != TF_OK) {
        tf_complain("pubkey", "%s", why);
        return TF_EXIT_USAGE;
    }
    tf_node_id_format(tf_identity_node_id(identity), text);
    (void)printf("%s\n", text);
    tf_identity_free(identity);
    return finish("pubkey");
}

const tf_option *tf_keygen_options(void)
{
    return keygen_options;
}
