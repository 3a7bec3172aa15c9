#include "tests/sim/nodes/sim_disk_model.h"

#include <stdio.h>

#include "node/store/db_block.h"

#define BODY_MAX ((size_t)500 * 1024) /* more than a small segment holds */
#define SALTS 251u

static const char *const channel_names[MODEL_CHANNELS] = {"one", "two/2", "three"};
static const char *const cursor_names[MODEL_CURSORS] = {"a", "b", "c", "d"};
static const tf_node_id cursor_owner = {{9}};
static uint8_t pattern[BODY_MAX + SALTS];

static uint64_t below(model *m, uint64_t bound)
{
    return tf_test_random_below(m->random, bound);
}

void model_init(model *m, tf_test_random *random)
{
    *m = (model){.random = random, .clock_ms = 1000};
    m->body_max = (size_t[]){60, 60, 2000, BODY_MAX / 8, BODY_MAX}[below(m, 5)];
    for (size_t i = 0; i < sizeof(pattern); i++) {
        pattern[i] = (uint8_t)(i * 7 + i / 256);
    }
}

tf_slice model_name(unsigned channel)
{
    return tf_slice_str(channel_names[channel]);
}

/* -- what is in a message: all follows from its seq, its attempt and its length ------------------------------------- */

static tf_slice body_of(uint64_t attempt, size_t len)
{
    return tf_slice_of(pattern + attempt % SALTS, len);
}

static tf_slice meta_of(uint64_t attempt)
{
    return tf_slice_of(pattern, attempt % 7);
}

static tf_node_id origin_of(uint64_t attempt)
{
    return (tf_node_id){{(uint8_t)(1 + attempt % 3)}};
}

static tf_slice id_of(uint64_t attempt, char out[32])
{
    return tf_slice_of((const uint8_t *)out, (size_t)snprintf(out, 32, "c-%llu", (unsigned long long)attempt));
}

/* -- groups --------------------------------------------------------------------------------------------------------- */

/* A channel as it will be when the ops that were drawn for the group are done. */
typedef struct drawn {
    uint64_t head;
    uint64_t epoch;
    bool fresh; /* its making is in the group, so nothing else may be */
} drawn;

static tf_store_op draw_append(model *m, const model_channel *c, drawn *d, model_note *note)
{
    size_t len = (size_t)below(m, below(m, 8) == 0 ? m->body_max + 1 : 60);
    m->clock_ms += (int64_t)below(m, 3);
    return (tf_store_op){.kind = TF_STORE_APPEND,
                         .channel = c->number,
                         .message = {.seq = ++d->head,
                                     .epoch = d->epoch,
                                     .timestamp_ms = m->clock_ms,
                                     .expires_ms = (int64_t)(note->attempt % 5),
                                     .origin = origin_of(note->attempt),
                                     .instance = note->attempt,
                                     .client_id = id_of(note->attempt, note->id),
                                     .meta = meta_of(note->attempt),
                                     .body = body_of(note->attempt, len)}};
}

static tf_store_op draw_cursor(model *m, const model_channel *c, const drawn *d, model_note *note)
{
    note->cursor = (unsigned)below(m, MODEL_CURSORS);
    return (tf_store_op){.kind = TF_STORE_CURSOR,
                         .channel = c->number,
                         .cursor = {.channel = c->number,
                                    .owner = cursor_owner,
                                    .name = tf_slice_str(cursor_names[note->cursor]),
                                    .epoch = d->epoch,
                                    .next = below(m, 6) == 0 ? 0 : 1 + below(m, c->head + 1),
                                    .moved_ms = ++m->clock_ms}}; /* tells it from all others */
}

