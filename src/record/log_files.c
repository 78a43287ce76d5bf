/*
 * log_files.c - see log_files.h.
 */
#include "record/log_files.h"

#include <stdio.h>
#include <string.h>

#include "record/crc32c.h"
#include "util/alloc.h"

static int damaged(cafka_error *err, size_t at, const char *what)
{
    return error_set(err, CAFKA_ERR_CORRUPT, "damaged at byte %zu: %s", at, what);
}

/* --- offset, time and transaction index --- */

struct offset_index_entry offset_index_get(const uint8_t *data, size_t i, int64_t base)
{
    const uint8_t *p = data + i * OFFSET_INDEX_ENTRY_SIZE;
    return (struct offset_index_entry){base + (int32_t)load_be32(p), (int32_t)load_be32(p + 4)};
}

void offset_index_put(uint8_t *data, size_t i, int64_t base, struct offset_index_entry entry)
{
    uint8_t *p = data + i * OFFSET_INDEX_ENTRY_SIZE;
    store_be32(p, (uint32_t)(entry.offset - base));
    store_be32(p + 4, (uint32_t)entry.position);
}

struct time_index_entry time_index_get(const uint8_t *data, size_t i, int64_t base)
{
    const uint8_t *p = data + i * TIME_INDEX_ENTRY_SIZE;
    return (struct time_index_entry){(int64_t)load_be64(p), base + (int32_t)load_be32(p + 8)};
}

void time_index_put(uint8_t *data, size_t i, int64_t base, struct time_index_entry entry)
{
    uint8_t *p = data + i * TIME_INDEX_ENTRY_SIZE;
    store_be64(p, (uint64_t)entry.timestamp);
    store_be32(p + 8, (uint32_t)(entry.offset - base));
}

struct txn_index_entry txn_index_get(const uint8_t *data, size_t i)
{
    const uint8_t *p = data + i * TXN_INDEX_ENTRY_SIZE;
    return (struct txn_index_entry){
        .version = (int16_t)load_be16(p),
        .producer_id = (int64_t)load_be64(p + 2),
        .first_offset = (int64_t)load_be64(p + 10),
        .last_offset = (int64_t)load_be64(p + 18),
        .last_stable_offset = (int64_t)load_be64(p + 26),
    };
}

void txn_index_put(uint8_t *data, size_t i, const struct txn_index_entry *entry)
{
    uint8_t *p = data + i * TXN_INDEX_ENTRY_SIZE;
    store_be16(p, (uint16_t)entry->version);
    store_be64(p + 2, (uint64_t)entry->producer_id);
    store_be64(p + 10, (uint64_t)entry->first_offset);
    store_be64(p + 18, (uint64_t)entry->last_offset);
    store_be64(p + 26, (uint64_t)entry->last_stable_offset);
}

/* Entries up to the last one that is not all zeros. */
static size_t used_entries(struct bytes file, size_t entry_size)
{
    size_t size = file.size;
    while (size && !file.data[size - 1])
        size--;
    return (size + entry_size - 1) / entry_size;
}

int offset_index_check(struct bytes file, int64_t base, size_t *count, cafka_error *err)
{
    size_t whole = file.size / OFFSET_INDEX_ENTRY_SIZE * OFFSET_INDEX_ENTRY_SIZE;
    size_t used = used_entries(bytes_of(file.data, whole), OFFSET_INDEX_ENTRY_SIZE);
    struct offset_index_entry last = {base - 1, -1};
    for (*count = 0; *count < used; ++*count) {
        struct offset_index_entry e = offset_index_get(file.data, *count, base);
        size_t at = *count * OFFSET_INDEX_ENTRY_SIZE;
        if (e.offset < base)
            return damaged(err, at, "an offset below the segment's");
        if (e.offset <= last.offset)
            return damaged(err, at, "an offset that is not above the one before");
        if (e.position <= last.position)
            return damaged(err, at, "a position that is not above the one before");
        last = e;
    }
    return whole == file.size ? CAFKA_OK : damaged(err, whole, "an entry is cut");
}

int time_index_check(struct bytes file, int64_t base, size_t *count, cafka_error *err)
{
    size_t whole = file.size / TIME_INDEX_ENTRY_SIZE * TIME_INDEX_ENTRY_SIZE;
    size_t used = used_entries(bytes_of(file.data, whole), TIME_INDEX_ENTRY_SIZE);
    struct time_index_entry last = {INT64_MIN, base};
    for (*count = 0; *count < used; ++*count) {
        struct time_index_entry e = time_index_get(file.data, *count, base);
        size_t at = *count * TIME_INDEX_ENTRY_SIZE;
        if (e.offset < base)
            return damaged(err, at, "an offset below the segment's");
        if (e.timestamp <= last.timestamp)
            return damaged(err, at, "a timestamp that is not above the one before");
        if (e.offset < last.offset)
            return damaged(err, at, "an offset below the one before");
        last = e;
    }
    return whole == file.size ? CAFKA_OK : damaged(err, whole, "an entry is cut");
}

