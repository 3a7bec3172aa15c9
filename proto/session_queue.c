#include "proto/session_internal.h"

#define QUEUE_MIN 4096u
#define QUEUE_KEPT                                                                                                     \
    ((size_t)1 << 20) /* an empty queue that is larger is given back; smaller ones when the session is idle */
#define HEAD_LEN sizeof(queue_head)
#define SHARE_ITEM (UINT64_C(1) << 40) /* of a share's count, above its bytes */

/* Before each message. */
typedef struct queue_head {
    uint32_t len;
    uint32_t share;
} queue_head;

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

void tf_session_queue_init(tf_session_queue *q, const tf_mem *mem, uint64_t hash_key)
{
    *q = (tf_session_queue){0};
    tf_map_init(&q->shares, mem, hash_key);
}

bool tf_session_queue_has_room(const tf_session_queue *q, uint32_t share)
{
    if (share == 0) {
        return q->own_items < TF_OUT_QUEUE_ITEMS && q->own_bytes < TF_OUT_QUEUE_BYTES;
    }
    uint64_t used = 0;
    bool is_crowded = q->tail - q->head - q->own_bytes >= TF_SHARES_BYTES; /* many send to one who takes nothing */
    return !tf_map_get(&q->shares, share, &used) ||
           (used / SHARE_ITEM < TF_SHARE_ITEMS &&
            used % SHARE_ITEM < (is_crowded ? TF_SHARE_BYTES_LEAST : TF_SHARE_BYTES));
}

static tf_err reserve_bytes(tf_session_queue *q, const tf_mem *mem, size_t len)
{
    TF_ASSERT(len <= UINT32_MAX);
    size_t need = HEAD_LEN + len;
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

tf_err tf_session_queue_reserve(tf_session_queue *q, const tf_mem *mem, size_t len, uint32_t share)
{
    tf_err err = share == 0 ? TF_OK : tf_map_reserve(&q->shares, 1);
    return err == TF_OK ? reserve_bytes(q, mem, len) : err;
}

uint8_t *tf_session_queue_room(const tf_session_queue *q)
{
    return q->data + q->tail + HEAD_LEN;
}

static void charge(tf_session_queue *q, const queue_head *head)
{
    q->items++;
    if (head->share == 0) {
        q->own_items++;
        q->own_bytes += head->len;
        return;
    }
    uint64_t used = 0;
    (void)tf_map_get(&q->shares, head->share, &used);
    TF_ASSERT(tf_map_put(&q->shares, head->share, used + SHARE_ITEM + head->len) == TF_OK);
}

static void give_back(tf_session_queue *q, const queue_head *head)
{
    q->items--;
    if (head->share == 0) {
        q->own_items--;
        q->own_bytes -= head->len;
        return;
    }
    uint64_t used = 0;
    TF_ASSERT(tf_map_get(&q->shares, head->share, &used));
    used -= SHARE_ITEM + head->len;
    if (used == 0) {
        (void)tf_map_remove(&q->shares, head->share);
    } else {
        TF_ASSERT(tf_map_put(&q->shares, head->share, used) == TF_OK);
    }
}

void tf_session_queue_push(tf_session_queue *q, size_t len, uint32_t share)
{
    TF_ASSERT(HEAD_LEN + len <= q->capacity - q->tail);
    queue_head head = {.len = (uint32_t)len, .share = share};
    memcpy(q->data + q->tail, &head, HEAD_LEN);
    q->tail += HEAD_LEN + len;
    charge(q, &head);
}

bool tf_session_queue_peek(const tf_session_queue *q, tf_slice *out)
{
    if (q->items == 0) {
        return false;
    }
    queue_head head;
    memcpy(&head, q->data + q->head, HEAD_LEN);
    *out = tf_slice_of(q->data + q->head + HEAD_LEN, head.len);
    return true;
}

static void release(tf_session_queue *q, const tf_mem *mem)
{
    tf_free(mem, q->data, q->capacity);
    q->data = NULL;
    q->capacity = 0;
    q->head = 0;
    q->tail = 0;
}

void tf_session_queue_pop(tf_session_queue *q, const tf_mem *mem)
{
    TF_ASSERT(q->items > 0);
    queue_head head;
    memcpy(&head, q->data + q->head, HEAD_LEN);
    q->head += HEAD_LEN + head.len;
    give_back(q, &head);
    if (q->items > 0) {
        return;
    }
    q->head = 0;
    q->tail = 0;
    if (q->capacity > QUEUE_KEPT) {
        release(q, mem);
    }
}

void tf_session_queue_trim(tf_session_queue *q, const tf_mem *mem)
{
    if (q->items == 0) {
        release(q, mem);
        tf_map_trim(&q->shares);
    }
}

void tf_session_queue_clear(tf_session_queue *q, const tf_mem *mem)
{
    release(q, mem);
    tf_map_clear(&q->shares);
}
