"""Reads one topic at our own pace; a position is an offset for each partition.

The driver asks where partitions end, and decides what a batch reads; tasks read parts of it.  Where a stream begins is
written down when that is first asked: "latest" must not mean something else after a restart.  A partition that is added
later is read from its first record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.errors import SourceError
from weft.host.sources.kafka.cluster import Topic
from weft.host.sources.kafka.fetching import Fetching, lost
from weft.host.sources.kafka.positions import Stretch, advance, as_position, cut, lag, read_position
from weft.host.sources.kafka.records import Rows
from weft.host.sources.source import Piece, Position
from weft.host.state.durable import read_sealed, write_sealed

if TYPE_CHECKING:
    from weft.host.sources.kafka.source import KafkaSource


@dataclass(frozen=True)
class Start:
    """Where a stream begins."""

    topic: str
    offsets: Mapping[str, int]
    number: str = ""
    """What Kafka calls the topic; empty if it was not asked."""


class KafkaReader:
    """The reader of a topic."""

    def __init__(self, source: KafkaSource, rows: Rows, stream: str, folder: str) -> None:
        self._source, self._rows, self._stream = source, rows, stream
        self._note = Path(folder, f"{stream}.start.json")
        self._lows: dict[int, int] = {}
        """Partition -> its first record when it was last asked."""

    def __getstate__(self) -> dict[str, object]:
        """The reader as tasks need it: without connections."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_topic", "_begin")}

    @cached_property
    def _topic(self) -> Topic:
        return Topic(self._source.connection, self._source.topic)

    @cached_property
    def _begin(self) -> Start:
        """Where the stream begins: as it is written down, or as it is found now."""
        if not self._note.exists():
            offsets = self._source.start_offsets(self._topic)
            plain = {str(partition): offset for partition, offset in offsets.items()}
            write_sealed(self._note, asdict(Start(self._source.topic, plain, self._topic.number)))
        return read_sealed(self._note, lambda plain: Start(**plain))

    def beginning(self) -> Position:
        """Where the stream begins."""
        return as_position(read_position(dict(self._begin.offsets)))

    def discover(self) -> Position:
        """Where all partitions end now."""
        partitions = self._topic.partitions()
        if self._begin.number and self._topic.number not in ("", self._begin.number):
            raise self._another_topic("Kafka gave this one another number")
        self._lows = self._topic.earliest(partitions)
        return as_position(self._topic.latest(partitions))

    def end(self, start: Position, known: Position) -> Position:
        """After all records that are known, or after as many as a batch may have."""
        begin, until = read_position(start), read_position(known)
        self._refuse_another_topic(begin, until)
        found = advance({**begin, **self._behind_losses(begin, until)}, until, self._source.max_rows)
        return start if found == begin else as_position(found)

    def pieces(self, start: Position, end: Position) -> list[Piece]:
        """The records between two positions, cut into parts."""
        return [*cut(read_position(start), read_position(end), self._source.topic, self._stream)]

    def check(self, position: Position) -> None:
        """Refuse a position of another kind of source."""
        read_position(position)

    def lag(self, position: Position, known: Position) -> dict[str, int]:
        """Partition -> records that wait."""
        waiting = lag(read_position(position), read_position(known))
        return {str(partition): count for partition, count in waiting.items()}

    def read(self, piece: Piece, columns: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Rows of a part."""
        assert isinstance(piece, Stretch)
        wanted = pa.schema([schema.field(name) for name in columns])
        fetching = Fetching(self._source.connection, self._source.on_loss == "continue")
        return self._rows.read(piece, fetching.chunks(piece), wanted)

    def _refuse_another_topic(self, begin: Mapping[int, int], known: Mapping[int, int]) -> None:
        shrunk = {p: at for p, at in begin.items() if known.get(p, 0) < at}
        for partition, at in shrunk.items():
            ends = f"ends at {known.get(partition, 0)} now"
            raise self._another_topic(f"partition {partition} was read up to offset {at}, and {ends}")

    def _another_topic(self, why: str) -> SourceError:
        return SourceError(
            f"topic {self._source.topic} is not the one that was read before",
            detail=f"{why}.",
            hint="it was created anew, or its records were removed; start again from an empty checkpoint.",
        )

    def _behind_losses(self, begin: Mapping[int, int], until: Mapping[int, int]) -> dict[int, int]:
        """Partition -> its first record that is left, where others before it were deleted before they were read.

        The batch begins where it would, and its tasks count what they do not find.
        """
        found = {
            p: (begin.get(p, 0), low) for p, low in self._lows.items() if begin.get(p, 0) < min(low, until.get(p, 0))
        }
        if found and self._source.on_loss == "fail":
            raise lost(self._source.topic, found)
        return {p: min(low, until[p]) for p, (_, low) in found.items()}
