/* What a run of a scenario came to: whoever drives it tells what was sent, acked and delivered, and what the clients'
 * routes counted; at the end it is judged. Pure but for memory, which is handed in. Times are microseconds from the
 * start of the traffic. Not thread-safe. */
#ifndef TF_TESTS_HARNESS_VERDICT_H
#define TF_TESTS_HARNESS_VERDICT_H

#include "paths/link.h"
#include "tests/harness/scenario.h"

#define TF_LAB_PAIRS_MAX (TF_SCENARIO_FLOWS_MAX * TF_SCENARIO_SUBS_MAX)

typedef struct tf_lab_verdict tf_lab_verdict;

/* What a client's route has counted since the client was started first. */
typedef struct tf_lab_route {
    uint64_t sent; /* copies */
    uint64_t received;
    uint64_t first;      /* of what came to the client: by this route first, */
    uint64_t repeats;    /* second, */
    uint64_t only;       /* or only by it, so that it would have been lost */
    uint64_t told_first; /* of what the client sent, as the relay says */
    uint64_t told_repeats;
    uint64_t shed;
    uint64_t lost;
    uint64_t downs;
    uint64_t late[TF_LATE_BUCKETS]; /* second copies, of late */
} tf_lab_route;

typedef struct tf_lab_sample {
    tf_time at;
    tf_lab_route routes[TF_ROUTE_COUNT];
    uint64_t sessions;
    uint64_t resumes;
} tf_lab_sample;

/* One flow as one subscription got it. */
typedef struct tf_lab_pair {
    uint32_t flow;
    uint32_t sub;
    uint64_t delivered; /* each message once */
    uint64_t lost;      /* sent, not refused, and never delivered */
    uint64_t repeated;
    uint64_t misordered; /* came after a later one of its flow */
    uint64_t altered;
    tf_time gap;       /* longest time without a message that had not come yet */
    tf_time gap_at;    /* when it began */
    tf_time delay_p50; /* from due to delivered */
    tf_time delay_p99;
    tf_time delay_max;
} tf_lab_pair;

typedef struct tf_lab_phase {
    tf_scenario_phase when;
    uint64_t delivered;
    tf_time gap;                      /* the longest that lies at least partly in it */
    tf_time delay;                    /* of what was delivered in it */
    uint64_t wins[TF_ROUTE_COUNT];    /* first copies, of all clients that are not direct, both directions */
    uint64_t rescues[TF_ROUTE_COUNT]; /* of these, those whose other copy never came */
} tf_lab_phase;

typedef struct tf_lab_broken {
    tf_scenario_expect expect;
    uint64_t got;
} tf_lab_broken;

typedef struct tf_lab_results {
    tf_time end;
    tf_lab_pair pairs[TF_LAB_PAIRS_MAX];
    size_t pair_count;
    tf_lab_phase phases[TF_SCENARIO_PHASES_MAX];
    size_t phase_count;
    uint64_t totals[TF_KEY_COUNT];
    tf_lab_broken broken[TF_SCENARIO_EXPECTS_MAX];
    size_t broken_count;
} tf_lab_results;

/* The scenario is borrowed until _free. samples_max: of each client; more than one. NOMEM. */
TF_MUST_CHECK tf_err tf_lab_verdict_new(tf_lab_verdict **out, const tf_scenario *scenario, size_t samples_max,
                                        const tf_mem *mem);
void tf_lab_verdict_free(tf_lab_verdict *v);

/* The message was handed over for the first time; acked; refused for good. Numbers below the flow's count; again is
 * fine. */
void tf_lab_verdict_sent(tf_lab_verdict *v, uint32_t flow, uint32_t number);
void tf_lab_verdict_acked(tf_lab_verdict *v, uint32_t flow, uint32_t number);
void tf_lab_verdict_refused(tf_lab_verdict *v, uint32_t flow, uint32_t number);
/* A subscription got a message, in the order of arrival. Not intact: its body is not the one that was sent. */
void tf_lab_verdict_delivered(tf_lab_verdict *v, uint32_t sub, uint32_t flow, uint32_t number, tf_time at, bool intact);
/* What a client's routes have counted by now, in the order of time. What there is no room for takes the place of the
 * one before. */
void tf_lab_verdict_sample(tf_lab_verdict *v, uint32_t client, const tf_lab_sample *sample);
/* Everything a subscription is to get has come. */
bool tf_lab_verdict_is_complete(const tf_lab_verdict *v, uint32_t sub);

/* Ends the run and judges it. */
const tf_lab_results *tf_lab_verdict_end(tf_lab_verdict *v, tf_time end);

/* What a client's routes had counted at that time; all 0 before the first sample. */
void tf_lab_verdict_sample_at(const tf_lab_verdict *v, uint32_t client, tf_time at, tf_lab_sample *out);
/* First copies by a route, both directions; and of these what would have been lost without it. */
uint64_t tf_lab_wins(const tf_lab_sample *sample, tf_route route);
uint64_t tf_lab_rescues(const tf_lab_sample *sample, tf_route route);
/* The longest delay, and how much, of what one pair of the results delivered in [from, to). */
void tf_lab_verdict_span(const tf_lab_verdict *v, size_t pair, tf_time from, tf_time to, tf_time *delay,
                         uint64_t *count);

#endif
