/*
 * test_partition.c - a partition that this broker leads: epochs, watermarks, who waits, fetches,
 * offsets by time, deleted records.
 */
#include "log_fixture.h"

#include "mockbroker/replica/partition.h"
#include "util/alloc.h"

struct scene {
    struct log_fixture *f;
    struct partition *p;
};

static void begin(struct scene *s, void **state)
{
    s->f = *state;
    s->f->config.retention_ms = -1;
    open_directory(s->f);
    assert_int_equal(partition_new(&s->p, "topic", 0, s->f->topic_id, s->f->log, NULL), 0);
    assert_int_equal(partition_become_leader(s->p, 1, 5, NULL), 0);
}

static void end(struct scene *s)
{
    partition_free(s->p);
}

static int produce(struct scene *s, int64_t timestamp, int count)
{
    struct append_request request = {
        .records = make_batch(s->f, &(struct batch_spec){.timestamp = timestamp,
                                                         .count = count,
                                                         .value_size = 10})};
    struct append_result result;
    int rc = partition_append(s->p, &request, -1, &result, NULL);
    append_result_fini(&result);
    return rc;
}

static const struct read_request from_the_start = {.current_leader_epoch = -1,
                                                   .last_fetched_epoch = -1,
                                                   .max_bytes = 1 << 20};

/* --- watches --- */

struct waiter {
    struct partition_watch watch;
    int told;
    struct waiter *takes_along; /* leaves together with this one */
};

static void note(struct partition_watch *watch)
{
    struct waiter *w = container_of(watch, struct waiter, watch);
    w->told++;
    if (w->takes_along) {
        partition_unwatch(&w->watch);
        partition_unwatch(&w->takes_along->watch);
    }
}

static void an_append_tells_who_waits(void **state)
{
    struct scene s;
    struct waiter a = {.watch.changed = note}, b = {.watch.changed = note};
    begin(&s, state);
    partition_watch(s.p, &a.watch);
    partition_watch(s.p, &b.watch);
    assert_int_equal(produce(&s, 1, 1), 0);
    assert_int_equal(a.told, 1);
    assert_int_equal(b.told, 1);
    partition_unwatch(&a.watch);
    partition_unwatch(&a.watch); /* twice is fine */
    assert_int_equal(produce(&s, 1, 1), 0);
    assert_int_equal(a.told, 1);
    assert_int_equal(b.told, 2);
    end(&s); /* the end of the partition is a change too */
    assert_int_equal(b.told, 3);
    assert_false(list_linked(&b.watch.link));
}

static void a_watch_may_take_others_along_when_it_leaves(void **state)
{
    struct scene s;
    struct waiter b = {.watch.changed = note}, c = {.watch.changed = note};
    struct waiter a = {.watch.changed = note, .takes_along = &b};
    begin(&s, state);
    partition_watch(s.p, &a.watch);
    partition_watch(s.p, &b.watch);
    partition_watch(s.p, &c.watch);
    partition_changed(s.p);
    partition_changed(s.p);
    assert_int_equal(a.told, 1);
    assert_int_equal(b.told, 0);
    assert_int_equal(c.told, 2);
    end(&s);
}

static void a_refused_append_tells_nobody(void **state)
{
    struct scene s;
    struct waiter a = {.watch.changed = note};
    begin(&s, state);
    partition_watch(s.p, &a.watch);
    struct append_request request = {.records = bytes_of("garbage", 7)};
    struct append_result result;
    assert_int_equal(partition_append(s.p, &request, 1, &result, NULL), ERR_INVALID_RECORD);
    assert_int_equal(result.log_start_offset, -1);
    append_result_fini(&result);
    assert_int_equal(a.told, 0);
    partition_unwatch(&a.watch);
    end(&s);
}

/* --- roles and epochs --- */

static void only_the_leader_of_the_right_epoch_serves(void **state)
{
    struct scene s;
    struct read_request request = from_the_start;
    struct read_result result;
    begin(&s, state);
    assert_int_equal(produce(&s, 1, 1), 0);
    request.current_leader_epoch = 4;
    assert_int_equal(partition_read(s.p, &request, &result, NULL), ERR_FENCED_LEADER_EPOCH);
    assert_int_equal(result.high_watermark, -1);
    request.current_leader_epoch = 6;
    assert_int_equal(partition_read(s.p, &request, &result, NULL), ERR_UNKNOWN_LEADER_EPOCH);
    request.current_leader_epoch = 5;
    request.must_lead = true;
    assert_int_equal(partition_read(s.p, &request, &result, NULL), 0);
    assert_true(result.slice.size > 0);
    read_result_fini(&result);
    partition_become_follower(s.p, 2, 6);
    request.current_leader_epoch = -1;
    assert_int_equal(partition_read(s.p, &request, &result, NULL), ERR_NOT_LEADER_OR_FOLLOWER);
    assert_int_equal(partition_waiting_bytes(s.p, &request), -1);
    assert_int_equal(produce(&s, 1, 1), ERR_NOT_LEADER_OR_FOLLOWER);
    request.must_lead = false; /* followers serve too */
    assert_int_equal(partition_read(s.p, &request, &result, NULL), 0);
    read_result_fini(&result);
    end(&s);
}

