#include "node/store/store.h"

#include <xxhash.h>

#include "node/name.h"

uint64_t tf_store_digest(tf_slice body)
{
    return XXH3_64bits(body.data, body.len);
}

size_t tf_stored_id(uint64_t epoch, uint64_t seq, uint8_t out[TF_ACTIVITY_ID_MAX])
{
    tf_hex16(epoch, out);
    out[16] = '-';
    return 17u + tf_decimal(seq, out + 17);
}

uint64_t tf_stored_bytes(const tf_stored *message)
{
    return (uint64_t)message->client_id.len + message->meta.len + message->body.len;
}
