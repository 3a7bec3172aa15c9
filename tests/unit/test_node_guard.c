/* node/guard: the order guard of S7, alone and in random histories against a model client. */
#include <stdlib.h>

#include "node/guard.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

static tf_guard_key key_of(unsigned number)
{
    return tf_guard_key_of(7, tf_slice_of(&number, sizeof(number)));
}

typedef struct fixture {
    tf_test_heap heap;
    size_t room;
    tf_guard guard;
} fixture;

static void begin(fixture *f, size_t max, size_t room)
{
    tf_test_heap_init(&f->heap);
    f->room = room;
    tf_guard_init(&f->guard, &f->heap.mem, max, &f->room);
}

static void end(fixture *f, size_t room)
{
    tf_guard_clear(&f->guard);
    ck_assert_uint_eq(f->room, room);
    ck_assert_uint_eq(f->heap.live_blocks, 0);
}

static void refuse(fixture *f, unsigned number, uint64_t told)
{
    tf_guard_refused(&f->guard, key_of(number), TF_REFUSAL_TOO_MANY_IN_FLIGHT);
    tf_guard_told(&f->guard, told);
}

START_TEST(guard_without_a_refusal_allows_everything)
{
    fixture f;
    begin(&f, 8, 8);
    ck_assert(!tf_guard_is_up(&f.guard));
    ck_assert(tf_guard_allows(&f.guard, key_of(1), 0));
    tf_guard_accepted(&f.guard, key_of(1));
    end(&f, 8);
}
END_TEST

START_TEST(guard_allows_the_oldest_refused_and_then_the_next)
{
    fixture f;
    begin(&f, 8, 8);
    refuse(&f, 1, 10);
    refuse(&f, 2, 11);
    refuse(&f, 1, 12); /* again: keeps its place */
    ck_assert(!tf_guard_allows(&f.guard, key_of(2), 11));
    ck_assert(!tf_guard_allows(&f.guard, key_of(3), 0));
    ck_assert(tf_guard_allows(&f.guard, key_of(1), 0));
    tf_guard_accepted(&f.guard, key_of(1));
    ck_assert(tf_guard_allows(&f.guard, key_of(2), 0));
    ck_assert_uint_eq(f.room, 7);
    tf_guard_accepted(&f.guard, key_of(2));
    ck_assert(!tf_guard_is_up(&f.guard));
    end(&f, 8);
}
END_TEST

START_TEST(guard_allows_what_acks_every_refusal)
{
    fixture f;
    begin(&f, 8, 8);
    refuse(&f, 1, 10);
    refuse(&f, 2, 11);
    refuse(&f, 3, 12);
    ck_assert(!tf_guard_allows(&f.guard, key_of(9), 11));
    ck_assert(tf_guard_allows(&f.guard, key_of(9), 12));
    ck_assert(tf_guard_allows(&f.guard, key_of(2), 12));
    tf_guard_accepted(&f.guard, key_of(2)); /* 1 was given up, 3 is still to come */
    ck_assert(tf_guard_is_up(&f.guard));
    ck_assert(tf_guard_allows(&f.guard, key_of(3), 0));
    tf_guard_accepted(&f.guard, key_of(9)); /* all were given up */
    ck_assert(!tf_guard_is_up(&f.guard));
    end(&f, 8);
}
END_TEST

START_TEST(guard_that_overflowed_is_lifted_by_an_ack_alone)
{
    fixture f;
    begin(&f, 2, 8);
    for (unsigned i = 1; i <= 4; i++) {
        refuse(&f, i, i);
    }
    tf_guard_accepted(&f.guard, key_of(1));
    refuse(&f, 5, 5); /* there is room again, but 3 and 4 are older */
    tf_guard_accepted(&f.guard, key_of(2));
    ck_assert(tf_guard_is_up(&f.guard));
    for (unsigned i = 3; i <= 6; i++) {
        ck_assert(!tf_guard_allows(&f.guard, key_of(i), 4));
    }
    ck_assert(tf_guard_allows(&f.guard, key_of(3), 5));
    tf_guard_accepted(&f.guard, key_of(3));
    ck_assert(!tf_guard_is_up(&f.guard));
    end(&f, 8);
}
END_TEST

