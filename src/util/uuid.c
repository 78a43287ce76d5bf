/*
 * uuid.c - see uuid.h.
 */
#include "util/uuid.h"

#include "util/rng.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

struct uuid uuid_random(struct rng *r)
{
    struct uuid id;
    do {
        rng_fill(r, id.bytes, sizeof id.bytes);
        id.bytes[6] = (uint8_t)((id.bytes[6] & 0x0f) | 0x40);
        id.bytes[8] = (uint8_t)((id.bytes[8] & 0x3f) | 0x80);
    } while (id.bytes[0] >> 2 == 62); /* 62 is '-' */
    return id;
}

void uuid_text(struct uuid id, char out[UUID_TEXT_SIZE])
{
    uint32_t bits = 0;
    int have = 0, n = 0;
    for (int i = 0; i < 16; i++) {
        bits = bits << 8 | id.bytes[i];
        for (have += 8; have >= 6; have -= 6)
            out[n++] = alphabet[bits >> (have - 6) & 63];
    }
    out[n++] = alphabet[bits << (6 - have) & 63];
    out[n] = '\0';
}

bool uuid_parse(const char *text, size_t length, struct uuid *out)
{
    struct uuid id;
    uint32_t bits = 0;
    int have = 0, n = 0;
    if (length != UUID_TEXT_SIZE - 1)
        return false;
    for (size_t i = 0; i < length; i++) {
        const char *place = text[i] ? strchr(alphabet, text[i]) : NULL;
        if (!place)
            return false;
        bits = bits << 6 | (uint32_t)(place - alphabet);
        have += 6;
        if (have >= 8 && n < 16) {
            have -= 8;
            id.bytes[n++] = (uint8_t)(bits >> have);
        }
    }
    *out = id;
    return true;
}
