/*
 * test_hostile_answers.c - clients of a cluster whose answers are changed on their way: damaged, cut,
 * doubled, swallowed, or well formed and untrue (offsets that go back, leaders that do not exist,
 * partitions nobody asked for).
 *
 * The clients live in the world of a simulated cluster, whose recv() is replaced: it takes whole
 * answers and hands out what became of them. One run is one seed; CAFKA_SEEDS says how many are
 * run, CAFKA_SEED which is the first. Whatever comes: no crash, no leak, no call past its timeout, one
 * report for each record that was accepted, and no storm of requests.
 */
#include "mock/mock_fixture.h"

#include <errno.h>
#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cafka/admin.h>

#include "protocol/api_keys.h"
#include "protocol/codec.h"
#include "protocol/tables.h" /* a liar must know the shape of every answer */
#include "record/crc32c.h"
#include "util/alloc.h"
#include "util/rng.h"

enum {
    RUNS = 150,
    WIRES = 64,
    EXPECTED = 512, /* requests of a connection without an answer */
    SITES = 4096,
    RECORDS = 40,
    PARTITIONS = 4,
    CLOSE_MS = 3000,
    SLACK_MS = 100,
    PER_SECOND = 3000, /* requests of all clients: more is a storm */
    RUN_SECONDS = 60   /* of real time; a run takes milliseconds */
};

/* A connection of a client, as recv() and send() see it. */
struct wire {
    int handle; /* -1: free */
    struct buffer sent, got, given;
    size_t given_at;
    bool ended; /* nothing comes any more */
    struct {
        int32_t id;
        int16_t key, version;
    } expected[EXPECTED];
    size_t expected_count;
};

struct site {
    const struct field *field;
    char *member; /* of the field, or of one value of an array of numbers */
    bool element;
};

static struct liar {
    const cafka_env *inner;
    cafka_env env;
    struct wire wires[WIRES];
    struct rng rng;
    struct arena arena;
    struct encoded out;
    struct site sites[SITES];
    size_t site_count;
    uint64_t seed;
    unsigned one_in; /* so many answers are changed; 0: none */
    int64_t requests;
} liar;

static unsigned below(unsigned bound)
{
    return (unsigned)rng_below(&liar.rng, bound);
}

/* --- lies: a well-formed answer with a few other values --- */

static void add_site(const struct field *f, char *member, bool element)
{
    if (liar.site_count < SITES)
        liar.sites[liar.site_count++] = (struct site){f, member, element};
}

static void list_sites(const struct table *t, int version, char *item)
{
    for (uint16_t i = 0; i < t->field_count; i++) {
        const struct field *f = &t->fields[i];
        char *member = item + f->offset;
        if (!field_in(f, version))
            continue;
        add_site(f, member, false);
        if (f->flags & FIELD_ARRAY) {
            char *items = member_pointer(member);
            for (int32_t n = 0; n < array_count(member); n++) {
                if (f->type == FIELD_STRUCT)
                    list_sites(f->table, version, items + (size_t)n * f->table->size);
                else
                    add_site(f, items + (size_t)n * field_value_size(f), true);
            }
        } else if (f->type == FIELD_STRUCT) {
            char *part = f->flags & FIELD_POINTER ? member_pointer(member) : member;
            if (part)
                list_sites(f->table, version, part);
        }
    }
}

static int64_t other_number(int64_t old, int64_t low, int64_t high)
{
    int64_t made;
    switch (below(8)) {
    case 0: return low;
    case 1: return high;
    case 2: return 0;
    case 3: return -1;
    case 4: made = old < high ? old + 1 : old; break;
    case 5: made = old > low ? old - 1 : old; break;
    case 6: made = (int64_t)below(130); break;
    default: return rng_between(&liar.rng, low, high);
    }
    return made < low || made > high ? low : made;
}

#define CHANGE(type, low, high) \
    do { \
        type value; \
        memcpy(&value, member, sizeof value); \
        value = (type)other_number((int64_t)value, (low), (high)); \
        memcpy(member, &value, sizeof value); \
    } while (0)

