/*
 * purgatory.c - see purgatory.h.
 */
#include "mockbroker/purgatory/purgatory.h"

#include <assert.h>

#include "util/alloc.h"

/* Watch lists without a watcher are kept for their key's next one, up to so many. */
enum { IDLE_LISTS_MAX = 1024, FREE_WATCHES_MAX = 4096 };

/* The watchers of one key. */
struct watch_list {
    struct purgatory_key key;
    struct list watches;
};

/* An operation on one key's list. */
struct purgatory_watch {
    struct list link;
    struct watch_list *list;
    struct delayed *op;
    struct purgatory_watch *next; /* of the same operation, or of the free ones */
};

struct purgatory {
    struct loop *loop;
    struct deferred_queue *queue;
    struct map lists; /* key -> struct watch_list */
    size_t idle_lists;
    struct purgatory_watch *free_watches;
    size_t free_count;
    struct list ops; /* all operations in it, by `all` */
    size_t count;
};

/* --- work after the current request --- */

static void run_slice(struct loop_slice *slice)
{
    deferred_run(container_of(slice, struct deferred_queue, slice));
}

void deferred_init(struct deferred_queue *q, struct loop *loop)
{
    *q = (struct deferred_queue){.loop = loop, .slice = {.run = run_slice}};
    list_init(&q->items);
}

void deferred_fini(struct deferred_queue *q)
{
    if (!q->items.next)
        return;
    while (list_pop_front(&q->items)) {
    }
    loop_slice_stop(q->loop, &q->slice);
}

void deferred_add(struct deferred_queue *q, struct deferred *d)
{
    if (list_linked(&d->link))
        return;
    list_push_back(&q->items, &d->link);
    if (!q->running)
        loop_slice_start(q->loop, &q->slice);
}

void deferred_run(struct deferred_queue *q)
{
    if (q->running)
        return;
    q->running = true;
    for (struct list *link; (link = list_pop_front(&q->items));) {
        struct deferred *d = list_item(link, struct deferred, link);
        d->run(d);
    }
    q->running = false;
    loop_slice_stop(q->loop, &q->slice);
}

/* --- watch lists --- */

static struct watch_list *find_list(const struct purgatory *p, const struct purgatory_key *key)
{
    return map_get(&p->lists, key, sizeof *key);
}

static struct watch_list *make_list(struct purgatory *p, const struct purgatory_key *key)
{
    struct watch_list *list = find_list(p, key);
    if (list)
        return list;
    list = mem_zalloc(sizeof *list);
    if (!list)
        return NULL;
    list->key = *key;
    list_init(&list->watches);
    if (!map_put(&p->lists, key, sizeof *key, list)) {
        mem_free(list);
        return NULL;
    }
    p->idle_lists++;
    return list;
}

static void drop_list_if_idle(struct purgatory *p, struct watch_list *list)
{
    if (!list_empty(&list->watches))
        return;
    if (p->idle_lists < IDLE_LISTS_MAX) {
        p->idle_lists++;
        return;
    }
    map_remove(&p->lists, &list->key, sizeof list->key);
    mem_free(list);
}

static struct purgatory_watch *take_watch(struct purgatory *p)
{
    struct purgatory_watch *watch = p->free_watches;
    if (!watch)
        return mem_zalloc(sizeof *watch);
    p->free_watches = watch->next;
    p->free_count--;
    return watch;
}

static void give_watch(struct purgatory *p, struct purgatory_watch *watch)
{
    if (p->free_count >= FREE_WATCHES_MAX) {
        mem_free(watch);
        return;
    }
    watch->next = p->free_watches;
    p->free_watches = watch;
    p->free_count++;
}

static int watch_key(struct purgatory *p, struct delayed *op, const struct purgatory_key *key,
                     cafka_error *err)
{
    struct watch_list *list = make_list(p, key);
    struct purgatory_watch *watch = list ? take_watch(p) : NULL;
    if (!watch)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for an operation that waits");
    if (list_empty(&list->watches))
        p->idle_lists--;
    *watch = (struct purgatory_watch){.list = list, .op = op, .next = op->watches};
    list_push_back(&list->watches, &watch->link);
    op->watches = watch;
    return CAFKA_OK;
}

