/*
 * list.h - a doubly linked list whose links live in the items.
 *
 * A list is a ring with a head that holds no item. list_init() before use; a zeroed link is
 * "not in a list", so list_remove() of it is allowed and does nothing.
 */
#ifndef CAFKA_UTIL_LIST_H
#define CAFKA_UTIL_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

#define container_of(pointer, type, member) \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* The item that holds this link. */
#define list_item(link, type, member) container_of(link, type, member)

/* Walk all links; the current one may be removed. */
#define list_each(link, after, head) \
    for ((link) = (head)->next, (after) = (link)->next; (link) != (head); \
         (link) = (after), (after) = (link)->next)

static inline void list_init(struct list *head)
{
    head->next = head->prev = head;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head || !head->next;
}

static inline bool list_linked(const struct list *link)
{
    return link->next != NULL;
}

static inline void list_insert_after(struct list *place, struct list *link)
{
    link->prev = place;
    link->next = place->next;
    place->next->prev = link;
    place->next = link;
}

static inline void list_push_front(struct list *head, struct list *link)
{
    list_insert_after(head, link);
}

static inline void list_push_back(struct list *head, struct list *link)
{
    list_insert_after(head->prev, link);
}

static inline void list_remove(struct list *link)
{
    if (!link->next)
        return;
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->next = link->prev = NULL;
}

static inline struct list *list_first(const struct list *head) /* NULL when empty */
{
    return list_empty(head) ? NULL : head->next;
}

static inline struct list *list_last(const struct list *head)
{
    return list_empty(head) ? NULL : head->prev;
}

static inline struct list *list_pop_front(struct list *head)
{
    struct list *link = list_first(head);
    if (link)
        list_remove(link);
    return link;
}

/* Move all items of `from` behind those of `to`; `from` is empty afterwards. */
static inline void list_splice_back(struct list *to, struct list *from)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

#endif
