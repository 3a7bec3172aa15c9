/* What the clients of a laboratory noted, on its way to the verdict; and whether that is all there is to come. */
#include "tests/harness/lab.h"

static void read_records(tf_lab_reader *r)
{
    for (uint32_t i = 0; i < r->s->sub_count; i++) {
        const tf_lab_shared_sub *sub = &r->shared->subs[i];
        size_t count = atomic_load(&sub->count);
        for (size_t *at = &r->records_read[i]; *at < count; ++*at) {
            const tf_lab_record *record = &sub->records[*at < sub->capacity ? *at : sub->capacity - 1];
            tf_time when = record->at > r->start ? record->at - r->start : 0;
            tf_lab_verdict_delivered(r->verdict, i, record->flow, record->number, when, record->intact);
        }
    }
}

static void read_samples(tf_lab_reader *r)
{
    for (uint32_t i = 0; i < r->s->node_count; i++) {
        const tf_lab_shared_client *client = &r->shared->clients[i];
        size_t count = atomic_load(&client->count);
        for (; r->samples_read[i] < count; r->samples_read[i]++) {
            tf_lab_verdict_sample(r->verdict, i, &client->samples[r->samples_read[i]]);
        }
    }
}

static void read_messages(tf_lab_reader *r)
{
    for (uint32_t i = 0; i < r->s->flow_count; i++) {
        for (uint32_t k = 0; k < r->s->flows[i].count; k++) {
            uint8_t state = r->shared->flows[i].messages[k];
            if (state != TF_LAB_UNSENT) {
                tf_lab_verdict_sent(r->verdict, i, k);
            }
            if (state == TF_LAB_ACKED) {
                tf_lab_verdict_acked(r->verdict, i, k);
            } else if (state == TF_LAB_REFUSED) {
                tf_lab_verdict_refused(r->verdict, i, k);
            }
        }
    }
}

void tf_lab_reader_read(tf_lab_reader *r)
{
    read_records(r);
    read_samples(r);
}

bool tf_lab_reader_is_ready(const tf_lab_reader *r)
{
    for (uint32_t i = 0; i < r->s->node_count; i++) {
        if (i != r->s->relay && !atomic_load(&r->shared->clients[i].ready)) {
            return false;
        }
    }
    return true;
}

static bool is_complete(const tf_lab_reader *r)
{
    bool complete = true;
    for (uint32_t i = 0; i < r->s->flow_count && complete; i++) {
        complete = atomic_load(&r->shared->flows[i].answered) >= r->s->flows[i].count;
    }
    for (uint32_t i = 0; i < r->s->sub_count && complete; i++) {
        complete = tf_lab_verdict_is_complete(r->verdict, i);
    }
    return complete;
}

bool tf_lab_reader_is_over(tf_lab_reader *r, tf_time now)
{
    tf_time length = tf_scenario_length(r->s);
    if (r->start == 0 || now < r->start + length) {
        return false;
    }
    if (!is_complete(r)) {
        r->complete_at = 0;
        return now > r->start + length + r->s->patience;
    }
    r->complete_at = r->complete_at == 0 ? now : r->complete_at;
    return now >= r->complete_at + TF_LAB_LINGER;
}

const tf_lab_results *tf_lab_reader_end(tf_lab_reader *r, tf_time ended)
{
    tf_time end = r->complete_at != 0 ? r->complete_at : ended;
    read_messages(r);
    return tf_lab_verdict_end(r->verdict, r->start != 0 && end > r->start ? end - r->start : 0);
}
