/*
 * test_golden_logdir.c - log directories that Apache Kafka 4.3.1 wrote: read, written again by the
 * same appends with the same bytes in every file, and repaired as it repairs them.
 */
#include "log_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/log_files.h"
#include "util/alloc.h"

/* The settings of the golden directories (their README). */
static struct log_config golden_config(const char *topic)
{
    struct log_config config;
    log_config_init(&config);
    bool internal = !strncmp(topic, "__", 2);
    config.index_interval_bytes = internal ? 4096 : 512;
    config.segment_index_bytes = internal ? 8192 : 4096;
    config.segment_bytes = internal ? 104857600 : 16384;
    config.retention_ms = config.retention_bytes = -1;
    config.segment_ms = INT64_MAX; /* markers are years younger than the records around them */
    return config;
}

static void unpack(const char *archive, const char *into)
{
    char command[1200];
    snprintf(command, sizeof command,
             "mkdir -p '%s' && tar xzf '%s/golden/logdir/%s.tar.gz' -C '%s'", into, shared_dir(),
             archive, into);
    assert_int_equal(system(command), 0);
}

static void open_manager(struct log_fixture *f, const char *cluster_id)
{
    struct log_manager_options options = {.env = f->env,
                                          .directory = f->directory,
                                          .broker_id = 1,
                                          .cluster_id = cluster_id};
    cafka_error err = {0};
    if (log_manager_open(&f->manager, &options, &err))
        fail_msg("%s", err.message);
}

static struct commit_log *open_found(struct log_fixture *f, size_t i)
{
    const struct found_partition *found = log_manager_found(f->manager, i);
    struct log_config config = golden_config(found->topic);
    struct commit_log *log;
    cafka_error err = {0};
    if (log_manager_open_log(f->manager, found->topic, found->partition, found->topic_id, &config,
                             &log, &err))
        fail_msg("%s", err.message);
    return log;
}

static char *read_all(struct commit_log *log, int64_t offset, size_t *size)
{
    struct log_slice slice;
    cafka_error err = {0};
    if (commit_log_read(log, offset, commit_log_end_offset(log), 1 << 20, true, &slice, &err))
        fail_msg("%s", err.message);
    *size = slice.size;
    char *data = mem_alloc(slice.size + 1);
    assert_int_equal(log_slice_read(&slice, (uint8_t *)data, &err), 0);
    log_slice_fini(&slice);
    return data;
}

/* Lines "baseOffset: 8 lastOffset: 9 …" of a dump, in order. */
static bool next_dumped_batch(const char **dump, int64_t *base, int64_t *last)
{
    const char *at = strstr(*dump, "baseOffset: ");
    if (!at)
        return false;
    *dump = at + 1;
    return sscanf(at, "baseOffset: %" SCNd64 " lastOffset: %" SCNd64, base, last) == 2;
}

static void compare_with_dump(struct commit_log *log, const char *dump)
{
    int64_t base, last, offset = 0;
    bool first = true;
    char *data = NULL;
    struct bytes rest = {0};
    size_t count = 0;
    while (next_dumped_batch(&dump, &base, &last)) {
        if (last < commit_log_start_offset(log))
            continue;
        if (first)
            offset = commit_log_start_offset(log);
        first = false;
        if (!rest.size) {
            mem_free(data);
            size_t size;
            data = read_all(log, offset, &size);
            rest = bytes_of(data, size);
        }
        struct batch_slice slice;
        struct batch_header h;
        assert_int_equal(batch_walk_next(&rest, &slice, NULL), 0);
        assert_int_equal(batch_header_read(slice.bytes, &h, NULL), 0);
        assert_int_equal(h.base_offset, base);
        assert_int_equal(batch_last_offset(&h), last);
        offset = last + 1;
        count++;
    }
    mem_free(data);
    assert_int_equal(rest.size, 0);
    if (count)
        assert_int_equal(offset, commit_log_end_offset(log));
}

static void every_batch_is_read_back(void **state)
{
    struct log_fixture *f = *state;
    if (!shared_dir())
        return;
    unpack("clean", f->directory);
    open_manager(f, "t-weIad6BxKAh3OLxulHkQ");
    assert_true(log_manager_was_clean(f->manager));
    assert_int_equal(log_manager_found_count(f->manager), 22);
    size_t dumps = 0;
    for (size_t i = 0; i < log_manager_found_count(f->manager); i++) {
        const struct found_partition *found = log_manager_found(f->manager, i);
        assert_false(uuid_is_zero(found->topic_id));
        struct commit_log *log = open_found(f, i);
        char path[600];
        snprintf(path, sizeof path, "%s/golden/logdir/clean-dump/%s-%d.txt", shared_dir(),
                 found->topic, found->partition);
        size_t size;
        char *dump = slurp(path, &size);
        if (dump)
            compare_with_dump(log, dump);
        dumps += dump != NULL;
        mem_free(dump);
        assert_int_equal(commit_log_high_watermark(log), commit_log_end_offset(log));
    }
    assert_int_equal(dumps, 15);
    assert_int_equal(commit_log_start_offset(log_manager_find(f->manager, "deleted", 0)), 157);
    /* the last producer of txn-0 left its transaction open */
    struct commit_log *txn = log_manager_find(f->manager, "txn", 0);
    assert_true(commit_log_stable_offset(txn) < commit_log_end_offset(txn));
    close_cleanly(f);
}

