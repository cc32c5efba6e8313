"""Random layouts by lines: any kept joins, any orders over any stores, any places."""

from __future__ import annotations

import random
from collections.abc import Sequence

from weft.optimizer.graph.joingraph import bits
from weft.optimizer.graph.layout import Home, Layout, Target
from weft.optimizer.graph.placement import keys
from weft.optimizer.graph.tree import flat_tree
from weft.optimizer.lower.steps import Steps
from weft.query.model import Query


def random_layout(rng: random.Random, query: Query, workers: int) -> Layout:
    """Some joins are kept, and tuples of every alias meet stores in an order of their own."""
    maker = _Maker(rng, query)
    lines: dict[tuple[int, int], tuple[Target, ...]] = {}
    maker.add_lines(lines, maker.whole)
    for goal in sorted(maker.kept, key=int.bit_count, reverse=True):
        if any(store == goal for line in lines.values() for store, _ in line):
            maker.add_lines(lines, goal)
    tasks = {store: rng.randint(1, workers + 1) for store in maker.stores if rng.random() < 0.2}
    asked = {store for line in lines.values() for store, _ in line}
    return Layout(flat_tree(len(query.relations)), tasks={s: n for s, n in tasks.items() if s in asked}, lines=lines)


class _Maker:
    def __init__(self, rng: random.Random, query: Query) -> None:
        self.rng, self.query, self.steps = rng, query, Steps(query)
        self.whole = (1 << len(query.relations)) - 1
        self.kept = self._random_joins()
        self.stores = [*(1 << i for i in range(len(query.relations))), *self.kept]
        self.homes = {store: self._random_homes(store) for store in self.stores}

    def add_lines(self, lines: dict[tuple[int, int], tuple[Target, ...]], goal: int) -> None:
        """A line to a join from each member that can be the newest in it."""
        streams = goal & ~self.steps.tables or goal
        for i in bits(streams):
            lines[goal, 1 << i] = self._random_line(1 << i, goal)

    def _random_line(self, start: int, goal: int) -> tuple[Target, ...]:
        bound, line = start, list[Target]()
        while bound != goal:
            options = [
                s for s in self.stores if s & ~goal == 0 and s != goal and not s & bound and self._joins(bound, s)
            ]
            store = self.rng.choice(options)
            line.append((store, self.rng.choice(self.homes[store])))
            bound |= store
        return tuple(line)

    def _joins(self, bound: int, store: int) -> bool:
        a, b = (frozenset(self.query.aliases[i] for i in bits(mask)) for mask in (bound, store))
        return self.query.cross_product or self.steps.is_connected(a, b) or bool(self.steps.step(a, store).equalities)

    def _random_joins(self) -> Sequence[int]:
        found: set[int] = set()
        for _ in range(self.rng.choice([1, 2, 4, 8])):
            join = 1 << self.rng.randrange(len(self.query.relations))
            for _ in range(self.rng.choice([1, 1, 2])):
                beside = [
                    1 << i for i in range(len(self.query.relations)) if not join >> i & 1 and self._joins(join, 1 << i)
                ]
                join |= self.rng.choice(beside) if beside else 0
            if join != self.whole and join.bit_count() > 1:
                found.add(join)
        return sorted(found)

    def _random_homes(self, store: int) -> list[Home]:
        usable = [*keys(self.query, store, {})]
        some = [tuple(self.rng.sample(usable, min(len(usable), self.rng.choice([1, 1, 2])))) for _ in range(2)]
        return list(dict.fromkeys([*some, *([()] if self.rng.random() < 0.2 else [])]))
