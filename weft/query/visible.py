"""What one entry of FROM shows to the SELECT around it, and how equal names of outputs are told apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count

from weft.expr.model import Expr, Span
from weft.query.model import Output


@dataclass(frozen=True, slots=True)
class Visible:
    """An alias and its columns, in order; each stands for an expression over streams."""

    alias: str
    columns: Mapping[str, Expr]
    span: Span | None = None


def make_unique(outputs: Iterable[Output]) -> tuple[Output, ...]:
    """The outputs with names that differ: the second k is k_1, or the next number that is free, as in DuckDB.

    >>> from weft.expr.model import Literal
    >>> [output.name for output in make_unique(Output(name, Literal(1)) for name in ("k", "k_1", "K", "k"))]
    ['k', 'k_1', 'K_2', 'k_3']
    """
    taken: set[str] = set()
    found = []
    for output in outputs:
        name = next(name for name in numbered(output.name) if name.lower() not in taken)
        taken.add(name.lower())
        found.append(replace(output, name=name))
    return tuple(found)


def numbered(name: str) -> Iterator[str]:
    """The name, then the name with a number behind it, without end."""
    return chain((name,), (f"{name}_{i}" for i in count(1)))
