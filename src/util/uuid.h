/*
 * uuid.h - 16 bytes, most significant first; all zero means "none". Its text is Kafka's: 22
 * characters of URL-safe base64 without padding.
 */
#ifndef CAFKA_UTIL_UUID_H
#define CAFKA_UTIL_UUID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct rng;

struct uuid {
    uint8_t bytes[16];
};

#define UUID_TEXT_SIZE 23 /* with the terminating 0 */

static inline bool uuid_equal(struct uuid a, struct uuid b)
{
    return !memcmp(a.bytes, b.bytes, 16);
}

static inline bool uuid_is_zero(struct uuid a)
{
    return uuid_equal(a, (struct uuid){{0}});
}

/* Random, version 4; like Kafka's never 0 or 1, and its text never begins with '-'. */
struct uuid uuid_random(struct rng *r);
void uuid_text(struct uuid id, char out[UUID_TEXT_SIZE]);
bool uuid_parse(const char *text, size_t length, struct uuid *out);

#endif
