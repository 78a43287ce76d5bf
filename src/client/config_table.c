/*
 * config_table.c - every property there is, one row each, in order of name.
 *
 * Names, types, defaults and ranges are those of the Java client 4.3.1 unless a row says OURS.
 * NOT_YET rows are checked and kept, but what they ask for comes with a later piece of work; move
 * a row to IN_EFFECT in the change that makes it true. JAVA_ONLY rows are taken so that a Java
 * client's file can be used as it is.
 *
 * After an edit: make docs (it writes docs/CONFIGURATION.md; make check fails when that is stale).
 */
#include "client/config.h"

#include <string.h>

/* clang-format off */
#define P CAFKA_FOR_PRODUCER
#define C CAFKA_FOR_CONSUMER
#define A CAFKA_FOR_ADMIN
#define ALL (P | C | A)

#define IN_EFFECT 0, NULL
#define NOT_YET(what) CAFKA_PROPERTY_LATER, what
#define JAVA_ONLY CAFKA_PROPERTY_IGNORED, NULL
#define OURS CAFKA_PROPERTY_OURS, NULL
#define OURS_NOT_YET(what) CAFKA_PROPERTY_OURS | CAFKA_PROPERTY_LATER, what

#define HIGH "high"
#define MEDIUM "medium"
#define LOW "low"

#define BOOL CAFKA_TYPE_BOOL
#define INT CAFKA_TYPE_INT
#define LONG CAFKA_TYPE_LONG
#define DOUBLE CAFKA_TYPE_DOUBLE
#define STRING CAFKA_TYPE_STRING
#define LIST CAFKA_TYPE_LIST
#define PASSWORD CAFKA_TYPE_PASSWORD
#define CLASS CAFKA_TYPE_CLASS
#define ENUM CAFKA_TYPE_ENUM

#define ANY ""
#define INT_FROM_0 "0 .. 2147483647"
#define INT_FROM_1 "1 .. 2147483647"
#define INT_ANY "-2147483648 .. 2147483647"
#define LONG_FROM_0 "0 .. 9223372036854775807"
#define LONG_ANY "-9223372036854775808 .. 9223372036854775807"
#define BOOLS "true, false"

