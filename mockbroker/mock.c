/*
 * mock.c - <cafka/mock.h>: a cluster on a loop of its own, and calls that are handed over to it.
 *
 * A call is a task posted to the loop; the caller waits on an event of the env. In the real world
 * the loop has a thread; in the simulated one waiting for the event steps the world, the loop with
 * it, so the same code serves both.
 */
#include "mockbroker/mock_room.h"

#include "mockbroker/controller/controller.h"
#include "mockbroker/options.h"
#include "protocol/errors.h"
#include "sim/sim.h"
#include "util/alloc.h"

/* --- handing over --- */

static void run_task(struct loop_task *task)
{
    struct call *call = (struct call *)task;
    call->rc = call->run(call, &call->err);
    if (call->mock->cluster)
        deferred_run(&call->mock->cluster->deferred);
    call->mock->env->event_signal(call->mock->env, call->mock->event);
}

int mock_call(cafka_mock *mock, struct call *call, int (*run)(struct call *, cafka_error *),
              cafka_error *err)
{
    call->mock = mock;
    call->run = run;
    call->task.run = run_task;
    loop_post(mock->loop, &call->task);
    while (mock->env->event_wait(mock->env, mock->event, CAFKA_NEVER) == 0) {
    }
    if (err)
        *err = call->err;
    return call->rc;
}

/* --- life --- */

static void write_log(void *user, enum log_level level, const char *area, const char *message)
{
    cafka_mock *mock = user;
    mock->log(mock->log_user, (int)level, area, message);
}

static int copy_text(char **to, const char *text, cafka_error *err)
{
    *to = mem_strdup(text);
    return *to || !text ? CAFKA_OK : error_set(err, CAFKA_ERR_MEMORY, "no memory for the options");
}

static int copy_topics(struct cluster_options *to, const cafka_mock_options *from, cafka_error *err)
{
    to->topics = mem_calloc(from->topic_count + 1, sizeof *to->topics);
    int rc = to->topics ? CAFKA_OK : error_set(err, CAFKA_ERR_MEMORY, "no memory for the options");
    for (size_t i = 0; !rc && i < from->topic_count; i++)
        rc = topic_option_parse(&to->topics[to->topic_count++], from->topics[i], err);
    return rc;
}

static int copy_options(struct cluster_options *to, const cafka_mock_options *from, cafka_error *err)
{
    *to = (struct cluster_options){.brokers = from->brokers, .port = from->port, .control_port = -1};
    if (from->brokers < 0 || from->brokers > 1000)
        return error_set(err, CAFKA_ERR_CONFIG, "a cluster of %d brokers", from->brokers);
    int rc = copy_text(&to->data_dir, from->data_dir, err);
    if (!rc)
        rc = copy_text(&to->release, from->api_versions, err);
    if (!rc && from->properties)
        rc = properties_parse(&to->properties, str_of(from->properties), err);
    if (!rc)
        rc = properties_check(&to->properties, true, (struct log){0}, err);
    return rc ? rc : copy_topics(to, from, err);
}

static int start(struct call *call, cafka_error *err)
{
    return cluster_start(call->mock->cluster, err);
}

static int stop(struct call *call, cafka_error *err)
{
    (void)err;
    cluster_stop(call->mock->cluster);
    cluster_free(call->mock->cluster);
    call->mock->cluster = NULL;
    return CAFKA_OK;
}

static int open_world(cafka_mock *mock, const cafka_mock_options *options, cafka_error *err)
{
    int rc = CAFKA_OK;
    mock->env = cafka_env_real();
    if (options->simulated) {
        rc = sim_new(&mock->sim, options->seed, err);
        if (!rc)
            mock->env = sim_env(mock->sim);
    }
    if (rc)
        return rc;
    mock->event = mock->env->event_open(mock->env);
    if (mock->event < 0)
        return error_errno(err, CAFKA_ERR_SYSTEM, -mock->event, "opening an event");
    return loop_new(&mock->loop, mock->env, LOOP_BACKGROUND, err);
}

