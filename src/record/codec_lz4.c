/*
 * codec_lz4.c - the LZ4 frame as Kafka's clients write and read it, around liblz4's blocks.
 *
 * The frame is walked here and not by liblz4, because Kafka's reader and writer have rules of
 * their own: blocks of 64 KiB and no checksums are written; only one frame is read and what
 * follows it is ignored; a content checksum is skipped; and with magic 0 the header's checksum is
 * summed over the frame's magic too, a mistake of old that stayed (KAFKA-3160).
 */
#include <lz4.h>
#include <lz4hc.h>

#include "record/codecs.h"
#include "util/alloc.h"

enum {
    FRAME_MAGIC = 0x184d2204,
    BLOCK_SIZE = 65536,
    HEAD_SIZE = 7, /* as written: no content size */
    DESCRIPTOR_AT = 4,
    FLAGS_WRITTEN = 0x60, /* version 1, independent blocks */
    SIZE_CODE_WRITTEN = 0x40,
    /* flags */
    FLAG_VERSION = 0xc0,
    FLAG_INDEPENDENT = 0x20,
    FLAG_BLOCK_CHECKSUM = 0x10,
    FLAG_CONTENT_SIZE = 0x08,
    FLAG_CONTENT_CHECKSUM = 0x04,
    FLAG_RESERVED = 0x03
};
#define STORED 0x80000000u /* in a block's length: the block is not compressed */

static uint32_t load_le32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static void store_le32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

/* --- xxHash, 32 bits, seed 0: the frame's checksum, which liblz4 keeps to itself --- */

#define PRIME1 2654435761u
#define PRIME2 2246822519u
#define PRIME3 3266489917u
#define PRIME4 668265263u
#define PRIME5 374761393u

static uint32_t rotate(uint32_t v, int bits)
{
    return v << bits | v >> (32 - bits);
}

static uint32_t xxh32(const uint8_t *p, size_t size)
{
    const uint8_t *end = p + size;
    uint32_t h = PRIME5;
    if (size >= 16) {
        uint32_t lanes[4] = {PRIME1 + PRIME2, PRIME2, 0, 0u - PRIME1};
        for (; end - p >= 16; p += 16)
            for (int i = 0; i < 4; i++)
                lanes[i] = rotate(lanes[i] + load_le32(p + 4 * i) * PRIME2, 13) * PRIME1;
        h = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18);
    }
    h += (uint32_t)size;
    for (; end - p >= 4; p += 4)
        h = rotate(h + load_le32(p) * PRIME3, 17) * PRIME4;
    for (; p < end; p++)
        h = rotate(h + *p * PRIME5, 11) * PRIME1;
    h = (h ^ h >> 15) * PRIME2;
    h = (h ^ h >> 13) * PRIME3;
    return h ^ h >> 16;
}

/* --- writing --- */

struct lz4_writer {
    int level; /* 0: the fast compressor */
    void *state;
    uint8_t input[BLOCK_SIZE]; /* a block that lies in several pieces */
};

/*
 * As in Kafka, the standard level means the fast compressor, any other one the high one; what is
 * above liblz4's highest is that.
 */
int lz4_writer_new(struct lz4_writer **out, int level, cafka_error *err)
{
    struct codec_levels levels;
    bool fast = codec_level_range(CODEC_LZ4, &levels) && level == levels.standard;
    struct lz4_writer *w = mem_alloc_for(MEM_CODECS, sizeof *w);
    if (!w)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for lz4");
    w->level = fast ? 0 : level > LZ4HC_CLEVEL_MAX ? LZ4HC_CLEVEL_MAX : level;
    w->state = mem_alloc_for(MEM_CODECS, (size_t)(fast ? LZ4_sizeofState() : LZ4_sizeofStateHC()));
    if (!w->state) {
        mem_free(w);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for lz4");
    }
    *out = w;
    return CAFKA_OK;
}

void lz4_writer_free(struct lz4_writer *w)
{
    if (!w)
        return;
    mem_free(w->state);
    mem_free(w);
}

size_t lz4_bound(size_t size)
{
    return HEAD_SIZE + size + 4 * (size / BLOCK_SIZE + 1) + 4;
}

/* One block; it is stored as it is when that is not larger. */
static int write_block(struct lz4_writer *w, struct bytes block, struct room *room, cafka_error *err)
{
    if (room->left < 4)
        return output_full(err, "lz4");
    const char *from = (const char *)block.data;
    char *to = (char *)room->at + 4;
    size_t most = room->left - 4 < block.size - 1 ? room->left - 4 : block.size - 1;
    int size =
        w->level
            ? LZ4_compress_HC_extStateHC(w->state, from, to, (int)block.size, (int)most, w->level)
            : LZ4_compress_fast_extState(w->state, from, to, (int)block.size, (int)most, 1);
    uint32_t length = (uint32_t)size;
    if (size <= 0) {
        if (room->left - 4 < block.size)
            return output_full(err, "lz4");
        memcpy(to, from, block.size);
        length = (uint32_t)block.size | STORED;
    }
    store_le32(room->at, length);
    room->at += 4 + (length & ~STORED);
    room->left -= 4 + (length & ~STORED);
    return CAFKA_OK;
}

