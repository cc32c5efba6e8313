"""Random aggregates over values at their edges, compared with DuckDB after every batch: it reads the very text.

    python -m tests.edges --n 1000 --seed 0     many cases in this process
    python -m tests.edges --seed 4711 --n 1 -v  one case again, printed in full

Keys and arguments are of all types: structs, lists, bytes, times with zones, NaN and both zeros, texts that look alike,
decimals that nearly fill their 38 digits, the least and greatest whole numbers.  Rows come and, in half of the cases,
go again, often all of them.  Joins are inner and outer.  Batches die and come again, and workers become more or fewer.

Where Weft and DuckDB differ on purpose nothing is drawn: NaN matches nothing, and of the most frequent values the least
is the mode.
"""

from __future__ import annotations

import datetime as dt
import math
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import weft
from tests.fuzz import feed_through_a_crash
from tests.seeds import run_seeds
from weft.testing import Trial

OP = "op"
MANY = "9999999999999999999999.9999999999"
DATES = [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31), dt.date(2024, 2, 29)]
TIMES = [
    moment.replace(tzinfo=None)
    for moment in (
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC),
        dt.datetime(2024, 3, 31, 1, 30, tzinfo=dt.UTC),
        dt.datetime(2024, 10, 27, 2, tzinfo=dt.UTC),
    )
]
VALUES: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "k": (pa.int64(), [0, 1, 2, 3, -1]),
    "j": (pa.int32(), [0, 1, -5, 2**31 - 1, -(2**31), 7]),
    "h": (pa.int8(), [-128, 127, 0, 1]),
    "f": (pa.float64(), [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.25]),
    "g": (pa.float32(), [0.0, -0.0, math.nan, 0.5, 3.25]),
    "d": (pa.decimal128(38, 10), [Decimal(text) for text in (MANY, f"-{MANY}", "0.0000000001", "1", "-1")]),
    "e": (pa.decimal128(12, 2), [Decimal(text) for text in ("1.25", "-1.25", "9999999999.99", "0.00")]),
    "s": (pa.string(), ["", "a", "A", "ä", "a\u0308", "Ω≈ç", "\U0001f600", "a\tb", "NULL", "a\x01b", *("long" * 4,)]),
    "b": (pa.bool_(), [True, False]),
    "y": (pa.date32(), DATES),
    "t": (pa.timestamp("us"), TIMES),
    "z": (pa.timestamp("us", tz="UTC"), [time.replace(tzinfo=dt.UTC) for time in TIMES]),
    "r": (
        pa.struct([("a", pa.int64()), ("x", pa.string())]),
        [{"a": 1, "x": "p"}, {"a": 1, "x": None}, {"a": None, "x": None}, {"a": 1, "x": ""}],
    ),
    "l": (pa.list_(pa.int64()), [[], [1], [1, 2], [2, 1], [None], [1, None]]),
    "v": (pa.binary(), [b"", b"\0", b"\0\0", b"\xff", b"ab"]),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in VALUES.items()])
