#include "node/admin/ref_line.h"

#include <inttypes.h>
#include <stdio.h>

#include "handshake/node_id.h"

static size_t entry_line(char out[TF_REF_LINE_MAX], const char *peer, const tf_node_ref *ref)
{
    const tf_session_entry *e = &ref->entry;
    char mentioned[48] = "";
    char retired[48] = "";
    if (e->is_mentioned) {
        (void)snprintf(mentioned, sizeof(mentioned), ",\"mentioned\":%" PRIu64, e->mentioned);
    }
    if (e->is_retired) {
        (void)snprintf(retired, sizeof(retired), ",\"retired\":%" PRIu64, e->retired);
    }
    return (size_t)snprintf(
        out, TF_REF_LINE_MAX,
        "{\"v\":1,\"type\":\"ref\",\"peer\":\"%s\",\"session\":\"%016" PRIx64 "\",\"ref\":%" PRIu64
        ",\"kind\":\"%s\",\"role\":\"%s\",\"local\":%" PRIu64 "%s%s,\"revoked\":%s,\"count\":%" PRIu32 "}\n",
        peer, ref->session, e->ref, tf_ref_kind_of(e->ref) == TF_REF_OBJECT ? "object" : "promise",
        e->is_export ? "export" : "import", e->local, mentioned, retired, e->is_revoked ? "true" : "false", e->count);
}

static size_t summary_line(char out[TF_REF_LINE_MAX], const char *peer, const tf_node_ref *ref)
{
    const tf_session_stats *s = &ref->stats;
    return (size_t)snprintf(out, TF_REF_LINE_MAX,
                            "{\"v\":1,\"type\":\"connection\",\"peer\":\"%s\",\"session\":\"%016" PRIx64
                            "\",\"sent\":%" PRIu64 ",\"received\":%" PRIu64 ",\"processed\":%" PRIu64
                            ",\"exports\":%zu,\"imports\":%zu,\"promises_ours\":%zu,\"promises_theirs\":%zu"
                            ",\"retirements\":%zu,\"kept_bytes\":%zu,\"waiting\":%zu,\"waiting_bytes\":%zu"
                            ",\"drops_executed\":%" PRIu64 ",\"drops_ignored\":%" PRIu64 "}\n",
                            peer, ref->session, s->sent, s->received, s->peer_processed, s->exports, s->imports,
                            s->promises_ours, s->promises_theirs, s->retirements, s->kept_bytes, ref->waiting,
                            ref->waiting_bytes, s->drops_executed, s->drops_ignored);
}

size_t tf_ref_line(char out[TF_REF_LINE_MAX], const tf_node_ref *ref)
{
    char peer[TF_NODE_ID_TEXT_LEN + 1];
    tf_node_id_format(&ref->peer, peer);
    return ref->is_summary ? summary_line(out, peer, ref) : entry_line(out, peer, ref);
}

size_t tf_ref_last_line(char out[TF_REF_LINE_MAX], const tf_router_stats *stats)
{
    return (size_t)snprintf(
        out, TF_REF_LINE_MAX,
        "{\"v\":1,\"type\":\"node\",\"records\":%zu,\"resolved\":%zu,\"held\":%zu,\"held_bytes\":%zu"
        ",\"fences\":%zu,\"forwarded\":%" PRIu64 ",\"overloaded\":%" PRIu64 ",\"cycles\":%" PRIu64 "}\n",
        stats->records, stats->resolved, stats->held_items, stats->held_bytes, stats->fences, stats->forwarded,
        stats->overloaded, stats->cycles);
}
