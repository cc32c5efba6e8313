"""Nodes: what tuples pass on their way.  A probe looks into a store, a keep fills one, an emit gives results out.

All have an id, users, a position, a wave, a route, and the fields that they need of a tuple.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

import pyarrow as pa

from weft.expr.model import Expr
from weft.query.grouping import Grouping
from weft.query.model import Output
from weft.topology.matching import Matching, Sieve
from weft.topology.measures import parts, travelling_name

ROWS = ""
"""The origin of all rows of a stream."""
FIRST = -1
"""Position of what is handled before all probes."""
SHOWN = "#s"
"""Beginning of the names of columns that hold what a group has shown."""

Route = OneOf["local", "key", "broadcast", "scatter", "spread"]
"""How tuples travel: stay, to the owner of their key, to every worker, to any one worker, as a spread says."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of a relation's rows that travels with them, instead of the columns that it is worked out of."""

    name: str
    """The hidden column."""
    number: str
    """What it is, see weft.topology.measures."""
    expr: Expr
    """The argument, over the fields of the relation."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range, computed from the probing tuple."""

    expr: Expr
    strict: bool
    loose: bool = False
    """Whether it admits more than the predicate, which is then checked again; a NaN bound then admits everything."""
    dimension: int = 0
    """Which of the ranges of the index it limits."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One look into a store."""

    id: str
    users: tuple[str, ...]
    """Queries whose tuples look here."""
    origin: str
    """Label of the relation where the probing tuples began."""
    position: int
    """Place of the origin in the order of labels."""
    members: tuple[str, ...]
    """Labels of the relations whose tuples are found here; more than one in an intermediate store."""
    store: str
    wave: int
    """The wave in which workers run it; tuples that arrive earlier wait."""
    route: Route
    route_key: tuple[Expr, ...]
    """Values of the probing tuple that name the worker, for route "key"."""
    tasks: int
    """Among how many workers the tuples are routed."""
    sees: tuple[str, ...]
    """Origins of those rows of the same micro-batch that are visible."""
    index: int
    """Which of the store's indexes is used."""
    equal: tuple[Expr, ...]
    """Values of the probing tuple, one per equality column of the index."""
    low: tuple[Bound, ...]
    high: tuple[Bound, ...]
    residual: tuple[Expr, ...]
    """What the index does not decide by itself and must be checked on each candidate pair."""
    fields: tuple[str, ...]
    """Fields of the probing tuple that are read here or live on."""
    carry: tuple[str, ...]
    """Fields that live on after this step."""
    then: tuple[str, ...]
    """Ids of what comes next: probes, keeps, emits."""
    measures: tuple[Measure, ...] = ()
    """Numbers of the rows that are found here."""
    folds: bool = False
    """Whether tuples with equal fields become one before they look: all users add their results up."""
    sieve: Sieve | None = None
    """Which tuples need not look, since nobody wants what they would find; None if all do."""

    @property
    def gathers(self) -> bool:
        """Whether tuples wait for others before they go on."""
        return self.folds


@dataclass(frozen=True, slots=True)
class Keep:
    """Joined tuples go into an intermediate store here."""

    id: str
    users: tuple[str, ...]
    origin: str
    store: str
    wave: int
    """The wave in which they are stored."""
    route: Route
    route_key: tuple[Expr, ...]
    tasks: int
    fields: tuple[str, ...]
    """Fields that the store needs."""

    @property
    def position(self) -> int:
        """Rows are stored before any probe looks."""
        return FIRST

    @property
    def gathers(self) -> bool:
        """Rows are stored as they come."""
        return False


@dataclass(frozen=True, slots=True)
class Groups:
    """What an aggregate query makes of joined tuples: they are added up in a counted store, whose rows are the view."""

    store: str
    grouping: Grouping
    clock: str = ""
    """Says when a window of event time is closed; empty if there is none."""
    stream: str = ""
    """The stream of that event time."""
    values: tuple[tuple[str, str], ...] = ()
    """(Argument, counted store of its values in each group) of aggregates that need the values."""
    shown: str = ""
    """The store of the rows that groups have shown to those who read them; empty if they can be worked out again."""
    again: bool = False
    """Whether groups that are there come again, in a migration: what they have shown is all that they show."""

    @property
    def stores(self) -> tuple[str, ...]:
        """All stores of the groups."""
        return (self.store, *(store for _, store in self.values), *((self.shown,) if self.shown else ()))


@dataclass(frozen=True, slots=True)
class Emit:
    """Results of a query leave here, where they are made, or on the worker that a route names."""

    id: str
    query: str
    outputs: tuple[Output, ...]
    fields: tuple[str, ...]
    """Fields that the outputs read; at least one."""
    aliases: tuple[tuple[str, str], ...]
    """(Label, alias) of all relations, in query order."""
    wave: int = 1
    """The first wave in which results may leave."""
    route: Route = "local"
    route_key: tuple[Expr, ...] = ()
    tasks: int = 1
    groups: Groups | None = None
    """What is made of the tuples; None if they are the results."""
    matching: Matching | None = None
    """Whom the tuples are matched with; None if they are for all."""
    into: str = ""
    """The derived stream whose rows the results are; empty if they leave."""

    @property
    def users(self) -> tuple[str, ...]:
        """The query."""
        return (self.query,)

    @property
    def measures(self) -> frozenset[str]:
        """Hidden columns of tuples that are read here."""
        if self.groups is None:
            return frozenset()
        exprs = {output.name: output.expr for output in self.outputs}
        kept = parts(self.groups.grouping, {name: expr.type for name, expr in exprs.items()})
        return frozenset(travelling_name(part.number, exprs[part.argument]) for part in kept)

    @property
    def schema(self) -> pa.Schema:
        """The columns of results.  Changes of a view also have the keys of their groups, and what changes."""
        if self.groups is None:
            shown = self.outputs if self.matching is None else self.matching.outputs
            return pa.schema([(output.name, output.expr.type) for output in shown])
        grouping = self.groups.grouping
        return grouping.schema if grouping.is_distinct or self.into else grouping.changes_schema(self.outputs)

    @property
    def position(self) -> int:
        """No probe waits for results."""
        return FIRST

    @property
    def gathers(self) -> bool:
        """Whether tuples are added up before they leave."""
        return self.groups is not None


Node = Probe | Keep | Emit
"""What tuples can be sent to."""
