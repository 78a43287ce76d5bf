/*
 * test_configs.c - values of configs, properties files, names of topics, what a topic's configs come to.
 */
#include "mockbroker/broker_config.h"
#include "mockbroker/topic_config.h"
#include "protocol/error_codes.h"
#include "record/compress.h"
#include "tests/unit/broker/broker_fixture.h"

static int check(const char *name, const char *value, cafka_error *err)
{
    error_clear(err);
    return config_value_check(topic_config_find(str_of(name)), value, err);
}

static void values_are_checked_as_kafka_does(void **state)
{
    cafka_error err = {0};
    (void)state;
    assert_int_equal(check("retention.ms", "1000", &err), 0);
    assert_int_equal(check("retention.ms", " -1 ", &err), 0);
    assert_int_equal(check("retention.ms", "-2", &err), ERR_INVALID_CONFIG);
    assert_string_equal(err.message,
                        "Invalid value -2 for configuration retention.ms: Value must be at least -1");
    assert_int_equal(check("retention.ms", "abc", &err), ERR_INVALID_CONFIG);
    assert_string_equal(err.message,
                        "Invalid value abc for configuration retention.ms: Not a number of type LONG");
    assert_int_equal(check("retention.ms", "", &err), ERR_INVALID_CONFIG);
    assert_int_equal(check("retention.ms", "9223372036854775807", &err), 0);
    assert_int_equal(check("retention.ms", "9223372036854775808", &err), ERR_INVALID_CONFIG);
    assert_int_equal(check("max.message.bytes", "2147483648", &err), ERR_INVALID_CONFIG);
    assert_int_equal(check("min.cleanable.dirty.ratio", "0.25", &err), 0);
    assert_int_equal(check("min.cleanable.dirty.ratio", "1.5", &err), ERR_INVALID_CONFIG);
    assert_int_equal(check("min.cleanable.dirty.ratio", "0x1", &err), ERR_INVALID_CONFIG);
    assert_int_equal(check("preallocate", "TRUE", &err), 0);
    assert_int_equal(check("preallocate", "yes", &err), ERR_INVALID_CONFIG);
    assert_int_equal(check("compression.gzip.level", "-1", &err), 0);
    assert_int_equal(check("compression.gzip.level", "0", &err), ERR_INVALID_CONFIG);
    assert_int_equal(check("compression.gzip.level", "10", &err), ERR_INVALID_CONFIG);
}

static void lists_and_words_are_checked_item_by_item(void **state)
{
    cafka_error err = {0};
    (void)state;
    assert_int_equal(check("cleanup.policy", "compact, delete", &err), 0);
    assert_int_equal(check("cleanup.policy", "", &err), 0);
    assert_int_equal(check("cleanup.policy", "compact,foo", &err), ERR_INVALID_CONFIG);
    assert_string_equal(err.message,
                        "Invalid value foo for configuration cleanup.policy: String must "
                        "be one of: compact, delete");
    assert_int_equal(check("compression.type", "zstd", &err), 0);
    assert_int_equal(check("compression.type", "std", &err), ERR_INVALID_CONFIG);
    assert_int_equal(check("leader.replication.throttled.replicas", "0:1,1:2", &err), 0);
    assert_int_equal(check("leader.replication.throttled.replicas", "*", &err), 0);
    assert_int_equal(check("leader.replication.throttled.replicas", "0-1", &err),
                     ERR_INVALID_CONFIG);
}

static void every_default_is_a_value(void **state)
{
    cafka_error err = {0};
    (void)state;
    for (size_t i = 0; i < topic_config_def_count; i++)
        if (topic_config_defs[i].fallback &&
            config_value_check(&topic_config_defs[i], topic_config_defs[i].fallback, &err))
            fail_msg("%s", err.message);
    for (size_t i = 0; i < broker_config_def_count; i++) {
        const struct config_def *def = &broker_config_defs[i];
        if (def->fallback && config_value_check(def, def->fallback, &err))
            fail_msg("%s", err.message);
        assert_ptr_equal(broker_config_find(str_of(def->name)), def);
    }
    assert_null(broker_config_find(str_of("num.partition")));
    assert_null(broker_config_find(str_of("")));
}