/* An older program's struct is shorter; what it does not have is zero. */
static cafka_mock_options read_options(const cafka_mock_options *options)
{
    cafka_mock_options full = {0};
    memcpy(&full, options, options->size < sizeof full ? options->size : sizeof full);
    return full;
}

int cafka_mock_new(cafka_mock **out, const cafka_mock_options *options, cafka_error *err)
{
    error_clear(err);
    if (!out || !options || options->size < sizeof options->size)
        return error_set(err, CAFKA_ERR_ARGUMENT, "cafka_mock_new wants options with their size");
    cafka_mock_options full = read_options(options);
    struct cluster_options cluster = {0};
    cafka_mock *mock = mem_zalloc(sizeof *mock);
    if (!mock)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a mock cluster");
    protocol_errors_register();
    mock->event = -1;
    mock->log = full.log;
    mock->log_user = full.log_user;
    struct log_sink sink = {.write = full.log ? write_log : NULL, .user = mock, .level = LOG_INFO};
    int rc = copy_options(&cluster, &full, err);
    if (!rc)
        rc = open_world(mock, &full, err);
    if (!rc)
        rc = cluster_new(&mock->cluster, mock->env, mock->loop, &cluster, sink, err);
    cluster_options_fini(&cluster);
    struct call call = {0};
    if (!rc)
        rc = mock_call(mock, &call, start, err);
    if (rc) {
        cafka_mock_free(mock);
        return rc;
    }
    *out = mock;
    return CAFKA_OK;
}

void cafka_mock_free(cafka_mock *mock)
{
    struct call call = {0};
    if (!mock)
        return;
    if (mock->cluster)
        (void)mock_call(mock, &call, stop, NULL);
    loop_unref(mock->loop);
    if (mock->event >= 0)
        mock->env->event_close(mock->env, mock->event);
    sim_free(mock->sim);
    mem_free(mock->bootstrap);
    mem_free(mock);
}

const cafka_env *cafka_mock_env(const cafka_mock *mock)
{
    return mock->env;
}

static int bootstrap(struct call *call, cafka_error *err)
{
    char *text = cluster_bootstrap(call->mock->cluster, "PLAINTEXT");
    if (!text)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the addresses");
    mem_free(call->mock->bootstrap);
    call->mock->bootstrap = text;
    return CAFKA_OK;
}

const char *cafka_mock_bootstrap(cafka_mock *mock)
{
    struct call call = {0};
    return mock_call(mock, &call, bootstrap, NULL) ? "" : mock->bootstrap;
}

/* --- topics --- */

static int create_topic(struct call *call, cafka_error *err)
{
    struct topic_option option = {.name = (char *)call->text,
                                  .partitions = call->a,
                                  .replicas = call->b};
    struct properties configs = {0};
    int rc = call->more ? properties_parse(&configs, str_of(call->more), err) : CAFKA_OK;
    option.configs = rc ? NULL : mem_calloc(configs.values.count + 1, sizeof *option.configs);
    if (!rc && !option.configs)
        rc = error_set(err, CAFKA_ERR_MEMORY, "no memory for a topic");
    struct map_entry *e;
    for (size_t i = 0; !rc && (e = map_next(&configs.values, &i));)
        option.configs[option.config_count++] = (struct config_entry){e->key, e->value};
    if (!rc)
        rc = cluster_create_topic(call->mock->cluster, &option, err);
    mem_free(option.configs);
    properties_fini(&configs);
    return rc;
}

int cafka_mock_topic_create(cafka_mock *mock, const char *name, int32_t partitions,
                            int32_t replicas, const char *configs, cafka_error *err)
{
    struct call call = {.text = name, .more = configs, .a = partitions, .b = replicas};
    error_clear(err);
    return mock_call(mock, &call, create_topic, err);
}

