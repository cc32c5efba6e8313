"""A query as the joint problem sees it: sets of relations, stores and places, named by what they are.

    set     relations with the predicates, selections and windows among them: labels and texts, not aliases
    store   an input after its selections, whichever relation of the query uses it; or a set that is kept
    home    where a store lies: texts of expressions over its own columns
    place   where a tuple is: texts of expressions, the same for all that equalities inside its set make equal

What must hold: two queries give equal names to equal things, so that the problem has them once, and only to those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from weft.expr.model import Expr, aliases, text_of, without_alias
from weft.optimizer.choose import Choice
from weft.optimizer.graph.joingraph import bits
from weft.optimizer.graph.layout import Home
from weft.optimizer.graph.placement import keys
from weft.optimizer.lower.edges import edge_name
from weft.optimizer.lower.labels import labels, predicate_text
from weft.optimizer.lower.relabel import renaming
from weft.optimizer.lower.steps import Steps
from weft.topology.label import label_since
from weft.topology.node import Route

MOST_HOMES = 3
"""How many places of a store a query asks for; the keys with the largest weight come first."""
MOST_MEMBERS = 3
"""How many relations a join that may be kept has at most."""

SetName = tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[str, ...]]
"""Labels with their inputs, and texts of the predicates among them."""
HomeName = tuple[str, ...]


class Shape:
    """A query, its sets, stores and places."""

    def __init__(self, choice: Choice) -> None:
        self.choice, self.name, self.model = choice, choice.name, choice.model
        self.steps: Steps = choice.maker.steps
        self.query, self.workers = self.steps.query, choice.chosen.ways.workers
        self.labels = [*labels(self.query).values()]
        self.rename = renaming(labels(self.query))
        self.whole = (1 << len(self.labels)) - 1
        self._names: dict[int, SetName] = {}
        self._canonical: dict[int, dict[Expr, str]] = {}
        self._members: dict[int, frozenset[str]] = {}

    # --------------------------------------------------------------------------------------------- sets

    def set_name(self, mask: int) -> SetName:
        """A set by what it is."""
        if mask not in self._names:
            members = sorted((self.labels[i], self.inputs[i]) for i in bits(mask))
            inside = sorted(text for needs, text in self._predicates if needs & ~mask == 0)
            self._names[mask] = tuple(members), tuple(inside)
        return self._names[mask]

    def loose_name(self, mask: int) -> SetName:
        """A set by what it is, whatever its windows are."""
        inside = sorted(text for needs, text in self._predicates[: len(self.steps.joins)] if needs & ~mask == 0)
        return self.set_name(mask)[0], tuple(inside)

    def windows(self, mask: int) -> tuple[int | None, ...]:
        """The windows of a set, by label."""
        return tuple(self.query.relations[i].window for i in sorted(bits(mask), key=lambda i: self.labels[i]))

    @cached_property
    def _predicates(self) -> list[tuple[int, str]]:
        """Relations that a predicate or window mentions, and its text; predicates of the query first."""
        place = {alias: 1 << i for i, alias in enumerate(self.query.aliases)}
        return [
            (sum(place[alias] for alias in aliases(p)), predicate_text(self.rename(p))) for p in self.steps.predicates
        ]

    def names(self, mask: int) -> tuple[str, ...]:
        """The labels of a set."""
        return tuple(self.labels[i] for i in bits(mask))

    def mask(self, labels: Sequence[str]) -> int:
        """The set of some labels."""
        return sum(1 << self.labels.index(label) for label in labels)

    def label(self, alias: str) -> str:
        """The label of a relation."""
        return self.labels[self.query.position(alias)]

    def members(self, mask: int) -> frozenset[str]:
        """The aliases of a set."""
        if mask not in self._members:
            self._members[mask] = frozenset(self.query.aliases[i] for i in bits(mask))
        return self._members[mask]

    @cached_property
    def connected(self) -> list[int]:
        """All sets that predicates connect, smaller ones first."""
        return [*self.model.graph.connected_subsets()]

    def streams(self, mask: int) -> int:
        """The relations that can be the newest in a set."""
        return mask & ~self.steps.tables or mask

    # ------------------------------------------------------------------------------------------- stores

    def joins(self, limit: float) -> Iterator[int]:
        """Sets that may be kept: connected, not too many relations, not too many rows."""
        for mask in filter(self.model.graph.may_keep, self.connected):
            if 1 < mask.bit_count() <= MOST_MEMBERS and mask != self.whole and self.model.graph.size(mask) <= limit:
                yield mask

    @cached_property
    def inputs(self) -> list[tuple[str, ...]]:
        """The stores of single relations: a stream and its selections; two relations may have the same."""
        chosen = zip(self.query.relations, self._selections, strict=True)
        return [(label_since(r.stream.name, r.since, r.apart), *map(text_of, exprs)) for r, exprs in chosen]

    def edge(self, place: int, route: Route, key: Home = ()) -> str:
        """The name of the edge that takes rows of a relation somewhere, as the topology has it."""
        stream, chosen = self.query.relations[place].stream.name, self._selections[place]
        return edge_name(stream, chosen, (route, tuple(map(without_alias, key)), self.workers, None))

    @cached_property
    def _selections(self) -> list[tuple[Expr, ...]]:
        return [*self.choice.chosen.ways.selections.values()]

    def homes(self, mask: int) -> dict[HomeName, Home]:
        """Places of a store that this query can use, by name."""
        if self.workers == 1:
            return {(): ()}
        weights = keys(self.query, mask, self.choice.maker.sizes)
        best = sorted(weights, key=lambda expr: -weights[expr])[:MOST_HOMES]
        return {self.home_name(mask, (expr,)): (expr,) for expr in best} or {(): ()}

    def home_name(self, mask: int, home: Home) -> HomeName:
        """A place by what it is: over the columns of a stream, or over labels."""
        if mask.bit_count() == 1:
            return tuple(text_of(without_alias(expr)) for expr in home)
        return tuple(text_of(self.rename(expr)) for expr in home)

    # ------------------------------------------------------------------------------------------- places

    def place(self, mask: int, key: Home) -> HomeName:
        """Where the tuples of a set are that were sent by a key."""
        known = self._equal(mask)
        return tuple(known.get(expr) or text_of(self.rename(expr)) for expr in key)

    def _equal(self, mask: int) -> dict[Expr, str]:
        """Expression -> the first, by text, of those that equalities inside a set make equal to it."""
        if mask not in self._canonical:
            leader = self.steps.equal(self.members(mask))
            first: dict[Expr, str] = {}
            for expr, led in leader.items():
                text = text_of(self.rename(expr))
                first[led] = min(text, first.get(led, text))
            self._canonical[mask] = {expr: first[led] for expr, led in leader.items()}
        return self._canonical[mask]