const struct property properties[] = {
    {"acks", ENUM, P, IN_EFFECT, LOW, "all", "all, -1, 0, 1",
     "How many replicas must have a batch before it counts as acknowledged: none (0, nothing is heard back), the "
     "leader (1), or all in-sync replicas (all, the same as -1). Below all, acknowledged records can be lost.",
     NULL, NULL},
    {"allow.auto.create.topics", BOOL, C, IN_EFFECT, MEDIUM, "true", BOOLS,
     "Whether asking for an unknown topic may create it, if the broker's auto.create.topics.enable allows it too.",
     NULL, NULL},
    {"auto.commit.interval.ms", INT, C, NOT_YET("GROUPS"), LOW, "5000", INT_FROM_0,
     "How often processed positions are committed when enable.auto.commit is true.", NULL, NULL},
    {"auto.offset.reset", ENUM, C, IN_EFFECT, MEDIUM, "latest",
     "latest, earliest, none, by_duration:DURATION",
     "Where to start when there is no committed offset or it is out of range: at the end, at the beginning, a "
     "duration (ISO-8601, such as PT1H) before now, or nowhere: the error is handed to the application.",
     NULL, NULL},
    {"batch.max.size", INT, P, OURS, MEDIUM, "1000000", INT_FROM_1,
     "How far a batch may grow, in bytes, while it waits for a free request slot. Keep it at or below what the topic "
     "takes (max.message.bytes).",
     NULL, NULL},
    {"batch.size", INT, P, IN_EFFECT, MEDIUM, "16384", INT_FROM_0,
     "From this many bytes on a batch may leave without waiting for linger.ms. It is no limit: see batch.max.size.",
     NULL, NULL},
    {"bootstrap.controllers", LIST, A, NOT_YET("ADMIN"), HIGH, "", "host:port",
     "Controllers to ask first, in place of bootstrap.servers, to administer a KRaft quorum itself. An admin that is "
     "given them refuses to start until that is there.", NULL, NULL},
    {"bootstrap.servers", LIST, ALL, IN_EFFECT, HIGH, NULL, "host:port",
     "Brokers to ask first, as host:port with commas between them; the rest of the cluster is learned from any one of "
     "them. Name more than one, since one may be down.",
     NULL, NULL},
    {"buffer.memory", LONG, P, IN_EFFECT, HIGH, "33554432", LONG_FROM_0,
     "Bytes that records may take from send until their delivery is told. When it is used up, send waits up to "
     "max.block.ms.",
     NULL, NULL},
    {"callback.dispatch", ENUM, ALL, OURS, MEDIUM, "auto", "auto, loop, queue",
     "Where delivery and event functions run: on the loop's thread, or queued for the thread that calls "
     "cafka_dispatch(). auto is loop for a client with a loop of its own and queue for one that shares a loop.",
     NULL, NULL},
    {"check.crcs", BOOL, C, IN_EFFECT, LOW, "true", BOOLS,
     "Whether the CRC of fetched batches is checked. It costs little; leave it on.", NULL, NULL},
    {"client.dns.lookup", ENUM, ALL, IN_EFFECT, MEDIUM, "use_all_dns_ips",
     "use_all_dns_ips, resolve_canonical_bootstrap_servers_only",
     "Whether all addresses of a host name are tried in turn, or bootstrap names are first replaced by the canonical "
     "names of their addresses.",
     NULL, NULL},
    {"client.id", STRING, ALL, IN_EFFECT, MEDIUM, "", ANY,
     "A name for this client in the logs, metrics and quotas of the brokers.", NULL, NULL},
    {"client.rack", STRING, C, IN_EFFECT, LOW, "", ANY,
     "Where this client stands, in the words of the brokers' broker.rack, so that it can read from a near replica.",
     NULL, NULL},
    {"compression.gzip.level", INT, P, IN_EFFECT, MEDIUM, "-1", "-1, 1 .. 9",
     "Effort of gzip; -1 is zlib's own choice.", NULL, NULL},
    {"compression.level", INT, P, OURS, LOW, NULL, "-131072 .. 22",
     "Effort of whichever codec compression.type names, within that codec's own range; it goes before "
     "compression.CODEC.level.",
     NULL, NULL},
    {"compression.lz4.level", INT, P, IN_EFFECT, MEDIUM, "9", "1 .. 17", "Effort of lz4.", NULL, NULL},
    {"compression.threads", INT, P, OURS, LOW, "0", "0 .. 64",
     "Worker threads that compress batches; with 0 the thread that closes a batch does it.", NULL, NULL},
    {"compression.type", ENUM, P, IN_EFFECT, HIGH, "none", "none, gzip, snappy, lz4, zstd",
     "The codec of whole batches; large batches compress better.", NULL, NULL},
    {"compression.zstd.level", INT, P, IN_EFFECT, MEDIUM, "3", "-131072 .. 22", "Effort of zstd.", NULL, NULL},
    {"config.providers", LIST, ALL, JAVA_ONLY, LOW, "", ANY,
     "Java classes that fetch values from elsewhere. Set such values yourself.", NULL, NULL},
    {"connections.max.idle.ms", LONG, ALL, IN_EFFECT, MEDIUM, "540000", LONG_ANY,
     "After this long without a request a connection is closed; negative: never.", NULL, "300000"},
    {"default.api.timeout.ms", INT, C | A, IN_EFFECT, MEDIUM, "60000", INT_FROM_0,
     "How long calls that wait for the cluster may take when they are given no timeout of their own: those of an "
     "admin. A consumer's are always given one.", NULL, NULL},
    {"delivery.timeout.ms", INT, P, IN_EFFECT, MEDIUM, "120000", INT_FROM_0,
     "The longest from send to the delivery report: waiting, all retries and the last answer. At least linger.ms + "
     "request.timeout.ms.",
     NULL, NULL},
    {"enable.auto.commit", BOOL, C, NOT_YET("GROUPS"), MEDIUM, "true", BOOLS,
     "Whether positions of processed records are committed by the consumer itself, in the background.", NULL, NULL},
    {"enable.auto.mark", BOOL, C, OURS_NOT_YET("GROUPS"), MEDIUM, "true", BOOLS,
     "Whether a record counts as processed when the next poll begins; with false, only when cafka_consumer_mark() "
     "names it. Only processed records are committed.",
     NULL, NULL},
    {"enable.idempotence", BOOL, P, IN_EFFECT, LOW, "true", BOOLS,
     "Whether retries are kept from writing a record twice. Needs acks=all, retries above 0 and at most 5 requests in "
     "flight; if one of these is set otherwise and this property is not, it is off.",
     NULL, NULL},
    {"enable.metrics.push", BOOL, ALL, NOT_YET("METRICS"), LOW, "true", BOOLS,
     "Whether metrics are sent to the cluster when it subscribes to them (KIP-714).", NULL, "false"},
    {"exclude.internal.topics", BOOL, C, NOT_YET("GROUPS"), MEDIUM, "true", BOOLS,
     "Whether a subscription by pattern leaves out the cluster's internal topics.", NULL, NULL},
    {"fetch.buffer.memory", LONG, C, OURS, HIGH, "67108864", "1048576 .. 9223372036854775807",
     "Bytes of fetched data that a consumer may hold: received, inflated, and still in the application's hands. The "
     "next fetch asks for no more than fits.",
     NULL, NULL},
    {"fetch.max.bytes", INT, C, IN_EFFECT, MEDIUM, "52428800", INT_FROM_0,
     "The most that one answer to a fetch should carry. A first batch that is larger comes all the same.", NULL, NULL},
    {"fetch.max.inflated.batch.bytes", INT, C, OURS, MEDIUM, "134217728", "1024 .. 2147483647",
     "Where inflating one compressed batch stops with an error, whatever its small size promises.", NULL, NULL},
    {"fetch.max.wait.ms", INT, C, IN_EFFECT, LOW, "500", INT_FROM_0,
     "How long a broker may hold a fetch that finds less than fetch.min.bytes.", NULL, NULL},
    {"fetch.min.bytes", INT, C, IN_EFFECT, HIGH, "1", INT_FROM_0,
     "How much a broker should have before it answers a fetch; more means fewer answers and more delay.", NULL, NULL},
    {"group.id", STRING, C, NOT_YET("GROUPS"), HIGH, NULL, ANY,
     "The group whose members share the partitions and whose offsets are committed.", NULL, NULL},
    {"group.instance.id", STRING, C, NOT_YET("GROUPS"), MEDIUM, NULL, "non-empty",
     "A name that this member keeps over restarts, so that a quick restart moves no partition (static membership).",
     NULL, NULL},
    {"group.protocol", ENUM, C, NOT_YET("GROUPS"), HIGH, "classic", "classic, consumer",
     "Who assigns partitions: a member (classic) or the coordinator (consumer, KIP-848).", NULL, NULL},
    {"group.remote.assignor", STRING, C, NOT_YET("GROUPS"), MEDIUM, NULL, ANY,
     "The coordinator's assignor to use with group.protocol=consumer; without it the broker chooses.", NULL, NULL},
    {"heartbeat.interval.ms", INT, C, NOT_YET("GROUPS"), HIGH, "3000", INT_ANY,
     "How often a member of a classic group tells that it lives; a third of session.timeout.ms or less.", NULL, NULL},
    {"interceptor.classes", LIST, P | C, JAVA_ONLY, LOW, "", ANY,
     "Java classes around send and poll. In C, interceptors are functions.", NULL, NULL},
    {"isolation.level", ENUM, C, IN_EFFECT, MEDIUM, "read_uncommitted", "read_committed, read_uncommitted",
     "Whether records of open and aborted transactions are handed out.", NULL, NULL},
    {"key.deserializer", CLASS, C, JAVA_ONLY, HIGH, NULL, ANY, "A Java class. In C, keys are bytes.", NULL, NULL},
    {"key.serializer", CLASS, P, JAVA_ONLY, HIGH, NULL, ANY, "A Java class. In C, keys are bytes.", NULL, NULL},
    {"linger.ms", LONG, P, IN_EFFECT, MEDIUM, "5", LONG_FROM_0,
     "How long a batch waits for more records before it leaves.", NULL, NULL},
    {"max.block.ms", LONG, P, IN_EFFECT, MEDIUM, "60000", LONG_FROM_0,
     "How long send may wait for free buffer.memory or for a topic's metadata.", NULL, NULL},
    {"max.in.flight.requests.per.connection", INT, P, IN_EFFECT, LOW, "5", INT_FROM_1,
     "Produce requests that may be unanswered on one connection. More than 1 without enable.idempotence can change the "
     "order of records when one is retried.",
     NULL, NULL},
    {"max.partition.fetch.bytes", INT, C, IN_EFFECT, HIGH, "1048576", INT_FROM_0,
     "The most that one partition should add to the answer to a fetch. A first batch that is larger comes all the same.",
     NULL, NULL},
    {"max.poll.interval.ms", INT, C, NOT_YET("GROUPS"), MEDIUM, "300000", INT_FROM_1,
     "A member that does not poll for this long leaves its group, so that others get its partitions.", NULL, NULL},
    {"max.poll.records", INT, C, IN_EFFECT, MEDIUM, "500", INT_FROM_1,
     "The most records that one poll hands out.", NULL, NULL},
    {"max.request.size", INT, P, IN_EFFECT, MEDIUM, "1048576", INT_FROM_0,
     "The largest produce request, and the largest single record, in bytes.", NULL, NULL},
    {"metadata.max.age.ms", LONG, ALL, IN_EFFECT, LOW, "300000", LONG_FROM_0,
     "How old knowledge of the cluster may get before it is asked for again without a cause.", NULL, NULL},
    {"metadata.max.idle.ms", LONG, P, IN_EFFECT, LOW, "300000", "5000 .. 9223372036854775807",
     "A topic that nothing was sent to for this long is forgotten, and asked for again when needed.", NULL, NULL},
    {"metadata.recovery.rebootstrap.trigger.ms", LONG, ALL, IN_EFFECT, LOW, "300000", LONG_FROM_0,
     "With metadata.recovery.strategy=rebootstrap: how long no known broker may answer before bootstrap.servers are "
     "asked again.",
     NULL, NULL},
    {"metadata.recovery.strategy", ENUM, ALL, IN_EFFECT, LOW, "rebootstrap", "none, rebootstrap",
     "What to do when no known broker can be used: go back to bootstrap.servers, or keep trying the known ones.", NULL,
     NULL},
    {"metric.reporters", LIST, ALL, JAVA_ONLY, LOW, "org.apache.kafka.common.metrics.JmxReporter", ANY,
     "Java classes that are told of metrics.", NULL, NULL},
    {"metrics.num.samples", INT, ALL, IN_EFFECT, LOW, "2", INT_FROM_1,
     "How many sample windows a rate or an average is taken over (<cafka/metrics.h>); more than 8 count as 8.", NULL, NULL},
    {"metrics.recording.level", ENUM, ALL, JAVA_ONLY, LOW, "INFO", "INFO, DEBUG, TRACE",
     "How much detail metrics have. Here all are kept at any level, since none is paid for by the record.", NULL, NULL},
    {"metrics.sample.window.ms", LONG, ALL, IN_EFFECT, LOW, "30000", LONG_FROM_0,
     "The length of one sample window.", NULL, NULL},
    {"partition.assignment.strategy", LIST, C, NOT_YET("GROUPS"), MEDIUM, "range,cooperative-sticky",
     "range, roundrobin, sticky, cooperative-sticky",
     "Assignors that this member can work with in a classic group, the preferred one first. Java's class names are "
     "taken too.",
     NULL, NULL},
    {"partitioner.adaptive.partitioning.enable", BOOL, P, IN_EFFECT, LOW, "true", BOOLS,
     "Whether records without a key go more often to partitions whose queues are short.", NULL, NULL},
    {"partitioner.availability.timeout.ms", LONG, P, IN_EFFECT, LOW, "0", LONG_FROM_0,
     "Records without a key avoid a partition whose broker has taken nothing for this long; 0: they don't.", NULL,
     NULL},
    {"partitioner.class", ENUM, P, IN_EFFECT, MEDIUM, "default",
     "default, round_robin, random, murmur2, consistent, consistent_random, fnv1a, fnv1a_random",
     "default: by murmur2 of the key, records without one stay with a partition for a batch (KIP-794). round_robin: one "
     "after the other, whatever the key. random: each record anew. murmur2, consistent (CRC-32) and fnv1a: by this hash "
     "of the key, null hashed as empty; with _random behind, records without a key are spread as with default. Java's "
     "RoundRobinPartitioner and librdkafka's names are taken too.",
     NULL, NULL},
    {"partitioner.ignore.keys", BOOL, P, IN_EFFECT, MEDIUM, "false", BOOLS,
     "Whether records with a key are spread as if they had none.", NULL, NULL},
    {"receive.buffer.bytes", INT, ALL, IN_EFFECT, MEDIUM, "32768", "-1 .. 2147483647",
     "SO_RCVBUF of connections; -1 is the system's choice. Unless it is set the system's choice stays too, since a "
     "fixed size turns off the kernel's own tuning: the default is what Java's client asks for.",
     "65536", "65536"},
    {"receive.message.max.bytes", INT, ALL, OURS, MEDIUM, "100000000", "1000 .. 2147483647",
     "The longest answer that is taken from a broker. A longer one closes the connection before memory is spent on it.",
     NULL, NULL},
    {"reconnect.backoff.max.ms", LONG, ALL, IN_EFFECT, LOW, "1000", LONG_FROM_0,
     "What the pause before dialling a broker again grows to when dialling keeps failing.", NULL, NULL},
    {"reconnect.backoff.ms", LONG, ALL, IN_EFFECT, LOW, "50", LONG_FROM_0,
     "The pause before dialling a broker again after the first failure; doubled, with some chance, at each further one.",
     NULL, NULL},
    {"request.timeout.ms", INT, ALL, IN_EFFECT, MEDIUM, "30000", INT_FROM_0,
     "How long an answer may take before the connection is given up and the request retried or failed.", NULL, NULL},
    {"retries", INT, P | A, IN_EFFECT, HIGH, "2147483647", INT_FROM_0,
     "How often a request that failed for a passing reason is sent again; better bounded by delivery.timeout.ms.", NULL,
     NULL},
    {"retry.backoff.max.ms", LONG, ALL, IN_EFFECT, LOW, "1000", LONG_FROM_0,
     "What the pause before a retry grows to.", NULL, NULL},
    {"retry.backoff.ms", LONG, ALL, IN_EFFECT, LOW, "100", LONG_FROM_0,
     "The pause before the first retry; doubled, with some chance, at each further one.", NULL, NULL},
    {"sasl.client.callback.handler.class", CLASS, ALL, JAVA_ONLY, MEDIUM, NULL, ANY,
     "A Java class that supplies credentials.", NULL, NULL},
    {"sasl.jaas.config", PASSWORD, ALL, NOT_YET("SECURITY"), MEDIUM, NULL, ANY,
     "User name, password or token options in the form of a Java login module line.", NULL, NULL},
    {"sasl.kerberos.kinit.cmd", STRING, ALL, NOT_YET("SECURITY"), LOW, "/usr/bin/kinit", ANY,
     "The command that renews a Kerberos ticket.", NULL, NULL},
    {"sasl.kerberos.min.time.before.relogin", LONG, ALL, NOT_YET("SECURITY"), LOW, "60000", LONG_ANY,
     "The shortest time between two renewals of a Kerberos ticket, in ms.", NULL, NULL},
    {"sasl.kerberos.service.name", STRING, ALL, NOT_YET("SECURITY"), MEDIUM, NULL, ANY,
     "The Kerberos service name that the brokers run under.", NULL, NULL},
    {"sasl.kerberos.ticket.renew.jitter", DOUBLE, ALL, NOT_YET("SECURITY"), LOW, "0.05", ANY,
     "How much chance moves the time of a ticket's renewal.", NULL, NULL},
    {"sasl.kerberos.ticket.renew.window.factor", DOUBLE, ALL, NOT_YET("SECURITY"), LOW, "0.8", ANY,
     "Which part of a ticket's life passes before it is renewed.", NULL, NULL},
    {"sasl.login.callback.handler.class", CLASS, ALL, JAVA_ONLY, MEDIUM, NULL, ANY,
     "A Java class that takes part in the login.", NULL, NULL},
    {"sasl.login.class", CLASS, ALL, JAVA_ONLY, MEDIUM, NULL, ANY, "A Java class that does the login.", NULL, NULL},
    {"sasl.login.connect.timeout.ms", INT, ALL, NOT_YET("SECURITY"), LOW, NULL, INT_ANY,
     "How long connecting to a token server may take.", NULL, NULL},
    {"sasl.login.read.timeout.ms", INT, ALL, NOT_YET("SECURITY"), LOW, NULL, INT_ANY,
     "How long the answer of a token server may take.", NULL, NULL},
    {"sasl.login.refresh.buffer.seconds", INT, ALL, NOT_YET("SECURITY"), LOW, "300", "0 .. 3600",
     "How long before its end a token is renewed at the latest.", NULL, NULL},
    {"sasl.login.refresh.min.period.seconds", INT, ALL, NOT_YET("SECURITY"), LOW, "60", "0 .. 900",
     "The shortest time between two renewals of a token.", NULL, NULL},
    {"sasl.login.refresh.window.factor", DOUBLE, ALL, NOT_YET("SECURITY"), LOW, "0.8", "0.5 .. 1.0",
     "Which part of a token's life passes before it is renewed.", NULL, NULL},
    {"sasl.login.refresh.window.jitter", DOUBLE, ALL, NOT_YET("SECURITY"), LOW, "0.05", "0.0 .. 0.25",
     "How much chance moves the time of a token's renewal.", NULL, NULL},
    {"sasl.login.retry.backoff.max.ms", LONG, ALL, NOT_YET("SECURITY"), LOW, "10000", LONG_ANY,
     "What the pause before asking a token server again grows to.", NULL, NULL},
    {"sasl.login.retry.backoff.ms", LONG, ALL, NOT_YET("SECURITY"), LOW, "100", LONG_ANY,
     "The pause before asking a token server again.", NULL, NULL},
    {"sasl.mechanism", STRING, ALL, NOT_YET("SECURITY"), MEDIUM, "GSSAPI", ANY,
     "How to log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI.", NULL, NULL},
    {"sasl.oauthbearer.assertion.algorithm", ENUM, ALL, NOT_YET("SECURITY"), MEDIUM, "RS256", "ES256, RS256",
     "The signature of an assertion made here.", NULL, NULL},
    {"sasl.oauthbearer.assertion.claim.aud", STRING, ALL, NOT_YET("SECURITY"), MEDIUM, NULL, ANY,
     "The audience claim of an assertion made here.", NULL, NULL},
    {"sasl.oauthbearer.assertion.claim.exp.seconds", INT, ALL, NOT_YET("SECURITY"), LOW, "300", "0 .. 86400",
     "How long an assertion made here is good for.", NULL, NULL},
    {"sasl.oauthbearer.assertion.claim.iss", STRING, ALL, NOT_YET("SECURITY"), MEDIUM, NULL, ANY,
     "The issuer claim of an assertion made here.", NULL, NULL},
    {"sasl.oauthbearer.assertion.claim.jti.include", BOOL, ALL, NOT_YET("SECURITY"), MEDIUM, "false", BOOLS,
     "Whether an assertion made here carries an id of its own.", NULL, NULL},
    {"sasl.oauthbearer.assertion.claim.nbf.seconds", INT, ALL, NOT_YET("SECURITY"), LOW, "60", "0 .. 3600",
     "How far before now an assertion made here begins.", NULL, NULL},
    {"sasl.oauthbearer.assertion.claim.sub", STRING, ALL, NOT_YET("SECURITY"), MEDIUM, NULL, ANY,
     "The subject claim of an assertion made here.", NULL, NULL},
    {"sasl.oauthbearer.assertion.file", STRING, ALL, NOT_YET("SECURITY"), MEDIUM, NULL, ANY,
     "A file that holds a finished assertion.", NULL, NULL},
    {"sasl.oauthbearer.assertion.private.key.file", STRING, ALL, NOT_YET("SECURITY"), MEDIUM, NULL, ANY,
     "A PEM file with the key that signs assertions.", NULL, NULL},
    {"sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, ALL, NOT_YET("SECURITY"), MEDIUM, NULL, ANY,
     "What opens that key.", NULL, NULL},
    {"sasl.oauthbearer.assertion.template.file", STRING, ALL, NOT_YET("SECURITY"), MEDIUM, NULL, ANY,
     "A file with further header fields and claims for assertions.", NULL, NULL},
    {"sasl.oauthbearer.client.credentials.client.id", STRING, ALL, NOT_YET("SECURITY"), MEDIUM, NULL, ANY,
     "The id that the token server knows this client by.", NULL, NULL},
    {"sasl.oauthbearer.client.credentials.client.secret", PASSWORD, ALL, NOT_YET("SECURITY"), MEDIUM, NULL, ANY,
     "The secret that goes with that id.", NULL, NULL},
    {"sasl.oauthbearer.clock.skew.seconds", INT, ALL, NOT_YET("SECURITY"), LOW, "30", INT_ANY,
     "How far the clocks of token server and reader may differ.", NULL, NULL},
    {"sasl.oauthbearer.expected.audience", LIST, ALL, NOT_YET("SECURITY"), HIGH, "", ANY,
     "Audiences of which a token must name one to be taken.", NULL, NULL},
    {"sasl.oauthbearer.expected.issuer", STRING, ALL, NOT_YET("SECURITY"), HIGH, NULL, ANY,
     "The issuer that a token must name to be taken.", NULL, NULL},
    {"sasl.oauthbearer.header.urlencode", BOOL, ALL, NOT_YET("SECURITY"), LOW, "false", BOOLS,
     "Whether id and secret are URL-encoded in the request to the token server.", NULL, NULL},
    {"sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, ALL, NOT_YET("SECURITY"), LOW, "3600000", LONG_ANY,
     "How long fetched signature keys are kept.", NULL, NULL},
    {"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, ALL, NOT_YET("SECURITY"), LOW, "10000", LONG_ANY,
     "What the pause before fetching signature keys again grows to.", NULL, NULL},
    {"sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, ALL, NOT_YET("SECURITY"), LOW, "100", LONG_ANY,
     "The pause before fetching signature keys again.", NULL, NULL},
    {"sasl.oauthbearer.jwks.endpoint.url", STRING, ALL, NOT_YET("SECURITY"), MEDIUM, NULL, ANY,
     "Where signature keys are fetched from.", NULL, NULL},
    {"sasl.oauthbearer.jwt.retriever.class", CLASS, ALL, JAVA_ONLY, MEDIUM,
     "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever", ANY, "A Java class that gets tokens.", NULL,
     NULL},
    {"sasl.oauthbearer.jwt.validator.class", CLASS, ALL, JAVA_ONLY, MEDIUM,
     "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator", ANY, "A Java class that checks tokens.", NULL,
     NULL},
    {"sasl.oauthbearer.scope", STRING, ALL, NOT_YET("SECURITY"), MEDIUM, NULL, ANY,
     "The access that is asked of the token server.", NULL, NULL},
    {"sasl.oauthbearer.scope.claim.name", STRING, ALL, NOT_YET("SECURITY"), LOW, "scope", ANY,
     "What a token calls its scope.", NULL, NULL},
    {"sasl.oauthbearer.sub.claim.name", STRING, ALL, NOT_YET("SECURITY"), LOW, "sub", ANY,
     "What a token calls its subject.", NULL, NULL},
    {"sasl.oauthbearer.token.endpoint.url", STRING, ALL, NOT_YET("SECURITY"), MEDIUM, NULL, ANY,
     "Where tokens are fetched from.", NULL, NULL},
    {"sasl.password", PASSWORD, ALL, OURS_NOT_YET("SECURITY"), MEDIUM, NULL, ANY,
     "The password for PLAIN and SCRAM, without the form of sasl.jaas.config (librdkafka's name).", NULL, NULL},
    {"sasl.username", STRING, ALL, OURS_NOT_YET("SECURITY"), MEDIUM, NULL, ANY,
     "The user name for PLAIN and SCRAM, without the form of sasl.jaas.config (librdkafka's name).", NULL, NULL},
    {"security.protocol", ENUM, ALL, NOT_YET("SECURITY"), MEDIUM, "PLAINTEXT",
     "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
     "Whether connections are encrypted (SSL) and begin with a login (SASL). A client that is asked for what is not "
     "there yet refuses to start.",
     NULL, NULL},
    {"security.providers", STRING, ALL, JAVA_ONLY, LOW, NULL, ANY, "Java classes with security algorithms.", NULL,
     NULL},
    {"send.buffer.bytes", INT, ALL, IN_EFFECT, MEDIUM, "131072", "-1 .. 2147483647",
     "SO_SNDBUF of connections; -1 is the system's choice, which stays too unless it is set: see receive.buffer.bytes.",
     NULL, NULL},
    {"session.timeout.ms", INT, C, NOT_YET("GROUPS"), HIGH, "45000", INT_ANY,
     "A member of a classic group whose heartbeat stays away for this long is taken for dead.", NULL, NULL},
    {"share.acknowledgement.mode", ENUM, C, NOT_YET("SHARE"), MEDIUM, "implicit", "implicit, explicit",
     "Whether records of a share group are acknowledged by the next poll or one by one.", NULL, NULL},
    {"share.acquire.mode", ENUM, C, NOT_YET("SHARE"), MEDIUM, "batch_optimized", "batch_optimized, record_limit",
     "Whether a share group's poll hands out whole batches or exactly max.poll.records at most.", NULL, NULL},
    {"socket.connection.setup.timeout.max.ms", LONG, ALL, IN_EFFECT, MEDIUM, "30000", LONG_ANY,
     "What socket.connection.setup.timeout.ms grows to when dialling keeps failing.", NULL, NULL},
    {"socket.connection.setup.timeout.ms", LONG, ALL, IN_EFFECT, MEDIUM, "10000", LONG_ANY,
     "How long dialling a broker may take; doubled, with some chance, at each further failure.", NULL, NULL},
    {"ssl.cipher.suites", LIST, ALL, NOT_YET("SECURITY"), LOW, "", ANY,
     "The ciphers that may be used; empty: OpenSSL's choice.", NULL, NULL},
    {"ssl.enabled.protocols", LIST, ALL, NOT_YET("SECURITY"), MEDIUM, "TLSv1.2,TLSv1.3", "TLSv1.2, TLSv1.3",
     "The versions of TLS that may be used.", NULL, NULL},
    {"ssl.endpoint.identification.algorithm", STRING, ALL, NOT_YET("SECURITY"), LOW, "https", ANY,
     "https: the broker's certificate must name the host that was dialled. Empty: it need not.", NULL, NULL},
    {"ssl.engine.factory.class", CLASS, ALL, JAVA_ONLY, LOW, NULL, ANY, "A Java class that makes TLS engines.", NULL,
     NULL},
    {"ssl.key.password", PASSWORD, ALL, NOT_YET("SECURITY"), HIGH, NULL, ANY, "What opens the private key.", NULL,
     NULL},
    {"ssl.keymanager.algorithm", STRING, ALL, JAVA_ONLY, LOW, "SunX509", ANY, "The name of a Java algorithm.", NULL,
     NULL},
    {"ssl.keystore.certificate.chain", PASSWORD, ALL, NOT_YET("SECURITY"), HIGH, NULL, ANY,
     "The client's certificate and those above it, as PEM text.", NULL, NULL},
    {"ssl.keystore.key", PASSWORD, ALL, NOT_YET("SECURITY"), HIGH, NULL, ANY,
     "The client's private key, as PEM text.", NULL, NULL},
    {"ssl.keystore.location", STRING, ALL, NOT_YET("SECURITY"), HIGH, NULL, ANY,
     "The file with the client's certificate and key, for brokers that ask for one.", NULL, NULL},
    {"ssl.keystore.password", PASSWORD, ALL, NOT_YET("SECURITY"), HIGH, NULL, ANY, "What opens that file.", NULL,
     NULL},
    {"ssl.keystore.type", STRING, ALL, NOT_YET("SECURITY"), MEDIUM, "JKS", ANY,
     "The form of that file: PEM or PKCS12.", NULL, NULL},
    {"ssl.protocol", STRING, ALL, NOT_YET("SECURITY"), MEDIUM, "TLSv1.3", ANY,
     "The highest version of TLS; ssl.enabled.protocols says it better.", NULL, NULL},
    {"ssl.provider", STRING, ALL, JAVA_ONLY, MEDIUM, NULL, ANY, "The name of a Java security provider.", NULL, NULL},
    {"ssl.secure.random.implementation", STRING, ALL, JAVA_ONLY, LOW, NULL, ANY,
     "The name of a Java source of randomness.", NULL, NULL},
    {"ssl.trustmanager.algorithm", STRING, ALL, JAVA_ONLY, LOW, "PKIX", ANY, "The name of a Java algorithm.", NULL,
     NULL},
    {"ssl.truststore.certificates", PASSWORD, ALL, NOT_YET("SECURITY"), HIGH, NULL, ANY,
     "Certificates to trust, as PEM text.", NULL, NULL},
    {"ssl.truststore.location", STRING, ALL, NOT_YET("SECURITY"), HIGH, NULL, ANY,
     "The file with the certificates to trust; without it, those of the system.", NULL, NULL},
    {"ssl.truststore.password", PASSWORD, ALL, NOT_YET("SECURITY"), HIGH, NULL, ANY, "What opens that file.", NULL,
     NULL},
    {"ssl.truststore.type", STRING, ALL, NOT_YET("SECURITY"), MEDIUM, "JKS", ANY,
     "The form of that file: PEM or PKCS12.", NULL, NULL},
    {"transaction.timeout.ms", INT, P, NOT_YET("EXACTLY-ONCE"), LOW, "60000", INT_ANY,
     "A transaction that is open for longer is aborted by its coordinator.", NULL, NULL},
    {"transaction.two.phase.commit.enable", BOOL, P, NOT_YET("EXACTLY-ONCE"), LOW, "false", BOOLS,
     "Whether transactions are part of a two-phase commit of the application's, and never time out.", NULL, NULL},
    {"transactional.id", STRING, P, NOT_YET("EXACTLY-ONCE"), LOW, NULL, "non-empty",
     "The name under which a producer's transactions go on over restarts. A producer that is given one refuses to "
     "start until transactions are there.",
     NULL, NULL},
    {"value.deserializer", CLASS, C, JAVA_ONLY, HIGH, NULL, ANY, "A Java class. In C, values are bytes.", NULL, NULL},
    {"value.serializer", CLASS, P, JAVA_ONLY, HIGH, NULL, ANY, "A Java class. In C, values are bytes.", NULL, NULL},
};
const size_t property_count = sizeof properties / sizeof *properties;

