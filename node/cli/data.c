/* Where the data directory is, for the commands that work on a store without a relay. */
#include <stdlib.h>
#include <sys/stat.h>

#include "node/cli/cli.h"

static void print_errors(const tf_config_errors *errors)
{
    for (size_t i = 0; i < errors->count; i++) {
        (void)fprintf(stderr, "%s\n", errors->list[i].text);
    }
    if (errors->more > 0) {
        (void)fprintf(stderr, "and %zu more errors\n", errors->more);
    }
}

static int from_config(tf_cli_store *s, char data[TF_PATH_MAX])
{
    tf_config *config = NULL;
    tf_config_errors *errors = calloc(1, sizeof(*errors));
    tf_err err = errors == NULL ? TF_ERR_NOMEM : tf_config_load(&config, s->config_path, errors);
    if (err == TF_ERR_USAGE) {
        print_errors(errors);
    }
    free(errors);
    if (err != TF_OK) {
        return err == TF_ERR_USAGE ? TF_EXIT_CONFIG : TF_EXIT_INTERNAL;
    }
    bool in_memory = config->store.kind == TF_CONFIG_STORE_MEMORY;
    (void)snprintf(data, TF_PATH_MAX, "%s", config->data);
    s->segment_size = config->store.segment_size;
    tf_config_free(config);
    if (in_memory) {
        tf_complain(s->command, "%s keeps its channels in memory (kind in [store]): there is no store", s->config_path);
        return TF_EXIT_NEGATIVE;
    }
    return TF_EXIT_OK;
}

int tf_cli_find_store(tf_cli_store *s)
{
    char data[TF_PATH_MAX] = "";
    char why[TF_WHY_MAX];
    (void)umask(S_IRWXG | S_IRWXO); /* SQLite makes files, too */
    int code = s->config_path == NULL ? TF_EXIT_OK : from_config(s, data);
    if (code != TF_EXIT_OK) {
        return code;
    }
    if (s->data != NULL) {
        (void)snprintf(data, sizeof(data), "%s", s->data);
    }
    if (data[0] == '\0' && tf_data_default_path(data, why) != TF_OK) {
        tf_complain(s->command, "%s", why);
        return TF_EXIT_NEGATIVE;
    }
    (void)snprintf(s->directory, sizeof(s->directory), "%s", data);
    (void)snprintf(s->path, sizeof(s->path), "%s/store", data);
    return TF_EXIT_OK;
}

bool tf_cli_store_option(tf_cli_store *s, const tf_options *o, const char *name)
{
    if (strcmp(name, "config") == 0) {
        s->config_path = o->value;
    } else if (strcmp(name, "data") == 0) {
        s->data = o->value;
    } else {
        return false;
    }
    return true;
}

int tf_cli_store_exit(tf_err err)
{
    switch (err) {
    case TF_ERR_DAMAGED:
        return TF_EXIT_DAMAGED;
    case TF_ERR_USAGE:
    case TF_ERR_FULL:
    case TF_ERR_IO:
    case TF_ERR_AGAIN:
        return TF_EXIT_NEGATIVE;
    default:
        return TF_EXIT_INTERNAL;
    }
}