/* Turned bits, a cut, or twice the same; now and then with a checksum that is right again. */
static void change_records(char *member)
{
    struct records records;
    memcpy(&records, member, sizeof records);
    size_t size = records.size;
    uint8_t *copy = arena_alloc(&liar.arena, 2 * size + 64);
    if (!copy)
        return;
    if (size)
        memcpy(copy, records.data, size);
    switch (below(6)) {
    case 0: size = size ? below((unsigned)size) : 0; break;
    case 1:
        memcpy(copy + size, copy, size);
        size *= 2;
        break;
    case 2: rng_fill(&liar.rng, copy, size = below(64)); break;
    default:
        for (unsigned n = below(6) + 1; size && n; n--)
            copy[below(below(2) && size > 61 ? 61 : (unsigned)size)] ^= (uint8_t)(1u << below(8));
        break;
    }
    if (size > 61 && below(2)) {
        uint32_t length = load_be32(copy + 8);
        if (length >= 49 && length <= size - 12)
            store_be32(copy + 17, crc32c(0, copy + 21, length - 9));
    }
    records = (struct records){.data = copy, .size = size};
    memcpy(member, &records, sizeof records);
}

static void change_text(char *member, bool nullable)
{
    static const char *const texts[] = {"",          "orders",    "other", "localhost",
                                        "256.1.1.1", "127.0.0.1", "a\nb",  "\xff\xfe"};
    struct str text = {NULL, 0};
    if (!nullable || below(4)) {
        text = str_of(texts[below(8)]);
        if (!below(8)) {
            char *large = arena_alloc(&liar.arena, 3000);
            if (large)
                memset(large, 'x', 3000);
            text = (struct str){large, large ? 3000 : 0};
        }
    }
    memcpy(member, &text, sizeof text);
}

/* None, one less, or the same again and again. */
static void change_array(const struct field *f, char *member)
{
    int32_t count = array_count(member);
    size_t size = field_value_size(f), times = below(4) ? 2 : 500;
    char *items = member_pointer(member), *more;
    if (count <= 0)
        return;
    switch (below(4)) {
    case 0: array_set(member, items, 0); break;
    case 1: array_set(member, items, count - 1); break;
    case 2: array_set(member, items + size, count - 1); break;
    default:
        more = arena_calloc(&liar.arena, (size_t)count * times, size);
        for (size_t i = 0; more && i < times; i++)
            memcpy(more + i * (size_t)count * size, items, (size_t)count * size);
        if (more)
            array_set(member, more, count * (int32_t)times);
        break;
    }
}

static void change_site(const struct site *site, int version)
{
    char *member = site->member;
    const struct field *f = site->field;
    if (f->flags & FIELD_ARRAY && !site->element) {
        change_array(f, member);
        return;
    }
    switch (f->type) {
    case FIELD_BOOL: *(bool *)(void *)member = !*(bool *)(void *)member; break;
    case FIELD_INT8: CHANGE(int8_t, INT8_MIN, INT8_MAX); break;
    case FIELD_INT16: CHANGE(int16_t, INT16_MIN, INT16_MAX); break;
    case FIELD_UINT16: CHANGE(uint16_t, 0, UINT16_MAX); break;
    case FIELD_INT32: CHANGE(int32_t, INT32_MIN, INT32_MAX); break;
    case FIELD_UINT32: CHANGE(uint32_t, 0, UINT32_MAX); break;
    case FIELD_INT64: CHANGE(int64_t, INT64_MIN, INT64_MAX); break;
    case FIELD_UUID:
        below(2) ? rng_fill(&liar.rng, member, 16) : (void)memset(member, 0, 16);
        break;
    case FIELD_STRING: change_text(member, field_nullable(f, version)); break;
    case FIELD_RECORDS: change_records(member); break;
    default: break;
    }
}

/* False: it could not be said. */
static bool tell_lies(const struct api *api, int version, const uint8_t *frame, size_t size)
{
    int32_t id;
    size_t used;
    arena_reset(&liar.arena);
    void *body = arena_alloc(&liar.arena, message_struct_size(api->response));
    if (!body || response_head_decode(api, version, bytes_of(frame, size), &id, &used, NULL) ||
        message_decode(api->response, version, bytes_of(frame + used, size - used), &liar.arena,
                       body, NULL, NULL))
        return false;
    for (unsigned n = below(3) + 1; n; n--) {
        liar.site_count = 0; /* listed anew: what was changed may be gone */
        list_sites(api->response->table, version, body);
        if (liar.site_count)
            change_site(&liar.sites[below((unsigned)liar.site_count)], version);
    }
    return !response_encode(api, version, id, body, &liar.out, NULL);
}

