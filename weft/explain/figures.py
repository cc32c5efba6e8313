"""Estimates of the cost model beside what was counted.

Under the arrival factor "window" the model counts tuples a second and rows that windows hold; a run counts tuples in
all.  So estimates of tuples are multiplied by the seconds that the rows seen so far take at the estimated rates, and
rows are compared with those the store holds now.  Otherwise both count the whole history.

A store may have several users, each with an estimate of its own; it holds what the most demanding of them needs.
Without statistics there is no estimate: the defaults would be guesses that look like knowledge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.explain.pages.figure import Figure
from weft.explain.subject import Measured
from weft.optimizer.choose import Choice
from weft.optimizer.graph.layout import names
from weft.topology.model import Store, Topology


@dataclass(frozen=True, slots=True)
class Figures:
    """Answers what was expected and what came of every part of some plans."""

    choices: tuple[Choice, ...]
    topology: Topology
    measured: Measured | None

    # ---------------------------------------------------------------------------------------- stores

    def users(self, store: Store) -> list[tuple[Choice, int]]:
        """Who shares a store: the plan, and the store in it."""
        wanted = (store.users, bool(store.aliases))
        return [
            (choice, tree.relations)
            for choice in self.choices
            for tree in choice.chosen.layout.tree.stores
            if user(choice, tree.relations) in wanted[0] and (tree.relations.bit_count() > 1) == wanted[1]
        ]

    def store_of(self, choice: Choice, relations: int) -> Store:
        """The store behind a part of a plan."""
        wanted = (user(choice, relations), relations.bit_count() > 1)
        return next(s for s in self.topology.stores if wanted[0] in s.users and bool(s.aliases) == wanted[1])

    def rows(self, store: Store) -> Figure:
        """Rows of a store."""
        users = [(choice, relations) for choice, relations in self.users(store) if choice.informed]
        total = [c.chosen.bill.stored[r] for c, r in users if c.model.arrival != "window"]
        held = [c.chosen.bill.stored[r] for c, r in users if c.model.arrival == "window"]
        if held and not total:
            return Figure("rows held", max(held), self._count("held", store.id))
        return Figure("rows", max([*total, *held], default=None), self._count("stored", store.id))

    # ---------------------------------------------------------------------------------------- tuples

    def tuples_in(self, choice: Choice, alias: str, part: int) -> Figure:
        """Tuples that come to look at the part-th step of an alias's way."""
        return self._tuples(choice, choice.chosen.bill.probed[alias, part], "probed", f"{choice.name}/{alias}/{part}")

    def matches(self, choice: Choice, alias: str, part: int) -> Figure:
        """Matches that this step makes."""
        return self._tuples(choice, choice.chosen.bill.matched[alias, part], "matched", f"{choice.name}/{alias}/{part}")

    def results(self, choice: Choice) -> Figure:
        """Results of a query."""
        everything = choice.model.graph.all
        return self._tuples(
            choice, choice.model.count_started(everything, everything), "results", choice.name, "results"
        )

    def input_rows(self, choice: Choice) -> Figure:
        """Rows that the aliases of a query begin with, after their selections."""
        unit = "rows a second" if choice.model.arrival == "window" else "rows"
        came = self._came(choice) if unit == "rows" else None
        return Figure(unit, choice.chosen.bill.rows if choice.informed else None, came)

    def seconds(self, choice: Choice) -> float | None:
        """How long the rows seen so far take at the estimated rates; None where estimates are not by the second."""
        came = self._came(choice)
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

    def _came(self, choice: Choice) -> int | None:
        """Rows that were stored for the aliases of a query; nothing is stored for a query over one alias."""
        if self.measured is None or len(choice.query.relations) == 1:
            return None
        stores = [self.store_of(choice, 1 << i) for i in range(len(choice.query.relations))]
        return sum(self.measured.counters.stored.get(store.id, 0) for store in stores)

    def _count(self, counter: str, key: str) -> int | None:
        if self.measured is None:
            return None
        kept = self.measured.held if counter == "held" else getattr(self.measured.counters, counter)
        return int(kept.get(key, 0))


def user(choice: Choice, relations: int) -> str:
    """The name of a store's user, as the topology writes it."""
    return f"{choice.name}.{'+'.join(names(choice.query, relations))}"


def counted(choice: Choice, seconds: float | None = None) -> str:
    """What the numbers of a plan are counted over."""
    if choice.model.arrival == "window":
        return "in one second of the steady state" if seconds is None else f"in {seconds:.3g} seconds of input"
    return "over the whole history"
