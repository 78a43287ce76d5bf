/*
 * test_partitioner.c - the same partition as Java's client for the same key, load and dice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include <cafka/plugin.h>

#include "producer/partitioner.h"

static void keys_go_where_javas_murmur2_sends_them(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        int32_t of_3, of_12, of_100;
    } known[] = {{"", 0, 9, 81},    {"a", 1, 4, 24},         {"abc", 0, 3, 7},
                 {"abcd", 2, 8, 0}, {"foobar", 0, 6, 66},    {"a-little-bit-long-string", 2, 8, 12},
                 {"21", 0, 0, 40},  {"key-1234567", 0, 0, 4}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct bytes key = bytes_of(known[i].key, strlen(known[i].key));
        assert_int_equal(partition_for_key(key, 3), known[i].of_3);
        assert_int_equal(partition_for_key(key, 12), known[i].of_12);
        assert_int_equal(partition_for_key(key, 100), known[i].of_100);
    }
}

/* What rd_kafka_msg_partitioner_consistent() and its siblings of librdkafka answer. */
static void hashes_are_those_of_librdkafka(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        size_t size;
        int32_t crc[3], fnv1a[3], murmur2[3]; /* of 3, 12 and 100 partitions */
    } known[] = {
        {"", 0, {0, 0, 0}, {0, 3, 35}, {0, 9, 81}},
        {"a", 1, {0, 3, 7}, {0, 0, 76}, {1, 4, 24}},
        {"abc", 3, {0, 6, 78}, {2, 11, 31}, {0, 3, 7}},
        {"foobar", 6, {2, 5, 69}, {0, 0, 76}, {0, 6, 66}},
        {"a-little-bit-long-string", 24, {0, 6, 54}, {1, 4, 4}, {2, 8, 12}},
        {"kafka", 5, {2, 11, 99}, {2, 5, 45}, {1, 4, 80}},
        {"key-1234567", 11, {0, 0, 20}, {2, 5, 61}, {0, 0, 4}},
        {"\0\0\0*", 4, {0, 6, 14}, {0, 3, 11}, {0, 0, 4}},
    };
    static const int32_t counts[] = {3, 12, 100};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (int c = 0; c < 3; c++) {
            struct bytes key = bytes_of(known[i].key, known[i].size);
            assert_int_equal(partition_by_hash(PARTITIONER_CONSISTENT, key, counts[c]),
                             known[i].crc[c]);
            assert_int_equal(partition_by_hash(PARTITIONER_FNV1A, key, counts[c]),
                             known[i].fnv1a[c]);
            assert_int_equal(partition_by_hash(PARTITIONER_FNV1A_RANDOM, key, counts[c]),
                             known[i].fnv1a[c]);
            assert_int_equal(partition_by_hash(PARTITIONER_MURMUR2, key, counts[c]),
                             known[i].murmur2[c]);
            assert_int_equal(partition_by_hash(PARTITIONER_DEFAULT, key, counts[c]),
                             known[i].murmur2[c]);
            assert_int_equal(partition_by_hash(PARTITIONER_CONSISTENT_RANDOM, key, counts[c]),
                             known[i].size ? known[i].crc[c] : -1);
        }
}

static void without_a_key_hashes_differ(void **state)
{
    (void)state;
    struct bytes none = {0};
    assert_int_equal(partition_by_hash(PARTITIONER_CONSISTENT, none, 12), 0);
    assert_int_equal(partition_by_hash(PARTITIONER_FNV1A, none, 12), 3);
    assert_int_equal(partition_by_hash(PARTITIONER_MURMUR2, none, 12), 9);
    assert_int_equal(partition_by_hash(PARTITIONER_DEFAULT, none, 12), -1);
    assert_int_equal(partition_by_hash(PARTITIONER_CONSISTENT_RANDOM, none, 12), -1);
    assert_int_equal(partition_by_hash(PARTITIONER_FNV1A_RANDOM, none, 12), -1);
    assert_int_equal(partition_by_hash(PARTITIONER_RANDOM, none, 12), -1);
    assert_int_equal(partition_by_hash(PARTITIONER_ROUND_ROBIN, none, 12), -1);
}

static void applications_may_ask_for_the_partition_of_a_key(void **state)
{
    (void)state;
    assert_int_equal(cafka_partition_for_key("foobar", 6, 100), 66);
    assert_int_equal(cafka_partition_for_key(NULL, 0, 12), 9);
    assert_int_equal(cafka_partition_for_key("foobar", 6, 0), -1);
}

static void weights_prefer_short_queues(void **state)
{
    (void)state;
    struct partition_load load = {0};
    assert_true(partition_load_reserve(&load, 3));
    partition_load_set(&load, (int32_t[]){0, 3, 1}, (int32_t[]){0, 1, 2}, 3, 3);
    static const int32_t expected[] = {0, 0, 0, 0, 1, 2, 2, 2, 0};
    for (uint32_t r = 0; r < 9; r++) {
        int32_t got = -1;
        assert_true(partition_load_pick(&load, r, &got));
        assert_int_equal(got, expected[r]);
    }
    partition_load_fini(&load);
}

