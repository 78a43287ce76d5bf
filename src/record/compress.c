/*
 * compress.c - one face for the codecs; see compress.h. Their framing is in codec_*.c.
 */
#include "config.h" /* HAVE_SNAPPY */

#include "record/compress.h"

#include "record/codecs.h"
#include "util/alloc.h"

struct compressor {
    int codec;
    int magic;
    struct gzip_writer *gzip;
    struct snappy_writer *snappy;
    struct lz4_writer *lz4;
    struct zstd_writer *zstd;
};

struct decompressor {
    struct gzip_reader *gzip;
    struct zstd_reader *zstd;
};

static const struct {
    const char *name;
    struct codec_levels levels; /* all 0: it has none */
} codecs[CODEC_COUNT] = {
    [CODEC_NONE] = {"none", {0, 0, 0}},        [CODEC_GZIP] = {"gzip", {-1, 9, -1}},
    [CODEC_SNAPPY] = {"snappy", {0, 0, 0}},    [CODEC_LZ4] = {"lz4", {1, 17, 9}},
    [CODEC_ZSTD] = {"zstd", {-131072, 22, 3}},
};

const char *codec_name(int codec)
{
    return codec >= 0 && codec < CODEC_COUNT ? codecs[codec].name : "?";
}

int codec_find(struct str name)
{
    for (int codec = 0; codec < CODEC_COUNT; codec++)
        if (str_is(name, codecs[codec].name))
            return codec;
    return -1;
}

bool codec_available(int codec)
{
#ifndef HAVE_SNAPPY
    if (codec == CODEC_SNAPPY)
        return false;
#endif
    return codec >= 0 && codec < CODEC_COUNT;
}

bool codec_level_range(int codec, struct codec_levels *out)
{
    if (codec < 0 || codec >= CODEC_COUNT || codecs[codec].levels.least == codecs[codec].levels.most)
        return false;
    *out = codecs[codec].levels;
    return true;
}

/* --- what the codecs share --- */

size_t pieces_size(const struct iovec *pieces, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += pieces[i].iov_len;
    return size;
}

struct bytes piece_reader_next(struct piece_reader *r, size_t size, uint8_t *scratch)
{
    while (r->count && r->at == r->pieces->iov_len) {
        r->pieces++;
        r->count--;
        r->at = 0;
    }
    if (!r->count)
        return (struct bytes){NULL, 0};
    const uint8_t *first = (const uint8_t *)r->pieces->iov_base + r->at;
    size_t here = r->pieces->iov_len - r->at;
    if (here >= size || r->count == 1) {
        size_t taken = here < size ? here : size;
        r->at += taken;
        return bytes_of(first, taken);
    }
    size_t filled = 0;
    while (r->count && filled < size) {
        size_t take = r->pieces->iov_len - r->at;
        if (take > size - filled)
            take = size - filled;
        if (take)
            memcpy(scratch + filled, (const uint8_t *)r->pieces->iov_base + r->at, take);
        filled += take;
        r->at += take;
        if (r->at == r->pieces->iov_len) {
            r->pieces++;
            r->count--;
            r->at = 0;
        }
    }
    return bytes_of(scratch, filled);
}

static int too_much(cafka_error *err, size_t limit)
{
    return error_set(err, CAFKA_ERR_TOO_LARGE, "the batch inflates to more than %zu bytes", limit);
}

uint8_t *growth_reserve(struct growth *g, size_t want, size_t *got, int *rc, cafka_error *err)
{
    size_t used = g->out->size - g->start;
    size_t most = g->limit - used < SIZE_MAX - g->out->size ? g->limit - used + 1 : g->limit - used;
    *got = want < most ? want : most;
    uint8_t *place = buffer_reserve(g->out, *got);
    *rc = CAFKA_OK;
    if (!place) {
        g->out->failed = false; /* what is in it stays usable */
        *rc = error_set(err, CAFKA_ERR_MEMORY, "no memory to inflate a batch");
        return NULL;
    }
    if (g->out->capacity - g->out->size < most)
        most = g->out->capacity - g->out->size;
    *got = most; /* all that is there: the fewer calls the better */
    return place;
}

int growth_commit(struct growth *g, size_t size, cafka_error *err)
{
    size_t left = g->limit - (g->out->size - g->start);
    if (size > left) {
        g->out->size += left;
        return too_much(err, g->limit);
    }
    g->out->size += size;
    return CAFKA_OK;
}

void growth_drop_piece(struct growth *g, size_t from, size_t piece)
{
    g->out->size -= (g->out->size - from) % piece;
}

int compression_failed(cafka_error *err, const char *codec, const char *why)
{
    return error_set(err, CAFKA_ERR_COMPRESSION, "%s: %s", codec, why);
}

int output_full(cafka_error *err, const char *codec)
{
    return error_set(err, CAFKA_ERR_TOO_LARGE, "%s: the result does not fit", codec);
}

/* --- compressor --- */

