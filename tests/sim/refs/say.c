#include "tests/sim/refs/world.h"

#include <stdio.h>

static const char *kind_of(tf_message_kind kind)
{
    switch (kind) {
    case TF_MESSAGE_DELIVER:
        return "deliver";
    case TF_MESSAGE_RESOLVE:
        return "resolve";
    case TF_MESSAGE_DROP:
        return "drop";
    case TF_MESSAGE_REVOKE:
        return "revoke";
    case TF_MESSAGE_ACK:
        return "ack";
    }
    TF_UNREACHABLE();
}

static void say_refs(const world *w, const char *what, tf_ref ref, tf_ref_list refs)
{
    char text[128] = "";
    tf_ref each;
    while (tf_refs_next(&refs, &each)) {
        size_t len = strlen(text);
        (void)snprintf(text + len, sizeof(text) - len, " %llu", (unsigned long long)each);
    }
    world_say(w, "        %s %llu:%s", what, (unsigned long long)ref, text);
}

void world_say_message(const world *w, const conn_end *e, tf_slice bytes)
{
    tf_message m;
    if (!w->verbose || tf_message_read(bytes, &m) != TF_OK) {
        return;
    }
    world_say(w, "    %u to %u: %s %llu, acks %llu", e->node->index, e->conn->ends[1 - e->side].node->index,
              kind_of(m.kind), (unsigned long long)m.number, (unsigned long long)m.ack_delta);
    tf_resolution each;
    tf_revoked revoked;
    while (m.kind == TF_MESSAGE_RESOLVE && tf_resolutions_next(&m.resolutions, &each)) {
        say_refs(w, each.kind == TF_RESOLUTION_OBJECT ? "object" : "value", each.promise, each.refs);
    }
    while (m.kind == TF_MESSAGE_REVOKE && tf_revocations_next(&m.revocations, &revoked)) {
        say_refs(w, revoked.hard ? "hard" : "soft", revoked.object, revoked.refs);
    }
    if (m.kind == TF_MESSAGE_DELIVER || m.kind == TF_MESSAGE_DROP) {
        say_refs(w, "refs", m.kind == TF_MESSAGE_DELIVER ? m.target : 0, m.refs);
    }
}
