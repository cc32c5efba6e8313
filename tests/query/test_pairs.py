"""Subqueries in ON that read both sides of a join, of any kind, over one source or several on each side.

The oracle goes by what a join means: DuckDB says which pairs of rows ON holds for; rows without any are padded.
"""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

import weft
from tests.query.test_lifted import World
from weft.errors import WeftError
from weft.testing import Trial

SIDES = {
    "a l": ("l.k", "l.x"),
    "b l": ("l.k", "l.y"),
    "(SELECT k, MAX(x) AS x FROM b GROUP BY k) l": ("l.k", "l.x"),
    "a l JOIN c m ON l.k = m.k": ("l.k", "m.z"),
    "c m LEFT JOIN a l ON l.k = m.z": ("m.k", "l.x"),
}
OTHERS = {
    "c r": ("r.k", "r.z"),
    "b r": ("r.k", "r.x"),
    "(SELECT DISTINCT z AS k, k AS z FROM c) r": ("r.k", "r.z"),
    "(b r JOIN a s ON r.x = s.x)": ("r.k", "s.k"),
    "(b r LEFT JOIN a s ON r.x = s.x)": ("r.k", "s.k"),
}
ASKED = [
    "EXISTS (SELECT 1 FROM b WHERE b.k = {p} AND b.x = {q})",
    "NOT EXISTS (SELECT 1 FROM c WHERE c.k = {p} AND c.z <= {q})",
    "{p} = {q} AND {p} IN (SELECT b.x FROM b WHERE b.y = {q})",
    "({p} < {q} OR EXISTS (SELECT c.z FROM c WHERE c.k = {p} INTERSECT SELECT b.x FROM b WHERE b.k = {q}))",
    "(SELECT COUNT(*) FROM b WHERE b.k = {p} AND b.y < {q}) > 0",
    "(SELECT MAX(c.z) FROM c WHERE c.k IN ({p}, {q})) IS NULL",
]
KINDS = ("LEFT", "RIGHT", "FULL", "FULL", "SEMI", "ANTI")


class Case:
    """A random join."""

    def __init__(self, rng: random.Random) -> None:
        self.kind = rng.choice(KINDS)
        whole = self.kind == "FULL"
        self.left, self.right = rng.choice(list(SIDES)), rng.choice(list(OTHERS))
        if whole and "JOIN" in self.left and "JOIN" in self.right:
            self.right = "c r"
        self.mine, self.its = SIDES[self.left], OTHERS[self.right]
        self.on = rng.choice(ASKED).format(p=rng.choice(self.mine), q=rng.choice(self.its))

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns that it selects."""
        return self.mine if self.kind in ("SEMI", "ANTI") else (*self.mine, *self.its)

    @property
    def text(self) -> str:
        """The query."""
        items = ", ".join(f"{column} AS c{place}" for place, column in enumerate(self.shown))
        return f"SELECT {items} FROM {self.left} {self.kind} JOIN {self.right} ON {self.on}"

    def answer(self, world: World) -> Counter[str]:
        """What it means."""
        mine, its = ", ".join(self.mine), ", ".join(self.its)
        width = len(self.mine)
        with world.database() as oracle:
            lefts = oracle.execute(f"SELECT {mine} FROM {self.left}").fetchall()
            rights = oracle.execute(f"SELECT {its} FROM {self.right}").fetchall()
            pairs = f"SELECT {mine}, {its} FROM {self.left} CROSS JOIN {self.right} WHERE {self.on}"
            found = oracle.execute(pairs).fetchall()
        met, meets = {row[:width] for row in found}, {row[width:] for row in found}
        if self.kind in ("SEMI", "ANTI"):
            return Counter(repr(row) for row in lefts if (row in met) is (self.kind == "SEMI"))
        rows = [*found]
        if self.kind in ("LEFT", "FULL"):
            rows += [(*row, *(None for _ in self.its)) for row in lefts if row not in met]
        if self.kind in ("RIGHT", "FULL"):
            rows += [(*(None for _ in self.mine), *row) for row in rights if row not in meets]
        return Counter(map(repr, rows))


def check(seed: int) -> None:
    """Compare after every batch."""
    rng = random.Random(seed)
    case, world = Case(rng), World(rng, changes=rng.random() < 0.5)
    trial = Trial(world.session(case.text))
    for _ in range(4):
        trial.feed(world.batch())
        rows = Counter(repr(tuple(row.values())) for row in trial.table("q").to_pylist())
        assert rows == case.answer(world), case.text


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(40))
def test_random_joins_by_subqueries_that_read_both_sides(seed: int) -> None:
    check(seed)


REFUSED = [
    "SELECT l.k FROM t l LEFT JOIN t r WITHIN INTERVAL '5' SECOND ON {}",
    "SELECT l.k FROM (t l JOIN t n ON l.k = n.k) FULL JOIN (t r JOIN t s ON r.k = s.k) ON {}",
]


@pytest.mark.parametrize("text", REFUSED)
def test_others_are_refused_at_the_subquery(text: str) -> None:
    session = weft.Session("never-made", progress=False)
    session.stream("t", weft.read.batches([pa.table({"k": [1], "ts": [1]})]), event_time="ts")
    with pytest.raises(WeftError, match="a subquery in ON refers to both sides") as caught:
        session.query("q", text.format("EXISTS (SELECT 1 FROM t m WHERE m.k = l.k AND m.ts = r.ts)"))
    assert "^" in str(caught.value)
    assert "hint: " in str(caught.value)