int compressor_new(struct compressor **out, int codec, int level, cafka_error *err)
{
    if (codec < 0 || codec >= CODEC_COUNT)
        return error_set(err, CAFKA_ERR_ARGUMENT, "there is no codec %d", codec);
    if (!codec_available(codec))
        return error_set(err, CAFKA_ERR_UNSUPPORTED, "the %s codec is not built into this library",
                         codec_name(codec));
    struct codec_levels levels;
    if (codec_level_range(codec, &levels)) {
        if (level == CODEC_LEVEL_DEFAULT)
            level = levels.standard;
        if (level < levels.least || level > levels.most || (codec == CODEC_GZIP && level == 0))
            return error_set(err, CAFKA_ERR_ARGUMENT, "%s has no level %d, only %d to %d",
                             codec_name(codec), level, levels.least, levels.most);
    }
    struct compressor *c = mem_zalloc(sizeof *c);
    if (!c)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a compressor");
    c->codec = codec;
    c->magic = 2;
    int rc = CAFKA_OK;
    if (codec == CODEC_GZIP)
        rc = gzip_writer_new(&c->gzip, level, err);
    else if (codec == CODEC_SNAPPY)
        rc = snappy_writer_new(&c->snappy, err);
    else if (codec == CODEC_LZ4)
        rc = lz4_writer_new(&c->lz4, level, err);
    else if (codec == CODEC_ZSTD)
        rc = zstd_writer_new(&c->zstd, level, err);
    if (rc) {
        compressor_free(c);
        return rc;
    }
    *out = c;
    return CAFKA_OK;
}

void compressor_free(struct compressor *c)
{
    if (!c)
        return;
    gzip_writer_free(c->gzip);
    snappy_writer_free(c->snappy);
    lz4_writer_free(c->lz4);
    zstd_writer_free(c->zstd);
    mem_free(c);
}

void compressor_set_magic(struct compressor *c, int magic)
{
    c->magic = magic;
}

size_t compressor_bound(const struct compressor *c, size_t size)
{
    switch (c->codec) {
    case CODEC_GZIP: return gzip_bound(c->gzip, size);
    case CODEC_SNAPPY: return snappy_bound(size);
    case CODEC_LZ4: return lz4_bound(size);
    case CODEC_ZSTD: return zstd_bound(size);
    default: return size;
    }
}

static int copy_pieces(const struct iovec *pieces, size_t count, struct room *room, cafka_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].iov_len > room->left)
            return output_full(err, "none");
        if (pieces[i].iov_len)
            memcpy(room->at, pieces[i].iov_base, pieces[i].iov_len);
        room->at += pieces[i].iov_len;
        room->left -= pieces[i].iov_len;
    }
    return CAFKA_OK;
}

int compressor_run(struct compressor *c, const struct iovec *pieces, size_t count, uint8_t *out,
                   size_t capacity, size_t *size, cafka_error *err)
{
    struct room room = {out, capacity};
    int rc;
    switch (c->codec) {
    case CODEC_GZIP: rc = gzip_write(c->gzip, pieces, count, &room, err); break;
    case CODEC_SNAPPY: rc = snappy_write(c->snappy, pieces, count, &room, err); break;
    case CODEC_LZ4: rc = lz4_write(c->lz4, c->magic == 0, pieces, count, &room, err); break;
    case CODEC_ZSTD: rc = zstd_write(c->zstd, pieces, count, &room, err); break;
    default: rc = copy_pieces(pieces, count, &room, err); break;
    }
    if (!rc)
        *size = capacity - room.left;
    return rc;
}

/* --- decompressor --- */

int decompressor_new(struct decompressor **out, cafka_error *err)
{
    struct decompressor *d = mem_zalloc(sizeof *d);
    if (!d)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a decompressor");
    *out = d;
    return CAFKA_OK;
}

void decompressor_free(struct decompressor *d)
{
    if (!d)
        return;
    gzip_reader_free(d->gzip);
    zstd_reader_free(d->zstd);
    mem_free(d);
}

static int copy_plain(struct bytes in, struct growth *g, cafka_error *err)
{
    size_t got;
    int rc;
    uint8_t *place = growth_reserve(g, in.size, &got, &rc, err);
    if (!place)
        return rc;
    size_t take = in.size < got ? in.size : got;
    if (take)
        memcpy(place, in.data, take);
    return growth_commit(g, take, err);
}

int decompressor_run(struct decompressor *d, int codec, int magic, struct bytes in, size_t limit,
                     struct buffer *out, cafka_error *err)
{
    struct growth g = {out, out->size, limit};
    switch (codec) {
    case CODEC_NONE: return copy_plain(in, &g, err);
    case CODEC_GZIP: return gzip_read(&d->gzip, in, &g, err);
    case CODEC_SNAPPY: return snappy_read(in, &g, err);
    case CODEC_LZ4: return lz4_read(in, magic == 0, &g, err);
    case CODEC_ZSTD: return zstd_read(&d->zstd, in, &g, err);
    default: return error_set(err, CAFKA_ERR_COMPRESSION, "there is no codec %d", codec);
    }
}
