/*
 * consume.c - `cafka consume`: the records of topics, each as a line of a given form.
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cafka/consumer.h>

#include "cli/cli.h"
#include "cli/options.h"

enum {
    TOPICS_MAX = 256,
    WAIT_MS = 200,
    LOOKUP_DEFAULT_MS = 15000,
    CLOSE_MS = 5000,
    OUTPUT_BUFFER = 1 << 20
};

enum start { START_BY_PROPERTY, START_BEGINNING, START_END, START_OFFSET, START_TIME };

struct consume_job {
    cafka_config *config;
    cafka_consumer *consumer;
    const char *topics[TOPICS_MAX];
    size_t topic_count;
    const char *group;
    enum start start;
    int64_t start_value; /* offset or time */
    int64_t count;       /* -1: no limit */
    int64_t lookup_ms;   /* how long to ask for partitions and offsets before the first record */
    bool until_end;
    const char *format;
    cafka_position *positions; /* what is assigned; with -e offset is where it ends */
    size_t position_count;
    uint64_t received, bytes;
    bool failed;
    struct progress progress;
};

static const char usage[] =
    "usage: cafka consume -b HOST:PORT[,…] -t TOPIC… [-o beginning|end|OFFSET|@MILLIS] [-c COUNT] [-e]\n"
    "                     [-f FORMAT] [-X property=value]…\n"
    "\n"
    "  -o  where to start (default: as auto.offset.reset says)\n"
    "  -c  end after so many records\n"
    "  -e  end at the end of all partitions, as it was at the start\n"
    "  -f  %t topic %p partition %o offset %k key %s value %T timestamp %h headers, \\n \\t \\\\ %%\n"
    "      (default \"%s\\n\")\n";

/* --- options --- */

static bool take_start(struct consume_job *job, const char *text)
{
    if (!strcmp(text, "beginning")) {
        job->start = START_BEGINNING;
    } else if (!strcmp(text, "end")) {
        job->start = START_END;
    } else if (*text == '@') {
        job->start = START_TIME;
        return option_number("-o @", text + 1, 0, INT64_MAX, &job->start_value);
    } else {
        job->start = START_OFFSET;
        return option_number("-o", text, 0, INT64_MAX, &job->start_value);
    }
    return true;
}

static bool add_topic(struct consume_job *job, const char *topic)
{
    if (job->topic_count == TOPICS_MAX) {
        complain("no more than %d topics", TOPICS_MAX);
        return false;
    }
    job->topics[job->topic_count++] = topic;
    return true;
}

static bool take_option(struct consume_job *job, const struct option_use *use)
{
    switch (use->name[1]) {
    case 'b': return option_set(job->config, "bootstrap.servers", use->argument);
    case 't': return add_topic(job, use->argument);
    case 'g':
        complain("-g %s: this version reads whole topics and joins no group yet; leave -g out",
                 use->argument);
        return false;
    case 'o': return take_start(job, use->argument);
    case 'c': return option_number("-c", use->argument, 1, INT64_MAX, &job->count);
    case 'e': job->until_end = true; return true;
    case 'f': job->format = use->argument; return true;
    case 'X': return option_property(job->config, use->argument);
    default: complain("consume has no option %s", use->name); return false;
    }
}

static bool parse(struct consume_job *job, int argc, char **argv)
{
    static const char *const with_value[] = {"-b", "-t", "-g", "-o", "-c", "-f", "-X", NULL};
    struct option_walk walk = {.argc = argc, .at = 1, .argv = argv, .with_value = with_value};
    struct option_use use;
    int kind;
    while ((kind = option_next(&walk, &use)) >= 0) {
        if (kind == 1 && !strcmp(use.name, "--help")) {
            fputs(usage, stdout);
            exit(0);
        }
        if (kind == 1 ? !take_option(job, &use) : !add_topic(job, use.argument))
            return false; /* words behind the options are topics too */
    }
    if (kind == -1 && !job->topic_count)
        complain("consume needs a topic (-t)");
    return kind == -1 && job->topic_count;
}

/* --- output --- */

static void put(const void *data, size_t size)
{
    if (size)
        fwrite(data, 1, size, stdout);
}

static void put_headers(const cafka_record_view *r)
{
    cafka_header h;
    for (size_t i = 0; !cafka_record_view_header(r, NULL, i, &h); i++) {
        if (i)
            putchar(',');
        put(h.name, h.name_size);
        if (h.value)
            putchar('=');
        put(h.value, h.value_size);
    }
}