/* --- golden --- */

static int32_t item(const cJSON *array, int i)
{
    return (int32_t)cJSON_GetArrayItem(array, i)->valuedouble;
}

static int fill(const cJSON *array, int32_t *out)
{
    int n = 0;
    for (const cJSON *i = array->child; i; i = i->next)
        out[n++] = (int32_t)i->valuedouble;
    return n;
}

static void check_key(const cJSON *line)
{
    const char *hex = cJSON_GetObjectItem(line, "keyHex")->valuestring;
    uint8_t key[512] = {0};
    ptrdiff_t size = from_hex(hex, strlen(hex), key);
    const cJSON *partitions = cJSON_GetObjectItem(line, "partition");
    for (const cJSON *p = partitions->child; p; p = p->next)
        assert_int_equal(partition_for_key(bytes_of(key, (size_t)size), atoi(p->string)),
                         (int32_t)p->valuedouble);
}

static void check_load(const cJSON *line)
{
    int32_t queued[64], partitions[64],
        length = (int32_t)cJSON_GetObjectItem(line, "length")->valuedouble;
    int total = fill(cJSON_GetObjectItem(line, "queueSizes"), queued);
    fill(cJSON_GetObjectItem(line, "partitionIds"), partitions);
    struct partition_load load = {0};
    assert_true(partition_load_reserve(&load, total));
    partition_load_set(&load, queued, partitions, length, total);

    const cJSON *table = cJSON_GetObjectItem(line, "table");
    assert_int_equal(load.length, cJSON_IsNull(table) ? 0 : cJSON_GetArraySize(table));
    for (int i = 0; i < load.length; i++)
        assert_int_equal(load.table[i], item(table, i));
    const cJSON *pick, *picks = cJSON_GetObjectItem(line, "picks");
    for (pick = picks->child; pick; pick = pick->next) {
        int32_t got = -1;
        assert_true(partition_load_pick(&load, (uint32_t)item(pick, 0), &got));
        assert_int_equal(got, item(pick, 1));
    }
    partition_load_fini(&load);
}

static void check_no_load(const cJSON *line)
{
    int32_t available[64];
    int n = fill(cJSON_GetObjectItem(line, "available"), available);
    int32_t count = (int32_t)cJSON_GetObjectItem(line, "partitions")->valuedouble;
    const cJSON *pick, *picks = cJSON_GetObjectItem(line, "picks");
    for (pick = picks->child; pick; pick = pick->next)
        assert_int_equal(partition_pick_evenly(available, n, count, (uint32_t)item(pick, 0)),
                         item(pick, 1));
}

static void check_sticky(const cJSON *line)
{
    const cJSON *appended = cJSON_GetObjectItem(line, "appended");
    int32_t batch_size = (int32_t)cJSON_GetObjectItem(line, "batchSize")->valuedouble;
    int64_t bytes = 0;
    for (int i = 0; i < cJSON_GetArraySize(appended); i++) {
        bytes += item(appended, i);
        bool over = sticky_is_over(bytes, batch_size, item(cJSON_GetObjectItem(line, "mayStop"), i));
        assert_int_equal(over, item(cJSON_GetObjectItem(line, "switched"), i));
        if (over)
            bytes = 0;
    }
}

static void golden_vectors(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        void (*check)(const cJSON *line);
    } kinds[] = {{"murmur2", check_key},
                 {"load", check_load},
                 {"no load", check_no_load},
                 {"sticky", check_sticky}};
    char path[4096];
    const char *shared = getenv("CAFKA_SHARED");
    snprintf(path, sizeof path, "%s/golden/vectors.jsonl",
             shared ? shared : TOP_SRCDIR "/../shared");
    FILE *file = fopen(path, "r");
    if (!file) {
        printf("skipped: golden data not found\n");
        skip();
    }
    static char text[1 << 20];
    int checked[4] = {0};
    while (fgets(text, sizeof text, file)) {
        cJSON *line = cJSON_Parse(text);
        assert_non_null(line);
        const char *kind = cJSON_GetObjectItem(line, "kind")->valuestring;
        for (size_t i = 0; i < 4; i++)
            if (!strcmp(kind, kinds[i].kind)) {
                kinds[i].check(line);
                checked[i]++;
            }
        cJSON_Delete(line);
    }
    fclose(file);
    for (size_t i = 0; i < 4; i++)
        assert_true(checked[i] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_go_where_javas_murmur2_sends_them),
        cmocka_unit_test(hashes_are_those_of_librdkafka),
        cmocka_unit_test(without_a_key_hashes_differ),
        cmocka_unit_test(applications_may_ask_for_the_partition_of_a_key),
        cmocka_unit_test(weights_prefer_short_queues),
        cmocka_unit_test(golden_vectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
