/*
 * test_controller.c - metadata records, the image made of them, the controller's log, placement.
 */
#include "mockbroker/controller/controller.h"
#include "mockbroker/controller/metadata_log.h"
#include "mockbroker/controller/placer.h"
#include "mockbroker/metadata/snapshot.h"
#include "mockbroker/options.h"
#include "mockbroker/versions.h"
#include "protocol/error_codes.h"
#include "protocol/messages/ConfigRecord.h"
#include "protocol/messages/TopicRecord.h"
#include "tests/unit/broker/broker_fixture.h"
#include "util/alloc.h"

#define LOG_FILE "/tmp/meta/00000000000000000000.log"

static void add_topic_record(struct record_list *list, const char *name, uint8_t id)
{
    struct topic_record r;
    topic_record_init(&r);
    r.name = str_of(name);
    r.topic_id = (struct uuid){{id}};
    assert_int_equal(record_list_add(list, METADATA_TOPIC, 0, &r, NULL), 0);
}

/* --- the log --- */

struct replayed {
    int count;
    char names[16][16];
    int64_t offsets[16];
};

static int remember(void *user, int64_t offset, struct bytes value, cafka_error *err)
{
    struct replayed *r = user;
    struct image image;
    image_init(&image);
    int rc = image_apply(&image, offset, value, err);
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(&image.topics, &i));)
        snprintf(r->names[r->count], 16, "%s", e->key);
    r->offsets[r->count++] = offset;
    image_fini(&image);
    return rc;
}

struct log_test {
    struct test_world world;
    struct metadata_log *log;
    struct replayed replayed;
};

static void open_log(struct log_test *t)
{
    t->replayed = (struct replayed){0};
    assert_int_equal(metadata_log_open(&t->log, t->world.env, "/tmp/meta", true, (struct log){0},
                                       remember, &t->replayed, NULL),
                     0);
}

static void append(struct log_test *t, const char *first, const char *second)
{
    struct record_list list = {0};
    int64_t offset;
    add_topic_record(&list, first, 1);
    if (second)
        add_topic_record(&list, second, 2);
    assert_int_equal(metadata_log_append(t->log, &list, &offset, NULL), 0);
    record_list_fini(&list);
}

static int open_sim(void **state)
{
    struct log_test *t = mem_zalloc(sizeof *t);
    t->world.sim = NULL;
    assert_int_equal(sim_new(&t->world.sim, 1, NULL), 0);
    t->world.env = sim_env(t->world.sim);
    *state = t;
    return 0;
}

static int close_sim(void **state)
{
    struct log_test *t = *state;
    metadata_log_close(t->log);
    sim_free(t->world.sim);
    mem_free(t);
    return 0;
}

static void commits_are_replayed_in_order(void **state)
{
    struct log_test *t = *state;
    open_log(t);
    append(t, "a", "b");
    append(t, "c", NULL);
    metadata_log_close(t->log);
    open_log(t);
    assert_int_equal(t->replayed.count, 3);
    assert_string_equal(t->replayed.names[0], "a");
    assert_string_equal(t->replayed.names[2], "c");
    assert_int_equal(t->replayed.offsets[2], 2);
    assert_int_equal(metadata_log_next_offset(t->log), 3);
}

static int64_t cut_log(struct log_test *t, int64_t size)
{
    const cafka_env *env = t->world.env;
    cafka_env_file *file;
    assert_int_equal(env->file_open(env, LOG_FILE, CAFKA_FILE_READ | CAFKA_FILE_WRITE, &file), 0);
    int64_t old = env->file_size(env, file);
    if (size >= 0)
        assert_int_equal(env->file_truncate(env, file, size), 0);
    env->file_close(env, file);
    return old;
}