int txn_index_check(struct bytes file, size_t *count, cafka_error *err)
{
    size_t used = file.size / TXN_INDEX_ENTRY_SIZE;
    int64_t last = -1;
    for (*count = 0; *count < used; ++*count) {
        struct txn_index_entry e = txn_index_get(file.data, *count);
        size_t at = *count * TXN_INDEX_ENTRY_SIZE;
        if (e.version != 0)
            return damaged(err, at, "an entry of an unknown version");
        if (e.first_offset < 0 || e.last_offset < e.first_offset)
            return damaged(err, at, "a transaction that ends before it begins");
        if (e.last_offset < last)
            return damaged(err, at, "a last offset below the one before");
        last = e.last_offset;
    }
    return used * TXN_INDEX_ENTRY_SIZE == file.size
               ? CAFKA_OK
               : damaged(err, used * TXN_INDEX_ENTRY_SIZE, "an entry is cut");
}

ptrdiff_t offset_index_find(const uint8_t *data, size_t count, int64_t base, int64_t offset)
{
    size_t low = 0, high = count; /* entries below `low` are not above the key */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (offset_index_get(data, middle, base).offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return (ptrdiff_t)low - 1;
}

ptrdiff_t time_index_find(const uint8_t *data, size_t count, int64_t timestamp)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (time_index_get(data, middle, 0).timestamp <= timestamp)
            low = middle + 1;
        else
            high = middle;
    }
    return (ptrdiff_t)low - 1;
}

/* --- producer snapshot --- */

enum { SNAPSHOT_VERSION = 1, SNAPSHOT_CRC_AT = 2, SNAPSHOT_COUNT_AT = 6 };

int snapshot_check(struct bytes file, size_t *count, cafka_error *err)
{
    *count = 0;
    if (file.size < SNAPSHOT_HEAD_SIZE)
        return damaged(err, file.size, "the file is shorter than its head");
    int16_t version = (int16_t)load_be16(file.data);
    if (version != SNAPSHOT_VERSION)
        return damaged(err, 0, "a snapshot of an unknown version");
    uint32_t crc = crc32c(0, file.data + SNAPSHOT_COUNT_AT, file.size - SNAPSHOT_COUNT_AT);
    if (crc != load_be32(file.data + SNAPSHOT_CRC_AT))
        return damaged(err, SNAPSHOT_CRC_AT, "the CRC is not that of the bytes");
    int32_t entries = (int32_t)load_be32(file.data + SNAPSHOT_COUNT_AT);
    if (entries < 0 || (uint64_t)entries * SNAPSHOT_ENTRY_SIZE != file.size - SNAPSHOT_HEAD_SIZE)
        return damaged(err, SNAPSHOT_COUNT_AT, "the number of entries is not that of the bytes");
    *count = (size_t)entries;
    return CAFKA_OK;
}

struct snapshot_entry snapshot_get(const uint8_t *data, size_t i)
{
    const uint8_t *p = data + SNAPSHOT_HEAD_SIZE + i * SNAPSHOT_ENTRY_SIZE;
    return (struct snapshot_entry){
        .producer_id = (int64_t)load_be64(p),
        .epoch = (int16_t)load_be16(p + 8),
        .last_sequence = (int32_t)load_be32(p + 10),
        .last_offset = (int64_t)load_be64(p + 14),
        .offset_delta = (int32_t)load_be32(p + 22),
        .timestamp = (int64_t)load_be64(p + 26),
        .coordinator_epoch = (int32_t)load_be32(p + 34),
        .current_txn_first_offset = (int64_t)load_be64(p + 38),
    };
}

