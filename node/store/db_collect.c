/* Giving room back, in short transactions: first what makes room at once, then what needs some to make more. */
#include "node/store/db_internal.h"

typedef struct trimmed {
    uint64_t channel;
    uint64_t floor;
} trimmed;

/* A channel with blocks below its floor. TF_ERR_CLOSED: there is none. */
static tf_err find_trimmed(tf_db *db, trimmed *out)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_CHANNEL_TRIMMED, &stmt);
    if (err == TF_OK) {
        err = tf_db_row(db, stmt);
    }
    if (err == TF_OK) {
        *out = (trimmed){tf_db_u64(stmt, 0), tf_db_u64(stmt, 1)};
        tf_db_end(stmt);
    }
    return err;
}

static tf_err set_collected(tf_db *db, const trimmed *t)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_CHANNEL_COLLECTED, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, t->channel);
    tf_db_bind_u64(stmt, 2, t->floor);
    return tf_db_exec(db, stmt);
}

static tf_err drop(tf_db *db, const trimmed *t, uint64_t first, uint64_t data)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_DATA_DROP, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, data);
    err = tf_db_exec(db, stmt);
    if (err == TF_OK) {
        err = tf_db_use(db, TF_DB_BLOCK_DROP, &stmt);
    }
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, t->channel);
    tf_db_bind_u64(stmt, 2, first);
    return tf_db_exec(db, stmt);
}

/* Deletes the oldest block if it is wholly below the floor. TF_ERR_CLOSED: it is not. */
static tf_err drop_oldest(tf_db *db, const trimmed *t)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_BLOCK_AFTER, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, t->channel);
    tf_db_bind_u64(stmt, 2, 0);
    err = tf_db_row(db, stmt);
    if (err != TF_OK) {
        return err;
    }
    uint64_t first = tf_db_u64(stmt, 0);
    uint64_t end = first + tf_db_u64(stmt, 1);
    uint64_t data = tf_db_u64(stmt, 4);
    tf_db_end(stmt);
    return end <= t->floor ? drop(db, t, first, data) : TF_ERR_CLOSED;
}

static tf_err drop_blocks(tf_db *db, size_t *budget)
{
    trimmed t;
    tf_err err = TF_OK;
    while (err == TF_OK && *budget > 0) {
        err = find_trimmed(db, &t);
        tf_err dropped = err;
        while (dropped == TF_OK && *budget > 0) {
            dropped = drop_oldest(db, &t);
            (*budget)--;
        }
        if (err == TF_OK && dropped == TF_ERR_CLOSED) {
            err = set_collected(db, &t);
        } else if (err == TF_OK) {
            err = dropped;
        }
    }
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

static tf_err merge(tf_db *db, size_t *budget)
{
    tf_err err = tf_db_state_load(db);
    if (err == TF_OK) {
        err = tf_db_merge(db, true, budget);
    }
    return err == TF_OK ? tf_db_state_save(db) : err;
}

/* Free pages at the end of the file are cut off; TF_DB_SPARE_PAGES are kept for what comes. */
static tf_err cut_file(tf_db *db, size_t *budget)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_FREE_PAGES, &stmt);
    if (err == TF_OK) {
        err = tf_db_row(db, stmt);
    }
    if (err != TF_OK) {
        return err == TF_ERR_CLOSED ? TF_ERR_DAMAGED : err;
    }
    uint64_t free_pages = tf_db_u64(stmt, 0);
    tf_db_end(stmt);
    err = tf_db_use(db, TF_DB_VACUUM, &stmt);
    for (; err == TF_OK && *budget > 0 && free_pages > TF_DB_SPARE_PAGES; (*budget)--) {
        err = tf_db_exec(db, stmt);
        free_pages -= free_pages < TF_DB_VACUUM_PAGES ? free_pages : TF_DB_VACUUM_PAGES;
    }
    return err;
}

/* One transaction. */
static tf_err phase(tf_db *db, tf_err (*work)(tf_db *, size_t *), size_t *budget)
{
    tf_err err = tf_db_begin(db, true);
    return err == TF_OK ? tf_db_finish(db, work(db, budget)) : err;
}

tf_err tf_db_collect(tf_db *db, unsigned budget, bool *more)
{
    TF_ASSERT(!db->in_batch && !db->read_only);
    static tf_err (*const works[])(tf_db *, size_t *) = {drop_blocks, merge, cut_file};
    size_t left = budget;
    tf_err err = TF_OK;
    for (size_t i = 0; i < sizeof(works) / sizeof(*works) && err == TF_OK && left > 0; i++) {
        err = phase(db, works[i], &left);
    }
    *more = left == 0;
    return err;
}
