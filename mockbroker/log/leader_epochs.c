/*
 * leader_epochs.c - see leader_epochs.h.
 */
#include "mockbroker/log/leader_epochs.h"

#include <errno.h>

#include "util/alloc.h"

void leader_epochs_fini(struct leader_epochs *epochs)
{
    mem_free(epochs->entries);
    *epochs = (struct leader_epochs){0};
}

int leader_epochs_load(struct leader_epochs *epochs, const cafka_env *env, const char *path,
                       struct log words, cafka_error *err)
{
    cafka_file_info info;
    int rc = env->path_info(env, path, &info);
    if (rc == -ENOENT)
        return CAFKA_OK;
    if (rc < 0)
        return log_io_error(err, rc, "looking at", path);
    enum { LIMIT = 64 << 20 };
    char *text;
    size_t size;
    rc = env_read_file(env, path, LIMIT, &text, &size, err);
    if (rc)
        return rc;
    cafka_error damage = {0};
    rc = epoch_checkpoint_parse(bytes_of(text, size), &epochs->entries, &epochs->count, &damage);
    mem_free(text);
    if (rc == CAFKA_ERR_MEMORY)
        return error_set(err, rc, "%s", damage.message);
    if (rc) {
        log_warn(words, "%s is damaged (%s) and begins anew", path, damage.message);
        epochs->entries = NULL;
        epochs->count = 0;
    }
    epochs->capacity = epochs->count;
    return CAFKA_OK;
}

int leader_epochs_save(struct leader_epochs *epochs, const cafka_env *env, const char *path,
                       cafka_error *err)
{
    if (!epochs->changed)
        return CAFKA_OK;
    struct buffer text = {0};
    epoch_checkpoint_write(&text, epochs->entries, epochs->count);
    int rc = text.failed ? error_set(err, CAFKA_ERR_MEMORY, "no memory for %s", path)
                         : env_replace_file(env, path, text.data, text.size, err);
    buffer_fini(&text);
    if (!rc)
        epochs->changed = false;
    return rc;
}

int leader_epochs_assign(struct leader_epochs *epochs, int32_t epoch, int64_t offset,
                         cafka_error *err)
{
    if (epoch < 0)
        return CAFKA_OK;
    size_t kept = epochs->count;
    if (kept && epochs->entries[kept - 1].epoch == epoch &&
        epochs->entries[kept - 1].start_offset <= offset)
        return CAFKA_OK;
    while (kept && (epochs->entries[kept - 1].epoch >= epoch ||
                    epochs->entries[kept - 1].start_offset >= offset))
        kept--;
    if (kept == epochs->capacity) {
        size_t capacity = kept ? 2 * kept : 2;
        struct epoch_entry *entries = mem_recalloc(epochs->entries, capacity, sizeof *entries);
        if (!entries)
            return error_set(err, CAFKA_ERR_MEMORY, "no memory for %zu leader epochs", capacity);
        epochs->entries = entries;
        epochs->capacity = capacity;
    }
    epochs->entries[kept] = (struct epoch_entry){epoch, offset};
    epochs->count = kept + 1;
    epochs->changed = true;
    return CAFKA_OK;
}

void leader_epochs_truncate_end(struct leader_epochs *epochs, int64_t offset)
{
    while (epochs->count && epochs->entries[epochs->count - 1].start_offset >= offset) {
        epochs->count--;
        epochs->changed = true;
    }
}

void leader_epochs_truncate_start(struct leader_epochs *epochs, int64_t offset)
{
    size_t first = 0; /* the last entry that begins at or before the offset */
    while (first + 1 < epochs->count && epochs->entries[first + 1].start_offset <= offset)
        first++;
    if (!epochs->count || epochs->entries[first].start_offset > offset)
        return;
    if (!first && epochs->entries[0].start_offset == offset)
        return;
    memmove(epochs->entries, epochs->entries + first,
            (epochs->count - first) * sizeof *epochs->entries);
    epochs->count -= first;
    epochs->entries[0].start_offset = offset;
    epochs->changed = true;
}

void leader_epochs_clear(struct leader_epochs *epochs)
{
    epochs->changed |= epochs->count > 0;
    epochs->count = 0;
}

int32_t leader_epochs_latest(const struct leader_epochs *epochs)
{
    return epochs->count ? epochs->entries[epochs->count - 1].epoch : -1;
}

int32_t leader_epochs_of(const struct leader_epochs *epochs, int64_t offset)
{
    for (size_t i = epochs->count; i-- > 0;)
        if (epochs->entries[i].start_offset <= offset)
            return epochs->entries[i].epoch;
    return -1;
}

struct epoch_end leader_epochs_end(const struct leader_epochs *epochs, int32_t epoch,
                                   int64_t log_end_offset)
{
    struct epoch_end undefined = {-1, -1};
    if (epoch == -1 || !epochs->count) /* -2 and below are older than all, as in Kafka */
        return undefined;
    const struct epoch_entry *entries = epochs->entries;
    size_t last = epochs->count - 1;
    if (epoch == entries[last].epoch)
        return (struct epoch_end){epoch, log_end_offset};
    if (epoch > entries[last].epoch)
        return undefined;
    size_t above = 0;
    while (entries[above].epoch <= epoch)
        above++;
    if (!above) /* older than all that is known: nothing of it is left */
        return (struct epoch_end){epoch, entries[0].start_offset};
    return (struct epoch_end){entries[above - 1].epoch, entries[above].start_offset};
}
