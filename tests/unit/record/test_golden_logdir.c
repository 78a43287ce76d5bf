/*
 * test_golden_logdir.c - every file of log directories that a real broker left, against what its
 * own DumpLogSegments says of them; and the damaged ones: the damage is found where it was done.
 *
 * Needs $CAFKA_SHARED/golden/logdir and tar. `cafka log dump` runs over the same files.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */

#include "record_fixture.h"

#include <unistd.h>

#include "record/batch.h"
#include "record/log_files.h"
#include "record/open.h"

/* One archive, unpacked. */
struct unpacked {
    char directory[64];
};

static void run(const char *format, ...)
{
    char command[8192];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    assert_int_equal(system(command), 0);
}

static struct unpacked unpack(const char *archive)
{
    struct unpacked u = {"/tmp/cafka-logdir-XXXXXX"};
    const char *path = golden_path(archive);
    if (!path)
        skip();
    assert_non_null(mkdtemp(u.directory));
    run("tar -xzf '%s' -C '%s'", path, u.directory);
    return u;
}

static void drop(struct unpacked *u)
{
    run("rm -rf '%s'", u->directory);
}

/* --- a file that a dump speaks of, consumed line by line --- */

struct current {
    char name[256]; /* "plain-0/00000000000000000000.log" */
    uint8_t *data;
    size_t size;
    int64_t base;
    size_t count, next; /* entries of an index or snapshot */
    struct bytes rest;  /* of a log */
    struct batch_header header;
    struct record_iter it;
    int32_t records_seen;
    bool unreadable;
    struct decompressor *d;
    struct buffer inflated;
    size_t lines; /* compared, over all files */
};

static bool is_kind(const struct current *c, const char *suffix)
{
    size_t length = strlen(c->name), own = strlen(suffix);
    return length > own && !strcmp(c->name + length - own, suffix);
}

/* All that the dump said of a file is all there is in it. */
static void finish_records(struct current *c)
{
    if (c->records_seen && c->records_seen != c->header.record_count)
        fail_msg("%s: %d records shown of %d", c->name, c->records_seen, c->header.record_count);
    c->records_seen = 0;
}

static void close_file(struct current *c)
{
    if (!c->data)
        return;
    finish_records(c);
    if (c->next != c->count || c->rest.size)
        fail_msg("%s: there is more in it than the dump says", c->name);
    free(c->data);
    c->data = NULL;
}

static void open_file(struct current *c, const struct unpacked *u, const char *name)
{
    char path[512];
    cafka_error err = {0};
    int rc = CAFKA_OK;
    close_file(c);
    snprintf(c->name, sizeof c->name, "%s", name);
    snprintf(path, sizeof path, "%s/%s", u->directory, name);
    c->data = (uint8_t *)file_read(path, &c->size);
    assert_non_null(c->data);
    c->base = log_file_base_offset(str_of(strrchr(name, '/') + 1));
    assert_true(c->base >= 0);
    c->count = c->next = 0;
    c->rest = (struct bytes){NULL, 0};
    struct bytes whole = bytes_of(c->data, c->size);
    if (is_kind(c, ".log"))
        c->rest = whole;
    else if (is_kind(c, ".timeindex"))
        rc = time_index_check(whole, c->base, &c->count, &err);
    else if (is_kind(c, ".txnindex"))
        rc = txn_index_check(whole, &c->count, &err);
    else if (is_kind(c, ".index"))
        rc = offset_index_check(whole, c->base, &c->count, &err);
    else
        rc = snapshot_check(whole, &c->count, &err);
    if (rc)
        fail_msg("%s: %s", c->name, err.message);
}

static void assert_line(struct current *c, const char *expected, const char *actual)
{
    if (strcmp(expected, actual) != 0)
        fail_msg("%s:\n  dump %s\n  ours %s", c->name, expected, actual);
    c->lines++;
}

