/*
 * test_config.c - the table of properties, their values, aliases and text, and settings made of them.
 */
#define _XOPEN_SOURCE 700 /* mkstemp, pwrite */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/config.h"
#include "client/config_value.h"
#include "client/settings.h"
#include "record/compress.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/rng.h"

/* ---- scene ---- */

static int make_config(void **state)
{
    cafka_config *config;
    if (cafka_config_new(&config, NULL))
        return -1;
    *state = config;
    return 0;
}

static int drop_config(void **state)
{
    cafka_config_free(*state);
    return 0;
}

static void set(cafka_config *config, const char *name, const char *value)
{
    cafka_error err;
    if (cafka_config_set(config, name, value, &err))
        fail_msg("%s=%s: %s", name, value ? value : "(default)", err.message);
}

static void assert_value(const cafka_config *config, const char *name, const char *expected)
{
    const char *value;
    assert_int_equal(cafka_config_get(config, name, 0, &value, NULL, NULL), CAFKA_OK);
    if (!value || !expected)
        assert_ptr_equal(value, expected);
    else
        assert_string_equal(value, expected);
}

/* Setting fails with CAFKA_ERR_CONFIG, the message holds `said`, and the value stays. */
static void assert_refused(cafka_config *config, const char *name, const char *value,
                           const char *said)
{
    const char *before = NULL, *after = NULL;
    cafka_error err;
    (void)cafka_config_get(config, name, 0, &before, NULL, NULL); /* the name may be the mistake */
    assert_int_equal(cafka_config_set(config, name, value, &err), CAFKA_ERR_CONFIG);
    assert_int_equal(err.code, CAFKA_ERR_CONFIG);
    assert_true(err.flags & CAFKA_FLAG_CONFIG);
    if (!strstr(err.message, said))
        fail_msg("\"%s\" does not say \"%s\"", err.message, said);
    (void)cafka_config_get(config, name, 0, &after, NULL, NULL);
    assert_ptr_equal(before, after);
}

/* ---- the table ---- */

static void table_is_sorted_and_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < property_count; i++) {
        const struct property *p = &properties[i];
        if (i)
            assert_true(strcmp(properties[i - 1].name, p->name) < 0);
        assert_ptr_equal(property_find(p->name, NULL), p);
        assert_true(p->clients && p->importance && p->doc && p->range);
        assert_int_equal(!!(p->flags & CAFKA_PROPERTY_LATER), !!p->since);
        assert_true(strlen(p->doc) > 10 && p->doc[strlen(p->doc) - 1] == '.');
    }
    for (size_t i = 0; i < property_alias_count; i++) {
        const struct property_alias *alias, *wanted = &property_aliases[i];
        assert_non_null(property_find(wanted->name, &alias));
        assert_ptr_equal(alias, wanted);
    }
}

static void every_default_passes_its_own_check(void **state)
{
    (void)state;
    static const unsigned clients[] = {CAFKA_FOR_PRODUCER, CAFKA_FOR_CONSUMER, CAFKA_FOR_ADMIN};
    for (size_t i = 0; i < property_count; i++)
        for (size_t k = 0; k < 3; k++) {
            const char *text = property_default(&properties[i], clients[k]);
            char *kept = NULL;
            cafka_error err = {0};
            if (!text)
                continue;
            if (value_check(&properties[i], properties[i].name, text, &kept, &err))
                fail_msg("%s", err.message);
            assert_string_equal(kept, text);
            mem_free(kept);
        }
}

