#include "tests/sim/redial.h"

#include <stdio.h>
#include <stdlib.h>

void redial_init(redial *r, ends *e, uint64_t timer)
{
    *r = (redial){.ends = e, .backoff = TF_BACKOFF_MIN, .timer = timer};
}

static bool is_needed(const redial *r)
{
    for (unsigned end = 0; end < NET_ENDS; end++) {
        const ends_end *s = &r->ends->end[end];
        if (!s->stream || tf_link_verdict(s->link, TF_ROUTE_STREAM) == TF_VERDICT_DOWN) {
            return true;
        }
    }
    return false;
}

void redial_look(redial *r)
{
    if (r->dialling || !is_needed(r)) {
        return;
    }
    r->dialling = true;
    r->dials++;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        r->expected[end] = tf_link_next_expected(r->ends->end[end].link);
    }
    tf_time trips = 4 * (net_pipe_of(r->ends->net, 0)->delay + net_pipe_of(r->ends->net, 1)->delay);
    net_timer(r->ends->net, 0,
              net_now(r->ends->net) + trips + tf_test_random_below(net_random(r->ends->net), r->backoff), r->timer);
}

void redial_timer(redial *r)
{
    r->dialling = false;
    if (!is_needed(r)) {
        return;
    }
    bool hole = net_pipe_of(r->ends->net, 0)->hole || net_pipe_of(r->ends->net, 1)->hole;
    if (r->closed || hole) {
        r->backoff = tf_time_min(2 * r->backoff, TF_BACKOFF_MAX_REDUNDANT);
        redial_look(r);
        return;
    }
    r->backoff = TF_BACKOFF_MIN;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        tf_err err = tf_link_resume(r->ends->end[end].link, net_now(r->ends->net), r->expected[1 - end]);
        if (err != TF_OK) {
            (void)fprintf(stderr, "seed %llu, end %u: resume: %s\n", (unsigned long long)r->ends->seed, end,
                          tf_err_text(err));
            abort();
        }
    }
    ends_connect(r->ends);
}
