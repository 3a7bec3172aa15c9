#include "node/store/log_room.h"

#include <errno.h>

#define PAGE 4096u

static void lock(tf_log_room *room)
{
    int result = pthread_mutex_lock(&room->lock);
    TF_ASSERT(result == 0);
}

static void unlock(tf_log_room *room)
{
    int result = pthread_mutex_unlock(&room->lock);
    TF_ASSERT(result == 0);
}

static void lock_making(tf_log_room *room)
{
    int result = pthread_mutex_lock(&room->making);
    TF_ASSERT(result == 0);
}

static void unlock_making(tf_log_room *room)
{
    int result = pthread_mutex_unlock(&room->making);
    TF_ASSERT(result == 0);
}

/* -- the list, under the lock --------------------------------------------------------------------------------------- */

/* Room for so many segments more than there are. */
static bool reserve_entries(tf_log_room *room, size_t more)
{
    size_t wanted = room->count + room->taken + more;
    if (wanted <= room->capacity) {
        return true;
    }
    size_t capacity = room->capacity == 0 ? 16 : room->capacity * 2;
    capacity = capacity < wanted ? wanted : capacity;
    tf_log_segment *larger = tf_alloc(room->log.mem, capacity * sizeof(*larger));
    if (larger == NULL) {
        errno = ENOMEM;
        return false;
    }
    if (room->count > 0) {
        memcpy(larger, room->segments, room->count * sizeof(*larger));
    }
    tf_free(room->log.mem, room->segments, room->capacity * sizeof(*larger));
    room->segments = larger;
    room->capacity = capacity;
    return true;
}

/* What was taken comes back. */
static void put(tf_log_room *room, const tf_log_segment *segment)
{
    TF_ASSERT(room->taken > 0 && room->count < room->capacity);
    room->taken--;
    room->segments[room->count++] = *segment;
}

static void take_at(tf_log_room *room, size_t index, tf_log_segment *out)
{
    *out = room->segments[index];
    room->segments[index] = room->segments[--room->count];
    room->taken++;
}

static bool is_usual(const tf_log_room *room, const tf_log_segment *segment)
{
    return !segment->bad && segment->size == room->config.segment_size;
}

static uint64_t count_state(const tf_log_room *room, tf_log_segment_state state)
{
    uint64_t count = 0;
    for (size_t i = 0; i < room->count; i++) {
        count += room->segments[i].state == state ? 1 : 0;
    }
    return count;
}

/* A free segment: one to be recycled, or (usual false) one that can only be removed. */
static bool take_free(tf_log_room *room, bool usual, tf_log_segment *out)
{
    for (size_t i = 0; i < room->count; i++) {
        if (room->segments[i].state == TF_LOG_SEGMENT_FREE && is_usual(room, &room->segments[i]) == usual) {
            take_at(room, i, out);
            return true;
        }
    }
    return false;
}

static bool take_ready(tf_log_room *room, bool frees_room, tf_log_segment *out)
{
    if (count_state(room, TF_LOG_SEGMENT_READY) <= (frees_room ? 0 : room->config.reserve)) {
        return false;
    }
    for (size_t i = 0; i < room->count; i++) {
        if (room->segments[i].state == TF_LOG_SEGMENT_READY) {
            take_at(room, i, out);
            return true;
        }
    }
    return false;
}

static uint64_t count_unusual_free(const tf_log_room *room)
{
    uint64_t count = 0;
    for (size_t i = 0; i < room->count; i++) {
        const tf_log_segment *segment = &room->segments[i];
        count += segment->state == TF_LOG_SEGMENT_FREE && !is_usual(room, segment) ? 1 : 0;
    }
    return count;
}

/* -- making, under `making` ----------------------------------------------------------------------------------------- */

/* What is none of ours, or of a folder that is gone, is IO to the caller. */
static tf_err count_failure(tf_log_room *room, tf_err err)
{
    tf_log_room_failed(room, errno);
    return err == TF_ERR_FULL || err == TF_ERR_NOMEM ? err : TF_ERR_IO;
}

static tf_err remove_segment(tf_log_room *room, const tf_log_segment *segment)
{
    tf_file_name name;
    tf_log_file_name(segment->number, &name);
    tf_err err = room->log.files.table->remove(room->log.files.ctx, name.text);
    bool gone = err == TF_OK || err == TF_ERR_CLOSED;
    tf_log_segment left = *segment;
    left.state = TF_LOG_SEGMENT_FREE;
    left.bad = true;
    err = gone ? TF_OK : count_failure(room, err);
    lock(room);
    if (gone) {
        room->taken--;
        room->bytes -= segment->size;
    } else {
        put(room, &left);
    }
    unlock(room);
    return err;
}

/* Removes a free segment, one that cannot be recycled first. TF_ERR_AGAIN: there is none. */
static tf_err remove_one(tf_log_room *room)
{
    tf_log_segment segment;
    lock(room);
    bool found = take_free(room, false, &segment) || take_free(room, true, &segment);
    unlock(room);
    return found ? remove_segment(room, &segment) : TF_ERR_AGAIN;
}