static void check_batch_line(struct current *c, const char *line)
{
    struct batch_slice slice;
    struct batch_header *h = &c->header;
    finish_records(c);
    long position = (long)(c->rest.data - c->data);
    assert_int_equal(batch_walk_next(&c->rest, &slice, NULL), CAFKA_OK);
    assert_int_equal(batch_header_read(slice.bytes, h, NULL), CAFKA_OK);
    char horizon[64] = "OptionalLong.empty", ours[1024];
    if (h->attributes & BATCH_DELETE_HORIZON)
        snprintf(horizon, sizeof horizon, "OptionalLong[%lld]", (long long)h->base_timestamp);
    snprintf(ours, sizeof ours,
             "baseOffset: %lld lastOffset: %lld count: %d baseSequence: %d lastSequence: %d "
             "producerId: %lld producerEpoch: %d partitionLeaderEpoch: %d isTransactional: %s "
             "isControl: %s deleteHorizonMs: %s position: %ld %s: %lld size: %zu magic: %d "
             "compresscodec: %s crc: %u isvalid: %s",
             (long long)h->base_offset, (long long)batch_last_offset(h), h->record_count,
             h->base_sequence, batch_last_sequence(h), (long long)h->producer_id, h->producer_epoch,
             h->leader_epoch, batch_is_transactional(h) ? "true" : "false",
             batch_is_control(h) ? "true" : "false", horizon, position,
             h->attributes & BATCH_LOG_APPEND_TIME ? "LogAppendTime" : "CreateTime",
             (long long)h->max_timestamp, batch_size(h), h->magic, codec_name(batch_codec(h)),
             h->crc, batch_check(slice.bytes, NULL) ? "false" : "true");
    assert_line(c, line, ours);
    int rc = batch_open(slice.bytes, h, c->d, 1 << 24, &c->inflated, &c->it, NULL);
    c->unreadable = rc == CAFKA_ERR_UNSUPPORTED; /* snappy in a build without it */
    assert_true(rc == CAFKA_OK || c->unreadable);
}

static long size_or_null(struct bytes b)
{
    return b.data ? (long)b.size : -1;
}

static void check_record_line(struct current *c, char *line)
{
    struct record_view view;
    struct record_header header;
    char ours[2048];
    if (c->unreadable)
        return;
    assert_int_equal(record_iter_next(&c->it, &view, NULL), CAFKA_OK);
    c->records_seen++;
    int sequence =
        c->header.base_sequence < 0
            ? -1
            : sequence_add(c->header.base_sequence, (int32_t)(view.offset - c->header.base_offset));
    int used =
        snprintf(ours, sizeof ours,
                 "| offset: %lld %s: %lld keySize: %ld valueSize: %ld sequence: %d headerKeys: [",
                 (long long)view.offset,
                 c->header.attributes & BATCH_LOG_APPEND_TIME ? "LogAppendTime" : "CreateTime",
                 (long long)view.timestamp, size_or_null(view.key), size_or_null(view.value),
                 sequence);
    struct header_iter headers = record_headers(&view);
    for (const char *comma = ""; header_iter_next(&headers, &header); comma = ",")
        used += snprintf(ours + used, sizeof ours - (size_t)used, "%s%.*s", comma,
                         STR_ARG(header.name));
    snprintf(ours + used, sizeof ours - (size_t)used, "]");
    char *end = strchr(strstr(line, "headerKeys: ["), ']'); /* contents follow in words */
    assert_non_null(end);
    end[1] = 0;
    assert_line(c, line, ours);
}

static void check_snapshot_line(struct current *c, const char *line)
{
    assert_true(is_kind(c, ".snapshot") && c->next < c->count);
    struct snapshot_entry e = snapshot_get(c->data, c->next++);
    char txn[64] = "OptionalLong.empty", ours[1024];
    if (e.current_txn_first_offset >= 0)
        snprintf(txn, sizeof txn, "OptionalLong[%lld]", (long long)e.current_txn_first_offset);
    int used = snprintf(ours, sizeof ours,
                        "producerId: %lld producerEpoch: %d coordinatorEpoch: %d "
                        "currentTxnFirstOffset: %s lastTimestamp: %lld",
                        (long long)e.producer_id, e.epoch, e.coordinator_epoch, txn,
                        (long long)e.timestamp);
    if (e.last_offset >= 0)
        snprintf(ours + used, sizeof ours - (size_t)used,
                 " firstSequence: %d lastSequence: %d lastOffset: %lld offsetDelta: %d timestamp: %lld",
                 e.last_sequence - e.offset_delta, e.last_sequence, (long long)e.last_offset,
                 e.offset_delta, (long long)e.timestamp);
    assert_line(c, line, ours);
}

