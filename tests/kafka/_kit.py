"""What the tests with Kafka share: topics, producers, and a consumer that counts on its own."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from bench.broker import Broker

QUIET = {"log_level": 0}


def make_topic(
    broker: Broker, partitions: int = 1, config: Mapping[str, str] | None = None, name: str | None = None
) -> str:
    """A new topic, with a name of its own unless one is given; records stay, however old they are."""
    name = name or f"t{uuid.uuid4().hex[:10]}"
    admin = AdminClient({"bootstrap.servers": broker.servers, **QUIET})
    admin.create_topics([NewTopic(name, partitions, 1, config={"retention.ms": "-1", **(config or {})})])[name].result(
        60
    )
    admin.list_topics(name, timeout=30)
    return name


def delete_topic(broker: Broker, topic: str) -> None:
    """Remove a topic; returns when it is gone."""
    admin = AdminClient({"bootstrap.servers": broker.servers, **QUIET})
    admin.delete_topics([topic])[topic].result(60)
    limit = time.monotonic() + 60
    while topic in admin.list_topics(timeout=30).topics:
        assert time.monotonic() < limit, "the topic does not go"


def add_partitions(broker: Broker, topic: str, total: int) -> None:
    """Give a topic more partitions."""
    admin = AdminClient({"bootstrap.servers": broker.servers, **QUIET})
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(60)


def delete_before(broker: Broker, topic: str, offset: int, partition: int = 0) -> None:
    """Delete the records of a partition before an offset, as retention does."""
    admin = AdminClient({"bootstrap.servers": broker.servers, **QUIET})
    place = TopicPartition(topic, partition, offset)
    admin.delete_records([place])[place].result(60)


def produce(broker: Broker, topic: str, values: Iterable[Any], **more: Any) -> None:
    """Send values; those that are neither bytes nor None become JSON."""
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 5, **QUIET})
    for value in values:
        sent = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
        producer.produce(topic, sent, **more)
        producer.poll(0)
    assert producer.flush(60) == 0


def consume_all(broker: Broker, topic: str) -> list[Any]:
    """All committed records of a topic, as a reader that has nothing to do with Weft sees them."""
    settings = {
        "bootstrap.servers": broker.servers, "group.id": uuid.uuid4().hex, "enable.partition.eof": True,
        "isolation.level": "read_committed", "auto.offset.reset": "earliest", "enable.auto.commit": False, **QUIET,
    }  # fmt: skip
    consumer = Consumer(settings)
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found: list[Any] = []
    ended: set[int] = set()
    while len(ended) < len(partitions):
        message = consumer.poll(60)
        assert message is not None, "the topic does not end"
        if message.error() is None:
            found.append(message)
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ended.add(message.partition())
    consumer.close()
    return found


def json_rows(messages: Iterable[Any], *columns: str) -> Counter[tuple[Any, ...]]:
    """JSON records as a multiset of rows."""
    read = [json.loads(message.value()) for message in messages]
    return Counter(tuple(row[column] for column in columns) for row in read)
