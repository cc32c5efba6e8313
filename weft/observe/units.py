"""Event times that are whole numbers, read in a unit that is too small: all of them lie in the first weeks of 1970.

A unit that is too large gives times after the year 9999, which are refused.  These could be real, so they are told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.observe.notice import Notice
from weft.observe.watermark import as_time, say_time

SIZES = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""Microseconds of a unit."""
_PRESENT = range(1_000_000_000_000_000, 4_102_444_800_000_000)
"""September 2001 to 2099, in microseconds."""


class Units:
    """Looks once in a run at the first times of each stream."""

    def __init__(self, units: Mapping[str, str]) -> None:
        self._units = dict(units)

    def see(self, newest: Mapping[str, int]) -> Iterator[Notice]:
        """Notices that are due after a batch, given the newest event time of each stream in microseconds."""
        for stream in [name for name in self._units if name in newest]:
            unit = self._units.pop(stream)
            number = newest[stream] // SIZES[unit]
            fitting = [other for other, size in SIZES.items() if size > SIZES[unit] and number * size in _PRESENT]
            if fitting:
                yield _small(stream, unit, fitting[0], newest[stream], number)


def _small(stream: str, unit: str, fitting: str, newest: int, number: int) -> Notice:
    return Notice(
        "small-unit",
        f'the newest event time of {stream} is {say_time(as_time(newest))}: {number} with unit="{unit}"',
        f'with unit="{fitting}" it is {say_time(as_time(number * SIZES[fitting]))}.',
        f'if that is the right time, stop, declare unit="{fitting}", and start again from an empty checkpoint: '
        "windows, latenesses and results were made with the other times.",
        f's.stream("{stream}", ..., unit="{fitting}")',
    )
