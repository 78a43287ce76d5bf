/*
 * test_log_crash.c - a broker dies at every file operation of a small life, loses power at every one,
 * runs out of disk, meets a disk that fails, and runs out of memory at every allocation: what was
 * acknowledged is there afterwards (after a power loss: what was synced, and a prefix of the rest).
 */
#include "log_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/sim.h"
#include "util/alloc.h"

/* --- a world whose files stop working at the k-th change --- */

static struct {
    const cafka_env *base;
    cafka_env env;
    long left; /* changes until death; 0: dead; negative: immortal */
    bool torn; /* the deadly write is done in half */
} mortal;

/* One more change; true while alive. */
static bool live(void)
{
    if (mortal.left > 0)
        mortal.left--;
    return mortal.left != 0;
}

static ssize_t mortal_write(const cafka_env *env, cafka_env_file *file, const struct iovec *pieces,
                            int count, int64_t offset)
{
    (void)env;
    bool last = mortal.left == 1;
    if (live())
        return mortal.base->file_write(mortal.base, file, pieces, count, offset);
    if (last && mortal.torn) {
        struct iovec half = {pieces[0].iov_base, pieces[0].iov_len / 2};
        (void)mortal.base->file_write(mortal.base, file, &half, 1, offset);
    }
    return -EIO;
}

static int mortal_open(const cafka_env *env, const char *path, unsigned flags, cafka_env_file **out)
{
    (void)env;
    if ((flags & (CAFKA_FILE_CREATE | CAFKA_FILE_TRUNCATE)) && !live())
        return -EIO;
    return mortal.base->file_open(mortal.base, path, flags, out);
}

static int mortal_truncate(const cafka_env *env, cafka_env_file *file, int64_t size)
{
    (void)env;
    return live() ? mortal.base->file_truncate(mortal.base, file, size) : -EIO;
}

static int mortal_sync(const cafka_env *env, cafka_env_file *file)
{
    (void)env;
    return live() ? mortal.base->file_sync(mortal.base, file) : -EIO;
}

static int mortal_rename(const cafka_env *env, const char *from, const char *to)
{
    (void)env;
    return live() ? mortal.base->path_rename(mortal.base, from, to) : -EIO;
}

static int mortal_remove(const cafka_env *env, const char *path)
{
    (void)env;
    return live() ? mortal.base->path_remove(mortal.base, path) : -EIO;
}

static int mortal_mkdir(const cafka_env *env, const char *path)
{
    (void)env;
    return live() ? mortal.base->path_mkdir(mortal.base, path) : -EIO;
}

static int mortal_path_sync(const cafka_env *env, const char *path)
{
    (void)env;
    return live() ? mortal.base->path_sync(mortal.base, path) : -EIO;
}

static const cafka_env *make_mortal(const cafka_env *base, long changes, bool torn)
{
    mortal.base = base;
    mortal.env = *base;
    mortal.env.file_write = mortal_write;
    mortal.env.file_open = mortal_open;
    mortal.env.file_truncate = mortal_truncate;
    mortal.env.file_sync = mortal_sync;
    mortal.env.path_rename = mortal_rename;
    mortal.env.path_remove = mortal_remove;
    mortal.env.path_mkdir = mortal_mkdir;
    mortal.env.path_sync = mortal_path_sync;
    mortal.left = changes;
    mortal.torn = torn;
    return &mortal.env;
}

/* --- a small life --- */

enum { LIVES = 3, APPENDS = 14, FIRST_TIME = 1000, PRODUCER = 9 };

struct story {
    struct log_fixture f;
    int64_t acknowledged; /* offsets below it were */
    int64_t synced;
    int64_t start; /* may have moved up to here */
};

static void story_init(struct story *s, const cafka_env *env, const char *root)
{
    memset(s, 0, sizeof *s);
    fixture_init(&s->f, env, root);
    s->f.config.segment_bytes = 900;
    s->f.config.index_interval_bytes = 200;
    s->f.config.retention_ms = -1;
    s->f.config.segment_index_bytes = 4096;
}

