/*
 * plain_main.c - runs a fuzz target without libFuzzer: on the files named, or on random inputs.
 *
 * Without arguments (make check) it tries inputs of a fixed seed, many short and some long, with
 * small values more often than not, so that a target gets past its first bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "lib/files.h"
#include "util/rng.h"

enum { RANDOM_INPUTS = 100000, LONGEST = 2048 };

static int run_files(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        size_t size;
        char *data = file_read(argv[i], &size);
        if (!data) {
            fprintf(stderr, "%s can't be read\n", argv[i]);
            return 1;
        }
        (void)LLVMFuzzerTestOneInput((const uint8_t *)data, size);
        free(data);
    }
    return 0;
}

static void run_random(struct rng *rng)
{
    size_t size = (size_t)rng_below(rng, rng_below(rng, 16) ? 64 : LONGEST);
    uint8_t *data = malloc(size ? size : 1); /* of exactly this size, for sanitizers */
    if (!data)
        abort();
    rng_fill(rng, data, size);
    for (size_t i = 4; i < size; i++)
        if (rng_below(rng, 3))
            data[i] %= 4;
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return run_files(argc, argv);
    struct rng rng;
    rng_seed(&rng, 1);
    for (int i = 0; i < (getenv("CAFKA_UNDER_VALGRIND") ? RANDOM_INPUTS / 20 : RANDOM_INPUTS); i++)
        run_random(&rng);
    return 0;
}
