/*
 * codec_gzip.c - RFC 1952 members by zlib. One is written; several are read, and what follows the
 * last of them is ignored, as Java's GZIPInputStream does.
 */
#include <string.h>
#include <zlib.h>

#include "record/codecs.h"
#include "util/alloc.h"

enum { GZIP_ONLY = 15 + 16, MEMORY_LEVEL = 8, MEMBER_MINIMUM = 18, READ_PIECE = 16384 };

struct gzip_writer {
    z_stream stream;
    bool ready;
};

struct gzip_reader {
    z_stream stream;
};

static voidpf zlib_alloc(voidpf opaque, uInt items, uInt size)
{
    (void)opaque;
    size_t bytes = (size_t)items * size;
    return size && bytes / size != items ? NULL : mem_zalloc_for(MEM_CODECS, bytes);
}

static void zlib_free(voidpf opaque, voidpf memory)
{
    (void)opaque;
    mem_free(memory);
}

int gzip_writer_new(struct gzip_writer **out, int level, cafka_error *err)
{
    struct gzip_writer *w = mem_zalloc(sizeof *w);
    if (!w)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for gzip");
    w->stream.zalloc = zlib_alloc;
    w->stream.zfree = zlib_free;
    if (deflateInit2(&w->stream, level, Z_DEFLATED, GZIP_ONLY, MEMORY_LEVEL, Z_DEFAULT_STRATEGY)) {
        mem_free(w);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for gzip");
    }
    w->ready = true;
    *out = w;
    return CAFKA_OK;
}

void gzip_writer_free(struct gzip_writer *w)
{
    if (!w)
        return;
    if (w->ready)
        (void)deflateEnd(&w->stream); /* unfinished data is no error here */
    mem_free(w);
}

size_t gzip_bound(struct gzip_writer *w, size_t size)
{
    return deflateBound(&w->stream, size) + MEMBER_MINIMUM;
}

int gzip_write(struct gzip_writer *w, const struct iovec *pieces, size_t count, struct room *room,
               cafka_error *err)
{
    z_stream *z = &w->stream;
    if (deflateReset(z))
        return compression_failed(err, "gzip", "the context is broken");
    z->next_out = room->at;
    z->avail_out = (uInt)(room->left < UINT32_MAX ? room->left : UINT32_MAX);
    uInt capacity = z->avail_out;
    for (size_t i = 0; i < count; i++) {
        z->next_in = pieces[i].iov_base;
        z->avail_in = (uInt)pieces[i].iov_len; /* batches are below 2 GiB */
        if (z->avail_in && deflate(z, Z_NO_FLUSH) == Z_STREAM_ERROR)
            return compression_failed(err, "gzip", "deflate failed");
        if (z->avail_in)
            return output_full(err, "gzip");
    }
    if (deflate(z, Z_FINISH) != Z_STREAM_END)
        return output_full(err, "gzip");
    room->at = z->next_out;
    room->left -= capacity - z->avail_out;
    return CAFKA_OK;
}

static int reader_new(struct gzip_reader **out, cafka_error *err)
{
    struct gzip_reader *r = mem_zalloc(sizeof *r);
    if (!r)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for gzip");
    r->stream.zalloc = zlib_alloc;
    r->stream.zfree = zlib_free;
    if (inflateInit2(&r->stream, GZIP_ONLY)) {
        mem_free(r);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for gzip");
    }
    *out = r;
    return CAFKA_OK;
}

void gzip_reader_free(struct gzip_reader *r)
{
    if (!r)
        return;
    (void)inflateEnd(&r->stream); /* fails only if the stream is none */
    mem_free(r);
}

/*
 * A first guess of the size: what the last member's trailer says, unless that is more than the
 * input can be trusted for.
 */
static size_t guess_size(struct bytes in)
{
    if (in.size < MEMBER_MINIMUM)
        return 256;
    const uint8_t *t = in.data + in.size - 4;
    size_t said = (size_t)t[0] | (size_t)t[1] << 8 | (size_t)t[2] << 16 | (size_t)t[3] << 24;
    size_t trusted = in.size * 8 + 4096;
    return (said < trusted ? said : trusted) + 1;
}

static bool member_follows(const z_stream *z)
{
    return z->avail_in >= MEMBER_MINIMUM && z->next_in[0] == 0x1f && z->next_in[1] == 0x8b;
}

/* The trailer is looked at when all data has been handed out already. */
static bool is_trailer_error(const z_stream *z)
{
    return z->msg &&
           (!strcmp(z->msg, "incorrect data check") || !strcmp(z->msg, "incorrect length check"));
}

int gzip_read(struct gzip_reader **reader, struct bytes in, struct growth *g, cafka_error *err)
{
    int rc = *reader ? CAFKA_OK : reader_new(reader, err);
    if (rc)
        return rc;
    z_stream *z = &(*reader)->stream;
    if (inflateReset(z))
        return compression_failed(err, "gzip", "the context is broken");
    z->next_in = (Bytef *)(uintptr_t)in.data; /* zlib does not write there */
    z->avail_in = (uInt)in.size;
    size_t want = guess_size(in), member = g->start;
    for (;;) {
        size_t got;
        uint8_t *place = growth_reserve(g, want, &got, &rc, err);
        if (!place)
            return rc;
        z->next_out = place;
        z->avail_out = (uInt)(got < UINT32_MAX ? got : UINT32_MAX);
        uInt given = z->avail_out;
        int zrc = inflate(z, Z_NO_FLUSH);
        rc = growth_commit(g, given - z->avail_out, err);
        if (rc)
            return rc;
        if (zrc == Z_STREAM_END && !member_follows(z))
            return CAFKA_OK;
        if (zrc == Z_STREAM_END) {
            zrc = inflateReset(z);
            member = g->out->size;
        } else if (zrc == Z_OK && !z->avail_in && z->avail_out)
            return compression_failed(err, "gzip", "the data ends too early");
        if (zrc == Z_MEM_ERROR)
            return error_set(err, CAFKA_ERR_MEMORY, "no memory for gzip");
        if (zrc == Z_DATA_ERROR && !is_trailer_error(z))
            growth_drop_piece(g, member, READ_PIECE);
        if (zrc != Z_OK)
            return compression_failed(err, "gzip",
                                      zrc == Z_BUF_ERROR ? "the data ends too early"
                                      : z->msg           ? z->msg
                                                         : "the data is damaged");
        want = 4096;
    }
}
