/*
 * config_value.h - one value against one row of the table: parse it, check it, spell it the table's way.
 *
 * Pure functions on text; nothing depends on the locale.
 */
#ifndef CAFKA_CLIENT_CONFIG_VALUE_H
#define CAFKA_CLIENT_CONFIG_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/config.h"

/* A whole number, blanks around it allowed. False: not one, or beyond 64 bits. */
bool parse_int64(const char *text, int64_t *out);
/* Digits with a fraction, "0.05"; no exponent. */
bool parse_decimal(const char *text, double *out);
bool parse_bool(const char *text, bool *out);
/*
 * ISO-8601 as java.time.Duration reads it: "P1D", "PT1H30M", "PT0.5S", "P-1DT25H", "-PT-1H". False also when
 * it is negative as a whole, or more than 64 bits of seconds. What is too long for ms is INT64_MAX.
 */
bool parse_duration_ms(const char *text, int64_t *out);
/* "host", "host:port", "[::1]:9092", "PLAINTEXT://host:port"; without a port it is 9092. */
bool parse_server(const char *text, size_t size, const char **host, size_t *host_size,
                  uint16_t *port);

/* Items of a list: text between commas without the blanks around it. False at the end. */
bool list_next(const char **at, const char **item, size_t *size);

/* Is a whole number within the range of a row? */
bool value_allowed(const struct property *property, const char *value);

/*
 * Check a value and give the text to be kept: *out is allocated. The message of a failure names
 * the property as `said`, the value (never a password's) and what would be allowed.
 */
int value_check(const struct property *property, const char *said, const char *value, char **out,
                cafka_error *err);

#endif
