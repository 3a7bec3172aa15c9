#include "paths/link_mtu.h"

/* 1500, a PPPoE or IPv6 path of 1500, a tunnel of 1420, the least of IPv6; each less the headers. */
static const uint16_t sizes[] = {TF_PACKET_MAX, 1452, 1392, 1252};

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

void tf_link_mtu_init(tf_link_mtu *mtu)
{
    *mtu = (tf_link_mtu){0};
    tf_link_mtu_restart(mtu);
}

void tf_link_mtu_restart(tf_link_mtu *mtu)
{
    *mtu = (tf_link_mtu){.size = TF_PACKET_BASE, .limit = TF_PACKET_MAX, .falls = mtu->falls};
}

/* --- the search --- */

/* The largest size below `bound` that is worth a try; 0: none. */
static uint16_t next_size(const tf_link_mtu *mtu, size_t bound)
{
    for (size_t i = 0; i < SIZES; i++) {
        if (sizes[i] < bound && sizes[i] <= mtu->limit && sizes[i] > mtu->size) {
            return sizes[i];
        }
    }
    return 0;
}

static void try_size(tf_link_mtu *mtu, uint16_t size)
{
    mtu->candidate = size;
    mtu->tries = 0;
    mtu->flying = false;
}

static void end_search(tf_link_mtu *mtu, tf_time now)
{
    try_size(mtu, 0);
    mtu->search_at = mtu->size == TF_PACKET_MAX ? TF_NEVER : tf_time_add(now, TF_MTU_RAISE);
}

static void try_next(tf_link_mtu *mtu, tf_time now, size_t bound)
{
    uint16_t next = next_size(mtu, bound);
    if (next == 0) {
        end_search(mtu, now);
    } else {
        try_size(mtu, next);
    }
}

static void begin_search(tf_link_mtu *mtu, tf_time now)
{
    mtu->since = now;
    mtu->search_at = now; /* and until it ends, whatever comes between */
    try_next(mtu, now, SIZE_MAX);
}

void tf_link_mtu_used(tf_link_mtu *mtu, tf_time now)
{
    if (mtu->candidate == 0 && mtu->search_at <= now) {
        mtu->limit = TF_PACKET_MAX;
        begin_search(mtu, now);
    }
}

size_t tf_link_mtu_wanted(const tf_link_mtu *mtu)
{
    return mtu->flying ? 0 : mtu->candidate;
}

void tf_link_mtu_probed(tf_link_mtu *mtu, tf_time now, tf_time pto)
{
    TF_ASSERT(mtu->candidate != 0 && !mtu->flying);
    mtu->flying = true;
    mtu->asked = false;
    mtu->probe_at = now;
    mtu->ask_at = tf_time_add(now, pto);
}

static bool is_probe(const tf_link_mtu *mtu, size_t size, tf_time sent_at)
{
    return mtu->flying && size == mtu->candidate && sent_at == mtu->probe_at;
}

static bool is_base_test(const tf_link_mtu *mtu)
{
    return mtu->candidate == TF_PACKET_BASE;
}

static void probe_lost(tf_link_mtu *mtu, tf_time now)
{
    mtu->flying = false;
    mtu->tries++;
    if (!is_base_test(mtu) && mtu->tries >= TF_MTU_PROBES) {
        try_next(mtu, now, mtu->candidate);
    }
}

/* --- the black hole --- */

/* Packets above it are the large ones. */
static size_t bound(const tf_link_mtu *mtu)
{
    return mtu->size > TF_PACKET_BASE ? TF_PACKET_BASE : TF_MTU_SMALL;
}

static void forget_run(tf_link_mtu *mtu)
{
    mtu->run = 0;
}

void tf_link_mtu_acked(tf_link_mtu *mtu, tf_time now, size_t size, tf_time sent_at)
{
    if (size > bound(mtu)) {
        mtu->large_acked = tf_time_max(mtu->large_acked, sent_at);
        if (sent_at >= mtu->run_from) {
            forget_run(mtu);
        }
    } else {
        mtu->small_acked = tf_time_max(mtu->small_acked, sent_at);
    }
    if (is_base_test(mtu) && size > TF_MTU_SMALL && sent_at >= mtu->since) {
        try_size(mtu, 0);
    } else if (size > mtu->size && size <= mtu->limit && (is_probe(mtu, size, sent_at) || sent_at > mtu->since)) {
        mtu->size = (uint16_t)size;
        forget_run(mtu);
        end_search(mtu, now);
    }
}

void tf_link_mtu_lost(tf_link_mtu *mtu, tf_time now, size_t size, tf_time sent_at)
{
    if (is_probe(mtu, size, sent_at)) {
        probe_lost(mtu, now);
        return;
    }
    if (size > mtu->size) {
        return; /* one that was given up, or of a size that fell */
    }
    if (size <= bound(mtu)) {
        if (sent_at >= mtu->run_from) {
            forget_run(mtu);
        }
    } else if (sent_at > mtu->large_acked) {
        mtu->run_from = mtu->run == 0 ? sent_at : mtu->run_from;
        mtu->run++;
    }
}

static void fall(tf_link_mtu *mtu, tf_time now)
{
    mtu->falls += mtu->size > TF_PACKET_BASE ? 1 : 0;
    mtu->size = TF_PACKET_BASE;
    forget_run(mtu);
    begin_search(mtu, now);
}

tf_link_mtu_verdict tf_link_mtu_judge(tf_link_mtu *mtu, tf_time now)
{
    if (is_base_test(mtu)) {
        return mtu->tries >= TF_MTU_BASE_PROBES ? TF_LINK_MTU_TOO_SMALL : TF_LINK_MTU_FINE;
    }
    if (mtu->run < TF_MTU_LOST || mtu->small_acked < mtu->run_from) {
        return TF_LINK_MTU_FINE;
    }
    if (mtu->size > TF_PACKET_BASE) {
        fall(mtu, now);
    } else {
        forget_run(mtu);
        mtu->since = now;
        try_size(mtu, TF_PACKET_BASE);
    }
    return TF_LINK_MTU_FINE;
}

void tf_link_mtu_forget(tf_link_mtu *mtu)
{
    mtu->flying = false;
    forget_run(mtu);
}

void tf_link_mtu_refused(tf_link_mtu *mtu, tf_time now, size_t size)
{
    if (size <= TF_PACKET_BASE || size > mtu->limit) {
        return;
    }
    mtu->limit = (uint16_t)(size - 1);
    if (mtu->size >= size) {
        fall(mtu, now);
    } else if (mtu->candidate >= size) {
        try_next(mtu, now, size);
    }
}

/* --- time --- */

tf_time tf_link_mtu_deadline(const tf_link_mtu *mtu)
{
    return mtu->flying && !mtu->asked ? mtu->ask_at : TF_NEVER;
}

bool tf_link_mtu_tick(tf_link_mtu *mtu, tf_time now)
{
    if (tf_link_mtu_deadline(mtu) > now) {
        return false;
    }
    mtu->asked = true;
    return true;
}