START_TEST(guard_out_of_shared_room_or_memory_overflows)
{
    for (int by_memory = 0; by_memory < 2; by_memory++) {
        fixture f;
        begin(&f, 8, by_memory != 0 ? 8 : 0);
        tf_test_heap_fail_at(&f.heap, 0, true);
        refuse(&f, 1, 10);
        ck_assert(tf_guard_is_up(&f.guard));
        ck_assert(!tf_guard_allows(&f.guard, key_of(1), 9));
        ck_assert(tf_guard_allows(&f.guard, key_of(1), 10));
        tf_guard_accepted(&f.guard, key_of(1));
        ck_assert(!tf_guard_is_up(&f.guard));
        end(&f, by_memory != 0 ? 8 : 0);
    }
}
END_TEST

START_TEST(guard_out_of_room_or_memory_for_its_first_overflows)
{
    for (int by_memory = 0; by_memory < 2; by_memory++) {
        fixture f;
        begin(&f, 8, by_memory != 0 ? 8 : 0);
        tf_test_heap_fail_at(&f.heap, 0, true);
        tf_guard_refused_first(&f.guard, key_of(1), TF_REFUSAL_STORE_FULL);
        tf_guard_told(&f.guard, 10);
        ck_assert(tf_guard_is_up(&f.guard));
        ck_assert(!tf_guard_allows(&f.guard, key_of(1), 9));
        ck_assert(tf_guard_allows(&f.guard, key_of(1), 10));
        end(&f, by_memory != 0 ? 8 : 0);
    }
}
END_TEST

START_TEST(guard_keeps_the_code_that_raised_it)
{
    fixture f;
    begin(&f, 8, 8);
    tf_guard_refused(&f.guard, key_of(1), TF_REFUSAL_STORE_FULL);
    tf_guard_refused(&f.guard, key_of(2), TF_REFUSAL_OVERLOADED);
    ck_assert_int_eq(f.guard.code, TF_REFUSAL_STORE_FULL);
    tf_guard_forget(&f.guard, key_of(1));
    tf_guard_forget(&f.guard, key_of(2));
    tf_guard_refused(&f.guard, key_of(3), TF_REFUSAL_OVERLOADED);
    ck_assert_int_eq(f.guard.code, TF_REFUSAL_OVERLOADED);
    end(&f, 8);
}
END_TEST

START_TEST(guard_puts_what_had_been_accepted_before_all_others)
{
    fixture f;
    begin(&f, 3, 8);
    refuse(&f, 3, 1);
    refuse(&f, 4, 2);
    tf_guard_refused_first(&f.guard, key_of(2), TF_REFUSAL_STORE_FULL);
    tf_guard_refused_first(&f.guard, key_of(1), TF_REFUSAL_STORE_FULL); /* 4 makes room */
    ck_assert(!tf_guard_allows(&f.guard, key_of(9), UINT64_MAX - 1)); /* not told yet: no ack covers it */
    tf_guard_told(&f.guard, 9);
    for (unsigned i = 1; i <= 3; i++) {
        ck_assert(!tf_guard_allows(&f.guard, key_of(i + 1), 8));
        ck_assert(tf_guard_allows(&f.guard, key_of(i), 8));
        tf_guard_accepted(&f.guard, key_of(i));
    }
    ck_assert(tf_guard_is_up(&f.guard)); /* it overflowed */
    ck_assert(tf_guard_allows(&f.guard, key_of(4), 9));
    end(&f, 8);
}
END_TEST

