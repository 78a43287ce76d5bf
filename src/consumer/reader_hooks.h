/*
 * reader_hooks.h - what the application's own functions make of a record before it is handed out:
 * deserializers, then interceptors (<cafka/plugin.h>).
 *
 * Records are decoded when they are asked for, and so the functions run then, once for each record
 * that is handed out: an interceptor sees what the application sees, and nothing of what a fetch
 * that is freed early leaves for the next. They may call the consumer: whoever runs them looks
 * afterwards whether the cursor is still where it was.
 *
 * Owner:   the reader. Zeroed: there are none.
 * Thread:  the application's, one at a time.
 */
#ifndef CAFKA_CONSUMER_READER_HOOKS_H
#define CAFKA_CONSUMER_READER_HOOKS_H

#include "client/plugins.h"
#include "util/log.h"

struct reader_hooks {
    const struct plugins *plugins; /* NULL: none; outlives the consumer, and so the last call */
    struct log log;
    struct cafka_scratch *scratch;
    int *told; /* of each interceptor: the last failure that was logged; 0: it works */
};

/* Does nothing if there is nothing for a consumer among the plugins. Error: CAFKA_ERR_MEMORY. */
int reader_hooks_init(struct reader_hooks *hooks, const struct plugins *plugins, struct log log,
                      cafka_error *err);
void reader_hooks_fini(struct reader_hooks *hooks);

/* Memory that was handed out for the records of the last call is gone. */
void reader_hooks_begin(struct reader_hooks *hooks);
/*
 * CAFKA_OK, CAFKA_DROP, or CAFKA_ERR_SERIALIZATION with the reason in `why` (the record is then as
 * it was received).
 */
int reader_hooks_run(struct reader_hooks *hooks, cafka_record_view *view, cafka_error *why);

#endif
