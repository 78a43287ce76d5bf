/*
 * test_fork.c - a process with clients forks: in the child every call says so and freeing gives back
 * the descriptors without a word to the brokers; the parent does not notice.
 */
#include "mock/mock_fixture.h"

#include <dirent.h>

#include <cafka/admin.h>

#include "broker_process.h"
#include "env/env.h"

enum { PATIENCE_MS = 30000 };

struct clients {
    cafka_loop *loop; /* NULL: each has its own */
    cafka_producer *producer;
    cafka_consumer *consumer;
    cafka_admin *admin;
};

static int count_descriptors(void)
{
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    for (struct dirent *entry; all && (entry = readdir(all));)
        count += entry->d_name[0] != '.';
    if (all)
        closedir(all);
    return count;
}

/* The real world, in which connections are counted. */
static cafka_env world;
static int dials;

static int count_dial(const cafka_env *env, const cafka_address *to,
                      const cafka_dial_options *options)
{
    dials++; /* on the loop's thread; read while nothing dials */
    return cafka_env_real()->dial_with(env, to, options);
}

static cafka_config *config_in(cafka_loop *loop)
{
    cafka_config *config;
    assert_int_equal(cafka_config_new(&config, NULL), CAFKA_OK);
    assert_int_equal(cafka_config_set(config, "bootstrap.servers", bootstrap, NULL), CAFKA_OK);
    cafka_config_set_env(config, &world);
    if (loop)
        cafka_config_set_loop(config, loop);
    return config;
}

static int send_one(cafka_producer *producer, cafka_error *err)
{
    cafka_record record = {.topic = "records", .value = "x", .value_size = 1};
    int rc = cafka_producer_send(producer, &record, err);
    return rc ? rc : cafka_producer_flush(producer, PATIENCE_MS, err);
}

static void read_one(cafka_consumer *consumer)
{
    cafka_error err = {0};
    cafka_fetch *fetch = NULL;
    cafka_record_view record;
    while (!fetch)
        if (cafka_consumer_poll(consumer, PATIENCE_MS, &fetch, &err))
            fail_msg("poll: %s", err.message);
    assert_int_equal(cafka_fetch_next(fetch, &record, &err), CAFKA_OK);
    cafka_fetch_free(fetch);
}

static void ask_one(cafka_admin *admin)
{
    cafka_error err = {0};
    cafka_cluster_info *cluster = NULL;
    if (cafka_admin_describe_cluster(admin, PATIENCE_MS, &cluster, &err))
        fail_msg("describe: %s", err.message);
    cafka_cluster_info_free(cluster);
}

/* Three clients, each with a connection that was used. */
static void open_clients(struct clients *c, unsigned mode)
{
    cafka_error err = {0};
    world = *cafka_env_real();
    world.dial_with = count_dial;
    *c = (struct clients){0};
    if (mode == CAFKA_LOOP_EXTERNAL)
        assert_int_equal(cafka_loop_new_in(&c->loop, &world, mode, &err), CAFKA_OK);
    cafka_config *config = config_in(c->loop);
    if (cafka_producer_new(&c->producer, config, &err) ||
        cafka_consumer_new(&c->consumer, config, &err) || cafka_admin_new(&c->admin, config, &err))
        fail_msg("no clients: %s", err.message);
    cafka_config_free(config);
    if (send_one(c->producer, &err))
        fail_msg("send: %s", err.message);
    assign_from(c->consumer, "records", 1, CAFKA_OFFSET_BEGINNING);
    read_one(c->consumer);
    ask_one(c->admin);
}

static void free_clients(struct clients *c)
{
    cafka_producer_free(c->producer);
    cafka_consumer_free(c->consumer);
    cafka_admin_free(c->admin);
    cafka_loop_free(c->loop);
}

/* --- in the child, where cmocka's words would be the parent's: the number of what is wrong --- */

