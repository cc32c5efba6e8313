"""What the batches of one epoch show: counters, state, times, and rows drawn of each stream.

What must hold: memory is bounded, however long the epoch and however fast the streams are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.observe.counters import Counters
from weft.stats.drawn import ROWS, Drawn
from weft.stats.least import LeastValues, read_least


@dataclass(frozen=True, slots=True)
class Seen:
    """One committed batch, as far as statistics need it."""

    batch: int
    seconds: float
    counters: Counters
    held: Mapping[str, int]
    """Store -> rows it holds."""
    bytes: int
    """Of the whole state."""
    newest: Mapping[str, int]
    """Stream -> the newest event time so far."""
    total: Mapping[str, int]
    """Stream -> rows of all batches so far."""
    samples: Mapping[str, Any] = field(default_factory=dict)
    least: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Gathering:
    """The batches of an epoch so far."""

    number: int
    first: int
    """Its first batch."""
    began: float
    """On the wall."""
    since: Mapping[str, int] = field(default_factory=dict)
    """Stream -> its newest event time when the epoch began."""
    counters: Counters = field(default_factory=Counters)
    batches: int = 0
    seconds: float = 0.0
    """In batches."""
    last: Seen | None = None
    drawn: dict[str, Drawn] = field(default_factory=dict)
    least: dict[str, LeastValues] = field(default_factory=dict)
    """Join key -> the rows of some of its values."""
    _held: dict[str, int] = field(default_factory=dict)
    _first: dict[str, int] = field(default_factory=dict)
    """Stream -> its newest event time after the first batch of the epoch in which it was known."""

    def add(self, seen: Seen) -> None:
        """Add a batch."""
        self.counters = Counters.total([self.counters, seen.counters])
        self.batches, self.seconds, self.last = self.batches + 1, self.seconds + seen.seconds, seen
        for store, rows in seen.held.items():
            self._held[store] = self._held.get(store, 0) + rows
        self._first = {**seen.newest, **self._first}
        for stream, found in seen.samples.items():
            self.drawn.setdefault(stream, Drawn(ROWS)).add(found)
        for key, found in seen.least.items():
            self.least[key] = self.least.get(key, LeastValues()).merge(read_least(found))

    @property
    def end(self) -> int:
        """The batch after the last one; those that an earlier run saw are among them."""
        return self.first if self.last is None else self.last.batch + 1

    @property
    def rows(self) -> int:
        """Rows that came."""
        return sum(self.counters.rows_in.values())

    @property
    def micros(self) -> float | None:
        """Microseconds of batches for each row that came; None if none did."""
        return self.seconds / self.rows * 1e6 if self.rows else None

    @property
    def work(self) -> float:
        """Seconds that workers were busy, added up over all."""
        return sum(self.counters.seconds.values())

    @property
    def newest(self) -> Mapping[str, int]:
        """Stream -> its newest event time."""
        return self.since if self.last is None else self.last.newest

    @property
    def spans(self) -> dict[str, int]:
        """Stream -> microseconds of event time by which it has moved."""
        return {stream: self.newest[stream] - moment for stream, moment in self.since.items()}

    @property
    def events(self) -> int:
        """Microseconds of event time that have passed; of a stream that is new, since its first batch."""
        began = {**self._first, **self.since}
        return max((moment - began[stream] for stream, moment in self.newest.items()), default=0)

    def stored(self, store: str) -> float:
        """Rows that a batch stored, on average."""
        return self.counters.stored.get(store, 0) / self.batches if self.batches else 0.0

    def held(self, store: str) -> float:
        """Rows that a store held after a batch, on average."""
        return self._held.get(store, 0) / self.batches if self.batches else 0.0
