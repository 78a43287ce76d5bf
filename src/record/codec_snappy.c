/*
 * codec_snappy.c - snappy in the blocks of xerial's Java library, as Kafka's own clients write it;
 * a bare snappy stream is read too.
 *
 * A stream is 16 bytes of head, then blocks: a length (big endian) and as many bytes of snappy
 * data that hold up to 32 KiB. Streams may follow one another. Versions in the head are not
 * looked at, since the Java library does not either.
 */
#include "config.h" /* HAVE_SNAPPY */

#include "record/codecs.h"
#include "util/alloc.h"

enum { HEAD_SIZE = 16, MAGIC_SIZE = 8, BLOCK_SIZE = 32768, READ_PIECE = 2048 };

#ifdef HAVE_SNAPPY

#include <snappy-c.h>

static const uint8_t head[HEAD_SIZE] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0,
                                        0,    0,   0,   1,   0,   0,   0,   1};

struct snappy_writer {
    uint8_t input[BLOCK_SIZE]; /* a block that lies in several pieces */
    uint8_t output[];          /* a block's result, if the room is less than the worst case */
};

int snappy_writer_new(struct snappy_writer **out, cafka_error *err)
{
    *out = mem_alloc_for(MEM_CODECS, sizeof **out + snappy_max_compressed_length(BLOCK_SIZE));
    return *out ? CAFKA_OK : error_set(err, CAFKA_ERR_MEMORY, "no memory for snappy");
}

void snappy_writer_free(struct snappy_writer *w)
{
    mem_free(w);
}

size_t snappy_bound(size_t size)
{
    size_t blocks = size / BLOCK_SIZE + 1;
    return HEAD_SIZE + blocks * (4 + snappy_max_compressed_length(BLOCK_SIZE));
}

static int write_block(struct snappy_writer *w, struct bytes block, struct room *room,
                       cafka_error *err)
{
    size_t size = snappy_max_compressed_length(block.size);
    if (room->left < 4)
        return output_full(err, "snappy");
    bool direct = room->left - 4 >= size;
    uint8_t *place = direct ? room->at + 4 : w->output;
    if (snappy_compress((const char *)block.data, block.size, (char *)place, &size) != SNAPPY_OK)
        return compression_failed(err, "snappy", "compression failed");
    if (size > room->left - 4)
        return output_full(err, "snappy");
    if (!direct)
        memcpy(room->at + 4, place, size);
    store_be32(room->at, (uint32_t)size);
    room->at += 4 + size;
    room->left -= 4 + size;
    return CAFKA_OK;
}

int snappy_write(struct snappy_writer *w, const struct iovec *pieces, size_t count,
                 struct room *room, cafka_error *err)
{
    if (room->left < HEAD_SIZE)
        return output_full(err, "snappy");
    memcpy(room->at, head, HEAD_SIZE);
    room->at += HEAD_SIZE;
    room->left -= HEAD_SIZE;
    struct piece_reader r = {pieces, count, 0};
    struct bytes block;
    while ((block = piece_reader_next(&r, BLOCK_SIZE, w->input)).size) {
        int rc = write_block(w, block, room, err);
        if (rc)
            return rc;
    }
    return CAFKA_OK;
}

/* Inflate one bare snappy stream. Its length is in front, so all is known before any memory is. */
static int read_block(struct bytes in, struct growth *g, cafka_error *err)
{
    size_t size, got;
    int rc;
    if (snappy_uncompressed_length((const char *)in.data, in.size, &size) != SNAPPY_OK)
        return compression_failed(err, "snappy", "a block has no length");
    /* No element makes more than 64 bytes of 3; a stream that claims more lies. */
    if (size / 64 > in.size)
        return compression_failed(err, "snappy", "a block claims more than it can hold");
    uint8_t *place = growth_reserve(g, size ? size : 1, &got, &rc, err);
    if (!place)
        return rc;
    if (got < size)
        return growth_commit(g, got, err); /* beyond the limit */
    if (snappy_uncompress((const char *)in.data, in.size, (char *)place, &size) != SNAPPY_OK)
        return compression_failed(err, "snappy", "a block is damaged");
    return growth_commit(g, size, err);
}

int snappy_read(struct bytes in, struct growth *g, cafka_error *err)
{
    if (in.size < MAGIC_SIZE || memcmp(in.data, head, MAGIC_SIZE) != 0)
        return read_block(in, g, err);
    struct reader r = reader_of(in.data, in.size);
    reader_take(&r, HEAD_SIZE);
    /* The Java library takes what is too short for a length as the end. */
    while (!reader_failed(&r) && reader_left(&r) >= 4) {
        if (reader_left(&r) >= MAGIC_SIZE && !memcmp(r.at, head, MAGIC_SIZE)) {
            reader_take(&r, HEAD_SIZE); /* another stream */
            continue;
        }
        int32_t size = (int32_t)reader_be32(&r);
        struct bytes block = reader_take(&r, size < 0 ? SIZE_MAX : (size_t)size);
        if (reader_failed(&r))
            break;
        int rc = read_block(block, g, err);
        if (rc == CAFKA_ERR_COMPRESSION)
            growth_drop_piece(g, g->start, READ_PIECE);
        if (rc)
            return rc;
    }
    if (!reader_failed(&r))
        return CAFKA_OK;
    growth_drop_piece(g, g->start, READ_PIECE);
    return compression_failed(err, "snappy", "the data ends too early");
}

#else

static int not_built(cafka_error *err)
{
    return error_set(err, CAFKA_ERR_UNSUPPORTED, "the snappy codec is not built into this library");
}

int snappy_writer_new(struct snappy_writer **out, cafka_error *err)
{
    (void)out;
    return not_built(err);
}

void snappy_writer_free(struct snappy_writer *w)
{
    mem_free(w);
}

size_t snappy_bound(size_t size)
{
    return size;
}

int snappy_write(struct snappy_writer *w, const struct iovec *pieces, size_t count,
                 struct room *room, cafka_error *err)
{
    (void)w, (void)pieces, (void)count, (void)room;
    return not_built(err);
}

int snappy_read(struct bytes in, struct growth *g, cafka_error *err)
{
    (void)in, (void)g;
    return not_built(err);
}

#endif