/* A commit that a crash left half-written is gone whole, wherever it was cut. */
static void a_torn_commit_is_cut_off(void **state)
{
    struct log_test *t = *state;
    open_log(t);
    append(t, "a", "b");
    int64_t whole = cut_log(t, -1);
    append(t, "c", NULL);
    int64_t size = cut_log(t, -1);
    metadata_log_close(t->log);
    for (int64_t cut = size - 1; cut >= whole; cut--) {
        cut_log(t, cut);
        open_log(t);
        assert_int_equal(t->replayed.count, 2);
        assert_int_equal(cut_log(t, -1), whole);
        append(t, "c", NULL); /* and the log goes on behind what is whole */
        metadata_log_close(t->log);
        open_log(t);
        assert_int_equal(t->replayed.count, 3);
        metadata_log_close(t->log);
    }
    t->log = NULL;
}

static void a_flipped_bit_ends_the_log(void **state)
{
    struct log_test *t = *state;
    const cafka_env *env = t->world.env;
    cafka_env_file *file;
    uint8_t byte;
    open_log(t);
    append(t, "a", NULL);
    int64_t whole = cut_log(t, -1);
    append(t, "b", NULL);
    metadata_log_close(t->log);
    assert_int_equal(env->file_open(env, LOG_FILE, CAFKA_FILE_READ | CAFKA_FILE_WRITE, &file), 0);
    assert_int_equal(env->file_read(env, file, &byte, 1, whole + 70), 1);
    byte ^= 4;
    struct iovec piece = {&byte, 1};
    assert_int_equal(env->file_write(env, file, &piece, 1, whole + 70), 1);
    env->file_close(env, file);
    open_log(t);
    assert_int_equal(t->replayed.count, 1);
}

static void a_power_loss_keeps_what_was_committed(void **state)
{
    struct log_test *t = *state;
    open_log(t);
    append(t, "a", "b");
    append(t, "c", NULL);
    sim_disk_crash(t->world.sim, "/tmp/meta");
    metadata_log_close(t->log);
    open_log(t);
    assert_int_equal(t->replayed.count, 3);
}

static void a_disk_that_is_full_changes_nothing(void **state)
{
    struct log_test *t = *state;
    struct record_list list = {0};
    int64_t offset;
    open_log(t);
    append(t, "a", NULL);
    sim_disk_capacity(t->world.sim, sim_disk_used(t->world.sim) + 10);
    add_topic_record(&list, "b", 2);
    cafka_error err = {0};
    assert_int_equal(metadata_log_append(t->log, &list, &offset, &err), CAFKA_ERR_IO);
    sim_disk_capacity(t->world.sim, 0);
    append(t, "c", NULL);
    record_list_fini(&list);
    metadata_log_close(t->log);
    open_log(t);
    assert_int_equal(t->replayed.count, 2);
    assert_string_equal(t->replayed.names[1], "c");
}

/* --- the image --- */

static void records_cut_anywhere_are_refused(void **state)
{
    struct record_list list = {0};
    struct image image;
    (void)state;
    add_topic_record(&list, "topic", 9);
    for (size_t size = 0; size < list.items[0].size; size++) {
        image_init(&image);
        assert_int_not_equal(image_apply(&image, 0, bytes_of(list.items[0].data, size), NULL), 0);
        assert_null(image_topic(&image, str_of("topic")));
        image_fini(&image);
    }
    record_list_fini(&list);
}

static void an_unknown_record_is_skipped(void **state)
{
    static const uint8_t later[] = {1, 99, 0, 1, 2, 3};
    struct image image;
    (void)state;
    image_init(&image);
    assert_int_equal(image_apply(&image, 5, bytes_of(later, sizeof later), NULL), 0);
    assert_int_equal(image.offset, 5);
    image_fini(&image);
}

static char *describe(const struct image *image)
{
    struct record_list list = {0};
    struct buffer text = {0};
    assert_int_equal(image_write(image, &list, NULL), 0);
    for (size_t i = 0; i < list.count; i++)
        for (size_t j = 0; j < list.items[i].size; j++)
            buffer_printf(&text, "%02x%s", list.items[i].data[j],
                          j + 1 == list.items[i].size ? "\n" : "");
    record_list_fini(&list);
    return buffer_string(&text);
}

