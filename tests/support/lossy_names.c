/* Names and folders of the lossy disk. */
#include "tests/support/lossy_internal.h"

#include <stdio.h>
#include <stdlib.h>

tf_lossy_name *tf_lossy_find_name(tf_lossy_names *names, const char *text)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->list[i].text.text, text) == 0) {
            return &names->list[i];
        }
    }
    return NULL;
}

static void set_name(tf_lossy_names *names, const char *text, tf_lossy_inode *inode)
{
    tf_lossy_name *found = tf_lossy_find_name(names, text);
    if (inode == NULL) {
        if (found != NULL) {
            *found = names->list[--names->count];
        }
        return;
    }
    if (found == NULL) {
        if (names->count == TF_LOSSY_NAMES_MAX || strlen(text) > TF_FILE_NAME_MAX) {
            abort();
        }
        found = &names->list[names->count++];
        memcpy(found->text.text, text, strlen(text) + 1);
    }
    found->inode = inode;
}

static void apply_name(tf_lossy_names *names, const tf_lossy_name_change *c)
{
    if (c->from.text[0] != '\0') {
        set_name(names, c->from.text, NULL);
    }
    set_name(names, c->to.text, c->inode);
}

void tf_lossy_add_name_change(tf_lossy_files *lossy, const char *to, tf_lossy_inode *inode, const char *from)
{
    tf_lossy_name_change *c = tf_lossy_get(sizeof(*c));
    c->inode = inode;
    (void)snprintf(c->to.text, sizeof(c->to.text), "%s", to);
    (void)snprintf(c->from.text, sizeof(c->from.text), "%s", from == NULL ? "" : from);
    tf_lossy_name_change **end = &lossy->name_changes;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = c;
    apply_name(&lossy->live, c);
}

size_t tf_lossy_folder_len(const char *text)
{
    const char *slash = strrchr(text, '/');
    return slash == NULL ? 0 : (size_t)(slash - text);
}

bool tf_lossy_is_in(const char *text, const char *folder)
{
    return tf_lossy_folder_len(text) == strlen(folder) && memcmp(text, folder, strlen(folder)) == 0;
}

tf_lossy_folder *tf_lossy_find_folder(tf_lossy_files *lossy, const char *text, size_t len)
{
    for (size_t i = 0; i < lossy->folder_count; i++) {
        tf_lossy_folder *f = &lossy->folders[i];
        if (strlen(f->text.text) == len && memcmp(f->text.text, text, len) == 0) {
            return f;
        }
    }
    return NULL;
}

void tf_lossy_settle_names(tf_lossy_files *lossy, const char *text, tf_test_random *random)
{
    tf_lossy_name_change **at = &lossy->name_changes;
    while (*at != NULL) {
        tf_lossy_name_change *c = *at;
        if (text != NULL && !tf_lossy_is_in(c->to.text, text)) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        if (random == NULL || tf_test_random_chance(random, 1, 2)) {
            apply_name(&lossy->disk, c);
        }
        free(c);
    }
}

void tf_lossy_lose_folders(tf_lossy_files *lossy, tf_test_random *random)
{
    for (size_t i = 0; i < lossy->folder_count;) {
        tf_lossy_folder *f = &lossy->folders[i];
        if (f->synced || tf_test_random_chance(random, 1, 2)) {
            f->synced = true;
            i++;
            continue;
        }
        for (size_t k = lossy->disk.count; k-- > 0;) {
            if (tf_lossy_is_in(lossy->disk.list[k].text.text, f->text.text)) {
                lossy->disk.list[k] = lossy->disk.list[--lossy->disk.count];
            }
        }
        *f = lossy->folders[--lossy->folder_count];
    }
}

uint64_t tf_lossy_bytes_used(const tf_lossy_files *lossy)
{
    uint64_t bytes = 0;
    for (const tf_lossy_inode *i = lossy->inodes; i != NULL; i = i->next) {
        bool named = i->opened > 0;
        for (size_t k = 0; !named && k < lossy->live.count; k++) {
            named = lossy->live.list[k].inode == i;
        }
        bytes += named ? i->live.size : 0;
    }
    return bytes;
}