KEYS = [
    *(f"a.{name}" for name in VALUES), "b.s", "b.r", "b.f", "b.k", "a.r.x", "a.r.a", "a.j % 2", "lower(a.s)",
    "length(a.s)", "a.k IS NULL", "coalesce(b.k, a.k)", "date_trunc('month', a.y)", "CASE WHEN a.k > 1 THEN 'x' END",
]  # fmt: skip
CALLS = [
    "count(*)", "count(A.V)", "count(DISTINCT A.V)", "count(DISTINCT A.V) FILTER (WHERE A.k > 0)", "min(A.O)",
    "max(A.O)", "min(A.O) FILTER (WHERE A.b)", "sum(A.N)", "avg(A.N)", "sum(A.N) FILTER (WHERE A.s IS NOT NULL)",
    "sum(DISTINCT A.N)", "avg(DISTINCT A.N)", "bool_and(A.b)", "bool_or(A.b)", "sum(A.j) / count(*)", "median(A.k)",
    "max(A.k) - min(A.k)", "bit_or(A.k)", "product(A.k)", "string_agg(A.s, ',' ORDER BY A.s)", "var_pop(A.h)",
    "list(A.O ORDER BY A.O)", "any_value(A.k) IS NULL AND count(A.k) > 0", "count(*) FILTER (WHERE A.f = 1.5)",
]  # fmt: skip
JOINS = [
    "x a", "x a", "x a JOIN y b ON a.k = b.k", "x a LEFT JOIN y b ON a.k = b.k", "x a FULL JOIN y b ON a.k = b.k",
    "x a RIGHT JOIN y b ON a.k = b.k AND a.j < b.j", "x a JOIN y b ON a.s = b.s", "x a LEFT JOIN y b ON a.r = b.r",
    "x a JOIN y b ON a.k = b.k JOIN x c ON c.j = b.j", "x a JOIN y b ON a.e < b.e AND a.k = b.k",
    "x a LEFT JOIN y b ON a.k = b.k AND b.b LEFT JOIN y c ON c.j = a.j", "x a JOIN y b ON a.z = b.z",
]  # fmt: skip
HAVING = [
    "count(*) > 1", "count(*) % 2 = 1", "max(a.k) > 0", "count(DISTINCT a.s) > 1", "sum(a.k) IS NULL", "bool_or(a.b)",
    "sum(a.j) > 5 OR count(*) < 3",
]  # fmt: skip
SETS = ["ROLLUP ({})", "CUBE ({})", "GROUPING SETS (({}), ())"]
STRATEGIES = ["auto", "auto", "flat", "left_deep", "views", "hypercube:hash"]


@dataclass(frozen=True)
class EdgeCase:
    """One query over two streams, its batches, and the rows that are there after each of them."""

    seed: int
    text: str
    strategy: str
    is_changing: bool
    batches: Sequence[dict[str, pa.Table]]
    there: Sequence[dict[str, pa.Table]]

    def describe(self) -> str:
        """The case in full."""
        fed = (f"{name}: {rows.to_pylist()}" for batch in self.batches for name, rows in batch.items())
        return "\n".join([f"{self.text}\n{self.strategy}, {'changing' if self.is_changing else 'growing'}", *fed])


@dataclass
class Tally:
    """What was compared."""

    views: int = 0
    rows: int = 0
    refused: int = 0
    """Sums that fit no type, in both."""

    def __iadd__(self, other: Tally) -> Tally:
        self.views, self.rows = self.views + other.views, self.rows + other.rows
        self.refused += other.refused
        return self

    def __str__(self) -> str:
        return f"{self.views} views, {self.rows} rows, {self.refused} refused"


def make_edge_case(seed: int) -> EdgeCase:
    """The case of a seed."""
    rng = random.Random(seed)
    text, is_changing = _text(rng), rng.random() < 0.5
    live: dict[str, list[dict[str, Any]]] = {"x": [], "y": []}
    batches, there = [], []
    for _ in range(5):
        batches.append({name: _table(_changes(rng, live[name], is_changing), is_changing) for name in live})
        there.append({name: pa.Table.from_pylist(rows, SCHEMA) for name, rows in live.items()})
    return EdgeCase(seed, text, rng.choice(STRATEGIES), is_changing, batches, there)


def _text(rng: random.Random) -> str:
    source = rng.choice(JOINS)
    aliases = [alias for alias in "abc" if f" {alias} " in f"{source} "]
    keys = [key for key in rng.sample(KEYS, rng.choice([0, 1, 1, 2, 3])) if "b" in aliases or "b." not in key]
    calls = [_call(rng, rng.choice(aliases)) for _ in range(rng.choice([1, 2, 3]))]
    where = rng.choice(["", "", " WHERE a.k >= 0", " WHERE a.s <> 'a' OR a.b"])
    having = f" HAVING {rng.choice(HAVING)}" if rng.random() < 0.35 else ""
    by = ""
    if keys:
        sets = rng.choice(SETS) if rng.random() < 0.4 else "{}"
        by = f" GROUP BY {sets.format(', '.join(keys))}"
        calls += [f"GROUPING({', '.join(keys)})"] if sets != "{}" else []
    outputs = ", ".join(f"{item} AS c{place}" for place, item in enumerate([*keys, *calls]))
    return f"SELECT {outputs} FROM {source}{where}{by}{having}"


