/*
 * main.c - the program cafka-mockbroker: a mock cluster until SIGTERM.
 *
 * Prints on stdout, once every listener accepts, `bootstrap.servers=HOST:PORT,…` and, if asked
 * for, `control=http://HOST:PORT`. Exit status: 0 after a clean stop, 1 if the cluster can't run,
 * 2 if the command line or a property is wrong.
 */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "mockbroker/cluster.h"
#include "mockbroker/control/control.h"
#include "mockbroker/options.h"
#include "protocol/errors.h"
#include "util/alloc.h"

enum { EXIT_USAGE = 2 };

static struct loop *running;
static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
    loop_wake(running);
}

static void write_log(void *user, enum log_level level, const char *area, const char *message)
{
    static const char *const names[] = {"", "error", "warning", "info", "debug", "trace"};
    (void)user;
    fprintf(stderr, "cafka-mockbroker: %s: %s: %s\n", names[level], area, message);
}

static int complain(const cafka_error *err)
{
    fprintf(stderr, "cafka-mockbroker: %s\n", err->message);
    return err->code == CAFKA_ERR_CONFIG ? EXIT_USAGE : EXIT_FAILURE;
}

static void handle_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static int announce(const struct cluster *cluster)
{
    char *bootstrap = cluster_bootstrap(cluster, "PLAINTEXT");
    if (!bootstrap)
        return -1;
    printf("bootstrap.servers=%s\n", bootstrap);
    mem_free(bootstrap);
    if (cluster->control) {
        cafka_address address;
        char text[ADDRESS_TEXT_SIZE];
        control_address(cluster->control, &address);
        address_text(&address, text);
        printf("control=http://%s\n", text);
    }
    return fflush(stdout);
}

static int serve(struct cluster *cluster, cafka_error *err)
{
    int rc = cluster_start(cluster, err);
    if (rc)
        return complain(err);
    if (announce(cluster))
        fprintf(stderr, "cafka-mockbroker: stdout can't be written to\n");
    while (!rc && !stopping)
        rc = loop_run(running, -1, err);
    cluster_stop(cluster);
    return rc ? complain(err) : EXIT_SUCCESS;
}

static int run(struct program_options *options, struct log_sink sink)
{
    cafka_error err = {0};
    struct cluster *cluster = NULL;
    int rc = loop_new(&running, cafka_env_real(), LOOP_EXTERNAL, &err);
    if (rc)
        return complain(&err);
    handle_signals();
    rc = cluster_new(&cluster, cafka_env_real(), running, &options->cluster, sink, &err);
    int status = rc ? complain(&err) : serve(cluster, &err);
    cluster_free(cluster);
    loop_unref(running);
    return status;
}

/* A descriptor that the caller closed would be a log's or a listener's, and what is printed go there. */
static void keep_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY); /* takes the lowest number: fd */
}

int main(int argc, char **argv)
{
    keep_standard_descriptors();
    struct program_options options;
    struct log_sink sink = {.write = write_log, .level = LOG_WARN};
    cafka_error err = {0};
    int status = EXIT_SUCCESS;
    protocol_errors_register();
    int rc =
        options_parse(&options, argc, argv, cafka_env_real(), (struct log){&sink, "config"}, &err);
    if (options.verbose)
        sink.level = LOG_DEBUG;
    if (rc)
        status = complain(&err);
    else if (options.help)
        fputs(options_usage, stdout);
    else if (options.version)
        printf("cafka-mockbroker %s\n", PACKAGE_VERSION);
    else
        status = run(&options, sink);
    options_fini(&options);
    return status;
}
