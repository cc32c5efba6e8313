"""Estimates of the cost model beside what was counted.

Under the arrival factor "window" the model counts tuples per second and rows that windows hold; a run counts all
tuples.  So estimates of tuples are multiplied by the seconds that the rows seen so far take at the estimated rates,
and rows are compared with those the store holds now.  Otherwise both count the whole history.

A store may have several users, each with an estimate of its own; it holds what the most demanding of them needs.
Without statistics there is no estimate: the defaults would be guesses that look like knowledge.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from weft.explain.pages.figure import Figure
from weft.explain.words import join_names
from weft.observe.measured import Measured
from weft.optimizer.choose import Choice
from weft.optimizer.graph.layout import names
from weft.optimizer.lower.ways import Hop
from weft.topology.model import Keep, Probe, Store, Topology


@dataclass(frozen=True)
class Figures:
    """What was expected and what was counted, for every part of some plans."""

    choices: tuple[Choice, ...]
    topology: Topology
    measured: Measured | None

    # ---------------------------------------------------------------------------------------- stores

    def users(self, store: Store) -> list[tuple[Choice, int]]:
        """Who shares a store: the plan, and the store in it."""
        return self._users[store.id]

    @cached_property
    def _users(self) -> dict[str, list[tuple[Choice, int]]]:
        found: dict[str, list[tuple[Choice, int]]] = {store.id: [] for store in self.topology.stores}
        for choice in self.choices:
            for tree in choice.chosen.layout.tree.stores:
                if (store := self.find(choice, tree.relations)) is not None:
                    found[store.id].append((choice, tree.relations))
        return found

    @cached_property
    def called(self) -> dict[str, str]:
        """Store -> its short name: s0, s1, ..."""
        return {store.id: f"s{i}" for i, store in enumerate(self.topology.stores)}

    def label(self, store: Store, *, users: bool = False) -> str:
        """What a notice calls a store: s0 (orders); with its users s0 (orders, for sales, returns)."""
        queries = dict.fromkeys(choice.name for choice, _ in self.users(store)) if users else ()
        what = content(store, self.aliases(store))
        return f"{self.called[store.id]} ({what}{', for ' if queries else ''}{', '.join(queries)})"

    def store_of(self, choice: Choice, relations: int) -> Store:
        """The store behind a part of a plan."""
        return self._stores[user(choice, relations), relations.bit_count() > 1]

    def find(self, choice: Choice, relations: int) -> Store | None:
        """The store behind a part of a plan; None where nobody looks for its rows."""
        return self._stores.get((user(choice, relations), relations.bit_count() > 1))

    def aliases(self, store: Store) -> dict[str, str]:
        """Label -> alias, as the first user of a store calls its members."""
        return self.topology.aliases_of(store.users[0].partition(".")[0])

    @cached_property
    def _stores(self) -> dict[tuple[str, bool], Store]:
        """(User, whether it is an intermediate result) -> store."""
        return {(name, bool(store.members)): store for store in self.topology.stores for name in store.users}

    def rows(self, store: Store) -> Figure:
        """Rows of a store."""
        users = [(choice, relations) for choice, relations in self.users(store) if choice.informed]
        total = [c.chosen.bill.stored[r] for c, r in users if c.model.arrival != "window"]
        held = [c.chosen.bill.stored[r] for c, r in users if c.model.arrival == "window"]
        if held and not total:
            return Figure("rows held", max(held), self._count("held", store.id))
        return Figure("rows", max([*total, *held], default=None), self._count("stored", store.id))

    # ------------------------------------------------------------------------------------------ ways

    def way(self, choice: Choice, alias: str) -> tuple[Probe | Keep, ...]:
        """The nodes that the tuples of an alias pass, in order: part i of its path is node i here."""
        start = self.topology.starts_of(choice.name).get(alias)
        following, found = () if start is None else start.then, []
        for part in choice.chosen.ways.paths[alias]:
            kind, store = Probe if isinstance(part, Hop) else Keep, self.store_of(choice, part.store).id
            ahead = (self.topology.nodes[name] for name in following)
            mine = (node for node in ahead if isinstance(node, kind) and choice.name in node.users)
            node = next(node for node in mine if node.store == store)
            following = node.then if isinstance(node, Probe) else following
            found.append(node)
        return tuple(found)

    # ---------------------------------------------------------------------------------------- tuples

    def tuples_in(self, choice: Choice, alias: str, part: int) -> Figure:
        """Tuples that come to the probe that is part number `part`, counted from 1, of an alias's way."""
        probe = self.way(choice, alias)[part - 1]
        return self._tuples(choice, choice.chosen.bill.probed[alias, part], "probed", probe.id)

    def matches(self, choice: Choice, alias: str, part: int) -> Figure:
        """Matches that this probe makes."""
        probe = self.way(choice, alias)[part - 1]
        return self._tuples(choice, choice.chosen.bill.matched[alias, part], "matched", probe.id)

    def results(self, choice: Choice) -> Figure:
        """Results of a query."""
        everything = choice.model.graph.all
        return self._tuples(
            choice, choice.model.count_started(everything, everything), "results", choice.name, "results"
        )

    def input_rows(self, choice: Choice) -> Figure:
        """Rows that the aliases of a query begin with, after their selections."""
        unit = "rows a second" if choice.model.arrival == "window" else "rows"
        came = self._rows_stored(choice) if unit == "rows" else None
        return Figure(unit, choice.chosen.bill.rows if choice.informed else None, came)

    def seconds(self, choice: Choice) -> float | None:
        """How long the rows seen so far take at the estimated rates; None where estimates are not by the second."""
        came = self._rows_stored(choice)
        if choice.model.arrival != "window" or came is None or not choice.chosen.bill.rows:
            return None
        return came / choice.chosen.bill.rows

    def _tuples(self, choice: Choice, estimate: float, counter: str, key: str, unit: str = "tuples") -> Figure:
        known = estimate if choice.informed and math.isfinite(estimate) else None
        if choice.model.arrival != "window":
            return Figure(unit, known, self._count(counter, key))
        seconds = self.seconds(choice)
        if seconds is None or known is None:
            return Figure(f"{unit} a second", known)
        return Figure(unit, known * seconds, self._count(counter, key))

    def _rows_stored(self, choice: Choice) -> int | None:
        """Rows that were stored for the aliases of a query; nothing is stored for a query over one alias."""
        if self.measured is None or len(choice.query.relations) == 1:
            return None
        stores = [self.find(choice, 1 << i) for i in range(len(choice.query.relations))]
        return sum(self.measured.counters.stored.get(store.id, 0) for store in stores if store is not None)

    def _count(self, counter: str, key: str) -> int | None:
        if self.measured is None:
            return None
        kept = self.measured.held if counter == "held" else getattr(self.measured.counters, counter)
        return int(kept.get(key, 0))


def content(store: Store, called: Mapping[str, str]) -> str:
    """What a store holds: a stream, or the aliases of a join; `called` has the alias of each label, in query order."""
    return store.stream or join_names([alias for label, alias in called.items() if label in store.members])


def user(choice: Choice, relations: int) -> str:
    """The name of a store's user, as the topology writes it."""
    return f"{choice.name}.{'+'.join(names(choice.query, relations))}"


def period(choice: Choice, seconds: float | None = None) -> str:
    """What the numbers of a plan are counted over: a second, some seconds, or the whole history."""
    if choice.model.arrival == "window":
        return "in one second of the steady state" if seconds is None else f"in {seconds:.3g} seconds of input"
    return "over the whole history"
