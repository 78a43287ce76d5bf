/*
 * settings.c - see settings.h: what all clients have, and the admin client.
 */
#include "client/fill.h"

#include <string.h>

#include "client/config.h"
#include "client/config_value.h"
#include "util/alloc.h"
#include "util/bytes.h"
#include "util/meter.h"

static void log_bridge(void *user, enum log_level level, const char *area, const char *message)
{
    const struct client_settings *s = user;
    s->log_fn(s->log_user, (int)level, area, message);
}

static void fill_servers(struct filling *f, struct client_settings *s, const char *name)
{
    const char *text = fill_text(f, name), *at = text, *item, *host;
    size_t size, host_size, count = 0;
    if (!text || !*text) {
        fill_problem(f, CAFKA_ERR_CONFIG, "%s is missing", name);
        return;
    }
    while (list_next(&at, &item, &size))
        count++;
    s->bootstrap = mem_calloc(count, sizeof *s->bootstrap);
    for (at = text; s->bootstrap && list_next(&at, &item, &size);) {
        struct server_name *server = &s->bootstrap[s->bootstrap_count];
        if (!parse_server(item, size, &host, &host_size, &server->port))
            continue; /* checked when it was set */
        server->host = mem_strndup(host, host_size);
        if (!server->host)
            break;
        s->bootstrap_count++;
    }
    if (s->bootstrap_count < count)
        fill_problem(f, CAFKA_ERR_MEMORY, "no memory");
}

/* Java's defaults are not taken: a size of our own would turn off what the kernel does by itself. */
static int32_t socket_buffer(struct filling *f, const char *name)
{
    int32_t bytes = config_is_set(f->config, name) ? fill_int(f, name) : 0;
    return bytes > 0 ? bytes : 0;
}

static void fill_world(struct filling *f, struct client_settings *s)
{
    static const char *const dispatches[] = {"loop", "queue"};
    const cafka_config *config = f->config;
    s->env = config->env ? config->env : cafka_env_real();
    s->loop = config->loop;
    s->on_event = config->on_event;
    s->on_event_user = config->on_event_user;
    if (fill_is(f, "callback.dispatch", "auto"))
        s->callback_dispatch = s->loop ? DISPATCH_QUEUE : DISPATCH_LOOP;
    else
        s->callback_dispatch =
            (enum callback_dispatch)fill_choice(f, "callback.dispatch", dispatches, 2);
    s->log_fn = config->log_fn;
    s->log_user = config->log_user;
    if (s->log_fn)
        s->log_sink = (struct log_sink){log_bridge, s, (enum log_level)config->log_level};
    if (cafka_config_copy(&s->config, config, NULL))
        fill_problem(f, CAFKA_ERR_MEMORY, "no memory");
}

enum { DAY_MS = 24 * 60 * 60 * 1000 };

static void fill_metrics(struct filling *f, struct client_settings *s)
{
    int samples = fill_int(f, "metrics.num.samples");
    int64_t window_ms = fill_ms(f, "metrics.sample.window.ms");
    s->metrics_samples = samples < METER_SAMPLES_MAX ? samples : METER_SAMPLES_MAX;
    s->metrics_window_ms = window_ms < 1 ? 1 : window_ms > DAY_MS ? DAY_MS : window_ms;
}

