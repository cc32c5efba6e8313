"""Tuples that wait for others with equal fields: together they are one tuple, which counts as often as they do.

A probe answers each tuple that comes to it, so the fewer there are, the better.  Tuples of a batch wait as long as
folding makes them few; if it does not, they go on.  What must hold: tuples of one origin have all gone on before those
of the next origin begin, since that is what a plan with kept joins relies on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from weft.host.envelope import join
from weft.host.groups.fold import fold, share_left, without_gone
from weft.host.hidden import Frame

MANY = 262_144
"""Tuples that wait at one node, at most."""
SHRINKS = 0.75
"""Folding goes on at a node where it leaves no more than this share of the tuples."""
ESTIMATED = 32_768
"""Of so many tuples it is estimated first how many folding would leave: to fold in vain costs several times as much."""


class Folding:
    """The tuples that wait, by node."""

    def __init__(self) -> None:
        self._frames: dict[str, list[Frame]] = {}
        self._rows: dict[str, int] = defaultdict(int)
        self._useless: set[str] = set()

    def add(self, node: str, frame: Frame) -> Frame | None:
        """Let tuples wait; return those that are to go on now, if there are too many."""
        self._frames.setdefault(node, []).append(frame)
        self._rows[node] += frame.num_rows
        if self._rows[node] < MANY:
            return None
        return self._take(node, again=True)

    def first(self, depth: Mapping[str, int]) -> tuple[str, Frame] | None:
        """The tuples of the first node on the way that has any; they go on now."""
        if not self._frames:
            return None
        node = min(self._frames, key=lambda name: (depth[name], name))
        ready = self._take(node, again=False)
        assert ready is not None
        return node, ready

    def rest(self, node: str) -> Frame | None:
        """The tuples of a node, which go on now."""
        return self._take(node, again=False) if node in self._frames else None

    def _take(self, node: str, *, again: bool) -> Frame | None:
        """Fold what waits at a node.  If that leaves few tuples and more may come (`again`), they go on waiting."""
        frames, before = self._frames.pop(node), self._rows.pop(node)
        if node in self._useless or (before >= ESTIMATED and share_left(frames) > SHRINKS):
            self._useless.add(node)
            return join(frames)
        folded = without_gone(fold(frames))
        if folded.num_rows > SHRINKS * before:
            self._useless.add(node)
        elif again and folded.num_rows < MANY // 2:
            self._frames[node], self._rows[node] = [folded], folded.num_rows
            return None
        return folded
