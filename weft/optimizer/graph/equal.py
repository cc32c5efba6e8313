"""Classes of values that pairs make equal: union-find.

What must hold: when a pair joins two classes, the class of its first member leads.  Members stand in the order in which
pairs name them.  Names of attributes come from leaders, so plans depend on both.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def lead_classes(pairs: Iterable[tuple[T, T]]) -> dict[T, T]:
    """Member -> the leader of its class."""
    numbers: dict[T, int] = {}  # members are expressions: comparing numbers spares comparing trees
    above: list[int] = []
    for pair in pairs:
        keep, gone = (numbers.setdefault(member, len(numbers)) for member in pair)
        above += range(len(above), len(numbers))
        above[_top(above, gone)] = _top(above, keep)
    members = [*numbers]
    return {member: members[_top(above, number)] for member, number in numbers.items()}


def _top(above: list[int], number: int) -> int:
    while above[number] != number:
        number = above[number]
    return number
