/*
 * codecs.h - inside compress.c: what each codec's file offers to it.
 *
 * A compressing function gets the pieces and the room, a decompressing one appends to a buffer;
 * contexts are opaque pointers that are made at the first use and kept.
 */
#ifndef CAFKA_RECORD_CODECS_H
#define CAFKA_RECORD_CODECS_H

#include "record/compress.h"

/* The input of a compressor as one stream, given out in blocks of at most `block` bytes. */
struct piece_reader {
    const struct iovec *pieces;
    size_t count;
    size_t at; /* within the first of the pieces */
};

/*
 * The next block: up to `size` bytes, fewer only at the end. They lie in the input if they are
 * in one piece, else in `scratch`.
 */
struct bytes piece_reader_next(struct piece_reader *r, size_t size, uint8_t *scratch);
size_t pieces_size(const struct iovec *pieces, size_t count);

/* Where a compressor writes. */
struct room {
    uint8_t *at;
    size_t left;
};

/* Room in `out` for up to `want` more bytes of the `limit` that a decompressor may append. */
struct growth {
    struct buffer *out;
    size_t start; /* size of `out` before */
    size_t limit;
};
/*
 * At least one byte beyond the limit is given, so that "exactly the limit" and "more" differ; NULL
 * and CAFKA_ERR_MEMORY or CAFKA_ERR_TOO_LARGE in *rc when there is none.
 */
uint8_t *growth_reserve(struct growth *g, size_t want, size_t *got, int *rc, cafka_error *err);
/* `size` bytes were written there. CAFKA_ERR_TOO_LARGE past the limit; then the rest is dropped. */
int growth_commit(struct growth *g, size_t size, cafka_error *err);
/*
 * The data was found to be damaged. Kafka's reader takes `piece` bytes at a time from its codec and
 * loses the piece in which that fails; so that both find the same records before the damage, what
 * is behind the last whole piece is dropped here too. Pieces begin at `from`, a size of the buffer.
 */
void growth_drop_piece(struct growth *g, size_t from, size_t piece);

int compression_failed(cafka_error *err, const char *codec, const char *why);
int output_full(cafka_error *err, const char *codec);

struct gzip_writer;
int gzip_writer_new(struct gzip_writer **out, int level, cafka_error *err);
void gzip_writer_free(struct gzip_writer *w);
size_t gzip_bound(struct gzip_writer *w, size_t size);
int gzip_write(struct gzip_writer *w, const struct iovec *pieces, size_t count, struct room *room,
               cafka_error *err);
struct gzip_reader;
void gzip_reader_free(struct gzip_reader *r);
int gzip_read(struct gzip_reader **r, struct bytes in, struct growth *g, cafka_error *err);

struct snappy_writer;
int snappy_writer_new(struct snappy_writer **out, cafka_error *err);
void snappy_writer_free(struct snappy_writer *w);
size_t snappy_bound(size_t size);
int snappy_write(struct snappy_writer *w, const struct iovec *pieces, size_t count,
                 struct room *room, cafka_error *err);
int snappy_read(struct bytes in, struct growth *g, cafka_error *err);

struct lz4_writer;
int lz4_writer_new(struct lz4_writer **out, int level, cafka_error *err);
void lz4_writer_free(struct lz4_writer *w);
size_t lz4_bound(size_t size);
int lz4_write(struct lz4_writer *w, bool broken_checksum, const struct iovec *pieces, size_t count,
              struct room *room, cafka_error *err);
int lz4_read(struct bytes in, bool any_checksum, struct growth *g, cafka_error *err);

struct zstd_writer;
int zstd_writer_new(struct zstd_writer **out, int level, cafka_error *err);
void zstd_writer_free(struct zstd_writer *w);
size_t zstd_bound(size_t size);
int zstd_write(struct zstd_writer *w, const struct iovec *pieces, size_t count, struct room *room,
               cafka_error *err);
struct zstd_reader;
void zstd_reader_free(struct zstd_reader *r);
int zstd_read(struct zstd_reader **r, struct bytes in, struct growth *g, cafka_error *err);

#endif
