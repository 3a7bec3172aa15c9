/* The segment files of a commit log that are not being written: those that are used (hold what is not released), ready
 * (to be taken by the writer) and free (to be recycled or removed), within a bound of bytes and with a reserve.
 *
 * Threads: as commit_log.h says for the functions of the same names; init, reserve, add and clear: one thread, alone. */
#ifndef TF_NODE_STORE_LOG_ROOM_H
#define TF_NODE_STORE_LOG_ROOM_H

#include <pthread.h>

#include "node/store/log_file.h"

typedef struct tf_log_room_config {
    uint64_t segment_size;
    uint64_t bytes_max;
    uint64_t reserve;
    uint64_t ahead;
    uint64_t spare;     /* free files that are kept */
    uint64_t keep_free; /* bytes of the disk that new files leave */
} tf_log_room_config;

typedef enum tf_log_segment_state {
    TF_LOG_SEGMENT_USED,
    TF_LOG_SEGMENT_READY,
    TF_LOG_SEGMENT_FREE
} tf_log_segment_state;

typedef struct tf_log_segment {
    uint64_t number;
    uint64_t size;
    uint64_t last; /* USED: the highest LSN in it */
    tf_log_segment_state state;
    bool bad; /* it is not to be written again, but removed when it is free */
} tf_log_segment;

/* Embed it; members are private. */
typedef struct tf_log_room {
    tf_log_files log;
    tf_log_room_config config;
    pthread_mutex_t lock;   /* over what follows; never held over a call on the disk */
    pthread_mutex_t making; /* held while one makes, recycles or removes a file; taken before lock */
    tf_log_segment *segments;
    size_t count;
    size_t capacity; /* count + taken at least: what was taken can always be given back */
    size_t taken;
    uint64_t bytes; /* of all files, the writer's included */
    uint64_t next_number;
    uint64_t released;
    uint64_t failures;
    int error;
} tf_log_room;

typedef struct tf_log_room_counts {
    uint64_t used;
    uint64_t ready;
    uint64_t free;
    uint64_t bytes;
    uint64_t failures;
    uint64_t released;
} tf_log_room_counts;

/* TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_log_room_init(tf_log_room *room, const tf_log_files *log, const tf_log_room_config *config);
void tf_log_room_clear(tf_log_room *room);

/* Room in the list for so many files more. TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_log_room_reserve(tf_log_room *room, size_t count);
/* A file that is there; there was room for it. */
void tf_log_room_add(tf_log_room *room, const tf_log_segment *segment);
/* Of a used segment that was added: the highest LSN in it is another. Any thread. */
void tf_log_room_settle(tf_log_room *room, uint64_t number, uint64_t last);

/* May something be appended now? Something that does not free room may, as long as the reserve is whole; it is made whole
 * if it is not. Errors as tf_commit_log_append has them. */
TF_MUST_CHECK tf_err tf_log_room_admit(tf_log_room *room, bool frees_room);

/* A ready segment with room for a group of `span` bytes (tf_log_group_span), open for writing. It is the caller's until
 * tf_log_room_keep or tf_log_room_drop. */
TF_MUST_CHECK tf_err tf_log_room_take(tf_log_room *room, uint64_t span, bool frees_room, tf_log_segment *out,
                                      tf_file **file);
/* Takes back a segment that was written; `file` is closed. */
void tf_log_room_keep(tf_log_room *room, const tf_log_segment *segment, tf_file *file);
/* Takes back one that holds nothing that counts, and removes its file. */
void tf_log_room_drop(tf_log_room *room, const tf_log_segment *segment, tf_file *file);

void tf_log_room_release(tf_log_room *room, uint64_t lsn);
bool tf_log_room_wants_prepare(tf_log_room *room);
TF_MUST_CHECK tf_err tf_log_room_prepare(tf_log_room *room);

/* Counts a failure and remembers its errno. */
void tf_log_room_failed(tf_log_room *room, int error);
int tf_log_room_errno(tf_log_room *room);
void tf_log_room_get_counts(tf_log_room *room, tf_log_room_counts *out);

#endif
