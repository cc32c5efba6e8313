"""Portions: how many tuples a worker answers at once.

Every look into a store has a price of its own, so tuples wait until there are many.  What they find is in memory, so
too many are cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weft.host.envelope import Frame

PORTION_ROWS = 131_072
"""A full portion has about this many rows, or this many bytes."""
PORTION_BYTES = 64 << 20


def portions(frames: Iterable[Frame]) -> Iterator[Frame]:
    """The frames, cut into portions."""
    for frame in frames:
        step = max(1, int(frame.num_rows / max(1.0, _share(frame))))
        for start in range(0, frame.num_rows, step):
            yield frame.slice(start, step)


class Waiting:
    """Tuples that have come, by node, until they fill a portion."""

    def __init__(self) -> None:
        self._frames: dict[str, list[Frame]] = {}
        self._share: dict[str, float] = {}

    def add(self, node: str, frame: Frame) -> list[Frame] | None:
        """Let tuples wait; return all that wait at the node if they fill a portion."""
        self._frames.setdefault(node, []).append(frame)
        self._share[node] = self._share.get(node, 0.0) + _share(frame)
        return self._take(node) if self._share[node] >= 1.0 else None

    def rest(self) -> Iterator[tuple[str, list[Frame]]]:
        """All that wait, by node."""
        while self._frames:
            node = next(reversed(self._frames))
            yield node, self._take(node)

    def _take(self, node: str) -> list[Frame]:
        del self._share[node]
        return self._frames.pop(node)


def _share(frame: Frame) -> float:
    """The size of the frame as a share of a full portion."""
    return max(frame.num_rows / PORTION_ROWS, frame.nbytes / PORTION_BYTES)
