"""What workers must know of one micro-batch, and what they tell the driver about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from weft.host.crash import CrashPoint
from weft.host.state.segment import Segment, SegmentRef
from weft.observe.counters import Counters
from weft.stats.least import read_least
from weft.stats.sketch import merge_sketches
from weft.topology.store import Store

Watermarks = Mapping[str, int | None]
"""Clock id -> the event time below which rows are late; None while there is none."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The state of the world when a micro-batch begins: what manifest N-1 says."""

    number: int
    watermarks: Watermarks
    """Rows below these are late."""
    live: Mapping[int, tuple[SegmentRef, ...]]
    """Worker -> segments of earlier batches."""
    run: str = ""
    """Part of the names of all files of this run, so that a worker left over from a killed run cannot touch them."""
    crash: CrashPoint | None = None
    level: int | None = None
    """None in a batch.  In a migration, how often the rows that are moved were merged before: they keep their tier."""
    job: str = ""
    """Names a job of a migration; empty in a batch."""
    before: Watermarks = field(default_factory=dict)
    """The watermarks when the batch before this one began: windows that have closed since are final now."""
    barrier: int | None = None
    """Rows up to this batch and later ones are not merged with each other: a migration reads them apart."""
    now: int = 0
    """When the batch began, in microseconds since 1970; the same if it is run again."""
    sample: int = 0
    """Rows that each task draws of a stream, for statistics."""

    def marks_for(self, store: Store) -> Watermarks:
        """The watermarks that say which rows of a store are gone: groups stay until their final rows were given out."""
        return self.before if store.counted == "groups" else self.watermarks


class State(Protocol):
    """Where segments live."""

    fetched: int
    """How many were got from elsewhere, since there was no copy."""

    def write(self, name: str, segment: Segment, halfway: Callable[[], None]) -> tuple[int, str]:
        """Keep a segment; return its length in bytes and its checksum."""

    def open(self, ref: SegmentRef) -> Segment:
        """Get a segment back."""

    def settle(self) -> None:
        """Wait until everything written is safe on disk."""

    def note(self, batch: int, worker: int, wave: int, refs: Iterable[SegmentRef]) -> None:
        """Remember which segments the worker has made in this batch up to this wave, for its later waves."""

    def recall(self, batch: int, worker: int, wave: int) -> tuple[SegmentRef, ...]:
        """The segments that `note` remembered."""


class ResultWriter(Protocol):
    """Takes the results of one worker in one wave."""

    def write(self, query: str, rows: pa.RecordBatch) -> None:
        """Take some result rows."""

    def close(self) -> list[dict[str, Any]]:
        """Finish, and return what the driver must know to publish the results."""


@dataclass(frozen=True, slots=True)
class Report(Counters):
    """What one task counted, and what the driver must act on; the driver merges those of all tasks."""

    newest: dict[str, int] = field(default_factory=dict)
    """Stream -> newest event time, a maximum."""
    sketches: dict[str, Any] = field(default_factory=dict)
    """Join key -> its frequent values and its number of distinct values, see weft.host.watch."""
    samples: dict[str, list[Any]] = field(default_factory=dict)
    """Stream -> rows drawn of it, see weft.stats.drawn."""
    least: dict[str, Any] = field(default_factory=dict)
    """Join key -> the rows of some of its values, see weft.stats.least."""
    files: list[dict[str, Any]] = field(default_factory=list)
    """Result files."""
    added: list[dict[str, Any]] = field(default_factory=list)
    """Segments that are live after this batch and were not live before it."""
    removed: list[str] = field(default_factory=list)
    """Segments that were merged away."""

    def merge(self, other: Mapping[str, Any]) -> None:
        """Add the report of another task, as plain data."""
        Counters.merge(self, other)
        for key, value in other.get("newest", {}).items():
            self.newest[key] = max(value, self.newest.get(key, value))
        if found := other.get("sketches"):
            self.sketches.update(merge_sketches(self.sketches, found))
        self.merge_least(other.get("least", {}))
        for stream, drawn in other.get("samples", {}).items():
            self.samples.setdefault(stream, []).extend(drawn)
        for name in _LISTS:
            getattr(self, name).extend(other.get(name, []))

    def merge_least(self, other: Mapping[str, Any]) -> None:
        """Add the rows of some values that another task has seen."""
        for key, found in other.items():
            known = self.least.get(key)
            self.least[key] = found if known is None else read_least(known).merge(read_least(found)).plain()

    def plain(self) -> dict[str, Any]:
        """Everything that is not empty, as plain data."""
        own = {name: value for name in (*_NAMED, *_LISTS) if (value := getattr(self, name))}
        return Counters.plain(self) | own


_NAMED = ("newest", "sketches", "samples", "least")
_LISTS = ("files", "added", "removed")
