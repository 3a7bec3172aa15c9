#include "tests/sim/nodes/threads.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include "tests/sim/nodes/threads_calls.h"
#include "tests/support/support.h"

#if defined(__SANITIZE_ADDRESS__)
#define IS_ADDRESS_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_ADDRESS_SANITIZED
#endif
#endif
#ifdef IS_ADDRESS_SANITIZED
#include <sanitizer/common_interface_defs.h>
#endif

#define THREADS_MAX 128u
#define STACK_BYTES ((size_t)256 * 1024)
#define GUARD_BYTES ((size_t)4096)
#define STEPS_MAX 1000000u /* of all threads together in no time */

typedef enum state {
    STATE_NONE, /* the place is free */
    STATE_READY,
    STATE_LOCKING,  /* on: a mutex */
    STATE_WAITING,  /* on: a condition; until, or TF_NEVER */
    STATE_JOINING,  /* on: a thread */
    STATE_SLEEPING, /* on: the owner, or NULL; until */
    STATE_ENDED
} state;

typedef struct thread {
    state state;
    int error; /* errno */
    const void *on;
    tf_time until; /* TF_NEVER: for ever */
    void *(*run)(void *);
    void *argument;
    void *result;
    ucontext_t context;
    uint8_t *stack; /* stays with its place until the end */
    void *fake;     /* AddressSanitizer's */
    bool timed_out;
} thread;

static thread threads[THREADS_MAX]; /* the first is the main stack */
static size_t used = 1;             /* places that were ever taken */
static thread *current = threads;
static tf_time time_now;
static tf_test_random randomness;
static unsigned preempts; /* in 1/64: of a thread at a mutex, of all of them by the main stack */
static bool is_held;
static unsigned steps;    /* since the time passed */
static uint64_t trace;
static const void *main_bottom; /* of its stack, for AddressSanitizer */
static size_t main_size;

/* -- what goes wrong ------------------------------------------------------------------------------------------------ */

static void die(const char *what)
{
    static const char *const names[] = {"free", "ready", "locks", "waits", "joins", "sleeps", "ended"};
    (void)fprintf(stderr, "threads at %llu us: %s; number %zu runs\n", (unsigned long long)time_now, what,
                  (size_t)(current - threads));
    for (size_t i = 0; i < used; i++) {
        (void)fprintf(stderr, "  number %zu %s on %p until %lld\n", i, names[threads[i].state], threads[i].on,
                      (long long)threads[i].until);
    }
    abort();
}

/* -- changing stacks ------------------------------------------------------------------------------------------------ */

#ifdef IS_ADDRESS_SANITIZED
static void announce(void **fake, const void *bottom, size_t size)
{
    __sanitizer_start_switch_fiber(fake, bottom, size);
}

static void arrive(void *fake, const void **bottom, size_t *size)
{
    __sanitizer_finish_switch_fiber(fake, bottom, size);
}
#else
static void announce(void **fake, const void *bottom, size_t size)
{
    (void)fake, (void)bottom, (void)size;
}

static void arrive(void *fake, const void **bottom, size_t *size)
{
    (void)fake, (void)bottom, (void)size;
}
#endif

static void resume(thread *t)
{
    thread *main_stack = threads;
    main_stack->error = errno;
    current = t;
    errno = t->error;
    announce(&main_stack->fake, t->stack + GUARD_BYTES, STACK_BYTES);
    TF_ASSERT(swapcontext(&main_stack->context, &t->context) == 0);
    arrive(main_stack->fake, NULL, NULL);
    current = main_stack;
    errno = main_stack->error;
}

/* Back to the main stack, which resumes this one when its state allows. */
static void leave(thread *t)
{
    t->error = errno;
    announce(&t->fake, main_bottom, main_size);
    TF_ASSERT(swapcontext(&t->context, &threads[0].context) == 0);
    arrive(t->fake, &main_bottom, &main_size);
}

static void wake(state what, const void *on)
{
    for (size_t i = 0; i < used; i++) {
        if (threads[i].state == what && threads[i].on == on) {
            threads[i].state = STATE_READY;
        }
    }
}

static void begin(void)
{
    thread *t = current;
    arrive(NULL, &main_bottom, &main_size);
    t->result = t->run(t->argument);
    t->state = STATE_ENDED;
    wake(STATE_JOINING, t);
    announce(NULL, main_bottom, main_size); /* for good */
    (void)setcontext(&threads[0].context);
    TF_UNREACHABLE();
}

/* -- who runs ------------------------------------------------------------------------------------------------------- */

static bool is_timed(const thread *t)
{
    return t->state == STATE_WAITING || t->state == STATE_SLEEPING;
}