static void check_entry_line(struct current *c, const char *line)
{
    char ours[256];
    assert_true(c->next < c->count);
    if (is_kind(c, ".timeindex")) {
        struct time_index_entry e = time_index_get(c->data, c->next++, c->base);
        snprintf(ours, sizeof ours, "timestamp: %lld offset: %lld", (long long)e.timestamp,
                 (long long)e.offset);
    } else if (is_kind(c, ".txnindex")) {
        struct txn_index_entry e = txn_index_get(c->data, c->next++);
        snprintf(ours, sizeof ours,
                 "version: %d producerId: %lld firstOffset: %lld lastOffset: %lld lastStableOffset: %lld",
                 e.version, (long long)e.producer_id, (long long)e.first_offset,
                 (long long)e.last_offset, (long long)e.last_stable_offset);
    } else {
        struct offset_index_entry e = offset_index_get(c->data, c->next++, c->base);
        snprintf(ours, sizeof ours, "offset: %lld position: %d", (long long)e.offset, e.position);
    }
    assert_line(c, line, ours);
}

static bool begins(const char *line, const char *with)
{
    return !strncmp(line, with, strlen(with));
}

static void check_line(struct current *c, const struct unpacked *u, char *line)
{
    if (begins(line, "Dumping "))
        open_file(c, u, line + 8);
    else if (begins(line, "baseOffset: "))
        check_batch_line(c, line);
    else if (begins(line, "| "))
        check_record_line(c, line);
    else if (begins(line, "producerId: "))
        check_snapshot_line(c, line);
    else if (begins(line, "offset: ") || begins(line, "timestamp: ") || begins(line, "version: "))
        check_entry_line(c, line);
    /* else: a remark */
}

struct dump_check {
    const struct unpacked *unpacked;
    struct current current;
};

static void check_dump(const char *path, void *user)
{
    struct dump_check *check = user;
    size_t size;
    char *text = file_read(path, &size), *rest = text, *line;
    assert_non_null(text);
    while ((line = next_text_line(&rest)))
        check_line(&check->current, check->unpacked, line);
    close_file(&check->current);
    free(text);
}

static size_t check_dumps(const struct unpacked *u, const char *dumps)
{
    struct dump_check check = {.unpacked = u};
    struct current *c = &check.current;
    assert_int_equal(decompressor_new(&c->d, NULL), CAFKA_OK);
    assert_true(directory_files(golden_path(dumps), ".txt", check_dump, &check));
    decompressor_free(c->d);
    buffer_fini(&c->inflated);
    return c->lines;
}

static void clean_directory_is_read_as_kafka_reads_it(void **state)
{
    (void)state;
    struct unpacked u = unpack("logdir/clean.tar.gz");
    assert_true(check_dumps(&u, "logdir/clean-dump") > 1000);
    drop(&u);
}

static void recovered_directory_is_read_as_kafka_reads_it(void **state)
{
    (void)state;
    struct unpacked u = unpack("logdir/unclean-after.tar.gz");
    assert_true(check_dumps(&u, "logdir/unclean-after-dump") > 100);
    drop(&u);
}

/* --- small text files --- */

static struct bytes read_in(const struct unpacked *u, const char *name)
{
    char path[512];
    size_t size;
    snprintf(path, sizeof path, "%s/%s", u->directory, name);
    char *data = file_read(path, &size);
    assert_non_null(data);
    return bytes_of(data, size);
}

static void free_bytes(struct bytes b)
{
    free((void *)(uintptr_t)b.data);
}

