/* What the files of the relay command share. */
#ifndef TF_NODE_CLI_RELAY_H
#define TF_NODE_CLI_RELAY_H

#include "node/cli/cli.h"

/* What the [channel] sections say, and the rates of [limits], from now on. NOMEM. */
TF_MUST_CHECK tf_err tf_relay_set_policies(tf_node *node, const tf_config *config);

#endif
