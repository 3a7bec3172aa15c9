/* Threads of the product as coroutines on one thread, in virtual time, in an order that a seed decides. A program that
 * links this has these in place of the C library's between threads_begin and threads_end, in all objects that are linked
 * statically (the linker's --wrap): pthread_create, _join, _mutex_*, _cond_*, sched_yield, nanosleep, clock_gettime of
 * CLOCK_MONOTONIC. A coroutine runs until it waits (a condition, a mutex that is held, a join, a sleep until a time), and
 * now and then at a mutex, as the seed decides; then the next runnable one is picked by the seed. The main stack is a
 * thread, too: where it waits, the others run, and time passes, until it need not wait any more; at its mutexes they may
 * run a little, in no time.
 *
 * A thread that yields is taken to look again after some tens of microseconds. Fibers are announced to AddressSanitizer.
 * A deadlock (all wait, none for a time), a mutex that is unlocked by another thread than it was locked by, or destroyed
 * while it is held or a condition while it is waited for, and a thread that goes on and on without time passing end the
 * program, and it is said who waits where. */
#ifndef TF_TESTS_SIM_NODES_THREADS_H
#define TF_TESTS_SIM_NODES_THREADS_H

#include "proto/types.h"

/* Before the first thread; all must be joined (or none made) before it is called again. The time is 0. */
void threads_begin(uint64_t seed);
/* When all are joined: gives back the memory. */
void threads_end(void);

/* Runs what is runnable until every coroutine waits for something later than `now`, which becomes the time, unless it is
 * later already, since the main stack has waited. As the seed decides it may end before that with some that are still to run
 * at that time: they were slower than the main stack. */
void threads_run(tf_time now);
/* When the next coroutine is to go on, the time for one that is to run; TF_NEVER: only when it is woken. */
tf_time threads_deadline(void);
/* The calling thread goes on after so long, or after threads_hurry of the same owner (NULL: of nobody). */
void threads_sleep(const void *owner, tf_time span);
void threads_hurry(const void *owner);
bool threads_is_main(void);
/* No other thread comes in between until it is false again, unless the calling one has to wait. */
void threads_hold(bool held);
tf_time threads_now(void);
uint64_t threads_trace(void);

#endif