static tf_time soonest(void)
{
    tf_time at = TF_NEVER;
    for (size_t i = 1; i < used; i++) {
        at = threads[i].state == STATE_READY ? time_now : at;
        at = is_timed(&threads[i]) ? tf_time_min(at, threads[i].until) : at;
    }
    return is_timed(&threads[0]) ? tf_time_min(at, threads[0].until) : at;
}

static void pass_time(tf_time now)
{
    steps = now > time_now ? 0 : steps;
    time_now = tf_time_max(now, time_now);
    for (size_t i = 0; i < used; i++) {
        thread *t = &threads[i];
        if (is_timed(t) && t->until <= time_now) {
            t->timed_out = t->state == STATE_WAITING;
            t->state = STATE_READY;
        }
    }
}

/* Runs one that is ready, if need be after the time has passed to when the next one is. False: nobody is by then. */
static bool step(tf_time until)
{
    size_t ready[THREADS_MAX];
    size_t count = 0;
    for (size_t i = 1; i < used; i++) {
        if (threads[i].state == STATE_READY) {
            ready[count++] = i;
        }
    }
    if (count == 0) {
        tf_time next = soonest();
        bool comes = next != TF_NEVER && next <= until;
        if (comes) {
            pass_time(next);
        }
        return comes;
    }
    if (++steps > STEPS_MAX) {
        die("they go on without any time passing");
    }
    size_t picked = ready[tf_test_random_below(&randomness, count)];
    trace = (trace ^ time_now ^ picked << 56) * UINT64_C(0x9e3779b97f4a7c15);
    trace ^= trace >> 29;
    resume(&threads[picked]);
    return true;
}

/* The calling thread, whose state says for what, waits. */
static void wait_here(void)
{
    if (!threads_is_main()) {
        leave(current);
        return;
    }
    while (threads[0].state != STATE_READY) {
        if (!step(TF_NEVER)) {
            die("all wait for each other");
        }
    }
}

static bool is_preempted(void)
{
    return preempts != 0 && tf_test_random_chance(&randomness, preempts, 64);
}

/* At a mutex another thread may come in between. */
static void give_way(void)
{
    if (is_held || !is_preempted()) {
        return;
    }
    if (!threads_is_main()) {
        leave(current);
        return;
    }
    for (uint64_t i = tf_test_random_below(&randomness, 4); i > 0 && step(time_now); i--) {
    }
}

void threads_begin(uint64_t seed)
{
    threads_end();
    tf_test_random_init(&randomness, seed);
    preempts = (unsigned[]){0, 2, 12, 32}[tf_test_random_below(&randomness, 4)];
    time_now = 0;
    steps = 0;
    trace = 0;
    threads[0].state = STATE_READY;
    threads_take_calls(true);
}

void threads_end(void)
{
    for (size_t i = 1; i < used; i++) {
        if (threads[i].state != STATE_NONE) {
            die("a thread was not joined");
        }
        (void)munmap(threads[i].stack, GUARD_BYTES + STACK_BYTES);
        threads[i] = (thread){.state = STATE_NONE};
    }
    used = 1;
    threads_take_calls(false);
}

void threads_run(tf_time now)
{
    TF_ASSERT(threads_is_main());
    while (step(now) && !(time_now >= now && is_preempted())) {
    }
    pass_time(now);
}

tf_time threads_deadline(void)
{
    return soonest();
}

void threads_sleep(const void *owner, tf_time span)
{
    current->state = STATE_SLEEPING;
    current->on = owner;
    current->until = tf_time_add(time_now, span);
    wait_here();
}

void threads_hurry(const void *owner)
{
    wake(STATE_SLEEPING, owner);
}

bool threads_is_main(void)
{
    return current == threads;
}

void threads_hold(bool held)
{
    is_held = held;
}

tf_time threads_now(void)
{
    return time_now;
}

uint64_t threads_trace(void)
{
    return trace;
}

/* -- in place of the C library's: threads --------------------------------------------------------------------------- */

static void prepare(thread *t)
{
    if (t->stack == NULL) {
        t->stack = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        TF_ASSERT(t->stack != MAP_FAILED && mprotect(t->stack, GUARD_BYTES, PROT_NONE) == 0);
    }
    TF_ASSERT(getcontext(&t->context) == 0);
    t->context.uc_stack.ss_sp = t->stack + GUARD_BYTES;
    t->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&t->context, begin, 0);
}

int thread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    size_t place = 1;
    (void)attributes;
    while (place < used && threads[place].state != STATE_NONE) {
        place++;
    }
    if (place == THREADS_MAX) {
        return EAGAIN;
    }
    thread *t = &threads[place];
    used = place == used ? used + 1 : used;
    *t = (thread){.state = STATE_READY, .run = run, .argument = argument, .stack = t->stack};
    prepare(t);
    *out = (pthread_t)place;
    give_way();
    return 0;
}

