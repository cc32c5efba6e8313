"""Stage "chosen": the plan of each query, as a tree and as the order in which its tuples probe stores."""

from __future__ import annotations

from dataclasses import dataclass

from weft.explain.pages.figure import Figure
from weft.explain.pages.sharing import TogetherFacts
from weft.observe.notice import Notice


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A relation, an intermediate result, or the result at the root."""

    kind: str
    aliases: tuple[str, ...]
    stream: str | None
    placement: tuple[str, ...]
    """Rows lie on the worker that owns these values; none means anywhere."""
    workers: int | None
    rows: Figure
    children: tuple[TreeNode, ...]
    spread: str | None = None
    """Where copies of rows lie, instead of a placement."""


@dataclass(frozen=True, slots=True)
class HopFacts:
    """A probe or a keep on the way of new tuples."""

    kind: str
    target: tuple[str, ...]
    """Aliases of the store."""
    wave: int
    route: str
    route_key: tuple[str, ...]
    workers: int
    tuples_in: Figure
    """Copies counted."""
    matches: Figure | None
    """None for a keep."""


@dataclass(frozen=True, slots=True)
class ProbeOrder:
    """What new tuples of an alias do, in order."""

    alias: str
    hops: tuple[HopFacts, ...]
    fills: tuple[str, ...] = ()
    """Aliases of the kept join that this order only fills; none for the way to the results."""


@dataclass(frozen=True, slots=True)
class ChosenPlan:
    """The plan of a query."""

    query: str
    plan: str
    shape: str
    counted: str
    tree: TreeNode
    orders: tuple[ProbeOrder, ...]
    input_rows: Figure
    tuples_sent: float | None
    tuples_exchanged: float | None
    rows_stored: float | None
    waves: int
    micros_an_input_row: float | None


@dataclass(frozen=True, slots=True)
class ChosenPage:
    """Stage "chosen"."""

    stage: str
    workers: int
    batches_measured: int | None
    queries: tuple[ChosenPlan, ...]
    notices: tuple[Notice, ...]
    together: TogetherFacts | None = None
    """None where every query was planned alone."""
