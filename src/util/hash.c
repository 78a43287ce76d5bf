/*
 * hash.c - see hash.h.
 */
#include "util/hash.h"

#include <string.h>

uint32_t hash_bytes(const void *data, size_t size)
{
    const uint8_t *p = data;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    h ^= h >> 32;
    h *= 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32);
}

int32_t hash_murmur2(const void *data, size_t size)
{
    const uint32_t m = 0x5bd1e995;
    const uint8_t *p = data;
    uint32_t h = 0x9747b28cu ^ (uint32_t)size;
    for (; size >= 4; size -= 4, p += 4) {
        uint32_t k;
        memcpy(&k, p, 4); /* little endian, as the algorithm wants */
        k *= m;
        k ^= k >> 24;
        k *= m;
        h *= m;
        h ^= k;
    }
    if (size) {
        if (size == 3)
            h ^= (uint32_t)p[2] << 16;
        if (size >= 2)
            h ^= (uint32_t)p[1] << 8;
        h ^= p[0];
        h *= m;
    }
    h ^= h >> 13;
    h *= m;
    h ^= h >> 15;
    return (int32_t)h;
}

/* The next code point; a byte that begins no valid sequence is U+FFFD, as Java decodes it. */
static uint32_t next_code_point(const uint8_t **p, const uint8_t *end)
{
    uint32_t c = *(*p)++;
    int more = c < 0x80 ? 0 : c >= 0xf0 && c < 0xf8 ? 3 : c >= 0xe0 ? 2 : c >= 0xc2 ? 1 : -1;
    if (more == 0)
        return c;
    if (more < 0 || c >= 0xf8 || end - *p < more)
        return 0xfffd;
    c &= 0x3fu >> more;
    for (int i = 0; i < more; i++) {
        if (((*p)[i] & 0xc0) != 0x80)
            return 0xfffd;
        c = c << 6 | ((*p)[i] & 0x3fu);
    }
    *p += more;
    return c;
}

int32_t hash_java_string(const char *utf8, size_t size)
{
    const uint8_t *p = (const uint8_t *)utf8, *end = p + size;
    uint32_t h = 0;
    while (p < end) {
        uint32_t c = next_code_point(&p, end);
        if (c >= 0x10000) {
            c -= 0x10000;
            h = 31 * h + (0xd800 + (c >> 10));
            c = 0xdc00 + (c & 0x3ff);
        }
        h = 31 * h + c;
    }
    return (int32_t)h;
}