void snapshot_write(struct buffer *out, const struct snapshot_entry *entries, size_t count)
{
    size_t start = out->size;
    buffer_put_be16(out, SNAPSHOT_VERSION);
    buffer_put_be32(out, 0);
    buffer_put_be32(out, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        buffer_put_be64(out, (uint64_t)entries[i].producer_id);
        buffer_put_be16(out, (uint16_t)entries[i].epoch);
        buffer_put_be32(out, (uint32_t)entries[i].last_sequence);
        buffer_put_be64(out, (uint64_t)entries[i].last_offset);
        buffer_put_be32(out, (uint32_t)entries[i].offset_delta);
        buffer_put_be64(out, (uint64_t)entries[i].timestamp);
        buffer_put_be32(out, (uint32_t)entries[i].coordinator_epoch);
        buffer_put_be64(out, (uint64_t)entries[i].current_txn_first_offset);
    }
    if (out->failed)
        return;
    uint8_t *file = out->data + start;
    store_be32(file + SNAPSHOT_CRC_AT,
               crc32c(0, file + SNAPSHOT_COUNT_AT, out->size - start - SNAPSHOT_COUNT_AT));
}

/* --- text files --- */

struct lines {
    const char *at, *end;
    int number; /* of the line last given, from 1 */
};

static bool next_line(struct lines *l, struct str *out)
{
    if (l->at >= l->end)
        return false;
    const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));
    const char *stop = newline ? newline : l->end;
    *out = (struct str){l->at, (size_t)(stop - l->at)};
    if (out->size && out->data[out->size - 1] == '\r')
        out->size--;
    l->at = newline ? newline + 1 : l->end;
    l->number++;
    return true;
}

static int bad_line(cafka_error *err, int number, const char *what)
{
    return error_set(err, CAFKA_ERR_CORRUPT, "damaged at line %d: %s", number, what);
}

/* The next word of a line, which is cut off from it. */
static struct str next_word(struct str *line)
{
    const char *p = line->data, *end = line->data + line->size;
    while (p < end && *p == ' ')
        p++;
    const char *start = p;
    while (p < end && *p != ' ')
        p++;
    *line = (struct str){p, (size_t)(end - p)};
    return (struct str){start, (size_t)(p - start)};
}