static void create(struct cluster_fixture *f, const char *text)
{
    struct topic_option option;
    cafka_error err = {0};
    assert_int_equal(topic_option_parse(&option, text, NULL), 0);
    if (cluster_create_topic(f->cluster, &option, &err))
        fail_msg("%s", err.message);
    struct cluster_options o = {.topics = mem_memdup(&option, sizeof option), .topic_count = 1};
    cluster_options_fini(&o);
}

static struct config_change set(const char *name, const char *value)
{
    return (struct config_change){str_of(name), CONFIG_OP_SET, str_of(value)};
}

/* What brokers have applied is what the controller has, and so is a snapshot of it. */
static void images_agree(void **state)
{
    struct cluster_fixture *f = *state;
    struct config_change change = set("log.retention.ms", "77");
    f->brokers = 3;
    fixture_start(f, NULL);
    struct controller *c = f->cluster->controller;
    create(f, "a:4:2:retention.ms=5");
    create(f, "b:1:3");
    create(f, "gone:2:1");
    assert_int_equal(cluster_delete_topic(f->cluster, "gone", NULL), 0);
    assert_int_equal(controller_alter_configs(c, CONFIG_RESOURCE_BROKER, str_of(""), &change, 1,
                                              false, false, NULL),
                     0);
    deferred_run(&f->cluster->deferred);
    char *expected = describe(&c->image);
    for (int i = 0; i < 3; i++) {
        char *have = describe(&f->cluster->brokers[i]->image);
        assert_string_equal(have, expected);
        mem_free(have);
    }
    assert_int_equal(broker_config_long(&f->cluster->brokers[1]->config, "log.retention.ms"), 77);

    struct record_list list = {0};
    struct image copy;
    image_init(&copy);
    assert_int_equal(image_write(&c->image, &list, NULL), 0);
    for (size_t i = 0; i < list.count; i++)
        assert_int_equal(image_apply(&copy, (int64_t)i, list.items[i], NULL), 0);
    char *again = describe(&copy);
    assert_string_equal(again, expected);
    mem_free(again);
    mem_free(expected);
    image_fini(&copy);
    record_list_fini(&list);
}

static void everything_is_there_after_a_restart(void **state)
{
    struct cluster_fixture *f = *state;
    f->brokers = 3;
    f->data_dir = mem_strdup("/tmp/cafka-test-restart");
    (void)env_remove_tree(f->world.env, f->data_dir, NULL);
    fixture_start(f, NULL);
    create(f, "kept:6:2:cleanup.policy=compact");
    const struct topic_image *topic = image_topic(&f->cluster->controller->image, str_of("kept"));
    struct uuid id = topic->id;
    int32_t epoch = topic->partitions[0].leader_epoch;
    char cluster_id[UUID_TEXT_SIZE];
    strcpy(cluster_id, f->cluster->cluster_id);
    int64_t first = -1, second = -1;
    assert_int_equal(controller_allocate_producer_ids(f->cluster->controller, 1, &first, NULL), 0);

    fixture_stop(f, false); /* as kill -9 */
    fixture_start(f, NULL);
    topic = image_topic(&f->cluster->brokers[2]->image, str_of("kept"));
    assert_non_null(topic);
    assert_true(uuid_equal(topic->id, id));
    assert_int_equal(topic->partition_count, 6);
    assert_string_equal(f->cluster->cluster_id, cluster_id);
    assert_true(topic->partitions[0].leader_epoch > epoch); /* a broker that came back leads anew */
    for (int i = 0; i < 6; i++)
        assert_true(topic->partitions[i].leader > 0);
    struct log_config config;
    broker_topic_config(f->cluster->brokers[0], topic, &config);
    assert_true(config.cleanup_compact && !config.cleanup_delete);
    assert_int_equal(controller_allocate_producer_ids(f->cluster->controller, 1, &second, NULL), 0);
    assert_int_equal(second, first + PRODUCER_ID_BLOCK); /* no id is given twice */
}

