"""Derived streams as state: queries that come and go, other plans, restarts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import weft
from tests.nested import COLUMNS, Nested, Oracle, declare, rows, some_rows
from weft.testing import Trial

TOTALS = "SELECT k, sum(x)::BIGINT AS s, count(*) AS n FROM a GROUP BY k"
BASE = {
    "ab": "SELECT a.k, a.x, b.y FROM a JOIN b ON a.k = b.k",
    "ac": "SELECT a.x, c.k, c.j, c.z FROM a JOIN c ON a.x = c.j",
}
ADDED = {
    "one stream": "SELECT sum(m)::BIGINT AS s, count(*) AS n FROM (SELECT k, count(*) AS m FROM a GROUP BY k) d",
    "joined": "SELECT d.k, m, c.z FROM (SELECT k, max(x) AS m FROM a GROUP BY k) d JOIN c ON d.k = c.k",
    "twice": "SELECT d.m, count(*) AS n FROM (SELECT k, count(*) AS m FROM a GROUP BY k) d GROUP BY d.m",
    "deep": "SELECT max(n) AS most FROM (SELECT m, count(*) AS n FROM (SELECT k, count(*) AS m FROM a GROUP BY k) d "
    "GROUP BY m) e",
    "two": "SELECT d.k, m, n FROM (SELECT k, count(*) AS m FROM a GROUP BY k) d "
    "JOIN (SELECT k, min(z) AS n FROM c GROUP BY k) e ON d.k = e.k",
    "union": "SELECT t.k, count(*) AS n FROM (SELECT k FROM (SELECT k, max(x) FROM a GROUP BY k) d UNION ALL "
    "SELECT c.k FROM a JOIN c ON a.x = c.j) t GROUP BY t.k",
    "three": "SELECT d.k, m, b.y, c.z FROM (SELECT k, count(*) AS m FROM a GROUP BY k) d JOIN b ON d.k = b.k "
    "JOIN c ON c.k = d.k",
    "totals": "SELECT max(s) AS s, count(*) AS n FROM totals",
    "totals by sum": "SELECT t.k, b.k AS other FROM totals t JOIN b ON b.y = t.s",
}


class World:
    """A session on a checkpoint, with DuckDB beside it."""

    def __init__(self, root: Path, seed: int, workers: int = 2) -> None:
        self.root, self.rng, self.workers, self.oracle = root, random.Random(seed), workers, Oracle()
        self.oracle.con.execute(f"CREATE VIEW totals AS {TOTALS}")
        self.texts: dict[str, str] = {}
        self.open()

    def open(self, workers: int | None = None) -> None:
        """Begin again with a new session."""
        self.session = declare(weft.Session(self.root, workers=workers or self.workers))
        self.session.view("totals", TOTALS)
        for name, text in self.texts.items():
            self.session.query(name, text, cross_product=True)
        self.trial: Trial | None = None

    def add(self, name: str, text: str, **options: object) -> None:
        self.texts[name] = text
        self.session.query(name, text, cross_product=True, **options)  # type: ignore[arg-type]
        if self.trial is not None:
            self.trial.change()

    def drop(self, name: str) -> None:
        del self.texts[name]
        self.session.drop(name)
        assert self.trial is not None
        self.trial.change()

    def feed(self, batches: int = 1) -> None:
        if self.trial is None:
            self.trial = Trial(self.session, state=self.session.checkpoint.root)
        for _ in range(batches):
            fresh = {name: some_rows(self.rng, name) for name in COLUMNS}
            self.trial.feed(fresh)
            self.oracle.add(fresh)

    def check(self, *names: str) -> None:
        assert self.trial is not None
        for name in names:
            assert rows(self.trial.table(name)) == self.oracle.rows(self.texts[name]), name


@pytest.mark.parametrize("added", ADDED)
@pytest.mark.parametrize("workers", [1, 3])
def test_a_query_that_comes_later_begins_with_the_whole_view(tmp_path: Path, added: str, workers: int) -> None:
    world = World(tmp_path / "state", len(added), workers)
    for name, text in BASE.items():
        world.add(name, text)
    world.add("total", "SELECT a.k, a.x, s FROM a JOIN totals ON a.k = totals.k")
    world.feed(4)
    world.add("q", ADDED[added])
    world.check("q", "total")
    world.feed()
    world.check("q", "total")
    world.feed()
    world.check("q", "total")
    assert world.session.queries["q"].complete_from is None


@pytest.mark.parametrize("seed", range(8))
def test_random_queries_that_come_later(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path / "state", seed)
    for name, text in BASE.items():
        world.add(name, text)
    texts = Nested(random.Random(seed))
    first, later = texts.derived(1)[0], texts.groups(2)[0]
    world.add("first", first)
    world.feed(2)
    world.add("later", later)
    for _ in range(2):
        if world.session.queries["later"].query.is_changing:
            world.check("later")
        world.check("first")
        world.feed()


def test_other_workers_restarts_and_drops_keep_what_is_derived(tmp_path: Path) -> None:
    world = World(tmp_path / "state", 5)
    world.add("ab", BASE["ab"])
    world.add("total", "SELECT b.k, b.y, s FROM b JOIN totals ON b.k = totals.k")
    world.add("most", ADDED["totals"])
    world.feed(3)
    world.check("total", "most")
    world.session.rescale(3)
    assert world.trial is not None
    world.trial.change()
    world.feed(2)
    world.check("total", "most")
    world.drop("total")
    world.feed()
    world.check("most")
    world.add("again", "SELECT b.k, b.y, s FROM b JOIN totals ON b.k = totals.k")
    world.feed()
    world.check("again", "most")


def test_what_old_state_cannot_give_is_said(tmp_path: Path) -> None:
    world = World(tmp_path / "state", 6)
    world.add("rows", "SELECT k FROM a")  # read, and not kept
    world.feed(2)
    with pytest.raises(weft.WeftError, match="cannot be complete") as caught:
        world.add("q", ADDED["one stream"])
    assert "never complete" in str(caught.value)
