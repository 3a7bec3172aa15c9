/* What the routes did, as text and as JSON: pure formatting of tf_peer_stats, for `--stats` and `ping`. */
#ifndef TF_NODE_CLI_STATS_H
#define TF_NODE_CLI_STATS_H

#include <stdio.h>

#include "node/twofold.h"

#define TF_TIME_TEXT_MAX 24u

/* "0.312 ms", "12.3 ms", "1.25 s", "4 min 10 s", "3 h 5 min", "2 d 3 h". Returns out. */
const char *tf_time_text(tf_time span, char out[TF_TIME_TEXT_MAX]);

/* The bucket in which the part (of 1000) of the second copies lies, counted from the earliest: its bound, TF_NEVER for the
 * last one. False: there was no second copy. */
bool tf_late_quantile(const uint64_t late[TF_LATE_BUCKETS], unsigned per_mille, tf_time *bound);

/* One route in a line, without its newline: verdict, address, round trip, loss, packet size. */
void tf_stats_print_route(const tf_peer_stats *stats, tf_route route, FILE *out);
/* Sessions, dials and datagram keys: two lines. */
void tf_stats_print_sessions(const tf_peer_stats *stats, FILE *out);

/* A table, one column a route; then the histograms, the keys, and the sessions. */
void tf_stats_print(const tf_peer_stats *stats, FILE *out);

/* The same as the fields of a JSON object, each with a comma before it, without the braces. */
void tf_stats_print_json(const tf_peer_stats *stats, FILE *out);

#endif
