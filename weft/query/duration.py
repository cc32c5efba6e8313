"""Lengths of time, as users write them, in microseconds."""

from __future__ import annotations

import datetime as dt
import math
import re
from fractions import Fraction

from weft.errors import QueryError

UNITS = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
"""Microseconds in each unit."""

_SHORT = {
    "us": "microsecond", "ms": "millisecond", "s": "second", "sec": "second", "m": "minute", "min": "minute",
    "h": "hour", "hr": "hour", "d": "day", "w": "week",
}  # fmt: skip
_PART = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]+)\s*,?")


def parse_duration(value: str | dt.timedelta | float) -> int:
    """A duration in microseconds: text with units, a timedelta, or a number of seconds.

    >>> parse_duration("10 minutes"), parse_duration("1 hour 30 min"), parse_duration(90)
    (600000000, 5400000000, 90000000)
    """
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1)
    if isinstance(value, str):
        return _parse_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _bad(value, f"it is a {type(value).__name__}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise _bad(value, "it is not a number.")
    return _whole(Fraction(str(value)) * UNITS["second"], value)  # 0.1 means a tenth, not the float next to it


def _parse_text(text: str) -> int:
    total, at = Fraction(0), 0
    while at < len(text.rstrip()):
        part = _PART.match(text, at)
        if part is None:
            raise _bad(text, f"{text[at:].strip()!r} is not a number with a unit.")
        size = unit_size(part[2])
        if size is None:
            raise _bad(text, f"{part[2]!r} is not a unit of fixed length.")
        total += Fraction(part[1]) * size
        at = part.end()
    if at == 0:
        raise _bad(text, "it is empty.")
    return _whole(total, text)


def unit_size(unit: str) -> int | None:
    """Microseconds in one `unit` (singular, plural or short), None if it is unknown or has no fixed length."""
    word = unit.lower()
    word = _SHORT.get(word, word)
    return UNITS.get(word) or UNITS.get(word.removesuffix("s")) or UNITS.get(_SHORT.get(word.removesuffix("s"), ""))


def _whole(microseconds: Fraction, value: object) -> int:
    if microseconds.denominator != 1:
        raise _bad(value, "it is not a whole number of microseconds.")
    return int(microseconds)


def _bad(value: object, why: str) -> QueryError:
    return QueryError(
        f"{value!r} is not a duration",
        detail=why,
        hint=f'write a number and a unit, as in "10 minutes"; units are {", ".join(UNITS)}.',
    )


def format_duration(microseconds: int) -> str:
    """The duration in the largest unit that divides it.

    >>> format_duration(600_000_000), format_duration(1_000_000), format_duration(1500)
    ('10 minutes', '1 second', '1500 microseconds')
    """
    fitting = [(unit, size) for unit, size in UNITS.items() if microseconds % size == 0 and unit != "week"]
    unit, size = fitting[-1] if microseconds else ("second", UNITS["second"])
    count = microseconds // size
    return f"{count} {unit}{'s' * (count != 1)}"
