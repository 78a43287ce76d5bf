/*
 * compress.h - the codecs of record batches: gzip, snappy, lz4, zstd, in Kafka's framing.
 *
 * Contexts are made once and reset for each batch, so that steady work allocates nothing. Both
 * directions are bounded: a compressor writes into the room it is given, a decompressor stops at
 * a limit, however little its input was (a bomb inflates to at most the limit).
 *
 * Owner:  a compressor or decompressor belongs to who made it.
 * Thread: any, one at a time each.
 */
#ifndef CAFKA_RECORD_COMPRESS_H
#define CAFKA_RECORD_COMPRESS_H

#include <stdbool.h>
#include <sys/uio.h>

#include "util/bytes.h"
#include "util/error.h"

enum codec { CODEC_NONE, CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4, CODEC_ZSTD, CODEC_COUNT };

/* "none", "gzip", "snappy", "lz4", "zstd"; "?" for an id that is no codec. */
const char *codec_name(int codec);
/* The codec of that name; -1 if there is none. */
int codec_find(struct str name);
/* False for snappy in a build without it. */
bool codec_available(int codec);

/* Levels: gzip -1 and 1..9, lz4 1..17, zstd -131072..22. False if the codec has none. */
struct codec_levels {
    int least, most, standard;
};
bool codec_level_range(int codec, struct codec_levels *out);

/* As level of compressor_new(): the codec's own default. */
#define CODEC_LEVEL_DEFAULT INT32_MIN

struct compressor;

/*
 * Errors: CAFKA_ERR_UNSUPPORTED  the codec is not built in
 *         CAFKA_ERR_ARGUMENT     no such codec or level
 *         CAFKA_ERR_MEMORY
 */
int compressor_new(struct compressor **out, int codec, int level, cafka_error *err);
void compressor_free(struct compressor *c); /* takes NULL */

/* Room that is always enough for `size` bytes of input. */
size_t compressor_bound(const struct compressor *c, size_t size);

/*
 * Compress the pieces, one after another, into at most `capacity` bytes at `out`; *size gets how
 * many it took. The same pieces give the same bytes each time.
 *
 * Errors: CAFKA_ERR_TOO_LARGE    it does not fit
 *         CAFKA_ERR_COMPRESSION  the library failed
 */
int compressor_run(struct compressor *c, const struct iovec *pieces, size_t count, uint8_t *out,
                   size_t capacity, size_t *size, cafka_error *err);

/* For magic 0: lz4 frames get the wrong header checksum that old clients expect (KAFKA-3160). */
void compressor_set_magic(struct compressor *c, int magic);

struct decompressor;

/* One for all codecs; the context of a codec is made when it is first needed. */
int decompressor_new(struct decompressor **out, cafka_error *err);
void decompressor_free(struct decompressor *d); /* takes NULL */

/*
 * Inflate `in`, appending to `out` at most `limit` bytes. `magic` is the batch's (0 skips the lz4
 * header checksum). On failure `out` holds what came out before. CODEC_NONE copies.
 *
 * Errors: CAFKA_ERR_COMPRESSION  the data is damaged, or the codec id unknown
 *         CAFKA_ERR_UNSUPPORTED  the codec is not built in
 *         CAFKA_ERR_TOO_LARGE    more than `limit` bytes
 *         CAFKA_ERR_MEMORY
 */
int decompressor_run(struct decompressor *d, int codec, int magic, struct bytes in, size_t limit,
                     struct buffer *out, cafka_error *err);

#endif