static void put_field(char letter, const cafka_record_view *r)
{
    switch (letter) {
    case 't': fputs(r->topic, stdout); break;
    case 'p': printf("%d", r->partition); break;
    case 'o': printf("%" PRId64, r->offset); break;
    case 'k': put(r->key, r->key_size); break;
    case 's': put(r->value, r->value_size); break;
    case 'T': printf("%" PRId64, r->timestamp_ms); break;
    case 'h': put_headers(r); break;
    case '%': putchar('%'); break;
    default: /* not ours: as it stands */
        putchar('%');
        if (letter)
            putchar(letter);
    }
}

static void put_escape(char letter)
{
    switch (letter) {
    case 'n': putchar('\n'); break;
    case 't': putchar('\t'); break;
    case '\\': putchar('\\'); break;
    default:
        putchar('\\');
        if (letter)
            putchar(letter);
    }
}

static void print_record(const struct consume_job *job, const cafka_record_view *r)
{
    if (!job->format) {
        put(r->value, r->value_size);
        putchar('\n');
        return;
    }
    for (const char *c = job->format; *c; c++) {
        if (*c == '%' || *c == '\\') {
            if (*c == '%')
                put_field(c[1], r);
            else
                put_escape(c[1]);
            c += c[1] != '\0';
        } else {
            putchar(*c);
        }
    }
}

/* --- where to start and to end --- */

static bool list_partitions(struct consume_job *job, cafka_error *err)
{
    for (size_t t = 0; t < job->topic_count; t++) {
        int32_t count;
        if (cafka_consumer_partitions(job->consumer, job->topics[t], job->lookup_ms, &count, err))
            return false;
        cafka_position *grown =
            realloc(job->positions, (job->position_count + (size_t)count) * sizeof *grown);
        if (!grown) {
            complain("no memory for %d partitions", count);
            return false;
        }
        job->positions = grown;
        for (int32_t p = 0; p < count; p++)
            grown[job->position_count++] = (cafka_position){.topic = job->topics[t], .partition = p};
    }
    return true;
}

static bool find_times(struct consume_job *job, cafka_error *err)
{
    for (size_t i = 0; i < job->position_count; i++)
        job->positions[i].timestamp_ms = job->start_value;
    if (cafka_consumer_list_offsets(job->consumer, job->positions, job->position_count,
                                    job->lookup_ms, err))
        return false;
    for (size_t i = 0; i < job->position_count; i++) {
        cafka_position *at = &job->positions[i];
        at->offset = at->offset < 0 ? CAFKA_OFFSET_END : at->offset; /* no record is that young */
        at->flags = CAFKA_POSITION_OFFSET;
    }
    return true;
}

static bool assign(struct consume_job *job, cafka_error *err)
{
    static const int64_t offsets[] =
        {[START_BEGINNING] = CAFKA_OFFSET_BEGINNING, [START_END] = CAFKA_OFFSET_END};
    for (size_t i = 0; i < job->position_count; i++) {
        cafka_position *at = &job->positions[i];
        if (job->start == START_BEGINNING || job->start == START_END)
            at->offset = offsets[job->start];
        else if (job->start == START_OFFSET)
            at->offset = job->start_value;
        at->flags = job->start == START_BY_PROPERTY ? 0 : CAFKA_POSITION_OFFSET;
    }
    if (job->start == START_TIME && !find_times(job, err))
        return false;
    if (cafka_consumer_assign(job->consumer, job->positions, job->position_count, err))
        return false;
    return !job->until_end || !cafka_consumer_end_offsets(job->consumer, job->positions,
                                                          job->position_count, job->lookup_ms, err);
}

/* Has every partition come to where it ended at the start? */
static bool at_end(struct consume_job *job)
{
    for (size_t i = 0; i < job->position_count; i++) {
        const cafka_position *end = &job->positions[i];
        int64_t position;
        cafka_error err = {0};
        if (cafka_consumer_position(job->consumer, end->topic, end->partition, WAIT_MS, &position,
                                    &err)) {
            if (err.code != CAFKA_ERR_TIMEOUT && err.code != CAFKA_ERR_WAKEUP) {
                complain_error("consume", &err);
                job->failed = true;
                stop_asked = 1;
            }
            return false;
        }
        if (position < end->offset)
            return false;
    }
    return true;
}

/* --- the loop --- */

static cafka_consumer *consumer_to_wake;

