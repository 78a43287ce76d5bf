/*
 * hash.h - hashes: one for tables, and those that Kafka's clients and coordinators agree on.
 */
#ifndef CAFKA_UTIL_HASH_H
#define CAFKA_UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>

uint32_t hash_bytes(const void *data,
                    size_t size); /* for tables; the same in every run (FNV-1a, mixed) */

/* 32-bit murmur2 with the seed and the sign rules of org.apache.kafka.common.utils.Utils. */
int32_t hash_murmur2(const void *data, size_t size);

/* java.lang.String.hashCode of UTF-8 text: 31*h + unit over UTF-16 units. */
int32_t hash_java_string(const char *utf8, size_t size);

#endif
