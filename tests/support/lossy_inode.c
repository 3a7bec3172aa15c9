/* Files of the lossy disk apart from their names: what is read, what is on the disk, and what lies between. */
#include "tests/support/lossy_internal.h"

#include <stdlib.h>

#define BLOCK 512u

void tf_lossy_image_fill(tf_lossy_image *image, uint64_t end)
{
    if (end > image->room) {
        uint64_t room = end < 2 * image->room ? 2 * image->room : end;
        uint8_t *bytes = tf_lossy_get((size_t)room);
        if (image->room > 0) {
            memcpy(bytes, image->bytes, (size_t)image->room);
        }
        free(image->bytes);
        image->bytes = bytes;
        image->room = room;
    }
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Only where there are bytes. */
static void image_zero(tf_lossy_image *image, uint64_t from, uint64_t end)
{
    end = least(end, image->room);
    if (from < end) {
        memset(image->bytes + from, 0, (size_t)(end - from));
    }
}

static void image_resize(tf_lossy_image *image, uint64_t size)
{
    image_zero(image, size, image->size);
    image->size = size;
}

/* bytes NULL: zeros. */
static void image_write(tf_lossy_image *image, uint64_t offset, const uint8_t *bytes, uint64_t len)
{
    if (len > 0 && offset + len > image->size) {
        image->size = offset + len;
    }
    if (bytes == NULL) {
        image_zero(image, offset, offset + len);
    } else if (len > 0) {
        tf_lossy_image_fill(image, offset + len);
        memcpy(image->bytes + offset, bytes, (size_t)len);
    }
}

void tf_lossy_image_read(const tf_lossy_image *image, uint64_t offset, uint8_t *out, uint64_t len)
{
    uint64_t there = offset < image->room ? least(len, image->room - offset) : 0;
    if (there > 0) {
        memcpy(out, image->bytes + offset, (size_t)there);
    }
    if (there < len) {
        memset(out + there, 0, (size_t)(len - there));
    }
}

void tf_lossy_image_copy(tf_lossy_image *to, const tf_lossy_image *from)
{
    uint64_t filled = least(from->size, from->room);
    image_resize(to, 0);
    image_resize(to, from->size);
    tf_lossy_image_fill(to, filled);
    if (filled > 0) {
        memcpy(to->bytes, from->bytes, (size_t)filled);
    }
}

void tf_lossy_apply(tf_lossy_image *image, const tf_lossy_change *c)
{
    if (c->type == TF_LOSSY_SIZE) {
        image_resize(image, c->offset);
    } else {
        image_write(image, c->offset, c->bytes, c->len);
    }
}

static const uint8_t *part(const tf_lossy_change *c, uint64_t from)
{
    return c->bytes == NULL ? NULL : c->bytes + from;
}

/* A part of a write: cut at any byte, from either side, or any of its blocks. */
static void apply_torn(tf_lossy_image *image, const tf_lossy_change *c, tf_test_random *random)
{
    uint64_t cut = tf_test_random_below(random, c->len + 1);
    switch (tf_test_random_below(random, 3)) {
    case 0:
        image_write(image, c->offset, c->bytes, cut);
        return;
    case 1:
        image_write(image, c->offset + cut, part(c, cut), c->len - cut);
        return;
    default:
        break;
    }
    for (uint64_t at = 0; at < c->len;) {
        uint64_t end = (c->offset + at) / BLOCK * BLOCK + BLOCK - c->offset;
        end = end < c->len ? end : c->len;
        if (tf_test_random_chance(random, 1, 2)) {
            image_write(image, c->offset + at, part(c, at), end - at);
        }
        at = end;
    }
}

/* What nobody synced: lost, kept or torn. */
static void apply_perhaps(tf_lossy_image *image, const tf_lossy_change *c, tf_test_random *random)
{
    uint64_t choice = tf_test_random_below(random, 4);
    if (choice == 0) {
        return;
    }
    if (choice == 1 || c->type == TF_LOSSY_SIZE) {
        tf_lossy_apply(image, c);
    } else {
        apply_torn(image, c, random);
    }
}

/* Takes the changes one by one; NULL: there is none. The caller frees it. */
static tf_lossy_change *take_change(tf_lossy_inode *inode)
{
    tf_lossy_change *c = inode->changes;
    inode->changes = c == NULL ? NULL : c->next;
    inode->last_change = inode->changes == NULL ? NULL : inode->last_change;
    return c;
}

static void free_change(tf_lossy_change *c)
{
    free(c->bytes);
    free(c);
}

void tf_lossy_add_change(tf_lossy_inode *inode, tf_lossy_change_type type, uint64_t offset, tf_slice bytes)
{
    tf_lossy_change *c = tf_lossy_get(sizeof(*c));
    *c = (tf_lossy_change){.type = type, .offset = offset, .len = bytes.len};
    if (type == TF_LOSSY_BYTES) {
        c->bytes = tf_lossy_get(bytes.len);
        if (bytes.len > 0) {
            memcpy(c->bytes, bytes.data, bytes.len);
        }
    }
    if (inode->changes == NULL) {
        inode->changes = c;
    } else {
        inode->last_change->next = c;
    }
    inode->last_change = c;
    tf_lossy_apply(&inode->live, c);
}

void tf_lossy_settle_inode(tf_lossy_inode *inode, tf_test_random *random)
{
    for (tf_lossy_change *c = take_change(inode); c != NULL; c = take_change(inode)) {
        if (random == NULL) {
            tf_lossy_apply(&inode->disk, c);
        } else {
            apply_perhaps(&inode->disk, c, random);
        }
        free_change(c);
    }
}
