/* Calls of threads and time go to threads.c between threads_begin and threads_end, else to the C library: a program may
 * have a simulator, and at other times real threads. */
#include "tests/sim/nodes/threads_calls.h"

#include <sched.h>

static bool is_virtual;

void threads_take_calls(bool on)
{
    is_virtual = on;
}

/* By the linker's names for what it puts in place of others (--wrap), and for the others. */
#define CALL(name, ours, condition, parameters, arguments)                                                             \
    int real_##name parameters __asm__("__real_" #name);                                                               \
    int wrap_##name parameters __asm__("__wrap_" #name);                                                               \
    int wrap_##name parameters                                                                                         \
    {                                                                                                                  \
        return is_virtual && (condition) ? (ours) : real_##name arguments;                                             \
    }

CALL(pthread_create, thread_create(out, attributes, run, argument), true,
     (pthread_t * out, const pthread_attr_t *attributes, void *(*run)(void *), void *argument),
     (out, attributes, run, argument))
CALL(pthread_join, thread_join(number, result), true, (pthread_t number, void **result), (number, result))
CALL(pthread_mutex_init, thread_mutex_init(mutex, attributes), true,
     (pthread_mutex_t * mutex, const pthread_mutexattr_t *attributes), (mutex, attributes))
CALL(pthread_mutex_destroy, thread_mutex_destroy(mutex), true, (pthread_mutex_t * mutex), (mutex))
CALL(pthread_mutex_lock, thread_mutex_lock(mutex), true, (pthread_mutex_t * mutex), (mutex))
CALL(pthread_mutex_unlock, thread_mutex_unlock(mutex), true, (pthread_mutex_t * mutex), (mutex))
CALL(pthread_cond_init, thread_cond_init(condition, attributes), true,
     (pthread_cond_t * condition, const pthread_condattr_t *attributes), (condition, attributes))
CALL(pthread_cond_destroy, thread_cond_destroy(condition), true, (pthread_cond_t * condition), (condition))
CALL(pthread_cond_wait, thread_cond_wait(condition, mutex), true, (pthread_cond_t * condition, pthread_mutex_t *mutex),
     (condition, mutex))
CALL(pthread_cond_timedwait, thread_cond_timedwait(condition, mutex, until), true,
     (pthread_cond_t * condition, pthread_mutex_t *mutex, const struct timespec *until), (condition, mutex, until))
CALL(pthread_cond_signal, thread_cond_signal(condition), true, (pthread_cond_t * condition), (condition))
CALL(pthread_cond_broadcast, thread_cond_broadcast(condition), true, (pthread_cond_t * condition), (condition))
CALL(sched_yield, thread_yield(), true, (void), ())
CALL(nanosleep, thread_nanosleep(span, left), true, (const struct timespec *span, struct timespec *left), (span, left))
CALL(clock_gettime, thread_monotonic(out), clock == CLOCK_MONOTONIC, (clockid_t clock, struct timespec *out),
     (clock, out))