def _call(rng: random.Random, alias: str) -> str:
    call = rng.choice(CALLS)
    for kind, columns in (("V", [*VALUES]), ("O", "kjhfgdesbytzv"), ("N", "kjhed")):
        call = call.replace(f"A.{kind}", f"A.{rng.choice(columns)}")
    return call.replace("A.", f"{alias}.")


def _changes(rng: random.Random, live: list[dict[str, Any]], is_changing: bool) -> list[dict[str, Any]]:
    """Rows that come, and some that go; `live` is what there is after them."""
    come = [_row(rng) for _ in range(rng.choice([0, 1, 3, 6]))]
    live += come
    changes = [row | {OP: "insert"} for row in come]
    if is_changing and live and rng.random() < 0.6:
        many = rng.choice([1, len(live) // 2, len(live)])
        changes += [live.pop(rng.randrange(len(live))) | {OP: "delete"} for _ in range(many)]
    return changes


def _row(rng: random.Random) -> dict[str, Any]:
    return {name: None if rng.random() < 0.15 else rng.choice(some) for name, (_, some) in VALUES.items()}


def _table(rows: list[dict[str, Any]], is_changing: bool) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA.append(pa.field(OP, pa.string())) if is_changing else SCHEMA)


def check_edges(case: EdgeCase) -> Tally:
    """Run the case and compare after every batch."""
    rng, tally = random.Random(case.seed + 1), Tally()
    with tempfile.TemporaryDirectory(prefix="weft-edges-") as folder:
        session = weft.Session(checkpoint=Path(folder, "state"), workers=rng.choice([1, 2, 3]), progress=False)
        for name, rows in case.batches[0].items():
            session.stream(name, weft.read.batches([rows.slice(0, 0)]), **({"changes": OP} if case.is_changing else {}))
        session.query("q", case.text, strategy=case.strategy)
        trial = Trial(session, state=session.checkpoint.root)
        for number, (batch, wanted) in enumerate(zip(case.batches, _answers(case), strict=True)):
            if number and rng.random() < 0.3:
                session.rescale(rng.randint(1, 4))
                trial.change()
            try:
                _feed(rng, session, trial, batch)
            except weft.WeftError:
                assert wanted is None, f"batch {number} is refused"
                tally += Tally(refused=1)
                break
            assert wanted is not None, f"batch {number} is not refused"
            found = Counter(map(_plain_row, trial.table("q").to_pylist()))
            assert found == wanted, f"batch {number}: extra {found - wanted}, missing {wanted - found}"
            tally += Tally(views=1, rows=found.total())
    return tally


def _feed(rng: random.Random, session: weft.Session, trial: Trial, batch: dict[str, pa.Table]) -> None:
    if rng.random() < 0.2:
        feed_through_a_crash(rng, session, trial, batch)
    else:
        trial.feed(batch)


def _answers(case: EdgeCase) -> Iterator[Counter[Any] | None]:
    """What DuckDB says after each batch; None where it refuses."""
    for tables in case.there:
        with duckdb.connect() as duck:
            duck.execute("SET TimeZone = 'UTC'")
            for name, rows in tables.items():
                duck.register(name, rows)
            try:
                answer = duck.sql(case.text).to_arrow_table().to_pylist()
            except (duckdb.OutOfRangeException, duckdb.ConversionException):
                yield None
                return
            yield Counter(map(_plain_row, answer))


def _plain_row(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(map(_plain, row.values()))


def _plain(value: Any) -> Any:
    """A value that can be counted: floats nearly so, since a sum of them depends on the order; NaN equals NaN."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else float(f"{value:.9g}") + 0.0
        case dict():
            return tuple(map(_plain, value.values()))
        case list():
            return tuple(map(_plain, value))
    return value


def main() -> int:
    """The command line."""
    return run_seeds(
        "tests.edges", "aggregates over values at their edges, against DuckDB",
        lambda seed, _spark: make_edge_case(seed), lambda case, _spark: check_edges(case), Tally(), on_spark=False,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
