/*
 * test_logs.c - what a client says to the log: in which areas, up to which level, and a cause once,
 * however often it strikes. Nothing is written anywhere else.
 */
#include "config.h"

#include "producer_fixture.h"

#include <unistd.h>

enum { LEVELS = CAFKA_LOG_TRACE + 1 };

static struct {
    int levels[LEVELS];
    int count, odd;
    char areas[32][24];
    int area_count;
    char warning[512]; /* the last one */
} heard;

static void hear(void *user, int level, const char *area, const char *message)
{
    (void)user;
    heard.count++;
    heard.odd += level <= CAFKA_LOG_OFF || level > CAFKA_LOG_TRACE || strchr(message, '\n') ||
                 !*message || !area || !*area;
    heard.levels[level]++;
    if (level <= CAFKA_LOG_WARN)
        snprintf(heard.warning, sizeof heard.warning, "%s", message);
    for (int i = 0; i < heard.area_count; i++)
        if (!strcmp(heard.areas[i], area))
            return;
    if (heard.area_count < 32)
        snprintf(heard.areas[heard.area_count++], sizeof heard.areas[0], "%s", area);
}

static bool spoke(const char *area)
{
    for (int i = 0; i < heard.area_count; i++)
        if (!strcmp(heard.areas[i], area))
            return true;
    return false;
}

static int lines_up_to(int level)
{
    int sum = 0;
    for (int i = 0; i <= level; i++)
        sum += heard.levels[i];
    return sum;
}

static int setup(void **state)
{
    memset(&heard, 0, sizeof heard);
    *state = open_world(1, 1);
    set(*state, "linger.ms", "0");
    return 0;
}

static int teardown(void **state)
{
    close_world(*state);
    return heard.odd;
}

static void stop_all(struct producer_fixture *f)
{
    for (int i = 0; i < BROKERS; i++)
        script_broker_down(&f->cluster.brokers[i]);
}

static void start_all(struct producer_fixture *f)
{
    for (int i = 0; i < BROKERS; i++)
        script_broker_up(&f->cluster.brokers[i]);
}

/* A life with something of everything: deliveries, brokers that vanish and come back, a refusal. */
static void live(struct producer_fixture *f)
{
    start(f);
    send_records(f, 10);
    flush(f);
    stop_all(f);
    send_records(f, 1);
    sim_advance_ms(f->sim, 5000);
    start_all(f);
    flush(f);
    f->refuse_all = ERR_TOPIC_AUTHORIZATION_FAILED;
    send_records(f, 1);
    (void)cafka_producer_flush(f->producer, 10000, NULL);
}

static void every_level_is_a_part_of_the_next(void **state)
{
    (void)state;
    int before = -1;
    for (int level = CAFKA_LOG_OFF; level <= CAFKA_LOG_TRACE; level++) {
        memset(&heard, 0, sizeof heard);
        struct producer_fixture *f = open_world(1, 1);
        set(f, "linger.ms", "0");
        cafka_config_set_log(f->config, hear, NULL, level);
        live(f);
        close_world(f);
        assert_int_equal(heard.count, lines_up_to(level)); /* none above it */
        assert_int_equal(heard.odd, 0);
        assert_true(heard.count >= before);
        if (level == CAFKA_LOG_OFF)
            assert_int_equal(heard.count, 0);
        if (level == CAFKA_LOG_WARN)
            assert_in_range(heard.count, 1, 10);
        before = heard.count;
    }
    assert_true(heard.levels[CAFKA_LOG_WARN] && heard.levels[CAFKA_LOG_INFO] &&
                heard.levels[CAFKA_LOG_DEBUG]);
}

static void each_room_speaks_in_its_own_area(void **state)
{
    struct producer_fixture *f = *state;
    cafka_config_set_log(f->config, hear, NULL, CAFKA_LOG_TRACE);
    live(f);
    assert_true(spoke("conn"));
    assert_true(spoke("client"));
    assert_true(spoke("producer"));
}

/* Reconnects go on all the time; whoever reads the log wants to hear of it when it begins. */
static void an_hour_without_brokers_is_a_few_lines(void **state)
{
    struct producer_fixture *f = *state;
    cafka_config_set_log(f->config, hear, NULL, CAFKA_LOG_INFO);
    set(f, "delivery.timeout.ms", "7200000");
    start(f);
    send_records(f, 1);
    flush(f);
    stop_all(f);
    send_records(f, 1); /* so that brokers are wanted */
    sim_advance_ms(f->sim, 10000);
    assert_in_range(heard.levels[CAFKA_LOG_WARN], 1, 10);
    int before = heard.count;
    sim_advance_ms(f->sim, 3600000);
    assert_in_range(heard.count - before, 0,
                    30); /* each time that metadata gives up and begins anew */
    start_all(f);
    sim_advance_ms(f->sim, 5000);
    flush(f);
    before = heard.levels[CAFKA_LOG_WARN];
    stop_all(f);
    send_records(f, 1);
    sim_advance_ms(f->sim, 5000);
    assert_true(heard.levels[CAFKA_LOG_WARN] > before); /* that is news again */
}

/* Each batch has its delivery report; the log hears once a second. */
static void a_thousand_refused_batches_are_one_line_a_second(void **state)
{
    struct producer_fixture *f = *state;
    cafka_config_set_log(f->config, hear, NULL, CAFKA_LOG_WARN);
    set(f, "batch.size", "200");
    set(f, "batch.max.size", "200");
    start(f);
    send_records(f, 1);
    flush(f);
    f->refuse_all = ERR_TOPIC_AUTHORIZATION_FAILED;
    int began = heard.count;
    for (int i = 0; i < 1000; i++) {
        send_records(f, 1);
        sim_advance_ms(f->sim, 5);
    }
    assert_in_range(f->failed, 900, 1000);
    assert_in_range(heard.count - began, 1, 12); /* five seconds and a little */
    assert_non_null(strstr(heard.warning, "orders-0"));
    assert_non_null(strstr(heard.warning, "TOPIC_AUTHORIZATION_FAILED"));
}

/* With or without a function for the log, standard output and error are the application's. */
static void nothing_is_written_to_the_application_s_files(void **state)
{
    (void)state;
    for (int level = CAFKA_LOG_OFF; level <= CAFKA_LOG_TRACE; level += CAFKA_LOG_TRACE) {
        FILE *file = tmpfile();
        assert_non_null(file);
        fflush(stdout);
        fflush(stderr);
        int out = dup(1), err = dup(2);
        assert_true(out >= 0 && err >= 0 && dup2(fileno(file), 1) >= 0 && dup2(fileno(file), 2) >= 0);
        struct producer_fixture *f = open_world(1, 1);
        set(f, "linger.ms", "0");
        if (level)
            cafka_config_set_log(f->config, hear, NULL, level);
        live(f);
        close_world(f);
        fflush(stdout);
        fflush(stderr);
        dup2(out, 1);
        dup2(err, 2);
        close(out);
        close(err);
        assert_int_equal(lseek(fileno(file), 0, SEEK_END), 0);
        fclose(file);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_is_a_part_of_the_next),
        TEST(each_room_speaks_in_its_own_area),
        TEST(an_hour_without_brokers_is_a_few_lines),
        TEST(a_thousand_refused_batches_are_one_line_a_second),
        cmocka_unit_test(nothing_is_written_to_the_application_s_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
