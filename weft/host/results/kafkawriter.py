"""Transactions: records and the marker that names them appear together, or not at all.

librdkafka may wait for ever for a broker that went away and came back while a marker was sent, whatever timeout it is
given (its issues 5456 and 5511).  So that call is watched from outside: who gives up on it must throw the writer away.
A new one under the same name ends the transaction that the old one left open.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from weft.host.results.kafkarecords import Place, Record
from weft.host.sources.kafka.cluster import Complaint, kafka_client, said

SECONDS = 10.0
"""How long one call may take; it is called again while the broker is away."""
GRACE = 10.0
"""Seconds after which a call that is over time is given up."""


class Writer:
    """A producer of transactions, under a name that one run at a time can have."""

    def __init__(self, place: Place, name: str) -> None:
        self.place, self.name = place, name
        connection = place.connection
        settings = connection.settings(
            transactional_id=name, transaction_timeout_ms=600_000, linger_ms=20, partitioner="murmur2_random"
        )
        self._complaint = Complaint()
        self._producer = connection.make("confluent_kafka", "Producer", settings, error_cb=self._complaint.note)
        own = {"group.id": name, "isolation.level": "read_committed", "enable.auto.commit": False}
        self._consumer = connection.make("confluent_kafka", "Consumer", connection.settings() | own)
        self._call(lambda: self._producer.init_transactions(connection.patience))

    def marker(self) -> str:
        """Which results were sent last; empty if none were."""
        at, patience = kafka_client().TopicPartition(self.place.topic, 0), self.place.connection.patience
        limit = time.monotonic() + patience
        (found,) = self._call(lambda: self._retry(lambda: self._consumer.committed([at], patience), limit))
        return str(found.metadata or "") if found.offset >= 0 else ""

    def send(
        self, records: Iterator[Record], marker: str, batch: int, on_sent: Callable[[], None], limit: float
    ) -> bool:
        """Send records and a marker in one transaction; False if it was aborted and may be tried again.

        Raises TimeoutError if the writer hangs and is of no use any more.
        """
        kafka = kafka_client()
        try:
            self._producer.begin_transaction()
            for key, value in records:
                self._produce(key, value)
            self._producer.flush(self.place.connection.patience)
            on_sent()
            mark = kafka.TopicPartition(self.place.topic, 0, batch + 1, marker)
            group = self._consumer.consumer_group_metadata()
            send = partial(self._producer.send_offsets_to_transaction, [mark], group, SECONDS)
            self._retry(lambda: _watch(send), limit)
            self._retry(lambda: self._producer.commit_transaction(SECONDS), limit)
        except kafka.KafkaException as error:
            if not error.args[0].txn_requires_abort() or time.monotonic() > limit or _is_too_large(error):
                raise self._failed(error) from None
            self._call(lambda: self._producer.abort_transaction(self.place.connection.patience))
            return False
        return True

    def _produce(self, key: bytes | None, value: bytes | None) -> None:
        while True:
            try:
                self._producer.produce(self.place.topic, value, key, on_delivery=None)
                return
            except BufferError:
                self._producer.poll(0.1)  # its queue is full: let some of it go

    def _retry(self, call: Callable[[], Any], limit: float) -> Any:
        """Call until it is done; a broker may be away for a while, and not know all when it is back."""
        code = kafka_client().KafkaError
        passing = (code.NOT_COORDINATOR, code.COORDINATOR_NOT_AVAILABLE, code.COORDINATOR_LOAD_IN_PROGRESS)
        while True:
            try:
                return call()
            except kafka_client().KafkaException as error:
                passes = error.args[0].retriable() or error.args[0].code() in passing
                if not passes or time.monotonic() > limit:
                    raise
                self._producer.poll(0.1)

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except kafka_client().KafkaException as error:
            raise self._failed(error) from None

    def _failed(self, error: BaseException) -> Exception:
        fenced = kafka_client().KafkaError._FENCED
        if error.args and getattr(error.args[0], "code", lambda: None)() == fenced:
            hint = "stop the other run; results are safe in the checkpoint, and are sent by the next run."
            return self.place.connection.fail(f"another run sends results as {self.name}", said(error), hint)
        hint = "results are safe in the checkpoint; run again when the broker answers."
        if _is_too_large(error):
            hint = 'raise options={"message.max.bytes": ...} and max.message.bytes of the topic, and run again: '
            hint += "results are safe in the checkpoint."
        why = f"{said(error)}; {self._complaint.text}" if self._complaint.text else said(error)
        return self.place.connection.fail(f"results cannot be sent {self.place}", why, hint)


def _is_too_large(error: BaseException) -> bool:
    """Whether a record is larger than the producer or the topic takes."""
    kafka = kafka_client()
    return kafka.KafkaError(kafka.KafkaError.MSG_SIZE_TOO_LARGE).str() in said(error)


def _watch(call: Callable[[], object]) -> None:
    """Call in a thread, and raise TimeoutError if it does not come back in time."""
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            call()
            ended.put(None)
        except BaseException as error:  # noqa: BLE001 - it is raised by who waits
            ended.put(error)

    threading.Thread(target=run, name="weft-marker", daemon=True).start()
    try:
        error = ended.get(timeout=SECONDS + GRACE)
    except queue.Empty:
        raise TimeoutError("a call of librdkafka does not return") from None
    if error is not None:
        raise error
