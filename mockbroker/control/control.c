/*
 * control.c - see control.h.
 */
#include "mockbroker/control/control.h"

#include <stdio.h>

#include "mockbroker/controller/controller.h"
#include "net/stream.h"
#include "util/alloc.h"

enum { REQUEST_MAX = 16 * 1024, CONNECTIONS_MAX = 64, BACKLOG = 16 };

struct control_server {
    struct cluster *cluster;
    struct loop_watch watch;
    int handle; /* -1: not open */
    cafka_address bound;
    struct list connections;
    int count;
};

struct connection {
    struct list link;
    struct control_server *server;
    struct stream *stream;
    struct buffer request;
    struct buffer answer; /* kept until it has been sent */
};

static void free_connection(struct connection *c)
{
    list_remove(&c->link);
    c->server->count--;
    stream_free(c->stream);
    buffer_fini(&c->request);
    buffer_fini(&c->answer);
    mem_free(c);
}

static void write_brokers(const struct cluster *cluster, struct buffer *out)
{
    for (int i = 0; i < cluster->broker_count; i++) {
        const struct broker *broker = cluster->brokers[i];
        buffer_printf(out,
                      "%s{\"id\":%d,\"rack\":\"%s\",\"running\":%s,\"port\":%d,\"sessions\":%zu}",
                      i ? "," : "", (int)broker->id, broker->rack,
                      broker->running ? "true" : "false", (int)broker->last_port,
                      broker->session_count);
    }
}

static void write_cluster(const struct cluster *cluster, struct buffer *out)
{
    const struct image *image = &cluster->controller->image;
    struct map_entry *e;
    bool first = true;
    buffer_printf(out, "{\"clusterId\":\"%s\",\"requests\":%llu,\"brokers\":[", cluster->cluster_id,
                  (unsigned long long)cluster->requests_seen);
    write_brokers(cluster, out);
    buffer_printf(out, "],\"topics\":[");
    for (size_t i = 0; (e = map_next(&image->topics, &i));) {
        const struct topic_image *topic = e->value;
        char id[UUID_TEXT_SIZE];
        uuid_text(topic->id, id);
        buffer_printf(out, "%s{\"name\":\"%s\",\"id\":\"%s\",\"partitions\":%d}", first ? "" : ",",
                      topic->name, id, (int)topic->partition_count);
        first = false;
    }
    buffer_printf(out, "]}\n");
}

static void answer(struct connection *c, const char *status, const struct buffer *body)
{
    cafka_error why = {0};
    buffer_printf(&c->answer,
                  "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                  "Connection: close\r\n\r\n",
                  status, body->size);
    buffer_put(&c->answer, body->data, body->size);
    if (c->answer.failed ||
        stream_write_ref(c->stream, c->answer.data, c->answer.size, NULL, NULL, &why)) {
        free_connection(c);
        return;
    }
    stream_read_enable(c->stream, false);
    stream_flush(c->stream);
    if (!stream_unwritten(c->stream))
        free_connection(c);
}

static void handle(struct connection *c)
{
    static const char question[] = "GET /cluster ";
    struct buffer body = {0};
    bool known = c->request.size > sizeof question &&
                 !memcmp(c->request.data, question, sizeof question - 1);
    if (known)
        write_cluster(c->server->cluster, &body);
    else
        buffer_printf(&body, "{\"error\":\"only GET /cluster is known here\"}\n");
    answer(c, known ? "200 OK" : "404 Not Found", &body);
    buffer_fini(&body);
}

static void on_readable(void *owner)
{
    struct connection *c = owner;
    char bytes[4096];
    ssize_t n;
    while ((n = stream_read(c->stream, bytes, sizeof bytes)) > 0) {
        buffer_put(&c->request, bytes, (size_t)n);
        char *text = buffer_string(&c->request);
        if (!text || c->request.size > REQUEST_MAX) {
            free_connection(c);
            return;
        }
        if (strstr(text, "\r\n\r\n") || strstr(text, "\n\n")) {
            handle(c);
            return;
        }
    }
}

static void on_drained(void *owner)
{
    free_connection(owner);
}

static void on_closed(void *owner, const cafka_error *err)
{
    (void)err;
    free_connection(owner);
}

static const struct stream_events connection_events = {.readable = on_readable,
                                                       .drained = on_drained,
                                                       .closed = on_closed};

static void on_acceptable(struct loop_watch *watch, unsigned events)
{
    struct control_server *s = container_of(watch, struct control_server, watch);
    const cafka_env *env = s->cluster->env;
    cafka_address from;
    cafka_error why = {0};
    (void)events;
    int handle = env->accept(env, s->handle, &from);
    if (handle < 0)
        return;
    struct connection *c = s->count < CONNECTIONS_MAX ? mem_zalloc(sizeof *c) : NULL;
    if (!c) {
        env->close(env, handle);
        return;
    }
    if (stream_adopt(&c->stream, s->cluster->loop, handle, &connection_events, c, &why)) {
        mem_free(c);
        return;
    }
    c->server = s;
    s->count++;
    list_push_back(&s->connections, &c->link);
}

int control_start(struct control_server **out, struct cluster *cluster, uint16_t port,
                  cafka_error *err)
{
    const char *host = cluster->options.host ? cluster->options.host : "127.0.0.1";
    cafka_address address;
    struct control_server *s = mem_zalloc(sizeof *s);
    if (!s)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the control port");
    s->cluster = cluster;
    list_init(&s->connections);
    int rc = CAFKA_OK;
    s->handle = address_parse(host, port, &address)
                    ? cluster->env->listen(cluster->env, &address, BACKLOG, &s->bound)
                    : -1;
    if (s->handle < 0)
        rc = error_errno(err, CAFKA_ERR_SYSTEM, -s->handle, "can't listen on the control port %d",
                         port);
    else
        rc = loop_watch_start(cluster->loop, &s->watch, s->handle, CAFKA_READABLE, on_acceptable,
                              err);
    if (rc) {
        control_stop(s);
        return rc;
    }
    *out = s;
    return CAFKA_OK;
}

void control_stop(struct control_server *s)
{
    if (!s)
        return;
    for (struct list *l; (l = list_first(&s->connections));)
        free_connection(list_item(l, struct connection, link));
    loop_watch_stop(&s->watch);
    if (s->handle >= 0)
        s->cluster->env->close(s->cluster->env, s->handle);
    mem_free(s);
}

void control_address(const struct control_server *s, cafka_address *out)
{
    *out = s->bound;
}