static int set_topic_configs(struct call *call, cafka_error *err)
{
    struct properties configs = {0};
    int rc = properties_parse(&configs, str_of(call->more), err);
    struct config_change *changes = mem_calloc(configs.values.count + 1, sizeof *changes);
    size_t count = 0;
    struct map_entry *e;
    if (!rc && !changes)
        rc = error_set(err, CAFKA_ERR_MEMORY, "no memory for the configs of a topic");
    for (size_t i = 0; !rc && (e = map_next(&configs.values, &i));)
        changes[count++] = (struct config_change){.name = str_of(e->key),
                                                  .op = CONFIG_OP_SET,
                                                  .value = str_of(e->value)};
    if (!rc)
        rc = controller_alter_configs(call->mock->cluster->controller, CONFIG_RESOURCE_TOPIC,
                                      str_of(call->text), changes, count, false, false, err);
    mem_free(changes);
    properties_fini(&configs);
    return rc;
}

int cafka_mock_topic_config(cafka_mock *mock, const char *name, const char *configs,
                            cafka_error *err)
{
    struct call call = {.text = name, .more = configs};
    error_clear(err);
    return mock_call(mock, &call, set_topic_configs, err);
}

static int delete_topic(struct call *call, cafka_error *err)
{
    return cluster_delete_topic(call->mock->cluster, call->text, err);
}

int cafka_mock_topic_delete(cafka_mock *mock, const char *name, cafka_error *err)
{
    struct call call = {.text = name};
    error_clear(err);
    return mock_call(mock, &call, delete_topic, err);
}

/* --- brokers --- */

enum { KILL, STOP, START };

static int change_broker(struct call *call, cafka_error *err)
{
    struct broker *broker = cluster_broker(call->mock->cluster, call->a);
    if (!broker)
        return error_set(err, CAFKA_ERR_ARGUMENT, "there is no broker %d", (int)call->a);
    if (call->b == START)
        return broker->running
                   ? error_set(err, CAFKA_ERR_STATE, "broker %d runs already", (int)call->a)
                   : broker_start(broker, err);
    if (!broker->running)
        return error_set(err, CAFKA_ERR_STATE, "broker %d does not run", (int)call->a);
    broker_stop(broker, call->b == STOP);
    return CAFKA_OK;
}

static int ask_broker(cafka_mock *mock, int32_t broker, int what, cafka_error *err)
{
    struct call call = {.a = broker, .b = what};
    error_clear(err);
    return mock_call(mock, &call, change_broker, err);
}

int cafka_mock_broker_kill(cafka_mock *mock, int32_t broker, cafka_error *err)
{
    return ask_broker(mock, broker, KILL, err);
}

int cafka_mock_broker_stop(cafka_mock *mock, int32_t broker, cafka_error *err)
{
    return ask_broker(mock, broker, STOP, err);
}

int cafka_mock_broker_start(cafka_mock *mock, int32_t broker, cafka_error *err)
{
    return ask_broker(mock, broker, START, err);
}

static int move_leader(struct call *call, cafka_error *err)
{
    return controller_move_leader(call->mock->cluster->controller, str_of(call->text), call->a,
                                  call->b, err);
}

int cafka_mock_leader_move(cafka_mock *mock, const char *topic, int32_t partition, int32_t broker,
                           cafka_error *err)
{
    struct call call = {.text = topic, .a = partition, .b = broker};
    error_clear(err);
    return mock_call(mock, &call, move_leader, err);
}

static int find_leader(struct call *call, cafka_error *err)
{
    const struct image *image = &call->mock->cluster->controller->image;
    const struct partition_image *p =
        topic_partition(image_topic(image, str_of(call->text)), call->a);
    (void)err;
    call->b = p ? p->leader : -1;
    return CAFKA_OK;
}

int32_t cafka_mock_leader(cafka_mock *mock, const char *topic, int32_t partition)
{
    struct call call = {.text = topic, .a = partition};
    (void)mock_call(mock, &call, find_leader, NULL);
    return call.b;
}

int cafka_mock_advance_ms(cafka_mock *mock, int64_t ms, cafka_error *err)
{
    error_clear(err);
    if (!mock->sim)
        return error_set(err, CAFKA_ERR_STATE,
                         "only a simulated cluster has a clock to be advanced");
    sim_advance_ms(mock->sim, ms);
    return CAFKA_OK;
}
