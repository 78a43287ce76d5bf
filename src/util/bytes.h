/*
 * bytes.h - views, a growing buffer, and a reader that remembers its first failure.
 *
 * A view never owns. A NULL pointer is null, a pointer with size 0 is empty. Integers on the
 * wire are big endian.
 */
#ifndef CAFKA_UTIL_BYTES_H
#define CAFKA_UTIL_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cafka/error.h>

struct bytes {
    const uint8_t *data;
    size_t size;
};

static inline struct bytes bytes_of(const void *data, size_t size)
{
    return (struct bytes){data, size};
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.size == b.size &&
           (a.data == b.data || (a.data && b.data && (!a.size || !memcmp(a.data, b.data, a.size))));
}

/* Text by pointer and length, UTF-8, not terminated. NULL data is null. */
struct str {
    const char *data;
    size_t size;
};

static inline struct str str_of(const char *text) /* NULL gives null */
{
    return (struct str){text, text ? strlen(text) : 0};
}

static inline bool str_equal(struct str a, struct str b)
{
    return a.size == b.size &&
           (a.data == b.data || (a.data && b.data && (!a.size || !memcmp(a.data, b.data, a.size))));
}

static inline bool str_is(struct str a, const char *text)
{
    return str_equal(a, str_of(text));
}

/* For printf's "%.*s". */
#define STR_ARG(s) ((int)(s).size), ((s).data ? (s).data : "")

static inline uint16_t load_be16(const void *p)
{
    const uint8_t *b = p;
    return (uint16_t)(b[0] << 8 | b[1]);
}

static inline uint32_t load_be32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap32(v);
}

static inline uint64_t load_be64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap64(v);
}

static inline void store_be16(void *p, uint16_t v)
{
    uint8_t *b = p;
    b[0] = (uint8_t)(v >> 8);
    b[1] = (uint8_t)v;
}

static inline void store_be32(void *p, uint32_t v)
{
    v = __builtin_bswap32(v);
    memcpy(p, &v, sizeof v);
}

static inline void store_be64(void *p, uint64_t v)
{
    v = __builtin_bswap64(v);
    memcpy(p, &v, sizeof v);
}

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "big endian machines need plain loads and stores here"
#endif

static inline uint32_t zigzag32(int32_t n)
{
    return ((uint32_t)n << 1) ^ (uint32_t)(n >> 31);
}

static inline int32_t unzigzag32(uint32_t n)
{
    return (int32_t)((n >> 1) ^ (0 - (n & 1)));
}

static inline uint64_t zigzag64(int64_t n)
{
    return ((uint64_t)n << 1) ^ (uint64_t)(n >> 63);
}

static inline int64_t unzigzag64(uint64_t n)
{
    return (int64_t)((n >> 1) ^ (0 - (n & 1)));
}

/* Bytes that uvarint_put() writes for n: 1 to 10. */
static inline size_t uvarint_size(uint64_t n)
{
    if (__builtin_expect(n < 0x4000,
                         1)) /* lengths and deltas mostly are, and the rest costs a division */
        return n < 0x80 ? 1 : 2;
    return (size_t)(70 - __builtin_clzll(n)) / 7;
}

static inline uint8_t *uvarint_put(uint8_t *p, uint64_t n)
{
    while (n >= 0x80) {
        *p++ = (uint8_t)(n | 0x80);
        n >>= 7;
    }
    *p++ = (uint8_t)n;
    return p;
}

/*
 * Read a base-128 number of at most `max_bytes` bytes (5 for 32 bits, 10 for 64). Returns the
 * byte behind it, or NULL when the bytes end too early or the number is too long. Bits above
 * the width are dropped, as Kafka's ByteUtils does.
 */
const uint8_t *uvarint_get(const uint8_t *p, const uint8_t *end, int max_bytes, uint64_t *out);

/* A buffer that grows. Zeroed is empty. The first failure of memory sticks; ask at the end. */
struct buffer {
    uint8_t *data;
    size_t size, capacity;
    bool failed;
};

void buffer_fini(struct buffer *b);
/* Make room for `more` bytes behind size; returns where they go, or NULL. size does not change. */
uint8_t *buffer_reserve(struct buffer *b, size_t more);
/* Append `more` bytes to be filled by the caller; NULL on failure. */
uint8_t *buffer_extend(struct buffer *b, size_t more);
void buffer_put(struct buffer *b, const void *data, size_t size);
void buffer_put_u8(struct buffer *b, uint8_t v);
void buffer_put_be16(struct buffer *b, uint16_t v);
void buffer_put_be32(struct buffer *b, uint32_t v);
void buffer_put_be64(struct buffer *b, uint64_t v);
void buffer_put_uvarint(struct buffer *b, uint64_t v);
void buffer_printf(struct buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Forget the content, keep the memory. */
static inline void buffer_clear(struct buffer *b)
{
    b->size = 0;
    b->failed = false;
}
/* The content as a string: a terminating 0 is put behind it, not counted. NULL on failure. */
char *buffer_string(struct buffer *b);

/* Reads forward; after the first failure it yields zeros. Ask reader_failed() once, at the end. */
struct reader {
    const uint8_t *at, *end;
    bool failed;
};

static inline struct reader reader_of(const void *data, size_t size)
{
    const uint8_t *start = data;
    return (struct reader){start, size ? start + size : start,
                           false}; /* NULL + 0 is undefined in C */
}

static inline size_t reader_left(const struct reader *r)
{
    return (size_t)(r->end - r->at);
}

static inline bool reader_failed(const struct reader *r)
{
    return r->failed;
}

uint8_t reader_u8(struct reader *r);
uint16_t reader_be16(struct reader *r);
uint32_t reader_be32(struct reader *r);
uint64_t reader_be64(struct reader *r);
uint64_t reader_uvarint(struct reader *r, int max_bytes);
int32_t reader_varint(struct reader *r);  /* zigzag, at most 5 bytes */
int64_t reader_varlong(struct reader *r); /* zigzag, at most 10 bytes */
/* A view of the next `size` bytes, or {NULL, 0} and failed. */
struct bytes reader_take(struct reader *r, size_t size);

/* Lower case hex, both ways. from_hex: size of the result, or -1 on an odd length or a bad digit. */
void to_hex(const void *data, size_t size, char *out /* 2*size+1 */);
ptrdiff_t from_hex(const char *hex, size_t length, uint8_t *out /* length/2 */);

#endif