/* librdkafka's names for the same things, sorted by name. */
const struct property_alias property_aliases[] = {
    {"auto.commit.enable", "enable.auto.commit", AS_IT_IS},
    {"compression.codec", "compression.type", AS_IT_IS},
    {"enable.auto.offset.store", "enable.auto.mark", AS_IT_IS},
    {"fetch.message.max.bytes", "max.partition.fetch.bytes", AS_IT_IS},
    {"fetch.wait.max.ms", "fetch.max.wait.ms", AS_IT_IS},
    {"max.in.flight", "max.in.flight.requests.per.connection", AS_IT_IS},
    {"message.max.bytes", "max.request.size", AS_IT_IS},
    {"message.send.max.retries", "retries", AS_IT_IS},
    {"message.timeout.ms", "delivery.timeout.ms", ZERO_IS_FOR_EVER},
    {"metadata.broker.list", "bootstrap.servers", AS_IT_IS},
    {"partitioner", "partitioner.class", AS_IT_IS},
    {"queue.buffering.max.kbytes", "buffer.memory", KIB_TO_BYTES},
    {"queue.buffering.max.ms", "linger.ms", FRACTION_TO_MS},
    {"queued.max.messages.kbytes", "fetch.buffer.memory", KIB_TO_BYTES},
    {"request.required.acks", "acks", AS_IT_IS},
    {"sasl.mechanisms", "sasl.mechanism", AS_IT_IS},
    {"sasl.oauthbearer.assertion.jwt.template.file", "sasl.oauthbearer.assertion.template.file", AS_IT_IS},
    {"sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id", AS_IT_IS},
    {"sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret", AS_IT_IS},
    {"socket.receive.buffer.bytes", "receive.buffer.bytes", ZERO_IS_SYSTEM},
    {"socket.send.buffer.bytes", "send.buffer.bytes", ZERO_IS_SYSTEM},
    {"socket.timeout.ms", "request.timeout.ms", AS_IT_IS},
    {"ssl.ca.location", "ssl.truststore.location", AS_IT_IS},
    {"ssl.ca.pem", "ssl.truststore.certificates", AS_IT_IS},
    {"ssl.certificate.pem", "ssl.keystore.certificate.chain", AS_IT_IS},
    {"ssl.key.pem", "ssl.keystore.key", AS_IT_IS},
    {"topic.metadata.refresh.interval.ms", "metadata.max.age.ms", MINUS_ONE_IS_NEVER},
};
const size_t property_alias_count = sizeof property_aliases / sizeof *property_aliases;

