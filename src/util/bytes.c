/*
 * bytes.c - see bytes.h.
 */
#include "util/bytes.h"

#include <stdarg.h>
#include <stdio.h>

#include "util/alloc.h"

const uint8_t *uvarint_get(const uint8_t *p, const uint8_t *end, int max_bytes, uint64_t *out)
{
    uint64_t value = 0;
    for (int i = 0; i < max_bytes; i++) {
        if (p >= end)
            return NULL;
        uint8_t byte = *p++;
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (!(byte & 0x80)) {
            *out = max_bytes <= 5 ? (uint32_t)value : value;
            return p;
        }
    }
    return NULL;
}

void buffer_fini(struct buffer *b)
{
    mem_free(b->data);
    *b = (struct buffer){0};
}

uint8_t *buffer_reserve(struct buffer *b, size_t more)
{
    if (b->failed)
        return NULL;
    if (b->capacity - b->size >= more)
        return b->data ? b->data + b->size : buffer_reserve(b, more + 1);
    size_t need = b->size + more;
    size_t capacity = b->capacity ? b->capacity : 64;
    while (capacity < need && capacity <= SIZE_MAX / 2)
        capacity *= 2;
    uint8_t *data =
        need < more || capacity < need ? NULL : mem_realloc_for(MEM_BUFFERS, b->data, capacity);
    if (!data) {
        b->failed = true;
        return NULL;
    }
    b->data = data;
    b->capacity = capacity;
    return data + b->size;
}

uint8_t *buffer_extend(struct buffer *b, size_t more)
{
    uint8_t *place = buffer_reserve(b, more);
    if (place)
        b->size += more;
    return place;
}

void buffer_put(struct buffer *b, const void *data, size_t size)
{
    uint8_t *place = buffer_extend(b, size);
    if (place && size)
        memcpy(place, data, size);
}

void buffer_put_u8(struct buffer *b, uint8_t v)
{
    buffer_put(b, &v, 1);
}

void buffer_put_be16(struct buffer *b, uint16_t v)
{
    uint8_t *place = buffer_extend(b, 2);
    if (place)
        store_be16(place, v);
}

void buffer_put_be32(struct buffer *b, uint32_t v)
{
    uint8_t *place = buffer_extend(b, 4);
    if (place)
        store_be32(place, v);
}

void buffer_put_be64(struct buffer *b, uint64_t v)
{
    uint8_t *place = buffer_extend(b, 8);
    if (place)
        store_be64(place, v);
}

void buffer_put_uvarint(struct buffer *b, uint64_t v)
{
    uint8_t *place = buffer_reserve(b, 10);
    if (place)
        b->size += (size_t)(uvarint_put(place, v) - place);
}

void buffer_printf(struct buffer *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    uint8_t *place = length < 0 ? NULL : buffer_reserve(b, (size_t)length + 1);
    if (!place)
        return;
    va_start(args, format);
    vsnprintf((char *)place, (size_t)length + 1, format, args);
    va_end(args);
    b->size += (size_t)length;
}

char *buffer_string(struct buffer *b)
{
    uint8_t *place = buffer_reserve(b, 1);
    if (!place)
        return NULL;
    *place = 0;
    return (char *)b->data;
}

struct bytes reader_take(struct reader *r, size_t size)
{
    if (r->failed || reader_left(r) < size) {
        r->failed = true;
        return (struct bytes){NULL, 0};
    }
    struct bytes view = {r->at, size};
    r->at += size;
    return view;
}

uint8_t reader_u8(struct reader *r)
{
    struct bytes b = reader_take(r, 1);
    return b.data ? *b.data : 0;
}

uint16_t reader_be16(struct reader *r)
{
    struct bytes b = reader_take(r, 2);
    return b.data ? load_be16(b.data) : 0;
}

uint32_t reader_be32(struct reader *r)
{
    struct bytes b = reader_take(r, 4);
    return b.data ? load_be32(b.data) : 0;
}

uint64_t reader_be64(struct reader *r)
{
    struct bytes b = reader_take(r, 8);
    return b.data ? load_be64(b.data) : 0;
}

uint64_t reader_uvarint(struct reader *r, int max_bytes)
{
    uint64_t value = 0;
    const uint8_t *after = r->failed ? NULL : uvarint_get(r->at, r->end, max_bytes, &value);
    if (!after) {
        r->failed = true;
        return 0;
    }
    r->at = after;
    return value;
}

int32_t reader_varint(struct reader *r)
{
    return unzigzag32((uint32_t)reader_uvarint(r, 5));
}

int64_t reader_varlong(struct reader *r)
{
    return unzigzag64(reader_uvarint(r, 10));
}

void to_hex(const void *data, size_t size, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *p = data;
    for (size_t i = 0; i < size; i++) {
        out[2 * i] = digits[p[i] >> 4];
        out[2 * i + 1] = digits[p[i] & 15];
    }
    out[2 * size] = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

ptrdiff_t from_hex(const char *hex, size_t length, uint8_t *out)
{
    if (length % 2)
        return -1;
    for (size_t i = 0; i < length; i += 2) {
        int high = hex_digit(hex[i]), low = hex_digit(hex[i + 1]);
        if (high < 0 || low < 0)
            return -1;
        out[i / 2] = (uint8_t)(high << 4 | low);
    }
    return (ptrdiff_t)(length / 2);
}
