/*
 * fuzz.h - what a fuzz target offers; see README beside it.
 */
#ifndef CAFKA_TESTS_FUZZ_FUZZ_H
#define CAFKA_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's entry: takes any bytes, returns 0, aborts when a promise is broken. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
