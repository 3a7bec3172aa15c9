#include "tests/sim/callers.h"

#include <stdio.h>
#include <string.h>

#define PACE (40 * TF_MS)

static uint64_t below(caller *c, uint64_t bound)
{
    return tf_test_random_below(c->random, bound);
}

bool caller_begin(caller *c, tf_time now, unsigned index, unsigned count)
{
    (void)snprintf(c->name, sizeof(c->name), "o/%u", index);
    (void)snprintf(c->wanted, sizeof(c->wanted), "o/%u", (index + 1) % count);
    return tf_hub_object_new(c->hub, NULL, &c->own) == TF_OK &&
           tf_client_publish(c->client, now, tf_slice_str(c->name), c->own) == TF_OK;
}

/* -- calls --------------------------------------------------------------------------------------------------------- */

static tf_slice text_of(char text[32], uint32_t tag, uint32_t number)
{
    int len = snprintf(text, 32, "%u:%u", tag, number);
    return tf_slice_of(text, len > 0 ? (size_t)len : 0);
}

/* One numbered message over the line; makes_line: asks for an object. */
static void call(caller *c, tf_time now, caller_line *line, bool makes_line)
{
    char text[32];
    tf_local promise = TF_LOCAL_NONE;
    if (line->target == TF_LOCAL_NONE || c->waiting_count == CALLER_WAITING_MAX) {
        return;
    }
    tf_router_send send = {.target = line->target,
                           .method = tf_slice_str(makes_line ? "self" : "say"),
                           .args = text_of(text, line->tag, line->number + 1),
                           .want_result = true};
    if (tf_hub_call(c->hub, now, &send, NULL, &promise) != TF_OK) {
        return; /* a full queue: it was not sent */
    }
    line->number++;
    c->waiting[c->waiting_count++] = (caller_call){promise, line->tag, line->number, makes_line};
    if (makes_line) {
        c->promised = (caller_line){promise, ++c->tags, 0};
        c->promised_held = false;
    }
}

static void drop_promised(caller *c, tf_time now)
{
    if (c->promised_held) {
        tf_hub_release(c->hub, now, c->promised.target);
    }
    c->promised.target = TF_LOCAL_NONE;
    c->promised_held = false;
}

static const char *ask(caller *c, tf_time now)
{
    tf_ask question = {.kind = TF_ASK_LOOKUP, .name = tf_slice_str(c->wanted)};
    if (c->asking) {
        return NULL;
    }
    c->asking = true;
    return tf_client_ask(c->client, now, 0, &question) == TF_OK ? NULL : "a lookup could not be asked for";
}

const char *caller_act(caller *c, tf_time now)
{
    c->act_at = now + 1 + below(c, PACE);
    if (c->found.target == TF_LOCAL_NONE) {
        return ask(c, now);
    }
    switch (below(c, 8)) {
    case 0:
        if (c->promised.target == TF_LOCAL_NONE) {
            call(c, now, &c->found, true);
        }
        return NULL;
    case 1:
        if (c->promised_held) {
            drop_promised(c, now);
        }
        return NULL;
    case 2:
    case 3:
    case 4:
        call(c, now, &c->promised, false);
        return NULL;
    default:
        call(c, now, &c->found, false);
        return NULL;
    }
}

void caller_finish(caller *c, tf_time now)
{
    c->finished = true;
    c->act_at = TF_NEVER;
    drop_promised(c, now);
    tf_hub_release(c->hub, now, c->found.target);
    c->found.target = TF_LOCAL_NONE;
    tf_client_withdraw(c->client, now, tf_slice_str(c->name));
}

/* -- what comes ---------------------------------------------------------------------------------------------------- */

const char *caller_told(caller *c, tf_time now, const tf_client_event *event)
{
    if (event->type != TF_CLIENT_ANSWER) {
        return event->type == TF_CLIENT_PUBLISH_REFUSED ? "a name was refused" : NULL;
    }
    c->asking = false;
    if (event->code.len > 0) {
        return tf_slice_eq(event->code, tf_slice_str("not_found")) ? NULL : "a lookup was refused";
    }
    if (c->finished || c->found.target != TF_LOCAL_NONE) {
        tf_hub_release(c->hub, now, event->object);
    } else {
        c->found = (caller_line){event->object, ++c->tags, 0};
    }
    return NULL;
}

