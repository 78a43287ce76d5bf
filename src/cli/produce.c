/*
 * produce.c - `cafka produce`: one record for each line of a file.
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cafka/producer.h>

#include "cli/cli.h"
#include "cli/closer.h"
#include "cli/options.h"

enum { HEADERS_MAX = 64, ERRORS_SHOWN = 5 };

struct produce_job {
    cafka_config *config;
    cafka_producer *producer;
    const char *topic, *file, *delimiter;
    int64_t partition; /* -1: the partitioner chooses */
    cafka_header headers[HEADERS_MAX];
    size_t header_count;
    uint64_t sent, bytes;
    atomic_ullong delivered, failed; /* the delivery function counts on the loop's thread */
    struct progress progress;
};

static const char usage[] =
    "usage: cafka produce -b HOST:PORT[,…] -t TOPIC [-p PARTITION] [-k DELIMITER] [-H NAME=VALUE]…\n"
    "                     [-X property=value]… [FILE]\n"
    "\n"
    "One record a line, of FILE or standard input. With -k, what stands before the first DELIMITER\n"
    "is the key. Exit status 0 only if every record was acknowledged.\n";

static void delivered(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    (void)producer;
    struct produce_job *job = user;
    const cafka_error *error = cafka_delivery_error(delivery);
    size_t count = cafka_delivery_count(delivery);
    if (!error) {
        atomic_fetch_add(&job->delivered, count);
        return;
    }
    cafka_delivery_report report;
    size_t bad = 0;
    const cafka_error *first = NULL;
    while (!cafka_delivery_next(delivery, &report)) {
        bad += report.code != CAFKA_OK;
        first = first ? first : report.error;
    }
    if (atomic_load(&job->failed) < ERRORS_SHOWN)
        complain_error("delivery failed", first ? first : error);
    atomic_fetch_add(&job->failed, bad);
    atomic_fetch_add(&job->delivered, count - bad);
}

static bool add_header(void *user, const char *text)
{
    struct produce_job *job = user;
    const char *equals = strchr(text, '=');
    if (job->header_count == HEADERS_MAX) {
        complain("no more than %d headers", HEADERS_MAX);
        return false;
    }
    size_t name_size = equals ? (size_t)(equals - text) : strlen(text);
    if (!name_size) {
        complain("-H wants NAME=VALUE, not \"%s\"", text);
        return false;
    }
    /* Without a '=' the header's value is null. */
    job->headers[job->header_count++] = (cafka_header){text, name_size, equals ? equals + 1 : NULL,
                                                       equals ? strlen(equals + 1) : 0};
    return true;
}

/* GO_ON when the job is complete, else the exit status. */
static int parse(struct produce_job *job, int argc, char **argv)
{
    struct option options[] = {
        {"-b", .property = "bootstrap.servers"},
        {"-t", .text = &job->topic},
        {"-p", .number = &job->partition, .least = 0, .most = INT32_MAX},
        {"-k", .text = &job->delimiter},
        {"-H", .each = add_header},
        {"-X", .properties = true},
        {0},
    };
    struct command_line line = {"produce", usage, options, job, job->config};
    int words = options_parse(&line, argc, argv);
    if (words < 0)
        return options_status(words);
    job->file = words ? argv[1] : NULL;
    if (words > 1)
        return options_wrong(&line, "produce reads one file, not \"%s\" as well", argv[2]);
    if (!job->topic)
        return options_wrong(&line, "produce needs a topic (-t)");
    if (job->delimiter && !*job->delimiter)
        return options_wrong(&line, "-k wants a delimiter that is not empty");
    return GO_ON;
}

static const char *find_delimiter(const struct produce_job *job, const char *line, size_t size)
{
    return job->delimiter ? memmem(line, size, job->delimiter, strlen(job->delimiter)) : NULL;
}