START_TEST(guard_forgets_what_will_not_come_back)
{
    fixture f;
    begin(&f, 8, 8);
    for (unsigned i = 1; i <= 3; i++) {
        refuse(&f, i, i);
    }
    tf_guard_forget(&f.guard, key_of(2));
    tf_guard_forget(&f.guard, key_of(9));
    ck_assert_uint_eq(f.room, 6);
    tf_guard_accepted(&f.guard, key_of(1));
    ck_assert(tf_guard_allows(&f.guard, key_of(3), 0));
    tf_guard_forget(&f.guard, key_of(3));
    ck_assert(!tf_guard_is_up(&f.guard));
    end(&f, 8);
}
END_TEST

/* -- random histories ---------------------------------------------------------------------------------------------- */

/* A client, a hub with a window, and two queues between them. The client either retries every refusal in order as it
 * comes, holding back new sends meanwhile (naive), or as the library does: it waits until all has its answer, then sends the
 * oldest alone. It may give sends up for good. */
#define SENDS 30u
#define WINDOW 4u
#define QUEUE 4096u

typedef struct post {
    unsigned number;
    uint64_t acked; /* to the hub: messages processed; to the client: number of the message */
    bool refused;
} post;

typedef struct mail {
    post posts[QUEUE];
    size_t head;
    size_t tail;
} mail;

typedef struct history {
    tf_test_random random;
    fixture f;
    bool naive;
    bool gives_up;
    bool hub_refuses_first; /* accepted ones, too, as a full store does */
    mail to_hub;
    mail to_client;
    unsigned next;
    bool waiting[SENDS + 1]; /* refused, to be sent again */
    bool given_up[SENDS + 1];
    unsigned out; /* sends without an answer */
    unsigned alone; /* library: may be out at a time */
    uint64_t client_acked;
    unsigned in_flight[WINDOW];
    unsigned in_flight_count;
    uint64_t hub_sent;
    unsigned stored[SENDS];
    size_t stored_count;
} history;

static void put(mail *m, post p)
{
    ck_assert_uint_lt(m->tail, QUEUE);
    m->posts[m->tail++] = p;
}

static unsigned oldest_waiting(const history *h)
{
    for (unsigned i = 1; i <= SENDS; i++) {
        if (h->waiting[i]) {
            return i;
        }
    }
    return 0;
}

static bool client_send(history *h)
{
    unsigned number = oldest_waiting(h);
    bool may = h->naive ? true : h->out < h->alone && (number == 0 || h->alone > 1 || h->out == 0);
    if (!may || (number == 0 && h->next > SENDS)) {
        return false;
    }
    if (number == 0) {
        number = h->next++;
    }
    h->waiting[number] = false;
    put(&h->to_hub, (post){number, h->client_acked, false});
    h->out++;
    return true;
}

static bool client_receive(history *h)
{
    if (h->to_client.head == h->to_client.tail) {
        return false;
    }
    post p = h->to_client.posts[h->to_client.head++];
    h->client_acked = p.acked;
    h->out--;
    if (p.refused) {
        h->given_up[p.number] = h->gives_up && p.number % 7 == 0;
        h->waiting[p.number] = !h->given_up[p.number];
        h->alone = 0;
    } else if (h->alone != 0 && h->alone < WINDOW * 2) {
        h->alone *= 2;
    }
    if (h->alone == 0 && h->out == 0) {
        h->alone = 1;
    }
    return true;
}

static void hub_tell(history *h, unsigned number, bool refused)
{
    put(&h->to_client, (post){number, ++h->hub_sent, refused});
}

static bool hub_receive(history *h)
{
    if (h->to_hub.head == h->to_hub.tail) {
        return false;
    }
    post p = h->to_hub.posts[h->to_hub.head++];
    tf_guard_key key = key_of(p.number);
    bool full = h->in_flight_count >= WINDOW || tf_test_random_chance(&h->random, 1, 20);
    if (!full && tf_guard_allows(&h->f.guard, key, p.acked)) {
        tf_guard_accepted(&h->f.guard, key);
        h->in_flight[h->in_flight_count++] = p.number;
        return true;
    }
    tf_guard_refused(&h->f.guard, key, TF_REFUSAL_TOO_MANY_IN_FLIGHT);
    hub_tell(h, p.number, true);
    tf_guard_told(&h->f.guard, h->hub_sent);
    return true;
}

