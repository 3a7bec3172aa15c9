/* References: the numbers by which two peers name an object or a promise (PROTOCOL.md "References").
 *
 * On the wire a reference is one unsigned integer: number * 4 + kind * 2 + side. side says who allocated the number:
 * 0 the dialler of the session, 1 its acceptor; it is the same integer in both directions. An object is allocated by the
 * side that exports it; a promise by the side that first mentions it (a result promise: the sender of the deliver).
 * Number 0 of kind object is each side's root object. Numbers are never reused in a session. */
#ifndef TF_PROTO_REF_H
#define TF_PROTO_REF_H

#include "proto/types.h"

typedef uint64_t tf_ref;

typedef enum tf_ref_kind { TF_REF_OBJECT = 0, TF_REF_PROMISE = 1 } tf_ref_kind;
typedef enum tf_side { TF_SIDE_DIALLER = 0, TF_SIDE_ACCEPTOR = 1 } tf_side;

static inline tf_ref tf_ref_make(uint64_t number, tf_ref_kind kind, tf_side side)
{
    return (number << 2) | ((uint64_t)kind << 1) | (uint64_t)side;
}

static inline tf_ref_kind tf_ref_kind_of(tf_ref ref)
{
    return (ref & 2u) != 0 ? TF_REF_PROMISE : TF_REF_OBJECT;
}

static inline tf_side tf_ref_side_of(tf_ref ref)
{
    return (ref & 1u) != 0 ? TF_SIDE_ACCEPTOR : TF_SIDE_DIALLER;
}

static inline uint64_t tf_ref_number(tf_ref ref)
{
    return ref >> 2;
}

static inline tf_side tf_side_other(tf_side side)
{
    return side == TF_SIDE_DIALLER ? TF_SIDE_ACCEPTOR : TF_SIDE_DIALLER;
}

/* A node's own name for an object or promise, the same towards every peer: one id space a node (D13), given out by
 * proto/refs. 0 is none. */
typedef uint64_t tf_local;
#define TF_LOCAL_NONE ((tf_local)0)

#endif
