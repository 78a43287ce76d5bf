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
#include "cli/format.h"
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
    int64_t partition; /* -1: all of them */
    enum start start;
    int64_t start_value; /* offset or time */
    int64_t count;       /* -1: no limit */
    int64_t lookup_ms;   /* how long to ask for partitions and offsets before the first record */
    bool until_end;
    const char *format;
    cafka_position *positions; /* what is read; with -e offset is where it ends */
    size_t position_count;
    uint64_t received, bytes;
    bool failed; /* a partition was left out */
    struct progress progress;
};

static const char usage[] =
    "usage: cafka consume -b HOST:PORT[,…] -t TOPIC… [-p PARTITION] [-o beginning|end|OFFSET|@MILLIS]\n"
    "                     [-c COUNT] [-e] [-f FORMAT] [-X property=value]…\n"
    "\n"
    "  -p  only this partition\n"
    "  -o  where to start (default: as auto.offset.reset says)\n"
    "  -c  end after so many records\n"
    "  -e  end at the end of all partitions, as it was at the start\n"
    "  -f  %t topic %p partition %o offset %k key %s value %T timestamp %h headers, \\n \\t \\\\ %%\n"
    "      (default %s\\n)\n"
    "\n"
    "A partition that can't be read on, at a damaged batch for instance, is told with its offset and left\n"
    "out; the others go on, and the exit status is 1. -p and -o start again behind it.\n";

/* --- options --- */