/* --- one answer on its way --- */

static void give(struct wire *w, const void *data, size_t size)
{
    buffer_put(&w->given, data, size);
}

static void give_frame(struct wire *w, const uint8_t *frame, size_t size)
{
    uint8_t head[4];
    store_be32(head, (uint32_t)size);
    give(w, head, 4);
    give(w, frame, size);
}

static bool take_expected(struct wire *w, int32_t id, int16_t *key, int16_t *version)
{
    for (size_t i = 0; i < w->expected_count; i++) {
        if (w->expected[i].id != id)
            continue;
        *key = w->expected[i].key;
        *version = w->expected[i].version;
        memmove(&w->expected[i], &w->expected[i + 1],
                (w->expected_count - i - 1) * sizeof w->expected[0]);
        w->expected_count--;
        return true;
    }
    return false;
}

static void damage(struct wire *w, uint8_t *frame, size_t size)
{
    static const uint32_t sizes[] = {0, 1, 3, 0xffffffff, 0x7fffffff, 0x80000000, 100};
    uint8_t head[4], noise[32];
    switch (below(9)) {
    case 0:
        for (unsigned n = below(8) + 1; n; n--)
            frame[below((unsigned)size)] ^= (uint8_t)(1u << below(8));
        give_frame(w, frame, size);
        break;
    case 1: /* an id that nobody gave */
        store_be32(frame, (uint32_t)rng_next(&liar.rng));
        give_frame(w, frame, size);
        break;
    case 2: /* cut, and the size says so */ give_frame(w, frame, below((unsigned)size)); break;
    case 3:
        store_be32(head, sizes[below(7)]);
        give(w, head, 4);
        give(w, frame, size);
        break;
    case 4: /* the connection ends in the middle */
        give_frame(w, frame, size);
        w->given.size = w->given_at + below((unsigned)(w->given.size - w->given_at));
        w->ended = true;
        break;
    case 5:
        give_frame(w, frame, size);
        give_frame(w, frame, size);
        break;
    case 6:
        rng_fill(&liar.rng, noise, sizeof noise);
        buffer_put(&w->got, noise, sizeof noise); /* bytes behind the body */
        give_frame(w, w->got.data, w->got.size);
        break;
    case 7: /* an answer to nothing comes first */
        rng_fill(&liar.rng, noise, sizeof noise);
        give_frame(w, noise, sizeof noise);
        give_frame(w, frame, size);
        break;
    default: /* it never comes */ break;
    }
}

static void pass_on(struct wire *w)
{
    int16_t key, version;
    uint8_t *frame = w->got.data;
    size_t size = w->got.size;
    bool known = size >= 4 && take_expected(w, (int32_t)load_be32(frame), &key, &version);
    if (!known || !liar.one_in || below(liar.one_in))
        give_frame(w, frame, size);
    else if (!below(4))
        damage(w, frame, size);
    else if (tell_lies(api_find(key), version, frame, size))
        give(w, liar.out.bytes.data, liar.out.bytes.size);
    else
        give_frame(w, frame, size);
    buffer_clear(&w->got);
}

/* --- the world's sockets --- */

static struct wire *wire_of(int handle)
{
    for (int i = 0; i < WIRES; i++)
        if (liar.wires[i].handle == handle)
            return &liar.wires[i];
    return NULL;
}

static void end_wire(int handle)
{
    struct wire *w = wire_of(handle);
    if (!w)
        return;
    buffer_fini(&w->sent);
    buffer_fini(&w->got);
    buffer_fini(&w->given);
    *w = (struct wire){.handle = -1};
}

static int liar_dial(const cafka_env *env, const cafka_address *to)
{
    (void)env;
    int handle = liar.inner->dial(liar.inner, to);
    struct wire *w = handle < 0 ? NULL : wire_of(-1);
    if (w)
        w->handle = handle;
    return handle;
}

static void liar_close(const cafka_env *env, int handle)
{
    (void)env;
    end_wire(handle);
    liar.inner->close(liar.inner, handle);
}

