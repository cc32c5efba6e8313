"""Values at the limits of their types, where errors were found or are likely: each is compared with the oracle."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import weft
from weft.testing import Trial, assert_same_rows, oracle

BIG = 2**63 - 1
INF, NAN = float("inf"), float("nan")
OPS = ["=", "<", "<=", ">", ">=", "<>"]


def same(sql: str, **tables: pa.Table) -> None:
    """The query over the tables answers what the oracle does, in one batch and in two, on one worker and on three."""
    for workers in (1, 3):
        for cuts in (1, 2):
            session = weft.Session("unused", workers=workers)
            for name, table in tables.items():
                session.stream(name, weft.read.batches([table]))
            query = session.query("q", sql).query
            trial = Trial(session)
            for i in range(cuts):
                trial.feed({name: halves(table, cuts)[i] for name, table in tables.items()})
            assert_same_rows(trial.table("q"), oracle(query, tables), f"{sql}, {workers} workers, {cuts} batches: ")


def halves(table: pa.Table, cuts: int) -> list[pa.Table]:
    middle = table.num_rows // 2
    return [table] if cuts == 1 else [table.slice(0, middle), table.slice(middle)]


def numbered(column: str, values: pa.Array) -> pa.Table:
    return pa.table({"n": pa.array(range(len(values)), pa.int64()), column: values})


COLUMNS = {
    "ends of int64": pa.array([0, 1, BIG, BIG - 1, -BIG - 1, -BIG, None, 5], pa.int64()),
    "ends of int8": pa.array([127, -128, 0, None, 1], pa.int8()),
    "floats": pa.array([INF, -INF, NAN, 0.0, -0.0, 1e308, -1e308, 1.0, None, 5e-324, -5e-324]),
    "floats of 32 bits": pa.array([INF, -INF, NAN, 0.0, -0.0, 3e38, 1.0, None, 1e-45], pa.float32()),
    "text with zero bytes": pa.array(["", "\0", "\0\0", "a", "a\0", None, "abcdefgh", "abcdefgh\0", "abcdefghi"]),
    "text beyond ASCII": pa.array(["é", "e", "z", "ß", "日本", "\U0001f600", "\uffff", None]),
    "binary": pa.array([b"", b"\0", b"\xff" * 9, b"\xff" * 8, b"\x7f", b"\x80", None]),
    "wide decimals": pa.array(
        [Decimal(0), Decimal(-1), *(Decimal(f"{s}{'9' * 35}.99{d}") for s in ("", "-") for d in (8, 9)), None],
        pa.decimal128(38, 3),
    ),
    "narrow decimals": pa.array(
        [Decimal(f"{s}{'9' * 15}.999") for s in ("", "-")] + [Decimal(0), None], pa.decimal128(18, 3)
    ),
    "booleans": pa.array([True, False, None, True, False, True] * 3).slice(5, 9),
    "dates": pa.array([0, -1, 100000, -100000, None], pa.int32()).view(pa.date32()),
    "times": pa.array([0, -1, 10**15, -(10**15), None], pa.timestamp("us")),
    "zoned times": pa.array([0, -1, 10**15, None], pa.timestamp("us", "UTC")),
}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("what", COLUMNS)
def test_comparison(what: str, op: str) -> None:
    same(f"SELECT x.n AS a, y.n AS b FROM t x, t y WHERE x.v {op} y.v", t=numbered("v", COLUMNS[what]))


@pytest.mark.parametrize("op", OPS)
def test_whole_numbers_and_floats_beyond_53_bits(op: str) -> None:
    table = numbered("k", pa.array([2**53, 2**53 + 1, -(2**53) - 1, 7], pa.int64()))
    table = table.append_column("f", pa.array([2.0**53, 2.0**53 + 2, -(2.0**53), 7.0]))
    same(f"SELECT x.n AS a, y.n AS b FROM t x, t y WHERE x.k {op} y.f", t=table)


@pytest.mark.parametrize("op", ["<=", ">=", "<", ">"])
def test_a_float32_term_is_moved_without_losing_the_edge(op: str) -> None:
    """A bound in float32 was widened by less than one unit in its last place."""
    left = np.random.default_rng(1).uniform(0, 1, 300).astype(np.float32)
    right = left - np.float32(0.1)
    a = numbered("f", pa.array(left))
    b = numbered("f", pa.array(right)).append_column("g", pa.array(np.full(300, 0.1, dtype=np.float32)))
    same(f"SELECT x.n AS a, y.n AS b FROM a x, b y WHERE x.f - y.f {op} y.g AND x.n = y.n", a=a, b=b)


@pytest.mark.parametrize(
    "predicate",
    [
        "abs(x.f - y.f) <= CAST('inf' AS DOUBLE)",
        "abs(x.f - y.f) < 1e308",
        "x.f - y.f >= 1e308",
        "x.f - y.f < 1e308",
        "x.f - y.f <= y.f",
        "x.f + y.f >= y.f",
        "x.f BETWEEN y.f - 1e308 AND y.f + 1e308",
        "NOT (x.f - y.f <= y.f)",
    ],
)
def test_infinities_in_a_moved_bound(predicate: str) -> None:
    """Infinity minus infinity made the bound NaN, and the tuple matched nothing."""
    same(f"SELECT x.n AS a, y.n AS b FROM t x, t y WHERE {predicate}", t=numbered("f", COLUMNS["floats"]))


def test_a_moved_bound_may_leave_64_bits() -> None:
    """x + 1 <= y became x <= y - 1, and the smallest y failed the batch."""
    a, b = (numbered("k", pa.array(values, pa.int64())) for values in ([0, 1, -BIG - 1], [-BIG - 1, BIG, 0, None]))
    for op in ("<", "<=", ">", ">="):
        same(f"SELECT x.n AS a, y.n AS b FROM a x, b y WHERE x.k + 1 {op} y.k", a=a, b=b)


def test_a_band_at_the_end_of_64_bits() -> None:
    table = numbered("k", pa.array([BIG, BIG - 1, BIG - 7], pa.int64()))
    same("SELECT x.n AS a, y.n AS b FROM t x, t y WHERE abs(x.k - y.k) <= 5", t=table)
    same("SELECT x.n AS a, y.n AS b FROM t x, t y WHERE x.k - y.k < 1", t=table)


def test_event_times_at_the_ends_of_64_bits() -> None:
    table = numbered("ts", pa.array([-BIG - 1, BIG, 0], pa.timestamp("us")))
    session = weft.Session("unused", workers=2)
    session.stream("t", weft.read.batches([table]), event_time="ts")
    session.query("q", "SELECT x.n AS a, y.n AS b FROM t x, t y WHERE x.n <= y.n WITHIN INTERVAL '5' SECOND")
    trial = Trial(session)
    trial.feed({"t": table})
    assert sorted(map(tuple, (row.values() for row in trial.table("q").to_pylist()))) == [(0, 0), (1, 1), (2, 2)]


def test_an_equality_over_three_aliases_is_no_cross_product() -> None:
    """The planner chose the hop and then refused it."""
    table = numbered("k", pa.array([0, 1, 1, 2, None], pa.int64())).append_column("j", pa.array([1, 1, 2, 0, 1]))
    same(
        """SELECT a.n AS a, b.n AS b, c.n AS c, d.n AS d FROM t a, t b, t c, t d
           WHERE a.k = b.k AND a.j <> c.j AND c.k < d.k AND greatest(a.k, b.j) = d.k""",
        t=table,
    )


def test_a_row_without_time_is_in_no_window_even_if_nothing_expires() -> None:
    """With a partner that has no event time nothing expires, and the window let a NULL time through."""
    timed = numbered("k", pa.array([1, 1], pa.int64())).append_column("ts", pa.array([5, None], pa.int64()))
    plain = numbered("k", pa.array([1], pa.int64()))
    session = weft.Session("unused", workers=1)
    session.stream("a", weft.read.batches([timed]), event_time="ts")
    session.stream("b", weft.read.batches([plain]))
    query = session.query("q", "SELECT a.n AS n FROM a WITHIN INTERVAL '5' SECOND, b WHERE a.k = b.k")
    trial = Trial(session)
    trial.feed({"a": timed, "b": plain})
    assert trial.table("q").to_pylist() == [{"n": 0}]
    assert_same_rows(trial.table("q"), oracle(query.query, {"a": timed, "b": plain}))


@pytest.mark.parametrize(
    "where",
    [
        "x.k = y.k AND x.k = y.k AND y.k = x.k AND x.n < y.n AND x.n < y.n",
        "x.k = y.k AND x.k = y.n AND x.n = y.k",
        "x.k = y.k AND 1 = 0",
        "x.k = y.k AND NULL",
        "x.k = y.k AND x.k = x.n AND y.k + y.n = x.k + x.n",
        "x.k IS NULL AND y.k IS NULL AND x.n <= y.n",
    ],
)
def test_odd_conjunctions(where: str) -> None:
    same(
        f"SELECT 1 AS one, x.n AS a FROM t x, t y WHERE {where}",
        t=numbered("k", pa.array([1, 1, 2, None, 0], pa.int64())),
    )
