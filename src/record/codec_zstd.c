/*
 * codec_zstd.c - zstd frames by libzstd. The content size is written if it is known and not relied
 * on when read; several frames and skippable ones are read.
 *
 * libzstd's contexts come from malloc: the calls that take an allocator are not part of its
 * stable interface.
 */
#include <zstd.h>
#include <zstd_errors.h>

#include "record/codecs.h"
#include "util/alloc.h"

struct zstd_writer {
    ZSTD_CCtx *context;
};

struct zstd_reader {
    ZSTD_DCtx *context;
};

static int zstd_failed(cafka_error *err, size_t code)
{
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for zstd");
    return compression_failed(err, "zstd", ZSTD_getErrorName(code));
}

int zstd_writer_new(struct zstd_writer **out, int level, cafka_error *err)
{
    struct zstd_writer *w = mem_zalloc(sizeof *w);
    if (w)
        w->context = ZSTD_createCCtx();
    if (!w || !w->context) {
        zstd_writer_free(w);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for zstd");
    }
    size_t code = ZSTD_CCtx_setParameter(w->context, ZSTD_c_compressionLevel, level);
    if (ZSTD_isError(code)) {
        zstd_writer_free(w);
        return zstd_failed(err, code);
    }
    *out = w;
    return CAFKA_OK;
}

void zstd_writer_free(struct zstd_writer *w)
{
    if (!w)
        return;
    ZSTD_freeCCtx(w->context);
    mem_free(w);
}

size_t zstd_bound(size_t size)
{
    return ZSTD_compressBound(size);
}

int zstd_write(struct zstd_writer *w, const struct iovec *pieces, size_t count, struct room *room,
               cafka_error *err)
{
    ZSTD_outBuffer out = {room->at, room->left, 0};
    size_t code = ZSTD_CCtx_reset(w->context, ZSTD_reset_session_only);
    if (!ZSTD_isError(code))
        code = ZSTD_CCtx_setPledgedSrcSize(w->context, pieces_size(pieces, count));
    for (size_t i = 0; i < count && !ZSTD_isError(code); i++) {
        ZSTD_inBuffer in = {pieces[i].iov_base, pieces[i].iov_len, 0};
        bool last = i + 1 == count;
        code = ZSTD_compressStream2(w->context, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        if (!ZSTD_isError(code) && (in.pos < in.size || (last && code > 0)))
            return output_full(err, "zstd");
    }
    if (!count && !ZSTD_isError(code)) {
        ZSTD_inBuffer in = {NULL, 0, 0};
        code = ZSTD_compressStream2(w->context, &out, &in, ZSTD_e_end);
        if (!ZSTD_isError(code) && code > 0)
            return output_full(err, "zstd");
    }
    if (ZSTD_isError(code))
        return zstd_failed(err, code);
    room->at += out.pos;
    room->left -= out.pos;
    return CAFKA_OK;
}

static int reader_new(struct zstd_reader **out, cafka_error *err)
{
    struct zstd_reader *r = mem_zalloc(sizeof *r);
    if (r)
        r->context = ZSTD_createDCtx();
    if (!r || !r->context) {
        zstd_reader_free(r);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for zstd");
    }
    *out = r;
    return CAFKA_OK;
}

void zstd_reader_free(struct zstd_reader *r)
{
    if (!r)
        return;
    ZSTD_freeDCtx(r->context);
    mem_free(r);
}

/* A first guess of the size: what the first frame says, unless that is hard to believe. */
static size_t guess_size(struct bytes in)
{
    unsigned long long said = ZSTD_getFrameContentSize(in.data, in.size);
    size_t trusted = in.size * 8 + 4096;
    return said < trusted ? (size_t)said + 1 : trusted; /* unknown and damaged are huge numbers */
}

int zstd_read(struct zstd_reader **reader, struct bytes data, struct growth *g, cafka_error *err)
{
    if (!data.size)
        return CAFKA_OK; /* no frame at all is nothing, to Kafka too */
    int rc = *reader ? CAFKA_OK : reader_new(reader, err);
    if (rc)
        return rc;
    ZSTD_DCtx *context = (*reader)->context;
    ZSTD_DCtx_reset(context, ZSTD_reset_session_only);
    ZSTD_inBuffer in = {data.data, data.size, 0};
    size_t want = guess_size(data);
    for (;;) {
        size_t got;
        uint8_t *place = growth_reserve(g, want, &got, &rc, err);
        if (!place)
            return rc;
        ZSTD_outBuffer out = {place, got, 0};
        size_t before = in.pos;
        size_t code = ZSTD_decompressStream(context, &out, &in);
        if (ZSTD_isError(code))
            return zstd_failed(err, code);
        rc = growth_commit(g, out.pos, err);
        if (rc)
            return rc;
        if (!code && in.pos == in.size)
            return CAFKA_OK; /* a frame ended with the data */
        if (in.pos == in.size && out.pos < out.size)
            return compression_failed(err, "zstd", "the data ends too early");
        if (in.pos == before && !out.pos)
            return compression_failed(err, "zstd", "the data makes no sense");
        want = 4096;
    }
}
