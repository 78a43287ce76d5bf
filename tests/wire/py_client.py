#!/usr/bin/env python3
"""py_client.py LIBRARY produce|consume|codecs SERVERS TOPIC [CODEC] - a Python client for the wire cases.

LIBRARY is confluent_kafka or kafka. `produce` sends stdin: a line is "key TAB value", every record
gets the headers colour=blue and empty= and a timestamp of 1600000000000 plus its number. `consume`
reads all partitions from the beginning to the end, without a group, and prints
"key TAB value TAB headers". `codecs` lists those that the library can use here.
"""
import sys

HEADERS = [("colour", b"blue"), ("empty", b"")]
TIME = 1600000000000


def records():
    for number, line in enumerate(sys.stdin.buffer):
        key, value = line.rstrip(b"\n").split(b"\t", 1)
        yield key, value, TIME + number


def show(key, value, headers):
    names = b",".join(name.encode() + b"=" + text for name, text in headers or [])
    sys.stdout.buffer.write((key or b"") + b"\t" + (value or b"") + b"\t" + names + b"\n")


class Confluent:
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]

    def produce(self, servers, topic, codec):
        from confluent_kafka import Producer
        failed = []
        producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "enable.idempotence": True,
                             "linger.ms": 5})
        for key, value, time in records():
            while True:
                try:
                    producer.produce(topic, value=value, key=key, headers=HEADERS, timestamp=time,
                                     on_delivery=lambda err, _: err and failed.append(err))
                    break
                except BufferError:
                    producer.poll(1)
            producer.poll(0)
        if producer.flush(60) or failed:
            sys.exit("not delivered: %s" % failed[:1])

    def consume(self, servers, topic):
        from confluent_kafka import Consumer, KafkaError, OFFSET_BEGINNING, TopicPartition
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "unused", "enable.partition.eof": True,
                             "check.crcs": True, "enable.auto.commit": False})
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
        at_end = set()
        while len(at_end) < len(partitions):
            message = consumer.poll(60)
            if message is None:
                sys.exit("nothing came for 60 s")
            if not message.error():
                show(message.key(), message.value(), message.headers())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                at_end.add(message.partition())
            else:
                sys.exit(str(message.error()))
        consumer.close()


class KafkaPython:
    @property
    def codecs(self):
        from kafka import codec
        has = {"none": lambda: True, "gzip": codec.has_gzip, "snappy": codec.has_snappy, "lz4": codec.has_lz4,
               "zstd": codec.has_zstd}
        return [name for name in has if has[name]()]

    def produce(self, servers, topic, codec):
        from kafka import KafkaProducer
        producer = KafkaProducer(bootstrap_servers=servers.split(","), linger_ms=5, max_request_size=1048576,
                                 compression_type=None if codec == "none" else codec, acks="all")
        sent = [producer.send(topic, value=value, key=key, headers=HEADERS, timestamp_ms=time)
                for key, value, time in records()]
        producer.flush(60)
        for future in sent:
            future.get(0)
        producer.close()

    def consume(self, servers, topic):
        from kafka import KafkaConsumer, TopicPartition
        consumer = KafkaConsumer(bootstrap_servers=servers.split(","), group_id=None, consumer_timeout_ms=60000,
                                 max_partition_fetch_bytes=4 << 20)
        partitions = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        left = {p: end for p, end in consumer.end_offsets(partitions).items() if end}
        while left:
            message = next(consumer)
            show(message.key, message.value, message.headers)
            at = TopicPartition(message.topic, message.partition)
            if at in left and message.offset + 1 >= left[at]:
                del left[at]
        consumer.close()


def main():
    client = {"confluent_kafka": Confluent, "kafka": KafkaPython}[sys.argv[1]]()
    if sys.argv[2] == "codecs":
        print(" ".join(client.codecs))
    elif sys.argv[2] == "produce":
        client.produce(*sys.argv[3:6])
    else:
        client.consume(*sys.argv[3:5])


main()