static bool send_line(struct produce_job *job, const char *line, size_t size)
{
    cafka_error err = {0};
    const char *cut = find_delimiter(job, line, size);
    cafka_record record = {.topic = job->topic,
                           .value = line,
                           .value_size = size,
                           .headers = job->headers,
                           .header_count = job->header_count};
    if (cut) {
        record.key = line;
        record.key_size = (size_t)(cut - line);
        record.value = cut + strlen(job->delimiter);
        record.value_size = size - record.key_size - strlen(job->delimiter);
    }
    if (job->partition >= 0) {
        record.partition = (int32_t)job->partition;
        record.flags = CAFKA_RECORD_PARTITION;
    }
    if (cafka_producer_send(job->producer, &record, &err)) {
        if (!(stop_asked && err.code == CAFKA_ERR_CLOSED)) /* the closer was there */
            complain("line %" PRIu64 ": %s (%s)", job->sent + 1, err.message,
                     cafka_error_name(err.code));
        return false;
    }
    job->sent++;
    job->bytes += size;
    return true;
}

static void show(struct produce_job *job)
{
    if ((job->sent & 1023) == 0 && progress_due(&job->progress))
        progress_show(&job->progress, "%" PRIu64 " records read, %llu acknowledged, %.1f MB",
                      job->sent, (unsigned long long)atomic_load(&job->delivered),
                      (double)job->bytes / 1e6);
}

/* False if a line was refused or the file could not be read. */
static bool send_lines(struct produce_job *job, FILE *in)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t size = 0;
    bool good = true;
    errno = 0;
    while (good && !stop_asked && (size = getline(&line, &room, in)) >= 0) {
        if (size && line[size - 1] == '\n')
            size--;
        good = send_line(job, line, (size_t)size);
        show(job);
    }
    if (good && !stop_asked && ferror(in)) {
        complain("reading %s: %s", job->file ? job->file : "standard input", strerror(errno));
        good = false;
    }
    free(line);
    return good;
}

/* Wait for the rest and say how it went. */
static bool finish(struct produce_job *job)
{
    cafka_error err = {0};
    int rc = cafka_producer_close(job->producer, stop_asked ? CLOSE_AFTER_STOP_MS : -1, &err);
    closer_end();
    uint64_t done = atomic_load(&job->delivered);
    progress_end(&job->progress);
    if (stop_asked || done != job->sent)
        complain("%s%" PRIu64 " records read, %" PRIu64 " acknowledged, %" PRIu64 " not",
                 stop_asked ? "interrupted: " : "", job->sent, done, job->sent - done);
    if (rc && done == job->sent)
        complain_error("closing the producer", &err);
    return !rc && done == job->sent && !stop_asked;
}

static int run(struct produce_job *job)
{
    cafka_error err = {0};
    FILE *in = job->file && strcmp(job->file, "-") ? fopen(job->file, "rb") : stdin;
    if (!in) {
        complain("%s: %s", job->file, strerror(errno));
        return 1;
    }
    cafka_config_on_delivery(job->config, delivered, job);
    if (cafka_producer_new(&job->producer, job->config, &err)) {
        complain_error("produce", &err);
        if (in != stdin)
            fclose(in);
        return err.code == CAFKA_ERR_CONFIG ? EXIT_USAGE : 1;
    }
    progress_begin(&job->progress);
    bool good = closer_begin(job->producer);
    if (good) {
        good = send_lines(job, in);
        good = finish(job) && good;
    }
    cafka_producer_free(job->producer);
    if (in != stdin)
        fclose(in);
    return good ? 0 : 1;
}

int cli_produce(int argc, char **argv)
{
    struct produce_job job = {.partition = -1};
    cafka_error err = {0};
    if (cafka_config_new(&job.config, &err)) {
        complain_error("produce", &err);
        return 1;
    }
    int status = parse(&job, argc, argv);
    if (status == GO_ON)
        status = run(&job);
    cafka_config_free(job.config);
    return status;
}
