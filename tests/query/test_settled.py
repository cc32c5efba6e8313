"""Expressions that fail for some values, over rows that change: only rows that are there after a batch are asked.

Each text has two numbers p and q with p >= q for every row of an answer, and asks what fails where p < q.  Within a
batch the new q meets the old p.  DuckDB says after every batch what the answer is.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

import weft
from weft.errors import QueryError
from weft.expr.model import Call, Column, Expr, Literal
from weft.expr.safe import is_brittle
from weft.testing import Trial

COLUMNS = [("id", pa.int64()), ("g", pa.int64()), ("x", pa.int64())]
COUNTED = "(SELECT g, COUNT(*) AS c FROM a GROUP BY g)"
LAST = "(SELECT g, MAX(r) AS c FROM (SELECT g, ROW_NUMBER() OVER (PARTITION BY g ORDER BY id) AS r FROM a) GROUP BY g)"
PAIRS = [
    """SELECT id, g, COUNT(*) OVER (PARTITION BY g) AS p, ROW_NUMBER() OVER (PARTITION BY g ORDER BY id) AS q FROM a""",
    """SELECT id, g, COUNT(*) OVER w AS p, RANK() OVER (w ORDER BY x) AS q FROM a WINDOW w AS (PARTITION BY g)""",
    """SELECT id, g, COUNT(*) OVER () AS p, COUNT(*) OVER (ORDER BY id) AS q FROM a""",
    """SELECT id, g, MAX(x) OVER (PARTITION BY g) AS p, x AS q FROM a WHERE x IS NOT NULL""",
    """SELECT id, a.g, d.c AS p, f.c AS q FROM a JOIN """ + COUNTED + " d USING (g) JOIN " + LAST + " f USING (g)",
    """SELECT b.id, b.g, COALESCE(d.c, 1) AS p, COALESCE(f.c, 1) AS q FROM b LEFT JOIN """
    + COUNTED + " d ON b.g = d.g LEFT JOIN " + LAST + " f ON b.g = f.g",
    """SELECT b.id, b.g, (SELECT COUNT(*) FROM a WHERE a.g = b.g) AS p,
       (SELECT COUNT(*) FROM a WHERE a.g = b.g AND a.x > 1) AS q FROM b""",
]  # fmt: skip
FAILING = [
    "60 // (p - q + 1)",
    "60 % (1 + p - q)",
    "CASE WHEN p > q THEN 60 // (p - q) END",
    "CAST(CASE WHEN p >= q THEN '7' ELSE 'none' END AS BIGINT)",
    "CASE WHEN p >= q THEN p ELSE 9223372036854775807 + p + q END",
]
PLACES = [
    "SELECT id, {} AS e FROM ({}) t",
    "SELECT id, q FROM ({1}) t WHERE {0} < 30",
    "SELECT g, CAST(SUM({}) AS BIGINT) AS e, COUNT(*) AS n FROM ({}) t GROUP BY g",
    "SELECT {} AS e, COUNT(*) AS n FROM ({}) t GROUP BY 1",
    "SELECT b.id, t.e FROM b JOIN (SELECT g, {} AS e FROM ({}) s) t ON b.g = t.g",
    "SELECT DISTINCT {} AS e FROM ({}) t",
    "SELECT id, e, ROW_NUMBER() OVER (PARTITION BY e ORDER BY id) AS n FROM (SELECT id, {} AS e FROM ({}) s) t",
    "SELECT id, {0} AS e FROM ({1}) t UNION ALL SELECT 0, {0} FROM ({1}) t",
]


class World:
    """Streams a and b that bring rows, take them back, and bring rows that are gone at the end of their batch."""

    def __init__(self, rng: random.Random, *, changes: bool) -> None:
        self.rng, self.changes, self.here = rng, changes, dict[str, list[tuple[int | None, ...]]](a=[], b=[])
        self.next = iter(range(1, 1000))

    def session(self, texts: list[str]) -> weft.Session:
        session = weft.Session("never-made", workers=2, progress=False)
        for name in self.here:
            empty = weft.read.batches([self._table([])])
            session.stream(name, empty, **({"changes": "op"} if self.changes else {}))  # type: ignore[arg-type]
        for place, text in enumerate(texts):
            session.query(f"q{place}", text, cross_product=True)
        return session

    def batch(self) -> dict[str, pa.Table]:
        return {name: self._table(list(self._rows(here))) for name, here in self.here.items()}

    def _rows(self, here: list[tuple[int | None, ...]]) -> Iterator[tuple[str | int | None, ...]]:
        rng = self.rng
        for _ in range(rng.randint(0, 5)):
            row = (next(self.next), rng.choice([None, 1, 1, 2]), rng.choice([None, 1, 2, 3]))
            yield ("insert", *row)
            here.append(row)
            if self.changes and rng.random() < 0.5:
                yield ("delete", *here.pop(rng.randrange(len(here))))
            if self.changes and rng.random() < 0.3:
                gone = (next(self.next), rng.choice([None, 1, 2]), 0)
                yield from (("insert", *gone), ("delete", *gone))

    def _table(self, rows: list[tuple[str | int | None, ...]]) -> pa.Table:
        schema = pa.schema([("op", pa.string()), *COLUMNS])
        table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
        return table if self.changes else table.drop_columns("op")

    def answer(self, text: str) -> list[str]:
        with duckdb.connect(config={"threads": 1}) as oracle:
            for name, here in self.here.items():
                rows = [("", *row) for row in here]
                held = World(self.rng, changes=True)._table(list(rows)).drop_columns("op")
                oracle.register(name, held)
            return sorted(map(repr, oracle.execute(text).fetchall()))


def check(texts: list[str], seed: int, *, changes: bool) -> int:
    """Compare after each of some random batches; how many rows the answers had."""
    world, found = World(random.Random(seed), changes=changes), 0
    trial = Trial(world.session(texts))
    for _ in range(5):
        trial.feed(world.batch())
        for place, text in enumerate(texts):
            rows = [repr(tuple(row.values())) for row in trial.table(f"q{place}").to_pylist()]
            assert Counter(rows) == Counter(world.answer(text)), text
            found += len(rows)
    return found


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("pair", PAIRS)
def test_what_fails_is_asked_of_rows_after_a_batch(pair: str, changes: bool) -> None:
    rng = random.Random(pair)
    texts = [place.format(rng.choice(FAILING), pair) for place in rng.sample(PLACES, 3)]
    assert check(texts, rng.randrange(1000), changes=changes)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(24))
def test_random_expressions_that_fail(seed: int) -> None:
    rng = random.Random(seed)
    check([rng.choice(PLACES).format(rng.choice(FAILING), rng.choice(PAIRS))], seed, changes=rng.random() < 0.6)


def test_rows_that_are_gone_at_the_end_of_their_batch_are_not_asked() -> None:
    texts = [
        "SELECT id, 6 % x AS e FROM a",
        "SELECT id FROM a WHERE 6 % x = 0",
        "SELECT g, CAST(SUM(6 // x) AS BIGINT) AS e FROM a GROUP BY g",
        "SELECT 6 % x AS e, COUNT(*) AS n FROM a GROUP BY 1",
        "SELECT a.id, 6 // (a.x + b.x - 1) AS e FROM a JOIN b ON a.g = b.g",
    ]
    assert all(check(texts, seed, changes=True) for seed in range(6))


def test_what_fails_on_a_row_of_the_answer_still_ends_the_run() -> None:
    world = World(random.Random(0), changes=True)
    for text, says in (("SELECT id, 6 % x AS e FROM a", "6 % "), ("SELECT SUM(6 % x) AS e FROM a", "6 % x")):
        trial = Trial(world.session([text]))
        with pytest.raises(QueryError, match=f"cannot compute {says}"):
            trial.feed({"a": world._table([("insert", 1, 1, 0)])})


def test_joins_are_cut_only_where_something_may_fail_and_rows_may_go() -> None:
    changing = World(random.Random(0), changes=True).session([])
    staying = World(random.Random(0), changes=False).session([])
    names = itertools.count()

    def streams(session: weft.Session, text: str) -> list[int]:
        return [relation.stream.depth for relation in session.query(f"q{next(names)}", text).query.relations]

    join = "FROM a JOIN b ON a.g = b.g"
    assert streams(changing, f"SELECT SUM(a.x * b.x) AS s {join}") == [0, 0]
    assert streams(changing, f"SELECT SUM(a.x % 10 + b.x / 2) AS s {join}") == [0, 0]
    assert streams(changing, f"SELECT SUM(a.x % b.x) AS s {join}") == [1]
    assert streams(staying, f"SELECT SUM(a.x % b.x) AS s {join}") == [0, 0]
    assert streams(changing, f"SELECT a.x % b.x AS s {join}") == [0, 0], "the rows of the join are counted anyway"
    assert streams(changing, "SELECT a.id FROM a JOIN b ON CAST(a.g AS INTEGER) = b.g") == [0, 0]
    assert streams(changing, "SELECT g, COUNT(*) % (COUNT(*) - 1) AS n FROM a GROUP BY g") == [0]


@pytest.mark.parametrize(
    ("expr", "brittle"),
    [
        (Call("%", (Column("a", "x", pa.int64()), Literal(7, pa.int64())), pa.int64()), False),
        (Call("%", (Column("a", "x", pa.int64()), Literal(0, pa.int64())), pa.int64()), True),
        (Call("%", (Column("a", "x", pa.float64()), Column("a", "x", pa.float64())), pa.float64()), False),
        (Call("cast", (Column("a", "s", pa.string()),), pa.int64()), True),
        (Call("cast", (Column("a", "s", pa.string()),), pa.bool_()), True),
        (Call("cast", (Column("a", "x", pa.int64()),), pa.string()), False),
        (Call("cast", (Column("a", "x", pa.int64()),), pa.int32()), True),
        (Call("cast", (Column("a", "x", pa.int32()),), pa.int64()), False),
        (Call("*", (Column("a", "x", pa.int64()), Column("b", "x", pa.int64())), pa.int64()), False),
    ],
)
def test_what_is_brittle(expr: Expr, brittle: bool) -> None:
    assert is_brittle(expr, mixed=True) is brittle
