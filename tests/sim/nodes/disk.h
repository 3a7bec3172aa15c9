/* The store of a simulated relay and the disk below it, in virtual time. Two kinds, so that most seeds are cheap and some
 * are whole:
 *
 * DISK_SLOW   the store in memory behind slow_store.h: commits that take time, are refused, survive a crash or not
 * DISK_REAL   the store on disk (node/store/disk.h), the very objects that the relay runs, threads included, on
 *             lossy_files.h and SQLite on files_vfs.h. Its threads are coroutines that this file drives (threads.h): they
 *             run one at a time, what runs next follows from the seed, and what writes or syncs takes virtual time. What
 *             the caller's thread does to the disk (opening, looking up old keys) takes none.
 *
 * The host's turn: disk_advance(d, now) at each event, before the hub runs (the store's `poll` then has its news), and
 * again after the hub ran (what it submitted begins); disk_deadline says when it must come back. All disks of a world are
 * given the same times. Everything follows from the seed and the calls. Not thread-safe; one world at a time may have
 * DISK_REAL disks. What breaks a promise of the store ends the program with the disk's name and seed. */
#ifndef TF_TESTS_SIM_NODES_DISK_H
#define TF_TESTS_SIM_NODES_DISK_H

#include "node/store/store.h"
#include "tests/support/support.h"

typedef enum disk_kind {
    DISK_SLOW,
    DISK_REAL
} disk_kind;

/* What may go wrong from now on; all zero: an instant, healthy disk. Odds in 1/1000. */
typedef struct disk_weather {
    tf_time least;       /* a sync (SLOW: a commit) takes so long, */
    tf_time spread;      /* and up to so much more */
    unsigned refusals;   /* SLOW: of a group: after some ops the rest is refused */
    unsigned later;      /* SLOW: of a read that has to wait */
    unsigned errors;     /* REAL: of an operation that writes or syncs: EIO, once */
    unsigned unreadable; /* REAL: of an operation that reads, but for those of a start: EIO, once */
    bool full;           /* REAL: no room for anything more; SLOW: what takes room is refused as full */
    bool failing;        /* REAL: each write and sync fails (EIO); SLOW: everything is refused as unavailable */
} disk_weather;

typedef struct disk disk;

/* The disk, empty, without a store; `name` tells disks of a world apart (a VFS is registered under it), and must outlive
 * it. `mem` is for the store, which gives all of it back when it is closed (SLOW: when the disk is freed). Ends the
 * program when there is no memory. */
disk *disk_new(disk_kind kind, const char *name, uint64_t seed, const tf_mem *mem);
void disk_free(disk *d); /* no store is open; NULL is fine */

void disk_set_weather(disk *d, tf_time now, const disk_weather *weather);

/* Opens the store at `now`, with what the disk has. False: it cannot be opened in this weather (full, failing, errors):
 * later. With healthy weather it must be: else this ends the program with the reason, for it is a broken promise.
 * `small`: small bounds (segments, tail, cache) so that a short run meets them. */
bool disk_start(disk *d, tf_time now, bool small);
/* The same, but the power goes off at the n-th operation of it (from 0), if it gets there: then false, and what was not
 * synced is lost, kept or torn (SLOW: false). */
bool disk_start_cut(disk *d, tf_time now, bool small, uint64_t n);
bool disk_is_open(const disk *d);
tf_store disk_store(disk *d); /* while it is open */

void disk_advance(disk *d, tf_time now);
/* When disk_advance or the store's poll may have something to do; at most the time given to the last advance: at once.
 * TF_NEVER: nothing will happen by itself. */
tf_time disk_deadline(const disk *d);

/* Each ends the store, after which the host's groups are its own again; what was under way is stored or not.
 * In order: closed as the relay closes it, which takes no time. May leave what is not applied to the next start. */
void disk_stop(disk *d, tf_time now);
/* The process is gone: what it wrote is there. */
void disk_kill(disk *d, tf_time now);
/* The power is gone: what was not synced is lost, kept or torn. */
void disk_crash(disk *d, tf_time now);

/* What is stored, for checkers, while it is open, whatever waits for the applier or is only in the log: the message of
 * that seq, as a reader of the store would get it once it has all. False: it is not there (or trimmed, or not readable).
 * Valid until the next call of anything here or of the store. */
bool disk_peek(disk *d, tf_slice channel, uint64_t seq, tf_stored *out);
bool disk_peek_channel(disk *d, tf_slice channel, tf_store_channel *out);

/* A hash of what happened in it, for the trace. */
uint64_t disk_trace(const disk *d);

#endif
