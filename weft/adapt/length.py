"""How long an epoch is: a number of batches, a time on the wall, or a time of events.  It ends between two batches."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Literal as OneOf

from weft.errors import PlanError, WeftError
from weft.query.duration import parse_duration

_BATCHES = re.compile(r"\s*(\d+)\s*batch(es)?\s*")
_EVENTS = re.compile(r"(.*?)\s*of\s+events\s*")


@dataclass(frozen=True, slots=True)
class Length:
    """The length of an epoch."""

    kind: OneOf["batches", "wall", "events"]
    size: int
    """Batches, or microseconds."""

    def is_over(self, batches: int, seconds: float, events: int) -> bool:
        """Whether an epoch is over that has so many batches, seconds on the wall and microseconds of events."""
        return {"batches": batches, "wall": seconds * 1e6, "events": events}[self.kind] >= self.size

    def expect(self, before: int) -> int:
        """At least so many batches an epoch will have, if the last one had so many: times may be half of what they
        were.
        """
        return self.size if self.kind == "batches" else max(1, before // 2)


def read_length(given: str | datetime.timedelta | float) -> Length:
    """The length of an epoch as users write it.

    >>> read_length("20 batches"), read_length("10 seconds").kind, read_length("1 minute of events").kind
    (Length(kind='batches', size=20), 'wall', 'events')
    """
    text = given if isinstance(given, str) else ""
    if found := _BATCHES.fullmatch(text):
        return _positive(Length("batches", int(found[1])), given)
    events = _EVENTS.fullmatch(text)
    try:
        size = parse_duration(events[1] if events else given)
    except WeftError as error:
        raise _refuse(given) from error
    return _positive(Length("events" if events else "wall", size), given)


def _positive(length: Length, given: object) -> Length:
    if length.size <= 0:
        raise _refuse(given)
    return length


def _refuse(given: object) -> PlanError:
    return PlanError(
        f"epoch {given!r} is not understood",
        detail="an epoch is the stretch of a run that statistics are made of.",
        hint='use "10 seconds", "1 minute of events" or "20 batches".',
    )
