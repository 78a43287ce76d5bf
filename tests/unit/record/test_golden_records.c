/*
 * test_golden_records.c - batches and message sets that Kafka's own classes wrote, or that were
 * damaged by hand, against what those classes read from them and what a broker answers.
 *
 * The whole set lies in $CAFKA_SHARED/golden/records; a share of it in tests/golden/records.
 */
#include "record_fixture.h"

#include <cjson/cJSON.h>

#include "record/batch.h"
#include "record/dump.h"
#include "record/open.h"
#include "record/validate.h"

/*
 * Where we know better than the golden line, and why.
 */
static const struct {
    const char *name, *why;
} different[] = {
    {"batch length 48", "too short for a header: refused when the batches are found, not later"},
};

static bool is_different(const char *name)
{
    for (size_t i = 0; i < sizeof different / sizeof *different; i++)
        if (!strcmp(different[i].name, name))
            return true;
    return false;
}

static const char *text_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return item ? item->valuestring : NULL;
}

/*
 * "unhandled" means that Kafka fails by accident: then any error is right, and it is taken for
 * the same. A control record of which that is said may as well be read.
 */
static void settle_unhandled(cJSON *expected, cJSON *actual, const char *name)
{
    cJSON *e = cJSON_GetObjectItemCaseSensitive(expected, name);
    cJSON *a = cJSON_GetObjectItemCaseSensitive(actual, name);
    if (!e || strcmp(text_of(e, "kind"), "unhandled") != 0)
        return;
    if (a && !strcmp(text_of(a, "step"), text_of(e, "step"))) {
        cJSON_DeleteItemFromObjectCaseSensitive(actual, name);
        cJSON_DeleteItemFromObjectCaseSensitive(expected, name);
    }
}

static void settle_control(cJSON *expected, cJSON *actual)
{
    cJSON *e, *a = cJSON_GetObjectItemCaseSensitive(actual, "records");
    a = a ? a->child : NULL;
    cJSON_ArrayForEach(e, cJSON_GetObjectItemCaseSensitive(expected, "records"))
    {
        cJSON *error = cJSON_GetObjectItemCaseSensitive(e, "controlError");
        if (a && error && !strcmp(text_of(error, "kind"), "unhandled")) {
            static const char *const read[] = {"controlError", "leaderId", "voters",
                                               "grantingVoters"};
            for (size_t i = 0; i < sizeof read / sizeof *read; i++) {
                cJSON_DeleteItemFromObjectCaseSensitive(a, read[i]);
                cJSON_DeleteItemFromObjectCaseSensitive(e, read[i]);
            }
        }
        a = a ? a->next : NULL;
    }
}

static int mismatches;

static void compare(const char *name, const char *what, cJSON *expected, cJSON *actual)
{
    if (expected && actual && cJSON_Compare(expected, actual, true))
        return;
    char *e = expected ? cJSON_PrintUnformatted(expected) : NULL;
    char *a = actual ? cJSON_PrintUnformatted(actual) : NULL;
    print_message("%s: %s\n  expected %.600s\n  actual   %.600s\n", name, what, e ? e : "-",
                  a ? a : "-");
    free(e);
    free(a);
    mismatches++;
}

/* Walk over the bytes and dump each batch; returns how many bytes were whole batches. */
static size_t dump_all(struct dump *d, struct bytes bytes, cJSON *out, int *ended)
{
    struct bytes rest = bytes;
    struct batch_slice slice;
    int rc;
    while (!(rc = batch_walk_next(&rest, &slice, NULL))) {
        struct buffer text = {0};
        (void)dump_batch(d, slice.bytes, true, &text, NULL); /* what is wrong is in the text */
        cJSON *item = cJSON_Parse(buffer_string(&text));
        assert_non_null(item);
        cJSON_AddItemToArray(out, item);
        buffer_fini(&text);
    }
    *ended = rc == CAFKA_END ? CAFKA_OK : rc;
    return bytes.size - rest.size;
}

static void check_reading(struct dump *d, cJSON *line)
{
    const char *name = text_of(line, "name");
    struct bytes bytes = bytes_of_hex(text_of(line, "hex"));
    cJSON *actual = cJSON_CreateArray();
    int ended;
    size_t valid = dump_all(d, bytes, actual, &ended);

    cJSON *error = cJSON_GetObjectItemCaseSensitive(line, "error");
    if (!error != !ended || valid != (size_t)cJSON_GetNumberValue(
                                         cJSON_GetObjectItemCaseSensitive(line, "validBytes"))) {
        print_message("%s: ended with %d after %zu bytes\n", name, ended, valid);
        mismatches++;
    }
    cJSON *expected = cJSON_GetObjectItemCaseSensitive(line, "batches"), *e, *a = actual->child;
    if (cJSON_GetArraySize(expected) != cJSON_GetArraySize(actual)) {
        compare(name, "number of batches", expected, actual);
    } else {
        cJSON_ArrayForEach(e, expected)
        {
            settle_unhandled(e, a, "error");
            settle_unhandled(e, a, "recordsError");
            settle_control(e, a);
            compare(name, "batch", e, a);
            a = a->next;
        }
    }
    cJSON_Delete(actual);
    free((void *)(uintptr_t)bytes.data);
}