static tf_store_op draw_op(model *m, model_channel *c, drawn *d, model_note *note)
{
    uint64_t dice = below(m, 100);
    if (c->number == 0) {
        d->fresh = true;
        return (tf_store_op){.kind = TF_STORE_CREATE,
                             .name = tf_slice_str(channel_names[c - m->channels]),
                             .epoch = tf_test_random_u64(m->random)};
    }
    if (dice < 75 && d->head < MODEL_MESSAGES) {
        note->attempt = ++c->attempts;
        return draw_append(m, c, d, note);
    }
    if (dice < 83) {
        return (tf_store_op){.kind = TF_STORE_TRIM, .channel = c->number, .seq = 1 + below(m, c->head + 1)};
    }
    if (dice < 87) {
        return (tf_store_op){.kind = TF_STORE_FORGET,
                             .channel = c->number,
                             .time_ms = (int64_t)below(m, (uint64_t)m->clock_ms + 1)};
    }
    if (dice < 89) {
        d->epoch = tf_test_random_u64(m->random);
        return (tf_store_op){.kind = TF_STORE_EPOCH, .channel = c->number, .epoch = d->epoch};
    }
    return dice < 90 ? (tf_store_op){.kind = TF_STORE_CLOSE, .channel = c->number} : draw_cursor(m, c, d, note);
}

tf_store_group *model_draw(model *m, size_t most)
{
    drawn drawn_of[MODEL_CHANNELS];
    size_t asked = 1 + (size_t)below(m, most < MODEL_OPS ? most : MODEL_OPS);
    TF_ASSERT(m->group.count == 0);
    for (unsigned i = 0; i < MODEL_CHANNELS; i++) {
        drawn_of[i] = (drawn){m->channels[i].head, m->channels[i].epoch, false};
    }
    for (size_t i = 0; i < asked; i++) {
        unsigned channel = (unsigned)below(m, MODEL_CHANNELS);
        if (!drawn_of[channel].fresh) {
            model_note *note = &m->notes[m->group.count];
            *note = (model_note){.channel = channel};
            m->ops[m->group.count] = draw_op(m, &m->channels[channel], &drawn_of[channel], note);
            m->group.count++;
        }
    }
    m->group.ops = m->ops;
    return &m->group;
}

/* The op is durable. */
static void apply(model *m, size_t i)
{
    const tf_store_op *op = &m->ops[i];
    const model_note *note = &m->notes[i];
    model_channel *c = &m->channels[note->channel];
    switch (op->kind) {
    case TF_STORE_CREATE:
        c->number = op->channel;
        c->epoch = op->epoch;
        c->first = 1;
        return;
    case TF_STORE_APPEND:
        c->head = op->message.seq;
        c->messages[c->head] =
            (model_message){op->message.timestamp_ms, op->message.epoch, op->message.body.len, note->attempt};
        return;
    case TF_STORE_CLOSE:
        c->closed = true;
        return;
    case TF_STORE_TRIM:
        c->first = op->seq > c->first ? op->seq : c->first;
        return;
    case TF_STORE_FORGET:
        c->keys_since_ms = op->time_ms > c->keys_since_ms ? op->time_ms : c->keys_since_ms;
        return;
    case TF_STORE_EPOCH:
        c->epoch = op->epoch;
        return;
    case TF_STORE_CURSOR:
        c->cursors[note->cursor].next = op->cursor.next;
        c->cursors[note->cursor].moved_ms = op->cursor.moved_ms;
        return;
    }
    TF_UNREACHABLE();
}

const char *model_complete(model *m, bool clean)
{
    bool stopped[MODEL_CHANNELS] = {false};
    for (size_t i = 0; i < m->group.count; i++) {
        const tf_store_op *op = &m->ops[i];
        unsigned channel = m->notes[i].channel;
        if (op->outcome == TF_REFUSAL_NONE) {
            if (op->kind == TF_STORE_APPEND && stopped[channel]) {
                return "an append was taken behind one that was refused (S6)";
            }
            apply(m, i);
            m->done++;
            continue;
        }
        bool full = op->outcome == TF_REFUSAL_STORE_FULL && (m->is_tight || !clean);
        if (!full && (clean || op->outcome != TF_REFUSAL_UNAVAILABLE)) {
            return "an op was refused without a reason";
        }
        stopped[channel] = stopped[channel] || op->kind == TF_STORE_APPEND;
        m->refused++;
    }
    m->group.count = 0;
    return NULL;
}