static void too_small_an_isr_refuses_before_it_appends(void **state)
{
    struct scene s;
    int error;
    begin(&s, state);
    s.f->config.min_insync_replicas = 2;
    commit_log_set_config(s.f->log, &s.f->config);
    assert_int_equal(produce(&s, 1, 1), 0); /* one replica: that is all there can be */
    s.p->replica_count = 3;
    assert_int_equal(produce(&s, 1, 1), ERR_NOT_ENOUGH_REPLICAS);
    assert_int_equal(partition_end_offset(s.p), 1);
    s.p->isr_size = 2;
    assert_int_equal(produce(&s, 1, 1), 0);
    assert_int_equal(partition_high_watermark(s.p), 1); /* the other one has not fetched it */
    assert_false(partition_is_acknowledged(s.p, 1, &error));
    commit_log_set_high_watermark(s.f->log, 2);
    assert_true(partition_is_acknowledged(s.p, 1, &error));
    assert_int_equal(error, 0);
    s.p->isr_size = 1;
    assert_true(partition_is_acknowledged(s.p, 1, &error));
    assert_int_equal(error, ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND);
    end(&s);
}

static void a_reader_that_went_another_way_is_told_where(void **state)
{
    struct scene s;
    struct read_request request = from_the_start;
    struct read_result result;
    begin(&s, state);
    assert_int_equal(produce(&s, 1, 4), 0);
    assert_int_equal(partition_become_leader(s.p, 1, 8, NULL), 0);
    assert_int_equal(produce(&s, 1, 4), 0);
    request.offset = 6;
    request.last_fetched_epoch = 5; /* epoch 5 ended at 4 */
    assert_int_equal(partition_read(s.p, &request, &result, NULL), 0);
    assert_true(result.diverging);
    assert_int_equal(result.diverging_epoch.epoch, 5);
    assert_int_equal(result.diverging_epoch.end_offset, 4);
    assert_int_equal(result.slice.size, 0);
    assert_int_equal(result.high_watermark, 8);
    assert_int_equal(partition_waiting_bytes(s.p, &request), -1);
    request.last_fetched_epoch = 7;
    assert_int_equal(partition_read(s.p, &request, &result, NULL), 0);
    assert_int_equal(result.diverging_epoch.epoch, 5);
    request.last_fetched_epoch = 9;
    assert_int_equal(partition_read(s.p, &request, &result, NULL), ERR_OFFSET_OUT_OF_RANGE);
    request.last_fetched_epoch = 8;
    assert_int_equal(partition_read(s.p, &request, &result, NULL), 0);
    assert_false(result.diverging);
    assert_true(result.slice.size > 0);
    read_result_fini(&result);
    end(&s);
}

/* --- reading --- */

static void reads_end_where_their_kind_may_read(void **state)
{
    struct scene s;
    struct read_request request = from_the_start;
    struct read_result result;
    begin(&s, state);
    s.p->isr_size = s.p->replica_count = 2;
    assert_int_equal(produce(&s, 1, 1), 0);
    assert_int_equal(partition_waiting_bytes(s.p, &request), 0);
    assert_int_equal(partition_read(s.p, &request, &result, NULL), 0);
    assert_int_equal(result.slice.size, 0);
    request.end = READ_TO_LOG_END;
    int64_t bytes = partition_waiting_bytes(s.p, &request);
    assert_true(bytes > 60);
    assert_int_equal(partition_read(s.p, &request, &result, NULL), 0);
    assert_int_equal(result.slice.size, bytes);
    read_result_fini(&result);
    request.max_bytes = 50;
    assert_int_equal(partition_waiting_bytes(s.p, &request), 50);
    request.max_bytes = -1;
    assert_int_equal(partition_read(s.p, &request, &result, NULL), ERR_UNKNOWN_SERVER_ERROR);
    request.max_bytes = 50;
    request.offset = 2;
    assert_int_equal(partition_read(s.p, &request, &result, NULL), ERR_OFFSET_OUT_OF_RANGE);
    end(&s);
}

