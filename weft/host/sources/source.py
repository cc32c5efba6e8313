"""What a source of rows is.

A source knows its columns, says how much lies there, draws a sample and names itself in a checkpoint.  Its rows come
in one of two ways.  Either it is read at our own pace: then it opens a `Reader`, and a batch is what lies between two
positions.  Or Spark brings it: then it has a `frame`, and Spark keeps the positions.

A position is any JSON value: a number of files, or an offset for each partition of a topic.  What must hold: what lies
between two positions is the same whenever it is read, and a reader can be pickled, to be sent to the tasks that read.

A new source is a module with a class that extends `Source`, and a line in `weft.read`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeGuard

import pyarrow as pa

from weft.errors import SourceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from weft.query.model import Stream
    from weft.stats.analyze import Sample

Position: TypeAlias = "bool | int | float | str | list[Position] | dict[str, Position] | None"
"""How far a stream has been read: any JSON value."""


@dataclass(frozen=True)
class Piece:
    """What one task reads at a time: some row groups of a Parquet file, or all of a file."""

    file: str
    groups: tuple[int, ...] | None
    bytes: int
    stream: str = ""


class Reader(Protocol):
    """Reads one stream at our own pace."""

    def beginning(self) -> Position:
        """Nothing has been read."""
        ...

    def discover(self) -> Position:
        """Everything that is there now."""
        ...

    def end(self, start: Position, known: Position) -> Position:
        """Where a batch ends that begins at `start`, if `known` is there; `start` itself if there is nothing new."""
        ...

    def pieces(self, start: Position, end: Position) -> list[Piece]:
        """What lies between two positions, as parts that different tasks can read."""
        ...

    def check(self, position: Position) -> None:
        """Refuse if it is no longer known what was read up to a position."""
        ...

    def read(self, piece: Piece, columns: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Rows of a part, only the wanted columns."""
        ...


class Source(Protocol):
    """Where the rows of a stream come from."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns, with types that Weft works with."""
        ...

    @property
    def frame(self) -> DataFrame | None:
        """The streaming DataFrame that brings the rows; None if they are read at our own pace."""
        return None

    def size(self) -> float | None:
        """Bytes that lie there now, as a hint for planning; None if unknown."""
        return None

    def sample(self, stream: Stream, columns: Sequence[str], most: int, seed: int) -> Sample | None:  # noqa: ARG002
        """At most `most` rows, in feed order, with their event times; None if it cannot be sampled."""
        return None

    def describe(self) -> str:
        """What a checkpoint knows it by: a session whose source says something else is refused."""
        return type(self).__name__

    def open(self, stream: str, folder: str) -> Reader:  # noqa: ARG002
        """How the stream is read at our own pace, with a folder for notes; asked only of a source without a frame."""
        raise SourceError(
            f'source of stream "{stream}" cannot be read',
            detail=f"a {type(self).__name__} has no frame, and opens no reader.",
            hint="let the class of the source define `open`, or `frame`.",
        )


def is_source(given: object) -> TypeGuard[Source]:
    """Whether an object answers what a source is asked; nothing is read to find out."""
    return all(hasattr(type(given), name) for name in ("size", "sample", "describe", "open"))
