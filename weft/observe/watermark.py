"""Watermarks of queries: where they stand, which stream they wait for, and for how long.

The watermark of a query stands where its slowest stream stands (or its fastest, if the session says so): that stream
holds it.  Times are microseconds inside Weft, and are shown as times, whatever the column holds.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from weft.observe.notice import Notice
from weft.topology.clock import Clock

HELD = 40
"""So many batches in which others moved and the watermark did not are worth a notice."""
EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - event times have no zone
Moment = datetime.datetime | int
"""A time; in microseconds if no datetime can hold it."""
_NONE: Mapping[str, int | None] = {}


@dataclass(frozen=True, slots=True)
class Watermark:
    """The watermark of a query after a batch."""

    at: Moment | None
    """None while a stream has brought no row."""
    stream: str
    """The stream that holds it: it moves when this one does."""
    others: tuple[str, ...] = ()
    """The other streams of the query that have event times."""
    batches: int = 0
    """For how many batches it has not moved while others of its streams have."""
    seconds: float = 0.0
    """And for how long."""
    idle: tuple[str, ...] = ()
    """Streams of the query that it does not wait for: they have been silent for long."""

    def __str__(self) -> str:
        stands = f"none: {self.stream} has brought no row" if self.at is None else say_time(self.at)
        long = f"{count_batches(self.batches)}, {self.seconds:,.0f} s"
        stands = f"{stands}, held by {self.stream} for {long}" if self.batches else stands
        return f"{stands}; {', '.join(self.idle)} idle" if self.idle else stands


def read_watermarks(
    clocks: Iterable[Clock],
    newest: Mapping[str, int],
    idle: Collection[str] = (),
    marks: Mapping[str, int | None] = _NONE,
) -> dict[str, Watermark]:
    """Query -> its watermark, given the newest event time of each stream in microseconds, and which streams are idle.

    `marks` are the watermarks by clock, where it is known that they stand higher.
    """
    made = {clock: _read(clock, newest, idle, marks) for clock in clocks if clock.streams}
    return {query: mark for clock, mark in made.items() for query in clock.queries}


def _read(clock: Clock, newest: Mapping[str, int], idle: Collection[str], marks: Mapping[str, int | None]) -> Watermark:
    silent = tuple(name for name, _ in clock.streams if name in idle)
    given = [(name, late) for name, late in clock.streams if name not in silent] or list(clock.streams)
    missing = [name for name, _ in given if name not in newest]
    choose = min if clock.policy == "min" and len(silent) < len(clock.streams) else max
    holds = missing[0] if missing else choose(given, key=lambda one: newest[one[0]] - one[1])[0]
    mark = marks.get(clock.id, clock.watermark(newest, idle))
    others = tuple(name for name, _ in clock.streams if name != holds)
    return Watermark(None if mark is None else as_time(mark), holds, others, idle=silent)


class Holding:
    """Follows the watermarks of a run: how long each has stood still, and when that is worth a notice."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seen: dict[str, tuple[Watermark, float]] = {}
        """Query -> its last watermark, and when it last moved."""
        self._newest: Mapping[str, int] = {}

    def see(
        self, marks: Mapping[str, Watermark], newest: Mapping[str, int]
    ) -> tuple[dict[str, Watermark], tuple[Notice, ...]]:
        """The watermarks after a batch, with how long they have stood still; and notices that are due."""
        moved = {name for name, moment in newest.items() if self._newest.get(name) != moment}
        self._newest = dict(newest)
        found = {query: self._follow(query, mark, moved) for query, mark in marks.items()}
        return found, tuple(self._tell(found, moved))

    def _follow(self, query: str, mark: Watermark, moved: set[str]) -> Watermark:
        now = self._now()
        before, since = self._seen.get(query, (None, now))
        if before is None or (before.at, before.stream) != (mark.at, mark.stream):
            self._seen[query] = mark, now
            return mark
        stood = before.batches + (not moved.isdisjoint(mark.others))
        mark = replace(mark, batches=stood, seconds=now - since)
        self._seen[query] = mark, since
        return mark

    def _tell(self, found: Mapping[str, Watermark], moved: set[str]) -> Iterator[Notice]:
        due = {
            query: mark for query, mark in found.items() if mark.batches == HELD and not moved.isdisjoint(mark.others)
        }
        if due:
            yield _held(*next(iter(due.items())), [*due][1:])


def _held(query: str, mark: Watermark, more: list[str]) -> Notice:
    stand = f"at {say_time(mark.at)}" if mark.at is not None else "back: it has brought no row"
    others = ", ".join(mark.others)
    return Notice(
        "held-watermark",
        f"{mark.stream} holds the watermark of {query} {stand}; {count_batches(mark.batches)}"
        + (f" (also of {', '.join(more)})" if more else ""),
        f"rows of {others} have come meanwhile, for {mark.seconds:,.0f} s; they are kept until {mark.stream} goes on.",
        f"if {mark.stream} is often silent, say after how long others go on without it; if it does not change, "
        "declare it as a table.",
        f's.stream("{mark.stream}", ..., idle="30 seconds"), or static=True',
    )


def as_time(microseconds: int) -> Moment:
    """A time that people read, if there is one."""
    try:
        return EPOCH + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return microseconds


def in_micros(moment: Moment) -> int:
    """A time in microseconds since 1970."""
    return moment if isinstance(moment, int) else (moment - EPOCH) // datetime.timedelta(microseconds=1)


def say_time(moment: Moment) -> str:
    """A time as text; one that no datetime can hold too."""
    if isinstance(moment, datetime.datetime):
        return str(moment)
    import numpy as np  # late: hardly ever needed

    return str(np.datetime64(moment, "us")).replace("T", " ")


def count_batches(count: int) -> str:
    """A number of batches in words."""
    return f"{count:,} batch" + ("" if count == 1 else "es")