/* A whole word as a number from `least` on. */
static bool parse_number(struct str word, int64_t least, int64_t most, int64_t *out)
{
    bool negative = word.size && word.data[0] == '-';
    uint64_t value = 0;
    if (word.size <= (size_t)negative || word.size > 20)
        return false;
    for (size_t i = negative; i < word.size; i++) {
        unsigned digit = (unsigned char)word.data[i] - '0';
        if (digit > 9 || value > ((uint64_t)INT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out = negative ? -(int64_t)value : (int64_t)value;
    return *out >= least && *out <= most;
}

/*
 * The two lines in front: version 0 and the number of entries. The number is compared with the
 * lines that are there before it is believed.
 */
static int checkpoint_head(struct lines *l, size_t least_line, size_t *count, cafka_error *err)
{
    struct str line;
    int64_t version, entries;
    if (!next_line(l, &line) || !parse_number(line, 0, INT32_MAX, &version))
        return bad_line(err, 1, "no version");
    if (version != 0)
        return bad_line(err, 1, "an unknown version");
    if (!next_line(l, &line) || !parse_number(line, 0, INT32_MAX, &entries))
        return bad_line(err, 2, "no number of entries");
    if ((size_t)entries > ((size_t)(l->end - l->at) + 1) / least_line)
        return bad_line(err, 2, "more entries announced than the file has room for");
    *count = (size_t)entries;
    return CAFKA_OK;
}

static int no_more_lines(struct lines *l, cafka_error *err)
{
    struct str line;
    while (next_line(l, &line))
        if (line.size)
            return bad_line(err, l->number, "more lines than announced");
    return CAFKA_OK;
}

static int parse_epoch_line(struct lines *l, struct epoch_entry *out, cafka_error *err)
{
    struct str line;
    int64_t epoch, offset;
    if (!next_line(l, &line))
        return bad_line(err, l->number + 1, "fewer lines than announced");
    if (!parse_number(next_word(&line), 0, INT32_MAX, &epoch) ||
        !parse_number(next_word(&line), 0, INT64_MAX, &offset) || next_word(&line).size)
        return bad_line(err, l->number, "not an epoch and an offset");
    *out = (struct epoch_entry){(int32_t)epoch, offset};
    return CAFKA_OK;
}

int epoch_checkpoint_parse(struct bytes file, struct epoch_entry **out, size_t *count,
                           cafka_error *err)
{
    struct lines l = {(const char *)file.data, (const char *)file.data + file.size, 0};
    size_t announced;
    int rc = checkpoint_head(&l, 4, &announced, err); /* "0 0" and a newline */
    if (rc)
        return rc;
    struct epoch_entry *entries = announced ? mem_calloc(announced, sizeof *entries) : NULL;
    if (announced && !entries)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a checkpoint");
    for (size_t i = 0; i < announced && !rc; i++)
        rc = parse_epoch_line(&l, &entries[i], err);
    if (!rc)
        rc = no_more_lines(&l, err);
    if (rc) {
        mem_free(entries);
        return rc;
    }
    *out = entries;
    *count = announced;
    return CAFKA_OK;
}

void epoch_checkpoint_write(struct buffer *out, const struct epoch_entry *entries, size_t count)
{
    buffer_printf(out, "0\n%zu\n", count);
    for (size_t i = 0; i < count; i++)
        buffer_printf(out, "%d %lld\n", entries[i].epoch, (long long)entries[i].start_offset);
}

static int parse_offset_line(struct lines *l, struct offset_checkpoint_entry *out, cafka_error *err)
{
    struct str line;
    int64_t partition, offset;
    if (!next_line(l, &line))
        return bad_line(err, l->number + 1, "fewer lines than announced");
    struct str topic = next_word(&line);
    if (!topic.size || !parse_number(next_word(&line), 0, INT32_MAX, &partition) ||
        !parse_number(next_word(&line), 0, INT64_MAX, &offset) || next_word(&line).size)
        return bad_line(err, l->number, "not a topic, a partition and an offset");
    *out = (struct offset_checkpoint_entry){topic, (int32_t)partition, offset};
    return CAFKA_OK;
}

int offset_checkpoint_parse(struct bytes file, struct offset_checkpoint_entry **out, size_t *count,
                            cafka_error *err)
{
    struct lines l = {(const char *)file.data, (const char *)file.data + file.size, 0};
    size_t announced;
    int rc = checkpoint_head(&l, 6, &announced, err); /* "t 0 0" and a newline */
    if (rc)
        return rc;
    struct offset_checkpoint_entry *entries =
        announced ? mem_calloc(announced, sizeof *entries) : NULL;
    if (announced && !entries)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a checkpoint");
    for (size_t i = 0; i < announced && !rc; i++)
        rc = parse_offset_line(&l, &entries[i], err);
    if (!rc)
        rc = no_more_lines(&l, err);
    if (rc) {
        mem_free(entries);
        return rc;
    }
    *out = entries;
    *count = announced;
    return CAFKA_OK;
}

void offset_checkpoint_write(struct buffer *out, const struct offset_checkpoint_entry *entries,
                             size_t count)
{
    buffer_printf(out, "0\n%zu\n", count);
    for (size_t i = 0; i < count; i++)
        buffer_printf(out, "%.*s %d %lld\n", STR_ARG(entries[i].topic), entries[i].partition,
                      (long long)entries[i].offset);
}

static bool cut_prefix(struct str *line, const char *prefix)
{
    size_t size = strlen(prefix);
    if (line->size < size || memcmp(line->data, prefix, size) != 0)
        return false;
    line->data += size;
    line->size -= size;
    return true;
}

int partition_metadata_parse(struct bytes file, struct uuid *topic_id, cafka_error *err)
{
    struct lines l = {(const char *)file.data, (const char *)file.data + file.size, 0};
    struct str line;
    int64_t version;
    if (!next_line(&l, &line) || !cut_prefix(&line, "version: ") ||
        !parse_number(line, 0, INT32_MAX, &version))
        return bad_line(err, 1, "no version");
    if (version != 0)
        return bad_line(err, 1, "an unknown version");
    struct uuid id;
    if (!next_line(&l, &line) || !cut_prefix(&line, "topic_id: ") ||
        !uuid_parse(line.data, line.size, &id) || uuid_is_zero(id))
        return bad_line(err, 2, "no topic id");
    int rc = no_more_lines(&l, err);
    if (!rc)
        *topic_id = id;
    return rc;
}

void partition_metadata_write(struct buffer *out, struct uuid topic_id)
{
    char text[UUID_TEXT_SIZE];
    uuid_text(topic_id, text);
    buffer_printf(out, "version: 0\ntopic_id: %s", text);
}

/* --- names --- */

enum { NAME_DIGITS = 20 };

void log_file_name(int64_t base_offset, const char *suffix, char out[LOG_FILE_NAME_SIZE])
{
    snprintf(out, LOG_FILE_NAME_SIZE, "%020lld%s", (long long)base_offset, suffix);
}

int64_t log_file_base_offset(struct str name)
{
    int64_t offset;
    if (name.size <= NAME_DIGITS || name.data[NAME_DIGITS] != '.' ||
        !parse_number((struct str){name.data, NAME_DIGITS}, 0, INT64_MAX, &offset))
        return -1;
    return offset;
}