/* -- a group without outcomes --------------------------------------------------------------------------------------- */

typedef enum taken {
    TAKEN_NO,
    TAKEN_YES,
    TAKEN_EITHER /* nobody can tell, and nobody cares */
} taken;

/* Were those of the ops that say the same thing anew taken up to and with the one that is seen now? `seen`: the last op
 * that fits what is there, plus 1; 0: none does. */
static taken up_to(size_t i, size_t seen)
{
    return i < seen ? TAKEN_YES : TAKEN_NO;
}

static taken was_epoch_taken(const model *m, size_t i, const tf_store_channel *found)
{
    size_t seen = 0;
    for (size_t k = 0; k < m->group.count; k++) {
        bool fits = m->ops[k].kind == TF_STORE_EPOCH && m->notes[k].channel == m->notes[i].channel;
        seen = fits && m->ops[k].epoch == found->epoch ? k + 1 : seen;
    }
    return up_to(i, seen);
}

static taken was_cursor_taken(const model *m, size_t i, tf_store store)
{
    tf_store_cursor cursor = {.next = 0};
    const model_note *note = &m->notes[i];
    const model_channel *c = &m->channels[note->channel];
    size_t seen = 0;
    (void)store.table->cursor_find(store.ctx, c->number, &cursor_owner, m->ops[i].cursor.name, &cursor);
    for (size_t k = 0; k < m->group.count; k++) {
        const tf_store_cursor *each = &m->ops[k].cursor;
        bool fits = m->ops[k].kind == TF_STORE_CURSOR && m->notes[k].channel == note->channel &&
                    m->notes[k].cursor == note->cursor && each->next == cursor.next;
        seen = fits && (each->next == 0 || each->moved_ms == cursor.moved_ms) ? k + 1 : seen;
    }
    bool unseen = cursor.next == 0 && c->cursors[note->cursor].next == 0; /* as if nothing had happened */
    return unseen && i < seen ? TAKEN_EITHER : up_to(i, seen);
}

static taken was_taken(const model *m, size_t i, tf_store store, const tf_store_channel *found)
{
    const tf_store_op *op = &m->ops[i];
    const model_channel *c = &m->channels[m->notes[i].channel];
    switch (op->kind) {
    case TF_STORE_CREATE:
        return TAKEN_YES;
    case TF_STORE_APPEND:
        return op->message.seq <= found->head ? TAKEN_YES : TAKEN_NO;
    case TF_STORE_CLOSE:
        return c->closed ? TAKEN_EITHER : found->closed ? TAKEN_YES : TAKEN_NO;
    case TF_STORE_TRIM:
        return op->seq <= c->first ? TAKEN_EITHER : op->seq <= found->first ? TAKEN_YES : TAKEN_NO;
    case TF_STORE_FORGET:
        return op->time_ms <= c->keys_since_ms   ? TAKEN_EITHER
               : op->time_ms <= found->keys_since_ms ? TAKEN_YES
                                                     : TAKEN_NO;
    case TF_STORE_EPOCH:
        return was_epoch_taken(m, i, found);
    case TF_STORE_CURSOR:
        return was_cursor_taken(m, i, store);
    }
    TF_UNREACHABLE();
}

const char *model_resolve(model *m, tf_store store, bool clean)
{
    taken each[MODEL_OPS] = {TAKEN_NO};
    bool missing = false;
    for (size_t i = 0; i < m->group.count; i++) {
        tf_store_channel found = {.number = 0};
        tf_err err = store.table->channel_find(store.ctx, model_name(m->notes[i].channel), &found);
        each[i] = err == TF_OK ? was_taken(m, i, store, &found) : TAKEN_NO;
        m->ops[i].channel = found.number;
        if (clean && missing && each[i] == TAKEN_YES) {
            return "an op is there, and one before it is not";
        }
        /* One that had to wait for room when the store was closed was refused, which nobody was told. */
        missing = missing || (each[i] == TAKEN_NO && m->ops[i].outcome == TF_REFUSAL_NONE);
    }
    for (size_t i = 0; i < m->group.count; i++) {
        if (each[i] != TAKEN_NO) {
            apply(m, i);
        }
    }
    m->group.count = 0;
    return model_check(m, store);
}