/* Every synonym of a topic config is a property of brokers. */
static void synonyms_exist(void **state)
{
    (void)state;
    for (size_t i = 0; i < topic_config_def_count; i++)
        for (int j = 0; j < CONFIG_SYNONYMS && topic_config_defs[i].synonyms[j].name; j++)
            assert_non_null(broker_config_find(str_of(topic_config_defs[i].synonyms[j].name)));
}

static void a_properties_file_is_read_as_java_does(void **state)
{
    static const char text[] = "# comment\n! another\r\n\n"
                               "plain=value\n"
                               "  spaced  :  a b \n"
                               "bare\n"
                               "long = one, \\\n    two\n"
                               "esc\\=aped=tab\\tcolon\\:\n"
                               "unicode=\\u00e9\n"
                               "twice=1\ntwice=2\n"
                               "last=end";
    struct properties p = {0};
    (void)state;
    assert_int_equal(properties_parse(&p, str_of(text), NULL), 0);
    assert_string_equal(properties_get(&p, "plain"), "value");
    assert_string_equal(properties_get(&p, "spaced"), "a b ");
    assert_string_equal(properties_get(&p, "bare"), "");
    assert_string_equal(properties_get(&p, "long"), "one, two");
    assert_string_equal(properties_get(&p, "esc=aped"), "tab\tcolon:");
    assert_string_equal(properties_get(&p, "unicode"), "\xc3\xa9");
    assert_string_equal(properties_get(&p, "twice"), "2");
    assert_string_equal(properties_get(&p, "last"), "end");
    assert_int_equal(p.values.count, 8);
    assert_int_equal(properties_parse(&p, str_of("x=\\u12"), NULL), CAFKA_ERR_CONFIG);
    assert_int_equal(properties_parse(&p, str_of("=novalue"), NULL), CAFKA_ERR_CONFIG);
    properties_fini(&p);
}

static int warnings;
static void count_warning(void *user, enum log_level level, const char *area, const char *message)
{
    (void)user;
    (void)area;
    (void)message;
    warnings += level == LOG_WARN;
}

static void a_property_is_known_or_is_suggested(void **state)
{
    struct properties p = {0};
    cafka_error err = {0};
    struct log_sink sink = {.write = count_warning, .level = LOG_INFO};
    struct log log = {&sink, "test"};
    (void)state;
    properties_set(&p, "num.partition", "3", NULL);
    assert_int_equal(properties_check(&p, true, log, &err), CAFKA_ERR_CONFIG);
    assert_string_equal(err.message,
                        "unknown broker property num.partition, did you mean num.partitions?");
    warnings = 0;
    assert_int_equal(properties_check(&p, false, log, NULL), 0);
    assert_int_equal(warnings, 1); /* of a file: a plugin may know it */
    properties_fini(&p);
    p = (struct properties){0};
    properties_set(&p, "num.partitions", "many", NULL);
    error_clear(&err);
    assert_int_equal(properties_check(&p, false, log, &err), CAFKA_ERR_CONFIG);
    properties_set(&p, "num.partitions", "3", NULL);
    properties_set(&p, "zookeeper.connect", "x", NULL);
    properties_set(&p, "num.io.threads", "2", NULL);
    warnings = 0;
    assert_int_equal(properties_check(&p, true, log, NULL), 0);
    assert_int_equal(warnings, 2);
    properties_fini(&p);
}