static int use_producer(cafka_producer *producer)
{
    cafka_error err = {0};
    cafka_record record = {.topic = "records", .value = "x", .value_size = 1};
    size_t accepted;
    cafka_topic *topic;
    int32_t partitions;
    if (cafka_producer_send(producer, &record, &err) != CAFKA_ERR_FORKED || strlen(err.message) < 10)
        return 1;
    if (cafka_producer_try_send(producer, &record, &err) != CAFKA_ERR_FORKED ||
        cafka_producer_send_many(producer, &record, 1, &accepted, &err) != CAFKA_ERR_FORKED ||
        cafka_producer_send_wait(producer, &record, NULL, &err) != CAFKA_ERR_FORKED ||
        cafka_producer_topic(producer, "records", &topic, &err) != CAFKA_ERR_FORKED ||
        cafka_producer_partitions(producer, "records", -1, &partitions, &err) != CAFKA_ERR_FORKED)
        return 2;
    if (cafka_producer_flush(producer, -1, &err) != CAFKA_ERR_FORKED ||
        cafka_producer_close(producer, -1, &err) != CAFKA_ERR_FORKED)
        return 3;
    return cafka_dispatch(cafka_producer_client(producer), -1) == CAFKA_ERR_FORKED ? 0 : 4;
}

static int use_others(struct clients *c)
{
    cafka_error err = {0};
    cafka_fetch *fetch;
    cafka_cluster_info *cluster;
    cafka_position at = {.topic = "records"};
    if (cafka_consumer_poll(c->consumer, -1, &fetch, &err) != CAFKA_ERR_FORKED ||
        cafka_consumer_assign(c->consumer, &at, 1, &err) != CAFKA_ERR_FORKED ||
        cafka_consumer_close(c->consumer, -1, &err) != CAFKA_ERR_FORKED)
        return 5;
    cafka_consumer_wakeup(c->consumer); /* says nothing, and wakes nobody */
    if (cafka_admin_describe_cluster(c->admin, -1, &cluster, &err) != CAFKA_ERR_FORKED ||
        cafka_admin_close(c->admin, -1, &err) != CAFKA_ERR_FORKED)
        return 6;
    return c->loop && cafka_loop_run(c->loop, -1, &err) != CAFKA_ERR_FORKED ? 7 : 0;
}

/* A client of the child's own works. */
static int make_another(void)
{
    cafka_error err = {0};
    cafka_producer *producer;
    cafka_config *config = config_in(NULL);
    int rc = cafka_producer_new(&producer, config, &err);
    cafka_config_free(config);
    if (!rc)
        rc = send_one(producer, &err);
    if (!rc)
        cafka_producer_free(producer);
    return rc ? 8 : 0;
}

static int live_as_child(struct clients *c, int descriptors)
{
    int wrong = use_producer(c->producer);
    if (!wrong)
        wrong = use_others(c);
    free_clients(c);
    if (!wrong && count_descriptors() != descriptors)
        wrong = 20 + count_descriptors() - descriptors;
    return wrong ? wrong : make_another();
}

static void a_child_has_no_clients_and_the_parent_goes_on(unsigned mode)
{
    struct clients c;
    cafka_error err = {0};
    int before = count_descriptors(), status = -1;
    open_clients(&c, mode);
    int dialed = dials;
    assert_true(count_descriptors() > before + 6);
    fflush(NULL);
    pid_t child = fork();
    if (!child)
        _exit(live_as_child(&c, before));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
    if (send_one(c.producer, &err))
        fail_msg("the parent: %s", err.message);
    read_one(c.consumer);
    ask_one(c.admin);
    assert_int_equal(dials, dialed); /* its connections are the same */
    assert_int_equal(cafka_producer_close(c.producer, PATIENCE_MS, &err), CAFKA_OK);
    free_clients(&c);
    assert_int_equal(count_descriptors(), before);
}

static void a_child_of_clients_with_threads(void **state)
{
    (void)state;
    a_child_has_no_clients_and_the_parent_goes_on(CAFKA_LOOP_BACKGROUND);
}

static void a_child_of_clients_on_one_external_loop(void **state)
{
    (void)state;
    a_child_has_no_clients_and_the_parent_goes_on(CAFKA_LOOP_EXTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_of_clients_with_threads),
        cmocka_unit_test(a_child_of_clients_on_one_external_loop),
    };
    return cmocka_run_group_tests(tests, start_broker, stop_broker);
}
