/* An intrusive doubly linked list with a head; a zeroed link is not in a list. Pure. */
#ifndef TF_NODE_LIST_H
#define TF_NODE_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tf_list_node {
    struct tf_list_node *prev;
    struct tf_list_node *next;
} tf_list_node;

/* head.next is the first, head.prev the last; both are the head itself when it is empty. */
typedef struct tf_list {
    tf_list_node head;
} tf_list;

/* The struct that `node` is the member `member` of. */
#define TF_CONTAINER(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

static inline void tf_list_init(tf_list *list)
{
    list->head.prev = &list->head;
    list->head.next = &list->head;
}

static inline bool tf_list_is_empty(const tf_list *list)
{
    return list->head.next == &list->head;
}

static inline bool tf_list_has(const tf_list_node *node)
{
    return node->next != NULL;
}

static inline void tf_list_insert(tf_list_node *before, tf_list_node *node)
{
    node->prev = before->prev;
    node->next = before;
    before->prev->next = node;
    before->prev = node;
}

static inline void tf_list_append(tf_list *list, tf_list_node *node)
{
    tf_list_insert(&list->head, node);
}

/* No-op for a node that is in no list. */
static inline void tf_list_remove(tf_list_node *node)
{
    if (node->next == NULL) {
        return;
    }
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->prev = NULL;
    node->next = NULL;
}

/* The first; NULL when it is empty. */
static inline tf_list_node *tf_list_first(const tf_list *list)
{
    return tf_list_is_empty(list) ? NULL : list->head.next;
}

#endif
