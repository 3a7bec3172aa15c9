/* What a seed of sim_hub may turn on. */
#ifndef TF_TESTS_SIM_HUB_FAULTS_H
#define TF_TESTS_SIM_HUB_FAULTS_H

typedef enum fault {
    FAULT_LOSS,
    FAULT_JITTER,
    FAULT_STREAM_CUT,
    FAULT_DATAGRAM_HOLE,
    FAULT_SESSION_LOST,
    FAULT_RESTART,
    FAULT_SLOW_COMMIT,
    FAULT_REFUSALS,
    FAULT_LATE_READS,
    FAULT_SLOW_APPLICATION,
    FAULT_TINY_QUEUE,
    FAULT_BIG_BODIES,
    FAULT_COUNT
} fault;

static const char *const fault_names[FAULT_COUNT] = {"loss",        "jitter",   "stream-cut", "datagram-hole",
                                                     "session",     "restart",  "slow-commit", "refusals",
                                                     "late-reads",  "slow-app", "tiny-queue", "big-bodies"};

#endif
