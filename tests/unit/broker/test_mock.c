/*
 * test_mock.c - <cafka/mock.h>, with threads and sockets and in a simulated world, and the options
 * of the program.
 */
#include <cafka/mock.h>

#include "mockbroker/options.h"
#include "protocol/error_codes.h"
#include "protocol/errors.h"
#include "tests/unit/broker/broker_fixture.h"
#include "util/alloc.h"

static cafka_mock *start_mock(int simulated, int brokers)
{
    cafka_mock_options options = {.size = sizeof options,
                                  .brokers = brokers,
                                  .simulated = simulated,
                                  .seed = 5};
    cafka_mock *mock = NULL;
    cafka_error err = {0};
    if (cafka_mock_new(&mock, &options, &err))
        fail_msg("%s", err.message);
    return mock;
}

static int count_addresses(const char *bootstrap)
{
    int n = *bootstrap != 0;
    for (; *bootstrap; bootstrap++)
        n += *bootstrap == ',';
    return n;
}

static void play(int simulated)
{
    cafka_mock *mock = start_mock(simulated, 3);
    cafka_error err = {0};
    assert_int_equal(count_addresses(cafka_mock_bootstrap(mock)), 3);
    assert_non_null(cafka_mock_env(mock));
    assert_int_equal(cafka_mock_topic_create(mock, "t", 2, 3, "retention.ms=5", &err), 0);
    assert_int_equal(cafka_mock_topic_create(mock, "t", 2, 3, NULL, &err), ERR_TOPIC_ALREADY_EXISTS);
    assert_int_equal(cafka_mock_topic_create(mock, "u", 1, 9, NULL, &err),
                     ERR_INVALID_REPLICATION_FACTOR);
    assert_int_equal(cafka_mock_topic_create(mock, "u", 1, 1, "no.such=1", &err),
                     ERR_INVALID_CONFIG);

    int32_t leader = cafka_mock_leader(mock, "t", 0);
    assert_true(leader >= 1 && leader <= 3);
    assert_int_equal(cafka_mock_broker_kill(mock, leader, &err), 0);
    assert_int_equal(cafka_mock_broker_kill(mock, leader, &err), CAFKA_ERR_STATE);
    assert_int_not_equal(cafka_mock_leader(mock, "t", 0), leader);
    assert_int_equal(count_addresses(cafka_mock_bootstrap(mock)), 2);
    assert_int_equal(cafka_mock_broker_start(mock, leader, &err), 0);
    assert_int_equal(cafka_mock_broker_start(mock, leader, &err), CAFKA_ERR_STATE);
    assert_int_equal(cafka_mock_broker_stop(mock, leader, &err), 0);
    assert_int_equal(cafka_mock_broker_start(mock, leader, &err), 0);
    assert_int_equal(cafka_mock_broker_stop(mock, 4, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_mock_leader(mock, "t", 9), -1);
    assert_int_equal(cafka_mock_leader(mock, "none", 0), -1);
    assert_int_equal(cafka_mock_requests(mock, "Produce"), 0);
    assert_int_equal(cafka_mock_topic_delete(mock, "t", &err), 0);
    assert_int_equal(cafka_mock_topic_delete(mock, "t", &err), ERR_UNKNOWN_TOPIC_OR_PARTITION);
    cafka_mock_free(mock);
}

static void a_real_cluster_does_what_it_is_told(void **state)
{
    (void)state;
    play(0);
}

static void a_simulated_cluster_does_the_same(void **state)
{
    (void)state;
    play(1);
}

static void only_a_simulated_clock_is_advanced(void **state)
{
    cafka_mock *mock = start_mock(1, 1);
    const cafka_env *env = cafka_mock_env(mock);
    int64_t before = env->now(env);
    (void)state;
    assert_int_equal(cafka_mock_advance_ms(mock, 5000, NULL), 0);
    assert_true(env->now(env) - before >= 5000 * NS_PER_MS);
    cafka_mock_free(mock);
    mock = start_mock(0, 1);
    assert_int_equal(cafka_mock_advance_ms(mock, 1, NULL), CAFKA_ERR_STATE);
    cafka_mock_free(mock);
}

static void rules_are_checked_and_counted(void **state)
{
    cafka_mock *mock = start_mock(1, 1);
    cafka_mock_rule rule = {.size = sizeof rule, .api = "Fetch", .count = 1, .error = 6};
    int64_t id = 0;
    (void)state;
    assert_int_equal(cafka_mock_rule_add(mock, &rule, &id, NULL), 0);
    assert_int_equal(cafka_mock_rule_hits(mock, id), 0);
    assert_int_equal(cafka_mock_rule_hits(mock, id + 1), -1);
    rule.api = "Fetsch";
    assert_int_equal(cafka_mock_rule_add(mock, &rule, NULL, NULL), CAFKA_ERR_ARGUMENT);
    rule.api = NULL;
    rule.action = 17;
    assert_int_equal(cafka_mock_rule_add(mock, &rule, NULL, NULL), CAFKA_ERR_ARGUMENT);
    cafka_mock_rules_clear(mock);
    assert_int_equal(cafka_mock_rule_hits(mock, id), -1);
    cafka_mock_free(mock);
}

static void bad_options_are_refused_with_words(void **state)
{
    static const char *const topics[] = {"bad name:1"};
    const cafka_mock_options bad[] = {
        {.size = sizeof bad[0], .properties = "num.partition=1"},
        {.size = sizeof bad[0], .properties = "num.partitions=x"},
        {.size = sizeof bad[0], .api_versions = "1.0"},
        {.size = sizeof bad[0], .brokers = -1},
        {.size = sizeof bad[0], .topics = topics, .topic_count = 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cafka_mock *mock = NULL;
        cafka_error err = {0};
        assert_int_equal(cafka_mock_new(&mock, &bad[i], &err), CAFKA_ERR_CONFIG);
        assert_true(*err.message);
        assert_null(mock);
    }
    cafka_mock_free(NULL);
}

/* Every allocation of a start failing: an error, and nothing is lost (the sanitizers look). */
static void a_start_without_memory_fails_cleanly(void **state)
{
    static const char *const topics[] = {"t:2:1:retention.ms=1"};
    cafka_mock_options options = {.size = sizeof options,
                                  .simulated = 1,
                                  .topics = topics,
                                  .topic_count = 1,
                                  .properties = "num.partitions=2"};
    (void)state;
    for (unsigned long k = 1; k < 4000; k++) {
        cafka_mock *mock = NULL;
        cafka_error err = {0};
        mem_fail_after(k, 0);
        int rc = cafka_mock_new(&mock, &options, &err);
        unsigned long asked = mem_count();
        mem_fail_after(0, 0);
        cafka_mock_free(mock);
        if (!rc && asked < k)
            return;
        k += k / 16;
    }
    fail_msg("a start takes more allocations than this test allows");
}

/* --- the command line --- */

static int parse(struct program_options *o, cafka_error *err, int argc, ...)
{
    char *argv[16] = {(char *)"cafka-mockbroker"};
    va_list args;
    va_start(args, argc);
    for (int i = 0; i < argc; i++)
        argv[i + 1] = va_arg(args, char *);
    va_end(args);
    error_clear(err);
    return options_parse(o, argc + 1, argv, cafka_env_real(), (struct log){0}, err);
}

static void the_command_line_is_understood(void **state)
{
    struct program_options o;
    cafka_error err = {0};
    (void)state;
    assert_int_equal(parse(&o, &err, 7, "--brokers", "3", "--port=9092", "--topic",
                           "a:6:2:cleanup.policy=compact,delete,retention.ms=5", "--set",
                           "num.partitions=4"),
                     0);
    assert_int_equal(o.cluster.brokers, 3);
    assert_int_equal(o.cluster.port, 9092);
    assert_int_equal(o.cluster.control_port, -1);
    const struct topic_option *t = &o.cluster.topics[0];
    assert_string_equal(t->name, "a");
    assert_int_equal(t->partitions, 6);
    assert_int_equal(t->replicas, 2);
    assert_int_equal(t->config_count, 2);
    assert_string_equal(t->configs[0].value, "compact,delete");
    assert_string_equal(t->configs[1].value, "5");
    assert_string_equal(properties_get(&o.cluster.properties, "num.partitions"), "4");
    options_fini(&o);
    assert_int_equal(parse(&o, &err, 4, "--topic", "b", "--topic", "c::3"), 0);
    assert_int_equal(o.cluster.topics[0].partitions, -1);
    assert_int_equal(o.cluster.topics[1].partitions, -1);
    assert_int_equal(o.cluster.topics[1].replicas, 3);
    options_fini(&o);
}

static void a_bad_command_line_is_named(void **state)
{
    static const char *const bad[][2] = {
        {"--brokers", "0"},       {"--brokers", "x"},
        {"--port", "65536"},      {"--port", "-1"},
        {"--topic", "a b"},       {"--topic", "a:0"},
        {"--topic", "a:1:x"},     {"--topic", "a:1:1:foo"},
        {"--set", "novalue"},     {"--set", "num.partition=1"},
        {"--config", "/no/such"}, {"--api-versions", "2.1"},
        {"--what", "1"},          {"stray", "1"},
        {"--brokers", ""},        {"--data-dir", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct program_options o;
        cafka_error err = {0};
        if (!parse(&o, &err, 2, bad[i][0], bad[i][1]))
            fail_msg("%s %s is taken", bad[i][0], bad[i][1]);
        assert_true(*err.message);
        options_fini(&o);
    }
    struct program_options o;
    cafka_error err = {0};
    assert_int_not_equal(parse(&o, &err, 1, "--what"), 0);
    assert_non_null(strstr(err.message, "unknown option --what"));
    options_fini(&o);
    assert_int_not_equal(parse(&o, &err, 1, "--port"), 0);
    assert_non_null(strstr(err.message, "--port wants a value"));
    options_fini(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_real_cluster_does_what_it_is_told),
        cmocka_unit_test(a_simulated_cluster_does_the_same),
        cmocka_unit_test(only_a_simulated_clock_is_advanced),
        cmocka_unit_test(rules_are_checked_and_counted),
        cmocka_unit_test(bad_options_are_refused_with_words),
        cmocka_unit_test(a_start_without_memory_fails_cleanly),
        cmocka_unit_test(the_command_line_is_understood),
        cmocka_unit_test(a_bad_command_line_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
