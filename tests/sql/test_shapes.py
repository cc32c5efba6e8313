"""Derived tables, WITH, views, parentheses, USING and NATURAL: the text means what it means in DuckDB.

DuckDB reads the very text, not the flat join that Weft makes of it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import duckdb
import pyarrow as pa
import pytest

import weft
from weft.errors import WeftError
from weft.testing import Trial

COLUMNS = {"a": ("k", "x", "s"), "b": ("k", "x", "y"), "c": ("k", "j", "z"), "d": ("j", "x", "w")}


def tables(seed: int) -> dict[str, pa.Table]:
    rng = random.Random(seed)

    def value(name: str) -> object:
        if rng.random() < 0.1:
            return None
        return rng.choice("pqr") if name == "s" else rng.randrange(4)

    return {
        stream: pa.Table.from_pylist(
            [{name: value(name) for name in names} for _ in range(9)],
            pa.schema([(name, pa.string() if name == "s" else pa.int64()) for name in names]),
        )
        for stream, names in COLUMNS.items()
    }


def answer(text: str, data: dict[str, pa.Table], views: Iterable[tuple[str, str]] = ()) -> pa.Table:
    """What Weft answers, fed in three batches."""
    session = weft.Session("never-made", workers=2)
    for name, table in data.items():
        session.stream(name, weft.read.batches([table]))
    for name, view in views:
        session.view(name, view)
    session.query("q", text, cross_product=True)
    trial = Trial(session)
    for start in (0, 3, 6):
        trial.feed({name: table.slice(start, 3) for name, table in data.items()})
    return trial.table("q")


def duck(text: str, data: dict[str, pa.Table], views: Iterable[tuple[str, str]] = ()) -> pa.Table:
    con = duckdb.connect()
    for name, table in data.items():
        con.register(f"in_{name}", table)
        con.execute(f"CREATE TABLE {name} AS FROM in_{name}")
    for name, view in views:
        con.execute(f"CREATE VIEW {name} AS {view}")
    con.execute(f"CREATE TABLE answer AS {text}")
    return con.sql("FROM answer").to_arrow_table()


def rows(table: pa.Table) -> list[str]:
    return sorted(repr(tuple(row)) for row in zip(*(column.to_pylist() for column in table.columns), strict=True))


def check(text: str, data: dict[str, pa.Table], views: Iterable[tuple[str, str]] = ()) -> int:
    mine, theirs = answer(text, data, views), duck(text, data, views)
    assert mine.column_names == theirs.column_names, text
    assert rows(mine) == rows(theirs), text
    return mine.num_rows


TEXTS = """
SELECT * FROM a JOIN b USING (k)
SELECT * FROM b JOIN a USING (x, k)
SELECT k, a.k, b.k, b.* FROM a JOIN b USING (k)
SELECT * FROM a NATURAL JOIN b
SELECT * FROM a NATURAL INNER JOIN c NATURAL JOIN d
SELECT * FROM a JOIN b USING (k) JOIN c USING (k)
SELECT * FROM c, a NATURAL JOIN b WHERE c.k = a.k
SELECT * FROM (a JOIN c USING (k)), b WHERE b.k = a.k
SELECT * FROM a JOIN (b JOIN d USING (x)) USING (x)
SELECT * FROM ((a JOIN b ON a.k = b.k) JOIN (c JOIN d ON c.j = d.j) ON c.k = b.k)
SELECT a.k, b.k, a.k AS K, 1 AS k_1 FROM a JOIN b ON a.k = b.k
SELECT * FROM a JOIN a AS other ON a.k = other.x
SELECT * FROM (SELECT k, x + 1 AS up FROM a WHERE x > 0) t JOIN b ON t.up = b.x
SELECT t.k_1, t.x FROM (SELECT a.k, b.k, a.x FROM a JOIN b ON a.k = b.k) t JOIN c ON t.k_1 = c.k
SELECT t.u, t.v, x FROM (SELECT k, s, x FROM a) AS t (u, v) JOIN c ON t.u = c.k
SELECT * FROM (SELECT k FROM (SELECT k, x FROM (SELECT * FROM a) q WHERE x > 0) w) e JOIN c USING (k)
SELECT t.y, u.y AS other FROM (SELECT * FROM b) t JOIN (SELECT * FROM b WHERE y > 1) u ON t.k = u.k
SELECT * FROM (SELECT a.x, y FROM a JOIN b USING (k)) l JOIN (SELECT a.x, y FROM a JOIN b USING (k)) r USING (x, y)
SELECT * FROM a, (SELECT k AS kk, z FROM c) WHERE k = kk
SELECT * FROM a t (q) JOIN c ON t.q = c.k
WITH t AS (SELECT a.k, y FROM a JOIN b USING (k)), u AS (SELECT k + 0 AS k FROM t) SELECT u.*, z FROM u JOIN c USING (k)
WITH t (p, q) AS (SELECT k, x FROM a) SELECT t.p, r.q FROM t JOIN t AS r ON t.p = r.q
WITH a AS (SELECT * FROM a WHERE x > 1) SELECT * FROM a JOIN b USING (k)
SELECT * FROM (WITH t AS (SELECT k FROM a) SELECT k FROM t) v JOIN c USING (k)
(WITH a AS (SELECT x AS k FROM b) SELECT k FROM a) UNION ALL (SELECT k FROM a)
SELECT k FROM a UNION ALL (WITH a AS (SELECT x AS k FROM b) SELECT k FROM a UNION ALL SELECT k + 1 FROM a)
(WITH a AS (SELECT 7 AS k) SELECT k FROM a) UNION SELECT k FROM a EXCEPT (WITH a AS (SELECT y k FROM b) SELECT k FROM a)
WITH t AS (SELECT k FROM a) (WITH a AS (SELECT x k FROM b) SELECT k FROM a EXCEPT ALL SELECT k FROM t) EXCEPT SELECT 9
WITH t AS NOT MATERIALIZED ((SELECT k FROM a)) SELECT * FROM t JOIN c USING (k)
SELECT CASE WHEN up > 2 THEN up END v FROM (SELECT k, x * 2 AS up FROM a) t JOIN c USING (k) WHERE up BETWEEN 1 AND z
SELECT a.k, b.y FROM a JOIN b ON a.k IS NOT DISTINCT FROM b.k
SELECT a.k, b.y FROM a JOIN b ON a.k = b.k AND a.x IS DISTINCT FROM b.x
SELECT a.s, t.s FROM a JOIN a t ON a.s IS NOT DISTINCT FROM t.s AND a.k IS NOT DISTINCT FROM t.x
""".strip().splitlines()


@pytest.mark.parametrize("text", TEXTS)
def test_shape_means_what_it_means_in_duckdb(text: str) -> None:
    assert check(text, tables(1)) + check(text, tables(2)) > 0


def test_views_are_put_in_place_and_may_use_each_other() -> None:
    views = [
        ("pairs", "SELECT a.k, a.x, b.y FROM a JOIN b USING (k)"),
        ("few", "WITH t AS (SELECT * FROM pairs WHERE y > 0) SELECT k AS key, y FROM t"),
    ]
    assert check("SELECT * FROM few JOIN c ON few.key = c.k JOIN pairs ON pairs.k = c.k", tables(1), views)


def test_a_view_is_checked_when_it_is_made() -> None:
    session = weft.Session("never-made")
    session.stream("a", weft.read.batches([tables(1)["a"]]))
    with pytest.raises(WeftError, match='no column "nothing"'):
        session.view("v", "SELECT nothing FROM a")
    session.view("v", "SELECT k FROM a")
    for name in ("v", "a"):
        with pytest.raises(WeftError, match="exists already"):
            session.view(name, "SELECT k FROM a")
    with pytest.raises(WeftError, match="exists already"):
        session.stream("v", weft.read.batches([tables(1)["a"]]))
    with pytest.raises(WeftError, match="a view cannot be a int"):
        session.view("w", 7)  # type: ignore[arg-type]


def test_windows_of_derived_tables() -> None:
    session = weft.Session("never-made")
    times = pa.table({"k": [1], "ts": [1]})
    for name in ("a", "b", "c"):
        session.stream(name, weft.read.batches([times]), event_time="ts")
    text = """
        SELECT l.k FROM (SELECT a.k FROM a WITHIN '1 second' JOIN b ON a.k = b.k) l WITHIN '2 seconds'
        JOIN (SELECT k FROM c WITHIN UNBOUNDED) r ON l.k = r.k JOIN c ON c.k = l.k WITHIN '3 seconds'
    """
    found = session.query("q", text).query
    windows = {relation.alias: relation.window for relation in found.relations}
    assert windows == {"l_a": 1_000_000, "l_b": 2_000_000, "r": None, "c": 3_000_000}


@pytest.mark.parametrize(
    "inner", ["SELECT DISTINCT k FROM a", "SELECT k, count(*) n FROM a GROUP BY k", "SELECT max(k) k FROM a"]
)
def test_a_derived_table_that_groups_is_read(inner: str) -> None:
    check(f"SELECT * FROM ({inner}) t JOIN c USING (k)", tables(1))


def test_groups_over_derived_tables() -> None:
    text = """
        WITH t AS (SELECT a.k, x * 2 AS up FROM a JOIN b USING (k, x))
        SELECT t.up, up + 1 AS next, count(*) AS n, max(z) AS z FROM t JOIN c USING (k) GROUP BY up
    """
    assert check(text, tables(1))


class Shapes:
    """Random SELECTs, nested to some depth."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.number = rng, 0
        self.named: dict[str, tuple[str, ...]] = {}

    def query(self) -> str:
        """A text; its outermost SELECT lists everything."""
        named = []
        for name in ("t", "u")[: self.rng.choice([0, 0, 1, 2])]:
            text, columns = self.select(1)
            named.append(f"{name} AS ({text})")
            self.named[name] = columns
        text, _ = self.select(2, star=self.rng.random() < 0.4)
        return (f"WITH {', '.join(named)} " if named else "") + text

    def select(self, depth: int, star: bool = False) -> tuple[str, tuple[str, ...]]:
        parts, seen = self._from(depth)
        where = self._where(seen)
        if star:
            return f"SELECT * FROM {parts}{where}", ()
        chosen = self.rng.sample(seen, min(len(seen), self.rng.randint(1, 4)))
        items, names = [], []
        for at, (alias, column) in enumerate(chosen):
            changed = column != "s" and self.rng.random() < 0.3
            items.append(f"{alias}.{column}{' + 1' if changed else ''} AS {column}{at}x")
            names.append(f"{column}{at}x")
        return f"SELECT {', '.join(items)} FROM {parts}{where}", tuple(names)

    def _where(self, seen: list[tuple[str, str]]) -> str:
        numbers = [f"{alias}.{column}" for alias, column in seen if not column.startswith("s")]
        if not numbers or self.rng.random() < 0.5:
            return ""
        left, right = self.rng.choice(numbers), self.rng.choice([*numbers, "2"])
        return f" WHERE {left} {self.rng.choice(['<=', '<>', 'IS DISTINCT FROM', '='])} {right}"

    def _from(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
        text, seen = self._factor(depth)
        for _ in range(self.rng.choice([0, 1, 1, 2])):
            other, more = self._factor(depth)
            text, seen = self._join(text, seen, other, more), seen + more
            if self.rng.random() < 0.2:
                text = f"({text})"
        return text, seen

    def _join(self, text: str, seen: list[tuple[str, str]], other: str, more: list[tuple[str, str]]) -> str:
        common = [c for _, c in more if [name for _, name in seen].count(c) == 1]
        kind = self.rng.choice(["using", "natural", "on", "on"])
        if common and kind == "using":
            return f"{text} JOIN {other} USING ({self.rng.choice(common)})"
        if kind == "natural":
            return f"{text} NATURAL JOIN {other}"
        left, right = self.rng.choice(seen), self.rng.choice(more)
        op = self.rng.choice(["=", "=", "IS NOT DISTINCT FROM", "<"])
        if (left[1][0] == "s") != (right[1][0] == "s"):
            return (
                f"{text} JOIN {other} ON length({left[0]}.{left[1]}::VARCHAR) = length({right[0]}.{right[1]}::VARCHAR)"
            )
        return f"{text} JOIN {other} ON {left[0]}.{left[1]} {op} {right[0]}.{right[1]}"

    def _factor(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
        self.number += 1
        alias = f"x{self.number}"
        if depth and self.rng.random() < 0.4:
            text, columns = self.select(depth - 1)
            return f"({text}) AS {alias}", [(alias, column) for column in columns]
        known = {**COLUMNS, **self.named}
        name = self.rng.choice([*known])
        return f"{name} {alias}", [(alias, column) for column in known[name]]


@pytest.mark.parametrize("seed", range(25))
def test_random_shapes_mean_what_they_mean_in_duckdb(seed: int) -> None:
    rng = random.Random(seed)
    data = {name: table.slice(0, 6) for name, table in tables(seed).items()}
    for _ in range(3):
        text = Shapes(rng).query()
        try:
            theirs = duck(text, data)
        except duckdb.BinderException:  # ambiguous names, or nothing in common: Weft must refuse it too
            with pytest.raises(WeftError):
                answer(text, data)
            continue
        if theirs.num_rows > 100_000 or text.count("x") > 60:
            continue
        check(text, data)