static void liar_reset(const cafka_env *env, int handle)
{
    (void)env;
    end_wire(handle);
    liar.inner->reset(liar.inner, handle);
}

/* Which answers will come. */
static void look_at_requests(struct wire *w)
{
    size_t at = 0;
    while (w->sent.size - at >= 12) {
        const uint8_t *frame = w->sent.data + at;
        size_t size = load_be32(frame);
        if (w->sent.size - at - 4 < size)
            break;
        if (w->expected_count < EXPECTED) {
            w->expected[w->expected_count].key = (int16_t)load_be16(frame + 4);
            w->expected[w->expected_count].version = (int16_t)load_be16(frame + 6);
            w->expected[w->expected_count++].id = (int32_t)load_be32(frame + 8);
        }
        liar.requests++;
        at += 4 + size;
    }
    memmove(w->sent.data, w->sent.data + at, w->sent.size - at);
    w->sent.size -= at;
}

static ssize_t liar_send(const cafka_env *env, int handle, const struct iovec *pieces, int count)
{
    (void)env;
    struct wire *w = wire_of(handle);
    ssize_t n = liar.inner->send(liar.inner, handle, pieces, count);
    size_t left = n > 0 ? (size_t)n : 0;
    for (int i = 0; w && left && i < count; i++) {
        size_t size = pieces[i].iov_len < left ? pieces[i].iov_len : left;
        buffer_put(&w->sent, pieces[i].iov_base, size);
        left -= size;
    }
    if (w && n > 0)
        look_at_requests(w);
    return n;
}

/* Read what is there of one answer: 1 it is whole, else what recv() said. */
static ssize_t read_answer(struct wire *w)
{
    for (;;) {
        uint8_t bytes[4096];
        size_t have = w->got.size, want = have < 4 ? 4 : 4 + (size_t)load_be32(w->got.data);
        if (have >= 4 && have == want) {
            memmove(w->got.data, w->got.data + 4, have - 4);
            w->got.size -= 4;
            return 1;
        }
        size_t size = want - have < sizeof bytes ? want - have : sizeof bytes;
        ssize_t n = liar.inner->recv(liar.inner, w->handle, bytes, size);
        if (n <= 0)
            return n;
        buffer_put(&w->got, bytes, (size_t)n);
    }
}

static ssize_t liar_recv(const cafka_env *env, int handle, void *into, size_t size)
{
    (void)env;
    struct wire *w = wire_of(handle);
    if (!w)
        return liar.inner->recv(liar.inner, handle, into, size);
    while (w->given_at == w->given.size) {
        if (w->ended)
            return 0;
        ssize_t rc = read_answer(w);
        if (rc <= 0)
            return rc;
        buffer_clear(&w->given);
        w->given_at = 0;
        pass_on(w);
    }
    size_t left = w->given.size - w->given_at;
    if (size > left)
        size = left;
    memcpy(into, w->given.data + w->given_at, size);
    w->given_at += size;
    return (ssize_t)size;
}

/* --- clients that are lied to --- */

static int64_t now_ms(void)
{
    return liar.inner->now(liar.inner) / 1000000;
}

static void in_time(const char *what, int64_t since_ms, int64_t limit_ms)
{
    int64_t took = now_ms() - since_ms;
    if (took > limit_ms + SLACK_MS)
        fail_msg("seed %llu: %s took %lld ms of %lld", (unsigned long long)liar.seed, what,
                 (long long)took, (long long)limit_ms);
}

static void an_error_has_a_text(const char *what, int rc, const cafka_error *err)
{
    if (rc && (err->code != rc || !err->message[0]))
        fail_msg("seed %llu: %s: result %d, error %d \"%s\"", (unsigned long long)liar.seed, what,
                 rc, err->code, err->message);
}

static cafka_config *lied_to(cafka_mock *mock, const char *properties)
{
    cafka_config *config = client_config(mock, properties);
    cafka_config_set_env(config, &liar.env);
    return config;
}

static void count_report(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    (void)producer;
    int *reports = user;
    cafka_delivery_report report;
    while (!cafka_delivery_next(delivery, &report))
        reports[(intptr_t)report.opaque]++;
}

