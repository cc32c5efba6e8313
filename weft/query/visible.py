"""What one entry of FROM shows to the SELECT around it, and how equal names of outputs are told apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count

from weft.errors import Span
from weft.expr.model import Expr


@dataclass(frozen=True, slots=True)
class Visible:
    """An alias and its columns, in order; each stands for an expression over streams."""

    alias: str
    columns: Mapping[str, Expr]
    span: Span | None = None
    came: Expr | None = None
    """The batch in which its rows come; None for tables alone."""


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names that differ: the second k is k_1, or the next number that is free, as in DuckDB.

    >>> unique_names(("k", "k_1", "K", "k"))
    ('k', 'k_1', 'K_2', 'k_3')
    """
    found: dict[str, str] = {}
    for name in names:
        free = next(other for other in numbered(name) if other.lower() not in found)
        found[free.lower()] = free
    return tuple(found.values())


def numbered(name: str) -> Iterator[str]:
    """The name, then the name with a number behind it, without end."""
    return chain((name,), (f"{name}_{i}" for i in count(1)))
