/*
 * real_fork.c - which sockets belong to which poller, so that a forked child can close its copies.
 *
 * The child may trust nothing that another thread of the parent was changing: it walks this table,
 * whose words are written whole, and closes descriptors. Nothing is sent, and the poller's set is
 * left as it is, since that is the parent's too.
 */
#include "config.h"

#include <stdatomic.h>
#include <unistd.h>

#include "env/real.h"
#include "util/alloc.h"

enum { PAGE_SIZE_LOG2 = 10, PAGE_ITEMS = 1 << PAGE_SIZE_LOG2, PAGES = 1024 };

struct page {
    atomic_int pollers[PAGE_ITEMS]; /* of each descriptor: the poller's number + 1; 0: none */
};

static struct page first_page;
static _Atomic(struct page *) pages[PAGES] = {&first_page}; /* never freed */

static struct page *page_of(int fd)
{
    return atomic_load_explicit(&pages[fd >> PAGE_SIZE_LOG2], memory_order_acquire);
}

static struct page *make_page(int fd)
{
    struct page *none = NULL, *page = mem_zalloc(sizeof *page);
    if (page && !atomic_compare_exchange_strong(&pages[fd >> PAGE_SIZE_LOG2], &none, page)) {
        mem_free(page); /* another thread was first */
        page = none;
    }
    return page;
}

void real_socket_watched(int fd, int poller)
{
    if (fd < 0 || fd >= PAGES * PAGE_ITEMS)
        return;
    struct page *page = page_of(fd);
    if (!page)
        page = make_page(fd);
    if (page) /* else a child keeps it open until it ends */
        atomic_store_explicit(&page->pollers[fd & (PAGE_ITEMS - 1)], poller + 1,
                              memory_order_relaxed);
}

void real_socket_closed(int fd)
{
    struct page *page = fd >= 0 && fd < PAGES * PAGE_ITEMS ? page_of(fd) : NULL;
    if (page)
        atomic_store_explicit(&page->pollers[fd & (PAGE_ITEMS - 1)], 0, memory_order_relaxed);
}

void real_poller_abandon(const cafka_env *env, int poller)
{
    for (int p = 0; p < PAGES; p++) {
        struct page *page = page_of(p << PAGE_SIZE_LOG2);
        for (int i = 0; page && i < PAGE_ITEMS; i++)
            if (atomic_load_explicit(&page->pollers[i], memory_order_relaxed) == poller + 1) {
                atomic_store_explicit(&page->pollers[i], 0, memory_order_relaxed);
                close(p << PAGE_SIZE_LOG2 | i);
            }
    }
    real_poller_close(env, poller);
}
