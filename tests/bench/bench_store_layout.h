/* What the two files of bench_store_layout share. */
#ifndef TF_BENCH_STORE_LAYOUT_H
#define TF_BENCH_STORE_LAYOUT_H

#include <sqlite3.h>

#include "proto/types.h"

#define BATCH_MAX 16384u
#define ID_MAX 64u

typedef struct message {
    uint64_t channel;
    uint64_t origin;
    uint64_t seq;
    uint64_t hash;
    size_t id_len;
    char id[ID_MAX + 1];
} message;

/* Ends the program with that text unless the condition holds. */
void must(bool condition, const char *what);
sqlite3_stmt *prepare(const char *sql);
void run_once(sqlite3_stmt *stmt);
void bind(sqlite3_stmt *stmt, int at, uint64_t value);
void bind_blob(sqlite3_stmt *stmt, int at, const void *data, size_t len);
int by_hash(const void *a, const void *b); /* order of messages, for qsort */

/* The layout `runs`: the keys of a batch that is sorted by hash; is a key there? */
#define RUNS_SCHEMA "CREATE TABLE parts(id INTEGER PRIMARY KEY, data BLOB);"
void runs_prepare(void);
void runs_insert(const message *batch, size_t count);
bool runs_find(const message *m);

#endif
