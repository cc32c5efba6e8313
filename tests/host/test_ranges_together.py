"""Joins by several inequalities, through planner and host: the oracle's answer for every type, end and plan."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import weft
from weft.errors import PlanError
from weft.testing import Trial, assert_same_rows, oracle

INF, NAN = float("inf"), float("nan")
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [0, 1, 2, 3, 7, 2**63 - 1, -(2**63)]),
    "s": (pa.int8(), [0, 1, 2, 127, -128]),
    "f": (pa.float64(), [0.0, -0.0, 0.5, 1.0, INF, -INF, NAN]),
    "g": (pa.float32(), [0.0, 0.5, 1.5, 3e38, NAN]),
    "d": (pa.decimal128(12, 2), [Decimal("0.00"), Decimal("0.01"), Decimal("-5.25"), Decimal("9999999999.99")]),
    "w": (pa.decimal128(30, 2), [Decimal("0.00"), Decimal("0.01"), Decimal("9" * 26), Decimal("9" * 26) + 1]),
    "t": (pa.timestamp("us"), [0, 1, 10**6, -(10**6)]),
    "y": (pa.date32(), [0, 1, 20_000, -1]),
    "x": (pa.string(), ["", "a", "ab", "abcdefghi", "abcdefghj", "b"]),
    "b": (pa.bool_(), [False, True]),
}
COMPARED = ["<", "<=", ">", ">="]


def column(rng: random.Random, kind: str, count: int) -> pa.Array:
    type_, values = KINDS[kind]
    drawn = [None if rng.random() < 0.08 else rng.choice(values) for _ in range(count)]
    if pa.types.is_date32(type_):
        return pa.array(drawn, pa.int32()).view(type_)
    return pa.array(drawn, type_)


def rows(rng: random.Random, kinds: str, count: int, first: int = 0) -> pa.Table:
    columns = {f"{kind}{end}": column(rng, kind, count) for kind in kinds for end in (1, 2)}
    keys = pa.array([rng.choice([None, 0, 1]) for _ in range(count)], pa.int64())
    return pa.table({"n": pa.array(range(first, first + count), pa.int64()), "k": keys, **columns})


def ranges_of(trial: Trial) -> int:
    return max(len(key.ranges) for store in trial.topology.stores for key in store.indexes)


def run(sql: str, left: list[pa.Table], right: list[pa.Table], **options: Any) -> Trial:
    session = weft.Session("unused", workers=2)
    session.stream("l", weft.read.batches(left))
    session.stream("r", weft.read.batches(right))
    query = session.query("q", sql, **options).query
    trial = Trial(session)
    for a, b in zip(left, right, strict=True):
        trial.feed({"l": a, "r": b})
    whole = {"l": pa.concat_tables(left), "r": pa.concat_tables(right)}
    assert_same_rows(trial.table("q"), oracle(query, whole), f"{sql}, {options}: ")
    return trial


@pytest.mark.parametrize("seed", range(30))
def test_several_inequalities_of_any_types(seed: int) -> None:
    rng = random.Random(seed)
    kinds = "".join(rng.sample("".join(KINDS), rng.choice([2, 2, 3, 5])))
    asked = [f"l.{kind}{rng.choice('12')} {rng.choice(COMPARED)} r.{kind}{rng.choice('12')}" for kind in kinds]
    if rng.random() < 0.4:  # a point of one side inside an interval of the other
        kind = rng.choice(kinds)
        asked += [f"l.{kind}1 {rng.choice(['<', '<='])} r.{kind}1", f"l.{kind}2 {rng.choice(['>', '>='])} r.{kind}1"]
    if rng.random() < 0.3:
        asked.append("l.k = r.k")
    sql = f"SELECT l.n AS a, r.n AS b FROM l, r WHERE {' AND '.join(asked)}"
    left, right = ([rows(rng, kinds, 60, 100 * batch) for batch in range(3)] for _ in range(2))
    every = sorted(
        {f"{side}.{kind}{end}" for kind in kinds for end in "12" for side in "lr" if used(side, kind, end, sql)}
    )
    trial = run(sql, left, right, strategy=weft.Plan(ranges=every))
    assert ranges_of(trial) > 1
    run(sql, left, right)


def used(side: str, kind: str, end: str, sql: str) -> bool:
    return f"{side}.{kind}{end}" in sql.partition("WHERE")[2]


@pytest.mark.parametrize("seed", range(6))
def test_rows_that_expire_and_are_merged(seed: int) -> None:
    """Thirty batches under a window: segments are merged and dropped, and nothing is found that is gone."""
    rng = random.Random(seed)
    session = weft.Session("unused", workers=2)
    fed: dict[str, list[pa.Table]] = {"l": [], "r": []}
    for name in fed:
        session.stream(name, weft.read.batches([part(rng, 0)]), event_time="t", unit="s")
    sql = """SELECT l.n AS a, r.n AS b FROM l, r
             WHERE l.p < r.p AND l.q >= r.q AND abs(l.p - r.p) < 12 WITHIN INTERVAL '20' SECOND"""
    query = session.query("q", sql, strategy=weft.Plan(ranges=["l.p", "l.q", "r.p", "r.q"])).query
    trial = Trial(session)
    for batch in range(30):
        tables = {name: part(rng, batch) for name in fed}
        for name, table in tables.items():
            fed[name].append(table)
        trial.feed(tables)
    assert ranges_of(trial) > 1
    assert_same_rows(trial.table("q"), oracle(query, {name: pa.concat_tables(all_) for name, all_ in fed.items()}))


def part(rng: random.Random, batch: int) -> pa.Table:
    numbers = {name: pa.array([rng.randrange(40) for _ in range(25)], pa.int64()) for name in "pq"}
    times = pa.array([batch * 5 + rng.randrange(5) for _ in range(25)], pa.int64())
    return pa.table(
        {"n": pa.array([batch * 25 + i for i in range(25)], pa.int64()), "t": times.take(order(times)), **numbers}
    )


def order(times: pa.Array) -> pa.Array:
    return pa.array(sorted(range(len(times)), key=lambda i: times[i].as_py()), pa.int64())


BAND = """SELECT l.n AS a, r.n AS b FROM l, r
          WHERE r.t >= l.t - 5 AND r.t <= l.t + 5 AND l.price < r.most"""


def trades(count: int) -> tuple[pa.Table, pa.Table]:
    rng = random.Random(1)
    n, t = pa.array(range(count), pa.int64()), pa.array(range(count), pa.int64())
    price, most = ([rng.randrange(size) for _ in range(count)] for size in (1000, 20))
    left = pa.table({"n": n, "t": t, "price": pa.array(price, pa.int64())})
    return left, pa.table({"n": n, "t": t, "most": pa.array(most, pa.int64())})


def test_a_sample_decides_for_several_ranges() -> None:
    left, right = trades(20_000)
    wide = BAND.replace("- 5", "- 2000").replace("+ 5", "+ 2000")
    trial = run(wide, [left], [right])
    assert ranges_of(trial) == 2
    assert ranges_of(run(BAND, [left], [right])) == 1  # ten rows in the band: one range is enough


def test_a_key_with_few_rows_keeps_one_range() -> None:
    left, right = trades(2_000)
    trial = run("SELECT l.n AS a FROM l, r WHERE l.n = r.n AND l.t <= r.t AND l.price < r.most", [left], [right])
    assert ranges_of(trial) == 1


def test_ranges_that_nothing_limits_are_refused() -> None:
    left, right = trades(10)
    with pytest.raises(PlanError, match="cannot be a range") as error:
        run(BAND, [left], [right], strategy=weft.Plan(ranges=["l.n"]))
    assert "l.price" in str(error.value)


def test_a_plan_may_ask_for_one_range() -> None:
    left, right = trades(3_000)
    wide = BAND.replace("- 5", "- 2000").replace("+ 5", "+ 2000")
    assert ranges_of(run(wide, [left], [right], strategy=weft.Plan(ranges=[]))) == 1


def test_explain_shows_the_ranges_and_what_they_leave() -> None:
    left, right = trades(20_000)
    session = weft.Session("unused", workers=1)
    session.stream("l", weft.read.batches([left]))
    session.stream("r", weft.read.batches([right]))
    session.query("q", BAND.replace("- 5", "- 2000").replace("+ 5", "+ 2000"))
    text = session.explain()
    assert "index ranges" in text
    assert "price < r.most" in text
    assert " leaves 1 of ~" in text
