/* What the files of disk.h share. Not for others.
 *
 * disk.c         the calls of disk.h, each for the kind that the disk is
 * disk_slow.c    the store in memory
 * disk_real.c    the store on disk: its life, its threads, a look at what it has
 * disk_files.c   the table of files that it gets: operations that take time and fail */
#ifndef TF_TESTS_SIM_NODES_DISK_INTERNAL_H
#define TF_TESTS_SIM_NODES_DISK_INTERNAL_H

#include "tests/sim/nodes/disk.h"
#include "tests/support/lossy_files.h"

typedef struct disk_slow disk_slow;
typedef struct disk_real disk_real;

struct disk {
    disk_kind kind;
    const char *name;
    uint64_t seed;
    const tf_mem *mem;
    tf_test_random random;
    disk_weather weather;
    tf_time now; /* of the last call that said so */
    uint64_t trace;
    bool is_open;
    disk_slow *slow; /* of that kind, */
    disk_real *real; /* or of this one */
};

void disk_mix(disk *d, uint64_t value); /* into the trace */
/* Zeroed; ends the program when there is none. */
void *disk_get(size_t size);
/* Ends the program. */
void disk_die(const disk *d, const char *what);

typedef enum disk_end {
    DISK_STOP,
    DISK_KILL,
    DISK_CRASH
} disk_end;

/* -- disk_slow.c ---------------------------------------------------------------------------------------------------- */

void disk_slow_new(disk *d);
void disk_slow_free(disk *d);
void disk_slow_weather(disk *d);
bool disk_slow_start(disk *d);
tf_store disk_slow_store(disk *d);
void disk_slow_advance(disk *d);
tf_time disk_slow_deadline(const disk *d);
void disk_slow_end(disk *d);
/* The store that has all. */
tf_store disk_slow_inner(disk *d);

/* -- disk_real.c ---------------------------------------------------------------------------------------------------- */

void disk_real_new(disk *d);
void disk_real_free(disk *d);
void disk_real_weather(disk *d);
/* The power goes off at operation `cut`; UINT64_MAX: it does not. */
bool disk_real_start(disk *d, bool small, uint64_t cut);
tf_store disk_real_store(disk *d);
void disk_real_advance(disk *d);
tf_time disk_real_deadline(const disk *d);
void disk_real_end(disk *d, disk_end how);
/* first <= seq <= head */
bool disk_real_peek(disk *d, uint64_t channel, uint64_t seq, tf_stored *out);

/* -- disk_files.c --------------------------------------------------------------------------------------------------- */

/* The files below a store: what writes or syncs takes time and fails as the weather says, then goes to `lossy`. */
typedef struct disk_files {
    disk *disk;
    tf_lossy_files *lossy;
    tf_files inner;
    bool hurries; /* nothing takes time */
} disk_files;

void disk_files_init(disk_files *f, disk *d);
void disk_files_clear(disk_files *f);
tf_files disk_files_get(disk_files *f);

#endif
