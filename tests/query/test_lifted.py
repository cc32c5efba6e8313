"""UNION, EXCEPT and INTERSECT that read the query around them: in EXISTS, IN, ANY, ALL, values, LATERAL and FROM.

The oracle goes by what such a query means: for each row of the query around, its values are put into the text, and
DuckDB answers that.  Rows come and go.
"""

from __future__ import annotations

import random
import re
from collections import Counter

import duckdb
import pyarrow as pa
import pytest

import weft
from weft.errors import WeftError
from weft.testing import Trial

COLUMNS = {"a": ("k", "x"), "b": ("k", "x", "y"), "c": ("k", "z")}
OPS = ("UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL", "UNION", "EXCEPT")
AROUND = {
    "a o": ("o.k", "o.x"),
    "a o JOIN c p ON o.k = p.k": ("o.k", "o.x", "p.z"),
    "c p LEFT JOIN a o ON o.k = p.k": ("p.k", "o.x", "o.k"),
    "(SELECT k, COUNT(*) AS x FROM a GROUP BY k) o": ("o.k", "o.x"),
}
PLACES = [
    "SELECT {o} AS u FROM {around} WHERE EXISTS ({sets})",
    "SELECT {o} AS u FROM {around} WHERE NOT EXISTS ({sets})",
    "SELECT {o} AS u FROM {around} WHERE {o} > 1 OR NOT EXISTS ({sets})",
    "SELECT {o} AS u, EXISTS ({sets}) AS f FROM {around}",
    "SELECT {o} AS u FROM {around} WHERE {o} IN ({sets})",
    "SELECT {o} AS u FROM {around} WHERE {o} NOT IN ({sets})",
    "SELECT {o} AS u, {o} IN ({sets}) AS f FROM {around}",
    "SELECT {o} AS u FROM {around} WHERE {o} >= ALL ({sets})",
    "SELECT {o} AS u, (SELECT COUNT(*) FROM ({sets}) d (p)) AS v FROM {around}",
    "SELECT {o} AS u, (SELECT CAST(SUM(p) AS BIGINT) FROM ({sets}) d (p) WHERE p > 0) AS v FROM {around}",
    "SELECT {o} AS u, (SELECT MAX(p) FROM ({sets}) d (p) JOIN b ON b.k = d.p) AS v FROM {around}",
    "SELECT {o} AS u FROM {around} WHERE EXISTS (SELECT 1 FROM ({sets}) d (p) WHERE p < {o})",
    "SELECT {o} AS u, d.p FROM {around}, LATERAL ({sets}) d (p)",
    "SELECT {o} AS u, d.p FROM {around} JOIN LATERAL ({sets}) d (p) ON d.p >= {o}",
    "SELECT {o} AS u, d.p FROM {around} LEFT JOIN LATERAL ({sets}) d (p) ON TRUE",
    "SELECT {o} AS u, d.p, d.n FROM {around}, LATERAL (SELECT p, COUNT(*) AS n FROM ({sets}) e (p) GROUP BY p) d",
    "SELECT {o} AS u, d.q FROM {around}, LATERAL (SELECT e.p + {o} AS q FROM ({sets}) e (p) WHERE e.p <> 1) d",
]


