/*
 * sender_id.c - InitProducerId: the id that makes a producer idempotent, asked for when it is needed.
 */
#include "producer/sender.h"

#include "producer/room.h"
#include "protocol/api_keys.h"
#include "protocol/errors.h"

static void ask(struct sender *sender);

static void fire_again(struct timer *timer)
{
    struct sender *sender = container_of(timer, struct sender, id_timer);
    if (!sender->stopped)
        ask(sender);
}

static void ask_later(struct sender *sender, const cafka_error *why)
{
    struct client *client = &sender->producer->client;
    int64_t wait_ms = backoff_after(client->env, client->settings->retry_backoff_ms,
                                    client->settings->retry_backoff_max_ms, sender->id_attempts++);
    log_debug(sender->producer->log, "no producer id yet, asking again in %lld ms: %s",
              (long long)wait_ms, why->message);
    if (sender->id_attempts == 3) {
        cafka_error error = {0};
        error_set(&error, why->code, "no producer id, without which nothing is sent: %.180s",
                  why->message);
        client_report(client, &sender->told_id_error, &error, NULL, -1, -1);
    }
    sender->id_timer.fire = fire_again;
    loop_timer_set(client->loop, &sender->id_timer,
                   loop_now_ms(client->loop) + (wait_ms > 0 ? wait_ms : 1));
}

static void take_id(struct sender *sender, const struct init_producer_id_response *response)
{
    sender->id_asked = false;
    sender->id_attempts = 0;
    sender->told_id_error = 0;
    sender->identity = (struct producer_identity){response->producer_id, response->producer_epoch};
    log_info(sender->producer->log, "producer id %lld, epoch %d", (long long)response->producer_id,
             response->producer_epoch);
    sender_refresh_all(sender);
    sender_pump_dirty(sender);
}

static void give_up(struct sender *sender, int code, const char *why)
{
    cafka_error error = {0};
    sender->id_asked = false;
    error_set_flags(&error, code, CAFKA_FATAL,
                    "the cluster gives no producer id: %.120s; grant IdempotentWrite, or set "
                    "enable.idempotence=false",
                    why);
    sender_fatal(sender, &error);
}

static void answered(struct call *call, const struct reply *reply)
{
    struct sender *sender = container_of(call, struct sender, id_call);
    struct init_producer_id_response response;
    cafka_error error = {0};
    if (sender->stopped)
        return;
    if (reply->error) {
        if (reply->error->code == CAFKA_ERR_UNSUPPORTED)
            give_up(sender, CAFKA_ERR_UNSUPPORTED, reply->error->message);
        else
            ask_later(sender, reply->error);
        return;
    }
    int rc = reply_decode(reply, &sender->arena, &response, &error);
    if (!rc && !response.error_code && response.producer_id >= 0) {
        take_id(sender, &response);
    } else if (!rc && response.error_code && !protocol_error_retriable(response.error_code)) {
        const char *name = protocol_error_name(response.error_code);
        give_up(sender, response.error_code, name ? name : "an unknown error");
    } else {
        if (!rc)
            error_set(&error, response.error_code ? response.error_code : CAFKA_ERR_PROTOCOL,
                      "the broker answered InitProducerId with %s",
                      protocol_error_name(response.error_code)
                          ? protocol_error_name(response.error_code)
                          : "nonsense");
        ask_later(sender, &error);
    }
    arena_reset(&sender->arena);
}

static void ask(struct sender *sender)
{
    init_producer_id_request_init(&sender->id_body);
    sender->id_body.transactional_id = (struct str){NULL, 0};
    sender->id_body.transaction_timeout_ms = INT32_MAX;
    sender->id_call = (struct call){.request.api_key = API_INIT_PRODUCER_ID,
                                    .done = answered,
                                    .body = &sender->id_body,
                                    .max_version = 5};
    client_call(&sender->producer->client, &sender->id_call, CALL_ANY, LANE_CONTROL);
}

void sender_need_id(struct sender *sender)
{
    if (sender->id_asked || sender->stopped)
        return;
    sender->id_asked = true;
    ask(sender);
}

void sender_id_stop(struct sender *sender)
{
    if (timer_is_set(&sender->id_timer))
        loop_timer_cancel(sender->producer->client.loop, &sender->id_timer);
}