static bool within_bound(tf_log_room *room, uint64_t size)
{
    lock(room);
    bool fits = room->bytes + size <= room->config.bytes_max;
    unlock(room);
    return fits;
}

static tf_err check_disk(tf_log_room *room, uint64_t size)
{
    uint64_t free_bytes = 0;
    tf_err err = room->log.files.table->free_bytes(room->log.files.ctx, &free_bytes);
    if (err != TF_OK) {
        return err;
    }
    if (free_bytes < size || free_bytes - size < room->config.keep_free) {
        errno = ENOSPC;
        return TF_ERR_FULL;
    }
    return TF_OK;
}

/* A new file, which counts as taken. */
static tf_err make_file(tf_log_room *room, uint64_t size, tf_log_segment *out)
{
    lock(room);
    bool entry = reserve_entries(room, 1);
    *out = (tf_log_segment){.number = room->next_number++, .size = size, .state = TF_LOG_SEGMENT_READY};
    room->taken += entry ? 1 : 0;
    unlock(room);
    if (!entry) {
        return TF_ERR_NOMEM;
    }
    tf_err err = check_disk(room, size);
    if (err == TF_OK) {
        err = tf_log_file_make(&room->log, out->number, size);
    }
    lock(room);
    room->taken -= err == TF_OK ? 0 : 1;
    room->bytes += err == TF_OK ? size : 0;
    unlock(room);
    return err;
}

/* The same, for which free files give way if need be. */
static tf_err make_new(tf_log_room *room, uint64_t size, tf_log_segment *out)
{
    tf_err err = TF_OK;
    while (err == TF_OK && !within_bound(room, size)) {
        err = remove_one(room);
    }
    if (err != TF_OK) {
        return err;
    }
    err = make_file(room, size, out);
    while (err == TF_ERR_FULL && remove_one(room) == TF_OK) {
        err = make_file(room, size, out);
    }
    return err == TF_OK ? TF_OK : count_failure(room, err);
}

static tf_err recycle(tf_log_room *room, tf_log_segment *segment)
{
    bool touched = false;
    lock(room);
    uint64_t number = room->next_number++;
    unlock(room);
    tf_err err = tf_log_file_renumber(&room->log, &segment->number, number, segment->size, &touched);
    segment->bad = err != TF_OK && touched;
    segment->state = err == TF_OK ? TF_LOG_SEGMENT_READY : TF_LOG_SEGMENT_FREE;
    return err == TF_OK ? TF_OK : count_failure(room, err);
}

/* One more ready segment. TF_ERR_AGAIN: the bound is met. */
static tf_err make_ready(tf_log_room *room)
{
    tf_log_segment segment;
    tf_err err = TF_OK;
    lock(room);
    bool found = take_free(room, true, &segment);
    unlock(room);
    if (found) {
        err = recycle(room, &segment);
    } else {
        err = make_new(room, room->config.segment_size, &segment);
    }
    if (found || err == TF_OK) {
        lock(room);
        put(room, &segment);
        unlock(room);
    }
    return err;
}

/* -- the writer ---------------------------------------------------------------------------------------------------- */

static bool is_reserve_whole(tf_log_room *room)
{
    lock(room);
    bool whole = count_state(room, TF_LOG_SEGMENT_READY) >= room->config.reserve;
    unlock(room);
    return whole;
}

tf_err tf_log_room_admit(tf_log_room *room, bool frees_room)
{
    tf_err err = TF_OK;
    if (frees_room || is_reserve_whole(room)) {
        return TF_OK;
    }
    lock_making(room);
    while (err == TF_OK && !is_reserve_whole(room)) {
        err = make_ready(room);
    }
    unlock_making(room);
    return err;
}

static bool try_take(tf_log_room *room, bool frees_room, tf_log_segment *out)
{
    lock(room);
    bool found = take_ready(room, frees_room, out);
    unlock(room);
    return found;
}

static tf_err take_usual(tf_log_room *room, bool frees_room, tf_log_segment *out)
{
    tf_err err = TF_OK;
    if (try_take(room, frees_room, out)) {
        return TF_OK;
    }
    lock_making(room);
    bool found = try_take(room, frees_room, out);
    while (err == TF_OK && !found) {
        err = make_ready(room);
        found = err == TF_OK && try_take(room, frees_room, out);
    }
    unlock_making(room);
    return err;
}

static tf_err take_own(tf_log_room *room, uint64_t span, tf_log_segment *out)
{
    uint64_t size = (TF_LOG_SEGMENT_HEADER + span + PAGE - 1) / PAGE * PAGE;
    lock_making(room);
    tf_err err = make_new(room, size, out);
    unlock_making(room);
    return err;
}

