#include "proto/session_internal.h"

#define QUEUE_MIN 4096u
#define QUEUE_KEPT ((size_t)1 << 20) /* an empty queue that is larger is given back; smaller ones when the session is idle */
#define LENGTH_LEN sizeof(uint32_t)

tf_err tf_scratch_reserve(tf_scratch *scratch, const tf_mem *mem, size_t capacity)
{
    if (capacity <= scratch->capacity) {
        return TF_OK;
    }
    size_t wanted = capacity > SIZE_MAX / 2 ? capacity : capacity + capacity / 2 + 8;
    if (wanted > SIZE_MAX / scratch->size) {
        return TF_ERR_NOMEM;
    }
    void *items = tf_alloc(mem, wanted * scratch->size);
    if (items == NULL) {
        return TF_ERR_NOMEM;
    }
    if (scratch->count > 0) {
        memcpy(items, scratch->items, scratch->count * scratch->size);
    }
    tf_free(mem, scratch->items, scratch->capacity * scratch->size);
    scratch->items = items;
    scratch->capacity = wanted;
    return TF_OK;
}

void tf_scratch_trim(tf_scratch *scratch, const tf_mem *mem, size_t bytes)
{
    scratch->count = 0;
    if (scratch->capacity * scratch->size > bytes) {
        tf_free(mem, scratch->items, scratch->capacity * scratch->size);
        scratch->items = NULL;
        scratch->capacity = 0;
    }
}

/* Moves what there is to the front of `data`, which may be the queue's own. */
static void move_to(tf_session_queue *q, uint8_t *data)
{
    if (q->tail > q->head) {
        memmove(data, q->data + q->head, q->tail - q->head);
    }
    q->tail -= q->head;
    q->head = 0;
}

tf_err tf_session_queue_reserve(tf_session_queue *q, const tf_mem *mem, size_t len)
{
    TF_ASSERT(len <= UINT32_MAX);
    size_t need = LENGTH_LEN + len;
    if (need <= q->capacity - q->tail) {
        return TF_OK;
    }
    size_t used = q->tail - q->head;
    if (used + need <= q->capacity && used <= q->head) { /* moves no more than was taken since the last move */
        move_to(q, q->data);
        return TF_OK;
    }
    size_t capacity = q->capacity < QUEUE_MIN ? QUEUE_MIN : q->capacity;
    while (capacity - used < need || used > capacity / 2) {
        if (capacity > SIZE_MAX / 2) {
            return TF_ERR_NOMEM;
        }
        capacity *= 2;
    }
    uint8_t *data = tf_alloc(mem, capacity);
    if (data == NULL) {
        return TF_ERR_NOMEM;
    }
    move_to(q, data);
    tf_free(mem, q->data, q->capacity);
    q->data = data;
    q->capacity = capacity;
    return TF_OK;
}

uint8_t *tf_session_queue_room(const tf_session_queue *q)
{
    return q->data + q->tail + LENGTH_LEN;
}

void tf_session_queue_push(tf_session_queue *q, size_t len)
{
    TF_ASSERT(LENGTH_LEN + len <= q->capacity - q->tail);
    uint32_t length = (uint32_t)len;
    memcpy(q->data + q->tail, &length, LENGTH_LEN);
    q->tail += LENGTH_LEN + len;
    q->items++;
    q->bytes += len;
}

bool tf_session_queue_peek(const tf_session_queue *q, tf_slice *out)
{
    if (q->items == 0) {
        return false;
    }
    uint32_t length = 0;
    memcpy(&length, q->data + q->head, LENGTH_LEN);
    *out = tf_slice_of(q->data + q->head + LENGTH_LEN, length);
    return true;
}

void tf_session_queue_pop(tf_session_queue *q, const tf_mem *mem)
{
    tf_slice first;
    TF_ASSERT(tf_session_queue_peek(q, &first));
    q->head += LENGTH_LEN + first.len;
    q->items--;
    q->bytes -= first.len;
    if (q->items > 0) {
        return;
    }
    q->head = 0;
    q->tail = 0;
    if (q->capacity > QUEUE_KEPT) {
        tf_session_queue_clear(q, mem);
    }
}

void tf_session_queue_clear(tf_session_queue *q, const tf_mem *mem)
{
    tf_free(mem, q->data, q->capacity);
    *q = (tf_session_queue){0};
}
