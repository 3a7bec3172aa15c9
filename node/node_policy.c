/* What applies to channels by the patterns of their names: from the library's words to the hub's. */
#include "node/node_internal.h"

static tf_err set_rights(tf_node *node, const tf_node_policies *policies, tf_hub_rule *rules)
{
    if (!policies->restricted) {
        return tf_hub_set_rights(node->hub, tf_edge_now(), NULL, 0);
    }
    for (size_t i = 0; i < policies->count; i++) {
        rules[i] = policies->list[i].rule;
    }
    return tf_hub_set_rights(node->hub, tf_edge_now(), rules, policies->count);
}

static tf_err set_retention(tf_node *node, const tf_node_policies *policies, tf_retention *list)
{
    for (size_t i = 0; i < policies->count; i++) {
        const tf_node_policy *policy = &policies->list[i];
        list[i] = (tf_retention){.pattern = policy->rule.pattern,
                                 .max_age_ms = policy->max_age_ms,
                                 .max_bytes = policy->max_bytes,
                                 .max_count = policy->max_count,
                                 .dedup_age_ms = policy->dedup_age_ms};
    }
    return tf_hub_set_retention(node->hub, tf_edge_now(), list, policies->count);
}

tf_err tf_node_set_policies(tf_node *node, const tf_node_policies *policies)
{
    size_t rules_size = (policies->count + 1) * sizeof(tf_hub_rule);
    size_t list_size = (policies->count + 1) * sizeof(tf_retention);
    tf_hub_rule *rules = tf_alloc(node->mem, rules_size);
    tf_retention *list = tf_alloc(node->mem, list_size);
    tf_err err = rules == NULL || list == NULL ? TF_ERR_NOMEM : set_rights(node, policies, rules);
    if (err == TF_OK) {
        err = set_retention(node, policies, list);
    }
    if (err == TF_OK) {
        tf_hub_set_rates(node->hub, tf_edge_now(), policies->rate, policies->rate_bytes);
    }
    tf_free(node->mem, rules, rules_size);
    tf_free(node->mem, list, list_size);
    node->awake = true; /* what ended is told, what is not kept goes */
    return err;
}