/* --- files side by side --- */

static int by_producer(const void *a, const void *b)
{
    const struct snapshot_entry *x = a, *y = b;
    return x->producer_id < y->producer_id ? -1 : x->producer_id > y->producer_id;
}

/* Java's maps have no order. */
static void compare_snapshots(const char *ours, size_t our_size, const char *theirs,
                              size_t their_size)
{
    enum { MOST = 64 };
    struct snapshot_entry a[MOST], b[MOST];
    size_t n, m;
    assert_int_equal(our_size, their_size);
    assert_int_equal(snapshot_check(bytes_of(ours, our_size), &n, NULL), 0);
    assert_int_equal(snapshot_check(bytes_of(theirs, their_size), &m, NULL), 0);
    assert_int_equal(n, m);
    assert_true(n <= MOST);
    for (size_t i = 0; i < n; i++) {
        a[i] = snapshot_get((const uint8_t *)ours, i);
        b[i] = snapshot_get((const uint8_t *)theirs, i);
    }
    qsort(a, n, sizeof *a, by_producer);
    qsort(b, n, sizeof *b, by_producer);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(a[i].producer_id, b[i].producer_id);
        assert_int_equal(a[i].epoch, b[i].epoch);
        assert_int_equal(a[i].last_sequence, b[i].last_sequence);
        assert_int_equal(a[i].last_offset, b[i].last_offset);
        assert_int_equal(a[i].offset_delta, b[i].offset_delta);
        assert_int_equal(a[i].timestamp, b[i].timestamp);
        assert_int_equal(a[i].coordinator_epoch, b[i].coordinator_epoch);
        assert_int_equal(a[i].current_txn_first_offset, b[i].current_txn_first_offset);
    }
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);
    return n >= m && !strcmp(name + n - m, suffix);
}

static void compare_file(const char *ours, const char *theirs)
{
    size_t our_size, their_size;
    char *a = slurp(ours, &our_size), *b = slurp(theirs, &their_size);
    if (!a || !b)
        fail_msg("%s is %s", ours, a ? "too much" : "missing");
    if (ends_with(ours, ".snapshot")) {
        compare_snapshots(a, our_size, b, their_size);
    } else {
        if (our_size != their_size)
            fail_msg("%s has %zu bytes, should have %zu", ours, our_size, their_size);
        for (size_t i = 0; i < our_size; i++)
            if (a[i] != b[i])
                fail_msg("%s differs from byte %zu of %zu on", ours, i, our_size);
    }
    mem_free(a);
    mem_free(b);
}

struct comparison {
    const char *ours, *theirs;
    size_t count;
};

static int compare_entry(void *user, const char *name)
{
    struct comparison *c = user;
    char a[900], b[900];
    snprintf(a, sizeof a, "%s/%s", c->ours, name);
    snprintf(b, sizeof b, "%s/%s", c->theirs, name);
    compare_file(a, b);
    c->count++;
    return 0;
}

/* All files of two directories. */
static size_t compare_directories(const char *ours, const char *theirs)
{
    const cafka_env *env = cafka_env_real();
    struct comparison c = {ours, theirs, 0};
    assert_int_equal(env->path_list(env, theirs, compare_entry, &c), 0);
    size_t count = c.count;
    assert_int_equal(env->path_list(env, ours, compare_entry, &c), 0);
    return count;
}

/* --- the same appends give the same files --- */

struct copy {
    struct log_fixture *f;
    const char *topic;
    int32_t partition;
    struct uuid id;
    struct commit_log *to;
};

static void begin_life(struct copy *copy, int32_t epoch)
{
    struct log_config config = golden_config(copy->topic);
    cafka_error err = {0};
    open_manager(copy->f, NULL);
    if (log_manager_open_log(copy->f->manager, copy->topic, copy->partition, copy->id, &config,
                             &copy->to, &err) ||
        commit_log_start_epoch(copy->to, epoch, &err))
        fail_msg("%s", err.message);
}