void fill_client(struct filling *f, struct client_settings *s, const char *servers)
{
    static const char *const protocols[] = {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"};
    s->kind = f->kind;
    fill_servers(f, s, servers);
    s->client_id = fill_copy(f, "client.id");
    s->dns_lookup = fill_is(f, "client.dns.lookup", "use_all_dns_ips")
                        ? DNS_USE_ALL_IPS
                        : DNS_CANONICAL_BOOTSTRAP_ONLY;
    s->metadata_max_age_ms = fill_ms(f, "metadata.max.age.ms");
    s->metadata_rebootstrap = fill_is(f, "metadata.recovery.strategy", "rebootstrap");
    s->metadata_rebootstrap_trigger_ms = fill_ms(f, "metadata.recovery.rebootstrap.trigger.ms");
    s->reconnect_backoff_ms = fill_ms(f, "reconnect.backoff.ms");
    s->reconnect_backoff_max_ms = fill_ms(f, "reconnect.backoff.max.ms");
    s->retry_backoff_ms = fill_ms(f, "retry.backoff.ms");
    s->retry_backoff_max_ms = fill_ms(f, "retry.backoff.max.ms");
    s->connection_setup_timeout_ms = fill_ms(f, "socket.connection.setup.timeout.ms");
    s->connection_setup_timeout_max_ms = fill_ms(f, "socket.connection.setup.timeout.max.ms");
    s->request_timeout_ms = fill_ms(f, "request.timeout.ms");
    s->default_api_timeout_ms =
        fill_ms(f, f->kind == CAFKA_FOR_PRODUCER ? "max.block.ms" : "default.api.timeout.ms");
    s->connections_max_idle_ms = fill_ms(f, "connections.max.idle.ms");
    if (s->connections_max_idle_ms < 0)
        s->connections_max_idle_ms = -1;
    s->send_buffer_bytes = socket_buffer(f, "send.buffer.bytes");
    s->receive_buffer_bytes = socket_buffer(f, "receive.buffer.bytes");
    s->receive_message_max_bytes = fill_int(f, "receive.message.max.bytes");
    s->security_protocol = (enum security_protocol)fill_choice(f, "security.protocol", protocols, 4);
    if (s->connection_setup_timeout_ms < 0)
        fill_problem(f, CAFKA_ERR_CONFIG, "socket.connection.setup.timeout.ms is negative");
    if (s->security_protocol != SECURITY_PLAINTEXT)
        fill_problem(f, CAFKA_ERR_UNSUPPORTED,
                     "security.protocol=%s is not there yet, only PLAINTEXT is",
                     protocols[s->security_protocol]);
    fill_metrics(f, s);
    fill_world(f, s);
}

void fill_client_fini(struct client_settings *s)
{
    for (size_t i = 0; i < s->bootstrap_count; i++)
        mem_free(s->bootstrap[i].host);
    mem_free(s->bootstrap);
    mem_free(s->client_id);
    cafka_config_free(s->config);
}

const char *client_settings_text(const struct client_settings *settings, const char *name)
{
    return config_text(settings->config, name, settings->kind);
}

const struct plugins *client_plugins(const struct client_settings *settings)
{
    return &settings->config->plugins;
}

void client_settings_warn_unused(const struct client_settings *settings)
{
    struct log log = {&settings->log_sink, "config"};
    for (size_t i = 0; i < property_count; i++) {
        const struct property *p = &properties[i];
        if (!settings->config->values[i])
            continue;
        if (!(p->clients & settings->kind))
            log_warn(log, "%s is set, but a %s has no such property", p->name,
                     fill_kind_name(settings->kind));
        else if (p->flags & CAFKA_PROPERTY_IGNORED)
            log_warn(log, "%s is set, but means something in Java only", p->name);
        else if (p->flags & CAFKA_PROPERTY_LATER)
            log_warn(log, "%s is set, but has no effect yet", p->name);
    }
}

/* ---- the admin client ---- */

int settings_for_admin(const cafka_config *config, struct admin_settings *out, cafka_error *err)
{
    struct filling f = {.config = config, .kind = CAFKA_FOR_ADMIN};
    struct admin_settings *s = out;
    memset(s, 0, sizeof *s);
    const char *controllers = fill_text(&f, "bootstrap.controllers");
    s->bootstrap_controllers = controllers && *controllers;
    if (s->bootstrap_controllers && config_is_set(config, "bootstrap.servers"))
        fill_problem(&f, CAFKA_ERR_CONFIG,
                     "bootstrap.servers and bootstrap.controllers cannot both be set");
    if (s->bootstrap_controllers)
        fill_problem(&f, CAFKA_ERR_UNSUPPORTED,
                     "bootstrap.controllers is set, but asking controllers is not there yet");
    fill_client(&f, &s->client,
                s->bootstrap_controllers ? "bootstrap.controllers" : "bootstrap.servers");
    s->retries = fill_int(&f, "retries");
    int rc = fill_verdict(&f, err);
    if (rc)
        admin_settings_fini(s);
    return rc;
}

void admin_settings_fini(struct admin_settings *s)
{
    fill_client_fini(&s->client);
    memset(s, 0, sizeof *s);
}