/* The order of a broker's checks (broker-behaviour.md 1.2), as far as the records matter. */
static const char *broker_answer(struct dump *d, struct bytes bytes)
{
    struct bytes rest = bytes;
    struct batch_slice slice, more;
    int rc = batch_walk_next(&rest, &slice, NULL);
    if (rc)
        return rc == CAFKA_END ? "INVALID_RECORD" : "CORRUPT_MESSAGE";
    struct batch_header h;
    assert_int_equal(batch_header_read(slice.bytes, &h, NULL), CAFKA_OK);
    rc = batch_walk_next(&rest, &more, NULL);
    if (rc != CAFKA_END)
        return rc ? "CORRUPT_MESSAGE" : "INVALID_RECORD";
    if (h.magic < BATCH_MAGIC || h.base_offset != 0)
        return "INVALID_RECORD";
    if (batch_check(slice.bytes, NULL))
        return "CORRUPT_MESSAGE";
    struct batch_validation v;
    rc = batch_validate_records(slice.bytes, &h, d->decompressor, 1 << 30, &d->inflated, &v, NULL);
    if (v.problem == BATCH_BAD_COUNT || batch_is_control(&h) ||
        (h.producer_id >= 0 && h.base_sequence < 0) || v.problem == BATCH_BAD_RECORD)
        return "INVALID_RECORD";
    return rc ? "UNKNOWN_SERVER_ERROR" : "NONE";
}

static void check_broker(struct dump *d, cJSON *line)
{
    const char *name = text_of(line, "name"), *expected = text_of(line, "broker");
    struct bytes bytes = bytes_of_hex(text_of(line, "hex"));
    const char *actual = broker_answer(d, bytes);
    /* a length near 2^31 overflows in Kafka; to us it is corrupt */
    bool overflow = !strcmp(actual, "CORRUPT_MESSAGE") && bytes.size > 12 &&
                    load_be32(bytes.data + 8) > INT32_MAX - 12;
    if (strcmp(expected, actual) != 0 && !overflow) {
        print_message("%s: a broker answers %s, we find %s\n", name, expected, actual);
        mismatches++;
    }
    free((void *)(uintptr_t)bytes.data);
}

static void check_text(char *text)
{
    size_t lines = 0;
    char *rest = text, *at;
    struct dump d = {0};
    assert_int_equal(decompressor_new(&d.decompressor, NULL), CAFKA_OK);
    mismatches = 0;
    while ((at = next_text_line(&rest))) {
        if (!codec_available(CODEC_SNAPPY) && strstr(at, "\"codec\":\"snappy\""))
            continue;
        cJSON *line = cJSON_Parse(at);
        assert_non_null(line);
        if (!is_different(text_of(line, "name")))
            check_reading(&d, line);
        if (text_of(line, "broker"))
            check_broker(&d, line);
        cJSON_Delete(line);
        lines++;
    }
    dump_fini(&d);
    free(text);
    assert_true(lines > 0);
    assert_int_equal(mismatches, 0);
}

static char *committed(const char *name)
{
    size_t size;
    char *text = file_read(source_path(name), &size);
    assert_non_null(text);
    return text;
}

static void share_of_golden_batches_is_read_as_kafka_reads_them(void **state)
{
    (void)state;
    check_text(committed("tests/golden/records/batches.jsonl"));
}

static void share_of_golden_bad_batches_is_refused_as_kafka_does(void **state)
{
    (void)state;
    check_text(committed("tests/golden/records/bad.jsonl"));
}

static void all_golden_batches_are_read_as_kafka_reads_them(void **state)
{
    (void)state;
    check_text(golden_text("records/batches.jsonl"));
}

static void all_golden_bad_batches_are_refused_as_kafka_does(void **state)
{
    (void)state;
    check_text(golden_text("records/bad.jsonl"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(share_of_golden_batches_is_read_as_kafka_reads_them),
        cmocka_unit_test(share_of_golden_bad_batches_is_refused_as_kafka_does),
        cmocka_unit_test(all_golden_batches_are_read_as_kafka_reads_them),
        cmocka_unit_test(all_golden_bad_batches_are_refused_as_kafka_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
