/* The lines of `GET /refs`: one JSON object each, v = 1, fields that stay (the manual has them).
 *
 *     {"v":1,"type":"ref","peer":"…","session":"…","ref":5,"kind":"object","role":"export","local":7,"mentioned":12,
 *      "retired":13,"revoked":false,"count":1}
 *     {"v":1,"type":"connection","peer":"…","session":"…",…}     behind the entries of each connection
 *     {"v":1,"type":"node",…}                                    the last line
 *
 * Pure but for snprintf. Any thread. */
#ifndef TF_NODE_ADMIN_REF_LINE_H
#define TF_NODE_ADMIN_REF_LINE_H

#include "node/twofold.h"

#define TF_REF_LINE_MAX 768u

/* An entry or a summary, with its newline; returns its length. */
size_t tf_ref_line(char out[TF_REF_LINE_MAX], const tf_node_ref *ref);
/* The last line. */
size_t tf_ref_last_line(char out[TF_REF_LINE_MAX], const tf_router_stats *stats);

#endif
