"""Positions in a topic: for each partition the offset of the next record.

What must hold: where a batch ends follows from where it begins and what is known; how it is cut into parts follows from
where it begins and ends.  So a batch that is run again has the same parts.  A partition that a position does not name
is at its first offset, 0.

A batch of limited size takes from each partition in proportion to what waits there: partitions that are equally far
behind stay together, and so do their event times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from weft.errors import StateError
from weft.host.sources.source import Piece, Position

Offsets = Mapping[int, int]
"""Partition -> offset of the next record."""
SMALLEST, PARTS = 20_000, 8
"""A part has at least so many offsets, and a batch at most about so many parts besides one for each partition."""
RECORD = 128
"""Assumed bytes of a record: tells parts of topics from parts of files."""


@dataclass(frozen=True, kw_only=True)
class Stretch(Piece):
    """Records of one partition: from one offset to before another."""

    topic: str
    partition: int
    start: int
    end: int


def read_position(position: Position) -> dict[int, int]:
    """The offsets that a position of a checkpoint says."""
    if isinstance(position, dict) and all(isinstance(offset, int) for offset in position.values()):
        return {int(partition): int(offset) for partition, offset in position.items()}  # type: ignore[arg-type]
    raise StateError(
        f"{position!r} is not a position in a topic",
        detail="the checkpoint was made for another kind of source.",
        hint="read from the same source as before, or start again from an empty checkpoint.",
    )


def as_position(offsets: Offsets) -> Position:
    """Offsets as a checkpoint keeps them."""
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def advance(start: Offsets, known: Offsets, most: int | None) -> Offsets:
    """Where a batch ends that begins at `start` and has at most `most` records; `start` itself if nothing waits."""
    waiting = {partition: end - start.get(partition, 0) for partition, end in known.items()}
    waiting = {partition: count for partition, count in waiting.items() if count > 0}
    total = sum(waiting.values())
    if not total:
        return start
    if most is not None and total > most:
        waiting = {partition: max(1, count * most // total) for partition, count in waiting.items()}
    partitions = {*start, *known}
    return {partition: start.get(partition, 0) + waiting.get(partition, 0) for partition in partitions}


def lag(position: Offsets, known: Offsets) -> dict[int, int]:
    """Partition -> records that wait."""
    return {partition: max(0, end - position.get(partition, 0)) for partition, end in sorted(known.items())}


def cut(start: Offsets, end: Offsets, topic: str, stream: str) -> list[Stretch]:
    """What lies between two positions, in parts that different tasks can read."""
    total = sum(max(0, until - start.get(partition, 0)) for partition, until in end.items())
    longest = max(SMALLEST, -(-total // PARTS))
    return [
        Stretch(
            file=f"topic {topic}, partition {partition}", groups=(first,), bytes=RECORD * (last - first), stream=stream,
            topic=topic, partition=partition, start=first, end=last,
        )
        for partition, until in sorted(end.items())
        for first, last in _steps(start.get(partition, 0), until, longest)
    ]  # fmt: skip


def _steps(start: int, end: int, longest: int) -> Iterator[tuple[int, int]]:
    """Parts of nearly the same length."""
    parts = -(-(end - start) // longest)
    edges = [start + (end - start) * at // parts for at in range(parts + 1)] if parts > 0 else []
    yield from pairwise(edges)