static bool take_start(void *user, const char *text)
{
    struct consume_job *job = user;
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

static bool add_topic(void *user, const char *topic)
{
    struct consume_job *job = user;
    for (size_t i = 0; i < job->topic_count; i++)
        if (!strcmp(job->topics[i], topic)) {
            complain("topic %s is named twice", topic);
            return false;
        }
    if (job->topic_count == TOPICS_MAX) {
        complain("no more than %d topics", TOPICS_MAX);
        return false;
    }
    job->topics[job->topic_count++] = topic;
    return true;
}

static bool refuse_group(void *user, const char *group)
{
    (void)user;
    complain("-g %s: this version reads whole topics and joins no group yet; leave -g out", group);
    return false;
}

static bool take_format(void *user, const char *text)
{
    struct consume_job *job = user;
    job->format = text;
    return format_check(text);
}

/* GO_ON when the job is complete, else the exit status. */
static int parse(struct consume_job *job, int argc, char **argv)
{
    struct option options[] = {
        {"-b", .property = "bootstrap.servers"},
        {"-t", .each = add_topic},
        {"-p", .number = &job->partition, .least = 0, .most = INT32_MAX},
        {"-g", .take = refuse_group},
        {"-o", .take = take_start},
        {"-c", .number = &job->count, .least = 1, .most = INT64_MAX},
        {"-e", .flag = &job->until_end},
        {"-f", .take = take_format},
        {"-X", .properties = true},
        {0},
    };
    struct command_line line = {"consume", usage, options, job, job->config};
    int words = options_parse(&line, argc, argv);
    if (words < 0)
        return options_status(words);
    for (int i = 1; i <= words; i++) /* words behind the options are topics too */
        if (!add_topic(job, argv[i]))
            return EXIT_USAGE;
    return job->topic_count ? GO_ON : options_wrong(&line, "consume needs a topic (-t)");
}

/* --- where to start and to end --- */

/* Nothing more of positions[i]: it has failed, which was told. */
static void leave_out(struct consume_job *job, size_t i)
{
    (void)cafka_consumer_assign_remove(job->consumer, &job->positions[i], 1, NULL);
    job->positions[i] = job->positions[--job->position_count];
    job->failed = true;
}

/* After a question about all of them: those without an answer. */
static void leave_out_unanswered(struct consume_job *job)
{
    for (size_t i = job->position_count; i-- > 0;) {
        const cafka_position *at = &job->positions[i];
        if (!at->error)
            continue;
        complain("consume: the offsets of %s-%d can't be had (%s); it is left out", at->topic,
                 at->partition, cafka_error_name(at->error));
        leave_out(job, i);
    }
}

static bool add_partitions(struct consume_job *job, const char *topic, int32_t count)
{
    cafka_position *grown =
        realloc(job->positions, (job->position_count + (size_t)count) * sizeof *grown);
    if (!grown) {
        complain("no memory for %d partitions", count);
        return false;
    }
    job->positions = grown;
    for (int32_t p = 0; p < count; p++)
        if (job->partition < 0 || job->partition == p)
            grown[job->position_count++] = (cafka_position){.topic = topic, .partition = p};
    if (job->partition < count)
        return true;
    complain("consume: %s has %d partitions, from 0 on; there is no %d", topic, count,
             (int)job->partition);
    return false;
}

static bool list_partitions(struct consume_job *job, cafka_error *err)
{
    for (size_t t = 0; t < job->topic_count; t++) {
        int32_t count;
        if (cafka_consumer_partitions(job->consumer, job->topics[t], job->lookup_ms, &count, err) ||
            !add_partitions(job, job->topics[t], count))
            return false;
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
    leave_out_unanswered(job);
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
    if (!job->until_end)
        return true;
    if (cafka_consumer_end_offsets(job->consumer, job->positions, job->position_count,
                                   job->lookup_ms, err))
        return false;
    leave_out_unanswered(job);
    return true;
}

/* Begun behind the end: auto.offset.reset is still to say where to go on, or that it is an error. */
static bool beyond_end(const struct consume_job *job, const cafka_position *end, int64_t position)
{
    return job->start == START_OFFSET && position == job->start_value && position > end->offset;
}

/* Has every partition come to where it ended at the start? */
static bool at_end(struct consume_job *job)
{
    for (size_t i = job->position_count; i-- > 0;) {
        const cafka_position *end = &job->positions[i];
        int64_t position;
        cafka_error err = {0};
        int rc = cafka_consumer_position(job->consumer, end->topic, end->partition, WAIT_MS,
                                         &position, &err);
        if (rc && rc != CAFKA_ERR_TIMEOUT && rc != CAFKA_ERR_WAKEUP) {
            complain_error("consume", &err);
            leave_out(job, i);
        } else if (rc || position < end->offset || beyond_end(job, end, position)) {
            return false;
        }
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

/* An error that cafka_fetch_next() told: of one partition, which is left out, or of all. */
static bool survive(struct consume_job *job, const cafka_record_view *place, const cafka_error *err)
{
    complain_error("consume", err);
    for (size_t i = 0; place->topic && i < job->position_count; i++) {
        const cafka_position *at = &job->positions[i];
        if (at->partition != place->partition || strcmp(at->topic, place->topic) != 0)
            continue;
        complain("consume: %s-%d is left out from offset %" PRId64 " on", at->topic, at->partition,
                 place->offset);
        leave_out(job, i);
        return true;
    }
    return false;
}

static bool take_records(struct consume_job *job, cafka_fetch *fetch)
{
    cafka_error err = {0};
    while (!stop_asked && !has_all(job)) {
        cafka_record_view record = {0};
        int rc = cafka_fetch_next(fetch, &record, &err);
        if (rc == CAFKA_END)
            break;
        if (rc) {
            if (!survive(job, &record, &err))
                return false;
            continue;
        }
        format_print(job->format, &record);
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
    while (good && job->position_count && !stop_asked && !has_all(job)) {
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
    if (err.code && !(err.code == CAFKA_ERR_WAKEUP && stop_asked))
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
    if (stop_asked)
        complain("interrupted: %" PRIu64 " records received", job->received);
    cafka_consumer_close(job->consumer, CLOSE_MS, NULL);
    catch_stop_signals(NULL);
    cafka_consumer_free(job->consumer);
    return good ? 0 : 1;
}

int cli_consume(int argc, char **argv)
{
    struct consume_job job = {.count = -1, .partition = -1, .format = "%s\n"};
    cafka_error err = {0};
    if (cafka_config_new(&job.config, &err)) {
        complain_error("consume", &err);
        return 1;
    }
    int status = parse(&job, argc, argv);
    if (status == GO_ON)
        status = run(&job);
    free(job.positions);
    cafka_config_free(job.config);
    return status;
}