static void defaults_are_those_of_the_java_client(void **state)
{
    static const struct {
        const char *name;
        unsigned client;
        const char *value;
    } cases[] = {
        {"linger.ms", CAFKA_FOR_PRODUCER, "5"},
        {"batch.size", CAFKA_FOR_PRODUCER, "16384"},
        {"buffer.memory", CAFKA_FOR_PRODUCER, "33554432"},
        {"delivery.timeout.ms", CAFKA_FOR_PRODUCER, "120000"},
        {"receive.buffer.bytes", CAFKA_FOR_PRODUCER, "32768"},
        {"receive.buffer.bytes", CAFKA_FOR_CONSUMER, "65536"},
        {"connections.max.idle.ms", CAFKA_FOR_CONSUMER, "540000"},
        {"connections.max.idle.ms", CAFKA_FOR_ADMIN, "300000"},
        {"enable.metrics.push", CAFKA_FOR_ADMIN, "false"},
        {"fetch.max.bytes", CAFKA_FOR_CONSUMER, "52428800"},
        {"group.id", CAFKA_FOR_CONSUMER, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *value;
        int source = -1;
        assert_int_equal(cafka_config_get(*state, cases[i].name, cases[i].client, &value, &source,
                                          NULL),
                         0);
        assert_int_equal(source, CAFKA_CONFIG_DEFAULT);
        if (cases[i].value)
            assert_string_equal(value, cases[i].value);
        else
            assert_null(value);
    }
}

static void table_can_be_listed_from_outside(void **state)
{
    (void)state;
    cafka_property p = {.size = sizeof p};
    size_t count = 0, aliases = 0;
    int rc;
    while (!(rc = cafka_config_property(count, &p))) {
        assert_true(p.name && p.doc && p.range);
        aliases += !!p.alias_of;
        count++;
    }
    assert_int_equal(rc, CAFKA_END);
    assert_int_equal(count, property_count + property_alias_count);
    assert_int_equal(aliases, property_alias_count);

    struct {
        size_t size;
        const char *name;
        char guard;
    } older = {.size = offsetof(cafka_property, type), .guard = 'g'};
    assert_int_equal(cafka_config_property(0, (cafka_property *)&older), CAFKA_OK);
    assert_string_equal(older.name, properties[0].name);
    assert_int_equal(older.guard, 'g');
}

/* ---- values ---- */

static void values_are_kept_in_the_spelling_of_the_table(void **state)
{
    cafka_config *config = *state;
    static const struct {
        const char *name, *value, *kept;
    } cases[] = {
        {"linger.ms", " 20 ", "20"},
        {"acks", "-1", "all"},
        {"acks", "ALL", "all"},
        {"security.protocol", "sasl_ssl", "SASL_SSL"},
        {"enable.idempotence", "False", "false"},
        {"compression.gzip.level", "-1", "-1"},
        {"bootstrap.servers", " a:1 , b:2,", "a:1,b:2"},
        {"bootstrap.servers", "PLAINTEXT://a:1,[::1]:9092,host", "PLAINTEXT://a:1,[::1]:9092,host"},
        {"bootstrap.servers", "::1,fe80::1%9,[fe80::1%9]:1", "::1,fe80::1%9,[fe80::1%9]:1"},
        {"auto.offset.reset", "smallest", "earliest"},
        {"auto.offset.reset", "end", "latest"},
        {"auto.offset.reset", "by_duration:P1DT2H", "by_duration:P1DT2H"},
        {"auto.offset.reset", "by_duration:P-1DT25H", "by_duration:P-1DT25H"},
        {"partition.assignment.strategy", "org.apache.kafka.clients.consumer.StickyAssignor,range",
         "sticky,range"},
        {"partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner",
         "round_robin"},
        {"sasl.login.refresh.window.factor", "0.5", "0.5"},
        {"client.id", " as it is ", " as it is "},
        {"metric.reporters", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set(config, cases[i].name, cases[i].value);
        assert_value(config, cases[i].name, cases[i].kept);
    }
}

static void bad_value_is_refused_and_the_range_is_said(void **state)
{
    cafka_config *config = *state;
    static const struct {
        const char *name, *value, *said;
    } cases[] = {
        {"linger.ms", "soon", "it takes 0 .. 9223372036854775807"},
        {"linger.ms", "", "not a whole number"},
        {"linger.ms", "5ms", "not a whole number"},
        {"linger.ms", "-1", "out of range"},
        {"linger.ms", "9223372036854775808", "not a whole number"},
        {"batch.size", "2147483648", "it takes 0 .. 2147483647"},
        {"max.in.flight.requests.per.connection", "0", "it takes 1 .. 2147483647"},
        {"compression.gzip.level", "0", "it takes -1, 1 .. 9"},
        {"compression.gzip.level", "10", "it takes -1, 1 .. 9"},
        {"acks", "2", "not one of all, -1, 0, 1"},
        {"compression.type", "lz77", "not one of none, gzip, snappy, lz4, zstd"},
        {"enable.idempotence", "yes", "not one of true, false"},
        {"bootstrap.servers", "host:port", "takes host:port"},
        {"bootstrap.servers", "host:0", "takes host:port"},
        {"bootstrap.servers", "host:65536", "takes host:port"},
        {"bootstrap.servers", "host:", "takes host:port"},
        {"bootstrap.servers", ":9092", "takes host:port"},
        {"bootstrap.servers", "[::1", "takes host:port"},
        {"bootstrap.servers", "[]:9092", "takes host:port"},
        {"bootstrap.servers", "[::::]:9092", "takes host:port"},
        {"bootstrap.servers", "::::", "takes host:port"},
        {"bootstrap.servers", "host:1:2", "takes host:port"},
        {"bootstrap.servers", "::1:", "takes host:port"},
        {"bootstrap.servers", "a b:1", "takes host:port"},
        {"auto.offset.reset", "by_duration:1h", "not an ISO-8601 duration"},
        {"auto.offset.reset", "by_duration:-PT1H", "not an ISO-8601 duration"},
        {"auto.offset.reset", "by_duration:", "not one of"},
        {"partition.assignment.strategy", "range,best", "takes only range, roundrobin"},
        {"sasl.login.refresh.window.factor", "0.4", "it takes 0.5 .. 1.0"},
        {"sasl.login.refresh.window.factor", "0,8", "not a number"},
        {"transactional.id", "", "must not be empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(config, cases[i].name, cases[i].value, cases[i].said);
}

static void values_at_both_ends_of_every_range_are_taken(void **state)
{
    cafka_config *config = *state;
    for (size_t i = 0; i < property_count; i++) {
        const struct property *p = &properties[i];
        if (p->type != CAFKA_TYPE_INT && p->type != CAFKA_TYPE_LONG)
            continue;
        const char *at = p->range, *item;
        size_t size;
        while (list_next(&at, &item, &size)) {
            char part[64], *dots;
            snprintf(part, sizeof part, "%.*s", (int)size, item);
            if ((dots = strstr(part, " .. "))) {
                set(config, p->name, dots + 4);
                *dots = '\0';
            }
            set(config, p->name, part);
        }
    }
}

static void error_shows_neither_passwords_nor_control_characters(void **state)
{
    cafka_config *config = *state;
    cafka_error err;
    assert_int_equal(cafka_config_set(config, "linger.ms", "1\n2\t3", &err), CAFKA_ERR_CONFIG);
    assert_null(strchr(err.message, '\n'));
    assert_non_null(strstr(err.message, "1?2?3"));

    char *long_text = malloc(5000);
    memset(long_text, 'x', 4999);
    long_text[4999] = '\0';
    assert_refused(config, "acks", long_text, "xxx...: not one of");
    assert_refused(config, long_text, "1", "no property is called xxx");
    free(long_text);
}

static void name_that_no_message_can_hold_is_refused(void **state)
{
    static char name[INT16_MAX + 2];
    cafka_error err = {0};
    memset(name, 'n', INT16_MAX);
    assert_int_equal(cafka_config_set(*state, "client.id", name, &err), CAFKA_OK);
    name[INT16_MAX] = 'n';
    assert_int_equal(cafka_config_set(*state, "client.id", name, &err), CAFKA_ERR_CONFIG);
    assert_non_null(strstr(err.message, "client.id: 32768 bytes"));
}

static void unset_takes_a_property_back_to_its_default(void **state)
{
    cafka_config *config = *state;
    int source;
    const char *value;
    set(config, "linger.ms", "50");
    assert_int_equal(cafka_config_get(config, "linger.ms", 0, &value, &source, NULL), 0);
    assert_int_equal(source, CAFKA_CONFIG_SET);
    assert_int_equal(cafka_config_set(config, "linger.ms", NULL, NULL), CAFKA_OK);
    assert_int_equal(cafka_config_get(config, "linger.ms", 0, &value, &source, NULL), 0);
    assert_string_equal(value, "5");
    assert_int_equal(source, CAFKA_CONFIG_DEFAULT);
}

/* ---- names ---- */

static void misspelt_name_gets_the_nearest_as_a_suggestion(void **state)
{
    static const struct {
        const char *wrong, *right;
    } cases[] = {
        {"bootstrap.server", "did you mean bootstrap.servers?"},
        {"linger_ms", "did you mean linger.ms?"},
        {"Linger.ms", "did you mean linger.ms?"},
        {"ackss", "did you mean acks?"},
        {"auto.ofset.reset", "did you mean auto.offset.reset?"},
        {"compresion.type", "did you mean compression.type?"},
        {"max.pool.records", "did you mean max.poll.records?"},
        {"queue.buffering.max.kbyte", "did you mean queue.buffering.max.kbytes?"},
        {"request.tiemout.ms", "did you mean request.timeout.ms?"},
        {"colour", "no property is called colour (cafka config lists them all)"},
        {"", "no property is called"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(*state, cases[i].wrong, "1", cases[i].right);
}

static void alias_sets_what_it_stands_for_in_its_units(void **state)
{
    cafka_config *config = *state;
    static const struct {
        const char *alias, *value, *name, *kept;
    } cases[] = {
        {"metadata.broker.list", "a:1", "bootstrap.servers", "a:1"},
        {"queue.buffering.max.kbytes", "1024", "buffer.memory", "1048576"},
        {"queue.buffering.max.ms", "0.5", "linger.ms", "1"},
        {"queue.buffering.max.ms", "10", "linger.ms", "10"},
        {"message.timeout.ms", "0", "delivery.timeout.ms", "2147483647"},
        {"message.timeout.ms", "300000", "delivery.timeout.ms", "300000"},
        {"request.required.acks", "-1", "acks", "all"},
        {"compression.codec", "zstd", "compression.type", "zstd"},
        {"socket.send.buffer.bytes", "0", "send.buffer.bytes", "-1"},
        {"topic.metadata.refresh.interval.ms", "-1", "metadata.max.age.ms", "9223372036854775807"},
        {"queued.max.messages.kbytes", "65536", "fetch.buffer.memory", "67108864"},
        {"fetch.wait.max.ms", "100", "fetch.max.wait.ms", "100"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int source;
        const char *value;
        set(config, cases[i].alias, cases[i].value);
        assert_value(config, cases[i].name, cases[i].kept);
        assert_int_equal(cafka_config_get(config, cases[i].alias, 0, &value, &source, NULL), 0);
        assert_string_equal(value, cases[i].kept);
        assert_int_equal(source, CAFKA_CONFIG_ALIAS);
    }
    assert_refused(config, "queue.buffering.max.kbytes", "9223372036854775807", "out of range");
    assert_refused(config, "queue.buffering.max.kbytes", "much", "not a whole number");
    assert_refused(config, "queue.buffering.max.ms", "-0.5", "not a number of milliseconds");
    assert_refused(config, "request.required.acks", "7",
                   "request.required.acks (acks)=7: not one of");
    assert_refused(config, "partitioner", "uniform", "not one of");
}

/* ---- text ---- */

static void text_is_read_as_java_reads_it(void **state)
{
    cafka_config *config = *state;
    cafka_error err;
    const char *text = "# a comment\n"
                       "! another \\\n"
                       "linger.ms=7\r\n"
                       "\n"
                       "  batch.size : 100\n"
                       "acks 1\n"
                       "bootstrap.servers = a:1,\\\n"
                       "      b:2\r\n"
                       "client.id=a\\tb\\\\c\\u00e9\\uD83D\\uDE00=d\n"
                       "group\\.id=\n"
                       "client.rack=last";
    if (cafka_config_load(config, text, &err))
        fail_msg("%s", err.message);
    assert_value(config, "linger.ms", "7");
    assert_value(config, "batch.size", "100");
    assert_value(config, "acks", "1");
    assert_value(config, "bootstrap.servers", "a:1,b:2");
    assert_value(config, "client.id", "a\tb\\c\xc3\xa9\xf0\x9f\x98\x80=d");
    assert_value(config, "group.id", "");
    assert_value(config, "client.rack", "last");
}

static void text_with_an_error_changes_nothing_and_names_the_line(void **state)
{
    cafka_config *config = *state;
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"linger.ms=9\nacks=5\n", "line 2: acks=5: not one of"},
        {"linger.ms=9\n\nlinger=5", "line 3: no property is called linger"},
        {"linger.ms=9\nclient.id=\\u12g4", "line 2: \\u must be followed by four"},
        {"linger.ms=9\nclient.id=\\ud800x", "line 2: \\ud800 is no character"},
        {"linger.ms=9\nclient.id=\\u0000", "line 2: \\u0000 is no character"},
        {"linger.ms=9\n=5", "line 2: no property is called"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cafka_error err;
        assert_int_equal(cafka_config_load(config, cases[i].text, &err), CAFKA_ERR_CONFIG);
        if (!strstr(err.message, cases[i].said))
            fail_msg("\"%s\" does not say \"%s\"", err.message, cases[i].said);
        assert_value(config, "linger.ms", "5");
    }
}

/* Any bytes: the parser ends, inside its text, with an answer. */
static void random_text_is_taken_or_refused(void **state)
{
    static const char alphabet[] = "\\\\\n\r =:u0d8#!\tlinger.ms,5aP[]-\xc3\xa9";
    struct rng rng;
    rng_seed(&rng, 11);
    for (int round = 0; round < 20000; round++) {
        size_t size = (size_t)(rng_next(&rng) % 40);
        char *text = malloc(size + 1); /* exact, so that a sanitizer sees a step beyond it */
        for (size_t i = 0; i < size; i++)
            text[i] = alphabet[rng_next(&rng) % (sizeof alphabet - 1)];
        text[size] = '\0';
        cafka_error err;
        int rc = cafka_config_load(*state, text, &err);
        assert_true(rc == CAFKA_OK || rc == CAFKA_ERR_CONFIG);
        assert_int_equal(rc, err.code);
        int64_t ms;
        uint16_t port;
        const char *host;
        size_t host_size;
        if (parse_duration_ms(text, &ms))
            assert_true(ms >= 0);
        if (parse_server(text, size, &host, &host_size, &port))
            assert_true(host >= text && host + host_size <= text + size && port);
        free(text);
    }
}

static void file_is_read_and_its_errors_name_it(void **state)
{
    cafka_config *config = *state;
    cafka_error err;
    char path[] = "test_config.XXXXXX";
    int handle = mkstemp(path);
    assert_true(handle >= 0);
    static const char text[] = "linger.ms=3\nacks=1\n", wrong[] = "acks=one\n",
                      binary[] = "linger.ms=4\0x";
    assert_int_equal(write(handle, text, sizeof text - 1), sizeof text - 1);
    int rc = cafka_config_load_file(config, path, &err);
    assert_int_equal(rc, CAFKA_OK);
    assert_value(config, "linger.ms", "3");

    assert_int_equal(pwrite(handle, wrong, sizeof wrong - 1, 0), sizeof wrong - 1);
    assert_int_equal(cafka_config_load_file(config, path, &err), CAFKA_ERR_CONFIG);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, ": line 1: acks=one"));

    assert_int_equal(pwrite(handle, binary, sizeof binary - 1, 0), sizeof binary - 1);
    assert_int_equal(cafka_config_load_file(config, path, &err), CAFKA_ERR_CONFIG);
    assert_non_null(strstr(err.message, "zero byte"));

    close(handle);
    unlink(path);
    assert_int_equal(cafka_config_load_file(config, path, &err), CAFKA_ERR_IO);
    assert_non_null(strstr(err.message, path));
    assert_value(config, "linger.ms", "3");
}

static void durations_are_iso_8601(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } cases[] = {
        {"PT1H", 3600000},
        {"pt1h30m", 5400000},
        {"P2D", 172800000},
        {"P1DT1S", 86401000},
        {"PT0.5S", 500},
        {"PT1.2345S", 1234},
        {"PT0S", 0},
        {"P", -1},
        {"PT", -1},
        {"P1DT", -1},
        {"PT1", -1},
        {"PT1M1H", -1},
        {"P1H", -1},
        {"PT1D", -1},
        {"PT1.5H", -1},
        {"-PT1H", -1},
        {"PT-1H", -1},
        {"1h", -1},
        {"", -1},
        {"PT99999999999999999H", -1},
        {"PT1HT1M", -1},
        {"P1D1D", -1},
        {"PT1.S", 1000},
        {"P1W", -1},
        /* signs, of a part and of the whole */
        {"PT+1H", 3600000},
        {"+P1D", 86400000},
        {"-P-1D", 86400000},
        {"P-1DT25H", 3600000},
        {"P-1DT23H", -1},
        {"-P1DT-25H", 3600000},
        {"P+1DT-1H+1M-1.5S", 82858500},
        {"PT1H-61M", -1},
        {"-PT-1.5S", 1500},
        {"PT-1.5S", -1},
        {"PT-0.5S", -1},
        {"PT-0.0005S", -1},
        {"PT-0S", 0},
        {"-PT0S", 0},
        {"PT-0.0S", 0},
        {"PT1S-1M", -1},
        {"PT--1H", -1},
        {"--PT1H", -1},
        {"P-D", -1},
        {"P-", -1},
        {"PT+", -1},
        {"-", -1},
        {"+", -1},
        {"PT1.-5S", -1},
        /* fractions have nine digits, after a dot or a comma */
        {"PT1,5S", 1500},
        {"PT.5S", -1},
        {"PT+.5S", -1},
        {"PT0.9999S", 999},
        {"PT1.123456789S", 1123},
        {"PT1.1234567890S", -1},
        {"PT0.0009S", 0},
        /* blanks are no part of it, leading zeros are */
        {" PT1H", -1},
        {"PT1H ", -1},
        {"PT 1H", -1},
        {"P00000000000000000000000000000000001D", 86400000},
        /* seconds fit into 64 bits; milliseconds that do not are the longest there is */
        {"P106751991167301D", -1},
        {"PT9223372036854775808S", -1},
        {"PT2562047788015216H", -1},
        {"PT2562047788015215H30M8S", -1},
        {"-PT-9223372036854775808S", -1},
        {"-PT-9223372036854775807S", INT64_MAX},
        {"PT9223372036854775.807S", INT64_MAX},
        {"PT9223372036854775S", 9223372036854775000},
        {"P106751991167300D", INT64_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t ms = -1;
        bool ok = parse_duration_ms(cases[i].text, &ms);
        if (ok != (cases[i].ms >= 0) || (ok && ms != cases[i].ms))
            fail_msg("%s", cases[i].text);
    }
}

/* ---- settings ---- */

static void assert_settings_refused(cafka_config *config, unsigned kind, int code, const char *said)
{
    union {
        struct producer_settings producer;
        struct consumer_settings consumer;
        struct admin_settings admin;
    } s;
    cafka_error err = {0};
    int rc = kind == CAFKA_FOR_PRODUCER   ? settings_for_producer(config, &s.producer, &err)
             : kind == CAFKA_FOR_CONSUMER ? settings_for_consumer(config, &s.consumer, &err)
                                          : settings_for_admin(config, &s.admin, &err);
    assert_int_equal(rc, code);
    if (!strstr(err.message, said))
        fail_msg("\"%s\" does not say \"%s\"", err.message, said);
}

/* Java's way to say never: added to a clock it must still be later. */
static void the_longest_time_is_longer_than_any_life_and_no_more(void **state)
{
    cafka_config *config = *state;
    struct admin_settings s;
    cafka_error err = {0};
    const char *longest = "9223372036854775807";
    set(config, "bootstrap.servers", "one:1");
    set(config, "connections.max.idle.ms", longest);
    set(config, "metadata.max.age.ms", longest);
    set(config, "reconnect.backoff.max.ms", longest);
    set(config, "socket.connection.setup.timeout.max.ms", longest);
    assert_int_equal(settings_for_admin(config, &s, &err), 0);
    const int64_t times[] = {s.client.connections_max_idle_ms, s.client.metadata_max_age_ms,
                             s.client.reconnect_backoff_max_ms,
                             s.client.connection_setup_timeout_max_ms};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        assert_in_range(times[i], INT64_C(100) * 365 * 86400 * 1000, INT64_MAX / 1000000 / 2);
    admin_settings_fini(&s);
}

static void producer_settings_are_the_values_in_fields(void **state)
{
    cafka_config *config = *state;
    struct producer_settings s;
    cafka_error err = {0};
    set(config, "bootstrap.servers", "one:1,[::1]:2,three");
    set(config, "client.id", "me");
    set(config, "compression.type", "zstd");
    set(config, "compression.zstd.level", "-5");
    if (settings_for_producer(config, &s, &err))
        fail_msg("%s", err.message);
    assert_int_equal(s.client.bootstrap_count, 3);
    assert_string_equal(s.client.bootstrap[0].host, "one");
    assert_int_equal(s.client.bootstrap[0].port, 1);
    assert_string_equal(s.client.bootstrap[1].host, "::1");
    assert_int_equal(s.client.bootstrap[1].port, 2);
    assert_string_equal(s.client.bootstrap[2].host, "three");
    assert_int_equal(s.client.bootstrap[2].port, 9092);
    assert_string_equal(s.client.client_id, "me");
    assert_int_equal(s.acks, -1);
    assert_true(s.enable_idempotence);
    assert_int_equal(s.max_in_flight, 5);
    assert_int_equal(s.linger_ms, 5);
    assert_int_equal(s.batch_size_bytes, 16384);
    assert_int_equal(s.batch_max_size_bytes, 1000000);
    assert_int_equal(s.buffer_memory_bytes, 33554432);
    assert_int_equal(s.delivery_timeout_ms, 120000);
    assert_int_equal(s.compression, CODEC_ZSTD);
    assert_int_equal(s.compression_level, -5);
    assert_int_equal(s.client.receive_message_max_bytes, 100000000);
    assert_int_equal(s.client.callback_dispatch, DISPATCH_LOOP);
    assert_string_equal(client_settings_text(&s.client, "linger.ms"), "5");
    producer_settings_fini(&s);
    producer_settings_fini(&s); /* zeroed */
}

static void consumer_settings_are_the_values_in_fields(void **state)
{
    cafka_config *config = *state;
    struct consumer_settings s;
    cafka_error err = {0};
    set(config, "bootstrap.servers", "one:1");
    set(config, "auto.offset.reset", "by_duration:PT2M");
    set(config, "isolation.level", "read_committed");
    if (settings_for_consumer(config, &s, &err))
        fail_msg("%s", err.message);
    assert_int_equal(s.offset_reset, RESET_BY_DURATION);
    assert_int_equal(s.offset_reset_duration_ms, 120000);
    assert_true(s.read_committed);
    assert_true(s.check_crcs);
    assert_null(s.group_id);
    assert_false(s.enable_auto_commit); /* no group, nothing to commit to */
    assert_int_equal(s.fetch_buffer_memory_bytes, 67108864);
    assert_int_equal(s.client.default_api_timeout_ms, 60000);
    consumer_settings_fini(&s);
}

static void idempotence_gives_way_unless_it_was_asked_for(void **state)
{
    static const struct {
        const char *name, *value, *need;
    } cases[] = {{"acks", "1", "acks=all"},
                 {"retries", "0", "retries above 0"},
                 {"max.in.flight.requests.per.connection", "6", "5 or less"}};
    cafka_config *config = *state;
    set(config, "bootstrap.servers", "one:1");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct producer_settings s;
        set(config, cases[i].name, cases[i].value);
        set(config, "enable.idempotence", NULL);
        assert_int_equal(settings_for_producer(config, &s, NULL), CAFKA_OK);
        assert_false(s.enable_idempotence);
        producer_settings_fini(&s);
        set(config, "enable.idempotence", "true");
        assert_settings_refused(config, CAFKA_FOR_PRODUCER, CAFKA_ERR_CONFIG, cases[i].need);
        set(config, cases[i].name, NULL);
    }
}

static void delivery_timeout_is_raised_unless_it_was_set(void **state)
{
    cafka_config *config = *state;
    struct producer_settings s;
    set(config, "bootstrap.servers", "one:1");
    set(config, "request.timeout.ms", "200000");
    assert_int_equal(settings_for_producer(config, &s, NULL), CAFKA_OK);
    assert_int_equal(s.delivery_timeout_ms, 200005);
    producer_settings_fini(&s);
    set(config, "delivery.timeout.ms", "200004");
    assert_settings_refused(config, CAFKA_FOR_PRODUCER, CAFKA_ERR_CONFIG,
                            "delivery.timeout.ms=200004 is below linger.ms + request.timeout.ms = 200005");
    set(config, "linger.ms", "9223372036854775807");
    assert_settings_refused(config, CAFKA_FOR_PRODUCER, CAFKA_ERR_CONFIG, "= 4398046711104");
}

static void batch_sizes_agree(void **state)
{
    cafka_config *config = *state;
    struct producer_settings s;
    set(config, "bootstrap.servers", "one:1");
    set(config, "batch.size", "2000000");
    assert_int_equal(settings_for_producer(config, &s, NULL), CAFKA_OK);
    assert_int_equal(s.batch_max_size_bytes, 2000000);
    producer_settings_fini(&s);
    set(config, "batch.max.size", "1500000");
    assert_settings_refused(config, CAFKA_FOR_PRODUCER, CAFKA_ERR_CONFIG,
                            "batch.max.size=1500000 is below");
    set(config, "batch.size", NULL);
    set(config, "batch.max.size", "100");
    assert_int_equal(settings_for_producer(config, &s, NULL), CAFKA_OK);
    assert_int_equal(s.batch_size_bytes, 100);
    producer_settings_fini(&s);
}

static void compression_level_is_judged_by_the_codec(void **state)
{
    cafka_config *config = *state;
    struct producer_settings s;
    set(config, "bootstrap.servers", "one:1");
    set(config, "compression.type", "gzip");
    set(config, "compression.level", "3");
    assert_int_equal(settings_for_producer(config, &s, NULL), CAFKA_OK);
    assert_int_equal(s.compression_level, 3);
    producer_settings_fini(&s);
    set(config, "compression.level", "12");
    assert_settings_refused(config, CAFKA_FOR_PRODUCER, CAFKA_ERR_CONFIG,
                            "compression.level=12: gzip takes -1, 1 .. 9");
    set(config, "compression.type", "lz4");
    assert_int_equal(settings_for_producer(config, &s, NULL), CAFKA_OK);
    assert_int_equal(s.compression_level, 12);
    producer_settings_fini(&s);
}

static void fetch_frames_fit_what_is_received(void **state)
{
    cafka_config *config = *state;
    struct consumer_settings s;
    set(config, "bootstrap.servers", "one:1");
    set(config, "fetch.max.bytes", "100000000");
    assert_int_equal(settings_for_consumer(config, &s, NULL), CAFKA_OK);
    assert_int_equal(s.client.receive_message_max_bytes, 100000512);
    consumer_settings_fini(&s);
    set(config, "receive.message.max.bytes", "100000000");
    assert_settings_refused(config, CAFKA_FOR_CONSUMER, CAFKA_ERR_CONFIG, "below fetch.max.bytes");
}

static void what_is_not_there_yet_and_matters_is_refused(void **state)
{
    cafka_config *config = *state;
    set(config, "bootstrap.servers", "one:1");
    set(config, "security.protocol", "SSL");
    assert_settings_refused(config, CAFKA_FOR_CONSUMER, CAFKA_ERR_UNSUPPORTED,
                            "security.protocol=SSL");
    set(config, "security.protocol", NULL);
    set(config, "transactional.id", "t");
    assert_settings_refused(config, CAFKA_FOR_PRODUCER, CAFKA_ERR_UNSUPPORTED, "transactional.id");
}

static void group_properties_agree(void **state)
{
    cafka_config *config = *state;
    set(config, "bootstrap.servers", "one:1");
    set(config, "enable.auto.commit", "true");
    assert_settings_refused(config, CAFKA_FOR_CONSUMER, CAFKA_ERR_CONFIG, "needs a group.id");
    set(config, "group.id", "");
    assert_settings_refused(config, CAFKA_FOR_CONSUMER, CAFKA_ERR_CONFIG, "group.id is empty");
    set(config, "group.id", "g");
    set(config, "heartbeat.interval.ms", "45000");
    assert_settings_refused(config, CAFKA_FOR_CONSUMER, CAFKA_ERR_CONFIG,
                            "heartbeat.interval.ms=45000 must be");
    set(config, "group.protocol", "consumer");
    assert_settings_refused(config, CAFKA_FOR_CONSUMER, CAFKA_ERR_CONFIG,
                            "heartbeat.interval.ms cannot be set");
}

static void all_problems_are_reported_at_once(void **state)
{
    cafka_config *config = *state;
    set(config, "enable.idempotence", "true");
    set(config, "acks", "0");
    set(config, "retries", "0");
    set(config, "delivery.timeout.ms", "1");
    set(config, "batch.size", "10");
    set(config, "batch.max.size", "5");
    set(config, "max.in.flight.requests.per.connection", "9");
    assert_settings_refused(config, CAFKA_FOR_PRODUCER, CAFKA_ERR_CONFIG,
                            "producer: bootstrap.servers is missing; batch.max.size=5 is below batch.size=10; "
                            "enable.idempotence=true needs acks=all; ");
    assert_settings_refused(config, CAFKA_FOR_PRODUCER, CAFKA_ERR_CONFIG, " more");
}

static void admin_asks_brokers_and_not_controllers(void **state)
{
    cafka_config *config = *state;
    struct admin_settings s;
    assert_settings_refused(config, CAFKA_FOR_ADMIN, CAFKA_ERR_CONFIG,
                            "bootstrap.servers is missing");
    set(config, "bootstrap.servers", "b:1");
    assert_int_equal(settings_for_admin(config, &s, NULL), CAFKA_OK);
    assert_false(s.bootstrap_controllers);
    assert_string_equal(s.client.bootstrap[0].host, "b");
    admin_settings_fini(&s);
    set(config, "bootstrap.controllers", "c:1");
    assert_settings_refused(config, CAFKA_FOR_ADMIN, CAFKA_ERR_CONFIG, "cannot both be set");
    set(config, "bootstrap.servers", NULL);
    assert_settings_refused(config, CAFKA_FOR_ADMIN, CAFKA_ERR_UNSUPPORTED,
                            "bootstrap.controllers is set");
}

static void count_line(void *user, int level, const char *area, const char *message)
{
    assert_int_equal(level, CAFKA_LOG_WARN);
    assert_string_equal(area, "config");
    strcat(user, message);
    strcat(user, "\n");
}

static void settings_without_effect_are_warned_about(void **state)
{
    cafka_config *config = *state;
    char lines[1000] = "";
    struct producer_settings s;
    cafka_config_set_log(config, count_line, lines, CAFKA_LOG_WARN);
    set(config, "bootstrap.servers", "one:1");
    set(config, "key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
    set(config, "group.id", "g");
    set(config, "enable.metrics.push", "true");
    assert_int_equal(settings_for_producer(config, &s, NULL), CAFKA_OK);
    client_settings_warn_unused(&s.client);
    assert_string_equal(lines, "enable.metrics.push is set, but has no effect yet\n"
                               "group.id is set, but a producer has no such property\n"
                               "key.serializer is set, but means something in Java only\n");
    producer_settings_fini(&s);
}

static void on_event(const cafka_event *event, void *user)
{
    (void)event;
    (void)user;
}

static void copy_has_values_and_typed_settings_of_its_own(void **state)
{
    cafka_config *config = *state, *copy;
    int user;
    set(config, "linger.ms", "8");
    cafka_config_on_event(config, on_event, &user);
    assert_int_equal(cafka_config_copy(&copy, config, NULL), CAFKA_OK);
    set(config, "linger.ms", "9");
    assert_value(copy, "linger.ms", "8");
    assert_ptr_equal(copy->on_event, on_event);
    assert_ptr_equal(copy->on_event_user, &user);
    cafka_config_free(copy);
}

static void wrong_arguments_are_errors(void **state)
{
    cafka_config *config = *state;
    const char *value;
    cafka_error err;
    assert_int_equal(cafka_config_new(NULL, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_config_set(NULL, "a", "b", &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_config_set(config, NULL, "b", &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_config_get(config, "acks", 0, NULL, NULL, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_config_get(config, "akcs", 0, &value, NULL, &err), CAFKA_ERR_CONFIG);
    assert_int_equal(cafka_config_load(config, NULL, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_config_load_file(config, NULL, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_config_property(0, NULL), CAFKA_ERR_ARGUMENT);
    cafka_config_free(NULL);
}

/* ---- memory that runs out at every step ---- */

static int everything(cafka_error *err)
{
    cafka_config *config = NULL;
    struct producer_settings producer = {0};
    struct consumer_settings consumer = {0};
    int rc = cafka_config_new(&config, err);
    if (!rc)
        rc =
            cafka_config_load(config,
                              "bootstrap.servers=a:1,b:2\nclient.id=x\nauto.offset.reset=by_duration:PT1S",
                              err);
    if (!rc)
        rc = cafka_config_set(config, "group.id", "g", err);
    if (!rc)
        rc = settings_for_producer(config, &producer, err);
    if (!rc)
        rc = settings_for_consumer(config, &consumer, err);
    producer_settings_fini(&producer);
    consumer_settings_fini(&consumer);
    cafka_config_free(config);
    return rc;
}

static void every_failing_allocation_is_an_error(void **state)
{
    (void)state;
    cafka_error err = {0};
    mem_fail_after(0, 0);
    assert_int_equal(everything(&err), CAFKA_OK);
    unsigned long allocations = mem_count();
    assert_true(allocations > 20);
    for (unsigned long k = 1; k <= allocations; k++) {
        err = (cafka_error){0};
        mem_fail_after(k, 0);
        int rc = everything(&err);
        mem_fail_after(0, 0);
        assert_int_equal(rc, CAFKA_ERR_MEMORY);
        assert_int_equal(err.code, CAFKA_ERR_MEMORY);
    }
}

#define WITH_CONFIG(test) cmocka_unit_test_setup_teardown(test, make_config, drop_config)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_sorted_and_whole),
        cmocka_unit_test(every_default_passes_its_own_check),
        WITH_CONFIG(defaults_are_those_of_the_java_client),
        cmocka_unit_test(table_can_be_listed_from_outside),
        WITH_CONFIG(values_are_kept_in_the_spelling_of_the_table),
        WITH_CONFIG(bad_value_is_refused_and_the_range_is_said),
        WITH_CONFIG(values_at_both_ends_of_every_range_are_taken),
        WITH_CONFIG(error_shows_neither_passwords_nor_control_characters),
        WITH_CONFIG(name_that_no_message_can_hold_is_refused),
        WITH_CONFIG(unset_takes_a_property_back_to_its_default),
        WITH_CONFIG(misspelt_name_gets_the_nearest_as_a_suggestion),
        WITH_CONFIG(alias_sets_what_it_stands_for_in_its_units),
        WITH_CONFIG(text_is_read_as_java_reads_it),
        WITH_CONFIG(text_with_an_error_changes_nothing_and_names_the_line),
        WITH_CONFIG(random_text_is_taken_or_refused),
        WITH_CONFIG(file_is_read_and_its_errors_name_it),
        cmocka_unit_test(durations_are_iso_8601),
        WITH_CONFIG(the_longest_time_is_longer_than_any_life_and_no_more),
        WITH_CONFIG(producer_settings_are_the_values_in_fields),
        WITH_CONFIG(consumer_settings_are_the_values_in_fields),
        WITH_CONFIG(idempotence_gives_way_unless_it_was_asked_for),
        WITH_CONFIG(delivery_timeout_is_raised_unless_it_was_set),
        WITH_CONFIG(batch_sizes_agree),
        WITH_CONFIG(compression_level_is_judged_by_the_codec),
        WITH_CONFIG(fetch_frames_fit_what_is_received),
        WITH_CONFIG(what_is_not_there_yet_and_matters_is_refused),
        WITH_CONFIG(group_properties_agree),
        WITH_CONFIG(all_problems_are_reported_at_once),
        WITH_CONFIG(admin_asks_brokers_and_not_controllers),
        WITH_CONFIG(settings_without_effect_are_warned_about),
        WITH_CONFIG(copy_has_values_and_typed_settings_of_its_own),
        WITH_CONFIG(wrong_arguments_are_errors),
        cmocka_unit_test(every_failing_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
