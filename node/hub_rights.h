/* Who may read and write which channels: rules with a pattern of channel names each, of which the first that matches a
 * name counts, and only that one. Default deny: what no rule allows is forbidden. Not for: who is let in at all.
 * Immutable once made. Pure. Any thread. */
#ifndef TF_NODE_HUB_RIGHTS_H
#define TF_NODE_HUB_RIGHTS_H

#include "proto/limits.h"
#include "proto/types.h"

#define TF_RIGHT_READ 1u  /* subscribe, read, info, gaps, forget one's own cursor */
#define TF_RIGHT_WRITE 2u /* send, trim, close, make the channel, forget another's cursor */

/* Whose keys: any, or those (nobody's, if there are none). */
typedef struct tf_hub_access {
    bool any;
    const tf_node_id *keys;
    size_t count;
} tf_hub_access;

typedef struct tf_hub_rule {
    tf_slice pattern; /* node/pattern.h; at most TF_CHANNEL_NAME_MAX bytes */
    tf_hub_access read;
    tf_hub_access write;
} tf_hub_rule;

typedef struct tf_hub_rights tf_hub_rights;

/* Everything is copied. TF_ERR_NOMEM. *out is the caller's. */
TF_MUST_CHECK tf_err tf_hub_rights_new(tf_hub_rights **out, const tf_mem *mem, const tf_hub_rule *rules, size_t count);
/* NULL is fine. */
void tf_hub_rights_free(tf_hub_rights *rights);

/* What that key may do with the channel of that name: TF_RIGHT_ bits. A bounded number of steps: the rules, and twice
 * the logarithm of the keys. */
unsigned tf_hub_rights_of(const tf_hub_rights *rights, const tf_node_id *key, tf_slice channel);

#endif