static void text_files_are_read_and_written_byte_for_byte(void **state)
{
    (void)state;
    struct unpacked u = unpack("logdir/clean.tar.gz");
    static const char *const checkpoints[] = {"cleaner-offset-checkpoint",
                                              "log-start-offset-checkpoint",
                                              "recovery-point-offset-checkpoint",
                                              "replication-offset-checkpoint"};
    struct buffer out = {0};
    for (size_t i = 0; i < 4; i++) {
        struct bytes file = read_in(&u, checkpoints[i]);
        struct offset_checkpoint_entry *entries;
        size_t count;
        assert_int_equal(offset_checkpoint_parse(file, &entries, &count, NULL), CAFKA_OK);
        assert_true(count > 0);
        buffer_clear(&out);
        offset_checkpoint_write(&out, entries, count);
        assert_true(bytes_equal(file, bytes_of(out.data, out.size)));
        mem_free(entries);
        free_bytes(file);
    }
    struct bytes file = read_in(&u, "plain-0/leader-epoch-checkpoint");
    struct epoch_entry *epochs;
    size_t count;
    assert_int_equal(epoch_checkpoint_parse(file, &epochs, &count, NULL), CAFKA_OK);
    buffer_clear(&out);
    epoch_checkpoint_write(&out, epochs, count);
    assert_true(bytes_equal(file, bytes_of(out.data, out.size)));
    mem_free(epochs);
    free_bytes(file);
    struct uuid id;
    file = read_in(&u, "plain-0/partition.metadata");
    assert_int_equal(partition_metadata_parse(file, &id, NULL), CAFKA_OK);
    buffer_clear(&out);
    partition_metadata_write(&out, id);
    assert_true(bytes_equal(file, bytes_of(out.data, out.size)));
    free_bytes(file);
    file = read_in(&u, "txn-0/00000000000000000179.snapshot");
    assert_int_equal(snapshot_check(file, &count, NULL), CAFKA_OK);
    struct snapshot_entry *entries = mem_calloc(count, sizeof *entries);
    assert_non_null(entries);
    for (size_t i = 0; i < count; i++)
        entries[i] = snapshot_get(file.data, i);
    buffer_clear(&out);
    snapshot_write(&out, entries, count);
    assert_true(bytes_equal(file, bytes_of(out.data, out.size)));
    mem_free(entries);
    free_bytes(file);
    buffer_fini(&out);
    drop(&u);
}

/* --- damage: what `cafka log dump` says of it --- */

/* Run the program; returns its exit status, standard output and error in `said`. */
static int log_dump(const struct unpacked *u, const char *file, char *said, size_t size)
{
    char command[1024];
    snprintf(command, sizeof command, "./cafka log dump --records '%s/%s' 2>&1", u->directory, file);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t used = fread(said, 1, size - 1, f);
    said[used] = 0;
    int status = pclose(f);
    return status < 0 ? status : status >> 8;
}

static void damage_is_found_where_it_was_done(void **state)
{
    (void)state;
    if (access("./cafka", X_OK) != 0) {
        print_message("skipped: the program is not beside the test\n");
        skip();
    }
    static const struct {
        const char *file, *place;
    } damaged[] = {
        {"torn-1/00000000000000000135.log", "byte 5096"}, /* lacks its last 100 bytes */
        {"torn-2/00000000000000000135.log", "byte 5096"}, /* only 30 bytes are left */
        {"torn-3/00000000000000000135.log", "byte 5460"}, /* zeros behind it */
        {"torn-4/00000000000000000135.log", "byte 5460"}, /* garbage behind it */
        {"torn-5/00000000000000000135.log", "byte 2548"}, /* a wrong bit */
        {"torn-7/00000000000000000135.index", "byte 0"},  /* ff */
        {"torn-9/00000000000000000000.log", "byte 1092"},
    };
    struct unpacked u = unpack("logdir/unclean-before.tar.gz");
    size_t size = 1 << 22;
    char *said = malloc(size);
    assert_non_null(said);
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        assert_int_equal(log_dump(&u, damaged[i].file, said, size), 1);
        if (!strstr(said, damaged[i].place))
            fail_msg("%s: no word of %s in: %.300s", damaged[i].file, damaged[i].place, said);
    }
    assert_int_equal(log_dump(&u, "torn-5/00000000000000000000.log", said, size), 0);
    assert_int_equal(log_dump(&u, "busy-0/00000000000000000420.index", said, size),
                     0); /* zeros at its end */
    assert_int_equal(log_dump(&u, "torn-5/nothing.log", said, size), 1);
    assert_int_equal(log_dump(&u, "torn-5/partition.metadata", said, size), 1);
    free(said);
    drop(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clean_directory_is_read_as_kafka_reads_it),
        cmocka_unit_test(recovered_directory_is_read_as_kafka_reads_it),
        cmocka_unit_test(text_files_are_read_and_written_byte_for_byte),
        cmocka_unit_test(damage_is_found_where_it_was_done),
    };
    return cmocka_run_group_tests_name("golden_logdir", tests, NULL, NULL);
}
