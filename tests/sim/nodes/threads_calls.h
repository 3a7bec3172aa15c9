/* What threads.c has in place of the C library's calls, for threads_calls.c, which the linker puts before those. */
#ifndef TF_TESTS_SIM_NODES_THREADS_CALLS_H
#define TF_TESTS_SIM_NODES_THREADS_CALLS_H

#include <pthread.h>
#include <time.h>

#include "proto/types.h"

/* From now on the calls come here, or go to the C library. */
void threads_take_calls(bool on);

int thread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int thread_join(pthread_t number, void **result);
int thread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int thread_mutex_destroy(pthread_mutex_t *mutex);
int thread_mutex_lock(pthread_mutex_t *mutex);
int thread_mutex_unlock(pthread_mutex_t *mutex);
int thread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes);
int thread_cond_destroy(pthread_cond_t *condition);
int thread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int thread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until);
int thread_cond_signal(pthread_cond_t *condition);
int thread_cond_broadcast(pthread_cond_t *condition);
int thread_yield(void);
int thread_nanosleep(const struct timespec *span, struct timespec *left);
int thread_monotonic(struct timespec *out);

#endif
