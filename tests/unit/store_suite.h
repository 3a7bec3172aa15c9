/* What every implementation of node/store/store.h must do: tests that run on each. */
#ifndef TF_TESTS_UNIT_STORE_SUITE_H
#define TF_TESTS_UNIT_STORE_SUITE_H

#include "node/store/store.h"

/* An implementation. Each test opens one store and closes it at its end; a process may run several after one another. */
typedef struct suite_store {
    void *ctx;
    /* A new, empty one. */
    tf_store (*open)(void *ctx);
    /* The same with little room: some hundred messages of 1000 bytes fill it, and trimming and forgetting them lets it take
     * as many again. NULL: has no bound that can be reached. */
    tf_store (*open_small)(void *ctx);
    /* Ends the process that has it, as far as it notices, and opens what it kept. NULL: it is gone with the process. */
    tf_store (*reopen)(void *ctx);
    /* Ends it and removes what it kept. */
    void (*close)(void *ctx);
    /* Nothing to poll: waits until there may be something. NULL: there is no need to. */
    void (*settle)(void *ctx);
    /* By how many messages bytes, and the answer of find_bytes, may be off: those of a block. */
    uint64_t block;
} suite_store;

/* Runs all of them; gives the exit status of the program. */
int store_suite_run(const char *module, const suite_store *store);

#endif