tf_err tf_log_room_take(tf_log_room *room, uint64_t span, bool frees_room, tf_log_segment *out, tf_file **file)
{
    bool usual = span <= room->config.segment_size - TF_LOG_SEGMENT_HEADER;
    tf_err err = usual ? take_usual(room, frees_room, out) : take_own(room, span, out);
    if (err != TF_OK) {
        return err;
    }
    err = tf_log_file_open(&room->log, out->number, TF_FILE_WRITE, file);
    if (err != TF_OK) {
        err = count_failure(room, err);
        lock(room);
        put(room, out);
        unlock(room);
    }
    return err;
}

void tf_log_room_keep(tf_log_room *room, const tf_log_segment *segment, tf_file *file)
{
    tf_log_segment kept = *segment;
    tf_files_close(&room->log.files, file);
    lock(room);
    kept.state = kept.last <= room->released ? TF_LOG_SEGMENT_FREE : TF_LOG_SEGMENT_USED;
    put(room, &kept);
    unlock(room);
}

void tf_log_room_drop(tf_log_room *room, const tf_log_segment *segment, tf_file *file)
{
    tf_files_close(&room->log.files, file);
    (void)remove_segment(room, segment); /* what cannot be removed now stays in the list, to be removed later */
}

/* -- room ---------------------------------------------------------------------------------------------------------- */

void tf_log_room_release(tf_log_room *room, uint64_t lsn)
{
    lock(room);
    room->released = lsn > room->released ? lsn : room->released;
    for (size_t i = 0; i < room->count; i++) {
        tf_log_segment *segment = &room->segments[i];
        if (segment->state == TF_LOG_SEGMENT_USED && segment->last <= room->released) {
            segment->state = TF_LOG_SEGMENT_FREE;
        }
    }
    unlock(room);
}

static bool lacks_ready(tf_log_room *room)
{
    return count_state(room, TF_LOG_SEGMENT_READY) < room->config.reserve + room->config.ahead;
}

static bool has_excess(tf_log_room *room)
{
    uint64_t unusual = count_unusual_free(room);
    return unusual > 0 || count_state(room, TF_LOG_SEGMENT_FREE) - unusual > room->config.spare;
}

bool tf_log_room_wants_prepare(tf_log_room *room)
{
    lock(room);
    bool wants = lacks_ready(room) || has_excess(room);
    unlock(room);
    return wants;
}

tf_err tf_log_room_prepare(tf_log_room *room)
{
    tf_err err = TF_OK;
    lock_making(room);
    lock(room);
    bool lacks = lacks_ready(room);
    bool excess = has_excess(room);
    unlock(room);
    if (lacks) {
        err = make_ready(room);
    } else if (excess) {
        err = remove_one(room);
    }
    unlock_making(room);
    return err;
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

void tf_log_room_failed(tf_log_room *room, int error)
{
    lock(room);
    room->failures++;
    room->error = error;
    unlock(room);
}

int tf_log_room_errno(tf_log_room *room)
{
    lock(room);
    int error = room->error;
    unlock(room);
    return error;
}

void tf_log_room_get_counts(tf_log_room *room, tf_log_room_counts *out)
{
    lock(room);
    *out = (tf_log_room_counts){.used = count_state(room, TF_LOG_SEGMENT_USED),
                                .ready = count_state(room, TF_LOG_SEGMENT_READY),
                                .free = count_state(room, TF_LOG_SEGMENT_FREE),
                                .bytes = room->bytes,
                                .failures = room->failures,
                                .released = room->released};
    unlock(room);
}

tf_err tf_log_room_init(tf_log_room *room, const tf_log_files *log, const tf_log_room_config *config)
{
    *room = (tf_log_room){.log = *log, .config = *config, .next_number = 1};
    if (pthread_mutex_init(&room->lock, NULL) != 0) {
        return TF_ERR_NOMEM;
    }
    if (pthread_mutex_init(&room->making, NULL) != 0) {
        (void)pthread_mutex_destroy(&room->lock);
        return TF_ERR_NOMEM;
    }
    return TF_OK;
}

void tf_log_room_clear(tf_log_room *room)
{
    tf_free(room->log.mem, room->segments, room->capacity * sizeof(*room->segments));
    (void)pthread_mutex_destroy(&room->making);
    (void)pthread_mutex_destroy(&room->lock);
}

tf_err tf_log_room_reserve(tf_log_room *room, size_t count)
{
    return reserve_entries(room, count) ? TF_OK : TF_ERR_NOMEM;
}

void tf_log_room_add(tf_log_room *room, const tf_log_segment *segment)
{
    room->taken++;
    put(room, segment);
    room->bytes += segment->size;
    room->next_number = segment->number >= room->next_number ? segment->number + 1 : room->next_number;
}

void tf_log_room_settle(tf_log_room *room, uint64_t number, uint64_t last)
{
    lock(room);
    for (size_t i = 0; i < room->count; i++) {
        tf_log_segment *segment = &room->segments[i];
        if (segment->number == number) {
            segment->last = last;
            segment->state = last <= room->released ? TF_LOG_SEGMENT_FREE : TF_LOG_SEGMENT_USED;
        }
    }
    unlock(room);
}