class Sets:
    """Random texts."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.around = rng.choice(list(AROUND))
        self.outer = AROUND[self.around]

    def text(self) -> str:
        """A query."""
        place = self.rng.choice(PLACES)
        return place.format(o=self.rng.choice(self.outer), around=self.around, sets=self.sets(2))

    def sets(self, depth: int) -> str:
        """SELECTs of one column, joined by set operations."""
        parts = [self._part(depth) for _ in range(self.rng.choice((2, 2, 3)))]
        return parts[0] + "".join(f" {self.rng.choice(OPS)} {part}" for part in parts[1:])

    def _part(self, depth: int) -> str:
        return f"({self.sets(depth - 1)})" if depth and self.rng.random() < 0.2 else self._leaf()

    def _leaf(self) -> str:
        rng, o = self.rng, self.rng.choice(self.outer)
        return rng.choice((
            f"SELECT b.x FROM b WHERE {self._tie('b.k')}",
            f"SELECT x FROM b WHERE {self._tie('y')}",
            f"SELECT c.z FROM c WHERE {self._tie('c.k')}",
            f"SELECT c.z + {o} FROM c WHERE {self._tie('c.k')}",
            f"SELECT DISTINCT c.z FROM c JOIN b ON b.k = c.k AND {self._tie('b.y')}",
            f"SELECT c.k FROM c LEFT JOIN b ON b.k = c.k WHERE {self._tie('b.y')}",
            f"SELECT b.k FROM b WHERE {self._tie('b.x')} GROUP BY b.k HAVING COUNT(*) > 1",
            f"SELECT MAX(b.x) FROM b WHERE {self._tie('b.k')}",
            f"SELECT COUNT(*) FROM c WHERE {self._tie('c.z')} HAVING COUNT(*) < 3",
            f"SELECT b.x FROM b WHERE b.y IN (SELECT c.z FROM c WHERE {self._tie('c.k')})",
            f"(SELECT b.x FROM b WHERE {self._tie('b.k')} ORDER BY b.x DESC, b.k, b.y LIMIT 2)",
            f"SELECT {o}",
            "SELECT c.z FROM c",
        ))  # fmt: skip

    def _tie(self, inner: str) -> str:
        o = self.rng.choice(self.outer)
        return self.rng.choice((
            f"{inner} = {o}", f"{inner} = {o}", f"{inner} < {o}", f"{inner} IS NOT DISTINCT FROM {o}",
            f"{inner} + 1 = {o} AND {inner} <> {self.rng.choice(self.outer)}", f"({inner} = {o} OR {o} IS NULL)",
        ))  # fmt: skip


class World:
    """Streams that bring rows and take them back."""

    def __init__(self, rng: random.Random, *, changes: bool) -> None:
        self.rng, self.changes = rng, changes
        self.here: dict[str, list[tuple[int | None, ...]]] = {name: [] for name in COLUMNS}

    def session(self, text: str) -> weft.Session:
        session = weft.Session("never-made", workers=2, progress=False)
        for name in COLUMNS:
            how = {"changes": "op"} if self.changes else {}
            session.stream(name, weft.read.batches([self._table(name, [])]), **how)  # type: ignore[arg-type]
        session.query("q", text, cross_product=True)
        return session

    def batch(self) -> dict[str, pa.Table]:
        rng, found = self.rng, dict[str, pa.Table]()
        for name, columns in COLUMNS.items():
            rows: list[tuple[object, ...]] = []
            for _ in range(rng.randint(0, 5)):
                if self.changes and self.here[name] and rng.random() < 0.4:
                    rows.append(("delete", *self.here[name].pop(rng.randrange(len(self.here[name])))))
                    continue
                row = tuple(None if rng.random() < 0.15 else rng.randrange(4) for _ in columns)
                self.here[name].append(row)
                rows.append(("insert", *row))
            found[name] = self._table(name, rows)
        return found

    def _table(self, name: str, rows: list[tuple[object, ...]]) -> pa.Table:
        schema = pa.schema([("op", pa.string()), *((column, pa.int64()) for column in COLUMNS[name])])
        table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
        return table if self.changes else table.drop_columns("op")

    def answer(self, text: str) -> Counter[str]:
        """What a text means: it is asked for each row of the FROM around, with the values of that row in it."""
        around = next(one for one in sorted(AROUND, key=len, reverse=True) if f"FROM {one}" in text)
        outer, found = AROUND[around], Counter[str]()
        inner = text.replace(f"FROM {around}", "FROM (SELECT 1) AS one", 1)
        with self.database() as oracle:
            for values in oracle.execute(f"SELECT {', '.join(outer)} FROM {around}").fetchall():
                meant = {
                    name: "CAST(NULL AS BIGINT)" if value is None else f"CAST({value} AS BIGINT)"
                    for name, value in zip(outer, values, strict=True)
                }
                put = re.sub(r"\b[op]\.[kxz]\b", lambda one: meant[one.group()], inner)  # noqa: B023
                found.update(map(repr, oracle.execute(put).fetchall()))
        return found

    def whole(self, text: str) -> Counter[str]:
        """What DuckDB makes of a text."""
        with self.database() as oracle:
            return Counter(map(repr, oracle.execute(text).fetchall()))

    def database(self) -> duckdb.DuckDBPyConnection:
        oracle = duckdb.connect(config={"threads": 1})
        for name, columns in COLUMNS.items():
            oracle.execute(f"CREATE TABLE {name} ({', '.join(f'{column} BIGINT' for column in columns)})")
            if rows := self.here[name]:
                oracle.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)
        return oracle


def check(text: str, seed: int, *, changes: bool) -> int:
    """Compare after every batch; how many rows the answers had."""
    world, found = World(random.Random(seed), changes=changes), 0
    trial = Trial(world.session(text))
    for _ in range(4):
        trial.feed(world.batch())
        rows = Counter(repr(tuple(row.values())) for row in trial.table("q").to_pylist())
        assert rows == world.answer(text), text
        found += rows.total()
    return found


@pytest.mark.parametrize("place", PLACES)
def test_set_operations_are_asked_for_each_row_around(place: str) -> None:
    rng = random.Random(place)
    drawn = Sets(rng)
    text = place.format(o=rng.choice(drawn.outer), around=drawn.around, sets=drawn.sets(1))
    assert check(text, rng.randrange(1000), changes=rng.random() < 0.5) >= 0


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(30))
def test_random_set_operations(seed: int) -> None:
    rng = random.Random(seed)
    check(Sets(rng).text(), seed, changes=rng.random() < 0.5)


OTHERS = """
SELECT o.k FROM a o WHERE EXISTS (SELECT b.x FROM b WHERE b.k = o.k EXCEPT SELECT o.z FROM c o)
SELECT o.k FROM a o WHERE EXISTS (WITH w AS (SELECT x FROM b WHERE k = o.k UNION SELECT 1) SELECT * FROM w WHERE x > 2)
SELECT o.k FROM a o WHERE EXISTS (SELECT b.x, b.y FROM b WHERE b.k = o.k EXCEPT SELECT c.z, o.x FROM c)
SELECT o.k, d.* FROM a o, LATERAL (SELECT x, y FROM b WHERE k = o.k UNION SELECT z, k FROM c WHERE k > o.x) d
SELECT o.k, p FROM a o, LATERAL (SELECT x FROM b WHERE k = o.k UNION ALL SELECT z FROM c ORDER BY 1 LIMIT 2) d (p)
SELECT o.k, COUNT(*) AS n FROM a o WHERE EXISTS (SELECT x FROM b WHERE b.k = o.k EXCEPT SELECT 1) GROUP BY o.k
SELECT o.k FROM a o, c p WHERE o.x = (SELECT MAX(b.y) FROM b WHERE b.y < o.k + p.k OR b.y = 1)
SELECT o.k FROM a o, c p WHERE EXISTS (SELECT 1 FROM b WHERE EXISTS (SELECT 1 FROM c WHERE c.z = o.k + p.z + b.x))
SELECT o.k, n FROM a o JOIN c p USING (k), LATERAL (SELECT x, COUNT(*) AS n FROM b WHERE b.k < o.x + z GROUP BY x) d
""".strip().splitlines()


@pytest.mark.parametrize("text", OTHERS)
def test_other_forms(text: str) -> None:
    for seed in range(2):
        world = World(random.Random(seed), changes=seed == 1)
        trial = Trial(world.session(text))
        for _ in range(3):
            trial.feed(world.batch())
            rows = Counter(repr(tuple(row.values())) for row in trial.table("q").to_pylist())
            assert rows == world.whole(text)


REFUSED = """
SELECT o.k FROM t o WITHIN INTERVAL '5' SECOND, t p WHERE EXISTS (SELECT p.k EXCEPT SELECT b.k FROM t b WHERE b.k = o.k)
SELECT o.k FROM t o, LATERAL (SELECT b.k FROM t b WHERE b.k = o.k GROUP BY ROLLUP (b.k) UNION ALL SELECT o.k) d
SELECT o.k FROM t o, LATERAL (SELECT b.k FROM t b WHERE b.k = o.k UNION ALL BY NAME SELECT b.ts FROM t b) d
""".strip().splitlines()


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_answered_says_so(text: str) -> None:
    session = weft.Session("never-made", progress=False)
    session.stream("t", weft.read.batches([pa.table({"k": [1], "ts": [1]})]), event_time="ts")
    with pytest.raises(WeftError, match="a SELECT cannot read this of the query around it") as caught:
        session.query("q", text, cross_product=True)
    assert "^" in str(caught.value)
    assert "hint: " in str(caught.value)
