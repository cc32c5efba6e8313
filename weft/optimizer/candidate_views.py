"""Views as candidates for a query: all connected joins kept, each where those who look into it come by key.

A store may lie in several places, one for each key by which tuples come to it.  A further place pays if storing all
rows once more costs less than sending tuples without that key to all workers.  Both are weighed: every store in one
place, and every store in as many places as pay; the cheaper plan is the candidate.  In a cube all that joins is on one
worker, and there are no places to choose.

What must hold: views are given up, the largest first, until the plan stores no more than the budget, or `Problem.limit`
where nobody asked for views by name.  Further places are given up before views.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from weft.expr.model import Expr
from weft.optimizer.bill import count_copies
from weft.optimizer.candidate import Candidate, Maker
from weft.optimizer.graph.joingraph import bits
from weft.optimizer.graph.layout import Home, Lines, names
from weft.optimizer.problem import Problem
from weft.optimizer.trees.views import Orders, all_views, view_lines, within
from weft.optimizer.wishes import VIEWS

MOST_RELATIONS = 6
"""Up to how many relations "auto" weighs views: pricing them takes a while."""


def candidate_views(problem: Problem, maker: Maker) -> list[Candidate]:
    """The plan that keeps views, each row on one worker, if it is asked for or worth a look."""
    if problem.is_spread or not (_is_asked(problem) or _is_weighed(problem)):
        return []
    found = all_views(problem.model)
    kept = within(problem.model, found, _limit(problem))
    if not _is_asked(problem) and _is_tree(kept):
        return []
    orders, name = view_lines(problem.model, frozenset(kept)), _name(VIEWS, found, kept)
    once, often = (_Places(maker, orders, several).lines() for several in (False, True))
    made = [maker.follow(name, once)]
    if often != once and maker.storage(other := maker.follow(name, often)) <= _limit(problem):
        made.append(other)
    return [min(made, key=lambda candidate: candidate.price)]


def keep_views(problem: Problem, maker: Maker, cube: Candidate) -> Candidate:
    """The cube with views kept on the workers that join them; two relations have no view."""
    if not problem.has_views:
        return cube
    found = all_views(problem.model)
    kept = within(problem.model, found, _limit(problem), lambda store: count_copies(cube.layout, store, cube.ranges))
    lines = {
        line: tuple((s, ()) for s in stores) for line, stores in view_lines(problem.model, frozenset(kept)).items()
    }
    return maker.follow_in(_name(f"{cube.name}+{VIEWS}", found, kept), cube, lines)


def weigh_views(problem: Problem, maker: Maker, cube: Candidate) -> list[Candidate]:
    """The same where nobody asked for it, if it is worth a look."""
    made = [keep_views(problem, maker, cube)] if _is_weighed(problem) else []
    return [candidate for candidate in made if not _is_tree(candidate.layout.kept)]


def _is_asked(problem: Problem) -> bool:
    return problem.strategy == VIEWS and problem.has_views


def _is_weighed(problem: Problem) -> bool:
    few = len(problem.query.relations) <= MOST_RELATIONS
    return problem.strategy == "auto" and problem.informed and problem.has_views and few


def _is_tree(kept: Sequence[int]) -> bool:
    """Whether no two views overlap: a tree says the same, and trees are weighed anyway."""
    return all(a & b in (0, a, b) for a in kept for b in kept)


def _limit(problem: Problem) -> float:
    return problem.limit if problem.strategy == "auto" else problem.wishes.budget


def _name(strategy: str, found: tuple[int, ...], kept: tuple[int, ...]) -> str:
    return strategy if len(found) == len(kept) else f"{strategy}, {len(kept)} kept"


class _Look(NamedTuple):
    """Tuples that look into a store."""

    tuples: float
    keys: tuple[Expr, ...]
    """Keys of the store whose values the tuples know."""


class _Places:
    """Where the stores of lines lie."""

    def __init__(self, maker: Maker, orders: Orders, several: bool) -> None:
        self.maker, self.orders, self.several = maker, orders, several
        self.model, self.prices = maker.problem.model, maker.known.prices
        self.keyed = maker.workers > 1 and maker.wishes.placement == "keyed"
        looks: dict[int, list[_Look]] = {}
        for start, covered, store in self._hops():
            tuples = self.model.count_started(start, covered)
            looks.setdefault(store, []).append(_Look(tuples, self._keys(covered, store)))
        tasks = maker.tasks([*looks])
        self.homes = {s: self._homes(s, found, tasks.get(s, maker.workers)) for s, found in looks.items()}

    def lines(self) -> Lines:
        """The lines, with the place in which each store is looked into."""
        found = {}
        for (goal, start), stores in self.orders.items():
            covered, line = start, []
            for store in stores:
                line.append((store, self._choose(covered, store)))
                covered |= store
            found[goal, start] = tuple(line)
        return found

    def _hops(self) -> Iterator[tuple[int, int, int]]:
        """(Start, what is covered, store) of every hop, each once: lines may begin alike."""
        seen = set()
        for (_, start), stores in self.orders.items():
            covered = start
            for i, store in enumerate(stores, start=1):
                if (start, stores[:i]) not in seen:
                    seen.add((start, stores[:i]))
                    yield start, covered, store
                covered |= store

    def _keys(self, covered: int, store: int) -> tuple[Expr, ...]:
        if not self.keyed:
            return ()
        bound = frozenset(names(self.maker.query, covered))
        return tuple(dict.fromkeys(e.target for e in self.maker.steps.step(bound, store).equalities))

    def _homes(self, store: int, looks: list[_Look], tasks: int) -> list[Home]:
        """The places of a store: by the key that most tuples know, then by the next as long as that pays."""
        homes: list[Home] = []
        newest = store & ~self.model.graph.tables or store
        rows = sum(self.model.count_started(1 << i, store) for i in bits(newest))
        while looks and (weights := _weigh(looks)):
            best = max(weights, key=lambda key: weights[key])
            saved = weights[best] * (tasks - 1) * (self.prices.sent + self.prices.probed)
            if homes and not (self.several and saved > rows * (self.prices.sent + self.prices.stored)):
                break
            homes.append((best,))
            looks = [look for look in looks if best not in look.keys]
        return homes or [()]

    def _choose(self, covered: int, store: int) -> Home:
        """The place whose key the tuples know; any if there is none, as they are sent to all workers then."""
        usable, homes = self._keys(covered, store), self.homes[store]
        return next((home for home in homes if home and home[0] in usable), homes[0])


def _weigh(looks: list[_Look]) -> Mapping[Expr, float]:
    """Key -> the tuples that know its value."""
    weights: dict[Expr, float] = {}
    for look in looks:
        for key in look.keys:
            weights[key] = weights.get(key, 0.0) + look.tuples
    return weights