static void a_topic_inherits_from_the_broker(void **state)
{
    struct properties p = {0};
    struct broker_config broker = {.properties = &p, .broker_id = 1};
    struct config_entry own[] = {{(char *)"cleanup.policy", (char *)"compact,delete"},
                                 {(char *)"segment.bytes", (char *)"2097152"}};
    struct config_image overrides = {.entries = own, .entry_count = 2};
    struct log_config c;
    (void)state;
    topic_config_resolve(&c, &broker, NULL);
    assert_true(c.cleanup_delete && !c.cleanup_compact);
    assert_int_equal(c.retention_ms, 604800000); /* 168 hours */
    assert_int_equal(c.compression_type, LOG_COMPRESSION_PRODUCER);

    properties_set(&p, "log.retention.hours", "2", NULL);
    properties_set(&p, "compression.type", "lz4", NULL);
    properties_set(&p, "log.message.timestamp.type", "LogAppendTime", NULL);
    topic_config_resolve(&c, &broker, &overrides);
    assert_true(c.cleanup_delete && c.cleanup_compact && c.log_append_time);
    assert_int_equal(c.retention_ms, 7200000);
    assert_int_equal(c.segment_bytes, 2097152);
    assert_int_equal(c.compression_type, CODEC_LZ4);

    properties_set(&p, "log.retention.minutes", "3", NULL); /* minutes go before hours */
    topic_config_resolve(&c, &broker, NULL);
    assert_int_equal(c.retention_ms, 180000);
    properties_set(&p, "log.retention.minutes", "-1", NULL);
    topic_config_resolve(&c, &broker, NULL);
    assert_int_equal(c.retention_ms, -1);
    properties_set(&p, "log.retention.ms", "7", NULL);
    topic_config_resolve(&c, &broker, NULL);
    assert_int_equal(c.retention_ms, 7);
    properties_fini(&p);
}

static void configs_must_go_together(void **state)
{
    struct properties p = {0};
    struct broker_config broker = {.properties = &p, .broker_id = 1};
    struct config_entry lags[] = {{(char *)"max.compaction.lag.ms", (char *)"1"},
                                  {(char *)"min.compaction.lag.ms", (char *)"5"}};
    struct config_entry null[] = {{(char *)"retention.ms", NULL}};
    struct config_entry unknown[] = {{(char *)"no.such", (char *)"1"}};
    cafka_error err = {0};
    (void)state;
    assert_int_equal(topic_config_check(&broker, lags, 2, &err), ERR_INVALID_CONFIG);
    assert_string_equal(err.message, "conflict topic config setting min.compaction.lag.ms (5) > "
                                     "max.compaction.lag.ms (1)");
    assert_int_equal(topic_config_check(&broker, lags, 1, NULL), 0);
    assert_int_equal(topic_config_check(&broker, null, 1, NULL), ERR_INVALID_CONFIG);
    assert_int_equal(topic_config_check(&broker, unknown, 1, NULL), ERR_INVALID_CONFIG);
}

static void names_of_topics_have_rules(void **state)
{
    char name[251];
    (void)state;
    memset(name, 'a', sizeof name);
    assert_int_equal(topic_name_check((struct str){name, 249}, NULL), 0);
    assert_int_equal(topic_name_check((struct str){name, 250}, NULL), ERR_INVALID_TOPIC_EXCEPTION);
    assert_int_equal(topic_name_check(str_of("a.B_c-9"), NULL), 0);
    assert_int_equal(topic_name_check(str_of("..."), NULL), 0);
    const char *const bad[] = {"", ".", "..", "a b", "a/b", "\xc3\xa9", "a\n", "a:b"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(topic_name_check(str_of(bad[i]), NULL), ERR_INVALID_TOPIC_EXCEPTION);
    assert_int_equal(topic_name_check((struct str){"a\0b", 3}, NULL), ERR_INVALID_TOPIC_EXCEPTION);
    assert_true(topic_names_collide(str_of("a.b_c"), str_of("a_b.c")));
    assert_false(topic_names_collide(str_of("a.b"), str_of("a-b")));
    assert_true(topic_is_internal(str_of("__consumer_offsets")));
    assert_false(topic_is_internal(str_of("__consumer_offsets2")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_checked_as_kafka_does),
        cmocka_unit_test(lists_and_words_are_checked_item_by_item),
        cmocka_unit_test(every_default_is_a_value),
        cmocka_unit_test(synonyms_exist),
        cmocka_unit_test(a_properties_file_is_read_as_java_does),
        cmocka_unit_test(a_property_is_known_or_is_suggested),
        cmocka_unit_test(a_topic_inherits_from_the_broker),
        cmocka_unit_test(configs_must_go_together),
        cmocka_unit_test(names_of_topics_have_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
