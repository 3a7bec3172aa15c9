/* The alphabets of names that travel: client ids (S2), names of cursors and channels. Pure. Any thread. */
#ifndef TF_NODE_NAME_H
#define TF_NODE_NAME_H

#include "proto/limits.h"
#include "proto/types.h"

/* 1 to TF_CLIENT_ID_MAX bytes of A-Z a-z 0-9 . _ : ~ - */
bool tf_client_id_is_valid(tf_slice id);
/* Of a durable subscription (S10): 1 to TF_CURSOR_NAME_MAX bytes of the same */
bool tf_cursor_name_is_valid(tf_slice name);
/* 1 to TF_CHANNEL_NAME_MAX bytes of the same and of / */
bool tf_channel_name_is_valid(tf_slice name);

/* Lower-case hex of value, 16 digits, no terminator. */
void tf_hex16(uint64_t value, uint8_t out[16]);
/* Decimal digits of value, no terminator; their number. */
size_t tf_decimal(uint64_t value, uint8_t out[20]);

#endif
