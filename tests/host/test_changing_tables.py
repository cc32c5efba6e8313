"""Tables that change: a row of a stream meets the table as it is in its batch, and results are only added.

The oracle is DuckDB, batch by batch: of the joins of all rows of the streams with the table as it is then, those whose
last row came in this batch.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import weft
from weft.errors import WeftError
from weft.host.groups.view import read_view
from weft.query.grouping import OP
from weft.testing import Trial

STREAM = pa.schema([("k", pa.int64()), ("j", pa.int64()), ("x", pa.int64())])
KEYED = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("w", pa.string())])
COUNTED = pa.schema([("j", pa.int64()), ("u", pa.int64()), ("op", pa.string())])
FIXED = pa.schema([("k", pa.int64()), ("f", pa.int64())])
Row = tuple[Any, ...]


def rows(schema: pa.Schema, values: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in values], schema)


@dataclass
class World:
    """Random rows of two streams a and b, and of tables d (by key), e (with deletions) and f (that stays)."""

    rng: random.Random
    held: dict[int, Row] = field(default_factory=dict)
    counted: list[Row] = field(default_factory=list)
    fixed: pa.Table | None = None
    streams: dict[str, list[Row]] = field(default_factory=lambda: {"a": [], "b": []})
    number: int = -1

    def batch(self) -> dict[str, pa.Table]:
        """The next batch."""
        rng, self.number = self.rng, self.number + 1
        made = {name: self._stream(name) for name in ("a", "b")} | {"d": self._keyed(), "e": self._counted()}
        if self.fixed is None:
            self.fixed = rows(FIXED, [(rng.choice((0, 1, 2, None)), rng.randrange(9)) for _ in range(4)])
            made["f"] = self.fixed
        return made

    def _stream(self, name: str) -> pa.Table:
        rng = self.rng
        new = [
            (rng.choice((0, 1, 2, 3, None)), rng.choice((0, 1, None)), rng.randrange(3))
            for _ in range(rng.randrange(5))
        ]
        self.streams[name] += [(*row, self.number) for row in new]
        return rows(STREAM, new)

    def _keyed(self) -> pa.Table:
        rng, new = self.rng, list[Row]()
        for _ in range(rng.randrange(5)):
            key = rng.randrange(4)
            row = (key, None, None) if rng.random() < 0.25 else (key, rng.randrange(9), rng.choice("pqr"))
            new.append(row)
            self.held.pop(key, None)
            if row[1] is not None:
                self.held[key] = row
        return rows(KEYED, new)

    def _counted(self) -> pa.Table:
        rng, new = self.rng, list[Row]()
        for _ in range(rng.randrange(4)):
            if self.counted and rng.random() < 0.5:
                gone = self.counted.pop(rng.randrange(len(self.counted)))
                new.append((*gone, "delete"))
            else:
                one = (rng.choice((0, 1, None)), rng.randrange(9))
                self.counted.append(one)
                new.append((*one, "insert"))
        rng.shuffle(new)
        return rows(COUNTED, new)

    def answer(self, text: str) -> list[Row]:
        """What DuckDB says now; of streams, a column `n` has the batch."""
        numbered = pa.schema([*STREAM, ("n", pa.int64())])
        with duckdb.connect(config={"threads": 1}) as con:
            for name, values in self.streams.items():
                con.register(name, rows(numbered, values))
            con.register("d", rows(KEYED, list(self.held.values())))
            con.register("e", rows(pa.schema([*COUNTED][:2]), self.counted))
            con.register("f", self.fixed)
            return con.sql(text).fetchall()


def session(checkpoint: Path | str = "never-made", workers: int = 2) -> weft.Session:
    s = weft.Session(checkpoint, workers=workers)
    for name in ("a", "b"):
        s.stream(name, weft.read.batches([rows(STREAM, [])]))
    s.table("d", weft.read.batches([rows(KEYED, [])]), key="k")
    s.table("e", weft.read.batches([rows(COUNTED, [])]), changes="op")
    s.table("f", weft.read.batches([rows(FIXED, [])]))
    return s


QUERIES = {
    "inner": ("SELECT a.x, d.v, d.w FROM a JOIN d ON d.k = a.k", "a.n"),
    "filtered": ("SELECT a.x, d.v FROM a JOIN d ON d.k = a.k WHERE d.v > 3 AND a.x < 2", "a.n"),
    "band": ("SELECT a.x, d.v FROM a, d WHERE d.v BETWEEN a.x AND a.x + 3", "a.n"),
    "two tables": ("SELECT a.x, d.v, e.u FROM a JOIN d ON d.k = a.k JOIN e ON e.j = a.j", "a.n"),
    "tables joined": ("SELECT a.x, d.v, e.u FROM a JOIN d ON d.k = a.k JOIN e ON e.u = d.v", "a.n"),
    "twice": ("SELECT a.x, p.v, q.w FROM a JOIN d p ON p.k = a.k JOIN d q ON q.k = a.j", "a.n"),
    "two streams": ("SELECT a.x, b.x AS y, d.v FROM a JOIN b ON a.k = b.k JOIN d ON d.k = b.j", "greatest(a.n, b.n)"),
    "three": (
        "SELECT a.x, b.x y, v, u FROM a JOIN b USING (k) JOIN d ON d.k = b.j JOIN e ON e.j = a.j JOIN f ON f.k = b.k",
        "greatest(a.n, b.n)",
    ),
    "padded": ("SELECT a.k, a.x, d.v FROM a LEFT JOIN d ON d.k = a.k", "a.n"),
    "padded twice": ("SELECT a.x, d.v, e.u FROM a LEFT JOIN d ON d.k = a.k LEFT JOIN e ON e.j = a.j", "a.n"),
    "padded pairs": (
        "SELECT a.x, b.x AS y, d.v FROM a JOIN b ON a.k = b.k LEFT JOIN d ON d.k = b.j",
        "greatest(a.n, b.n)",
    ),
    "in": ("SELECT a.x, a.k FROM a WHERE a.k IN (SELECT k FROM d WHERE v > 2)", "a.n"),
    "not in": ("SELECT a.x, a.k FROM a WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.k = a.k)", "a.n"),
    "some of d": ("SELECT a.x, s.v FROM a LEFT JOIN (SELECT k, v FROM d WHERE v < 6) s ON s.k = a.k WHERE TRUE", "a.n"),
    "sums of d": (
        "SELECT a.x, s.m, s.y FROM a JOIN (SELECT w, COUNT(*) AS m, MAX(v) AS y FROM d GROUP BY w) s ON s.y > a.x",
        "a.n",
    ),
}
"""Name -> a query whose results are added, and the batch in which a result comes."""
GROUPED = (
    "SELECT a.x, COUNT(*) AS n, MIN(d.v) AS lo, MAX(d.w) AS hi, SUM(d.v) AS s FROM a JOIN d ON d.k = a.k GROUP BY a.x"
)
TABLES = "SELECT d.k, d.v, e.u FROM d LEFT JOIN e ON e.u = d.v"


def of_batch(text: str, came: str, number: int) -> str:
    """The query, over results that come in a batch."""
    return f"{text} {'AND' if ' WHERE ' in text else 'WHERE'} {came} = {number}"


def shown(found: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(str(tuple(row.values())) for row in found)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(1))
def test_rows_of_streams_meet_tables_as_they_are(seed: int) -> None:
    rng = random.Random(seed)
    s = session(workers=rng.randint(1, 3))
    for name, (text, _) in QUERIES.items():
        s.query(name.replace(" ", "_"), text, cross_product=True)
    s.query("grouped", GROUPED)
    s.query("tables", TABLES)
    trial, world = Trial(s), World(rng)
    wanted: dict[str, list[str]] = {name: [] for name in QUERIES}
    joined: list[Row] = []
    for _ in range(6):
        trial.feed(world.batch())
        for name, (text, came) in QUERIES.items():
            wanted[name] += map(str, world.answer(of_batch(text, came, world.number)))
            assert shown(trial.table(name.replace(" ", "_")).to_pylist()) == sorted(wanted[name]), (seed, name)
        plain = "SELECT a.x, d.v, d.w FROM a JOIN d ON d.k = a.k"
        joined += world.answer(of_batch(plain, "a.n", world.number))
        assert shown(trial.table("grouped").to_pylist()) == _grouped(joined), seed
        assert shown(trial.table("tables").to_pylist()) == sorted(map(str, world.answer(TABLES))), seed
    assert sum(map(len, wanted.values())) > 60


def _grouped(joined: Sequence[Row]) -> list[str]:
    with duckdb.connect(config={"threads": 1}) as con:
        con.register("j", rows(pa.schema([("x", pa.int64()), *[*KEYED][1:]]), joined))
        return sorted(
            map(str, con.sql("SELECT x, COUNT(*), MIN(v), MAX(w), CAST(SUM(v) AS BIGINT) FROM j GROUP BY x").fetchall())
        )


@pytest.mark.parametrize("strategy", ["flat", "views", "hypercube:hash", "hypercube:hash+views", "auto"])
def test_no_plan_keeps_a_join_with_a_table_that_changes(strategy: str) -> None:
    text, came = QUERIES["three"]
    s = session()
    s.query("q", text, strategy=strategy)
    s.analyze()
    trial, world, wanted = Trial(s), World(random.Random(1)), list[str]()
    for _ in range(9):
        trial.feed(world.batch())
        wanted += map(str, world.answer(of_batch(text, came, world.number)))
        assert shown(trial.table("q").to_pylist()) == sorted(wanted)
    assert wanted


def test_a_plan_that_keeps_such_a_join_is_refused() -> None:
    s = session()
    s.query("q", QUERIES["two streams"][0], strategy=weft.Plan([("b", "d")]))
    with pytest.raises(WeftError, match="a join of b, d cannot be kept") as caught:
        Trial(s)
    assert caught.value.hint


def test_rows_of_streams_are_not_kept_for_a_table_that_changes() -> None:
    s = session()
    s.query("q", QUERIES["two tables"][0])
    trial = Trial(s)
    kept = {store.stream for store in trial.topology.stores if store.counted != "groups"}
    assert "a" not in kept
    assert not trial.topology.clocks


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT c.x, d.v FROM c JOIN d ON d.k = c.k", 'rows of "c" may be taken back'),
        ("SELECT g.n, d.v FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) g JOIN d ON d.k = g.k", "may be taken back"),
        ("SELECT a.x, d.v FROM a LEFT JOIN b ON a.k = b.k JOIN d ON d.k = a.k", "cannot stand beside a table"),
        ("SELECT a.x, d.v FROM d LEFT JOIN a ON d.k = a.k", "cannot stand beside a table"),
    ],
)
def test_what_would_be_taken_back_with_another_version_is_refused(text: str, said: str) -> None:
    s = session()
    s.stream("c", weft.read.batches([rows(pa.schema([*STREAM, ("op", pa.string())]), [])]), changes="op")
    with pytest.raises(WeftError, match=said) as caught:
        s.query("q", text)
    assert "s.stream(name, source, key=" in str(caught.value.hint)


@pytest.mark.parametrize("seed", range(1))
def test_a_session_that_ends_goes_on_with_the_same_tables(seed: int, tmp_path: Path) -> None:
    world, wanted = World(random.Random(seed)), dict[str, list[str]]()
    for number in range(6):
        s = session(tmp_path / "state", workers=1 + number // 2)
        begun = ["inner", "padded", "two streams", *(["twice", "tables joined"] if number >= 3 else [])]
        for name in begun:
            s.query(name.replace(" ", "_"), QUERIES[name][0])
        s.query("tables", TABLES)
        trial = Trial(s, state=tmp_path / "state", tables={} if world.fixed is None else {"f": world.fixed})
        trial.feed(world.batch())
        for name in begun:
            text, came = QUERIES[name]
            wanted[name] = sorted(map(str, world.answer(of_batch(text, came, number))))
            assert shown(trial.table(name.replace(" ", "_")).to_pylist()) == wanted[name], (number, name)
        run = trial.running
        view = read_view(run.topology.emit_of["tables"], run.topology, {}, run.manifest.segments, run.state)
        assert shown(view.drop_columns([OP]).to_pylist()) == sorted(map(str, world.answer(TABLES)))
