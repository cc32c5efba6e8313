"""Results as records of a Kafka topic, each exactly once for readers that read committed records.

A batch is one transaction of a producer that is named after the checkpoint and the query.  The same transaction sets
the offsets of a consumer group of that name: they are the marker that says which results are in the topic.  So rows and
marker appear together, or not at all.  A run that begins first takes over the name, which ends what a run before it
left open, and then reads the marker.  Results that it names are not sent again.

The marker names the files of results, not only their batch: a query that is replaced may have other results of the same
batch.  Rejected: a topic for markers, which somebody has to create and to keep; and markers among the rows, which
readers would have to know.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.errors import SinkError
from weft.host.results.changes import Shape
from weft.host.results.kafkarecords import Key, Kind, Record, keys_of, read_place, writer_of
from weft.host.results.kafkawriter import Writer
from weft.host.results.sink import Results, Sink, Takes
from weft.host.sources.kafka.avro import avro_of
from weft.host.sources.kafka.cluster import Topic
from weft.query.grouping import OP

CHANGE = "op"
"""The field that says what happened to a row that has no key."""
ROWS = 50_000
"""Rows that are turned into records at a time."""


class KafkaSink(Sink):
    """A topic that gets every result once."""

    def __init__(
        self,
        query: str,
        schema: pa.Schema,
        servers: str,
        topic: str,
        key: Key = None,
        value: Kind = "json",
        more: Mapping[str, Any] | None = None,
    ) -> None:
        self.query, self.schema = query, schema
        self.place = read_place(query, schema.names, servers, topic, key, value, more or {})
        if value == "avro":
            avro_of(schema, query)  # refuses names that Avro does not have
        self.address = str(self.place)
        self._owner = ""
        self._marker: str | None = None

    def check(self, owner: str, *, published: bool, last: int) -> None:  # noqa: ARG002
        """Refuse a topic that does not exist."""
        Topic(self.place.connection, self.place.topic).partitions()

    def claim(self, owner: str, *, published: bool, last: int) -> None:
        """Note whose results these are: another run of the same checkpoint has the same name."""
        self.check(owner, published=published, last=last)
        self._owner = owner

    def __str__(self) -> str:
        return str(self.place)

    def take(self, results: Results) -> None:
        """Send the results of a batch, unless the marker says that they are there."""
        marker = _digest(results)
        if marker == self._known():
            return
        limit = time.monotonic() + self.place.connection.patience
        try:
            while not self._send(results, marker, limit):
                pass  # the transaction was aborted, and may be tried again
        except BaseException:
            self._marker = None
            self.__dict__.pop(
                "_writer", None
            )  # a producer that has failed sends nothing more; the next run needs another
            raise
        self._marker = marker
        results.on_placed()

    @cached_property
    def _writer(self) -> Writer:
        return Writer(self.place, f"weft-{self._owner}-{self.query}-{self.place.topic}")

    def _known(self) -> str:
        """The marker in the topic; asked for once, since nobody else can change it later."""
        if self._marker is None:
            self._marker = self._writer.marker()
        return self._marker

    def _send(self, results: Results, marker: str, limit: float) -> bool:
        records = (record for path in results.files for record in self._records(pq.ParquetFile(path)))
        try:
            return self._writer.send(records, marker, results.batch, results.on_placed, limit)
        except TimeoutError as error:
            if time.monotonic() > limit:
                hint = "results are safe in the checkpoint; run again when the broker answers."
                raise self.place.connection.fail(f"results cannot be sent {self.place}", f"{error}.", hint) from None
            del self._writer  # another one takes over the name, and ends the open transaction
            return self._writer.marker() == marker

    def _records(self, file: pq.ParquetFile) -> Iterator[Record]:
        write = writer_of(self.place, self.schema, self.query)
        for batch in file.iter_batches(ROWS):
            yield from write(batch)


class KafkaView(KafkaSink):
    """A topic that gets the changes of results that change.

    Results of an aggregate have a key for each group, and a record without value where it leaves.  Joined rows have no
    key of their own: each record says in the field `op` whether a row is added or taken away.
    """

    takes: ClassVar[Takes] = "changes"

    def __init__(
        self,
        query: str,
        shape: Shape,
        servers: str,
        topic: str,
        key: Key = None,
        value: Kind = "json",
        more: Mapping[str, Any] | None = None,
    ) -> None:
        columns = [field for field in shape.schema if field.name in shape.outputs]
        columns += [pa.field(CHANGE, pa.string())] if shape.multiset else []
        super().__init__(query, pa.schema(columns), servers, topic, key, value, more)
        if key is not None and not shape.multiset:
            raise SinkError(
                f'query "{query}" has keys already: its groups',
                detail="each group has one record that counts, the last one with its key.",
                hint="leave key out.",
            )
        self._shape = shape

    def _records(self, file: pq.ParquetFile) -> Iterator[Record]:
        shape, write = self._shape, writer_of(self.place, self.schema, self.query)
        for batch in file.iter_batches(ROWS):
            seen = batch.filter(pc.not_equal(batch.column(OP), "final"))
            if shape.multiset:
                yield from write(seen.append_column(CHANGE, seen.column(OP)))
                continue
            named = pa.RecordBatch.from_arrays([seen.column(name) for name in shape.keys], names=shape.names)
            keys = keys_of(named) if shape.keys else (b"{}" for _ in range(seen.num_rows))
            gone = pc.equal(seen.column(OP), "delete").to_pylist()
            for key, (_, value), left in zip(keys, write(seen), gone, strict=True):
                yield key, None if left else value


def _digest(results: Results) -> str:
    """Names some results: their files have the same names whenever they are published, be some of them gone or not."""
    names = sorted(results.names or (f"{path.parent.name}/{path.name}" for path in results.files))
    return f"batch {results.batch}, {hashlib.blake2b(chr(10).join(names).encode(), digest_size=12).hexdigest()}"
