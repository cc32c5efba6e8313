"""Feeds: the streams that Weft reads itself, without Spark's Structured Streaming, cut into micro-batches.

An offset is a position for each stream.  A batch is what lies between two offsets, so a batch that is run again reads
the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from weft.errors import SourceError
from weft.host.sources.files import shares
from weft.host.sources.source import CanLag, CanSkip, Piece, Position, Reader

Offset = Mapping[str, Position]
"""Stream -> how far it has been read; a stream that is missing is at its beginning."""


@dataclass(frozen=True)
class Feed:
    """One stream that is read at our own pace."""

    stream: str
    reader: Reader
    once: bool = False
    """Whether it is a table that does not change: all of it is read in the first batch, and nothing after that."""

    def end(self, start: Position, known: Position) -> Position:
        """Where a batch ends that begins at `start`, if the input known so far ends at `known`."""
        if not self.once:
            return self.reader.end(start, known)
        if start != self.reader.beginning():
            return start
        while (end := self.reader.end(start, known)) != start:
            start = end
        if start == self.reader.beginning():
            raise SourceError(
                f'table "{self.stream}" has nothing to read',
                detail="a table is read once, in the first batch.",
                hint="put its files there before the first run.",
            )
        return start


class Feeds:
    """All streams that are read at our own pace."""

    def __init__(self, feeds: Sequence[Feed]) -> None:
        self.by_stream: Mapping[str, Feed] = {feed.stream: feed for feed in feeds}

    def beginning(self) -> dict[str, Position]:
        """The offset at which nothing has been read."""
        return {stream: feed.reader.beginning() for stream, feed in self.by_stream.items()}

    def discover(self) -> dict[str, Position]:
        """The offset after everything that is there now."""
        return {stream: feed.reader.discover() for stream, feed in self.by_stream.items()}

    def end(self, start: Offset, known: Offset) -> dict[str, Position]:
        """Where a batch ends that begins at `start`, if the input known so far ends at `known`."""
        begin = self._full(start)
        return {name: feed.end(begin[name], known[name]) for name, feed in self.by_stream.items()}

    def only(self, offset: Offset) -> dict[str, Position]:
        """An offset without streams that are not read any more: what was not read must not count as read."""
        return {name: position for name, position in offset.items() if name in self.by_stream}

    def is_empty(self, start: Offset, end: Offset) -> bool:
        """Whether nothing lies between two offsets."""
        return self._full(start) == self._full(end)

    def deal(self, start: Offset, end: Offset, tasks: int) -> list[list[Piece]]:
        """What lies between two offsets, divided among at most so many tasks."""
        begin, until = self._full(start), self._full(end)
        found: list[Piece] = []
        for stream, feed in self.by_stream.items():
            pieces = feed.reader.pieces(begin[stream], until[stream])
            found += [replace(piece, order=order) for order, piece in enumerate(pieces)]
        return shares(found, tasks)

    def skip(self, error: SourceError, start: Offset, end: Offset) -> tuple[str, str] | None:
        """Leave out the file that an error names: its stream and name; None if that is not wanted."""
        begin, until = self._full(start), self._full(end)
        for stream, feed in self.by_stream.items():
            if isinstance(feed.reader, CanSkip) and (file := feed.reader.skip(error, begin[stream], until[stream])):
                return stream, file
        return None

    def skipped(self) -> list[str]:
        """All files that were left out."""
        readers = (feed.reader for feed in self.by_stream.values())
        return [file for reader in readers if isinstance(reader, CanSkip) for file in reader.skipped()]

    def lag(self, offset: Offset, known: Offset) -> dict[str, Mapping[str, int]]:
        """Stream -> partition -> records that wait, for the streams that know it."""
        at = self._full(offset)
        found = ((stream, feed.reader) for stream, feed in self.by_stream.items() if stream in known)
        return {name: reader.lag(at[name], known[name]) for name, reader in found if isinstance(reader, CanLag)}

    def check(self, offset: Offset) -> None:
        """Refuse if it is no longer known which rows were read up to an offset."""
        for stream, position in self._full(offset).items():
            self.by_stream[stream].reader.check(position)

    def _full(self, offset: Offset) -> dict[str, Position]:
        """An offset with a position for every stream."""
        return {name: offset.get(name, feed.reader.beginning()) for name, feed in self.by_stream.items()}