static void one_append(struct story *s)
{
    struct batch_spec spec = {
        .producer_id = PRODUCER,
        .sequence = (int32_t)s->acknowledged,
        .timestamp = FIRST_TIME + s->acknowledged,
        .value_size = 100,
    };
    int64_t offset;
    if (append(&s->f, &spec, &offset))
        return;
    assert_int_equal(offset, s->acknowledged);
    s->acknowledged = offset + 1;
}

/* Two lives with appends, rolls, a flush, deleted records and checkpoints; the first ends cleanly. */
static void live_through(struct story *s)
{
    struct log_fixture *f = &s->f;
    for (int life = 0; life < 2; life++) {
        if (try_open(f, NULL))
            return;
        for (int i = 0; i < APPENDS; i++) {
            one_append(s);
            if (i == APPENDS / 2 && !commit_log_flush(f->log, NULL))
                s->synced = s->acknowledged;
        }
        commit_log_set_high_watermark(f->log, s->acknowledged);
        if (s->acknowledged > 9) {
            s->start = 9;
            (void)commit_log_advance_start(f->log, 9, NULL);
            size_t deleted;
            (void)commit_log_apply_retention(f->log, &deleted, NULL);
        }
        (void)log_manager_tick(f->manager, env_now_ms(f->env) + 3600000);
        if (life)
            continue;
        int rc = log_manager_close(f->manager, NULL);
        f->manager = NULL;
        if (rc)
            return;
        s->synced = s->acknowledged;
    }
}

/* Every offset from the log's start on is there with what was written to it. */
static void expect_whole(struct story *s, int64_t least_end)
{
    struct log_fixture *f = &s->f;
    cafka_error err = {0};
    if (try_open(f, &err))
        fail_msg("%s", err.message);
    int64_t start = commit_log_start_offset(f->log), end = commit_log_end_offset(f->log);
    assert_true(start <= s->start);
    assert_true(end >= least_end);
    assert_true(end <= s->acknowledged + 1);
    for (int64_t offset = start; offset < end;) {
        struct log_slice slice;
        static uint8_t data[4096];
        assert_int_equal(commit_log_read(f->log, offset, end, sizeof data, true, &slice, NULL), 0);
        assert_true(slice.size > 0);
        assert_int_equal(log_slice_read(&slice, data, NULL), 0);
        struct bytes rest = bytes_of(data, slice.size);
        struct batch_slice batch;
        struct batch_header h;
        while (!batch_walk_next(&rest, &batch, NULL)) {
            assert_int_equal(batch_check(batch.bytes, NULL), 0);
            assert_int_equal(batch_header_read(batch.bytes, &h, NULL), 0);
            assert_int_equal(h.base_offset, offset);
            assert_int_equal(h.base_timestamp, FIRST_TIME + offset);
            offset = batch_last_offset(&h) + 1;
        }
        log_slice_fini(&slice);
    }
    /* times and the producer's state fit, and it goes on */
    struct timestamp_offset found;
    if (end > start) {
        assert_int_equal(commit_log_find_timestamp(f->log, FIRST_TIME + end - 1, &found, NULL), 0);
        assert_int_equal(found.offset, end - 1);
    }
    struct batch_spec next = {.producer_id = PRODUCER,
                              .sequence = (int32_t)end,
                              .timestamp = FIRST_TIME + end};
    int64_t offset;
    assert_int_equal(append(f, &next, &offset), 0);
    assert_int_equal(offset, end);
    if (end > start) { /* the same once more is a duplicate, a gap is refused */
        assert_int_equal(append(f, &next, &offset), 0);
        assert_int_equal(offset, end);
        next.sequence += 2;
        assert_int_equal(append(f, &next, &offset), ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    }
}

static void end_story(struct story *s)
{
    kill_broker(&s->f);
    buffer_fini(&s->f.batch);
}

/* --- dying at each change --- */

enum death { KILLED, KILLED_IN_A_WRITE, WITHOUT_POWER };

/* False when the life ended before the k-th change. */
static bool die_at(long change, enum death death, uint64_t seed)
{
    struct sim *sim;
    struct story s;
    assert_int_equal(sim_new(&sim, seed, NULL), 0);
    story_init(&s, make_mortal(sim_env(sim), change, death == KILLED_IN_A_WRITE), "/disk");
    live_through(&s);
    bool died = mortal.left == 0;
    if (s.f.manager)
        kill_broker(&s.f);
    if (death == WITHOUT_POWER)
        sim_disk_crash(sim, "/disk");
    else
        sim_disk_kill(sim, "/disk");
    s.f.env = sim_env(sim);
    mortal.left = -1;
    expect_whole(&s, death == WITHOUT_POWER ? s.synced : s.acknowledged);
    end_story(&s);
    sim_free(sim);
    return died;
}

static void sweep(enum death death, uint64_t seeds)
{
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        long change = 1;
        while (die_at(change, death, seed))
            change++;
        assert_true(change > 100);
    }
}

