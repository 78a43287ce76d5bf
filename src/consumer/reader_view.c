/*
 * reader_view.c - records as the application sees them: their headers, and how to keep them for
 * longer than their fetch: by a reference to the memory that they lie in, or as a copy.
 *
 * Thread: any.
 */
#include <stdint.h>

#include <cafka/consumer.h>

#include "consumer/fetch_memory.h"
#include "record/record.h"
#include "util/alloc.h"

cafka_record_memory *cafka_record_ref(const cafka_record_view *view)
{
    if (!view || !view->memory)
        return NULL; /* a copy, or the place of an error */
    return (cafka_record_memory *)fetch_memory_ref((struct fetch_memory *)view->memory);
}

void cafka_record_unref(cafka_record_memory *memory)
{
    fetch_memory_unref((struct fetch_memory *)memory);
}

/* Bytes of a copy, one field behind the other. A null field stays null, an empty one empty. */
static const void *put(uint8_t **at, const void *data, size_t size)
{
    if (!data)
        return NULL;
    uint8_t *copy = *at;
    if (size)
        memcpy(copy, data, size);
    *at += size;
    return copy;
}

int cafka_record_copy(cafka_record_view **out, const cafka_record_view *view, cafka_error *err)
{
    error_clear(err);
    if (!out || !view)
        return error_set(err, CAFKA_ERR_ARGUMENT, "a copy of which record, and where to?");
    uint64_t topic_size = view->topic ? strlen(view->topic) + 1 : 0;
    uint64_t size = sizeof *view + topic_size + view->key_size + view->value_size +
                    view->headers_size + 1; /* a place for what is empty */
    cafka_record_view *copy = size > SIZE_MAX ? NULL : mem_alloc((size_t)size);
    if (!copy)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a copy of %llu bytes",
                         (unsigned long long)size);
    uint8_t *at = (uint8_t *)(copy + 1);
    *copy = *view;
    copy->memory = NULL;
    copy->key = put(&at, view->key, view->key_size);
    copy->value = put(&at, view->value, view->value_size);
    copy->headers = put(&at, view->headers, view->headers_size);
    copy->topic = put(&at, view->topic, (size_t)topic_size);
    *out = copy;
    return CAFKA_OK;
}

void cafka_record_copy_free(cafka_record_view *copy)
{
    mem_free(copy);
}

int cafka_record_view_header(const cafka_record_view *view, const char *name, size_t index,
                             cafka_header *out)
{
    size_t name_size = name ? strlen(name) : 0;
    struct header_iter it = {view->headers, (const uint8_t *)view->headers + view->headers_size,
                             INT32_MAX};
    struct record_header header;
    while (it.at < it.end && header_iter_next(&it, &header)) {
        if (name && (header.name.size != name_size || memcmp(header.name.data, name, name_size)))
            continue;
        if (index--)
            continue;
        *out = (cafka_header){header.name.data, header.name.size, header.value.data,
                              header.value.size};
        return CAFKA_OK;
    }
    return CAFKA_END;
}