/* -- checks --------------------------------------------------------------------------------------------------------- */

static uint64_t bytes_of(const model_message *is)
{
    char id[32];
    return id_of(is->attempt, id).len + meta_of(is->attempt).len + is->len;
}

static uint64_t bytes_from(const model_channel *c, uint64_t seq)
{
    uint64_t sum = 0;
    for (; seq <= c->head; seq++) {
        sum += bytes_of(&c->messages[seq]);
    }
    return sum;
}

static const char *check_cursors(const model_channel *c, tf_store store)
{
    size_t count = 0;
    size_t position = 0;
    tf_store_cursor found = {.next = 0};
    for (size_t i = 0; i < MODEL_CURSORS; i++) {
        tf_slice name = tf_slice_str(cursor_names[i]);
        tf_err err = store.table->cursor_find(store.ctx, c->number, &cursor_owner, name, &found);
        if (err != (c->cursors[i].next == 0 ? TF_ERR_CLOSED : TF_OK)) {
            return "a cursor is there, or not there, unlike what was acked";
        }
        if (err == TF_OK && (found.next != c->cursors[i].next || found.moved_ms != c->cursors[i].moved_ms)) {
            return "a cursor is elsewhere than was acked";
        }
        count += err == TF_OK ? 1 : 0;
    }
    while (store.table->cursor_next(store.ctx, c->number, &position, &found)) {
        count--;
    }
    return count == 0 ? NULL : "cursors are listed that are not there, or the other way round";
}

static const char *check_channel(const model_channel *c, tf_store store, unsigned index)
{
    tf_store_channel found;
    tf_err err = store.table->channel_find(store.ctx, model_name(index), &found);
    if (err != (c->number == 0 ? TF_ERR_CLOSED : TF_OK)) {
        return "a channel is there, or not there, unlike what was acked";
    }
    if (c->number == 0) {
        return NULL;
    }
    if (found.number != c->number || found.epoch != c->epoch) {
        return "a channel has another number or epoch";
    }
    if (found.head != c->head || found.first != c->first) {
        return "a channel begins or ends elsewhere (P1)";
    }
    if (found.timestamp_ms != (c->head == 0 ? 0 : c->messages[c->head].time_ms)) {
        return "a channel has another time";
    }
    if (found.bytes < bytes_from(c, c->first)) {
        return "a channel has fewer bytes than are kept (S12)";
    }
    if (found.closed != c->closed || found.keys_since_ms != c->keys_since_ms) {
        return "a channel is closed, or forgets keys, unlike what was acked";
    }
    return check_cursors(c, store);
}

const char *model_check(const model *m, tf_store store)
{
    const char *wrong = NULL;
    size_t position = 0;
    tf_store_damage damage;
    for (unsigned i = 0; i < MODEL_CHANNELS && wrong == NULL; i++) {
        wrong = check_channel(&m->channels[i], store, i);
    }
    return wrong == NULL && store.table->damage_next(store.ctx, &position, &damage) ? "something is damaged" : wrong;
}

const char *model_check_silent(const model *m, tf_store store)
{
    for (unsigned i = 0; i < MODEL_CHANNELS; i++) {
        const model_channel *c = &m->channels[i];
        tf_store_channel found;
        uint64_t from = c->first > TF_DB_BLOCK_MESSAGES ? c->first - TF_DB_BLOCK_MESSAGES + 1 : 1;
        if (c->number != 0 && (store.table->channel_find(store.ctx, model_name(i), &found) != TF_OK ||
                               found.bytes > bytes_from(c, from))) {
            return "a channel has more bytes than are kept (S12)";
        }
    }
    return NULL;
}

