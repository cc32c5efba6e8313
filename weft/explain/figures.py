"""Estimates of the cost model beside what was counted.

Under the arrival factor "window" the model counts tuples per second and rows that windows hold; a run counts all
tuples.  So estimates of tuples are multiplied by the seconds that the rows seen so far take at the estimated rates,
and rows are compared with those the store holds now.  Otherwise both count the whole history.

A store may have several users, each with an estimate of its own; it holds what the most demanding of them needs.
Without statistics there is no estimate: the defaults would be guesses that look like knowledge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from weft.explain.expected import expected_results, is_mixed
from weft.explain.pages.figure import Figure
from weft.explain.words import called_in, join_names
from weft.observe.measured import Measured
from weft.optimizer.choose import Choice
from weft.optimizer.graph.layout import names
from weft.optimizer.whole import WholeBill, whole_bill
from weft.topology.model import Topology
from weft.topology.node import Keep, Probe
from weft.topology.store import Store


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
            for relations in choice.chosen.layout.stores:
                for store in self._stores.get((user(choice, relations), relations.bit_count() > 1), ()):
                    found[store.id].append((choice, relations))
        return found

    @cached_property
    def called(self) -> dict[str, str]:
        """Store -> its short name: s0, s1, ..."""
        return {store.id: f"s{i}" for i, store in enumerate(self.topology.stores)}

    def label(self, store: Store, *, users: bool = False) -> str:
        """What a notice calls a store: s0 (orders); with its users s0 (orders, for sales, returns)."""
        queries = dict.fromkeys(choice.name for choice, _ in self.users(store)) if users else ()
        what = self.content(store)
        return f"{self.called[store.id]} ({what}{', for ' if queries else ''}{', '.join(queries)})"

    def content(self, store: Store, name: str = "") -> str:
        """What a store holds: a stream, or a join as a query calls it, by default its first user."""
        if store.counted == "groups":
            return f"groups of {store.users[0].partition('.')[0]}"
        name = name or store.users[0].partition(".")[0]
        called = self.topology.aliases_of(name)
        aliases = [alias for label, alias in called.items() if label in store.members]
        query = next((choice.query for choice in self.choices if choice.name == name), None)
        return store.stream or (join_names(aliases) if query is None else called_in(query, aliases))

    def store_of(self, choice: Choice, relations: int) -> Store:
        """The store behind a part of a plan; the first of several places."""
        return self._stores[user(choice, relations), relations.bit_count() > 1][0]

    def find(self, choice: Choice, relations: int) -> Store | None:
        """The store behind a part of a plan; None where nobody looks for its rows."""
        return next(iter(self._stores.get((user(choice, relations), relations.bit_count() > 1), ())), None)

    def aliases(self, store: Store) -> dict[str, str]:
        """Label -> alias, as the first user of a store calls its members."""
        return self.topology.aliases_of(store.users[0].partition(".")[0])

    @cached_property
    def _stores(self) -> dict[tuple[str, bool], list[Store]]:
        """(User, whether it is an intermediate result) -> its stores, one for each place."""
        found: dict[tuple[str, bool], list[Store]] = {}
        for store in self.topology.stores:
            for name in store.users:
                found.setdefault((name, bool(store.members)), []).append(store)
        return found

    def rows(self, store: Store) -> Figure:
        """Rows of a store."""
        users = [(choice, relations) for choice, relations in self.users(store) if choice.informed]
        total = [_rows_in_a_place(c, r) for c, r in users if c.model.arrival != "window"]
        held = [_rows_in_a_place(c, r) for c, r in users if c.model.arrival == "window"]
        now = self._count("held", store.id)
        if held and not total:
            return Figure("rows held", max(held), now)
        if now is not None and store.retention is not None:
            return Figure("rows held", None, now)  # the estimate counts all rows that ever come
        return Figure("rows", max([*total, *held], default=None), now)

    # ------------------------------------------------------------------------------------------ ways

    def ways(self, choice: Choice, alias: str) -> tuple[tuple[Probe | Keep, ...], ...]:
        """What the tuples of an alias do: the nodes on their way to the results first, then ways that fill stores.

        A keep stands where the way to it ends, if other nodes follow there.
        """
        found = []
        for start in self.topology.all_starts_of(choice.name).get(alias, ()):
            main, *others = self._follow(choice.name, start.then)
            found += [main, *others]
        return tuple(found)

    def _follow(self, query: str, following: Sequence[str]) -> list[tuple[Probe | Keep, ...]]:
        """The ways of a query from here on: the one that the rest of this one continues first."""
        nodes = [node for name in following if query in (node := self.topology.nodes[name]).users]
        keeps = tuple(node for node in nodes if isinstance(node, Keep))
        probes = [node for node in nodes if isinstance(node, Probe)]
        branches = [[(probe, *way) for way in self._follow(query, probe.then)] for probe in probes]
        ends = any(not isinstance(node, Keep | Probe) for node in nodes)
        branches.sort(key=lambda ways: not self._leads_to_results(query, ways[0]))
        rest = [way for ways in branches for way in ways]
        if ends or not rest:
            return [keeps, *rest]
        return [(*keeps, *rest[0]), *rest[1:]]

    def _leads_to_results(self, query: str, way: Sequence[Probe | Keep]) -> bool:
        last = [node for node in way if isinstance(node, Probe)][-1]
        return self.topology.emit_of[query].id in last.then

    # ---------------------------------------------------------------------------------------- tuples

    def tuples_in(self, choice: Choice, node: Probe | Keep) -> Figure:
        """Tuples of a query that come to a probe, or rows that a keep stores."""
        counter = "probed" if isinstance(node, Probe) else "kept"
        return self._tuples(choice, self.whole.flows[choice.name, node.id].tuples, counter, node.id)

    def matches(self, choice: Choice, probe: Probe) -> Figure:
        """Matches that a probe makes."""
        return self._tuples(choice, self.whole.flows[choice.name, probe.id].found, "matched", probe.id)

    @cached_property
    def whole(self) -> WholeBill:
        """What the topology is expected to do."""
        return whole_bill(self.topology, self.choices)

    def results(self, choice: Choice) -> Figure:
        """Results of a query."""
        everything = choice.model.graph.all
        if is_mixed(choice) and choice.informed:
            return Figure("results", expected_results(choice), self._count("results", choice.name))
        estimate = choice.model.count_started(everything, everything)
        if choice.query.subscribers is not None:
            asking = choice.maker.asking
            estimate = math.inf if asking is None else estimate * asking.matches(everything)
        return self._tuples(choice, estimate, "results", choice.name, "results")

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
        if is_mixed(choice) and self.measured is not None:
            return Figure(unit, None, self._count(counter, key))  # the estimate counts what windows hold at one time
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

    def _count_kept(self, keep: str) -> int:
        """What the probe before a keep has matched."""
        before = next(probe.id for probe in self.topology.probes if keep in probe.then)
        return self._count("matched", before) or 0

    def _count(self, counter: str, key: str) -> int | None:
        if self.measured is None:
            return None
        if counter == "kept":
            return self._count_kept(key)
        kept = self.measured.held if counter == "held" else getattr(self.measured.counters, counter)
        return int(kept.get(key, 0))


def _rows_in_a_place(choice: Choice, relations: int) -> float:
    return choice.chosen.bill.stored[relations] / len(choice.chosen.layout.homes(relations))


def user(choice: Choice, relations: int) -> str:
    """The name of a store's user, as the topology writes it."""
    return f"{choice.name}.{'+'.join(names(choice.query, relations))}"


def period(choice: Choice, seconds: float | None = None) -> str:
    """What the numbers of a plan are counted over: a second, some seconds, or the whole history."""
    if choice.model.arrival == "window":
        return "in one second of the steady state" if seconds is None else f"in {seconds:.3g} seconds of input"
    return "among the rows that windows hold at one time" if is_mixed(choice) else "over the whole history"
