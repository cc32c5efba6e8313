"""What a source of rows is.

A source knows its columns, says how much data there is, draws a sample and names itself in a checkpoint.  There are two
kinds.  Either Weft reads it "at its own pace": then it opens a `Reader`, and a batch is what lies between two
positions.  Or Spark's Structured Streaming brings the rows: then it has a `frame`, and Spark keeps the positions.

A position is any JSON value: a number of files, or an offset for each partition of a topic.  What must hold: what lies
between two positions is always the same, and a reader can be pickled, since it is sent to the tasks that read.

A new source is a module with a class that extends `Source`, and a line in `weft.read`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeGuard, runtime_checkable

import pyarrow as pa

from weft.errors import SourceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from weft.query.model import Stream
    from weft.stats.sample import Sample

Position: TypeAlias = "bool | int | float | str | list[Position] | dict[str, Position] | None"
"""How far a stream has been read: any JSON value."""


@dataclass(frozen=True)
class Piece:
    """What one task reads at a time: some row groups of a Parquet file, or all of a file."""

    file: str
    groups: tuple[int, ...] | None
    bytes: int
    stream: str = ""
    order: int = field(default=0, kw_only=True)
    """Its place among all that a batch reads of the stream."""
    version: str = field(default="", kw_only=True)
    """Which version of the file was cut, if it was cut into parts: all of them must be of one version."""
    root: str = field(default="", kw_only=True)
    """The folder whose folders say columns of their files; none if it is empty."""


class Reader(Protocol):
    """Reads one stream at our own pace."""

    def beginning(self) -> Position:
        """The position at which nothing has been read."""
        ...

    def discover(self) -> Position:
        """The position after everything that is there now."""
        ...

    def end(self, start: Position, known: Position) -> Position:
        """Where a batch ends that begins at `start`, if the input known so far ends at `known`.

        It is `start` itself if there is nothing new.
        """
        ...

    def pieces(self, start: Position, end: Position) -> list[Piece]:
        """What lies between two positions, in parts that different tasks can read."""
        ...

    def check(self, position: Position) -> None:
        """Refuse if it is no longer known which rows were read up to a position."""
        ...

    def read(self, piece: Piece, columns: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Rows of a part, with the wanted columns only."""
        ...


@runtime_checkable
class CanSkip(Protocol):
    """A reader that can leave out what cannot be read."""

    def skip(self, error: SourceError, start: Position, end: Position) -> str | None:
        """Leave out the file between two positions that an error names, for ever; None if it may not or names none."""
        ...

    def skipped(self) -> Sequence[str]:
        """All files that were left out."""
        ...


@runtime_checkable
class CanLag(Protocol):
    """A reader that knows how many records wait."""

    def lag(self, position: Position, known: Position) -> Mapping[str, int]:
        """Partition -> records between a position and the end that is known."""
        ...


class Whole(Protocol):
    """All rows of a source as they are now, for tables that are read again when they change."""

    def look(self) -> str | None:
        """A text that is another one when the rows have changed; None while there is nothing to read."""
        ...

    def read(self) -> pa.Table:
        """All rows, with the columns of the source.  What is not whole at the moment raises `SourceError`."""
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

    @property
    def timing(self) -> tuple[str, int] | None:
        """Event time and lateness in microseconds, if the source knows them; the user may say something else."""
        return None

    @property
    def in_checkpoint(self) -> bool:
        """Whether rows pass through files of the checkpoint's folder: then a checkpoint at a URL cannot have it."""
        return False

    def skip_bad_files(self) -> Source | None:
        """The same source, which leaves out files that cannot be read; None if it does not read files."""
        return None

    def whole(self) -> Whole | None:
        """Its rows as they are now, which can be read again and again; None if each row is read once."""
        return None

    def size(self) -> float | None:
        """Bytes that are there now, as a hint for planning; None if unknown."""
        return None

    def sample(self, stream: Stream, columns: Sequence[str], most: int, seed: int) -> Sample | None:  # noqa: ARG002
        """At most `most` rows, in the order of the input, with their event times; None if it cannot be sampled."""
        return None

    def describe(self) -> str:
        """The text by which a checkpoint knows the source: a session whose source has another text is refused."""
        return type(self).__name__

    def open(self, stream: str, folder: str) -> Reader:  # noqa: ARG002
        """A reader of the stream, with a folder for its notes.  Called only if the source has no frame."""
        raise SourceError(
            f'source of stream "{stream}" cannot be read',
            detail=f"class {type(self).__name__} defines neither `frame` nor `open`.",
            hint="define one of them in the class of the source.",
        )


def is_source(given: object) -> TypeGuard[Source]:
    """Whether an object has the methods of a source.  Nothing is read to find out."""
    return all(hasattr(type(given), name) for name in ("size", "sample", "describe", "open"))
