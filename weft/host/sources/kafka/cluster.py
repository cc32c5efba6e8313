"""How to reach the brokers, and what they say about a topic: its partitions, where they begin and where they end.

Options of the user go to librdkafka as they are, passwords among them.  What must hold: no value of an option is ever
shown or written.  `Connection` does not print them, and takes them out of messages that quote them.

A broker may be away for a while: questions are asked again until `patience` seconds have passed.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from weft.errors import SourceError, WeftError

Answer = TypeVar("Answer")
SHOWN = frozenset({"bootstrap.servers", "client.id", "group.id", "security.protocol", "sasl.mechanism", "debug"})
"""Options whose values may be shown."""
QUIET = {"log_level": 2}


def kafka_client(module: str = "confluent_kafka") -> Any:
    """The package that talks to Kafka, or a part of it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SourceError(
            "Kafka needs the package confluent-kafka",
            detail=f"{error}.",
            hint='install it on the driver and on all workers: pip install "weft[kafka]", or confluent-kafka.',
        ) from error


@dataclass(frozen=True)
class Connection:
    """Addresses of brokers, and options of librdkafka."""

    servers: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    patience: float = 60.0
    """Seconds to wait for a broker that does not answer."""
    error: type[WeftError] = SourceError

    def settings(self, **more: Any) -> dict[str, Any]:
        """The settings of a client; those of the user come last."""
        ours = {name.replace("_", "."): value for name, value in more.items()}
        return {"bootstrap.servers": self.servers, **QUIET, **ours, **self.options}

    def redact(self, text: str) -> str:
        """A message without the values of options."""
        secrets = [str(value) for name, value in self.options.items() if name not in SHOWN]
        for secret in sorted((secret for secret in secrets if len(secret) > 3), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def fail(self, what: str, why: object, hint: str = "") -> WeftError:
        """An error that quotes a message of the client."""
        usual = f"see that a broker answers at {self.servers}, and that the options are right; nothing was lost."
        return self.error(what, detail=f"{self.redact(str(why)).rstrip('.')}.", hint=hint or usual)

    def make(self, module: str, kind: str, settings: Mapping[str, Any], **more: Any) -> Any:
        """A client of librdkafka."""
        made = getattr(kafka_client(module), kind)
        try:
            return made(dict(settings), **more)
        except Exception as error:
            refused = (kafka_client().KafkaException, ValueError, TypeError)
            if isinstance(error, refused):
                hint = "correct the option; librdkafka documents all of them in its CONFIGURATION.md."
                raise self.fail("an option of Kafka is refused", said(error), hint) from None
            raise


class Complaint:
    """The last thing that a client of librdkafka complained about.

    When its connections fail it says why for each of them, and besides that no broker is left: the reason is kept.
    """

    def __init__(self, text: str = "") -> None:
        self.text, self._is_reason = text, False

    def note(self, error: Any) -> None:
        """What the client calls with an error."""
        is_reason = error.code() != kafka_client().KafkaError._ALL_BROKERS_DOWN
        if is_reason or not self._is_reason:
            self.text, self._is_reason = str(error.str()), is_reason


class Topic:
    """A topic as the driver sees it."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection, self.name = connection, name
        self.number = ""
        """What Kafka calls the topic, as last asked; one that is created anew gets another.  Empty if unknown."""
        self._complaint = Complaint()

    def partitions(self) -> list[int]:
        """The numbers of all partitions."""
        return sorted(self._ask(self._look_up))

    def earliest(self, partitions: list[int]) -> dict[int, int]:
        """Partition -> its first record that is still there."""
        return self._offsets(dict.fromkeys(partitions, "earliest"))

    def latest(self, partitions: list[int]) -> dict[int, int]:
        """Partition -> the offset after its last record that is committed."""
        return self._offsets(dict.fromkeys(partitions, "latest"))

    def at(self, milliseconds: int, partitions: list[int]) -> dict[int, int]:
        """Partition -> its first record that is not older than a time; its end if there is none."""
        found = self._offsets(dict.fromkeys(partitions, milliseconds))
        return found | self.latest([partition for partition, offset in found.items() if offset < 0])

    @cached_property
    def _admin(self) -> Any:
        settings = self.connection.settings(reconnect_backoff_max_ms=1000)
        return self.connection.make("confluent_kafka.admin", "AdminClient", settings, error_cb=self._complaint.note)

    def _look_up(self) -> list[int]:
        wanted, limit = kafka_client().TopicCollection([self.name]), min(5, self.connection.patience)
        found = self._admin.describe_topics(wanted, request_timeout=limit)[self.name].result()
        has_number = found.topic_id is not None and found.topic_id.get_most_significant_bits() != 0
        self.number = str(found.topic_id) if has_number else ""
        return [partition.id for partition in found.partitions]

    def _offsets(self, wanted: Mapping[int, str | int]) -> dict[int, int]:
        if not wanted:
            return {}
        kafka, admin = kafka_client(), kafka_client("confluent_kafka.admin")
        spec, level = admin.OffsetSpec, kafka.IsolationLevel.READ_COMMITTED
        named = {"earliest": spec.earliest, "latest": spec.latest}
        asked = {
            kafka.TopicPartition(self.name, partition): named[what]() if isinstance(what, str)
            else spec.for_timestamp(what)
            for partition, what in wanted.items()
        }  # fmt: skip

        def ask() -> dict[int, int]:
            futures = self._admin.list_offsets(asked, isolation_level=level, request_timeout=5)
            found = {at.partition: future.result().offset for at, future in futures.items()}
            if kafka.OFFSET_INVALID in found.values():  # a broker that is starting may say so, and no error
                raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError.LEADER_NOT_AVAILABLE))
            return found

        return self._ask(ask)

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """The answer to a question; asked again if the trouble may pass."""
        limit = time.monotonic() + self.connection.patience
        while True:
            try:
                return question()
            except kafka_client().KafkaException as error:
                self._refuse(error.args[0])
                self._admin.poll(0.2)  # librdkafka tells what it complains about
                if time.monotonic() > limit:
                    why = self._complaint.text or said(error)
                    raise self.connection.fail(f"topic {self.name} cannot be read", why) from None

    def _refuse(self, error: Any) -> None:
        """Raise if asking again cannot help."""
        code = kafka_client().KafkaError
        if error.code() in (code.UNKNOWN_TOPIC_OR_PART, code._UNKNOWN_TOPIC, code._UNKNOWN_PARTITION):
            hint = "create it first, or correct its name; Weft creates no topics."
            raise self.connection.fail(f"there is no topic {self.name} at {self.connection.servers}", error.str(), hint)
        refused = (
            code.TOPIC_AUTHORIZATION_FAILED, code.CLUSTER_AUTHORIZATION_FAILED, code.SASL_AUTHENTICATION_FAILED,
            code._AUTHENTICATION, code._SSL, code._INVALID_ARG, code.TOPIC_EXCEPTION,
        )  # fmt: skip
        if error.code() in refused:
            raise self.connection.fail(f"topic {self.name} may not be read", error.str())


def said(error: BaseException) -> str:
    """What an exception of librdkafka says."""
    first = error.args[0] if error.args else error
    return str(first.str()) if hasattr(first, "str") else str(first)