static const char *heard(caller *c, tf_slice args)
{
    char text[32] = {0};
    unsigned tag = 0;
    unsigned number = 0;
    memcpy(text, args.data, args.len < sizeof(text) ? args.len : sizeof(text) - 1);
    if (sscanf(text, "%u:%u", &tag, &number) != 2) { /* NOLINT(cert-err34-c): written above */
        return "a call that nobody made";
    }
    if (c->heard[tag % CALLER_LINES].tag == tag && number <= c->heard[tag % CALLER_LINES].number) {
        return "calls of one reference out of order (P6)";
    }
    c->heard[tag % CALLER_LINES].tag = tag;
    c->heard[tag % CALLER_LINES].number = number;
    c->trace = c->trace * 31 + (uint64_t)tag * 7 + number;
    return NULL;
}

static const char *called(caller *c, tf_time now, const tf_app_event *event)
{
    bool makes_line = tf_slice_eq(event->method, tf_slice_str("self"));
    tf_answer answer = {.promise = event->result,
                        .kind = makes_line ? TF_RESOLUTION_OBJECT : TF_RESOLUTION_DATA,
                        .object = {c->own, TF_REF_OBJECT},
                        .data = makes_line ? (tf_slice){NULL, 0} : event->args};
    if (event->local != c->own || event->result == TF_LOCAL_NONE) {
        return "a call of something else";
    }
    const char *wrong = heard(c, event->args);
    return wrong != NULL || tf_hub_resolve(c->hub, now, &answer, 1) == TF_OK ? wrong : "an answer was not taken";
}

static const char *became_line(caller *c, const caller_call *made, const tf_app_event *event)
{
    if (event->kind != TF_RESOLUTION_OBJECT) {
        return "an object was promised";
    }
    if (c->promised.target == made->promise) { /* it goes on over the object, with the next number */
        c->promised.target = event->object.local;
        c->promised_held = true;
        return tf_hub_hold(c->hub, event->object.local, NULL) == TF_OK ? NULL : "no hold";
    }
    return NULL;
}

static const char *settled(caller *c, tf_time now, const tf_app_event *event)
{
    char text[32];
    size_t i = 0;
    while (i < c->waiting_count && c->waiting[i].promise != event->local) {
        i++;
    }
    if (i == c->waiting_count) {
        return "an answer to nothing";
    }
    caller_call made = c->waiting[i];
    c->waiting[i] = c->waiting[--c->waiting_count];
    c->trace = c->trace * 31 + made.number + (uint64_t)event->kind;
    if (event->kind == TF_RESOLUTION_REJECTION) {
        c->lost++;
        if (c->promised.target == made.promise) {
            drop_promised(c, now);
        }
        return NULL;
    }
    c->answered++;
    if (made.makes_line) {
        return became_line(c, &made, event);
    }
    return tf_slice_eq(event->data, text_of(text, made.tag, made.number)) ? NULL : "the answer of another call";
}

static const char *revoked(caller *c, tf_time now, tf_local local)
{
    if (local == c->promised.target && c->promised_held) {
        drop_promised(c, now);
    }
    if (local == c->found.target) {
        tf_hub_release(c->hub, now, local);
        c->found.target = TF_LOCAL_NONE;
    }
    return NULL;
}

const char *caller_pull(caller *c, tf_time now)
{
    tf_app_event event;
    const char *wrong = NULL;
    while (wrong == NULL && tf_hub_next_app_event(c->hub, &event)) {
        switch (event.type) {
        case TF_APP_CALL:
            wrong = called(c, now, &event);
            break;
        case TF_APP_SETTLED:
            wrong = settled(c, now, &event);
            break;
        case TF_APP_REVOKED:
            wrong = revoked(c, now, event.local);
            break;
        case TF_APP_GONE:
            break;
        }
    }
    return wrong;
}
