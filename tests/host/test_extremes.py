"""Extreme numbers: they are refused with a reason or used in plans, and never end in an exception of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import weft
from weft.errors import ParseError, PlanError, QueryError, SourceError
from weft.testing import Trial

ROWS = pa.table({"k": list(range(20))})
STRATEGIES = ("auto", "flat", "hypercube:hash", "hypercube:random", "hypercube:hybrid", "two-way:1-bucket")


def session(sql: str = "SELECT a.k FROM x a JOIN y b ON a.k = b.k", **wishes: Any) -> weft.Session:
    s = weft.Session(checkpoint="unused", workers=4)
    for name in "xy":
        s.stream(name, weft.read.batches([ROWS]))
    s.query("q", sql, **wishes)
    return s


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("rows", [0, 1e18])
def test_any_number_of_rows_can_be_planned_with(strategy: str, rows: float) -> None:
    trial = Trial(session(strategy=strategy, statistics=weft.Statistics({"x": rows, "y": rows})))
    trial.feed({"x": ROWS, "y": ROWS})
    assert trial.table("q").num_rows == 20


def test_numbers_that_nobody_can_have_are_refused() -> None:
    with pytest.raises(QueryError, match="rows"):
        weft.Statistics({"x": 1e308})


def test_quantiles_beyond_the_type_of_a_column_only_make_work_uneven() -> None:
    wrong = weft.Statistics({"x": 20, "y": 20}, quantiles={"x.k": [1e300, 1e301], "y.k": [9.3e18]})
    trial = Trial(
        session("SELECT a.k FROM x a JOIN y b ON a.k <= b.k", strategy="two-way:equi-weight", statistics=wrong)
    )
    trial.feed({"x": ROWS, "y": ROWS})
    assert trial.table("q").num_rows == 210


@pytest.mark.parametrize(("first", "lateness"), [(-(2**63), "10 us"), (0, "300000000 weeks")])
def test_a_watermark_before_the_first_moment_drops_nothing(first: int, lateness: str) -> None:
    rows = pa.table({"k": [1], "t": pa.array([first], pa.timestamp("us"))})
    s = weft.Session(checkpoint="unused", workers=2)
    for name in "xy":
        s.stream(name, weft.read.batches([rows]), event_time="t", lateness=lateness)
    s.query("q", "SELECT a.k FROM x a JOIN y b ON a.k = b.k WITHIN INTERVAL '1' HOUR")
    trial = Trial(s)
    for _ in range(2):
        trial.feed({"x": rows, "y": rows})
    assert trial.table("q").num_rows == 4


def test_an_interval_without_end_is_refused_where_it_stands() -> None:
    with pytest.raises(ParseError, match="too long"):
        session("SELECT a.k FROM x a JOIN y b ON a.k = b.k WITHIN INTERVAL '1000000000' WEEK")


@pytest.mark.parametrize("days", ["106751992", "300000000"])
def test_a_window_beyond_64_bits_is_refused_where_it_stands(days: str) -> None:
    rows = pa.table({"k": [1], "t": pa.array([0], pa.timestamp("us"))})
    s = weft.Session(checkpoint="unused", workers=2)
    for name in "xy":
        s.stream(name, weft.read.batches([rows]), event_time="t")
    with pytest.raises(QueryError, match="too long") as caught:
        s.query("q", f"SELECT a.k FROM x a WITHIN INTERVAL '{days}' DAY JOIN y b ON a.k = b.k")
    assert "^" in str(caught.value)
    with pytest.raises(QueryError, match="too long") as caught:
        s.query("g", f"SELECT count(*) AS n FROM x GROUP BY window(t, '{days} days')")
    assert "^" in str(caught.value)
    s.query("g", "SELECT count(*) AS n FROM x GROUP BY window(t, '30000000 days')")
    trial_text = "SELECT a.k FROM x a WITHIN INTERVAL '106751991' DAY JOIN y b ON a.k = b.k"
    s.query("q", trial_text)
    trial = Trial(s)
    trial.feed({"x": rows, "y": rows})
    assert trial.table("q").num_rows == 1
    assert trial.table("g").to_pylist() == [{"n": 1}]


EDGES = [2**63 - 1, 2**63 - 3, 2**62, 5, 0, -1, -(2**62), -(2**63) + 2, -(2**63)]
INEQUALITIES: dict[str, Callable[[int, int], bool]] = {
    "a.l - b.l < 5": lambda a, b: a - b < 5,
    "a.l < b.l + 5": lambda a, b: a < b + 5,
    "b.l - 3 <= a.l": lambda a, b: b - 3 <= a,
    "abs(a.l - b.l) <= 3": lambda a, b: abs(a - b) <= 3,
    "a.l + b.l > -2 AND a.l - b.l >= 2": lambda a, b: a + b > -2 and a - b >= 2,
    "a.l - b.l BETWEEN -3 AND 3 AND a.l + b.l + 1 > b.l": lambda a, b: -3 <= a - b <= 3 and a + b + 1 > b,
}


@pytest.mark.parametrize("strategy", ["flat", "hypercube:random"])
@pytest.mark.parametrize("condition", INEQUALITIES)
def test_sums_in_inequalities_do_not_overflow_in_any_plan(condition: str, strategy: str) -> None:
    rows = pa.table({"l": EDGES})
    s = weft.Session(checkpoint="unused", workers=3)
    for name in "xy":
        s.stream(name, weft.read.batches([rows]))
    s.query("q", f"SELECT a.l, b.l AS m FROM x a JOIN y b ON {condition}", strategy=strategy)
    trial = Trial(s)
    trial.feed({"x": rows.slice(0, 4), "y": rows})
    trial.feed({"x": rows.slice(4)})
    found = sorted((row["l"], row["m"]) for row in trial.table("q").to_pylist())
    assert found == sorted((a, b) for a in EDGES for b in EDGES if INEQUALITIES[condition](a, b))


@pytest.mark.parametrize("text", ["SELECT a.l + b.l AS m FROM x a JOIN y b ON a.l < b.l",
                                  "SELECT a.l FROM x a JOIN y b ON a.l + 1 = b.l"])  # fmt: skip
def test_sums_elsewhere_overflow_with_an_error(text: str) -> None:
    rows = pa.table({"l": EDGES})
    s = weft.Session(checkpoint="unused", workers=3)
    for name in "xy":
        s.stream(name, weft.read.batches([rows]))
    s.query("q", text)
    with pytest.raises(QueryError, match="cannot compute"):
        Trial(s).feed({"x": rows, "y": rows})


def test_columns_of_views_and_of_nothing_but_null() -> None:
    rows = pa.table({
        "s": pa.array(["u", "v"], pa.string_view()), "b": pa.array([b"1", b"2"], pa.binary_view()),
        "n": pa.nulls(2), "p": pa.array([{"s": "u"}, None], pa.struct([("s", pa.string_view())])),
    })  # fmt: skip
    s = weft.Session(checkpoint="unused", workers=2)
    for name in "xy":
        s.stream(name, weft.read.batches([rows]))
    s.query("q", "SELECT a.s, a.b, b.p FROM x a JOIN y b ON a.s = b.s AND a.b = b.b")
    s.query("never", "SELECT a.s FROM x a JOIN y b ON a.n = b.n")
    s.query("always", "SELECT a.s FROM x a JOIN y b ON a.n IS NOT DISTINCT FROM b.n")
    s.query("mixed", "SELECT a.s FROM x a JOIN y b ON a.n = b.s")
    trial = Trial(s)
    trial.feed({"x": rows, "y": rows})
    assert sorted(trial.table("q").to_pylist(), key=repr) == [
        {"s": "u", "b": b"1", "p": {"s": "u"}}, {"s": "v", "b": b"2", "p": None},
    ]  # fmt: skip
    assert [trial.table(name).num_rows for name in ("never", "always", "mixed")] == [0, 4, 0]


def test_rows_that_change_may_have_columns_of_nothing_but_null_and_times_of_day() -> None:
    day = pa.array([3_600_000_000, None, 7], pa.time64("us"))
    rows = pa.table(
        {"k": [1, 2, 1], "n": pa.nulls(3), "l": pa.array([[None], [], None], pa.list_(pa.null())), "day": day}
    )
    s = weft.Session(checkpoint="unused", workers=2)
    s.stream("x", weft.read.batches([rows]), key=["k"])
    s.query("q", "SELECT k, day, n IS NULL AS none FROM x")
    trial = Trial(s)
    for at in range(3):
        trial.feed({"x": rows.slice(at, 1)})
    found = {row["k"]: (row["day"], row["none"]) for row in trial.table("q").to_pylist()}
    assert found == {1: (day[2].as_py(), True), 2: (None, True)}


@pytest.mark.parametrize("never", ["FALSE", "1 > 2", "NULL = 1"])
def test_a_join_that_is_never_true_gives_nothing_beside_one_that_shares_its_stores(never: str) -> None:
    rows = pa.table({"k": [0, 1, 1]})
    s = weft.Session(checkpoint="unused", workers=2)
    for name in "xy":
        s.stream(name, weft.read.batches([rows]))
    s.query("all", "SELECT x.k FROM x JOIN y ON x.k = y.k")
    s.query("none", f"SELECT x.k FROM x JOIN y ON x.k = y.k WHERE {never}")
    s.query(
        "some", f"SELECT k FROM x WHERE EXISTS (SELECT 1 FROM y WHERE y.k = x.k AND {never}) UNION ALL SELECT k FROM y"
    )
    trial = Trial(s)
    trial.feed({"x": rows, "y": rows})
    assert [trial.table(name).num_rows for name in ("all", "none", "some")] == [5, 0, 3]


@pytest.mark.parametrize("strategy", ["two-way:m-bucket", "two-way:equi-weight"])
@pytest.mark.parametrize("band", ["abs(a.k - b.k) < 0.5", "a.k BETWEEN b.k - 1 AND b.k + 1"])
def test_a_band_over_floats_is_refused_by_ranges_for_the_true_reason(band: str, strategy: str) -> None:
    floats = pa.table({"k": [0.5, 1.0]})
    s = weft.Session(checkpoint="unused", workers=4)
    for name in "xy":
        s.stream(name, weft.read.batches([floats]))
    s.query("q", f"SELECT a.k FROM x a JOIN y b ON {band}", strategy=strategy)
    s.analyze()
    with pytest.raises(PlanError, match="a band over floats") as caught:
        _ = s.topology
    assert "rounded" in str(caught.value)


@pytest.mark.parametrize(
    "parts", [{"keep": None}, {"keep": [1]}, {"orders": {"a": None}}, {"placement": {"b": 3}}, {"spread": 7}]
)
def test_parts_of_a_plan_that_are_no_names_are_refused(parts: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match="not understood"):
        weft.Plan(**parts)


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"strategy": "hypercube:random", "budget": 1}, "the budget is 1"),
        ({"strategy": "hypercube:hash", "skewed": {"zz.k": True}}, "skewed names"),
        ({"strategy": weft.Plan(spread={"a": [(2, "a.k")], "b": [(2, "b.k")]}), "capacity": 5}, "decides by itself"),
    ],
)
def test_what_would_be_ignored_is_refused(wishes: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=said) as caught:
        _ = session(**wishes).topology
    assert caught.value.hint


def test_a_stream_that_nobody_declared_cannot_be_fed() -> None:
    with pytest.raises(QueryError, match='no stream "typo"'):
        Trial(session()).feed({"typo": ROWS})


def test_a_tenth_of_a_second_is_a_duration() -> None:
    s = weft.Session(checkpoint="unused")
    assert s.stream("x", weft.read.batches([ROWS]), lateness=0.1).lateness == 100_000


@pytest.mark.parametrize(
    ("unit", "value", "says"),
    [
        ("s", 1_763_251_200_000, 'declare unit="ms": then it is 2025-11-16 00:00:00'),
        ("s", 1_763_251_200_000_000, 'declare unit="us": then it is 2025-11-16 00:00:00'),
        ("ms", 1_763_251_200_000_000, 'declare unit="us": then it is 2025-11-16 00:00:00'),
        ("us", 1_763_251_200_000_000_000, "divide it by 1000"),
        ("s", -1_763_251_200_000, 'declare unit="ms": then it is 1914-02-16 00:00:00'),
        ("s", 2**63 - 1, "if it counts nanoseconds"),
    ],
)
def test_a_time_that_is_absurdly_far_is_refused_with_the_unit_that_fits(unit: Any, value: int, says: str) -> None:
    s = weft.Session(checkpoint="unused", workers=1)
    for name in "xy":
        s.stream(name, weft.read.batches([pa.table({"k": [1], "t": [0]})]), event_time="t", unit=unit)
    s.query("q", "SELECT a.k FROM x a JOIN y b ON a.k = b.k WITHIN INTERVAL '1' HOUR")
    with pytest.raises(SourceError, match=r'^event time "t" of stream "x" is out of range') as error:
        Trial(s).feed({"x": pa.table({"k": [1, 2], "t": [5, value]})})
    assert says in (error.value.hint or "")
    assert "years" in (error.value.detail or "")


@pytest.mark.parametrize(("unit", "value"), [("s", 253_402_300_799), ("s", -62_135_596_800), ("ms", 0), ("us", -1)])
def test_times_of_the_calendar_are_taken(unit: Any, value: int) -> None:
    s = weft.Session(checkpoint="unused", workers=1)
    rows = pa.table({"k": [1], "t": [value]})
    for name in "xy":
        s.stream(name, weft.read.batches([rows]), event_time="t", unit=unit)
    s.query("q", "SELECT a.k FROM x a JOIN y b ON a.k = b.k WITHIN INTERVAL '1' HOUR")
    trial = Trial(s)
    trial.feed({"x": rows, "y": rows})
    assert trial.table("q").num_rows == 1
