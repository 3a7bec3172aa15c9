/* Calls on sockets that fail on demand, in the program that links this: send, recv, sendmmsg, recvmmsg, accept4, socket and
 * connect of the product are these in place of the C library's. As long as nothing is asked for they do what those do.
 *
 *     for (uint64_t k = 0;; k++) {                             -- a fault loop
 *         tf_faulty_sockets_fail(TF_CALLS_ALL, k, ECONNRESET);
 *         ... use sockets ...
 *         if (tf_faulty_sockets_failures() == 0) break;        -- there are no k calls
 *     }
 *     tf_faulty_sockets_reset();
 *
 * One thread; no Check in here. */
#ifndef TF_TESTS_SUPPORT_FAULTY_SOCKETS_H
#define TF_TESTS_SUPPORT_FAULTY_SOCKETS_H

#include <stddef.h>
#include <stdint.h>

#define TF_CALLS_SEND 1u
#define TF_CALLS_RECV 2u
#define TF_CALLS_SENDMMSG 4u
#define TF_CALLS_RECVMMSG 8u
#define TF_CALLS_ACCEPT 16u
#define TF_CALLS_SOCKET 32u
#define TF_CALLS_CONNECT 64u
#define TF_CALLS_STREAM (TF_CALLS_SEND | TF_CALLS_RECV)
#define TF_CALLS_DATAGRAM (TF_CALLS_SENDMMSG | TF_CALLS_RECVMMSG)
#define TF_CALLS_ALL 127u

/* Of those calls the k-th from now (0: the next) does nothing and fails with that errno, once. */
void tf_faulty_sockets_fail(unsigned calls, uint64_t k, int error);
/* send and recv move so many bytes at most, sendmmsg and recvmmsg one message; 0: as many as they can. */
void tf_faulty_sockets_cut(size_t most);
/* How many calls failed since the last _fail. */
uint64_t tf_faulty_sockets_failures(void);
/* Nothing fails and nothing is cut any more. */
void tf_faulty_sockets_reset(void);

#endif