/* A group is committed, or refused as a whole. */
static bool hub_commit(history *h)
{
    if (h->in_flight_count == 0) {
        return false;
    }
    if (h->hub_refuses_first && tf_test_random_chance(&h->random, 1, 8)) {
        for (unsigned i = h->in_flight_count; i > 0; i--) {
            tf_guard_refused_first(&h->f.guard, key_of(h->in_flight[i - 1]), TF_REFUSAL_STORE_FULL);
        }
        for (unsigned i = 0; i < h->in_flight_count; i++) {
            hub_tell(h, h->in_flight[i], true);
            tf_guard_told(&h->f.guard, h->hub_sent);
        }
        h->in_flight_count = 0;
        return true;
    }
    unsigned count = 1 + (unsigned)tf_test_random_below(&h->random, h->in_flight_count);
    for (unsigned i = 0; i < count; i++) {
        ck_assert_uint_lt(h->stored_count, SENDS);
        h->stored[h->stored_count++] = h->in_flight[i];
        hub_tell(h, h->in_flight[i], false);
    }
    h->in_flight_count -= count;
    memmove(h->in_flight, h->in_flight + count, h->in_flight_count * sizeof(h->in_flight[0]));
    return true;
}

static bool history_step(history *h)
{
    static const struct {
        bool (*act)(history *);
    } acts[] = {{client_send}, {client_send}, {client_send}, {hub_receive}, {hub_receive}, {hub_receive},
                {hub_commit},  {client_receive}, {client_receive}};
    const size_t count = sizeof(acts) / sizeof(acts[0]);
    size_t start = (size_t)tf_test_random_below(&h->random, count);
    for (size_t i = 0; i < count; i++) {
        if (acts[(start + i) % count].act(h)) {
            return true;
        }
    }
    return false;
}

static void history_check(const history *h, uint64_t seed)
{
    size_t expected = 0;
    for (size_t i = 1; i < h->stored_count; i++) {
        ck_assert_msg(h->stored[i - 1] < h->stored[i], "seed %llu: %u is stored before %u", (unsigned long long)seed,
                      h->stored[i - 1], h->stored[i]);
    }
    for (unsigned i = 1; i <= SENDS; i++) {
        expected += h->given_up[i] ? 0 : 1;
    }
    ck_assert_msg(h->stored_count == expected, "seed %llu: %zu of %zu are stored", (unsigned long long)seed,
                  h->stored_count, expected);
}

START_TEST(guard_in_random_histories_keeps_order_and_starves_nobody)
{
    static history h;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        memset(&h, 0, sizeof(h));
        tf_test_random_init(&h.random, seed);
        h.naive = seed % 2 == 0;
        h.gives_up = !h.naive && seed % 4 == 1;
        h.hub_refuses_first = !h.naive && seed % 3 == 0;
        h.next = 1;
        h.alone = WINDOW * 2;
        begin(&h.f, seed % 5 == 0 && !h.naive ? 3 : 4 * WINDOW, 4 * WINDOW);
        size_t steps = 0;
        while (steps < 20000 && history_step(&h)) {
            steps++;
        }
        ck_assert_uint_lt(steps, 20000);
        history_check(&h, seed);
        end(&h.f, 4 * WINDOW);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        guard_without_a_refusal_allows_everything,
        guard_allows_the_oldest_refused_and_then_the_next,
        guard_allows_what_acks_every_refusal,
        guard_that_overflowed_is_lifted_by_an_ack_alone,
        guard_out_of_shared_room_or_memory_overflows,
        guard_out_of_room_or_memory_for_its_first_overflows,
        guard_keeps_the_code_that_raised_it,
        guard_puts_what_had_been_accepted_before_all_others,
        guard_forgets_what_will_not_come_back,
        guard_in_random_histories_keeps_order_and_starves_nobody,
        NULL,
    };
    return tf_test_run("node/guard", tests);
}
