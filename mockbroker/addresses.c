/*
 * addresses.c - see addresses.h.
 */
#include "mockbroker/addresses.h"

#include <stdlib.h>

#include "mockbroker/broker.h"
#include "mockbroker/cluster.h"
#include "util/alloc.h"

static const char LOCAL[] = "127.0.0.1";

/* "PLAINTEXT://host:port" among the listeners of a server.properties: host and port, if given. */
static int read_listener(const char *listeners, char **host, uint16_t *port, cafka_error *err)
{
    static const char scheme[] = "PLAINTEXT://";
    const char *at = listeners;
    while (*at && strncmp(at, scheme, sizeof scheme - 1)) {
        const char *comma = strchr(at, ',');
        at = comma ? comma + 1 + strspn(comma + 1, " ") : "";
    }
    if (!*at)
        return CAFKA_OK;
    at += sizeof scheme - 1;
    size_t size = strcspn(at, ",");
    const char *colon = at + size;
    while (colon > at && *colon != ':')
        colon--;
    if (*colon != ':')
        colon = NULL;
    long number = colon ? strtol(colon + 1, NULL, 10) : -1;
    if (number < 0 || number > UINT16_MAX)
        return error_set(err, CAFKA_ERR_CONFIG, "%s names no port", listeners);
    *port = (uint16_t)number;
    if (colon == at)
        return CAFKA_OK;
    mem_free(*host);
    *host = mem_strndup(at, (size_t)(colon - at));
    return *host ? CAFKA_OK : error_set(err, CAFKA_ERR_MEMORY, "no memory for a listener");
}

/* Listening wants an address; the one name that everybody has is known. */
static int replace_localhost(struct cluster_options *o, cafka_error *err)
{
    if (!o->host || strcmp(o->host, "localhost"))
        return CAFKA_OK;
    char *name = o->host;
    o->host = mem_strdup("127.0.0.1");
    if (!o->advertised_host)
        o->advertised_host = name;
    else
        mem_free(name);
    return o->host ? CAFKA_OK : error_set(err, CAFKA_ERR_MEMORY, "no memory for the options");
}

/* What --port, --host and --advertised-host leave open is taken from the properties. */
static int read_properties(struct cluster_options *o, cafka_error *err)
{
    const char *listeners = properties_get(&o->properties, "listeners");
    const char *advertised = properties_get(&o->properties, "advertised.listeners");
    char *host = NULL;
    uint16_t port = 0, ignored = 0;
    int rc = listeners ? read_listener(listeners, &host, &port, err) : CAFKA_OK;
    if (!rc && !o->port)
        o->port = port;
    if (!rc && !o->host) {
        o->host = host;
        host = NULL;
    }
    mem_free(host);
    if (!rc)
        rc = replace_localhost(o, err);
    if (!rc && advertised && !o->advertised_host)
        rc = read_listener(advertised, &o->advertised_host, &ignored, err);
    return rc;
}

static bool is_wildcard(const char *host)
{
    return host && (!strcmp(host, "0.0.0.0") || !strcmp(host, "::"));
}

/* Nobody can dial "all addresses", so clients must be told another. */
static int replace_wildcard(struct cluster_options *o, struct log log, cafka_error *err)
{
    if (is_wildcard(o->advertised_host))
        return error_set(err, CAFKA_ERR_CONFIG,
                         "%s is no address that clients can be told: advertise one they can reach",
                         o->advertised_host);
    if (!is_wildcard(o->host) || o->advertised_host)
        return CAFKA_OK;
    o->advertised_host = mem_strdup(LOCAL);
    if (!o->advertised_host)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the options");
    log_warn(log,
             "listening on all addresses (%s), but clients are told %s; say what they shall be told "
             "with --advertised-host or advertised.listeners",
             o->host, LOCAL);
    return CAFKA_OK;
}

int addresses_read(struct cluster_options *o, struct log log, cafka_error *err)
{
    int rc = read_properties(o, err);
    return rc ? rc : replace_wildcard(o, log, err);
}

const char *addresses_listening(const struct cluster_options *o)
{
    return o->host ? o->host : LOCAL;
}

const char *addresses_advertised(const struct cluster_options *o)
{
    return o->advertised_host ? o->advertised_host : addresses_listening(o);
}

void address_print(struct buffer *out, const char *host, uint16_t port)
{
    bool v6 = strchr(host, ':') != NULL;
    buffer_printf(out, "%s%s%s:%d", v6 ? "[" : "", host, v6 ? "]" : "", (int)port);
}

static int set_one(struct properties *own, const char *name, struct buffer *text, cafka_error *err)
{
    char *value = buffer_string(text);
    int rc = value ? properties_set(own, name, value, err)
                   : error_set(err, CAFKA_ERR_MEMORY, "no memory for %s", name);
    buffer_fini(text);
    return rc;
}

/* "NAME://HOST:PORT,…" of all listeners. */
static int set_listeners(struct broker *broker, const char *name, const char *host, cafka_error *err)
{
    struct buffer text = {0};
    for (struct list *l = broker->listeners.next; l != &broker->listeners; l = l->next) {
        const struct listener *listener = list_item(l, struct listener, link);
        buffer_printf(&text, "%s%s://", text.size ? "," : "", listener->name);
        address_print(&text, host, listener->bound.port);
    }
    return set_one(&broker->config.own, name, &text, err);
}

int addresses_describe(struct broker *broker, cafka_error *err)
{
    const struct cluster *cluster = broker->cluster;
    const struct broker *first = cluster->brokers[0];
    struct buffer voters = {0};
    int rc = set_listeners(broker, "listeners", addresses_listening(&cluster->options), err);
    if (!rc)
        rc = set_listeners(broker, "advertised.listeners", addresses_advertised(&cluster->options),
                           err);
    if (rc || list_empty(&first->listeners))
        return rc;
    buffer_printf(&voters, "%d@", (int)first->id);
    address_print(&voters, addresses_advertised(&cluster->options),
                  list_item(first->listeners.next, struct listener, link)->bound.port);
    return set_one(&broker->config.own, "controller.quorum.voters", &voters, err);
}