/* A real broker's directory has no log of this controller; its topics are found all the same. */
static void topics_are_found_without_the_metadata_log(void **state)
{
    struct cluster_fixture *f = *state;
    f->data_dir = mem_strdup("/tmp/cafka-test-found");
    (void)env_remove_tree(f->world.env, f->data_dir, NULL);
    fixture_start(f, NULL);
    create(f, "found:3:1:retention.ms=77");
    struct uuid id = image_topic(&f->cluster->controller->image, str_of("found"))->id;
    fixture_stop(f, true);
    assert_int_equal(env_remove_tree(f->world.env, "/tmp/cafka-test-found/controller", NULL), 0);

    fixture_start(f, NULL);
    const struct topic_image *topic = image_topic(&f->cluster->brokers[0]->image, str_of("found"));
    assert_non_null(topic);
    assert_true(uuid_equal(topic->id, id));
    assert_int_equal(topic->partition_count, 3);
    assert_int_equal(topic->partitions[2].leader, 1);
    struct log_config config;
    broker_topic_config(f->cluster->brokers[0], topic, &config);
    assert_int_equal(config.retention_ms, -1); /* what is not known must not throw data away */
}

static void a_dead_leader_is_replaced_from_the_isr(void **state)
{
    struct cluster_fixture *f = *state;
    f->brokers = 3;
    fixture_start(f, NULL);
    create(f, "t:3:3");
    create(f, "single:3:1");
    const struct image *image = &f->cluster->controller->image;
    struct topic_image *topic = image_topic(image, str_of("t"));
    int32_t leader = topic->partitions[0].leader, epoch = topic->partitions[0].leader_epoch;
    broker_stop(cluster_broker(f->cluster, leader), false);
    deferred_run(&f->cluster->deferred);
    const struct partition_image *p = &topic->partitions[0];
    assert_true(p->leader > 0 && p->leader != leader);
    assert_int_equal(p->leader_epoch, epoch + 1);
    assert_int_equal(p->isr_count, 2);
    int none = 0;
    struct topic_image *single = image_topic(image, str_of("single"));
    for (int i = 0; i < 3; i++)
        none += single->partitions[i].leader == -1;
    assert_int_equal(none, 1); /* its only replica is gone; it stays in the ISR */

    assert_int_equal(broker_start(cluster_broker(f->cluster, leader), NULL), 0);
    for (int i = 0; i < 3; i++)
        assert_true(single->partitions[i].leader > 0);
    char *expected = describe(image), *have = describe(&f->cluster->brokers[leader - 1]->image);
    assert_string_equal(have, expected);
    mem_free(expected);
    mem_free(have);
}

