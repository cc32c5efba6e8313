"""A topic of Kafka as the source of a stream."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from typing import Literal as OneOf

import pyarrow as pa

from weft.errors import SourceError
from weft.host.sources.kafka.avro import Avro, columns_of, read_avro_schema
from weft.host.sources.kafka.cluster import Connection, Topic
from weft.host.sources.kafka.declared import read_declared
from weft.host.sources.kafka.reader import KafkaReader
from weft.host.sources.kafka.records import EXTRA, TEXT_KEY, Rows
from weft.host.sources.kafka.registry import Registry
from weft.host.sources.kafka.sifting import Policy
from weft.host.sources.kafka.values import VALUE, Csv, Format, Json, Kind, Plain
from weft.host.sources.source import Source
from weft.host.url import read_url
from weft.query.duration import parse_duration

if TYPE_CHECKING:
    from weft.query.model import Stream
    from weft.stats.sample import Sample

KeyKind = OneOf["json", "string", "bytes", "none"]
Start = str | Mapping[int, int] | datetime.datetime
KINDS: tuple[Kind, ...] = ("json", "avro", "csv", "string", "bytes")
KEYS: tuple[KeyKind, ...] = ("json", "string", "bytes", "none")


@dataclass(frozen=True)
class KafkaSource(Source):
    """Records of a topic, each read once."""

    connection: Connection
    topic: str
    value: Kind
    declared: pa.Schema
    """The columns that values hold."""
    keys: pa.Schema
    """The columns that keys hold; none if keys are no JSON."""
    extra: pa.Schema
    """What Kafka says of each record."""
    start: Start = "earliest"
    max_rows: int | None = 1_000_000
    """At most this many records per batch; None is no limit."""
    bad: Policy = "fail"
    bad_folder: str | None = None
    on_loss: OneOf["fail", "continue"] = "fail"
    avro: Avro | None = None
    """How Avro values are read."""

    @cached_property
    def schema(self) -> pa.Schema:
        """The declared columns, then those of the key, then what Kafka says."""
        return pa.schema([*self.declared, *self.keys, *self.extra])

    def describe(self) -> str:
        """Brokers come and go, and options hold secrets: a topic is known by its name."""
        return f"kafka topic {self.topic}, {self.value}"

    @property
    def in_checkpoint(self) -> bool:
        """Whether records that cannot be read are kept in the checkpoint."""
        return self.bad == "sink" and not self.bad_folder

    def size(self) -> float | None:
        """Unknown before it is read: asking takes a broker, and planning must not."""
        return None

    def open(self, stream: str, folder: str) -> KafkaReader:
        """A reader of the topic."""
        bad_folder = self.bad_folder or os.path.join(folder, f"{stream}.bad")
        names = frozenset(self.keys.names)
        rows = Rows(self._format(), Json() if names else None, names, self.bad, bad_folder)
        return KafkaReader(self, rows, stream, folder)

    def sample(self, stream: Stream, columns: Sequence[str], most: int, seed: int) -> Sample:
        """Records of stretches that are spread over all partitions."""
        from weft.host.sources.kafka.sampled import draw  # late: tasks that read need no sampling

        return draw(self, stream, columns, most, seed)

    def start_offsets(self, topic: Topic) -> dict[int, int]:
        """Partition -> where a stream begins that has read nothing."""
        partitions = topic.partitions()
        if self.start == "latest":
            return topic.latest(partitions)
        if isinstance(self.start, datetime.datetime):
            moment = self.start if self.start.tzinfo else self.start.replace(tzinfo=datetime.UTC)
            return topic.at(max(0, round(moment.timestamp() * 1000)), partitions)
        given = self.start if isinstance(self.start, Mapping) else {}
        if unknown := {*given} - {*partitions}:
            raise SourceError(
                f"topic {self.topic} has no partition {min(unknown)}",
                detail=f"its partitions are {', '.join(map(str, partitions))}.",
                hint="name partitions that exist in start={partition: offset}.",
            )
        ends = topic.latest([*given])
        for partition, offset in given.items():
            if not 0 <= offset <= ends[partition]:
                raise SourceError(
                    f"partition {partition} of topic {self.topic} has no offset {offset}",
                    detail=f"its next record gets offset {ends[partition]}.",
                    hint='name an offset that exists, or begin with what comes: start="latest".',
                )
        return topic.earliest(partitions) | dict(given)

    def _format(self) -> Format:
        if self.avro is not None:
            return self.avro
        if self.value == "csv":
            return Csv(tuple(self.declared.names))
        return Json() if self.value == "json" else Plain()


def kafka(
    servers: str,
    topic: str,
    *,
    value: Kind = "json",
    schema: object = None,
    key: KeyKind = "string",
    key_schema: object = None,
    columns: Sequence[str] = (),
    start: Start = "earliest",
    max_rows: int | None = 1_000_000,
    bad: Policy = "fail",
    bad_folder: str | os.PathLike[str] | None = None,
    on_loss: OneOf["fail", "continue"] = "fail",
    registry: str | None = None,
    patience: str | float = "1 minute",
    options: Mapping[str, Any] | None = None,
) -> KafkaSource:
    """Records of a topic, at most `max_rows` per batch; a run finds new ones as they arrive.

    `value` says how values are read: "json", "avro", "csv", "string" or "bytes".  `schema` names the columns of JSON
    and CSV with their types; for Avro it is the schema that values were written by, unless a `registry` has it.
    `key="json"` reads columns from keys too, those of `key_schema`.  `columns` adds what Kafka says of a record:
    "#timestamp", "#partition", "#offset", "#key", "#headers", "#change".  `start` is "earliest", "latest", a time, or
    offsets by partition.  `bad` says what happens to a record that cannot be read: the run fails, or goes on without
    it, or keeps it in `bad_folder`.  `on_loss` says what happens if records were deleted before they were read.
    `options` go to librdkafka as they are; they are never shown or written.
    """
    _choose("value", value, KINDS)
    _choose("key", key, KEYS)
    _choose("bad", bad, ("fail", "skip", "sink"))
    _choose("on_loss", on_loss, ("fail", "continue"))
    avro, schema = _read_avro(topic, schema, registry) if value == "avro" else (None, schema)
    connection = Connection(servers, dict(options or {}), parse_duration(patience) / 1_000_000)
    return KafkaSource(
        connection, _check_topic(topic), value, _read_columns(topic, value, schema), _read_keys(key, key_schema),
        _read_extra(columns, key), _read_start(start), _check_rows(max_rows), bad,
        None if bad_folder is None else _check_folder(bad_folder), on_loss, avro,
    )  # fmt: skip


def _check_folder(folder: str | os.PathLike[str]) -> str:
    if read_url(folder) is not None:
        raise SourceError(
            "bad_folder is at a URL",
            detail="bad records are written by the tasks that read them, to files.",
            hint='name a folder that all executors see; or leave bad records out with bad="skip", which counts them.',
        )
    return os.path.abspath(folder)


def _choose(name: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise SourceError(f"{name} is {given!r}", hint=f"use one of: {', '.join(known)}.")


def _check_topic(topic: str) -> str:
    if not isinstance(topic, str) or not topic:
        raise SourceError(f"the topic is {topic!r}", hint="name one topic; declare a stream for each topic.")
    return topic


def _check_rows(most: int | None) -> int | None:
    if most is not None and (not isinstance(most, int) or most < 1):
        raise SourceError(f"max_rows is {most!r}", hint="use a positive number, or None for no limit.")
    return most


def _read_columns(topic: str, value: Kind, given: object) -> pa.Schema:
    if value in ("json", "csv", "avro"):
        declared = read_declared(given, f"topic {topic}")
        return _check_json(declared) if value == "json" else declared
    if given is not None:
        raise SourceError(
            f"values of kind {value!r} have one column", hint=f'leave schema out; the column is "{VALUE}".'
        )
    return pa.schema([(VALUE, pa.string() if value == "string" else pa.binary())])


def _check_json(columns: pa.Schema) -> pa.Schema:
    """Refuse columns that no JSON value can fill."""
    for field in columns:
        try:
            Json().read([b"{}"], pa.schema([field]))
        except pa.ArrowNotImplementedError:
            hint = "leave it out; fields that are not declared are ignored."
            raise SourceError(f'column "{field.name}" of type {field.type} is not read from JSON', hint=hint) from None
    return columns


def _read_avro(topic: str, given: object, registry: str | None) -> tuple[Avro, object]:
    """How values are read, and their columns: all fields, unless only some are declared."""
    known = None if registry is None else Registry(registry)
    written = read_avro_schema(given)
    if known is None and written is None:
        raise SourceError(
            f"the Avro schema of topic {topic} is not given",
            detail="an Avro value does not say which fields it has.",
            hint='pass schema={"type": "record", ...}, or the address of a registry: registry="http://host:8081".',
        )
    if given is None and known is not None:
        written = known.latest(f"{topic}-value")
    return Avro(written, known), given if written is None else columns_of(written)


def _read_keys(key: KeyKind, given: object) -> pa.Schema:
    if key == "json":
        return _check_json(read_declared(given, "the key"))
    if given is not None:
        raise SourceError(f'key is "{key}", and key_schema is given', hint='columns are read from JSON: key="json".')
    return pa.schema([])


def _read_extra(columns: Sequence[str], key: KeyKind) -> pa.Schema:
    wanted = [columns] if isinstance(columns, str) else list(columns)
    for name in wanted:
        if name not in EXTRA or (name == TEXT_KEY and key == "none"):
            raise SourceError(f'Kafka has no column "{name}"', hint=f"use some of: {', '.join(EXTRA)}.")
    kinds = {**EXTRA, TEXT_KEY: pa.binary() if key == "bytes" else pa.string()}
    return pa.schema([(name, kinds[name]) for name in wanted])


def _read_start(start: Start) -> Start:
    if isinstance(start, datetime.datetime) or start in ("earliest", "latest"):
        return start
    try:
        if isinstance(start, Mapping):
            return {int(partition): int(offset) for partition, offset in start.items()}
        return datetime.datetime.fromisoformat(start)
    except (TypeError, ValueError):
        hint = 'use "earliest", "latest", a time such as "2026-01-01T00:00:00", or {partition: offset}.'
        raise SourceError(f"start is {start!r}", hint=hint) from None