int thread_join(pthread_t number, void **result)
{
    thread *t = &threads[number];
    while (t->state != STATE_ENDED) {
        current->state = STATE_JOINING;
        current->on = t;
        wait_here();
    }
    t->state = STATE_NONE;
    if (result != NULL) {
        *result = t->result;
    }
    return 0;
}

/* -- mutexes: in the first bytes of each is who holds it, 0: nobody ------------------------------------------------- */

static size_t holder_of(const pthread_mutex_t *mutex)
{
    size_t holder = 0;
    memcpy(&holder, mutex, sizeof(holder));
    return holder;
}

static void set_holder(pthread_mutex_t *mutex, size_t holder)
{
    memcpy(mutex, &holder, sizeof(holder));
}

static size_t self(void)
{
    return (size_t)(current - threads) + 1;
}

static void check_nobody(state what, const void *on, const char *complaint)
{
    for (size_t i = 0; i < used; i++) {
        if (threads[i].state == what && threads[i].on == on) {
            die(complaint);
        }
    }
}

static void lock(pthread_mutex_t *mutex)
{
    if (holder_of(mutex) == self()) {
        die("a mutex is locked twice");
    }
    while (holder_of(mutex) != 0) {
        current->state = STATE_LOCKING;
        current->on = mutex;
        wait_here();
    }
    set_holder(mutex, self());
}

static void unlock(pthread_mutex_t *mutex)
{
    if (holder_of(mutex) != self()) {
        die("a mutex is unlocked that another thread holds, or nobody");
    }
    set_holder(mutex, 0);
    wake(STATE_LOCKING, mutex);
}

int thread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    (void)attributes;
    memset(mutex, 0, sizeof(*mutex));
    return 0;
}

int thread_mutex_destroy(pthread_mutex_t *mutex)
{
    if (holder_of(mutex) != 0) {
        die("a mutex is destroyed that is held");
    }
    check_nobody(STATE_LOCKING, mutex, "a mutex is destroyed that is waited for");
    return 0;
}

int thread_mutex_lock(pthread_mutex_t *mutex)
{
    give_way();
    lock(mutex);
    return 0;
}

int thread_mutex_unlock(pthread_mutex_t *mutex)
{
    unlock(mutex);
    give_way();
    return 0;
}

/* -- conditions ----------------------------------------------------------------------------------------------------- */

static int wait_for(pthread_cond_t *condition, pthread_mutex_t *mutex, tf_time until)
{
    thread *t = current;
    unlock(mutex);
    t->state = STATE_WAITING;
    t->on = condition;
    t->until = until;
    t->timed_out = false;
    if (until <= time_now) { /* over before it began, but the others come first */
        t->timed_out = true;
        t->state = STATE_READY;
    }
    if (t->state != STATE_READY || !threads_is_main()) {
        wait_here();
    }
    lock(mutex);
    return t->timed_out ? ETIMEDOUT : 0;
}

int thread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes)
{
    (void)attributes;
    memset(condition, 0, sizeof(*condition));
    return 0;
}

int thread_cond_destroy(pthread_cond_t *condition)
{
    check_nobody(STATE_WAITING, condition, "a condition is destroyed that is waited for");
    return 0;
}

int thread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    return wait_for(condition, mutex, TF_NEVER);
}

int thread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    tf_time at = (tf_time)until->tv_sec * TF_SECOND + ((tf_time)until->tv_nsec + 999) / 1000;
    return wait_for(condition, mutex, at);
}

int thread_cond_signal(pthread_cond_t *condition)
{
    thread *waiting[THREADS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < used; i++) {
        if (threads[i].state == STATE_WAITING && threads[i].on == condition) {
            waiting[count++] = &threads[i];
        }
    }
    if (count > 0) {
        waiting[tf_test_random_below(&randomness, count)]->state = STATE_READY;
    }
    give_way();
    return 0;
}

int thread_cond_broadcast(pthread_cond_t *condition)
{
    wake(STATE_WAITING, condition);
    return 0;
}

/* -- time ----------------------------------------------------------------------------------------------------------- */

int thread_yield(void)
{
    threads_sleep(NULL, 20 + tf_test_random_below(&randomness, 280));
    return 0;
}

int thread_nanosleep(const struct timespec *span, struct timespec *left)
{
    (void)left;
    threads_sleep(NULL, (tf_time)span->tv_sec * TF_SECOND + ((tf_time)span->tv_nsec + 999) / 1000);
    return 0;
}

int thread_monotonic(struct timespec *out)
{
    *out = (struct timespec){.tv_sec = (time_t)(time_now / TF_SECOND), .tv_nsec = (long)(time_now % TF_SECOND) * 1000};
    return 0;
}
