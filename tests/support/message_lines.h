/* Lines of a resolve or revoke as their own node says them: with no hops. */
#ifndef TF_TESTS_SUPPORT_MESSAGE_LINES_H
#define TF_TESTS_SUPPORT_MESSAGE_LINES_H

#include "proto/message.h"

static inline void tf_test_write_resolution(tf_writer *w, tf_ref promise, bool rejection, tf_slice data,
                                            const tf_ref *refs, size_t ref_count)
{
    TF_ASSERT(tf_ref_kind_of(promise) == TF_REF_PROMISE);
    tf_told told = {.ref = promise, .data = data, .refs = refs, .ref_count = ref_count};
    told.mode = rejection ? TF_RESOLUTION_REJECTION : TF_RESOLUTION_DATA;
    tf_message_write_told(w, &told);
}

static inline void tf_test_write_revocation(tf_writer *w, tf_ref object, bool hard, tf_slice data, const tf_ref *refs,
                                            size_t ref_count)
{
    TF_ASSERT(tf_ref_kind_of(object) == TF_REF_OBJECT);
    tf_told told = {.ref = object, .mode = hard ? 1 : 0, .data = data, .refs = refs, .ref_count = ref_count};
    tf_message_write_told(w, &told);
}

#endif