static void a_leader_is_moved_to_an_in_sync_replica_only(void **state)
{
    struct cluster_fixture *f = *state;
    f->brokers = 3;
    fixture_start(f, NULL);
    create(f, "t:1:2");
    struct controller *c = f->cluster->controller;
    const struct partition_image *p = &image_topic(&c->image, str_of("t"))->partitions[0];
    int32_t outside = 6 - p->replicas[0] - p->replicas[1], other = p->replicas[1];
    assert_int_equal(controller_move_leader(c, str_of("t"), 0, outside, NULL),
                     ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE);
    assert_int_equal(controller_move_leader(c, str_of("t"), 1, other, NULL),
                     ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(controller_move_leader(c, str_of("t"), 0, other, NULL), 0);
    assert_int_equal(p->leader, other);
    assert_int_equal(p->leader_epoch, 1);
}

/* --- placement --- */

static void replicas_are_spread(void **state)
{
    struct cluster_fixture *f = *state;
    int leaders[4] = {0}, replicas[4] = {0};
    f->brokers = 3;
    fixture_start(f, NULL);
    create(f, "t:12:2");
    const struct topic_image *t = image_topic(&f->cluster->controller->image, str_of("t"));
    for (int i = 0; i < 12; i++) {
        const struct partition_image *p = &t->partitions[i];
        assert_int_equal(p->replica_count, 2);
        assert_int_not_equal(p->replicas[0], p->replicas[1]);
        assert_int_equal(p->leader, p->replicas[0]);
        leaders[p->leader]++;
        replicas[p->replicas[0]]++;
        replicas[p->replicas[1]]++;
    }
    for (int id = 1; id <= 3; id++) {
        assert_int_equal(leaders[id], 4);
        assert_in_range(replicas[id], 6, 10);
    }
}

static void leaders_live_and_replicas_are_as_many_as_brokers(void **state)
{
    struct cluster_fixture *f = *state;
    f->brokers = 3;
    fixture_start(f, NULL);
    broker_stop(cluster_broker(f->cluster, 2), false);
    create(f, "t:6:3");
    const struct topic_image *t = image_topic(&f->cluster->controller->image, str_of("t"));
    for (int i = 0; i < 6; i++) {
        assert_int_not_equal(t->partitions[i].leader, 2);
        assert_int_equal(t->partitions[i].replica_count, 3);
        assert_int_equal(t->partitions[i].isr_count, 2);
    }
    struct topic_option option = {.name = (char *)"u", .partitions = 1, .replicas = 4};
    cafka_error err = {0};
    assert_int_equal(cluster_create_topic(f->cluster, &option, &err),
                     ERR_INVALID_REPLICATION_FACTOR);
}

/* --- releases --- */

static void releases_offer_what_they_did(void **state)
{
    (void)state;
    int newest = release_find(NULL), old = release_find("3.9");
    assert_int_equal(release_find("3.9.1"), old);
    assert_int_equal(release_find("9.9"), -1);
    assert_int_equal(release_find("3.91"), -1);
    assert_int_equal(release_range(newest, 0).min, 0); /* offered, for old clients' sake … */
    assert_false(release_takes(newest, 0, 2));         /* … and not taken */
    assert_true(release_takes(old, 0, 0));
    assert_int_equal(release_range(old, 0).max, 11);
    assert_int_equal(release_range(old, 1).min, 0);
    assert_int_equal(release_range(old, 1).max, 17);
    assert_int_equal(release_range(old, 3).max, 12);
    assert_false(release_takes(newest, 4, 0)); /* LeaderAndIsr */
    assert_true(release_takes(newest, 71, 0));
}

int main(void)
{
#define LOG_TEST(function) cmocka_unit_test_setup_teardown(function, open_sim, close_sim)
#define TEST(function) cmocka_unit_test_setup_teardown(function, fixture_open, fixture_close)
    const struct CMUnitTest tests[] = {
        LOG_TEST(commits_are_replayed_in_order),
        LOG_TEST(a_torn_commit_is_cut_off),
        LOG_TEST(a_flipped_bit_ends_the_log),
        LOG_TEST(a_power_loss_keeps_what_was_committed),
        LOG_TEST(a_disk_that_is_full_changes_nothing),
        cmocka_unit_test(records_cut_anywhere_are_refused),
        cmocka_unit_test(an_unknown_record_is_skipped),
        TEST(images_agree),
        TEST(everything_is_there_after_a_restart),
        TEST(topics_are_found_without_the_metadata_log),
        TEST(a_dead_leader_is_replaced_from_the_isr),
        TEST(a_leader_is_moved_to_an_in_sync_replica_only),
        TEST(replicas_are_spread),
        TEST(leaders_live_and_replicas_are_as_many_as_brokers),
        cmocka_unit_test(releases_offer_what_they_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
