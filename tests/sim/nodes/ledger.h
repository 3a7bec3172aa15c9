/* What a channel of a relay must hold: which send has which seq, learned from the store itself as it grows,
 * from acks and from deliveries, which must all say the same (P1). */
#ifndef TF_TESTS_SIM_NODES_LEDGER_H
#define TF_TESTS_SIM_NODES_LEDGER_H

#include "node/store/store.h"

#define LEDGER_MAX 4096u /* messages of a channel */

struct relay;
struct view;
struct world;

typedef struct entry {
    struct view *by;   /* NULL: not known */
    unsigned number;   /* of its sends */
    uint64_t instance; /* of the process that sent it, as the store says; 0: not known */
} entry;

typedef struct ledger {
    struct world *w;
    struct relay *relay;
    char name[16];
    uint64_t epoch;      /* 0: there is no channel yet */
    bool epoch_known;    /* to a client */
    uint64_t seen;       /* entries up to here were compared with the store */
    uint64_t known;      /* the highest seq of which a client knows */
    uint64_t first;      /* the highest that the store ever had */
    uint64_t head;       /* of the store, as it was last seen */
    uint64_t trim_asked; /* what is below may go */
    bool close_asked;
    unsigned made; /* sends that were handed in for it */
    entry entries[LEDGER_MAX + 1];
} ledger;

void ledger_init(ledger *l, struct world *w, struct relay *r, unsigned index);
/* The relay's store may have changed: looks at what is new. */
void ledger_look(ledger *l);
/* The store was opened anew: looks at everything. */
void ledger_reopen(ledger *l);
/* A client was told that this send has that seq. */
void ledger_tell(ledger *l, struct view *by, unsigned number, uint64_t seq, uint64_t epoch);
/* What the store says of it, by content. False: it cannot be asked now, or the message is gone. */
bool ledger_peek(ledger *l, uint64_t seq, tf_stored *out);
/* The send that is a stored message, by its body, which is compared whole. Fails if there is no such send. */
entry ledger_find(ledger *l, uint64_t seq, const tf_node_id *origin, tf_slice client_id, tf_slice body);
/* Is the message of that seq of this very process of the view's node (S8)? */
bool ledger_is_own(const ledger *l, uint64_t seq, const struct view *v);
/* Was it allowed to expire by now? */
bool ledger_may_expire(const ledger *l, uint64_t seq);

#endif
