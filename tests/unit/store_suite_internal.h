/* What the files of the store suite share. Not for others. */
#ifndef TF_TESTS_UNIT_STORE_SUITE_INTERNAL_H
#define TF_TESTS_UNIT_STORE_SUITE_INTERNAL_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/support.h"
#include "tests/unit/store_suite.h"

#define SUITE_EPOCH 77u

extern const suite_store *suite_impl; /* set before any test runs */
extern tf_store suite_it;             /* the one that is tested */

/* The tests of each file; end with a NULL. */
const TTest *const *suite_tests_basic(void);
const TTest *const *suite_tests_keep(void);
const TTest *const *suite_tests_room(void);
const TTest *const *suite_tests_model(void);

void suite_begin(void);
void suite_end(void);
/* Where it is kept over the end of the process: it ends and begins again. */
void suite_again(void);
/* Outcomes are in the ops. */
void suite_submit(tf_store_op *ops, size_t count);
/* All are taken. */
void suite_submit_all(tf_store_op *ops, size_t count);
/* Waits while it answers LATER. */
tf_store_presence suite_read_at(uint64_t channel, uint64_t seq, tf_stored *out);
uint64_t suite_make_channel(const char *name);
tf_store_channel suite_find_channel(const char *name);
tf_node_id suite_node_of(uint8_t number);
/* At timestamp seq * 10. */
tf_store_op suite_append_op(uint64_t channel, uint64_t seq, uint8_t origin, tf_slice client_id, tf_slice body);
/* Client ids c-1, c-2 ... by seq. */
tf_slice suite_id_of(uint64_t seq, char buf[32]);
/* Of origin 1, under c-<seq>. */
tf_refusal suite_append_one(uint64_t channel, uint64_t seq, size_t body_len);
void suite_append_range(uint64_t channel, uint64_t from, uint64_t to, size_t body_len);
/* One op of that kind; value: its seq, time or epoch. */
void suite_change(tf_store_op_kind kind, uint64_t channel, uint64_t value);
tf_err suite_find_key(uint64_t channel, uint8_t origin, tf_slice client_id, tf_store_key *out);
/* The key of c-<seq> of origin 1: there, and of that message? */
bool suite_has_key(uint64_t channel, uint64_t seq);
/* Its epoch is SUITE_EPOCH + next, set at next * 7. */
tf_store_op suite_cursor_op(uint64_t channel, uint8_t owner, const char *name, uint64_t next);
/* Its position; 0: there is none. */
uint64_t suite_cursor_at(uint64_t channel, uint8_t owner, const char *name);
size_t suite_count_cursors(uint64_t channel);

#endif
