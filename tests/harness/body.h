/* The bodies of a scenario's messages: whose it is, its number, its length, and bytes that follow from these, so that
 * what arrives can be counted and compared without any list of what was sent. In the byte order of the machine: all
 * ends run on one. Pure. */
#ifndef TF_TESTS_HARNESS_BODY_H
#define TF_TESTS_HARNESS_BODY_H

#include "tests/harness/scenario.h"

/* size: at least TF_SCENARIO_BODY_MIN, and the room in out. */
void tf_lab_body_write(uint8_t *out, size_t size, uint32_t flow, uint32_t number);
/* False: it is no such body, or was altered; flow and number are then what it says, or 0. */
bool tf_lab_body_read(tf_slice body, const tf_scenario *s, uint32_t *flow, uint32_t *number);

#endif