/* Off every list, and no timer: nothing will happen to it any more. */
static void let_go(struct delayed *op)
{
    struct purgatory *p = op->purgatory;
    for (struct purgatory_watch *watch = op->watches, *next; watch; watch = next) {
        next = watch->next;
        list_remove(&watch->link);
        drop_list_if_idle(p, watch->list);
        give_watch(p, watch);
    }
    op->watches = NULL;
    loop_timer_cancel(p->loop, &op->timer);
}

/* --- operations --- */

static void leave(struct delayed *op)
{
    list_remove(&op->all);
    op->purgatory->count--;
    op->purgatory = NULL;
}

static void run_complete(struct deferred *deferred)
{
    struct delayed *op = container_of(deferred, struct delayed, deferred);
    leave(op);
    op->complete(op, op->expired);
}

static void completing(struct delayed *op, bool expired)
{
    if (list_linked(&op->deferred.link))
        return;
    let_go(op);
    op->expired = expired;
    deferred_add(op->purgatory->queue, &op->deferred);
}

static void expire(struct timer *timer)
{
    completing(container_of(timer, struct delayed, timer), true);
}

int purgatory_add(struct purgatory *p, struct delayed *op, int64_t timeout_ms,
                  const struct purgatory_key *keys, size_t key_count, cafka_error *err)
{
    assert(!op->purgatory && op->try && op->complete);
    op->watches = NULL;
    op->expired = false;
    op->timer = (struct timer){.fire = expire};
    op->deferred = (struct deferred){.run = run_complete};
    op->purgatory = p;
    list_push_back(&p->ops, &op->all);
    p->count++;
    if (op->try(op)) {
        completing(op, false);
        return CAFKA_OK;
    }
    if (timeout_ms <= 0) {
        completing(op, true);
        return CAFKA_OK;
    }
    for (size_t i = 0; i < key_count; i++) {
        int rc = watch_key(p, op, &keys[i], err);
        if (rc) {
            purgatory_cancel(op);
            return rc;
        }
    }
    if (op->try(op)) {
        completing(op, false);
        return CAFKA_OK;
    }
    loop_timer_set(p->loop, &op->timer, loop_now_ms(p->loop) + timeout_ms);
    return CAFKA_OK;
}

void purgatory_check(struct purgatory *p, const struct purgatory_key *key)
{
    struct watch_list *list = find_list(p, key);
    if (!list || list_empty(&list->watches))
        return;
    /* A try may not change the purgatory, but completing() takes several watches of this list. */
    struct list *link = list->watches.next;
    while (link != &list->watches) {
        struct delayed *op = list_item(link, struct purgatory_watch, link)->op;
        bool done = op->try(op);
        link = link->next;
        while (link != &list->watches && list_item(link, struct purgatory_watch, link)->op == op)
            link = link->next;
        if (!done)
            continue;
        bool last = link == &list->watches;
        completing(op, false);
        if (last)
            return; /* the list itself may be gone */
    }
}

void purgatory_complete(struct delayed *op)
{
    if (op->purgatory)
        completing(op, false);
}

void purgatory_cancel(struct delayed *op)
{
    if (!op->purgatory)
        return;
    let_go(op);
    list_remove(&op->deferred.link);
    leave(op);
}

size_t purgatory_count(const struct purgatory *p)
{
    return p->count;
}

int purgatory_new(struct purgatory **out, struct loop *loop, struct deferred_queue *queue,
                  cafka_error *err)
{
    struct purgatory *p = mem_zalloc(sizeof *p);
    if (!p)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a purgatory");
    p->loop = loop;
    p->queue = queue;
    list_init(&p->ops);
    *out = p;
    return CAFKA_OK;
}

void purgatory_free(struct purgatory *p)
{
    if (!p)
        return;
    for (struct list *link; (link = list_first(&p->ops));)
        purgatory_cancel(list_item(link, struct delayed, all));
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(&p->lists, &i));)
        mem_free(e->value);
    map_fini(&p->lists);
    for (struct purgatory_watch *watch = p->free_watches, *next; watch; watch = next) {
        next = watch->next;
        mem_free(watch);
    }
    mem_free(p);
}