int lz4_write(struct lz4_writer *w, bool broken_checksum, const struct iovec *pieces, size_t count,
              struct room *room, cafka_error *err)
{
    if (room->left < HEAD_SIZE + 4)
        return output_full(err, "lz4");
    uint8_t *head = room->at;
    store_le32(head, FRAME_MAGIC);
    head[4] = FLAGS_WRITTEN;
    head[5] = SIZE_CODE_WRITTEN;
    head[6] = (uint8_t)((broken_checksum ? xxh32(head, 6) : xxh32(head + DESCRIPTOR_AT, 2)) >> 8);
    room->at += HEAD_SIZE;
    room->left -= HEAD_SIZE;
    struct piece_reader r = {pieces, count, 0};
    struct bytes block;
    while ((block = piece_reader_next(&r, BLOCK_SIZE, w->input)).size) {
        int rc = write_block(w, block, room, err);
        if (rc)
            return rc;
    }
    if (room->left < 4)
        return output_full(err, "lz4");
    store_le32(room->at, 0); /* end mark */
    room->at += 4;
    room->left -= 4;
    return CAFKA_OK;
}

/* --- reading --- */

struct frame {
    size_t block_size; /* at most, inflated */
    bool block_checksum, content_checksum;
};

static uint32_t take_le32(struct reader *r)
{
    struct bytes b = reader_take(r, 4);
    return b.data ? load_le32(b.data) : 0;
}

static int read_head(struct reader *r, bool any_checksum, struct frame *out, cafka_error *err)
{
    if (take_le32(r) != FRAME_MAGIC)
        return compression_failed(err, "lz4", "no frame begins here");
    const uint8_t *descriptor = r->at;
    uint8_t flags = reader_u8(r);
    uint8_t size_code = reader_u8(r);
    if (flags & FLAG_CONTENT_SIZE)
        reader_take(r, 8); /* not trusted, not needed */
    size_t descriptor_size = (size_t)(r->at - descriptor);
    uint8_t checksum = reader_u8(r);
    if (reader_failed(r))
        return compression_failed(err, "lz4", "the frame's head is cut");
    if ((flags & FLAG_VERSION) != 0x40 || !(flags & FLAG_INDEPENDENT) || (flags & FLAG_RESERVED))
        return compression_failed(err, "lz4", "the frame has a version or flags that are not read");
    if ((size_code & 0x8f) || size_code < 0x40)
        return compression_failed(err, "lz4", "the frame has a block size that does not exist");
    if (!any_checksum && checksum != (uint8_t)(xxh32(descriptor, descriptor_size) >> 8))
        return compression_failed(err, "lz4", "the frame's head has a wrong checksum");
    out->block_size = (size_t)1 << (8 + 2 * (size_code >> 4)); /* 4 to 7: 64 KiB to 4 MiB */
    out->block_checksum = flags & FLAG_BLOCK_CHECKSUM;
    out->content_checksum = flags & FLAG_CONTENT_CHECKSUM;
    return CAFKA_OK;
}

static int read_block(struct bytes block, bool stored, size_t block_size, struct growth *g,
                      cafka_error *err)
{
    /* a byte of input makes at most 255 of output */
    size_t most = stored ? block.size : block.size * 255 + 16;
    size_t got;
    int rc;
    if (most > block_size)
        most = block_size;
    uint8_t *place = growth_reserve(g, most, &got, &rc, err);
    if (!place)
        return rc;
    if (got > block_size)
        got = block_size;
    if (stored) {
        size_t take = block.size < got ? block.size : got;
        memcpy(place, block.data, take);
        return growth_commit(g, take, err);
    }
    int size =
        LZ4_decompress_safe((const char *)block.data, (char *)place, (int)block.size, (int)got);
    if (size < 0 && got < most) /* the limit is nearer than the block's end may be */
        return growth_commit(g, got, err);
    if (size < 0)
        return compression_failed(err, "lz4", "a block is damaged");
    return growth_commit(g, (size_t)size, err);
}

int lz4_read(struct bytes in, bool any_checksum, struct growth *g, cafka_error *err)
{
    struct reader r = reader_of(in.data, in.size);
    struct frame frame = {0};
    int rc = read_head(&r, any_checksum, &frame, err);
    while (!rc) {
        uint32_t length = take_le32(&r);
        bool stored = length & STORED;
        length &= ~STORED;
        if (!length && !reader_failed(&r)) {
            if (frame.content_checksum)
                take_le32(&r); /* read, not verified */
            break;
        }
        if (length > frame.block_size)
            return compression_failed(err, "lz4", "a block is larger than the frame allows");
        struct bytes block = reader_take(&r, length);
        uint32_t checksum = frame.block_checksum ? take_le32(&r) : 0;
        if (reader_failed(&r))
            break;
        if (frame.block_checksum && checksum != xxh32(block.data, block.size))
            return compression_failed(err, "lz4", "a block has a wrong checksum");
        rc = read_block(block, stored, frame.block_size, g, err);
    }
    if (!rc && reader_failed(&r))
        return compression_failed(err, "lz4", "the data ends too early");
    return rc;
}