/* --- offsets --- */

static int64_t list_offset(struct scene *s, int64_t timestamp, int version)
{
    struct list_offset_request request = {.timestamp = timestamp,
                                          .current_leader_epoch = -1,
                                          .version = version};
    struct timestamp_offset found;
    int rc = partition_list_offset(s->p, &request, &found, NULL);
    return rc ? -1000 - rc : found.offset;
}

static void offsets_are_listed_by_name_and_by_time(void **state)
{
    struct scene s;
    begin(&s, state);
    assert_int_equal(list_offset(&s, TIMESTAMP_LATEST, 11), 0);
    assert_int_equal(list_offset(&s, TIMESTAMP_MAX, 11), -1);
    assert_int_equal(produce(&s, 100, 4), 0);
    assert_int_equal(list_offset(&s, TIMESTAMP_LATEST, 11), 4);
    assert_int_equal(list_offset(&s, TIMESTAMP_EARLIEST, 11), 0);
    assert_int_equal(list_offset(&s, TIMESTAMP_MAX, 11), 3);
    assert_int_equal(list_offset(&s, 102, 11), 2);
    assert_int_equal(list_offset(&s, 104, 11), -1);
    assert_int_equal(list_offset(&s, TIMESTAMP_LATEST_TIERED, 11), -1);
    assert_int_equal(list_offset(&s, TIMESTAMP_MAX, 6), -1000 - ERR_UNSUPPORTED_VERSION);
    assert_int_equal(list_offset(&s, TIMESTAMP_EARLIEST_PENDING_UPLOAD, 10),
                     -1000 - ERR_UNSUPPORTED_VERSION);
    assert_int_equal(list_offset(&s, -7, 11), -1000 - ERR_UNSUPPORTED_VERSION);
    assert_int_equal(list_offset(&s, INT64_MIN, 11), -1000 - ERR_UNSUPPORTED_VERSION);
    end(&s);
}

static void a_new_leader_does_not_guess_the_latest_offset(void **state)
{
    struct scene s;
    begin(&s, state);
    s.p->isr_size = s.p->replica_count = 2;
    assert_int_equal(produce(&s, 100, 4), 0);
    assert_int_equal(partition_become_leader(s.p, 1, 6, NULL), 0);
    assert_int_equal(list_offset(&s, TIMESTAMP_LATEST, 5), -1000 - ERR_OFFSET_NOT_AVAILABLE);
    assert_int_equal(list_offset(&s, TIMESTAMP_LATEST, 4), -1000 - ERR_LEADER_NOT_AVAILABLE);
    assert_int_equal(list_offset(&s, 102, 5), -1000 - ERR_OFFSET_NOT_AVAILABLE);
    commit_log_set_high_watermark(s.f->log, 4);
    assert_int_equal(list_offset(&s, 102, 5), 2);
    end(&s);
}

static void records_are_deleted_up_to_the_high_watermark(void **state)
{
    struct scene s;
    int64_t low;
    begin(&s, state);
    assert_int_equal(produce(&s, 100, 4), 0);
    assert_int_equal(partition_delete_records(s.p, 5, &low, NULL), ERR_OFFSET_OUT_OF_RANGE);
    assert_int_equal(partition_delete_records(s.p, -2, &low, NULL), ERR_OFFSET_OUT_OF_RANGE);
    assert_int_equal(partition_delete_records(s.p, 2, &low, NULL), 0);
    assert_int_equal(low, 2);
    assert_int_equal(list_offset(&s, TIMESTAMP_EARLIEST, 11), 2);
    assert_int_equal(partition_delete_records(s.p, -1, &low, NULL), 0);
    assert_int_equal(low, 4);
    s.f->config.cleanup_compact = true;
    s.f->config.cleanup_delete = false;
    commit_log_set_config(s.f->log, &s.f->config);
    assert_int_equal(partition_delete_records(s.p, -1, &low, NULL), ERR_POLICY_VIOLATION);
    end(&s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_append_tells_who_waits),
        TEST(a_watch_may_take_others_along_when_it_leaves),
        TEST(a_refused_append_tells_nobody),
        TEST(only_the_leader_of_the_right_epoch_serves),
        TEST(too_small_an_isr_refuses_before_it_appends),
        TEST(a_reader_that_went_another_way_is_told_where),
        TEST(reads_end_where_their_kind_may_read),
        TEST(offsets_are_listed_by_name_and_by_time),
        TEST(a_new_leader_does_not_guess_the_latest_offset),
        TEST(records_are_deleted_up_to_the_high_watermark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