static void produce(cafka_mock *mock)
{
    static const char *const properties[] =
        {"max.block.ms=2000\nlinger.ms=5", "max.block.ms=2000\nacks=1\nenable.idempotence=false",
         "max.block.ms=2000\nacks=0\nenable.idempotence=false",
         "max.block.ms=2000\ncompression.type=lz4",
         "max.block.ms=2000\ndelivery.timeout.ms=4000\nrequest.timeout.ms=1000\nlinger.ms=0"};
    int reports[RECORDS] = {0};
    bool accepted[RECORDS] = {false};
    cafka_config *config = lied_to(mock, properties[below(5)]);
    cafka_producer *producer;
    cafka_error err = {0};
    cafka_config_on_delivery(config, count_report, reports);
    assert_int_equal(cafka_producer_new(&producer, config, &err), CAFKA_OK);
    cafka_config_free(config);
    for (intptr_t i = 0; i < RECORDS; i++) {
        char value[300];
        memset(value, 'a' + (int)i % 26, sizeof value);
        cafka_record record = {.topic = below(30) ? "orders" : "other",
                               .value = value,
                               .value_size = below(300),
                               .opaque = (void *)i};
        int64_t since = now_ms();
        int rc = cafka_producer_send(producer, &record, &err);
        in_time("send", since, 2000);
        an_error_has_a_text("send", rc, &err);
        accepted[i] = !rc;
        if (i == RECORDS / 2 && below(2)) {
            since = now_ms();
            rc = cafka_producer_flush(producer, 5000, &err);
            in_time("flush", since, 5000);
            an_error_has_a_text("flush", rc, &err);
        }
    }
    int64_t since = now_ms();
    an_error_has_a_text("close", cafka_producer_close(producer, CLOSE_MS, &err), &err);
    in_time("closing a producer", since, CLOSE_MS);
    cafka_producer_free(producer);
    for (int i = 0; i < RECORDS; i++)
        if (reports[i] != accepted[i])
            fail_msg("seed %llu: record %d: accepted %d, reports %d", (unsigned long long)liar.seed,
                     i, accepted[i], reports[i]);
}

static void read_fetch(cafka_consumer *consumer, cafka_fetch *fetch)
{
    cafka_record_view view;
    cafka_error err = {0};
    volatile unsigned sum = 0; /* every byte must be there */
    int rc;
    while (!(rc = cafka_fetch_next(fetch, &view, &err))) {
        for (uint32_t i = 0; i < view.value_size; i++)
            sum += ((const uint8_t *)view.value)[i];
        cafka_header header;
        for (size_t i = 0; i < 100 && !cafka_record_view_header(&view, NULL, i, &header); i++)
            sum += (unsigned)header.value_size;
    }
    if (rc != CAFKA_END) {
        an_error_has_a_text("next", rc, &err);
        if (below(2))
            (void)cafka_consumer_seek(consumer, "orders", (int32_t)below(PARTITIONS),
                                      (int64_t)below(20), NULL);
    }
    cafka_fetch_free(fetch);
    (void)sum;
}

static void consume(cafka_mock *mock)
{
    static const char *const properties[] =
        {"auto.offset.reset=earliest", "auto.offset.reset=none",
         "auto.offset.reset=latest\nisolation.level=read_committed",
         "auto.offset.reset=earliest\ncheck.crcs=false\nfetch.max.bytes=2000\nmetadata.max.age.ms=100"};
    cafka_config *config = lied_to(mock, properties[below(4)]);
    cafka_consumer *consumer;
    cafka_error err = {0};
    assert_int_equal(cafka_consumer_new(&consumer, config, &err), CAFKA_OK);
    cafka_config_free(config);
    for (int32_t p = 0; p < PARTITIONS; p++) {
        cafka_position at = {.topic = "orders",
                             .partition = p,
                             .flags = CAFKA_POSITION_OFFSET,
                             .offset = below(2) ? CAFKA_OFFSET_BEGINNING : (int64_t)below(10)};
        assert_int_equal(cafka_consumer_assign_add(consumer, &at, 1, &err), CAFKA_OK);
    }
    for (int i = 0; i < 20; i++) {
        cafka_fetch *fetch = NULL;
        int64_t since = now_ms();
        int rc = cafka_consumer_poll(consumer, 300, &fetch, &err);
        in_time("poll", since, 300);
        an_error_has_a_text("poll", rc, &err);
        if (!rc && fetch)
            read_fetch(consumer, fetch);
    }
    cafka_position query = {.topic = "orders", .partition = 1, .timestamp_ms = CAFKA_OFFSET_END};
    int64_t since = now_ms();
    an_error_has_a_text("offsets", cafka_consumer_end_offsets(consumer, &query, 1, 1000, &err),
                        &err);
    in_time("asking for offsets", since, 1000);
    since = now_ms();
    an_error_has_a_text("close", cafka_consumer_close(consumer, CLOSE_MS, &err), &err);
    in_time("closing a consumer", since, CLOSE_MS);
    cafka_consumer_free(consumer);
}