static void append_again(struct copy *copy, struct commit_log *from)
{
    cafka_error err = {0};
    int64_t offset = 0, last;
    int32_t epoch = 0;
    begin_life(copy, 0);
    while (offset < commit_log_end_offset(from)) {
        size_t size;
        char *data = read_all(from, offset, &size);
        struct bytes rest = bytes_of(data, size);
        struct batch_slice slice;
        struct batch_header h;
        while (!batch_walk_next(&rest, &slice, NULL)) {
            assert_int_equal(batch_header_read(slice.bytes, &h, NULL), 0);
            while (h.leader_epoch > epoch) { /* a new life: the counting of bytes begins anew */
                close_cleanly(copy->f);
                begin_life(copy, ++epoch);
            }
            if (commit_log_append_as_follower(copy->to, slice.bytes, &last, &err))
                fail_msg("%s", err.message);
        }
        mem_free(data);
        offset = last + 1;
    }
    while (epoch < commit_log_latest_epoch(from)) {
        close_cleanly(copy->f);
        begin_life(copy, ++epoch);
    }
    close_cleanly(copy->f);
}

static void appends_write_the_files_of_a_real_broker(void **state)
{
    static const struct {
        const char *topic;
        int32_t partition;
    } copies[] = {{"plain", 0},
                  {"plain", 1},
                  {"times", 0},
                  {"appendtime", 0},
                  {"txn", 0},
                  {"__transaction_state", 3},
                  {"__transaction_state", 4},
                  {"__consumer_offsets", 0}};
    struct log_fixture *f = *state;
    if (!shared_dir())
        return;
    char pristine[400];
    snprintf(pristine, sizeof pristine, "%s/pristine", f->root);
    unpack("clean", pristine);
    struct log_fixture golden;
    fixture_init(&golden, f->env, f->root);
    snprintf(golden.directory, sizeof golden.directory, "%.200s/golden", f->root);
    unpack("clean", golden.directory);
    open_manager(&golden, NULL);
    for (size_t i = 0; i < log_manager_found_count(golden.manager); i++)
        open_found(&golden, i);

    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        const char *topic = copies[i].topic;
        int32_t partition = copies[i].partition;
        struct commit_log *from = log_manager_find(golden.manager, topic, partition);
        struct copy copy = {f, topic, partition, commit_log_topic_id(from), NULL};
        snprintf(f->directory, sizeof f->directory, "%.200s/again-%zu", f->root, i);
        append_again(&copy, from);
        char ours[700], theirs[700];
        snprintf(ours, sizeof ours, "%s/%s-%d", f->directory, topic, partition);
        snprintf(theirs, sizeof theirs, "%s/%s-%d", pristine, topic, partition);
        assert_true(compare_directories(ours, theirs) >= 6);
    }
    close_cleanly(&golden);
}

/* --- recovery --- */

static int32_t epoch_in(const char *directory)
{
    char path[1 << 16];
    size_t size, count;
    struct epoch_entry *entries;
    snprintf(path, sizeof path, "%s/leader-epoch-checkpoint", directory);
    char *text = slurp(path, &size);
    assert_non_null(text);
    assert_int_equal(epoch_checkpoint_parse(bytes_of(text, size), &entries, &count, NULL), 0);
    int32_t epoch = count ? entries[count - 1].epoch : -1;
    mem_free(text);
    mem_free(entries);
    return epoch;
}

static void a_killed_broker_is_repaired_as_the_real_one_does(void **state)
{
    enum { MOST = 64 };
    static char ours[MOST][700], theirs[MOST][700];
    struct log_fixture *f = *state;
    if (!shared_dir())
        return;
    char after[400];
    snprintf(after, sizeof after, "%s/after", f->root);
    unpack("unclean-after", after);
    unpack("unclean-before", f->directory);
    open_manager(f, NULL);
    assert_false(log_manager_was_clean(f->manager));
    size_t count = log_manager_found_count(f->manager);
    assert_true(count >= 19 && count <= MOST);
    for (size_t i = 0; i < count; i++) {
        const struct found_partition *found = log_manager_found(f->manager, i);
        snprintf(ours[i], sizeof ours[i], "%s/%s-%d", f->directory, found->topic, found->partition);
        snprintf(theirs[i], sizeof theirs[i], "%s/%s-%d", after, found->topic, found->partition);
        struct commit_log *log = open_found(f, i);
        int32_t epoch = epoch_in(theirs[i]); /* the real broker began to lead again */
        if (epoch >= 0)
            assert_int_equal(commit_log_start_epoch(log, epoch, NULL), 0);
    }
    close_cleanly(f);
    for (size_t i = 0; i < count; i++)
        compare_directories(ours[i], theirs[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_batch_is_read_back, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(appends_write_the_files_of_a_real_broker, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_killed_broker_is_repaired_as_the_real_one_does,
                                        fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