const struct value_spelling value_spellings[] = {
    {"acks", "-1", "all"},
    {"auto.offset.reset", "smallest", "earliest"},
    {"auto.offset.reset", "beginning", "earliest"},
    {"auto.offset.reset", "largest", "latest"},
    {"auto.offset.reset", "end", "latest"},
    {"auto.offset.reset", "error", "none"},
    {"partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor", "range"},
    {"partition.assignment.strategy", "org.apache.kafka.clients.consumer.RoundRobinAssignor", "roundrobin"},
    {"partition.assignment.strategy", "org.apache.kafka.clients.consumer.StickyAssignor", "sticky"},
    {"partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
     "cooperative-sticky"},
    {"partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner", "round_robin"},
    {"partitioner.class", "murmur2_random", "default"},
};
const size_t value_spelling_count = sizeof value_spellings / sizeof *value_spellings;
/* clang-format on */

static int by_name(const void *name, const void *row)
{
    return strcmp(name, ((const struct property *)row)->name);
}

static const struct property *find_row(const char *name)
{
    size_t low = 0, high = property_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = by_name(name, &properties[middle]);
        if (order == 0)
            return &properties[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const struct property *property_find(const char *name, const struct property_alias **alias)
{
    if (alias)
        *alias = NULL;
    const struct property *row = find_row(name);
    for (size_t i = 0; !row && i < property_alias_count; i++) {
        if (strcmp(property_aliases[i].name, name))
            continue;
        if (alias)
            *alias = &property_aliases[i];
        row = find_row(property_aliases[i].of);
    }
    return row;
}

const char *property_default(const struct property *property, unsigned client)
{
    if (client == CAFKA_FOR_CONSUMER && property->consumer_default)
        return property->consumer_default;
    if (client == CAFKA_FOR_ADMIN && property->admin_default)
        return property->admin_default;
    return property->default_value;
}

/* ---- which name was meant ---- */

#define NAME_MAX_COMPARED 80

static char fold(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return c == '_' || c == '-' ? '.' : c;
}

/* Edits (insert, drop, change, swap of neighbours) that make one of the other; case and separators are free. */
static unsigned distance(const char *a, const char *b)
{
    unsigned before[NAME_MAX_COMPARED + 1], last[NAME_MAX_COMPARED + 1], now[NAME_MAX_COMPARED + 1];
    size_t a_size = strlen(a), b_size = strlen(b);
    if (a_size > NAME_MAX_COMPARED || b_size > NAME_MAX_COMPARED)
        return NAME_MAX_COMPARED;
    for (size_t j = 0; j <= b_size; j++)
        last[j] = (unsigned)j;
    memcpy(before, last, sizeof before);
    for (size_t i = 1; i <= a_size; i++) {
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= b_size; j++) {
            char x = fold(a[i - 1]), y = fold(b[j - 1]);
            unsigned best = last[j - 1] + (x != y);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && x == fold(b[j - 2]) && y == fold(a[i - 2]) &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
        memcpy(before, last, sizeof before);
        memcpy(last, now, sizeof last);
    }
    return last[b_size];
}

const char *property_suggest(const char *name)
{
    size_t size = strlen(name);
    unsigned best = 1 + (unsigned)(size / 3); /* farther than this it is not a slip of the pen */
    const char *nearest = NULL;
    for (size_t i = 0; i < property_count + property_alias_count; i++) {
        const char *candidate =
            i < property_count ? properties[i].name : property_aliases[i - property_count].name;
        unsigned d = distance(name, candidate);
        if (d < best) {
            best = d;
            nearest = candidate;
        }
    }
    return nearest;
}
