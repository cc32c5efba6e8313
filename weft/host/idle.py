"""Idle streams, and idle parts of streams: those that have brought no row for as long as their declaration says.

An idle stream has no part in watermarks, so that rows of others do not wait for it for ever.  When it brings rows again
it takes part again; a watermark never goes back, so rows of it that lie below are late, and are counted.

What must hold: how long a stream was silent is a matter of the clock on the wall, but which streams are idle in a batch
is not.  The manifest of the batch before says so.  A batch that is run again has the same watermarks.  Time in which
nothing runs does not count: a stream may have sent rows that nobody has read yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from weft.host.parts import advance, parts_of
from weft.query.model import Stream
from weft.topology.model import Topology

SECOND = 1_000_000


class Silence:
    """Follows for how long each stream of a run has brought nothing."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._began = now, now()
        self._last: dict[str, float] = {}
        """Stream -> when it last brought rows."""

    def after(
        self,
        streams: Iterable[Stream],
        rows_in: Mapping[str, int],
        idle: Collection[str],
        places: Iterable[str] = (),
        seen: Iterable[str] = (),
    ) -> tuple[str, ...]:
        """The streams and parts that are idle after a batch, given its rows and those that were idle when it began.

        `places` are all parts that ever brought rows, `seen` are those that did in this batch.
        """
        now, woken = self._now(), {*seen, *(name for name, count in rows_in.items() if count)}
        self._last |= dict.fromkeys(woken, now)
        return tuple(sorted({*idle, *self._silent(streams, now, {*places, *seen})} - woken))

    def _silent(self, streams: Iterable[Stream], now: float, places: Iterable[str]) -> Iterator[str]:
        for stream in streams:
            for place in (stream.name, *parts_of(stream.name, places)):
                since = self._last.get(place, self._began)
                if stream.idle is not None and (now - since) * SECOND >= stream.idle:
                    yield place

    def holds(self, plan: Topology, newest: Mapping[str, int], idle: Collection[str]) -> bool:
        """Whether a watermark waits for a stream, or a part of one, that has become idle since the last batch."""
        found = {*idle, *self._silent(plan.streams, self._now(), newest)}
        then = advance(newest, {}, found)
        return len(found) > len(idle) and any(
            clock.watermark(then, found) != clock.watermark(newest, idle) for clock in plan.clocks
        )