static void wake_consumer(void)
{
    cafka_consumer_wakeup(consumer_to_wake);
}

static bool has_all(const struct consume_job *job)
{
    return job->count >= 0 && job->received >= (uint64_t)job->count;
}

static bool take_records(struct consume_job *job, cafka_fetch *fetch)
{
    cafka_record_view record;
    cafka_error err = {0};
    int rc;
    while (!stop_asked && !has_all(job) &&
           (rc = cafka_fetch_next(fetch, &record, &err)) != CAFKA_END) {
        if (rc) {
            complain_error("consume", &err);
            return false;
        }
        print_record(job, &record);
        job->received++;
        job->bytes += record.key_size + record.value_size;
    }
    if (progress_due(&job->progress))
        progress_show(&job->progress, "%" PRIu64 " records, %.1f MB", job->received,
                      (double)job->bytes / 1e6);
    return true;
}

static bool flush_output(void)
{
    if (!fflush(stdout) && !ferror(stdout))
        return true;
    if (errno != EPIPE) /* whoever reads has had enough: no news */
        complain("writing the output: %s", strerror(errno));
    return false;
}

static bool consume(struct consume_job *job)
{
    cafka_error err = {0};
    bool good = true;
    while (good && !stop_asked && !has_all(job)) {
        cafka_fetch *fetch = NULL;
        if (job->until_end && at_end(job))
            break;
        int rc = cafka_consumer_poll(job->consumer, WAIT_MS, &fetch, &err);
        if (rc && rc != CAFKA_ERR_WAKEUP) {
            complain_error("consume", &err);
            good = false;
        } else if (fetch) {
            good = take_records(job, fetch) && !ferror(stdout);
            cafka_fetch_free(fetch);
        } else {
            good = flush_output();
        }
    }
    return flush_output() && good && !job->failed;
}

static bool start(struct consume_job *job)
{
    cafka_error err = {0};
    if (list_partitions(job, &err) && assign(job, &err))
        return true;
    if (err.code == CAFKA_ERR_WAKEUP && stop_asked)
        return false;
    complain_error("consume", &err);
    return false;
}

/* A reader that mistypes a topic must not make one, unless it was told so. */
static bool reads_do_not_create(struct consume_job *job)
{
    const char *value;
    int source;
    if (cafka_config_get(job->config, "allow.auto.create.topics", CAFKA_FOR_CONSUMER, &value,
                         &source, NULL) ||
        source != CAFKA_CONFIG_DEFAULT)
        return true;
    return option_set(job->config, "allow.auto.create.topics", "false");
}

/* A person at a terminal waits less long than a service, unless they say otherwise. */
static void choose_lookup_time(struct consume_job *job)
{
    const char *value;
    int source;
    job->lookup_ms = LOOKUP_DEFAULT_MS;
    if (!cafka_config_get(job->config, "default.api.timeout.ms", CAFKA_FOR_CONSUMER, &value,
                          &source, NULL) &&
        source != CAFKA_CONFIG_DEFAULT)
        job->lookup_ms = strtoll(value, NULL, 10);
}

static int run(struct consume_job *job)
{
    cafka_error err = {0};
    choose_lookup_time(job);
    if (!reads_do_not_create(job) || cafka_consumer_new(&job->consumer, job->config, &err)) {
        complain_error("consume", &err);
        return err.code == CAFKA_ERR_CONFIG ? EXIT_USAGE : 1;
    }
    setvbuf(stdout, NULL, _IOFBF, OUTPUT_BUFFER);
    consumer_to_wake = job->consumer;
    catch_stop_signals(wake_consumer);
    progress_begin(&job->progress);
    bool good = start(job) && consume(job);
    progress_end(&job->progress);
    if (stop_asked && !job->failed)
        complain("interrupted: %" PRIu64 " records received", job->received);
    cafka_consumer_close(job->consumer, CLOSE_MS, NULL);
    catch_stop_signals(NULL);
    cafka_consumer_free(job->consumer);
    return good ? 0 : 1;
}

int cli_consume(int argc, char **argv)
{
    struct consume_job job = {.count = -1};
    cafka_error err = {0};
    if (cafka_config_new(&job.config, &err)) {
        complain_error("consume", &err);
        return 1;
    }
    int status = EXIT_USAGE;
    if (parse(&job, argc, argv))
        status = run(&job);
    else
        fprintf(stderr, "(cafka consume --help tells more)\n");
    free(job.positions);
    cafka_config_free(job.config);
    return status;
}