static void nothing_acknowledged_is_lost_by_a_kill_at_any_file_operation(void **state)
{
    (void)state;
    sweep(KILLED, 1);
}

static void nothing_acknowledged_is_lost_by_a_kill_within_any_write(void **state)
{
    (void)state;
    sweep(KILLED_IN_A_WRITE, 1);
}

static void a_power_loss_keeps_what_was_synced_and_a_prefix(void **state)
{
    (void)state;
    sweep(WITHOUT_POWER, 3);
}

/* --- a disk that is full or fails --- */

static void a_full_disk_refuses_and_loses_nothing(void **state)
{
    (void)state;
    for (int64_t room = 0; room < 30000; room += 300) {
        struct sim *sim;
        struct story s;
        assert_int_equal(sim_new(&sim, 1, NULL), 0);
        story_init(&s, sim_env(sim), "/disk");
        sim_disk_capacity(sim, 1 + room);
        live_through(&s);
        if (s.f.manager)
            kill_broker(&s.f);
        sim_disk_kill(sim, "/disk");
        sim_disk_capacity(sim, 0);
        expect_whole(&s, s.acknowledged);
        end_story(&s);
        sim_free(sim);
    }
}

static void a_failing_disk_loses_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct sim *sim;
        struct story s;
        assert_int_equal(sim_new(&sim, seed, NULL), 0);
        story_init(&s, sim_env(sim), "/disk");
        unsigned kinds = 1 + (unsigned)(seed % 7);
        assert_int_equal(sim_disk_fail(sim, "/disk", kinds, EIO, 20, NULL), 0);
        live_through(&s);
        if (s.f.manager)
            kill_broker(&s.f);
        sim_disk_kill(sim, "/disk");
        assert_int_equal(sim_disk_fail(sim, "/disk", kinds, EIO, 0, NULL), 0);
        expect_whole(&s, s.acknowledged);
        end_story(&s);
        sim_free(sim);
    }
}

/* --- memory --- */

/* No power is lost here, so nothing need be synced. */
static int no_file_sync(const cafka_env *env, cafka_env_file *file)
{
    (void)env, (void)file;
    return 0;
}

static int no_path_sync(const cafka_env *env, const char *path)
{
    (void)env, (void)path;
    return 0;
}

static void running_out_of_memory_anywhere_loses_nothing(void **state)
{
    struct log_fixture *f = *state; /* for its directory */
    cafka_env env = *f->env;
    env.file_sync = no_file_sync;
    env.path_sync = no_path_sync;
    unsigned long k = 0;
    for (bool failed = true; failed;) {
        k++;
        struct story s;
        char root[300];
        snprintf(root, sizeof root, "%.200s/%lu", f->root, k);
        story_init(&s, &env, root);
        (void)make_batch(&s.f, &(struct batch_spec){.timestamp = 1, .value_size = 1000});
        mem_fail_after(k, 0);
        live_through(&s);
        failed = mem_count() >= k;
        mem_fail_after(0, 0);
        if (s.f.manager)
            kill_broker(&s.f);
        expect_whole(&s, s.acknowledged);
        end_story(&s);
        assert_int_equal(env_remove_tree(f->env, root, NULL), 0);
    }
    assert_true(k > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_acknowledged_is_lost_by_a_kill_at_any_file_operation),
        cmocka_unit_test(nothing_acknowledged_is_lost_by_a_kill_within_any_write),
        cmocka_unit_test(a_power_loss_keeps_what_was_synced_and_a_prefix),
        cmocka_unit_test(a_full_disk_refuses_and_loses_nothing),
        cmocka_unit_test(a_failing_disk_loses_nothing),
        cmocka_unit_test_setup_teardown(running_out_of_memory_anywhere_loses_nothing, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
