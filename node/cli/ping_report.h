/* What `twofold ping` tells: one line for each question, and a summary. Pure: counting and formatting, no clock. */
#ifndef TF_NODE_CLI_PING_REPORT_H
#define TF_NODE_CLI_PING_REPORT_H

#include <stdio.h>

#include "node/twofold.h"

typedef enum tf_ping_fate {
    TF_PING_FATE_ANSWERED,
    TF_PING_FATE_LOST,    /* asked, and no answer in time */
    TF_PING_FATE_NOT_SENT /* the route did not take it: its verdict says why */
} tf_ping_fate;

typedef struct tf_ping_answer {
    tf_ping_fate fate;
    tf_time rtt;         /* ANSWERED */
    tf_verdict verdict;  /* of the route when the ping was over */
} tf_ping_answer;

typedef struct tf_ping_result {
    uint64_t number; /* from 1 */
    tf_routes asked;
    tf_ping_answer routes[TF_ROUTE_COUNT]; /* of those that were asked */
} tf_ping_result;

/* Which of several routes answered first, and by how much before the next one (0: no other did). False: none, or both at
 * once, or only one was asked. */
bool tf_ping_winner(const tf_ping_result *result, tf_route *winner, tf_time *by);

typedef struct tf_ping_count {
    uint64_t sent;
    uint64_t answered;
    uint64_t won;
    tf_time least; /* this and the next two: 0 as long as there was no answer */
    tf_time most;
    tf_time sum;
    tf_time won_by; /* sum of what it won by, over the won_against */
    uint64_t won_against; /* of those won, those that another route answered, too */
} tf_ping_count;

typedef struct tf_ping_tally {
    uint64_t pings;
    tf_routes asked;
    tf_ping_count routes[TF_ROUTE_COUNT];
} tf_ping_tally;

void tf_ping_tally_add(tf_ping_tally *tally, const tf_ping_result *result);

typedef enum tf_ping_verdict {
    TF_PING_VERDICT_OK,       /* each route that was asked answers */
    TF_PING_VERDICT_DEGRADED, /* one does not, or is down at the end: *route */
    TF_PING_VERDICT_SILENT    /* none has answered */
} tf_ping_verdict;

tf_ping_verdict tf_ping_judge(const tf_ping_tally *tally, const tf_peer_stats *stats, tf_route *route);

/* Lines, ended by a newline. span: since the program was started. */
void tf_ping_print(const tf_ping_result *result, FILE *out);
void tf_ping_print_json(const tf_ping_result *result, FILE *out);
void tf_ping_print_summary(const tf_ping_tally *tally, const tf_peer_stats *stats, tf_time span, FILE *out);
void tf_ping_print_summary_json(const tf_ping_tally *tally, const tf_peer_stats *stats, tf_time span, FILE *out);

#endif
