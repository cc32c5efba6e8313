"""A point of a curve: what a run did between two moments, in one batch or in several that were added up.

What must hold: two neighbouring points can be added, and the sum says of both together what each says of itself.
Counters and seconds are sums, what is kept is that of the later one.  So old points become fewer, never wrong.
Counters of single probes and stores are kept for single batches only: they are many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from weft.observe.counters import Counters, Counts
from weft.observe.progress import Progress
from weft.observe.watermark import Watermark, in_micros
from weft.query.derived import is_hidden

SUMS = ("rows", "late", "untimed", "unreadable", "lost", "results", "load", "waves")
NODES = ("probed", "matched", "stored")
"""Counters of single nodes that a batch keeps."""


@dataclass(frozen=True, slots=True)
class Point:
    """What a run did between two moments of the wall clock, in seconds since 1970."""

    since: float
    until: float
    batch: int
    """The last one."""
    batches: int
    seconds: float
    """In which batches ran."""
    slowest: float
    """Of the batches, in seconds."""
    state_rows: int
    state_bytes: int
    segments: int
    rows: Counts = field(default_factory=dict)
    late: Counts = field(default_factory=dict)
    untimed: Counts = field(default_factory=dict)
    unreadable: Counts = field(default_factory=dict)
    lost: Counts = field(default_factory=dict)
    results: Counts = field(default_factory=dict)
    load: Counts = field(default_factory=dict)
    waves: dict[str, float] = field(default_factory=dict)
    sent: int = 0
    """Rows that workers got from streams; `routed` counts them before copying."""
    routed: int = 0
    moved: int = 0
    """Tuples into and out of all workers."""
    newest: Mapping[str, int] = field(default_factory=dict)
    """Stream -> the newest event time so far, in microseconds."""
    marks: tuple[tuple[int | None, str, int, float, tuple[str, ...]], ...] = ()
    """Watermark in microseconds, the stream that holds it, for how many batches and seconds, and its queries."""
    lag: Counts = field(default_factory=dict)
    """Stream -> records that waited to be read, where that is known."""
    memory: Counts = field(default_factory=dict)
    """Process -> resident bytes on the machine of the driver."""
    workers: int | None = None
    """How many workers the plan had."""
    nodes: Mapping[str, Counts] = field(default_factory=dict)
    """Counter -> node -> count; only for a single batch."""

    def plain(self) -> dict[str, Any]:
        """The point as data for JSON; what is empty is left out."""
        return {name: value for name in _NAMES if (value := getattr(self, name)) or name in _ALWAYS}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Point:
        """A point out of plain data; what a later version added is ignored."""
        known = {name: value for name, value in plain.items() if name in cls.__dataclass_fields__}
        marks = tuple(
            (at, stream, held, long, tuple(names)) for at, stream, held, long, names in plain.get("marks", ())
        )
        return cls(**{**known, "marks": marks})

    def __add__(self, later: Point) -> Point:
        """Both together."""
        sums = {name: _add(getattr(self, name), getattr(later, name)) for name in SUMS}
        return Point(
            self.since, later.until, later.batch, self.batches + later.batches, self.seconds + later.seconds,
            max(self.slowest, later.slowest), later.state_rows, later.state_bytes, later.segments,
            sent=self.sent + later.sent, routed=self.routed + later.routed, moved=self.moved + later.moved,
            newest=later.newest, marks=later.marks, lag=later.lag, workers=later.workers,
            memory=later.memory or self.memory, **sums,
        )  # fmt: skip


_NAMES = [one.name for one in fields(Point)]
_ALWAYS = [one.name for one in fields(Point) if one.default is MISSING and one.default_factory is MISSING]


def see_batch(progress: Progress, since: float, until: float, memory: Counts) -> Point:
    """The point of one batch; `since` is when the one before it ended."""
    counters = progress.counters
    return Point(
        round(since, 3), round(until, 3), progress.batch, 1, round(progress.seconds, 4), round(progress.seconds, 4),
        progress.state_rows, progress.state_bytes, progress.segments,
        _named(counters.rows_in), dict(counters.late), dict(counters.untimed), dict(counters.unreadable),
        dict(counters.lost), _named(counters.results),
        dict(counters.load), {wave: round(spent, 4) for wave, spent in counters.seconds.items()},
        *_moved(counters), _named(progress.newest), _marks(progress.watermarks),
        {stream: sum(waiting.values()) for stream, waiting in progress.lag.items()}, memory, progress.workers,
        {name: dict(getattr(counters, name)) for name in NODES},
    )  # fmt: skip


def _named(counts: Mapping[str, int]) -> Counts:
    """What users have named, without the derived streams and parts of queries that Weft has named."""
    return {name: count for name, count in counts.items() if not is_hidden(name)}


def _moved(counters: Counters) -> tuple[int, int, int]:
    """Rows from streams after and before copying, and all tuples that went into and out of workers (Squall 6)."""
    edges = [node for node in counters.sent if ">" in node]
    sent, routed = sum(counters.sent[node] for node in edges), sum(counters.routed.get(node, 0) for node in edges)
    onwards = sum(count for node, count in counters.routed.items() if ">" not in node)
    return sent, routed, sum(counters.sent.values()) + onwards + sum(counters.results.values())


def _marks(found: Mapping[str, Watermark]) -> tuple[tuple[int | None, str, int, float, tuple[str, ...]], ...]:
    """Watermarks, with the queries that share each."""
    queries: dict[tuple[int | None, str, int, float], list[str]] = {}
    for query, mark in found.items():
        if is_hidden(query):
            continue
        at = None if mark.at is None else in_micros(mark.at)
        queries.setdefault((at, mark.stream, mark.batches, round(mark.seconds, 1)), []).append(query)
    return tuple((*mark, tuple(names)) for mark, names in queries.items())


def _add(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {**one, **{key: one.get(key, 0) + count for key, count in other.items()}}
