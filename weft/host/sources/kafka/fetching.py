"""Reads records of one partition between two offsets.

Offsets have gaps: a compacted topic loses records, and the marks of transactions have offsets too.  So a part is read
to its end when a record behind it comes, or when there is no further record.  Only committed records are read.

Records may be deleted after a batch was planned and before they are read.  The broker refuses an offset before its
first record, so such records are told apart from gaps: whoever meets one asks for the first record that is there, and
either raises or counts what is gone.

A consumer takes a while to connect, so a process keeps its consumers from one part to the next.  It waits for data in
short steps: a long wait for the partition of one part would hold up the next part.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from weft.errors import SourceError
from weft.host.sources.kafka.cluster import Complaint, Connection, kafka_client, said
from weft.host.sources.kafka.positions import Stretch

CHUNK = 20_000
"""Records that are taken at a time."""
STEP = 0.05
"""Seconds between two looks at what has come."""
A_QUESTION = 5.0
"""Seconds to wait for an answer of a broker."""
SETTINGS = {
    "group.id": "weft",  # the client asks for a name; Weft never joins a group, and commits nothing
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 2,
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": CHUNK,  # what is fetched beyond the end of a part is thrown away
    "fetch.message.max.bytes": 4 << 20,
}


@dataclass(frozen=True)
class Chunk:
    """Some records of a part."""

    records: list[Any]
    lost: int = 0
    """How many offsets before them were deleted before they were read."""


@dataclass(frozen=True)
class Fetching:
    """How records are fetched."""

    connection: Connection
    continues: bool = False
    """Whether reading goes on behind records that were deleted; else that is an error."""

    def chunks(self, part: Stretch) -> Iterator[Chunk]:
        """The records of a part, many at a time, in order."""
        with _consumer(self) as consumer:
            yield from _read(self, consumer, part)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of a consumer."""
        return {**self.connection.settings(), **SETTINGS, **self.connection.options, "auto.offset.reset": "error"}


class _Consumer:
    """A consumer, and the last thing it complained about."""

    def __init__(self, fetching: Fetching) -> None:
        self.complaint = Complaint("no record came")
        note, settings = self.complaint.note, fetching.settings
        self.client = fetching.connection.make("confluent_kafka", "Consumer", settings, error_cb=note)


_idle: dict[str, list[_Consumer]] = {}
"""Settings -> consumers that are connected and have nothing to do."""
_lock = threading.Lock()


@contextmanager
def _consumer(fetching: Fetching) -> Iterator[_Consumer]:
    """A consumer of these settings.  It is kept for later if nothing goes wrong."""
    key = repr(sorted(fetching.settings.items(), key=lambda item: item[0]))
    with _lock:
        found = _idle[key].pop() if _idle.get(key) else None
    consumer = found or _Consumer(fetching)
    try:
        yield consumer
    except BaseException:
        consumer.client.close()
        raise
    consumer.client.unassign()
    with _lock:
        _idle.setdefault(key, []).append(consumer)


def _read(fetching: Fetching, consumer: _Consumer, part: Stretch) -> Iterator[Chunk]:
    _assign(consumer, part, part.start)
    at, ended = part.start, False
    limit = time.monotonic() + fetching.connection.patience
    while at < part.end and not ended:
        found = consumer.client.consume(min(CHUNK, part.end - at), STEP)
        if records := [record for record in found if record.error() is None]:
            at = records[-1].offset() + 1
            limit = time.monotonic() + fetching.connection.patience
            if inside := [record for record in records if record.offset() < part.end]:
                yield Chunk(inside)
        for event in (event for event in found if event.error() is not None):
            if _is_refused(event):
                at = max(at, event.offset() or 0)  # gaps at the end have no records, and are behind us
                first = _first(consumer, part, at)
                if first > at:
                    yield _gone(fetching, part, at, first)
                at = max(at, first)
                _assign(consumer, part, at)
            ended = ended or _ends(fetching, part, at, event)
        if not records and time.monotonic() > limit:
            raise fetching.connection.fail(f"{part.file} cannot be read at offset {at}", consumer.complaint.text)


def _assign(consumer: _Consumer, part: Stretch, at: int) -> None:
    consumer.client.assign([kafka_client().TopicPartition(part.topic, part.partition, at)])


def _is_refused(event: Any) -> bool:
    """Whether the broker has no such offset."""
    code = kafka_client().KafkaError
    return event.error().code() in (code._AUTO_OFFSET_RESET, code.OFFSET_OUT_OF_RANGE)


def _first(consumer: _Consumer, part: Stretch, at: int) -> int:
    """The first record that is there; `at` if the broker does not answer now: it is asked for records again then."""
    kafka = kafka_client()
    try:
        low, end = consumer.client.get_watermark_offsets(kafka.TopicPartition(part.topic, part.partition), A_QUESTION)
    except kafka.KafkaException as error:
        consumer.complaint.text = said(error)
        return at
    consumer.complaint.text = f"its records have the offsets {low} to {end}"
    return int(low)


def _gone(fetching: Fetching, part: Stretch, at: int, first: int) -> Chunk:
    """Records of the part were deleted: an error, or a count."""
    if not fetching.continues:
        raise lost(part.topic, {part.partition: (at, first)})
    return Chunk([], min(first, part.end) - at)


def _ends(fetching: Fetching, part: Stretch, at: int, event: Any) -> bool:
    """Whether an event says that there are no more records of the part; one that says anything worse is raised.

    A broker that has just come up may not know all records yet: then its end lies before ours, and we wait.
    """
    code, error = kafka_client().KafkaError, event.error()
    if error.code() == code._PARTITION_EOF:
        return bool(event.offset() >= part.end)
    passing = (code._TRANSPORT, code._ALL_BROKERS_DOWN, code._TIMED_OUT)
    if _is_refused(event) or error.retriable() or error.code() in passing:
        return False
    raise fetching.connection.fail(f"{part.file} cannot be read at offset {at}", error.str())


def lost(topic: str, gone: Mapping[int, tuple[int, int]]) -> SourceError:
    """The error about records that were deleted before they were read: partition -> next offset, first that exists."""
    many = sum(first - at for at, first in gone.values())
    where = "; ".join(
        f"partition {partition} was to be read from offset {at} and begins at {first}"
        for partition, (at, first) in gone.items()
    )
    return SourceError(
        f"{many:,} record{'s' * (many != 1)} of topic {topic} were deleted before they were read",
        detail=f"{where}.",
        hint='keep records longer (retention.ms), or go on without them: weft.read.kafka(..., on_loss="continue").',
    )