static bool is_message(const model_message *is, uint64_t seq, const tf_stored *s)
{
    char id[32];
    tf_node_id origin = origin_of(is->attempt);
    return s->seq == seq && s->epoch == is->epoch && s->timestamp_ms == is->time_ms && s->instance == is->attempt &&
           s->expires_ms == (int64_t)(is->attempt % 5) && tf_node_id_eq(&s->origin, &origin) &&
           tf_slice_eq(s->client_id, id_of(is->attempt, id)) && tf_slice_eq(s->meta, meta_of(is->attempt)) &&
           tf_slice_eq(s->body, body_of(is->attempt, is->len));
}

const char *model_check_read(const model *m, unsigned channel, uint64_t seq, tf_store_presence presence,
                             const tf_stored *stored)
{
    const model_channel *c = &m->channels[channel];
    switch (presence) {
    case TF_STORE_HERE:
        if (seq < c->first) {
            return "a message is there that was trimmed";
        }
        return is_message(&c->messages[seq], seq, stored) ? NULL : "a message is not the one that was acked (P1)";
    case TF_STORE_GONE:
        return seq < c->first && stored->seq == c->first ? NULL : "a message is gone that was not trimmed (P1)";
    case TF_STORE_LATER:
        return "a message does not come";
    case TF_STORE_DAMAGED:
        return "a message is damaged";
    }
    TF_UNREACHABLE();
}

const char *model_check_key(const model *m, tf_store store, unsigned channel, uint64_t seq)
{
    char id[32];
    tf_store_key key;
    const model_channel *c = &m->channels[channel];
    const model_message *is = &c->messages[seq];
    tf_node_id origin = origin_of(is->attempt);
    tf_err err = store.table->find(store.ctx, c->number, &origin, id_of(is->attempt, id), &key);
    bool forgotten = is->time_ms < c->keys_since_ms;
    if (m->is_blind && err == TF_ERR_IO) {
        return NULL;
    }
    if (err != (forgotten ? TF_ERR_CLOSED : TF_OK)) {
        return forgotten ? "a key is found that was forgotten" : "a key is not found (S2)";
    }
    if (!forgotten && (key.seq != seq || key.epoch != is->epoch || key.timestamp_ms != is->time_ms ||
                       key.digest != tf_store_digest(body_of(is->attempt, is->len)))) {
        return "a key says another thing than was acked (S2)";
    }
    origin.bytes[1] = 1;
    err = store.table->find(store.ctx, c->number, &origin, id_of(is->attempt, id), &key);
    return err == TF_ERR_CLOSED || (m->is_blind && err == TF_ERR_IO) ? NULL : "a key is found that nobody has stored (S2)";
}

static const char *check_bytes(const model *m, const model_channel *c, tf_store store, uint64_t bytes)
{
    uint64_t seq = c->head + 1;
    uint64_t left = bytes;
    while (seq > c->first && bytes_of(&c->messages[seq - 1]) <= left) {
        left -= bytes_of(&c->messages[--seq]);
    }
    uint64_t found = store.table->find_bytes(store.ctx, c->number, bytes);
    bool fits = found <= seq && found >= c->first && seq - found <= TF_DB_BLOCK_MESSAGES;
    return fits || (m->is_blind && found == c->first) ? NULL : "bytes end elsewhere (S12)";
}

const char *model_check_positions(const model *m, tf_store store, unsigned channel)
{
    const model_channel *c = &m->channels[channel];
    int64_t time = (int64_t)tf_test_random_below(m->random, (uint64_t)m->clock_ms + 2);
    uint64_t seq = c->first;
    while (seq <= c->head && c->messages[seq].time_ms < time) {
        seq++;
    }
    uint64_t found = store.table->find_time(store.ctx, c->number, time);
    if (found != seq && !(m->is_blind && found == c->first)) {
        return "a time is elsewhere (S12)";
    }
    return check_bytes(m, c, store, tf_test_random_below(m->random, 3 * (uint64_t)m->body_max));
}
