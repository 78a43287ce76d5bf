/*
 * custom_serializer.c - objects of the program are sent and read as such.
 *
 *     custom_serializer [BOOTSTRAP [TOPIC]]
 *
 * A value is a struct point; on its way it is text, "3,4". Both directions are one function each, set
 * once, and the code that sends and reads never sees the text.
 */
#include <stdio.h>
#include <string.h>

#include <cafka.h>

struct point {
    int x, y;
};

static int die(const cafka_error *err)
{
    fprintf(stderr, "custom_serializer: %s\n", err->message);
    return 1;
}

/* The text is scratch memory: cafka frees it when the record is in its batch. */
static int point_to_text(cafka_record *record, cafka_bytes object, cafka_bytes *out,
                         cafka_scratch *scratch, void *user, cafka_error *err)
{
    const struct point *point = object.data;
    char *text = cafka_scratch_alloc(scratch, 32);
    (void)record, (void)user;
    if (!text) {
        snprintf(err->message, sizeof err->message, "no memory for a point");
        return CAFKA_ERR_MEMORY;
    }
    out->data = text;
    out->size = (size_t)snprintf(text, 32, "%d,%d", point->x, point->y);
    return CAFKA_OK;
}

/* The point is scratch memory, too: it lives until the next record is asked for. */
static int text_to_point(const cafka_record_view *view, cafka_bytes bytes, cafka_bytes *out,
                         cafka_scratch *scratch, void *user, cafka_error *err)
{
    char text[32];
    struct point *point = cafka_scratch_alloc(scratch, sizeof *point);
    (void)view, (void)user;
    snprintf(text, sizeof text, "%.*s", (int)bytes.size, (const char *)bytes.data);
    if (!point || sscanf(text, "%d,%d", &point->x, &point->y) != 2) {
        snprintf(err->message, sizeof err->message, "'%s' is no point", text);
        return CAFKA_ERR_ARGUMENT;
    }
    out->data = point;
    out->size = sizeof *point;
    return CAFKA_OK;
}

static int send_points(const cafka_config *config, const char *topic, cafka_error *err)
{
    cafka_producer *producer;
    int rc = cafka_producer_new(&producer, config, err);
    if (rc)
        return rc;
    for (int i = 1; i <= 3 && !rc; i++) {
        struct point point = {i, i * i}; /* serialized before send returns */
        cafka_record record = {.topic = topic, .value = &point, .value_size = sizeof point};
        rc = cafka_producer_send(producer, &record, err);
    }
    if (!rc)
        rc = cafka_producer_close(producer, 10000, err);
    cafka_producer_free(producer);
    return rc;
}

/* What one poll brought. */
static int print_points(cafka_fetch *fetch, int *count, cafka_error *err)
{
    cafka_record_view record;
    int rc;
    while (!(rc = cafka_fetch_next(fetch, &record, err))) {
        const struct point *point = record.value;
        printf("x %d, y %d\n", point->x, point->y);
        ++*count;
    }
    return rc == CAFKA_END ? CAFKA_OK : rc;
}

static int read_points(const cafka_config *config, const char *topic, cafka_error *err)
{
    cafka_consumer *consumer;
    cafka_fetch *fetch;
    int count = 0, rc = cafka_consumer_new(&consumer, config, err);
    if (rc)
        return rc;
    rc = cafka_consumer_assign(consumer, &(cafka_position){.topic = topic}, 1, err);
    for (int i = 0; i < 10 && count < 3 && !rc; i++) {
        rc = cafka_consumer_poll(consumer, 1000, &fetch, err);
        if (!rc) {
            rc = print_points(fetch, &count, err);
            cafka_fetch_free(fetch);
        }
    }
    cafka_consumer_free(consumer);
    return rc;
}

int main(int argc, char **argv)
{
    const char *bootstrap = argc > 1 ? argv[1] : "localhost:9092";
    const char *topic = argc > 2 ? argv[2] : "points";
    cafka_serializer to_text = {.size = sizeof to_text, .name = "points", .serialize = point_to_text};
    cafka_deserializer to_point = {.size = sizeof to_point,
                                   .name = "points",
                                   .deserialize = text_to_point};
    cafka_config *config;
    cafka_error err;

    if (cafka_config_new(&config, &err))
        return die(&err);
    int rc = cafka_config_set(config, "bootstrap.servers", bootstrap, &err);
    if (!rc)
        rc = cafka_config_set(config, "auto.offset.reset", "earliest", &err);
    if (!rc)
        rc = cafka_config_set_value_serializer(config, &to_text, &err);
    if (!rc)
        rc = cafka_config_set_value_deserializer(config, &to_point, &err);
    if (!rc)
        rc = send_points(config, topic, &err);
    if (!rc)
        rc = read_points(config, topic, &err);
    cafka_config_free(config);
    return rc ? die(&err) : 0;
}