static void administrate(cafka_mock *mock)
{
    static const char *const names[] = {"orders", "other"};
    cafka_config *config = lied_to(mock, "");
    cafka_admin *admin;
    cafka_topic_list *list = NULL;
    cafka_cluster_info *info = NULL;
    cafka_error err = {0};
    assert_int_equal(cafka_admin_new(&admin, config, &err), CAFKA_OK);
    cafka_config_free(config);
    int64_t since = now_ms();
    an_error_has_a_text("describe topics",
                        cafka_admin_describe_topics(admin, names, 2, 1000, &list, &err), &err);
    in_time("describing topics", since, 1000);
    cafka_topic_list_free(list);
    since = now_ms();
    an_error_has_a_text("describe cluster", cafka_admin_describe_cluster(admin, 1000, &info, &err),
                        &err);
    in_time("describing the cluster", since, 1000);
    cafka_cluster_info_free(info);
    since = now_ms();
    an_error_has_a_text("close", cafka_admin_close(admin, CLOSE_MS, &err), &err);
    in_time("closing an admin", since, CLOSE_MS);
    cafka_admin_free(admin);
}

static void report_hang(int number)
{
    (void)number;
    fprintf(stderr, "seed %llu hangs\n", (unsigned long long)liar.seed);
    abort();
}

static void run_seed(uint64_t seed)
{
    static const char *const topics[] = {"orders:4"};
    static const char *const texts[] = {"one", "two", "three", "four", "five", "six"};
    liar.seed = seed;
    rng_seed(&liar.rng, seed);
    alarm(RUN_SECONDS);
    cafka_mock *mock = start_cluster(seed, topics, 1, NULL);
    for (int32_t p = 0; p < PARTITIONS; p++)
        produce_texts(mock, "orders", p, texts, 6, below(2) ? "" : "compression.type=gzip");
    liar.inner = cafka_mock_env(mock);
    liar.env = *liar.inner;
    liar.env.dial = liar_dial;
    liar.env.recv = liar_recv;
    liar.env.send = liar_send;
    liar.env.close = liar_close;
    liar.env.reset = liar_reset;
    liar.one_in = below(2) ? 2 + below(4) : 8 + below(20);
    liar.requests = 0;
    int64_t since = now_ms();
    produce(mock);
    consume(mock);
    administrate(mock);
    int64_t seconds = (now_ms() - since) / 1000 + 1;
    if (liar.requests > seconds * PER_SECOND)
        fail_msg("seed %llu: %lld requests in %lld s", (unsigned long long)seed,
                 (long long)liar.requests, (long long)seconds);
    for (int i = 0; i < WIRES; i++)
        end_wire(liar.wires[i].handle);
    cafka_mock_free(mock);
    alarm(0);
}

static void clients_outlive_answers_that_are_not_true(void **state)
{
    (void)state;
    const char *first = getenv("CAFKA_SEED"), *many = getenv("CAFKA_SEEDS");
    uint64_t seed = first ? strtoull(first, NULL, 10) : 1;
    uint64_t count = many ? strtoull(many, NULL, 10) : RUNS;
    signal(SIGALRM, report_hang);
    for (int i = 0; i < WIRES; i++)
        liar.wires[i].handle = -1;
    for (uint64_t i = 0; i < count; i++)
        run_seed(seed + i);
    encoded_fini(&liar.out);
    arena_fini(&liar.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(clients_outlive_answers_that_are_not_true)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
