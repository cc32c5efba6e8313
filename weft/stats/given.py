"""Numbers for statistics as they are given: by hand, by a measurement, or in JSON; checked and put in order."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import TypeVar

from weft.errors import QueryError

Pair = tuple[str, str]
"""Two names, sorted."""
Tops = tuple[tuple[int, float], ...]
"""(Equality code, share of rows), the heaviest first."""
MOST = 1e18
"""The largest number that is accepted: no stream has more rows or bytes, and products of a few stay finite."""
PARTS = ("rows", "rates", "widths", "distinct", "heavy", "quantiles", "selectivities", "predicates")
"""Of statistics, as JSON names them."""
_Name = TypeVar("_Name", str, Pair)
_Value = TypeVar("_Value")


class Table(dict[_Name, _Value]):
    """Names and what is known of them, sorted by name; never changed, so it can be hashed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


def numbers_by_name(kind: str, given: Mapping[str, float] | None, most: float | None = None) -> Table[str, float]:
    """Numbers that make sense, by name."""
    return Table(sorted((name, _number(kind, f'"{name}"', value, most)) for name, value in (given or {}).items()))


def read_tops(name: str, given: Iterable[tuple[int, float]]) -> Tops:
    """Frequent values, the heaviest first."""
    try:
        tops = [(int(code), _number("share", f'"{name}"', share, 1.0)) for code, share in given]
    except (TypeError, ValueError) as error:
        hint = "give pairs (equality code, share of rows), as s.analyze() finds them."
        raise QueryError(f'heavy hitters of "{name}" are {given!r}', hint=hint) from error
    return tuple(sorted(tops, key=lambda top: (-top[1], top[0])))


def ascending(name: str, given: Iterable[float]) -> tuple[float, ...]:
    """Quantiles, which must be in order."""
    values = tuple(given)
    if not all(isinstance(v, int | float) and math.isfinite(v) for v in values) or list(values) != sorted(values):
        raise QueryError(f'quantiles of "{name}" are not numbers in ascending order', hint="s.analyze() finds them.")
    return values


def symmetric(given: Mapping[Pair, float]) -> Table[Pair, float]:
    """Selectivities, the same in both directions."""
    known: dict[Pair, float] = {}
    for (a, b), value in given.items():
        share = _number("selectivity", f'("{a}", "{b}")', value, 1.0)
        if known.setdefault(pair(a, b), share) != share:
            raise QueryError(
                f'two selectivities between "{a}" and "{b}"',
                detail=f"one direction says {known[pair(a, b)]:g}, the other {share:g}; both mean the same join.",
                hint="give one of them.",
            )
    return Table(sorted(known.items()))


def pair(a: str, b: str) -> Pair:
    """Two names, sorted."""
    if a == b:
        raise QueryError(
            f'a selectivity between "{a}" and itself',
            detail="a selectivity belongs to two different aliases.",
            hint="for a self join use its two aliases; for a selection give the selectivity of the predicate.",
        )
    return (a, b) if a < b else (b, a)


def normalized(predicates: Mapping[str, float] | None) -> dict[str, float]:
    """Shares by the text of a predicate, without needless spaces."""
    return {" ".join(text.split()): share for text, share in (predicates or {}).items()}


def _number(kind: str, owner: str, value: object, most: float | None) -> float:
    """A finite number from 0 to `most`."""
    number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    limit = f"from 0 to {MOST if most is None else most:g}"
    if math.isfinite(number) and 0 <= number <= (MOST if most is None else most):
        return number
    raise QueryError(
        f"{kind} of {owner} is {value!r}",
        detail=f"a {kind} is a number {limit}.",
        hint="leave out what is unknown.",
    )


def read_document(text: str) -> dict[str, object]:
    """What the JSON of statistics says."""
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise QueryError(
            "statistics are not JSON", detail=f"{error}.", hint="Statistics.to_json() writes the form that is read."
        ) from error
    document = read_object("statistics", parsed)
    if unknown := sorted(document.keys() - set(PARTS)):
        raise QueryError(
            f'unknown key "{unknown[0]}" in statistics',
            detail=f"unknown: {', '.join(unknown)}.",
            hint=f"the keys are {', '.join(PARTS)}.",
        )
    return document


def read_object(key: str, value: object) -> dict[str, object]:
    """A part of it that has names."""
    if isinstance(value, dict):
        return value
    raise QueryError(
        f'"{key}" is not a JSON object',
        detail=f"it is {value!r}.",
        hint='write names and numbers: {"rows": {"orders": 1500000}}.',
    )


def read_numbers(key: str, value: object) -> dict[str, float]:
    """An object of numbers; whether each number makes sense is checked where it is kept."""
    return read_object(key, value)  # type: ignore[return-value]
